"""What only computed values tell, asked under POLY_CHECK=1: do index tensors stay in their axes?

Without the setting nothing is computed, and an index outside its axis has a defined meaning: what
is read there is 0, what is written there is dropped; no memory but the tensor's own is touched.
With it, whoever takes an index tensor computes it at the call and raises IndexError for the first
element outside. A graph that was captured before (a jit function, a Model) has no such calls.
"""

from __future__ import annotations

from itertools import product

from .. import settings
from ..dtype import unpack
from ..engine.capture import active as capturing
from ..errors import IndexError_
from ..uop.ops import Shape
from .base import Base
from .store import read


def check_index(name: str, index: Base, axis: int, shape: Shape) -> None:
    """Under POLY_CHECK=1 raise IndexError_ if an element of `index` is outside an axis of `shape`;
    negative ones count from the end."""
    n = shape[axis] if shape else 1
    check_range(name, index, -n, n, f"axis {axis} of shape {shape}")


def check_range(
    name: str, index: Base, low: int, high: int, what: str, ignored: int | None = None
) -> None:
    """Under POLY_CHECK=1 raise IndexError_ for the first element not in low .. high - 1."""
    if not settings.get("POLY_CHECK") or capturing.get() is not None or not index.numel():
        return
    values = unpack(index.dtype, read(index))
    for place, value in zip(product(*map(range, index.shape)), values, strict=True):
        if not low <= value < high and value != ignored:
            raise IndexError_(f"{name}: element {place} of the index is {value}, outside {what}.")
