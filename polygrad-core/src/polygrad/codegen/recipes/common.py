"""What recipes share: how many lanes a kernel has, how each index walks a range, how work is cut up."""

from __future__ import annotations

from ...dtype import dtypes
from ...target import Target
from ...uop.ops import Ops, UOp, toposort
from ...uop.symbolic import coefficient
from ..kernel import Kernel, length, static
from ..transform import bind, block, parts_of, peel, split, vectorize

BLOCK_ELEMENTS = 8192  # elements of an elementwise block: long enough to hide its start
MAX_LANES = 64


def lanes_for(kernel: Kernel, target: Target) -> int:
    """Lanes of the widest type computed with, offsets aside."""
    widest = 1
    for node in toposort(kernel.stores):
        if node.dtype.kind not in ("index", "void", "bool") and node.op is not Ops.PARAM:
            widest = max(widest, 4 if node.dtype.itemsize == 2 else node.dtype.itemsize)
    return min(max(target.vector_bytes // widest, 1), MAX_LANES)


def step(access: UOp, loop: UOp) -> int | None:
    """How far a LOAD or STORE moves when `loop` advances; None where that is not constant."""
    return coefficient(access.src[0].src[1], loop)


def loads(kernel: Kernel) -> list[UOp]:
    return [n for n in toposort(kernel.stores) if n.op is Ops.LOAD]


def contiguous_output(kernel: Kernel) -> UOp | None:
    """The output range along which every store is contiguous."""
    for loop in reversed(kernel.outputs):
        if static(loop) and all(step(s, loop) == 1 for s in kernel.stores):
            return loop
    return None


def into_lanes(kernel: Kernel, loop: UOp, lanes: int) -> tuple[Kernel, UOp | None, UOp | None]:
    """Make vectors of `lanes` along a range: (kernel, remaining outer range, vector range).

    What does not fill a vector is peeled off and runs as an ordinary loop. A range shorter than one
    vector is left alone unless a smaller power of two fits.
    """
    n = length(loop)
    while lanes > n:
        lanes //= 2
    if lanes < 2:
        return kernel, loop, None
    if n % lanes:
        made = peel(kernel, loop, n - n % lanes)
        loop, kernel = parts_of(kernel, made)[0], made
    made = split(kernel, loop, lanes)
    if made is kernel:
        return vectorize(kernel, loop), None, loop
    outer, inner = parts_of(kernel, made)
    return vectorize(made, inner), outer, inner


def spread(kernel: Kernel, loops: list[UOp], inner_work: int) -> Kernel:
    """Bind output ranges to the grid, outermost first; a single long one is cut into blocks."""
    if not loops:
        return kernel
    total = inner_work
    for loop in loops:
        total *= length(loop)
    *outer, last = loops
    for loop in outer:
        kernel = bind(kernel, loop)
    per_block = max(BLOCK_ELEMENTS // max(inner_work, 1), 1)
    if length(last) > 2 * per_block and per_block > 1:
        made = block(kernel, last, per_block)
        return bind(made, parts_of(kernel, made)[0])
    if inner_work >= BLOCK_ELEMENTS or total > 2 * BLOCK_ELEMENTS and not outer:
        return bind(kernel, last)
    return kernel


INDEX = dtypes.index
