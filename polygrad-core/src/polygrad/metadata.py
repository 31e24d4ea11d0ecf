"""What installed distributions say of themselves, one with broken metadata among them or not.

Their folders on sys.path are read here, not by importlib.metadata: importing that (it needs the
email package) costs three times what reading 300 distributions does. It is asked where there may be
some that lie in no such folder: in a zip file or an egg, or known to a finder of another's making.
It also gives up on all where one cannot be read; here that one is passed over, and noted for
`polygrad doctor`. Only those are parsed that name one of our groups.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import told

if TYPE_CHECKING:
    from importlib.metadata import Distribution

unreadable: dict[str, str] = {}  # distribution -> why its entry points cannot be read


class Installed(NamedTuple):
    """One distribution: where its metadata are, and how to read a file of them (None: there is
    none)."""

    where: str
    read: Callable[[str], str | None]

    @classmethod
    def of(cls, dist: Distribution) -> Installed:
        return cls(str(getattr(dist, "_path", dist)), dist.read_text)

    def label(self) -> tuple[str, str]:
        """(name, version), where metadata cannot be read as the folder's name has them."""
        try:
            text = self.read("METADATA") or self.read("PKG-INFO") or ""
        except Exception:  # noqa: BLE001 - a stranger's file
            text = ""
        head = text.partition("\n\n")[0].splitlines()
        said = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head)}
        folder = self.where.replace("\\", "/").rpartition("/")[2]
        name, _, version = folder.rpartition(".")[0].partition("-")
        return said.get("name", name.replace("_", "-")), said.get("version", version)


class EntryPoint(NamedTuple):
    """One line of an entry_points.txt, and the distribution that it is of."""

    group: str
    name: str
    value: str  # "package.module:attribute"
    dist: str
    version: str

    def load(self) -> Any:
        """The object that the value names. Raises whatever importing it does."""
        from importlib import import_module

        module, _, attributes = self.value.partition("[")[0].partition(":")
        found: Any = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(groups: Sequence[str]) -> list[EntryPoint]:
    """The entry points of some groups, of every distribution that can be read. Of two with one
    name the first on sys.path counts."""
    unreadable.clear()
    found: dict[str, Sequence[EntryPoint]] = {}
    for each in installed():
        some = entry_points_of(each, groups)
        if some:
            found.setdefault(some[0].dist.lower().replace("_", "-"), some)
    return [entry for some in found.values() for entry in some]


def entry_points_of(each: Installed, groups: Sequence[str]) -> Sequence[EntryPoint]:
    """Those of one distribution; none where they cannot be read."""
    try:
        text = each.read("entry_points.txt")
        if not text or not any(group in text for group in groups):
            return ()
        lines = [pair for pair in _pairs(text) if pair[0] in groups]
    except Exception as error:  # noqa: BLE001 - a stranger's file
        unreadable[each.where] = told(error)
        return ()
    label = each.label() if lines else ("", "")
    return [EntryPoint(*pair, *label) for pair in lines]


def _pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """(group, name, value) of each line. Raises ValueError."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"the line {line!r} has no =")
            yield group, name.strip(), value.strip()


# ---- where they are


def installed() -> Iterable[Installed]:
    """Every distribution, in the order of sys.path."""
    found = _in_folders()
    if found is not None:
        return found
    from importlib.metadata import distributions

    return map(Installed.of, distributions())


def _in_folders() -> list[Installed] | None:
    """The distributions in folders on sys.path; None where there may be others."""
    from importlib.machinery import PathFinder

    if any(hasattr(f, "find_distributions") and f is not PathFinder for f in sys.meta_path):
        return None
    found: list[Installed] = []
    for place in dict.fromkeys(p for p in sys.path if isinstance(p, str)):
        if place.endswith(".egg"):
            return None
        try:
            names = os.listdir(place or ".")
        except NotADirectoryError:  # a zip file
            return None
        except OSError:
            continue
        for ending in (".dist-info", ".egg-info"):  # of a twin the first of these counts
            some = sorted(name for name in names if name.endswith(ending))
            found += [_folder(os.path.join(place, name)) for name in some]
    return found


def _folder(where: str) -> Installed:
    def read(name: str) -> str | None:
        try:
            with open(f"{where}/{name}", encoding="utf-8") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
            return None

    return Installed(where, read)
