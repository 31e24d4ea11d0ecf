"""Devices by name, their memory, and `interp`, the reference device.

`get("cuda:1")` opens a device once and keeps it; `default()` names the device that new tensors go
to. Nothing is probed or opened before one of them is called.
"""

from ..plugin import Device
from .choice import chosen, default
from .naming import available, canonical, names, split
from .opened import close_all, get, isolated

__all__ = [
    "Device",
    "available",
    "canonical",
    "chosen",
    "close_all",
    "default",
    "get",
    "isolated",
    "names",
    "split",
]
