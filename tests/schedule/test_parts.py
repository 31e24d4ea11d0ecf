"""Long sums of products are cut into parts, and stay the same sums."""

from __future__ import annotations

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.codegen.kernel import extent
from polygrad.schedule import schedule
from polygrad.uop.ops import Ops, UOp


def kernels(out: Tensor, lanes: int = 0) -> int:
    return len(schedule([out.uop], "cpu", lanes=lambda device: lanes).items)


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("n", "k"), [(128, 2048), (144, 4096), (130, 2049), (160, 2310), (128, 2053)]
)
@pytest.mark.parametrize("form", ["g.T @ h", "g @ h.T", "x @ y"])
def test_a_long_product_is_numpys(n: int, k: int, form: str) -> None:
    a, b = rows(k, 132), rows(k, n)
    given = {"g.T @ h": (a, b), "g @ h.T": (a.T.copy(), b.T.copy()), "x @ y": (a.T.copy(), b)}[form]
    x, y = map(Tensor, given)
    out = {"g.T @ h": lambda: x.T @ y, "g @ h.T": lambda: x @ y.T, "x @ y": lambda: x @ y}[form]()
    wanted = a.T.astype(np.float64) @ b
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-3)


def test_the_gradient_of_a_weight_over_a_large_batch_is_summed_in_parts() -> None:
    g, h = Tensor.empty(4096, 128), Tensor.empty(4096, 160)
    assert kernels(g.T @ h) == 3  # panels, products of parts, their sum
    assert kernels(g.T @ h, lanes=16) == 2  # each part with its panels near, their sum
    assert kernels(g.T @ h, lanes=8) == 3  # the same, after a copy of the rows along the sum
    assert kernels(Tensor.empty(256, 128).T @ Tensor.empty(256, 160)) <= 2  # no parts
    assert kernels(Tensor.empty(8192, 256).T @ Tensor.empty(8192, 64)) == 3


def test_few_rows_of_a_long_sum_are_not_summed_in_parts() -> None:
    """They lie along the sum: a tile reads each of its lines whole."""
    out = Tensor.empty(64, 4096) @ Tensor.empty(768, 4096).T
    (length,) = (
        extent(r)
        for item in schedule([out.uop], "cpu").items
        for node in item.sink.toposort()
        if node.op is Ops.REDUCE
        for r in node.src[1:]
    )
    assert length == 4096
    assert kernels(Tensor.empty(2048, 2048) @ Tensor.empty(2048, 2048)) == 2  # many results


def test_the_gradient_of_a_filter_is_summed_image_by_image(device: str) -> None:
    x, g, w = rows(4, 3, 30, 30), rows(4, 5, 28, 28), rows(5, 3, 3, 3)
    weight = Tensor(w, device=device, requires_grad=True)
    out = Tensor(x, device=device).conv2d(weight)
    (slope,) = (out * Tensor(g, device=device)).sum().gradient(weight)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (28, 28), (2, 3))
    wanted = np.einsum("ncijyx,noyx->ocij", windows, g.astype(np.float64))
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-4, atol=1e-3)
    items = schedule([slope.uop], device).items
    reduced = [i for i in items if any(u.op is Ops.REDUCE for u in UOp.toposort(i.sink))]
    assert len(reduced) == 2
