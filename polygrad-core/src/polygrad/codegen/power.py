"""Expansion of POW for float32 and float64, with the special cases of C99 (annex F.10.4.4).

Floor: codegen, called by `decompose.py`. x^y = 2^(y log2 x). The exponent may be as large as 150
(1100), so the logarithm is needed to 8 (11) bits more than the format has: it is a sum of two
numbers, made by exact sums and products (Dekker, 1971). With s = (m - 1) / (m + 1) as such a sum,

    log2 m = 2 log2(e) s (1 + s^2 / 3 + s^4 P(s^2)),

where only s^4 P is small enough for a single number.
"""

from __future__ import annotations

from typing import Final

from ..dtype import dtypes
from ..target import Target
from ..uop.ops import Ops, UOp
from ..uop.rewrite import Rules
from .elementary import exp2_of_reduced, nearest_even_power, power_limits, split_exponent
from .floats import (
    FORMATS,
    INFINITY,
    NAN,
    Format,
    clamp,
    horner,
    is_nan,
    magnitude,
    minimum,
    two_product,
    two_sum,
)

RULES: Final = Rules()
Pair = tuple[UOp, UOp]
# Exponents beyond these send every base but 1 to 0 or infinity: log2(1 + ulp) times them is > 2^11.
LARGEST_EXPONENT: Final = {dtypes.float32: 2.0**40, dtypes.float64: 2.0**70}


@RULES.on(Ops.POW)
def power(u: UOp, target: Target) -> UOp | None:
    f = FORMATS.get(u.dtype)
    if f is None:
        return None
    x, y = u.src
    a = magnitude(x, f)
    bound = LARGEST_EXPONENT[u.dtype]
    high, low = _times(clamp(y, -bound, bound), _log2(a, f), f)
    limited = clamp(high, *map(float, power_limits(f)))
    low = limited.eq(high).where(low, 0.0)
    n, half = nearest_even_power(limited, f)
    return _special_cases(x, a, y, exp2_of_reduced((limited - n) + low, half, f), f)


def _times(a: UOp, b: Pair, f: Format) -> Pair:
    product, error = two_product(a, b[0], f)
    return product, error + a * b[1]


def _log2(a: UOp, f: Format) -> Pair:
    """log2 of a finite a > 0 as a sum of two numbers."""
    m, e = split_exponent(a, f)
    x, below = m - 1.0, m + 1.0
    below_rest = m - (below - 1.0)
    s = x / below
    back, back_error = two_product(s, below, f)
    s_rest = (((x - back) - back_error) - s * below_rest) / below
    square, square_error = two_product(s, s, f)
    square_error = square_error + s * s_rest * 2.0
    third, third_rest = f.coefficients["THIRD"]
    cubic, cubic_error = two_product(square, UOp.const(f.dtype, third), f)
    cubic_error = cubic_error + (square * third_rest + square_error * third)
    factor, factor_rest = two_sum(UOp.const(f.dtype, 1.0), cubic)
    factor_rest = factor_rest + (
        cubic_error + square * square * horner(square, f.coefficients["POWER"], f)
    )
    log, log_rest = two_product(s, factor, f)
    log_rest = log_rest + (s * factor_rest + s_rest * factor)
    scale, scale_rest = f.coefficients["TWO_LOG2_E"]
    scaled, scaled_rest = two_product(log, UOp.const(f.dtype, scale), f)
    scaled_rest = scaled_rest + (log * scale_rest + log_rest * scale)
    head, rest = two_sum(e, scaled)
    return two_sum(head, rest + scaled_rest)


def _special_cases(x: UOp, a: UOp, y: UOp, result: UOp, f: Format) -> UOp:
    """`result` = |x|^y for finite x, made right for signs, zeros, infinities and NaN."""
    whole, odd = _whole_and_odd(y, f)
    zero, one = UOp.const(f.dtype, 0.0), UOp.const(f.dtype, 1.0)
    grows = (one < a) ^ (y < zero)
    ends = a.eq(0.0) | a.eq(INFINITY)
    result = ends.where(grows.where(UOp.const(f.dtype, INFINITY), zero), result)
    result = a.eq(1.0).where(one, result)
    sign = odd.where(x.bitcast(f.unsigned) & f.sign, 0)
    result = (result.bitcast(f.unsigned) | sign).bitcast(f.dtype)
    outside = (x < zero) & (a < INFINITY) & ~whole
    result = (is_nan(x) | is_nan(y) | outside).where(UOp.const(f.dtype, NAN), result)
    return (x.eq(1.0) | y.eq(0.0)).where(one, result)


def _whole_and_odd(y: UOp, f: Format) -> Pair:
    """Whether `y` is an integer, and an odd one. From 2^digits on all are even."""
    step = 2.0**f.shift
    size = minimum(2.0 * step, magnitude(y, f))
    half = size * 0.5
    even = ((half + step) - step).eq(half)
    whole = ((size + step) - step).eq(size) | (UOp.const(f.dtype, step) <= size)
    return whole, whole & ~even
