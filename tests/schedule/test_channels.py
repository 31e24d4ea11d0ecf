"""Convolutions with vectors along channels: another layout, the same numbers, where it pays."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.engine import record, run
from polygrad.schedule import KernelItem, channels, gaps, schedule
from polygrad.uop.linear import coefficient, ranges_of
from polygrad.uop.ops import Ops, UOp, size

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    images: tuple[int, int, int, int]
    outputs: int
    window: tuple[int, int]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1


CASES = {
    "a window": Case((2, 3, 9, 7), 16, (3, 3), padding=1),
    "channels that fill no panel": Case((2, 5, 8, 11), 21, (3, 2), padding=1),
    "two panels": Case((3, 4, 6, 6), 32, (3, 3)),
    "a stride": Case((2, 4, 11, 10), 18, (3, 3), stride=2, padding=1),
    "a stride larger than the window": Case((2, 17, 10, 10), 17, (1, 1), stride=3),
    "a window of one place": Case((3, 18, 7, 7), 20, (1, 1)),
    "a large window": Case((2, 3, 19, 17), 16, (7, 7), stride=2, padding=3),
    "dilation": Case((2, 6, 12, 13), 19, (3, 3), padding=2, dilation=2),
    "groups": Case((2, 6, 7, 9), 34, (3, 3), padding=1, groups=2),
    "groups and a stride": Case((1, 48, 9, 9), 48, (3, 3), stride=2, padding=1, groups=3),
}


@pytest.fixture(params=[16, 8, 4])
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Vectors of so many lanes, and every convolution is large enough."""
    lanes = int(request.param)
    for module in (run, record):
        monkeypatch.setattr(module, "float_lanes", lambda device: lanes)
    monkeypatch.setattr(channels, "WORTH", lanes)
    return lanes


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_and_its_gradients_are_numpys(name: str, device: str, vectors: int) -> None:
    case = CASES[name]
    x, w, g = arrays(case)
    images, filters = (Tensor(a, device=device, requires_grad=True) for a in (x, w))
    out = images.conv2d(filters, None, case.groups, case.stride, case.dilation, case.padding)
    wanted = by_places(case, x, w, g)
    slopes = (out * Tensor(g, device=device)).sum().gradient(images, filters)
    for found, right in zip((out, *slopes), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), right, rtol=1e-4, atol=1e-3)


def test_what_follows_and_what_went_before_stay_as_they_are(device: str, vectors: int) -> None:
    case = CASES["channels that fill no panel"]
    x, w, _ = arrays(case)
    bias = np.linspace(-1, 1, case.outputs, dtype=np.float32)
    images, filters = Tensor(x, device=device), Tensor(w, device=device)
    out = (images * 2 - 1).relu().conv2d(filters, Tensor(bias, device=device), padding=1).relu()
    before = np.maximum(x * 2 - 1, 0)
    after, _, _ = by_places(case, before, w, np.zeros(out.shape, np.float32))
    right = np.maximum(after + bias[:, None, None], 0)
    np.testing.assert_allclose(out.numpy(), right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_summed_in_float32(dtype: str, device: str, vectors: int) -> None:
    case = CASES["two panels"]
    x, w, g = arrays(case)
    images, filters = (Tensor(a, device=device).cast(dtype).realize() for a in (x, w))
    found = images.conv2d(filters).cast("float32").numpy()
    x, w = images.cast("float32").numpy(), filters.cast("float32").numpy()
    right, _, _ = by_places(case, x, w, g)
    np.testing.assert_allclose(found, right, rtol=2e-2, atol=2e-2)


def arrays(case: Case) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(7)
    x = rng.standard_normal(case.images, np.float32)
    shape = (case.outputs, case.images[1] // case.groups, *case.window)
    w = rng.standard_normal(shape, np.float32)
    places = [
        (n + 2 * case.padding - case.dilation * (k - 1) - 1) // case.stride + 1
        for n, k in zip(case.images[2:], case.window, strict=True)
    ]
    return x, w, rng.standard_normal((case.images[0], case.outputs, *places), np.float32)


def by_places(case: Case, x: Array, w: Array, g: Array) -> tuple[Array, Array, Array]:
    """The convolution and its two gradients in float64, one place of the window after another."""
    p, s, d, groups = case.padding, case.stride, case.dilation, case.groups
    n, height, width = x.shape[0], *x.shape[2:]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (p, p), (p, p)))
    filters = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    flowing = g.astype(np.float64).reshape(n, groups, -1, *g.shape[2:])
    out, to_images, to_filters = (np.zeros_like(a) for a in (flowing, padded, filters))
    rows, columns = g.shape[2:]
    for y, z in product(*map(range, case.window)):
        here = np.s_[
            ..., y * d : y * d + (rows - 1) * s + 1 : s, z * d : z * d + (columns - 1) * s + 1 : s
        ]
        read = padded[here].reshape(n, groups, -1, rows, columns)
        out += np.einsum("ngcyx,goc->ngoyx", read, filters[..., y, z])
        spread = np.einsum("ngoyx,goc->ngcyx", flowing, filters[..., y, z])
        to_images[here] += spread.reshape(n, -1, rows, columns)
        to_filters[..., y, z] = np.einsum("ngoyx,ngcyx->goc", flowing, read)
    inner = to_images[:, :, p : p + height, p : p + width]
    return out.reshape(g.shape), inner, to_filters.reshape(w.shape)


# ---- where it pays


def items(out: Tensor, lanes: int = 16) -> list[KernelItem]:
    found = schedule([out.uop], "cpu", lanes=lambda device: lanes).items
    return [i for i in found if isinstance(i, KernelItem)]


def convolution(side: int, inputs: int = 64, outputs: int = 64, **how: Any) -> Tensor:
    window = how.pop("window", 3)
    filters = Tensor.empty(outputs, inputs // how.get("groups", 1), window, window)
    return Tensor.empty(8, inputs, side, side).conv2d(filters, **how)


def test_the_filters_and_the_result_have_a_kernel_each() -> None:
    assert len(items(convolution(28, padding=1))) == 4  # and what is padded, and the sum
    assert len(items(convolution(28, padding=1).relu())) == 4
    assert len(items(convolution(28, padding=1), lanes=0)) == 2


def test_rows_of_whole_vectors_stay_as_they_are() -> None:
    assert len(items(convolution(64, padding=1))) == 2
    assert len(items(convolution(56, padding=1))) == 4
    assert len(items(convolution(56, padding=1), lanes=8)) == 2


def test_neighbours_that_a_stride_parts_are_no_vector() -> None:
    assert len(items(convolution(65, stride=2))) == 3
    assert len(items(convolution(65, window=1, stride=2))) == 3
    assert len(items(convolution(64, window=1))) == 1


def test_a_window_of_one_place_is_a_matrix_unless_the_image_is_small() -> None:
    assert len(items(convolution(7, 512, 256, window=1))) == 3
    assert len(items(convolution(14, 512, 256, window=1))) == 1
    assert len(items(convolution(7, 512, 256, window=1), lanes=0)) == 1


def test_few_channels_few_terms_and_little_work_do_not_pay() -> None:
    assert len(items(convolution(28, outputs=8))) == 1
    assert len(items(convolution(28, groups=64))) == 1
    assert len(items(convolution(56, inputs=2))) == 1
    assert len(items(Tensor.empty(1, 16, 6, 6).conv2d(Tensor.empty(16, 16, 3, 3)))) == 1


# ---- gradients


def sums(out: Tensor) -> list[UOp]:
    return [n for item in items(out) for n in item.sink.toposort() if n.op is Ops.REDUCE]


def products(out: Tensor) -> list[int]:
    """How many each sum of products adds up, over all results."""
    found = [n.src[0] for n in sums(out) if n.src[0].op is Ops.MUL]
    return [size([r.src[1].arg for r in ranges_of(body)]) for body in found]


def test_what_flows_into_padding_is_not_summed() -> None:
    x, w = Tensor.empty(4, 32, 14, 14), Tensor.empty(48, 32, 3, 3)
    (slope,) = (x.conv2d(w, padding=1) * Tensor.empty(4, 48, 14, 14)).sum().gradient(x)
    assert products(slope) == [4 * 32 * 14 * 14 * 48 * 9]


def test_images_are_padded_by_no_more_than_windows_read() -> None:
    x, w = Tensor.empty(4, 32, 14, 14), Tensor.empty(48, 32, 3, 3)
    (slope,) = (x.conv2d(w, padding=1) * Tensor.empty(4, 48, 14, 14)).sum().gradient(x)
    sizes = {size(b.shape) for i in items(slope) for b in i.buffers}
    assert 4 * 48 * 16 * 16 in sizes


def test_images_are_read_forwards() -> None:
    """Where memory ahead of a read is fetched, what lies before it is not."""
    x, w = Tensor.empty(4, 32, 14, 14), Tensor.empty(48, 32, 3, 3)
    (slope,) = (x.conv2d(w, padding=1) * Tensor.empty(4, 48, 14, 14)).sum().gradient(x)
    for total in (n for n in sums(slope) if n.src[0].op is Ops.MUL):
        for factor in total.src[0].src:
            steps = [coefficient(factor.src[0].src[1], r) for r in total.src[1:]]
            assert all(s is not None and s > 0 for s in steps)


def test_what_no_window_reads_is_not_summed() -> None:
    x, w = Tensor.empty(4, 32, 15, 15), Tensor.empty(48, 32, 1, 1)
    (slope,) = (x.conv2d(w, stride=2) * Tensor.empty(4, 48, 8, 8)).sum().gradient(x)
    assert products(slope) == [4 * 32 * 8 * 8 * 48]


@pytest.mark.parametrize(("side", "width", "parts"), [(56, 64, 32), (28, 128, 8), (14, 64, 0)])
def test_parts_of_a_filters_gradient_are_as_long_as_a_panel_stays_near(
    side: int, width: int, parts: int
) -> None:
    x, w = Tensor.empty(32, width, side, side), Tensor.empty(width, width, 3, 3)
    (slope,) = (x.conv2d(w, padding=1) * Tensor.empty(32, width, side, side)).sum().gradient(w)
    lengths = [size([r.src[1].arg for r in n.src[1:]]) for n in sums(slope)]
    terms = 32 * side * side
    assert lengths == ([terms // parts, parts] if parts else [terms])


def test_one_image_of_one_place_has_a_gradient(
    device: str, vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum that is one number has no axis to lie along."""
    monkeypatch.setattr(gaps, "WORTH", 1)
    filters = np.arange(34, dtype=np.float32).reshape(17, 1, 2)
    image = Tensor(np.ones((1, 1, 1), np.float32), device=device, requires_grad=True)
    out = image.conv2d(Tensor(filters, device=device), stride=2, dilation=2, padding=2)
    weights = Tensor(np.ones(out.shape, np.float32), device=device)
    (slope,) = (out * weights).sum().gradient(image)
    np.testing.assert_array_equal(slope.numpy(), [[[filters.sum()]]])


def test_one_row_of_a_product_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that makes one token after the other is full of them."""
    places = []
    real = channels.place
    monkeypatch.setattr(channels, "place", lambda *given: places.append(given) or real(*given))

    def looked_at(x: Tensor, w: Tensor) -> bool:
        places.clear()
        schedule([(x @ w).uop], "cpu", lanes=lambda device: 8)
        return bool(places)

    assert not looked_at(Tensor.empty(1, 512), Tensor.empty(512, 600))
    assert looked_at(Tensor.empty(7, 512).unfold(1, 3, 2), Tensor.empty(3, 600))
