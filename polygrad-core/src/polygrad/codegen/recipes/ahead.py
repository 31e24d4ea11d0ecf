"""What the tiles of a contraction ask for ahead of time: factors, and what their results meet.

A tile reads for longer than memory takes to answer; what the next ones read can be on its way
meanwhile, wherever the machine does not foresee it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...target import Target
from ...uop.linear import ranges_of
from ...uop.ops import Ops, UOp
from ..hints import ask, prefetch
from ..kernel import Kernel, extent
from ..transform import ScheduleError
from .common import LEAST_ROW, loads, second_cache, step

if TYPE_CHECKING:
    from .contraction import Matrices


def ask_for_operands(kernel: Kernel, target: Target, rows: UOp) -> Kernel:
    """Prefetch what the results of the next tile meet (a weight and its moments in an optimizer's
    update, a residual): down a strip of columns they are a line in each row, which the machine does
    not foresee. Measured on AVX2, two threads: 512 x 784 over 256 with Adam's update 0.8 of the
    time, 512 x 512 0.97."""
    summed = set(loads(kernel.reductions))
    for number, load in enumerate(loads(kernel.stores)):
        param, distance = load.src[0].src[0], step(load, rows)
        if load in summed or load.arg is not None or param.op is not Ops.PARAM or not distance:
            continue
        far = param.arg[1] * param.dtype.itemsize > second_cache(target) // 2
        if far and abs(distance) * param.dtype.itemsize >= LEAST_ROW:
            kernel = prefetch(kernel, number, rows, 1)
    return kernel


def ask_for_factors(
    kernel: Kernel, target: Target, matrices: Matrices, grid: list[UOp], lane: UOp | None
) -> Kernel:
    """Prefetch the next strip, or the next matrix, while the tiles of this one are computed."""
    if len(grid) < 2:
        return kernel
    if matrices.second > second_cache(target) // 2:
        return _ask_for_strips(kernel, lane, grid[-2], grid[-1])
    return _ask_for_matrices(kernel, target, matrices, grid)


def _ask_for_strips(kernel: Kernel, lane: UOp | None, strip: UOp, rows: UOp) -> Kernel:
    """Prefetch the next strip of columns while the tiles of this one are computed, if it lies in
    one piece. Measured on AVX-512, two threads: 1024 takes 0.97 of the time, 2048 0.96. (To ask for
    all of it in every tile gains nothing: a line that is there is asked for like one that is not.)
    """
    for number, load in enumerate(loads(kernel.stores)):
        if lane in ranges_of(load) and step(load, strip):
            with suppress(ScheduleError):  # not in one piece
                return ask(kernel, number, strip, rows)
    return kernel


def _ask_for_matrices(
    kernel: Kernel, target: Target, matrices: Matrices, grid: list[UOp]
) -> Kernel:
    """Prefetch the next matrices of a batch while the tiles of these are computed, if all of them
    are more than the second cache holds. Measured on AVX-512, two threads: 256 of 64 x 64 take 0.89
    of the time, 128 of 96 x 96 0.88, 64 of 128 x 128 0.95, 1024 of 32 x 32 0.97."""
    one, room = matrices.first + matrices.second, second_cache(target)
    batch = matrices.batch[-1:]
    if not batch or not 4 * one <= room < one * extent(batch[0]):
        return kernel
    tiles = grid[grid.index(batch[0]) + 1 :]
    read = loads(kernel.stores)
    for number in reversed(range(len(read))):  # a hint is a load: it moves those after it
        if step(read[number], batch[0]):
            with suppress(ScheduleError):  # not in one piece, or read by what is left over alone
                kernel = ask(kernel, number, batch[0], *tiles)
    return kernel
