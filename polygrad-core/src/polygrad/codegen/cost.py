"""How much work a kernel is: what an executor needs to decide whether splitting it pays.

Counts follow from index dependence: an operation runs once for every combination of the ranges its
value depends on, hoisting being what the linearizer does.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..uop.costs import COSTS
from ..uop.linear import ranges_of
from ..uop.ops import ELEMENTWISE, Ops, UOp
from .kernel import Kernel, extent


def operations(kernel: Kernel) -> int:
    """Scalar arithmetic operations of one launch, offsets and conditions aside."""
    total = 0
    for node in kernel.nodes:
        if node.op is Ops.REDUCE:
            total += _times(ranges_of(node.src[0]))
        elif node.op is Ops.FMA:
            total += 2 * _times(ranges_of(node))
        elif node.op in ELEMENTWISE or node.op in (Ops.MAX, Ops.MIN):
            if node.dtype is not dtypes.index and node.dtype.kind != "bool":
                total += _times(ranges_of(node))
    return total


def traffic(kernel: Kernel) -> int:
    """Distinct bytes read and written by one launch, an estimate."""
    touched: dict[tuple[UOp, Ops], int] = {}
    for node in kernel.nodes:
        if node.op in (Ops.LOAD, Ops.STORE):
            param = node.src[0].src[0]
            if param.op is Ops.LOCAL:
                continue
            elements = min(_times(ranges_of(node.src[0])), param.arg[1])
            key = (param, node.op)
            touched[key] = max(touched.get(key, 0), elements * param.dtype.itemsize)
    return sum(touched.values())


def printed(kernel: Kernel) -> int:
    """Instructions of the body once its unrolled loops are printed out, an estimate."""
    total = 0
    for node in kernel.nodes:
        if node.op in ELEMENTWISE or node.op in (Ops.LOAD, Ops.STORE, Ops.REDUCE):
            inside = ranges_of(node.src[0] if node.op is Ops.REDUCE else node)
            loops = [r for r in inside if kernel.kind(r) in ("unroll", "partial")]
            total += COSTS.get(node.op, 1) * _times(frozenset(loops))
    return total


def _times(loops: frozenset[UOp]) -> int:
    total = 1
    for loop in loops:
        total *= max(extent(loop), 1)
    return total
