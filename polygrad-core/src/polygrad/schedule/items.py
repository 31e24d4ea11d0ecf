"""What a schedule is a list of: kernels and copies over BUFFER leaves."""

from __future__ import annotations

from dataclasses import dataclass

from ..uop.ops import UOp


@dataclass(frozen=True, slots=True)
class KernelItem:
    """One kernel: PARAM slot i of `sink` is `buffers[i]`."""

    sink: UOp
    buffers: tuple[UOp, ...]
    device: str
    variables: tuple[UOp, ...] = ()
    values: tuple[int | None, ...] = ()  # of the variables, where this launch fixes them


@dataclass(frozen=True, slots=True)
class CopyItem:
    """A whole buffer copied to another device."""

    dst: UOp
    src: UOp


Item = KernelItem | CopyItem
