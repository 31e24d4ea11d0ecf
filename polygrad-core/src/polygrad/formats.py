"""File formats that packages bring: which one a file is of, and reading it.

A package offers a format by a `FormatPlugin` behind an entry point of the group `polygrad.formats`.
All descriptors are looked at (they are metadata): a file is of the format whose magic bytes stand
in it, else of the one that has its suffix. Formats are never guessed at beyond that, and where two
fit, the caller says which.
"""

from __future__ import annotations

import os
from typing import Any

from . import registry
from .errors import FormatAmbiguous, FormatUnknown, PluginWarning, PolygradError, public, user_level
from .files import FileSource
from .plugin import FormatPlugin
from .registry import FORMATS, Record

HEAD = 4096  # bytes that magic may stand in


@public
def names() -> tuple[str, ...]:
    """The formats that are installed and switched on, sorted; nothing is imported for it."""
    return registry.names(FORMATS)


@public
def find(path: str | os.PathLike[str], format: str | None = None) -> str:
    """The name of the format that a file is of; `format`, if given, after a look whether it is
    installed. Raises FormatUnknown, FormatAmbiguous.

    >>> find("model.zzz", format="zzz")
    Traceback (most recent call last):
    polygrad.errors.FormatUnknown: no format named 'zzz' is installed. Known: none.
    """
    return _record(path, format).name


@public
def read(path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Any:
    """What the format's reader makes of a file. Raises FormatUnknown, FormatAmbiguous, FormatError.

    `options` are the reader's own.
    """
    record = _record(path, format)
    assert isinstance(record.descriptor, FormatPlugin)
    reader = registry.resolve(record.descriptor.reader)
    with FileSource.open(path) as file:
        return reader(file, options=options)


def _record(path: str | os.PathLike[str], format: str | None) -> Record:
    if format is not None:
        record = registry.find(FORMATS, format.lower())
        if record is None:
            raise FormatUnknown(f"no format named {format!r} is installed. Known: {_known()}.")
        return record
    with FileSource.open(path) as file:
        head = bytes(file.read(0, min(HEAD, file.size)))
    every = [(r, r.descriptor) for r in _loaded() if isinstance(r.descriptor, FormatPlugin)]
    name = os.path.basename(os.fspath(path))
    fit = [r for r, plugin in every if _has_magic(plugin, head)]
    fit = fit or [r for r, plugin in every if name.lower().endswith(tuple(plugin.suffixes))]
    if not fit:
        shown = f"first bytes {head[:3].hex(' ')}" if head else "it is empty"
        raise FormatUnknown(
            f"cannot tell the format of {name} ({shown}). Pass format=. Known: {_known()}."
        )
    if len(fit) > 1:
        rivals = " and ".join(f"{r.name} ({r.dist})" for r in fit)
        raise FormatAmbiguous(f"{name} matches {rivals}. Pass format=.")
    return fit[0]


def _known() -> str:
    return ", ".join(names()) or "none"


def _loaded() -> list[Record]:
    """Every format's record; one that cannot be loaded is warned of, for it may be the one."""
    found = []
    for name in names():
        record = _load(name)
        if record is not None:
            found.append(record)
    return found


def _load(name: str) -> Record | None:
    try:
        return registry.find(FORMATS, name)
    except PolygradError as error:
        import warnings

        warnings.warn(str(error), PluginWarning, stacklevel=user_level())
        return None


def _has_magic(plugin: FormatPlugin, head: bytes) -> bool:
    return bool(plugin.magic) and all(head[at : at + len(m)] == m for at, m in plugin.magic)
