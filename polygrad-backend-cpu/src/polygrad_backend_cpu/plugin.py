"""The descriptor of the cpu device. Importing it loads nothing but the standard library."""

from polygrad.plugin import DevicePlugin

plugin = DevicePlugin(
    name="cpu",
    api=(1, 0),
    device="polygrad_backend_cpu.device:CpuDevice",
    probe="polygrad_backend_cpu.probe:probe",
    cross="polygrad_backend_cpu.cross:cross",
    summary="all cores of this machine, compiled by LLVM",
)
