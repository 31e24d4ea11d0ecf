"""The reference device: each instruction of the contract, on both engines, against numpy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from polygrad.dtype import TENSOR_DTYPES, DType, dtypes
from polygrad.errors import DeviceContractError, UnsupportedOp
from polygrad.testing.assembler import Assembler, launch
from polygrad.uop.ops import Ops

Run = Callable[..., list[np.ndarray]]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, math.inf, -math.inf, math.nan, 1e-40, 3.4e38]
INTS = [d for d in TENSOR_DTYPES.values() if d.is_int]
FLOATS = [dtypes.float32, dtypes.float64]


def elementwise(op: Ops, dtype: DType, count: int, size: int, result: DType | None = None):
    """y[i] = op(x0[i], x1[i], ...); a bool result is stored as uint8."""
    a = Assembler()
    sources = [a.param(dtype, size) for _ in range(count)]
    stored = result or dtype
    if stored is dtypes.bool:
        stored = dtypes.uint8
    target = a.param(stored, size, "w")
    i = a.grid(size)
    value = a(op, *[a.load(s, i) for s in sources], dtype=result)
    if result is dtypes.bool:
        value = a(Ops.CAST, value, dtype=stored)
    a.store(target, i, value)
    return a.build()


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
    np.testing.assert_array_equal(a, b)


def edge_values(dtype: DType) -> np.ndarray:
    lo, hi = int(dtype.min), int(dtype.max)
    return np.array([lo, lo + 1, 0, 1, 2, 3, hi - 1, hi], dtype.name)


def sign(n: int) -> int:
    return -1 if n < 0 else 1


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(values, values)
    return np.ascontiguousarray(x.ravel()), np.ascontiguousarray(y.ravel())


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize(
    ("op", "oracle"),
    [
        (Ops.ADD, np.add),
        (Ops.SUB, np.subtract),
        (Ops.MUL, np.multiply),
        (Ops.DIV, np.divide),
        (Ops.MIN, lambda a, b: np.where(a < b, a, b)),
        (Ops.MAX, lambda a, b: np.where(a > b, a, b)),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_float_pairs_are_exact_on_special_values(run: Run, dtype, op, oracle) -> None:
    x, y = pairs(np.array(SPECIAL, dtype.name))
    with np.errstate(all="ignore"):
        expected = oracle(x, y)
    got = run(elementwise(op, dtype, 2, x.size), x, y, np.zeros_like(x))[2]
    nan = np.isnan(expected)
    same_bits(got[~nan], expected[~nan])
    assert np.isnan(got[nan]).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize(
    ("op", "oracle"),
    [
        (Ops.NEG, np.negative),
        (Ops.SQRT, np.sqrt),
        (Ops.FLOOR, np.floor),
        (Ops.CEIL, np.ceil),
        (Ops.TRUNC, np.trunc),
        (Ops.ROUND, np.rint),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_float_singles_are_exact_on_special_values(run: Run, dtype, op, oracle) -> None:
    x = np.array(SPECIAL, dtype.name)
    with np.errstate(all="ignore"):
        expected = oracle(x)
    got = run(elementwise(op, dtype, 1, x.size), x, np.zeros_like(x))[1]
    nan = np.isnan(expected)
    same_bits(got[~nan], expected[~nan])
    assert np.isnan(got[nan]).all()


@pytest.mark.parametrize("dtype", INTS, ids=repr)
@pytest.mark.parametrize(
    ("op", "oracle"),
    [
        (Ops.ADD, lambda a, b: a + b),
        (Ops.SUB, lambda a, b: a - b),
        (Ops.MUL, lambda a, b: a * b),
        (Ops.AND, lambda a, b: a & b),
        (Ops.OR, lambda a, b: a | b),
        (Ops.XOR, lambda a, b: a ^ b),
        (Ops.MAX, max),
        (Ops.MIN, min),
        (Ops.IDIV, lambda a, b: sign(a) * sign(b) * (abs(a) // abs(b)) if b else 0),
        (Ops.IMOD, lambda a, b: sign(a) * (abs(a) % abs(b)) if b else 0),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_integer_pairs_wrap(run: Run, dtype, op, oracle) -> None:
    """The oracle is Python's integers, reduced to the dtype's width. Covers row 6 of the regime."""
    x, y = pairs(edge_values(dtype))
    exact = [oracle(int(a), int(b)) % (1 << dtype.bits) for a, b in zip(x, y, strict=True)]
    expected = np.array(exact, f"u{dtype.itemsize}").view(dtype.name)
    got = run(elementwise(op, dtype, 2, x.size), x, y, np.zeros_like(x))[2]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", INTS, ids=repr)
@pytest.mark.parametrize("op", [Ops.SHL, Ops.SHR])
def test_shifts(run: Run, dtype, op) -> None:
    x = np.repeat(edge_values(dtype), 3)
    by = np.tile(np.array([0, 1, dtype.bits - 1], dtype.name), 8)
    expected = (x << by) if op is Ops.SHL else (x >> by)
    got = run(elementwise(op, dtype, 2, x.size), x, by, np.zeros_like(x))[2]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("op", [Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE])
def test_comparisons_with_nan_are_false_but_for_not_equal(run: Run, op) -> None:
    x, y = pairs(np.array(SPECIAL, "float32"))
    oracle = {"CMPLT": np.less, "CMPLE": np.less_equal, "CMPEQ": np.equal, "CMPNE": np.not_equal}
    program = elementwise(op, dtypes.float32, 2, x.size, dtypes.bool)
    got = run(program, x, y, np.zeros(x.size, "uint8"))[2]
    np.testing.assert_array_equal(got, oracle[op.name](x, y))


@pytest.mark.parametrize("source", FLOATS, ids=repr)
@pytest.mark.parametrize("target", INTS, ids=repr)
def test_float_to_integer_saturates_and_nan_is_zero(run: Run, source, target) -> None:
    x = np.array([*SPECIAL, 1e10, -1e10, 1e30, -1e30, 127.9, -128.9, 255.5, -0.9], source.name)
    lo, hi = int(target.min), int(target.max)
    clipped = [
        0 if math.isnan(v) else hi if v > hi else lo if v < lo else int(v) for v in x.tolist()
    ]
    got = run(elementwise(Ops.CAST, source, 1, x.size, target), x, np.zeros(x.size, target.name))[1]
    np.testing.assert_array_equal(got, np.array(clipped, target.name))


def bfloat16_bits(x: np.ndarray) -> np.ndarray:
    """Nearest even by counting: the two neighbours that truncation gives, the closer one taken."""
    bits = x.astype("float32").view("uint32")
    low = bits & 0xFFFF
    up = (low > 0x8000) | ((low == 0x8000) & ((bits >> 16) & 1 == 1))
    return ((bits >> 16) + up).astype("uint16")


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_halves_round_to_nearest_even_and_come_back(run: Run, kind) -> None:
    half = TENSOR_DTYPES[kind]
    x = np.array(
        [1, 1 + 2**-8, 1 + 2**-9, 1 + 3 * 2**-9, -7.3, 65519, 65520, 1e-7, 0, -0.0], "float32"
    )
    a = Assembler()
    source, narrow = a.param(dtypes.float32, x.size), a.param(half, x.size, "w")
    wide = a.param(dtypes.float32, x.size, "w")
    i = a.grid(x.size)
    value = a(Ops.CAST, a.load(source, i), dtype=half)
    a.store(narrow, i, value)
    a.store(wide, i, a(Ops.CAST, value, dtype=dtypes.float32))
    with np.errstate(over="ignore"):
        bits = x.astype("float16").view("uint16") if kind == "float16" else bfloat16_bits(x)
    out = run(a.build(), x, np.zeros(x.size, "uint16"), np.zeros_like(x))
    np.testing.assert_array_equal(out[1], bits)
    back = (
        bits.view("float16").astype("float32")
        if kind == "float16"
        else (bits.astype("uint32") << 16).view("float32")
    )
    same_bits(out[2], back)


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("float16", "uint16"), ("bfloat16", "int16"), ("float64", "uint64")],
)
def test_bitcast_keeps_the_bits(run: Run, source, target) -> None:
    raw = {"bfloat16": "uint16"}.get(source, source)
    x = np.array([1, 2, 255, 16256], f"u{TENSOR_DTYPES[source].itemsize}").view(raw)
    program = elementwise(Ops.BITCAST, TENSOR_DTYPES[source], 1, 4, TENSOR_DTYPES[target])
    got = run(program, x, np.zeros(4, target))[1]
    np.testing.assert_array_equal(got, x.view(target))


def test_multiply_add_of_cancelling_products_is_exactly_zero(run: Run) -> None:
    """Row 5 of the regime: nothing is contracted."""
    a = Assembler()
    x, y, out = (a.param(dtypes.float32, 1, way) for way in "rrw")
    i = a.grid(1)
    p, q = a.load(x, i), a.load(y, i)
    a.store(out, i, a(Ops.ADD, a(Ops.MUL, p, q), a(Ops.MUL, a(Ops.NEG, p), q)))
    one = np.array([1.1], "float32")
    assert run(a.build(), one, one * 3, one)[2][0] == 0


def test_row_sum_in_a_register(run: Run) -> None:
    rows, columns = 3, 5
    a = Assembler()
    x, y = a.param(dtypes.float32, rows * columns), a.param(dtypes.float32, rows, "w")
    total = a.local(dtypes.float32, 1)
    row, zero, n = a.grid(rows), a.number(0), a.number(columns)
    a.store(total, zero, a.const(dtypes.float32, 0))
    k = a.range(zero, n)
    offset = a(Ops.ADD, a(Ops.MUL, row, n), k)
    a.store(total, zero, a(Ops.ADD, a.load(total, zero), a.load(x, offset)))
    a.end(k)
    a.store(y, row, a.load(total, zero))
    data = np.arange(15, dtype="float32")
    got = run(a.build(), data, np.zeros(rows, "float32"))[1]
    np.testing.assert_array_equal(got, data.reshape(3, 5).sum(1))


def test_loop_bound_that_depends_on_the_block(run: Run) -> None:
    """A triangle: y[i] = sum of x[:i + 1]."""
    a = Assembler()
    x, y = a.param(dtypes.int32, 6), a.param(dtypes.int32, 6, "w")
    total, i, zero = a.local(dtypes.int32, 1), a.grid(6), a.number(0)
    a.store(total, zero, zero)
    k = a.range(zero, a(Ops.ADD, i, a.number(1)))
    a.store(total, zero, a(Ops.ADD, a.load(total, zero), a.load(x, k)))
    a.end(k)
    a.store(y, i, a.load(total, zero))
    data = np.array([3, -1, 4, 1, -5, 9], "int32")
    np.testing.assert_array_equal(run(a.build(), data, np.zeros(6, "int32"))[1], data.cumsum())


def test_gated_load_reads_nothing_outside(run: Run) -> None:
    """y[i] = x[i - 2] where that exists, else 7; a second store without alternative gives 0."""
    a = Assembler()
    x, y, z = (
        a.param(dtypes.float32, 3),
        a.param(dtypes.float32, 6, "w"),
        a.param(dtypes.float32, 6, "w"),
    )
    i = a.grid(6)
    at = a(Ops.SUB, i, a.number(2))
    inside = a(Ops.AND, a(Ops.CMPLE, a.number(0), at), a(Ops.CMPLT, at, a.number(3)))
    a.store(y, i, a.load(x, at, inside, a.const(dtypes.float32, 7)))
    a.store(z, i, a.load(x, at, inside))
    out = run(
        a.build(), np.array([1, 2, 3], "float32"), np.zeros(6, "float32"), np.ones(6, "float32")
    )
    np.testing.assert_array_equal(out[1], [7, 7, 1, 2, 3, 7])
    np.testing.assert_array_equal(out[2], [0, 0, 1, 2, 3, 0])


def test_gated_load_of_an_empty_param_gives_the_alternative(run: Run) -> None:
    a = Assembler()
    x, y = a.param(dtypes.float32, 0), a.param(dtypes.float32, 2, "w")
    i = a.grid(2)
    a.store(y, i, a.load(x, i, a.const(dtypes.bool, False), a.const(dtypes.float32, 5)))
    got = run(a.build(), np.zeros(0, "float32"), np.zeros(2, "float32"))[1]
    np.testing.assert_array_equal(got, [5, 5])


def test_branch_masks_stores_and_registers(run: Run) -> None:
    """Even blocks write 1 and add 10 to a register; odd ones keep what was there."""
    a = Assembler()
    y = a.param(dtypes.int32, 10, "w")
    register, i, zero = a.local(dtypes.int32, 1), a.grid(5), a.number(0)
    a.store(register, zero, i)
    even = a(Ops.CMPEQ, a(Ops.IMOD, i, a.number(2)), zero)
    branch = a.branch(even)
    a.store(register, zero, a(Ops.ADD, a.load(register, zero), a.number(10)))
    a.store(y, i, a.number(1))
    a.endif(branch)
    a.store(y, a(Ops.ADD, i, a.number(5)), a.load(register, zero))
    got = run(a.build(), np.full(10, -1, "int32"))[0]
    np.testing.assert_array_equal(got, [1, -1, 1, -1, 1, 10, 1, 12, 3, 14])


def test_branch_guards_an_address(run: Run) -> None:
    a = Assembler()
    x, y = a.param(dtypes.int32, 2), a.param(dtypes.int32, 4, "w")
    i = a.grid(4)
    branch = a.branch(a(Ops.CMPLT, i, a.number(2)))
    a.store(y, i, a.load(x, i))
    a.endif(branch)
    got = run(a.build(), np.array([8, 9], "int32"), np.zeros(4, "int32"))[1]
    np.testing.assert_array_equal(got, [8, 9, 0, 0])


def test_stack_indexed_by_data(run: Run) -> None:
    """y[i] = table[x[i]] with the table in a LOCAL whose index differs between blocks."""
    a = Assembler()
    x, y = a.param(dtypes.int32, 4), a.param(dtypes.float32, 4, "w")
    table, i = a.local(dtypes.float32, 3, "stack"), a.grid(4)
    k = a.range(a.number(0), a.number(3), "unroll")
    a.store(table, k, a(Ops.CAST, a(Ops.MUL, k, a.number(10)), dtype=dtypes.float32))
    a.end(k)
    a.store(y, i, a.load(table, a.load(x, i)))
    got = run(a.build(), np.array([2, 0, 1, 2], "int32"), np.zeros(4, "float32"))[1]
    np.testing.assert_array_equal(got, [20, 0, 10, 20])


def test_grid_sizes_and_scalars_come_from_variables(run: Run) -> None:
    a = Assembler()
    y = a.param(dtypes.int32, 12, "w")
    n, scale = a.variable("n", 1, 4), a.variable("scale", -9, 9)
    i, j = a.grid(("n",)), a.grid(3)
    a.store(y, a(Ops.ADD, a(Ops.MUL, i, a.number(3)), j), a(Ops.MUL, a(Ops.MUL, n, scale), j))
    got = run(a.build(), np.full(12, 100, "int32"), scalars=(2, -5))[0]
    np.testing.assert_array_equal(got, [0, -10, -20, 0, -10, -20] + [100] * 6)


def test_an_empty_grid_runs_nothing(run: Run) -> None:
    a = Assembler()
    y = a.param(dtypes.int32, 1, "w")
    a.store(y, a.grid(0), a.number(3))
    assert run(a.build(), np.array([5], "int32"))[0][0] == 5


def test_a_program_without_grid_runs_once(run: Run) -> None:
    a = Assembler()
    y = a.param(dtypes.int32, 1, "w")
    a.store(y, a.number(0), a.number(3))
    assert run(a.build(), np.array([5], "int32"))[0][0] == 3


def test_grids_larger_than_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    from polygrad.device import interp_numpy

    monkeypatch.setattr(interp_numpy, "TILE", 8)
    a = Assembler()
    y = a.param(dtypes.int32, 105, "w")
    i, j, k = a.grid(3), a.grid(7), a.grid(5)
    a.store(y, a(Ops.ADD, a(Ops.MUL, a(Ops.ADD, a(Ops.MUL, i, a.number(7)), j), a.number(5)), k), k)
    (out,) = launch("interp", a.build(), bytes(420))
    np.testing.assert_array_equal(np.frombuffer(out, "int32"), np.tile(np.arange(5), 21))


def test_vectors(run: Run) -> None:
    """Load four lanes, add a broadcast, reverse, store under a lane gate; reduce by halving."""
    a = Assembler()
    x, y, z = (
        a.param(dtypes.float32, 8),
        a.param(dtypes.float32, 8, "w"),
        a.param(dtypes.float32, 2, "w"),
    )
    i = a.grid(2)
    at = a(Ops.MUL, i, a.number(4))
    four = dtypes.float32.vec(4)
    one = a(Ops.BROADCAST, a.const(dtypes.float32, 1), dtype=four)
    value = a(Ops.ADD, a.load(x, at, lanes=4), one)
    back = a(Ops.SHUFFLE, value, dtype=four, arg=(3, 2, 1, 0))
    gate = a.emit(Ops.CONST, dtypes.bool.vec(4), (), (True, False, True, True))
    a.store(y, at, back, gate)
    a.store(z, i, a(Ops.LANES, value, dtype=dtypes.float32, arg=Ops.ADD))
    out = run(
        a.build(), np.arange(8, dtype="float32"), np.full(8, -1, "float32"), np.zeros(2, "float32")
    )
    np.testing.assert_array_equal(out[1], [4, -1, 2, 1, 8, -1, 6, 5])
    np.testing.assert_array_equal(out[2], [10, 26])


def test_a_shuffle_takes_lanes_from_two_vectors(run: Run) -> None:
    a = Assembler()
    x, y = a.param(dtypes.int32, 8), a.param(dtypes.int32, 4, "w")
    two = a.load(x, a.number(0), lanes=4), a.load(x, a.number(4), lanes=4)
    four = dtypes.int32.vec(4)
    a.store(y, a.number(0), a.emit(Ops.SHUFFLE, four, two, (7, 0, 4, 3)))
    out = run(a.build(), np.arange(8, dtype="int32"), np.zeros(4, "int32"))
    np.testing.assert_array_equal(out[1], [7, 0, 4, 3])


def test_vector_registers(run: Run) -> None:
    """A LOCAL of two vectors, stored whole, read back lane by lane."""
    a = Assembler()
    y = a.param(dtypes.int32, 4, "w")
    tile = a.local(dtypes.int32.vec(2), 2)
    i = a.grid(1)
    parts = [a(Ops.ADD, i, a.number(v)) for v in (5, 6, 7, 8)]
    pair = dtypes.int32.vec(2)
    a.store(tile, a.number(0), a(Ops.VECTOR, *parts[:2], dtype=pair))
    a.store(tile, a.number(1), a(Ops.VECTOR, *parts[2:], dtype=pair))
    second = a.emit(Ops.LOAD, pair, (a.index(tile, a.number(1)),))
    first = a.emit(Ops.LOAD, pair, (a.index(tile, a.number(0)),))
    a.store(y, a.number(0), second)
    a.store(y, a.number(2), a(Ops.EXTRACT, first, dtype=dtypes.int32, arg=1))
    got = run(a.build(), np.zeros(4, "int32"))[0]
    np.testing.assert_array_equal(got, [7, 8, 6, 0])


# ---- the referee


@pytest.mark.parametrize("shift", [-1, 1])
def test_an_address_outside_is_an_error_that_names_the_instruction(run: Run, shift) -> None:
    a = Assembler("k_bad")
    x, y = a.param(dtypes.float32, 4), a.param(dtypes.float32, 4, "w")
    i = a.grid(4)
    a.store(y, i, a.load(x, a(Ops.ADD, i, a.number(shift))))
    with pytest.raises(
        DeviceContractError, match=r"k_bad, instruction \d+: LOAD .* offset (-1|4) of param 0"
    ):
        run(a.build(), np.zeros(4, "float32"), np.zeros(4, "float32"))


def test_blocks_that_race_are_found() -> None:
    a = Assembler()
    y = a.param(dtypes.int32, 2, "w")
    i = a.grid(4)
    a.store(y, a(Ops.IMOD, i, a.number(2)), i)
    with pytest.raises(DeviceContractError, match="not independent"):
        launch("interp", a.build(), bytes(8))


def test_memory_nobody_wrote_is_nan() -> None:
    from polygrad.device import get

    allocator = get("interp").allocator
    data = bytearray(8)
    allocator.read(memoryview(data), allocator.alloc(8))
    assert np.isnan(np.frombuffer(data, "float32")).all()


def test_an_instruction_outside_the_table_is_refused() -> None:
    a = Assembler("k_odd")
    x = a.param(dtypes.float32, 1, "rw")
    i = a.grid(1)
    a.store(x, i, a(Ops.EXP2, a.load(x, i)))
    with pytest.raises(UnsupportedOp, match=r"EXP2.*k_odd, instruction"):
        launch("interp", a.build(), bytes(4))


def test_an_instruction_of_another_dtype_than_the_target_lists_is_refused(run: Run) -> None:
    with pytest.raises(UnsupportedOp, match="the target lacks ADD of float16: program k_test, ins"):
        run(elementwise(Ops.ADD, dtypes.float16, 2, 4), *[np.zeros(4, "float16")] * 3)


def test_variables_keep_their_bounds(run: Run) -> None:
    a = Assembler()
    y = a.param(dtypes.int32, 4, "w")
    a.store(y, a.variable("n", 0, 3), a.number(1))
    with pytest.raises(DeviceContractError, match=r"n = 4 is not in 0\.\.3"):
        run(a.build(), np.zeros(4, "int32"), scalars=(4,))


def test_overlapping_params_are_refused() -> None:
    from polygrad.device import get

    device = get("interp")
    program = elementwise(Ops.NEG, dtypes.int32, 1, 4)
    loaded = device.load(device.compiler(device.renderer.render([program])))["k_test"]
    base = device.allocator.alloc(24)
    parts = [device.allocator.view(base, at, 16) for at in (0, 8)]
    with pytest.raises(DeviceContractError, match="params 1 and 0 overlap"):
        loaded(*parts, grid=(4,))


def test_program_text_is_deterministic_and_reads_back() -> None:
    from polygrad.device import interp_text

    a = Assembler()
    x = a.param(dtypes.bfloat16, 2, "rw")
    a.variable("n", 0, 3)
    a.emit(Ops.CONST, dtypes.float32.vec(2), (), (math.inf, -0.0))
    a.local(dtypes.index, 3)
    a.store(x, a.grid(("n", 2, "*")), a.const(dtypes.bfloat16, 0.1))
    program = a.build()
    text = interp_text.dumps([program, program])
    assert text == interp_text.dumps(interp_text.loads(text))
    assert interp_text.loads(text)[1] == program
