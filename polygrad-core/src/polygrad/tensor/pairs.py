"""Pairs: numbers of twice a format's digits, each an unevaluated sum of two floats.

Floor: tensor, formulas of nodes. `low` is what rounding to `high` left over, so a sum of two pairs
that cancels still has all the digits of a float. Arithmetic after Dekker 1971, "A floating-point
technique for extending the available precision", and Knuth (TAOCP 2, 4.2.2, theorem B): some 20
operations for one, and errors of a few parts in 2^46 for float32. Nothing here takes infinities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..uop.ops import UOp
from .formulas import product_error


class Pair(NamedTuple):
    """high + low, |low| being about half a unit in the last place of high at most."""

    high: UOp
    low: UOp

    def rounded(self) -> UOp:
        return self.high + self.low

    def negated(self) -> Pair:
        return Pair(-self.high, -self.low)

    def halved(self) -> Pair:
        return Pair(self.high * 0.5, self.low * 0.5)

    def chosen(self, condition: UOp, other: Pair) -> Pair:
        """This one where the condition holds, elsewhere the other."""
        return Pair(condition.where(self.high, other.high), condition.where(self.low, other.low))


def constant(like: UOp, high: float, low: float = 0.0) -> Pair:
    return Pair(like._with(high), like._with(low))


def exact(x: UOp) -> Pair:
    return Pair(x, x._with(0.0))


def two_sum(a: UOp, b: UOp) -> Pair:
    """a + b exactly."""
    total = a + b
    rest = total - a
    return Pair(total, (a - (total - rest)) + (b - rest))


def _settled(big: UOp, small: UOp) -> Pair:
    """big + small exactly, for |big| >= |small| or big = 0."""
    total = big + small
    return Pair(total, small - (total - big))


def added(a: Pair, b: Pair) -> Pair:
    total = two_sum(a.high, b.high)
    return _settled(total.high, total.low + (a.low + b.low))


def times(a: Pair, x: UOp) -> Pair:
    """A pair times a float."""
    product = a.high * x
    return _settled(product, product_error(a.high, x, product) + a.low * x)


def multiplied(a: Pair, b: Pair) -> Pair:
    product = a.high * b.high
    crossed = a.high * b.low + a.low * b.high
    return _settled(product, product_error(a.high, b.high, product) + crossed)


def divided(a: Pair, b: Pair) -> Pair:
    """The quotient of the heads, and what is left over divided once more."""
    quotient = a.high / b.high
    back = times(b, quotient)
    rest = (a.high - back.high) - back.low + a.low
    return _settled(quotient, rest / b.high)


def polynomial(x: Pair, heads: Sequence[float], lows: Sequence[float] = ()) -> Pair:
    """Horner's rule for coefficients heads + lows, lowest power first. Those beyond `lows` are
    floats, and are summed as such."""
    count = len(lows)
    high = x.high._with(heads[-1])
    for c in reversed(heads[count:-1]):
        high = high * x.high + c
    low = high._with(0.0)
    for head, rest in reversed(list(zip(heads, lows, strict=False))):
        product = high * x.high
        lost = product_error(high, x.high, product) + (high * x.low + low * x.high)
        total = two_sum(product, product._with(head))
        high, low = total.high, total.low + (lost + rest if rest else lost)
    return _settled(high, low)
