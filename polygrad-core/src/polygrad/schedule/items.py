"""What a schedule is: a list of kernels and copies over BUFFER leaves, and where its values lie."""

from __future__ import annotations

from typing import NamedTuple

from ..uop.ops import UOp


class KernelItem(NamedTuple):
    """One kernel: PARAM slot i of `sink` is `buffers[i]`."""

    sink: UOp
    buffers: tuple[UOp, ...]
    device: str
    variables: tuple[UOp, ...] = ()
    values: tuple[int | None, ...] = ()  # of the variables, where this launch fixes them


class CopyItem(NamedTuple):
    """A whole buffer copied to another device."""

    dst: UOp
    src: UOp


Item = KernelItem | CopyItem


class Schedule(NamedTuple):
    """`items` in an order that respects every dependency; `results[i]` holds root i; `writes` are
    assignments as (old leaf, leaf of the new value), one leaf where the kernel writes in place."""

    items: tuple[Item, ...]
    results: tuple[UOp, ...]
    writes: tuple[tuple[UOp, UOp], ...]


class Planned(NamedTuple):
    """A schedule, and the leaf of every node that it stores."""

    schedule: Schedule
    leaves: dict[UOp, UOp]
