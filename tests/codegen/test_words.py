"""64-bit integers on a machine of 32 bits, against numpy: every operation, sums of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygrad import Context, Tensor, Variable, dtypes
from polygrad.errors import UnsupportedOp
from polygrad.testing.lesser import lesser

WIDE = ("int64", "uint64")
EDGES = [
    0, 1, 2, 3, 5, 255, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1,
    (1 << 53) + 1, (1 << 62) + 12345, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 2,
    0xFFFFFFFF00000000, 0x80000000FFFFFFFF, 0x123456789ABCDEF0,
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def machine() -> Iterator[None]:
    """No type of this device has 64 bits; every kernel is checked for that."""
    with lesser("short", without=(dtypes.int64, dtypes.uint64, dtypes.float64)) as name:
        with Context(POLY_DEV=name, POLY_SPEC=1):
            yield


def numbers(name: str, values: list[int] = EDGES) -> np.ndarray:
    return np.array(values, np.uint64).astype(name)


def pairs(name: str) -> tuple[np.ndarray, np.ndarray]:
    values = numbers(name)
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "less": lambda a, b: a < b,
    "less or equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "unequal": lambda a, b: a != b,
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("function", TWO.values(), ids=TWO)
def test_two_numbers(name: str, function: Callable[[Any, Any], Any]) -> None:
    a, b = pairs(name)
    with np.errstate(over="ignore"):
        wanted = function(a, b)
    np.testing.assert_array_equal(function(Tensor(a), Tensor(b)).numpy(), wanted)


@pytest.mark.parametrize("name", WIDE)
def test_extremes_and_selection(name: str) -> None:
    a, b = pairs(name)
    x, y = Tensor(a), Tensor(b)
    np.testing.assert_array_equal(x.maximum(y).numpy(), np.maximum(a, b))
    np.testing.assert_array_equal(x.minimum(y).numpy(), np.minimum(a, b))
    np.testing.assert_array_equal((x < y).where(x, y * 3).numpy(), np.where(a < b, a, b * 3))


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("count", [0, 1, 15, 31, 32, 33, 48, 63])
def test_shifts_by_a_number_and_by_a_tensor(name: str, count: int) -> None:
    a = numbers(name)
    for by in (count, Tensor(np.full(a.shape, count, name))):
        np.testing.assert_array_equal((Tensor(a) << by).numpy(), a << np.array(count, name))
        np.testing.assert_array_equal((Tensor(a) >> by).numpy(), a >> np.array(count, name))


@pytest.mark.parametrize("count", [64, 65, 1 << 40])
def test_shifts_by_the_width_and_more_leave_nothing_or_the_sign(count: int) -> None:
    a = numbers("int64")
    by = Tensor(np.full(a.shape, count, "int64"))
    np.testing.assert_array_equal((Tensor(a) << by).numpy(), np.zeros_like(a))
    np.testing.assert_array_equal((Tensor(a) >> by).numpy(), np.where(a < 0, -1, 0))


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("divisor", [1, 2, 64, 1 << 33])
def test_division_by_powers_of_two_rounds_down(name: str, divisor: int) -> None:
    a = numbers(name)
    np.testing.assert_array_equal((Tensor(a) // divisor).numpy(), a // np.array(divisor, name))
    np.testing.assert_array_equal((Tensor(a) % divisor).numpy(), a % np.array(divisor, name))


@pytest.mark.parametrize("name", WIDE)
def test_division_rounds_down_and_by_zero_is_zero(name: str) -> None:
    a, b = pairs(name)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((Tensor(a) // Tensor(b)).numpy(), a // b)
        np.testing.assert_array_equal((Tensor(a) % Tensor(b)).numpy(), np.where(b == 0, 0, a % b))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(WIDE))
def test_quotients_of_every_size(seed: int, name: str) -> None:
    chance = np.random.default_rng(seed)
    bits = chance.integers(0, 1 << 64, (2, 200), np.uint64)
    a, b = (bits >> chance.integers(0, 64, (2, 200), np.uint64)).astype(name)
    b[b == 0] = 3
    a[::5] = b[::5] * (a[::5] // b[::5])  # divisible, and one less
    a[1::5] = b[1::5] * (a[1::5] // b[1::5]) - 1
    np.testing.assert_array_equal((Tensor(a) // Tensor(b)).numpy(), a // b)
    np.testing.assert_array_equal((Tensor(a) % Tensor(b)).numpy(), a % b)


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize(
    "other", ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
)
def test_casts_between_integers(name: str, other: str) -> None:
    a = numbers(name)
    np.testing.assert_array_equal(Tensor(a).cast(other).numpy(), a.astype(other))
    b = numbers("uint64").astype(other)
    np.testing.assert_array_equal(Tensor(b).cast(name).numpy(), b.astype(name))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=40), st.sampled_from(WIDE))
def test_an_integer_becomes_the_nearest_float(values: list[int], name: str) -> None:
    shifted = [v >> (i * 7 % 64) for i, v in enumerate(values)]
    a = numbers(name, shifted)
    np.testing.assert_array_equal(Tensor(a).float().numpy(), a.astype(np.float32))


def test_a_float_is_cut_and_saturates() -> None:
    x = np.array([0.0, -0.9, 1e10, -1e10, 9.2e18, -9.2e18, 1e30, -1e30, np.nan, np.inf], np.float32)
    top, low = (1 << 63) - 1, -(1 << 63)
    wanted = [0, 0, *(int(v) for v in x[2:6]), top, low, 0, top]
    assert Tensor(x).cast("int64").tolist() == wanted
    positive = [0, 0, int(x[2]), 0, int(x[4]), 0, (1 << 64) - 1, 0, 0, (1 << 64) - 1]
    assert Tensor(x).cast("uint64").tolist() == positive


# ---- along an axis


def odd(chance: np.random.Generator, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Numbers whose products keep all their bits."""
    return (chance.integers(0, 1 << 64, shape, np.uint64) | np.uint64(1)).astype(name)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 300), st.integers(0, 1 << 32), st.sampled_from(WIDE),
    st.sampled_from(["sum", "max", "min", "cumsum"]),
)  # fmt: skip
def test_sums_and_extremes(rows: int, columns: int, seed: int, name: str, function: str) -> None:
    chance = np.random.default_rng(seed)
    bits = chance.integers(0, 1 << 64, (rows, columns), np.uint64)
    a = (bits >> chance.integers(0, 64, (rows, columns), np.uint64)).astype(name)
    got = getattr(Tensor(a), function)(1)
    np.testing.assert_array_equal(got.numpy(), getattr(np, function)(a, axis=1))


@pytest.mark.parametrize("n", [65535, 65536, 65537, 1 << 18])
def test_the_largest_words_do_not_carry_in_long_sums(n: int) -> None:
    a = np.full(n, -1, np.int64)
    a[::3] = (1 << 32) - 1
    assert Tensor(a).sum().item() == int(a.sum())


@pytest.mark.parametrize("name", ["int8", "uint16", "int32", "bool"])
def test_sums_of_narrow_integers_have_64_bits(name: str) -> None:
    a = (np.arange(3000) * 7919 % 251 - 100).astype(name)
    got = Tensor(a).sum()
    assert got.dtype.itemsize == 8 and got.item() == int(a.sum())


@pytest.mark.parametrize("mode", ["sum", "prod", "amax", "amin"])
def test_scattered_values_meet_in_64_bits(mode: str, rng: np.random.Generator) -> None:
    a, index = odd(rng, (300,), "int64"), rng.integers(0, 5, 300)
    wanted = np.ones(5, np.int64)
    meet = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[mode]
    meet.at(wanted, index, a)
    ones = Tensor(np.ones(5, np.int64))
    got = ones.scatter_reduce(0, Tensor(index.astype(np.int32)), Tensor(a), mode)
    np.testing.assert_array_equal(got.numpy(), wanted)


def test_an_index_beyond_32_bits_is_outside() -> None:
    x = np.arange(10, dtype=np.float32)
    index = np.array([3, 1 << 32, (1 << 33) + 2, 9], np.int64)
    picked = Tensor(x).gather(0, Tensor(index))
    np.testing.assert_array_equal(picked.numpy(), [3, 0, 0, 9])


def test_random_numbers_are_every_devices() -> None:
    def drawn() -> list[float]:
        Tensor.manual_seed(11)
        Tensor.rand(7)  # so that the next draw starts at an odd place
        return Tensor.rand(50).tolist() + Tensor.randn(20).tolist()

    here = drawn()
    with Context(POLY_DEV="interp"):
        assert here == drawn()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 300), st.integers(0, 1 << 32), st.sampled_from(WIDE),
    st.sampled_from(["prod", "cumprod"]), st.sampled_from([0, 1]),
)  # fmt: skip
def test_products(rows: int, columns: int, seed: int, name: str, function: str, axis: int) -> None:
    a = odd(np.random.default_rng(seed), (rows, columns), name)
    got = getattr(Tensor(a), function)(axis)
    np.testing.assert_array_equal(got.numpy(), getattr(np, function)(a, axis=axis))


@pytest.mark.parametrize("name", WIDE)
def test_products_of_a_long_vector(name: str, rng: np.random.Generator) -> None:
    a = odd(rng, (100_000,), name)
    x = Tensor(a)
    np.testing.assert_array_equal(x.prod().numpy(), a.prod())
    np.testing.assert_array_equal(x.cumprod(0).numpy(), np.cumprod(a))


@pytest.mark.parametrize("name", ["bool", "int8", "uint16", "int32"])
def test_products_of_narrow_integers_have_64_bits(name: str) -> None:
    a = (np.arange(160).reshape(4, 40) * 7919 % 251 | 1).astype(name)
    for got, wanted in ((Tensor(a).prod(1), a.prod(1)), (Tensor(a).cumprod(1), np.cumprod(a, 1))):
        assert got.dtype.itemsize == 8
        np.testing.assert_array_equal(got.numpy(), wanted)


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("axis", [0, 1])
def test_running_extremes(name: str, axis: int, rng: np.random.Generator) -> None:
    a = rng.integers(0, 1 << 64, (7, 50), np.uint64).astype(name)
    x = Tensor(a)
    np.testing.assert_array_equal(x.cummax(axis)[0].numpy(), np.maximum.accumulate(a, axis))
    np.testing.assert_array_equal(x.cummin(axis)[0].numpy(), np.minimum.accumulate(a, axis))


@pytest.mark.parametrize("name", WIDE)
def test_products_beside_other_reductions(name: str, rng: np.random.Generator) -> None:
    """In one kernel, inside each other, and stored from kernels that several outputs share."""
    a = odd(rng, (6, 9), name)
    x = Tensor(a)
    inner = a * (a.prod(1, keepdims=True) + a.sum(1, keepdims=True))
    ours = x * (x.prod(1, keepdim=True) + x.sum(1, keepdim=True))
    np.testing.assert_array_equal(ours.max(1).numpy(), inner.max(1))
    np.testing.assert_array_equal(ours.prod(1).numpy(), inner.prod(1))
    np.testing.assert_array_equal(ours.cumprod(0).numpy(), np.cumprod(inner, 0))
    found = Tensor.numpy_many(x.prod(1), x.sum(1), x.prod(0), x.max(), x.prod(), x + 1)
    wanted = (a.prod(1), a.sum(1), a.prod(0), a.max(), a.prod(), a + a.dtype.type(1))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("count", [1, 3, 6])
def test_products_of_a_length_that_varies(count: int, rng: np.random.Generator) -> None:
    a = odd(rng, (6, 4), "int64")
    x = Tensor(a)[: Variable("n", 1, 6).bind(count)]
    np.testing.assert_array_equal(x.prod(0).numpy(), a[:count].prod(0))
    np.testing.assert_array_equal(x.prod().numpy(), a[:count].prod())
    np.testing.assert_array_equal(x.cumprod(0).sum(0).numpy(), np.cumprod(a[:count], 0).sum(0))


def test_products_are_not_searched_and_stay_right(rng: np.random.Generator) -> None:
    a = odd(rng, (3, 11), "int64")
    with Context(BEAM=1):
        np.testing.assert_array_equal((Tensor(a) * 7).prod(1).numpy(), (a * 7).prod(1))


def test_what_is_not_composed_is_refused_by_name_and_nothing_is_broken() -> None:
    x = Tensor([1 << 40, 7], dtype="int64")
    with pytest.raises(UnsupportedOp, match="'short' has no float64, and nothing is composed"):
        x.double().realize()
    assert (x + 1).tolist() == [(1 << 40) + 1, 8]
