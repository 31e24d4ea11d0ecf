"""A node is made once, never changes, and goes when nobody holds it."""

from __future__ import annotations

import gc
import math
import pickle
import sys
import threading

import pytest

from polygrad.dtype import dtypes
from polygrad.errors import ShapeError
from polygrad.uop.ops import Ops, UOp, live_nodes, toposort

CHAIN = 20_000


def scalar(name: str, dtype=dtypes.float32) -> UOp:
    return UOp.variable(name, 0, 1, dtype)


def test_equal_parts_are_one_node() -> None:
    a, b = scalar("a"), scalar("b")
    assert a + b is UOp(Ops.ADD, dtypes.float32, (a, b))
    assert a + b is not b - a


def test_constants_are_told_apart_by_their_bits() -> None:
    f = dtypes.float64
    assert UOp.const(f, 0.0) is not UOp.const(f, -0.0)
    assert math.copysign(1, UOp.const(f, -0.0).arg) == -1
    assert UOp.const(f, math.nan) is UOp.const(f, math.nan)
    assert UOp.const(dtypes.bool, True).arg is True
    assert UOp.const(dtypes.int32, 1).arg is not True
    raw = [UOp(Ops.CONST, dtypes.int32, (), v) for v in (1, True, 1.0)]
    assert len(set(raw)) == 3


def test_constants_are_canonical() -> None:
    assert UOp.const(dtypes.int8, 300).arg == 44
    assert UOp.const(dtypes.float32, 0.1).arg == 0.10000000149011612


def test_leaves_of_their_own_are_not_merged() -> None:
    assert UOp.const(dtypes.float32, 0, unique=True) is not UOp.const(
        dtypes.float32, 0, unique=True
    )
    buffers = [UOp.buffer(dtypes.float32, (3,), "cpu") for _ in range(2)]
    assert buffers[0] is not buffers[1]


def test_a_node_cannot_be_changed() -> None:
    a = scalar("a")
    with pytest.raises(AttributeError, match="immutable"):
        a.op = Ops.MUL  # type: ignore[misc]
    with pytest.raises(AttributeError):
        a.other = 1  # type: ignore[attr-defined]


def test_a_node_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="truth value"):
        bool(scalar("a") < 1)


def test_a_node_survives_pickling_as_itself() -> None:
    u = (scalar("a") + 2.0) * scalar("b")
    assert pickle.loads(pickle.dumps(u)) is u


def test_shapes_that_do_not_fit_make_no_node() -> None:
    x, y = (UOp.buffer(dtypes.float32, (2, n), "cpu") for n in (3, 4))
    with pytest.raises(ShapeError, match=r"\(2, 3\), \(2, 4\)"):
        x + y
    with pytest.raises(ShapeError, match="reshape"):
        x.reshape((5,))


def test_deep_graphs_need_no_recursion() -> None:
    """Building, walking, printing and freeing 20 000 chained ops."""
    gc.collect()
    before = live_nodes()
    x = UOp.buffer(dtypes.float32, (4,), "cpu")
    one = UOp.const(dtypes.float32, 1.5).broadcast_to((4,))
    u = x
    for _ in range(CHAIN):
        u = u * one
    assert len(u.toposort()) == CHAIN + 4
    assert "…" in repr(u)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(120)
    try:
        del u, x, one
    finally:
        sys.setrecursionlimit(limit)
    assert live_nodes() == before


def test_deep_integer_graphs_too() -> None:
    n = UOp.variable("n", 0, 5, dtypes.int32)
    flag = UOp.variable("f", 0, 1, dtypes.int32).ne(0)
    u, condition = n, flag
    for i in range(CHAIN // 4):
        u = UOp.alu(Ops.XOR, u * 3, n)
        condition = condition & (u < i + 7)
    assert len(toposort((u, condition))) > CHAIN // 4


def test_the_table_forgets_everything() -> None:
    gc.collect()
    gc.disable()  # reference counts alone must do: no node may hold itself
    try:
        before = live_nodes()
        i, j = UOp.range(0, 60, 0), UOp.range(0, 7, 1)
        n = UOp.variable("n", 1, 9)
        u = ((i * 7 + j) // 12 * 12 + (i * 7 + j) % 12 + n * i) // 5
        held = [u, u < 9, i.maximum(j), u.cast(dtypes.int32) + 1]
        from polygrad.uop.symbolic import coefficient, linear, ranges_of

        assert [ranges_of(h) for h in held]
        assert linear(u)
        assert coefficient(u, i) is None
        del i, j, n, u, held
        assert live_nodes() == before
    finally:
        gc.enable()


def test_threads_insert_the_same_nodes_at_once() -> None:
    made: list[list[UOp]] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        mine = []
        for i in range(300):
            x = UOp.variable(f"x{i}", 0, i + 1, dtypes.int32)
            mine.append((x + 1) * x)
        made.append(mine)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(made) == 8
    for column in zip(*made, strict=True):
        assert len(set(column)) == 1
