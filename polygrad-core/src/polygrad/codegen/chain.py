"""Chains of rows: kernels whose steps leave whole rows to each other, run in blocks of rows.

Comes in: what `schedule/chains.py` makes. Stores over the axes of rows, each of which may read a
LOCAL "scratch" of one row after the effect that wrote it. Goes out: one program. A block of the
launch takes some rows through one *stage* after another; a stage is a kernel of its own over the
rows of the block, with the recipe that its shape calls for, and what stages leave to each other
lies in scratch that fits the second cache. The numbers are those of separate kernels, but the
matrix between them, large for the scores of attention, never goes to memory.

Where an output is a sum over the rows, the blocks of the last axis are steps of one loop: each adds
what its rows give to the output, which starts at 0. Long rows are cut there (`chain_columns.py`).

The reference device takes one row at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ..contract import Instr, LinearProgram, VariableSpec
from ..dtype import DType, dtypes
from ..target import Target
from ..uop.linear import coefficient, moves_along, ranges_of
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.rewrite import rebuild
from .chain_columns import Columns, Loop, cut, grows, operands
from .chain_stages import Stage, numbers_of, reductions_of, rows_of, stages_of
from .cost import operations
from .hints import LINE
from .kernel import Kernel, canonical, extent, length, misplaced, substitute
from .limits import Limits, bounded
from .linearize import Linearizer, params_of
from .lower import index_dtype, lowered
from .recipes import fitting
from .recipes.common import second_cache
from .recipes.contraction import product_of, register_tile
from .transform import unmix

TILES: Final = 8  # register tiles of a block, one below the other; half where all are products
COLUMNS: Final = 4  # vectors of columns that a limit is rounded up to where rows are reduced
PAIR: Final = 2  # vectors of a tile with the most rows, for which those of a block are rounded
PAGE: Final = 2048  # rows so far apart, or a multiple, meet in few sets of the first cache


# ---- blocks of rows


@dataclass(slots=True)
class Blocks:
    """How the rows are cut: `count` blocks of `rows` along the last axis of rows, one step of the
    axes before it. Counters of blocks are variables, which a stage takes as given."""

    counters: list[UOp]
    table: dict[UOp, UOp]  # range over rows -> its value in a block
    inner: UOp | None  # the range over the rows of a block
    rows: int
    overlap: UOp | None  # the condition under which a row is this block's to store
    scratch: dict[UOp, UOp]  # LOCAL of a row -> that of a block
    before: UOp  # rows of a block that the one before it has taken too

    def of(self, stage: Stage) -> Blocks:
        """The same for one stage: a sum over rows takes each of them once."""
        if stage.sums is None or self.inner is None:
            return self
        own = UOp.range(self.before, self.rows, self.inner.arg[0])
        (row,) = substitute((self.table[stage.sums],), {self.inner: own})
        return replace(self, table=self.table | {stage.sums: row}, inner=own, overlap=None)

    def all_rows(self, loops: Sequence[UOp]) -> Blocks:
        """Not a block: every row along the last of these axes."""
        table = {r: self.table[r] for r in loops[:-1]}
        return replace(self, table=table, inner=None, overlap=None)


def reduces_rows(stages: Sequence[Stage]) -> bool:
    """Is there a reduction that is no product? The time that one takes does not shrink with what a
    block computes beyond its limits, so larger blocks pay."""
    stores = [store for s in stages for store in s.stores]
    return any(product_of(n) is None for n in reductions_of(stores))


def blocks_of(stages: Sequence[Stage], loops: Sequence[UOp], target: Target) -> Blocks:
    *outer, last = loops
    counters = [UOp.variable(f"row{i}", 0, extent(r) - 1) for i, r in enumerate(outer)]
    table = dict(zip(outer, counters, strict=True))
    shared = _shared(stages)
    n = length(last)
    kept = {shared.get(s.local, s.local) for s in stages if s.local is not None}
    tiles = TILES if reduces_rows(stages) else TILES // 2
    room = second_cache(target) // (4 if all(s.sums is None for s in stages) else 2)
    rows = 1 if _one_by_one(stages, last) else _rows(n, kept, tiles, room, target)
    count = -(-n // rows)
    counter = UOp.variable(f"row{len(outer)}", 0, count - 1)
    inner = UOp.range(0, rows, last.arg[0]) if rows > 1 else None
    start = counter * rows if n % rows == 0 else (counter * rows).minimum(n - rows)
    before = counter * rows - start
    table[last] = start if inner is None else start + inner
    overlap = None if n % rows == 0 or inner is None else counter * rows <= table[last]
    made: dict[UOp, UOp] = {}
    for stage in stages:
        if (local := stage.local) is not None:
            own = shared.get(local)
            made[local] = made[own] if own is not None else _of_rows(local, rows, len(made))
    return Blocks([*counters, counter], table, inner, rows, overlap, made, before)


def columns_of(stages: Sequence[Stage], loops: Sequence[UOp], target: Target) -> Columns | None:
    """Blocks of columns of which all that the stages need stays in the second cache, beside the
    rows of a block; None for whole rows, which is what stages without a sum over rows take."""
    if target.grid_only or reduces_rows(stages) or all(s.sums is None for s in stages):
        return None
    shared = _shared(stages)
    kept = {shared.get(s.local, s.local) for s in stages if s.local is not None}
    rows = TILES // 2 * register_tile(target, 1 << 10, PAIR)[0]
    column = operands(stages, loops) + rows * sum(u.dtype.itemsize for u in kept)
    most = second_cache(target) * 3 // 4 // column
    return cut(stages, most, _columns(stages, COLUMNS, target))


def _one_by_one(stages: Sequence[Stage], last: UOp) -> bool:
    """Are no two rows in one tile of any product? Both of its factors change from row to row then,
    or a row is a strip of its columns."""
    for stage in stages:
        bodies = [product_of(n) for n in reductions_of(stage.stores)]
        for factors in (body.src for body in bodies if body is not None):
            kept = [bool(_loads(f.toposort())) for f in factors]
            batch = all(last in ranges_of(f) or k for f, k in zip(factors, kept, strict=True))
            strip = any(
                k and moves_along(stage.stores[0], f) for f, k in zip(factors, kept, strict=True)
            )
            if not batch and not strip:
                return False
    return True


def _rows(n: int, locals_: set[UOp], tiles: int, room: int, target: Target) -> int:
    """Rows of a block: whole register tiles, as fill so many bytes at most: a quarter of the second
    cache, or half of it where an output is a sum over rows, all of which each block reads and
    writes (AVX2, attention's gradient of 1024 places: 24 rows for 12, 0.93 of the time). The last
    block takes rows of the one before it again, so of these sizes it is one that takes few twice,
    and makes few blocks: what each reads besides is worth about a row."""
    if target.grid_only:
        return 1
    row: int = sum(u.arg[0] * u.dtype.itemsize for u in locals_)
    tile, _ = register_tile(target, 1 << 10, PAIR)
    most = min(tiles, max(room // row // tile, 1))
    sizes = (tile * i for i in range(most, 0, -1))
    return min(n, min(sizes, key=lambda rows: -(-n // rows) * (rows + 1)))


def _of_rows(local: UOp, rows: int, number: int) -> UOp:
    return UOp(Ops.LOCAL, local.dtype, (), (_pitch(local) * rows, "scratch", number))


def _pitch(local: UOp) -> int:
    """Elements from row to row: whole cache lines, and not whole pages."""
    width, line = local.arg[0], LINE // local.dtype.itemsize
    if width < line:
        return int(width)
    wide = -(-width // line) * line
    return int(wide + line if wide * local.dtype.itemsize % PAGE == 0 else wide)


def _shared(stages: Sequence[Stage]) -> dict[UOp, UOp]:
    """LOCALs that take the place of one that is read for the last time, element by element."""
    out: dict[UOp, UOp] = {}
    for at, stage in enumerate(stages):
        local = stage.local
        if local is None or stage.column is None:
            continue
        for other in dict.fromkeys(_loads(toposort(stage.stores))):
            later = any(other in _loads(toposort(s.stores)) for s in stages[at + 1 :])
            alike = other.dtype is local.dtype and other.arg[0] == local.arg[0]
            if alike and not later and other not in out.values() and _in_place(stage, other):
                out[local] = out.get(other, other)
                break
    return out


def _loads(nodes: Sequence[UOp]) -> dict[UOp, list[UOp]]:
    """The loads of LOCALs among nodes."""
    found: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node.op is Ops.LOAD and node.src[0].src[0].op is Ops.LOCAL:
            found.setdefault(node.src[0].src[0], []).append(node)
    return found


def _in_place(stage: Stage, other: UOp) -> bool:
    """Is a row of `other` read whole before any of it is overwritten, or at the same element?"""
    (store,) = stage.stores
    place = store.src[0].src[1]
    outside = toposort((store.src[1],), lambda n: n.op is not Ops.REDUCE)
    if any(n.src[0].src[1] is not place for n in _loads(outside).get(other, ())):
        return False
    reading = [n for n in reductions_of((store,)) if other in _loads(n.src[0].toposort())]
    return not any(stage.column in ranges_of(n) for n in reading)


# ---- limits


def limits_of(stages: Sequence[Stage], blocks: Blocks, target: Target) -> Limits:
    """Limits of the rows of a block: the furthest of them, in whole tiles."""
    limits = Limits(_step(stages, target), {}, {})
    if target.grid_only:
        return limits
    stores = [store for s in stages for store in s.stores]
    columns = {s.stores[0]: s.column for s in stages if s.column is not None}
    for behind, found in ((False, limits.first), (True, limits.end)):
        for loop, limit in bounded(stores, columns, behind).items():
            furthest = _furthest(limit, blocks, behind)
            if furthest is not None:
                places = furthest.maximum(0) + (limits.step - 1 if behind else 0)
                found[loop] = places // limits.step
    return limits


def _step(stages: Sequence[Stage], target: Target) -> int:
    """Columns that a limit is rounded up to: those of a register tile with the most rows (AVX-512:
    0.97 of the time of twice as many); where rows are reduced, as many as the accumulators of a
    reduction take at a time."""
    _, vectors = register_tile(target, 1 << 10, PAIR)
    return _columns(stages, COLUMNS if reduces_rows(stages) else vectors, target)


def _columns(stages: Sequence[Stage], vectors: int, target: Target) -> int:
    """Columns of so many vectors."""
    widest = max(s.local.dtype.itemsize for s in stages if s.local is not None)
    return vectors * max(target.vector_bytes // widest, 1)


def _furthest(limit: UOp, blocks: Blocks, behind: bool) -> UOp | None:
    """The largest limit of all rows of a block, or the least; None where that is not known."""
    (limit,) = substitute((limit,), blocks.table)
    if blocks.inner is not None:
        slope = coefficient(limit, blocks.inner)
        if slope is None:
            return None
        at = UOp.index(blocks.rows - 1 if (slope > 0) is behind else 0)
        (limit,) = substitute((limit,), {blocks.inner: at})
    return None if ranges_of(limit) else limit


# ---- one stage


def parts_of(stage: Stage, limits: Limits) -> list[tuple[UOp, ...]]:
    """The stores of a stage, its rows between their limits. A product that has them is cut: whole
    tiles, and the columns that fill no tile."""
    loops = [n for n in toposort(stage.stores) if n.op is Ops.RANGE and n in limits]
    own = stage.column
    cut = own in loops and any(product_of(n) is not None for n in reductions_of(stage.stores))
    table: dict[UOp, UOp] = {}
    for loop in loops:
        if not cut or loop is not own:
            first, count = limits.columns(loop)
            table[loop] = UOp.range(UOp.index(0), count, *loop.arg) + first
    stores = tuple(substitute(stage.stores, table))
    if own is None or not cut:
        return [stores]
    n, step, number = length(own), limits.step, own.arg[0]
    first, count = limits.tiles(own)
    inner = 1 + max(numbers_of(UOp(Ops.SINK, dtypes.void, stage.stores)))
    outer = UOp.range(UOp.index(0), count, number) + first
    places = [outer * step + UOp.range(0, step, inner)]
    if n % step:
        places.append(UOp.range(0, n % step, number) + n // step * step)
    return [tuple(substitute(stores, {own: place})) for place in places]


def _placed(stores: Sequence[UOp], blocks: Blocks) -> list[UOp]:
    """Stores with rows of the block: LOCALs hold as many, outputs are stored by one block each, and
    sums over rows grow by what those of the block give."""
    new: dict[UOp, UOp] = {}
    sums: set[UOp] = set()
    for node in toposort(tuple(stores)):
        src = tuple(new[s] for s in node.src)
        if node in blocks.table:
            new[node] = blocks.table[node]
        elif node.op is Ops.INDEX and node.src[0].op is Ops.LOCAL:
            local = blocks.scratch[node.src[0]]
            offset = src[1] if blocks.inner is None else src[1] + blocks.inner * _pitch(node.src[0])
            new[node] = UOp(Ops.INDEX, local.dtype, (local, offset))
        elif (
            node.op is Ops.STORE
            and node.src[0].src[0].op is Ops.PARAM
            and blocks.overlap is not None
        ):
            gate = blocks.overlap if len(src) < 3 else src[2] & blocks.overlap
            new[node] = UOp(Ops.STORE, node.dtype, (*src[:2], gate), node.arg)
        elif node.op is Ops.REDUCE and node.src[1] in blocks.table:  # over the rows
            sums.add(node)
            step = src[:1] if blocks.inner is None else (src[0], blocks.inner)
            new[node] = src[0] if len(step) == 1 else UOp(Ops.REDUCE, node.dtype, step, node.arg)
        elif node.op is Ops.REDUCE:
            new[node] = UOp(Ops.REDUCE, node.dtype, src, node.arg)
        elif node.op is Ops.STORE and node.src[1] in sums:
            new[node] = src[0].store(src[0].load() + src[1])
        else:
            new[node] = rebuild(node, src)
    return [new[s] for s in stores]


def stage_kernel(stores: Sequence[UOp], target: Target) -> Kernel:
    """The kernel of a stage as its recipe wants it: what would be the launch's are loops here."""
    made = fitting(unmix(canonical(UOp(Ops.SINK, dtypes.void, tuple(stores)))), target)
    kinds = {r: kind for r, kind in made.kinds.items() if kind != "grid"}
    made = replace(made, kinds=kinds)
    if misplaced(made) is not None:
        raise AssertionError(f"a stage of a chain has no legal order: {made.log}")
    return made


# ---- the program


def program(sink: UOp, target: Target, name: str) -> LinearProgram:
    """The LinearProgram of a chain."""
    whole, rows = stages_of(sink), rows_of(sink)
    columns = columns_of(whole, rows, target)
    stages = whole if columns is None else columns.stages
    blocks = blocks_of(stages, rows, target)
    limits = limits_of(stages, blocks, target)
    kernels = [
        stage_kernel(_placed(stores, blocks.of(stage)), target)
        for stage in stages
        for stores in parts_of(stage, limits)
    ]
    sums = [stage for stage in whole if stage.sums is not None]
    added = sums if columns is None else [*sums, *filter(grows, whole)]
    starts = [stage_kernel(_placed(_zeros(s), blocks.all_rows(rows)), target) for s in added]
    first, ready = ([lowered(k, target) for k in some] for some in (starts, kernels))
    steps = [int(c.arg[2]) + 1 for c in blocks.counters]
    grid = steps[:-1] if sums else steps
    nest = _nest(blocks, columns, limits) if sums else []
    listing = _Listing(target)
    listing.declare([*first, *ready], blocks.counters[: len(grid)])
    listing.print(first)
    with listing.loops(nest):
        listing.print(ready)
    counters = {*blocks.counters, *(counter for counter, _, _ in nest)}
    variables = {
        n.arg: n
        for k in (*first, *ready)
        for n in toposort((*k.stores, *k.order))
        if n.op is Ops.VARIABLE and n not in counters
    }
    params = params_of([s for k in ready for s in k.stores])
    shown = "; ".join(f"{k.recipe or 'elementwise'} {_shown(k)}" for k in kernels)
    passes = steps if columns is None else [*steps, columns.count]
    over = "x".join(map(str, passes))
    return LinearProgram(
        name,
        tuple(listing.ops),
        params,
        tuple(
            VariableSpec(
                v.arg[0], listing.index if v.dtype is dtypes.index else v.dtype, *v.arg[1:]
            )
            for v in variables.values()
        ),
        tuple((n,) for n in grid),
        flops=size(passes) * sum(operations(k) for k in kernels),
        bytes=sum(p.size * p.dtype.itemsize for p in params),
        note=f"chain of {len(kernels)} over {over}, {blocks.rows} rows: {shown}",
    )


def _nest(blocks: Blocks, columns: Columns | None, limits: Limits) -> list[Loop]:
    """The loops around all stages, where outputs are sums over rows."""
    counter = blocks.counters[-1]
    count = int(counter.arg[2]) + 1
    if columns is not None:
        return columns.loops_of((counter, count), limits)
    return [(counter, UOp.index(0), UOp.index(count))]


def _shown(kernel: Kernel) -> str:
    return "x".join(str(extent(r)) for r in kernel.order)


def _zeros(stage: Stage) -> list[UOp]:
    """What a sum over rows starts from."""
    return [s.src[0].store(0.0) for s in stage.stores]


class _Listing:
    """The instructions of a program, one kernel after another, and what all of them know by
    name."""

    def __init__(self, target: Target) -> None:
        self.target, self.index = target, index_dtype(target)
        self.ops: list[Instr] = []
        self.known: dict[Any, int] = {}

    def emit(self, op: Ops, dtype: DType, src: tuple[int, ...] = (), arg: Any = None) -> int:
        self.ops.append(Instr(op, dtype, src, arg))
        return len(self.ops) - 1

    def declare(self, kernels: Sequence[Kernel], counters: Sequence[UOp]) -> None:
        """Memory and counters of blocks."""
        nodes = toposort([s for k in kernels for s in k.stores])
        params = {n.arg: n for n in nodes if n.op is Ops.PARAM}
        for place, slot in enumerate(sorted(params)):
            self.known[params[slot]] = self.emit(Ops.PARAM, params[slot].dtype, (), place)
        for node in nodes:
            if node.op is Ops.LOCAL:
                self.known[node] = self.emit(Ops.LOCAL, node.dtype, (), node.arg[:2])
        for axis, counter in enumerate(counters):
            self.known[counter] = self.emit(Ops.GRID, self.index, (), axis)

    def print(self, kernels: Sequence[Kernel]) -> None:
        for kernel in kernels:
            printer = self._printer(kernel)
            printer.statements(kernel.stores)
            printer.enter((), ())

    def _printer(self, kernel: Kernel) -> Linearizer:
        printer = Linearizer(kernel, self.target, self.index)
        printer.ops = self.ops
        printer.scopes[0].values.update(self.known)
        return printer

    @contextmanager
    def loops(self, nest: Sequence[Loop]) -> Iterator[None]:
        """What is printed inside runs at every step of these counters."""
        printers = [self._open(*loop) for loop in nest]
        yield
        for printer in reversed(printers):
            printer.close()

    def _open(self, counter: UOp, start: UOp, stop: UOp) -> Linearizer:
        bounds = lowered(Kernel((), (UOp.range(start, stop, 0, "loop"),), {}), self.target)
        printer = self._printer(bounds)
        (loop,) = bounds.order
        printer.open(loop)
        self.known[counter] = printer.scopes[-1].values[loop]
        return printer
