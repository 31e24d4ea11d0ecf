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
from ..dtype import dtypes
from ..errors import DeviceContractError, DeviceForked, PolygradError, public, told
from ..plugin import Device, DevicePlugin
from ..registry import Record
from ..target import Target
from ..uop.ops import Ops
from .naming import canonical, split, unavailable
from .naming import usable as usable_record

_lock = threading.RLock()
_open: dict[str, Device] = {}  # canonical name -> device, in order of opening
_hooked = False


@public
def get(name: str) -> Device:
    """The opened device of `name`; opens it at the first call."""
    device = _open.get(name)
    if device is None:
        full = canonical(name)
        with _lock:
            device = _open.get(full)
            if device is None:
                device = _open_device(full, usable_record(full))
                _open[full] = device
    if device.forked:
        raise _forked_error(device)
    return device


def is_open(device: Device) -> bool:
    """Whether an opened device can be used still: not closed, and not the parent's of this fork."""
    return _open.get(device.name) is device and not device.forked


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
        _check_class(cls, record.name)
        device: Device = cls.open(split(name)[1], {})
    except PolygradError:
        raise
    except (Exception, SystemExit) as error:
        raise unavailable(record, told(error), "") from error
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
    missing = missing or _least_machine(device.target)
    if missing:
        raise DeviceContractError(
            f"{type(device).__name__} lacks {', '.join(missing)}; see polygrad conformance {name}"
        )


def _least_machine(target: Target) -> list[str]:
    """What `target` lacks of the machine that every kernel may count on."""
    common = (Ops.LOAD, Ops.STORE, Ops.ADD, Ops.SUB, Ops.MUL, Ops.CMPLT, Ops.WHERE)
    least = [(op, dtype) for dtype in (dtypes.float32, dtypes.int32) for op in common]
    least.append((Ops.DIV, dtypes.float32))
    lacks = [f"{op.name} of {dtype.name}" for op, dtype in least if not target.supports(op, dtype)]
    return lacks + (["4 buffers of one kernel"] if target.max_buffers < 4 else [])


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
    """Nothing is open at the start of the block; what it opens is closed at its end."""
    global _open
    before, _open = _open, {}
    try:
        yield
    finally:
        close_all()
        _open = before
