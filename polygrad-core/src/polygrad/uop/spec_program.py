"""What a LinearProgram may hold: the contract's table as a checker.

Floor: uop (it reads programs and targets by their attributes and imports neither). Checked: the op
is of the closed set; sources come before their use and are visible where they are used (what is
made in a RANGE or an IF ends with it); loops and branches nest; dtypes, lane counts and arguments
fit; parameters are read and written as declared; barriers stand in uniform flow; and, given a
Target, that the machine has each op and no vector is wider than its registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..dtype import DType, dtypes
from ..errors import SpecError
from .ops import Ops

if TYPE_CHECKING:
    from ..contract import Instr, LinearProgram
    from ..target import Target

Check = Callable[["Checker", "Instr"], "str | None"]

_INT: Final = frozenset({"int", "uint"})
_FLOAT: Final = frozenset({"float"})
_NUMBER: Final = _INT | _FLOAT
_BITS: Final = _INT | {"bool"}
_ANY: Final = _NUMBER | {"bool"}
_SPACES: Final = ("register", "stack", "scratch", "shared")


class Checker:
    """One walk over the list, with the loops and branches open around the current instruction."""

    def __init__(self, program: LinearProgram, target: Target | None) -> None:
        self.program, self.target = program, target
        self.ops = program.ops
        self.opened: list[int] = []  # positions of open RANGEs and IFs
        self.home: list[int] = []  # the block each instruction stands in: its opener, or -1
        self.uniform: list[bool] = []  # the same in every thread of a block

    def run(self) -> None:
        for i, instr in enumerate(self.ops):
            wrong = self.step(i, instr)
            if wrong is not None:
                raise self.error(i, wrong)
        if self.opened:
            raise self.error(self.opened[-1], "is never closed")

    def error(self, at: int, wrong: str) -> SpecError:
        name = self.program.name
        return SpecError(f"LinearProgram {name!r}: {wrong}\n  in {line(at, self.ops[at])}")

    def step(self, i: int, instr: Instr) -> str | None:
        rule = _RULES.get(instr.op)
        if rule is None:
            return f"{instr.op.name} is no operation of a LinearProgram"
        count, check = rule
        if count is not None and len(instr.src) not in count:
            return f"has {len(instr.src)} sources"
        wrong = self.hidden(i, instr) or check(self, instr) or self.unsupported(instr)
        if wrong is None:
            self.note(i, instr)
        return wrong

    def hidden(self, i: int, instr: Instr) -> str | None:
        for s in instr.src:
            if not 0 <= s < i:
                return f"uses %{s}, which does not come before it"
            if self.home[s] != -1 and self.home[s] not in self.opened:
                return f"uses %{s}, which ended with the block at %{self.home[s]}"
        return None

    def note(self, i: int, instr: Instr) -> None:
        """Open and close blocks: a RANGE's counter belongs to its own, an IF to the outer one."""
        if instr.op in (Ops.END, Ops.ENDIF):
            self.opened.pop()
        if instr.op is Ops.RANGE:
            self.opened.append(i)
        self.home.append(self.opened[-1] if self.opened else -1)
        if instr.op is Ops.IF:
            self.opened.append(i)
        varies = instr.op in (Ops.BLOCK, Ops.LANE, Ops.LOAD, Ops.ATOMIC, Ops.SHARE, Ops.CUSTOM)
        self.uniform.append(not varies and all(self.uniform[s] for s in instr.src))

    def unsupported(self, instr: Instr) -> str | None:
        if self.target is None:
            return None
        dtype = self.types(instr)[0] if instr.op in _COMPARE else instr.dtype
        if instr.op in _MACHINE and not self.target.supports(instr.op, dtype):
            return f"{self.target.name} has no {instr.op.name} of {dtype.scalar.name}"
        widest = max(self.target.vector_bytes, 1)
        return f"{dtype.lanes} lanes are too many" if dtype.lanes > widest else None

    def types(self, instr: Instr) -> list[DType]:
        return [self.ops[s].dtype for s in instr.src]


def verify_program(program: LinearProgram, target: Target | None = None) -> None:
    """Raise SpecError if the program breaks the contract, or needs what `target` lacks."""
    slots = [p.slot for p in program.params]  # of a kernel's buffers, of which it may use some
    if slots != sorted(set(slots)):
        raise SpecError(f"LinearProgram {program.name!r}: parameters have the slots {slots}")
    for param in program.params:
        if param.access not in ("r", "w", "rw") or param.size < 0:
            raise SpecError(f"LinearProgram {program.name!r}: no parameter can be {param!r}")
        if param.dtype is dtypes.bool or param.dtype.lanes != 1:
            raise SpecError(f"LinearProgram {program.name!r}: memory holds no {param.dtype.name}")
    if target is not None and len(program.params) > target.max_buffers:
        count = len(program.params)
        raise SpecError(f"LinearProgram {program.name!r}: {count} buffers are too many")
    Checker(program, target).run()


def lacking(program: LinearProgram, target: Target) -> tuple[Ops, DType] | None:
    """The first operation and scalar dtype of a program that a machine does not list."""
    for op, dtype, src, _ in program.ops:
        kind = program.ops[src[0]].dtype if op in _COMPARE else dtype
        known = Ops.LOAD if op is Ops.PARAM else op
        if (op is Ops.PARAM or op in _MACHINE) and not target.supports(known, kind):
            return op, kind.scalar
    return None


def line(at: int, instr: Instr) -> str:
    """One instruction as text: `%4 = ADD float32x8 %2 %3`."""
    sources = "".join(f" %{s}" for s in instr.src)
    argument = "" if instr.arg is None else f" {instr.arg!r}"
    return f"%{at} = {instr.op.name} {instr.dtype.name}{sources}{argument}"


# ---- values


def _same(kinds: frozenset[str]) -> Check:
    """All sources have the dtype of the result, which is of one of `kinds`."""

    def check(c: Checker, i: Instr) -> str | None:
        fits = i.dtype.kind in kinds and all(d is i.dtype for d in c.types(i))
        return None if fits else _unfit(c, i)

    return check


def _unfit(c: Checker, i: Instr) -> str:
    return f"cannot make {i.dtype.name} of {', '.join(d.name for d in c.types(i)) or 'nothing'}"


def _compare(c: Checker, i: Instr) -> str | None:
    a, b = c.types(i)
    fits = a is b and a.kind in _ANY and i.dtype is dtypes.bool.vec(a.lanes)
    return None if fits else _unfit(c, i)


def _where(c: Checker, i: Instr) -> str | None:
    mask, a, b = c.types(i)
    fits = a is b is i.dtype and mask is dtypes.bool.vec(i.dtype.lanes)
    return None if fits else _unfit(c, i)


def _cast(c: Checker, i: Instr) -> str | None:
    source = c.types(i)[0]
    fits = source.lanes == i.dtype.lanes and i.dtype.kind in _ANY and source.kind in _ANY
    return None if fits else _unfit(c, i)


def _bitcast(c: Checker, i: Instr) -> str | None:
    source = c.types(i)[0]
    fits = source.itemsize == i.dtype.itemsize and source.lanes == i.dtype.lanes
    return None if fits else _unfit(c, i)


def _const(c: Checker, i: Instr) -> str | None:
    values = i.arg if isinstance(i.arg, tuple) else (i.arg,)
    count = i.dtype.lanes if isinstance(i.arg, tuple) else 1
    kind = bool if i.dtype.kind == "bool" else float if i.dtype.is_float else int
    fits = i.dtype.kind in _ANY and len(values) == count and all(type(v) is kind for v in values)
    if fits and kind is int:
        fits = all(i.dtype.min <= v <= i.dtype.max for v in values)
    return None if fits else f"{i.arg!r} is no {i.dtype.name}"


def _variable(c: Checker, i: Instr) -> str | None:
    known = any(v.name == i.arg and v.dtype is i.dtype for v in c.program.variables)
    return None if known else f"there is no variable {i.arg!r} of {i.dtype.name}"


def _position(c: Checker, i: Instr) -> str | None:
    sizes = c.program.grid if i.op is Ops.GRID else c.program.block
    inside = type(i.arg) is int and 0 <= i.arg < len(sizes) and _is_counter(i.dtype)
    return None if inside else f"there is no axis {i.arg!r} of {i.dtype.name}"


def _is_counter(dtype: DType) -> bool:
    return dtype in (dtypes.int32, dtypes.int64)


# ---- lanes


def _broadcast(c: Checker, i: Instr) -> str | None:
    source = c.types(i)[0]
    return None if source.lanes == 1 and source is i.dtype.scalar else _unfit(c, i)


def _vector(c: Checker, i: Instr) -> str | None:
    parts = c.types(i)
    fits = len(parts) == i.dtype.lanes and all(d is i.dtype.scalar for d in parts)
    return None if fits else _unfit(c, i)


def _extract(c: Checker, i: Instr) -> str | None:
    source = c.types(i)[0]
    if type(i.arg) is not int or not 0 <= i.arg < source.lanes:
        return f"there is no lane {i.arg!r} of {source.name}"
    return None if i.dtype is source.scalar else _unfit(c, i)


def _shuffle(c: Checker, i: Instr) -> str | None:
    source, *others = c.types(i)
    if any(d is not source for d in others):
        return _unfit(c, i)
    if others and c.target is not None and c.target.shuffle_sources < 2:
        return "takes lanes from two vectors, which the machine cannot"
    lanes = i.arg if isinstance(i.arg, tuple) else ()
    some = source.lanes * len(i.src)
    if len(lanes) != i.dtype.lanes or any(not 0 <= n < some for n in lanes):
        return f"{i.arg!r} are no lanes of {source.name}"
    return None if i.dtype.scalar is source.scalar else _unfit(c, i)


def _lanes(c: Checker, i: Instr) -> str | None:
    source = c.types(i)[0]
    if source.lanes & (source.lanes - 1) or source.lanes < 2:
        return f"cannot halve {source.lanes} lanes"
    if i.arg not in _ACROSS:
        return f"{i.arg!r} is no reduction of lanes"
    return None if i.dtype is source.scalar else _unfit(c, i)


_ACROSS: Final = (Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR)


# ---- memory


def _param(c: Checker, i: Instr) -> str | None:
    if type(i.arg) is not int or not 0 <= i.arg < len(c.program.params):
        return f"there is no parameter {i.arg!r}"
    wanted = c.program.params[i.arg].dtype
    return None if i.dtype is wanted else f"parameter {i.arg} holds {wanted.name}"


def _local(c: Checker, i: Instr) -> str | None:
    count, space = i.arg
    fits = type(count) is int and count >= 0 and space in _SPACES
    return None if fits else f"{i.arg!r} is no (count, space)"


def _index(c: Checker, i: Instr) -> str | None:
    base, offset = (c.ops[s] for s in i.src)
    if base.op not in (Ops.PARAM, Ops.LOCAL):
        return f"points into a {base.op.name}"
    if offset.dtype.kind not in _INT or offset.dtype.lanes != 1:
        return f"has an offset of {offset.dtype.name}"
    return None if i.dtype is base.dtype else _unfit(c, i)


def _load(c: Checker, i: Instr) -> str | None:
    wrong = _access(c, i, i.dtype, "r", gated=len(i.src) > 1) or _gate(c, i, 1, i.dtype.lanes)
    if wrong is None and i.arg is not None and type(i.arg) is not int:
        return f"{i.arg!r} is no distance"
    if wrong is None and len(i.src) == 3 and c.types(i)[2] is not i.dtype:
        return f"has an alternative of {c.types(i)[2].name}"
    return wrong


def _store(c: Checker, i: Instr) -> str | None:
    value = c.types(i)[1]
    return _access(c, i, value, "w", gated=len(i.src) > 2) or _gate(c, i, 2, value.lanes)


def _access(c: Checker, i: Instr, value: DType, access: str, gated: bool) -> str | None:
    address = c.ops[i.src[0]]
    if address.op is not Ops.INDEX:
        return f"goes through a {address.op.name}, not an INDEX"
    if value.scalar is not address.dtype.scalar or value.lanes % address.dtype.lanes:
        return f"moves {value.name} at an address of {address.dtype.name}"
    base, offset = (c.ops[s] for s in address.src)
    if offset.op is Ops.CONST and not gated:
        size = c.program.params[base.arg].size if base.op is Ops.PARAM else base.arg[0]
        if not 0 <= offset.arg < size:
            return f"touches element {offset.arg} of {size}"
    if base.op is Ops.PARAM and access not in c.program.params[base.arg].access:
        return f"parameter {base.arg} is declared {c.program.params[base.arg].access!r}"
    return None


def _gate(c: Checker, i: Instr, at: int, lanes: int) -> str | None:
    if len(i.src) <= at:
        return None
    gate = c.types(i)[at]
    if gate is dtypes.bool:
        return None
    if gate is not dtypes.bool.vec(lanes):
        return f"has a gate of {gate.name} for {lanes} lanes"
    allowed = c.target is None or c.target.lane_gates
    return None if allowed else "has a gate per lane, which the machine lacks"


# ---- flow


def _range(c: Checker, i: Instr) -> str | None:
    if not _is_counter(i.dtype) or any(d is not i.dtype for d in c.types(i)):
        return _unfit(c, i)
    if i.arg == "unroll":
        fixed = all(c.ops[s].op is Ops.CONST for s in i.src)
        return None if fixed else "is unrolled over bounds that are no constants"
    return None if i.arg == "loop" else f"is of no kind {i.arg!r}"


def _closes(opener: Ops) -> Check:
    def check(c: Checker, i: Instr) -> str | None:
        innermost = c.opened[-1] if c.opened else -1
        fits = i.src[0] == innermost and c.ops[innermost].op is opener
        return None if fits else f"does not close the innermost block (%{innermost})"

    return check


def _branch(c: Checker, i: Instr) -> str | None:
    return None if c.types(i)[0] is dtypes.bool else "branches on something that is no bool"


def _barrier(c: Checker, i: Instr) -> str | None:
    for at in c.opened:
        if not all(c.uniform[s] for s in c.ops[at].src):
            return f"stands in the block at %{at}, which threads may leave apart"
    return None


def _anything(c: Checker, i: Instr) -> str | None:
    return None


_COMPARE: Final = frozenset({Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE})
_RULES: Final[dict[Ops, tuple[tuple[int, ...] | None, Check]]] = {
    **dict.fromkeys((Ops.ADD, Ops.SUB, Ops.MUL), ((2,), _same(_NUMBER))),
    **dict.fromkeys((Ops.MIN, Ops.MAX), ((2,), _same(_NUMBER))),
    **dict.fromkeys((Ops.IDIV, Ops.IMOD, Ops.SHL, Ops.SHR), ((2,), _same(_INT))),
    **dict.fromkeys((Ops.AND, Ops.OR, Ops.XOR), ((2,), _same(_BITS))),
    **dict.fromkeys(_COMPARE, ((2,), _compare)),
    **dict.fromkeys((Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.RECIP), ((1,), _same(_FLOAT))),
    **dict.fromkeys((Ops.RSQRT, Ops.FLOOR, Ops.CEIL, Ops.TRUNC), ((1,), _same(_FLOAT))),
    Ops.ROUND: ((1,), _same(_FLOAT)),
    Ops.NEG: ((1,), _same(_NUMBER)),
    Ops.NOT: ((1,), _same(_BITS)),
    Ops.DIV: ((2,), _same(_FLOAT)),
    Ops.FMA: ((3,), _same(_FLOAT)),
    Ops.WHERE: ((3,), _where),
    Ops.CAST: ((1,), _cast),
    Ops.BITCAST: ((1,), _bitcast),
    Ops.CONST: ((0,), _const),
    Ops.VARIABLE: ((0,), _variable),
    Ops.GRID: ((0,), _position),
    Ops.BLOCK: ((0,), _position),
    Ops.LANE: ((0,), _anything),
    Ops.BROADCAST: ((1,), _broadcast),
    Ops.VECTOR: (None, _vector),
    Ops.EXTRACT: ((1,), _extract),
    Ops.SHUFFLE: ((1, 2), _shuffle),
    Ops.LANES: ((1,), _lanes),
    Ops.PARAM: ((0,), _param),
    Ops.LOCAL: ((0,), _local),
    Ops.INDEX: ((2,), _index),
    Ops.LOAD: ((1, 2, 3), _load),
    Ops.STORE: ((2, 3), _store),
    Ops.RANGE: ((2,), _range),
    Ops.END: ((1,), _closes(Ops.RANGE)),
    Ops.IF: ((1,), _branch),
    Ops.ENDIF: ((1,), _closes(Ops.IF)),
    Ops.BARRIER: ((0,), _barrier),
    Ops.ATOMIC: ((2,), _anything),
    Ops.SHARE: ((1,), _anything),
    Ops.MATMUL: ((3,), _anything),
    Ops.CUSTOM: (None, _anything),
}
# Ops a machine may lack; the others are structure, or print as nothing.
_MACHINE: Final = frozenset(_RULES) - {
    Ops.PARAM, Ops.LOCAL, Ops.INDEX, Ops.LOAD, Ops.STORE, Ops.GRID, Ops.BLOCK, Ops.LANE, Ops.RANGE,
    Ops.END, Ops.IF, Ops.ENDIF, Ops.CONST, Ops.VARIABLE, Ops.BARRIER, Ops.ATOMIC, Ops.SHARE,
    Ops.MATMUL, Ops.CUSTOM, Ops.BROADCAST, Ops.VECTOR, Ops.EXTRACT, Ops.SHUFFLE, Ops.CAST,
    Ops.BITCAST,
}  # fmt: skip
