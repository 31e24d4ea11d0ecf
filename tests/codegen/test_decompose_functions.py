"""Accuracy of the elementary functions: float32 within 2 ulp and float64 within 2 ulp, everywhere.

Arguments are random bit patterns (every exponent is met), and ranges where a formula is near its
worst. The float32 oracle is numpy or scipy in float64; for float64 it is long double where that is
wider, else the point is left to the float32 test of the same formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from polygrad.dtype import dtypes
from polygrad.uop.ops import Ops

WIDE = np.longdouble
HAS_WIDE = np.finfo(WIDE).nmant > np.finfo(np.float64).nmant
FUNCTIONS: dict[Ops, Callable[[Any], Any]] = {
    Ops.EXP: np.exp,
    Ops.EXP2: np.exp2,
    Ops.LOG: np.log,
    Ops.LOG2: np.log2,
    Ops.SIN: np.sin,
    Ops.COS: np.cos,
    Ops.TANH: np.tanh,
    Ops.SIGMOID: lambda x: 1 / (1 + np.exp(-x)),
    Ops.ERF: scipy.special.erf,
}
MAX_ULP = 2.0
# numpy warns of overflow and NaN, which are part of the subject here.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(params=["rounded twice", "fused"])
def scalars(scalars: Any, request: pytest.FixtureRequest) -> Any:
    """Products and sums of the machine: FMA is an accuracy that no expansion may need."""
    return scalars if request.param == "rounded twice" else scalars.with_fma()


def arguments(dtype: Any, seed: int, n: int) -> Any:
    """Random bits, and normal numbers of several sizes; many near 1."""
    rng = np.random.default_rng(seed)
    bits = np.uint32 if dtype is np.float32 else np.uint64
    anything = rng.integers(0, np.iinfo(bits).max, n, bits, endpoint=True).view(dtype)
    sizes = [rng.standard_normal(n // 2) * s for s in (0.3, 2.0, 60.0, 1e5)]
    return np.concatenate([anything, 1 + sizes[0].astype(dtype), *(s.astype(dtype) for s in sizes)])


def consecutive(lo: float, hi: float) -> Any:
    """Every float32 from lo to hi."""
    first, last = (int(np.float32(v).view(np.uint32)) for v in (lo, hi))
    return np.arange(first, last, dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_float32_within_two_ulp(scalars: Any, op: Ops) -> None:
    x = arguments(np.float32, int(op), 400_000)
    error = scalars.ulps(scalars.run(op, x), FUNCTIONS[op](x.astype(np.float64)))
    worst = int(np.argmax(error))
    assert error[worst] <= MAX_ULP, f"{op}({x[worst]!r}) is {error[worst]:.2f} ulp off"


# Where exhaustive runs over all float32 found the largest errors.
HARDEST = (
    (Ops.EXP, 26.5, 27.0),
    (Ops.EXP2, 1.0, 1.05),
    (Ops.SIN, 1.6, 1.7),
    (Ops.COS, 3.0, 3.12),
    (Ops.TANH, 0.3, 0.32),
    (Ops.SIGMOID, -0.000344, -0.000346),
    (Ops.ERF, 0.21, 0.23),
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_of_what_is_at_most_zero_has_the_same_bits(scalars: Any, dtype: Any) -> None:
    """The shorter form, up to far more than rounding may have added to 0."""
    rng = np.random.default_rng(2)
    lowest = 2 * np.log(np.finfo(dtype).tiny)
    some = [rng.uniform(lowest, 40, 400_000), rng.uniform(lowest / 2, lowest / 2.5, 100_000)]
    anything = -np.abs(arguments(dtype, 3, 100_000))  # NaNs with any payload among them
    x = np.concatenate([*(s.astype(dtype) for s in some), anything, [dtype(0), dtype(-np.inf)]])
    got, expected = scalars.run(Ops.EXP, x, arg="decay"), scalars.run(Ops.EXP, x)
    np.testing.assert_array_equal(got, expected)
    assert (got[:500_000] == 0).any()
    assert ((got > 0) & (got < np.finfo(dtype).tiny)).any()


@pytest.mark.parametrize(("op", "lo", "hi"), HARDEST)
def test_float32_where_it_is_hardest(scalars: Any, op: Ops, lo: float, hi: float) -> None:
    x = consecutive(lo, hi)
    error = scalars.ulps(scalars.run(op, x), FUNCTIONS[op](x.astype(np.float64)))
    assert error.max() <= MAX_ULP


@pytest.mark.skipif(not HAS_WIDE, reason="long double is no wider than double here")
@pytest.mark.parametrize("op", [op for op in FUNCTIONS if op is not Ops.ERF])
def test_float64_within_two_ulp(scalars: Any, op: Ops) -> None:
    x = arguments(np.float64, int(op), 50_000)
    error = scalars.ulps(scalars.run(op, x), FUNCTIONS[op](x.astype(WIDE)))
    worst = int(np.argmax(error))
    assert error[worst] <= MAX_ULP, f"{op}({x[worst]!r}) is {error[worst]:.2f} ulp off"


def test_float64_erf(scalars: Any) -> None:
    """scipy's own error is about one ulp, so two of them are allowed on top of ours."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal(50_000) * 2, 10.0 ** rng.uniform(-300, 0, 5000)])
    error = scalars.ulps(scalars.run(Ops.ERF, x), scipy.special.erf(x).astype(WIDE))
    assert error.max() <= MAX_ULP + 2


def powers(dtype: Any, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    spread, near_one = np.exp(rng.standard_normal(n) * 3), 1 + rng.standard_normal(n) * 1e-3
    x = np.concatenate([spread, near_one]).astype(dtype)
    y = np.concatenate([rng.standard_normal(n) * 30, rng.standard_normal(n) * 3e4]).astype(dtype)
    return x, y


@pytest.mark.parametrize(("dtype", "wide"), [(np.float32, np.float64), (np.float64, WIDE)])
def test_power_within_two_ulp(scalars: Any, dtype: Any, wide: Any) -> None:
    if wide is WIDE and not HAS_WIDE:
        pytest.skip("long double is no wider than double here")
    x, y = powers(dtype, 100_000)
    exact = np.power(x.astype(wide), y.astype(wide))
    assert scalars.ulps(scalars.run(Ops.POW, x, y), exact).max() <= MAX_ULP


# ---- special values

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38,
     -3.4028235e38, 0.5, -2.5]
)  # fmt: skip
DTYPES = (np.float32, np.float64)


def assert_same_zeros(got: Any, expected: Any) -> None:
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_special_values(scalars: Any, op: Ops, dtype: Any) -> None:
    x = SPECIAL.astype(dtype)
    got, expected = scalars.run(op, x), FUNCTIONS[op](x)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(dtype).eps, atol=0)
    assert_same_zeros(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_values(scalars: Any, dtype: Any) -> None:
    """What users compare with ==."""

    def run(op: Ops, values: list[float]) -> list[float]:
        return [float(v) for v in scalars.run(op, np.array(values, dtype))]

    whole = [float(n) for n in range(-20, 21)]
    powers_of_two = [2.0**n for n in whole]
    assert run(Ops.EXP2, whole) == powers_of_two
    assert run(Ops.LOG2, powers_of_two) == whole
    assert run(Ops.EXP, [0.0]) + run(Ops.LOG, [1.0]) + run(Ops.COS, [0.0]) == [1.0, 0.0, 1.0]
    assert run(Ops.TANH, [50.0]) + run(Ops.ERF, [-50.0]) == [1.0, -1.0]
    assert run(Ops.SIGMOID, [50.0, 0.0, -800.0]) == [1.0, 0.5, 0.0]


def test_bounded_functions_stay_in_bounds(scalars: Any) -> None:
    x = arguments(np.float32, 9, 200_000)
    for op in (Ops.SIN, Ops.COS, Ops.TANH, Ops.SIGMOID, Ops.ERF):
        value = scalars.run(op, x)
        assert np.nanmax(np.abs(value)) <= 1.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_power_of_special_values(scalars: Any, dtype: Any) -> None:
    """C99's table, which numpy follows: 14 x 14 pairs and odd and even whole exponents."""
    values = np.append(SPECIAL, [2.0, 3.0, -3.0, 2.0**24, 2.0**24 + 1, 8388609.0]).astype(dtype)
    x, y = np.repeat(values, len(values)), np.tile(values, len(values))
    got = scalars.run(Ops.POW, x, y)
    expected = np.power(x, y)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(dtype).eps, atol=0)
    assert_same_zeros(got, expected)


def test_sine_of_the_hardest_arguments(scalars: Any) -> None:
    """Floats nearest to multiples of pi / 2 (Muller, Elementary Functions, 9.1) and the largest.

    The constants are from 400-digit arithmetic; numpy's float64 cosine is 7 ulp off at the first.
    """
    double = np.array([6381956970095103 * 2.0**797, 1.7976931348623157e308])
    expected = {
        Ops.COS: [-4.687165924254628e-19, -0.9999876894265599],
        Ops.SIN: [1.0, 0.004961954789184062],
    }
    for op, values in expected.items():
        np.testing.assert_allclose(scalars.run(op, double), values, rtol=3e-16)
    single = np.array([16367173 * 2.0**72, 3.4028235e38], np.float32)
    exact = np.cos(single.astype(np.float64))
    np.testing.assert_allclose(scalars.run(Ops.COS, single), exact, rtol=1.2e-7)


# ---- cost: every lane pays for the whole expression, so it is part of the promise

COST = {
    Ops.EXP: 28,
    Ops.EXP2: 22,
    Ops.LOG: 40,
    Ops.LOG2: 38,
    Ops.TANH: 37,
    Ops.SIGMOID: 26,
    Ops.ERF: 48,
    Ops.SIN: 90,
    Ops.COS: 90,
    Ops.POW: 200,
    Ops.FMOD: 120,
}
DECAY = 24  # of an exp of what is at most 0
FUSED = {Ops.EXP: 20, Ops.EXP2: 15, Ops.TANH: 28, Ops.SIGMOID: 17, Ops.ERF: 32}  # with an FMA
FUSED_DECAY = 16
FREE = {Ops.CONST, Ops.BITCAST, Ops.LOAD, Ops.INDEX, Ops.PARAM}


@pytest.mark.parametrize("op", COST)
def test_operations_of_float32(scalars: Any, op: Ops) -> None:
    made, _ = scalars.decomposed(op, *[dtypes.float32] * (2 if op in (Ops.POW, Ops.FMOD) else 1))
    fused = scalars.target.supports(Ops.FMA, dtypes.float32)
    most = FUSED.get(op, COST[op]) if fused else COST[op]
    assert sum(node.op not in FREE for node in made.toposort()) <= most


def test_operations_of_exp_below_zero(scalars: Any) -> None:
    made, _ = scalars.decomposed(Ops.EXP, dtypes.float32, arg="decay")
    fused = scalars.target.supports(Ops.FMA, dtypes.float32)
    count = sum(node.op not in FREE for node in made.toposort())
    assert count <= (FUSED_DECAY if fused else DECAY)
