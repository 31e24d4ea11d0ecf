"""Checks of indices in graph.json: what a loaded Model asks under POLY_CHECK=1.

    [node of the index, operation, low, high, what, ignored]

The author's lines are left out: they name files of another machine. So are checks against sizes
that vary, which JSON has no number for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..engine.capture import Bounds, Check
from ..uop.ops import UOp, toposort

_LONGEST: Final = 300  # characters of a text
_LIMIT: Final = 1 << 62


def write(checks: Sequence[Check], number: Mapping[UOp, int]) -> dict[str, Any]:
    """The entry of an entrypoint's JSON value, none without checks."""
    rows = [
        [number[node], *bounds[:5]]
        for node, bounds in checks
        if _are_bounds(bounds.low, bounds.high) and len(bounds.what) <= _LONGEST
    ]
    return {"checks": rows} if rows else {}


def read(value: Any, nodes: Sequence[UOp], roots: Sequence[UOp]) -> tuple[Check, ...] | None:
    """Checks of integers that the graph of `roots` reads; None for anything else."""
    if not isinstance(value, list):
        return None
    within = set(toposort(roots)) if value else set()
    found = []
    for row in value:
        if not isinstance(row, list) or len(row) != 6 or not _is_legal(row, len(nodes)):
            return None
        node = nodes[row[0]]
        if node not in within or not node.dtype.is_int:
            return None
        found.append(Check(node, Bounds(*row[1:])))
    return tuple(found)


def _is_legal(row: list[Any], count: int) -> bool:
    number, operation, low, high, what, ignored = row
    return (
        type(number) is int
        and 0 <= number < count
        and all(isinstance(t, str) and 0 < len(t) <= _LONGEST for t in (operation, what))
        and _are_bounds(low, high)
        and (ignored is None or _are_bounds(ignored))
    )


def _are_bounds(*bounds: Any) -> bool:
    return all(type(n) is int and -_LIMIT < n < _LIMIT for n in bounds)
