"""Gradients of windows: of sums of products with filters, which become convolutions again, and of
everything else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polygrad import Tensor


@given(
    n=st.integers(1, 3),
    groups=st.integers(1, 3),
    each=st.integers(1, 3),
    outs=st.integers(1, 3),
    size=st.tuples(st.integers(5, 9), st.integers(5, 9)),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    padding=st.integers(0, 2),
    seed=st.integers(0, 1 << 16),
)
@settings(max_examples=40, deadline=None)
def test_both_gradients_of_a_convolution_are_torchs(
    n: int,
    groups: int,
    each: int,
    outs: int,
    size: tuple[int, int],
    window: tuple[int, int],
    stride: int,
    dilation: int,
    padding: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, groups * each, *size))
    w = rng.standard_normal((groups * outs, each, *window))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    theirs = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    wanted = torch.nn.functional.conv2d(*theirs, **options)
    seed_of = rng.standard_normal(tuple(wanted.shape))
    wanted.backward(torch.tensor(seed_of))
    ours = [Tensor(a, requires_grad=True) for a in (x, w)]
    out = ours[0].conv2d(ours[1], **options)
    slopes = (out * Tensor(seed_of)).sum().gradient(*ours)
    for slope, their in zip(slopes, theirs, strict=True):
        np.testing.assert_allclose(slope.numpy(), their.grad.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("padding", [0, 1])
def test_a_second_derivative_goes_through(padding: int) -> None:
    rng = np.random.default_rng(padding)
    x, w = rng.standard_normal((1, 2, 5, 6)), rng.standard_normal((3, 2, 3, 2))
    theirs = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    out = torch.nn.functional.conv2d(*theirs, padding=padding)
    (first,) = torch.autograd.grad((out**3).sum(), theirs[0], create_graph=True)
    wanted = torch.autograd.grad((first**2).sum(), theirs)
    ours = [Tensor(a, requires_grad=True) for a in (x, w)]
    out = ours[0].conv2d(ours[1], padding=padding)
    (slope,) = (out**3).sum().gradient(ours[0])
    for got, their in zip((slope**2).sum().gradient(*ours), wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), their.numpy(), rtol=1e-9, atol=1e-9)


def test_a_filter_that_differs_from_place_to_place() -> None:
    """Neither factor is the same for all windows: there is no convolution to make of it."""
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((3, 9)), rng.standard_normal((3, 7, 3))
    theirs = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    (theirs[0].unfold(1, 3, 1) * theirs[1]).sum(2).pow(2).sum().backward()
    ours = [Tensor(a, requires_grad=True) for a in (x, w)]
    slopes = (ours[0].unfold(1, 3, 1) * ours[1]).sum(2).square().sum().gradient(*ours)
    for slope, their in zip(slopes, theirs, strict=True):
        np.testing.assert_allclose(slope.numpy(), their.grad.numpy(), rtol=1e-12)
