"""Control flow and memory of a LinearProgram on the cpu: loops, gates, locals, grids, variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygrad.contract import LinearProgram
from polygrad.dtype import dtypes
from polygrad.errors import UnsupportedOp
from polygrad.uop.ops import Ops

F32, I64, V8 = dtypes.float32, dtypes.int64, dtypes.float32.vec(8)


def random(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("rows,columns", [(1, 1), (5, 17), (64, 33)])
def test_a_reduction_carries_its_sum_in_a_register(
    run: Any, build: Any, rows: int, columns: int
) -> None:
    b = build()
    x, y = b.param(F32, rows * columns, "r"), b.param(F32, rows, "w")
    (row,) = b.block(rows)
    zero = b.const(0)
    total = b.local(F32, 1)
    b.store(total, zero, b.const(0.0, F32))
    column = b.loop(zero, b.const(columns))
    value = b.load(x, b.affine(column, (row, columns)))
    b.store(total, zero, b.add(b.load(total, zero), value))
    b.end(column)
    b.store(y, row, b.load(total, zero))
    data = random(rows, columns)
    got = run(b.program(), data, np.zeros(rows, np.float32))[1]
    expected = np.zeros(rows, np.float32)
    for c in range(columns):
        expected += data[:, c]
    np.testing.assert_array_equal(got, expected)


def test_a_loop_without_steps_leaves_its_local_alone(run: Any, build: Any) -> None:
    b = build()
    y = b.param(F32, 1, "w")
    zero = b.const(0)
    total = b.local(F32, 1)
    b.store(total, zero, b.const(5.0, F32))
    n = b.variable("n", I64, 0, 10)
    step = b.loop(zero, n)
    b.store(total, zero, b.add(b.load(total, zero), b.const(1.0, F32)))
    b.end(step)
    b.store(y, zero, b.load(total, zero))
    for n in (0, 1, 10):
        got = run(b.program(), np.zeros(1, np.float32), scalars={"n": n})[0]
        assert got[0] == 5 + n


def test_loop_bounds_may_be_outer_counters(run: Any, build: Any) -> None:
    """Triangles: y[i] = sum of x[0 .. i]."""
    b = build()
    n = 9
    x, y = b.param(F32, n, "r"), b.param(F32, n, "w")
    zero, one = b.const(0), b.const(1)
    total = b.local(F32, 1)
    i = b.loop(zero, b.const(n))
    b.store(total, zero, b.const(0.0, F32))
    j = b.loop(zero, b.add(i, one))
    b.store(total, zero, b.add(b.load(total, zero), b.load(x, j)))
    b.end(j)
    b.store(y, i, b.load(total, zero))
    b.end(i)
    data = np.arange(n, dtype=np.float32)
    np.testing.assert_array_equal(run(b.program(), data, np.zeros_like(data))[1], np.cumsum(data))


def test_if_runs_its_body_only_where_the_condition_holds(run: Any, build: Any) -> None:
    b = build()
    x, y = b.param(F32, 10, "r"), b.param(F32, 10, "rw")
    (i,) = b.block(10)
    value = b.load(x, i)
    positive = b.binary(Ops.CMPLT, b.const(0.0, F32), value)
    branch = b.op(Ops.IF, dtypes.void, positive)
    b.store(y, i, b.mul(value, value))
    b.op(Ops.ENDIF, dtypes.void, branch)
    data = random(10)
    got = run(b.program(), data, np.full(10, 7, np.float32))[1]
    np.testing.assert_array_equal(got, np.where(data > 0, data * data, np.float32(7)))


@pytest.mark.parametrize("other", [0.0, -0.0, 2.5])
def test_a_scalar_gate_reads_nothing_where_it_is_false(run: Any, build: Any, other: float) -> None:
    """Half of the addresses lie far outside the buffer."""
    b = build()
    x, y = b.param(F32, 4, "r"), b.param(F32, 8, "w")
    (i,) = b.block(8)
    far = b.mul(i, b.const(1 << 40))
    inside = b.binary(Ops.CMPLT, i, b.const(4))
    offset = b.op(Ops.WHERE, I64, inside, i, far)
    b.store(y, i, b.load(x, offset, gate=(inside, b.const(other, F32))))
    data = np.arange(4, dtype=np.float32)
    got = run(b.program(), data, np.zeros(8, np.float32))[1]
    expected = np.concatenate([data, np.full(4, other, np.float32)])
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def test_a_scalar_gate_writes_nothing_where_it_is_false(run: Any, build: Any) -> None:
    b = build()
    y = b.param(F32, 4, "rw")
    (i,) = b.block(64)
    b.store(y, i, b.cast(i, F32), b.binary(Ops.CMPLT, i, b.const(3)))
    got = run(b.program(), np.full(4, -1, np.float32))[0]
    np.testing.assert_array_equal(got, [0, 1, 2, -1])


def test_one_gate_of_all_lanes_is_a_branch(run: Any, build: Any) -> None:
    """Masked stores are slow on some machines."""
    b = build()
    x, y = b.param(F32, 24, "r"), b.param(F32, 24, "rw")
    (i,) = b.block(3)
    base = b.mul(i, b.const(8))
    gate = b.broadcast(b.binary(Ops.CMPLT, i, b.const(2)), 8)
    b.store(y, base, b.load(x, base, 8), gate)
    data = random(24)
    got = run(b.program(), data, np.full(24, -1, np.float32))[1]
    np.testing.assert_array_equal(got, np.concatenate([data[:16], np.full(8, -1, np.float32)]))
    text = run.device.renderer.render([b.program()]).code
    assert "masked.store" not in text
    assert "masked_store" not in text


@pytest.mark.parametrize("name", ["float32", "float64", "int8", "int32", "float16"])
@pytest.mark.parametrize("n", [1, 7, 8, 13])
def test_lane_gates_mask_a_tail(run: Any, build: Any, name: str, n: int) -> None:
    from polygrad.dtype import to_dtype

    b = build()
    dtype, lanes = to_dtype(name), 8
    x, y = b.param(dtype, n, "r"), b.param(dtype, 16, "rw")
    (i,) = b.block(2)
    base = b.mul(i, b.const(lanes))
    counter = b.op(Ops.CONST, I64.vec(lanes), arg=tuple(range(lanes)))
    numbers = b.add(b.broadcast(base, lanes), counter)
    gate = b.binary(Ops.CMPLT, numbers, b.broadcast(b.const(n), lanes))
    other = b.const(3, dtype.vec(lanes))
    value = b.load(x, base, lanes, gate=(gate, other))
    b.store(y, base, value, gate)
    data = np.arange(1, n + 1).astype(name)
    got = run(b.program(), data, np.full(16, 9, name))[1]
    np.testing.assert_array_equal(got, np.concatenate([data, np.full(16 - n, 9, name)]))


def test_a_masked_load_gives_the_alternative(run: Any, build: Any) -> None:
    b = build()
    x, y = b.param(F32, 8, "r"), b.param(F32, 8, "w")
    zero = b.const(0)
    counter = b.op(Ops.CONST, I64.vec(8), arg=tuple(range(8)))
    gate = b.binary(Ops.CMPLT, counter, b.const(3, I64.vec(8)))
    b.store(y, zero, b.load(x, zero, 8, gate=(gate, b.const(4.5, V8))))
    got = run(b.program(), np.ones(8, np.float32), np.zeros(8, np.float32))[1]
    np.testing.assert_array_equal(got, [1, 1, 1, 4.5, 4.5, 4.5, 4.5, 4.5])


def test_the_last_axis_of_the_grid_is_the_fastest(run: Any, build: Any) -> None:
    b = build()
    y = b.param(I64, 24, "w")
    i, j, k = b.block(2, 3, 4)
    code = b.affine(k, (i, 100), (j, 10))
    b.store(y, b.affine(k, (i, 12), (j, 4)), code)
    got = run(b.program(), np.zeros(24, np.int64))[0]
    expected = [100 * i + 10 * j + k for i in range(2) for j in range(3) for k in range(4)]
    np.testing.assert_array_equal(got, expected)


def test_a_grid_may_depend_on_a_variable(run: Any, build: Any) -> None:
    b = build()
    y = b.param(I64, 64, "rw")
    b.variable("n", I64, 1, 8)
    i, j = b.block(("n", 2, "*"), ("n", 1, "-"))
    b.store(y, b.affine(j, (i, 4)), b.affine(j, (i, 10)))
    got = run(b.program(), np.full(64, -1), scalars={"n": 3})[0].reshape(16, 4)
    expected = np.full((16, 4), -1)
    expected[:6, :2] = 10 * np.arange(6)[:, None] + np.arange(2)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "name,value", [("int32", -7), ("int64", -(1 << 40)), ("float32", 0.1), ("float64", 0.1)]
)
def test_variables_arrive_in_their_dtype(run: Any, build: Any, name: str, value: float) -> None:
    from polygrad.dtype import to_dtype

    b = build()
    dtype = to_dtype(name)
    y = b.param(dtype, 1, "w")
    v = b.variable("v", dtype, -(1 << 41), 1 << 41)
    b.store(y, b.const(0), v)
    got = run(b.program(), np.zeros(1, name), scalars={"v": value})[0]
    assert got[0] == np.dtype(name).type(value)


@pytest.mark.parametrize("space", ["register", "stack", "scratch"])
def test_a_local_may_be_indexed_by_a_counter(run: Any, build: Any, space: str) -> None:
    """y is x reversed, through a local array; another scratch beside it stays apart."""
    b = build()
    n = 21
    x, y = b.param(F32, n, "r"), b.param(F32, n, "w")
    zero, size = b.const(0), b.const(n)
    held, other = b.local(F32, n, space), b.local(F32, n, space)
    i = b.loop(zero, size)
    b.store(held, i, b.load(x, i))
    b.store(other, i, b.const(-1.0, F32))
    b.end(i)
    j = b.loop(zero, size)
    last = b.binary(Ops.SUB, b.const(n - 1), j)
    b.store(y, j, b.load(held, last))
    b.end(j)
    data = random(n)
    got = run(b.program(), data, np.zeros_like(data))[1]
    np.testing.assert_array_equal(got, data[::-1])


def test_bools_live_in_registers(run: Any, build: Any) -> None:
    """any(x < 0) by OR over a bool local."""
    b = build()
    x, y = b.param(F32, 6, "r"), b.param(dtypes.uint8, 1, "w")
    zero = b.const(0)
    found = b.local(dtypes.bool, 1)
    b.store(found, zero, b.const(False, dtypes.bool))
    i = b.loop(zero, b.const(6))
    negative = b.binary(Ops.CMPLT, b.load(x, i), b.const(0.0, F32))
    b.store(found, zero, b.binary(Ops.OR, b.load(found, zero), negative))
    b.end(i)
    b.store(y, zero, b.cast(b.load(found, zero), dtypes.uint8))
    for data, expected in (([1, 2, 3, 4, 5, 6], 0), ([1, 2, 3, -4, 5, 6], 1)):
        got = run(b.program(), np.array(data, np.float32), np.zeros(1, np.uint8))[1]
        assert got[0] == expected


@pytest.mark.parametrize("space", ["stack", "scratch"])
def test_bools_in_an_array_are_written_and_read_one_by_one_or_many_at_once(
    run: Any, build: Any, space: str
) -> None:
    """A bool is a byte there: written one by one and read as a vector, and the other way round,
    and with a gate whose alternative is true."""
    b = build()
    byte, mask = dtypes.uint8, dtypes.bool.vec(8)
    x, y = b.param(F32, 8, "r"), b.param(byte, 24, "w")
    zero, eight = b.const(0), b.const(8)
    ones, many = b.local(dtypes.bool, 8, space), b.local(dtypes.bool, 8, space)
    i = b.loop(zero, eight)
    b.store(ones, i, b.binary(Ops.CMPLT, b.load(x, i), b.const(0.0, F32)))
    b.end(i)
    negative = b.load(ones, zero, 8)
    b.store(y, zero, b.cast(negative, byte.vec(8)))
    gate = b.op(Ops.CONST, mask, arg=(True, False) * 4)
    every_other = b.load(ones, zero, 8, gate=(gate, b.const(True, mask)))
    b.store(y, b.const(16), b.cast(every_other, byte.vec(8)))
    b.store(many, zero, negative)
    j = b.loop(zero, eight)
    b.store(y, b.add(j, eight), b.cast(b.load(many, j), byte))
    b.end(j)
    data = np.array([-1, 2, 3, -4, 5, -6, -7, -8], np.float32)
    got = run(b.program(), data, np.zeros(24, np.uint8))[1].reshape(3, 8)
    np.testing.assert_array_equal(got[0], data < 0)
    np.testing.assert_array_equal(got[1], data < 0)
    np.testing.assert_array_equal(got[2], (data < 0) | (np.arange(8) % 2 == 1))


def test_streaming_stores_are_seen_afterwards(run: Any, build: Any) -> None:
    b = build()
    n = 1 << 12
    x, y = b.param(F32, n, "r"), b.param(F32, n, "w")
    (i,) = b.block(n // 8)
    offset = b.mul(i, b.const(8))
    value = b.op(Ops.LOAD, V8, b.at(x, offset), arg=8)
    b.store(y, offset, b.add(value, value), arg="nt")
    data = random(n)
    np.testing.assert_array_equal(run(b.program(), data, np.zeros_like(data))[1], data + data)


@pytest.mark.parametrize("distance", [24, -8, 1 << 40])
@pytest.mark.parametrize("lanes", [1, 8])
def test_a_load_may_ask_for_what_is_far_outside(
    run: Any, build: Any, distance: int, lanes: int
) -> None:
    """It is a hint: nothing is read there."""
    b = build()
    n = 64
    x, y = b.param(F32, n, "r"), b.param(F32, n, "w")
    i = b.loop(b.const(0), b.const(n // lanes))
    offset = b.mul(i, b.const(lanes))
    value = b.op(Ops.LOAD, F32.vec(lanes), b.at(x, offset), arg=distance)
    b.store(y, offset, value)
    b.end(i)
    data = random(n)
    np.testing.assert_array_equal(run(b.program(), data, np.zeros_like(data))[1], data)


def tile(b: Any, m: int, n: int, k: int, rows: int, vectors: int) -> LinearProgram:
    """C = A @ B by register tiles of rows x (vectors of 8), every tile a block."""
    a, x = b.param(F32, m * k, "r"), b.param(F32, k * n, "r")
    c = b.param(F32, m * n, "w")
    i, j = b.block(m // rows, n // (8 * vectors))
    zero, top, left = b.const(0), b.mul(i, b.const(rows)), b.mul(j, b.const(8 * vectors))
    tile = b.local(V8, rows * vectors)
    r = b.loop(zero, b.const(rows * vectors), "unroll")
    b.store(tile, r, b.const(0.0, V8))
    b.end(r)
    step = b.loop(zero, b.const(k))
    r = b.loop(zero, b.const(rows), "unroll")
    v = b.loop(zero, b.const(vectors), "unroll")
    left_value = b.broadcast(b.load(a, b.affine(step, (b.add(top, r), k))), 8)
    right_value = b.load(x, b.affine(left, (step, n), (v, 8)), 8)
    at = b.affine(v, (r, vectors))
    b.store(tile, at, b.op(Ops.FMA, V8, left_value, right_value, b.load(tile, at)))
    b.end(v)
    b.end(r)
    b.end(step)
    r = b.loop(zero, b.const(rows), "unroll")
    v = b.loop(zero, b.const(vectors), "unroll")
    b.store(c, b.affine(left, (b.add(top, r), n), (v, 8)), b.load(tile, b.affine(v, (r, vectors))))
    b.end(v)
    b.end(r)
    return b.program("tile", flops=2 * m * n * k, bytes=4 * (m * k + k * n + m * n))


def test_a_register_tile_multiplies_matrices(run: Any, build: Any) -> None:
    m, n, k = 24, 32, 19
    a, x = random(m, k), random(k, n)
    got = run(tile(build(), m, n, k, 4, 2), a, x, np.zeros((m, n), np.float32))[2]
    np.testing.assert_allclose(got, a.astype(np.float64) @ x, rtol=1e-5, atol=1e-5)


def test_the_same_programs_give_the_same_text(run: Any, build: Any) -> None:
    programs = [tile(build(), 24, 32, 19, 4, 2), tile(build(), 8, 16, 3, 4, 1)]
    first = run.device.renderer.render(programs)
    assert first.code == run.device.renderer.render(programs).code
    assert set(first.entries) == {"tile"}


def test_many_programs_make_one_module(run: Any, build: Any) -> None:
    programs = []
    for i in range(5):
        b = build()
        b.store(b.param(F32, 1, "w"), b.const(0), b.const(float(i), F32))
        programs.append(b.program(f"k{i}"))
    loaded = run.load(*programs)
    for i in range(5):
        out = run.put(np.zeros(1, np.float32))
        loaded[f"k{i}"](out)
        assert run.get(out, np.zeros(1, np.float32))[0] == i


@pytest.mark.parametrize("name", ['k" {', "a b", "x\ny", "", "é;"])
def test_a_name_cannot_become_program_text(run: Any, build: Any, name: str) -> None:
    with pytest.raises(UnsupportedOp, match="cannot name a program"):
        run.device.renderer.render([build().program(name)])


def test_what_cannot_be_printed_is_named(run: Any, build: Any) -> None:
    b = build()
    x = b.param(F32, 1, "rw")
    zero = b.const(0)
    b.store(x, zero, b.op(Ops.SIN, F32, b.load(x, zero)))
    with pytest.raises(UnsupportedOp, match="cpu cannot print SIN"):
        run.device.renderer.render([b.program("sine")])
