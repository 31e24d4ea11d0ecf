"""The descriptor. It names things by text, so that importing this file costs nothing: polygrad
reads it for `polygrad devices`, long before anybody asks for the device."""

from __future__ import annotations

from polygrad.plugin import DevicePlugin

plugin = DevicePlugin(
    name="newdevice",  # as the entry point in pyproject.toml
    api=(1, 0),  # the least plugin API that you need; raise it only when you use something newer
    device="polygrad_backend_newdevice.device:NewDevice",
    probe="polygrad_backend_newdevice.probe:probe",
    summary="newdevice, a scalar machine made of Python",
)
