"""`polygrad plugins`, `formats` and `models`: what is installed, and how far each comes.

Each name is loaded in a child process of its own, since loading runs a stranger's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import formats, registry
from . import child
from .command import Result
from .table import table

Row = dict[str, Any]
FINE = ("loaded", "not preferred", "blocked")
# group -> (what `polygrad VERB` calls it, the column that only it has)
LISTED = {
    registry.FORMATS: ("format", "suffixes"),
    registry.MODELS: ("model family", "architectures"),
}


def rows(groups: Sequence[str] = registry.GROUPS) -> list[Row]:
    """A row for each candidate of each name of some groups."""
    found = []
    for group, name in registry.snapshot():
        if group in groups:
            found += [{"group": group, "name": name, **row} for row in _asked(group, name)]
    return found


def _asked(group: str, name: str) -> list[Row]:
    answer = child.ask("descriptors", group, name, what="loading it")
    if answer.data is not None:
        found: list[Row] = answer.data
        return found
    return [
        {
            "value": r.value,
            "dist": r.dist,
            "version": r.version,
            "state": answer.state,
            "api": "",
            "load_ms": 0.0,
            "summary": "",
            "reason": answer.reason,
            "suffixes": [],
            "architectures": [],
        }
        for r in registry.snapshot()[group, name]
    ]


def report() -> Result:
    """Every record of every group."""
    found = rows()
    heads = ("group", "name", "state", "API", "package", "from", "load", "")
    cells = [
        (
            row["group"].removeprefix("polygrad."),
            row["name"],
            row["state"],
            row["api"],
            f"{row['dist']} {row['version']}",
            row["value"],
            f"{row['load_ms']:.1f} ms",
            row["reason"],
        )
        for row in found
    ]
    return Result({"plugins": found}, table(heads, cells), _fine(found))


def listing(group: str) -> Result:
    """The records of one group, with what that kind of plugin is known by."""
    kind, column = LISTED[group]
    found = rows((group,))
    verb = group.removeprefix("polygrad.")
    if not found:
        return Result({verb: []}, _none(group, kind))
    heads = (kind, "state", column, "package", "", "")
    cells = [
        (
            row["name"],
            row["state"],
            " ".join(row[column]),
            f"{row['dist']} {row['version']}",
            row["summary"],
            row["reason"],
        )
        for row in found
    ]
    return Result({verb: found}, table(heads, cells), _fine(found))


def _none(group: str, kind: str) -> str:
    text = f"No {kind} is installed. A package offers one by an entry point of the group {group}"
    if group == registry.FORMATS:
        return text + "; polygrad new-format NAME writes such a package."
    return text + "; docs/plugins.md shows how."


def format_of(path: str) -> Result:
    """The format of one file."""
    name = formats.find(path)
    return Result({"file": path, "format": name}, f"{path}: {name}")


def _fine(found: Sequence[Row]) -> bool:
    return all(row["state"] in FINE for row in found)
