"""Kernels that sort: n log n work, log n launches of one program, stable, the same on each device.

Any dtype becomes a whole number of 32 or 64 bits that orders as it does (`keys`): NaN above
everything, -0.0 beside 0.0, descending order by complement. Short runs are sorted by counting, for
each element, those that come before it. Then pairs of sorted runs are merged, pass by pass: each
block of the grid finds by bisection where its part of the result starts in both runs (Odeh, Green,
Mwassi, Shmueli, Birk: Merge Path, 2012), and merges from there.
"""

from __future__ import annotations

from typing import Final

from ..dtype import DType, dtypes
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, Ops, UOp

RUN: Final = 32  # elements that are sorted by counting
PART: Final = 64  # elements of a merged run that one block makes
_SIGN: Final = {dtypes.int32: -(1 << 31), dtypes.int64: -(1 << 63)}


def keys(x: UOp, descending: bool = False) -> UOp:
    """int32 or int64 in the order of x: NaN is the greatest value, 0.0 and -0.0 are equal."""
    key = _float_key(x) if x.dtype.is_float else _whole_key(x)
    return ~key if descending else key


def _float_key(x: UOp) -> UOp:
    whole = dtypes.int64 if x.dtype is dtypes.float64 else dtypes.int32
    x = x.cast(dtypes.float64 if whole is dtypes.int64 else dtypes.float32)
    bits = x.eq(0.0).where(x._with(0.0), x).bitcast(whole)
    magnitude = ~_SIGN[whole]
    ordered = bits ^ ((bits >> (whole.bits - 1)) & magnitude)
    return x.ne(x).where(bits._with(magnitude), ordered)


def _whole_key(x: UOp) -> UOp:
    if x.dtype is dtypes.uint64:
        return (x ^ (1 << 63)).bitcast(dtypes.int64)
    return x.cast(dtypes.int64 if x.dtype.bits == 64 or x.dtype is dtypes.uint32 else dtypes.int32)


def order(key: UOp) -> UOp:
    """The stable permutation (int32) that sorts each row of a matrix of keys."""
    rows, n = key.shape
    if rows * n == 0 or n == 1:
        return UOp.const(dtypes.int32, 0).broadcast_to((rows, n))
    shape = (rows, n)
    both = [(2, key.dtype, shape), (3, dtypes.int32, shape)]
    key, places = call(_runs(rows, n, key.dtype), [(0, key)], both)
    width = RUN
    while width < n:
        values = (("width", width), ("steps", width.bit_length() + 1))
        sink = _merge(rows, n, key.dtype)
        key, places = call(sink, [(0, key), (1, places)], both, values)
        width *= 2
    return places


@library
def _runs(rows: int, n: int, dtype: DType) -> UOp:
    """Each run of RUN elements sorted: keys, and where each was."""
    key = Placeholder.param(0, dtype, (rows, n))
    out, places = (
        Placeholder.param(2, dtype, (rows, n)),
        Placeholder.param(3, dtypes.int32, (rows, n)),
    )
    r, i = UOp.range(0, rows, 0, "grid"), UOp.range(0, n, 1, "grid")
    j = UOp.range(0, min(n, RUN), 2, "reduce")
    first = i // RUN * RUN
    inside = first + j < n
    mine, other = key[r, i].load(), key[r, first + j].load(inside)
    before = (other < mine) | (other.eq(mine) & (first + j < i))
    rank = (before & inside).cast(dtypes.int32).reduce(Ops.ADD, (j,))
    to = first + rank.cast(dtypes.index)
    stores = out[r, to].store(mine).group(places[r, to].store(i.cast(dtypes.int32)))
    return finished(stores.end(r, i).sink(arg=KernelInfo("sort_runs")))


@library
def _merge(rows: int, n: int, dtype: DType) -> UOp:
    """Neighbouring runs of `width` sorted elements become one."""
    key, was = Placeholder.param(0, dtype, (rows, n)), Placeholder.param(1, dtypes.int32, (rows, n))
    out, places = (
        Placeholder.param(2, dtype, (rows, n)),
        Placeholder.param(3, dtypes.int32, (rows, n)),
    )
    width = UOp.variable("width", RUN, 1 << 31)
    r, part = UOp.range(0, rows, 0, "grid"), UOp.range(0, -(-n // PART), 1, "grid")
    start = part * PART
    left = start // (width * 2) * (width * 2)
    right = left + width
    lefts = (UOp.index(n) - left).minimum(width)
    rights = (UOp.index(n) - right).minimum(width).maximum(0)
    ahead = start - left

    # how many of the first `ahead` elements of the result come from the left run
    s = UOp.range(0, UOp.variable("steps", 1, 40), 2)
    low, high = local(dtypes.int32, 1, 0), local(dtypes.int32, 1, 1)
    low0 = low.after(r, part)[0].store((ahead - rights).maximum(0).cast(dtypes.int32))
    high0 = high.after(r, part)[0].store(ahead.minimum(lefts).cast(dtypes.int32))
    lo, hi = _number(low.after(low0, s)), _number(high.after(high0, s))
    middle, going = (lo + hi) // 2, lo < hi
    a = key[r, left + middle].load(going)
    b = key[r, right + ahead - 1 - middle].load(going)
    more = going & (a <= b)
    search = (
        low.after(low0, s)[0]
        .store(more.where(middle + 1, lo).cast(dtypes.int32))
        .group(high.after(high0, s)[0].store((going & ~more).where(middle, hi).cast(dtypes.int32)))
        .end(s)
    )

    # from there, one element a step
    k = UOp.range(0, PART, 3)
    taken = local(dtypes.int32, 1, 2)
    first = taken.after(search)[0].store(low.after(search)[0].load())
    i = _number(taken.after(first, k))
    j = ahead + k - i
    inside = start + k < n
    in_left, in_right = inside & (i < lefts), inside & (j < rights)
    a, b = key[r, left + i].load(in_left), key[r, right + j].load(in_right)
    take = in_left & (~in_right | (a <= b))
    source = take.where(left + i, right + j)
    stores = (
        taken.after(first, k)[0]
        .store((i + take.cast(dtypes.index)).cast(dtypes.int32))
        .group(
            out[r, start + k].store(take.where(a, b), gate=inside),
            places[r, start + k].store(was[r, source].load(inside), gate=inside),
        )
        .end(k)
    )
    return finished(stores.end(r, part).sink(arg=KernelInfo("merge_runs")))


def _number(place: Placeholder) -> UOp:
    return place[0].load().cast(dtypes.index)


def search(table: UOp, values: UOp, right: bool) -> UOp:
    """For each value the place (int32) in its row of sorted keys before which it belongs."""
    rows, n = table.shape
    m = values.shape[1]
    if rows * m == 0 or n == 0:
        return UOp.const(dtypes.int32, 0).broadcast_to((rows, m))
    sink = _search(rows, n, m, table.dtype, right)
    return call(sink, [(0, table), (1, values)], [(2, dtypes.int32, (rows, m))])[0]


@library
def _search(rows: int, n: int, m: int, dtype: DType, right: bool) -> UOp:
    table, values = Placeholder.param(0, dtype, (rows, n)), Placeholder.param(1, dtype, (rows, m))
    out = Placeholder.param(2, dtypes.int32, (rows, m))
    r, i = UOp.range(0, rows, 0, "grid"), UOp.range(0, m, 1, "grid")
    s = UOp.range(0, n.bit_length(), 2)
    low, high = local(dtypes.int32, 1, 0), local(dtypes.int32, 1, 1)
    low0 = low.after(r, i)[0].store(0)
    high0 = high.after(r, i)[0].store(n)
    lo, hi = _number(low.after(low0, s)), _number(high.after(high0, s))
    middle, going = (lo + hi) // 2, lo < hi
    at, value = table[r, middle].load(going), values[r, i].load()
    more = going & ((at <= value) if right else (at < value))
    steps = (
        low.after(low0, s)[0]
        .store(more.where(middle + 1, lo).cast(dtypes.int32))
        .group(high.after(high0, s)[0].store((going & ~more).where(middle, hi).cast(dtypes.int32)))
        .end(s)
    )
    store = out[r, i].store(low.after(steps)[0].load())
    return finished(store.end(r, i).sink(arg=KernelInfo("search")))
