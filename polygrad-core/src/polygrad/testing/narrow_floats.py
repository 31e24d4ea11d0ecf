"""Floats that numpy lacks, judged by searching in the list of all their numbers.

The judges' own definition of bfloat16 and the 8-bit floats, which shares nothing with the compiler:
each type is the sorted list of its finite numbers, whose place is their code, and rounding is a
search for the nearest. Values are float32 arrays, which hold them all.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

Array = Any  # numpy.ndarray of any dtype

LACKING: Final = {  # bits of the stored mantissa, exponent of 1.0, codes of finite numbers
    "bfloat16": (7, 127, 0x7F80),
    "float8_e4m3fn": (3, 7, 0x7F),
    "float8_e5m2": (2, 15, 0x7C),
    "float8_e4m3fnuz": (3, 8, 0x80),
    "float8_e5m2fnuz": (2, 16, 0x80),
}
_TOO_LARGE: Final = {"bfloat16": np.inf, "float8_e5m2": np.inf, "float8_e4m3fn": 448.0}  # else NaN


@cache
def _numbers(name: str) -> Array:
    """Every finite number that is not negative, in order: its place in the list is its code; then
    the first one that does not fit."""
    mantissa, one, count = LACKING[name]
    code = np.arange(count + 1)
    field, rest = code >> mantissa, code & ((1 << mantissa) - 1)
    whole = np.where(field > 0, rest + (1 << mantissa), rest)
    return np.ldexp(whole.astype(np.float64), np.maximum(field, 1) - one - mantissa)


def nearest(value: Array, name: str) -> Array:
    """The nearest number of a type that numpy lacks, ties to the even code, as float32."""
    numbers, size = _numbers(name), np.abs(np.asarray(value, np.float64))
    code = np.minimum(np.searchsorted(numbers, size), len(numbers) - 1)  # the first not below
    below = np.maximum(code - 1, 0)
    down, up = size - numbers[below], numbers[code] - size
    code = np.where((down < up) | ((down == up) & (below % 2 == 0)), below, code)
    found = np.where(code == len(numbers) - 1, _TOO_LARGE.get(name, np.nan), numbers[code])
    found = np.where(np.isnan(size), np.nan, found)
    signed = np.copysign(found, value)
    no_zero = name.endswith("fnuz") & (found == 0)
    return np.where(no_zero, 0.0, signed).astype(np.float32)


def to_words(value: Array, name: str) -> Array:
    """The bits of numbers of such a type."""
    numbers, size = _numbers(name), np.abs(np.asarray(value, np.float64))
    top = 1 << (15 if name == "bfloat16" else 7)
    odd = {"bfloat16": (0x7F80, 0x7FC0), "float8_e5m2": (0x7C, 0x7F)}
    infinity, nan = odd.get(name, (0, 0x7F if name == "float8_e4m3fn" else 0x80))
    code = np.where(np.isinf(size), infinity, np.searchsorted(numbers, size))
    code = np.where(np.isnan(size), nan, code) | np.where(np.signbit(value), top, 0)
    return code.astype(np.uint16 if name == "bfloat16" else np.uint8)


def from_words(words: Array, name: str) -> Array:
    """The numbers that bits are, as float32."""
    top = 1 << (15 if name == "bfloat16" else 7)
    code = np.asarray(words).astype(np.int64)
    count = LACKING[name][2]
    size = np.append(_numbers(name)[:count], [_TOO_LARGE.get(name, np.nan), np.nan])
    if name == "float8_e4m3fn":
        size[count] = np.nan
    found = size[np.minimum(code & (top - 1), count + 1)]
    found = np.where(code >= top, -found, found)
    return np.where(name.endswith("fnuz") & (code == top), np.nan, found).astype(np.float32)
