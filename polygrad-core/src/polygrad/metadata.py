"""What installed distributions say of themselves, one with broken metadata among them or not.

importlib.metadata gives up on all of them where one cannot be read. Here that one is passed over,
and noted for `polygrad doctor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import told

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

unreadable: dict[str, str] = {}  # distribution -> why its entry points cannot be read


def entry_points(groups: Sequence[str]) -> list[EntryPoint]:
    """The entry points of some groups, of every distribution that can be read."""
    from importlib import metadata

    unreadable.clear()
    try:
        every = metadata.entry_points()  # one pass over all distributions, whatever the groups
        return [entry for group in groups for entry in every.select(group=group)]
    except Exception:  # noqa: BLE001 - whatever is wrong with them, it is one distribution's
        found = [e for dist in metadata.distributions() for e in entry_points_of(dist)]
    return [entry for entry in found if entry.group in groups]


def entry_points_of(dist: Distribution) -> Sequence[EntryPoint]:
    """Those of one distribution; none where they cannot be read."""
    try:
        return list(dist.entry_points)
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
