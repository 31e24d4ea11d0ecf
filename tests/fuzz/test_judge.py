"""The fuzzer's judge: bounds that hold for honest float32 arithmetic and are not wide open."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from polygrad.testing import fuzz_judge as judge
from polygrad.testing import fuzz_judge_axes as axes
from polygrad.testing.fuzz_grammar import data
from polygrad.testing.fuzz_judge import Known, differences, exact


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def given(shape: tuple[int, ...], kind: str = "normal", seed: int = 0) -> Known:
    return exact(data("float32", shape, kind, seed).astype("float64"), "float32")


def single(k: Known) -> np.ndarray:
    return k.value.astype("float32")


def test_small_integers_stay_exact_through_arithmetic_and_sums() -> None:
    x = given((9, 17), "integers")
    y = axes.total(judge.multiply(judge.add(x, x), x), (1,))
    assert not y.error.any()
    assert not judge.compare(np.equal)(y, y).error.any()


@pytest.mark.parametrize("via", judge.BYTES)
def test_a_byte_in_between_is_known_where_nothing_near_rounds_otherwise(via: str) -> None:
    x = Known(np.array([1.0, 1.0, 1.06, np.nan]), np.array([0.0, 1e-3, 1.0, 0.0]), "float32")
    k = judge.through(x, via, "float32")
    assert k.value[0] == k.value[1] == 1.0 and np.isnan(k.value[3])
    assert k.error.tolist() == [0.0, 0.0, np.inf, 0.0]


def test_honest_float32_sums_pass_and_a_dropped_element_does_not() -> None:
    x = given((64, 129))
    k = axes.total(x, (1,))
    assert not differences(k, single(x).sum(axis=1)).any()
    assert differences(k, single(x)[:, :-1].sum(axis=1)).mean() > 0.95


def test_honest_matrix_products_pass_and_a_transposed_one_does_not() -> None:
    a, b = given((33, 33)), given((33, 33), seed=1)
    k = axes.matmul(a, b)
    assert not differences(k, single(a) @ single(b)).any()
    assert differences(k, single(a) @ single(b).T).mean() > 0.95


def test_a_function_chain_bounds_float32_rounding() -> None:
    x = given((500,))
    k = judge.multiply(judge.unary(np.exp, 4)(judge.subtract(x, x)), judge.unary(np.tanh, 4)(x))
    wrong = differences(k, np.exp(single(x) - single(x)) * np.tanh(single(x)))
    assert not wrong.any()
    assert (k.error <= 1e-5).all()


def test_comparing_what_rounding_made_equal_is_undecided() -> None:
    third = judge.divide(exact(np.array([1.0]), "float32"), exact(np.array([3.0]), "float32"))
    again = judge.multiply(third, exact(np.array([3.0]), "float32"))
    one = exact(np.array([1.0]), "float32")
    assert np.isinf(judge.compare(np.equal)(again, one).error).all()
    assert not judge.compare(np.less)(again, judge.add(one, one)).error.any()


def test_floor_at_an_integer_is_undecided_only_after_rounding() -> None:
    floor = judge.unary(np.floor)
    whole = exact(np.array([2.0]), "float32")
    assert not floor(whole).error.any()
    near = whole._replace(error=np.array([1e-6]))
    assert floor(near).error[0] >= 1


def test_overflow_is_infinity_and_near_it_nobody_knows() -> None:
    top = exact(np.array([3e38, 3.4028233e38, 1.0]), "float32")
    k = judge.multiply(top, exact(np.array([2.0, 1.00000001, 1.0]), "float32"))
    assert np.isposinf(k.value[0])
    assert k.error[0] == 0
    assert np.isinf(k.error[1])
    assert k.error[2] == 0


def test_nan_must_be_nan() -> None:
    k = judge.add(exact(np.array([np.nan, np.inf]), "float32"), exact(np.zeros(2), "float32"))
    assert not differences(k, np.array([np.nan, np.inf], "float32")).any()
    assert differences(k, np.array([0.0, 1.0], "float32")).all()


def test_integers_wrap_and_must_be_equal() -> None:
    x = exact(np.array([127, -128], "int8"), "int8")
    k = judge.add(x, exact(np.array(1, "int8"), "int8"))
    np.testing.assert_array_equal(k.value, [-128, -127])
    assert differences(k, np.array([-128, -126], "int8")).tolist() == [False, True]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (300.7, "uint8", 255),
        (-0.9, "uint8", 0),
        (np.nan, "int32", 0),
        (-np.inf, "int64", -(2**63)),
        (2.0**63, "int64", 2**63 - 1),
        (-129.0, "int8", -128),
    ],
)
def test_float_to_integer_saturates(value, dtype, expected) -> None:
    assert int(judge.saturate(np.array(value), dtype)) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("bool", "int8", "int8"),
        ("int8", "uint8", "int16"),
        ("int64", "uint64", "float32"),
        ("int64", "float16", "float16"),
        ("float16", "bfloat16", "float32"),
        ("uint32", "int64", "int64"),
    ],
)
def test_promotion(a, b, expected) -> None:
    assert judge.promote(a, b) == judge.promote(b, a) == expected


def test_argmax_with_a_close_rival_is_undecided() -> None:
    value = np.array([[1.0, 3.0, 2.0], [3.0, 1.0, 3.0]])
    known = axes.argument(np.argmax, np.max, 1.0)
    assert not known(exact(value, "float32"), 1).error.any()  # equal and exact: the first
    fuzzy = Known(value, np.full((2, 3), 1e-3), "float32")
    assert np.isinf(known(fuzzy, 1).error).tolist() == [False, True]


def test_halves_round_at_every_step() -> None:
    x = exact(judge.narrow(np.array([0.1, 1.7]), "bfloat16"), "bfloat16")
    k = judge.multiply(x, x)
    assert (k.error <= 2**-8 * np.abs(k.value) * 1.01).all()
    assert (k.error > 0).all()


def test_logsumexp_of_infinities_is_the_infinity() -> None:
    rows = [[-np.inf, -np.inf], [np.inf, 0.0], [np.nan, 0.0], [np.log(3.0), -np.inf]]
    known = axes.logsumexp(exact(np.array(rows), "float64"), 1)
    np.testing.assert_allclose(known.value, [-np.inf, np.inf, np.nan, np.log(3.0)], rtol=1e-12)
