"""Remainders and rounded quotients of floats, bit for bit numpy's, whatever the quotient.

`fmod` is exact in IEEE arithmetic; numpy's `%` and `//` follow from it. Random bits give every
exponent, subnormals and NaN; a grid gives every pair of exponents and each special value. The same
on a machine that has neither float64 nor integers of 64 bits, where all of it is made of words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor, dtypes
from polygrad.testing.lesser import lesser

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's division by zero

Array = Any
OPS: dict[str, tuple[Callable[[Any, Any], Any], Callable[..., Array]]] = {
    "fmod": (Tensor.fmod, np.fmod),
    "mod": (lambda a, b: a % b, np.remainder),
    "floor_divide": (lambda a, b: a // b, np.floor_divide),
}
FLOATS = (np.float32, np.float64)
BITS = {np.float32: np.uint32, np.float64: np.uint64}


def check(name: str, a: Array, b: Array) -> None:
    ours, numpys = OPS[name]
    got, want = ours(Tensor(a), Tensor(b)).numpy(), numpys(a, b)
    assert got.dtype == want.dtype
    equal = (got == want) & (np.signbit(got) == np.signbit(want))
    wrong = np.flatnonzero(~(equal | (np.isnan(got) & np.isnan(want))))
    shown = [(a[i], b[i], got[i], want[i]) for i in wrong[:3]]
    assert not wrong.size, f"{wrong.size} of {a.size}: {shown}"


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_random_bits(device: str, rng: np.random.Generator, name: str, dtype: Any) -> None:
    count = 300_000 if device == "cpu" else 30_000
    made = BITS[dtype]
    a, b = rng.integers(0, np.iinfo(made).max, (2, count), made, endpoint=True).view(dtype)
    check(name, a, b)


def special_values(dtype: Any) -> tuple[Array, Array]:
    """Every pair of them."""
    info = np.finfo(dtype)
    some = [0.0, 1, np.inf, info.max, info.tiny, info.smallest_subnormal, 7, 3, 0.1, 9090, 1e20]
    some += [1e38, 0.5, 1 - info.epsneg, 2**24 - 1, 2**24 + 2, 2.0**53 - 1, 2.0**52 + 1]
    values = np.array([*some, *(-v for v in some), np.nan], dtype)
    a, b = (m.ravel() for m in np.meshgrid(values, values))
    return a, b


def grid(step: int) -> tuple[Array, Array]:
    """Every pair of exponents of float32, with digits that a stride of a prime brings about."""
    values = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    a, b = (m.ravel() for m in np.meshgrid(values, values))
    return a, b


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(device: str, name: str, dtype: Any) -> None:
    check(name, *special_values(dtype))


@pytest.mark.parametrize("name", OPS)
def test_float32_grid(device: str, name: str) -> None:
    check(name, *grid(7_919_111 if device == "cpu" else 33_333_337))


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    """A machine whose widest numbers have 32 bits."""
    wide = (dtypes.int64, dtypes.uint64, dtypes.float64)
    with lesser("plain", without=wide) as name:
        with Context(POLY_DEV=name, POLY_SPEC=1):
            yield name


@pytest.mark.parametrize("name", OPS)
def test_a_machine_of_32_bits(plain: str, rng: np.random.Generator, name: str) -> None:
    bits = rng.integers(0, 1 << 32, (2, 30_000), np.uint64).astype(np.uint32)
    check(name, *bits.view(np.float32))
    check(name, *grid(33_333_337))
    check(name, *special_values(np.float32))


@pytest.mark.parametrize("name", OPS)
def test_numbers_that_are_known_on_a_machine_of_32_bits(
    plain: str, rng: np.random.Generator, name: str
) -> None:
    ours, numpys = OPS[name]
    a = (rng.standard_normal(2_000) * 100).astype(np.float32)
    for divisor in (3.0, -0.7, 1e-40, 1e30, float("inf"), 0.0):
        got = ours(Tensor(a), divisor).numpy()
        np.testing.assert_array_equal(got, numpys(a, np.float32(divisor)))


@pytest.mark.parametrize("name", OPS)
def test_ordinary_quotients(device: str, rng: np.random.Generator, name: str) -> None:
    a = (rng.standard_normal(20_000) * 100).astype(np.float32)
    check(name, a, rng.standard_normal(20_000).astype(np.float32))
    whole = rng.integers(1, 1 << 62, 20_000).astype(np.float64)
    check(name, whole, rng.integers(1, 1 << 40, 20_000).astype(np.float64))


@pytest.mark.parametrize("name", OPS)
def test_float16_through_float32(device: str, rng: np.random.Generator, name: str) -> None:
    a, b = rng.integers(0, 1 << 16, (2, 30_000)).astype(np.uint16).view(np.float16)
    ours, numpys = OPS[name]
    got = ours(Tensor(a), Tensor(b)).numpy()
    want = numpys(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(got, want)


def test_numbers_of_the_report(device: str) -> None:
    ten, huge = (Tensor(np.float32(v)) for v in (1e10, 1e38))
    assert (ten % 7).item() == 4.0
    assert (huge % 9090).item() == np.remainder(np.float32(1e38), np.float32(9090))
    assert Tensor(np.float32(1e20)).fmod(3).item() == 2.0
    assert (Tensor(1e20) // 3).item() == np.floor_divide(np.float32(1e20), np.float32(3))


@pytest.mark.parametrize(
    ("op", "slope"),
    [(lambda a, b: a % b, np.floor_divide), (Tensor.fmod, lambda a, b: np.trunc(a / b))],
    ids=["mod", "fmod"],
)
def test_slopes(device: str, op: Any, slope: Any) -> None:
    a, b = np.array([7.5, -7.5, 2.0]), np.array([2.0, 2.0, -3.0])
    x, y = Tensor(a), Tensor(b)
    dx, dy = op(x, y).sum().gradient(x, y)
    np.testing.assert_array_equal(dx.numpy(), np.ones(3))
    np.testing.assert_array_equal(dy.numpy(), -slope(a, b))
