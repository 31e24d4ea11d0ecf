"""The reference device's descriptor: the core registers it through the same door as everybody."""

from __future__ import annotations

from ..plugin import DevicePlugin, Probe

plugin = DevicePlugin(
    name="interp",
    api=(1, 0),
    device="polygrad.device.interp:InterpDevice",
    probe="polygrad.device.interp_plugin:probe",
    summary="the reference: each kernel run step by step in Python",
)


def probe() -> Probe:
    return Probe(True, arch="python")
