"""The descriptor: names alone, so that importing it costs nothing."""

from __future__ import annotations

from polygrad.plugin import DevicePlugin

plugin = DevicePlugin(
    name="sample",
    api=(1, 0),
    device="polygrad_backend_sample.device:SampleDevice",
    probe="polygrad_backend_sample.probe:probe",
    summary="a small vector machine without 64-bit numbers",
)
