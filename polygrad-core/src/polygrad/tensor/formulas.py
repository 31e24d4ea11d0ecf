"""Formulas: what composite elementwise operations are made of, as functions of nodes.

They take and give nodes of one float dtype, and are written so that the chain rule over them is
right too: no `0 * inf` in a tail, the slope people expect at a kink. Where no way of writing one
has the right slope at infinity, at an end of the domain or at a tie, its slope stands in a table at
the end. Methods in `elementwise.py` and `activation.py` hand them on; gradients and layers may use
them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..dtype import dtypes
from ..gradient_rules import FLAT, FUNCTIONS, Function, by_slope
from ..uop.ops import Ops, UOp

INF = math.inf


def half_wide(formula: Callable[..., UOp], *nodes: UOp) -> UOp:
    """`formula` of floats; narrow ones are computed in float32 and rounded once."""
    dtype = nodes[0].dtype
    if not dtype.is_narrow:
        return formula(*nodes)
    return formula(*(u.cast(dtypes.float32) for u in nodes)).cast(dtype)


def exp(x: UOp) -> UOp:
    return UOp.alu(Ops.EXP, x)


def decay(x: UOp) -> UOp:
    """exp(x) of an x that is at most 0, but for what rounding may have added: in fewer steps."""
    return UOp.alu(Ops.EXP, x, arg="decay")


def log(x: UOp) -> UOp:
    return UOp.alu(Ops.LOG, x)


def tanh(x: UOp) -> UOp:
    return UOp.alu(Ops.TANH, x)


def recip(x: UOp) -> UOp:
    return UOp.alu(Ops.RECIP, x)


def sqrt(x: UOp) -> UOp:
    return UOp.alu(Ops.SQRT, x)


# ---- signs and special values


def absolute(x: UOp) -> UOp:
    """max(x, -x): slope 0 at 0, where both tie. The added zero makes -0.0 into 0.0."""
    if x.dtype.is_unsigned or x.dtype.kind == "bool":
        return x
    out = x.maximum(-x)
    return out + 0.0 if x.dtype.is_float else out


def sign(x: UOp) -> UOp:
    """-1, 0, 1, NaN for NaN; its slope is 0 everywhere."""
    if x.dtype.kind == "bool":
        return x
    zero = x + 0.0 if x.dtype.is_float else x._with(0)
    negative = zero if x.dtype.is_unsigned else (x < 0).where(x._with(-1), zero)
    value = (x > 0).where(x._with(1), negative)
    return function(FLAT, [value], x)[0] if x.dtype.is_float else value


def isnan(x: UOp) -> UOp:
    return x.ne(x)


def isfinite(x: UOp) -> UOp:
    return (x < INF) & (x > -INF)


def finite_or_zero(x: UOp) -> UOp:
    """x, with NaN and infinities as 0."""
    return isfinite(x).where(x, 0.0)


def signbit(x: UOp) -> UOp:
    """Whether the sign is minus, -0.0 included."""
    return (x < 0) | (x.eq(0.0) & (recip(x) < 0)) if x.dtype.is_float else x < 0


def copysign(x: UOp, y: UOp) -> UOp:
    size = absolute(x)
    return signbit(y).where(-size, size)


# ---- products


def inverse_square(x: UOp) -> UOp:
    """x ** -2. Its slope is made of the value: by that of x * x it would be 0 * inf at 0, and inf
    where the value squared overflows."""
    return sloped("inverse_square", recip(x * x), x)


def product_error(x: UOp, y: UOp, product: UOp) -> UOp:
    """x * y - product exactly, by halves of the digits (Dekker 1971, "A floating-point technique
    for extending the available precision", section 5)."""
    split = 134217729.0 if x.dtype.itemsize == 8 else 4097.0

    def halves(u: UOp) -> tuple[UOp, UOp]:
        high = u * split - (u * split - u)
        return high, u - high

    (a, b), (c, d) = halves(x), halves(y)
    return ((a * c - product) + a * d + b * c) + b * d


# ---- exponentials with care near zero and in the tails


def expm1(x: UOp) -> UOp:
    """exp(x) - 1. Near 0 by 2t / (1 - t) with t = tanh(x / 2), which does not cancel; x (1 + x / 2)
    next to 0, where a half of it may be subnormal."""
    t = tanh(x * 0.5)
    near = (x < 1.0) & (x > -1.0)
    t = near.where(t, 0.0)
    out = near.where((t + t) / (1.0 - t), exp(x) - 1.0)
    tiny = (x < 1e-20) & (x > -1e-20)
    inside = tiny.where(x, 0.0)  # or an infinite x times no slope is NaN
    return tiny.where(inside * (inside * 0.5 + 1.0), out)


def log1p(x: UOp) -> UOp:
    """log(1 + x). The rounding of u = 1 + x is repaired by x / (u - 1) (Kahan; Goldberg 1991, thm
    4), which has no slope of its own worth the name."""
    u = x + 1.0
    plain = u.eq(1.0) | u.eq(INF)
    factor = plain.where(u._with(1.0), x / plain.where(u._with(1.0), u - 1.0))
    return function("log1p", [plain.where(x, log(u) * factor)], x)[0]


def sigmoid(x: UOp) -> UOp:
    return UOp.alu(Ops.SIGMOID, x)


def softplus(x: UOp) -> UOp:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|))."""
    negative = x < 0.0
    return negative.where(x._with(0.0), x) + log1p(decay(negative.where(x, -x)))


def logaddexp(a: UOp, b: UOp) -> UOp:
    """log(exp(a) + exp(b)); two equal infinities stay themselves and share the slope."""
    big, small = a.maximum(b), a.minimum(b)
    gap = a.eq(b).where(a._with(0.0), small - big)
    return sloped("logaddexp", big + log1p(decay(gap)), a, b)


def _logaddexp_rule(node: UOp, g: UOp) -> list[UOp]:
    _, a, b = node.src
    share = sigmoid(a.eq(b).where(a._with(0.0), a - b))
    return [g * share, g * (1.0 - share)]


def sinh(x: UOp) -> UOp:
    """With e = expm1(|x|): (e + e / (e + 1)) / 2, with the sign of x; beyond 64 exp(|x|) / 2. Its
    slope is cosh and cosh's is sinh: that of cosh's formula would cancel near 0."""
    size = copysign_of(x, x)
    far = size > 64.0
    e = expm1(far.where(x._with(0.0), size))
    near = (e + e / (e + 1.0)) * 0.5
    return function("sinh", [copysign_of(far.where(_half_exp(size), near), x)], x)[0]


def cosh(x: UOp) -> UOp:
    """exp(|x|) / 2 + exp(-|x|) / 2."""
    size = copysign_of(x, x)
    far = size > 64.0
    e = exp(far.where(x._with(0.0), size))
    return function("cosh", [far.where(_half_exp(size), (e + recip(e)) * 0.5)], x)[0]


def _half_exp(size: UOp) -> UOp:
    """exp(size) / 2 for a size beyond 64, where exp alone may overflow: 32 comes off exactly."""
    far = size > 64.0
    return exp(far.where(size - 32.0, 0.0)) * (0.5 * math.exp(32.0))


def copysign_of(size: UOp, x: UOp) -> UOp:
    """`size`, negated where x < 0. `copysign_of(x, x)` is |x| with slope 1 at 0: right inside
    smooth functions, whose second derivative at 0 the tie of `absolute` would lose."""
    return (x < 0.0).where(-size, size)


def asinh(x: UOp) -> UOp:
    """sign(x) log1p(a (1 + a / (1 + sqrt(a^2 + 1)))), a = |x|; for large a log(a) + log 2."""
    size = copysign_of(x, x)
    large = size > 1e9
    a = large.where(x._with(1.0), size)
    small = log1p(a * (a / (sqrt(a * a + 1.0) + 1.0) + 1.0))  # keeps -0.0
    far = log(large.where(size, 1.0)) + math.log(2.0)
    return sloped("asinh", copysign_of(large.where(far, small), x), x)


def acosh(x: UOp) -> UOp:
    """log1p(t + sqrt(2 t + t^2)), t = x - 1; for large x log(x) + log 2."""
    large = x > 1e9
    t = large.where(x._with(1.0), x - 1.0)
    far = log(large.where(x, 1.0)) + math.log(2.0)
    near = log1p(t + sqrt(t * 2.0 + t * t))
    return sloped("acosh", large.where(far, (x < 1.0).where(x._with(math.nan), near)), x)


def atanh(x: UOp) -> UOp:
    """log1p(2 x / (1 - x)) / 2."""
    size = copysign_of(x, x)
    return sloped("atanh", copysign_of(log1p((size + size) / (1.0 - size)) * 0.5, x), x)


# ---- activations


def relu(x: UOp) -> UOp:
    """Slope 0 at 0; NaN stays NaN."""
    return (x <= 0).where(x._with(0), x)


def clip(x: UOp, low: UOp | None, high: UOp | None) -> UOp:
    """Slope 1 at the bounds; NaN stays NaN, of a bound too."""
    if low is not None:
        x = ((x < low) | isnan(low)).where(low, x)
    return x if high is None else ((x > high) | isnan(high)).where(high, x)


def gelu_tanh(x: UOp) -> UOp:
    """x (1 + tanh(u)) / 2 = x sigmoid(2 u), which does not cancel below 0."""
    scale = 2.0 * math.sqrt(2.0 / math.pi)
    return x * sigmoid(x * (x * x * (0.044715 * scale) + scale))


def gelu_erf(x: UOp) -> UOp:
    return x * 0.5 * (UOp.alu(Ops.ERF, x * math.sqrt(0.5)) + 1.0)


def softsign(x: UOp) -> UOp:
    """x / (1 + |x|). The slopes of numerator and denominator would cancel far from 0."""
    return sloped("softsign", x / (copysign_of(x, x) + 1.0), x)


def exponential_below(x: UOp, alpha: float, scale: float = 1.0) -> UOp:
    """x above 0, alpha (exp(x / scale) - 1) below: elu, celu, selu."""
    below = x <= 0
    bent = expm1(below.where(x if scale == 1.0 else x / scale, 0.0)) * alpha
    return below.where(bent, x)


# ---- inverse trigonometry


def atan(x: UOp) -> UOp:
    """Reduced to |x| <= tan(pi/8) by atan(x) = pi/2 - atan(1/x) and pi/4 + atan((x - 1) / (x + 1)),
    then the rational or polynomial fit of the Cephes library (Moshier 1989, atan.c and atanf.c)."""
    size = copysign_of(x, x)
    big, middle = size > 2.414213562373095, size > 0.4142135623730951
    safe = big.where(size, 1.0)
    reduced = middle.where((size - 1.0) / (size + 1.0), size)
    t = big.where(-recip(safe), big.where(size._with(0.0), reduced))
    base = big.where(x._with(math.pi / 2), middle.where(x._with(math.pi / 4), 0.0))
    value = x.eq(0.0).where(x, copysign_of(base + _atan_small(t), x))  # -0.0 stays
    return sloped("atan", value, x)


def _atan_small(t: UOp) -> UOp:
    z = t * t
    if t.dtype.itemsize == 8:
        return t + t * (z * polynomial(z, _ATAN_P) / polynomial(z, _ATAN_Q))
    return t + t * (z * polynomial(z, _ATANF))


def polynomial(x: UOp, coefficients: tuple[float, ...]) -> UOp:
    """Horner's rule, highest power first."""
    out = x._with(coefficients[0])
    for c in coefficients[1:]:
        out = out * x + c
    return out


_ATANF = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_ATAN_P = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
_ATAN_Q = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)


def asin(x: UOp) -> UOp:
    """atan(x / sqrt((1 - x) (1 + x))), pi/2 at the ends."""
    return sloped("asin", atan(x / sqrt((1.0 - x) * (x + 1.0))), x)


def acos(x: UOp) -> UOp:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    return sloped("acos", atan(sqrt((1.0 - x) / (x + 1.0))) * 2.0, x)


# ---- slopes by name


def sloped(name: str, value: UOp, *inputs: UOp) -> UOp:
    """The value, differentiated by the rule of that name."""
    return function(name, [value], *inputs)[0]


def _on_circle(x: UOp) -> UOp:
    """1 / sqrt(1 - x^2): inf at the ends, NaN outside."""
    return recip(sqrt((1.0 - x) * (x + 1.0)))


def _beside_one(x: UOp) -> UOp:
    """1 / sqrt(1 + x^2), also where x^2 overflows."""
    size = copysign_of(x, x)
    large = size > 1e9
    near = large.where(x._with(0.0), x)
    return recip(large.where(size, sqrt(near * near + 1.0)))


def _softsign_slope(x: UOp, value: UOp) -> UOp:
    share = recip(copysign_of(x, x) + 1.0)
    return share * share


FUNCTIONS.update(  # from x and the value
    inverse_square=by_slope(lambda x, value: value * (-2.0 / x)),
    softsign=by_slope(_softsign_slope),
    asinh=by_slope(lambda x, _: _beside_one(x)),
    acosh=by_slope(lambda x, _: recip(sqrt(x - 1.0) * sqrt(x + 1.0))),
    atanh=by_slope(lambda x, _: recip((1.0 - x) * (x + 1.0))),
    atan=by_slope(lambda x, _: recip(x * x + 1.0)),
    asin=by_slope(lambda x, _: _on_circle(x)),
    acos=by_slope(lambda x, _: -_on_circle(x)),
)
FUNCTIONS["logaddexp"] = _logaddexp_rule


def _copysign_rule(node: UOp, g: UOp) -> list[UOp]:
    _, x, y = node.src
    return [signbit(y).where(-g, g) * sign(x), y._with(0.0)]


def _nextafter_rule(node: UOp, g: UOp) -> list[UOp]:
    return [g, node.src[2]._with(0.0)]


FUNCTIONS.update(copysign=_copysign_rule, nextafter=_nextafter_rule)


def function(name: str, values: Sequence[UOp], *inputs: UOp) -> list[UOp]:
    """The values as functions of the inputs, differentiated by the rule of that name."""
    src = (*(v.detach() for v in values), *inputs)
    count = len(values)
    return [UOp(Ops.FUNCTION, v.dtype, src, Function(name, i, count)) for i, v in enumerate(values)]


FUNCTIONS.update(
    log1p=by_slope(lambda x, value: recip(x + 1.0)),
    sinh=by_slope(lambda x, value: cosh(x)),
    cosh=by_slope(lambda x, value: sinh(x)),
)
