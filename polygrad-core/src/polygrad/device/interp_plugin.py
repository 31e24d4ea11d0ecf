"""The reference device's descriptor: the core registers it through the same door as everybody."""

from __future__ import annotations

from ..plugin import CrossTools, DevicePlugin, Probe

plugin = DevicePlugin(
    name="interp",
    api=(1, 0),
    device="polygrad.device.interp:InterpDevice",
    probe="polygrad.device.interp_plugin:probe",
    cross="polygrad.device.interp_plugin:cross",
    summary="the reference: each kernel run step by step in Python",
)


def probe() -> Probe:
    return Probe(True, arch="python")


def cross(arch: str) -> CrossTools:
    """The one machine there is, whatever `arch`."""
    from .interp import InterpCompiler, InterpRenderer
    from .interp_target import TARGET

    return CrossTools(TARGET, InterpRenderer(TARGET), InterpCompiler())
