"""Long float sums in blocks: the last verbs of every recipe.

A running sum of n equal float32 numbers is wrong by up to n / 2^26, and stands still at 2^24. So
the loops of a long sum are cut where the steps inside make a block; the totals over more than a
few blocks keep what their roundings lose (`transform.subtotals`). The error is then that of one
block, whatever n. The cut comes from the lengths and the loop order, so from the shape alone.
"""

from __future__ import annotations

from typing import Final

from ...uop.linear import ranges_of
from ...uop.ops import UOp, size
from ..kernel import Kernel, extent, float_sum, length, static
from ..transform import block, parts_of, subtotals

BLOCK: Final = 32  # steps: equal numbers are at most 2^-21 off
FAR_BLOCK: Final = 512  # where accumulators are more than registers hold, and a total costs more


def in_blocks(kernel: Kernel) -> Kernel:
    """The kernel with its long float sums, whole and running, in blocks."""
    for i in range(len(_sums(kernel))):
        kernel = _in_blocks(kernel, _sums(kernel)[i])
    return kernel


def unblocked(kernel: Kernel) -> bool:
    """Has a sum more steps than a block, which are printed out one by one and cannot be cut?"""
    for node in _sums(kernel):
        kinds = {r: kernel.kind(r) for r in node.src[1:]}
        steps = [extent(r) for r, kind in kinds.items() if kind in ("loop", "unroll")]
        if "subtotal" not in kinds.values() and size(steps) > _most(kernel, node):
            return True
    return False


def _sums(kernel: Kernel) -> list[UOp]:
    return [n for n in kernel.nodes if float_sum(n)]


def _in_blocks(kernel: Kernel, node: UOp) -> Kernel:
    own = [r for r in reversed(kernel.order) if r in node.src[1:]]
    if any(kernel.kind(r) == "subtotal" for r in own):
        return kernel
    inside = size([length(r) for r in own if kernel.kind(r) == "unroll"])
    most = _most(kernel, node)
    for loop in (r for r in own if kernel.kind(r) == "loop"):
        if inside * extent(loop) > most:
            return _cut(kernel, loop, max(1, most // inside))
        inside *= extent(loop)
    return kernel


def _most(kernel: Kernel, node: UOp) -> int:
    return FAR_BLOCK if _far(kernel, node) else BLOCK


def _far(kernel: Kernel, node: UOp) -> bool:
    """Does one walk of the loops serve a tile of products, or a strip of results in memory? Not of
    sums whose lanes are partial ones: rows have short blocks in any order that a search finds."""
    if kernel.recipe == "contraction":
        return True
    if any(kernel.kind(r) == "vector" for r in node.src[1:]):
        return False
    own = [kernel.order.index(r) for r in node.src[1:] if kernel.kind(r) == "loop"]
    inner = kernel.order[min(own, default=len(kernel.order)) :]
    strip = (r for r in inner if r not in node.src[1:] and r in ranges_of(node))
    return any(kernel.kind(r) == "loop" for r in strip)


def _cut(kernel: Kernel, loop: UOp, steps: int) -> Kernel:
    if steps == 1:
        return subtotals(kernel, loop)
    made = block(kernel, loop, _even(length(loop), steps) if static(loop) else steps)
    return subtotals(made, parts_of(kernel, made)[0])


def _even(n: int, most: int) -> int:
    """Steps of a block: a divisor of n if a large one is there, else blocks that differ little."""
    divisors = (d for d in range(most, most // 2, -1) if n % d == 0)
    return next(divisors, -(-n // -(-n // most)))
