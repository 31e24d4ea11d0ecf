"""Integers, sizes and axes that a caller gives: checked, and named in the error.

Floor: tensor, below every storey of the class (`base.py`). What comes in is whatever a user wrote
for `axis`, `dim`, a shape or a count; what goes out are ints from 0, sizes that vary, or an error
that says which argument of which operation was wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arguments import converts
from ..engine.number import Number as Symbol
from ..errors import ArgumentError, ShapeError, shown
from ..uop.ops import size
from ..uop.sizes import Size, capacity

Scalar = bool | int | float


def either(name: str, axis: Any, dim: Any, spelling: str = "axis and dim") -> Any:
    """numpy says axis, torch says dim: take whichever was given."""
    if dim is None:
        return axis
    if axis is not None:
        raise ArgumentError(f"{name}: {spelling} are the same argument; give one.")
    return dim


def integer(name: str, what: str, x: Any, least: int | None = None) -> int:
    """An integer argument as an int; `what` names it in the error, `least` is its smallest."""
    if type(x) is int and (-_ENDLESS if least is None else least) <= x < _ENDLESS:
        return x
    if not converts(x, "__index__") or isinstance(x, bool):
        raise ArgumentError(f"{name}: {what} is an integer, not {shown(x)}.")
    value = int(x.__index__())
    if not -_ENDLESS < value < _ENDLESS:  # Python refuses to print very long ones
        raise ArgumentError(f"{name}: {what} is of 64 bits, not {shown(value)}.")
    if least is not None and value < least:
        raise ArgumentError(f"{name}: {what} is an integer of at least {least}, not {value}.")
    return value


_ENDLESS = 10**60  # as `shown` counts


def extent(name: str, what: str, x: Any) -> int:
    """A size or position: an integer, or one that varies."""
    return x if isinstance(x, Size) else integer(name, what, x)


def number(name: str, what: str, x: Any) -> Scalar:
    """A number argument, of numpy's too; `what` names it in the error."""
    if isinstance(x, (bool, int, float, Symbol)):
        return x  # type: ignore[return-value]  # as in `operand`
    if getattr(x, "shape", None) == () and hasattr(x, "item"):
        value: Scalar = x.item()
        return value
    raise ArgumentError(f"{name}: {what} is a number, not {shown(x)}.")


def axis_of(name: str, axis: Any, ndim: int) -> int:
    """One axis as a number from 0; a 0-d tensor takes 0 and -1."""
    at, span = integer(name, "an axis", axis), max(ndim, 1)
    if not -span <= at < span:
        raise ArgumentError(f"{name}: axis {at} is outside a tensor of {ndim} axes.")
    return at % span


def own_axis(name: str, axis: Any, ndim: int) -> int:
    """One axis of a tensor that must have some, as a number from 0."""
    if not ndim:
        raise ShapeError(f"{name}: a tensor of shape () has no axis.")
    return axis_of(name, axis, ndim)


def axes_of(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes as a sorted tuple; None is all of them."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, (tuple, list)):
        axes = tuple(axis_of(name, a, ndim) for a in axis)
        if len(set(axes)) < len(axes):
            raise ArgumentError(f"{name}: axes {tuple(axis)} name one axis twice.")
    else:
        axes = (axis_of(name, axis, ndim),)
    return tuple(sorted(axes)) if ndim else ()


def shape_of_args(name: str, args: Sequence[Any]) -> tuple[int, ...]:
    """`f(2, 3)` and `f((2, 3))` and `f([2, 3])` as one tuple of sizes."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    return tuple([extent(name, "a size", n) for n in args])


def sizes(name: str, args: Sequence[Any]) -> tuple[int, ...]:
    """A shape for a new tensor: no negative sizes."""
    shape = shape_of_args(name, args)
    if any(n < 0 for n in shape):
        raise ShapeError(f"{name}: shape {shape} has a negative size.")
    if capacity(shape) >= _MOST:
        count = shown(size(shape))
        raise ShapeError(f"{name}: a tensor has fewer than 2**60 elements, not {count}.")
    return shape


_MOST = 1 << 60  # so that 64 bits number the bytes of its elements
