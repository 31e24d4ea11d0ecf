"""Elementwise operations against numpy in float64 (F024, F025, F026, F027, F028)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from polygrad import Tensor
from polygrad.errors import ArgumentError, DTypeError, ShapeError

Rng = np.random.Generator

# Values where functions go wrong: zeros of both signs, infinities, NaN, tails, halves.
SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1,
        -1,
        np.inf,
        -np.inf,
        np.nan,
        1e-30,
        -1e-5,
        88,
        -88,
        100,
        -100,
        0.5,
        1.5,
        2.5,
        -0.5,
    ]
    + [-2.5, 3.7, 1e10, -1e20, 2.0**-140],
    np.float32,
)


def _selu(x: Any) -> Any:
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _softplus(x: Any) -> Any:
    return np.logaddexp(0.0, x)


UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "erf": special.erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
    "logical_not": np.logical_not,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
    "hardtanh": lambda x: np.minimum(np.maximum(x, -1), 1),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": _selu,
    "gelu": _gelu,
    "quick_gelu": lambda x: x * special.expit(1.702 * x),
    "sigmoid": special.expit,
    "silu": lambda x: x * special.expit(x),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "softplus": _softplus,
    "logsigmoid": special.log_expit,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hardsigmoid": lambda x: np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
    "hardswish": lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6,
}
# At infinity these are 0 * inf in numpy's formula and a limit that torch gives as NaN too.
NAN_AT_INF = {"silu", "mish", "gelu", "quick_gelu", "hardswish", "softsign"}


@pytest.mark.parametrize("name", UNARY)
def test_unary_function_matches_numpy_at_special_values(device: str, name: str) -> None:
    x = SPECIAL[np.isfinite(SPECIAL) | np.isnan(SPECIAL)] if name in NAN_AT_INF else SPECIAL
    with np.errstate(all="ignore"):
        wanted = UNARY[name](x.astype(np.float64))
        wanted = wanted if wanted.dtype == bool else wanted.astype(np.float32)
    got = getattr(Tensor(x), name)().numpy()
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=4e-6, atol=1e-37)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "copysign": np.copysign,
    "logaddexp": np.logaddexp,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_function_matches_numpy_at_special_values(device: str, name: str) -> None:
    a, b = (m.ravel() for m in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        wanted = BINARY[name](a.astype(np.float64), b.astype(np.float64))
        wanted = wanted if wanted.dtype == bool else wanted.astype(np.float32)
    got = getattr(Tensor(a), name)(Tensor(b)).numpy()
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-37)


def test_divmod_of_python_is_quotient_and_rest(device: str) -> None:
    a, b = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    for ours, theirs in (
        (divmod(Tensor(a), Tensor(b)), divmod(a, b)),
        (divmod(Tensor(a), 2), divmod(a, 2)),
        (divmod(7, Tensor(b)), divmod(7, b)),
        (divmod(Tensor(a) / 2, 0.75), divmod((a / 2).astype("float32"), np.float32(0.75))),
    ):
        for got, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(got.numpy(), expected)
    with pytest.raises(TypeError, match="divmod"):
        divmod(Tensor(a), "2")  # type: ignore[operator]


@pytest.mark.parametrize("decimals", [None, 0, 1, 3, -1, -2])
def test_round_of_python_takes_decimals(device: str, decimals: int | None) -> None:
    x = np.array([-0.5, 0.25, 1.25, -17.05, 149.96, 25.0, np.inf, np.nan], "float32")
    got, expected = round(Tensor(x), decimals).numpy(), np.round(x, decimals or 0)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got)[:-1], np.signbit(expected)[:-1])
    assert round(Tensor([5, -5])).tolist() == Tensor([5, -5]).round(2).tolist() == [5, -5]


def test_operators_take_numbers_on_both_sides(device: str, rng: Rng) -> None:
    a = rng.uniform(0.5, 2, 5).astype(np.float32)
    x = Tensor(a)
    pairs = [
        (x + 1, a + 1),
        (1 + x, 1 + a),
        (x - 2, a - 2),
        (2 - x, 2 - a),
        (x * 3, a * 3),
        (x / 4, a / 4),
        (4 / x, 4 / a),
        (x // 0.3, a // np.float32(0.3)),
        (x % 0.3, a % np.float32(0.3)),
        (5 // x, 5 // a),
        (5 % x, 5 % a),
        (x**2, a**2),
        (2**x, 2**a),
        (-x, -a),
        (abs(-x), a),
        (+x, a),
    ]
    for got, wanted in pairs:
        np.testing.assert_allclose(got.numpy(), wanted, rtol=2e-6, atol=1e-6)


def test_a_list_or_array_operand_becomes_a_tensor(device: str) -> None:
    x = Tensor([1.0, 2.0])
    assert (x + [1, 2]).tolist() == [2.0, 4.0]
    assert (x * np.array([3.0, 4.0], np.float32)).tolist() == [3.0, 8.0]
    assert (np.array([3.0, 4.0], np.float32) - x).tolist() == [2.0, 2.0]
    assert (x + np.float32(1)).dtype.name == "float32"


@pytest.mark.parametrize("power", [0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 2.5])
def test_constant_powers(device: str, power: float, rng: Rng) -> None:
    a = rng.uniform(0.1, 3, 7).astype(np.float32)
    np.testing.assert_allclose((Tensor(a) ** power).numpy(), a**power, rtol=1e-5)


# ---- integers: Python's rounding, and 0 for a zero divisor

PAIRS = np.array(
    [(a, b) for a in (-128, -7, -1, 0, 1, 7, 127) for b in (-128, -3, -1, 0, 1, 3)], np.int8
)


def test_integer_division_rounds_down_and_gives_0_for_a_zero_divisor(device: str) -> None:
    a, b = PAIRS.T.copy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((Tensor(a) // Tensor(b)).numpy(), a // b)
        np.testing.assert_array_equal((Tensor(a) % Tensor(b)).numpy(), a % b)
        np.testing.assert_array_equal(Tensor(a).fmod(Tensor(b)).numpy(), np.fmod(a, b))


def test_integer_division_truncates_on_request(device: str) -> None:
    a, b = PAIRS[PAIRS[:, 1] != 0].T.copy()
    wanted = np.trunc(a / b.astype(np.float64)).astype(np.int64).astype(np.int8)
    np.testing.assert_array_equal(Tensor(a).div(Tensor(b), rounding_mode="trunc").numpy(), wanted)


def test_true_division_of_integers_is_float(device: str) -> None:
    got = Tensor([7, -7]) / Tensor([2, 2])
    assert got.dtype.name == "float32"
    assert got.tolist() == [3.5, -3.5]


def test_integer_powers_stay_integers(device: str) -> None:
    got = Tensor([2, 3, -2, 5, 1, -1, 2]) ** Tensor([3, 0, 5, 2, -3, -3, -1])
    assert got.dtype.name == "int32"
    assert got.tolist() == [8, 1, -32, 25, 1, -1, 0]


def test_float_remainder_has_the_sign_of_the_divisor(device: str) -> None:
    a = np.array([5, -5, 5, -5, 1, -1e-9, 5, -5, 0.0], np.float32)
    b = np.array([3, 3, -3, -3, 0.1, 1, np.inf, np.inf, 3], np.float32)
    np.testing.assert_allclose(
        (Tensor(a) % Tensor(b)).numpy(), np.remainder(a, b), rtol=2e-6, atol=1e-7
    )
    np.testing.assert_allclose((Tensor(a) // Tensor(b)).numpy(), np.floor_divide(a, b), rtol=2e-6)


def test_shifts_beyond_the_width_are_defined(device: str) -> None:
    x = Tensor(np.array([1, -1, 5], np.int32))
    assert (x << Tensor([1, 31, 40])).tolist() == [2, -(2**31), 0]
    assert (x >> Tensor([1, 40, 1])).tolist() == [0, -1, 2]
    assert (x & 3).tolist() == [1, 3, 1]
    assert (x ^ -1).tolist() == [-2, 0, -6]
    assert (~x).tolist() == [-2, 0, -6]


def test_bool_arithmetic_is_logic(device: str) -> None:
    a, b = Tensor([True, True, False, False]), Tensor([True, False, True, False])
    assert (a + b).tolist() == [True, True, True, False]
    assert (a * b).tolist() == [True, False, False, False]
    assert (a & b).tolist() == [True, False, False, False]
    assert (~a).tolist() == [False, False, True, True]
    assert a.maximum(b).dtype.name == "bool"


# ---- selection


def test_where_broadcasts_condition_and_values(device: str) -> None:
    got = Tensor([[True], [False]]).where(Tensor([1.0, 2.0]), 0)
    assert got.tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_clip_keeps_nan_and_takes_the_upper_bound_last(device: str) -> None:
    x = Tensor([-3.0, 0.5, 3.0, float("nan")])
    np.testing.assert_array_equal(x.clip(-1, 1).numpy(), np.clip(x.numpy(), -1, 1))
    np.testing.assert_array_equal(x.clip(min=0).numpy(), np.clip(x.numpy(), 0, None))
    np.testing.assert_array_equal(x.clamp(2, 1).numpy(), np.clip(x.numpy(), 2, 1))
    np.testing.assert_array_equal(
        x.clip(Tensor([0.0, 0, 0, 0]), 2).numpy(), np.clip(x.numpy(), 0, 2)
    )


def test_a_bound_that_is_nan_makes_all_nan(device: str) -> None:
    x = Tensor([1.0, 2.0])
    for bounds in ((float("nan"), 3.0), (0.0, float("nan")), (Tensor([float("nan")] * 2), None)):
        assert np.isnan(x.clip(*bounds).numpy()).all()


def test_masked_fill_and_nan_to_num(device: str) -> None:
    x = Tensor([1.0, float("nan"), float("inf"), -float("inf")])
    np.testing.assert_array_equal(x.nan_to_num().numpy(), np.nan_to_num(x.numpy()))
    assert x.nan_to_num(0.0, 1.0, -1.0).tolist() == [1.0, 0.0, 1.0, -1.0]
    assert x.masked_fill(Tensor([True, True, True, False]), 2).tolist()[:3] == [2.0, 2.0, 2.0]


def test_isclose_counts_equal_infinities_and_nan_only_on_request(device: str) -> None:
    a = np.array([1, 1, np.inf, np.inf, np.nan], np.float32)
    b = np.array([1 + 1e-6, 1.1, np.inf, -np.inf, np.nan], np.float32)
    for equal_nan in (False, True):
        wanted = np.isclose(a, b, equal_nan=equal_nan)
        np.testing.assert_array_equal(
            Tensor(a).isclose(Tensor(b), equal_nan=equal_nan).numpy(), wanted
        )


def test_comparison_with_none_is_no_tensor() -> None:
    assert operator.eq(Tensor([1.0]), None) is False
    assert operator.ne(Tensor([1.0]), None) is True


def test_empty_tensors_pass_through(device: str) -> None:
    x = Tensor(np.zeros((0, 3), np.float32))
    assert (x + 1).exp().shape == (0, 3)
    assert (x * x).numpy().shape == (0, 3)


# ---- mistakes


def test_shapes_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(ShapeError) as error:
        Tensor.zeros(2, 3) + Tensor.zeros(4)
    assert str(error.value) == ("add: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.")


def test_an_integer_out_of_range_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"1099511627776 does not fit int32"):
        Tensor([1, 2]) + 2**40


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Tensor([1.0]) & 1, "bitwise_and takes integers, not float32."),
        (lambda: ~Tensor([1.0]), "bitwise_not takes integers or bools, not float32."),
        (lambda: -Tensor([True]), "neg: bool tensors have no negative; use ~ for not."),
        (
            lambda: Tensor([True]) - Tensor([True]),
            "sub: bool tensors have no difference; use ^ for exclusive or.",
        ),
    ],
)
def test_a_wrong_dtype_is_named(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(DTypeError) as error:
        call()
    assert str(error.value) == text


def test_negative_constant_power_of_integers_is_refused() -> None:
    with pytest.raises(ArgumentError, match="integers to the power -1 are no integers"):
        Tensor([1, 2]) ** -1
