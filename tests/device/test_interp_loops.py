"""Loops of the reference device: turns that run together leave what turns one by one would."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polygrad.contract import LinearProgram
from polygrad.dtype import DType, dtypes
from polygrad.errors import DeviceContractError
from polygrad.testing.assembler import Assembler, launch
from polygrad.uop.ops import Ops

Run = Callable[..., list[np.ndarray]]


def sums(op: Ops, rows: int, dtype: DType = dtypes.float32) -> LinearProgram:
    """y[row] = op of y[row] and all of x[row], by two loops (of 5 and 9) with one body."""
    a = Assembler()
    x, y = a.param(dtype, rows * 45), a.param(dtype, rows, "rw")
    total, row, zero = a.local(dtype, 1), a.grid(rows), a.number(0)
    a.store(total, zero, a.load(y, row))
    i = a.range(zero, a.number(5))
    start = a(Ops.ADD, a(Ops.MUL, row, a.number(45)), a(Ops.MUL, i, a.number(9)))
    k = a.range(zero, a.number(9))
    value = a.load(x, a(Ops.ADD, start, k))
    before = a.load(total, zero)
    parts = (value, value, before) if op is Ops.FMA else (before, value)
    a.store(total, zero, a(op, *parts))
    a.end(k)
    a.end(i)
    a.store(y, row, a.load(total, zero))
    return a.build()


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.FMA, Ops.SUB, Ops.MAX])
@pytest.mark.parametrize("rows", [1, 3])
def test_turns_of_loops_are_taken_in_order(run: Run, op: Ops, rows: int) -> None:
    """The oracle goes through the numbers one by one, in float32."""
    x = np.random.default_rng(rows).normal(size=(rows, 45)).astype("float32")
    expected = np.full(rows, 0.75, "float32")
    with np.errstate(all="ignore"):
        for value in x.T:
            if op is Ops.FMA:
                expected = value * value + expected
            else:
                number = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.SUB: np.subtract}
                expected = number.get(op, np.maximum)(expected, value)
    got = run(sums(op, rows), x.ravel(), np.full(rows, 0.75, "float32"))[1]
    assert got.tobytes() == expected.tobytes()


def test_small_integers_wrap_in_running_sums(run: Run) -> None:
    x = np.full(45, 100, "int8")
    got = run(sums(Ops.ADD, 1, dtypes.int8), x, np.zeros(1, "int8"))[1]
    assert got[0] == np.int8(45 * 100 % 256 - 256)


def test_what_turns_do_not_share_is_computed_for_many_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from polygrad.device import interp_numpy_ops

    calls = []

    def root(value: np.ndarray) -> np.ndarray:
        calls.append(np.size(value))
        return np.sqrt(value)

    monkeypatch.setitem(interp_numpy_ops.PURE, Ops.SQRT, root)
    a = Assembler()
    x, y = a.param(dtypes.float64, 1000), a.param(dtypes.float64, 1, "w")
    best, zero = a.local(dtypes.float64, 1), a.number(0)
    a.store(best, zero, a.const(dtypes.float64, 0))
    k = a.range(zero, a.number(1000))
    a.store(best, zero, a(Ops.MAX, a(Ops.SQRT, a.load(x, k)), a.load(best, zero)))
    a.end(k)
    a.store(y, zero, a.load(best, zero))
    data = np.arange(1000.0)
    (_, out) = launch("interp", a.build(), data.tobytes(), bytes(8))
    assert np.frombuffer(out) == np.sqrt(999.0)
    assert calls == [1000]


def test_a_loop_sees_what_it_wrote(run: Run) -> None:
    """Each turn reads what the turn before left in memory: powers of two, in a branch and out."""
    a = Assembler()
    y = a.param(dtypes.int32, 9, "rw")
    one = a.number(1)
    k = a.range(one, a.number(9))
    before = a.load(y, a(Ops.SUB, k, one))
    a.store(y, k, a(Ops.ADD, before, before))
    branch = a.branch(a(Ops.CMPEQ, k, a.number(4)))
    a.store(y, k, a(Ops.ADD, a.load(y, k), k))
    a.endif(branch)
    a.end(k)
    got = run(a.build(), np.array([1] + [0] * 8, "int32"))[0]
    np.testing.assert_array_equal(got, [1, 2, 4, 8, 20, 40, 80, 160, 320])


def test_a_loop_that_does_not_turn_reads_nothing(run: Run) -> None:
    a = Assembler()
    x, y = a.param(dtypes.int32, 2), a.param(dtypes.int32, 1, "rw")
    n, zero = a.variable("n", 0, 9), a.number(0)
    i = a.range(zero, a.number(9))
    k = a.range(zero, n)
    a.store(y, zero, a(Ops.ADD, a.load(y, zero), a.load(x, a(Ops.ADD, k, a.number(1)))))
    a.end(k)
    a.end(i)
    for turns, expected in ((0, 5), (1, 5 + 9 * 8)):
        got = run(a.build(), np.array([7, 8], "int32"), np.array([5], "int32"), scalars=(turns,))
        assert got[1][0] == expected
    with pytest.raises(DeviceContractError, match=r"LOAD .* offset [2-9] of param 0"):
        run(a.build(), np.array([7, 8], "int32"), np.array([5], "int32"), scalars=(9,))
