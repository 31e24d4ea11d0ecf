"""Expansion of FMOD, the remainder of floats: exact, whatever the quotient.

Floor: codegen, called by `decompose.py`. With the digits of both numbers as whole numbers m and n,
and d the difference of their exponents, the remainder is m 2^d mod n, in units of the last digit of
the divisor. All of it is whole numbers, so nothing rounds and every machine gives the same bits.

In float64, which holds products of two float32 exactly, 2^d mod n comes from few squarings modulo
n; products of the digits of two float64 are sums of two numbers (Dekker, 1971). A machine without
float64 has no wider numbers than 32 bits, or is asked for none: there m is multiplied by 2^8 at a
time, which leaves 24 + 8 bits, and reduced after each step. The result is put together from bits,
since such a machine may flush subnormals to zero.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..dtype import dtypes
from ..target import Target
from ..uop.ops import Ops, UOp
from ..uop.rewrite import Rules
from .floats import FORMATS, INFINITY, NAN, Format, magnitude, two_product, with_sign_of

RULES: Final = Rules()
U32: Final = dtypes.uint32
# How often 2^(largest difference of exponents >> squarings) is squared: that is a small number.
SQUARINGS: Final = {dtypes.float32: 4, dtypes.float64: 6}
LARGEST_GAP: Final = 253  # of the exponents of two float32
STEP: Final = 8  # bits of one step by integers: with the 24 digits of float32 they fill a word


@RULES.on(Ops.FMOD)
def fmod(u: UOp, target: Target) -> UOp | None:
    f = FORMATS.get(u.dtype)
    if f is None:
        return None
    a, b = u.src
    if not target.supports(Ops.ADD, dtypes.float64):
        return _by_integers(a, b, f)
    size_a, size_b = magnitude(a, f), magnitude(b, f)
    left = (size_a < size_b).where(size_a, _of_sizes(size_a, size_b, f))
    defined = (size_a < INFINITY) & (size_b > 0.0)
    return with_sign_of(magnitude(defined.where(left, NAN), f), a, f)


# ---- in float64


class Modulus(NamedTuple):
    """A whole number in float64."""

    digits: UOp
    inverse: UOp


def _of_sizes(a: UOp, b: UOp, f: Format) -> UOp:
    """a mod b for a >= b > 0."""
    (m, exponent), (digits, least) = _parts(a, f), _parts(b, f)
    m, digits = m.cast(dtypes.float64), digits.cast(dtypes.float64)
    n = Modulus(digits, UOp.alu(Ops.RECIP, digits))
    gap = (exponent - least).maximum(0)
    squarings = SQUARINGS[f.dtype]
    left = _nearest((UOp.const(f.signed, 1) << (gap >> squarings)).cast(dtypes.float64), n)
    for bit in reversed(range(squarings)):
        left = _times(left, left, n, f, (gap & (1 << bit)).ne(0))
    left = _times(left, m, n, f)
    left = (left < 0.0).where(left + digits, left)
    unit = b.cast(dtypes.float64) / digits  # a power of two
    return (left * unit).cast(f.dtype)


def _parts(x: UOp, f: Format) -> tuple[UOp, UOp]:
    """The digits of a positive number as a whole number, and its exponent, both integers."""
    bits = x.bitcast(f.signed)
    exponent, digits = bits >> f.shift, bits & ((1 << f.shift) - 1)
    normal = exponent > 0
    return normal.where(digits | (1 << f.shift), digits), normal.where(exponent, 1)


def _nearest(x: UOp, n: Modulus) -> UOp:
    """x mod n between about -n / 2 and n / 2, for a quotient of few digits."""
    return x - UOp.alu(Ops.ROUND, x * n.inverse) * n.digits


def _times(x: UOp, y: UOp, n: Modulus, f: Format, twice: UOp | None = None) -> UOp:
    """x y or 2 x y modulo n, near 0. Of 24 digits each, products of two are exact; of 53 digits,
    with |x| <= n / 2 and |y| <= n, or y < 2^53, the quotient is off by at most 1.25, so what is
    left is below 2 n and exact."""
    if f.dtype is dtypes.float32:
        return _nearest(x * (y if twice is None else twice.where(y + y, y)), n)
    product, lost = two_product(x, y, f)
    back, more = two_product(UOp.alu(Ops.ROUND, product / n.digits), n.digits, f)
    left = (product - back) + (lost - more)
    return _nearest(left if twice is None else twice.where(left + left, left), n)


# ---- in integers of 32 bits


def _by_integers(a: UOp, b: UOp, f: Format) -> UOp:
    """The remainder of two float32 by their bits."""
    size_a, size_b = (x.bitcast(U32) & (f.sign - 1) for x in (a, b))
    infinity = UOp.const(f.dtype, INFINITY).bitcast(U32)
    (m, exponent), (n, least) = (_parts(x, f) for x in (size_a, size_b))
    left = _as_float(_shifted(m, (exponent - least).maximum(0), n), least, f)
    left = (size_a < size_b).where(size_a, left)
    undefined = (size_a >= infinity) | (size_b > infinity) | size_b.eq(0)
    left = undefined.where(UOp.const(f.dtype, NAN).bitcast(U32), left)
    return (left | (a.bitcast(U32) & f.sign)).bitcast(f.dtype)


def _shifted(m: UOp, gap: UOp, n: UOp) -> UOp:
    """m 2^gap mod n, for m and n of 24 bits."""
    n, gap = n.maximum(1).bitcast(U32), gap.bitcast(U32)
    left = m.bitcast(U32) % n
    for _ in range(-(-LARGEST_GAP // STEP)):
        step = gap.minimum(STEP)
        left, gap = (left << step) % n, gap - step
    return left


def _as_float(whole: UOp, exponent: UOp, f: Format) -> UOp:
    """The bits of a whole number of 24 bits, in units of the last digit of this exponent."""
    moved = (exponent - (f.bias + f.shift)).bitcast(U32) << f.shift
    scaled = whole.cast(f.dtype).bitcast(U32) + moved
    normal = whole.ne(0) & (scaled.bitcast(f.signed) >= (1 << f.shift))
    below = whole << (exponent - 1).minimum(f.shift).bitcast(U32)
    return normal.where(scaled, below)
