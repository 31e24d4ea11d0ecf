"""Long float sums: as right for millions of elements as for a hundred, however many that are.

Equal numbers are the hard case: every addition rounds the same way, so a running sum of float32 is
off by n / 2^26 and stands still at 2^24. The judge is exact: n times the number in float64.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from polygrad import Tensor

LENGTHS = (65_537, 65_536, 99_991, 131_072)  # a prime is cut in parts and a rest
LONG = (999_983, 1_000_000, 4_000_037, 16_777_259)  # of the last a running sum stands still
BOUND = 1e-6


def relative(got: object, want: object) -> float:
    values = np.asarray(got, np.float64) / np.asarray(want, np.float64)
    return float(np.max(np.abs(values - 1)))


def lengths(device: str) -> tuple[int, ...]:
    return LENGTHS + LONG if device == "cpu" else LENGTHS


@pytest.mark.parametrize("value", [0.1, 0.7, 1 / 3, 1.1e-5, 3.3e30])
def test_sum_and_mean_of_equal_numbers(device: str, value: float) -> None:
    for n in lengths(device):
        x = np.full(n, value, np.float32)
        assert relative(Tensor(x).sum().item(), float(x[0]) * n) <= BOUND, n
        assert relative(Tensor(x).mean().item(), float(x[0])) <= BOUND or value > 1, n


def test_sum_over_inexact_work(device: str) -> None:
    """The rest of a prime number of elements is computed from the same expression."""
    for n in lengths(device):
        x = np.full(n, 0.1, np.float32)
        got = (Tensor(x) * 3.0 + Tensor(np.float32(1.5))).exp().sum().item()
        assert relative(got, np.exp(float(x[0]) * 3 + 1.5) * n) <= 2 * BOUND, n


def test_inner_product_of_equal_numbers(device: str) -> None:
    for n in lengths(device):
        x = np.full(n, 0.1, np.float32)
        assert relative((Tensor(x) @ Tensor(x)).item(), float(x[0]) ** 2 * n) <= BOUND, n


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 70_001), 1), ((30_011, 3), 0), ((20, 30, 500), (0, 2)), ((9, 5003), 1), ((7001, 9), 0)],
)
def test_rows_and_columns_of_equal_numbers(
    device: str, shape: tuple[int, ...], axis: int | tuple[int, ...]
) -> None:
    x = np.full(shape, 0.1, np.float32)
    want = x.sum(axis=axis, dtype=np.float64)
    assert relative(Tensor(x).sum(axis).numpy(), want) <= 2 * BOUND


def test_wide_columns_of_equal_numbers(device: str) -> None:
    """A strip of results in memory takes longer blocks: the bound is that of 512 steps."""
    x = np.full((4001, 1003), 0.1, np.float32)
    assert relative(Tensor(x).sum(0).numpy(), x.sum(0, dtype=np.float64)) <= 8e-6


def test_products_of_long_rows(device: str) -> None:
    x = np.full((9, 20_011), 0.1, np.float32)
    got = (Tensor(x) @ Tensor(np.ascontiguousarray(x.T))).numpy()
    assert relative(got, float(x[0, 0]) ** 2 * x.shape[1]) <= 8e-6


def test_sums_of_random_numbers(device: str, rng: np.random.Generator) -> None:
    for n in lengths(device):
        x = rng.random(n, np.float32)
        exact = x.astype(np.float64)
        assert relative(Tensor(x).sum().item(), exact.sum()) <= 2.5e-7, n
        assert relative(Tensor(x).var().item(), exact.var(ddof=1)) <= 5e-7, n


def test_float64_sums(device: str) -> None:
    for n in lengths(device)[:3]:
        x = np.full(n, 0.1)
        assert relative(Tensor(x).sum().item(), 0.1 * n) <= 2e-15, n


@pytest.mark.parametrize("shape", [(70_001,), (2, 66_000), (9, 5000), (5000, 9), (3, 70_001)])
def test_running_sums_of_equal_numbers(device: str, shape: tuple[int, ...]) -> None:
    axis = int(np.argmax(shape))
    x = np.full(shape, 0.1, np.float32)
    got = Tensor(x).cumsum(axis).numpy()
    assert relative(got, x.cumsum(axis, dtype=np.float64)) <= 2 * BOUND


@pytest.mark.parametrize("op", ["cumprod", "cummax"])
def test_other_long_scans_with_a_rest(device: str, rng: np.random.Generator, op: str) -> None:
    x = rng.uniform(0.999, 1.001, 70_001).astype(np.float32)
    got = getattr(Tensor(x), op)(0)
    if op == "cummax":
        np.testing.assert_array_equal(got[0].numpy(), np.maximum.accumulate(x))
    else:
        np.testing.assert_allclose(got.numpy(), np.cumprod(x, dtype=np.float64), rtol=1e-4)


@pytest.mark.parametrize("n", [5000, 70_001])
def test_infinities_and_nan_in_long_sums(device: str, n: int) -> None:
    def total(*places: tuple[int, float]) -> tuple[float, float]:
        x = np.ones(n, np.float32)
        for at, value in places:
            x[at] = value
        return Tensor(x).sum().item(), Tensor(x).cumsum(0).numpy()[-1].item()

    assert total((7, np.inf)) == (np.inf, np.inf)
    assert total((n - 1, -np.inf)) == (-np.inf, -np.inf)
    assert np.isnan(total((7, np.nan))).all()
    assert np.isnan(total((7, np.inf), (n - 3, -np.inf))).all()


@pytest.mark.parametrize(
    ("op", "judge"),
    [("max", np.max), ("min", np.min), ("prod", np.prod)],
    ids=["max", "min", "prod"],
)
def test_other_reductions_with_a_rest(
    device: str, rng: np.random.Generator, op: str, judge: Callable[..., np.float32]
) -> None:
    x = rng.uniform(0.99, 1.01, 70_001).astype(np.float32)
    np.testing.assert_allclose(getattr(Tensor(x), op)().item(), judge(x), rtol=1e-4)
    whole = rng.integers(-9, 9, 70_001).astype(np.int32)
    assert Tensor(whole).sum().item() == whole.sum()


PROGRAM = """
import numpy as np
from polygrad import Tensor
rng = np.random.default_rng(5)
parts = []
for shape in ((999_983,), (3, 70_001), (5003, 9), (4001, 103)):
    x = Tensor(rng.random(shape, np.float32))
    parts += [x.sum(), x.sum(0), x.sum(-1), x.cumsum(-1), x.var(0), (x * x).sum()]
print(hash(tuple(p.numpy().tobytes() for p in parts)))
"""


def test_bits_do_not_depend_on_threads() -> None:
    def bits(threads: str) -> str:
        env = {**os.environ, "POLY_THREADS": threads, "POLY_DEV": "cpu", "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert bits("1") == bits("2") == bits("4")
