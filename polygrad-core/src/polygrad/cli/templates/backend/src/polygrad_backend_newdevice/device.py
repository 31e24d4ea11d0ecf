"""The device: opened when its name is asked for, once for each number."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from polygrad.contract import Binary, Source
from polygrad.errors import CompileError
from polygrad.plugin import Compiler, Device, Program

from .memory import Memory
from .render import NewRenderer
from .target import TARGET


class NewCompiler:
    """Source to bytes that go into the disk cache. May be called from several threads."""

    # Tool, version and flags, so that a newer tool does not find an older one's kernels. An empty
    # key says that compiling costs nothing and is not worth keeping.
    key = f"newdevice-marshal-{marshal.version}"

    def __call__(self, source: Source) -> Binary:
        try:
            code = compile(source.code, "<newdevice>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise CompileError(f"newdevice: {error}") from error  # with the tool's own words
        return Binary(marshal.dumps(code), source.entries)


class Kernel:
    """One loaded program. `handles` come in the order of its params."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __call__(
        self,
        *handles: memoryview,
        grid: tuple[int, ...] = (),
        scalars: tuple[int | float, ...] = (),
        wait: bool = False,
    ) -> float | None:
        start = perf_counter()
        self.function(grid, *handles, *scalars)
        return perf_counter() - start if wait else None  # with `wait`, the seconds it took


class NewDevice(Device):
    def __init__(self, index: int) -> None:
        self.name = f"newdevice:{index}" if index else "newdevice"
        self.target = TARGET
        self.allocator: Memory = Memory()
        self.renderer = NewRenderer(TARGET)
        self.compiler: Compiler = NewCompiler()

    @classmethod
    def open(cls, index: int, options: Mapping[str, str]) -> NewDevice:
        # Start the driver here. Whatever this raises is told to the user as DeviceUnavailable.
        return cls(index)

    def load(self, binary: Binary) -> Mapping[str, Program]:
        names: dict[str, Any] = {}
        exec(marshal.loads(binary.code), names)
        return {name: Kernel(names[symbol]) for name, symbol in binary.entries.items()}

    # Later, for speed: `prepare(plan, programs, arena)` makes a whole step callable at once. The
    # one you inherit launches the programs one after another.
