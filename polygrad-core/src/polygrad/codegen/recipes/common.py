"""What recipes share: how many lanes a kernel has, how each index walks a range, how work is cut
up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ...target import Target
from ...uop.costs import COSTS
from ...uop.linear import coefficient, divides, ranges_of
from ...uop.ops import ELEMENTWISE, Ops, UOp, size, toposort
from ..hints import LINE, prefetch
from ..kernel import Kernel, extent, launchable, length, static, steps
from ..transform import (
    ScheduleError,
    bind,
    bindable,
    block,
    cover,
    delayed,
    parts_of,
    peel,
    peel_whole,
    split,
    stream,
    vectorize,
)

BLOCK_ELEMENTS = 8192  # elements of an elementwise block: long enough to hide its start
LEAST_BLOCK = 1024  # elements of any block: to begin one costs about as much as fifty of them
MAX_LANES = 64
MIN_LANES = 4
AHEAD = 3 << 10  # bytes that a core reads while the first of them are on their way from memory
LEAST_ROW = 256  # bytes of a step that are worth a prefetch: shorter ones lie side by side
FAR = 32 << 20  # bytes: what is larger is not near, whatever the last cache holds
SHORT_ROW = 8  # vectors of a row in which what does not fill a vector still counts


def lanes_for(kernel: Kernel, target: Target) -> int:
    """Lanes of the widest type computed with, offsets aside."""
    widest = 1
    for node in kernel.nodes:
        if node.dtype.kind not in ("index", "void", "bool") and node.op is not Ops.PARAM:
            small = node.dtype.is_narrow or node.dtype.itemsize == 2
            widest = max(widest, 4 if small else node.dtype.itemsize)
    return min(max(target.vector_bytes // widest, 1), MAX_LANES)


def has_pairs(target: Target) -> bool:
    """Whether two vectors, of which each is no whole cache line, may be one value."""
    pair = 2 * target.vector_bytes
    return pair <= LINE and pair in target.memory_bytes


def cost(value: UOp) -> int:
    """Plain vector instructions of an expression, inner reductions aside."""
    nodes = value.toposort(lambda n: n.op not in (Ops.REDUCE, Ops.INDEX))
    return sum(COSTS.get(n.op, 1) for n in nodes if n.op in ELEMENTWISE and n.dtype.is_float)


def second_cache(target: Target) -> int:
    """Bytes of the second cache of a core, or of the only one."""
    return target.cache_bytes[:2][-1]


def near(target: Target) -> int:
    """Bytes that are still near when they have been written: those of the last cache, if that is
    not so large that it must be far and shared with many. Measured with 300 MB of it: past the
    caches, rows are written 1.6 times as fast from 16 MB on, and from 32 MB on 1.3 times as fast
    even if they are read right afterwards."""
    return min(target.cache_bytes[-1], FAR)


def stream_out(kernel: Kernel, target: Target, most: int = FAR) -> Kernel:
    """Write past the caches what is larger than they hold, or than `most` bytes: nobody will find
    it there anyway. A store may write a small part of a large buffer."""
    for number, store in enumerate(kernel.stores):
        if goes_far(kernel, target, store, most):
            with suppress(ScheduleError):  # not by whole vectors
                kernel = stream(kernel, number)
    return kernel


def goes_far(kernel: Kernel, target: Target, store: UOp, most: int = FAR) -> bool:
    """Whether a store, with what was delayed of it, writes more than the caches hold, or `most`."""
    param = store.src[0].src[0]
    if param.op is Ops.LOCAL:
        return False
    places = [s.src[0].src[1] for s in (store, *delayed(kernel, store))]
    written = sum(math.prod(map(extent, ranges_of(place))) for place in places)
    nbytes: int = min(written, param.arg[1]) * param.dtype.itemsize
    return nbytes > min(near(target), most)


def ask_ahead(kernel: Kernel, target: Target, loop: UOp, least: int = LEAST_ROW) -> Kernel:
    """Prefetch what the next steps of a range, of at least `least` bytes, read from afar: where a
    later pass over it computes, for the first one waits; where it is read first, if once.

    What is no small part of the second cache other kernels have pushed out of it since. It comes
    late then, and where a step reads a few KB in one place or in each of several rows, the
    machine's own prefetching begins anew in each. Measured on AVX-512: a matrix with rows of 3 KB
    times 64 columns 1.6x, times one 1.1x, with rows of 1.5 KB 1.3x; softmax of 4096 x 4096 1.5x.
    """
    part, read = second_cache(target) // 4, loads(kernel.stores)
    far: dict[UOp, list[UOp]] = {}
    for load in read:
        param, distance = load.src[0].src[0], step(load, loop)
        if load.arg is not None or param.op is not Ops.PARAM or not distance:
            continue  # asked for already, or near
        if param.arg[1] * param.dtype.itemsize > part:
            if least <= abs(distance) * param.dtype.itemsize <= part:
                far.setdefault(param, []).append(load)
    for some in far.values():
        load = _asking(kernel, some)
        kernel = prefetch(kernel, read.index(load), loop, -(-AHEAD // _taken(kernel, load, loop)))
    return kernel


def _taken(kernel: Kernel, load: UOp, loop: UOp) -> int:
    """Bytes that a step of a range takes: what lies between it and the next one may be left out."""
    inner = kernel.order[kernel.order.index(loop) + 1 :]
    elements = size([extent(r) for r in inner if step(load, r)])
    return min(elements, abs(step(load, loop) or 0)) * load.dtype.itemsize


def _asking(kernel: Kernel, reads: Sequence[UOp]) -> UOp:
    """Of reads of one param, the one in the longest reduction that waits for another of them, or
    else the first."""
    found: list[tuple[int, UOp]] = []
    for node in kernel.reductions:
        own = set(toposort((node.src[0],), lambda n: n.op is not Ops.REDUCE))
        mine = [a for a in reads if a in own]
        earlier = set(loads([node.src[0]])) - own
        if mine and not earlier.isdisjoint(reads):
            found.append((size([extent(r) for r in node.src[1:]]), mine[0]))
    return max(found, key=lambda f: f[0])[1] if found else reads[0]


def step(access: UOp, loop: UOp) -> int | None:
    """How far a LOAD or STORE moves when `loop` advances; None where that is not constant."""
    return coefficient(access.src[0].src[1], loop)


def loads(roots: Iterable[UOp]) -> list[UOp]:
    return [n for n in toposort(tuple(roots)) if n.op is Ops.LOAD]


def streams(accesses: Sequence[UOp], loop: UOp) -> bool:
    """Do all accesses move by one element or stay put along `loop`, and at least one move?"""
    steps = {step(a, loop) for a in accesses}
    return 1 in steps and steps <= {0, 1}


def contiguous_output(kernel: Kernel, varying: bool = False) -> UOp | None:
    """The output range along which every store is contiguous; `varying`: one of any length."""
    for loop in reversed(kernel.outputs):
        if (static(loop) or (varying and launchable(loop))) and all(
            step(s, loop) == 1 for s in kernel.stores
        ):
            return loop
    return None


def into_lanes(kernel: Kernel, loop: UOp, lanes: int) -> tuple[Kernel, UOp | None, UOp | None]:
    """Make vectors of `lanes` along a range: (kernel, remaining outer range, vector range).

    What does not fill a vector is peeled off: a shorter vector where it is a good part of the work
    (a row of 56 is three vectors of 16 and one of 8), then an ordinary loop. A range shorter than
    one vector takes the largest power of two that fits; one of length 1 is left alone.
    """
    if not static(loop):
        return _varying_lanes(kernel, loop, lanes)
    n = length(loop)
    while lanes > n:
        lanes //= 2
    if lanes < 2:
        return kernel, loop, None
    kernel, loop, rest = cut(kernel, loop, n - n % lanes)
    if rest is not None and length(rest) >= MIN_LANES:
        if n <= SHORT_ROW * lanes or kernel.reductions:
            kernel, _, _ = into_lanes(kernel, rest, lanes // 2)
    kernel, outer, inner = factored(kernel, loop, lanes)
    return vectorize(kernel, inner), outer, inner


def _varying_lanes(kernel: Kernel, loop: UOp, lanes: int) -> tuple[Kernel, UOp | None, UOp | None]:
    """`into_lanes` of a length that varies: as many vectors as are full, and single steps."""
    if lanes < 2 or extent(loop) < lanes:
        return kernel, loop, None
    if not divides(steps(loop), lanes):
        made = peel_whole(kernel, loop, lanes)
        kernel, loop = made, parts_of(kernel, made)[0]
    kernel, outer, inner = factored(kernel, loop, lanes)  # 17 to 18 steps have one vector of 16
    return vectorize(kernel, inner), outer, inner


def cut(kernel: Kernel, loop: UOp, at: int) -> tuple[Kernel, UOp, UOp | None]:
    """`peel` when anything is left over: (kernel, the main range, the rest or None)."""
    if at == length(loop):
        return kernel, loop, None
    made = peel(kernel, loop, at)
    main, rest = parts_of(kernel, made)
    return made, main, rest


def factored(kernel: Kernel, loop: UOp, factor: int) -> tuple[Kernel, UOp | None, UOp]:
    """`split`: (kernel, outer range or None if the factor is the whole length, inner range)."""
    if static(loop) and factor == length(loop):
        return kernel, None, loop
    made = split(kernel, loop, factor)
    outer, inner = parts_of(kernel, made)
    return made, outer, inner


def tile(
    kernel: Kernel, loop: UOp, factor: int
) -> tuple[Kernel, UOp | None, UOp | None, UOp | None]:
    """Cut a range into steps of `factor` (at most its length): outer, inner, and what is left
    over, each None where there is nothing of it. Of a length that varies the last steps are
    covered.
    """
    if factor == 1:
        return kernel, loop, None, None
    if not static(loop):
        made = cover(kernel, loop, min(factor, extent(loop)))
        return made, parts_of(kernel, made)[0], parts_of(kernel, made)[1], None
    n = length(loop)
    factor = min(factor, n)
    kernel, main, rest = cut(kernel, loop, n - n % factor)
    kernel, outer, inner = factored(kernel, main, factor)
    return kernel, outer, inner, rest


def in_order(*groups: Iterable[UOp | None]) -> list[UOp]:
    """Ranges one after another, absent ones dropped."""
    return [r for group in groups for r in group if r is not None]


def bound(kernel: Kernel, loops: Sequence[UOp]) -> tuple[Kernel, list[UOp]]:
    """Bind those of these ranges to the grid that may be: (kernel, those)."""
    grid = [r for r in loops if bindable(kernel, r)]
    for loop in grid:
        kernel = bind(kernel, loop)
    return kernel, grid


def spread(kernel: Kernel, loops: Sequence[UOp], inner_work: int) -> Kernel:
    """Bind output ranges to the grid, outermost first; a long last one is cut into blocks, and so
    is one that would leave a block less than LEAST_BLOCK elements."""
    if not loops:
        return kernel
    *outer, last = loops
    per_block = max(BLOCK_ELEMENTS // max(inner_work, 1), 1)
    work = inner_work * extent(last)
    if extent(last) > 2 * per_block and per_block > 1:
        made = block(kernel, last, per_block)
        kernel = bind(made, parts_of(kernel, made)[0])
    elif work >= 2 * BLOCK_ELEMENTS:
        kernel = bind(kernel, last)
    else:
        while outer and work < LEAST_BLOCK:
            kernel, work = _in_blocks(kernel, outer.pop(), work)
    for loop in outer:
        kernel = bind(kernel, loop)
    return kernel


def _in_blocks(kernel: Kernel, loop: UOp, work: int) -> tuple[Kernel, int]:
    """A loop around `work` elements, cut so that its blocks have LEAST_BLOCK of them or all."""
    steps = -(-LEAST_BLOCK // work)
    if extent(loop) < 2 * steps:
        return kernel, work * extent(loop)
    if static(loop):
        steps = next((d for d in range(steps, 2 * steps) if length(loop) % d == 0), steps)
    made = block(kernel, loop, steps)
    return bind(made, parts_of(kernel, made)[0]), work * steps
