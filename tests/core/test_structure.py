"""Rules of the house that a reader could check by hand, checked here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from polygrad import settings

ROOT = Path(__file__).parents[2]
SOURCES = sorted(ROOT.glob("polygrad-*/src/**/*.py"))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_only_settings_reads_the_environment() -> None:
    readers = {
        path.name
        for path in SOURCES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv")
    }
    assert readers == {"settings.py"}


def test_every_setting_is_used() -> None:
    asked = {
        node.args[0].value
        for path in SOURCES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and ast.unparse(node.func).split(".")[-1] in ("get", "is_set", "override")
    }
    assert set(settings.TABLE) <= asked


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_file_says_what_it_is_and_stays_readable(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(tree(path)), "a module head explains the idea"
    assert len(text.splitlines()) <= 800, "500 lines ask for two rooms, 800 are the end"


def test_no_file_swallows_errors() -> None:
    silent = [
        f"{path.name}:{handler.lineno}"
        for path in SOURCES
        for handler in ast.walk(tree(path))
        if isinstance(handler, ast.ExceptHandler)
        and handler.type is None
        and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    ]
    assert silent == []
