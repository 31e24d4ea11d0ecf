"""What a layer says about an input it cannot take: its own name, the shape it takes, and a call
that makes the input fit.

    Linear "fc1" takes (..., 784), got (2, 28, 28). x.flatten(1) is (2, 784).

A layer does not know what it is called; the caller does. So the name is looked for where the call
was made, and only when there is something to say: in the caller's `self`, then among its names.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import ArgumentError, ShapeError, is_ours
from ..tensor import Tensor
from ..tensor.axes import integer

Shape = tuple[int, ...]


def wrong_input(layer: object, expected: str, x: Tensor) -> ShapeError:
    """The error of a layer called with another shape than `expected`: sizes, letters for any size,
    `...` for any number of axes, `or` between several."""
    remedy = _remedy(expected, x.shape)
    return ShapeError(f"{named(layer)} takes {expected}, got {x.shape}.{remedy}")


MOST_TIMES: Final = 10_000  # far more than anybody means, and made in seconds


def times(name: str, what: str, n: int) -> int:
    """A number of things that are made one by one, so that a wrong one would never end."""
    if integer(name, what, n, 1) > MOST_TIMES:
        raise ArgumentError(f"{name}: {what} is at most {MOST_TIMES}, not {n}.")
    return int(n)


def named(layer: object) -> str:
    """`Linear "fc1"` by its name where it was called, or its repr if it has none there."""
    name = _name(layer)
    return f'{type(layer).__name__} "{name}"' if name else repr(layer)


# ---- what would fit


def _remedy(expected: str, shape: Shape) -> str:
    for call, change in _CHANGES:
        new = change(shape)
        if new is not None and fits(expected, new):
            return f" {call} is {new}."
    return ""


def fits(expected: str, shape: Shape) -> bool:
    """Whether a shape is what the text says.

    >>> fits("(..., 4)", (2, 3, 4)), fits("(N, 3, H, W) or (3, H, W)", (3, 8, 8))
    (True, True)
    """
    return any(_fits_one(one, shape) for one in re.findall(r"\(([^)]*)\)", expected))


def _fits_one(pattern: str, shape: Shape) -> bool:
    before, _, after = (_axes(part) for part in pattern.partition("..."))
    rest = len(shape) - len(before) - len(after)
    if rest < 0 or (rest and "..." not in pattern):
        return False
    pairs = [*zip(before, shape, strict=False), *zip(after[::-1], shape[::-1], strict=False)]
    return all(not axis.isdigit() or int(axis) == n for axis, n in pairs)


def _axes(part: str) -> list[str]:
    return [axis for axis in part.replace(" ", "").split(",") if axis and axis != "..."]


def _flattened(start: int) -> Callable[[Shape], Shape | None]:
    return lambda s: (*s[:start], math.prod(s[start:])) if len(s) > start + 1 else None


# What people forget, in the order in which it is likely.
_CHANGES: Final[list[tuple[str, Callable[[Shape], Shape | None]]]] = [
    ("x.flatten(1)", _flattened(1)),
    ("x.flatten(2)", _flattened(2)),
    ("x.flatten()", _flattened(0)),
    ("x.unsqueeze(0)", lambda s: (1, *s)),
    ("x.unsqueeze(1)", lambda s: (s[0], 1, *s[1:]) if s else None),
    ("x.squeeze(1)", lambda s: (s[0], *s[2:]) if s[1:2] == (1,) else None),
    ("x.movedim(-1, 1)", lambda s: (s[0], s[-1], *s[1:-1]) if len(s) > 2 else None),
    ("x.transpose(-2, -1)", lambda s: (*s[:-2], s[-1], s[-2]) if len(s) > 1 else None),
]


# ---- what it is called


def _name(layer: object) -> str | None:
    frame = sys._getframe(1)
    while frame is not None:
        if not is_ours(frame.f_globals.get("__name__")):
            found = _among(frame.f_locals, layer)
            if found is not None:
                return found
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _among(names: Mapping[str, Any], layer: object) -> str | None:
    if "self" in names and (found := path_to(names["self"], layer)):
        return found
    for name, value in names.items():
        if value is layer and name != "self":
            return name
    for name, value in names.items():
        if found := path_to(value, layer):
            return f"{name}.{found}"
    return None


_MOST = 2000  # objects to look at: a name is not worth more


def path_to(holder: object, layer: object) -> str | None:
    """The path of attributes, keys and numbers from `holder` to `layer`, as state has it."""
    from .state import parts

    seen: set[int] = {id(holder)}
    level = [("", holder)]
    while level and len(seen) < _MOST:
        below = []
        for path, value in level:
            for name, part in parts(value):
                here = f"{path}.{name}" if path else name
                if part is layer:
                    return here
                if id(part) not in seen and not isinstance(part, Tensor):
                    seen.add(id(part))
                    below.append((here, part))
        level = below
    return None
