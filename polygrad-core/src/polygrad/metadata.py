"""What installed distributions say of themselves, one with broken metadata among them or not.

importlib.metadata gives up on all of them where one cannot be read. Here that one is passed over,
and noted for `polygrad doctor`. Of the others only those are parsed that name one of our groups:
where a thousand are installed, that takes three quarters of the time (by CPU).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import told

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

unreadable: dict[str, str] = {}  # distribution -> why its entry points cannot be read


def entry_points(groups: Sequence[str]) -> list[EntryPoint]:
    """The entry points of some groups, of every distribution that can be read. Of two with one
    name the first on sys.path counts."""
    from importlib.metadata import distributions

    unreadable.clear()
    found: dict[str, Sequence[EntryPoint]] = {}
    for dist in distributions():
        some = entry_points_of(dist, groups)
        if some:
            found.setdefault(label(dist)[0].lower().replace("_", "-"), some)
    return [entry for some in found.values() for entry in some]


def entry_points_of(dist: Distribution, groups: Sequence[str]) -> Sequence[EntryPoint]:
    """Those of one distribution; none where they cannot be read."""
    try:
        text = dist.read_text("entry_points.txt")
        if not text or not any(group in text for group in groups):
            return ()
        return [entry for entry in dist.entry_points if entry.group in groups]
    except Exception as error:  # noqa: BLE001 - a stranger's file
        unreadable[str(getattr(dist, "_path", dist))] = told(error)
        return ()


def label(dist: Distribution | None) -> tuple[str, str]:
    """(name, version), where metadata cannot be read as the folder's name has them."""
    if dist is None:
        return "?", ""
    try:
        return dist.name, dist.version
    except Exception:  # noqa: BLE001 - a stranger's file
        folder = str(getattr(dist, "_path", "?")).replace("\\", "/").rpartition("/")[2]
        name, _, version = folder.rpartition(".")[0].partition("-")
        return name.replace("_", "-"), version
