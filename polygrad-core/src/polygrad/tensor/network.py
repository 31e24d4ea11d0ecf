"""Short rows in order: a sorting network whose lanes are rows.

Batcher's merge exchange (Knuth, The Art of Computer Programming, volume 3, 5.2.2, algorithm M; for
any number of elements 5.3.4) compares the same places whatever the elements are, so a vector of
rows goes through it at once. A block of the grid has as many rows as 64 bytes have words; they
stand column by column in a LOCAL. Runs of 8 are exchanged in registers, longer ones in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..dtype import DType
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, UOp
from .loops import Loops, words_of

LONGEST: Final = 512  # elements of a row: what the first cache holds of a block's rows
_BLOCK: Final = 64  # bytes of a column of a block
_RUN: Final = 8
_RAGGED: Final = 8  # a row is filled up to a multiple of this part of the next power of two


def network(words: UOp) -> UOp:
    """Each row of a matrix of unsigned words in order, all their bits counting."""
    rows, n = words.shape
    return call(_network(rows, n, words.dtype), [(0, words)], [(1, words.dtype, (rows, n))])[0]


@library
def _network(rows: int, n: int, dtype: DType) -> UOp:
    words_of(dtype, 0 < n <= LONGEST)
    source, out = (Placeholder.param(slot, dtype, (rows, n)) for slot in (0, 1))
    columns = _Columns(rows, n, dtype)
    done = columns.exchanged(columns.filled(source))
    return finished(columns.emptied(done, out).end(columns.block).sink(arg=KernelInfo("network")))


def _exchanges(n: int) -> Iterator[tuple[int, int]]:
    """The pairs of places that a network for n elements compares, n a power of two."""
    for merged, step in _levels(1, n):
        first = 0 if step == merged else step
        for start in range(first, n - step, 2 * step):
            for i in range(start, start + step):
                if i // (2 * merged) == (i + step) // (2 * merged):
                    yield i, i + step


def _levels(run: int, n: int) -> Iterator[tuple[int, int]]:
    """(length of the runs that are merged, distance of the places compared), from sorted runs."""
    while run < n:
        step = run
        while step:
            yield run, step
            step //= 2
        run *= 2


class _Columns:
    """The rows of a block, column by column."""

    def __init__(self, rows: int, n: int, dtype: DType) -> None:
        self.rows, self.n, self.dtype = rows, n, dtype
        self.width = _BLOCK // dtype.itemsize
        part = max(_RUN, (1 << (n - 1).bit_length()) // _RAGGED)
        self.length = -(-n // part) * part
        self.loops = Loops()
        self.block = self.loops(0, -(-rows // self.width), "grid")
        self.memory = local(dtype, self.length * self.width, 0)

    def inside(self, row: UOp) -> UOp | None:
        return row < self.rows if self.rows % self.width else None

    def filled(self, source: Placeholder) -> UOp:
        """The effect of reading them. What fills up the columns is last in any order."""
        lane, i = self.loops(0, self.width), self.loops(0, self.n)
        row = self.block * self.width + lane
        memory = self.memory.after(self.block)
        value = source[row, i].load(self.inside(row))
        done = memory[i * self.width + lane].store(value).end(lane, i)
        if self.length == self.n:
            return done
        j = self.loops(self.n * self.width, self.length * self.width)
        return done.group(memory[j].store(self.dtype.max).end(j))

    def emptied(self, done: UOp, out: Placeholder) -> UOp:
        lane, i = self.loops(0, self.width), self.loops(0, self.n)
        row = self.block * self.width + lane
        value = self.memory.after(done)[i * self.width + lane].load()
        return out[row, i].store(value, gate=self.inside(row)).end(lane, i)

    def exchanged(self, done: UOp) -> UOp:
        done = self.runs(done)
        for run, step in _levels(_RUN, self.length):
            done = self.level(done, run, step)
        return done

    def runs(self, done: UOp) -> UOp:
        run, lane = self.loops(0, self.length // _RUN), self.loops(0, self.width)
        memory = self.memory.after(done, run)
        places = [memory[(run * _RUN + k) * self.width + lane] for k in range(_RUN)]
        values = [p.load() for p in places]
        for i, j in _exchanges(_RUN):
            a, b = values[i], values[j]
            values[i], values[j] = a.minimum(b), a.maximum(b)
        stores = [p.store(v) for p, v in zip(places, values, strict=True)]
        return stores[0].group(*stores[1:]).end(run, lane)

    def level(self, done: UOp, run: int, step: int) -> UOp:
        """The exchanges over one distance: in each pair of runs, groups of `step` neighbours."""
        pair = self.loops(0, -(-self.length // (2 * run)))
        loops, first = [pair], pair * (2 * run)
        if step < run:
            group = self.loops(0, run // step - 1)
            loops.append(group)
            first = first + group * (2 * step) + step
        whole = self.length % (2 * run) == 0
        if step > 1 or not whole:
            left = (UOp.index(self.length - step) - first).minimum(step).maximum(0)
            neighbour = self.loops(0, step if whole else left)
            loops.append(neighbour)
            first = first + neighbour
        lane = self.loops(0, self.width)
        memory = self.memory.after(done, *loops)
        low, high = (memory[at * self.width + lane] for at in (first, first + step))
        a, b = low.load(), high.load()
        return low.store(a.minimum(b)).group(high.store(a.maximum(b))).end(*loops, lane)
