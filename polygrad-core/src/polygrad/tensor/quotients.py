"""Quotients rounded to whole numbers, and the remainders that belong to them.

Integers come from FLOORDIV and FLOORMOD, floats from FMOD, which is exact whatever the quotient.
Signs, zeros, infinities and NaN are numpy's: `%` has the sign of the divisor, `fmod` that of the
dividend.
"""

from __future__ import annotations

from typing import Final

from ..dtype import dtypes
from ..gradient_rules import FLAT, FUNCTIONS
from ..uop.ops import Ops, UOp
from .formulas import function

# ---- quotients


def floor_quotient(a: UOp, b: UOp) -> UOp:
    """Python's `//`; integers: 0 for a zero divisor."""
    return function(FLAT, [_floor_of_floats(a, b)], a, b)[0] if a.dtype.is_float else a // b


def trunc_quotient(a: UOp, b: UOp) -> UOp:
    """Rounded towards zero; integers: 0 for a zero divisor."""
    if a.dtype.is_float:
        return function(FLAT, [UOp.alu(Ops.TRUNC, a / b)], a, b)[0]
    if a.dtype.is_unsigned:
        return a // b
    quotient = a // b
    inexact = (quotient * b).ne(a) & b.ne(0)
    return (inexact & (quotient < 0)).where(quotient + 1, quotient)


def remainder(a: UOp, b: UOp) -> UOp:
    """Python's `%`: the sign of the divisor; integers: 0 for a zero divisor."""
    if not a.dtype.is_float:
        return a % b
    left = UOp.alu(Ops.FMOD, a, b)
    value = _against(left, b).where(left + b, left.eq(0.0).where(_signed(left, b), left))
    return function("remainder", [value], a, b)[0]


def fmod(a: UOp, b: UOp) -> UOp:
    """C's remainder: the sign of the dividend; integers: 0 for a zero divisor."""
    if a.dtype.is_float:
        return UOp.alu(Ops.FMOD, a, b)
    return b.eq(0).where(a._with(0), a - trunc_quotient(a, b) * b)


FUNCTIONS["remainder"] = lambda node, g: [g, -g * floor_quotient(*node.src[1:])]


def _floor_of_floats(a: UOp, b: UOp) -> UOp:
    """The quotient of what is left when the remainder is taken away divides exactly, but for its
    own rounding; a remainder of the other sign is one step more."""
    left = UOp.alu(Ops.FMOD, a, b)
    quotient = (a - left) / b
    quotient = _against(left, b).where(quotient - 1.0, quotient)
    whole = UOp.alu(Ops.FLOOR, quotient)
    whole = (quotient - whole > 0.5).where(whole + 1.0, whole)
    plain = a / b
    whole = quotient.eq(0.0).where(_signed(quotient, plain), whole)
    return b.eq(0.0).where(plain, whole)


def _against(left: UOp, b: UOp) -> UOp:
    """Whether a remainder that is not 0 has the other sign than the divisor."""
    return left.ne(0.0) & ((left < 0.0) ^ (b < 0.0))


# ---- signs


def _signed(size: UOp, like: UOp) -> UOp:
    """`size` with the sign bit of `like`."""
    word = _WORDS[size.dtype]
    least = int(word.min)
    bits = (size.bitcast(word) & ~least) | (like.bitcast(word) & least)
    return bits.bitcast(size.dtype)


_WORDS: Final = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}
