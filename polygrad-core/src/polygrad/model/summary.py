"""Tables for people: what a Model takes, returns and holds. Nothing is run or read for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .signature import Spec


def human_bytes(count: int) -> str:
    """1536 -> "1.5 kB"."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def table(rows: Iterable[Sequence[Any]], right: Sequence[int] = ()) -> str:
    """Columns as wide as their widest cell; those numbered in `right` end together."""
    cells = [[str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    lines = []
    for row in cells:
        shown = [
            c.rjust(w) if i in right else c.ljust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(shown).rstrip())
    return "\n".join(lines)


def summary(
    entrypoints: Mapping[str, tuple[Mapping[str, Spec], Mapping[str, Spec]]],
    states: Mapping[str, tuple[str, Spec]],
) -> str:
    """Entrypoints as name(inputs) -> outputs, then each array with role, type and size."""
    lines = []
    for name, (inputs, outputs) in entrypoints.items():
        takes = ", ".join(f"{n}: {s}" for n, s in inputs.items())
        gives = ", ".join(f"{n}: {s}" for n, s in outputs.items())
        lines.append(f"{name}({takes}) -> {gives}")
    rows: list[Sequence[Any]] = [("name", "role", "type", "elements")]
    rows += [(n, role, s, math.prod(s.shape)) for n, (role, s) in states.items()]
    lines += ["", table(rows, right=(3,)), "", totals(states)]
    return "\n".join(lines)


def totals(states: Mapping[str, tuple[str, Spec]]) -> str:
    params = [s for role, s in states.values() if role == "param"]
    count = sum(math.prod(s.shape) for s in params)
    size = sum(math.prod(s.shape) * s.dtype.itemsize for _, s in states.values())
    return f"{count} parameters in {len(params)} tensors; {human_bytes(size)} of state"
