"""The schedule language: small verbs that change how a kernel runs and never what it computes.

Each verb takes a Kernel and gives a Kernel, checks its own legality (ScheduleError names the verb
and the range), and logs itself, so that a transform list can be stored, searched and printed.
Ranges are named by their number, which is stable for one canonical kernel.

A reduction in two levels (`split_reduce` in textbooks) is no verb of its own: between cores its
partial results lie in memory, which is a matter of the graph (`schedule/reductions.py`); within a
kernel it is `block` with `subtotals`, or `split` with `accumulate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import PolygradError
from ..uop.linear import coefficient, divides, mixed, ranges_of
from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import rebuild
from .kernel import (
    Kernel,
    in_place,
    index_roots,
    keeps,
    launchable,
    length,
    misplaced,
    placing,
    static,
    steps,
    substitute,
    waiting,
)


class ScheduleError(PolygradError, ValueError):
    """A verb that is not legal for this kernel."""


def _apply(kernel: Kernel, table: dict[UOp, tuple[UOp, ...]], exprs: dict[UOp, UOp]) -> Kernel:
    """Replace ranges: `exprs` in expressions, `table` (in order) in the loop order; kinds are
    inherited.

    A range whose bound changes with them (the inner one of a `block`) is a new node as well.
    """
    others = [r for r in kernel.order if r not in table]
    changed = substitute([*kernel.stores, *others], exprs)
    stores = tuple(changed[: len(kernel.stores)])
    parts = {r: (new,) for r, new in zip(others, changed[len(stores) :], strict=True)} | table
    order = tuple(dict.fromkeys(p for r in kernel.order for p in parts[r]))
    kinds = {p: kind for r, kind in kernel.kinds.items() for p in parts[r]}
    return replace(kernel, stores=stores, order=order, kinds=kinds)


def free(kernel: Kernel, loop: UOp, verb: str) -> None:
    """Only an ordinary loop changes its length: lanes and printed-out steps depend on it."""
    kind = kernel.kind(loop)
    if kind != "loop":
        raise ScheduleError(f"{verb}: range {loop.arg[0]} is of kind {kind} already")


def split(kernel: Kernel, loop: UOp, factor: int) -> Kernel:
    """r -> outer * factor + inner. The factor must divide the length (see `peel` and `block`)."""
    free(kernel, loop, "split")
    n = steps(loop)
    if factor < 1 or not divides(n, factor) or n.hi == 0:
        shown = n.arg if n.op is Ops.CONST else n
        raise ScheduleError(
            f"split: {factor} does not divide the length {shown} of range {loop.arg[0]}"
        )
    if factor == 1 or (static(loop) and factor == n.arg):
        return kernel
    first, kind, lo = kernel.fresh(2), loop.arg[1], loop.src[0]
    outer = UOp.range(UOp.index(0), n // factor, first, kind)
    inner = UOp.range(0, factor, first + 1, kind)
    made = _apply(kernel, {loop: (outer, inner)}, {loop: outer * factor + inner + lo})
    return made.logged("split", loop.arg[0], factor)


def parts_of(before: Kernel, after: Kernel) -> tuple[UOp, ...]:
    """The ranges that `after` has and `before` had not, in loop order."""
    return tuple(r for r in after.order if r not in before.order)


def positive(verb: str, factor: int) -> None:
    if factor < 1:
        raise ScheduleError(f"{verb}: {factor} is no number of steps")


def block(kernel: Kernel, loop: UOp, factor: int) -> Kernel:
    """r -> outer * factor + inner for any factor: the inner loop's bound ends the last block
    early.
    """
    positive("block", factor)
    n = steps(loop)
    if static(loop) and n.arg % factor == 0:
        return split(kernel, loop, factor)
    free(kernel, loop, "block")
    first, kind, lo = kernel.fresh(2), loop.arg[1], loop.src[0]
    outer = UOp.range(UOp.index(0), (n + (factor - 1)) // factor, first, kind)
    rest = n - outer * factor
    inner = UOp.range(UOp.index(0), rest.minimum(factor), first + 1, kind)
    made = _apply(kernel, {loop: (outer, inner)}, {loop: outer * factor + inner + lo})
    return made.logged("block", loop.arg[0], factor)


def cover(kernel: Kernel, loop: UOp, factor: int) -> Kernel:
    """r -> outer * factor + inner for any length, the inner range whole: steps beyond the end
    compute the last one again and store nothing."""
    positive("cover", factor)
    free(kernel, loop, "cover")
    if loop not in kernel.outputs:
        raise ScheduleError(f"cover: range {loop.arg[0]} is reduced or sequential")
    if _carries(kernel, loop):
        raise ScheduleError(f"cover: a step of range {loop.arg[0]} writes what the one before left")
    n, first, kind = steps(loop), kernel.fresh(2), loop.arg[1]
    outer = UOp.range(UOp.index(0), (n + (factor - 1)) // factor, first, kind)
    inner = UOp.range(0, factor, first + 1, kind)
    at = outer * factor + inner
    gated = tuple(_gated(s, at < n) if loop in ranges_of(s) else s for s in kernel.stores)
    exprs = {loop: at.minimum(n - 1) + loop.src[0]}
    made = _apply(replace(kernel, stores=gated), {loop: (outer, inner)}, exprs)
    return made.logged("cover", loop.arg[0], factor)


def _gated(store: UOp, inside: UOp) -> UOp:
    gate = store.src[2] & inside if len(store.src) > 2 else inside
    return UOp(Ops.STORE, store.dtype, (*store.src[:2], gate), store.arg)


def pad(kernel: Kernel, loop: UOp, multiple: int) -> Kernel:
    """Round a range up to a multiple; loads and stores beyond the end are gated off, and a
    reduction adds its identity there. The length may vary."""
    positive("pad", multiple)
    free(kernel, loop, "pad")
    lo, n = loop.src[0], steps(loop)
    if divides(n, multiple):
        return kernel
    longer = (n + (multiple - 1)) // multiple * multiple
    made_range = UOp.range(lo, lo + longer, kernel.fresh(), loop.arg[1])
    made = _apply(kernel, {loop: (made_range,)}, {loop: made_range})
    stores = _guarded(made.stores, made_range, made_range < lo + n)
    return replace(made, stores=stores).logged("pad", loop.arg[0], multiple)


def _guarded(stores: Sequence[UOp], loop: UOp, inside: UOp) -> tuple[UOp, ...]:
    """Gate the loads and stores that use `loop`; beyond the end a reduction or scan adds its
    identity."""
    from ..uop.values import identity

    new: dict[UOp, UOp] = {}
    for node in toposort(stores):
        src = tuple(new[s] for s in node.src)
        if node.op is Ops.LOAD and loop in ranges_of(node):
            gate = src[1] & inside if len(src) > 1 else inside
            new[node] = UOp(Ops.LOAD, node.dtype, (src[0], gate))
        elif node.op is Ops.STORE and loop in ranges_of(node):
            new[node] = _gated(rebuild(node, src), inside)
        elif node.op in (Ops.REDUCE, Ops.SCAN) and loop in node.src[1:]:
            kept = src[0].op is Ops.AFTER  # by a store whose gate is made here as well
            value = src[0].src[0] if kept else src[0]
            value = inside.where(value, UOp.const(node.dtype, identity(node.arg, node.dtype)))
            value = value.after(*src[0].src[1:]) if kept else value
            new[node] = UOp(node.op, node.dtype, (value, *src[1:]), node.arg)
        else:
            new[node] = rebuild(node, src)
    return tuple(new[s] for s in stores)


def peel(kernel: Kernel, loop: UOp, at: int) -> Kernel:
    """Cut a range in two, [lo, lo + at) and the rest, which counts from 0: reductions become the
    sum of both, stores are doubled. The first part keeps its place in the loop order, the rest
    follows it."""
    if not static(loop):
        raise ScheduleError(f"peel: range {loop.arg[0]} has a length that varies: see peel_whole")
    n = length(loop)
    if not 0 < at < n:
        raise ScheduleError(f"peel: {at} is not inside range {loop.arg[0]} of length {n}")
    return _peeled(kernel, loop, UOp.index(at)).logged("peel", loop.arg[0], at)


def peel_whole(kernel: Kernel, loop: UOp, factor: int) -> Kernel:
    """`peel` of a length that varies, at its largest multiple of the factor. Either part may be
    empty."""
    positive("peel_whole", factor)
    return _peeled(kernel, loop, steps(loop) // factor * factor).logged(
        "peel_whole", loop.arg[0], factor
    )


def _peeled(kernel: Kernel, loop: UOp, at: UOp) -> Kernel:
    free(kernel, loop, "peel")
    lo = loop.src[0]
    if loop.arg[1] == "seq":
        raise ScheduleError(f"peel: range {loop.arg[0]} is sequential: the rest needs what was")
    bounds_nothing(kernel, loop, "peel")
    if any(loop in ranges_of(n) for n in kernel.reductions if keeps(n)):
        raise ScheduleError(f"peel: range {loop.arg[0]} has rows in scratch: peel, then stage")
    first = kernel.fresh(2)
    main = UOp.range(lo, lo + at, first, loop.arg[1])
    rest = UOp.range(UOp.index(0), steps(loop) - at, first + 1, loop.arg[1])
    values = (main, rest + (lo + at))
    if loop in kernel.reduced:
        stores = _peel_reductions(kernel.stores, loop, values)
    else:
        both = [substitute(kernel.stores, {loop: value}) for value in values]
        stores = tuple(dict.fromkeys(s for part in both for s in part))
    order: list[UOp] = []
    for r in kernel.order:
        order += (main, rest) if r is loop else (r,)
    kinds = {r: k for r, k in kernel.kinds.items() if r is not loop}
    return replace(kernel, stores=stores, order=tuple(order), kinds=kinds)


def bounds_nothing(kernel: Kernel, loop: UOp, verb: str) -> None:
    if any(loop in s.toposort() for r in kernel.order for s in r.src):
        raise ScheduleError(f"{verb}: range {loop.arg[0]} bounds another range")


def _peel_reductions(stores: Sequence[UOp], loop: UOp, values: tuple[UOp, UOp]) -> tuple[UOp, ...]:
    new: dict[UOp, UOp] = {}
    for node in toposort(stores):
        src = tuple(new[s] for s in node.src)
        if node.op is Ops.REDUCE and loop in node.src[1:]:
            kept = UOp(Ops.REDUCE, node.dtype, (src[0], *node.src[1:]), node.arg)
            parts = [substitute((kept,), {loop: value})[0] for value in values]
            new[node] = UOp.alu(node.arg, *parts)
        else:
            new[node] = rebuild(node, src)
    return tuple(new[s] for s in stores)


def fuse(kernel: Kernel, outer: UOp, inner: UOp) -> Kernel:
    """Two neighbours that every index walks as one become one range."""
    if not fusable(kernel, outer, inner):
        raise ScheduleError(f"fuse: ranges {outer.arg[0]} and {inner.arg[0]} are not walked as one")
    m = length(inner)
    merged = UOp.range(UOp.index(0), steps(outer) * m, kernel.fresh(), outer.arg[1])
    exprs = {outer: merged // m, inner: merged % m}
    made = _apply(kernel, {outer: (merged,), inner: (merged,)}, exprs)
    return made.logged("fuse", outer.arg[0], inner.arg[0])


def fusable(kernel: Kernel, outer: UOp, inner: UOp) -> bool:
    """Is every index a function of outer * len(inner) + inner?"""
    if outer is inner or not (launchable(outer) and static(inner)) or outer.arg[1] != inner.arg[1]:
        return False
    if kernel.kind(outer) != "loop" or kernel.kind(inner) != "loop":
        return False
    if outer.src[0].arg != 0 or inner.src[0].arg != 0:
        return False
    for node in kernel.reductions:
        if (outer in node.src[1:]) != (inner in node.src[1:]):
            return False
    m = length(inner)
    for root in index_roots(kernel.stores):
        a, b = coefficient(root, outer), coefficient(root, inner)
        if a is None or b is None or a != b * m:
            return False
    return True


def reorder(kernel: Kernel, loops: Sequence[UOp]) -> Kernel:
    """A new loop order: a permutation of the ranges."""
    if set(loops) != set(kernel.order) or len(loops) != len(kernel.order):
        raise ScheduleError("reorder: the loops given are not a permutation of the kernel's ranges")
    for r in kernel.order:  # a bound must be known before its loop
        inside = [n for s in r.src for n in s.toposort() if n.op is Ops.RANGE]
        if any(loops.index(n) > loops.index(r) for n in inside):
            raise ScheduleError(f"reorder: range {r.arg[0]} is bounded by a range inside it")
    if tuple(loops) == kernel.order:
        return kernel
    if _sequential(loops) != _sequential(kernel.order):
        raise ScheduleError("reorder: sequential ranges keep their order")
    made = replace(kernel, order=tuple(loops))
    if (bad := misplaced(made)) is not None:
        raise ScheduleError(
            f"reorder: a loop would stand around a reader of {bad} but not around it"
        )
    return made.logged("reorder", *(r.arg[0] for r in loops))


def _sequential(loops: Sequence[UOp]) -> list[UOp]:
    return [r for r in loops if r.arg[1] == "seq"]


def _kind(kernel: Kernel, loop: UOp, kind: str) -> Kernel:
    made = replace(kernel, kinds={**kernel.kinds, loop: kind})
    return made.logged(kind, loop.arg[0])


def bindable(kernel: Kernel, loop: UOp) -> bool:
    """Whether the launch knows the length, and no store is lost where that is 0."""
    some = (loop.src[1].lo or 0) > (loop.src[0].lo or 0)
    always = some or all(loop in ranges_of(s) for s in kernel.stores)
    return launchable(loop) and always and not _carries(kernel, loop)


def _carries(kernel: Kernel, loop: UOp) -> bool:
    """Whether a step of a range needs what another has left in scratch (`row_programs.delay`)."""
    left = [s for s in kernel.stores if s.src[0].src[0].op is Ops.LOCAL]
    apart = any(loop not in ranges_of(s) or loop in placing(s) for s in left)
    return apart and bool(waiting(kernel))


def bind(kernel: Kernel, loop: UOp, kind: str = "grid") -> Kernel:
    """Run a range on the blocks of the launch: only output ranges, which are independent."""
    if loop not in kernel.outputs:
        raise ScheduleError(f"bind: range {loop.arg[0]} is reduced or sequential")
    if _carries(kernel, loop):
        raise ScheduleError(f"bind: a step of range {loop.arg[0]} writes what the one before left")
    if not bindable(kernel, loop):
        raise ScheduleError(f"bind: range {loop.arg[0]} has a bound known only at run time")
    return _kind(kernel, loop, kind)


def vectorize(kernel: Kernel, loop: UOp) -> Kernel:
    """The range becomes the lanes of a vector."""
    if not static(loop) or loop.src[0].arg != 0 or length(loop) & (length(loop) - 1):
        raise ScheduleError(
            f"vectorize: range {loop.arg[0]} needs a constant power of two of lanes"
        )
    if loop.arg[1] == "seq":
        raise ScheduleError(f"vectorize: range {loop.arg[0]} is sequential")
    bounds_nothing(kernel, loop, "vectorize")
    return _kind(kernel, loop, "vector")


def unroll(kernel: Kernel, loop: UOp) -> Kernel:
    """Print the loop's body once per step; a reduction keeps one accumulator and its order."""
    if not static(loop):
        raise ScheduleError(f"unroll: range {loop.arg[0]} has a bound known only at run time")
    return _kind(kernel, loop, "unroll")


def accumulate(kernel: Kernel, loop: UOp) -> Kernel:
    """An accumulator for each step of a reduced range, combined in order afterwards."""
    if loop not in kernel.reduced or not static(loop):
        raise ScheduleError(
            f"accumulate: range {loop.arg[0]} is not a reduction of constant length"
        )
    return _kind(kernel, loop, "partial")


def subtotals(kernel: Kernel, loop: UOp) -> Kernel:
    """Each step of the range ends a block of a reduction or scan. What a block of a float sum added
    up joins the total, with its rounding error kept if blocks are many, so that errors grow with
    the block and not with the length; other operations are the same as before."""
    if loop not in kernel.reduced and loop.arg[1] != "seq":
        raise ScheduleError(f"subtotals: range {loop.arg[0]} is not reduced")
    return _kind(kernel, loop, "subtotal")


def stream(kernel: Kernel, number: int) -> Kernel:
    """Let store `number`, and what was delayed of it, write past the caches: whole vectors at
    addresses that are multiples of their size, of what the kernel does not read."""
    store = kernel.stores[number] if 0 <= number < len(kernel.stores) else None
    written = [] if store is None else [store, *delayed(kernel, store)]
    if not written or any(s.arg is not None or not by_vectors(kernel, s) for s in written):
        raise ScheduleError(f"stream: store {number} does not write whole vectors past the caches")
    past = {s: UOp(Ops.STORE, s.dtype, s.src, "nt") for s in written}
    stores = tuple(substitute(kernel.stores, past))
    return replace(kernel, stores=stores).logged("stream", number)


def delayed(kernel: Kernel, store: UOp) -> list[UOp]:
    """Stores to the same memory that wait for a later step."""
    return [s for s in waiting(kernel) if s.src[0].src[0] is store.src[0].src[0]]


def by_vectors(kernel: Kernel, store: UOp) -> bool:
    """Whether a store may pass by the caches: ungated, aligned, of memory that nobody reads."""
    param, offset = store.src[0].src
    lane = next((r for r in kernel.of_kind("vector") if r in ranges_of(offset)), None)
    read = any(n.op is Ops.LOAD and n.src[0].src[0] is param for n in kernel.nodes)
    if lane is None or read or len(store.src) > 2:
        return False
    start = substitute((offset,), {lane: UOp.index(0)})[0]
    return coefficient(offset, lane) == 1 and divides(start, length(lane))


def unmix(kernel: Kernel) -> Kernel:
    """Split ranges that are only seen through // and % of one divisor, so that indices become
    linear.
    """
    made = kernel
    while (found := mixed(made.stores, set(made.order))) is not None:
        made = split(made, *found)
    if misplaced(made) is None:
        return made
    # A reduction may need one part of a range only, which must be outside of the other then.
    try:
        return reorder(made, in_place(made.stores, made.order))
    except ScheduleError:  # another reduction needs it the other way round
        return kernel


def fuse_all(kernel: Kernel) -> Kernel:
    """Fuse neighbours while any pair allows it."""
    changed = True
    while changed:
        changed = False
        for outer, inner in zip(kernel.order, kernel.order[1:], strict=False):
            if fusable(kernel, outer, inner):
                kernel, changed = fuse(kernel, outer, inner), True
                break
    return kernel
