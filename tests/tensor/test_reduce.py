"""Reductions against numpy in float64 (F036, F037)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from scipy import special

from polygrad import Tensor
from polygrad.errors import ArgumentError, DTypeError, ShapeError

Rng = np.random.Generator
AXES = [None, 0, 1, -1, (0, 2), (0, 1, 2)]


def _lse(x: Any, axis: Any, keepdims: bool) -> Any:
    return special.logsumexp(x, axis=axis, keepdims=keepdims)


NUMPY: dict[str, Any] = {
    "sum": np.sum,
    "prod": np.prod,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "var": lambda x, **k: np.var(x, ddof=1, **k),
    "std": lambda x, **k: np.std(x, ddof=1, **k),
    "logsumexp": _lse,
}


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", NUMPY)
def test_reduction_matches_numpy(device: str, name: str, axis: Any, rng: Rng) -> None:
    a = rng.standard_normal((3, 4, 5)).astype(np.float32)
    for keepdim in (False, True):
        wanted = NUMPY[name](a.astype(np.float64), axis=axis, keepdims=keepdim)
        got = getattr(Tensor(a), name)(axis, keepdim).numpy()
        assert got.shape == np.shape(wanted) and got.dtype == np.float32
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_position_of_the_extreme_is_the_first(device: str, name: str, axis: Any, rng: Rng) -> None:
    a = rng.integers(0, 3, (4, 6)).astype(np.float32)  # full of ties
    got = getattr(Tensor(a), name)(axis).numpy()
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, getattr(np, name)(a, axis=axis))


def test_nan_wins_extremes_and_their_positions(device: str) -> None:
    a = np.array([1.0, np.nan, 5.0, np.nan], np.float32)
    x = Tensor(a)
    assert np.isnan(x.max().item()) and np.isnan(x.min().item())
    assert x.argmax().item() == x.argmin().item() == 1
    assert Tensor([2.0, np.inf, -np.inf]).argmax().item() == 1


def test_axis_and_dim_are_one_argument(device: str) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(axis=0).tolist() == x.sum(dim=0).tolist() == [4.0, 6.0]
    with pytest.raises(ArgumentError, match="axis and dim are the same argument"):
        x.sum(axis=0, dim=0)


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("bool", "int64"), ("int8", "int64"), ("int16", "int64"), ("int32", "int64")]
    + [("int64", "int64"), ("uint8", "uint64"), ("uint16", "uint64"), ("uint32", "uint64")]
    + [("uint64", "uint64"), ("float16", "float16")],
)
def test_sums_and_products_of_integers_have_64_bits(device: str, dtype: str, wanted: str) -> None:
    x = Tensor([[1, 0, 1], [1, 1, 1]], dtype=dtype)
    for got in (x.sum(1), x.prod(1), x.cumsum(1), x.cumprod(1)):
        assert got.dtype.name == wanted
    assert x.sum(1).tolist() == [2, 3] and x.prod(1).tolist() == [0, 1]
    numpys = np.zeros(1, dtype).sum().dtype.name
    assert numpys == wanted or os.name == "nt"


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_sums_and_products_as_bools_are_or_and_and(device: str, rows: int) -> None:
    a = np.array([[2, 0, -1], [0, 0, 1], [-2, 0, 4]][:rows], np.int32).reshape(rows, 3)
    for name in ("sum", "prod", "cumsum", "cumprod"):
        got = getattr(Tensor(a), name)(axis=0, dtype="bool").numpy()
        wanted = getattr(np, name)(a, axis=0, dtype=bool)
        assert got.dtype == wanted.dtype and got.tolist() == wanted.tolist()
    x, b = Tensor(a), a.astype(bool)
    assert x.matmul(x.T, dtype="bool").tolist() == (b @ b.T).tolist()
    assert Tensor.einsum("ij,kj->ik", x, x, dtype="bool").tolist() == (b @ b.T).tolist()


def test_a_mean_in_another_dtype(device: str) -> None:
    a = np.array([[1, 2], [3, 4]], np.int32)
    got = Tensor(a).mean(0, dtype="float64").numpy()
    assert got.dtype == np.float64 and got.tolist() == a.mean(0).tolist()
    with pytest.raises(DTypeError, match="mean: dtype is a float, not int32"):
        Tensor(a).mean(dtype="int32")


def test_sums_of_integers_do_not_wrap_at_32_bits(device: str) -> None:
    x = Tensor([2_000_000_000, 2_000_000_000])
    assert x.sum().item() == 4_000_000_000
    assert x.cumsum(0).tolist() == [2_000_000_000, 4_000_000_000]
    assert x.prod().item() == 4 * 10**18
    assert Tensor(np.full(3, 2**32 - 1, np.uint32)).sum().item() == 3 * (2**32 - 1)
    assert x.sum(dtype="int32").item() == 4_000_000_000 - 2**32
    assert x.sum(dtype="int32").dtype.name == x.cumsum(0, dtype="int32").dtype.name == "int32"


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_matrix_products_keep_wide_integers(device: str, dtype: str) -> None:
    x = np.array([[2**20, 3], [5, 7]], dtype)
    got = (Tensor(x) @ Tensor(x)).numpy()
    np.testing.assert_array_equal(got, x @ x)
    assert got.dtype == dtype


def test_int8_sum_does_not_wrap(device: str) -> None:
    assert Tensor(np.full(300, 100, np.int8)).sum().item() == 30000


def test_half_sums_accumulate_in_float32(device: str) -> None:
    x = Tensor(np.full(4096, 0.25, np.float16))
    assert x.sum().item() == 1024.0  # in half it would stop growing at 512
    assert x.mean().item() == 0.25
    assert x.sum().dtype.name == "float16"
    assert x.sum(dtype="float32").dtype.name == "float32"


def test_mean_of_integers_is_float32(device: str) -> None:
    got = Tensor([1, 2]).mean()
    assert (got.dtype.name, got.item()) == ("float32", 1.5)


def test_reductions_of_nothing(device: str) -> None:
    x = Tensor(np.zeros((0, 3), np.float32))
    assert x.sum(0).tolist() == [0.0, 0.0, 0.0]
    assert x.prod().item() == 1.0
    assert np.isnan(x.mean(0).numpy()).all()
    assert x.logsumexp(0).tolist() == [-np.inf] * 3
    assert x.sum(1).shape == (0,)
    with pytest.raises(ShapeError, match="max of no elements"):
        x.max()


def test_variance_of_one_element_is_nan_without_correction_0(device: str) -> None:
    x = Tensor([[3.0]])
    assert np.isnan(x.var().item())
    assert x.var(correction=0).item() == 0.0
    deviation, mean = Tensor([1.0, 3.0]).std_mean()
    assert (deviation.item(), mean.item()) == (pytest.approx(2**0.5), 2.0)


def test_tests_over_axes(device: str, rng: Rng) -> None:
    a = rng.integers(0, 2, (3, 4))
    x = Tensor(a)
    np.testing.assert_array_equal(x.all(1).numpy(), a.all(1))
    np.testing.assert_array_equal(x.any(0).numpy(), a.any(0))
    assert x.count_nonzero().item() == np.count_nonzero(a)
    assert Tensor(np.zeros((0,), bool)).all().item() is True
    assert Tensor(np.zeros((0,), bool)).any().item() is False


def test_logsumexp_of_infinities(device: str) -> None:
    inf = np.inf
    rows = Tensor([[-inf, -inf], [inf, 1.0], [-inf, 2.0]])
    np.testing.assert_allclose(rows.logsumexp(1).numpy(), [-inf, inf, 2.0])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_family(device: str, axis: int, rng: Rng) -> None:
    a = (rng.standard_normal((3, 4, 5)) * 30).astype(np.float32)
    x, wide = Tensor(a), a.astype(np.float64)
    np.testing.assert_allclose(
        x.softmax(axis).numpy(), special.softmax(wide, axis), rtol=2e-5, atol=1e-30
    )
    np.testing.assert_allclose(
        x.log_softmax(axis).numpy(), special.log_softmax(wide, axis), rtol=2e-6, atol=2e-5
    )
    np.testing.assert_allclose(
        x.softmin(axis).numpy(), special.softmax(-wide, axis), rtol=2e-5, atol=1e-30
    )


@pytest.mark.parametrize("p", [0, 1, 2, 3, np.inf, -np.inf])
def test_norms(device: str, p: float, rng: Rng) -> None:
    a = rng.standard_normal((3, 4)).astype(np.float32)
    wanted = np.linalg.norm(a.astype(np.float64), p, axis=1)
    np.testing.assert_allclose(Tensor(a).norm(p, 1).numpy(), wanted, rtol=1e-5)


def test_normalize_divides_by_the_norm(device: str, rng: Rng) -> None:
    a = rng.standard_normal((3, 4)).astype(np.float32)
    wanted = a / np.linalg.norm(a, axis=1, keepdims=True)
    np.testing.assert_allclose(Tensor(a).normalize().numpy(), wanted, rtol=1e-5)
    assert Tensor([[0.0, 0.0]]).normalize().tolist() == [[0.0, 0.0]]


def test_0d_tensors_take_axis_0(device: str) -> None:
    x = Tensor(3.0)
    assert x.sum(0).item() == x.max(-1).item() == 3.0
    assert x.argmax(0).item() == 0


@pytest.mark.parametrize(
    ("axis", "text"),
    [
        (2, "sum: axis 2 is outside a tensor of 2 axes."),
        ((0, -2), "sum: axes (0, -2) name one axis twice."),
        ("rows", "sum: an axis is an integer, not 'rows'."),
    ],
)
def test_a_wrong_axis_is_named(axis: Any, text: str) -> None:
    with pytest.raises(ArgumentError) as error:
        Tensor.zeros(2, 3).sum(axis)
    assert str(error.value) == text
