"""LinearPrograms to LLVM text: one function each, over a range of the flattened grid (function.py).

Structure is printed as it comes: loops are phi nodes tested at the bottom, a register LOCAL is one
alloca per element, which LLVM's SROA turns into SSA values. Buffers never overlap, and every
access says so by alias scopes, so a store to one buffer blocks no load of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from polygrad.contract import Instr, LinearProgram, Source
from polygrad.dtype import DType, dtypes
from polygrad.plugin import Renderer
from polygrad.target import Target
from polygrad.uop.ops import Ops

from .arithmetic import PRINTERS, Machine, Operands
from .body import Body, literal, scalar_type, suffix, type_of, vector
from .function import ALIGN, Function, in_memory
from .target import host

SIGNATURE = "ptr noalias %params, ptr noalias %variables, ptr noalias %scratch, i64 %lo, i64 %hi"
ZEROS = "@zeros"  # what a load reads where its gate is false
VERSION = 3  # raised when the printed text or the calling convention changes


class LlvmRenderer(Renderer):
    """Prints for `target`. Pure: the text depends on programs and target alone."""

    def __init__(self, target: Target, float16: bool = False) -> None:
        super().__init__(target)
        self.machine = Machine(fma=Ops.FMA in target.ops, float16=float16)
        self.key = f"llvm-text-{VERSION}-{target.vector_bytes}-{self.machine}"

    def render(self, programs: Sequence[LinearProgram]) -> Source:
        declared: dict[str, str] = {}
        notes = _Metadata()
        printed = [_Function(p, self, declared, notes) for p in programs]
        zeros = f"{ZEROS} = private unnamed_addr constant [64 x i8] zeroinitializer, align 64"
        width = self.target.vector_bytes * 8
        # Without it LLVM halves 512-bit vectors on processors that it thinks prefer 256.
        attributes = f'attributes #0 = {{ nounwind "min-legal-vector-width"="{width}" }}'
        functions = [f.text() for f in printed]
        parts = [zeros, *functions, *declared.values(), attributes, *notes.lines]
        return Source("\n".join(parts) + "\n", {f.program.name: f.symbol for f in printed})


def host_renderer(target: Target) -> LlvmRenderer:
    """The renderer for this machine."""
    _, features = host()
    return LlvmRenderer(target, float16="f16c" in features or "fullfp16" in features)


class _Metadata:
    """Numbered metadata of a module: empty, non-temporal, then alias scopes by function."""

    def __init__(self) -> None:
        self.lines = ["!0 = !{}", "!1 = !{i32 1}"]

    def add(self, text: str) -> str:
        self.lines.append(f"!{len(self.lines)} = {text}")
        return f"!{len(self.lines) - 1}"

    def scopes(self, count: int) -> list[str]:
        """For each of `count` memories that do not overlap, the notes on an access to it."""
        if count < 2:
            return [""] * count
        domain = self.add("distinct !{}")
        scopes = [self.add(f"distinct !{{!{len(self.lines)}, {domain}}}") for _ in range(count)]
        own = [self.add(f"!{{{s}}}") for s in scopes]
        others = [self.add(f"!{{{', '.join(o for o in scopes if o != s)}}}") for s in scopes]
        return [f", !alias.scope {a}, !noalias {b}" for a, b in zip(own, others, strict=True)]


class _Place(NamedTuple):
    """Where an INDEX points."""

    pointer: str
    align: int = 0  # of an element; 0: an alloca of its own, aligned to its type
    scope: str = ""  # metadata: what this memory does not overlap
    constant: str = ""  # metadata: nobody writes it while the program runs

    def notes(self, dtype: DType, aligned: bool, load: bool) -> str:
        """What follows the pointer of a load or store of `dtype`."""
        align = f", align {self.alignment(dtype, aligned)}" if self.align else ""
        return align + self.scope + (self.constant if load else "")

    def alignment(self, dtype: DType, aligned: bool) -> int:
        return min(ALIGN, dtype.itemsize) if aligned else self.align


class _Function(Function):
    """One program being printed."""

    def __init__(
        self,
        program: LinearProgram,
        renderer: LlvmRenderer,
        declared: dict[str, str],
        metadata: _Metadata,
    ) -> None:
        super().__init__(program)
        self.machine = renderer.machine
        self.body = Body(declared)
        self.places: dict[int, _Place] = {}
        self.scopes = metadata.scopes(len(program.params) + 1)  # the last is the scratch's
        self._loop_over_grid()

    def text(self) -> str:
        lines = "\n  ".join(["entry:", *self.body.entry, "br label %start", *self.body.lines])
        return f'define void @"{self.symbol}"({SIGNATURE}) #0 {{\n{lines}\n}}'

    def printed(self, instr: Instr, names: list[str], dtypes: list[DType]) -> str:
        if instr.op is Ops.CONST:
            return literal(instr.dtype, instr.arg)
        printer = PRINTERS.get(instr.op)
        if printer is None:
            raise self.unsupported(instr.op)
        return printer(Operands(self.body, self.machine, self.emit, instr, names, dtypes))

    # ---- control flow

    def _loop_over_grid(self) -> None:
        body = self.body
        body.block("start")
        if not self.program.grid:
            self.statements()
        else:
            self._open_loop("g", "i64", "%lo", "%hi")
            self.decode_grid("%g")
            self.statements()
            self._close_loop("g", "i64", "%hi")
        if self.streams:  # streaming stores are not ordered with the flag that says we are done
            body.emit("fence seq_cst")
        body.emit("ret void")

    def _open_loop(self, name: str, t: str, lo: str, hi: str) -> None:
        """%<name> counts from lo; the body is skipped when there is nothing to do."""
        body = self.body
        if "%" in lo + hi or int(lo) >= int(hi):
            some = body.op(f"icmp slt {t} {lo}, {hi}")
            body.emit(f"br i1 {some}, label %{name}.body, label %{name}.done")
        else:
            body.emit(f"br label %{name}.body")
        before = body.label
        body.enter()
        body.block(f"{name}.body")
        body.emit(f"%{name} = phi {t} [ {lo}, %{before} ], [ %{name}.next, %{name}.latch ]")

    def _close_loop(self, name: str, t: str, hi: str) -> None:
        body = self.body
        body.leave()
        body.emit(f"br label %{name}.latch")
        body.block(f"{name}.latch")
        body.emit(f"%{name}.next = add nsw {t} %{name}, 1")
        body.emit(f"%{name}.more = icmp slt {t} %{name}.next, {hi}")
        body.emit(f"br i1 %{name}.more, label %{name}.body, label %{name}.done")
        body.block(f"{name}.done")

    def on_range(self, at: int, instr: Instr) -> None:
        lo, hi = (self.names[s] for s in instr.src)
        self._open_loop(f"r{at}", type_of(instr.dtype), lo, hi)
        self.names[at] = f"%r{at}"

    def on_end(self, at: int, instr: Instr) -> None:
        (loop,) = instr.src
        hi = self.names[self.ops[loop].src[1]]
        self._close_loop(f"r{loop}", type_of(self.ops[loop].dtype), hi)

    def on_if(self, at: int, instr: Instr) -> None:
        self.body.emit(f"br i1 {self.names[instr.src[0]]}, label %if{at}, label %fi{at}")
        self.body.block(f"if{at}")
        self.body.enter()

    def on_endif(self, at: int, instr: Instr) -> None:
        self.body.leave()
        self.body.emit(f"br label %fi{instr.src[0]}")
        self.body.block(f"fi{instr.src[0]}")

    # ---- leaves

    def on_variable(self, at: int, instr: Instr) -> None:
        dtype = instr.dtype
        wide = dtypes.float64 if dtype.is_float else dtypes.int64
        raw = self.slot(self.variable_slot(instr.arg), wide)
        if dtype.bits == 64:
            self.names[at] = raw
        elif dtype.is_float:
            self.names[at] = self.body.head(f"fptrunc double {raw} to float")
        else:
            self.names[at] = self.body.head(f"trunc i64 {raw} to i{dtype.bits}")

    def slot(self, number: int, dtype: DType) -> str:
        pointer = self.body.head(f"getelementptr i64, ptr %variables, i64 {number}")
        return self.body.head(f"load {type_of(dtype)}, ptr {pointer}, align 8, !invariant.load !0")

    def on_param(self, at: int, instr: Instr) -> None:
        pointer = self.body.head(f"getelementptr ptr, ptr %params, i64 {instr.arg}")
        self.names[at] = self.body.head(f"load ptr, ptr {pointer}, align 8, !invariant.load !0")

    def at_scratch(self, at: int, dtype: DType, offset: int) -> str:
        return self.body.head(f"getelementptr i8, ptr %scratch, i64 {offset}")

    def as_registers(self, at: int, dtype: DType, count: int) -> list[str]:
        return [self.body.head(f"alloca {type_of(dtype)}") for _ in range(count)]

    def on_stack(self, at: int, dtype: DType, count: int) -> str:
        return self.body.head(f"alloca [{count} x {type_of(dtype)}], align {ALIGN}")

    # ---- memory

    def on_index(self, at: int, instr: Instr) -> None:
        base, offset = instr.src
        of = self.ops[base]
        if base in self.registers:
            pointer = self.registers[base][self.ops[offset].arg]
            self.places[at] = _Place(pointer)
            return
        wide = self._wide(offset)
        t = type_of(in_memory(of.dtype))
        pointer = self.body.op(f"getelementptr {t}, ptr {self.names[base]}, i64 {wide}")
        align = of.dtype.scalar.itemsize
        if of.op is Ops.PARAM:
            constant = ", !invariant.load !0" if self.program.params[of.arg].access == "r" else ""
            self.places[at] = _Place(pointer, align, self.scopes[of.arg], constant)
        else:
            scope = self.scopes[-1] if base in self.far else ""
            self.places[at] = _Place(pointer, align, scope)

    def _wide(self, at: int) -> str:
        """An offset as i64."""
        dtype = self.ops[at].dtype
        if dtype.bits == 64 or self.ops[at].op is Ops.CONST:
            return self.names[at]
        how = "zext" if dtype.is_unsigned else "sext"
        return self.body.op(f"{how} {type_of(dtype)} {self.names[at]} to i64")

    def load(self, instr: Instr, others: list[str]) -> str:
        place = self.places[instr.src[0]]
        t, notes = type_of(instr.dtype), place.notes(instr.dtype, aligned=False, load=True)
        if instr.arg is not None:
            self._prefetch(place, instr)
        # What nobody writes reads the same wherever it stands, so a second read is the first.
        fetch = self.body.op if place.constant else self.body.fetch
        if len(instr.src) == 1:
            return fetch(f"load {t}, ptr {place.pointer}{notes}")
        zero = literal(instr.dtype, 0)
        other = others[0] if others else zero
        mask = self.names[instr.src[1]]
        if self.ops[instr.src[1]].dtype.lanes > 1:
            return self._masked_load(instr, place, mask, other)
        pointer = self.body.op(f"select i1 {mask}, ptr {place.pointer}, ptr {ZEROS}")
        value = fetch(f"load {t}, ptr {pointer}{notes}")
        if other != zero:
            value = self.body.op(f"select i1 {mask}, {t} {value}, {t} {other}")
        return value

    def _prefetch(self, place: _Place, load: Instr) -> None:
        """Ask for what lies `load.arg` elements on; the 0 says to read it."""
        name, t = "llvm.prefetch.p0", scalar_type(load.dtype)
        self.body.declared[name] = f"declare void @{name}(ptr, i32, i32, i32)"
        there = self.body.op(f"getelementptr {t}, ptr {place.pointer}, i64 {load.arg}")
        near = self.nearness(load)
        self.body.hint(f"call void @{name}(ptr {there}, i32 0, i32 {near}, i32 1)")

    def _masked_load(self, instr: Instr, place: _Place, gate: str, other: str) -> str:
        t, mask = type_of(instr.dtype), vector("i1", instr.dtype.lanes)
        align = place.alignment(instr.dtype, aligned=False)
        name = f"llvm.masked.load.{suffix(instr.dtype)}.p0"
        self.body.declared[name] = f"declare {t} @{name}(ptr, i32, {mask}, {t})"
        pointer = f"ptr {place.pointer}, i32 {align}"
        call = f"call {t} @{name}({pointer}, {mask} {gate}, {t} {other})"
        return self.body.fetch(call + place.scope)

    def store(self, at: int, instr: Instr, dtype: DType, value: str) -> None:
        place = self.places[instr.src[0]]
        if len(instr.src) == 2:
            self._plain_store(instr, place, dtype, value)
            return
        condition = self.condition(instr)
        gate = self.names[condition]
        if self.ops[condition].dtype.lanes > 1:
            self._masked_store(place, dtype, value, gate)
            return
        self.body.emit(f"br i1 {gate}, label %put{at}, label %on{at}")
        self.body.block(f"put{at}")
        self._plain_store(instr, place, dtype, value)
        self.body.emit(f"br label %on{at}")
        self.body.block(f"on{at}")

    def _plain_store(self, instr: Instr, place: _Place, dtype: DType, value: str) -> None:
        stream = instr.arg == "nt"  # promises an address aligned to the vector
        self.streams |= stream
        notes = place.notes(dtype, stream, load=False) + (", !nontemporal !1" if stream else "")
        self.body.emit(f"store {type_of(dtype)} {value}, ptr {place.pointer}{notes}")

    def _masked_store(self, place: _Place, dtype: DType, value: str, gate: str) -> None:
        t, mask = type_of(dtype), vector("i1", dtype.lanes)
        name = f"llvm.masked.store.{suffix(dtype)}.p0"
        self.body.declared[name] = f"declare void @{name}({t}, ptr, i32, {mask})"
        pointer = f"ptr {place.pointer}, i32 {max(1, place.align)}"
        self.body.emit(f"call void @{name}({t} {value}, {pointer}, {mask} {gate}){place.scope}")
