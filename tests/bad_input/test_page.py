"""The page of mistakes says what the table says."""

from __future__ import annotations

from .page import PAGE, render
from .table import CHAPTERS


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run python -m tests.bad_input.page"


def test_titles_tell_mistakes_apart() -> None:
    for chapter in CHAPTERS:
        titles = [m.title for m in chapter.mistakes]
        assert sorted(set(titles)) == sorted(titles)


def test_there_are_more_than_a_hundred_and_twenty() -> None:
    assert sum(len(chapter.mistakes) for chapter in CHAPTERS) > 120
