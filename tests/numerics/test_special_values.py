"""Row 4 of the reliability regime: signed zeros, infinities, NaN, subnormals, overflow, everywhere.

Every unary operation on 14 special values and every binary one on all 196 pairs, per float type and
device, against numpy. Functions of numbers may be a few ulp off; NaN, infinities, zeros and their
signs may not. Exceptions are listed beside their reason in the tables, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import scipy.special

from polygrad import Tensor

# numpy warns of overflow and NaN, which are the subject here.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

DTYPES = ("float32", "float64", "float16", "bfloat16")
# Smallest subnormal, smallest normal, largest: in each format's own numbers.
EXTREME = {
    "float16": (2.0**-24, 2.0**-14, 65504.0),
    "bfloat16": (2.0**-133, 2.0**-126, 2.0**127 * (2 - 2.0**-7)),
    "float32": (2.0**-149, 2.0**-126, 2.0**127 * (2 - 2.0**-23)),
    "float64": (2.0**-1074, 2.0**-1022, float(np.finfo(np.float64).max)),
}
INF, NAN = float("inf"), float("nan")
PRECISION = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def special(dtype: str) -> list[float]:
    subnormal, normal, largest = EXTREME[dtype]
    extremes = [subnormal, -subnormal, normal, largest, -largest]
    return [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -2.5, *extremes]


def rounded(x: Any, dtype: str) -> Any:
    """float64 values as `dtype` holds them."""
    if dtype != "bfloat16":
        return np.asarray(x).astype(dtype)
    x = np.asarray(x, np.float32)
    bits = np.ascontiguousarray(x).view(np.uint32)
    even = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.float32(np.nan), even.view(np.float32))


# ---- unary: (ours, oracle, ulps allowed). 0 means the same bits, whatever the type.

Unary = tuple[Callable[[Any], Any], Callable[[Any], Any], float]


def _sigmoid(x: Any) -> Any:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def _round_trip(x: Any) -> Any:
    return x * (x >= 0)


UNARY: dict[str, Unary] = {
    "neg": (lambda t: -t, np.negative, 0),
    "abs": (abs, np.abs, 0),
    "sign": (Tensor.sign, np.sign, 0),
    "signbit": (Tensor.signbit, np.signbit, 0),
    "square": (Tensor.square, np.square, 0),
    "sqrt": (Tensor.sqrt, np.sqrt, 0),
    "reciprocal": (Tensor.reciprocal, lambda x: 1 / x, 0),
    "floor": (Tensor.floor, np.floor, 0),
    "ceil": (Tensor.ceil, np.ceil, 0),
    "trunc": (Tensor.trunc, np.trunc, 0),
    "round": (Tensor.round, np.rint, 0),
    "isnan": (Tensor.isnan, np.isnan, 0),
    "isinf": (Tensor.isinf, np.isinf, 0),
    "isfinite": (Tensor.isfinite, np.isfinite, 0),
    "logical_not": (Tensor.logical_not, np.logical_not, 0),
    "bool": (Tensor.bool, lambda x: x.astype(bool), 0),
    "clip": (lambda t: t.clip(-1, 2), lambda x: np.clip(x, -1, 2), 0),
    "relu": (Tensor.relu, lambda x: np.maximum(x, 0), 0),
    "x * (x >= 0)": (lambda t: t * (t >= 0), _round_trip, 0),
    "exp": (Tensor.exp, np.exp, 2),
    "exp2": (Tensor.exp2, np.exp2, 2),
    "expm1": (Tensor.expm1, np.expm1, 4),
    "log": (Tensor.log, np.log, 2),
    "log2": (Tensor.log2, np.log2, 2),
    "log10": (Tensor.log10, np.log10, 3),
    "log1p": (Tensor.log1p, np.log1p, 4),
    "erf": (Tensor.erf, scipy.special.erf, 4),
    "sin": (Tensor.sin, np.sin, 2),
    "cos": (Tensor.cos, np.cos, 2),
    "tan": (Tensor.tan, np.tan, 6),
    "asin": (Tensor.asin, np.arcsin, 4),
    "acos": (Tensor.acos, np.arccos, 4),
    "atan": (Tensor.atan, np.arctan, 4),
    "tanh": (Tensor.tanh, np.tanh, 2),
    "asinh": (Tensor.asinh, np.arcsinh, 4),
    "acosh": (Tensor.acosh, np.arccosh, 4),
    "atanh": (Tensor.atanh, np.arctanh, 4),
    "sinh": (Tensor.sinh, np.sinh, 6),
    "cosh": (Tensor.cosh, np.cosh, 6),
    "x ** 2": (lambda t: t**2, lambda x: x**2, 0),
    "x ** 3": (lambda t: t**3, lambda x: x**3, 2),
    "x ** 0.5": (lambda t: t**0.5, np.sqrt, 0),  # as numpy: not C's +0 and inf at -0 and -inf
    "x ** -1": (lambda t: t**-1, lambda x: 1 / x, 0),
    "x ** 1.5": (lambda t: t**1.5, lambda x: np.power(x, 1.5), 2),
    "2 ** x": (lambda t: 2.0**t, lambda x: np.power(2.0, x), 2),
    "rsqrt": (Tensor.rsqrt, lambda x: 1 / np.sqrt(x), 2),
    "sigmoid": (Tensor.sigmoid, _sigmoid, 4),
    "softplus": (Tensor.softplus, lambda x: np.logaddexp(x, 0), 4),
}

# ---- binary

Binary = tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any], float]

BINARY: dict[str, Binary] = {
    "add": (lambda a, b: a + b, np.add, 0),
    "sub": (lambda a, b: a - b, np.subtract, 0),
    "mul": (lambda a, b: a * b, np.multiply, 0),
    "div": (lambda a, b: a / b, np.divide, 0),
    "maximum": (Tensor.maximum, np.maximum, 0),
    "minimum": (Tensor.minimum, np.minimum, 0),
    "copysign": (Tensor.copysign, np.copysign, 0),
    "lt": (lambda a, b: a < b, np.less, 0),
    "le": (lambda a, b: a <= b, np.less_equal, 0),
    "gt": (lambda a, b: a > b, np.greater, 0),
    "ge": (lambda a, b: a >= b, np.greater_equal, 0),
    "eq": (lambda a, b: a == b, np.equal, 0),
    "ne": (lambda a, b: a != b, np.not_equal, 0),
    "(a < b) * 1": (lambda a, b: (a < b) * 1, lambda a, b: (a < b) * 1, 0),
    "where": (lambda a, b: (a > b).where(a, b), lambda a, b: np.where(a > b, a, b), 0),
    "pow": (lambda a, b: a**b, np.power, 2),
    "logaddexp": (Tensor.logaddexp, np.logaddexp, 4),
}


def check(name: str, got: Any, expected: Any, dtype: str, ulps: float) -> None:
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected, err_msg=name)
        return
    expected = rounded(expected, dtype)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected), err_msg=f"{name}: NaN")
    number = ~np.isnan(expected)
    exact = number & (~finite | (expected == 0)) if ulps else number
    np.testing.assert_array_equal(got[exact], expected[exact], err_msg=name)
    signs = np.signbit(got[exact]), np.signbit(expected[exact])
    np.testing.assert_array_equal(*signs, err_msg=f"{name}: sign of zero")
    subnormal, _, _ = EXTREME[dtype]
    np.testing.assert_allclose(
        got[finite].astype(np.float64),
        expected[finite].astype(np.float64),
        rtol=ulps * PRECISION[dtype],
        atol=2 * subnormal if ulps else 0,
        err_msg=name,
    )


def results(table: Mapping[str, Any], *tensors: Tensor) -> dict[str, Any]:
    """All operations of a table in one go: one module to compile."""
    lazy = {name: ours(*tensors) for name, (ours, _, _) in table.items()}
    return dict(zip(lazy, Tensor.numpy_many(*lazy.values()), strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(device: str, dtype: str) -> None:
    values = special(dtype)
    got = results(UNARY, Tensor(values, dtype=dtype))
    x = rounded(values, dtype).astype(np.float64)
    for name, (_, oracle, ulps) in UNARY.items():
        check(name, got[name], oracle(x), dtype, ulps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_binary(device: str, dtype: str) -> None:
    values = special(dtype)
    column, row = np.repeat(values, len(values)), np.tile(values, len(values))
    got = results(BINARY, Tensor(column.tolist(), dtype=dtype), Tensor(row.tolist(), dtype=dtype))
    a, b = (rounded(v, dtype).astype(np.float64) for v in (column, row))
    for name, (_, oracle, ulps) in BINARY.items():
        check(name, got[name], oracle(a, b), dtype, ulps)


# Pairs whose quotient is of ordinary size: there the remainder is exact.
QUOTIENTS: dict[str, Binary] = {
    "floor_divide": (lambda a, b: a // b, np.floor_divide, 0),
    # A zero remainder has numpy's value and not always its sign, which is the divisor's.
    "mod": (lambda a, b: a % b + 0.0, lambda a, b: np.remainder(a, b) + 0.0, 0),
    "fmod": (Tensor.fmod, np.fmod, 0),
}
ORDINARY = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -2.5, 3.0, 7.0, 0.75]


@pytest.mark.parametrize("dtype", DTYPES)
def test_division_with_remainder(device: str, dtype: str) -> None:
    column, row = np.repeat(ORDINARY, len(ORDINARY)), np.tile(ORDINARY, len(ORDINARY))
    a, b = Tensor(column.tolist(), dtype=dtype), Tensor(row.tolist(), dtype=dtype)
    got = results(QUOTIENTS, a, b)
    for name, (_, oracle, ulps) in QUOTIENTS.items():
        check(name, got[name], oracle(column, row), dtype, ulps)


# ---- reductions


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(),
    "sum": lambda x: x.sum(),
    "prod": lambda x: x.prod(),
    "any": lambda x: x.any(),
    "all": lambda x: x.all(),
}


@pytest.mark.parametrize("size", [1, 2, 37])
@pytest.mark.parametrize("special_value", [NAN, INF, -INF, -0.0])
def test_reductions_with_a_special_value_anywhere(
    device: str, size: int, special_value: float
) -> None:
    """NaN wins a maximum and a minimum, and argmax gives its first place."""
    rows = np.linspace(-1, 1, size * size, dtype=np.float32).reshape(size, size)
    np.fill_diagonal(rows, special_value)
    rows[:, -1] = special_value  # a second one: the first counts
    columns = [Tensor(row) for row in rows]
    lazy = [f(t) for t in columns for f in REDUCTIONS.values()]
    got = iter(Tensor.numpy_many(*lazy))
    for row in rows:
        for name, f in REDUCTIONS.items():
            np.testing.assert_allclose(next(got), f(row), rtol=1e-6, err_msg=f"{name} of {row}")


def test_opposite_infinities_sum_to_nan(device: str) -> None:
    t = Tensor([INF, -INF, 1.0])
    total, mean, top = Tensor.numpy_many(t.sum(), t.mean(), t.max())
    assert np.isnan(total) and np.isnan(mean) and top == np.inf


def test_softmax_family_of_infinities(device: str) -> None:
    low = Tensor([-INF] * 3)
    mixed = Tensor([-INF, 0.0, -INF])
    got = Tensor.numpy_many(low.logsumexp(), mixed.logsumexp(), mixed.softmax())
    assert got[0] == -np.inf and got[1] == 0
    np.testing.assert_array_equal(got[2], [0, 1, 0])
