"""Long sums of products in parts, each of them for many tiles in turn.

The tiles of a convolution read filters, or places of an image, that others have read before. Where
a tile reads more than the first cache holds, all of it comes from the second one every time, an
image channel by channel, a page or more apart. So the sum is cut: each tile of a group adds up one
part, which stays in the first cache, then each the next one. The totals of the group wait near the
core meanwhile; to read and write them costs a percent or two. (AVX2, 32 KB and 512 KB, two threads:
3 x 3 over 56 x 56 and its gradient of the images 0.93-0.95 of the time, over 14 x 14 0.92, over
7 x 7 0.88-0.95. A product of matrices in panels, which lie in the order in which they are read,
gains nothing.)

The parts come from the shape and the first cache, the group from the cores as well: a sum has one
order whatever the threads.
"""

from __future__ import annotations

from typing import NamedTuple

from ...target import Target
from ...uop.ops import UOp, size
from ..kernel import FEW_BLOCKS, Kernel, extent, length, static
from ..transform import parts_of, split, subtotals
from .blocks import FAR_BLOCK
from .common import second_cache

TOTALS = 16  # a part of the second cache
SHARES = 16  # of the work for each core: the last one is a small part of it


class Tile(NamedTuple):
    """Bytes that a register tile reads for a term of its sum, and those of its results."""

    term: int
    total: int


def in_turns(
    kernel: Kernel, target: Target, grid: list[UOp], reduced: list[UOp], tile: Tile
) -> tuple[Kernel, list[UOp], list[UOp]]:
    """The kernel with its sum in parts, if that pays: the grid is without the ranges over the tiles
    of a group, and they stand among the reduced ones, inside of that over the parts."""
    steps = _steps(target, reduced, tile)
    if not steps:
        return kernel, grid, reduced
    group = _group(target, grid, tile)
    parts, terms = reduced[0], reduced[1:]
    if steps > 1:
        made = split(kernel, parts, steps)
        (parts, inside), kernel = parts_of(kernel, made), made
        terms = [inside, *terms]
    grid = [r for r in grid if r not in group]
    return subtotals(kernel, parts), grid, [parts, *group, *terms]


def _steps(target: Target, reduced: list[UOp], tile: Tile) -> int:
    """How many steps of the first of these ranges are a part; 0 where it is not to be cut."""
    first, inside = reduced[0], size([extent(r) for r in reduced[1:]])
    room = target.cache_bytes[0]
    if not static(first) or len(reduced) < 2 or length(first) * inside * tile.term <= room:
        return 0
    n, most = length(first), min(room * 5 // 8 // tile.term, FAR_BLOCK) // inside
    steps = next((d for d in range(min(most, n - 1), 0, -1) if n % d == 0), n)
    return steps if 1 < n // steps <= FEW_BLOCKS else 0


def _group(target: Target, grid: list[UOp], tile: Tile) -> list[UOp]:
    """The last ranges of a grid: as many as have totals that stay near, and leave enough of the
    others for every core."""
    room, enough = second_cache(target) // TOTALS, SHARES * target.cores
    for first in range(len(grid)):
        last = grid[first:]
        if size([extent(r) for r in grid[:first]]) >= enough and all(map(static, last)):
            if size([length(r) for r in last]) * tile.total <= room:
                return last
    return []
