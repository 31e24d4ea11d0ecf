"""Expansions on floats that are exact: extremes, reciprocals, rounding, floor division and
remainder.

Floor: codegen, called by `decompose.py`.
"""

from __future__ import annotations

from typing import Final

from ..dtype import dtypes
from ..target import Target
from ..uop.ops import Ops, UOp
from ..uop.rewrite import Rules
from .elementary import is_native
from .floats import FORMATS, INFINITY, Format, is_nan, magnitude, two_product, with_sign_of

RULES: Final = Rules()


@RULES.on(Ops.MAXIMUM, Ops.MINIMUM)
def extreme(u: UOp) -> UOp | None:
    """`a > b ? a : b` gives b when either is NaN, so only a NaN in `a` needs a test of its own."""
    if u.dtype not in FORMATS:
        return None
    a, b = u.src
    op = Ops.MAX if u.op is Ops.MAXIMUM else Ops.MIN
    if _never_nan(a):
        return UOp(op, u.dtype, (a, b))
    if _never_nan(b):  # the same for NaN; of two zeros numpy keeps the first, and so does this
        return UOp(op, u.dtype, (b, a))
    return is_nan(a).where(a, UOp(op, u.dtype, (a, b)))


def _never_nan(u: UOp) -> bool:
    if u.op is Ops.CONST:
        return bool(u.arg == u.arg)
    return u.op is Ops.CAST and not u.src[0].dtype.is_float


@RULES.on(Ops.RECIP)
def reciprocal(u: UOp, target: Target) -> UOp | None:
    if u.dtype not in FORMATS or is_native(Ops.RECIP, u.dtype, target):
        return None
    return UOp.const(u.dtype, 1.0) / u.src[0]


# ---- rounding where the target has no instruction: 2^shift + |x| has no fraction left


@RULES.on(Ops.ROUND, Ops.TRUNC, Ops.FLOOR, Ops.CEIL)
def round_to_whole(u: UOp, target: Target) -> UOp | None:
    f = FORMATS.get(u.dtype)
    if f is None or target.supports(u.op, u.dtype):
        return None
    return _ROUNDING[u.op](u.src[0], f)


def _nearest_magnitude(a: UOp, f: Format) -> UOp:
    """|x| rounded to the nearest whole number, halves to even; `a` = |x|."""
    step = 2.0**f.shift
    return (a < step).where((a + step) - step, a)


def _round(x: UOp, f: Format) -> UOp:
    return with_sign_of(_nearest_magnitude(magnitude(x, f), f), x, f)


def _trunc(x: UOp, f: Format) -> UOp:
    a = magnitude(x, f)
    nearest = _nearest_magnitude(a, f)
    return with_sign_of((a < nearest).where(nearest - 1.0, nearest), x, f)


def _floor(x: UOp, f: Format) -> UOp:
    nearest = _round(x, f)
    return (x < nearest).where(nearest - 1.0, nearest)


def _ceil(x: UOp, f: Format) -> UOp:
    return -_floor(-x, f)  # so that -0.5 gives -0.0


_ROUNDING: Final = {Ops.ROUND: _round, Ops.TRUNC: _trunc, Ops.FLOOR: _floor, Ops.CEIL: _ceil}


# ---- numpy's floor_divide and remainder


@RULES.on(Ops.FLOORDIV, Ops.FLOORMOD)
def float_floor_division(u: UOp) -> UOp | None:
    """The remainder has the sign of the divisor and is exact while |a / b| < 2^47; for much larger
    quotients, which leave no correct digit of a rounded `a`, it is 0.

    The quotient is the floor of the exact one (numpy's is sometimes one less), rounded if it is
    large. x // 0 is x / 0, x % 0 is NaN, and a finite number modulo an infinite one is itself or
    that.
    """
    f = FORMATS.get(u.dtype)
    if f is None:
        return None
    a, b = u.src
    ratio = a / b
    quotient, remainder = _divide(a, b, ratio, f)
    nonzero = remainder.ne(0.0)
    adjust = nonzero & _signs_differ(remainder, b)
    if u.op is Ops.FLOORMOD:
        zero = with_sign_of(UOp.const(u.dtype, 0.0), b, f)
        return nonzero.where(adjust.where(remainder + b, remainder), zero)
    floor = adjust.where(quotient - 1.0, quotient)
    signed_zero = with_sign_of(UOp.const(u.dtype, 0.0), ratio, f)
    return b.eq(0.0).where(ratio, floor.eq(0.0).where(signed_zero, floor))


def _signs_differ(a: UOp, b: UOp) -> UOp:
    return (a < 0.0) ^ (b < 0.0)


def _divide(a: UOp, b: UOp, ratio: UOp, f: Format) -> tuple[UOp, UOp]:
    """Truncated quotient and C's fmod: subtract quotient * b without rounding, twice for
    float32."""
    quotient = UOp.alu(Ops.TRUNC, ratio)
    rest = _subtract_product(a, quotient, b, f)
    if f.dtype is dtypes.float32:
        second = UOp.alu(Ops.TRUNC, rest / b)
        quotient, rest = quotient + second, _subtract_product(rest, second, b, f)
    # A ratio that was rounded up to a whole number has gone one step too far.
    beyond = rest.ne(0.0) & _signs_differ(rest, a)
    size = magnitude(b, f)
    rest = beyond.where(rest + with_sign_of(size, a, f), rest)
    one = with_sign_of(UOp.const(f.dtype, 1.0), ratio, f)
    quotient = beyond.where(quotient - one, quotient)
    nothing = a * 0.0 / b  # NaN for an infinite a and for b = 0
    within = magnitude(rest, f) < size
    unchanged = size.eq(INFINITY) & (magnitude(a, f) < INFINITY)
    quotient = within.where(quotient, UOp.alu(Ops.TRUNC, ratio) + nothing)
    return quotient, unchanged.where(a, within.where(rest, nothing))


def _subtract_product(a: UOp, q: UOp, b: UOp, f: Format) -> UOp:
    product, error = two_product(q, b, f)
    return (a - product) - error
