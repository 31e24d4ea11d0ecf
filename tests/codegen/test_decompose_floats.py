"""Exact expansions on floats, and the narrow types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygrad.codegen.decompose import decompose, missing
from polygrad.dtype import dtypes
from polygrad.uop.ops import Ops, UOp

DTYPES = (np.float32, np.float64)
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38,
     -3.4028235e38, 0.5, -2.5, 2.0, 3.0, 8388609.0, 16777216.0]
)  # fmt: skip


def pairs(dtype: Any) -> tuple[Any, Any]:
    values = SPECIAL.astype(dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def assert_same_bits(got: Any, expected: Any) -> None:
    """Equal values and signs of zero; any NaN equals any other."""
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op, oracle", [(Ops.MAXIMUM, np.maximum), (Ops.MINIMUM, np.minimum)])
def test_extremes_keep_nan(scalars: Any, op: Ops, oracle: Any, dtype: Any) -> None:
    a, b = pairs(dtype)
    np.testing.assert_array_equal(scalars.run(op, a, b), oracle(a, b))


def test_maximum_with_a_number_is_one_operation(scalars: Any) -> None:
    """relu: max(x, 0) keeps NaN without a test of its own."""
    x = scalars.leaf(dtypes.float32)
    for made in (x.maximum(0.0), UOp.const(dtypes.float32, 0.0).maximum(x)):
        made = decompose(made, scalars.target)
        assert made.op is Ops.MAX and made.src[1] is x
        values = np.array([np.nan, -1.0, 2.0], np.float32)
        np.testing.assert_array_equal(scalars.evaluate(made, {x: values}), [np.nan, 0.0, 2.0])


ROUNDING = {Ops.FLOOR: np.floor, Ops.CEIL: np.ceil, Ops.TRUNC: np.trunc, Ops.ROUND: np.rint}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ROUNDING)
def test_rounding_is_exact_and_keeps_the_sign_of_zero(scalars: Any, op: Ops, dtype: Any) -> None:
    limit = 2.0 ** np.finfo(dtype).nmant
    large = [limit / 2 + 0.5, *(limit + np.arange(-4, 4, 0.5))]
    near = np.array([*np.arange(-5, 5, 0.25), 0.49999997, *large])
    x = np.concatenate([SPECIAL, near, -near]).astype(dtype)
    assert_same_bits(scalars.run(op, x), ROUNDING[op](x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_reciprocal_is_a_division(scalars: Any, dtype: Any) -> None:
    x = SPECIAL.astype(dtype)
    with np.errstate(all="ignore"):
        assert_same_bits(scalars.run(Ops.RECIP, x), dtype(1) / x)


# ---- float16 and bfloat16


def test_float16_arithmetic_is_correctly_rounded(scalars: Any) -> None:
    """All halves against some: numpy computes each in float32 and rounds, which is right."""
    a = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        for b in (np.float16(1.001), np.float16(-3.0), np.float16(6e-8), np.float16(np.inf)):
            other = np.full_like(a, b)
            for op, oracle in ((Ops.ADD, np.add), (Ops.MUL, np.multiply), (Ops.DIV, np.divide)):
                exact = oracle(a.astype(np.float64), np.float64(b)).astype(np.float16)
                np.testing.assert_array_equal(scalars.run(op, a, other), exact)
        np.testing.assert_array_equal(
            scalars.run(Ops.SQRT, a), np.sqrt(a.astype(np.float64)).astype(np.float16)
        )


@pytest.mark.parametrize("op", [Ops.EXP, Ops.LOG, Ops.SIN, Ops.TANH])
def test_float16_functions_are_within_half_an_ulp_and_a_little(scalars: Any, op: Ops) -> None:
    oracle = {Ops.EXP: np.exp, Ops.LOG: np.log, Ops.SIN: np.sin, Ops.TANH: np.tanh}[op]
    a = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = oracle(a.astype(np.float64))
    assert scalars.ulps(scalars.run(op, a), exact).max() <= 0.501


def test_bfloat16_rounds_after_each_operation(scalars: Any) -> None:
    x, y = (scalars.leaf(dtypes.bfloat16, i) for i in (0, 1))
    made = decompose((x + y) - y, scalars.target)
    assert not list(missing(made, scalars.target))
    one, small = np.ones(1, np.float32), scalars.round_bfloat16(np.array([1e-3], np.float32))
    assert scalars.evaluate(made, {x: small, y: one})[0] == 0


def test_comparisons_of_halves_give_bool(scalars: Any) -> None:
    a, b = np.array([1, np.nan, -0.0], np.float16), np.array([2, 1, 0], np.float16)
    np.testing.assert_array_equal(scalars.run(Ops.CMPLT, a, b), [True, False, False])
    np.testing.assert_array_equal(scalars.run(Ops.CMPNE, a, b), [True, True, False])


# ---- the pass


def test_native_functions_stay_when_they_are_accurate(scalars: Any) -> None:
    from dataclasses import replace

    x = scalars.leaf(dtypes.float32)
    node = UOp.alu(Ops.EXP2, x)
    table = {**scalars.target.ops, Ops.EXP2: frozenset({dtypes.float32})}
    rough = replace(scalars.target, ops=table, ulp={(Ops.EXP2, dtypes.float32): 3.0})
    assert decompose(node, replace(scalars.target, ops=table)) is node
    assert decompose(node, rough) is not node


def test_only_exponentials_use_a_fused_multiply_add(scalars: Any) -> None:
    """Draws from a normal distribution are made of the others: the same on every device."""
    functions = (Ops.EXP, Ops.EXP2, Ops.TANH, Ops.ERF, Ops.LOG, Ops.LOG2, Ops.SIN, Ops.COS)
    for op in functions:
        made, _ = scalars.with_fma().decomposed(op, dtypes.float32)
        fused = any(node.op is Ops.FMA for node in made.toposort())
        assert fused == (op in functions[:4])
        made, _ = scalars.decomposed(op, dtypes.float32)
        assert all(node.op is not Ops.FMA for node in made.toposort())


def test_stores_and_loops_pass_through(scalars: Any) -> None:
    i = UOp.range(0, 10, 0)
    source = UOp(Ops.INDEX, dtypes.float32, (UOp(Ops.PARAM, dtypes.float32, (), (0, 10)), i))
    target = UOp(Ops.INDEX, dtypes.float32, (UOp(Ops.PARAM, dtypes.float32, (), (1, 10)), i))
    store = target.store(UOp.alu(Ops.EXP, UOp(Ops.LOAD, dtypes.float32, (source,))))
    made = decompose(store, scalars.target)
    assert made.op is Ops.STORE and made.src[0] is target
    assert Ops.EXP in {op for op, _ in missing(store, scalars.target)}
    assert not {op for op, _ in missing(made, scalars.target)} - {Ops.ADD}
