"""Whose tensor is it? A tensor belongs to the runtime that made it, and no operation joins two.

This module is all that building a graph needs to know of runtimes, and it imports nothing: the
tensor floor asks `explicit` for each new leaf and compares owners where operands meet. The default
runtime is written None, so that a program without explicit runtimes compares nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..errors import ArgumentError

if TYPE_CHECKING:
    from .runtime import Runtime

# The runtime of this thread or task, None for the default one.
explicit: ContextVar[Runtime | None] = ContextVar("polygrad_runtime", default=None)


class _World:
    """Whether this process ever made an explicit runtime: until then nobody need look for one."""

    several = False


world = _World()


def name_of(owner: Runtime | None) -> str:
    """The name that messages give an owner."""
    return "default" if owner is None else owner.name


def mixed(one: Runtime | None, other: Runtime | None) -> ArgumentError:
    """The error of two tensors that cannot meet."""
    return ArgumentError(
        f"Operands belong to different runtimes, {name_of(one)!r} and {name_of(other)!r}: a tensor"
        " stays with the runtime that made it.\nx.to(y.runtime) copies x to the runtime of y."
    )
