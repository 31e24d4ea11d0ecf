"""Formulas of the gamma function's family: log |Gamma|, its slope digamma, the slope of that.

Functions of nodes of float32 or float64. For large x Stirling's series; smaller x are brought down
into [1, 2] or around 1 and 2 by the recurrence Gamma(x + 1) = x Gamma(x), where fits with the zeros
as factors keep all digits next to them. Negative x by reflection: of float32 in pairs
(`below_zero.py`), of float64 plainly, with errors that near a zero are small beside 1, not beside
the result. Poles: lgamma is inf there, digamma NaN (at 0 an infinity).
"""

from __future__ import annotations

import math

from ..dtype import dtypes
from ..gradient_rules import FUNCTIONS, by_slope
from ..uop.ops import Ops, UOp
from . import below_zero, coefficients
from .formulas import INF, absolute, function, log, recip
from .probability import fitted

# From where on Stirling's series is used, and how many terms of it.
_LARGE = {dtypes.float32: (4, 4), dtypes.float64: (8, 10)}
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
              -174611 / 330)  # fmt: skip
_ROOTS = {
    dtypes.float32: coefficients.FLOAT32["DIGAMMA_ROOT"],
    dtypes.float64: coefficients.FLOAT64["DIGAMMA_ROOT"],
}


def _series(v: UOp, terms: list[float]) -> UOp:
    """terms[0] + terms[1] v + …"""
    out = v._with(terms[-1])
    for c in reversed(terms[:-1]):
        out = out * v + c
    return out


def lgamma(x: UOp) -> UOp:
    """log |Gamma(x)|."""
    size = absolute(x)
    sine = _sine(size)
    reflected = -log(sine) - _log_gamma_above_one(size)
    reflected = sine.eq(0.0).where(sine._with(INF), reflected)  # not the difference of infinities
    if x.dtype is dtypes.float32:
        near = size < below_zero.LGAMMA_UP_TO + 0.5
        reflected = near.where(below_zero.lgamma(near.where(size, 0.5)), reflected)
    value = (x < 0.0).where(reflected, _log_gamma(size))
    value = size.eq(INF).where(size, value) + 0.0  # inf for -inf too, and no -0.0: as scipy
    return function("lgamma", [value], x)[0]


def _log_gamma(x: UOp) -> UOp:
    """For x >= 0."""
    small, near_one = x < 0.5, x < 1.5
    w = small.where(x, x - 1.0)
    first = w * fitted(w, "LGAMMA1")
    first = small.where(first - log(x), first)
    return near_one.where(first, _above(x))


def _log_gamma_above_one(x: UOp) -> UOp:
    """log Gamma(1 + x) for x >= 0, without rounding 1 + x."""
    small = x < 0.5
    return small.where(x * fitted(x, "LGAMMA1"), _log_gamma(x) + log(x))


def _above(x: UOp) -> UOp:
    """For x >= 1.5."""
    large, count = _LARGE[x.dtype]
    z, product = x, x._with(1.0)
    for _ in range(large - 2):
        step = z >= 2.5
        z = step.where(z - 1.0, z)
        product = step.where(product * z, product)
    w = z - 2.0
    near = w * fitted(w, "LGAMMA2") + log(product)
    v = recip(x)
    terms = [b / ((2 * k) * (2 * k - 1)) for k, b in enumerate(_BERNOULLI[:count], 1)]
    correction = v * _series(v * v, terms) + (0.5 * math.log(2.0 * math.pi) - 0.5)
    return (x < float(large)).where(near, (x - 0.5) * (log(x) - 1.0) + correction)


def _sine(size: UOp) -> UOp:
    """|sin(pi x)| / pi for x >= 0, with the whole part taken off exactly."""
    rest = absolute(size - UOp.alu(Ops.ROUND, size))
    return (rest < 1e-6).where(rest, UOp.alu(Ops.SIN, rest * math.pi) * (1.0 / math.pi))


def digamma(x: UOp) -> UOp:
    """Gamma'(x) / Gamma(x)."""
    size = absolute(x)
    if x.dtype is dtypes.float32:
        below = below_zero.digamma(size)
    else:
        below = _digamma_above_one(size) + _cotangent(size)
    value = (x < 0.0).where(below, _digamma(size))
    value = x.eq(0.0).where(-recip(x), value)
    return function("digamma", [value], x)[0]


def _digamma(x: UOp) -> UOp:
    """For x > 0."""
    return (x < 1.0).where(_between(x) - recip(x), _digamma_from_one(x))


def _digamma_above_one(x: UOp) -> UOp:
    """digamma(1 + x) for x >= 0."""
    return (x < 1.0).where(_between(x), _digamma_from_one(x) + recip(x))


def _between(w: UOp) -> UOp:
    """digamma(1 + w) for w in [0, 1]: the distance from the root times a fit."""
    head, rest = _ROOTS[w.dtype]
    return ((w - head) - rest) * fitted(w, "DIGAMMA")


def _digamma_from_one(x: UOp) -> UOp:
    large, count = _LARGE[x.dtype]
    z, total = x, x._with(0.0)
    for _ in range(large - 2):
        step = z >= 2.0
        z = step.where(z - 1.0, z)
        total = step.where(total + recip(z), total)
    v = recip(x)
    terms = [b / (2 * k) for k, b in enumerate(_BERNOULLI[:count], 1)]
    far = log(x) - v * 0.5 - v * v * _series(v * v, terms)
    return (x < float(large)).where(_between(z - 1.0) + total, far)


def _cotangent(size: UOp) -> UOp:
    """pi cot(pi x) for x >= 0; NaN at whole x."""
    rest = size - UOp.alu(Ops.ROUND, size)
    angle = rest * math.pi
    value = UOp.alu(Ops.COS, angle) / UOp.alu(Ops.SIN, angle) * math.pi
    return rest.eq(0.0).where(rest._with(math.nan), value)


def _trigamma(x: UOp, value: UOp) -> UOp:
    """The slope of digamma, by reflection below 0."""
    size, negative = absolute(x), x < 0.0
    sine = _sine(negative.where(size, 0.5))  # whose slope at whole x > 0 nobody may see
    below = recip(sine * sine) - _trigamma_above_zero(size + 1.0)
    return negative.where(below, _trigamma_above_zero(size))


def _trigamma_above_zero(x: UOp) -> UOp:
    """1 / x + 1 / (2 x^2) + sum B_2k / x^(2k + 1), after steps up to large x."""
    large, count = _LARGE[x.dtype]
    z, total = x, x._with(0.0)
    for _ in range(large):
        step = z < float(large)
        total = step.where(total + recip(z * z), total)
        z = step.where(z + 1.0, z)
    v = recip(z)
    return v + v * v * 0.5 + v * v * v * _series(v * v, list(_BERNOULLI[:count])) + total


FUNCTIONS.update(lgamma=by_slope(lambda x, value: digamma(x)), digamma=by_slope(_trigamma))
