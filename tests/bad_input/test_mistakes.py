"""Every mistake of the table is told with its exact text, at the user's line, and changes
nothing."""

from __future__ import annotations

import pytest

from .mistake import Chapter, Mistake, check
from .table import CHAPTERS

ROWS = [
    pytest.param(chapter, mistake, id=f"{chapter.title}: {mistake.title}")
    for chapter in CHAPTERS
    for mistake in chapter.mistakes
]


@pytest.mark.parametrize(("chapter", "mistake"), ROWS)
def test_a_mistake_is_told_and_leaves_nothing_behind(
    chapter: Chapter, mistake: Mistake, device: str
) -> None:
    check(chapter, mistake, device=device)
