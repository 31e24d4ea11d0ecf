"""Integer and bool expansions against numpy: every pair of 8-bit values, edges of the wider
types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad.codegen.decompose import decompose
from polygrad.codegen.integers import threefry_words
from polygrad.dtype import dtypes
from polygrad.uop.ops import Ops, UOp

WIDTHS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _quietly(f: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return f(*args)

    return call


ORACLES: dict[Ops, Callable[..., Any]] = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.FLOORDIV: _quietly(np.floor_divide),
    Ops.FLOORMOD: _quietly(np.remainder),
    Ops.MAXIMUM: np.maximum,
    Ops.MINIMUM: np.minimum,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.SHL: np.left_shift,
    Ops.SHR: np.right_shift,
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
}


def all_pairs(name: str) -> tuple[Any, Any]:
    values = np.arange(256, dtype=np.uint8).view(name)
    return np.repeat(values, 256), np.tile(values, 256)


def edge_pairs(name: str) -> tuple[Any, Any]:
    info = np.iinfo(name)
    width = info.bits
    small = [1, 2, 3, 7, width - 1, width, width + 1]
    edges = {0, *small, info.max, info.max - 1, info.min, info.min + 1}
    edges |= {-e for e in small} if info.min < 0 else set()
    values = np.array(sorted(edges), dtype=name)
    return np.repeat(values, len(values)), np.tile(values, len(values))


@pytest.mark.parametrize("name", ["int8", "uint8"])
@pytest.mark.parametrize("op", ORACLES)
def test_all_8_bit_pairs(scalars: Any, op: Ops, name: str) -> None:
    a, b = all_pairs(name)
    np.testing.assert_array_equal(scalars.run(op, a, b), ORACLES[op](a, b))


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("op", ORACLES)
def test_edges_of_every_width(scalars: Any, op: Ops, name: str) -> None:
    a, b = edge_pairs(name)
    np.testing.assert_array_equal(scalars.run(op, a, b), ORACLES[op](a, b))


@pytest.mark.parametrize("op", [Ops.FLOORDIV, Ops.FLOORMOD, Ops.SHL, Ops.SHR])
@pytest.mark.parametrize("name", ["int8", "uint8", "int32"])
def test_constant_second_operand(scalars: Any, op: Ops, name: str) -> None:
    """A known divisor or count takes another path for each kind of number."""
    a = edge_pairs(name)[0] if name == "int32" else all_pairs(name)[1][:256]
    dtype = getattr(dtypes, name)
    x = scalars.leaf(dtype)
    for c in (-128, -8, -3, -2, -1, 0, 1, 2, 3, 5, 7, 8, 9, 31, 32, 64, 100, 127):
        constant = np.array(c).astype(name)
        made = decompose(UOp.alu(op, x, UOp.const(dtype, int(constant))), scalars.target)
        got = np.broadcast_to(scalars.evaluate(made, {x: a}), a.shape)
        np.testing.assert_array_equal(got, ORACLES[op](a, constant), err_msg=f"{op} {c}")


@pytest.mark.parametrize("op", [Ops.FLOORDIV, Ops.FLOORMOD])
def test_division_of_a_non_negative_index_is_one_instruction(scalars: Any, op: Ops) -> None:
    i = UOp.range(0, 1000, 0)
    truncating = {Ops.FLOORDIV: Ops.IDIV, Ops.FLOORMOD: Ops.IMOD}
    cheap = {Ops.FLOORDIV: Ops.SHR, Ops.FLOORMOD: Ops.AND}
    for divisor, expected in ((7, truncating[op]), (8, cheap[op])):
        made = decompose(UOp.alu(op, i, UOp.index(divisor)), scalars.target)
        assert made.op is expected and made.src[0] is i


def test_shift_of_a_known_count_stays(scalars: Any) -> None:
    x = scalars.leaf(dtypes.int32)
    assert decompose(x << 5, scalars.target) is x << 5


@pytest.mark.parametrize("op", [*ORACLES, Ops.NEG, Ops.NOT])
def test_bool(scalars: Any, op: Ops) -> None:
    """numpy has no bool - bool and its floor division gives int8: those are compared as numbers."""
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    if op is Ops.NEG:
        np.testing.assert_array_equal(scalars.run(op, a), a)
    elif op is Ops.NOT:
        np.testing.assert_array_equal(scalars.run(op, a), ~a)
    elif op is Ops.SUB:
        np.testing.assert_array_equal(scalars.run(op, a, b), a ^ b)
    elif op in (Ops.SHL, Ops.SHR):
        np.testing.assert_array_equal(scalars.run(op, a, b), a & ~b)
    else:
        np.testing.assert_array_equal(scalars.run(op, a, b), ORACLES[op](a, b).astype(bool))


@pytest.mark.parametrize("op", [Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND])
def test_rounding_an_integer_changes_nothing(scalars: Any, op: Ops) -> None:
    x = scalars.leaf(dtypes.int32)
    assert decompose(UOp(op, dtypes.int32, (x,)), scalars.target) is x


def test_negation_wraps(scalars: Any) -> None:
    for name in WIDTHS:
        a = edge_pairs(name)[0]
        np.testing.assert_array_equal(scalars.run(Ops.NEG, a), np.negative(a))


def test_cast_to_bool_is_not_zero(scalars: Any) -> None:
    x = scalars.leaf(dtypes.float32)
    values = np.array([0.0, -0.0, 0.3, np.nan, np.inf, 1e-45], np.float32)
    made = decompose(x.cast(dtypes.bool), scalars.target)
    assert list(scalars.evaluate(made, {x: values})) == [False, False, True, True, True, True]


# ---- threefry

# Known answers of Random123 1.14's kat_vectors for threefry2x32, 20 rounds: counter, key, result.
KNOWN = (
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
)
Words = tuple[int, int]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_threefry_known_answers(scalars: Any, counter: Words, key: Words, result: Words) -> None:
    leaves = [scalars.leaf(dtypes.uint32, i) for i in range(4)]
    numbers = [np.array([n], np.uint32) for n in (*counter, *key)]
    values = dict(zip(leaves, numbers, strict=True))
    words = (decompose(w, scalars.target) for w in threefry_words(*leaves))
    assert tuple(int(scalars.evaluate(w, values)[0]) for w in words) == result


def draw(scalars: Any, element: UOp, numbers: Any, key0: int = 0, key1: int = 0) -> list[int]:
    keys = (UOp.const(dtypes.uint32, key0), UOp.const(dtypes.uint32, key1))
    made = decompose(UOp.alu(Ops.THREEFRY, element, *keys), scalars.target)
    return [int(w) for w in scalars.evaluate(made, {element: numbers})]


def test_element_number_selects_block_and_word(scalars: Any) -> None:
    """Elements 2n and 2n + 1 are the two words of block n, also beyond 2^33."""
    numbers = np.array([0, 1, 2, 3, (1 << 33) + 6, (1 << 33) + 7, (1 << 63) + 1], np.uint64)
    words = draw(scalars, scalars.leaf(dtypes.uint64), numbers)
    assert tuple(words[:2]) == KNOWN[0][2]
    assert len(set(words)) == len(numbers)


def test_a_bounded_element_number_draws_the_same(scalars: Any) -> None:
    numbers = np.arange(100, dtype=np.uint64)
    bounded = UOp.variable("e", 0, 1 << 20, dtypes.uint64)
    wide = scalars.leaf(dtypes.uint64)
    assert draw(scalars, bounded, numbers, 5, 9) == draw(scalars, wide, numbers, 5, 9)
