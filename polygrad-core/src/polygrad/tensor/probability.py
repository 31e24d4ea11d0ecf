"""Formulas of the error function's family: erfc, erfinv, and the normal distribution's tails.

Functions of nodes of float32 or float64, as in `formulas.py`. All stand on one fit, of the scaled
complement erfcx(x) = exp(x^2) erfc(x) for x >= 0, which has no tail to lose. What is small is a
Gaussian times erfcx, with the square's rounding error repaired; what is a logarithm never forms the
exponential. Quantiles come from the logarithm of the smaller tail; in float64 a step of Halley's
method takes them from 8 digits to all.

None is differentiated through its fit: each is a FUNCTION with its slope by name.
"""

from __future__ import annotations

import math

from ..dtype import dtypes
from ..gradient_rules import FUNCTIONS, by_slope
from ..uop.ops import Ops, UOp
from . import coefficients
from .formulas import (
    INF,
    absolute,
    copysign,
    exp,
    expm1,
    function,
    log,
    log1p,
    product_error,
    recip,
    sqrt,
)

_TABLES = {dtypes.float32: coefficients.FLOAT32, dtypes.float64: coefficients.FLOAT64}
_LN2 = {  # in two pieces
    dtypes.float32: (0.6931471824645996, -1.904654299957768e-09),
    dtypes.float64: (0.6931471805599453, 2.3190468138462996e-17),
}
_CENTRE = 0.6  # |2 p - 1| up to which quantiles come from the middle
_R_LOW, _R_HIGH = 1.26, 10.3  # of the fit QUANTILE
_FAR = 106.0  # beyond it, as -log p, quantiles come from their asymptotic series


def fitted(x: UOp, name: str) -> UOp:
    """A fitted polynomial by Horner's rule."""
    *rest, last = _TABLES[x.dtype][name]
    out = x._with(last)
    for c in reversed(rest):
        out = out * x + c
    return out


def erf(x: UOp) -> UOp:
    return UOp.alu(Ops.ERF, x)


def scaled_complement(x: UOp) -> UOp:
    """erfcx(x) for x >= 0: t P(2 t - 1), t = 3 / (3 + x)."""
    t = 3.0 / (x + 3.0)
    return t * fitted(t + t - 1.0, "ERFCX")


def _times_gaussian(factor: UOp, x: UOp, half: float) -> UOp:
    """factor * exp(-half x^2), half being 1 or 1/2: the part of x^2 that rounding lost is made up
    for, and the result is scaled so that only the last product can be subnormal."""
    x = x.minimum(60.0)
    square = x * x
    lost = product_error(x, x, square) * half
    far = square * half > 64.0
    power = exp(far.where(x._with(32.0), 0.0) - square * half)
    out = power * (factor - factor * lost)
    return far.where(out * math.exp(-32.0), out)


def _slope(name: str, value: UOp, x: UOp) -> UOp:
    return function(name, [value], x)[0]


# ---- complements


def erfc(x: UOp) -> UOp:
    size = absolute(x)
    tail = _times_gaussian(scaled_complement(size), size, 1.0)
    return _slope("erfc", (x < 0.5).where(1.0 - erf(x), tail), x)


def log_erfcx(x: UOp) -> UOp:
    """x P(x) between -1 and 1; log(2 - erfc(-x)) + x^2 below."""
    size = absolute(x)
    t = 3.0 / (size + 3.0)
    above = log(fitted(t + t - 1.0, "ERFCX")) - log(size * (1.0 / 3.0) + 1.0)
    tail = _times_gaussian(scaled_complement(size), size, 1.0)
    below = log(2.0 - tail) + x * x
    outside = (x < 0.0).where(below, above)
    return _slope("log_erfcx", (size < 1.0).where(x * fitted(x, "LOG_ERFCX"), outside), x)


def _log_erfcx_slope(x: UOp, value: UOp) -> UOp:
    """2 x - 2 / (sqrt(pi) erfcx(x)); for x >= 0, where it cancels, a fit."""
    size = absolute(x)
    t = 3.0 / (size + 3.0)
    above = -(t * fitted(t + t - 1.0, "LOG_ERFCX_SLOPE"))
    below = x * 2.0 - exp(-value) * (2.0 / math.sqrt(math.pi))
    return (x < 0.0).where(below, above)


def log_ndtr(x: UOp) -> UOp:
    """log(erfcx(-x / sqrt 2) / 2) - x^2 / 2 below 0; log1p of minus the upper tail above."""
    size = absolute(x)
    scaled = scaled_complement(size * math.sqrt(0.5)) * 0.5
    below = log(scaled) - size * 0.5 * size
    value = (x < 0.0).where(below, log1p(-_times_gaussian(scaled, size, 0.5)))
    return _slope("log_ndtr", value, x)


def _hazard(x: UOp) -> UOp:
    """phi(x) / Phi(x), the slope of log Phi."""
    size = absolute(x)
    scaled = scaled_complement(size * math.sqrt(0.5))
    above = _times_gaussian(x._with(1.0 / math.sqrt(2.0 * math.pi)), size, 0.5)
    above = above / (1.0 - _times_gaussian(scaled * 0.5, size, 0.5))
    return (x < 0.0).where(math.sqrt(2.0 / math.pi) / scaled, above)


# ---- quantiles


def _central(y: UOp) -> UOp:
    """erfinv for |y| <= 0.6: an odd fit."""
    x = y * fitted(y * y, "ERFINV")
    if x.dtype.itemsize < 8:
        return x
    off = (erf(x) - y) * (exp(x * x) * (math.sqrt(math.pi) / 2.0))
    return x - off / (off * x + 1.0)


def _upper(log_q: UOp) -> UOp:
    """x >= 0.84 whose upper tail has the logarithm log_q."""
    w = -log_q
    r = sqrt(w)
    low, high = 1.0 / _R_LOW, 1.0 / _R_HIGH
    u = recip(r) * (2.0 / (low - high)) - (low + high) / (low - high)
    far = w > _FAR
    x = far.where(_very_upper(w), r * fitted(u, "QUANTILE"))
    return w.eq(INF).where(w, x if x.dtype.itemsize < 8 else _polished(x, log_q))


def _very_upper(w: UOp) -> UOp:
    """x^2 = y - L + (L - 2) / y + (L^2 / 2 - 3 L + 7) / y^2 + …, y = 2 w, L = log(2 pi y): the
    solution of x^2 / 2 + log(x sqrt(2 pi)) - log(1 - 1 / x^2 + …) = w by iteration."""
    L = log(w) + math.log(4.0 * math.pi)
    v = recip(w) * 0.5
    less = L - ((L - 2.0) + (L * (L * 0.5 - 3.0) + 7.0) * v) * v
    return sqrt(w - less * 0.5) * math.sqrt(2.0)


def _polished(x: UOp, log_q: UOp) -> UOp:
    """A step of Halley's method for log Phi(-x) = log_q."""
    hazard = _hazard(-x)
    off = (log_ndtr(-x).src[0] - log_q) / hazard
    return x + off / ((hazard - x) * off * 0.5 + 1.0)


def erfinv(y: UOp) -> UOp:
    size = absolute(y)
    tail = _upper(log((1.0 - size) * 0.5)) * math.sqrt(0.5)
    return _slope("erfinv", (size <= _CENTRE).where(_central(y), copysign(tail, y)), y)


def ndtri(p: UOp) -> UOp:
    middle = (p - 0.5) * 2.0
    lower = p < 0.5
    tail = _upper(log(lower.where(p, 1.0 - p)))
    tail = lower.where(-tail, tail)
    centre = _central(middle) * math.sqrt(2.0)
    return _slope("ndtri", (absolute(middle) <= _CENTRE).where(centre, tail), p)


def ndtri_exp(log_p: UOp) -> UOp:
    """From log p: below log 0.2 as it is, above log 0.8 by log(1 - p), between by 2 p - 1."""
    head, rest = _LN2[log_p.dtype]
    middle = expm1((log_p + head) + rest)
    lower = log_p < math.log(0.5)
    other = log(-expm1(log_p))
    tail = _upper(lower.where(log_p, other))
    tail = lower.where(-tail, tail)
    centre = _central(middle) * math.sqrt(2.0)
    return _slope("ndtri_exp", (absolute(middle) <= _CENTRE).where(centre, tail), log_p)


def _inverse_density(size: UOp, tail: UOp, scale: float) -> UOp:
    """scale * erfcx(size) / tail: one over the density, in terms of the tail's mass."""
    return tail.eq(0.0).where(tail._with(INF), scaled_complement(size) * scale / tail)


def _erfinv_slope(y: UOp, x: UOp) -> UOp:
    return _inverse_density(absolute(x), 1.0 - absolute(y), math.sqrt(math.pi) / 2.0)


def _ndtri_slope(p: UOp, x: UOp) -> UOp:
    tail = (p < 0.5).where(p, 1.0 - p)
    return _inverse_density(absolute(x) * math.sqrt(0.5), tail, math.sqrt(math.pi / 2.0))


_SLOPES = {
    "erfc": lambda x, value: _times_gaussian(x._with(-2.0 / math.sqrt(math.pi)), absolute(x), 1.0),
    "log_erfcx": _log_erfcx_slope,
    "log_ndtr": lambda x, value: _hazard(x),
    "erfinv": _erfinv_slope,
    "ndtri": _ndtri_slope,
    "ndtri_exp": lambda log_p, x: recip(_hazard(x)),
}
FUNCTIONS.update({name: by_slope(slope) for name, slope in _SLOPES.items()})
