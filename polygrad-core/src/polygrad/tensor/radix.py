"""Long rows in order: digit by digit from the last, each pass stable (Knuth, The Art of Computer
Programming, volume 3, 5.2.5, algorithm R). The work is linear, and the same for any elements.

A pass counts how often each digit occurs, from which follows where the first element with each
belongs, and then takes the elements to their places in order. A row that the second cache holds
goes through all passes in one block of the grid, between two LOCALs. A longer one falls into parts:
the counts of a part are a block's, where the elements of a part begin follows from those of all
parts, and a block takes its part's elements there. Where they begin comes from memory then, and
what lies outside is not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..dtype import DType, dtypes
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, Ops, UOp
from .loops import Loops, within, words_of

ONE_BLOCK: Final = 1 << 14  # elements of a row that one block takes through all passes
PART: Final = 1 << 13  # elements of a part of a longer row
_LARGE: Final = 1 << 21  # bytes of a row that no second cache holds twice
_LONGER: Final = 8  # a part of such a row, as each leaves lines that are not full
_LINE: Final = 64  # bytes of a line of a cache
_BITS: Final = 8  # of a digit
_DIGITS: Final = 1 << _BITS


def radix(words: UOp, low: int, bits: int) -> UOp:
    """Each row of a matrix of unsigned words in order of `bits` bits from bit `low` on."""
    rows, n = words.shape
    if n <= ONE_BLOCK:
        sink = _radix_row(rows, n, words.dtype, low, bits)
        return call(sink, [(0, words)], [(1, words.dtype, (rows, n))])[0]
    row = n * words.dtype.itemsize
    streams = row >= _LARGE and (rows == 1 or row % _LINE == 0)
    return _in_parts(words, low, bits, PART * _LONGER if streams else PART, streams)


def _shifts(low: int, bits: int) -> range:
    return range(low, low + bits, _BITS)


def _digit(word: UOp, shift: UOp | int) -> UOp:
    by = shift.cast(word.dtype) if isinstance(shift, UOp) else shift
    return ((word >> by) & (_DIGITS - 1)).cast(dtypes.index)


# ---- a row in one block


@library
def _radix_row(rows: int, n: int, dtype: DType, low: int, bits: int) -> UOp:
    words_of(dtype, n <= ONE_BLOCK and bits > 0 and low + bits <= dtype.bits)
    source, out = (Placeholder.param(slot, dtype, (rows, n)) for slot in (0, 1))
    loops, shifts = Loops(), _shifts(low, bits)
    row = loops(0, rows, "grid")
    counts = local(dtypes.int32, len(shifts) * _DIGITS, 0)
    between = [local(dtype, n, 1 + k) for k in range(min(len(shifts) - 1, 2))]
    done = _starts(loops, counts, _counted(loops, row, counts, source, shifts), len(shifts))
    for number, shift in enumerate(shifts):
        last = number == len(shifts) - 1
        to = out.reshape(rows * n) if last else between[number % 2]
        i = loops(0, n)
        word = between[(number - 1) % 2].after(done)[i] if number else source[row, i]
        start = counts.after(done, i)[_digit(word.load(), shift) + number * _DIGITS]
        done = _taken(i, word.load(), start, to.after(done, i), row * n if last else 0)
    return finished(done.end(row).sink(arg=KernelInfo("radix_row")))


def _counted(
    loops: Loops, row: UOp, counts: Placeholder, source: Placeholder, shifts: Sequence[int]
) -> UOp:
    """The counts of all passes by one reading: a row's digits are the same in any order of it."""
    j, i = loops(0, counts.numel()), loops(0, source.shape[1])
    zero = counts.after(row)[j].store(0).end(j)
    word, now = source[row, i].load(), counts.after(zero, i)
    places = [now[_digit(word, s) + k * _DIGITS] for k, s in enumerate(shifts)]
    return _each([p.store(p.load() + 1) for p in places]).end(i)


def _starts(loops: Loops, counts: Placeholder, done: UOp, passes: int) -> UOp:
    """Each count replaced by the sum of those before it, pass by pass."""
    totals = [local(dtypes.int32, 1, 8 + k) for k in range(passes)]
    zero = _each([t.after(done)[0].store(0) for t in totals])
    d = loops(0, _DIGITS)
    steps = []
    for k, total in enumerate(totals):
        count, sum_ = counts.after(zero, d)[d + k * _DIGITS], total.after(zero, d)[0]
        before = sum_.load()
        steps += [count.store(before), sum_.store(before + count.load())]
    return _each(steps).end(d)


def _taken(
    i: UOp, word: UOp, start: UOp, to: Placeholder, first: UOp | int, inside: UOp | None = None
) -> UOp:
    """Words in order to where the start of their digit says, which then is the next place; `first`
    is the place of a row's first element in memory."""
    at = start.load()
    put = to[at.cast(dtypes.index) + first].store(word, gate=inside)
    return put.group(start.store(at + 1)).end(i)


def _each(effects: Sequence[UOp]) -> UOp:
    return effects[0].group(*effects[1:])


# ---- a row in parts


def _in_parts(words: UOp, low: int, bits: int, part: int, streams: bool) -> UOp:
    rows, n = words.shape
    parts, take = -(-n // part), _radix_stream if streams else _radix_take
    shape, numbers = (rows, parts, _DIGITS), (rows, n, part, words.dtype)
    for shift in _shifts(low, bits):
        values = (("shift", shift),)
        counted = [(1, dtypes.int32, shape)]
        counts = call(_radix_count(*numbers), [(0, words)], counted, values)[0]
        through = counts.scan(Ops.ADD, 1)
        totals = through.shrink([(0, rows, 1), (parts - 1, parts, 1), (0, _DIGITS, 1)])
        before = (totals.scan(Ops.ADD, 2) - totals).expand(shape)
        starts = through - counts + before
        taken = [(2, words.dtype, (rows, n))]
        words = call(take(*numbers), [(0, words), (1, starts)], taken, values)[0]
    return words


class _Part:
    """A part of a row: its loops, and how many elements it has."""

    def __init__(self, rows: int, n: int, part: int, dtype: DType) -> None:
        words_of(dtype, part > 0)
        self.shape, self.dtype, self.size = (rows, n), dtype, part
        self.loops = Loops()
        self.row = self.loops(0, rows, "grid")
        self.part = self.loops(0, -(-n // part), "grid")
        self.shift = UOp.variable("shift", 0, dtype.bits - 1)
        left = UOp.index(n) - self.part * part
        self.length = left.minimum(part) if n % part else UOp.index(part)
        self.counts = local(dtypes.int32, _DIGITS, 0)

    def memory(self, slot: int) -> Placeholder:
        return Placeholder.param(slot, self.dtype, self.shape)

    def of_parts(self, slot: int) -> Placeholder:
        """A number for each digit of each part."""
        rows, n = self.shape
        return Placeholder.param(slot, dtypes.int32, (rows, -(-n // self.size), _DIGITS))

    def copied(self, memories: Sequence[Placeholder], starts: Placeholder) -> UOp:
        """The part's starts in LOCALs."""
        d = self.loops(0, _DIGITS)
        start = starts[self.row, self.part, d].load()
        return _each([m.after(self.row, self.part)[d].store(start) for m in memories]).end(d)

    def word(self, i: UOp) -> UOp:
        return self.memory(0)[self.row, self.part * self.size + i].load()

    def finished(self, done: UOp, name: str) -> UOp:
        return finished(done.end(self.row, self.part).sink(arg=KernelInfo(name)))


@library
def _radix_count(rows: int, n: int, size: int, dtype: DType) -> UOp:
    part = _Part(rows, n, size, dtype)
    loops, counts, out = part.loops, part.counts, part.of_parts(1)
    d, i, e = loops(0, _DIGITS), loops(0, part.length), loops(0, _DIGITS)
    zero = counts.after(part.row, part.part)[d].store(0).end(d)
    place = counts.after(zero, i)[_digit(part.word(i), part.shift)]
    done = place.store(place.load() + 1).end(i)
    kept = out[part.row, part.part, e].store(counts.after(done)[e].load()).end(e)
    return part.finished(kept, "radix_count")


@library
def _radix_take(rows: int, n: int, size: int, dtype: DType) -> UOp:
    part = _Part(rows, n, size, dtype)
    done = part.copied([part.counts], part.of_parts(1))
    i = part.loops(0, part.length)
    word = part.word(i)
    start = part.counts.after(done, i)[_digit(word, part.shift)]
    to = part.memory(2).reshape(rows * n).after(i)
    inside = within(start.load(), n)
    return part.finished(_taken(i, word, start, to, part.row * n, inside), "radix_take")


@library
def _radix_stream(rows: int, n: int, size: int, dtype: DType) -> UOp:
    """As `_radix_take`, line by line: what a store brings in of a line that it only writes to costs
    more than the store. The words of each digit wait until they fill a line, which goes past the
    caches; those of a line that begins before the part's first word go out one by one."""
    part, width = _Part(rows, n, size, dtype), _LINE // dtype.itemsize
    lines = local(dtype, _DIGITS * width, 1)
    firsts = local(dtypes.int32, _DIGITS, 2)
    begun = part.copied([part.counts, firsts], part.of_parts(1))
    out, row = part.memory(2).reshape(rows * n), part.row * n
    i = part.loops(0, part.length)
    word = part.word(i)
    d = _digit(word, part.shift)
    start = part.counts.after(begun, i)[d]
    at = start.load()
    place = at.cast(dtypes.index)
    column = place % width
    begins = (place - column).cast(dtypes.int32)
    whole, inside = firsts.after(begun, i)[d].load() <= begins, within(at, n) & within(begins, n)
    put = lines.after(begun, i)[d * width + column].store(word)
    alone = out.after(i)[row + place].store(word, gate=inside & ~whole)
    full = part.loops(0, (inside & whole & column.eq(width - 1)).cast(dtypes.index))
    k = part.loops(0, width)
    waiting = lines.after(put, full)[d * width + k].load()
    line = UOp(
        Ops.STORE, dtypes.void, (out.after(i, full)[row + place - column + k], waiting), "nt"
    )
    done = put.group(alone, start.store(at + 1), line.end(full, k)).end(i)
    e = part.loops(0, _DIGITS)
    end = part.counts.after(done)[e].load().cast(dtypes.index).minimum(n)
    first = (end - end % width).maximum(firsts.after(done)[e].load().cast(dtypes.index)).maximum(0)
    j = part.loops(first, end)
    last = lines.after(done)[e * width + j % width].load()
    rest = out.after(done)[row + j].store(last).end(e, j)
    return part.finished(rest, "radix_stream")
