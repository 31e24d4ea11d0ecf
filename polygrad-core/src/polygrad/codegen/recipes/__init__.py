"""Recipes: for each loop shape one good list of transforms. A recipe looks at structure, never at
names.
"""

from __future__ import annotations

from ...target import Target
from ..kernel import Kernel
from ..transform import bind, bindable, fuse_all, unmix
from . import contraction, elementwise, reduction
from .blocks import in_blocks


def choose(kernel: Kernel, target: Target) -> Kernel:
    """The kernel as this target should run it."""
    if target.grid_only:
        return reference(kernel)
    return fitting(fuse_all(unmix(kernel)), target)


def fitting(kernel: Kernel, target: Target) -> Kernel:
    """The kernel by the first recipe that takes it, its ranges as they are."""
    if target.grid_only:
        return reference(kernel)
    for recipe in (contraction, reduction, elementwise):
        made: Kernel | None = recipe.apply(kernel, target)
        if made is not None:
            return in_blocks(made)
    raise AssertionError("the elementwise recipe takes every kernel")


def reference(kernel: Kernel) -> Kernel:
    """The reference device: every parallel range on the grid, long float sums in blocks."""
    for loop in kernel.outputs:
        if bindable(kernel, loop):
            kernel = bind(kernel, loop)
    return in_blocks(kernel)
