"""Every operation the Target lists, for every dtype, alone and in vectors, by the reference engine.

The numbers are the edges of the dtypes and some at random. Results must equal the reference's to
the bit unless the Target states an error (`ulp`); native functions (EXP2, SIN, ...) are compared
with Python's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...contract import LinearProgram
from ...dtype import DType, canonical, dtypes, unpack
from ...target import Target
from ...uop.ops import COMPARISONS, Ops
from ..assembler import Assembler
from . import values
from .check import Check, ConformanceError, Subject, reference

ARITY = {
    **dict.fromkeys((Ops.NEG, Ops.SQRT, Ops.NOT, Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND), 1),
    **dict.fromkeys((Ops.ADD, Ops.SUB, Ops.MUL, Ops.MIN, Ops.MAX, Ops.DIV, Ops.IDIV, Ops.IMOD), 2),
    **dict.fromkeys((Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, *sorted(COMPARISONS)), 2),
    Ops.FMA: 3,
}


def _quiet(function: Callable[[float], float]) -> Callable[[float], float]:
    """A function of the math module that gives what IEEE does where Python raises."""

    def apply(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return apply


NATIVE: dict[Ops, Callable[[float], float]] = {
    Ops.EXP2: _quiet(lambda x: math.pow(2.0, x)),
    Ops.LOG2: _quiet(lambda x: -math.inf if x == 0 else math.log2(x)),
    Ops.SIN: _quiet(math.sin),
    Ops.RECIP: lambda x: 1.0 / x if x else math.copysign(math.inf, x),
    Ops.RSQRT: _quiet(lambda x: 1.0 / math.sqrt(x) if x else math.copysign(math.inf, x)),
}


class Case(NamedTuple):
    """One operation: the dtypes it takes and gives."""

    op: Ops
    inputs: tuple[DType, ...]
    output: DType

    @property
    def name(self) -> str:
        kinds = list(dict.fromkeys(d.name for d in self.inputs))
        if self.op in (Ops.CAST, Ops.BITCAST):
            kinds.append(self.output.name)
        if self.op is Ops.WHERE:
            kinds = [self.output.name]
        return "-".join([self.op.name, *kinds])

    def rows(self, target: Target) -> list[tuple[values.Number, ...]]:
        rows = values.tuples(self.inputs)
        if self.op in (Ops.SHL, Ops.SHR):
            kind = self.inputs[0]
            rows = [(x, n) for x in values.edges(kind) for n in values.counts(kind)]
        dtype = self.inputs[-1]
        rows = [row for row in rows if values.legal(self.op, dtype, row)]
        return [
            row
            for row in rows
            if not any(
                values.leaves_out(target, d, (x,)) for d, x in zip(self.inputs, row, strict=True)
            )
        ]


def checks(target: Target) -> Iterator[Check]:
    for case in cases(target):
        for form, lanes in (("scalar", 1), ("vector", lanes_of(target, case))):
            if form == "scalar" or lanes > 1:
                yield Check(f"ops/{case.name}-{form}", _runner(case, lanes))


def cases(target: Target) -> Iterator[Case]:
    """What the target lists and memory can carry."""
    memory = target.ops.get(Ops.LOAD, frozenset()) & target.ops.get(Ops.STORE, frozenset())
    usable = {d for d in memory if d.lanes == 1 and d.kind != "index"}
    if target.supports(Ops.CMPNE, dtypes.uint8) and target.supports(Ops.CAST, dtypes.bool):
        usable.add(dtypes.bool)  # in memory a byte

    def listed(op: Ops) -> list[DType]:
        return sorted(target.ops.get(op, frozenset()) & usable, key=lambda d: d.priority)

    for op, count in ARITY.items():
        for dtype in listed(op):
            compares = op in COMPARISONS
            if not compares or dtypes.bool in usable:
                yield Case(op, (dtype,) * count, dtypes.bool if compares else dtype)
    for op in NATIVE:
        yield from (Case(op, (dtype,), dtype) for dtype in listed(op))
    if dtypes.bool in usable:
        yield from (Case(Ops.WHERE, (dtypes.bool, d, d), d) for d in listed(Ops.WHERE))
    casts, words = listed(Ops.CAST), listed(Ops.BITCAST)
    for a in casts:
        yield from (Case(Ops.CAST, (a,), b) for b in casts if b is not a and b.kind != "bool")
    for a in words:
        same = [b for b in words if b.itemsize == a.itemsize and b is not a]
        yield from (Case(Ops.BITCAST, (a,), b) for b in same if dtypes.bool not in (a, b))


def lanes_of(target: Target, case: Case) -> int:
    """Lanes of a vector in which the widest value of the case fills a register."""
    widest = max(d.itemsize for d in (*case.inputs, case.output))
    lanes = target.vector_bytes // widest
    kinds = [values.memory_dtype(d) for d in (*case.inputs, case.output)]
    moved = all(d.itemsize * lanes in target.memory_bytes for d in kinds)
    return lanes if moved else 1


def program(case: Case, count: int, lanes: int) -> LinearProgram:
    """`out[i] = op(in0[i], ...)` for `count` elements, `lanes` at a time."""
    a = Assembler("k_" + case.name.replace("-", "_"))
    sources = [a.param(values.memory_dtype(d), count) for d in case.inputs]
    out = a.param(values.memory_dtype(case.output), count, "w")
    at = a.grid(count // lanes)
    if lanes > 1:
        at = a(Ops.MUL, at, a.number(lanes))
    loaded = [
        _unpacked(a, a.load(s, at, lanes=lanes), d)
        for s, d in zip(sources, case.inputs, strict=True)
    ]
    dtype = dtypes.bool if case.output.kind == "bool" else case.output
    made = a.emit(case.op, dtype.vec(lanes), loaded)
    if dtype is dtypes.bool:
        made = a.emit(Ops.CAST, dtypes.uint8.vec(lanes), (made,))
    a.store(out, at, made)
    return a.build()


def _unpacked(a: Assembler, loaded: int, dtype: DType) -> int:
    """A byte of memory as a bool."""
    if dtype.kind != "bool":
        return loaded
    lanes = a.ops[loaded].dtype.lanes
    zero = a.const(dtypes.uint8.vec(lanes), (0,) * lanes if lanes > 1 else 0)
    return a(Ops.CMPNE, loaded, zero)


def _runner(case: Case, lanes: int) -> Callable[[Subject], None]:
    def run(subject: Subject) -> None:
        target = subject.target
        rows = case.rows(target)
        rows += rows[:1] * (-len(rows) % lanes)
        made = program(case, len(rows), lanes)
        columns = zip(*rows, strict=True)
        contents = [values.to_bytes(d, c) for d, c in zip(case.inputs, columns, strict=True)]
        kind = values.memory_dtype(case.output)
        room = bytes(kind.itemsize * len(rows))
        got = subject.run(made, *contents, room)[-1]
        with subject.explained(made):
            judge(case, target, rows, got, made, [*contents, room])

    return run


def judge(
    case: Case,
    target: Target,
    rows: Sequence[tuple[values.Number, ...]],
    got: bytes,
    made: LinearProgram,
    contents: Sequence[bytes],
) -> None:
    """Raise ConformanceError where the results are not the reference's."""
    kind = values.memory_dtype(case.output)
    if case.op in NATIVE:
        function = NATIVE[case.op]
        wanted = values.to_bytes(kind, [function(*row) for row in rows])
    else:
        wanted = reference(made, *contents)[-1]
    allowed = target.ulp.get((case.op, case.output), 4.0 if case.op in NATIVE else 0.0)
    keep = [
        i
        for i, value in enumerate(unpack(kind, wanted))
        if not values.leaves_out(target, kind, (value,))
    ]
    if case.op is Ops.FMA:
        return _judge_fma(kind, rows, unpack(kind, got), keep)

    def picked(data: bytes) -> bytes:
        size = kind.itemsize
        return b"".join(data[i * size : (i + 1) * size] for i in keep)

    values.compare(picked(got), picked(wanted), kind, [rows[i] for i in keep], ulp=allowed)
    return None


def _judge_fma(
    kind: DType, rows: Sequence[tuple[values.Number, ...]], got: Sequence[float], keep: list[int]
) -> None:
    """Rounded once or twice, as the machine has it."""
    from fractions import Fraction

    for i in keep:
        a, b, c = rows[i]
        twice = canonical(kind, canonical(kind, a * b) + c)
        choices = [twice]
        if all(map(math.isfinite, (a, b, c))):
            exact = Fraction(a) * Fraction(b) + Fraction(c)
            choices.append(_rounded(kind, exact))
        if not any(values.close(kind, got[i], x, 0.5 if x == 0 else 0.0) for x in choices):
            raise ConformanceError(
                f"element {i}: of {rows[i]!r} got {got[i]!r}, expected one of {choices!r}"
            )


def _rounded(kind: DType, exact: object) -> float:
    """A fraction as the nearest number of a float type; to float32 through an odd float64."""
    from fractions import Fraction

    assert isinstance(exact, Fraction)
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if kind is not dtypes.float64 and math.isfinite(near) and Fraction(near) != exact:
        towards = math.inf if Fraction(near) < exact else -math.inf
        bits = int.from_bytes(values.to_bytes(dtypes.float64, [near]), "little")
        near = near if bits & 1 else math.nextafter(near, towards)
    return float(canonical(kind, near))
