"""The table of mistakes, in the order of the page."""

from __future__ import annotations

from polygrad.errors import ShapeError

from .mistake import Chapter, Mistake

CHAPTERS: tuple[Chapter, ...] = (
    Chapter(
        "A",
        "b",
        (
            Mistake(
                "add",
                "x + Tensor.ones(4)",
                ShapeError,
                "add: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
                "x + x",
            ),
        ),
        "x = Tensor.ones(2, 3)",
    ),
)
