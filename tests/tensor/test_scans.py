"""Running sums, products, logarithms of sums, and any associative function, against numpy's
float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygrad import Tensor, associative_scan
from polygrad.errors import ArgumentError
from polygrad.uop.ops import Ops

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


def test_small_integers_and_bools_sum_in_int64(device: str) -> None:
    assert Tensor([True, True, False, True]).cumsum().tolist() == [1, 2, 2, 3]
    x = np.full(300, 100, np.int8)
    got = Tensor(x).cumsum().numpy()
    assert got.dtype == np.int64 and got[-1] == 30000


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


def slow_product_slope(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Of (cumprod(x) * g).sum(), element by element, in float64."""
    out = np.zeros_like(x)
    for k in range(len(x)):
        others = x.copy()
        others[k] = 1.0
        out[k] = (np.cumprod(others, 0) * g)[k:].sum(0)
    return out


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_the_gradient_of_cumprod_is_right_beside_zeros(
    device: str, zeros: int, rng: np.random.Generator
) -> None:
    x, g = rng.uniform(-1.5, 1.5, (2, 9))
    x[[2, 6][:zeros]] = 0
    t = Tensor(x)
    (slope,) = t.cumprod().gradient(t, gradient=Tensor(g))
    np.testing.assert_allclose(slope.numpy(), slow_product_slope(x, g), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_gradient_of_cumprod_along_any_axis(
    device: str, axis: int, rng: np.random.Generator
) -> None:
    x, g = rng.uniform(-1.5, 1.5, (2, 3, 70, 5))
    t = Tensor(x)
    (slope,) = t.cumprod(axis).gradient(t, gradient=Tensor(g))
    want = slow_product_slope(np.moveaxis(x, axis, 0), np.moveaxis(g, axis, 0))
    np.testing.assert_allclose(slope.numpy(), np.moveaxis(want, 0, axis), rtol=1e-9, atol=1e-13)


def test_the_second_derivative_of_cumprod(device: str) -> None:
    """d²/dx_i dx_j of x0 + x0 x1 + x0 x1 x2 in the direction of ones, at a zero too."""
    x = Tensor(np.array([2.0, 0.0, 3.0]))
    (first,) = x.cumprod().sum().gradient(x)
    assert first.tolist() == [1.0, 8.0, 0.0]
    (first,) = x.cumprod().sum().gradient(x)
    (second,) = first.sum().gradient(x)
    assert second.tolist() == [4.0, 6.0, 2.0]


@pytest.mark.parametrize("n", [1, 20_001])
def test_a_long_gradient_runs_in_parts(device: str, n: int, rng: np.random.Generator) -> None:
    """The recurrence behind it, of a length that no number of parts divides."""
    x = rng.choice([-1.0, 1.0, -0.5, 2.0], n, p=[0.4, 0.4, 0.1, 0.1])
    t = Tensor(x)
    (slope,) = t.cumprod().gradient(t, gradient=Tensor(np.cos(np.arange(n))))
    want, flow = np.zeros(n), 0.0
    before = np.r_[1.0, np.cumprod(x)[:-1]]
    for k in reversed(range(n)):
        flow = np.cos(k) + (x[k + 1] * flow if k + 1 < n else 0.0)
        want[k] = before[k] * flow
    np.testing.assert_allclose(slope.numpy(), want, rtol=1e-7, atol=1e-7 * np.abs(want).max())


# ---- logcumsumexp


@pytest.mark.parametrize(("shape", "axis"), [*SHAPES, ((20_000,), 0), ((2, 9, 70), 1)])
def test_logcumsumexp_is_numpys(
    device: str, shape: tuple[int, ...], axis: int, rng: np.random.Generator
) -> None:
    x = (rng.standard_normal(shape) * 100).astype(np.float32)
    want = np.logaddexp.accumulate(x.astype(np.float64), axis) if x.size else x
    np.testing.assert_allclose(Tensor(x).logcumsumexp(axis).numpy(), want, rtol=1e-6, atol=1e-5)


def test_logcumsumexp_of_what_is_no_number(device: str) -> None:
    inf, nan = np.inf, np.nan
    rows = [
        [-inf, -inf, -1000.0, 1.0],
        [inf, 1.0, -inf, inf],
        [1.0, nan, 2.0, inf],
        [-inf, inf, nan, 0.0],
    ]
    with np.errstate(all="ignore"):
        want = np.logaddexp.accumulate(rows, axis=1)
    np.testing.assert_array_equal(Tensor(rows).logcumsumexp(1).numpy(), want)


def test_logcumsumexp_keeps_what_is_small_beside_zero(device: str) -> None:
    got = Tensor([0.0, -23.0, -60.0]).logcumsumexp().numpy()
    np.testing.assert_allclose(got, [0.0, 1.0261879e-10, 1.0261879e-10], rtol=1e-6)


def test_the_gradients_of_logcumsumexp(device: str, rng: np.random.Generator) -> None:
    x, g = rng.standard_normal((2, 12)) * 30
    x[4] = -np.inf
    t = Tensor(x)
    (slope,) = t.logcumsumexp().gradient(t, gradient=Tensor(g))
    share = np.tril(np.exp(x - np.logaddexp.accumulate(x)[:, None]))
    np.testing.assert_allclose(slope.numpy(), g @ share, rtol=1e-10, atol=1e-14)
    (slope,) = t.logcumsumexp().gradient(t, gradient=Tensor(g))
    (second,) = slope.sum().gradient(t)  # shares of one sum are 1 whatever x is
    np.testing.assert_allclose(second.numpy(), np.zeros(12), atol=1e-10)
    (slope,) = t.logcumsumexp().gradient(t, gradient=Tensor(g))
    (second,) = (slope * Tensor(g)).sum().gradient(t)
    want = (g[:, None] * share * (g - (share @ g)[:, None])).sum(0)
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-9, atol=1e-10)


def test_logcumsumexp_of_nothing_but_minus_infinity_has_slope_0(device: str) -> None:
    x = Tensor([-np.inf, -np.inf])
    (slope,) = x.logcumsumexp().sum().gradient(x)
    assert slope.tolist() == [0.0, 0.0]


def test_scans_of_any_length_are_one_graph() -> None:
    for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
        counts = []
        for n in (100, 6_000):
            x = Tensor(np.ones(n, np.float32))
            made = getattr(x, name)()
            (slope,) = (made[0] if isinstance(made, tuple) else made).sum().gradient(x)
            counts.append(len(slope.uop.toposort(lambda u: u.op is not Ops.SINK)))
        assert counts[0] == counts[1], name


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_a_number_and_nothing_at_all(device: str, name: str) -> None:
    for x in (Tensor(3.0), Tensor(np.zeros((2, 0, 3), np.float32))):
        made = getattr(x, name)(-1)
        values = made[0] if isinstance(made, tuple) else made
        np.testing.assert_array_equal(values.numpy(), x.numpy())


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64"])
def test_integers_accumulate_as_sums_do(device: str, name: str, dtype: str) -> None:
    x = np.array([100, 100, 3, 2], dtype)
    made = getattr(Tensor(x), name)()
    assert made.dtype is Tensor(x).sum().dtype
    np.testing.assert_array_equal(made.numpy(), getattr(np, name)(x).astype(made.numpy().dtype))


# ---- associative_scan


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 13, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_any_length(
    device: str, n: int, reverse: bool, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((2, n, 3))
    got = associative_scan(Tensor.maximum, Tensor(x), reverse=reverse, axis=-2).numpy()
    want = np.maximum.accumulate(x[:, ::-1] if reverse else x, 1) if n else x
    np.testing.assert_array_equal(got, want[:, ::-1] if reverse else want)


def test_associative_scan_keeps_the_order_of_operands(
    device: str, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((11, 3, 3))
    want = [x[0]]
    for m in x[1:]:
        want.append(want[-1] @ m)
    got = associative_scan(Tensor.matmul, Tensor(x)).numpy()
    np.testing.assert_allclose(got, np.array(want), rtol=1e-10, atol=1e-12)


def test_associative_scan_of_several_tensors_and_its_gradient(
    device: str, rng: np.random.Generator
) -> None:
    """A linear recurrence as pairs (factor, value), which the scan takes in any container."""
    a, b = rng.uniform(-1, 1, (2, 21))
    x, y = Tensor(a), Tensor(b)

    def join(left: Any, right: Any) -> Any:
        moved = right["factor"] * left["value"][0] + right["value"][0]
        return {"factor": left["factor"] * right["factor"], "value": (moved,)}

    got = associative_scan(join, {"factor": x, "value": (y,)})["value"][0]
    want, total = [], 0.0
    for k in range(21):
        total = a[k] * total + b[k]
        want.append(total)
    (slope,) = got.sum().gradient(y)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    flow = np.array([np.cumprod(np.r_[1.0, a[k + 1 :]]).sum() for k in range(21)])
    np.testing.assert_allclose(slope.numpy(), flow, rtol=1e-10)


def test_the_graph_of_associative_scan_grows_with_the_logarithm() -> None:
    sizes = [
        len(associative_scan(Tensor.add, Tensor.ones(n)).uop.toposort()) for n in (1 << 8, 1 << 16)
    ]
    assert sizes[1] < 2.2 * sizes[0]


def test_an_axis_outside_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="cumsum: axis 2 is outside a tensor of 1 axes"):
        Tensor([1.0]).cumsum(2)
