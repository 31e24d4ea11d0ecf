"""Numbered loops, and what is certain of numbers: what kernels of the library are written with.

A kernel of the library is made of numbers that may come from a file, and reads memory that may hold
anything: it refuses the numbers that it cannot take, and stores nothing outside.
"""

from __future__ import annotations

from typing import Any

from ..dtype import DType, dtypes
from ..errors import SpecError
from ..uop.ops import UOp


class Loops:
    """Makes the ranges of one kernel, each with a number of its own."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, lo: UOp | int, hi: UOp | int, kind: str = "loop") -> UOp:
        """A loop from lo to hi - 1."""
        self.made += 1
        return UOp.range(lo, hi, self.made - 1, kind)


def within(place: UOp, count: int) -> UOp:
    """Is an int32 that comes from memory one of the places 0 .. count - 1?"""
    return place.bitcast(dtypes.uint32) < count


def words_of(dtype: Any, fits: bool) -> None:
    """Raise SpecError unless these are words, of numbers that fit a kernel."""
    if not isinstance(dtype, DType) or not dtype.is_unsigned or dtype.bits < 32 or not fits:
        raise SpecError("kernel: these numbers do not fit a kernel of sorted words.")
