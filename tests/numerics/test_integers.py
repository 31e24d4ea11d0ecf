"""Row 6 of the reliability regime: integers wrap as numpy's; shifts and division by 0 are defined.

Every pair of 8-bit values through twenty operations, and the edges of the wider types, bit-equal to
numpy on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's division by zero

Pair = tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]

BINARY: dict[str, Pair] = {
    "add": (lambda a, b: a + b, np.add),
    "sub": (lambda a, b: a - b, np.subtract),
    "mul": (lambda a, b: a * b, np.multiply),
    "floor_divide": (lambda a, b: a // b, np.floor_divide),
    "mod": (lambda a, b: a % b, np.remainder),
    "fmod": (Tensor.fmod, np.fmod),
    "maximum": (Tensor.maximum, np.maximum),
    "minimum": (Tensor.minimum, np.minimum),
    "and": (lambda a, b: a & b, np.bitwise_and),
    "or": (lambda a, b: a | b, np.bitwise_or),
    "xor": (lambda a, b: a ^ b, np.bitwise_xor),
    "shift left": (lambda a, b: a << b, np.left_shift),
    "shift right": (lambda a, b: a >> b, np.right_shift),
    "less": (lambda a, b: a < b, np.less),
    "less or equal": (lambda a, b: a <= b, np.less_equal),
    "equal": (lambda a, b: a == b, np.equal),
    "not equal": (lambda a, b: a != b, np.not_equal),
    "where": (lambda a, b: (a > b).where(a, b), lambda a, b: np.where(a > b, a, b)),
    "logical and": (Tensor.logical_and, np.logical_and),
    "true division": (lambda a, b: a / b, lambda a, b: np.divide(a, b, dtype=np.float32)),
}
UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "neg": (lambda t: -t, np.negative),
    "invert": (lambda t: ~t, np.invert),
    "abs": (abs, np.abs),
    "sign": (Tensor.sign, np.sign),
    "square": (Tensor.square, np.square),
    "floor": (Tensor.floor, lambda x: x),
    "bool": (Tensor.bool, lambda x: x.astype(bool)),
    "to float": (Tensor.float, lambda x: x.astype(np.float32)),
}
# A constant operand is compiled another way than a variable one.
CONSTANTS = (-128, -8, -3, -1, 0, 1, 2, 3, 7, 8, 100, 127)
WIDE = ("int16", "uint16", "int32", "uint32", "int64", "uint64")


def all_pairs(dtype: str) -> tuple[Any, Any]:
    values = np.arange(256, dtype=np.uint8).view(dtype)
    return np.repeat(values, 256), np.tile(values, 256)


def edges(dtype: str) -> Any:
    info = np.iinfo(dtype)
    small = [1, 2, 3, 7, info.bits - 1, info.bits, info.bits + 1]
    negative = [-n for n in small] if info.min < 0 else []
    values = {0, *small, *negative, info.max, info.max - 1, info.min, info.min + 1}
    return np.array(sorted(values), dtype)


def compare(table: Mapping[str, Any], *arrays: Any) -> None:
    tensors = [Tensor(a) for a in arrays]
    got = Tensor.numpy_many(*[ours(*tensors) for ours, _ in table.values()])
    for (name, (_, oracle)), value in zip(table.items(), got, strict=True):
        expected = oracle(*arrays)
        assert value.dtype == expected.dtype, name
        np.testing.assert_array_equal(value, expected, err_msg=f"{name} of {arrays[0].dtype}")


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_all_8_bit_pairs(device: str, dtype: str) -> None:
    compare(BINARY, *all_pairs(dtype))


@pytest.mark.parametrize("dtype", WIDE)
def test_edges_of_wide_types(device: str, dtype: str) -> None:
    values = edges(dtype)
    compare(BINARY, np.repeat(values, len(values)), np.tile(values, len(values)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", *WIDE])
def test_unary(device: str, dtype: str) -> None:
    compare(UNARY, np.unique(np.concatenate([edges(dtype), np.arange(128).astype(dtype)])))


@pytest.mark.parametrize("name", ["floor_divide", "mod", "shift left", "shift right", "mul"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_constant_operand(device: str, dtype: str, name: str) -> None:
    """A constant divisor or count is compiled another way than a variable one."""
    ours, oracle = BINARY[name]
    values = np.arange(256, dtype=np.uint8).view(dtype) if "8" in dtype else edges(dtype)
    fitting = [c for c in CONSTANTS if c >= np.iinfo(dtype).min]
    table = {
        str(c): (lambda t, c=c: ours(t, c), lambda x, c=c: oracle(x, x.dtype.type(c)))
        for c in fitting
    }
    compare(table, values)


def test_bool(device: str) -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    names = ("add", "mul", "maximum", "minimum", "and", "or", "xor", "less", "less or equal")
    compare({name: BINARY[name] for name in (*names, "equal", "not equal", "where")}, a, b)
    compare({"invert": UNARY["invert"]}, a)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_float_to_integer_saturates(device: str, dtype: str) -> None:
    """numpy leaves this undefined: here NaN is 0 and what does not fit is the nearest that does."""
    info = np.iinfo(dtype)
    values = [0.0, -0.7, 0.7, 2.5, -2.5, np.nan, np.inf, -np.inf, 1e30, -1e30, 127.9, 255.9]
    expected = [0 if np.isnan(v) else int(max(info.min, min(info.max, v))) for v in values]
    got = Tensor(values, dtype="float64").cast(dtype).numpy()
    assert got.tolist() == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
def test_integer_casts_wrap(device: str, dtype: str) -> None:
    values = edges("int64")
    np.testing.assert_array_equal(Tensor(values).cast(dtype).numpy(), values.astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_sums_wrap_and_widen_as_documented(device: str, dtype: str) -> None:
    """Small integers are summed in 32 bits, 64-bit ones wrap."""
    values = np.full(1000, np.iinfo(dtype).max, dtype)
    total = Tensor(values).sum()
    wide = np.dtype(str(total.dtype).removeprefix("dtypes."))
    assert total.numpy() == values.astype(wide).sum(dtype=wide)


# ---- powers


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_power_of_8_bits(device: str, dtype: str) -> None:
    """All bits of the exponent count: 2**8 is 0, 3**9 is -29."""
    info = np.iinfo(dtype)
    bases, exponents = np.arange(info.min, info.max + 1), np.arange(info.max + 1)
    x, y = (m.ravel().astype(dtype) for m in np.meshgrid(bases, exponents))
    np.testing.assert_array_equal((Tensor(x) ** Tensor(y)).numpy(), x**y)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_powers_of_wide_integers(device: str, rng: np.random.Generator, dtype: str) -> None:
    info = np.iinfo(dtype)
    edges = np.array([0, 1, 2, 3, 4, 6, info.max, info.max - 1, info.min, info.min + 1], dtype)
    x = np.concatenate([rng.integers(info.min, info.max, 3000, dtype, endpoint=True), edges])
    few = np.concatenate([np.arange(100), [info.max, info.max - 1, info.max // 2]]).astype(dtype)
    y = np.concatenate([rng.integers(0, info.max, 60, dtype, endpoint=True), few])
    x, y = (m.ravel() for m in np.meshgrid(x[-200:], y))
    np.testing.assert_array_equal((Tensor(x) ** Tensor(y)).numpy(), x**y)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_negative_powers_round_to_an_integer(device: str, dtype: str) -> None:
    """1 / x**-y as an integer, torch's rule: 1 and -1 stay, others are 0."""
    x = np.array([1, -1, -1, 2, -2, 0, 7], dtype)
    y = np.array([-3, -3, -4, -1, -1, -2, -100], dtype)
    assert (Tensor(x) ** Tensor(y)).tolist() == [1, -1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(("base", "exponent"), [(2, 64), (2, 32), (3, 65), (-2, 63), (10, 200)])
def test_powers_by_a_constant(device: str, base: int, exponent: int) -> None:
    x = np.array([base], np.int32)
    assert (Tensor(x) ** exponent).tolist() == (x**exponent).tolist()
