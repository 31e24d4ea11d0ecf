"""Constants fold to the bits that numpy computes in the same dtype."""

from __future__ import annotations

import itertools
import math
import struct

import numpy as np
import pytest

from polygrad.dtype import dtypes
from polygrad.uop.folding import fold
from polygrad.uop.ops import Ops, UOp

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-45, 6e-8, 1e-310, 65504.0, 3e38, math.inf,
           -math.inf, math.nan, 16777217.0)  # fmt: skip
FLOATS = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

FLOAT_BINARY = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.DIV: np.divide,
    Ops.FMOD: np.fmod,
}  # fmt: skip
FLOAT_UNARY = {
    Ops.SQRT: np.sqrt, Ops.FLOOR: np.floor, Ops.CEIL: np.ceil, Ops.TRUNC: np.trunc,
    Ops.ROUND: np.rint, Ops.NEG: np.negative, Ops.RECIP: lambda x: x.dtype.type(1) / x,
}  # fmt: skip
COMPARE = {
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
}
INT_BINARY = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.FLOORDIV: np.floor_divide,
    Ops.FLOORMOD: np.remainder, Ops.MAXIMUM: np.maximum, Ops.MINIMUM: np.minimum,
    Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor,
    Ops.SHL: np.left_shift, Ops.SHR: np.right_shift, **COMPARE,
}  # fmt: skip


def folded(op: Ops, dtype_name: str, *values: object) -> object:
    dtype = getattr(dtypes, dtype_name)
    u = UOp.alu(op, *(UOp.const(dtype, v) for v in values))
    assert u.op is Ops.CONST, u
    return u.arg


def same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or struct.pack("<d", a) == struct.pack("<d", b)
    return a == b and type(a) is type(b)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", [*FLOAT_BINARY, *COMPARE], ids=str)
def test_two_floats(name: str, op: Ops) -> None:
    f = {**FLOAT_BINARY, **COMPARE}[op]
    with np.errstate(all="ignore"):
        for a, b in itertools.product(FLOATS[name](SPECIAL), repeat=2):
            want = f(a, b).item()
            assert same(folded(op, name, a.item(), b.item()), want), (a, b)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", FLOAT_UNARY, ids=str)
def test_one_float(name: str, op: Ops) -> None:
    with np.errstate(all="ignore"):
        for a in FLOATS[name](SPECIAL):
            assert same(folded(op, name, a.item()), FLOAT_UNARY[op](a).item()), a


@pytest.mark.parametrize("name", FLOATS)
def test_maximum_and_minimum_keep_a_nan_of_either_side(name: str) -> None:
    with np.errstate(all="ignore"):
        values = FLOATS[name](SPECIAL)
    for x, y in itertools.product(values, repeat=2):
        for op, f in ((Ops.MAXIMUM, np.maximum), (Ops.MINIMUM, np.minimum)):
            got, want = folded(op, name, x.item(), y.item()), f(x, y).item()
            assert same(got, want) or got == want == 0  # which zero is nobody's promise


@pytest.mark.parametrize("name", ["int8", "uint8"])
@pytest.mark.parametrize("op", INT_BINARY, ids=str)
def test_every_pair_of_bytes(name: str, op: Ops) -> None:
    kind = np.dtype(name).type
    dtype = dtypes.bool if op in COMPARE else getattr(dtypes, name)
    values = list(range(np.iinfo(kind).min, np.iinfo(kind).max + 1))
    shifts = op in (Ops.SHL, Ops.SHR)  # numpy leaves counts beyond the width open
    counts = list(range(8)) if shifts else values
    with np.errstate(all="ignore"):
        for a in values:
            row = INT_BINARY[op](kind(a), np.array(counts, kind)).tolist()
            assert [fold(op, dtype, (a, b)) for b in counts] == row


@pytest.mark.parametrize("name", INTEGERS)
def test_edges_of_integers_wrap(name: str) -> None:
    kind = np.dtype(name).type
    info = np.iinfo(kind)
    edges = sorted({info.min, info.min + 1, max(info.min, -1), 0, 1, 2, 7, info.max - 1, info.max})
    with np.errstate(all="ignore"):
        for op, f in INT_BINARY.items():
            for a, b in itertools.product(edges, repeat=2):
                if op in (Ops.SHL, Ops.SHR) and not 0 <= b < info.bits:
                    continue
                want = f(np.array([a], kind), np.array([b], kind))[0].item()
                assert same(folded(op, name, a, b), want), (op, a, b)


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts_by_the_width_or_more(name: str) -> None:
    dtype = getattr(dtypes, name)
    for count in (dtype.bits, dtype.bits + 1, 100):
        assert folded(Ops.SHL, name, 3, count) == 0
        assert folded(Ops.SHR, name, int(dtype.max), count) == 0
        assert folded(Ops.SHR, name, int(dtype.min), count) == (0 if dtype.is_unsigned else -1)


@pytest.mark.parametrize("name", INTEGERS)
def test_division_by_zero_gives_zero(name: str) -> None:
    assert folded(Ops.FLOORDIV, name, 7, 0) == 0
    assert folded(Ops.FLOORMOD, name, 7, 0) == 0


def cast(value: object, source: str, target: str) -> object:
    u = UOp.const(getattr(dtypes, source), value).cast(getattr(dtypes, target))
    assert u.op is Ops.CONST
    return u.arg


@pytest.mark.parametrize("source", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("target", [*INTEGERS, "bool", "float32", "float64", "float16"])
def test_integers_cast_like_numpys(source: str, target: str) -> None:
    info = np.iinfo(source)
    edges = {
        info.min,
        0,
        1,
        100,
        info.max,
        info.max - 1,
        info.max // 3,
        (1 << 24) + 1,
        (1 << 53) + 1,
    }
    with np.errstate(all="ignore"):
        for v in (e for e in edges if e <= info.max):
            want = np.array([v], source).astype(target)[0].item()
            assert same(cast(v, source, target), want), v


def test_an_integer_is_rounded_once_on_its_way_to_float32() -> None:
    """Over float64 this number would land on a tie and go the wrong way."""
    v = (1 << 60) + (1 << 36) + 1
    assert cast(v, "int64", "float32") == np.int64(v).astype(np.float32).item()
    assert cast(v, "int64", "float32") != float(np.float32(float(v)))


@pytest.mark.parametrize("target", INTEGERS)
def test_floats_cast_to_integers_truncate_and_saturate(target: str) -> None:
    dtype = getattr(dtypes, target)
    assert cast(2.9, "float32", target) == 2
    assert cast(math.nan, "float32", target) == 0
    assert cast(math.inf, "float32", target) == dtype.max
    assert cast(-1e30, "float32", target) == dtype.min
    assert cast(-2.9, "float32", target) == (0 if dtype.is_unsigned else -2)


def test_anything_but_zero_is_true() -> None:
    assert cast(math.nan, "float32", "bool") is True
    assert cast(0.1, "float32", "bool") is True
    assert cast(-0.0, "float32", "bool") is False


def test_bits_are_read_as_another_type() -> None:
    one = UOp.const(dtypes.float32, 1.0)
    assert one.bitcast(dtypes.int32).arg == 0x3F800000
    assert one.bitcast(dtypes.uint32).bitcast(dtypes.float32) is one
    x = UOp.variable("x", 0, 1, dtypes.float32)
    assert x.bitcast(dtypes.int32).bitcast(dtypes.float32) is x


@pytest.mark.parametrize("op", [Ops.EXP, Ops.LOG, Ops.SIN, Ops.TANH, Ops.ERF], ids=str)
def test_functions_are_left_to_the_device(op: Ops) -> None:
    """Whether a number was known to the compiler must not show in the last bit."""
    assert UOp.alu(op, UOp.const(dtypes.float32, 0.3)).op is op
