"""No reduction: one long range where the indices allow it, vectors along the contiguous axis,
blocks.

What is read along another axis than it is written (a transpose) takes a few elements of a cache
line at a time. A strip of that axis is walked inside of the vectors, so that a line is used up
while it is near. Where a machine can, squares of lanes are read as whole vectors and turned in
registers (`turning.py`), and lines that no cache has room for are written past it: to fetch each
before it is written costs more than all the rest. Lines come whole from registers then, so a block
may read longer pieces of fewer rows, in which the machine fetches ahead.

Measured on AVX-512, two threads, to strips read element by element: 4096 x 4096 in float32 3.8x, in
float64 3.1x, in float16 3.7x, in int8 5.9x; 1024 x 1024 1.3x; 64 channels of 56 x 56 to the last
axis 1.3x, from there 1.5x. Vectors that begin anywhere lie in two lines each: 1.0x to 1.2x, and in
matrices of 64 MB, 4001 x 3999, 0.7x, so those stay as they are. With vectors of 32 bytes 1.0x to
1.4x.
"""

from __future__ import annotations

from dataclasses import replace

from ...target import Target
from ...uop.linear import divides
from ...uop.ops import ELEMENTWISE, Ops, UOp, size
from .. import hints
from ..kernel import Kernel, extent, length, static, steps, substitute
from ..transform import bind, bindable, block, parts_of, reorder, unroll
from ..turning import FEWEST
from .common import (
    AHEAD,
    BLOCK_ELEMENTS,
    ask_ahead,
    bound,
    contiguous_output,
    cost,
    factored,
    has_pairs,
    in_order,
    into_lanes,
    lanes_for,
    loads,
    spread,
    step,
    stream_out,
    tile,
)
from .reduction import DEAR

LINE = 16  # elements of a cache line, of float32
READ = 16 * hints.LINE  # of each row in a block whose lines are written whole
WRITTEN = 2 * hints.LINE
MOST_TEXT = 1536  # instructions that turn squares, which take compilers long (gcc: seconds)
TURNED_FAR = 16 << 20  # bytes that are turned past the caches, which are slow at it: at 25 MB that
# takes 0.8 of the time, and if all is read right afterwards as long as it took


def apply(kernel: Kernel, target: Target) -> Kernel:
    outputs = list(kernel.outputs)
    vector = contiguous_output(kernel, varying=True)
    width = 1
    if vector is not None and not static(vector):
        return replace(_varying(kernel, target, vector), recipe="elementwise")
    if vector is not None:
        turned = _turned(kernel, vector)
        if turned is not None:
            squares = target.shuffle_sources > 1 and _squares(kernel, target, vector, turned)
            made = squares or _strips(kernel, target, vector, turned)
            return replace(made, recipe="elementwise")
        kernel, outer, lane = into_lanes(kernel, vector, _abreast(kernel, vector, target))
        if lane is not None:
            at = outputs.index(vector)
            outputs[at : at + 1] = [] if outer is None else [outer]
            width = length(lane)
    inside = size([extent(r) for r in kernel.order if r.arg[1] == "seq"])  # of a scan or a scatter
    made = spread(kernel, [r for r in outputs if bindable(kernel, r)], width * inside)
    made = _ask_ahead(made, target, width)
    return replace(stream_out(made, target), recipe="elementwise")


def _abreast(kernel: Kernel, vector: UOp, target: Target) -> int:
    """Lanes of vectors along a range: of two side by side where long chains of operations that wait
    for each other come out even and are worth the text: those of scratch, which is near, and where
    a vector is no whole cache line, of more than the first cache holds. (AVX2: exponentials in a
    block of attention's rows take 0.7 of the time, one thread; of 16 M, two threads, a gelu 0.91;
    of 64 K a sine, a power and an error function 0.8; kernels of a gelu compile for 1.2 times as
    long.)"""
    lanes = lanes_for(kernel, target)
    near = all(s.src[0].src[0].op is Ops.LOCAL for s in kernel.stores)
    long = has_pairs(target) and _written(kernel) > target.cache_bytes[0]
    dear = max(cost(s.src[1]) for s in kernel.stores) >= DEAR
    pairs = (near or long) and dear and divides(steps(vector), 2 * lanes)
    return 2 * lanes if pairs else lanes


def _ask_ahead(kernel: Kernel, target: Target, width: int) -> Kernel:
    """Prefetch where vectors of `width` are read one after another. The arithmetic of a few of them
    is all that a core has under way at once, so their loads alone begin too late to keep memory
    busy: on arrays of 64 MB a sum of products gains 1.04x, a dozen operations 1.12x, a gelu 1.26x
    (AVX-512, one thread). Where a few vectors lie together, and the next ones elsewhere, those are
    asked for that the loop around them will read (panels of 128 bytes are copied 1.3x)."""
    lanes = [r for r in kernel.order if any(step(s, r) == width for s in kernel.stores)]
    if width == 1 or not lanes:
        return kernel
    together = width * kernel.stores[0].src[1].dtype.itemsize
    for loop in reversed(kernel.order[: kernel.order.index(lanes[0]) + 1]):
        together *= extent(loop)
        if together >= AHEAD:
            return ask_ahead(kernel, target, loop, least=1)
    return kernel


def _turned(kernel: Kernel, vector: UOp) -> UOp | None:
    """The axis along which something is read that lies across the vectors; none where a scan runs,
    inside of whose loop nothing may."""
    if any(n.op is Ops.SCAN for n in kernel.nodes):
        return None
    for access in loads(kernel.stores):
        across = step(access, vector)
        if across is None or across >= LINE:
            for loop in kernel.outputs:
                if loop is not vector and static(loop) and step(access, loop) == 1:
                    return loop if length(loop) >= 2 * LINE and bindable(kernel, loop) else None
    return None


def _squares(kernel: Kernel, target: Target, vector: UOp, turned: UOp) -> Kernel | None:
    """Blocks of squares that are turned in registers; None for what is read no faster so."""
    others = [r for r in kernel.outputs if r is not vector and r is not turned]
    nbytes = max(s.src[0].dtype.itemsize for s in kernel.stores)
    lanes = _square(kernel, target)
    even = all(_even(s, vector, lanes) for s in kernel.stores)
    read = [a for a in loads(kernel.stores) if step(a, turned) == 1]
    if (
        not even
        and _written(kernel) > TURNED_FAR
        and not any(_even(a, turned, lanes) for a in read)
    ):
        return None
    while lanes > FEWEST and _text(len(read), lanes, even) > MOST_TEXT:
        lanes //= 2
    lines = even and lanes * nbytes >= hints.LINE
    kernel, outer, lane = into_lanes(kernel, vector, lanes)
    wide = wide_rest = rest_squares = rest_inner = None
    if outer is not None:
        kernel, outer, wide, wide_rest = tile(kernel, outer, max(WRITTEN // (lanes * nbytes), 1))
    n, piece = length(turned), (READ if lines else hints.LINE) // nbytes
    kernel, strips, squares, rest = tile(kernel, turned, min(max(piece, lanes), n - n % lanes))
    assert squares is not None
    kernel, squares, inner = factored(kernel, squares, lanes)
    if rest is not None and length(rest) >= lanes:
        kernel, rest_squares, rest_inner, rest = tile(kernel, rest, lanes)
    for loop in in_order([inner, rest_inner]):
        kernel = unroll(kernel, loop)
    kernel, grid = bound(kernel, in_order(others, [strips, outer]))
    inside = [outer, squares, rest_squares, wide, wide_rest, inner, rest_inner, rest, lane]
    last = [r for r in in_order(inside) if r not in grid]
    left = [r for r in kernel.order if r not in (*grid, *last)]
    kernel = reorder(kernel, [*grid, *left, *last])
    return stream_out(kernel, target, TURNED_FAR) if lines else kernel


def _text(reads: int, lanes: int, even: bool) -> int:
    """Instructions that turn the squares of a kernel, an estimate: each round takes one a row, and
    what is left over at two ends has squares of its own."""
    return reads * (1 if even else 4) * lanes * (lanes.bit_length() + 1)


def _even(access: UOp, loop: UOp, lanes: int) -> bool:
    """Do whole vectors along a range begin at multiples of their size?"""
    (start,) = substitute((access.src[0].src[1],), {loop: UOp.index(0)})
    return divides(start, lanes)


def _written(kernel: Kernel) -> int:
    """Bytes of the largest buffer that is written; none of scratch, which is near."""
    params = {s.src[0].src[0] for s in kernel.stores}
    return max((int(p.arg[1]) * p.dtype.itemsize for p in params if p.op is Ops.PARAM), default=0)


def _square(kernel: Kernel, target: Target) -> int:
    """Lanes of what is moved or, if anything is computed, of what it is computed in; no more than
    there are registers for as many rows."""
    lanes = target.vector_bytes // max(s.src[0].dtype.itemsize for s in kernel.stores)
    for node in kernel.nodes:
        if node.op in ELEMENTWISE and node.dtype.kind not in ("index", "bool"):
            lanes = lanes_for(kernel, target)
    most = min(target.registers, 2 * LINE)
    return min(lanes, 1 << (most.bit_length() - 1))


def _strips(kernel: Kernel, target: Target, vector: UOp, turned: UOp) -> Kernel:
    others = [r for r in kernel.outputs if r is not vector and r is not turned]
    kernel, outer, lane = into_lanes(kernel, vector, lanes_for(kernel, target))
    kernel, strips, inner, rest = tile(kernel, turned, LINE)
    kernel, grid = bound(kernel, in_order(others, [strips]))
    named = in_order(grid, [outer, inner, rest, lane])
    left = [r for r in kernel.order if r not in named]
    return reorder(kernel, [*grid, *left, *in_order([outer, inner, rest, lane])])


def _varying(kernel: Kernel, target: Target, vector: UOp) -> Kernel:
    """Blocks of the contiguous axis first: each has its own last elements, so every store runs in
    every block."""
    for loop in kernel.outputs:
        if loop is not vector and bindable(kernel, loop):
            kernel = bind(kernel, loop)
    made = block(kernel, vector, BLOCK_ELEMENTS)
    outer, inner = parts_of(kernel, made)
    lanes = _abreast(kernel, vector, target)
    kernel, _, _ = into_lanes(bind(made, outer), inner, lanes)
    return _ask_ahead(kernel, target, lanes)
