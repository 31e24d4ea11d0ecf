"""DLPack in: the bytes of another library's host tensor, without that library and without numpy.

The capsule's struct is read through ctypes as `dlpack.h` version 0.8 lays it out (DLManagedTensor),
copied, and given back through its own deleter.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..dtype import DType, dtypes, to_dtype
from ..errors import ArgumentError, DTypeError
from ..uop.ops import Shape, size

_HOST = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost
_KINDS = {0: "int", 1: "uint", 2: "float", 6: "bool"}
_SPECIAL = {  # by (code, bits); the 8-bit ones since version 1.1
    (4, 16): dtypes.bfloat16,
    (10, 8): dtypes.float8_e4m3fn,
    (11, 8): dtypes.float8_e4m3fnuz,
    (12, 8): dtypes.float8_e5m2,
    (13, 8): dtypes.float8_e5m2fnuz,
}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


def from_dlpack(source: Any) -> tuple[DType, Shape, memoryview]:
    """(dtype, shape, bytes) of an object with `__dlpack__`; raises ArgumentError off the host."""
    place = source.__dlpack_device__()[0]
    if int(place) not in _HOST:
        raise ArgumentError(
            f"Tensor: a {_kind(source)} is not in host memory; move it there first."
        )
    try:
        capsule = source.__dlpack__()
    except (BufferError, RuntimeError, TypeError) as error:  # torch: a gradient, a sparse layout
        raise ArgumentError(f"Tensor: a {_kind(source)} gives no data: {error}") from None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = pointer(capsule, b"dltensor")
    managed = _Managed.from_address(address)
    try:
        return _copied(managed.tensor)
    finally:
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.restype, rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
        rename(capsule, _USED)  # consumed, so that the capsule does not free it again
        if managed.deleter:
            managed.deleter(address)


def _kind(source: Any) -> str:
    """`torch.Tensor`: many a library calls its class as we do ours."""
    cls = type(source)
    return f"{cls.__module__.partition('.')[0]}.{cls.__name__}"


_USED = b"used_dltensor"  # the capsule keeps the pointer, so the bytes must outlive it


def _copied(t: _Tensor) -> tuple[DType, Shape, memoryview]:
    dtype = _dtype(t)
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else _row_major(shape)
    if not size(shape):
        return dtype, shape, memoryview(b"")
    start = t.data + t.byte_offset
    step = dtype.itemsize
    if strides == _row_major(shape):
        return dtype, shape, memoryview(ctypes.string_at(start, size(shape) * step))
    offsets = [0]
    for n, stride in zip(shape[:-1], strides[:-1], strict=True):
        offsets = [o + i * stride for o in offsets for i in range(n)]
    last, gap = shape[-1], strides[-1]
    if gap == 1:
        rows = [ctypes.string_at(start + o * step, last * step) for o in offsets]
    else:
        rows = [
            ctypes.string_at(start + (o + i * gap) * step, step)
            for o in offsets
            for i in range(last)
        ]
    return dtype, shape, memoryview(b"".join(rows))


def _row_major(shape: Shape) -> Shape:
    out: list[int] = []
    stride = 1
    for n in reversed(shape):
        out.append(stride)
        stride *= n
    return tuple(reversed(out))


def _dtype(t: _Tensor) -> DType:
    if t.lanes != 1:
        raise DTypeError("Tensor: DLPack vectors are no elements of ours.")
    special = _SPECIAL.get((t.code, t.bits))
    if special is not None:
        return special
    kind = _KINDS.get(t.code)
    if kind == "bool":
        return dtypes.bool
    if kind is None:
        raise DTypeError(
            f"Tensor: DLPack type code {t.code} with {t.bits} bits is no dtype of ours."
        )
    return to_dtype(f"{kind}{t.bits}")
