"""Reductions however they are split: NaN, infinities, signs of zero, ties and every dtype.

A reduction of 70 000 elements is cut over cores and lanes, a column sum walks rows, a row sum keeps
its accumulators: each combines partial results on its own way (`codegen/linearize.py: combine`).
Values are judged in float64, or in the dtype itself where the result is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor
from polygrad.dtype import TENSOR_DTYPES, sum_dtype
from polygrad.testing.narrow_floats import LACKING, nearest

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
# (shape, axis): a long vector, everything, columns and rows, few and many
LAYOUTS = {
    "cpu": [((70_000,), 0), ((257, 263), None), ((20_011, 3), 0), ((3, 20_011), 1), ((16, 99), 1)],
    "interp": [((70_000,), 0), ((57, 63), None), ((301, 3), 0), ((3, 301), 1)],
}
PLANTS: dict[str, tuple[float, ...]] = {
    "plain": (),
    "nan": (np.nan,),
    "inf": (np.inf,),
    "-inf": (-np.inf,),
    "both": (np.inf, -np.inf),
}


@pytest.fixture
def threads() -> Any:
    with Context(POLY_THREADS=4):
        yield


def rounded(x: Any, dtype: str) -> Any:
    narrow = nearest(x, dtype) if dtype in LACKING else np.asarray(x).astype(dtype)
    return narrow.astype("float64")


def planted(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, plant: tuple[float, ...]
) -> np.ndarray:
    x = rng.normal(size=shape) * 3
    for value in plant:
        x.reshape(-1)[rng.integers(0, x.size)] = value
    return np.asarray(rounded(x, dtype))


def same(got: Tensor, expected: Any) -> None:
    found = np.array(got.tolist())
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("plant", PLANTS)
def test_extremes_of_floats(
    device: str, threads: None, dtype: str, plant: str, rng: np.random.Generator
) -> None:
    """A NaN anywhere wins; argmax is the first NaN, or the first of equals."""
    for shape, axis in LAYOUTS[device]:
        x = planted(rng, shape, dtype, PLANTS[plant])
        t = Tensor(x).cast(dtype).realize()
        same(t.max(axis), x.max(axis))
        same(t.min(axis), x.min(axis))
        if axis is not None:
            same(t.argmax(axis), x.argmax(axis))
            same(t.argmin(axis), x.argmin(axis))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("plant", PLANTS)
def test_sums_of_floats(
    device: str, threads: None, dtype: str, plant: str, rng: np.random.Generator
) -> None:
    """Narrow floats are summed in float32 and rounded once, however the sum is split."""
    for shape, axis in LAYOUTS[device]:
        x = planted(rng, shape, dtype, PLANTS[plant])
        t = Tensor(x).cast(dtype).realize()
        wide = t if dtype == "float64" else t.float()
        got, expected = np.array(wide.sum(axis).tolist()), x.sum(axis)
        away = np.where(got == expected, 0.0, np.abs(got - expected))
        ends = np.isnan(got) == np.isnan(expected)
        assert (ends & ~(away > np.abs(x).sum(axis) * 1e-6)).all()
        same(t.sum(axis), rounded(got, dtype))
        same(t.mean(axis), rounded(np.array(wide.mean(axis).tolist()), dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2"])
def test_a_reduction_of_the_graph_rounds_once_as_well(
    device: str, threads: None, dtype: str, rng: np.random.Generator
) -> None:
    """Whoever reduces a node gets float32 between the halves: 300 000 small numbers."""
    from polygrad.tensor.base import result
    from polygrad.uop.ops import Ops

    n = 300_000 if device == "cpu" else 70_000
    t = Tensor(rng.random(n) * 2**-7).cast(dtype).realize()
    expected = rounded(np.array(t.float().tolist()).sum(), dtype)
    assert result(t.uop.reduce(Ops.ADD, (0,)), t).item() == expected
    running = result(t.uop.scan(Ops.ADD, 0), t)[-1].item()
    assert running == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_statistics_of_halves_accumulate_in_float32(
    device: str, threads: None, dtype: str, rng: np.random.Generator
) -> None:
    x = rounded(rng.normal(size=70_000) * 0.5 + 1, dtype)
    t = Tensor(x).cast(dtype).realize()
    ulp = 2.0 ** (-10 if dtype == "float16" else -7)
    assert abs(t.var().item() - x.var(ddof=1)) <= ulp * x.var()
    assert abs(t.mean().item() - x.mean()) <= ulp * abs(x.mean())
    ones = Tensor.ones(70_000, dtype=dtype).realize()
    assert ones.softmax().sum(dtype="float32").item() == pytest.approx(
        70_000 * rounded(1 / 70_000, dtype), rel=1e-6
    )
    assert (ones * 2**-7).square().sum().item() == rounded(70_000 * 2.0**-14, dtype)
    factors = Tensor(rounded(1 + rng.normal(size=3000) * 0.02, dtype)).cast(dtype).realize()
    product = np.prod(np.array(factors.tolist()))
    assert abs(factors.prod().item() - product) <= ulp * product
    a = Tensor.ones(3, 5000, dtype=dtype).realize() * 0.125
    assert a.matmul(a.T).tolist() == [[rounded(5000 / 64, dtype)] * 3] * 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2"])
def test_what_falls_on_one_place_is_summed_in_float32(device: str, dtype: str) -> None:
    """3000 ones are no 256: scatter_add, index_add, index_put, and the gradient of an index."""
    n, total = 3000, rounded(3000.0, dtype)
    index = Tensor(np.zeros(n, np.int32)).realize()
    ones, none = Tensor.ones(n, dtype=dtype).realize(), Tensor.zeros(2, dtype=dtype)
    assert none.scatter_add(0, index, ones).tolist() == [total, 0.0]
    assert none.index_add(0, index, ones).tolist() == [total, 0.0]
    assert none.index_put((index,), ones, accumulate=True).tolist() == [total, 0.0]
    w = Tensor.ones(2, dtype=dtype).realize()
    w.requires_grad_(True)
    w[index].sum(dtype="float32").backward()
    assert w.grad is not None
    assert w.grad.tolist() == [total, 0.0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_signs_of_zero(device: str, threads: None, dtype: str) -> None:
    for shape, axis in LAYOUTS[device]:
        x = np.full(shape, -0.0)
        t = Tensor(x).cast(dtype).realize()
        for got in (t.max(axis), t.min(axis)):
            assert np.signbit(np.array(got.tolist())).all()
        assert not np.signbit(np.array((t + 0.0).sum(axis).tolist())).any()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_exact_and_wrap(
    device: str, threads: None, dtype: str, rng: np.random.Generator
) -> None:
    info, wide = np.iinfo(dtype), sum_dtype(TENSOR_DTYPES[dtype]).name
    for shape, axis in LAYOUTS[device]:
        x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        t = Tensor(x).realize()
        same(t.max(axis), x.max(axis))
        same(t.min(axis), x.min(axis))
        same(t.any(axis), x.any(axis))
        same(t.all(axis), x.all(axis))
        same(t.sum(axis), x.sum(axis, dtype=wide))
        assert t.sum(axis).dtype.name == wide
        odd = x | np.array(1, dtype)
        same(Tensor(odd).prod(axis), odd.prod(axis, dtype=wide))


def test_bools(device: str, threads: None, rng: np.random.Generator) -> None:
    for shape, axis in LAYOUTS[device]:
        for share in (0.0, 1e-4, 0.5, 0.9999, 1.0):
            x = rng.random(shape) < share
            t = Tensor(x).realize()
            same(t.any(axis), x.any(axis))
            same(t.all(axis), x.all(axis))
            same(t.max(axis), x.max(axis))
            same(t.min(axis), x.min(axis))
            same(t.sum(axis), x.sum(axis))
            same(t.prod(axis), x.prod(axis))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
def test_running_extremes_keep_nan(device: str, dtype: str, rng: np.random.Generator) -> None:
    x = rounded(rng.integers(-300, 300, 5000), dtype)
    if dtype != "int16":
        x[4000] = np.nan
    t = Tensor(x).cast(dtype).realize()
    same(t.cummax(0)[0], np.maximum.accumulate(x))
    same(t.cummin(0)[0], np.minimum.accumulate(x))


@pytest.mark.parametrize("shape", [(64, 9001), (67, 8192), (257, 3001), (4099, 201), (96, 7000)])
def test_rows_from_memory(device: str, shape: tuple[int, int], rng: np.random.Generator) -> None:
    """Several at a time: their number is a multiple of none, of one, or leaves some over."""
    w, x = rng.standard_normal(shape), rng.standard_normal(shape[1])
    w, x = w.astype(np.float32), x.astype(np.float32)
    wide = w.astype(np.float64)
    rows, row = Tensor(w), Tensor(x)
    near = {"rtol": 1e-5, "atol": 2e-4}
    np.testing.assert_allclose((rows @ row).numpy(), wide @ x, **near)
    np.testing.assert_allclose((rows.sum(1) * 2 + 1).numpy(), wide.sum(1) * 2 + 1, **near)
    np.testing.assert_allclose(rows.exp().sum(1).numpy(), np.exp(wide).sum(1), rtol=1e-5)
    np.testing.assert_array_equal(rows.max(1).numpy(), w.max(1))


@pytest.mark.parametrize("shape", [(2816, 100), (70, 7001)])
def test_rows_from_memory_that_several_results_share(
    device: str, shape: tuple[int, int], rng: np.random.Generator
) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    for axis in (0, 1):
        many = np.repeat(np.expand_dims(x, axis), 2, axis)
        t = Tensor(x).unsqueeze(axis).expand(*many.shape)
        sums = many.sum(2, dtype=np.float64)
        np.testing.assert_allclose(t.sum(2).numpy(), sums, rtol=1e-5, atol=2e-4)
        np.testing.assert_array_equal(t.max(2).numpy(), many.max(2))
