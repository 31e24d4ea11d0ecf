"""Kernels whose reductions are written as loops with accumulators, in an order of their own.

Floor: codegen, before 64-bit integers become words (`words.py`). A product of such integers needs
both words of what it was before at each step, and so does a running extreme: on a machine of 32
bits they cannot be made of reductions of single words as a sum can. In: the SINK of a kernel
without an order. Out: the same as an ordered kernel (`ordered.py`), where each reduction and each
running one is a LOCAL that takes one value after the other; a LOCAL of 64 bits becomes one of two
words like any other memory.

Each reduction gets loops of its own, and so do stores that run over other elements than the rest:
a loop stands in one place only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import dtypes
from ..uop.linear import ranges_of
from ..uop.nest import accumulator, expanded
from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import rebuild
from .kernel import substitute


def with_accumulators(sink: UOp) -> UOp:
    """The ordered kernel that computes the same."""
    return expanded(_Written(sink).sink())


class _Written:
    """One kernel on its way: loops already have numbers up to `number`, LOCALs up to `ident`."""

    def __init__(self, sink: UOp) -> None:
        self.old = sink
        nodes = sink.toposort()
        self.number = 1 + max((n.arg[0] for n in nodes if n.op is Ops.RANGE), default=0)
        self.ident = 0
        self.known: dict[UOp, UOp] = {}  # what nodes became

    def sink(self) -> UOp:
        groups: dict[frozenset[UOp], list[UOp]] = {}
        for store in self.old.src:
            groups.setdefault(ranges_of(store), []).append(store)
        ends = tuple(self._closed(stores, loops) for loops, stores in groups.items())
        return UOp(Ops.SINK, self.old.dtype, ends, self.old.arg)

    def _closed(self, stores: Sequence[UOp], loops: frozenset[UOp]) -> UOp:
        """Stores that run over the same elements, their loops around them: those of a running
        reduction innermost."""
        order = sorted(loops, key=lambda r: (r.arg[1] == "seq", r.arg[0]))
        table = self._fresh(order)
        return UOp(Ops.END, dtypes.void, (*self._over(substitute(stores, table)), *table.values()))

    def _fresh(self, loops: Sequence[UOp]) -> dict[UOp, UOp]:
        """Loops of other numbers."""
        first = self.number
        self.number += len(loops)
        return {r: UOp.range(r.src[0], r.src[1], first + i, r.arg[1]) for i, r in enumerate(loops)}

    def _over(self, roots: Sequence[UOp]) -> list[UOp]:
        """`roots` over reductions that have loops of their own, and scans that are accumulators."""
        for node in toposort(roots, lambda n: n.op is not Ops.REDUCE):
            if node in self.known:
                continue
            if node.op is Ops.REDUCE:
                self.known[node] = self._reduced(node)
            else:
                src = tuple(self.known[s] for s in node.src)
                scan = node.op is Ops.SCAN
                self.known[node] = self._scanned(node, src) if scan else rebuild(node, src)
        return [self.known[r] for r in roots]

    def _reduced(self, node: UOp) -> UOp:
        table = self._fresh(node.src[1:])
        (value,) = self._over(substitute((node.src[0],), table))
        return UOp(Ops.REDUCE, node.dtype, (value, *table.values()), node.arg)

    def _scanned(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        self.ident += 1
        read, step = accumulator(UOp(node.op, node.dtype, src, node.arg), self.ident)
        return read(step)
