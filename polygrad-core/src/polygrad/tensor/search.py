"""Where values belong in sorted rows: by bisection, for several values at once.

A step of a bisection waits for what the step before it read, so a block of the grid takes many
values through each step together: their reads wait side by side. The steps go back by powers of
two, the same for all values.
"""

from __future__ import annotations

from typing import Final

from ..dtype import DType, dtypes
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, UOp
from .loops import Loops, words_of

TOGETHER: Final = 32  # values of a block


def search(table: UOp, values: UOp, right: bool) -> UOp:
    """For each value the place (int32) in its row of sorted keys before which it belongs: before
    equal ones, or with `right` after them."""
    rows, n = table.shape
    m = values.shape[1]
    if rows * m == 0 or n == 0:
        return UOp.const(dtypes.int32, 0).broadcast_to((rows, m))
    sink = _search(rows, n, m, table.dtype, right)
    return call(sink, [(0, table), (1, values)], [(2, dtypes.int32, (rows, m))])[0]


@library
def _search(rows: int, n: int, m: int, dtype: DType, right: bool) -> UOp:
    words_of(dtype, True)
    table, values = Placeholder.param(0, dtype, (rows, n)), Placeholder.param(1, dtype, (rows, m))
    out = Placeholder.param(2, dtypes.int32, (rows, m))
    loops = Loops()
    row, block = loops(0, rows, "grid"), loops(0, -(-m // TOGETHER), "grid")
    before = local(dtypes.int32, TOGETHER, 0)  # how many elements are known to come before

    def lane() -> tuple[UOp, UOp, UOp | None]:
        k = loops(0, TOGETHER)
        number = block * TOGETHER + k
        return k, number, number < m if m % TOGETHER else None

    k = loops(0, TOGETHER)
    done = before.after(row, block)[k].store(0).end(k)
    for power in reversed(range(n.bit_length())):
        k, number, inside = lane()
        place = before.after(done, k)[k]
        known = place.load()
        after = known + (1 << power)
        there = after <= n
        at, value = table[row, after - 1].load(there), values[row, number].load(inside)
        less = there & ((at <= value) if right else (at < value))
        done = place.store(known + (less.cast(dtypes.int32) << power)).end(k)
    k, number, inside = lane()
    store = out[row, number].store(before.after(done)[k].load(), gate=inside).end(k)
    return finished(store.end(row, block).sink(arg=KernelInfo("search")))
