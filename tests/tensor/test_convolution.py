"""Convolution and pooling against direct sums in float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ArgumentError, PolygradError, ShapeError

Rng = np.random.Generator


def patches(x: Any, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Any:
    """(..., *counts, *window) of the last axes, by indexing."""
    for k, s, d in zip(window, stride, dilation, strict=True):
        axis = x.ndim - len(window)  # each step appends one axis and moves to the next place
        n = x.shape[axis]
        starts = np.arange(0, n - (k - 1) * d, s)
        x = np.moveaxis(np.take(x, starts[:, None] + np.arange(k) * d, axis), axis + 1, -1)
    return x


def convolve(x: Any, w: Any, b: Any, groups: int, stride: Any, dilation: Any, pads: Any) -> Any:
    """The definition: one sum over channels and window for each output."""
    places = x.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    outs = w.shape[0] // groups
    parts = []
    for g in range(groups):
        mine = x[:, g * w.shape[1] : (g + 1) * w.shape[1]]
        windows = patches(mine, w.shape[2:], stride, dilation)
        axes = [1, *range(2 + places, 2 + 2 * places)]
        weight = w[g * outs : (g + 1) * outs]
        parts.append(np.tensordot(windows, weight, (axes, [1, *range(2, 2 + places)])))
    out = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    return out if b is None else out + b.reshape(1, -1, *[1] * places)


CONVOLUTIONS = [
    # channels in, out, groups, stride, padding, dilation
    (4, 6, 1, (1, 1), (0, 0), (1, 1)),
    (4, 6, 2, (2, 2), (1, 1), (1, 1)),
    (4, 4, 4, (1, 1), (2, 2), (2, 2)),
    (3, 5, 1, (2, 1), (1, 0), (1, 2)),
    (2, 2, 1, (3, 3), (1, 1), (1, 1)),
]


@pytest.mark.parametrize(("ci", "co", "groups", "stride", "pad", "dilation"), CONVOLUTIONS)
def test_conv2d_matches_its_definition(
    device: str, ci: int, co: int, groups: int, stride: Any, pad: Any, dilation: Any, rng: Rng
) -> None:
    x = rng.standard_normal((2, ci, 9, 8)).astype(np.float32)
    w = rng.standard_normal((co, ci // groups, 3, 2)).astype(np.float32)
    b = rng.standard_normal(co).astype(np.float32)
    wanted = convolve(x, w, b, groups, stride, dilation, [(p, p) for p in pad])
    got = Tensor(x).conv2d(Tensor(w), Tensor(b), groups, stride, dilation, pad)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("padding", "pads"),
    [
        (1, [(1, 1), (1, 1)]),
        ((1, 2), [(1, 1), (2, 2)]),
        ((1, 2, 3, 0), [(3, 0), (1, 2)]),
        (((3, 0), (1, 2)), [(3, 0), (1, 2)]),
        ("valid", [(0, 0), (0, 0)]),
        ("same", [(1, 1), (0, 1)]),
    ],
)
def test_every_spelling_of_padding(device: str, padding: Any, pads: Any, rng: Rng) -> None:
    x = rng.standard_normal((1, 2, 5, 6)).astype(np.float32)
    w = rng.standard_normal((3, 2, 3, 2)).astype(np.float32)
    wanted = convolve(x, w, None, 1, (1, 1), (1, 1), pads)
    got = Tensor(x).conv2d(Tensor(w), padding=padding).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_one_and_three_place_axes(device: str, rng: Rng) -> None:
    x, w = rng.standard_normal((2, 3, 10)), rng.standard_normal((4, 3, 3))
    got = Tensor(x.astype(np.float32)).conv1d(Tensor(w.astype(np.float32)), stride=2, padding=1)
    np.testing.assert_allclose(
        got.numpy(), convolve(x, w, None, 1, (2,), (1,), [(1, 1)]), rtol=1e-4, atol=1e-4
    )
    x, w = rng.standard_normal((1, 2, 4, 5, 6)), rng.standard_normal((3, 2, 2, 3, 2))
    got = Tensor(x.astype(np.float32)).conv3d(Tensor(w.astype(np.float32)), padding=1)
    wanted = convolve(x, w, None, 1, (1,) * 3, (1,) * 3, [(1, 1)] * 3)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-4)


def transposed(
    x: Any, w: Any, groups: int, stride: Any, dilation: Any, pad: Any, extra: Any
) -> Any:
    """Each input element adds its window to the output."""
    n, ci, h, wd = x.shape
    outs = w.shape[1]
    full = [
        (m - 1) * s + d * (k - 1) + 1 + e
        for m, s, d, k, e in zip((h, wd), stride, dilation, w.shape[2:], extra, strict=True)
    ]
    out = np.zeros((n, groups * outs, *full))
    for c, i, j in itertools.product(range(ci), range(h), range(wd)):
        g = c // (ci // groups)
        for a, b in itertools.product(*map(range, w.shape[2:])):
            place = out[
                :,
                g * outs : (g + 1) * outs,
                i * stride[0] + a * dilation[0],
                j * stride[1] + b * dilation[1],
            ]
            place += x[:, c, i, j, None] * w[c, :, a, b]
    return out[:, :, pad[0] : full[0] - pad[0], pad[1] : full[1] - pad[1]]


@pytest.mark.parametrize(("ci", "co", "groups", "stride", "pad", "dilation"), CONVOLUTIONS)
@pytest.mark.parametrize("extra", [0, 1])
def test_conv_transpose2d_matches_its_definition(
    device: str,
    ci: int,
    co: int,
    groups: int,
    stride: Any,
    pad: Any,
    dilation: Any,
    extra: int,
    rng: Rng,
) -> None:
    x = rng.standard_normal((2, ci, 5, 4)).astype(np.float32)
    w = rng.standard_normal((ci, co // groups, 3, 2)).astype(np.float32)
    wanted = transposed(x, w, groups, stride, dilation, pad, (extra, extra))
    got = Tensor(x).conv_transpose2d(Tensor(w), None, groups, stride, dilation, pad, extra)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_half_convolution_accumulates_in_float32(device: str) -> None:
    x = Tensor(np.full((1, 64, 8, 8), 0.25, np.float16))
    got = x.conv2d(Tensor(np.ones((1, 64, 8, 8), np.float16)))
    assert (got.dtype.name, got.item()) == ("float16", 1024.0)


# ---- pooling: kernel, stride, padding, ceil_mode, (rows, columns) that ceil_mode adds

POOLS = [
    (2, None, 0, False, (0, 0)),
    (3, 2, 1, False, (0, 0)),
    ((3, 2), (2, 3), 1, True, (0, 0)),
    (2, 2, 0, True, (1, 1)),
    (3, 3, 0, True, (2, 0)),
    (2, 3, 1, True, (0, 0)),
]


def pooled(x: Any, kernel: Any, stride: Any, pad: int, extra: Any, fill: float) -> Any:
    kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    stride = kernel if stride is None else stride if isinstance(stride, tuple) else (stride, stride)
    around = [(0, 0), (0, 0), *((pad, pad + e) for e in extra)]
    wide = np.pad(x.astype(np.float64), around, constant_values=fill)
    return patches(wide, kernel, stride, (1, 1))


@pytest.mark.parametrize(("kernel", "stride", "pad", "ceil", "extra"), POOLS)
def test_max_pool2d(
    device: str, kernel: Any, stride: Any, pad: int, ceil: bool, extra: Any, rng: Rng
) -> None:
    x = -np.abs(rng.standard_normal((2, 3, 7, 9)).astype(np.float32))  # zeros of padding would win
    wanted = pooled(x, kernel, stride, pad, extra, -np.inf).max((-2, -1))
    got = Tensor(x).max_pool2d(kernel, stride, 1, pad, ceil)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize(("kernel", "stride", "pad", "ceil", "extra"), POOLS)
@pytest.mark.parametrize("count_pad", [True, False])
def test_avg_pool2d(
    device: str,
    kernel: Any,
    stride: Any,
    pad: int,
    ceil: bool,
    extra: Any,
    count_pad: bool,
    rng: Rng,
) -> None:
    x = rng.standard_normal((2, 3, 7, 9)).astype(np.float32)
    ones = np.ones_like(x)
    if count_pad:  # padding counts, what ceil_mode adds beyond it does not
        ones = np.pad(ones, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=1)
        counts = pooled(ones, kernel, stride, 0, extra, 0).sum((-2, -1))
    else:
        counts = pooled(ones, kernel, stride, pad, extra, 0).sum((-2, -1))
    wanted = pooled(x, kernel, stride, pad, extra, 0).sum((-2, -1)) / counts
    got = Tensor(x).avg_pool2d(kernel, stride, 1, pad, ceil, count_pad)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_max_pool_positions_are_the_first(device: str) -> None:
    x = Tensor([[[[1.0, 5.0, 5.0], [5.0, 0.0, 7.0], [2.0, 2.0, 2.0]]]])
    values, positions = x.max_pool2d(2, 1, return_indices=True)
    assert values.tolist() == [[[[5.0, 7.0], [5.0, 7.0]]]]
    assert positions.tolist() == [[[[1, 5], [3, 5]]]]
    assert positions.dtype.name == "int32"


def test_pooling_other_numbers_of_axes_and_integers(device: str) -> None:
    x = Tensor([[1, 5, 2, 4]])
    assert x.max_pool2d((2,)).tolist() == [[5, 4]]
    assert x.avg_pool2d((2,)).tolist() == [[3.0, 3.0]]
    assert x.max_pool2d((3,), 1, padding=1).tolist() == [[5, 5, 5, 4]]


Z = Tensor.zeros
MISTAKES: list[tuple[Callable[[], Any], type[PolygradError], str]] = [
    (
        lambda: Z(1, 3, 8, 8).conv2d(Z(4, 2, 3, 3)),
        ShapeError,
        "conv2d: input (1, 3, 8, 8) has 3 channels, weight (4, 2, 3, 3) takes 2.",
    ),
    (
        lambda: Z(1, 4, 8, 8).conv2d(Z(4, 2, 3, 3), groups=4),
        ShapeError,
        "conv2d: input (1, 4, 8, 8) has 4 channels, weight (4, 2, 3, 3) takes 8 in 4 groups.",
    ),
    (
        lambda: Z(3, 8, 8).conv2d(Z(4, 3, 3, 3)),
        ShapeError,
        "conv2d: input (3, 8, 8) and weight (4, 3, 3, 3) must have the same number of"
        " axes, at least 3.",
    ),
    (
        lambda: Z(1, 3, 2, 8).conv2d(Z(4, 3, 3, 3)),
        ShapeError,
        "conv2d: a window of 3 does not fit an axis of 2 padded by (0, 0) (input (1, 3, 2, 8)).",
    ),
    (
        lambda: Z(1, 3, 8, 8).conv2d(Z(4, 3, 3, 3), Z(3)),
        ShapeError,
        "conv2d: bias has shape (3,), the result 4 channels.",
    ),
    (
        lambda: Z(1, 3, 8, 8).conv2d(Z(4, 3, 3, 3), stride=0),
        ArgumentError,
        "conv2d: stride is an integer of at least 1, or 2 of them, not 0.",
    ),
    (
        lambda: Z(1, 3, 8, 8).conv2d(Z(4, 3, 3, 3), padding="full"),
        ArgumentError,
        "conv2d: no padding named 'full'. Valid: same, valid.",
    ),
    (
        lambda: Z(1, 3, 8, 8).conv2d(Z(4, 3, 3, 3), padding=(1, 2, 3)),
        ArgumentError,
        "conv2d: padding is an integer, 2 or 4 of them, or 2 pairs, not (1, 2, 3).",
    ),
    (
        lambda: Z(1, 3, 8).conv1d(Z(4, 3, 3, 3)),
        ShapeError,
        "conv1d takes 3 axes: input (1, 3, 8), weight (4, 3, 3, 3).",
    ),
    (
        lambda: Z(1, 3, 4, 4).max_pool2d(5),
        ShapeError,
        "max_pool2d: a window of 5 does not fit an axis of 4 padded by (0, 0)"
        " (input (1, 3, 4, 4)).",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES, ids=[t[:40] for _, _, t in MISTAKES])
def test_mistake_is_named(call: Callable[[], Any], kind: type[PolygradError], text: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == text


def test_pools_of_one_and_of_three_axes_take_a_window_of_one_number(device: str, rng: Rng) -> None:
    line = rng.normal(size=(2, 3, 8)).astype(np.float32)
    parts = line.reshape(2, 3, 4, 2)
    np.testing.assert_allclose(Tensor(line).avg_pool1d(2).numpy(), parts.mean(-1), rtol=1e-6)
    np.testing.assert_array_equal(Tensor(line).max_pool1d(2).numpy(), parts.max(-1))
    box = rng.normal(size=(2, 4, 2, 6)).astype(np.float32)
    parts = box.reshape(2, 2, 2, 1, 2, 3, 2)
    wanted = parts.mean((2, 4, 6))
    np.testing.assert_allclose(Tensor(box).avg_pool3d(2).numpy(), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(Tensor(box).max_pool3d().numpy(), parts.max((2, 4, 6)))


def test_adaptive_parts_may_share_elements(device: str, rng: Rng) -> None:
    x = rng.normal(size=(2, 7, 5)).astype(np.float32)
    got = Tensor(x).adaptive_avg_pool2d((3, 4)).numpy()
    for i in range(3):
        for j in range(4):
            rows = slice(i * 7 // 3, -(-(i + 1) * 7 // 3))
            columns = slice(j * 5 // 4, -(-(j + 1) * 5 // 4))
            wanted = x[:, rows, columns].mean((1, 2))
            np.testing.assert_allclose(got[:, i, j], wanted, rtol=1e-5, atol=1e-6)


BATCHES: dict[str, Callable[[Tensor], Tensor]] = {
    "conv": lambda x: x.conv2d(Tensor.ones(6, 2, 3, 3), Tensor.ones(6), groups=2, stride=2),
    "conv1d": lambda x: x.flatten(2).conv1d(Tensor.ones(3, 4, 3), padding=1),
    "conv_transpose": lambda x: x.conv_transpose2d(Tensor.ones(4, 3, 3, 3), Tensor.ones(3)),
    "conv_transpose of groups": lambda x: x.conv_transpose2d(
        Tensor.ones(4, 3, 3, 3), groups=2, stride=2, output_padding=1, dilation=2
    ),
    "conv_transpose3d": lambda x: x.unsqueeze(-1).conv_transpose3d(Tensor.ones(4, 3, 3, 3, 1)),
    "max_pool": lambda x: x.max_pool2d(2, padding=1, ceil_mode=True),
    "positions": lambda x: x.max_pool2d(2, return_indices=True)[1],
    "max_unpool": lambda x: x.max_unpool2d(x.max_pool2d(1, return_indices=True)[1], 1),
    "avg_pool": lambda x: x.avg_pool2d(3, padding=1, count_include_pad=False),
    "adaptive_avg_pool": lambda x: x.adaptive_avg_pool2d(2),
    "linear": lambda x: x.interpolate((3, 7)),
    "aligned": lambda x: x.interpolate((3, 7), align_corners=True),
    "bicubic": lambda x: x.interpolate((3, 7), "bicubic"),
    "nearest": lambda x: x.interpolate((3, 7), "nearest"),
    "group_norm": lambda x: x.group_norm(2),
    "instance_norm": lambda x: x.instance_norm(),
    "attention": lambda x: x.scaled_dot_product_attention(x, x),
}


@pytest.mark.parametrize("case", BATCHES)
def test_an_empty_batch_gives_an_empty_result(case: str, device: str) -> None:
    two = BATCHES[case](Tensor.ones(2, 4, 5, 5))
    none = BATCHES[case](Tensor.ones(0, 4, 5, 5))
    assert none.numpy().shape == (0, *two.shape[1:])
    assert none.dtype is two.dtype


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
def test_an_empty_batch_leaves_gradients_of_zero(name: str, device: str) -> None:
    x = Tensor.ones(0, 4, 5, 5, requires_grad=True)
    w, b = Tensor.ones(4, 4, 3, 3, requires_grad=True), Tensor.ones(4, requires_grad=True)
    getattr(x, name)(w, b, stride=2).sum().backward()
    assert x.grad is not None and w.grad is not None and b.grad is not None
    assert x.grad.numpy().shape == x.shape
    assert not w.grad.numpy().any() and not b.grad.numpy().any()


def test_attention_of_no_width_is_the_mean(device: str) -> None:
    """All scores are sums of nothing, and so alike."""
    nothing, values = Tensor.ones(2, 0), Tensor([[1.0], [3.0]])
    assert nothing.scaled_dot_product_attention(nothing, values).tolist() == [[2.0], [2.0]]


def test_a_transposed_convolution_has_its_number_of_axes() -> None:
    with pytest.raises(ShapeError, match="conv_transpose1d takes 3 axes"):
        Tensor.ones(1, 1, 2, 2).conv_transpose1d(Tensor.ones(1, 1, 2, 2))
