"""A device as a stranger would write it against `polygrad.plugin`: type checkers must accept it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygrad.contract import Binary, LinearProgram, Source
from polygrad.dtype import dtypes
from polygrad.plugin import Allocator, Compiler, Device, DevicePlugin, Probe, Program, Renderer
from polygrad.target import Target
from polygrad.uop.ops import Ops

plugin = DevicePlugin(
    name="acme", api=(1, 0), device="acme.device:AcmeDevice", probe="acme.probe:probe"
)


def probe() -> Probe:
    return Probe(False, detail="no Acme card", hardware=False)


class AcmeMemory(Allocator[bytearray]):
    def alloc(self, nbytes: int, *, zeroed: bool = False) -> bytearray:
        return bytearray(nbytes)

    def free(self, handle: bytearray) -> None:
        handle.clear()

    def write(self, dst: bytearray, src: memoryview, offset: int = 0) -> None:
        dst[offset : offset + src.nbytes] = src

    def read(self, dst: memoryview, src: bytearray, offset: int = 0) -> None:
        dst[:] = src[offset : offset + dst.nbytes]


class AcmeRenderer(Renderer):
    key = "acme-1"

    def render(self, programs: Sequence[LinearProgram]) -> Source:
        return Source("\n".join(p.name for p in programs), {p.name: p.name for p in programs})


class AcmeCompiler:
    key = "acme-cc-1"

    def __call__(self, source: Source) -> Binary:
        code = source.code if isinstance(source.code, bytes) else source.code.encode()
        return Binary(code, source.entries)


class AcmeProgram:
    def __call__(
        self,
        *handles: Any,
        grid: tuple[int, ...] = (),
        scalars: tuple[int | float, ...] = (),
        wait: bool = False,
    ) -> float | None:
        return 0.0 if wait else None


class AcmeDevice(Device):
    def __init__(self) -> None:
        scalars = frozenset({dtypes.float32, dtypes.int32})
        self.target = Target(name="acme", arch="acme1", ops={Ops.ADD: scalars})
        self.allocator = AcmeMemory()
        self.renderer = AcmeRenderer(self.target)
        self.compiler: Compiler = AcmeCompiler()

    @classmethod
    def open(cls, index: int, options: Mapping[str, str]) -> AcmeDevice:
        return cls()

    def load(self, binary: Binary) -> Mapping[str, Program]:
        return {name: AcmeProgram() for name in binary.entries}
