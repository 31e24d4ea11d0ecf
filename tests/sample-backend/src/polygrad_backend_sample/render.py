"""LinearPrograms as assembly: a line for each instruction.

    program k_0123 grid 8
    r4 = grid int32 0
    r6 = load float32x4 p0 r4
    r7 = const float32 0x1.0000000000000p+1
    r8 = add float32x4 r6 r6
    store float32x4 p1 r4 r8

`p0` is a param, `m5` a local; every other operand is a register. Loops and branches are closed by
`end` and `endif`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygrad.contract import Instr, LinearProgram, Source
from polygrad.errors import UnsupportedOp
from polygrad.plugin import Renderer
from polygrad.uop.ops import COMPARISONS, Ops

PURE = frozenset({
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.MIN, Ops.MAX, Ops.DIV, Ops.SQRT, Ops.IDIV, Ops.IMOD,
    Ops.SHL, Ops.SHR, Ops.AND, Ops.OR, Ops.XOR, Ops.NOT, Ops.WHERE, Ops.CMPLT, Ops.CMPLE,
    Ops.CMPEQ, Ops.CMPNE, Ops.CAST, Ops.BITCAST, Ops.BROADCAST, Ops.VECTOR, Ops.EXTRACT,
    Ops.SHUFFLE, Ops.LANES,
})  # fmt: skip


class SampleRenderer(Renderer):
    key = "sample-asm-1"

    def render(self, programs: Sequence[LinearProgram]) -> Source:
        text = "".join(self._program(p) for p in programs)
        return Source(text, {p.name: p.name for p in programs})

    def _program(self, program: LinearProgram) -> str:
        if len(program.params) > self.target.max_buffers:
            raise UnsupportedOp(f"program {program.name} has {len(program.params)} buffers")
        grid = " ".join(",".join(map(str, g)) for g in program.grid)
        names = [v.name for v in program.variables]
        ops = program.expanded()
        lines = [self._line(program, ops, i, names) for i in range(len(ops))]
        head = f"program {program.name} {len(ops)} {len(program.params)} grid {grid}".rstrip()
        return "\n".join([head, *filter(None, lines)]) + "\n"

    def _line(
        self, program: LinearProgram, ops: tuple[Instr, ...], i: int, names: list[str]
    ) -> str:
        op, dtype, src, arg = ops[i]
        registers = " ".join(f"r{s}" for s in src)
        if op in (Ops.PARAM, Ops.INDEX):
            return ""
        if op is Ops.CONST:
            return f"r{i} = const {dtype.name} {_constant(dtype.lanes, arg)}"
        if op is Ops.GRID:
            return f"r{i} = grid {dtype.name} {arg}"
        if op is Ops.VARIABLE:
            return f"r{i} = variable {dtype.name} {names.index(arg)}"
        if op is Ops.LOCAL:
            return f"m{i} = local {dtype.name} {arg[0]}"
        if op in (Ops.LOAD, Ops.STORE):
            moved = dtype if op is Ops.LOAD else ops[src[1]].dtype
            in_memory = ops[ops[src[0]].src[0]].op is Ops.PARAM
            if in_memory and moved.itemsize not in self.target.memory_bytes:
                raise UnsupportedOp(f"sample cannot move {moved.name} at once ({program.name})")
        if op is Ops.LOAD:
            return f"r{i} = load {dtype.name} {_address(ops, src)}"
        if op is Ops.STORE:
            value = ops[src[1]].dtype
            return f"store {value.name} {_address(ops, src)}"
        if op is Ops.RANGE:
            return f"r{i} = loop {dtype.name} {registers}"
        if op is Ops.IF:
            return f"if {registers}"
        if op in (Ops.END, Ops.ENDIF):
            return op.name.lower()
        return self._pure(program, ops, i)

    def _pure(self, program: LinearProgram, ops: tuple[Instr, ...], i: int) -> str:
        op, dtype, src, arg = ops[i]
        of = ops[src[0]].dtype
        known = of if op in COMPARISONS else dtype
        if op not in PURE or not self.target.supports(op, known):
            raise UnsupportedOp(
                f"sample cannot print {op.name} of {known.name} (program {program.name}, %{i})"
            )
        words = [f"r{i} = {op.name.lower()} {dtype.name}", *(f"r{s}" for s in src)]
        if op in (Ops.CAST, Ops.BITCAST) or op in COMPARISONS:
            words.append(of.scalar.name)
        elif op is Ops.LANES:
            words.append(arg.name.lower())
        elif op is Ops.EXTRACT:
            words.append(str(arg))
        elif op is Ops.SHUFFLE:
            words.append(",".join(map(str, arg)))
        return " ".join(words)


def _address(ops: tuple[Instr, ...], src: tuple[int, ...]) -> str:
    """The base and the offset of an INDEX, then what else a LOAD or STORE takes."""
    base, offset = ops[src[0]].src
    place = f"p{ops[base].arg}" if ops[base].op is Ops.PARAM else f"m{base}"
    unit = ops[base].dtype.lanes
    return " ".join([place, str(unit), f"r{offset}", *(f"r{s}" for s in src[1:])])


def _constant(lanes: int, value: Any) -> str:
    parts = value if isinstance(value, tuple) else (value,) * lanes
    return ",".join(v.hex() if isinstance(v, float) else str(int(v)) for v in parts)
