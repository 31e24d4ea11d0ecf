"""Reductions without re-use of operands: rows, columns, everything, and several over one row.

*Rows*: the reduced axis is contiguous in memory. Each core takes rows, some of them at a time where
they come from memory; lanes are partial sums, and several accumulators hide the latency of an
addition. Further loops over the same row (softmax, layer norm) follow in the same block, the row
still in cache.

*Columns*: the reduced axis is strided and an output axis contiguous. A block takes a strip of
columns and walks the rows once; the strip is wide enough that each row gives whole cache lines and
pages.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ...target import Target
from ...uop.linear import divides, ranges_of
from ...uop.ops import Ops, UOp, size
from ..hints import LINE
from ..kernel import Kernel, extent, launchable, length, static, steps
from ..row_programs import delay, stage
from ..transform import (
    ScheduleError,
    accumulate,
    bind,
    bindable,
    block,
    cover,
    parts_of,
    reorder,
    split,
    unroll,
)
from .common import (
    ask_ahead,
    contiguous_output,
    cost,
    factored,
    goes_far,
    has_pairs,
    in_order,
    into_lanes,
    lanes_for,
    loads,
    second_cache,
    step,
    stream_out,
    streams,
    tile,
)

ACCUMULATORS = 4
STRANDS = 4  # rows that are read at a time,
APART = 1 << 16  # bytes between them, about,
LEAST_ROWS = 64  # of no fewer; not by cores, for sums must be the same for any number of them
REGISTER_STRIP = 8  # vectors of a column strip whose sums stay in registers
WIDE_STRIP = 8 << 10  # bytes of one whose rows come from memory; its sums are in the first cache
LEAST_STRIP = 4  # vectors in turn that a core reads of a row
FAR = 1 << 20  # bytes read by a column reduction above which its rows come from memory
DEAR = 8  # operations of a value that is kept in scratch rather than computed again
DELAYED = 1 << 20  # bytes of a block of rows, each but the last written during the next one
FEW = 4  # rows of a block: of fewer too many are first and last ones
BLOCKS = 8  # of each core at least
SHORT = 32  # steps of a reduction that is printed out
SHORT_COLUMN = 16  # the same of columns: as many rows as a core fetches ahead of at once
SHORT_TEXT = 128  # instructions of one that is: more of them take long to compile, and gain nothing


def apply(kernel: Kernel, target: Target) -> Kernel | None:
    reductions = kernel.reductions
    if not reductions:
        return None
    inside = [r for r in kernel.outputs if all(r in ranges_of(n) for n in reductions)]
    rows = [r for r in inside if bindable(kernel, r)]
    vector = contiguous_output(kernel, varying=True)
    read = loads(n.src[0] for n in reductions)
    lanes = lanes_for(kernel, target)
    along_rows: list[UOp] = []
    for loop in sorted(kernel.reduced, key=lambda r: r.arg[0]):
        if _worth(loop, read, lanes) and not any(_meet(n, loop, along_rows) for n in reductions):
            along_rows.append(loop)
    columns = not along_rows and vector is not None and vector in rows and static(vector)
    if vector is not None and columns and streams(read, vector):
        made = _columns(kernel, target, rows, vector, lanes)
    else:
        made = _rows(kernel, target, rows, vector, along_rows, lanes)
    return replace(stream_out(made, target), recipe="reduction")


def _meet(reduction: UOp, loop: UOp, others: list[UOp]) -> bool:
    """Whether `loop` and one of `others` stand in this reduction: one expression has one vector."""
    inside = ranges_of(reduction.src[0]) | set(reduction.src[1:])
    return loop in inside and any(r in inside for r in others)


def _worth(loop: UOp, read: list[UOp], lanes: int) -> bool:
    touching = [a for a in read if loop in ranges_of(a)]
    known = static(loop) or launchable(loop)
    return lanes > 1 and known and extent(loop) >= lanes and streams(touching, loop)


def _rows(
    kernel: Kernel,
    target: Target,
    rows: list[UOp],
    vector: UOp | None,
    along: list[UOp],
    lanes: int,
) -> Kernel:
    # Two vector ranges must not meet: the stores take one that no reduction knows.
    if vector is not None and any(vector in ranges_of(n) for n in kernel.reductions):
        vector = None
    if vector is not None:
        kernel = _keep_dear(kernel, target, vector)
    count, strands = ACCUMULATORS, None
    if vector is None and _in_strands(kernel, target, rows, along):
        kernel, strands, rows[-1:] = _strands(kernel, rows[-1])
        count = min(count, target.registers // (2 * STRANDS))
    elif rows:
        kernel = ask_ahead(kernel, target, rows[-1])
    if rows and vector is not None and static(vector) and length(vector) % lanes == 0:
        kernel, rows = _delay(kernel, target, rows, vector, along)
    for loop in along:
        abreast = _abreast(kernel, target, loop, lanes)
        kernel, outer, _ = into_lanes(kernel, loop, abreast * lanes)
        left = count // abreast
        if left > 1 and outer is not None and extent(outer) >= 2 * left:
            kernel = _accumulate(kernel, outer, left)
    if vector is not None:
        kernel, _, _ = into_lanes(kernel, vector, lanes)
    kernel = _print_short(kernel)
    for loop in rows:
        kernel = bind(kernel, loop)
    rest = [r for r in kernel.order if r not in (*rows, strands)]
    at = next((i for i, r in enumerate(rest) if kernel.kind(r) in ("partial", "vector")), len(rest))
    rest[at:at] = in_order([strands])
    return reorder(kernel, [*rows, *rest])


def _in_strands(kernel: Kernel, target: Target, rows: list[UOp], along: list[UOp]) -> bool:
    """Whether to read several rows at a time, far from each other. A core fetches ahead for each
    place where it reads in turn, and no farther than to the end of a page: four such places keep
    memory busy where one does not. (AVX2, two threads: sums of 64 MB take 0.75-0.87 of the time,
    the matrices of a GPT-2 times one row 0.83-0.88; plain loops over them 0.55. Vectors of a whole
    line, AVX-512, were not measured, and stay with one place.)"""
    if target.vector_bytes >= LINE or len(along) != 1 or len(kernel.reductions) != 1 or not rows:
        return False
    if set(kernel.order) != {*rows, *along}:  # a scan, or results that share their sum
        return False
    row = rows[-1]
    read = [a.src[0].src[0] for a in loads(kernel.reductions) if step(a, row)]
    sizes = [int(p.arg[1]) * p.dtype.itemsize for p in read if p.op is Ops.PARAM]  # scratch is near
    most = max(sizes, default=0)
    alone = kernel.reductions[0].src[1:] == (along[0],)
    return alone and static(row) and length(row) >= LEAST_ROWS and most > second_cache(target)


def _strands(kernel: Kernel, row: UOp) -> tuple[Kernel, UOp, list[UOp]]:
    """Rows in blocks, and each of these in STRANDS parts, one row of each at a time: (kernel, the
    parts, what walks the rest)."""
    nbytes = max(abs(step(a, row) or 0) * a.dtype.itemsize for a in loads(kernel.reductions))
    each = max(APART // max(nbytes, 1), 1)
    each = min(1 << (each.bit_length() - 1), length(row) // STRANDS)
    whole, blocks, one = STRANDS * each, None, None
    if length(row) % whole:
        made = cover(kernel, row, whole)
        (blocks, parts), kernel = parts_of(kernel, made), made
    else:
        kernel, blocks, parts = factored(kernel, row, whole)
    if each > 1:
        made = split(kernel, parts, each)
        (parts, one), kernel = parts_of(kernel, made), made
    return unroll(kernel, parts), parts, in_order([blocks, one])


def _delay(
    kernel: Kernel, target: Target, rows: list[UOp], vector: UOp, along: list[UOp]
) -> tuple[Kernel, list[UOp]]:
    """In blocks of rows, write each past the caches while the next is computed, in the dearest of
    the loops over it. Measured on AVX-512, two threads, rows of 4096: softmax takes 0.77 of the
    time, its logarithm 0.80, layer norm 0.80, the gradient of softmax 0.97; rows of 1024 or 256:
    softmax 0.93, layer norm 0.84."""
    if not all(goes_far(kernel, target, s) for s in kernel.stores):
        return kernel, rows
    row = extent(vector) * max(s.src[0].dtype.itemsize for s in kernel.stores)
    count = min(DELAYED // row, extent(rows[-1]) // (BLOCKS * target.cores))
    if count < FEW:
        return kernel, rows
    made = block(kernel, rows[-1], count)
    outer, inner = parts_of(kernel, made)
    for loop in sorted(along, key=lambda r: -_dearest(kernel, r)):
        with suppress(ScheduleError):  # it does not walk a row as the stores do
            return delay(made, inner, loop, vector), [*rows[:-1], outer]
    return kernel, rows


def _abreast(kernel: Kernel, target: Target, loop: UOp, lanes: int) -> int:
    """Vectors side by side that are one value, in place of as many accumulators: two of what is
    dear and comes out even. (AVX2, two threads: softmax of 4096 x 4096 takes 0.84 of the time.)"""
    dear = has_pairs(target) and _dearest(kernel, loop) >= DEAR
    return 2 if dear and divides(steps(loop), 2 * ACCUMULATORS * lanes) else 1


def _dearest(kernel: Kernel, loop: UOp) -> int:
    return max((cost(n.src[0]) for n in kernel.reductions if loop in n.src[1:]), default=0)


def _accumulate(kernel: Kernel, loop: UOp, count: int) -> Kernel:
    """Some accumulators side by side; of a length that varies only where they come out even."""
    if static(loop):
        kernel, _, inner, _ = tile(kernel, loop, count)
        assert inner is not None
    elif divides(steps(loop), count):
        kernel, _, inner = factored(kernel, loop, count)
    else:
        return kernel
    return accumulate(kernel, inner)


def _keep_dear(kernel: Kernel, target: Target, vector: UOp) -> Kernel:
    """Keep a row of values that a reduction and the stores after it both need, if they are dear."""
    for node in kernel.reductions:
        fits = extent(vector) * node.dtype.itemsize <= second_cache(target) // 2
        if fits and cost(node.src[0]) >= DEAR:
            try:
                return stage(kernel, node, vector)
            except ScheduleError:
                continue  # the stores do not repeat it
    return kernel


def _print_short(kernel: Kernel, most: int = SHORT) -> Kernel:
    """Print out reductions of a few steps: a loop costs more than its body."""
    for node in kernel.reductions:
        steps = [r for r in node.src[1:] if kernel.kind(r) != "vector"]
        if not all(static(r) for r in steps):
            continue
        count = size([length(r) for r in steps])
        if count <= most and count * max(cost(node.src[0]), 1) <= SHORT_TEXT:
            loops = [r for r in steps if kernel.kind(r) == "loop"]
            for loop in loops:
                kernel = unroll(kernel, loop)
    return kernel


def _columns(kernel: Kernel, target: Target, rows: list[UOp], vector: UOp, lanes: int) -> Kernel:
    reduced = [r for r in kernel.order if r in kernel.reduced]
    work = size([length(r) if static(r) else 1 for r in (*rows, *reduced)]) * 4
    kernel = _print_short(kernel, SHORT_COLUMN)
    kernel, outer, lane = into_lanes(kernel, vector, lanes)
    others = [r for r in rows if r is not vector]
    strip: UOp | None = None
    wide = work > FAR
    if outer is not None:
        blocks = max(size([extent(r) for r in others]), 1)
        widest = WIDE_STRIP // (target.vector_bytes or LINE)
        in_memory = _strip(length(outer), -(-target.cores // blocks), widest) if wide else 0
        factor = in_memory or _divisor(length(outer), REGISTER_STRIP)
        if factor > 1:
            kernel, outer, strip = factored(kernel, outer, factor)
            if not in_memory:
                kernel = unroll(kernel, strip)
    steps: list[UOp] = []
    looped = [r for r in reduced if kernel.kind(r) == "loop"]
    if wide and strip is not None and kernel.kind(strip) == "loop" and looped:
        innermost = reduced[-1]
        count = _rows_abreast(target, innermost) if static(innermost) else 0
        if count and innermost in looped:
            kernel, first, last = factored(kernel, innermost, count)
            kernel = unroll(kernel, last)
            reduced[-1:] = in_order([first])
            steps = [last]
    for loop in in_order(others, [outer]):
        kernel = bind(kernel, loop)
    # Where the rows are printed out, each sum of a strip stays in a register.
    inner = in_order(reduced, [strip], steps) if looped else in_order([strip], reduced)
    named = in_order(others, [outer], inner, [lane])
    rest = [r for r in kernel.order if r not in named]
    scanned = [r for r in rest if r.arg[1] == "seq"]  # inside of every loop: it carries one value
    rest = [r for r in rest if r not in scanned]
    at = len(reduced) if looped else len(inner)
    inner[at:at] = rest
    return reorder(kernel, in_order(others, [outer], inner, [lane], scanned))


def _rows_abreast(target: Target, rows: UOp) -> int:
    """Rows that are added to a strip at a time, 0 for rows that come out even in no such steps:
    more places to fetch ahead for, as in `_in_strands`, and fewer loads and stores of the sums.
    (AVX2, two threads, with strips twice as long: 4096 x 4096 takes 0.8 of the time, 3000 x 3000
    0.76, 65536 x 256 0.86.)"""
    many = 2 * ACCUMULATORS if target.vector_bytes < LINE else ACCUMULATORS
    return next((n for n in (many, ACCUMULATORS) if length(rows) % n == 0), 0)


def _strip(n: int, parts: int, most: int) -> int:
    """Vectors of a strip of `n` whose sums are in memory, 0 if they stay in registers: `most` at
    most, but each of so many parts has one of its own where it can. The sums are the same: each
    column adds up its rows, in any strip that is not in registers. Measured on AVX-512, two
    threads: 8192 x 2048 takes 0.51 of the time, 65536 x 256 0.71."""
    widest = _divisor(n, most)
    if widest <= REGISTER_STRIP:
        return 0
    own = _divisor(n, min(max(n // parts, LEAST_STRIP), widest))
    return own if own >= LEAST_STRIP else widest


def _divisor(n: int, most: int) -> int:
    """The largest divisor of n that is at most `most`."""
    return next(d for d in range(min(n, most), 0, -1) if n % d == 0)
