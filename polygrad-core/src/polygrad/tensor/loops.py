"""Numbered loops: what a kernel of the library counts its ranges with."""

from __future__ import annotations

from ..uop.ops import UOp


class Loops:
    """Makes the ranges of one kernel, each with a number of its own."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, lo: UOp | int, hi: UOp | int, kind: str = "loop") -> UOp:
        """A loop from lo to hi - 1."""
        self.made += 1
        return UOp.range(lo, hi, self.made - 1, kind)
