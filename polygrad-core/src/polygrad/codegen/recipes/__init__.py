"""Recipes: for each loop shape one good list of transforms. A recipe looks at structure, never at
names.
"""

from __future__ import annotations

from collections.abc import Collection

from ...target import Target
from ..kernel import Kernel, misplaced
from ..transform import bind, bindable, fuse_all, unmix
from . import contraction, elementwise, reduction
from .blocks import in_blocks

RECIPES = {"contraction": contraction, "reduction": reduction, "elementwise": elementwise}


def choose(kernel: Kernel, target: Target, without: Collection[str] = ()) -> Kernel:
    """The kernel as this target should run it; `without`: recipes that are not asked."""
    if target.grid_only:
        return reference(kernel)
    return _legal(in_blocks(propose(kernel, target, without)))


def propose(kernel: Kernel, target: Target, without: Collection[str] = ()) -> Kernel:
    """What the first recipe that fits makes of a kernel, its long sums not yet in blocks."""
    return _first(fuse_all(unmix(kernel)), target, without)


def fitting(kernel: Kernel, target: Target) -> Kernel:
    """The kernel by the first recipe that takes it, its ranges as they are."""
    return reference(kernel) if target.grid_only else _legal(in_blocks(_first(kernel, target)))


def _legal(kernel: Kernel) -> Kernel:
    """The kernel; a recipe that put a loop where it may not be is a fault that must not pass."""
    late = misplaced(kernel)
    if late is not None:
        raise AssertionError(f"a recipe left {late.op.name} without a place: {kernel.log}")
    return kernel


def _first(kernel: Kernel, target: Target, without: Collection[str] = ()) -> Kernel:
    for name, recipe in RECIPES.items():
        made: Kernel | None = None if name in without else recipe.apply(kernel, target)
        if made is not None:
            return made
    return kernel


def reference(kernel: Kernel) -> Kernel:
    """The reference device: every parallel range on the grid, long float sums in blocks."""
    for loop in kernel.outputs:
        if bindable(kernel, loop):
            kernel = bind(kernel, loop)
    return in_blocks(kernel)
