"""Elements of long rows by their rank, without putting the rows in order.

The key of a rank is found digit by digit from the first: of the elements that begin with the digits
known so far, count how often each next digit occurs, and see in whose count the rank falls. Then
the elements with that key, or below it, are looked for in order, in chunks that have some. All is
as in a stable sort: of equal elements the first come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..dtype import DType, dtypes
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, Ops, UOp
from .joining import concatenate
from .loops import Loops, within, words_of
from .ordering import beside, by_chunk, chunk_of, order, picked, total

PART: Final = 1 << 14  # elements that one block counts
_BITS: Final = 8  # of a digit
_DIGITS: Final = 1 << _BITS


class Found(NamedTuple):
    """Of each row: the key of a rank, and how many of the elements with that key come before."""

    key: UOp
    rest: UOp


def least(key: UOp, bits: int, count: int) -> UOp:
    """The places (int32) of the `count` least elements of each row of keys of so many bits, in
    order."""
    found = by_rank(key, bits, [count - 1])[0]
    places = _collected(key, found, count)
    return picked(places, order(picked(key, places), bits))


def places_of(key: UOp, bits: int, ranks: Sequence[int]) -> UOp:
    """The places (int32) of the elements of these ranks, a column each."""
    return concatenate([_place(key, found) for found in by_rank(key, bits, ranks)], 1)


def by_rank(key: UOp, bits: int, ranks: Sequence[int]) -> list[Found]:
    """The keys of ascending ranks. The last rank, and the one after another, take no counting."""
    found: list[Found] = []
    for i, rank in enumerate(ranks):
        if rank == key.shape[1] - 1:
            found.append(_last(key))
        elif i and rank == ranks[i - 1] + 1:
            found.append(_after(key, found[-1]))
        else:
            found.append(_searched(key, bits, rank))
    return found


def _everywhere(column: UOp, key: UOp) -> UOp:
    return column.reshape((key.shape[0], 1)).expand(key.shape)


def _last(key: UOp) -> Found:
    top = key.reduce(Ops.MAXIMUM, (1,)).contiguous()
    return Found(top, total(by_chunk(key.eq(_everywhere(top, key)))) - 1)


def _after(key: UOp, found: Found) -> Found:
    """What comes next: the same key again, or the least that is greater."""
    same = total(by_chunk(key.eq(_everywhere(found.key, key))))
    again = found.rest + 1 < same
    greater = _everywhere(found.key, key) < key
    next_ = greater.where(key, key.dtype.max).reduce(Ops.MINIMUM, (1,))
    chosen = again.where(found.key, next_).contiguous()
    return Found(chosen, again.where(found.rest + 1, 0).contiguous())


def _searched(key: UOp, bits: int, rank: int) -> Found:
    rows = key.shape[0]
    prefix = UOp.const(key.dtype, 0).broadcast_to((rows,))
    rest = UOp.const(dtypes.int32, rank).broadcast_to((rows,))
    shifts = range(0, bits, _BITS)
    for shift in reversed(shifts):
        counts = _counted(key, prefix, shift, shift == shifts[-1])
        through = counts.reduce(Ops.ADD, (1,)).scan(Ops.ADD, 1)
        passed = through <= rest.reshape((rows, 1)).expand(through.shape)
        digit = passed.cast(dtypes.int32).reduce(Ops.ADD, (1,)).cast(key.dtype)
        prefix = ((prefix << _BITS) | digit).contiguous()
        rest = (rest - passed.where(through, 0).reduce(Ops.MAXIMUM, (1,))).contiguous()
    return Found(prefix, rest)


# ---- kernels


def _counted(key: UOp, prefix: UOp, shift: int, first: bool) -> UOp:
    """How often each digit occurs in each part of each row after the prefix."""
    rows, n = key.shape
    sink = _select_count(rows, n, key.dtype, shift, first)
    sources = [(0, key)] if first else [(0, key), (1, prefix)]
    return call(sink, sources, [(2, dtypes.int32, (rows, -(-n // PART), _DIGITS))])[0]


@library
def _select_count(rows: int, n: int, dtype: DType, shift: int, first: bool) -> UOp:
    words_of(dtype, shift < dtype.bits)
    key, prefix = Placeholder.param(0, dtype, (rows, n)), Placeholder.param(1, dtype, (rows,))
    out = Placeholder.param(2, dtypes.int32, (rows, -(-n // PART), _DIGITS))
    loops = Loops()
    row, part = loops(0, rows, "grid"), loops(0, -(-n // PART), "grid")
    counts = local(dtypes.int32, _DIGITS, 0)
    left = UOp.index(n) - part * PART
    d, e = loops(0, _DIGITS), loops(0, _DIGITS)
    i = loops(0, left.minimum(PART) if n % PART else PART)
    zero = counts.after(row, part)[d].store(0).end(d)
    word = key[row, part * PART + i].load()
    place = counts.after(zero, i)[((word >> shift) & (_DIGITS - 1)).cast(dtypes.index)]
    begins = None if first else (word >> (shift + _BITS)).eq(prefix[row].load())
    done = place.store(place.load() + 1, gate=begins).end(i)
    kept = out[row, part, e].store(counts.after(done)[e].load()).end(e)
    return finished(kept.end(row, part).sink(arg=KernelInfo("select_count")))


def _place(key: UOp, found: Found) -> UOp:
    """Where the element is, as a column."""
    rows, n = key.shape
    some = by_chunk(key.eq(_everywhere(found.key, key)))
    sources = [(0, key), (1, beside([found.rest], some)), (2, found.key)]
    return call(_find_equal(rows, n, key.dtype), sources, [(3, dtypes.int32, (rows, 1))])[0]


def _collected(key: UOp, found: Found, count: int) -> UOp:
    """The places of all that are less, in order, then of those that are equal, in order, as many as
    are left."""
    rows, n = key.shape
    some = by_chunk(key <= _everywhere(found.key, key))
    less = count - 1 - found.rest
    sources = [(0, key), (1, beside([less], some)), (2, found.key)]
    sink = _collect_least(rows, n, count, key.dtype)
    return call(sink, sources, [(3, dtypes.int32, (rows, count))])[0]


class _Chunks:
    """The loops over a row's chunks that have something to be found, and the element there."""

    def __init__(self, rows: int, n: int, dtype: DType) -> None:
        words_of(dtype, True)
        self.key = Placeholder.param(0, dtype, (rows, n))
        size = chunk_of(n)
        numbers = Placeholder.param(1, dtypes.int32, (rows, 1 + -(-n // size)))  # those `beside`
        self.wanted = Placeholder.param(2, dtype, (rows,))
        loops = Loops()
        self.row, self.chunk = loops(0, rows, "grid"), loops(0, -(-n // size))
        left = UOp.index(n) - self.chunk * size
        length = left.minimum(size) if n % size else UOp.index(size)
        some = numbers[self.row, self.chunk + 1].load()
        self.k = loops(0, some.ne(0).where(length, 0))
        self.number = numbers[self.row, 0].load()
        self.place = self.chunk * size + self.k
        self.element = self.key[self.row, self.place].load()
        self.than = self.wanted[self.row].load()

    def counter(self, ident: int, start: UOp | int) -> UOp:
        """A number that is `start` before the first step."""
        memory = local(dtypes.int32, 1, ident)
        begun = memory.after(self.row)[0].store(start)
        return memory.after(begun, self.chunk, self.k)[0]

    def finished(self, effects: Sequence[UOp], name: str) -> UOp:
        done = effects[0].group(*effects[1:]).end(self.chunk, self.k)
        return finished(done.end(self.row).sink(arg=KernelInfo(name)))


@library
def _find_equal(rows: int, n: int, dtype: DType) -> UOp:
    out = Placeholder.param(3, dtypes.int32, (rows, 1))
    chunks = _Chunks(rows, n, dtype)
    before = chunks.counter(0, 0)
    seen, equal = before.load(), chunks.element.eq(chunks.than)
    here = equal & seen.eq(chunks.number)
    put = out[chunks.row, 0].store(chunks.place.cast(dtypes.int32), gate=here)
    counted = before.store(seen + equal.cast(dtypes.int32))
    return chunks.finished([put, counted], "find_equal")


@library
def _collect_least(rows: int, n: int, count: int, dtype: DType) -> UOp:
    out = Placeholder.param(3, dtypes.int32, (rows, count))
    chunks = _Chunks(rows, n, dtype)
    places = [chunks.counter(0, 0), chunks.counter(1, chunks.number)]
    less, equal = chunks.element < chunks.than, chunks.element.eq(chunks.than)
    at = [p.load() for p in places]
    to = less.where(at[0], at[1])
    fits = (less | equal) & within(to, count)
    number = chunks.place.cast(dtypes.int32)
    put = out[chunks.row, to.cast(dtypes.index)].store(number, gate=fits)
    steps = zip(places, at, (less, equal), strict=True)
    counted = [p.store(a + (c & fits).cast(dtypes.int32)) for p, a, c in steps]
    return chunks.finished([put, *counted], "collect_least")
