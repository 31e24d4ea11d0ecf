"""Kernels that walk the same elements of the same inputs and need nothing of each other are one.

Fusion puts a value into a kernel that needs it; two results that only share what they read are
left to this pass over the finished kernels. A later kernel moves into an earlier one when both run
over the same output ranges, read an element in common at each step, and nothing from the earlier
one up to the later one writes what the later one touches or reads what it writes. Sums of one row,
in whatever number, are then one pass over it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import substitute
from .items import CopyItem, Item, KernelItem
from .sinks import sink_facts

MOST_BUFFERS: Final = 12
MOST_STORES: Final = 6


class Touched(NamedTuple):
    """The buffers an item reads and writes, and what it loads as (buffer, offset)."""

    reads: frozenset[UOp]
    writes: frozenset[UOp]
    loads: frozenset[tuple[UOp, UOp]] = frozenset()


def share(items: Sequence[Item], plain: frozenset[int], limit: Callable[[str], int]) -> list[Item]:
    """`items` with kernels merged. `plain` are the positions of those that may be: elementwise, or
    reductions that give one value for each element of the result; `limit` gives the number of
    buffers that a kernel of a device may have."""
    out: list[Item] = []
    touched: list[Touched] = []
    open_: list[bool] = []
    for number, item in enumerate(items):
        mine = _touched(item)
        at = None
        if number in plain and isinstance(item, KernelItem):
            most = min(MOST_BUFFERS, limit(item.device))
            at = _partner(out, touched, open_, item, mine, most)
        if at is None:
            out.append(item)
            touched.append(mine)
            open_.append(number in plain)
            continue
        first = out[at]
        assert isinstance(first, KernelItem) and isinstance(item, KernelItem)
        out[at] = _merged(first, item)
        both = touched[at]
        touched[at] = Touched(
            both.reads | mine.reads, both.writes | mine.writes, both.loads | mine.loads
        )
    return out


def _partner(
    out: Sequence[Item],
    touched: Sequence[Touched],
    open_: Sequence[bool],
    item: KernelItem,
    mine: Touched,
    most: int,
) -> int | None:
    """The nearest earlier kernel that `item` may join, with at most so many buffers of both."""
    shape = _shape(item)
    for at in range(len(out) - 1, -1, -1):
        before, other = touched[at], out[at]
        if before.writes & (mine.reads | mine.writes) or before.reads & mine.writes:
            return None  # it must stay behind this one
        if not open_[at] or not isinstance(other, KernelItem) or other.device != item.device:
            continue
        stores = len(other.sink.src) + len(item.sink.src)
        buffers = len({*other.buffers, *item.buffers})
        if stores > MOST_STORES or buffers > most or not before.loads & mine.loads:
            continue
        if _shape(other) == shape:
            return at
    return None


def _touched(item: Item) -> Touched:
    if isinstance(item, CopyItem):
        return Touched(frozenset((item.src,)), frozenset((item.dst,)))
    kernel, buffers = sink_facts(item.sink), item.buffers
    if not kernel.direct:  # memory of an ordered kernel, seen through its effects
        return Touched(frozenset(buffers), frozenset(buffers))
    loads = frozenset([(buffers[slot], load.src[0].src[1]) for slot, load in kernel.loads])
    writes = frozenset([buffers[slot] for slot, _ in kernel.stores])
    return Touched(frozenset([leaf for leaf, _ in loads]), writes, loads)


def _shape(item: KernelItem) -> tuple[frozenset[UOp], bool]:
    """The ranges that the stores run over, and whether there are reductions."""
    kernel = sink_facts(item.sink)
    return kernel.outer, bool(kernel.reduced)


def _merged(first: KernelItem, second: KernelItem) -> KernelItem:
    """One kernel with the stores of both; a buffer of both is one parameter."""
    buffers = list(dict.fromkeys((*first.buffers, *second.buffers)))
    exchange = {}
    for node in toposort(second.sink.src):
        if node.op is Ops.PARAM:
            slot, elements = node.arg
            place = buffers.index(second.buffers[slot])
            exchange[node] = UOp(Ops.PARAM, node.dtype, (), (place, elements))
    moved = substitute(second.sink, exchange)
    sink = UOp(Ops.SINK, first.sink.dtype, (*first.sink.src, *moved.src), first.sink.arg)
    variables = tuple(dict.fromkeys((*first.variables, *second.variables)))
    return KernelItem(sink, tuple(buffers), first.device, variables)
