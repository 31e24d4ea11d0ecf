"""A small language for LinearPrograms written by hand, and one call that runs them on the cpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from polygrad import settings
from polygrad.contract import Instr, Launch, LinearProgram, Param, Plan, PlanBuffer, VariableSpec
from polygrad.dtype import DType, dtypes, to_dtype
from polygrad.uop.ops import Ops
from polygrad_backend_cpu.device import CpuDevice
from polygrad_backend_cpu.toolchain import C_COMPILERS, missing

I64, F32, BOOL = dtypes.int64, dtypes.float32, dtypes.bool


class Build:
    """Appends instructions; every method gives the position of what it appended."""

    def __init__(self) -> None:
        self.ops: list[Instr] = []
        self.params: list[Param] = []
        self.variables: list[VariableSpec] = []
        self.grid: tuple[Any, ...] = ()

    def op(self, op: Ops, dtype: DType, *src: int, arg: Any = None) -> int:
        self.ops.append(Instr(op, dtype, src, arg))
        return len(self.ops) - 1

    def param(self, dtype: DType, size: int, access: str) -> int:
        self.params.append(Param(len(self.params), dtype, size, access))
        return self.op(Ops.PARAM, dtype, arg=len(self.params) - 1)

    def variable(self, name: str, dtype: DType, lo: float, hi: float) -> int:
        self.variables.append(VariableSpec(name, dtype, lo, hi))
        return self.op(Ops.VARIABLE, dtype, arg=name)

    def const(self, value: Any, dtype: DType = I64) -> int:
        return self.op(Ops.CONST, dtype, arg=value)

    def block(self, *extents: Any) -> list[int]:
        """The grid, and the index along each axis."""
        self.grid = tuple(e if isinstance(e, tuple) else (e,) for e in extents)
        return [self.op(Ops.GRID, I64, arg=i) for i in range(len(extents))]

    def loop(self, lo: int, hi: int, kind: str = "loop") -> int:
        return self.op(Ops.RANGE, I64, lo, hi, arg=kind)

    def end(self, loop: int) -> int:
        return self.op(Ops.END, dtypes.void, loop)

    def binary(self, op: Ops, a: int, b: int) -> int:
        dtype = self.ops[a].dtype
        return self.op(op, BOOL.vec(dtype.lanes) if "CMP" in op.name else dtype, a, b)

    def add(self, a: int, b: int) -> int:
        return self.binary(Ops.ADD, a, b)

    def mul(self, a: int, b: int) -> int:
        return self.binary(Ops.MUL, a, b)

    def affine(self, base: int, *terms: tuple[int, int]) -> int:
        """base + sum of term * coefficient."""
        for term, coefficient in terms:
            base = self.add(base, self.mul(term, self.const(coefficient)))
        return base

    def local(self, dtype: DType, count: int, space: str = "register") -> int:
        return self.op(Ops.LOCAL, dtype, arg=(count, space))

    def at(self, base: int, offset: int) -> int:
        return self.op(Ops.INDEX, self.ops[base].dtype, base, offset)

    def load(self, base: int, offset: int, lanes: int = 1, gate: Sequence[int] = ()) -> int:
        scalar = self.ops[base].dtype
        dtype = scalar if lanes == 1 else scalar.vec(lanes)
        return self.op(Ops.LOAD, dtype, self.at(base, offset), *gate)

    def store(self, base: int, offset: int, value: int, *gate: int, arg: Any = None) -> int:
        return self.op(Ops.STORE, dtypes.void, self.at(base, offset), value, *gate, arg=arg)

    def cast(self, value: int, dtype: DType) -> int:
        return self.op(Ops.CAST, dtype, value)

    def broadcast(self, value: int, lanes: int) -> int:
        return self.op(Ops.BROADCAST, self.ops[value].dtype.vec(lanes), value)

    def program(self, name: str = "k", **more: Any) -> LinearProgram:
        return LinearProgram(
            name, tuple(self.ops), tuple(self.params), tuple(self.variables), self.grid, **more
        )


class Runner:
    """Compiles and runs programs on one device, with numpy arrays for buffers."""

    def __init__(self, threads: int = 1, toolchain: str = "") -> None:
        self.device = CpuDevice.open(0, {"threads": str(threads), "toolchain": toolchain})

    def load(self, *programs: LinearProgram) -> Any:
        device = self.device
        return device.load(device.compiler(device.renderer.render(programs)))

    def put(self, array: np.ndarray) -> Any:
        handle = self.device.allocator.alloc(max(1, array.nbytes))
        self.device.allocator.write(handle, memoryview(np.ascontiguousarray(array)).cast("B"))
        return handle

    def get(self, handle: Any, like: np.ndarray) -> np.ndarray:
        out = np.empty_like(like)
        self.device.allocator.read(memoryview(out).cast("B"), handle)
        return out

    def __call__(
        self, program: LinearProgram, *arrays: np.ndarray, scalars: dict[str, Any] | None = None
    ) -> list[np.ndarray]:
        """Run through a Plan of one step; every buffer as it is afterwards."""
        handles = [self.put(a) for a in arrays]
        names = tuple((v.name,) for v in program.variables)
        step = Launch(program.name, tuple(range(len(arrays))), names, program.grid)
        buffers = tuple(PlanBuffer("external", a.nbytes, i) for i, a in enumerate(arrays))
        plan = Plan(buffers, (step,), {program.name: program}, variables=program.variables)
        run = self.device.prepare(plan, self.load(program), None)
        run(handles, [(scalars or {})[v.name] for v in program.variables])
        return [self.get(h, a) for h, a in zip(handles, arrays, strict=True)]

    def elementwise(self, make: Any, out: np.dtype, *arrays: np.ndarray) -> np.ndarray:
        """`make(build, *values)` of every element, singly and in vectors; both must agree."""
        results = [self._elementwise(make, out, lanes, arrays) for lanes in (1, 8)]
        np.testing.assert_array_equal(results[0].view(np.uint8), results[1].view(np.uint8))
        return results[0]

    def _elementwise(
        self, make: Any, out: np.dtype, lanes: int, arrays: Sequence[np.ndarray]
    ) -> np.ndarray:
        b = Build()
        size = arrays[0].size
        padded = [np.resize(a, -(-size // lanes) * lanes) for a in arrays]
        sources = [b.param(dtype_of(a.dtype), padded[0].size, "r") for a in padded]
        target = b.param(dtype_of(np.dtype(out)), padded[0].size, "w")
        (i,) = b.block(padded[0].size // lanes)
        offset = b.mul(i, b.const(lanes))
        b.store(target, offset, make(b, *(b.load(s, offset, lanes) for s in sources)))
        return self(b.program(), *padded, np.zeros(padded[0].size, out))[-1][:size]


def dtype_of(dtype: np.dtype) -> DType:
    return dtypes.uint8 if dtype == np.bool_ else to_dtype(dtype.name)


@pytest.fixture
def build() -> type[Build]:
    return Build


def _present() -> list[str]:
    """The toolchains of this machine, and one that the user names, which must be there."""
    named = settings.get("POLY_CPU_TOOLCHAIN")
    return ["llvm", *(t for t in C_COMPILERS if t == named or missing(t) is None)]


def _require(toolchain: str) -> None:
    """Skip where `toolchain` is not installed; one that the user named must be there."""
    lacks = missing(toolchain)
    if lacks is not None and settings.get("POLY_CPU_TOOLCHAIN") == toolchain:
        pytest.fail(f"{lacks.detail}. Hint: {lacks.hint}", pytrace=False)
    if lacks is not None:
        pytest.skip(lacks.detail)


@pytest.fixture(scope="session")
def require() -> Callable[[str], None]:
    return _require


@pytest.fixture(scope="session", params=_present())
def run(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """A runner with each toolchain of this machine."""
    _require(request.param)
    made = Runner(toolchain=request.param)
    yield made
    made.device.close()


@pytest.fixture(scope="session")
def llvm() -> Iterator[Runner]:
    made = Runner(toolchain="llvm")
    yield made
    made.device.close()


@pytest.fixture(scope="session")
def runner() -> type[Runner]:
    return Runner
