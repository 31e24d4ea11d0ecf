"""What each operation of a LinearProgram means on the cpu, element by element and in vectors of 8.

The oracle is numpy. 8-bit integers are tried exhaustively, floats on all pairs of special values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from polygrad.dtype import dtypes, to_dtype
from polygrad.uop.ops import Ops

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-40, -1e-45, 1e30, np.inf, -np.inf, np.nan, 7.0]


def pairs(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of 8-bit values; edge and random values of wider types; special floats."""
    dtype = np.dtype(name)
    if dtype.kind == "f":
        values = np.array(SPECIAL, dtype)
    elif dtype.itemsize == 1:
        values = np.arange(256).astype(dtype)
    else:
        info, rng = np.iinfo(dtype), np.random.default_rng(7)
        edges = [info.min, info.min + 1, -1 if info.min else 5, 0, 1, 2, 3, info.max - 1, info.max]
        more = rng.integers(info.min, info.max, 20, dtype=dtype, endpoint=True)
        values = np.concatenate([np.array(edges, dtype), more])
    a, b = np.meshgrid(values, values)
    return a.ravel().copy(), b.ravel().copy()


def wrapped(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Python integers as `dtype` stores them."""
    mask = (1 << (8 * dtype.itemsize)) - 1
    return np.array((values & mask).tolist(), f"u{dtype.itemsize}").view(dtype)


def binary(op: Ops) -> Any:
    return lambda b, x, y: b.binary(op, x, y)


def compare(op: Ops) -> Any:
    return lambda b, x, y: b.cast(b.binary(op, x, y), dtypes.uint8.vec(b.ops[x].dtype.lanes))


def unary(op: Ops) -> Any:
    return lambda b, x: b.op(op, b.ops[x].dtype, x)


def cast(dtype: Any) -> Any:
    return lambda b, x: b.cast(x, dtype.vec(b.ops[x].dtype.lanes))


ARITHMETIC = {Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply}
BITS = {Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor}
COMPARISONS = {
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
}
EXTREMES = {Ops.MIN: np.less, Ops.MAX: np.greater}


@pytest.mark.parametrize("op", [*ARITHMETIC, *BITS])
@pytest.mark.parametrize("name", INTS)
def test_integer_arithmetic_wraps(run: Any, op: Ops, name: str) -> None:
    x, y = pairs(name)
    with np.errstate(over="ignore"):
        expected = (ARITHMETIC | BITS)[op](x, y)
    np.testing.assert_array_equal(run.elementwise(binary(op), x.dtype, x, y), expected)


@pytest.mark.parametrize("name", INTS)
def test_division_truncates_and_never_traps(run: Any, name: str) -> None:
    x, y = pairs(name)
    x, y = x[y != 0], y[y != 0]
    a, b = x.astype(object), y.astype(object)
    quotient = abs(a) // abs(b) * np.where((a < 0) == (b < 0), 1, -1)
    for op, expected in ((Ops.IDIV, quotient), (Ops.IMOD, a - quotient * b)):
        got = run.elementwise(binary(op), x.dtype, x, y)
        np.testing.assert_array_equal(got, wrapped(expected, x.dtype))


@pytest.mark.parametrize("divisor", [1, -1, 3, -7, 16, 127])
def test_division_by_a_constant(run: Any, divisor: int) -> None:
    x = np.arange(-128, 128).astype(np.int8)

    def make(b: Any, v: int) -> int:
        dtype = b.ops[v].dtype
        return b.binary(Ops.IDIV, v, b.const(divisor, dtype))

    expected = np.array([int(a / divisor) for a in x.tolist()], np.int64).astype(np.int8)
    np.testing.assert_array_equal(run.elementwise(make, x.dtype, x), expected)


@pytest.mark.parametrize("op", [Ops.SHL, Ops.SHR])
@pytest.mark.parametrize("name", INTS)
def test_shifts_are_arithmetic_on_signed_types(run: Any, op: Ops, name: str) -> None:
    x, _ = pairs(name)
    by = (np.arange(x.size) % (8 * x.dtype.itemsize)).astype(x.dtype)
    expected = np.left_shift(x, by) if op is Ops.SHL else np.right_shift(x, by)
    np.testing.assert_array_equal(run.elementwise(binary(op), x.dtype, x, by), expected)


@pytest.mark.parametrize("op", [Ops.NEG, Ops.NOT])
@pytest.mark.parametrize("name", INTS)
def test_integer_negation_and_complement(run: Any, op: Ops, name: str) -> None:
    x, _ = pairs(name)
    expected = ~x if op is Ops.NOT else wrapped(-x.astype(object), x.dtype)
    np.testing.assert_array_equal(run.elementwise(unary(op), x.dtype, x), expected)


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("name", INTS + FLOATS)
def test_comparisons_with_nan_are_false_but_not_equal(run: Any, op: Ops, name: str) -> None:
    x, y = pairs(name)
    got = run.elementwise(compare(op), np.uint8, x, y)
    np.testing.assert_array_equal(got, COMPARISONS[op](x, y))


@pytest.mark.parametrize("op", EXTREMES)
@pytest.mark.parametrize("name", INTS + FLOATS)
def test_min_and_max_are_a_compare_and_a_select(run: Any, op: Ops, name: str) -> None:
    x, y = pairs(name)
    got = run.elementwise(binary(op), x.dtype, x, y)
    expected = np.where(EXTREMES[op](x, y), x, y)
    np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8))


FLOAT_BINARY = ARITHMETIC | {Ops.DIV: np.divide}


@pytest.mark.parametrize("op", FLOAT_BINARY)
@pytest.mark.parametrize("name", FLOATS)
def test_float_arithmetic_is_ieee(run: Any, op: Ops, name: str) -> None:
    x, y = pairs(name)
    with np.errstate(all="ignore"):
        expected = FLOAT_BINARY[op](x, y)
    got = run.elementwise(binary(op), x.dtype, x, y)
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


ROUNDING = {
    Ops.FLOOR: np.floor,
    Ops.CEIL: np.ceil,
    Ops.TRUNC: np.trunc,
    Ops.ROUND: np.rint,
    Ops.SQRT: np.sqrt,
    Ops.NEG: np.negative,
}


@pytest.mark.parametrize("op", ROUNDING)
@pytest.mark.parametrize("name", FLOATS)
def test_native_functions_are_exact(run: Any, op: Ops, name: str) -> None:
    if op not in run.device.target.ops:
        pytest.skip(f"no native {op} here")
    halves = np.arange(-6, 6.5, 0.5)
    x = np.concatenate([np.array(SPECIAL), halves, [0.49999997, 8388607.5, 1e16]]).astype(name)
    with np.errstate(invalid="ignore"):
        expected = ROUNDING[op](x)
    np.testing.assert_array_equal(run.elementwise(unary(op), x.dtype, x), expected)


def test_nothing_is_contracted(run: Any) -> None:
    """a*x + b*x with 1e20 and -1e20 is exactly 0: no fused multiply-add slips in."""
    x = np.array([1.1, 3.3, 0.7], np.float32)

    def make(b: Any, v: int) -> int:
        dtype = b.ops[v].dtype
        big, small = b.const(1e20, dtype), b.const(-1e20, dtype)
        return b.add(b.mul(v, big), b.mul(v, small))

    np.testing.assert_array_equal(run.elementwise(make, x.dtype, x), np.zeros(3))


def test_fma_rounds_once_where_the_machine_has_it(run: Any) -> None:
    x = np.array([1 + 2**-12], np.float32)
    product = np.array([-(1 + 2**-11)], np.float32)

    def make(b: Any, v: int, w: int) -> int:
        return b.op(Ops.FMA, b.ops[v].dtype, v, v, w)

    fused = Ops.FMA in run.device.target.ops
    expected = np.array([2.0**-24 if fused else 0.0], np.float32)
    np.testing.assert_array_equal(run.elementwise(make, x.dtype, x, product), expected)


# ---- conversions


@pytest.mark.parametrize("to", INTS + FLOATS)
@pytest.mark.parametrize("name", INTS)
def test_integers_convert_by_wrapping(run: Any, name: str, to: str) -> None:
    x, _ = pairs(name)
    got = run.elementwise(cast(to_dtype(to)), np.dtype(to), x)
    np.testing.assert_array_equal(got, x.astype(to))


@pytest.mark.parametrize("to", INTS)
@pytest.mark.parametrize("name", FLOATS)
def test_floats_saturate_into_integers_and_nan_is_zero(run: Any, name: str, to: str) -> None:
    edges = [127.9, 128.5, -128.9, -129.0, 255.9, 256.0, 3e9, -3e9, 5e9, 1e19, -1e19, 2e19, -0.9]
    x = np.array(SPECIAL + edges, name)
    info = np.iinfo(to)
    finite = [0 if np.isnan(v) else int(np.clip(v, -1e30, 1e30)) for v in x.tolist()]
    expected = np.array([max(info.min, min(info.max, v)) for v in finite], to)
    got = run.elementwise(cast(to_dtype(to)), np.dtype(to), x)
    np.testing.assert_array_equal(got, expected)


def test_float64_rounds_into_float32(run: Any) -> None:
    x = np.array([1 + 2**-24, 1 + 3 * 2**-24, 1e300, -1e-300, 1e-46, np.nan, np.inf], np.float64)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float32)
    np.testing.assert_array_equal(run.elementwise(cast(dtypes.float32), np.float32, x), expected)


def test_a_bool_is_not_equal_to_zero(run: Any) -> None:
    x = np.array([0.0, -0.0, 1e-45, -3.0, np.nan, np.inf], np.float32)

    def make(b: Any, v: int) -> int:
        lanes = b.ops[v].dtype.lanes
        return b.cast(b.cast(v, dtypes.bool.vec(lanes)), dtypes.uint8.vec(lanes))

    np.testing.assert_array_equal(run.elementwise(make, np.uint8, x), x != 0)


def all_halves() -> np.ndarray:
    return np.arange(65536).astype(np.uint16).view(np.float16)


@pytest.fixture(params=["host", "integers"])
def convert(run: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The runner with float16 converted by the machine, and by integer arithmetic."""
    from polygrad_backend_cpu.render import LlvmRenderer

    host = run.device.renderer
    if request.param == "integers":
        if not isinstance(host, LlvmRenderer):
            pytest.skip("in C it is always integers")
        run.device.renderer = LlvmRenderer(run.device.target, float16=False)
    yield run
    run.device.renderer = host


def as_float16(b: Any, v: int) -> int:
    """The uint16 lanes of `v` as float16."""
    return b.op(Ops.BITCAST, dtypes.float16.vec(b.ops[v].dtype.lanes), v)


def test_every_float16_widens_exactly(convert: Any) -> None:
    x = all_halves()
    got = convert.elementwise(cast(dtypes.float32), np.float32, x)
    np.testing.assert_array_equal(got, x.astype(np.float32))


def near_halves() -> np.ndarray:
    """Around every rounding boundary of float16: the middles, and a little to each side."""
    h = all_halves()
    h = np.sort(h[np.isfinite(h)].astype(np.float64))
    middle = (h[1:] + h[:-1]) / 2
    step = 1 + 2.0**-23
    edges = [65504.0, 65519.9, 65520.0, 65536.0, 1e10, 2.0**-25, 2.0**-26]
    return np.concatenate([h, middle, middle * step, middle / step, edges, SPECIAL])


@pytest.mark.parametrize("name", FLOATS)
def test_floats_round_to_the_nearest_even_float16(convert: Any, name: str) -> None:
    x = near_halves().astype(name)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    got = convert.elementwise(cast(dtypes.float16), np.float16, x)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["int8", "uint16", "int32", "uint64"])
def test_integers_round_once_into_float16(convert: Any, name: str) -> None:
    x, _ = pairs(name)
    x = np.concatenate([x, np.array([2049, 2051, 65519, 65520, 32767]).astype(name)])
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(
        convert.elementwise(cast(dtypes.float16), np.float16, x), expected
    )


def bfloat16_bits(x: np.ndarray) -> np.ndarray:
    """The oracle: nearest even on the bits of float32."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def test_float32_rounds_to_the_nearest_even_bfloat16(run: Any) -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 20000, dtype=np.uint64).astype(np.uint32)
    ties = (np.arange(1 << 15, dtype=np.uint32) << 17) | 0x8000
    x = np.concatenate([bits, ties, ties + 1, ties - 1]).view(np.float32)

    def make(b: Any, v: int) -> int:
        lanes = b.ops[v].dtype.lanes
        half = b.cast(v, dtypes.bfloat16.vec(lanes))
        return b.op(Ops.BITCAST, dtypes.uint16.vec(lanes), half)

    got = run.elementwise(make, np.uint16, x)
    nan = np.isnan(x)
    np.testing.assert_array_equal(got[~nan], bfloat16_bits(x[~nan]))
    assert np.all((got[nan] & 0x7FFF) > 0x7F80)


def test_every_bfloat16_widens_exactly(run: Any) -> None:
    x = np.arange(65536).astype(np.uint16)

    def make(b: Any, v: int) -> int:
        lanes = b.ops[v].dtype.lanes
        half = b.op(Ops.BITCAST, dtypes.bfloat16.vec(lanes), v)
        return b.cast(half, dtypes.float32.vec(lanes))

    got = run.elementwise(make, np.float32, x)
    np.testing.assert_array_equal(got, (x.astype(np.uint32) << 16).view(np.float32))


# ---- lanes


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN])
def test_lanes_halve_in_a_fixed_order(run: Any, build: Any, op: Ops) -> None:
    b = build()
    v8 = dtypes.float32.vec(8)
    x, y = b.param(dtypes.float32, 8, "r"), b.param(dtypes.float32, 1, "w")
    zero = b.const(0)
    b.store(y, zero, b.op(Ops.LANES, dtypes.float32, b.op(Ops.LOAD, v8, b.at(x, zero)), arg=op))
    data = np.array([1e8, 3.0, -1e8, 0.1, 5e-3, 7.0, np.pi, -2.0], np.float32)
    both = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum, Ops.MIN: np.minimum}[op]
    half = data
    while half.size > 1:
        half = both(half[: half.size // 2], half[half.size // 2 :])
    assert run(b.program(), data, np.zeros(1, np.float32))[1][0] == half[0]


def test_vectors_are_made_taken_apart_and_shuffled(run: Any, build: Any) -> None:
    b = build()
    f32, v4 = dtypes.float32, dtypes.float32.vec(4)
    x, y = b.param(f32, 4, "r"), b.param(f32, 8, "w")
    zero = b.const(0)
    v = b.op(Ops.LOAD, v4, b.at(x, zero))
    turned = b.op(Ops.SHUFFLE, v4, v, arg=(3, 2, 1, 0))
    b.store(y, zero, turned)
    lanes = [b.op(Ops.EXTRACT, f32, v, arg=i) for i in (1, 1, 3, 0)]
    b.store(y, b.const(4), b.op(Ops.VECTOR, v4, *lanes))
    data = np.array([1, 2, 3, 4], np.float32)
    got = run(b.program(), data, np.zeros(8, np.float32))[1]
    np.testing.assert_array_equal(got, [4, 3, 2, 1, 2, 2, 4, 1])
