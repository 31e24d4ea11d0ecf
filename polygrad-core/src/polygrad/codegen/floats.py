"""Floating-point formats as integers, and the small pieces that every expansion is made of.

Floor: codegen. In: scalar UOps of float32 or float64. Out: UOps of plain arithmetic, without
branches, so that they can be widened to lanes.

A product and a sum round twice, and so give the same bits on every machine, unless the format of an
expansion is `fused`: then they are one FMA. Exponentials are, where the Target has it; no step of
theirs relies on either rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..dtype import DType, dtypes
from ..float_layout import LAYOUTS
from ..target import Target
from ..uop.ops import Ops, UOp
from . import polynomials

INFINITY: Final = float("inf")
NAN: Final = float("nan")


class Format(NamedTuple):
    """A float format: the integer types of its width, where its exponent starts, its bias."""

    dtype: DType
    signed: DType
    unsigned: DType
    shift: int  # bits of the stored mantissa
    bias: int
    coefficients: dict[str, tuple[float, ...]]
    fused: bool = False  # a product and a sum are one operation, and round once

    @property
    def sign(self) -> int:
        return 1 << (self.dtype.bits - 1)

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return float(2.0 ** (1 - self.bias))

    @property
    def digits(self) -> int:
        """Bits of precision, the hidden one included."""
        return self.shift + 1


def _format(
    dtype: DType, signed: DType, unsigned: DType, coefficients: dict[str, tuple[float, ...]]
) -> Format:
    layout = LAYOUTS[dtype.name]
    return Format(dtype, signed, unsigned, layout.mantissa, layout.bias, coefficients)


FORMATS: Final = {
    f.dtype: f
    for f in (
        _format(dtypes.float32, dtypes.int32, dtypes.uint32, polynomials.FLOAT32),
        _format(dtypes.float64, dtypes.int64, dtypes.uint64, polynomials.FLOAT64),
    )
}


def fused_format(dtype: DType, target: Target) -> Format | None:
    """The format of an expansion whose products and sums are one where the target can."""
    f = FORMATS.get(dtype)
    return None if f is None else f._replace(fused=target.supports(Ops.FMA, dtype))


def muladd(a: UOp, b: UOp | float, c: UOp | float, f: Format) -> UOp:
    """a b + c"""
    if not f.fused:
        return a * b + c
    return UOp(Ops.FMA, f.dtype, (a, _constant_like(b, a), _constant_like(c, a)))


def minimum(a: UOp | float, b: UOp) -> UOp:
    """a < b ? a : b, in one instruction; a NaN in `b` stays."""
    return UOp(Ops.MIN, b.dtype, (_constant_like(a, b), b))


def maximum(a: UOp | float, b: UOp) -> UOp:
    """a > b ? a : b, in one instruction; a NaN in `b` stays."""
    return UOp(Ops.MAX, b.dtype, (_constant_like(a, b), b))


def _constant_like(a: UOp | float, b: UOp) -> UOp:
    return a if isinstance(a, UOp) else UOp.const(b.dtype, a)


def clamp(x: UOp, lo: float, hi: float) -> UOp:
    return maximum(lo, minimum(hi, x))


def horner(x: UOp, coefficients: Sequence[float], f: Format) -> UOp:
    """c0 + x (c1 + x (c2 + …))"""
    total = UOp.const(x.dtype, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = muladd(total, x, c, f)
    return total


def by_pairs(x: UOp, square: UOp, coefficients: Sequence[float], f: Format) -> UOp:
    """(c0 + c1 x) + x^2 ((c2 + c3 x) + …): as many steps as `horner`, half of them waiting for the
    one before (after Estrin, 1960)."""
    pairs = [horner(x, coefficients[i : i + 2], f) for i in range(0, len(coefficients), 2)]
    total = pairs.pop()
    for pair in reversed(pairs):
        total = muladd(square, total, pair, f)
    return total


def magnitude(x: UOp, f: Format) -> UOp:
    """|x|, one AND."""
    return (x.bitcast(f.unsigned) & (f.sign - 1)).bitcast(f.dtype)


def with_sign_of(x: UOp, source: UOp, f: Format) -> UOp:
    """A non-negative `x` with the sign of `source`."""
    return (x.bitcast(f.unsigned) | (source.bitcast(f.unsigned) & f.sign)).bitcast(f.dtype)


def high_part(x: UOp, f: Format) -> UOp:
    """`x` cut to the upper half of its digits: such parts multiply exactly."""
    kept = int(f.unsigned.max) ^ ((1 << -(-f.digits // 2)) - 1)
    return (x.bitcast(f.unsigned) & kept).bitcast(f.dtype)


def is_nan(x: UOp) -> UOp:
    return x.ne(x)


def two_sum(big: UOp, small: UOp) -> tuple[UOp, UOp]:
    """The sum and its rounding error, for |big| >= |small| or big = 0 (Dekker, 1971)."""
    total = big + small
    return total, small - (total - big)


def two_product(a: UOp, b: UOp, f: Format) -> tuple[UOp, UOp]:
    """The product and its rounding error, by cutting both factors in halves (after Dekker, 1971).

    All low parts have the sign of the whole, so the order of the additions matters: each partial
    sum then still fits the format.
    """
    product = a * b
    a_high, b_high = high_part(a, f), high_part(b, f)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error
