"""Devices by name: which one is chosen, and the one opened object behind each name.

`get("cuda:1")` opens a device once and keeps it; `default()` names the device that new tensors go
to. Nothing is probed or opened before one of them is called. A device opened by a parent process
cannot be used in its fork (its threads and its driver context stay behind), so each use there
raises DeviceForked.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import registry, settings
from ..errors import (
    ArgumentError,
    DeviceContractError,
    DeviceFallbackWarning,
    DeviceForked,
    DeviceNotInstalled,
    DeviceUnavailable,
    DeviceUnknown,
    PolygradError,
    did_you_mean,
    user_level,
)
from ..plugin import Device, DevicePlugin, Probe
from ..registry import DEVICES, Record

__all__ = ["Device", "chosen", "close_all", "default", "get", "names", "probe", "split"]

_lock = threading.RLock()
_open: dict[str, Device] = {}  # canonical name -> device, in order of opening
_choices: dict[tuple[Any, ...], tuple[str, ...]] = {}  # settings -> the devices they choose
_hooked = False


def split(name: str) -> tuple[str, int]:
    """`"CUDA:1"` -> `("cuda", 1)`; an index left out is 0."""
    if not isinstance(name, str):
        raise ArgumentError(f"a device is a name such as 'cpu' or 'cuda:1', not {name!r}.")
    base, colon, index = name.strip().lower().partition(":")
    if colon and not index.isdecimal():
        raise ArgumentError(
            f"device {name!r}: what follows ':' must be a number, as in '{base}:1'."
        )
    return base, int(index or 0)


def canonical(name: str) -> str:
    """The one spelling of a name: lower case, no ":0", an alias replaced."""
    base, index = split(name)
    base = _find(base).name
    return f"{base}:{index}" if index else base


def names() -> tuple[str, ...]:
    """Names of the installed devices that may be used, sorted; nothing is imported for it."""
    return registry.names(DEVICES)


# ---- opening


def get(name: str) -> Device:
    """The opened device of `name`; opens it at the first call."""
    device = _open.get(name)
    if device is None:
        full = canonical(name)
        with _lock:
            device = _open.get(full)
            if device is None:
                device = _open_device(full, _find(split(full)[0]))
                _open[full] = device
    if device.forked:
        raise _forked_error(device)
    return device


def _forked_error(device: Device) -> DeviceForked:
    base, index = split(device.name)
    return DeviceForked(
        f"device '{base}:{index}' was opened in process {device.forked} and used in its fork"
        f' {os.getpid()}. Use multiprocessing.get_context("spawn").'
    )


def _open_device(name: str, record: Record) -> Device:
    found = probe(record)
    if not found.ok:
        raise _unavailable(record, found.detail, found.hint)
    descriptor = record.descriptor
    assert isinstance(descriptor, DevicePlugin)
    try:
        cls = registry.resolve(descriptor.device)
        _check_class(cls, record.name)
        device: Device = cls.open(split(name)[1], {})
    except PolygradError:
        raise
    except (Exception, SystemExit) as error:
        raise _unavailable(record, f"{type(error).__name__}: {error}", "") from error
    device.name = name
    _check_device(device, record.name)
    _install_hooks(type(device))
    return device


def _check_class(cls: Any, name: str) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Device)):
        shown = getattr(cls, "__name__", repr(cls))
        raise DeviceContractError(f"{shown} is no Device; see polygrad conformance {name}")
    missing = sorted(cls.__abstractmethods__)
    if missing:
        lacks = ", ".join(f"{method}()" for method in missing)
        raise DeviceContractError(f"{cls.__name__} lacks {lacks}; see polygrad conformance {name}")


def _check_device(device: Device, name: str) -> None:
    wanted = ("target", "allocator", "renderer", "compiler")
    missing = [attribute for attribute in wanted if not hasattr(device, attribute)]
    if missing:
        raise DeviceContractError(
            f"{type(device).__name__} lacks {', '.join(missing)}; see polygrad conformance {name}"
        )


def _install_hooks(cls: type[Device]) -> None:
    """At the first opening only, so that importing polygrad changes nothing in the process."""
    import copyreg

    copyreg.pickle(cls, lambda device: (get, (device.name,)))
    global _hooked
    if not _hooked:
        import atexit

        atexit.register(close_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_mark_forked)
        _hooked = True


def _mark_forked() -> None:
    global _lock
    _lock = threading.RLock()  # another thread may have held it while forking
    for device in _open.values():
        device.forked = device.forked or os.getppid()


def close_all() -> None:
    """Close every device, last opened first. At exit; tests may call it too."""
    with _lock:
        while _open:
            _, device = _open.popitem()
            if not device.forked:
                device.close()


@contextmanager
def isolated() -> Iterator[None]:
    """Nothing is open or chosen at the start of the block; what it opens is closed at its end."""
    global _open, _choices
    before = _open, _choices
    _open, _choices = {}, {}
    try:
        yield
    finally:
        close_all()
        _open, _choices = before


# ---- probing


def probe(record: Record) -> Probe:
    """Ask once whether the machine behind a loaded record can be used; never raises."""
    if record.probe is None:
        assert isinstance(record.descriptor, DevicePlugin)
        try:
            found = registry.resolve(record.descriptor.probe)()
            if not isinstance(found, Probe):
                found = Probe(False, detail=f"its probe gave a {type(found).__name__}, not a Probe")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is a stranger's code
            found = Probe(False, detail=f"its probe raised {type(error).__name__}: {error}")
        record.probe = found
    return record.probe


def _unavailable(record: Record, detail: str, hint: str, explicit: str = "") -> DeviceUnavailable:
    text = f"device {record.name!r} ({record.package}) cannot be used: {detail}."
    if hint:
        text += f" Hint: {hint}."
    if explicit:
        text += (
            f" POLY_DEV={explicit} was explicit, so polygrad does not fall back;"
            " use POLY_DEV=auto to allow it."
        )
    return DeviceUnavailable(text)


def _find(base: str) -> Record:
    record = registry.find(DEVICES, base) or _by_alias(base)
    if record is None:
        raise _missing(base)
    return record


def _by_alias(base: str) -> Record | None:
    """Aliases stand in descriptors; they are read only when no name fits."""
    for name in names():
        try:
            record = registry.find(DEVICES, name)
        except PolygradError:  # its own name would show it; another name is unaffected
            continue
        descriptor = record and record.descriptor
        if isinstance(descriptor, DevicePlugin) and base in descriptor.aliases:
            return record
    return None


def _missing(base: str) -> DeviceNotInstalled | DeviceUnknown:
    installed = ", ".join(names())
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


# ---- choosing


def default() -> str:
    """The canonical name of the device that new tensors go to."""
    return chosen()[0]


def chosen() -> tuple[str, ...]:
    """The devices that POLY_DEV (else DEV) names, or the best that works; chosen once a setting."""
    wanted = settings.get("POLY_DEV") or settings.get("DEV") or "auto"
    key = (
        wanted,
        settings.get("POLY_DEV_ORDER"),
        settings.get("POLY_PLUGINS"),
        registry.generation(),
    )
    found = _choices.get(key)
    if found is None:
        settings.warn_unknown()
        found = _automatic() if wanted == "auto" else _explicit(wanted)
        _choices[key] = found
        _log(f"chose {', '.join(found)} (POLY_DEV={wanted})")
    return found


def _explicit(wanted: str) -> tuple[str, ...]:
    found = []
    for part in filter(None, (p.strip() for p in wanted.split(","))):
        name = canonical(part)
        record = _find(split(name)[0])
        state = probe(record)
        if not state.ok:
            raise _unavailable(record, state.detail, state.hint, explicit=wanted)
        found.append(name)
    return tuple(found)


def _automatic() -> tuple[str, ...]:
    """The first of POLY_DEV_ORDER that works; a better one that is broken is worth one warning."""
    order: tuple[str, ...] = settings.get("POLY_DEV_ORDER")
    skipped: list[tuple[str, str]] = []
    for name in order:
        if name not in names():
            continue
        try:
            state = probe(_find(name))
        except PolygradError as error:
            cause = error.__cause__
            state = Probe(False, detail=f"{type(cause).__name__}: {cause}" if cause else str(error))
        if state.ok:
            if skipped:
                _report_fallback(name, *skipped[0])
            return (name,)
        if state.hardware:
            skipped.append((name, state.detail))
    raise _nothing_works(order)


def _report_fallback(name: str, better: str, detail: str) -> None:
    text = (
        f"using {name!r}: {better!r} is installed but failed ({detail})."
        f" POLY_DEV={name} silences this; polygrad doctor explains it."
    )
    if settings.get("POLY_STRICT"):
        raise DeviceUnavailable(text)
    import warnings

    warnings.warn(text, DeviceFallbackWarning, stacklevel=user_level())


def _nothing_works(order: tuple[str, ...]) -> DeviceUnavailable:
    return DeviceUnavailable(
        f"none of POLY_DEV_ORDER={','.join(order)} works here. Installed: {', '.join(names())}."
        " See: polygrad devices"
    )


def _log(text: str) -> None:
    import logging

    logging.getLogger("polygrad.device").debug(text)
