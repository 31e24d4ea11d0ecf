"""The documentation is complete, and what it shows runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polygrad import errors, settings
from polygrad.cli.command import VERBS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    )
]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("block", BLOCKS)
def test_a_code_block_runs(block: str) -> None:
    exec(compile(block, "block", "exec"), {"__name__": "block"})


def test_every_setting_is_documented_as_it_is() -> None:
    documented = re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", page("settings.md"), re.M)
    assert documented == [(name, setting.help) for name, setting in settings.TABLE.items()]


def test_every_verb_is_documented() -> None:
    assert set(re.findall(r"^## polygrad ([\w-]+)", page("cli.md"), re.M)) == set(VERBS)


def test_every_error_is_documented_with_its_builtin_class() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page("errors.md"), re.M))
    ours = [
        member
        for member in vars(errors).values()
        if isinstance(member, type)
        and issubclass(member, errors.PolygradError)
        and member is not errors.PolygradError
    ]
    assert set(rows) == {cls.__name__ for cls in ours}
    for cls in ours:
        assert rows[cls.__name__] in {base.__name__ for base in cls.__mro__}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


COMMAND = "python3 -m venv .venv && .venv/bin/pip install -q nox && .venv/bin/nox -s "


def test_the_readme_has_the_two_commands_each_enough_by_itself() -> None:
    commands = re.findall(r"^```sh\n(.*?)\n```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert commands == [COMMAND + "demo", COMMAND + "tests"]


def test_what_must_pass_runs_the_readmes_command() -> None:
    assert COMMAND + "tests" in (ROOT / ".ci/run").read_text()
