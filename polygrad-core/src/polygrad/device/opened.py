"""Opened devices: one object behind each name, kept until the process ends.

A device opened by a parent process cannot be used in its fork (its threads and its driver's state
stay behind), so `get` raises DeviceForked there. The hooks for fork, exit and pickling go in when
the first device is opened: importing polygrad changes nothing in the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import registry
from .._collector import lasting
from ..errors import (
    DeviceContractError,
    DeviceForked,
    PolygradError,
    one,
    pass_on,
    public,
    told,
)
from ..plugin import Allocator, Device, DevicePlugin, Renderer
from ..registry import Record
from ..target import Target
from .least import lacks
from .naming import canonical, split, unavailable
from .naming import usable as usable_record

_lock = threading.RLock()
_open: dict[str, Device] = {}  # canonical name -> device, in order of opening
_hooked = False
changes = 0  # grows whenever a device that was open may be so no longer


@public
def get(name: str) -> Device:
    """The opened device of `name`; opens it at the first call."""
    device = _open.get(name)
    if device is None:
        full = canonical(name)
        with _lock:
            device = _open.get(full)
            if device is None:
                with lasting():
                    device = _open_device(full, usable_record(full))
                _open[full] = device
    if device.forked:
        raise _forked_error(device)
    return device


def usable() -> list[Device]:
    """The devices that are open in this process."""
    return [device for device in list(_open.values()) if not device.forked]


def _forked_error(device: Device) -> DeviceForked:
    base, index = split(device.name)
    return DeviceForked(
        f"device '{base}:{index}' was opened in process {device.forked} and used in its fork"
        f' {os.getpid()}. Use multiprocessing.get_context("spawn").'
    )


def _open_device(name: str, record: Record) -> Device:
    descriptor = record.descriptor
    assert isinstance(descriptor, DevicePlugin)
    try:
        cls = registry.resolve(descriptor.device)
        _check_class(cls, record)
        device: Device = cls.open(split(name)[1], {})
    except PolygradError:
        raise
    except BaseException as error:
        pass_on(error)
        raise unavailable(record, told(error), "") from error
    _check_device(device, record)
    device.name = name
    _install_hooks(type(device))
    return device


def _broken(record: Record, text: str) -> DeviceContractError:
    return DeviceContractError(f"device {record.name!r} ({record.package}): {text}")


def _check_class(cls: Any, record: Record) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Device)):
        shown = getattr(cls, "__name__", repr(cls))
        raise _broken(record, f"{shown} is no subclass of polygrad.plugin.Device.")
    missing = sorted(cls.__abstractmethods__)
    if missing:
        lacking = ", ".join(f"{method}()" for method in missing)
        raise _broken(
            record, f"{cls.__name__} lacks {lacking}; polygrad/plugin.py says what each must do."
        )


_PARTS: dict[str, type | None] = {
    "target": Target,
    "allocator": Allocator,
    "renderer": Renderer,
    "compiler": None,  # anything that can be called
}


def _check_device(device: Any, record: Record) -> None:
    """Raise DeviceContractError unless an opened device has its parts, and its Target all that the
    compiler counts on."""
    cls = type(device).__name__
    if not isinstance(device, Device):
        raise _broken(record, f"open() gave {one(cls)}, expected a Device.")
    missing = [part for part in _PARTS if not hasattr(device, part)]
    if missing:
        raise _broken(record, f"open() gave a {cls} without {', '.join(missing)}.")
    for part, kind in _PARTS.items():
        found = getattr(device, part)
        if not (callable(found) if kind is None else isinstance(found, kind)):
            wanted = "something to call" if kind is None else f"a polygrad {kind.__name__}"
            given = one(type(found).__name__)
            raise _broken(record, f"{part} of {cls} is {given}, expected {wanted}.")
    problems = _unfit(device)
    if problems:
        raise _broken(
            record,
            f"its Target cannot work: {'; '.join(problems)}."
            "\ndocs/new-backend.md lists what every machine must have.",
        )


def _unfit(device: Device) -> list[str]:
    """What is wrong with a device's Target."""
    try:
        problems = lacks(device.target)
    except (TypeError, AttributeError, ValueError) as error:  # fields of another type
        return [f"a field has another type than it should: {told(error)}"]
    if not device.target.views and type(device).prepare is Device.prepare:
        problems.append(
            "views is False; it must be True unless the Device overrides prepare(), since the one"
            " it inherits makes views of the arena"
        )
    return problems


def _install_hooks(cls: type[Device]) -> None:
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
    global _lock, changes
    _lock = threading.RLock()  # another thread may have held it while forking
    changes += 1
    for device in _open.values():
        device.forked = device.forked or os.getppid()


def close_all() -> None:
    """Close every device, last opened first. At exit; tests may call it too."""
    global changes
    with _lock:
        while _open:
            _, device = _open.popitem()
            changes += 1
            if not device.forked:
                device.close()


@contextmanager
def isolated() -> Iterator[None]:
    """Nothing is open at the start of the block; what it opens is closed at its end."""
    global _open, changes
    before, _open = _open, {}
    changes += 1
    try:
        yield
    finally:
        close_all()
        _open = before
        changes += 1
