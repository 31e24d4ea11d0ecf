"""The reference device: every kernel run step by step, checked, and exact in its dtype.

It shares the scheduler and the lowering with all other devices, so when `cpu` and `interp` disagree
the fault lies below the LinearProgram, and when both are wrong it lies above. Its Target says
`grid_only`: code generation binds each parallel range to GRID, which the numpy engine runs as array
axes and the Python engine as a loop.

As the referee it trusts nobody: addresses are checked, parameters may not overlap, variables must
keep their bounds, blocks of a grid may not race, and memory nobody wrote is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import settings
from ..contract import Binary, LinearProgram, Source, evaluate
from ..errors import DeviceContractError
from ..plugin import Allocator, Device, Program, Renderer
from . import interp_text
from .interp_target import TARGET

# ---- memory


class Handle:
    """A piece of memory: `root` owns the bytes, `offset` says where in it this one starts."""

    __slots__ = ("memory", "nbytes", "offset", "root")

    def __init__(self, root: bytearray, offset: int, nbytes: int) -> None:
        self.root, self.offset, self.nbytes = root, offset, nbytes
        self.memory = memoryview(root)[offset : offset + nbytes]

    def overlaps(self, other: Handle) -> bool:
        return (
            self.root is other.root
            and self.offset < other.offset + other.nbytes
            and other.offset < self.offset + self.nbytes
        )


class InterpAllocator(Allocator[Handle]):
    def alloc(self, nbytes: int, *, zeroed: bool = False) -> Handle:
        if nbytes >> 47:  # repeating a bytearray so often may print an error as well (CPython 3.11)
            raise MemoryError(f"no machine has {nbytes} bytes")
        # All bits set is NaN in every float type: reading what nobody wrote shows.
        return Handle(bytearray(nbytes) if zeroed else bytearray(b"\xff") * nbytes, 0, nbytes)

    def free(self, handle: Handle) -> None:
        # Not release(): a numpy view of the last launch may still be waiting for its collection.
        handle.root, handle.nbytes = bytearray(), 0
        handle.memory = memoryview(handle.root)

    def write(self, dst: Handle, src: memoryview, offset: int = 0) -> None:
        dst.memory[offset : offset + src.nbytes] = src.cast("B")

    def read(self, dst: memoryview, src: Handle, offset: int = 0) -> None:
        dst.cast("B")[:] = src.memory[offset : offset + dst.nbytes]

    def view(self, base: Handle, offset: int, nbytes: int) -> Handle:
        return Handle(base.root, base.offset + offset, nbytes)

    def copy(self, dst: Handle, src: Any, nbytes: int, peer: Device) -> None:
        if isinstance(src, Handle):
            dst.memory[:nbytes] = src.memory[:nbytes]
        else:
            peer.allocator.read(dst.memory[:nbytes], src)


# ---- render, compile, load: the text is the program


class InterpRenderer(Renderer):
    key = "interp-text-1"

    def render(self, programs: Sequence[LinearProgram]) -> Source:
        return Source(interp_text.dumps(programs), {p.name: p.name for p in programs})


class InterpCompiler:
    """The text is what runs."""

    key = ""  # compiling costs nothing: not worth a place on disk

    def __call__(self, source: Source) -> Binary:
        code = source.code if isinstance(source.code, bytes) else source.code.encode()
        return Binary(code, source.entries)


class InterpProgram:
    """One kernel. Which engine runs it is decided when it is loaded."""

    def __init__(self, program: LinearProgram) -> None:
        self.program = program
        self.walker = _engine()(program)

    def __call__(
        self,
        *handles: Handle,
        grid: tuple[int, ...] = (),
        scalars: tuple[int | float, ...] = (),
        wait: bool = False,
    ) -> float | None:
        from time import perf_counter

        start = perf_counter()
        buffers = self._buffers(handles)
        values = self._variables(scalars)
        sizes = tuple(evaluate(g, values) for g in self.program.grid)
        if grid and tuple(grid) != sizes:
            raise self._error(f"has grid {sizes}, launched with {tuple(grid)}")
        self.walker.run(buffers, sizes, values)
        return perf_counter() - start if wait else None

    def _buffers(self, handles: tuple[Handle, ...]) -> list[memoryview]:
        params = self.program.params
        if len(handles) != len(params):
            raise self._error(f"takes {len(params)} buffers, got {len(handles)}")
        out = []
        for place, (p, handle) in enumerate(zip(params, handles, strict=True)):
            need = p.size * p.dtype.itemsize
            if handle.nbytes < need:
                raise self._error(f"param {place} needs {need} bytes, got {handle.nbytes}")
            if "w" in p.access:
                self._check_overlap(place, handles)
            out.append(handle.memory[:need])
        return out

    def _check_overlap(self, written: int, handles: tuple[Handle, ...]) -> None:
        for place, handle in enumerate(handles):
            if place != written and handles[written].overlaps(handle):
                raise self._error(f"params {written} and {place} overlap")

    def _variables(self, scalars: tuple[int | float, ...]) -> dict[str, Any]:
        specs = self.program.variables
        if len(scalars) != len(specs):
            raise self._error(f"takes {len(specs)} variables, got {len(scalars)}")
        for spec, value in zip(specs, scalars, strict=True):
            if spec.dtype.is_int and not spec.lo <= value <= spec.hi:
                raise self._error(f"{spec.name} = {value} is not in {spec.lo}..{spec.hi}")
        return {spec.name: value for spec, value in zip(specs, scalars, strict=True)}

    def _error(self, text: str) -> DeviceContractError:
        return DeviceContractError(f"program {self.program.name} {text}.")


def _engine() -> Callable[[LinearProgram], Any]:
    """The engine's walker class. Without numpy, or with POLY_INTERP_NUMPY=0, Python's."""
    if settings.get("POLY_INTERP_NUMPY"):
        try:
            from .interp_numpy import NumpyWalker
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("numpy"):
                raise
        else:
            return NumpyWalker
    from .interp_python import PythonWalker

    return PythonWalker


# ---- the device


class InterpDevice(Device):
    def __init__(self, index: int) -> None:
        self.name = f"interp:{index}" if index else "interp"
        self.target = TARGET
        self.allocator = InterpAllocator()
        self.renderer = InterpRenderer(TARGET)
        self.compiler = InterpCompiler()

    @classmethod
    def open(cls, index: int, options: Mapping[str, str]) -> InterpDevice:
        return cls(index)

    def load(self, binary: Binary) -> Mapping[str, Program]:
        return {p.name: InterpProgram(p) for p in interp_text.loads(binary.code.decode())}
