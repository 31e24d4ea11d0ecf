"""Masks of vectors, compared in 32 bits: each lane's own number against one number for all lanes.

`lo <= base + lane` compares positions, which are 64 bits wide: a vector of 8 floats would need
two of positions, and their masks packed into one. But a lane's number is small, so
`lane >= lo - base` is the same, once the number on the right is clamped to what can make a
difference. A condition that all lanes share becomes part of that number.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..dtype import dtypes
from ..uop.linear import coefficient, ranges_of
from ..uop.ops import Ops, UOp
from .kernel import Kernel, length, static

ORDERS: Final = frozenset({Ops.CMPLT, Ops.CMPLE})


class Bound(NamedTuple):
    """`op(step * lane, number)`; nothing at or beyond `reach` in size makes a difference."""

    op: Ops
    lane: UOp
    step: int
    number: UOp
    reach: int

    def where(self, condition: UOp) -> Bound:
        """The same, but false unless `condition` holds."""
        return self._replace(number=_select(condition, self.number, UOp.index(-self.reach)))

    def node(self) -> UOp:
        number = self.number
        for far, op in ((-self.reach, Ops.CMPLT), (self.reach, Ops.CMPLE)):
            limit = UOp.index(far)
            sides = (number, limit) if op is Ops.CMPLT else (limit, number)
            if any(s.lo is None or s.hi is None for s in sides) or not _never(op, *sides):
                number = _select(UOp(op, dtypes.bool, sides), limit, number)
        step = UOp.const(dtypes.int32, self.step)
        left = UOp(Ops.CAST, dtypes.int32, (self.lane,))
        left = UOp(Ops.MUL, dtypes.int32, (left, step)) if self.step != 1 else left
        right = UOp(Ops.CAST, dtypes.int32, (number,))
        return UOp(self.op, dtypes.bool, (left, right))


def narrow_masks(kernel: Kernel) -> list[UOp]:
    """The stores of a kernel, their masks in 32 bits where they compare positions."""
    lanes = [r for r in kernel.of_kind("vector") if static(r)]
    new: dict[UOp, UOp] = {}
    bounds: dict[UOp, Bound] = {}  # by the node that was made for it
    for node in kernel.nodes:
        made = _over(node, tuple(new[s] for s in node.src))
        if made.op in ORDERS and made.src[0].dtype is dtypes.index:
            found = _bound(made, lanes)
            if found is not None:
                made = found.node()
                bounds[made] = found
        elif made.op is Ops.AND and made.dtype is dtypes.bool:
            for mask, other in (made.src, made.src[::-1]):
                if mask in bounds and not ranges_of(other).intersection(lanes):
                    both = bounds[mask].where(other)
                    made = both.node()
                    bounds[made] = both
                    break
        new[node] = made
    return [new[s] for s in kernel.stores]


def _over(node: UOp, src: tuple[UOp, ...]) -> UOp:
    return node if src == node.src else UOp(node.op, node.dtype, src, node.arg)


def _bound(node: UOp, lanes: list[UOp]) -> Bound | None:
    """`a < b` as `step * lane < b - a without the lane`."""
    a, b = node.src
    inside = [r for r in lanes if r in ranges_of(node)]
    if len(inside) != 1:
        return None
    (lane,) = inside
    step = coefficient(a - b, lane)
    number = b - a + lane * (step or 0)
    if not step or lane in ranges_of(number):
        return None
    return Bound(node.op, lane, step, number, abs(step) * length(lane) + 1)


def _select(condition: UOp, yes: UOp, no: UOp) -> UOp:
    return UOp(Ops.WHERE, dtypes.index, (condition, yes, no))


def _never(op: Ops, a: UOp, b: UOp) -> bool:
    """Is an order of two positions known to be false?"""
    return bool(a.lo >= b.hi if op is Ops.CMPLT else a.lo > b.hi)  # type: ignore[operator]
