"""The cpu device: this machine's cores, memory and compiler behind `polygrad.plugin.Device`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygrad import settings
from polygrad.contract import Binary, Plan
from polygrad.plugin import Device

from .executor import Prepared, Program
from .function import Entry
from .memory import CpuAllocator, Memory
from .pool import stop_pool
from .target import host_target
from .toolchain import toolchain_of


class CpuDevice(Device):
    """One cpu device. Several share the compiler and the worker threads, not their memory."""

    @classmethod
    def open(cls, index: int, options: Mapping[str, str]) -> CpuDevice:
        """`options`: "threads" goes before POLY_THREADS, "toolchain" before POLY_CPU_TOOLCHAIN."""
        threads = int(options.get("threads", 0)) or settings.get("POLY_THREADS")
        return cls(index, threads, options.get("toolchain") or settings.get("POLY_CPU_TOOLCHAIN"))

    def __init__(self, index: int, threads: int, toolchain: str) -> None:
        self.name = "cpu" if index == 0 else f"cpu:{index}"
        self.target = host_target(threads, settings.get("POLY_CPU_VECTOR"))
        self.allocator: CpuAllocator = CpuAllocator()
        self.renderer, self.compiler, self._linker = toolchain_of(toolchain, self.target)

    def load(self, binary: Binary) -> Mapping[str, Program]:
        linked = self._linker.link(binary.code, binary.entries)
        return {
            name: Program(linked.addresses[name], Entry.of(symbol), linked)
            for name, symbol in binary.entries.items()
        }

    def prepare(self, plan: Plan, programs: Mapping[str, Any], arena: Memory | None) -> Prepared:
        """One native call per run of `plan`."""
        return Prepared(plan, programs, arena, self.allocator, self.target.cores)

    def close(self) -> None:
        """End the worker threads; another open device starts them again when it needs them."""
        stop_pool()
