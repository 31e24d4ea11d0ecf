"""What both engines of the reference device share: from a flat list to nested steps.

`Walker` turns a LinearProgram into a tree of Python closures, one *step* per instruction; a loop or
a branch holds the steps of its body. The engines differ in what a value is: `interp_numpy` keeps
one array per value with a point for every block of the grid, `interp_python` keeps one Python
number and runs the blocks one after another. What an instruction means is therefore written twice,
in two short tables, and each engine is the other's witness in the tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..contract import Instr, LinearProgram
from ..dtype import DType
from ..errors import DeviceContractError, UnsupportedOp
from ..uop.ops import COMPARISONS, Ops
from .interp_target import OPS


class Frame:
    """What one run of a tile of the grid sees. `mask` is None where every block takes part."""

    __slots__ = ("buffers", "coords", "mask", "scalars", "shape", "values")

    def __init__(
        self,
        values: list[Any],
        buffers: Sequence[Any],
        scalars: Mapping[str, Any],
        coords: Sequence[Any],
        shape: tuple[int, ...],
    ) -> None:
        self.values = values
        self.mask: Any = None
        self.buffers, self.scalars, self.coords, self.shape = buffers, scalars, coords, shape


Step = Callable[[Frame], None]

_PURE = (
    "ADD SUB MUL NEG MIN MAX DIV IDIV IMOD FMA SQRT FLOOR CEIL TRUNC ROUND"
    " AND OR XOR NOT SHL SHR CMPLT CMPLE CMPEQ CMPNE WHERE"
)
# op -> the Walker's method that makes its step; PARAM and INDEX make none: LOAD and STORE look
# through them.
MAKERS: Mapping[Ops, str] = {
    Ops.PARAM: "nothing",
    Ops.INDEX: "nothing",
    Ops.CONST: "constant",
    Ops.VARIABLE: "variable",
    Ops.GRID: "grid",
    Ops.LOCAL: "local",
    Ops.RANGE: "loop",
    Ops.IF: "branch",
    Ops.LOAD: "load",
    Ops.STORE: "store",
    Ops.CAST: "cast",
    Ops.BITCAST: "cast",
    Ops.BROADCAST: "broadcast",
    Ops.VECTOR: "vector",
    Ops.EXTRACT: "extract",
    Ops.SHUFFLE: "shuffle",
    Ops.LANES: "lanes",
    **{Ops[name]: "pure" for name in _PURE.split()},
}


_MEMORY = (Ops.LOAD, Ops.STORE)  # registers hold what memory does not


class Walker(ABC):
    """Builds the steps of a program; `run` executes them over a grid."""

    def __init__(self, program: LinearProgram) -> None:
        self.program, self.ops = program, program.ops
        self.sizes = [p.size for p in program.params]
        self.ends = _closers(program)
        self.constants: list[Any] = [None] * len(self.ops)  # what values begin as
        self._made: dict[int, Step | None] = {}
        self.steps = self.block(0, len(self.ops))

    def block(self, start: int, stop: int) -> tuple[Step, ...]:
        """The steps of instructions `start` to `stop` - 1; bodies are inside their RANGE or IF."""
        places = []
        i = start
        while i < stop:
            places.append(i)
            i = self.ends.get(i, i) + 1
        return self.steps_of(places)

    def steps_of(self, places: Sequence[int]) -> tuple[Step, ...]:
        """The steps of the instructions at `places`; some make none."""
        made = [self._step(i) for i in places]
        return tuple([step for step in made if step is not None])

    def _step(self, i: int) -> Step | None:
        """The step of instruction `i`, made once."""
        if i not in self._made:
            instr = self.ops[i]
            if any(s >= i for s in instr.src):
                raise self.error(i, "reads a value that is made later")
            make = MAKERS.get(instr.op)
            if make is None:
                raise UnsupportedOp(f"the interp device has no {instr.op}: {self.where(i)}")
            self.check_native(i)
            self._made[i] = None if make == "nothing" else getattr(self, make)(i)
        return self._made[i]

    def constant(self, i: int) -> None:
        """A constant makes no step: it is there from the beginning."""
        self.constants[i] = self.value_of(self.ops[i])

    def variable(self, i: int) -> Step:
        name = self.ops[i].arg

        def step(f: Frame) -> None:
            f.values[i] = f.scalars[name]

        return step

    def check_native(self, i: int) -> None:
        """Raise unless the target lists the instruction for the dtypes it works on."""
        instr = self.ops[i]
        kinds = {instr.dtype.scalar} if instr.op not in COMPARISONS else set()
        if instr.op in COMPARISONS or instr.op is Ops.CAST:
            kinds |= {self.ops[s].dtype.scalar for s in instr.src}
        if instr.op is Ops.PARAM and instr.dtype not in OPS[Ops.LOAD]:
            raise self.error(i, "is no dtype that memory holds")
        if instr.op in OPS and instr.op not in _MEMORY and not kinds <= OPS[instr.op]:
            names = ", ".join(sorted(k.name for k in kinds))
            raise UnsupportedOp(f"the target lacks {instr.op} of {names}: {self.where(i)}")

    def check_sources(self, i: int) -> None:
        """Raise if the sources of a pure instruction differ in dtype."""
        kinds = {self.ops[s].dtype for s in self.ops[i].src}
        if len(kinds) > 1 and self.ops[i].op is not Ops.WHERE:
            raise self.error(i, f"has sources of different dtypes: {sorted(map(repr, kinds))}")

    @abstractmethod
    def run(
        self, buffers: Sequence[memoryview], grid: Sequence[int], scalars: Mapping[str, Any]
    ) -> None:
        """Run the program: buffers in the order of params, the grid's sizes, variables by name."""

    @abstractmethod
    def value_of(self, constant: Instr) -> Any: ...

    @abstractmethod
    def grid(self, i: int) -> Step: ...

    @abstractmethod
    def pure(self, i: int) -> Step: ...

    @abstractmethod
    def cast(self, i: int) -> Step: ...

    @abstractmethod
    def broadcast(self, i: int) -> Step: ...

    @abstractmethod
    def vector(self, i: int) -> Step: ...

    @abstractmethod
    def extract(self, i: int) -> Step: ...

    @abstractmethod
    def shuffle(self, i: int) -> Step: ...

    @abstractmethod
    def lanes(self, i: int) -> Step: ...

    @abstractmethod
    def loop(self, i: int) -> Step: ...

    @abstractmethod
    def branch(self, i: int) -> Step: ...

    @abstractmethod
    def local(self, i: int) -> Step: ...

    @abstractmethod
    def load(self, i: int) -> Step: ...

    @abstractmethod
    def store(self, i: int) -> Step: ...

    def body(self, i: int) -> tuple[Step, ...]:
        return self.block(i + 1, self.ends[i])

    def address(self, i: int) -> tuple[Instr, int, int]:
        """Base instruction, its position and the offset's position of the INDEX that `i` uses."""
        index = self.ops[self.ops[i].src[0]]
        if index.op is not Ops.INDEX:
            raise self.error(i, f"needs an INDEX, got {index.op}")
        base, offset = index.src
        return self.ops[base], base, offset

    def stored(self, i: int, base: Instr) -> tuple[int, int | None, DType]:
        """The positions of the value and of the gate of a STORE into `base`; the value's dtype."""
        value, *gate = self.ops[i].src[1:]
        dtype = self.ops[value].dtype
        if dtype.scalar is not base.dtype.scalar:
            raise self.error(i, f"puts {dtype.name} into memory of {base.dtype.name}")
        return value, gate[0] if gate else None, dtype

    def where(self, i: int) -> str:
        instr = self.ops[i]
        return f"program {self.program.name}, instruction {i}: {instr.op} {instr.dtype.name}"

    def error(self, i: int, text: str) -> DeviceContractError:
        return DeviceContractError(f"{self.where(i)} {text}.")

    def outside(self, i: int, offset: int, size: int) -> DeviceContractError:
        base = self.address(i)[0]
        what = f"param {base.arg}" if base.op is Ops.PARAM else "a LOCAL"
        return self.error(i, f"at offset {offset} of {what}, which has {size} elements")


def _closers(program: LinearProgram) -> dict[int, int]:
    """Position of each RANGE and IF -> position of its END or ENDIF."""
    ends: dict[int, int] = {}
    open_at: list[int] = []
    for i, instr in enumerate(program.ops):
        if instr.op in (Ops.RANGE, Ops.IF):
            open_at.append(i)
        elif instr.op in (Ops.END, Ops.ENDIF):
            if not open_at or open_at[-1] != instr.src[0]:
                raise DeviceContractError(
                    f"program {program.name}, instruction {i}: {instr.op} closes an outer block."
                )
            ends[open_at.pop()] = i
    if open_at:
        raise DeviceContractError(
            f"program {program.name}: instruction {open_at[-1]} is never closed."
        )
    return ends
