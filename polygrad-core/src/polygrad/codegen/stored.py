"""Narrow floats that memory lacks: unsigned words there, converted by integer arithmetic.

Floor: codegen, called by `decompose.py`. In: PARAM, LOCAL, LOAD, STORE, CONST, WHERE and casts of a
dtype without a LOAD in the Target (8-bit floats on most machines, 16-bit ones on some). Out: the
same on words of that width. A value of the dtype is a BITCAST of its word until it is cast or
stored, where the BITCAST meets its inverse and both vanish.

`decoded` and `encoded` are `float_layout.py` as arithmetic without branches, for any layout.
"""

from __future__ import annotations

import math
from typing import Final

from ..dtype import DType, dtypes
from ..float_layout import LAYOUTS, FloatLayout
from ..target import Target
from ..uop.ops import Ops, UOp
from ..uop.rewrite import Rules

RULES: Final = Rules()
_WORDS: Final = {1: dtypes.uint8, 2: dtypes.uint16}
_SINGLE: Final = LAYOUTS["float32"]
_INFINITY: Final = _SINGLE.overflow


def _word(dtype: DType, target: Target) -> DType | None:
    """The unsigned type that stands for `dtype`; None where the target holds `dtype` itself."""
    if not dtype.is_narrow or target.supports(Ops.LOAD, dtype):
        return None
    return _WORDS[dtype.itemsize]


# ---- memory and what only moves values


@RULES.on(Ops.PARAM, Ops.LOCAL, Ops.AFTER, Ops.INDEX)
def memory(u: UOp, target: Target) -> UOp | None:
    word = _word(u.dtype, target)
    return None if word is None else UOp(u.op, word, u.src, u.arg)


@RULES.on(Ops.LOAD)
def load(u: UOp, target: Target) -> UOp | None:
    word = _word(u.dtype, target)
    return None if word is None else UOp(u.op, word, u.src, u.arg).bitcast(u.dtype)


@RULES.on(Ops.STORE)
def store(u: UOp, target: Target) -> UOp | None:
    address, value, *gate = u.src
    word = _word(value.dtype, target)
    if word is None:
        return None
    return UOp(u.op, u.dtype, (address, value.bitcast(word), *gate), u.arg)


@RULES.on(Ops.BITCAST)
def constant_word(u: UOp, target: Target) -> UOp | None:
    """A constant by its bits, also a NaN."""
    (x,) = u.src
    if x.op is not Ops.CONST or x.dtype.layout is None or _word(x.dtype, target) is None:
        return None
    return UOp.const(u.dtype, x.dtype.layout.encode(x.arg))


@RULES.on(Ops.WHERE)
def where(u: UOp, target: Target) -> UOp | None:
    word = _word(u.dtype, target)
    if word is None:
        return None
    condition, a, b = u.src
    return condition.where(a.bitcast(word), b.bitcast(word)).bitcast(u.dtype)


# ---- conversions


@RULES.on(Ops.CAST)
def cast(u: UOp, target: Target) -> UOp | None:
    """Through float32, rounding integers to it first; a float64 is made odd there, so rounds
    once."""
    (x,) = u.src
    word = _word(x.dtype, target)
    if word is not None and x.dtype.layout is not None:
        return decoded(x.bitcast(word), x.dtype.layout).cast(u.dtype)
    word = _word(u.dtype, target)
    if word is None or u.dtype.layout is None:
        return None
    single = odd_float32(x) if x.dtype is dtypes.float64 else x.cast(dtypes.float32)
    return encoded(single, u.dtype.layout).cast(word).bitcast(u.dtype)


def decoded(word: UOp, f: FloatLayout) -> UOp:
    """The float32 that an unsigned word of a layout is, exactly."""
    bits = word.cast(dtypes.uint32)
    magnitude = bits & (f.sign - 1)
    up = _SINGLE.mantissa - f.mantissa
    finite = (magnitude << up) + ((_SINGLE.bias - f.bias) << _SINGLE.mantissa)
    if f.bias != _SINGLE.bias:  # subnormal numbers become normal ones
        small = magnitude.cast(dtypes.float32) * math.ldexp(1.0, 1 - f.bias - f.mantissa)
        finite = (magnitude < 1 << f.mantissa).where(small.bitcast(dtypes.uint32), finite)
    special = (magnitude << up) | _INFINITY  # infinity, and NaN with its payload
    finite = _if(magnitude > f.largest, special if f.has_infinity else _SINGLE.nan, finite)
    signed = finite | ((bits & f.sign) << (31 - f.exponent - f.mantissa))
    single = signed if f.has_negative_zero else _if(bits.eq(f.nan), _SINGLE.nan, signed)
    return single.bitcast(dtypes.float32)


def encoded(x: UOp, f: FloatLayout) -> UOp:
    """The bits, as uint32, of the nearest number of a layout; ties to even (`FloatLayout.encode`).

    A number that is normal in the layout rounds as an integer, its mantissa's carry going to the
    exponent; adding the power of two whose ulp is the layout's smallest number rounds the others.
    """
    bits = x.bitcast(dtypes.uint32)
    size = bits & (_SINGLE.sign - 1)
    down = _SINGLE.mantissa - f.mantissa
    nearest = (size + ((size >> down) & 1) + ((1 << (down - 1)) - 1)) >> down
    finite = nearest - ((_SINGLE.bias - f.bias) << f.mantissa)
    if f.bias != _SINGLE.bias:
        step = UOp.const(dtypes.float32, math.ldexp(1.0, 1 - f.bias + down))
        small = (size.bitcast(dtypes.float32) + step).bitcast(dtypes.uint32)
        small = small - step.bitcast(dtypes.uint32)
        finite = (size < _SINGLE.encode(f.tiny)).where(small, finite)
    magnitude = _if(finite > f.largest, f.overflow, finite)
    magnitude = _if(size > _INFINITY, f.nan, magnitude)
    signed = magnitude | ((bits >> (31 - f.exponent - f.mantissa)) & f.sign)
    return signed if f.has_negative_zero else magnitude.eq(0).where(magnitude, signed)


def _if(condition: UOp, then: UOp | int, other: UOp) -> UOp:
    return condition.where(other._with(then), other)


def odd_float32(x: UOp) -> UOp:
    """float64 as a float32 that is odd where it is inexact: rounding that again rounds once.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008: round to odd.
    """
    near = x.cast(dtypes.float32)
    back = near.cast(dtypes.float64)
    bits = near.bitcast(dtypes.uint32)
    beyond = (x < 0.0).where(back < x, x < back)  # rounded away from zero
    cut = bits - beyond.cast(dtypes.uint32)
    inexact = (back < x) | (x < back)
    return inexact.where(cut | 1, bits).bitcast(dtypes.float32)
