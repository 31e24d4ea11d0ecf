"""Expansions of EXP EXP2 LOG LOG2 TANH SIGMOID ERF for float32 and float64.

Floor: codegen, called by `decompose.py`. Each rule takes the node and the Target and gives plain
arithmetic without branches, so every point pays for the whole expression: the schemes are chosen
for few operations over the whole range. Largest errors over *all* float32 arguments, in ulp:
EXP 1.04, EXP2 1.96, LOG 0.95, LOG2 1.34, TANH 1.50, SIGMOID 2.00, ERF 1.61 (and SIN, COS 1.99),
and with fused multiply-adds EXP 1.07, EXP2 1.81, TANH 1.50, SIGMOID 2.00, ERF 1.53; float64 is no
worse on samples.

* **exp**: e^x = 2^n e^r with |r| <= ln(2) / 2. 2^n is the product of two powers of two made by
  shifts; multiplying by one after the other rounds once for subnormal results and overflows to
  infinity by itself. Adding 1.5 * 2^23 rounds to an integer n and leaves it, with the bias of the
  exponent twice, in the low bits of the sum. Of an x that is at most 0 ("decay", what softmax and
  attention take) one of the two can be the same for all n; the bits are those of the other form.
  Results that round to 0 are selected, not computed: machines take ten times as long to round a
  number to 0 (measured: 73 ns in place of 6 for a vector with one such lane), and rows under a mask
  are full of them.
* **sigmoid**: u / (u + u e^-x) with u = 2^-23 (2^-52), so that u e^-x is a number of the format
  whenever the result is, made with one power of two. As u 2^n + (u + u 2^n (e^r - 1)) the sum
  rounds less often. Measured against two forms of exp(-|x|), one for each sign, which take nine
  operations more: a gelu of 16 M takes 0.61-0.75 of the time (AVX2, two threads).
* **exp2, pow**: with an *even* n, so that 2^n is the square of one power of two. The price, |r| <=
  1 in place of half of it, is two coefficients.
* **log**: x = 2^e m with m in [sqrt(1/2), sqrt(2)) and f = m - 1 exact. float32 takes a polynomial
  in f, float64 the series of atanh in s = f / (2 + f) (the arrangement of fdlibm's e_log.c), which
  needs a division and half the terms.
* **tanh, erf**: both from e^w - 1, made with a small relative error for every w.
  tanh x = E / (E + 2) with E = e^(2x) - 1; below 0.3, where its three roundings may add up to
  2.4 ulp, an odd polynomial. erf x = 1 - e^(-w), where w(x) = -log(erfc x) is smooth and nearly
  linear: x times a polynomial.
"""

from __future__ import annotations

from typing import Final

from ..dtype import DType, dtypes
from ..target import Target
from ..uop.ops import Ops, UOp
from ..uop.rewrite import Rules
from .floats import (
    FORMATS,
    INFINITY,
    NAN,
    Format,
    by_pairs,
    clamp,
    fused_format,
    horner,
    magnitude,
    minimum,
    muladd,
    two_sum,
    with_sign_of,
)

RULES: Final = Rules()
NATIVE_ULP: Final = 2.0  # a native function that is less accurate than this is expanded too
LOG2_E: Final = 1.4426950408889634
ROOT_HALF: Final = {23: 0x3F3504F3, 52: 0x3FE6A09E667F3BCD}  # bits of sqrt(1/2) by mantissa bits
TANH_SATURATES: Final = {dtypes.float32: 10.0, dtypes.float64: 20.0}
ERF_SATURATES: Final = {dtypes.float32: 3.92, dtypes.float64: 5.95}


def is_native(op: Ops, dtype: DType, target: Target) -> bool:
    """Whether the target computes `op` itself, well enough."""
    return target.supports(op, dtype) and target.ulp.get((op, dtype), 0.0) <= NATIVE_ULP


# ---- exponentials


def nearest_even_power(x: UOp, f: Format) -> tuple[UOp, UOp]:
    """(n, 2^(n/2)) for the even integer n nearest to `x`."""
    magic = 1.5 * 2.0 ** (f.shift + 1) + 2 * f.bias
    total = x + magic
    half = (total.bitcast(f.unsigned) << f.shift).bitcast(f.dtype)
    return total - magic, half


def power_limits(f: Format) -> tuple[int, int]:
    """Exponents of two below which all results are 0 and above which all are infinite."""
    return -(f.bias + f.shift + 2), f.bias + 3


def exp2_of_reduced(r: UOp, half: UOp, f: Format) -> UOp:
    """2^r * half * half for |r| <= 1."""
    return muladd(half, r * horner(r, f.coefficients["EXP2"], f), half, f) * half


def nearest_power(x: UOp, f: Format) -> tuple[UOp, UOp, UOp]:
    """(n, 2^floor(n/2), 2^ceil(n/2)) for the integer n nearest to x / ln 2."""
    magic = 1.5 * 2.0**f.shift + 2 * f.bias
    total = muladd(x, LOG2_E, magic, f)
    both = total.bitcast(f.unsigned)
    low = both >> 1
    first, second = ((part << f.shift).bitcast(f.dtype) for part in (low, both - low))
    return total - magic, first, second


def nearest_small_power(x: UOp, f: Format) -> tuple[UOp, UOp, UOp]:
    """The same n, 2^(n + c) and 2^-c with c half of the bias, in three steps less: for n <= c."""
    up = f.bias // 2
    magic = 1.5 * 2.0**f.shift + f.bias + up
    total = muladd(x, LOG2_E, magic, f)
    power = (total.bitcast(f.unsigned) << f.shift).bitcast(f.dtype)
    return total - magic, power, UOp.const(f.dtype, 2.0**-up)


@RULES.on(Ops.EXP)
def exp(u: UOp, target: Target) -> UOp | None:
    f = fused_format(u.dtype, target)
    if f is None:
        return None
    x = u.src[0] if u.arg == "decay" else minimum((f.bias + 3) / LOG2_E, u.src[0])
    powers = nearest_small_power if u.arg == "decay" else nearest_power
    n, first, second = powers(x, f)
    head, rest = f.coefficients["LN2"]
    r = muladd(n, -rest, muladd(n, -head, x, f), f)  # the inner one is exact
    square = r * r
    q = muladd(square, by_pairs(r, square, f.coefficients["EXPM1"], f), r, f)
    return lost_below(x, f).where(x._with(0.0), muladd(first, q, first, f) * second)


def lost_below(x: UOp, f: Format) -> UOp:
    """Whether e^x is half of the smallest number, or less."""
    return x < -(f.bias + f.shift) / LOG2_E


@RULES.on(Ops.EXP2)
def exp2(u: UOp, target: Target) -> UOp | None:
    f = fused_format(u.dtype, target)
    if f is None or is_native(Ops.EXP2, u.dtype, target):
        return None
    x = clamp(u.src[0], *power_limits(f))
    n, half = nearest_even_power(x, f)
    return exp2_of_reduced(x - n, half, f)


def expm1(w: UOp, f: Format, rest: UOp | None = None) -> UOp:
    """e^(w + rest) - 1, where |w| stays so small that 2^n is a normal number, and |rest| <
    ulp(w)."""
    magic = 1.5 * 2.0**f.shift + f.bias
    total = muladd(w, LOG2_E, magic, f)
    n, power = total - magic, (total.bitcast(f.unsigned) << f.shift).bitcast(f.dtype)
    r = muladd(n, -sum(f.coefficients["LN2"]), w, f)
    tail, square = horner(r, f.coefficients["EXPM1"], f), r * r
    q = muladd(square, tail, r, f) if rest is None else r + muladd(square, tail, rest, f)
    return muladd(power, q, power - 1.0, f)


@RULES.on(Ops.TANH)
def tanh(u: UOp, target: Target) -> UOp | None:
    f = fused_format(u.dtype, target)
    if f is None:
        return None
    (x,) = u.src
    a = minimum(TANH_SATURATES[u.dtype], magnitude(x, f))
    z = a * a
    near_zero = muladd(z, a * horner(z, f.coefficients["TANH"], f), a, f)
    e = expm1(a + a, f)
    return with_sign_of((a < 0.3).where(near_zero, e / (e + 2.0)), x, f)


@RULES.on(Ops.SIGMOID)
def sigmoid(u: UOp, target: Target) -> UOp | None:
    f = fused_format(u.dtype, target)
    if f is None:
        return None
    (x,) = u.src
    most = minimum(float(f.shift), x)  # beyond it the result is 1
    unit = 2.0**-f.shift
    magic = 1.5 * 2.0**f.shift + f.bias - f.shift
    total = muladd(most, -LOG2_E, magic, f)
    n, power = total - magic, (total.bitcast(f.unsigned) << f.shift).bitcast(f.dtype)
    head, rest = f.coefficients["LN2"]
    r = muladd(n, rest, muladd(n, head, most, f), f)  # e^-x = 2^n e^-r
    falling = [c if i % 2 else -c for i, c in enumerate(f.coefficients["EXPM1"])]
    square = r * r
    fall = muladd(square, by_pairs(r, square, falling, f), r, f)  # 1 - e^-r
    scaled = UOp.const(u.dtype, unit) / (power - muladd(power, fall, -unit, f))
    return lost_below(x, f).where(x._with(0.0), scaled)


@RULES.on(Ops.ERF)
def erf(u: UOp, target: Target) -> UOp | None:
    f = fused_format(u.dtype, target)
    if f is None:
        return None
    (x,) = u.src
    a = minimum(ERF_SATURATES[u.dtype], magnitude(x, f))
    w, rest = two_sum(a, a * horner(a, f.coefficients["ERF"], f))
    return with_sign_of(magnitude(expm1(-w, f, -rest), f), x, f)


# ---- logarithms


def split_exponent(x: UOp, f: Format) -> tuple[UOp, UOp]:
    """(m, e) with x = 2^e m and m in [sqrt(1/2), sqrt(2)), for finite x > 0, subnormal or not."""
    subnormal = x < f.tiny
    bits = subnormal.where(x * 2.0**f.shift, x).bitcast(f.unsigned)
    root = ROOT_HALF[f.shift]
    shifted = bits + ((f.bias << f.shift) - root)
    # The biased exponent, OR-ed into the low bits of 2^shift, is an integer in floating point.
    magic = (f.bias + f.shift) << f.shift
    counted = ((shifted >> f.shift) | magic).bitcast(f.dtype)
    offset = UOp.const(f.dtype, 2.0**f.shift + f.bias)
    e = counted - subnormal.where(offset + float(f.shift), offset)
    m = ((shifted & ((1 << f.shift) - 1)) + root).bitcast(f.dtype)
    return m, e


def _series(m: UOp, f: Format) -> tuple[UOp, UOp]:
    """(f, t) with log(m) = f + t, |t| small beside f."""
    x = m - 1.0
    if f.dtype is dtypes.float32:
        return x, x * x * (x * horner(x, f.coefficients["LOG"], f) - 0.5)
    s, half_square = x / (x + 2.0), x * x * 0.5
    z = s * s
    rest = z * horner(z, f.coefficients["ATANH"], f)
    return x, s * (half_square + rest) - half_square


def _log_domain(x: UOp, result: UOp) -> UOp:
    """`result` for 0 < x < inf, and the values elsewhere: -inf at 0, NaN below, x at inf."""
    at_most_zero = x.eq(0.0).where(UOp.const(x.dtype, -INFINITY), NAN)
    return (UOp.const(x.dtype, 0.0) < x).where((x < INFINITY).where(result, x), at_most_zero)


@RULES.on(Ops.LOG)
def log(u: UOp, target: Target) -> UOp | None:
    f = FORMATS.get(u.dtype)
    if f is None:
        return None
    m, e = split_exponent(u.src[0], f)
    x, t = _series(m, f)
    head, rest = f.coefficients["LN2"]
    return _log_domain(u.src[0], (x + (t + e * rest)) + e * head)


@RULES.on(Ops.LOG2)
def log2(u: UOp, target: Target) -> UOp | None:
    f = FORMATS.get(u.dtype)
    if f is None or is_native(Ops.LOG2, u.dtype, target):
        return None
    m, e = split_exponent(u.src[0], f)
    if f.dtype is dtypes.float32:
        x = m - 1.0
        result = x + x * horner(x, f.coefficients["LOG2"], f)
    else:
        x, t = _series(m, f)
        result = x + (x * (LOG2_E - 1.0) + t * LOG2_E)
    return _log_domain(u.src[0], result + e)
