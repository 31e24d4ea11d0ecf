"""Sums of products with re-use: matmul, batched matmul, convolution and their gradients.

Which range plays which part follows from index dependence alone: *m* ranges move only the first
factor, *n* ranges only the second, the others of the output are a batch. Two forms:

*outer*: the output is contiguous along n. A register tile of rows x vectors; each step of k loads
a few vectors of one factor and broadcasts a few scalars of the other.

*dot*: both factors are contiguous along k (x @ w.T). Lanes run along k; a tile of rows x columns
keeps one vector of partial sums for each output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ...target import Target
from ...uop.linear import ranges_of
from ...uop.ops import Ops, UOp, size
from ..kernel import Kernel, extent, launchable, length, static, substitute
from ..transform import reorder, unroll
from .ahead import ask_for_factors, ask_for_operands
from .common import (
    MIN_LANES,
    ask_ahead,
    bound,
    contiguous_output,
    factored,
    in_order,
    into_lanes,
    lanes_for,
    loads,
    near,
    second_cache,
    step,
    tile,
)
from .turns import Tile, in_turns
from .windows import MAX_ROWS, SHORT, beside, in_registers

MAX_VECTORS = 4  # a whole row of a head of attention, 64 columns of AVX-512
DOT_ROWS = 4  # measured on AVX2, 16 registers: 4 x 3 gives 87 GFLOP/s, 4 x 2 gives 79, 3 x 4 spills
FMA_LATENCY = 4
FEW_TILES = 8  # for which the second factor is read again
FEW_ROWS = 6  # a tile of fewer rows loads more than it multiplies


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a contraction."""

    m: UOp
    n: UOp
    reduced: tuple[UOp, ...]
    outer: bool  # lanes along n; else along `reduced[-1]`
    near: UOp | None = None  # moves the second factor by less than a vector (a filter's column)
    panels: UOp | None = None  # goes on in the output where n, one vector long, ends


def apply(kernel: Kernel, target: Target) -> Kernel | None:
    lanes = lanes_for(kernel, target)
    kernel = ungated(kernel)
    shape = analyse(kernel, lanes)
    if shape is None:
        return None
    made = (
        _outer(kernel, target, shape, lanes) if shape.outer else _dot(kernel, target, shape, lanes)
    )
    return replace(made, recipe="contraction")


def analyse(kernel: Kernel, lanes: int) -> Shape | None:
    """The parts, or None if this is no contraction that a tile would help."""
    reductions = kernel.reductions
    if len(reductions) != 1 or reductions[0].arg is not Ops.ADD or lanes < 2:
        return None
    body = product_of(reductions[0])
    if body is None:
        return None
    outputs = [r for r in kernel.outputs if launchable(r)]
    sides = [[r for r in outputs if r in ranges_of(s)] for s in body.src]
    first = [r for r in sides[0] if r not in sides[1]]
    second = [r for r in sides[1] if r not in sides[0]]
    if not first or not second:
        return None
    read = loads([body])
    reduced = tuple(r for r in kernel.order if r in kernel.reduced)
    vector = contiguous_output(kernel)
    if vector in first:
        first, second = second, first
    if vector in second and length(vector) >= MIN_LANES and _lane_steps(read, vector) <= {0, 1}:
        panels = _panels(kernel, second, lanes) if length(vector) == lanes else None
        scalars = loads([s for s in body.src if vector not in ranges_of(s)])
        rows = _rows(scalars, first)
        return Shape(rows, vector, _along(scalars, reduced), True, panels=panels)
    for k in reversed(reduced):
        if static(k) and length(k) >= lanes and _lane_steps(read, k) == {1}:
            order = (*(r for r in reduced if r is not k), k)
            m, n = _longest(first), _longest(second)
            near = [r for r in second if r is not n and _near(read, r, lanes)]
            return Shape(m, n, order, False, min(near, key=length, default=None))
    return None


def _along(read: list[UOp], reduced: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """Reduced ranges in the order in which the scalars of a tile lie in memory: each row of it
    takes them one by one, so neighbours should come next."""
    if len(read) != 1:
        return reduced
    steps = [step(read[0], r) for r in reduced]
    if None in steps:
        return reduced
    far = {r: abs(s or 0) for r, s in zip(reduced, steps, strict=True)}
    return tuple(sorted(reduced, key=lambda r: -far[r]))


def _panels(kernel: Kernel, second: list[UOp], lanes: int) -> UOp | None:
    """The range over vectors that are neighbours in the output, wherever the factor has them."""
    for loop in second:
        if static(loop) and all(step(s, loop) == lanes for s in kernel.stores):
            return loop
    return None


def _near(read: list[UOp], loop: UOp, lanes: int) -> bool:
    """Do the steps of a range read what lies in the same cache lines?"""
    steps = [step(access, loop) for access in read]
    near = all(s is not None and abs(s) < lanes for s in steps)
    return near and static(loop) and length(loop) > 1


def product_of(reduction: UOp) -> UOp | None:
    """The product that a reduction adds up, also where a condition makes it 0."""
    body = reduction.src[0]
    while body.op is Ops.CAST:
        body = body.src[0]
    if body.op is Ops.WHERE and body.src[2].op is Ops.CONST and body.src[2].arg == 0:
        body = body.src[1]
    return body if body.op is Ops.MUL else None


def ungated(kernel: Kernel) -> Kernel:
    """Move one condition on both factors of a product out of the factor that does not need it.

    A sum over shifted positions (the gradient of a convolution) reads both factors under the
    condition that the position exists. Where the second factor lies within its buffer anyway, the
    product is selected instead, and the factor is free of the condition's ranges.
    """
    for reduction in kernel.reductions:
        body = reduction.src[0]
        if body.op is not Ops.MUL or any(s.op is not Ops.LOAD or len(s.src) < 2 for s in body.src):
            continue
        gate = body.src[0].src[1]
        if gate is not body.src[1].src[1]:
            continue
        for i, factor in enumerate(body.src):
            if not _within(factor) or ranges_of(gate) <= ranges_of(factor.src[0]):
                continue
            plain = UOp(Ops.LOAD, factor.dtype, factor.src[:1])
            product = UOp.alu(Ops.MUL, *(plain if i == j else s for j, s in enumerate(body.src)))
            stores = tuple(substitute(kernel.stores, {body: gate.where(product, 0)}))
            return replace(kernel, stores=stores).logged("ungate", reduction.src[1].arg[0])
    return kernel


def _within(load: UOp) -> bool:
    """Is the address within its buffer whatever the gate says?"""
    param, offset = load.src[0].src
    lo, hi = offset.lo, offset.hi
    return lo is not None and hi is not None and lo >= 0 and hi < param.arg[1]


def _lane_steps(read: list[UOp], loop: UOp) -> set[int | None]:
    return {step(access, loop) for access in read}


def _rows(read: list[UOp], loops: list[UOp]) -> UOp:
    """The range of a tile's rows: along it the scalars lie nearest, if there are enough of them.
    Places of an image that are neighbours have most of what a filter reads in common."""
    enough = [r for r in loops if extent(r) >= FEW_ROWS]
    steps = {r: step(read[0], r) for r in enough} if len(read) == 1 else {}
    return min(
        (r for r in enough if steps.get(r)),
        key=lambda r: abs(steps[r] or 0),
        default=_longest(loops),
    )


def _longest(loops: list[UOp]) -> UOp:
    return max(loops, key=extent)


def register_tile(target: Target, rows: int, vectors: int) -> tuple[int, int]:
    """Rows and vectors of the register tile for an output of `rows` by `vectors`.

    Accumulators, the vectors of one step and two scalars must fit the registers. Among the sizes
    that do, the one with the least time is taken: `_cycles` of every tile, those of the remainders
    included.
    """
    sizes = [
        (r, v)
        for v in range(1, MAX_VECTORS + 1)
        for r in range(1, MAX_ROWS + 1)
        if r * v + v + 2 <= target.registers and r <= rows and v <= vectors
    ]
    return min(sizes, key=lambda t: _total(rows, vectors, *t), default=(1, 1))


def _total(rows: int, vectors: int, r: int, v: int) -> float:
    row_parts = [(rows // r, r), (1, rows % r)]
    vector_parts = [(vectors // v, v), (1, vectors % v)]
    return sum(n * m * _cycles(a, b) for n, a in row_parts for m, b in vector_parts)


def _cycles(r: int, v: int) -> float:
    """Cycles of one step of a tile: two multiply-adds or two loads each, the latency of one at
    least, and a start.

    Measured on AVX2: 6 x 2 gives 91 GFLOP/s, 4 x 2 gives 75, 8 x 1 gives 65.
    """
    return max(r * v / 2, (r + v) / 2, FMA_LATENCY) + 0.8 if r and v else 0.0


def _outer(kernel: Kernel, target: Target, shape: Shape, lanes: int) -> Kernel:
    others = [r for r in kernel.outputs if r not in (shape.m, shape.n, shape.panels)]
    first, again = _by_vectors(kernel, shape.n, others)
    far = _bytes_along(kernel, shape.n) > second_cache(target)
    matrices = _matrices(kernel, shape, others)
    kernel, n_outer, lane = into_lanes(kernel, shape.n, lanes)
    n_outer = n_outer if shape.panels is None else shape.panels
    alone = matrices is not None and not matrices.strips and _passes(matrices, target)
    others = [] if matrices is not None or lane is None else beside(kernel, lane, first)
    columns = _columns(target, extent(shape.m), n_outer, others)
    vectors = length(columns) if columns is not None else 1
    r, v = register_tile(target, extent(shape.m), vectors)
    c_outer, n_inner, n_rest = columns, None, None
    if columns is not None and v > 1:
        kernel, c_outer, n_inner, n_rest = tile(kernel, columns, v)
    terms = in_registers(kernel, target, lane, (shape.m, *shape.reduced), r * v + v + r)
    kernel, m_outer, m_inner, m_rest = tile(kernel, shape.m, r)
    for loop in in_order([n_inner, n_rest, m_inner, m_rest]):
        kernel = unroll(kernel, loop)
    kernel, reduced = _unroll_k(kernel, terms, far)
    rows = _far_first(kernel, in_order(again, [m_outer]), lane)
    if columns is n_outer:
        n_outer = c_outer
        grid = in_order(first, [n_outer], rows)
    else:  # along a row of vectors innermost: what it meets stays near
        grid = in_order((c_outer if f is columns else f for f in first), rows, [n_outer])
    if matrices is not None and m_outer is not None:
        kernel, grid = _walk(kernel, target, matrices, n_outer, m_outer)
    if matrices is None and lane is not None:
        width = kernel.reductions[0].dtype.itemsize
        read = Tile((v * length(lane) + r) * width, r * v * length(lane) * width)
        kernel, grid, reduced = in_turns(kernel, target, grid, reduced, read)
    made = _finish(kernel, grid, reduced, in_order([m_inner, m_rest, n_inner, n_rest, lane]))
    if m_outer is not None and grid[-1] is m_outer:
        made = ask_for_operands(made, target, m_outer)
    if alone and n_outer is None and m_outer is not None:
        return ask_ahead(made, target, m_outer)  # each row is read by one tile
    return made if matrices is None else ask_for_factors(made, target, matrices, grid, lane)


def _columns(target: Target, rows: int, vectors: UOp | None, others: list[UOp]) -> UOp | None:
    """The range over the columns of a tile: that over vectors, or where tiles leave some of them
    over, one beside it that leaves less. (A row of 56 places is 7 vectors of 8: tiles of two leave
    one, while of two rows of an image none is left. AVX2, two threads: 3 x 3, 64 channels, 1.1x.)
    """

    def time(loop: UOp) -> float:
        n = length(loop)
        return _total(rows, n, *register_tile(target, rows, n)) / n

    if vectors is None or length(vectors) % register_tile(target, rows, length(vectors))[1] == 0:
        return vectors
    return min([vectors, *others], key=time)


class Matrices(NamedTuple):
    """A product of matrices: what is a batch, what are strips of columns; bytes of the factors, and
    of a result with its batch, 0 in scratch."""

    batch: list[UOp]
    strips: list[UOp]
    first: int
    second: int
    results: int


def _matrices(kernel: Kernel, shape: Shape, others: list[UOp]) -> Matrices | None:
    """How a product of matrices lies in its ranges; None for other sums of products."""
    node = kernel.reductions[0]
    body = product_of(node)
    assert body is not None
    sides = sorted((ranges_of(s) for s in body.src), key=lambda side: shape.n in side)
    batch = [r for r in others if r in sides[0] and r in sides[1]]
    strips = [r for r in others if r not in sides[0]]
    if len(shape.reduced) > 1 or len(strips) > 1 or len(batch) + len(strips) < len(others):
        return None
    column = size([extent(r) for r in shape.reduced]) * node.dtype.itemsize
    columns = size([extent(r) for r in in_order(strips, [shape.n, shape.panels])])
    written = [s.src[0].src[0] for s in kernel.stores if s.src[0].src[0].op is Ops.PARAM]
    results = max((p.arg[1] * p.dtype.itemsize for p in written), default=0)
    return Matrices(batch, strips, extent(shape.m) * column, columns * column, results)


def _passes(matrices: Matrices, target: Target) -> bool:
    """Does the second factor stay in the second cache, and the first go past it?"""
    room = second_cache(target) // 2
    return matrices.second <= room and matrices.first > 2 * room


def _walk(
    kernel: Kernel, target: Target, matrices: Matrices, columns: UOp | None, rows: UOp
) -> tuple[Kernel, list[UOp]]:
    """The order in which the tiles of matrices are taken: down one strip of columns after another.
    If the second factor stays in the second cache, and the first or the result does not, they go
    row by row: the first is read once, and results are written as they lie in memory. If neither
    factor stays, as many rows are taken at once as do: what brings them from beyond is shared by
    all threads. (1024 in float32: 132 MB from beyond, in blocks of 256 rows 20 MB.)

    Where only the result does not stay, each core has strips of its own, which it has packed too.

    Measured on AVX-512, one thread: row by row a gradient of 512 x 784, summed over 256, with
    Adam's update or without it, takes 0.96 of the time, 512 and 768 0.97; a product of
    8192 x 256 and 256 x 256 takes 0.76. On two, 512 with strips of each takes 0.94.
    """
    room = second_cache(target) // 2
    strips = in_order(matrices.strips, [columns])
    if _passes(matrices, target):
        return kernel, in_order(matrices.batch, [rows], strips)
    if matrices.second <= room <= matrices.results:
        kernel, own, strips = _shared_out(kernel, strips, target.cores)
        return kernel, in_order(matrices.batch, own, [rows], strips)
    blocks = None
    if static(rows) and matrices.first > 2 * room:
        steps = _tiles_at_once(length(rows), matrices.first // length(rows), target)
        if steps > 1:
            kernel, blocks, rows = factored(kernel, rows, steps)
    return kernel, in_order(matrices.batch, [blocks], strips, [rows])


def _tiles_at_once(tiles: int, nbytes: int, target: Target) -> int:
    """How many tiles of rows, of so many bytes each, are taken at once, or 0 for all of them.

    As many as stay in the second cache; where those are so few that the second factor comes from
    beyond it as often, as many as stay near in the last one. (AVX2, tiles of 6 rows, two threads:
    2048 in blocks of 31 takes 0.88 of the time of all at once, of 11 tiles 0.92.)
    """
    wanted = second_cache(target) // 2 // nbytes
    if wanted < FEW_TILES:
        wanted = near(target) // 16 // nbytes
    some = (d for d in range(2, min(tiles, 2 * wanted + 1)) if tiles % d == 0)
    return min(some, key=lambda d: max(d / wanted, wanted / d), default=0)


def _shared_out(
    kernel: Kernel, strips: list[UOp], cores: int
) -> tuple[Kernel, list[UOp], list[UOp]]:
    """Strips as many parts as there are cores, where they come out even: parts, strips of each."""
    if not strips or not static(strips[0]) or length(strips[0]) % cores:
        return kernel, [], strips
    if length(strips[0]) == cores:
        return kernel, strips[:1], strips[1:]
    kernel, own, first = factored(kernel, strips[0], length(strips[0]) // cores)
    return kernel, in_order([own]), [first, *strips[1:]]


def _by_vectors(kernel: Kernel, n: UOp, loops: list[UOp]) -> tuple[list[UOp], list[UOp]]:
    """Ranges that move the factor that `n` moves (what is read in vectors), and those that do not:
    inside of the others they find that near the core again."""
    body = product_of(kernel.reductions[0])
    moving = [ranges_of(s) for s in body.src if n in ranges_of(s)] if body is not None else []
    moved = frozenset[UOp]().union(*moving)
    return [r for r in loops if r in moved], [r for r in loops if r not in moved]


def _far_first(kernel: Kernel, loops: list[UOp], lane: UOp | None) -> list[UOp]:
    """Ranges in the order in which the scalars of a tile lie in memory, as far as that is known:
    what a filter's gradient reads of some channels for one place of the window is still near for
    the next place. (AVX-512, one thread: 128 channels of 28 x 28 1.14x, 256 of 14 x 14 1.11x.)"""
    read = [a for a in loads(kernel.stores) if lane not in ranges_of(a)]
    steps = {r: [step(a, r) for a in read] for r in loops}
    if any(None in known for known in steps.values()):
        return loops
    return sorted(loops, key=lambda r: -max((abs(s or 0) for s in steps[r]), default=0))


def _bytes_along(kernel: Kernel, loop: UOp) -> int:
    """Bytes of what is read in vectors along a range, those of every batch; scratch is near."""
    read = [a for a in loads(kernel.stores) if step(a, loop) and a.src[0].src[0].op is Ops.PARAM]
    return max((min(_steps(a), a.src[0].src[0].arg[1]) * a.dtype.itemsize for a in read), default=0)


def _steps(access: UOp) -> int:
    return size([extent(r) for r in ranges_of(access)])


def _unroll_k(kernel: Kernel, reduced: tuple[UOp, ...], far: bool) -> tuple[Kernel, list[UOp]]:
    """The innermost reduced loop four steps at a time: same accumulators, same order.

    Only where the vectors come from beyond the second cache, so that more of them are under way at
    once (measured at 512: 73 -> 87 GFLOP/s; 256 x 64^3: 1.1-1.19x; at 256 it only costs text).
    """
    k = reduced[-1]
    if static(k) and length(k) <= SHORT:
        return unroll(kernel, k), list(reduced)
    if not far or not static(k) or length(k) % 4 or length(k) < 8:
        return kernel, list(reduced)
    kernel, outer, inner = factored(kernel, k, 4)
    return unroll(kernel, inner), in_order(reduced[:-1], [outer, inner])


def _dot(kernel: Kernel, target: Target, shape: Shape, lanes: int) -> Kernel:
    others = [r for r in kernel.outputs if r is not shape.m and r is not shape.n]
    moving, again = _by_vectors(kernel, shape.m, others)
    kernel, k_outer, lane = into_lanes(kernel, shape.reduced[-1], lanes)
    # A row needs one vector at a time; the columns' vectors are live beside all accumulators.
    columns = max((target.registers - 1) // (DOT_ROWS + 1), 1)
    near = shape.near if shape.near is not None and length(shape.near) <= columns else None
    if near is not None:
        columns //= length(near)
    kernel, m_outer, m_inner, m_rest = tile(kernel, shape.m, DOT_ROWS)
    kernel, n_outer, n_inner, n_rest = tile(kernel, shape.n, columns)
    for loop in in_order([m_inner, m_rest, near, n_inner, n_rest]):
        kernel = unroll(kernel, loop)
    grid = in_order((r for r in others if r is not near), [n_outer, m_outer])
    if near is not None:  # most is read for the rows: what it is multiplied by passes by
        grid = in_order(moving, [m_outer], (r for r in again if r is not near), [n_outer])
    reduced = in_order(shape.reduced[:-1], [k_outer])
    inner = in_order([lane, m_inner, m_rest, near, n_inner, n_rest])
    return _finish(kernel, grid, reduced, inner)


def _finish(kernel: Kernel, grid: list[UOp], reduced: list[UOp], inner: list[UOp]) -> Kernel:
    kernel, grid = bound(kernel, grid)
    named = set(grid) | set(reduced) | set(inner)
    left = [r for r in kernel.order if r not in named]
    outer_left = [r for r in left if r not in kernel.reduced]
    return reorder(
        kernel, [*grid, *outer_left, *reduced, *(r for r in left if r in kernel.reduced), *inner]
    )
