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
from types import MappingProxyType
from typing import Any

from .. import settings
from ..contract import Binary, LinearProgram, Param, Source, evaluate
from ..dtype import DType, dtypes
from ..errors import DeviceContractError
from ..plugin import Allocator, Device, Program, Renderer
from ..target import Target
from ..uop.ops import Ops
from . import interp_text

# ---- what it can do

_INTS = frozenset({
    dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32,
    dtypes.int64, dtypes.uint64, dtypes.index,
})  # fmt: skip
_FLOATS = frozenset({dtypes.float32, dtypes.float64})
_NUMBERS = _INTS | _FLOATS
_HALVES = frozenset({dtypes.float16, dtypes.bfloat16})
_BITS = _INTS | {dtypes.bool}
_ALL = _NUMBERS | _HALVES | {dtypes.bool}


def _table(*rows: tuple[frozenset[DType], str]) -> Mapping[Ops, frozenset[DType]]:
    return MappingProxyType({Ops[name]: kinds for kinds, names in rows for name in names.split()})


# Halves are storage here as on cpu: arithmetic on them is decomposed to float32. EXP2, LOG2 and SIN
# are missing on purpose, so that every device computes them by the same polynomials.
OPS = _table(
    (_NUMBERS, "ADD SUB MUL NEG MIN MAX"),
    (_FLOATS, "DIV SQRT FMA FLOOR CEIL TRUNC ROUND"),
    (_INTS, "IDIV IMOD SHL SHR"),
    (_BITS, "AND OR XOR NOT"),
    (_NUMBERS | {dtypes.bool}, "CMPLT CMPLE CMPEQ CMPNE"),
    (_ALL, "WHERE CAST BITCAST CONST"),
    (_ALL - {dtypes.bool}, "LOAD STORE"),
)

TARGET = Target(
    name="interp",
    arch="python",
    ops=OPS,
    max_grid=(1 << 62, 1 << 62, 1 << 62),
    peer_copy=True,
    grid_only=True,
)


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

    def _buffers(self, handles: tuple[Handle, ...]) -> dict[int, memoryview]:
        params = self.program.params
        if len(handles) != len(params):
            raise self._error(f"takes {len(params)} buffers, got {len(handles)}")
        for p, handle in zip(params, handles, strict=True):
            need = p.size * p.dtype.itemsize
            if handle.nbytes < need:
                raise self._error(f"param {p.slot} needs {need} bytes, got {handle.nbytes}")
            if "w" in p.access:
                self._check_overlap(p, handles)
        sizes = {p.slot: p.size * p.dtype.itemsize for p in params}
        return {p.slot: handles[i].memory[: sizes[p.slot]] for i, p in enumerate(params)}

    def _check_overlap(self, written: Param, handles: tuple[Handle, ...]) -> None:
        mine = handles[self.program.params.index(written)]
        for other, handle in zip(self.program.params, handles, strict=True):
            if other is not written and other.size and mine.overlaps(handle):
                raise self._error(f"params {written.slot} and {other.slot} overlap")

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
