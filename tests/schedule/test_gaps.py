"""What a stride has spread is summed without the zeros between: fewer products, equal sums."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.schedule import KernelItem, channels, gaps, schedule
from polygrad.uop.linear import ranges_of
from polygrad.uop.ops import Ops, UOp, size

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


class Case(NamedTuple):
    """A convolution from `places` of an image; a transposed one goes the other way."""

    places: Sizes
    window: Sizes
    stride: Sizes
    padding: Sizes = ()
    dilation: Sizes = ()
    groups: int = 1
    channels: tuple[int, int] = (4, 6)  # of the images, of the filters

    def each(self) -> tuple[Sizes, Sizes, Sizes]:
        """Stride, padding and dilation of every axis."""
        rank = len(self.places)
        return self.stride, self.padding or (0,) * rank, self.dilation or (1,) * rank

    def counts(self) -> Sizes:
        axes = zip(self.places, self.window, *self.each(), strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)


CASES = {
    "one axis": Case((11,), (3,), (2,)),
    "two axes": Case((8, 9), (3, 3), (2, 2), (1, 1)),
    "three axes": Case((5, 6, 7), (3, 2, 3), (2, 2, 2), (1, 0, 1)),
    "a stride along one axis": Case((7, 9), (3, 3), (1, 2), (1, 1)),
    "two strides": Case((10, 12), (4, 3), (3, 2), (0, 1)),
    "a stride that divides the window": Case((10, 9), (4, 4), (2, 2), (1, 1)),
    "patches": Case((12, 8), (4, 4), (4, 4)),
    "a stride larger than the window": Case((13, 11), (2, 3), (4, 5)),
    "what no window reads": Case((12, 10), (3, 3), (2, 4)),
    "dilation": Case((13, 12), (3, 3), (2, 2), (2, 1), (2, 3)),
    "dilation and a stride with a divisor": Case((19,), (3,), (4,), (0,), (2,)),
    "groups": Case((8, 7), (3, 3), (2, 2), (1, 1), groups=2),
    "a filter for each channel": Case((9, 9), (3, 3), (2, 2), (1, 1), groups=4, channels=(4, 8)),
    "channels that fill vectors": Case((6, 8), (3, 3), (2, 2), (1, 1), channels=(18, 33)),
}


@pytest.fixture(autouse=True)
def every_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sum is large enough."""
    monkeypatch.setattr(gaps, "WORTH", 1)
    monkeypatch.setattr(channels, "WORTH", 1 << 10)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_a_convolution_with_a_stride_is_numpys(name: str, device: str) -> None:
    case = CASES[name]
    x, w, g = arrays(case)
    images, filters = (Tensor(a, device=device, requires_grad=True) for a in (x, w))
    stride, padding, dilation = case.each()
    out = images.conv2d(
        filters, groups=case.groups, stride=stride, padding=mirrored(padding), dilation=dilation
    )
    slopes = (out * Tensor(g, device=device)).sum().gradient(images, filters)
    for found, right in zip(slopes, by_places(case, x, w, g)[1:], strict=True):
        np.testing.assert_allclose(found.numpy(), right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_a_transposed_convolution_and_its_gradients_are_numpys(name: str, device: str) -> None:
    case = CASES[name]
    x, w, g = arrays(case)
    out, spread, to_filters = by_places(case, x, w, g)
    stride, padding, dilation = case.each()
    counts = zip(case.counts(), case.window, stride, padding, dilation, case.places, strict=True)
    extra = tuple(n - ((c - 1) * s + d * (k - 1) + 1 - 2 * p) for c, k, s, p, d, n in counts)
    small, filters = (Tensor(a, device=device, requires_grad=True) for a in (g, w))
    found = small.conv_transpose2d(
        filters,
        groups=case.groups,
        stride=stride,
        padding=mirrored(padding),
        dilation=dilation,
        output_padding=extra,
    )
    slopes = (found * Tensor(x, device=device)).sum().gradient(small, filters)
    for mine, right in zip((found, *slopes), (spread, out, to_filters), strict=True):
        np.testing.assert_allclose(mine.numpy(), right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_types_are_spread_alike(dtype: str, device: str) -> None:
    case = CASES["two axes"]
    x, w, g = (Tensor(a, device=device).cast(dtype).realize() for a in arrays(case))
    found = g.conv_transpose2d(w, stride=2, padding=1, output_padding=(1, 0))
    numbers = (t.cast("float32").numpy() for t in (x, w, g))
    right = by_places(case, *numbers)[1]
    rtol = 1e-5 if dtype == "float64" else 2e-2
    np.testing.assert_allclose(found.cast("float64").numpy(), right, rtol=rtol, atol=5e-2)


def test_second_derivatives_go_through_the_kinds_of_places(device: str) -> None:
    case = CASES["two axes"]
    x, w, g = arrays(case)
    filters, flowing = (Tensor(a, device=device, requires_grad=True) for a in (w, g))
    images = Tensor(x, device=device, requires_grad=True)
    (slope,) = (images.conv2d(filters, stride=2, padding=1) * flowing).sum().gradient(images)
    found = (slope * Tensor(x, device=device)).sum().gradient(flowing, filters)
    out, _, to_filters = by_places(case, x, w, g)
    for mine, right in zip(found, (out, to_filters), strict=True):
        np.testing.assert_allclose(mine.numpy(), right, rtol=1e-4, atol=1e-3)


def test_a_zero_between_elements_is_no_factor(device: str) -> None:
    w = np.ones((1, 1, 3), np.float32)
    w[..., 1] = np.inf
    out = Tensor(np.ones((1, 1, 3), np.float32), device=device).conv_transpose1d(
        Tensor(w, device=device), stride=2
    )
    assert out.tolist() == [[[1, np.inf, 2, np.inf, 2, np.inf, 1]]]


def mirrored(padding: Sizes) -> tuple[tuple[int, int], ...]:
    return tuple((p, p) for p in padding)


def arrays(case: Case) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(5)
    inputs, outputs = case.channels
    x = rng.standard_normal((2, inputs, *case.places), np.float32)
    w = rng.standard_normal((outputs, inputs // case.groups, *case.window), np.float32)
    return x, w, rng.standard_normal((2, outputs, *case.counts()), np.float32)


def by_places(case: Case, x: Array, w: Array, g: Array) -> tuple[Array, Array, Array]:
    """The convolution and its two gradients in float64, one place of the window after another."""
    stride, padding, dilation = case.each()
    groups, counts = case.groups, case.counts()
    around = [(0, 0), (0, 0), *mirrored(padding)]
    padded = np.pad(x.astype(np.float64), around)
    filters = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    flowing = g.astype(np.float64).reshape(len(x), groups, -1, *counts)
    out, to_images, to_filters = (np.zeros_like(a) for a in (flowing, padded, filters))
    for place in product(*map(range, case.window)):
        axes = zip(place, stride, dilation, counts, strict=True)
        here = (..., *(slice(k * d, k * d + (n - 1) * s + 1, s) for k, s, d, n in axes))
        read = padded[here].reshape(len(x), groups, -1, *counts)
        out += np.einsum("ngc...,goc->ngo...", read, filters[(..., *place)])
        spread = np.einsum("ngo...,goc->ngc...", flowing, filters[(..., *place)])
        to_images[here] += spread.reshape(len(x), -1, *counts)
        many = (-1,) if counts else ()
        flat = (a.reshape(*a.shape[:3], *many) for a in (flowing, read))
        to_filters[(..., *place)] = np.einsum("ngox,ngcx->goc", *flat)
    whole = (slice(None), slice(None))
    inner = (slice(p, p + n) for p, n in zip(padding, case.places, strict=True))
    return out.reshape(g.shape), to_images[(*whole, *inner)], to_filters.reshape(w.shape)


# ---- what is summed


def products(out: Tensor, lanes: int = 16) -> list[int]:
    """How many each sum of products adds up, over all results."""
    items = schedule([out.uop], "cpu", lanes=lambda device: lanes).items
    sinks = [i.sink.toposort() for i in items if isinstance(i, KernelItem)]
    sums = [n.src[0] for nodes in sinks for n in nodes if n.op is Ops.REDUCE]
    return [size([r.src[1].arg for r in ranges_of(s)]) for s in sums if _is_product(s)]


def _is_product(value: UOp) -> bool:
    return value.op is Ops.MUL


def slope(side: int, window: int, stride: int, padding: int = 0) -> Tensor:
    """The gradient of the images of a convolution from 32 channels to 48."""
    x, w = Tensor.empty(4, 32, side, side), Tensor.empty(48, 32, window, window)
    out = x.conv2d(w, stride=stride, padding=padding)
    return (out * Tensor.empty(*out.shape)).sum().gradient(x)[0]


@pytest.mark.parametrize("lanes", [0, 16])
def test_each_kind_of_place_has_terms_of_its_own(lanes: int) -> None:
    each = 4 * 32 * 7 * 7 * 48
    found = sorted(products(slope(14, 3, 2, padding=1), lanes))
    assert found == [each, 2 * each, 2 * each, 4 * each]


def test_kinds_with_as_many_terms_are_one_convolution() -> None:
    assert products(slope(32, 4, 4)) == [4 * 32 * 32 * 32 * 48]
    assert len(products(slope(24, 4, 2, padding=1))) == 1
    assert len(products(slope(30, 5, 3))) == 4


def test_few_products_are_summed_with_their_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "WORTH", 1 << 30)
    assert len(products(slope(14, 3, 2, padding=1))) == 1


def test_a_transposed_convolution_all_of_whose_results_are_cut_off_has_a_gradient() -> None:
    x, w = (Tensor(np.ones((1, 1, 2), np.float32), requires_grad=True) for _ in range(2))
    out = x.conv_transpose2d(w, stride=4, padding=2)
    for slope in (out * out).sum().gradient(x, w):
        np.testing.assert_array_equal(slope.numpy(), np.zeros((1, 1, 2)))
