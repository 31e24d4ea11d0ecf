"""Integer division and modulo by zero give numpy's value, 0, and never a signal. The other quotient
that traps on some machines, the least integer by -1, wraps as numpy's does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor, jit

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
}
NUMPYS: dict[str, Callable[[Any, Any], Any]] = {
    "//": np.floor_divide,
    "%": np.remainder,
}


def edges(dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    values = [0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1]
    return np.array(values + ([-1, -2, -7] if info.min else []), dtype)


def numpys(operation: str, x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return NUMPYS[operation](x, y)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_pair_of_edges_is_numpys(dtype: str, operation: str, device: str) -> None:
    x = edges(dtype)[:, None]
    y = edges(dtype)[None, :]
    found = OPERATIONS[operation](Tensor(x), Tensor(y))
    np.testing.assert_array_equal(found.numpy(), numpys(operation, x, y), strict=True)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_constant_zero_divides_to_zero(dtype: str, operation: str, device: str) -> None:
    x = edges(dtype)
    found = OPERATIONS[operation](Tensor(x), 0)
    np.testing.assert_array_equal(found.numpy(), np.zeros_like(x), strict=True)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_constant_by_zeros_is_zero(dtype: str, operation: str, device: str) -> None:
    zeros = np.zeros(5, dtype)
    found = OPERATIONS[operation](7, Tensor(zeros))
    np.testing.assert_array_equal(found.numpy(), zeros, strict=True)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_rounding_towards_zero_and_its_remainder_are_defined_too(dtype: str, device: str) -> None:
    x = edges(dtype)
    zeros = Tensor(np.zeros_like(x))
    quotient = Tensor(x).div(zeros, rounding_mode="trunc")
    remainder = Tensor(x).fmod(zeros)
    np.testing.assert_array_equal(quotient.numpy(), np.zeros_like(x), strict=True)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(remainder.numpy(), np.fmod(x, 0 * x), strict=True)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_number_that_is_zero_in_one_call_only(operation: str, device: str) -> None:
    """The divisor is a variable of the compiled graph: no constant is folded."""
    step = jit(OPERATIONS[operation])
    x = np.array([5, -5, 0], "int32")
    for divisor in (3, 0, -2):
        found = step(Tensor(x), divisor)
        expected = numpys(operation, x, np.int32(divisor))
        np.testing.assert_array_equal(found.numpy(), expected, strict=True)


def test_in_place_and_long_vectors(device: str) -> None:
    x = np.arange(-500, 500, dtype="int64")
    y = x % 7 - 3  # every seventh is 0
    found = Tensor(x)
    found //= Tensor(y)
    np.testing.assert_array_equal(found.numpy(), numpys("//", x, y), strict=True)
