"""A lesser machine in place of another: the reference device with a Target that lacks things.

What is composed for machines that lack 64-bit integers, or take few buffers, is tested on it
against numpy, in one process and without any package:

>>> from polygrad import Context, Tensor, dtypes
>>> with lesser("plain", without=(dtypes.int64, dtypes.uint64), max_buffers=4) as name:
...     with Context(POLY_DEV=name):
...         Tensor([1 << 40, 2], dtype="int64").sum().tolist()
1099511627778
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from .. import device, registry
from ..device.interp import InterpDevice
from ..dtype import DType
from ..plugin import Descriptor, DevicePlugin
from ..target import Target

__all__ = ["LesserDevice", "lesser"]


class LesserDevice(InterpDevice):
    """The reference device under another Target."""

    lesser_target: Target

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.target = self.renderer.target = self.lesser_target

    @classmethod
    def open(cls, index: int, options: Mapping[str, str]) -> LesserDevice:
        return cls(index)


@contextmanager
def lesser(name: str, without: Sequence[DType] = (), **changes: Any) -> Iterator[str]:
    """Inside the block a device `name` is installed, beside all others: the reference device
    without the dtypes `without`, and with `changes` to its Target."""
    from ..device.interp_target import TARGET

    known = {f.name: getattr(TARGET, f.name) for f in fields(TARGET)}
    ops = {op: kinds - set(without) for op, kinds in TARGET.ops.items()}
    target = Target(**(known | {"name": name, "ops": ops} | changes))
    LesserDevice.lesser_target = target
    plugin = DevicePlugin(
        name=name,
        api=(1, 0),
        device="polygrad.testing.lesser:LesserDevice",
        probe="polygrad.device.interp_plugin:probe",
        summary="a lesser machine",
    )
    with registry.isolated(*_others(), plugin), device.isolated():
        yield name


def _others() -> list[Descriptor]:
    """The devices that are installed and can be loaded."""
    found = [registry.find(registry.DEVICES, name) for name in registry.names(registry.DEVICES)]
    return [r.descriptor for r in found if r is not None and r.descriptor is not None]
