"""Where intermediates live: lifetimes to offsets in one arena, and which step must see which.

A Plan's intermediates are known with their sizes and the first and last step that touches each.
`place` sweeps over the steps and gives each buffer the smallest free gap that holds it (best fit,
neighbours merged), so memory is shared by buffers that never live together. `dependencies` then
follows every byte of every buffer, shared bytes included, and says which earlier step each step
must see: read after write, write after read, write after write. A device may run steps without an
edge between them together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple


class Lifetime(NamedTuple):
    """One intermediate: its size and the steps, both included, between which its bytes matter."""

    nbytes: int
    first: int
    last: int


def place(lifetimes: Sequence[Lifetime], align: int) -> tuple[list[int], int]:
    """Offsets in the arena, multiples of `align`, in the order given, and the arena's size."""
    offsets = [0] * len(lifetimes)
    free = _FreeList()
    order = sorted(range(len(lifetimes)), key=lambda i: (lifetimes[i].first, -lifetimes[i].nbytes))
    ends = sorted(range(len(lifetimes)), key=lambda i: lifetimes[i].last)
    done = 0
    for i in order:
        first = lifetimes[i].first
        while lifetimes[ends[done]].last < first:  # an end never precedes its own start
            j = ends[done]
            free.give(offsets[j], _rounded(lifetimes[j].nbytes, align))
            done += 1
        offsets[i] = free.take(_rounded(lifetimes[i].nbytes, align))
    return offsets, free.top


def _rounded(nbytes: int, align: int) -> int:
    return max(-(-nbytes // align), 1) * align


class _FreeList:
    """Free gaps below `top`, by offset (to merge neighbours) and by size (to find the best)."""

    def __init__(self) -> None:
        self.top = 0
        self.by_offset: dict[int, int] = {}  # offset -> size
        self.by_end: dict[int, int] = {}  # offset + size -> offset
        self.by_size: list[tuple[int, int]] = []  # (size, offset), sorted

    def _add(self, offset: int, size: int) -> None:
        self.by_offset[offset] = size
        self.by_end[offset + size] = offset
        insort(self.by_size, (size, offset))

    def _remove(self, offset: int, size: int) -> None:
        del self.by_offset[offset], self.by_end[offset + size]
        del self.by_size[bisect_left(self.by_size, (size, offset))]

    def take(self, size: int) -> int:
        at = bisect_left(self.by_size, (size, -1))
        if at < len(self.by_size):
            found, offset = self.by_size[at]
            self._remove(offset, found)
            if found > size:
                self._add(offset + size, found - size)
            return offset
        offset = self.top
        if (below := self.by_end.get(self.top)) is not None:  # the last gap grows
            self._remove(below, self.top - below)
            offset = below
        self.top = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        if (after := self.by_offset.get(offset + size)) is not None:
            self._remove(offset + size, after)
            size += after
        if (before := self.by_end.get(offset)) is not None:
            self._remove(before, offset - before)
            size += offset - before
            offset = before
        self._add(offset, size)


class Access(NamedTuple):
    """One step's use of bytes `lo` to `hi` of a memory; memory 0 is the arena."""

    memory: int
    lo: int
    hi: int
    writes: bool


class _Segment:
    """A run of bytes with the step that wrote it last and those that have read it since."""

    __slots__ = ("hi", "lo", "readers", "writer")

    def __init__(self, lo: int, hi: int, writer: int, readers: tuple[int, ...]) -> None:
        self.lo, self.hi, self.writer, self.readers = lo, hi, writer, readers


def dependencies(steps: Sequence[Iterable[Access]]) -> tuple[tuple[int, int], ...]:
    """Edges (earlier, later), each once, in order."""
    memories: dict[int, list[_Segment]] = {}
    edges: set[tuple[int, int]] = set()
    for step, accesses in enumerate(steps):
        for access in sorted(accesses, key=_WRITES):  # an in-place step reads first
            _touch(memories.setdefault(access.memory, []), access, step, edges)
    return tuple(sorted(edges))


def _touch(
    segments: list[_Segment], access: Access, step: int, edges: set[tuple[int, int]]
) -> None:
    """Note an access in `segments`, which are disjoint and sorted, and what it must see."""
    lo, hi, writes = access.lo, access.hi, access.writes
    first = bisect_right(segments, lo, key=_HI)
    last = bisect_left(segments, hi, first, key=_LO)
    made: list[_Segment] = []
    after: list[_Segment] = []
    covered = lo
    for s in segments[first:last]:
        before = s.readers if writes and s.readers else (s.writer,)
        edges.update((b, step) for b in before if b not in (-1, step))
        if s.lo < lo:
            made.append(_Segment(s.lo, lo, s.writer, s.readers))
        if s.hi > hi:
            after.append(_Segment(hi, s.hi, s.writer, s.readers))
        if not writes:
            if covered < s.lo:
                made.append(_Segment(covered, s.lo, -1, (step,)))
            readers = s.readers if step in s.readers else (*s.readers, step)
            covered = min(hi, s.hi)
            made.append(_Segment(max(lo, s.lo), covered, s.writer, readers))
    if writes:
        made.append(_Segment(lo, hi, step, ()))
    elif covered < hi:
        made.append(_Segment(covered, hi, -1, (step,)))
    segments[first:last] = made + after


_LO, _HI = attrgetter("lo"), attrgetter("hi")
_WRITES = attrgetter("writes")
