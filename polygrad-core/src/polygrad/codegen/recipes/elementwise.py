"""No reduction: one long range where the indices allow it, vectors along the contiguous axis,
blocks.
"""

from __future__ import annotations

from dataclasses import replace

from ...target import Target
from ..kernel import Kernel, length, static
from .common import contiguous_output, into_lanes, lanes_for, spread, stream_out


def apply(kernel: Kernel, target: Target) -> Kernel:
    outputs = list(kernel.outputs)
    vector = contiguous_output(kernel)
    width = 1
    if vector is not None:
        kernel, outer, lane = into_lanes(kernel, vector, lanes_for(kernel, target))
        if lane is not None:
            at = outputs.index(vector)
            outputs[at : at + 1] = [] if outer is None else [outer]
            width = length(lane)
    made = spread(kernel, [r for r in outputs if static(r)], width)
    return replace(stream_out(made, target), recipe="elementwise")
