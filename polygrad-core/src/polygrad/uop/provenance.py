"""Where a node came from: the write-once slot `UOp.provenance`, outside identity and fingerprints.

Floor: uop. A record is a tuple of `Site`s, oldest first: normally one, several where equal
expressions of different lines are one node. A site keeps the raw code object and line number of
the user's frame (the first one outside this package) and the module path it was made under; text
is made when somebody asks.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Final, NamedTuple

from ..errors import is_ours
from .ops import UOp

_set: Final = object.__setattr__
MAX_SITES = 8  # of one node: `x + 1` in a loop over lines should not collect them all


class Site(NamedTuple):
    """One place in the user's program."""

    code: CodeType
    instruction: int  # offset of the running instruction: the line number is looked up when printed
    path: str = ""  # of the module it was made in: "net.fc1"

    @property
    def line(self) -> int:
        found = self.code.co_firstlineno
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                found = line
        return found

    def __str__(self) -> str:
        where = f"{self.code.co_filename}:{self.line}"
        return f"{self.path} ({where})" if self.path else where


_site: Final = tuple.__new__  # what a NamedTuple's own constructor calls, in a third of its time


def user_frame() -> FrameType | None:
    """The innermost frame outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        ours = _known.get(name)
        if ours is None:
            ours = _known[name] = is_ours(name)
        if not ours:
            break
        frame = frame.f_back
    return frame


_known: dict[object, bool] = {}  # module name -> whether it is ours: this runs for every operation


def here(path: str = "") -> Site | None:
    """The user's place in the program, None when called from inside alone."""
    frame = user_frame()
    return None if frame is None else _site(Site, (frame.f_code, frame.f_lasti, path))


def mark(u: UOp, site: Site | None) -> UOp:
    """Give `u` its place if it has none yet; a second, different place is added to the list."""
    if site is not None:
        if u.provenance is None:
            _set(u, "provenance", (site,))
        else:
            _write(u, (site,))
    return u


def hand_on(old: UOp, new: UOp) -> None:
    """A rewrite turned `old` into `new`: the new node comes from the same place."""
    if old is not new and old.provenance is not None:
        _write(new, old.provenance)


def sites(u: UOp) -> tuple[Site, ...]:
    """The places that made this node, oldest first."""
    return u.provenance or ()


def describe(u: UOp) -> str:
    """One line for a message: `net.fc1 (train.py:12)`, an empty string when nothing is known."""
    return ", ".join(map(str, sites(u)))


def _write(u: UOp, new: tuple[Site, ...]) -> None:
    old: tuple[Site, ...] = u.provenance or ()
    added = tuple(s for s in new if s not in old)
    if added and len(old) < MAX_SITES:
        _set(u, "provenance", (old + added)[:MAX_SITES])
