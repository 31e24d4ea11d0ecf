"""No reduction: one long range where the indices allow it, vectors along the contiguous axis, blocks."""

from __future__ import annotations

from ...target import Target
from ..kernel import Kernel, static
from .common import contiguous_output, into_lanes, lanes_for, spread


def apply(kernel: Kernel, target: Target) -> Kernel:
    outputs = list(kernel.outputs)
    vector = contiguous_output(kernel)
    width = 1
    if vector is not None:
        made, outer, lane = into_lanes(kernel, vector, lanes_for(kernel, target))
        if lane is not None:
            at = outputs.index(vector)
            outputs[at : at + 1] = [outer] if outer is not None else []
            from ..kernel import length

            kernel, width = made, length(lane)
    return spread(kernel, [r for r in outputs if static(r)], width)
