"""Offsets in the order of the loops, so that a loop's body adds one term to what was known before
it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import dtypes
from ..uop.linear import ranges_of
from ..uop.ops import Ops, UOp
from ..uop.rewrite import over
from .kernel import Kernel


def ordered_offsets(kernel: Kernel) -> list[UOp]:
    """Write each offset as a chain of sums, outer loops first and the vector range last.

    The chain is built as it stands, without simplification: what an inner loop needs of it is then
    one addition to a part that was computed before the loop.
    """
    position = {r: i for i, r in enumerate(kernel.order)}
    vectors = set(kernel.of_kind("vector"))
    grid = set(kernel.of_kind("grid"))

    def depth(term: UOp) -> tuple[bool, int]:
        inside = ranges_of(term)
        if not inside:  # constants fold into addresses: last of the scalar part
            return False, len(position)
        return bool(inside & vectors), max((position[r] for r in inside - grid), default=-1)

    new: dict[UOp, UOp] = {}
    for node in kernel.nodes:
        src = tuple(new[s] for s in node.src)
        if node.op is Ops.INDEX:
            src = (src[0], chain(sorted(terms(src[1]), key=depth)))
        new[node] = over(node, src)
    return [new[s] for s in kernel.stores]


def terms(offset: UOp) -> list[UOp]:
    """The summands of an index expression, without recursion."""
    out: list[UOp] = []
    stack = [offset]
    while stack:
        node = stack.pop()
        if node.op is Ops.ADD:
            stack += reversed(node.src)
        elif node.op is not Ops.CONST or node.arg != 0:
            out.append(node)
    return out


def chain(parts: Sequence[UOp]) -> UOp:
    """A left-leaning sum of `parts` exactly as given."""
    if not parts:
        return UOp.index(0)
    total = parts[0]
    for part in parts[1:]:
        total = UOp(Ops.ADD, dtypes.index, (total, part))
    return total


def along(offset: UOp, lane: UOp) -> tuple[UOp, int | None]:
    """The offset at lane 0 and its step from lane to lane; None where it is not linear.

    Works on the chains of `ordered_offsets`, in which the lane's summand is the last.
    """
    if lane not in ranges_of(offset):
        return offset, 0
    if offset.op is not Ops.ADD:
        return UOp.index(0), _step(offset, lane)
    rest, last = offset.src
    return rest, None if lane in ranges_of(rest) else _step(last, lane)


def _step(term: UOp, lane: UOp) -> int | None:
    if term is lane:
        return 1
    if term.op is Ops.MUL and term.src[0] is lane and term.src[1].op is Ops.CONST:
        return int(term.src[1].arg)
    return None
