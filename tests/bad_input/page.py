"""Writes `docs/mistakes.md` from the table: `python -m tests.bad_input.page`, in the tree's root.

Each mistake is one block: what is wrong, what it is told, what is right.
"""

from __future__ import annotations

from pathlib import Path

from .mistake import Chapter, Mistake
from .table import CHAPTERS

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
HEAD = """\
# Mistakes

What a wrong line is told, and what to write instead. This page is made from the table in
`tests/bad_input`, which checks each of these: the text is exact, the error comes at the line that
is wrong, the traceback ends there, and every object is as it was before. The classes are explained
on [their own page](errors.md).

"""


def render() -> str:
    """The page."""
    total = sum(len(chapter.mistakes) for chapter in CHAPTERS)
    links = "\n".join(f"- [{c.title}](#{_anchor(c.title)})" for c in CHAPTERS)
    counted = f"{total} mistakes in {len(CHAPTERS)} chapters:\n\n{links}\n"
    return HEAD + counted + "".join(map(_chapter, CHAPTERS))


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def _chapter(chapter: Chapter) -> str:
    parts = [f"\n## {chapter.title}\n"]
    if chapter.intro:
        parts.append(f"\n{chapter.intro}\n")
    if chapter.prelude:
        parts.append(f"\nBefore each of them:\n\n{_block(chapter.prelude)}")
    return "".join([*parts, *map(_mistake, chapter.mistakes)])


def _mistake(mistake: Mistake) -> str:
    text = mistake.text.replace("{device}", "cpu")
    told = [f"# {line}" for line in f"{mistake.error.__name__}: {text}".splitlines()]
    lines = [mistake.code.strip("\n"), *told]
    if mistake.instead:
        lines += ["# right:", mistake.instead.strip("\n")]
    return f"\n**{mistake.title}**\n\n" + _block("\n".join(lines))


def _block(code: str) -> str:
    return "```py\n" + code.strip("\n") + "\n```\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
