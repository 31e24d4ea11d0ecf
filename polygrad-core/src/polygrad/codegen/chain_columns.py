"""Blocks of columns: a chain that sums over its rows takes a part of all rows at a time.

Floor: codegen, called by `chain.py`. Comes in: the stages of a chain. Goes out: the same over
`width` columns, from a place that a counter tells.

Where an output is a sum over the rows (attention's gradient of queries, with a row for each key),
every block of rows reads and writes all of it, and all that the columns are multiplied by. Long
rows leave room for few in a block, and what they need comes from beyond the second cache each time.
So the columns are cut, until what they need stays there while all blocks of rows pass by:

    the outputs are 0
    a block of columns:
        a block of rows: the stages, over these columns alone

No stage may need more of a row than these columns: an output that adds up a row grows by what each
block gives. Where a mask hides all of a block, nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..uop.linear import ranges_of
from ..uop.ops import Ops, UOp, size, toposort
from .chain_stages import Stage
from .kernel import extent, length, static, substitute
from .limits import Limits, column_read

NAME = "columns"  # of the counter

Loop = tuple[UOp, UOp, UOp]  # a counter, where it starts, where it stops


@dataclass(frozen=True, slots=True)
class Columns:
    """Stages over `width` columns of each row, block `counter` of so many."""

    stages: list[Stage]
    loops: tuple[UOp, ...]  # the range over the columns, of each store
    counter: UOp
    width: int

    @property
    def count(self) -> int:
        return int(self.counter.arg[2]) + 1

    def loops_of(self, rows: tuple[UOp, int], limits: Limits) -> list[Loop]:
        """The loops around the stages: blocks of columns, blocks of rows by their counter and
        number, and one that runs once or, if a mask hides the block, not at all."""
        block = UOp.variable(NAME + "block", 0, self.count - 1)
        start, stop = self._needed(limits)
        zero = UOp.index(0)
        return [
            (block, zero, UOp.index(self.count)),
            (rows[0], zero, UOp.index(rows[1])),
            (self.counter, start.maximum(block), stop.minimum(block + 1)),
        ]

    def _needed(self, limits: Limits) -> tuple[UOp, UOp]:
        """The first block that a block of rows needs, and where to stop."""
        tiles, first, end = self.width // limits.step, limits.first, limits.end
        start, stop = UOp.index(0), UOp.index(self.count)
        if all(r in first for r in self.loops):
            found = dict.fromkeys(self._in_first(first[r]) // tiles for r in self.loops)
            start = _folded(UOp.minimum, list(found))
        if all(r in end for r in self.loops):
            found = dict.fromkeys(-(-self._in_first(end[r]) // tiles) for r in self.loops)
            stop = _folded(UOp.maximum, list(found))
        return start, stop

    def _in_first(self, limit: UOp) -> UOp:
        """A limit counted from the first column of all."""
        return substitute((limit,), {self.counter: UOp.index(0)})[0]


def _folded(of: Callable[[UOp, UOp], UOp], values: Sequence[UOp]) -> UOp:
    out, *rest = values
    for value in rest:
        out = of(out, value)
    return out


def cut(stages: Sequence[Stage], most: int, step: int) -> Columns | None:
    """Stages over blocks of columns, at most so many and a multiple of `step`; None where they need
    whole rows, or these have no such part."""
    walked = [_walked(stage) for stage in stages]
    loops = [r for some in walked for r in some]
    if not all(walked) or not all(map(static, loops)) or len({length(r) for r in loops}) > 1:
        return None
    n = length(loops[0])
    width = max((d for d in range(step, most + 1, step) if n % d == 0), default=n)
    if width == n:
        return None
    counter = UOp.variable(NAME, 0, n // width - 1)
    table = {r: UOp.range(0, width, *r.arg) for r in loops}
    made = [_part(stage, table, counter * width) for stage in stages]
    return Columns(made, tuple(table.values()), counter, width)


def operands(stages: Sequence[Stage], rows: Sequence[UOp]) -> int:
    """Bytes of memory that a column of all rows needs, scratch aside."""
    found: dict[UOp, int] = {}
    for stage in stages:
        columns = set(_walked(stage))
        for node in toposort(stage.stores):
            inside = ranges_of(node)
            if node.op is Ops.INDEX and node.src[0].op is Ops.PARAM and inside & columns:
                elements = size([extent(r) for r in inside - columns - set(rows)])
                nbytes = elements * node.dtype.itemsize
                found[node.src[0]] = max(nbytes, found.get(node.src[0], 0))
    return sum(found.values())


def grows(stage: Stage) -> bool:
    """Does a stage write outputs with a row of their own for each row?"""
    return stage.local is None and stage.sums is None


def _walked(stage: Stage) -> list[UOp]:
    """The range over the columns of each store; none where a stage needs more than one of them at a
    time, or does anything but add them up."""
    found = [_added(s) for s in stage.stores] if grows(stage) else [stage.column]
    kept = [n for n in toposort(stage.stores) if n.op is Ops.INDEX and n.src[0].op is Ops.LOCAL]
    known = [r for r in found if r is not None]
    read = {column_read(n.load()) for n in kept}
    return known if len(known) == len(found) and read <= set(known) else []


def _added(store: UOp) -> UOp | None:
    """The range over which an output is a sum, or a constant times a sum."""
    value = store.src[1]
    if value.op is Ops.MUL and value.src[1].op is Ops.CONST:
        value = value.src[0]
    plain = len(store.src) == 2 and store.arg is None and value.dtype is store.src[0].dtype
    if not plain or value.op is not Ops.REDUCE or value.arg is not Ops.ADD:
        return None
    return value.src[1] if len(value.src) == 2 else None


def _part(stage: Stage, table: Mapping[UOp, UOp], start: UOp) -> Stage:
    """A stage over a part of its columns: rows of LOCALs hold no more than that."""
    new = {r: part + start for r, part in table.items()}
    for node in toposort(stage.stores):
        if node.op is Ops.INDEX and node.src[0].op is Ops.LOCAL:
            local, walked = node.src
            _, space, number = local.arg
            part = UOp(Ops.LOCAL, local.dtype, (), (length(table[walked]), space, number))
            new[node] = UOp(Ops.INDEX, local.dtype, (part, table[walked]))
    stores = tuple(substitute(stage.stores, new))
    if grows(stage):
        stores = tuple(s.src[0].store(s.src[0].load() + s.src[1]) for s in stores)
    kept = None if stage.column is None else table[stage.column]
    return replace(stage, stores=stores, column=kept)
