"""lgamma and digamma below 0 in float32, whose zeros there come from parts that cancel.

Floor: tensor, formulas of nodes. Functions of y = -x > 0, in pairs of float32 (`pairs.py`): next to
a zero the error is small beside the result too, and no machine needs float64 for it. With n the
whole number nearest to y and r = y - n,

    1 / |Gamma(-y)| = |r (r + 1) … (r + n)| / Gamma(1 - r)
    digamma(-y) = digamma(1 + y) + pi cot(pi r)

(Abramowitz and Stegun 6.1.17, 6.3.7). The factors y, y - 1, …, r are exact.
"""

from __future__ import annotations

import math
from typing import Final

from ..dtype import dtypes
from ..uop.ops import Ops, UOp
from .coefficients import PAIRED
from .formulas import absolute, log, log1p, product_error, recip
from .pairs import (
    Pair,
    added,
    constant,
    divided,
    exact,
    multiplied,
    polynomial,
    times,
    two_sum,
)

# Zeros of lgamma are two in each (-n - 1, -n), at about 1 / n! from its ends: beyond -11 no float32
# lies near one.
LGAMMA_UP_TO: Final = 11
_STEPS: Final = 6
_LN2_HEAD: Final = 45426 / 65536  # times an exponent it is exact
_LN2_REST: Final = (1.428606765330187e-06, 5.497923148104107e-14)
_ROOT_HALF_BITS: Final = 0x3F3504F3  # of sqrt(1/2) in float32


def _fit(x: Pair, name: str) -> Pair:
    return polynomial(x, PAIRED[name], PAIRED[f"{name}_LOW"])


def _rest(y: UOp) -> UOp:
    return y - UOp.alu(Ops.ROUND, y)


def lgamma(y: UOp) -> UOp:
    """log |Gamma(-y)| for 0 < y <= LGAMMA_UP_TO + 1/2."""
    r = _rest(y)
    product = times(_fit(exact(r), "RECIPROCAL_GAMMA"), r)
    for j in range(LGAMMA_UP_TO):
        factor = y - float(j)
        product = times(product, factor).chosen(factor > r, product)
    less = product.high < 0.0
    product = product.negated().chosen(less, product)
    gap = (product.high - 1.0) + product.low  # exact near 1
    near = absolute(gap) < 0.5
    return near.where(-log1p(near.where(gap, 0.0)), -log(product.high))


def digamma(y: UOp) -> UOp:
    """digamma(-y) for y > 0; NaN at whole y.

    The two large parts, 1 / r of the cotangent and a multiple of log 2, meet first: where the
    result is small they cancel, and nothing is lost of what comes then.
    """
    r, small = _rest(y), y < float(_STEPS)
    z = two_sum(y, small.where(y._with(float(_STEPS)), 0.0))
    log_head, log_rest = _log(z)
    tiny = absolute(r) < 2.0**-40  # where 1 / r, which may be infinite, is all there is
    part = tiny.where(r._with(0.25), r)
    first, rest = _reciprocal(part)
    total = added(two_sum(first, log_head), rest)
    square = multiplied(exact(part), exact(part))
    total = added(total, times(_fit(square, "COTANGENT"), -part))
    total = added(total, added(log_rest, _beyond_log(z)))
    total = added(total, _steps(y).negated()).chosen(small, total)
    value = tiny.where(recip(r), total.rounded())
    return r.eq(0.0).where(y._with(math.nan), value)


def _reciprocal(x: UOp) -> tuple[UOp, Pair]:
    """1 / x in three floats. What a division leaves over is a float."""
    first = recip(x)
    left = (1.0 - first * x) - product_error(first, x, first * x)
    second = left / x
    left = (left - second * x) - product_error(second, x, second * x)
    return first, Pair(second, left / x)


def _beyond_log(z: Pair) -> Pair:
    """digamma(1 + z) - log z for z >= 6: 1 / (2 z) - 1 / (12 z^2) + …"""
    inverse = divided(constant(z.high, 1.0), z)
    square = multiplied(inverse, inverse)
    return added(inverse.halved(), multiplied(square, _fit(square, "DIGAMMA_REST")).negated())


def _log(z: Pair) -> tuple[UOp, Pair]:
    """log z as e log 2, whose first digits are an exact float, and what that lacks, which takes in
    2 atanh(s): z = m 2^e with m between the roots of 1/2 and 2, and s = (m - 1) / (m + 1)."""
    exponent = (z.high.bitcast(dtypes.int32) - _ROOT_HALF_BITS) >> 23
    scale = ((127 - exponent) << 23).bitcast(dtypes.float32)
    m, rest = z.high * scale, z.low * scale
    above = two_sum(m, m._with(1.0))
    s = divided(Pair(m - 1.0, rest), Pair(above.high, above.low + rest))
    square = multiplied(s, s)
    bend = multiplied(multiplied(_fit(square, "LOG_RATIO"), square), s)
    times_log2 = exponent.cast(dtypes.float32)
    small = added(times(constant(m, *_LN2_REST), times_log2), added(added(s, s), bend))
    return times_log2 * _LN2_HEAD, small


def _steps(y: UOp) -> Pair:
    """1 / (y + 1) + … + 1 / (y + 6). With u = y (y + 7) the terms from both ends pair up,
    (y + j) (y + 7 - j) = u + j (7 - j), and all are one fraction."""
    u = times(two_sum(y, y._with(7.0)), y)
    over = polynomial(u, (252.0, 56.0, 3.0), (0.0, 0.0))
    under = polynomial(u, (720.0, 252.0, 28.0, 1.0), (0.0, 0.0, 0.0))
    return divided(multiplied(two_sum(y + y, y._with(7.0)), over), under)
