"""Sizes in JSON: what a bundle writes of a shape whose axes vary.

An integer is itself, a variable `["VARIABLE", name, min, max]`, an expression `[operation, left,
right]`. Only the one spelling that writing gives is read again.
"""

from __future__ import annotations

from typing import Any, Final

from ..uop.ops import Ops, UOp
from ..uop.sizes import Size, sized

_OPERATIONS: Final = {
    op.name: op for op in (Ops.ADD, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD, Ops.MAXIMUM, Ops.MINIMUM)
}
LARGEST: Final = 1 << 62


def write(n: int) -> Any:
    """A size as JSON."""
    return _write(n.node) if isinstance(n, Size) else n


def _write(u: UOp) -> Any:
    if u.op is Ops.CONST:
        return u.arg
    if u.op is Ops.VARIABLE:
        return [u.op.name, *u.arg]
    return [u.op.name, *map(_write, u.src)]


def read(value: Any) -> int | None:
    """The size that `write` wrote; None for anything else."""
    node = _read(value)
    if node is None or node.lo is None or not 0 <= node.lo <= (node.hi or 0) < LARGEST:
        return None
    found = sized(node)
    return found if write(found) == value else None


def _read(value: Any) -> UOp | None:
    if type(value) is int:
        return UOp.index(value) if abs(value) < LARGEST else None
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        return None
    name, *parts = value
    if name == Ops.VARIABLE.name:
        return _variable(parts)
    if name not in _OPERATIONS or len(parts) != 2:
        return None
    left, right = map(_read, parts)
    if left is None or right is None:
        return None
    return UOp.alu(_OPERATIONS[name], left, right)


def _variable(parts: list[Any]) -> UOp | None:
    if len(parts) != 3 or not isinstance(parts[0], str) or not parts[0]:
        return None
    name, lo, hi = parts
    if type(lo) is not int or type(hi) is not int or not 0 <= lo < hi < 1 << 31:
        return None
    return UOp.variable(name, lo, hi)
