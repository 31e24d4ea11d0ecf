"""Tiles over windows of an image: what a convolution asks of a contraction's register tile.

Windows overlap, so the steps of a sum over them read what other places of a tile have read; and
places have more than one axis, so a tile need not go along the one that vectors run along.
"""

from __future__ import annotations

from ...target import Target
from ...uop.linear import ranges_of
from ...uop.ops import UOp
from ..kernel import Kernel, length, static
from .common import loads, step

MAX_ROWS = 8  # of a tile
SHORT = 4  # steps of a sum that are printed out
SPILLED = 4  # registers: so many do not count, their loads and stores find room


def beside(kernel: Kernel, lane: UOp, loops: list[UOp]) -> list[UOp]:
    """Ranges that move what is read in vectors alone, the nearest first."""
    read = loads(kernel.reductions)
    moved = [a for a in read if lane in ranges_of(a)]
    others = [a for a in read if lane not in ranges_of(a)]
    alone = [r for r in loops if static(r) and not any(r in ranges_of(a) for a in others)]
    return sorted(alone, key=lambda r: max((abs(step(a, r) or 0) for a in moved), default=0))


def in_registers(
    kernel: Kernel, target: Target, lane: UOp | None, ranges: tuple[UOp, ...], live: int
) -> tuple[UOp, ...]:
    """The reduced ones of these ranges, rows and then reduced, in an order in which a tile stays in
    registers, of which one step takes `live`.

    Where the rows are places of an image, steps along a window have scalars in common, and printed
    out all of them are live at once. If that is far too much, steps along the window's other axis
    are printed out: they share none. (AVX2, two threads: 3 x 3 over 28 x 28 along channels 1.5x; a
    tile of 5 x 2, which spills three registers, gains nothing.)
    """
    rows, *reduced = ranges
    scalars = [a for a in loads(kernel.reductions) if lane not in ranges_of(a)]
    last = reduced[-1]
    if _in_common(scalars, rows, last) and live + length(last) - 1 > target.registers + SPILLED:
        short = [r for r in reduced if static(r) and length(r) <= SHORT]
        last = next((r for r in reversed(short) if not _in_common(scalars, rows, r)), last)
    return (*(r for r in reduced if r is not last), last)


def _in_common(scalars: list[UOp], rows: UOp, loop: UOp) -> bool:
    """Do the steps of a short range read again what neighbouring rows of a tile have read?"""
    if not static(loop) or length(loop) > SHORT or len(scalars) != 1:
        return False
    far, near = (abs(step(scalars[0], r) or 0) for r in (loop, rows))
    return 0 < near <= far * (length(loop) - 1) and 0 < far < MAX_ROWS * near
