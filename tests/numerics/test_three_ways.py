"""One number whether a kernel computes it from memory, from a lazy expression, or the compiler
folds it: casts, integer arithmetic and rounding at their edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.dtype import TENSOR_DTYPES, promote
from polygrad.uop.folding import fold, fold_cast
from polygrad.uop.ops import Ops

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's division by zero

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2fnuz")
FOLDED = {
    "add": (Ops.ADD, lambda a, b: a + b, np.add),
    "sub": (Ops.SUB, lambda a, b: a - b, np.subtract),
    "mul": (Ops.MUL, lambda a, b: a * b, np.multiply),
    "floor division": (Ops.FLOORDIV, lambda a, b: a // b, np.floor_divide),
    "modulo": (Ops.FLOORMOD, lambda a, b: a % b, np.remainder),
    "maximum": (Ops.MAXIMUM, Tensor.maximum, np.maximum),
    "minimum": (Ops.MINIMUM, Tensor.minimum, np.minimum),
    "shift left": (Ops.SHL, lambda a, b: a << b, np.left_shift),
    "shift right": (Ops.SHR, lambda a, b: a >> b, np.right_shift),
}


def edges(dtype: str) -> list[int]:
    info = np.iinfo(dtype)
    middle = [n for n in (-9, -8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 9) if n >= info.min]
    return [info.min, info.min + 1, *middle, info.max - 1, info.max]


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    a = np.array(edges(dtype), dtype)
    return np.repeat(a, len(a)), np.tile(a, len(a))


def constant(value: Any, dtype: str) -> Tensor:
    return Tensor.full((), value, dtype=dtype)


def three_ways(
    f: Callable[..., Tensor], dtypes: Sequence[str], *columns: Sequence[Any]
) -> list[list[Any]]:
    """f of stored values, of lazy ones, and of constants one by one."""
    stored = [Tensor(list(c), dtype=d).realize() for c, d in zip(columns, dtypes, strict=True)]
    wide = ["float64" if TENSOR_DTYPES[d].is_float else d for d in dtypes]
    lazy = [
        Tensor(list(c), dtype=w).reshape(-1, 1).cast(d).flatten()
        for c, w, d in zip(columns, wide, dtypes, strict=True)
    ]
    rows = [[constant(v, d) for v, d in zip(row, dtypes, strict=True)] for row in zip(*columns)]  # noqa: B905
    made = [f(*row) for row in rows]
    folded = Tensor.stack(*made).tolist() if made else []
    return [f(*stored).tolist(), f(*lazy).tolist(), folded]


def agree(ways: list[list[Any]], expected: Sequence[Any]) -> None:
    for way in ways:
        np.testing.assert_array_equal(way, expected)
        there = [e == e for e in expected]
        np.testing.assert_array_equal(np.signbit(way)[there], np.signbit(expected)[there])


# ---- casts


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTEGERS)
def test_floats_saturate_into_integers(device: str, source: str, target: str) -> None:
    """Towards zero; what does not fit is the nearest that does, NaN is 0."""
    values = [0.0, -0.0, 0.75, -0.75, 2.5, -2.5, 127.5, 255.5, -129.0, 1e30, -1e30]
    values += [math.nan, math.inf, -math.inf, 2.0**31, 2.0**32, 2.0**63, 2.0**64, -(2.0**63)]
    info = np.iinfo(target)
    here = Tensor(values, dtype=source).tolist()
    expected = [0 if v != v else max(info.min, min(info.max, v)) for v in here]
    agree(three_ways(lambda t: t.cast(target), [source], values), [int(v) for v in expected])


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integers_wrap_into_integers(device: str, source: str, target: str) -> None:
    values = edges(source)
    expected = np.array(values, source).astype(target).tolist()
    agree(three_ways(lambda t: t.cast(target), [source], values), expected)


@pytest.mark.parametrize("source", [*INTEGERS, "bool"])
@pytest.mark.parametrize("target", ["float32", "float64", "float16"])
def test_integers_round_once_into_floats(device: str, source: str, target: str) -> None:
    values = [0, 1] if source == "bool" else edges(source)
    if source in ("int64", "uint64"):  # a middle of two float32, and a little more
        values = [*values, 2**60 + 2**36, 2**60 + 2**36 + 1, 2**60 + 3 * 2**36 - 1, 2**53 + 1]
    expected = np.array(values, source).astype(target).astype("float64").tolist()
    agree(three_ways(lambda t: t.cast(target), [source], values), expected)


def test_a_cast_to_a_half_overflows_to_infinity(device: str) -> None:
    values = [65504.0, 65519.0, 65520.0, -65520.0, 1e9, 2.0**-25, 2.0**-25 * 1.5, -(2.0**-26)]
    expected = np.array(values).astype("float16").astype("float64").tolist()
    agree(three_ways(lambda t: t.cast("float16"), ["float32"], values), expected)


def test_a_cast_to_bfloat16_rounds_ties_to_even(device: str) -> None:
    values = [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 3.4e38, -(1 + 2.0**-8)]
    expected = [1.0, 1 + 2.0**-6, 1 + 2.0**-7, math.inf, -1.0]
    agree(three_ways(lambda t: t.cast("bfloat16"), ["float32"], values), expected)


@pytest.mark.parametrize("target", FLOATS)
def test_two_casts_are_not_one(device: str, target: str) -> None:
    """The peer keeps 1.1 where a narrow type in between must have rounded it."""
    values = [1.1, -2.7, 300.3, 1e-7, 70000.0]
    once = Tensor(values, dtype="float64").cast(target).realize().cast("float64").tolist()
    agree(three_ways(lambda t: t.cast(target).cast("float64"), ["float64"], values), once)


@pytest.mark.parametrize("source", FLOATS)
def test_anything_but_zero_is_true(device: str, source: str) -> None:
    values = [0.0, -0.0, 0.5, -1.0, math.nan, 2.0**-9]
    expected = [False, False, True, True, True, True]
    agree(three_ways(lambda t: t.cast("bool"), [source], values), expected)


# ---- integer arithmetic


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", FOLDED)
def test_folding_is_what_kernels_compute(device: str, dtype: str, name: str) -> None:
    """Every pair of edges: division by 0 is 0, the least by -1 wraps, shifts are defined."""
    op, ours, oracle = FOLDED[name]
    a, b = pairs(dtype)
    kernel = ours(Tensor(a).realize(), Tensor(b).realize()).numpy()
    rows = zip(a.tolist(), b.tolist(), strict=True)
    folded = [fold(op, TENSOR_DTYPES[dtype], row) for row in rows]
    np.testing.assert_array_equal(kernel, np.array(folded, dtype))
    if "shift" not in name:  # numpy's shifts beyond the width are not the same everywhere
        np.testing.assert_array_equal(kernel, oracle(a, b))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32"])
def test_quotient_and_rest(device: str, dtype: str) -> None:
    """Rounding down for every combination of signs; divmod is both."""
    values = [v for v in (7, -7, 8, -8, 0, np.iinfo(dtype).min) if v >= np.iinfo(dtype).min]
    by = [v for v in (2, -2, 3, -3, 1, -1, 0) if v >= np.iinfo(dtype).min]
    a = np.repeat(np.array(values, dtype), len(by))
    b = np.tile(np.array(by, dtype), len(values))
    columns = (a.tolist(), b.tolist())
    agree(three_ways(lambda x, y: x // y, [dtype] * 2, *columns), np.floor_divide(a, b).tolist())
    agree(three_ways(lambda x, y: x % y, [dtype] * 2, *columns), np.remainder(a, b).tolist())
    quotient, rest = divmod(Tensor(a), Tensor(b))
    np.testing.assert_array_equal(quotient.numpy(), np.floor_divide(a, b))
    np.testing.assert_array_equal(rest.numpy(), np.remainder(a, b))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_negative_wraps(device: str, dtype: str) -> None:
    values = edges(dtype)
    expected = np.negative(np.array(values, dtype)).tolist()
    agree(three_ways(lambda t: -t, [dtype], values), expected)


@pytest.mark.parametrize("other", [*INTEGERS, "bool"])
@pytest.mark.parametrize("one", [*INTEGERS, "bool"])
def test_mixed_integers_meet_where_numpy_says(device: str, one: str, other: str) -> None:
    """uint16 + int16 is int32; only a signed type with uint64 is float32, not float64."""
    expected = np.promote_types(one, other)
    name = "float32" if expected.kind == "f" else expected.name
    assert promote(TENSOR_DTYPES[one], TENSOR_DTYPES[other]).name == name
    made = Tensor([1], dtype=one) + Tensor([1], dtype=other)
    assert made.dtype.name == name and made.tolist() == [1 if one == other == "bool" else 2]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_a_python_number_never_widens(device: str, dtype: str) -> None:
    t = Tensor([1, 2], dtype=dtype)
    made = [t + 1, t * 3, 2 - t, t // 1, t % 2, t.maximum(1), (t > 1).where(t, 0)]
    if TENSOR_DTYPES[dtype].is_float:
        made += [t + 1.5, t * 0.1, t / 3, t**2.0, t.clip(0.25, 1e9)]
    assert {m.dtype.name for m in made} == {dtype}


def test_bytes_multiply_in_32_bits(device: str) -> None:
    """The peer gives 4800 or 3000000, as its backend likes."""
    a = Tensor(np.full((2, 300), 100, np.int8))
    product = a @ a.T
    assert product.dtype.name == "int32" and product.tolist() == [[3_000_000] * 2] * 2
    low = Tensor(np.full((2, 300), -128, np.int8))
    assert (low @ low.T).tolist() == [[300 * 128 * 128] * 2] * 2


# ---- rounding


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_keeps_the_sign_of_zero(device: str, dtype: str) -> None:
    values = [-0.5, 0.5, 1.5, 2.5, -1.5, -2.5, -0.25, 0.75, -0.75, 0.0, -0.0]
    table = {"round": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
    for name, oracle in table.items():
        expected = oracle(np.array(values))
        if "fnuz" in dtype:  # it has no -0
            expected = expected + 0.0
        agree(three_ways(getattr(Tensor, name), [dtype], values), expected.tolist())
    assert math.copysign(1.0, round(Tensor([-0.5])).item()) == -1.0


def test_folded_casts_are_the_numbers_of_their_type() -> None:
    assert fold_cast(2**60 + 2**36 + 1, TENSOR_DTYPES["int64"], TENSOR_DTYPES["float32"]) == float(
        2**60 + 2**37
    )
