"""LinearPrograms to C text: one function each, over a range of the flattened grid (function.py).

The text is what the program says and no more: loops are loops, a register LOCAL is one variable per
element, a vector is a vector. Buffers never overlap, so every pointer is `restrict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from polygrad.contract import Instr, LinearProgram, Source
from polygrad.dtype import DType, dtypes
from polygrad.plugin import Renderer
from polygrad.target import Target
from polygrad.uop.ops import Ops

from . import c_helpers
from .c_arithmetic import PRINTERS, Operands
from .c_body import PRELUDE, CBody, CType, type_of
from .function import ALIGN, Function

SIGNATURE = (
    "void *const *restrict params, const i64 *restrict variables, u8 *restrict scratch,"
    " i64 lo, i64 hi"
)
VERSION = 2  # raised when the printed text or the calling convention changes


class CRenderer(Renderer):
    """Prints for `target`. Pure: the text depends on programs and target alone."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.fma = Ops.FMA in target.ops
        self.key = f"c-text-{VERSION}-{target.vector_bytes}-{self.fma}"

    def render(self, programs: Sequence[LinearProgram]) -> Source:
        declared: dict[str, str] = {}
        printed = [_Function(p, self.fma, declared) for p in programs]
        texts = [f.text() for f in printed]
        code = "\n".join([PRELUDE + "\n".join(declared.values()), *texts]) + "\n"
        return Source(code, {f.program.name: f.symbol for f in printed})


class _Place(NamedTuple):
    """Where an INDEX points: an element of an array, or a variable of its own."""

    base: str
    offset: str  # in elements; empty: `base` is the variable
    element: CType
    constant: bool = False  # nobody writes it while the program runs

    @property
    def pointer(self) -> str:
        return self.base if self.offset == "0" else f"{self.base} + {self.offset}"


class _Function(Function):
    """One program being printed."""

    def __init__(self, program: LinearProgram, fma: bool, declared: dict[str, str]) -> None:
        super().__init__(program)
        self.fma = fma
        self.body = CBody(declared)
        self.places: dict[int, _Place] = {}
        self._loop_over_grid()

    def text(self) -> str:
        head = f'__attribute__((visibility("default"))) void {self.symbol}({SIGNATURE}) {{'
        return "\n".join(["", head, *self.body.entry, *self.body.lines, "}"])

    def printed(self, instr: Instr, names: list[str], dtypes: list[DType]) -> str:
        if instr.op is Ops.CONST:
            return self.body.constant(instr.dtype, instr.arg)
        printer = PRINTERS.get(instr.op)
        if printer is None:
            raise self.unsupported(instr.op)
        return printer(Operands(self.body, self.fma, self.emit, instr, names, dtypes))

    # ---- control flow

    def _loop_over_grid(self) -> None:
        if not self.program.grid:
            self.statements()
        else:
            self._open("for (i64 g = lo; g < hi; g++) {")
            self.decode_grid("g")
            self.statements()
            self._close()
        if self.streams:  # streaming stores are not ordered with the flag that says we are done
            self.body.emit("__atomic_thread_fence(__ATOMIC_SEQ_CST);")

    def _open(self, text: str) -> None:
        self.body.emit(text)
        self.body.indent += 1
        self.body.enter()

    def _close(self) -> None:
        self.body.leave()
        self.body.indent -= 1
        self.body.emit("}")

    def on_range(self, at: int, instr: Instr) -> None:
        (lo, hi), t, r = (self.names[s] for s in instr.src), type_of(instr.dtype), f"r{at}"
        self._open(f"for ({t.name} {r} = {lo}; {r} < {hi}; {r}++) {{")
        self.names[at] = r

    def on_end(self, at: int, instr: Instr) -> None:
        self._close()

    def on_if(self, at: int, instr: Instr) -> None:
        self._open(f"if ({self.names[instr.src[0]]}) {{")

    def on_endif(self, at: int, instr: Instr) -> None:
        self._close()

    # ---- leaves

    def slot(self, number: int, dtype: DType) -> str:
        table = "variables" if dtype is dtypes.int64 else "((const f64 *)variables)"
        return self.body.head(type_of(dtype), f"{table}[{number}]")

    def on_variable(self, at: int, instr: Instr) -> None:
        wide = dtypes.float64 if instr.dtype.is_float else dtypes.int64
        raw = self.slot(self.variable_slot(instr.arg), wide)
        narrow = instr.dtype.bits < 64
        self.names[at] = self.body.head(type_of(instr.dtype), raw) if narrow else raw

    def on_param(self, at: int, instr: Instr) -> None:
        constant = "const " if self.program.params[instr.arg].access == "r" else ""
        t = self.body.type(type_of(instr.dtype))
        self._pointer(at, f"{constant}{t}", f"params[{instr.arg}]")

    def _pointer(self, at: int, t: str, text: str) -> None:
        self.names[at] = f"p{at}"
        self.body.entry.append(f"  {t} *restrict p{at} = {text};")

    def at_scratch(self, at: int, dtype: DType, offset: int) -> str:
        self._pointer(at, self.body.type(type_of(dtype)), f"(void *)(scratch + {offset})")
        return self.names[at]

    def as_registers(self, at: int, dtype: DType, count: int) -> list[str]:
        return [self.body.head(type_of(dtype)) for _ in range(count)]

    def on_stack(self, at: int, dtype: DType, count: int) -> str:
        t = self.body.type(type_of(dtype))
        self.body.entry.append(f"  {t} s{at}[{count}] __attribute__((aligned({ALIGN})));")
        return f"s{at}"

    # ---- memory

    def on_index(self, at: int, instr: Instr) -> None:
        base, offset = instr.src
        element = type_of(self.held(at, self.ops[base].dtype))
        if base in self.registers:
            self.places[at] = _Place(self.registers[base][self.ops[offset].arg], "", element)
        else:
            of = self.ops[base]
            constant = of.op is Ops.PARAM and self.program.params[of.arg].access == "r"
            self.places[at] = _Place(self.names[base], self.names[offset], element, constant)

    def _access(self, place: _Place, type: CType, aligned: bool, const: str = "") -> str:
        """The text that stands for a value of `type` in memory."""
        if not place.offset:
            return place.base
        if type == place.element:
            return f"{place.base}[{place.offset}]"
        t = self.body.type(type) if aligned else self.body.unaligned(type)
        return f"*({const}{t} *)({place.pointer})"

    def load(self, instr: Instr, others: list[str]) -> str:
        place, type = self.places[instr.src[0]], type_of(instr.dtype)
        # What nobody writes reads the same wherever it stands, so a second read is the first.
        fetch = self.body.op if place.constant else self.body.fetch
        if instr.arg is not None:  # as a number: the place may be outside of the array
            distance = instr.arg * instr.dtype.scalar.itemsize
            there = f"(const void *)((i64)({place.pointer}) + {distance})"
            self.body.hint(f"__builtin_prefetch({there}, 0, {self.nearness(instr)});")
        if len(instr.src) == 1:
            return fetch(type, self._access(place, type, False, "const "))
        gate = self.names[instr.src[1]]
        other = others[0] if others else self.body.constant(instr.dtype, 0)
        if self.ops[instr.src[1]].dtype.lanes > 1:
            self._declare_masked(type)
            mask = self.body.mask(gate, type)
            text = f"load_{type.name}({place.pointer}, {mask}, {other})"
        else:
            text = f"{gate} ? {self._access(place, type, False, 'const ')} : {other}"
        return fetch(type, text)

    def store(self, at: int, instr: Instr, dtype: DType, value: str) -> None:
        place, type = self.places[instr.src[0]], type_of(dtype)
        if dtype.kind == "bool" and dtype.lanes > 1:
            value = self.body.mask(value, type)
        condition = self.condition(instr) if len(instr.src) > 2 else None
        if condition is not None and self.ops[condition].dtype.lanes > 1:
            self._declare_masked(type)
            mask = self.body.mask(self.names[condition], type)
            self.body.emit(f"store_{type.name}({place.pointer}, {mask}, {value});")
            return
        gate = f"if ({self.names[condition]}) " if condition is not None else ""
        if (
            instr.arg == "nt" and type.bytes in c_helpers.STREAMED
        ):  # promises an address aligned to the vector
            self.streams = True
            self.body.declared.setdefault(
                f"stream_{type.name}", c_helpers.stream(self.body.type(type), type)
            )
            self.body.emit(f"{gate}stream_{type.name}((void *)({place.pointer}), {value});")
            return
        self.body.emit(f"{gate}{self._access(place, type, False)} = {value};")

    def _declare_masked(self, type: CType) -> None:
        t, m = self.body.type(type), self.body.type(type.mask)
        self.body.declared.setdefault(f"load_{t}", c_helpers.masked(t, m, type))
