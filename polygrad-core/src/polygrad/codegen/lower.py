"""The last steps before printing: expressions the target knows, offsets in the order of the loops."""

from __future__ import annotations

from dataclasses import replace

from ..contract import LinearProgram
from ..dtype import DType, dtypes
from ..target import Target
from ..uop.ops import Ops
from .decompose import decompose
from .kernel import Kernel
from .linearize import program
from .offsets import ordered_offsets


def lower(kernel: Kernel, target: Target, name: str, note: str = "") -> LinearProgram:
    """The LinearProgram of a transformed kernel."""
    stores = tuple(decompose(s, target) for s in kernel.stores)
    kernel = replace(kernel, stores=stores)
    kernel = replace(kernel, stores=tuple(ordered_offsets(kernel)))
    return program(kernel, target, name, index_dtype(target), note)


def index_dtype(target: Target) -> DType:
    return dtypes.int64 if target.supports(Ops.ADD, dtypes.int64) else dtypes.int32
