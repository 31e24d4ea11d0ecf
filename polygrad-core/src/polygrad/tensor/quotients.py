"""Quotients rounded to whole numbers, and the remainders that belong to them.

Integers come from FLOORDIV and FLOORMOD. The remainder of floats is exact, whatever the quotient:
with a = m 2^d and b = n in units of b's last digit, it is m 2^d mod n, and 2^d mod n comes from few
squarings modulo n. All numbers are whole and small enough for float64 to hold exactly; products of
the digits of two float64 are sums of two numbers (Dekker, 1971). Signs, zeros, infinities and NaN
are numpy's: `%` has the sign of the divisor, `fmod` that of the dividend.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from ..dtype import DType, dtypes
from ..gradient_rules import FLAT, FUNCTIONS
from ..uop.ops import Ops, UOp
from .formulas import INF, function, product_error


class Format(NamedTuple):
    """How a float type lies in an integer type."""

    bits: DType
    shift: int  # stored digits
    squarings: int  # so that 2^(largest difference of exponents >> squarings) is a small number


class Modulus(NamedTuple):
    """A whole number in float64."""

    digits: UOp
    inverse: UOp


FORMATS: Final = {
    dtypes.float32: Format(dtypes.int32, 23, 4),
    dtypes.float64: Format(dtypes.int64, 52, 6),
}


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
    left = _fmod(a, b)
    value = _against(left, b).where(left + b, left.eq(0.0).where(_signed(left, b), left))
    return function("remainder", [value], a, b)[0]


def fmod(a: UOp, b: UOp) -> UOp:
    """C's remainder: the sign of the dividend; integers: 0 for a zero divisor."""
    if a.dtype.is_float:
        return function("fmod", [_fmod(a, b)], a, b)[0]
    return b.eq(0).where(a._with(0), a - trunc_quotient(a, b) * b)


FUNCTIONS.update(
    remainder=lambda node, g: [g, -g * floor_quotient(*node.src[1:])],
    fmod=lambda node, g: [g, -g * trunc_quotient(*node.src[1:])],
)


def _floor_of_floats(a: UOp, b: UOp) -> UOp:
    """The quotient of what is left when the remainder is taken away divides exactly, but for its
    own rounding; a remainder of the other sign is one step more."""
    left = _fmod(a, b)
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


# ---- the remainder of floats


def _fmod(a: UOp, b: UOp) -> UOp:
    """The remainder with the sign of a; NaN for an infinite a and a zero b."""
    f = FORMATS[a.dtype]
    size_a, size_b = (_size(u, f) for u in (a, b))
    left = (size_a < size_b).where(size_a, _of_sizes(size_a, size_b, f))
    defined = (size_a < INF) & (size_b > 0.0)
    return _signed(defined.where(left, math.nan), a)


def _of_sizes(a: UOp, b: UOp, f: Format) -> UOp:
    """a mod b for a >= b > 0."""
    (m, exponent), (digits, least) = _parts(a, f), _parts(b, f)
    n = Modulus(digits, UOp.alu(Ops.RECIP, digits))
    gap = (exponent - least).maximum(exponent._with(0))
    times = _times if a.dtype is dtypes.float32 else _times_in_pairs
    top = UOp.const(f.bits, 1).broadcast_to(gap.shape) << (gap >> f.squarings)
    left = _nearest(top.cast(dtypes.float64), n)
    for bit in reversed(range(f.squarings)):
        left = times(left, left, n, (gap & (1 << bit)).ne(0))
    left = times(left, m, n, None)
    left = (left < 0.0).where(left + digits, left)
    unit = b.cast(dtypes.float64) / digits  # a power of two
    return (left * unit).cast(a.dtype)


def _parts(x: UOp, f: Format) -> tuple[UOp, UOp]:
    """The digits of a positive number as a whole number, and its exponent."""
    bits = x.bitcast(f.bits)
    exponent, digits = bits >> f.shift, bits & ((1 << f.shift) - 1)
    normal = exponent > 0
    digits = normal.where(digits | (1 << f.shift), digits)
    return digits.cast(dtypes.float64), normal.where(exponent, 1)


def _nearest(x: UOp, n: Modulus) -> UOp:
    """x mod n between about -n / 2 and n / 2, for a quotient of few digits."""
    return x - UOp.alu(Ops.ROUND, x * n.inverse) * n.digits


def _times(x: UOp, y: UOp, n: Modulus, twice: UOp | None) -> UOp:
    """x y or 2 x y modulo n, near 0: of 24 digits each, so that products of two are exact."""
    return _nearest(x * (y if twice is None else twice.where(y + y, y)), n)


def _times_in_pairs(x: UOp, y: UOp, n: Modulus, twice: UOp | None) -> UOp:
    """The same for 53 digits. |x| <= n / 2 and |y| <= n, or y < 2^53: the quotient is off by at
    most 1.25, so what is left is below 2 n and exact."""
    product = x * y
    quotient = UOp.alu(Ops.ROUND, product / n.digits)
    back = quotient * n.digits
    lost = product_error(x, y, product) - product_error(quotient, n.digits, back)
    left = (product - back) + lost
    return _nearest(left if twice is None else twice.where(left + left, left), n)


def _size(x: UOp, f: Format) -> UOp:
    return (x.bitcast(f.bits) & ((1 << (f.bits.bits - 1)) - 1)).bitcast(x.dtype)


def _signed(size: UOp, like: UOp) -> UOp:
    """A number that is not negative, or a zero, with the sign bit of `like`."""
    f = FORMATS[size.dtype]
    sign = like.bitcast(f.bits) & int(f.bits.min)
    return (_size(size, f).bitcast(f.bits) | sign).bitcast(size.dtype)
