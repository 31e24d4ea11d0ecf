"""The last steps before printing: expressions the target knows, offsets in loop order."""

from __future__ import annotations

from dataclasses import replace

from ..contract import LinearProgram
from ..dtype import DType, dtypes
from ..target import Target
from ..uop.ops import Ops, UOp
from .decompose import decompose
from .kernel import Kernel, steps
from .linearize import program
from .masks import narrow_masks
from .offsets import ordered_offsets
from .postfix import postfix
from .words import in_words, lacks


def lower(kernel: Kernel, target: Target, name: str, note: str = "") -> LinearProgram:
    """The LinearProgram of a transformed kernel."""
    grid = tuple(postfix(steps(r)) for r in kernel.of_kind("grid"))
    return program(lowered(kernel, target), target, name, index_dtype(target), grid, note)


def lowered(kernel: Kernel, target: Target) -> Kernel:
    """The kernel as it is printed."""
    kernel = _decomposed(kernel, target)
    kernel = replace(kernel, stores=tuple(narrow_masks(kernel)))
    return replace(kernel, stores=tuple(ordered_offsets(kernel)))


def _decomposed(kernel: Kernel, target: Target) -> Kernel:
    """Stores and loop bounds in operations of the target, in one pass over what they share."""
    everything = UOp(Ops.SINK, dtypes.void, (*kernel.stores, *kernel.order))
    new = decompose(everything, target).src
    if lacks(target):  # what a rule computed in 64 bits
        new = decompose(UOp(Ops.SINK, dtypes.void, tuple(in_words(new, target))), target).src
    stores, order = new[: len(kernel.stores)], new[len(kernel.stores) :]
    kinds = {
        b: kernel.kinds[a] for a, b in zip(kernel.order, order, strict=True) if a in kernel.kinds
    }
    return replace(kernel, stores=stores, order=order, kinds=kinds)


def index_dtype(target: Target) -> DType:
    return dtypes.int64 if target.supports(Ops.ADD, dtypes.int64) else dtypes.int32
