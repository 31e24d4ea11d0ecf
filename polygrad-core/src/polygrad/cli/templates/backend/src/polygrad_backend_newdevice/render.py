"""Programs to source. A LinearProgram is a flat list of instructions; `src` are positions in it.

`polygrad/contract.py` has the table of all instructions. A renderer is pure: the same programs give
the same text, and it works where there is no machine, so that kernels can be looked at anywhere
(POLY_DUMP_KERNELS=1). Here the language is Python: one function for each program, instruction i
being the variable `r<i>`.
"""

from __future__ import annotations

from collections.abc import Sequence

from polygrad.contract import Instr, LinearProgram, Source
from polygrad.errors import UnsupportedOp
from polygrad.plugin import Renderer
from polygrad.uop.ops import COMPARISONS, Ops

# Operations as expressions. Those of the first table are rounded or wrapped afterwards.
ROUNDED = {
    Ops.ADD: "{0} + {1}", Ops.SUB: "{0} - {1}", Ops.MUL: "{0} * {1}", Ops.NEG: "-{0}",
    Ops.DIV: "div({0}, {1})", Ops.SQRT: "sqrt({0})", Ops.IDIV: "idiv({0}, {1})",
    Ops.IMOD: "imod({0}, {1})", Ops.SHL: "{0} << {1}", Ops.SHR: "{0} >> {1}",
    Ops.AND: "{0} & {1}", Ops.OR: "{0} | {1}", Ops.XOR: "{0} ^ {1}",
}  # fmt: skip
EXACT = {
    Ops.CMPLT: "{0} < {1}", Ops.CMPLE: "{0} <= {1}", Ops.CMPEQ: "{0} == {1}",
    Ops.CMPNE: "{0} != {1}", Ops.WHERE: "{1} if {0} else {2}",
    # Exactly so, also for NaN and for zeros of both signs:
    Ops.MIN: "{0} if {0} < {1} else {1}", Ops.MAX: "{0} if {0} > {1} else {1}",
}  # fmt: skip


class NewRenderer(Renderer):
    key = "newdevice-python-1"  # part of the kernel cache's key: change it when the text changes

    def render(self, programs: Sequence[LinearProgram]) -> Source:
        text = "from polygrad_backend_newdevice.arithmetic import *\n"
        text += "".join("\n\n" + "\n".join(_Printer(self, p).lines) + "\n" for p in programs)
        return Source(text, {p.name: p.name for p in programs})


class _Printer:
    """Prints one program."""

    def __init__(self, renderer: NewRenderer, program: LinearProgram) -> None:
        self.target, self.program = renderer.target, program
        self.ops = program.expanded()  # loops of kind "unroll" are printed out for you
        names = [f"p{i}" for i in range(len(program.params))]
        variables = [f"v{i}" for i in range(len(program.variables))]
        axes = range(len(program.grid))
        self.lines = [f"def {program.name}({', '.join(['grid', *names, *variables])}):"]
        self.depth = 1
        for i, param in enumerate(program.params):
            nbytes = param.size * param.dtype.itemsize
            self.say(f"p{i} = p{i}[:{nbytes}].cast({param.dtype.format!r})")
        # Blocks of the grid are independent: run them in any order, on any number of workers.
        for axis in axes:
            self.open(f"for g{axis} in range(grid[{axis}]):")
        for i, instr in enumerate(self.ops):
            self.instruction(i, instr)
        self.say("pass")

    def say(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def open(self, text: str) -> None:
        self.say(text)
        self.depth += 1

    def instruction(self, i: int, instr: Instr) -> None:
        op, _, src, arg = instr
        at = [f"r{s}" for s in src]
        if op in (Ops.PARAM, Ops.INDEX):
            return  # printed where a LOAD or STORE uses them
        if op is Ops.RANGE:
            self.open(f"for r{i} in range({at[0]}, {at[1]}):")
        elif op is Ops.IF:
            self.open(f"if {at[0]}:")
        elif op in (Ops.END, Ops.ENDIF):
            self.say("pass")
            self.depth -= 1
        elif op is Ops.LOCAL:
            self.say(f"r{i} = [0] * {arg[0]}")
        elif op is Ops.STORE:
            place = f"{self.address(src[0])} = {at[1]}"
            self.say(f"if {at[2]}: {place}" if len(at) > 2 else place)
        else:
            self.say(f"r{i} = {self.value(instr, at)}")

    def address(self, index: int) -> str:
        base, offset = self.ops[index].src
        param = self.ops[base].op is Ops.PARAM
        return f"{f'p{self.ops[base].arg}' if param else f'r{base}'}[r{offset}]"

    def value(self, instr: Instr, at: list[str]) -> str:
        op, dtype, src, arg = instr
        if op is Ops.CONST:
            return f"float({str(arg)!r})" if dtype.is_float else repr(arg)
        if op is Ops.GRID:
            return f"g{arg}"
        if op is Ops.VARIABLE:
            place = [v.name for v in self.program.variables].index(arg)
            return f"fit({dtype.name!r}, v{place})"
        if op is Ops.LOAD:
            # Where a gate is false nothing may be read: the address can lie anywhere.
            other = at[2] if len(at) > 2 else ("0.0" if dtype.is_float else "0")
            loaded = self.address(src[0])
            return f"{loaded} if {at[1]} else {other}" if len(at) > 1 else loaded
        return self.arithmetic(instr, at)

    def arithmetic(self, instr: Instr, at: list[str]) -> str:
        op, dtype, src, _ = instr
        source = self.ops[src[0]].dtype
        if op is Ops.CAST:
            whole = source.is_float and dtype.is_int
            return f"{'saturate' if whole else 'fit'}({dtype.name!r}, {at[0]})"
        if op is Ops.BITCAST:
            return f"bitcast({source.name!r}, {dtype.name!r}, {at[0]})"
        if op is Ops.NOT:
            boolean = dtype.kind == "bool"
            return f"not {at[0]}" if boolean else f"fit({dtype.name!r}, ~{at[0]})"
        text = ROUNDED.get(op) or EXACT.get(op)
        known = source if op in COMPARISONS else dtype
        if text is None or not self.target.supports(op, known):
            raise UnsupportedOp(
                f"newdevice cannot print {op.name} of {known.name} ({self.program.name})"
            )
        printed = text.format(*at)
        return f"fit({dtype.name!r}, {printed})" if op in ROUNDED else printed
