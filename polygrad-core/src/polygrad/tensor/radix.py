"""Long rows in order: digit by digit from the last, each pass stable (Knuth, The Art of Computer
Programming, volume 3, 5.2.5, algorithm R). The work is linear, and the same for any elements.

A pass counts how often each digit occurs, from which follows where the first element with each
belongs, and then takes the elements to their places in order. A row that the second cache holds
goes through all passes in one block of the grid, between two LOCALs. A longer one falls into parts:
the counts of a part are a block's, where the elements of a part begin follows from those of all
parts, and a block takes its part's elements there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..dtype import DType, dtypes
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, Ops, UOp
from .loops import Loops

ONE_BLOCK: Final = 1 << 14  # elements of a row that one block takes through all passes
PART: Final = 1 << 12  # elements of a part of a longer row
_BITS: Final = 8  # of a digit
_DIGITS: Final = 1 << _BITS


def radix(words: UOp, low: int, bits: int) -> UOp:
    """Each row of a matrix of unsigned words in order of `bits` bits from bit `low` on."""
    rows, n = words.shape
    if n <= ONE_BLOCK:
        sink = _radix_row(rows, n, words.dtype, low, bits)
        return call(sink, [(0, words)], [(1, words.dtype, (rows, n))])[0]
    for shift in _shifts(low, bits):
        words = _pass(words, shift)
    return words


def _shifts(low: int, bits: int) -> range:
    return range(low, low + bits, _BITS)


def _digit(word: UOp, shift: UOp | int) -> UOp:
    by = shift.cast(word.dtype) if isinstance(shift, UOp) else shift
    return ((word >> by) & (_DIGITS - 1)).cast(dtypes.index)


# ---- a row in one block


@library
def _radix_row(rows: int, n: int, dtype: DType, low: int, bits: int) -> UOp:
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


def _taken(i: UOp, word: UOp, start: UOp, to: Placeholder, first: UOp | int) -> UOp:
    """Words in order to where the start of their digit says, which then is the next place; `first`
    is the place of a row's first element in memory."""
    at = start.load()
    put = to[at.cast(dtypes.index) + first].store(word)
    return put.group(start.store(at + 1)).end(i)


def _each(effects: Sequence[UOp]) -> UOp:
    return effects[0].group(*effects[1:])


# ---- a row in parts


def _pass(words: UOp, shift: int) -> UOp:
    rows, n = words.shape
    parts, values = -(-n // PART), (("shift", shift),)
    shape = (rows, parts, _DIGITS)
    counts = call(
        _radix_count(rows, n, words.dtype), [(0, words)], [(1, dtypes.int32, shape)], values
    )[0]
    through = counts.scan(Ops.ADD, 1)
    totals = through.shrink([(0, rows, 1), (parts - 1, parts, 1), (0, _DIGITS, 1)])
    before = (totals.scan(Ops.ADD, 2) - totals).expand(shape)
    starts = through - counts + before
    sources = [(0, words), (1, starts)]
    return call(_radix_take(rows, n, words.dtype), sources, [(2, words.dtype, (rows, n))], values)[
        0
    ]


class _Part:
    """A part of a row: its loops, and how many elements it has."""

    def __init__(self, rows: int, n: int, dtype: DType) -> None:
        self.loops = Loops()
        self.row = self.loops(0, rows, "grid")
        self.part = self.loops(0, -(-n // PART), "grid")
        self.shift = UOp.variable("shift", 0, dtype.bits - 1)
        left = UOp.index(n) - self.part * PART
        self.length = left.minimum(PART) if n % PART else UOp.index(PART)
        self.counts = local(dtypes.int32, _DIGITS, 0)

    def read(self, words: Placeholder, i: UOp) -> UOp:
        return words[self.row, self.part * PART + i].load()

    def finished(self, done: UOp, name: str) -> UOp:
        return finished(done.end(self.row, self.part).sink(arg=KernelInfo(name)))


@library
def _radix_count(rows: int, n: int, dtype: DType) -> UOp:
    words = Placeholder.param(0, dtype, (rows, n))
    out = Placeholder.param(1, dtypes.int32, (rows, -(-n // PART), _DIGITS))
    part = _Part(rows, n, dtype)
    loops, counts = part.loops, part.counts
    d, i, e = loops(0, _DIGITS), loops(0, part.length), loops(0, _DIGITS)
    zero = counts.after(part.row, part.part)[d].store(0).end(d)
    place = counts.after(zero, i)[_digit(part.read(words, i), part.shift)]
    done = place.store(place.load() + 1).end(i)
    kept = out[part.row, part.part, e].store(counts.after(done)[e].load()).end(e)
    return part.finished(kept, "radix_count")


@library
def _radix_take(rows: int, n: int, dtype: DType) -> UOp:
    words, out = (Placeholder.param(slot, dtype, (rows, n)) for slot in (0, 2))
    starts = Placeholder.param(1, dtypes.int32, (rows, -(-n // PART), _DIGITS))
    part = _Part(rows, n, dtype)
    d = part.loops(0, _DIGITS)
    own = part.counts.after(part.row, part.part)[d]
    done = own.store(starts[part.row, part.part, d].load()).end(d)
    i = part.loops(0, part.length)
    word = part.read(words, i)
    start = part.counts.after(done, i)[_digit(word, part.shift)]
    flat = out.reshape(rows * n).after(i)
    taken = _taken(i, word, start, flat, part.row * n)
    return part.finished(taken, "radix_take")
