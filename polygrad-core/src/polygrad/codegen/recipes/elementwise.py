"""No reduction: one long range where the indices allow it, vectors along the contiguous axis,
blocks.
"""

from __future__ import annotations

from dataclasses import replace

from ...target import Target
from ...uop.ops import UOp
from ..kernel import Kernel, length, static
from ..transform import bind, bindable, block, parts_of
from .common import BLOCK_ELEMENTS, contiguous_output, into_lanes, lanes_for, spread, stream_out


def apply(kernel: Kernel, target: Target) -> Kernel:
    outputs = list(kernel.outputs)
    vector = contiguous_output(kernel, varying=True)
    width = 1
    if vector is not None and not static(vector):
        return replace(_varying(kernel, target, vector), recipe="elementwise")
    if vector is not None:
        kernel, outer, lane = into_lanes(kernel, vector, lanes_for(kernel, target))
        if lane is not None:
            at = outputs.index(vector)
            outputs[at : at + 1] = [] if outer is None else [outer]
            width = length(lane)
    made = spread(kernel, [r for r in outputs if bindable(kernel, r)], width)
    return replace(stream_out(made, target), recipe="elementwise")


def _varying(kernel: Kernel, target: Target, vector: UOp) -> Kernel:
    """Blocks of the contiguous axis first: each has its own last elements, so every store runs in
    every block."""
    for loop in kernel.outputs:
        if loop is not vector and bindable(kernel, loop):
            kernel = bind(kernel, loop)
    made = block(kernel, vector, BLOCK_ELEMENTS)
    outer, inner = parts_of(kernel, made)
    kernel, _, _ = into_lanes(bind(made, outer), inner, lanes_for(kernel, target))
    return kernel
