"""Running sums and products against numpy float64."""

from __future__ import annotations

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ArgumentError, GradientError

RNG = np.random.default_rng(3)
SHAPES = [
    ((7,), 0),
    ((5, 9), 0),
    ((5, 9), 1),
    ((2, 3, 8), 1),
    ((3, 1), 1),
    ((0, 4), 0),
    ((16, 33), -1),
]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_cumsum_is_numpys(device: str, shape: tuple[int, ...], axis: int) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    want = np.cumsum(x.astype(np.float64), axis)
    np.testing.assert_allclose(Tensor(x).cumsum(axis).numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_cumprod_is_numpys(device: str, shape: tuple[int, ...], axis: int) -> None:
    x = RNG.uniform(0.5, 1.5, shape).astype(np.float32)
    want = np.cumprod(x.astype(np.float64), axis)
    np.testing.assert_allclose(Tensor(x).cumprod(axis).numpy(), want, rtol=1e-5)


def test_a_long_scan_runs_in_parts_and_is_exact_for_integers(device: str) -> None:
    n = 1 << 17
    x = RNG.integers(-9, 9, n).astype(np.int32)
    np.testing.assert_array_equal(Tensor(x).cumsum().numpy(), np.cumsum(x, dtype=np.int32))


def test_small_integers_and_bools_sum_in_int32(device: str) -> None:
    assert Tensor([True, True, False, True]).cumsum().tolist() == [1, 2, 2, 3]
    x = np.full(300, 100, np.int8)
    got = Tensor(x).cumsum().numpy()
    assert got.dtype == np.int32 and got[-1] == 30000


def test_the_scanned_value_may_be_an_expression_and_its_result_fused_into_another(
    device: str,
) -> None:
    x = RNG.standard_normal((6, 20)).astype(np.float32)
    t = Tensor(x)
    got = ((t.softmax(-1) * 2).cumsum(1) - t).numpy()
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    want = np.cumsum(2 * e / e.sum(1, keepdims=True), 1) - x
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 16), (5, 40), (4, 7), (2000, 300)])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_after_a_reduction_of_the_same_axis(
    device: str, shape: tuple[int, int], axis: int
) -> None:
    """The fuzzer's find: a strip of columns ran inside the scan and mixed what it carries."""
    x = RNG.integers(-4, 5, shape).astype(np.float32)
    t = Tensor(x)
    got = (t - t.max(axis=axis, keepdim=True)).cumsum(axis).numpy()
    np.testing.assert_array_equal(got, np.cumsum(x - x.max(axis, keepdims=True), axis))


@pytest.mark.parametrize("shape", [(2, 1, 2), (3, 21), (40, 9)])
def test_a_scan_of_equal_numbers_starts_anew_in_each_row(
    device: str, shape: tuple[int, ...]
) -> None:
    """The fuzzer's find: what depends on no row was started once for all of them."""
    for axis in range(len(shape)):
        got = Tensor.full(shape, 1.25).cumsum(axis).numpy()
        np.testing.assert_array_equal(got, np.cumsum(np.full(shape, 1.25, np.float32), axis))


def test_nan_stays_from_its_place_on(device: str) -> None:
    got = Tensor([1.0, float("nan"), 2.0]).cumsum().numpy()
    assert got[0] == 1 and np.isnan(got[1:]).all()


def test_half_floats_accumulate_in_float32(device: str) -> None:
    x = np.full(4096, 0.1, np.float16)
    want = np.cumsum(x.astype(np.float64))
    np.testing.assert_allclose(Tensor(x).cumsum().numpy(), want, rtol=1e-3)


def test_the_gradient_of_cumsum_is_the_sum_from_each_place_on(device: str) -> None:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x.cumsum() * Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [111.0, 110.0, 100.0]


def test_cumprod_says_that_it_has_no_gradient() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GradientError, match="a running MUL has no gradient yet"):
        x.cumprod().sum().backward()


def test_an_axis_outside_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="cumsum: axis 2 is outside a tensor of 1 axes"):
        Tensor([1.0]).cumsum(2)
