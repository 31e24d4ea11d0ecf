"""Write a LinearProgram by hand, and launch it on any device: for tests below the compiler.

>>> a = Assembler()
>>> x, y = a.param(dtypes.float32, 4), a.param(dtypes.float32, 4, "w")
>>> i = a.grid(4)
>>> a.store(y, i, a(Ops.ADD, a.load(x, i), a.const(dtypes.float32, 1)))
>>> program = a.build()
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from ..contract import Instr, LinearProgram, Param, Postfix, VariableSpec
from ..dtype import DType, dtypes
from ..errors import DeviceContractError
from ..plugin import Device
from ..uop.ops import COMPARISONS, Ops

GUARD = 64  # bytes behind each buffer that nobody may write


class Assembler:
    """Appends instructions; every method returns the position of the value it made."""

    def __init__(self, name: str = "k_test") -> None:
        self.name = name
        self.ops: list[Instr] = []
        self.params: list[Param] = []
        self.variables: list[VariableSpec] = []
        self.sizes: list[Postfix] = []

    def emit(self, op: Ops, dtype: DType, src: Sequence[int] = (), arg: Any = None) -> int:
        self.ops.append(Instr(op, dtype, tuple(src), arg))
        return len(self.ops) - 1

    def __call__(self, op: Ops, *src: int, dtype: DType | None = None, arg: Any = None) -> int:
        """A pure instruction; its dtype is the last source's, or bool lanes for a comparison."""
        kind = self.ops[src[-1]].dtype
        if op in COMPARISONS:
            kind = dtypes.bool.vec(kind.lanes)
        return self.emit(op, dtype or kind, src, arg)

    def param(self, dtype: DType, size: int, access: str = "r") -> int:
        self.params.append(Param(len(self.params), dtype, size, access))
        return self.emit(Ops.PARAM, dtype, (), len(self.params) - 1)

    def local(self, dtype: DType, count: int, space: str = "register") -> int:
        return self.emit(Ops.LOCAL, dtype, (), (count, space))

    def const(self, dtype: DType, value: Any) -> int:
        return self.emit(Ops.CONST, dtype, (), value)

    def number(self, value: int) -> int:
        return self.const(dtypes.int32, value)

    def variable(self, name: str, lo: int, hi: int, dtype: DType = dtypes.int32) -> int:
        self.variables.append(VariableSpec(name, dtype, lo, hi))
        return self.emit(Ops.VARIABLE, dtype, (), name)

    def grid(self, size: int | Postfix) -> int:
        """The index of the block along one more axis of this size."""
        self.sizes.append((size,) if isinstance(size, int) else size)
        return self.emit(Ops.GRID, dtypes.int32, (), len(self.sizes) - 1)

    def range(self, lo: int, hi: int, kind: str = "loop") -> int:
        """Opens a loop between the two *values*; close it with `end`."""
        return self.emit(Ops.RANGE, dtypes.int32, (lo, hi), kind)

    def end(self, loop: int) -> int:
        return self.emit(Ops.END, dtypes.void, (loop,))

    def branch(self, condition: int) -> int:
        return self.emit(Ops.IF, dtypes.void, (condition,))

    def endif(self, branch: int) -> int:
        return self.emit(Ops.ENDIF, dtypes.void, (branch,))

    def index(self, base: int, offset: int) -> int:
        return self.emit(Ops.INDEX, self.ops[base].dtype, (base, offset))

    def load(self, base: int, offset: int, *gate: int, lanes: int = 1) -> int:
        """Loads from `base[offset]`; `gate` may be a mask, or a mask and an alternative."""
        dtype = self.ops[base].dtype
        return self.emit(
            Ops.LOAD, dtype.vec(lanes) if lanes > 1 else dtype, (self.index(base, offset), *gate)
        )

    def store(self, base: int, offset: int, value: int, *gate: int) -> int:
        return self.emit(Ops.STORE, dtypes.void, (self.index(base, offset), value, *gate))

    def build(self) -> LinearProgram:
        return LinearProgram(
            name=self.name,
            ops=tuple(self.ops),
            params=tuple(self.params),
            variables=tuple(self.variables),
            grid=tuple(self.sizes),
        )


def launch(
    device: str | Device,
    program: LinearProgram,
    *contents: bytes,
    scalars: tuple[int | float, ...] = (),
    loaded: Any = None,
) -> list[bytes]:
    """Render, compile, load and run `program` on `contents` (one per param); the bytes after.
    `loaded` is the program on the device where it has been made before.

    Raises DeviceContractError where the program wrote past the end of a buffer.
    """
    from ..contract import evaluate
    from ..device import get
    from ..device.loading import made

    opened = get(device) if isinstance(device, str) else device
    if loaded is None:
        loaded = made(opened, [program])[program.name]
    guarded = [bytes(c) + b"\xa5" * GUARD for c in contents]
    values = dict(zip((v.name for v in program.variables), scalars, strict=True))
    sizes = tuple(evaluate(g, values) for g in program.grid)
    out = [bytearray(len(data)) for data in guarded]
    with ExitStack() as held:
        handles = []
        for data in guarded:
            handles.append(opened.allocator.alloc(len(data)))
            held.callback(opened.allocator.free, handles[-1])
        for handle, data in zip(handles, guarded, strict=True):
            opened.allocator.write(handle, memoryview(data))
        loaded(*handles, grid=sizes, scalars=scalars)
        opened.synchronize()
        for handle, room in zip(handles, out, strict=True):
            opened.allocator.read(memoryview(room), handle)
    for i, (room, data) in enumerate(zip(out, guarded, strict=True)):
        if room[-GUARD:] != data[-GUARD:]:
            raise DeviceContractError(
                f"program {program.name} wrote past the end of buffer {i}, which has"
                f" {len(data) - GUARD} bytes."
            )
    return [bytes(room[:-GUARD]) for room in out]
