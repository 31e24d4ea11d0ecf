"""What a device's name means: its spelling, its plugin's record, and whether it works here.

Nothing is opened on this floor. A probe runs at most once per record, and whatever it does wrong
is an answer, not an exception.
"""

from __future__ import annotations

from .. import registry
from ..errors import (
    ArgumentError,
    DeviceNotInstalled,
    DeviceUnavailable,
    DeviceUnknown,
    PluginConflict,
    PolygradError,
    did_you_mean,
    one,
    pass_on,
    public,
    shown,
    told,
)
from ..plugin import DevicePlugin, Probe
from ..registry import DEVICES, Record


def split(name: str) -> tuple[str, int]:
    """`"CUDA:1"` -> `("cuda", 1)`; an index left out is 0."""
    if not isinstance(name, str):
        raise ArgumentError(f"a device is a name such as 'cpu' or 'cuda:1', not {shown(name)}.")
    base, colon, index = name.strip().lower().partition(":")
    if colon and not index.isdecimal():
        raise ArgumentError(
            f"device {name!r}: what follows ':' must be a number, as in '{base}:1'."
        )
    return base, int(index or 0)


def canonical(name: str) -> str:
    """The one spelling of a name: lower case, no ":0", an alias replaced."""
    base, index = split(name)
    base = find(base).name
    return f"{base}:{index}" if index else base


def names() -> tuple[str, ...]:
    """Names of the installed devices that may be used, sorted; nothing is imported for it."""
    return registry.names(DEVICES)


def probe(record: Record) -> Probe:
    """Ask once whether the machine behind a loaded record can be used; never raises."""
    if record.probe is None:
        assert isinstance(record.descriptor, DevicePlugin)
        try:
            found = registry.resolve(record.descriptor.probe)()
            if not isinstance(found, Probe):
                kind = one(type(found).__name__)
                found = Probe(False, detail=f"its probe gave {kind}, not a Probe")
        except BaseException as error:  # noqa: BLE001 - it is a stranger's code
            pass_on(error)
            found = Probe(False, detail=f"its probe raised {told(error)}")
        record.probe = found
    return record.probe


def usable(name: str, explicit: str = "") -> Record:
    """The record of a device that works here and has that number. Raises DeviceUnavailable;
    `explicit` is the POLY_DEV that named it."""
    base, index = split(name)
    record = find(base)
    found = probe(record)
    if not found.ok:
        raise unavailable(record, found.detail, found.hint, explicit)
    if found.count and index >= found.count:
        last = f" to '{record.name}:{found.count - 1}'" if found.count > 1 else ""
        detail = f"there is no number {index}, it counts {found.count}"
        raise unavailable(record, detail, f"use '{record.name}'{last}", explicit)
    return record


@public
def available(name: str) -> bool:
    """Whether a device is installed and works here, whatever its number; asking opens nothing.

    Raises DeviceUnknown for a name that no device has.

    >>> available("interp")
    True
    """
    try:
        return probe(find(split(name)[0])).ok
    except DeviceNotInstalled:
        return False


def unavailable(record: Record, detail: str, hint: str, explicit: str = "") -> DeviceUnavailable:
    text = f"device {record.name!r} ({record.package}) cannot be used: {detail}."
    if hint:
        text += f" Hint: {hint}."
    if explicit:
        text += (
            f" POLY_DEV={explicit} was explicit, so polygrad does not fall back;"
            " use POLY_DEV=auto to allow it."
        )
    return DeviceUnavailable(text)


def find(base: str) -> Record:
    record = registry.find(DEVICES, base) or _by_alias(base)
    if record is None:
        raise _missing(base)
    return record


def _by_alias(base: str) -> Record | None:
    """Aliases stand in descriptors; they are read only when no name fits. A name of ours is
    nobody's alias."""
    rivals: list[Record] = []
    for name in names() if base not in registry.INSTALL else ():
        try:
            record = registry.find(DEVICES, name)
        except PolygradError:  # its own name would show it; another name is unaffected
            continue
        if record is not None and base in getattr(record.descriptor, "aliases", ()):
            rivals.append(record)
    if len(rivals) > 1:
        offers = ", ".join(f"{r.name!r} ({r.package})" for r in rivals)
        raise PluginConflict(
            f"{base!r} is another name of several devices: {offers}. Use the name of one."
        )
    return rivals[0] if rivals else None


def _missing(base: str) -> DeviceNotInstalled | DeviceUnknown:
    installed = ", ".join(names()) or "none"
    if base in registry.INSTALL:
        return DeviceNotInstalled(
            f"device {base!r} is not installed. Run: pip install {registry.INSTALL[base]}."
            f" Installed: {installed}."
        )
    known = (*names(), *registry.INSTALL)
    return DeviceUnknown(
        f"no device named {base!r}.{did_you_mean(base, known)} Installed: {installed}."
        " See: polygrad devices"
    )
