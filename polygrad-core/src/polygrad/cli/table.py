"""Text tables with columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rows = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = []
    for row in (heads, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def plain(cell: str) -> str:
    """A stranger's text may have lines of its own, or tell the terminal what to do; a row has one
    line of letters."""
    return "".join(c if c.isprintable() else " " for c in cell)
