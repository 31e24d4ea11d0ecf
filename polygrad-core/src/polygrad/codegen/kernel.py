"""Kernel: a loop nest in expression form, and what the schedule language needs to know of it.

`stores` are scalar STOREs over RANGE counters; `order` is the loop order, outermost first; `kinds`
says how each range runs:

=========  ==================================================================================
grid       blocks of the launch: independent, any worker, any order
loop       an ordinary loop
unroll     a loop printed out by the renderer; of a reduction: one accumulator, steps in order
partial    a printed-out reduction range with an accumulator per step, combined afterwards
subtotal   a loop of a reduction or scan whose step ends a block: what a block of a float sum added
           up joins the total, and what that rounds away is kept beside it if blocks are many
vector     the lanes of one vector; of a reduction: lanes are partial sums
=========  ==================================================================================

Nothing is unrolled in the graph: a tile of 4 x 16 is three ranges, whatever its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..dtype import dtypes
from ..uop.linear import ranges_of
from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import rebuild

FEW_BLOCKS = 16  # their totals are rounded less often than the sum of any block, 32 steps or more


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel and how its loops run. `log` is the list of verbs that made it, for people and
    caches.
    """

    stores: tuple[UOp, ...]
    order: tuple[UOp, ...]
    kinds: Mapping[UOp, str]
    log: tuple[tuple[Any, ...], ...] = ()
    recipe: str = ""

    def kind(self, loop: UOp) -> str:
        return self.kinds.get(loop, "loop")

    def of_kind(self, kind: str) -> tuple[UOp, ...]:
        return tuple(r for r in self.order if self.kind(r) == kind)

    def logged(self, *entry: Any) -> Kernel:
        return replace(self, log=(*self.log, entry))

    @property
    def nodes(self) -> tuple[UOp, ...]:
        """All nodes of the stores, sources first."""
        return nodes_of(self.stores)

    @property
    def reductions(self) -> list[UOp]:
        """Every REDUCE, inner ones first."""
        return [n for n in self.nodes if n.op is Ops.REDUCE]

    @property
    def reduced(self) -> set[UOp]:
        """Ranges that a reduction runs over."""
        return {r for node in self.reductions for r in node.src[1:]}

    @property
    def outputs(self) -> tuple[UOp, ...]:
        """Ranges that the stores run over, in loop order, sequential ones of a scatter left out."""
        reduced = self.reduced
        return tuple(r for r in self.order if r not in reduced and r.arg[1] != "seq")

    def fresh(self, count: int = 1) -> int:
        """The first of `count` unused range numbers."""
        return max((r.arg[0] for r in self.order), default=0) + 1


@lru_cache(4)  # a dozen passes in a row look at the same stores
def nodes_of(stores: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """All nodes of `stores`, sources first."""
    return tuple(toposort(stores))


def canonical(sink: UOp) -> Kernel:
    """The kernel of a SINK: outputs outermost, those of many reductions first, then reduced ranges;
    nothing bound, nothing unrolled."""
    loops = sorted((n for n in nodes_of(sink.src) if n.op is Ops.RANGE), key=lambda r: r.arg[0])
    return Kernel(sink.src, tuple(in_place(sink.src, loops)), {})


def in_place(stores: Sequence[UOp], loops: Iterable[UOp]) -> list[UOp]:
    """Loops in an order in which every reduction has its place, else as they were: those around
    many reductions outermost."""
    reductions = [n for n in nodes_of(tuple(stores)) if n.op is Ops.REDUCE]
    reduced = {r for n in reductions for r in n.src[1:]}
    around = [ranges_of(n) for n in reductions]

    def depth(loop: UOp) -> tuple[bool, bool, int]:
        return loop in reduced, loop.arg[1] == "seq", -sum(loop in inside for inside in around)

    return sorted(loops, key=depth)


def misplaced(kernel: Kernel) -> UOp | None:
    """A reduction whose value would not be there when it is read, in this loop order; None if
    legal.

    The loops around a reduction must be the outermost loops of everything that reads it, and what
    a scan carries along has one place: no loop may run inside of its own. Nor may one where a
    reduction keeps its values in scratch, which has room for one row.
    """
    position = {r: i for i, r in enumerate(kernel.order)}
    left = [s for s in kernel.stores if s.src[0].src[0].op is Ops.LOCAL and waiting(kernel)]
    around: dict[UOp, tuple[UOp, ...]] = {}
    needs: dict[UOp, frozenset[UOp]] = {}
    for node in kernel.nodes:
        below = _NONE.union(*(needs[s] for s in node.src))
        needs[node] = frozenset((node,)) if node.op is Ops.REDUCE else below
        if node.op is Ops.SCAN and _inside(kernel, node, position):
            return node
        if keeps(node) and (_inside(kernel, node, position) or _across(kernel, node)):
            return node
        if node in left and _turned(kernel, node, position):
            return node
        if node.op not in (Ops.REDUCE, Ops.STORE):
            continue
        start = len(position)
        if node.op is Ops.REDUCE:
            steps = [position[r] for r in node.src[1:] if kernel.kind(r) != "vector"]
            start = min(steps, default=start)
        loops = [r for r in ranges_of(node) if kernel.kind(r) not in ("grid", "vector")]
        nest = sorted((r for r in loops if position[r] < start), key=position.__getitem__)
        around[node] = tuple(nest)
        for read in below:
            if around[read] != around[node][: len(around[read])]:
                return read
    return None


def _inside(kernel: Kernel, scan: UOp, position: Mapping[UOp, int]) -> bool:
    """Whether a loop stands inside a scan's: lanes and blocks are no loops."""
    own = scan.src[1:]
    start = min(position[r] for r in own)
    others = [r for r in ranges_of(scan.src[0]) if r not in own]
    return any(position[r] > start for r in others if kernel.kind(r) not in ("grid", "vector"))


def _turned(kernel: Kernel, store: UOp, position: Mapping[UOp, int]) -> bool:
    """Whether a loop stands inside of those along which a store leaves something in scratch."""
    own = placing(store)
    start = min((position[r] for r in own), default=len(position))
    others = [r for r in ranges_of(store) if r not in own]
    return any(position[r] > start for r in others if kernel.kind(r) not in ("grid", "vector"))


def placing(store: UOp) -> set[UOp]:
    """The ranges that stand in the address of a store, not those that bound them."""
    nodes = toposort((store.src[0],), lambda n: n.op is not Ops.RANGE)
    return {n for n in nodes if n.op is Ops.RANGE}


def keeps(node: UOp) -> bool:
    """Whether steps of this reduction have effects: it keeps its values in scratch, or the row
    before is written in them (`row_programs.stage` and `delay`)."""
    return node.op is Ops.REDUCE and node.src[0].op is Ops.AFTER


def waiting(kernel: Kernel) -> list[UOp]:
    """Stores to memory that wait for a reduction in a later step (`row_programs.delay`)."""
    effects = [s for n in kernel.reductions if keeps(n) for s in n.src[0].src[1:]]
    return [s for s in effects if s.src[0].src[0].op is Ops.PARAM]


def _across(kernel: Kernel, reduction: UOp) -> bool:
    """Whether its values are vectors along another range than its own."""
    others = ranges_of(reduction.src[0]).difference(reduction.src[1:])
    return any(kernel.kind(r) == "vector" for r in others)


def length(loop: UOp) -> int:
    """Steps of a range with constant bounds."""
    lo, hi = loop.src
    return int(hi.arg) - int(lo.arg)


def extent(loop: UOp) -> int:
    """The most steps a range can take: its length where the bounds are constant."""
    return int(loop.src[1].hi or 0) - int(loop.src[0].lo or 0)


def static(loop: UOp) -> bool:
    return all(s.op is Ops.CONST for s in loop.src)


def steps(loop: UOp) -> UOp:
    """The length of a range as an expression; it may be less than 0 where nothing runs."""
    return loop.src[1] - loop.src[0]


def launchable(loop: UOp) -> bool:
    """Whether a launch knows the length: it starts at a constant and no other loop bounds it."""
    return loop.src[0].op is Ops.CONST and not ranges_of(loop.src[1])


def float_sum(node: UOp) -> bool:
    """A running or whole sum whose roundings add up."""
    summed = node.op in (Ops.REDUCE, Ops.SCAN) and node.arg is Ops.ADD
    return summed and node.dtype.is_float


_NONE: frozenset[UOp] = frozenset()


def substitute(roots: Sequence[UOp], table: Mapping[UOp, UOp]) -> list[UOp]:
    """`roots` with nodes replaced. A reduction over a replaced range runs over those inside its
    replacement; a gate that became known is dropped."""
    new: dict[UOp, UOp] = dict(table)
    for node in toposort(roots, lambda n: n not in table):
        if node in new:
            continue
        src = tuple(new[s] for s in node.src)
        if node.op in (Ops.REDUCE, Ops.SCAN) and src != node.src:
            new[node] = _reduce(node, src)
        else:
            new[node] = rebuild(node, src)
    return [new[r] for r in roots]


def _reduce(node: UOp, src: tuple[UOp, ...]) -> UOp:
    loops: list[UOp] = []
    for part in src[1:]:
        inside = (
            [part] if part.op is Ops.RANGE else [n for n in part.toposort() if n.op is Ops.RANGE]
        )
        loops += [r for r in inside if r not in loops]
    return UOp(node.op, node.dtype, (src[0], *loops), node.arg)


def index_roots(stores: Iterable[UOp]) -> list[UOp]:
    """The maximal index expressions: offsets, and integer operands where the index world ends."""
    out: dict[UOp, None] = {}
    for node in toposort(tuple(stores)):
        if node.op is Ops.RANGE or node.dtype is dtypes.index:
            continue
        for s in node.src:
            if s.dtype is dtypes.index and node.op is not Ops.REDUCE:
                out[s] = None
    return list(out)
