"""The gradient of a convolution is one: windows of what flows in, times the filter."""

from __future__ import annotations

from polygrad import Tensor
from polygrad.uop.ops import Ops


def test_the_gradient_of_an_image_pads_what_flows_in_and_selects_nothing() -> None:
    """What reads a padded array without conditions multiplies and adds, and nothing else."""
    x, w = Tensor.empty(2, 8, 12, 16), Tensor.empty(8, 8, 3, 3)
    g = Tensor.empty(2, 8, 12, 16)
    (slope,) = (x.conv2d(w, padding=1) * g).sum().gradient(x)
    order = slope.uop.toposort()
    (total,) = [u for u in order if u.op is Ops.REDUCE]
    assert total.src[0].op is Ops.MUL
    assert not any(u.op is Ops.WHERE for u in order)
    pads = [u for u in order if u.op is Ops.PAD]
    assert pads and all(u.src[0].op in (Ops.PAD, Ops.BUFFER, Ops.RESHAPE) for u in pads)
