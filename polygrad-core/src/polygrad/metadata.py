"""What installed distributions say of themselves, one with broken metadata among them or not.

importlib.metadata gives up on all of them where one cannot be read. Here that one is passed over,
and noted for `polygrad doctor`. Nor is it imported as a rule: it loads email, zipfile and socket,
which takes a fifth of the CPU time of a small program's first result. What lies in plain folders of
sys.path, which is nearly everything, is two small files, read here. It is asked for the rest: for
archives on sys.path, and for what finders of others say is installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import told

if TYPE_CHECKING:
    from importlib.metadata import Distribution

unreadable: dict[str, str] = {}  # distribution -> why its entry points cannot be read


class EntryPoint(NamedTuple):
    """A name that a distribution offers in a group; `value` is "package.module:attribute"."""

    group: str
    name: str
    value: str
    dist: str
    version: str

    def load(self) -> Any:
        """Import what the value says; a module where it names no attribute."""
        from importlib import import_module

        module, _, rest = self.value.partition(":")
        found: Any = import_module(module.strip())
        for attribute in rest.partition("[")[0].strip().split("."):  # "[…]" once named extras
            found = getattr(found, attribute) if attribute else found
        return found


def entry_points(groups: Sequence[str]) -> list[EntryPoint]:
    """The entry points of some groups, of every distribution that can be read. Of two with one
    name the first on sys.path counts."""
    unreadable.clear()
    found: dict[str, Sequence[EntryPoint]] = {}
    for some in _of_all(groups):
        if some:
            found.setdefault(some[0].dist.lower().replace("_", "-"), some)
    return [entry for some in found.values() for entry in some]


def _of_all(groups: Sequence[str]) -> Iterator[Sequence[EntryPoint]]:
    """The entry points of each distribution, in the order in which importlib.metadata has them."""
    from importlib.machinery import PathFinder

    for finder in list(sys.meta_path):
        search = getattr(finder, "find_distributions", None)
        if finder is PathFinder:
            for place in sys.path:
                yield from _of_place(place or ".", groups)
        elif search is not None:
            from importlib.metadata import DistributionFinder

            for dist in search(DistributionFinder.Context()):
                yield entry_points_of(dist, groups)


def _of_place(place: Any, groups: Sequence[str]) -> Iterator[Sequence[EntryPoint]]:
    """Of the distributions in one place of sys.path."""
    try:
        names = os.listdir(place)
    except (FileNotFoundError, PermissionError):
        return
    except (OSError, TypeError):  # an archive, or what only a finder of somebody else reads
        from importlib.metadata import distributions

        for dist in distributions(path=[place]):
            yield entry_points_of(dist, groups)
        return
    endings = (".dist-info", ".egg-info")
    egg = "egg-info" if os.fspath(place).lower().endswith(".egg") else None
    for name in names:
        low = name.lower()
        if low.endswith(endings) or low == egg:
            yield _of_folder(os.path.join(place, name), groups)


def _of_folder(folder: str, groups: Sequence[str]) -> Sequence[EntryPoint]:
    """Of the distribution whose metadata lie in `folder`; none where they cannot be read."""
    try:
        text = _text(os.path.join(folder, "entry_points.txt"))
        if not any(group in text for group in groups):
            return ()
        name, version = _label_of(folder)
        return [
            EntryPoint(group, key, value, name, version)
            for group, key, value in _pairs(text)
            if group in groups
        ]
    except (OSError, ValueError) as error:
        unreadable[folder] = told(error)
        return ()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
        return ""


def _pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """(group, name, value) of each line of an entry_points.txt. Raises ValueError."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1]
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"the line {line!r} has no name and value")
            yield group, name.strip(), value.strip()


def _label_of(folder: str) -> tuple[str, str]:
    """(name, version) by the head of the metadata, else by the folder's name."""
    told_by: dict[str, str] = {}
    for file in ("METADATA", "PKG-INFO"):
        try:
            head = _text(os.path.join(folder, file)).partition("\n\n")[0]
        except ValueError:  # not UTF-8
            continue
        for line in head.splitlines():
            key, _, value = line.partition(":")
            told_by.setdefault(key.lower(), value.strip())
    if told_by.get("name") and told_by.get("version"):
        return told_by["name"], told_by["version"]
    return _named(folder)


def _named(folder: str) -> tuple[str, str]:
    """(name, version) as the name of a folder of metadata has them."""
    last = folder.replace("\\", "/").rpartition("/")[2]
    name, _, version = last.rpartition(".")[0].partition("-")
    return name.replace("_", "-"), version


# ---- distributions as importlib.metadata knows them


def entry_points_of(dist: Distribution, groups: Sequence[str]) -> Sequence[EntryPoint]:
    """Those of one distribution; none where they cannot be read."""
    try:
        text = dist.read_text("entry_points.txt")
        if not text or not any(group in text for group in groups):
            return ()
        some = [e for e in dist.entry_points if e.group in groups]
        return [EntryPoint(e.group, e.name, e.value, *label(dist)) for e in some]
    except Exception as error:  # noqa: BLE001 - a stranger's file
        unreadable[str(getattr(dist, "_path", dist))] = told(error)
        return ()


def label(dist: Distribution | None) -> tuple[str, str]:
    """(name, version), where metadata cannot be read as the folder's name has them."""
    if dist is None:
        return "?", ""
    try:
        name, version = dist.name, dist.version
    except Exception:  # noqa: BLE001 - a stranger's file
        name = ""
    return (name, version) if name else _named(str(getattr(dist, "_path", "?")))
