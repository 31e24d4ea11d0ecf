"""Order of the rows of a matrix: their elements in order, and where each of them was.

What is sorted are words: a key (`keys.py`), with the number of the element below it where places
are wanted, so that all words differ and any sort of them is a stable one of the elements. Short
rows go through a network (`network.py`), longer ones through a radix sort (`radix.py`).

Where only values are wanted, words are keys alone. Elements with one key have the same bits, so
nobody sees in which order they come, but for zeros of both signs and NaN: those are put back as
they stood (`_restore`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..dtype import DType, dtypes
from ..gradient_rules import FUNCTIONS
from ..schedule.rules import ALONE
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, Ops, Shape, UOp
from .formulas import function
from .keys import WORD, elements, key_bits, keys, word_of
from .loops import Loops, within, words_of
from .network import LONGEST, network
from .radix import radix

CHUNK: Final = 256  # elements that are looked through together for zeros and NaN
SMALL: Final = 1 << 14  # elements of a matrix below which a small graph is what counts


def sorted_words(words: UOp, low: int, bits: int) -> UOp:
    """Rows of words in order of `bits` bits from `low` on; those below are in order already."""
    return network(words) if words.shape[1] <= LONGEST else radix(words, low, bits)


# ---- places


def argsorted(x: UOp, descending: bool = False) -> UOp:
    """The stable permutation (int32) that sorts each row of a matrix."""
    return order(keys(x, descending), key_bits(x.dtype))


def order(key: UOp, bits: int) -> UOp:
    """The stable permutation (int32) that sorts each row of a matrix of keys of so many bits."""
    rows, n = key.shape
    if rows * n == 0 or n == 1:
        return UOp.const(dtypes.int32, 0).broadcast_to((rows, n))
    if bits <= WORD:
        words, low = _numbered(key, bits)
        return _places(sorted_words(words, low, bits), low)
    first = order(key.cast(dtypes.uint32), WORD)  # by the lower half, then by the upper one
    upper = (picked(key, first) >> WORD).cast(dtypes.uint32)
    return picked(first, order(upper, bits - WORD))


def _numbered(key: UOp, bits: int) -> tuple[UOp, int]:
    """(words of a key and, below it, the number of the element; bits of that number)."""
    n = key.shape[1]
    low = (n - 1).bit_length()
    word = word_of(bits + low)
    number = UOp.iota(n, dtypes.int32).cast(word).reshape((1, n)).expand(key.shape)
    return (key.cast(word) << low) | number, low


def _places(words: UOp, low: int) -> UOp:
    return (words & ((1 << low) - 1)).cast(dtypes.int32)


def picked(matrix: UOp, places: UOp) -> UOp:
    """From each row of a matrix the elements at `places` of that row."""
    rows, n = matrix.shape
    count = rows * places.shape[1]
    flat = _flat(places, n).reshape((count,))
    return matrix.reshape((rows * n,)).gather(flat, 0).reshape(places.shape)


def _flat(places: UOp, n: int) -> UOp:
    """Places in rows of n elements as places in the whole matrix."""
    rows = places.shape[0]
    if rows == 1:
        return places
    wide = dtypes.int64 if rows * n >= 1 << 31 else dtypes.int32
    first = (UOp.iota(rows, wide) * n).reshape((rows, 1)).expand(places.shape)
    return places.cast(wide) + first


# ---- values


def ordered(x: UOp, shape: Shape, descending: bool = False) -> tuple[UOp, UOp]:
    """(the elements of each row of a matrix in order, where each of them was), in a shape of as
    many elements."""
    rows, n = x.shape
    if rows * n == 0 or n == 1:
        return x.reshape(shape), UOp.const(dtypes.int32, 0).broadcast_to(shape)
    u, bits = x.detach(), key_bits(x.dtype)
    if rows * n < SMALL:
        places = argsorted(u, descending)
        return picked(x, places).reshape(shape), places.reshape(shape)
    key = keys(u, descending)
    alone = _values(u, sorted_words(key, 0, bits), (0, shape, descending))
    if bits > WORD:
        places = order(key, bits)
        values = picked(u, places).reshape(shape)
    else:
        words, low = _numbered(key, bits)
        words = sorted_words(words, low, bits)
        places, values = _places(words, low), _values(u, words, (low, shape, descending))
    made = function(SORT, (values, places.reshape(shape), alone), x)
    return made[0], made[1]


SORT: Final = "sort"
ALONE[SORT] = {0: 2}


def _rule(node: UOp, g: UOp) -> Sequence[UOp | None]:
    """Each element gets what flowed into its place."""
    x = node.src[node.arg.total]
    if node.arg.which == 1:
        return (None,)
    places = UOp(Ops.FUNCTION, node.src[1].dtype, node.src, node.arg._replace(which=1))
    count = x.shape[0] * x.shape[1]
    to = _flat(places.reshape(x.shape), x.shape[1]).reshape((count,))
    none = UOp.const(g.dtype, 0.0).broadcast_to((count,))
    return (none.scatter(to, g.reshape((count,)), 0, "set").reshape(x.shape),)


FUNCTIONS[SORT] = _rule


def _values(x: UOp, words: UOp, how: tuple[int, Shape, bool]) -> UOp:
    """The elements of x that sorted words stand for. `how`: the bits below a key, the shape of the
    result, whether the order is descending."""
    low, shape, descending = how
    if not x.dtype.is_float:
        return elements(_key(words, low, x.dtype), x.dtype, descending).reshape(shape)
    rows, n = x.shape
    none = x.ne(x)
    before = (x > 0.0) | none if descending else x < 0.0
    zeros = total(by_chunk(before))
    nans = zeros._with(0) if descending else n - total(by_chunk(none))
    special = by_chunk(x.eq(0.0) | none)
    sink = _restore(rows, n, x.dtype, words.dtype, low, descending)
    sources = [(0, x), (1, words), (2, beside([zeros, nans], special))]
    return call(sink, sources, [(3, x.dtype, shape)])[0]


def _key(word: UOp, low: int, dtype: DType) -> UOp:
    return (word >> low).cast(word_of(key_bits(dtype)))


def chunk_of(n: int) -> int:
    """The elements of a chunk of a row of n; a short row is one."""
    return n if n <= LONGEST else CHUNK


def by_chunk(condition: UOp) -> UOp:
    """For how many elements of each chunk of each row it holds."""
    rows, n = condition.shape
    size = chunk_of(n)
    chunks = -(-n // size)
    whole = condition.pad([(0, 0, 0), (0, chunks * size - n, 0)]).reshape((rows, chunks, size))
    return whole.cast(dtypes.int32).reduce(Ops.ADD, (2,)).contiguous()


def beside(firsts: Sequence[UOp], counts: UOp) -> UOp:
    """Some numbers of each row, then those of its chunks: one buffer, of the four of a kernel."""
    rows, chunks = counts.shape
    made = counts.pad([(0, 0, 0), (len(firsts), 0, 0)])
    for i, first in enumerate(firsts):
        after = len(firsts) - 1 - i + chunks
        made = made + first.reshape((rows, 1)).pad([(0, 0, 0), (i, after, 0)])
    return made


def total(counts: UOp) -> UOp:
    return counts.reduce(Ops.ADD, (1,))


@library
def _restore(rows: int, n: int, dtype: DType, word: DType, low: int, descending: bool) -> UOp:
    """The elements of sorted words, then zeros and NaN over them, in the order they stand in x;
    only chunks that have some are looked through."""
    words_of(word, low < word.bits and dtype.is_float)
    x, out = (Placeholder.param(slot, dtype, (rows, n)) for slot in (0, 3))
    words = Placeholder.param(1, word, (rows, n))
    size = chunk_of(n)
    numbers = Placeholder.param(2, dtypes.int32, (rows, 2 + -(-n // size)))  # those `beside`
    loops = Loops()
    row, i = loops(0, rows, "grid"), loops(0, n)
    value = elements(_key(words[row, i].load(), low, dtype), dtype, descending)
    plain = out[row, i].store(value).end(i)
    next_ = [local(dtypes.int32, 1, k) for k in range(2)]  # places of zeros and of NaN
    begun = [m.after(row)[0].store(numbers[row, k].load()) for k, m in enumerate(next_)]
    chunk = loops(0, -(-n // size))
    length = (UOp.index(n) - chunk * size).minimum(size) if n % size else UOp.index(size)
    k = loops(0, numbers[row, chunk + 2].load().ne(0).where(length, 0))
    element = x[row, chunk * size + k].load()
    wide = element.cast(dtype.arithmetic)
    zero, none = wide.eq(0.0), wide.ne(wide)
    places = [m.after(*begun, chunk, k)[0] for m in next_]
    at = none.where(places[1].load(), places[0].load())
    put = out.after(plain, chunk, k)[row, at.cast(dtypes.index)]
    stores = [
        p.store(p.load() + c.cast(dtypes.int32)) for p, c in zip(places, (zero, none), strict=True)
    ]
    kept = put.store(element, gate=(zero | none) & within(at, n))
    done = kept.group(*stores).end(chunk, k)
    return finished(done.end(row).sink(arg=KernelInfo("restore")))
