"""Host data in and out: nested lists, the buffer protocol and DLPack become bytes, and bytes lists.

Nothing here needs numpy. A nested list is walked once, level by level; arrays are copied, so
changing one later does not change the tensor.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any

from ..dtype import (
    TENSOR_DTYPES,
    DType,
    canonical,
    dtypes,
    misfit,
    pack,
    to_dtype,
    unpack,
    word_format,
)
from ..errors import ArgumentError, DTypeError, ShapeError, shown
from ..uop.ops import Shape, size

Host = tuple[DType, Shape, memoryview]


def is_array(x: Any) -> bool:
    """Whether `x` says where its memory is, as numpy's arrays do."""
    # An array makes that description anew when it is asked, in 1 us; its type need not.
    return hasattr(type(x), "__array_interface__") or hasattr(x, "__array_interface__")


def from_host(data: Any, dtype: DType | None) -> Host:
    """(dtype, shape, bytes) of anything that holds numbers. A dtype given for lists is packed
    directly."""
    if isinstance(data, (bool, int, float)) and not hasattr(data, "dtype"):  # numpy.float64 has one
        return _from_flat([data], (), dtype)
    if isinstance(data, range):
        data = list(data)
    if isinstance(data, (list, tuple)):
        shape, flat = flattened(data)
        return _from_flat(flat, shape, dtype)
    if hasattr(data, "__dlpack__") and not is_array(data):
        from .dlpack import from_dlpack

        return from_dlpack(data)
    return _from_buffer(data)


_NUMPY: dict[DType, Any] = {}  # numpy's name of a dtype; to find it takes as long as a small copy


def _lacks(dtype: DType) -> bool:
    """Whether numpy has no such dtype."""
    return dtype.is_float and not dtype.format


def array_of(values: memoryview, dtype: DType, shape: Shape) -> Any:
    """A numpy array over bytes; what numpy lacks (bfloat16, 8-bit floats) becomes float32."""
    import numpy as np

    known = _NUMPY.get(dtype)
    if known is None and not _lacks(dtype):
        known = _NUMPY[dtype] = np.dtype(dtype.name)
    if not values:
        return np.empty(shape, "float32" if known is None else known)
    if known is not None:
        return np.ndarray(shape, known, values)
    if dtype.itemsize == 1:
        numbers = np.array(unpack(dtype, bytes(range(256))), np.float32)
        return numbers[np.frombuffer(values, np.uint8)].reshape(shape)
    words = np.frombuffer(values, np.uint16).astype(np.uint32) << 16
    return words.view(np.float32).reshape(shape)


# ---- lists


def flattened(data: Sequence[Any]) -> tuple[Shape, list[Any]]:
    shape = [len(data)]
    items: list[Any] = [data]
    while True:
        items = list(chain.from_iterable(items))
        if not items or not isinstance(items[0], (list, tuple)):
            break
        n = len(items[0])
        for i, row in enumerate(items):
            if not isinstance(row, (list, tuple)) or len(row) != n:
                raise ShapeError(_ragged(items, i, n, len(shape)))
        shape.append(n)
    return tuple(shape), items


def _ragged(items: Sequence[Any], i: int, n: int, depth: int) -> str:
    row = items[i]
    what = f"{len(row)} elements" if isinstance(row, (list, tuple)) else "no elements of its own"
    return (
        f"Tensor: a list must be rectangular: entry {i} at depth {depth} has {what},"
        f" entry 0 has {n}."
    )


def _from_flat(flat: list[Any], shape: Shape, dtype: DType | None) -> Host:
    kinds = set(map(type, flat))
    if not kinds <= {bool, int, float}:
        flat = [_number(x) for x in flat]
        kinds = set(map(type, flat))
    dtype = dtype or _inferred(flat, kinds)
    return dtype, shape, memoryview(_packed(flat, dtype))


def _number(x: Any) -> bool | int | float:
    for kind in (bool, int, float):  # the plain number in an IntEnum or numpy.float64
        if isinstance(x, kind):
            return kind(x)
    if isinstance(x, (list, tuple)):
        raise ShapeError(
            "Tensor: a list must be rectangular: numbers and lists stand side by side."
        )
    item = getattr(x, "item", None)
    if item is None or getattr(x, "shape", ()) != ():
        raise ArgumentError(f"Tensor: a list holds numbers, not {type(x).__name__}.")
    value = item()
    if not isinstance(value, (bool, int, float)):
        raise ArgumentError(f"Tensor: a list holds numbers, not {type(value).__name__}.")
    return value


def _inferred(flat: Sequence[Any], kinds: set[type]) -> DType:
    if float in kinds or not kinds:
        return dtypes.default_float
    if kinds == {bool}:
        return dtypes.bool
    low, high = min(flat), max(flat)
    for dtype in (dtypes.int32, dtypes.int64, dtypes.uint64):
        if dtype.min <= low and high <= dtype.max:
            return dtype
    raise ArgumentError(f"Tensor: {shown(high if high > -low else low)} fits no integer dtype.")


def _packed(flat: list[Any], dtype: DType) -> bytes:
    if dtype.kind == "bool":
        return bytes([x != 0 for x in flat])
    if dtype.is_int:
        whole = [x if type(x) is int else _whole(x) for x in flat]
        low, high = (min(whole), max(whole)) if whole else (0, 0)
        if why := misfit(dtype, low) or misfit(dtype, high):
            raise ArgumentError(f"Tensor: {why}.")
        return struct.pack(f"<{len(whole)}{dtype.format}", *whole)
    try:
        if dtype in (dtypes.float32, dtypes.float64):
            return array(dtype.format, flat).tobytes()  # rounds to nearest even, overflows to inf
        values = [canonical(dtype, x) for x in flat]
    except OverflowError:  # of an integer that no float holds
        raise ArgumentError(f"Tensor: {misfit(dtype, max(flat, key=abs))}.") from None
    return pack(dtype, values)


def _whole(x: Any) -> int:
    if x != x or x in (float("inf"), float("-inf")):
        raise ArgumentError(f"Tensor: {x} is no integer.")
    return int(x)


# ---- arrays


def _from_buffer(data: Any) -> Host:
    if hasattr(data, "__array__") and not is_array(data):
        data = data.__array__()  # pandas and friends
    dtype = getattr(data, "dtype", None)
    special = TENSOR_DTYPES.get(getattr(dtype, "name", ""))
    if special is not None and special.is_float and not special.format:  # of ml_dtypes
        data = data.view(f"uint{special.bits}")
    else:
        special = None
    if dtype is not None and getattr(dtype, "byteorder", "=") not in ("=", "|", "<"):
        data = data.astype(dtype.newbyteorder("="))
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError):
        of = f" of {dtype}" if dtype is not None else ""
        raise ArgumentError(
            f"Tensor takes numbers, nested lists and arrays, not {type(data).__name__}{of}."
        ) from None
    found = special or _dtype_of_format(view)
    return found, tuple(view.shape or ()), memoryview(view.tobytes())


def _dtype_of_format(view: memoryview) -> DType:
    code = view.format.lstrip("@=<")
    kind = "int" if code in "bhilqn" else "uint" if code in "BHILQN" else ""
    if code == "?":
        return dtypes.bool
    if kind:
        return to_dtype(f"{kind}{view.itemsize * 8}")
    if code in ("e", "f", "d"):
        return to_dtype(f"float{view.itemsize * 8}")
    raise DTypeError(
        f"Tensor: elements of buffer format {view.format!r} have no dtype here. Valid:"
        f" {', '.join(TENSOR_DTYPES)}."
    )


# ---- out


def formatted(data: memoryview, dtype: DType, shape: Shape) -> Any:
    """The bytes as a view with the format and shape of their dtype; floats that Python has no
    format for as raw unsigned words."""
    code: Any = word_format(dtype)
    flat: Any = data.cast("B")
    if code == "e" and sys.version_info < (3, 12):  # earlier views cannot be cast to it
        import numpy as np

        half: Any = np.frombuffer(flat, np.float16).reshape(shape)
        return memoryview(half)
    if size(shape) or len(shape) < 2:
        return flat.cast(code, list(shape)) if size(shape) else flat.cast(code)
    import numpy as np  # a view cannot be cast to a shape with 0, nor made with one by Python

    empty: Any = np.empty(shape, np.dtype(code))
    return memoryview(empty)


def nested(flat: list[Any], shape: Shape) -> Any:
    """A flat list as nested lists of `shape`; its one element for shape ()."""
    if not shape:
        return flat[0]
    for axis in range(len(shape) - 1, 0, -1):
        n = shape[axis]
        flat = [flat[i * n : (i + 1) * n] for i in range(size(shape[:axis]))]
    return flat
