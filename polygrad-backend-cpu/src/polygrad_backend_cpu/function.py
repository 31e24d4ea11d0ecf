"""One program being printed, in any language: the way through its instructions.

    void <symbol>(params, variables, scratch, lo, hi)

`params` is a table of buffer addresses; `variables` holds 8-byte slots: the program's variables in
order (integers as int64, floats as float64), then the extents of the grid's axes. Blocks lo .. hi-1
run in order; the last axis of the grid is the fastest. `scratch` is private to the calling thread.

The symbol tells how to call: `name_<one letter per variable, i or f>_<scratch bytes>` (`Entry`),
so that code from the disk cache needs nothing beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from polygrad.contract import Instr, LinearProgram
from polygrad.dtype import DType, dtypes
from polygrad.errors import UnsupportedOp
from polygrad.uop.ops import Ops

from .lines import Value

ALIGN = 64
STACK = 64 << 10  # bytes of a LOCAL that the stack of any thread has room for


class Entry(NamedTuple):
    """What a symbol says: the kinds of the variables ("i" or "f" each) and the scratch it needs."""

    kinds: str
    scratch: int

    @staticmethod
    def of(symbol: str) -> Entry:
        _, kinds, scratch = symbol.rsplit("_", 2)
        return Entry(kinds, int(scratch))


def in_memory(dtype: DType) -> DType:
    """How an array holds values of a dtype: a bool is a byte. LLVM has a vector of i1 as bits
    there, and C's masks are wider."""
    return dtypes.uint8.vec(dtype.lanes) if dtype.kind == "bool" else dtype


class Function(ABC):
    """Walks the instructions in order; a language says how each is printed.

    `names` holds what an instruction made, `registers` the names of a LOCAL whose elements are
    variables of their own.
    """

    def __init__(self, program: LinearProgram) -> None:
        if not program.name.isidentifier():
            raise UnsupportedOp(f"{program.name!r} cannot name a program: it is no identifier")
        self.program = program
        self.ops = program.expanded()
        self.names: list[str] = [""] * len(self.ops)
        self.registers: dict[int, list[str]] = {}
        self.streams = False  # a non-temporal store was printed
        self.scratch = 0
        self.far: set[int] = set()  # LOCALs that lie there
        self.uses = _local_uses(self.ops)
        self.reads = _reads(program.ops)
        self.sums = any(o.op is Ops.LOCAL for o in program.ops)
        self.blocks: list[str] = []  # this block's index along each axis of the grid

    @property
    def symbol(self) -> str:
        """Known once all is printed."""
        kinds = "".join("f" if v.dtype.is_float else "i" for v in self.program.variables)
        return f"{self.program.name}_{kinds}_{max(self.scratch, self.program.scratch_bytes)}"

    # ---- what a language says

    @abstractmethod
    def printed(self, instr: Instr, names: list[str], dtypes: list[DType]) -> str:
        """Print an instruction without effect on these operands; its name. Raises UnsupportedOp."""

    @abstractmethod
    def slot(self, number: int, dtype: DType) -> str:
        """Slot `number` of the variables, read once at the function's head."""

    @abstractmethod
    def at_scratch(self, at: int, dtype: DType, offset: int) -> str:
        """An array of `dtype` in the scratch memory."""

    @abstractmethod
    def as_registers(self, at: int, dtype: DType, count: int) -> list[str]:
        """`count` variables, one per element."""

    @abstractmethod
    def on_stack(self, at: int, dtype: DType, count: int) -> str:
        """An array of `dtype` on the stack."""

    @abstractmethod
    def load(self, instr: Instr, others: list[str]) -> str:
        """What a LOAD gives; `others`: the name of its alternative, if it has one."""

    @abstractmethod
    def store(self, at: int, instr: Instr, dtype: DType, value: str) -> None:
        """A STORE of this value."""

    # Each prints the instruction at one position, and may set its name.
    @abstractmethod
    def on_variable(self, at: int, instr: Instr) -> None: ...
    @abstractmethod
    def on_param(self, at: int, instr: Instr) -> None: ...
    @abstractmethod
    def on_index(self, at: int, instr: Instr) -> None: ...
    @abstractmethod
    def on_range(self, at: int, instr: Instr) -> None: ...
    @abstractmethod
    def on_end(self, at: int, instr: Instr) -> None: ...
    @abstractmethod
    def on_if(self, at: int, instr: Instr) -> None: ...
    @abstractmethod
    def on_endif(self, at: int, instr: Instr) -> None: ...

    # ---- what all share

    def emit(self, op: Ops, dtype: DType, *values: Value, arg: Any = None) -> Value:
        instr = Instr(op, dtype, (), arg)
        name = self.printed(instr, [v.name for v in values], [v.dtype for v in values])
        return Value(name, dtype)

    def statements(self) -> None:
        names, ops = self.names, self.ops
        special = {op: getattr(self, method) for op, method in _SPECIAL.items()}
        for at, instr in enumerate(ops):
            effect = special.get(instr.op)
            if effect is not None:
                effect(at, instr)
                continue
            src = instr.src
            names[at] = self.printed(instr, [names[s] for s in src], [ops[s].dtype for s in src])

    def decode_grid(self, flat: str) -> None:
        """The index along each axis, from the flat number of a block."""
        extents = [self._extent(axis) for axis in range(len(self.program.grid))]
        rest, found = Value(flat, dtypes.uint64), []
        for extent in reversed(extents[1:]):
            found.append(self.emit(Ops.IMOD, dtypes.uint64, rest, extent).name)
            rest = self.emit(Ops.IDIV, dtypes.uint64, rest, extent)
        self.blocks = [rest.name, *reversed(found)]

    def _extent(self, axis: int) -> Value:
        expr = self.program.grid[axis]
        if len(expr) == 1 and isinstance(expr[0], int):
            return self.emit(Ops.CONST, dtypes.uint64, arg=expr[0])
        return Value(self.slot(len(self.program.variables) + axis, dtypes.int64), dtypes.uint64)

    def variable_slot(self, name: str) -> int:
        return next(i for i, v in enumerate(self.program.variables) if v.name == name)

    def on_grid(self, at: int, instr: Instr) -> None:
        block = Value(self.blocks[instr.arg], dtypes.uint64)
        self.names[at] = self.emit(Ops.CAST, instr.dtype, block).name

    def on_local(self, at: int, instr: Instr) -> None:
        count, space = instr.arg
        if space == "shared":
            raise UnsupportedOp(f"cpu has no shared memory (program {self.program.name})")
        held = in_memory(instr.dtype)
        nbytes = count * held.itemsize
        if space == "scratch" or nbytes > STACK:
            self.far.add(at)
            self.names[at] = self.at_scratch(at, held, self.scratch)
            self.scratch += -(-nbytes // ALIGN) * ALIGN
        elif space == "register" and self.uses[at]:
            self.registers[at] = self.as_registers(at, instr.dtype, count)
        else:
            self.names[at] = self.on_stack(at, held, count)

    def held(self, index: int, dtype: DType) -> DType:
        """How the memory behind an INDEX holds values of a dtype: a variable as they are."""
        return dtype if self.ops[index].src[0] in self.registers else in_memory(dtype)

    def on_load(self, at: int, instr: Instr) -> None:
        held = self.held(instr.src[0], instr.dtype)
        others = [Value(self.names[s], instr.dtype) for s in instr.src[2:]]
        if held is not instr.dtype:
            others = [self.emit(Ops.CAST, held, o) for o in others]
        name = self.load(instr._replace(dtype=held), [o.name for o in others])
        if held is not instr.dtype:
            name = self.emit(Ops.CAST, instr.dtype, Value(name, held)).name
        self.names[at] = name

    def on_store(self, at: int, instr: Instr) -> None:
        dtype = self.ops[instr.src[1]].dtype
        held, value = self.held(instr.src[0], dtype), Value(self.names[instr.src[1]], dtype)
        if held is not dtype:
            value = self.emit(Ops.CAST, held, value)
        self.store(at, instr, held, value.name)

    def condition(self, store: Instr) -> int:
        """The gate of a STORE: of one for all of its lanes what it is made of, a branch around the
        store, because masked stores are slow on some machines (Zen 3: a dozen cycles each)."""
        gate = store.src[2]
        return self.ops[gate].src[0] if self.ops[gate].op is Ops.BROADCAST else gate

    def nearness(self, load: Instr) -> int:
        """How near the caches shall have what a LOAD asks for ahead, of 3: vectors that are read in
        this place alone, and summed up, pass through the first cache, so the second (2) does. So it
        does for what is only asked for here.

        Measured on AVX-512: a matrix times a vector 1.13x with 2, 1.06x with 3; layer norm, which
        reads its rows three times, 0.9x with 2; a dozen operations on three arrays, which fit the
        second cache or not, 0.92x to 0.97x with 2, 1.02x to 1.04x with 3.
        """
        base = self.ops[self.ops[load.src[0]].src[0]].arg
        passes = load.dtype.lanes > 1 and self.reads[base] == 1 and self.sums
        return 2 if passes or load.arg == 0 else 3

    def unsupported(self, op: Ops) -> UnsupportedOp:
        return UnsupportedOp(f"cpu cannot print {op} (program {self.program.name})")


def _reads(ops: Sequence[Instr]) -> Counter[int]:
    """In how many places each param is read, loops not printed out."""
    loads = (ops[ops[o.src[0]].src[0]] for o in ops if o.op is Ops.LOAD)
    return Counter(base.arg for base in loads if base.op is Ops.PARAM)


def _local_uses(ops: Sequence[Instr]) -> dict[int, bool]:
    """For each register LOCAL: is every access a whole element at a constant index?"""
    whole = {i: True for i, o in enumerate(ops) if o.op is Ops.LOCAL and o.arg[1] == "register"}
    of_index: dict[int, int] = {}
    for i, o in enumerate(ops):
        if o.op is Ops.INDEX and o.src[0] in whole:
            of_index[i] = o.src[0]
            whole[o.src[0]] &= ops[o.src[1]].op is Ops.CONST
        elif o.op in (Ops.LOAD, Ops.STORE) and o.src[0] in of_index:
            local = of_index[o.src[0]]
            moved = o.dtype if o.op is Ops.LOAD else ops[o.src[1]].dtype
            plain = len(o.src) == (1 if o.op is Ops.LOAD else 2)
            whole[local] &= moved is ops[local].dtype and (plain or o.op is Ops.STORE)
    return whole


_SPECIAL = {
    Ops.GRID: "on_grid",
    Ops.VARIABLE: "on_variable",
    Ops.PARAM: "on_param",
    Ops.LOCAL: "on_local",
    Ops.INDEX: "on_index",
    Ops.LOAD: "on_load",
    Ops.STORE: "on_store",
    Ops.RANGE: "on_range",
    Ops.END: "on_end",
    Ops.IF: "on_if",
    Ops.ENDIF: "on_endif",
}
