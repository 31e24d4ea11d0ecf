"""Verbs of row programs: several reductions over one row, then stores that need the row again.

`stage` keeps what a reduction has computed of a row; `delay` writes a row while the next one is
computed. A row program reads its row from memory, computes, and writes it at last, past the caches
where the result is large. Reading goes on while it computes (`prefetch`), but to write takes as
long as to read, and a core that does nothing else meanwhile waits. Delayed, the stores of a row
stand inside of a reduction over the next one:

    row 0: its reductions
    rows 1, 2, ...: their reductions; inside of one of them, the stores of the row before
    the stores of the last row

What the stores need of a row beside its elements (a maximum, a sum) is kept for each row. Elements
that a reduction keeps are read there just before the next ones take their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..dtype import DType, dtypes
from ..uop.linear import ranges_of
from ..uop.ops import Ops, UOp, toposort
from .kernel import Kernel, extent, keeps, launchable, steps, substitute
from .transform import ScheduleError, bounds_nothing, free

LANES = 64  # of any vector: what is longer is walked by a loop


def stage(kernel: Kernel, reduction: UOp, loop: UOp) -> Kernel:
    """Keep the values a reduction adds up in block scratch, for a store that needs them again.

    `loop` is the output range along which the stores use the expression of the reduction's body:
    they read the scratch instead of computing it a second time (softmax: one exp an element).
    """
    body, ranges = reduction.src[0], reduction.src[1:]
    if not _alike(ranges, loop):
        raise ScheduleError(f"stage: range {loop.arg[0]} is not as long as the reduction's")
    again = substitute((body,), {ranges[0]: loop})[0]
    if not all({again, reduction} <= set(s.toposort()) for s in kernel.stores):
        raise ScheduleError(f"stage: the stores do not repeat {body} along range {loop.arg[0]}")
    local = _scratch(kernel, body.dtype, extent(loop))
    keep = UOp(Ops.STORE, dtypes.void, (_element(local, ranges[0]), body))
    kept = UOp(Ops.REDUCE, reduction.dtype, (body.after(keep), *ranges), reduction.arg)
    reread = UOp(Ops.LOAD, body.dtype, (_element(local, loop),))
    stores = tuple(substitute(kernel.stores, {reduction: kept, again: reread}))
    return replace(kernel, stores=stores).logged("stage", ranges[0].arg[0], loop.arg[0])


def delay(kernel: Kernel, rows: UOp, walked: UOp, loop: UOp) -> Kernel:
    """Let the stores along `loop` of each step of `rows` but the last wait for the reduction over
    `walked` in the next one."""
    reduction = _over(kernel, walked)
    if reduction is None or not _alike((walked,), loop) or extent(loop) <= LANES:
        raise ScheduleError(f"delay: range {walked.arg[0]} does not walk rows as the stores do")
    for each in (rows, walked, loop):
        free(kernel, each, "delay")
    _begins(kernel, rows)
    if not all(_waits(kernel, store, loop) for store in kernel.stores):
        raise ScheduleError("delay: a store needs more than elements of its row and sums over it")
    sums = list(dict.fromkeys(n for s in kernel.stores for n in _invariant(s.src[1:], loop)))
    if not sums or any({loop, *ranges_of(n)} != set(kernel.outputs) for n in sums):
        raise ScheduleError(f"delay: a sum is not one of each step of range {rows.arg[0]}")
    places = [
        _element(_scratch(kernel, n.dtype, extent(rows), i), rows) for i, n in enumerate(sums)
    ]
    kept = [UOp(Ops.STORE, dtypes.void, pair) for pair in zip(places, sums, strict=True)]
    again = {n: UOp(Ops.LOAD, n.dtype, (p,)) for n, p in zip(sums, places, strict=True)}
    written = substitute(kernel.stores, again)
    later = UOp.range(UOp.index(0), steps(rows) - 1, kernel.fresh(), rows.arg[1])
    *following, holder = substitute([*kept, reduction], {rows: later + 1})
    late = substitute(written, {rows: later, loop: walked})
    stores = (
        *substitute(kept, {rows: UOp.index(0)}),
        *substitute(following, {holder: _doing(holder, late)}),
        *substitute(written, {rows: steps(rows) - 1}),
    )
    order = tuple(later if r is rows else r for r in kernel.order)
    made = replace(kernel, stores=stores, order=order)
    return made.logged("delay", rows.arg[0], walked.arg[0], loop.arg[0])


def _over(kernel: Kernel, walked: UOp) -> UOp | None:
    """The reduction over a range alone that stores may wait for: the one that keeps its row, if any
    does, for then its place is taken."""
    found = [n for n in kernel.reductions if n.src[1:] == (walked,)]
    keeping = [n for n in kernel.reductions if keeps(n)]
    if keeping:
        found = [n for n in found if keeping == [n]]
    return found[0] if found else None


def _begins(kernel: Kernel, rows: UOp) -> None:
    """Refuse rows whose first step cannot be printed apart."""
    bounds_nothing(kernel, rows, "delay")
    if rows not in kernel.outputs or rows.src[0].arg != 0 or (rows.src[1].lo or 0) < 1:
        raise ScheduleError(f"delay: range {rows.arg[0]} has not always a first step")


def _waits(kernel: Kernel, store: UOp, loop: UOp) -> bool:
    """Whether a store of each element, to memory that nobody reads, may come later than it does."""
    nodes = kernel.nodes
    param, inside = store.src[0].src[0], toposort((store,))
    read = any(n.op is Ops.LOAD and n.src[0].src[0] is param for n in nodes)
    summed = any(n.op is Ops.REDUCE for n in toposort((store.src[0],)))
    carried = any(n.op is Ops.SCAN or (n.op is Ops.REDUCE and loop in ranges_of(n)) for n in inside)
    plain = store.arg is None and set(kernel.outputs) <= ranges_of(store.src[0])
    return plain and not (read or summed or carried)


def _invariant(roots: Sequence[UOp], loop: UOp) -> Iterator[UOp]:
    """The largest expressions with reductions in them that are the same for a whole row."""
    for node in roots:
        if not any(n.op is Ops.REDUCE for n in toposort((node,))):
            continue
        if loop in ranges_of(node):
            yield from _invariant(node.src, loop)
        else:
            yield node


def _doing(reduction: UOp, effects: Sequence[UOp]) -> UOp:
    """The reduction, each step of which has these effects first."""
    body = reduction.src[0]
    value, others = (body.src[0], body.src[1:]) if keeps(reduction) else (body, ())
    return UOp(
        Ops.REDUCE,
        reduction.dtype,
        (value.after(*effects, *others), *reduction.src[1:]),
        reduction.arg,
    )


def _alike(ranges: Sequence[UOp], loop: UOp) -> bool:
    """Whether one range is walked, as far as a loop that the launch knows."""
    same = len(ranges) == 1 and ranges[0].src == loop.src and ranges[0] is not loop
    return same and launchable(loop) and loop.src[0].arg == 0


def _scratch(kernel: Kernel, dtype: DType, count: int, number: int = 0) -> UOp:
    # Numbers below 0: the rows of a chain, some of which this stage does not name, have the others.
    others = sum(n.op is Ops.LOCAL for n in kernel.nodes)
    return UOp(Ops.LOCAL, dtype, (), (count, "scratch", -1 - others - number))


def _element(local: UOp, position: UOp) -> UOp:
    return UOp(Ops.INDEX, local.dtype, (local, position))
