"""Counts, draws, covariances, distances, running extremes, writing at places, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial import distance

from polygrad import Tensor
from polygrad.errors import PolygradError

Rng = np.random.Generator
A = np.array([[1.0, 3.0, -2.0, 3.0], [0.5, np.nan, 7.0, 1.0], [4.0, 4.0, -1.0, 9.0]], np.float32)
SPECIAL = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3.7, -2.5, 1e30, 1e-45], np.float32)


def test_bincount(device: str, rng: Rng) -> None:
    n = rng.integers(0, 9, 50)
    w = rng.standard_normal(50).astype(np.float32)
    got = Tensor(n).bincount(minlength=12)
    assert got.dtype.name == "int32"
    np.testing.assert_array_equal(got.numpy(), np.bincount(n, minlength=12))
    np.testing.assert_allclose(Tensor(n).bincount(Tensor(w)).numpy(), np.bincount(n, w), rtol=1e-5)
    assert Tensor(np.zeros(0, np.int32)).bincount(minlength=2).tolist() == [0, 0]
    assert Tensor([True, False, True]).bincount().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("bins", "ends"), [(5, None), (7, (-1.0, 2.0)), ([-1.0, 0.0, 0.1, 1.0], None)]
)
def test_histogram_is_numpys(device: str, bins: Any, ends: Any, rng: Rng) -> None:
    x = np.r_[rng.standard_normal(200), -1.0, 1.0, 2.0].astype(np.float32)
    counts, edges = Tensor(x).histogram(bins, ends)
    want, want_edges = np.histogram(x, bins, ends)
    np.testing.assert_array_equal(counts.numpy(), want)
    np.testing.assert_allclose(edges.numpy(), want_edges, rtol=1e-5, atol=1e-6)
    shares = Tensor(x).histogram(bins, ends, density=True)[0]
    np.testing.assert_allclose(shares.numpy(), np.histogram(x, bins, ends, True)[0], rtol=1e-4)


def test_histogram_of_one_value_and_with_weights(device: str) -> None:
    counts, edges = Tensor([2.0, 2.0]).histogram(2)
    assert (counts.tolist(), edges.tolist()) == ([0, 2], [1.5, 2.0, 2.5])
    weighted = Tensor([0.0, 1.0, np.nan]).histogram(2, (0, 1), Tensor([2.0, 3.0, 9.0]))[0]
    assert weighted.tolist() == [2.0, 3.0]


def test_multinomial_draws_in_proportion(device: str) -> None:
    Tensor.manual_seed(3)
    p = Tensor([[0.0, 1.0, 3.0, 0.0], [1.0, 0.0, 0.0, 1.0]])
    drawn = p.multinomial(4000, replacement=True).numpy()
    assert drawn.dtype == np.int32 and drawn.shape == (2, 4000)
    shares = np.stack([np.bincount(row, minlength=4) / 4000 for row in drawn])
    np.testing.assert_allclose(shares, [[0, 0.25, 0.75, 0], [0.5, 0, 0, 0.5]], atol=0.04)
    assert sorted(Tensor([1.0, 5.0, 0.1]).multinomial(3).tolist()) == [0, 1, 2]
    firsts = Tensor(np.tile([1.0, 3.0], (4000, 1))).multinomial().numpy()
    assert abs(firsts.mean() - 0.75) < 0.03


def test_logits_are_sampled_in_proportion(device: str) -> None:
    """F038: every tie at the threshold of top_k stays eligible."""
    Tensor.manual_seed(5)
    logits = Tensor(np.tile(np.log([[0.5, 0.1, 0.2, 0.2]]), (4000, 1)).astype(np.float32))

    def shares(**options: Any) -> Any:
        drawn = logits.sample_logits(**options)
        assert drawn.dtype.name == "int32"
        return np.bincount(drawn.numpy().ravel(), minlength=4) / 4000

    np.testing.assert_allclose(shares(), [0.5, 0.1, 0.2, 0.2], atol=0.04)
    np.testing.assert_allclose(shares(top_k=2), [5 / 9, 0, 2 / 9, 2 / 9], atol=0.04)
    hot = np.sqrt([0.5, 0.1, 0.2, 0.2])
    np.testing.assert_allclose(shares(temperature=2.0), hot / hot.sum(), atol=0.04)
    np.testing.assert_array_equal(shares(temperature=0.0), [1, 0, 0, 0])
    assert logits.sample_logits(keepdim=True).shape == (4000, 1)


def test_covariance_and_correlation(device: str, rng: Rng) -> None:
    x = rng.standard_normal((4, 30)).astype(np.float32)
    np.testing.assert_allclose(Tensor(x).cov().numpy(), np.cov(x), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(Tensor(x[0]).cov(0).numpy(), np.cov(x[0], ddof=0), rtol=1e-4)
    np.testing.assert_allclose(Tensor(x).corrcoef().numpy(), np.corrcoef(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("p", "name"), [(2, "euclidean"), (1, "cityblock"), (np.inf, "chebyshev"), (3, "minkowski")]
)
def test_distances_between_rows(device: str, p: Any, name: str, rng: Rng) -> None:
    a, b = rng.standard_normal((5, 3)).astype(np.float32), rng.standard_normal((4, 3))
    options = {"p": 3} if p == 3 else {}
    got = Tensor(a).cdist(Tensor(b.astype(np.float32)), p).numpy()
    np.testing.assert_allclose(got, distance.cdist(a, b, name, **options), rtol=1e-5)


def test_distance_of_a_row_to_itself_has_slope_0(device: str) -> None:
    x = Tensor([[1.0, 2.0], [4.0, 6.0]])
    (g,) = x.cdist(x.detach()).sum().gradient(x)
    np.testing.assert_allclose(g.numpy(), [[-0.6, -0.8], [0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("name", "ufunc"), [("cummax", np.maximum), ("cummin", np.minimum)])
def test_running_extremes(device: str, name: str, ufunc: Any, axis: int) -> None:
    values, places = getattr(Tensor(A), name)(axis)
    wanted = ufunc.accumulate(A, axis)
    np.testing.assert_array_equal(values.numpy(), wanted)
    np.testing.assert_array_equal(np.take_along_axis(A, places.numpy(), axis), wanted)
    assert places.dtype.name == "int32"


def test_running_maximum_names_the_latest_and_hands_its_gradient_there(device: str) -> None:
    x = Tensor([2.0, 1.0, 2.0, 5.0, 0.0])
    values, places = x.cummax(0)
    assert places.tolist() == [0, 0, 2, 3, 3]
    (g,) = values.sum().gradient(x)
    assert g.tolist() == [2.0, 0.0, 1.0, 2.0, 0.0]


def test_logcumsumexp(device: str, rng: Rng) -> None:
    a = np.r_[-1e4, rng.standard_normal(20) * 30, 1e4, -1e4].astype(np.float32)
    x = Tensor(a)
    y = x.logcumsumexp(0)
    (g,) = y.sum().gradient(x)
    wanted = np.logaddexp.accumulate(a.astype(np.float64))
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-6)
    share = np.exp(np.where(np.tri(len(a)) > 0, a[None] - wanted[:, None], -np.inf))
    np.testing.assert_allclose(g.numpy(), share.sum(0), rtol=1e-3, atol=1e-6)
    assert Tensor([-np.inf, -np.inf]).logcumsumexp().tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_next_float(device: str, dtype: Any) -> None:
    with np.errstate(all="ignore"):
        a, b = (m.ravel() for m in np.meshgrid(SPECIAL.astype(dtype), SPECIAL.astype(dtype)))
        wanted = np.nextafter(a, b)
    got = Tensor(a).nextafter(Tensor(b)).numpy()
    np.testing.assert_array_equal(got, wanted)
    assert got.dtype == dtype


CASES: dict[str, tuple[Callable[[], Tensor], Any]] = {
    "argwhere": (lambda: Tensor([[0, 2], [3, 0]]).argwhere(), np.array([[0, 1], [1, 0]])),
    "logspace": (lambda: Tensor.logspace(-2, 3, 6), np.logspace(-2, 3, 6)),
    "logspace of base 2": (lambda: Tensor.logspace(0, 3, 4, 2), np.logspace(0, 3, 4, base=2)),
    "index_put": (
        lambda: Tensor([[1, 2], [3, 4]]).index_put((Tensor([1, 0]), Tensor([0, -1])), [8, 9]),
        np.array([[1, 9], [8, 4]]),
    ),
    "index_put adds": (
        lambda: Tensor([1.0, 2.0]).index_put(Tensor([0, 0, 1]), 0.5, accumulate=True),
        np.array([2.0, 2.5]),
    ),
    "const": (lambda: Tensor.const(3) + Tensor([1]), np.array([4])),
    "const_like": (lambda: Tensor([1.0, 2.0]).const_like(5), np.array([5.0, 5.0])),
}


@pytest.mark.parametrize("name", CASES)
def test_convenience_matches_numpy(device: str, name: str) -> None:
    ours, wanted = CASES[name]
    got = ours().numpy()
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=2e-6)


def test_unpooling_puts_the_largest_back(device: str, rng: Rng) -> None:
    a = rng.standard_normal((2, 3, 6, 4)).astype(np.float32)
    pooled, places = Tensor(a).max_pool2d(2, return_indices=True)
    got = pooled.max_unpool2d(places).numpy()
    largest = np.kron(pooled.numpy(), np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(got, np.where(a == largest, a, 0))


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Tensor([0.5]).bincount(), "bincount takes a vector of integers, not float32 (1,)."),
    (lambda: Tensor([1, -2]).bincount(), "bincount: -2 is negative."),
    (
        lambda: Tensor([1.0, 2.0]).multinomial(3),
        "multinomial: 3 of 2 elements cannot be drawn all different.",
    ),
    (
        lambda: Tensor(A).cdist(Tensor([[1.0]])),
        "cdist: rows of (3, 4) and (1, 1) have no distance.",
    ),
    (lambda: Tensor.logspace(0, 1, 3, base=-2), "logspace: base is a positive number, not -2."),
    (lambda: Tensor([1.0]).histogram(2, (3, 1)), "histogram: the range (3, 1) does not rise."),
]


@pytest.mark.parametrize(("call", "text"), MISTAKES, ids=[t[:30] for _, t in MISTAKES])
def test_mistake_is_named(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(PolygradError) as error:
        call()
    assert str(error.value) == text
