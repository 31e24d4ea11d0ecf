"""The device: its parts put together."""

from __future__ import annotations

from collections.abc import Mapping

from polygrad.contract import Binary
from polygrad.plugin import Compiler, Device, Program

from .assemble import Assembler, disassemble
from .machine import Kernel
from .memory import Heap
from .render import SampleRenderer
from .target import TARGET


class SampleDevice(Device):
    def __init__(self, index: int) -> None:
        self.name = f"sample:{index}" if index else "sample"
        self.target = TARGET
        self.allocator: Heap = Heap()
        self.renderer = SampleRenderer(TARGET)
        self.compiler: Compiler = Assembler()

    @classmethod
    def open(cls, index: int, options: Mapping[str, str]) -> SampleDevice:
        return cls(index)

    def load(self, binary: Binary) -> Mapping[str, Program]:
        return {m.name: Kernel(m, self.allocator) for m in disassemble(binary.code)}
