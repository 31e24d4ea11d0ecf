"""Text tables with columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    # A stranger's error may have lines of its own; a row has one.
    rows = [[" ".join(cell.split("\n")) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = []
    for row in (heads, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
