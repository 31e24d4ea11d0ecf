"""What each instruction means to the numpy engine: tables of functions on arrays.

A value of dtype float16 or bfloat16 is a float32 array of exactly representable numbers; every
other dtype is numpy's own. Results are IEEE in the dtype they are in, integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtype import TENSOR_DTYPES, DType, dtypes
from ..uop.ops import Ops

Array = Any  # a numpy array or scalar: both take part in arithmetic alike

VALUE: dict[DType, Any] = {
    d: np.dtype(d.name) for d in TENSOR_DTYPES.values() if not d.is_narrow
} | {
    dtypes.index: np.dtype("int64"),
    dtypes.float16: np.dtype("float32"),
    dtypes.bfloat16: np.dtype("float32"),
}
STORAGE: dict[DType, Any] = {
    **VALUE,
    dtypes.float16: np.dtype("float16"),
    dtypes.bfloat16: np.dtype("uint16"),
}


# ---- between memory and values


def _load_bfloat16(raw: Array) -> Array:
    return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _store_bfloat16(value: Array) -> Array:
    return (value.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


FROM_STORAGE: dict[DType, Callable[[Array], Array]] = {
    dtypes.float16: lambda raw: raw.astype(np.float32),
    dtypes.bfloat16: _load_bfloat16,
}
TO_STORAGE: dict[DType, Callable[[Array], Array]] = {
    dtypes.float16: lambda value: value.astype(np.float16),
    dtypes.bfloat16: _store_bfloat16,
}


def same(value: Array) -> Array:
    return value


# ---- casts


def _round_bfloat16(value: Array) -> Array:
    """float32 to the nearest bfloat16, ties to even, by bits; a NaN stays one."""
    bits = value.view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)
    quiet = (bits | np.uint32(0x00400000)) & np.uint32(0xFFFF0000)
    return np.where(value != value, quiet, rounded).view(np.float32)


def _to_float16(value: Array) -> Array:
    direct = value if value.dtype.kind == "f" else value.astype(np.float32)
    return direct.astype(np.float16).astype(np.float32)


def _to_bfloat16(value: Array) -> Array:
    single = value.astype(np.float32)
    return _round_bfloat16(_odd(value, single) if value.dtype == np.float64 else single)


def _odd(value: Array, single: Array) -> Array:
    """float64 rounded to float32, made odd where that is inexact, so that rounding it again rounds
    once (Boldo and Melquiond, 2008)."""
    back, bits = single.astype(np.float64), single.view(np.uint32)
    beyond = np.abs(back) > np.abs(value)
    inexact = (back != value) & (value == value)
    odd = (bits - beyond.astype(np.uint32)) | np.uint32(1)
    return np.where(inexact, odd, bits).view(np.float32)


def _saturate(value: Array, dtype: DType) -> Array:
    """Float to integer: towards zero, clipped to the type's range, NaN is 0."""
    made = VALUE[dtype].type
    low, above = float(dtype.min), float(dtype.max + 1)  # both powers of two (or 0): exact
    cut = np.trunc(value)
    inside = (cut >= low) & (cut < above)
    whole = np.where(inside, cut, 0).astype(made)
    whole = np.where(cut >= above, made(dtype.max), whole)
    return np.where(cut < low, made(dtype.min), whole)


def caster(source: DType, target: DType) -> Callable[[Array], Array]:
    if target.kind == "bool":
        return lambda value: value != 0
    if target is dtypes.float16:
        return _to_float16
    if target is dtypes.bfloat16:
        return _to_bfloat16
    if source.is_float and target.is_int:
        return lambda value: _saturate(value, target)
    made = VALUE[target]
    return lambda value: value.astype(made)


def bitcaster(source: DType, target: DType) -> Callable[[Array], Array]:
    store, load = TO_STORAGE.get(source, same), FROM_STORAGE.get(target, same)
    raw = STORAGE[target]
    return lambda value: load(store(value).view(raw))


# ---- arithmetic


def _idiv(a: Array, b: Array) -> Array:
    return (a - np.fmod(a, b)) // b  # fmod has the sign of a, so what is left divides exactly


PURE: dict[Ops, Callable[..., Array]] = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.NEG: np.negative,
    Ops.MIN: lambda a, b: np.where(a < b, a, b),
    Ops.MAX: lambda a, b: np.where(a > b, a, b),
    Ops.DIV: np.divide,
    Ops.IDIV: _idiv,
    Ops.IMOD: np.fmod,
    Ops.FMA: lambda a, b, c: a * b + c,
    Ops.SQRT: np.sqrt,
    Ops.FLOOR: np.floor,
    Ops.CEIL: np.ceil,
    Ops.TRUNC: np.trunc,
    Ops.ROUND: np.rint,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.NOT: np.invert,
    Ops.SHL: np.left_shift,
    Ops.SHR: np.right_shift,
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
    Ops.WHERE: np.where,
}
