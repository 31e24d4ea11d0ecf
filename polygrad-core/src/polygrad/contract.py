"""What a backend sees: LinearProgram, Source, Binary, Plan. Frozen data; only `expanded` computes.

A `LinearProgram` is a flat list of `Instr` over the closed set of ops below; `src` are positions in
the list; RANGE/END and IF/ENDIF nest. Effects (LOAD, STORE, ...) happen in list order. A value made
inside a RANGE or an IF ends with it; what must survive goes through a LOCAL. The definition of each
op, in Python that can be read, is the reference engine, `device/interp_python.py`.

==============  =========================  ========================================================
op              src                        arg, meaning
==============  =========================  ========================================================
PARAM                                      place: base of `params[place]` in global memory
LOCAL                                      (count, space): space is register, stack, scratch, shared
VARIABLE                                   name
CONST                                      value, or a tuple of lanes for a vector dtype
GRID                                       axis: index of this block, dtype int32 or int64
RANGE           lo, hi                     kind: "loop" or "unroll"; from lo to hi - 1, by one
END             range                      closes it
IF, ENDIF       condition; if
INDEX           PARAM or LOCAL, offset     address in elements; dtype is the element type
LOAD            INDEX [, gate [, other]]   dtype may be a vector: lanes contiguous; arg: None or a
..                                         distance in elements: what lies so far from the address
..                                         will be read soon, which a machine may heed
STORE           INDEX, value [, gate]      arg: "nt" for non-temporal or None
arithmetic      ADD SUB MUL NEG MIN MAX    MIN = a < b ? a : b, MAX = a > b ? a : b exactly
..              DIV SQRT FMA               floats; IDIV IMOD truncate, divisor not zero
bits, compare   AND OR XOR NOT SHL SHR     SHR of signed integers keeps the sign, SHL drops bits;
..                                         a count beyond the bits gives any value, never a trap;
..                                         CMPLT CMPLE CMPEQ CMPNE give bool with the same lanes
WHERE           mask, a, b                 mask has the lanes of a
native math     EXP2 LOG2 SIN RECIP ..     RSQRT FLOOR CEIL TRUNC ROUND, where the Target lists them
CAST            value                      float->int saturates, NaN is 0; int->int keeps low bits;
..                                         int->float and float->narrower round to nearest even
BITCAST         value                      the same bits: as many lanes, each of the same size
BROADCAST       scalar                     to the lanes of dtype
VECTOR          scalars                    to one vector, first to lane 0
EXTRACT         vector                     lane number
SHUFFLE         vector [, vector]          tuple of lane numbers: lane i of the result is arg[i],
..                                         lanes of a second vector of this dtype count on, where
..                                         `Target.shuffle_sources` is 2
LANES           vector                     ADD MUL MIN MAX AND OR XOR of all lanes, a scalar
==============  =========================  ========================================================

*Bool* in memory is one byte, 0 or 1: a param never has dtype bool (it is uint8), registers and
LOCALs do.

*Index dtypes.* The compiler counts blocks, loops and offsets in int64 where the Target's ADD lists
int64, else in int32; take the dtype from the instruction. Arithmetic on them is arithmetic like any
other. An offset is one scalar, outside of its memory only where a gate is false.

*Vectors* occur only with `Target.vector_bytes`, and have 2, 4, 8, ... lanes. Whatever is pure works
lane by lane, its sources having as many lanes as its result. A LOAD or STORE of a vector touches
lanes that lie one after another, from any element on: the address is a multiple of the element's
size, not of the vector's. No value has more than vector_bytes lanes, so a vector of 64-bit offsets
beside bytes is larger than a register: print it as several.

*LANES* combines by halves, lane i with lane i + n/2, then the n/2 results in the same way: the
order is part of the meaning, for floats round by it.

*LOCAL* is the block's own memory, undefined until it is stored to. Its dtype may be a vector: then
an offset counts whole vectors, and LOAD and STORE move one (or, of a scalar LOCAL, some scalars
that lie one after another). In space "register" every offset is constant once `expanded`.

*Gates.* Where the gate is false nothing is read or written, whatever the address, and the LOAD
gives `other`, 0 without one. The gate of a vector is one bool for all lanes or, with
`Target.lane_gates`, one for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .dtype import DType
from .uop.ops import Ops


class Instr(NamedTuple):
    op: Ops
    dtype: DType
    src: tuple[int, ...] = ()
    arg: Any = None


class Param(NamedTuple):
    """One buffer of a program: dtype, element count, and "r", "w" or "rw".

    `slot` is its number among the buffers of the kernel that the program was made of.
    """

    slot: int
    dtype: DType
    size: int
    access: str


class VariableSpec(NamedTuple):
    name: str
    dtype: DType
    lo: int | float
    hi: int | float


# An expression over variables in postfix form: numbers, names, and "+ - * // % max min".
Postfix = tuple[int | float | str, ...]


@dataclass(frozen=True, slots=True)
class LinearProgram:
    """One kernel, legal for its Target. Blocks of `grid` are independent: any order, any worker."""

    name: str
    ops: tuple[Instr, ...]
    params: tuple[Param, ...]
    variables: tuple[VariableSpec, ...] = ()
    grid: tuple[Postfix, ...] = ()  # empty: one block
    block: tuple[Postfix, ...] = ()
    shared_bytes: int = 0
    scratch_bytes: int = 0
    flops: int = 0  # arithmetic of one launch, an estimate
    bytes: int = 0  # distinct bytes touched by one launch, an estimate
    note: str = ""  # for people: the shape, the recipe and its transform list

    def expanded(self) -> tuple[Instr, ...]:
        """The list with every "unroll" loop printed out, its index arithmetic folded, and vector
        masks computed before the loops that do not change them."""
        return tuple(_masks_hoisted(_expand(self.ops)))


def evaluate(expr: Postfix, variables: Mapping[str, Any]) -> Any:
    """The value of a postfix expression."""
    stack: list[Any] = []
    for item in expr:
        if isinstance(item, int | float):
            stack.append(item)
        elif item in _POSTFIX:
            b, a = stack.pop(), stack.pop()
            stack.append(_POSTFIX[item](a, b))
        else:
            stack.append(variables[item])
    return stack[-1]


_POSTFIX: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": max,
    "min": min,
}
_FOLDED = {Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*"}
# Sets, and a local name: looking up a member of an enum takes 0.1 us before Python 3.12.
_CONST = Ops.CONST
_FOLDABLE = frozenset({_CONST, *_FOLDED})
_OPENING, _CLOSING = frozenset({Ops.RANGE, Ops.IF}), frozenset({Ops.END, Ops.ENDIF})


def _expand(ops: tuple[Instr, ...]) -> list[Instr]:
    """Print unrolled bodies once per step, with integer arithmetic on constants folded."""
    ends = _matching_ends(ops)
    out: list[Instr] = []
    scopes: list[dict[tuple[DType, int], int]] = [
        {}
    ]  # constants seen here; a loop or if is a scope
    place: dict[int, int] = {}

    def constant(dtype: DType, value: int) -> int:
        key = (dtype, value)
        found = scopes[-1].get(key)
        if found is None:
            found = scopes[-1][key] = len(out)
            out.append(Instr(Ops.CONST, dtype, (), value))
        return found

    def fold(instr: Instr, src: tuple[int, ...]) -> int:
        op, dtype, old, arg = instr
        if op in _FOLDABLE and dtype.is_int:
            if op is _CONST:
                if isinstance(arg, int):
                    return constant(dtype, arg)
            elif dtype.lanes == 1 and all(out[s].op is _CONST for s in src):
                return constant(dtype, _POSTFIX[_FOLDED[op]](*[out[s].arg for s in src]))
        out.append(instr if src == old else Instr(op, dtype, src, arg))
        return len(out) - 1

    def emit(lo: int, hi: int) -> None:
        i = lo
        while i < hi:
            op, dtype, src, arg = ops[i]
            new = tuple([place[s] for s in src])
            if op in _OPENING and arg == "unroll":
                for step in range(out[new[0]].arg, out[new[1]].arg):
                    place[i] = constant(dtype, step)
                    emit(i + 1, ends[i])
                i = ends[i] + 1
                continue
            if op in _CLOSING:
                scopes.pop()
            place[i] = fold(ops[i], new)
            if op in _OPENING:
                scopes.append(dict(scopes[-1]))
            i += 1

    emit(0, len(ops))
    return out


def _matching_ends(ops: tuple[Instr, ...]) -> dict[int, int]:
    return {ins.src[0]: i for i, ins in enumerate(ops) if ins.op is Ops.END}


def _masks_hoisted(ops: list[Instr]) -> Iterator[Instr]:
    """Move vector masks, and what they are computed from, before the loops that leave them as they
    are.

    A mask of an unrolled step is only known here, and code generators keep masks where they find
    them, as they have few mask registers (measured on AVX-512: the gradient of a convolution to
    its input, 0.75 -> 0.95 of torch's speed).
    """
    before = _hoistable(ops)
    if not before:
        return iter(ops)
    moved = {i for group in before.values() for i in group}
    out: list[Instr] = []
    place: dict[int, int] = {}
    for i in range(len(ops)):
        for j in (*before.get(i, ()), *(() if i in moved else (i,))):
            op, dtype, src, arg = ops[j]
            place[j] = len(out)
            out.append(Instr(op, dtype, tuple([place[s] for s in src]), arg))
    return iter(out)


def _hoistable(ops: list[Instr]) -> dict[int, list[int]]:
    """Position of a loop -> what may be computed before it: in order, masks and their sources."""
    if not any(i.dtype.lanes > 1 and i.dtype.kind == "bool" for i in ops):
        return {}
    scopes: list[int] = []
    needs: list[int] = []  # how many of them its value depends on
    around: dict[int, int] = {}  # of what could move: the outermost scope that it can leave
    masks: list[int] = []
    for i, (op, dtype, src, _) in enumerate(ops):
        if op in _CLOSING:
            scopes.pop()
        pure = op in _PURE
        level = max([needs[s] for s in src], default=0) if pure else len(scopes)
        if level < len(scopes):
            around[i] = scopes[level]
            if dtype.kind == "bool" and dtype.lanes > 1:
                masks.append(i)
        if op in _OPENING:
            scopes.append(i)
        needs.append(level if pure else len(scopes))
    wanted: set[int] = set()
    while masks:
        i = masks.pop()
        if i in around and i not in wanted:
            wanted.add(i)
            masks += ops[i].src
    out: dict[int, list[int]] = {}
    for i in sorted(wanted):
        out.setdefault(around[i], []).append(i)
    return out


_PURE = frozenset({
    Ops.CONST, Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.MIN, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR,
    Ops.NOT, Ops.SHL, Ops.SHR, Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE, Ops.CAST,
    Ops.BITCAST, Ops.BROADCAST, Ops.VECTOR, Ops.EXTRACT, Ops.SHUFFLE,
})  # fmt: skip


class Source(NamedTuple):
    """What a renderer prints: text or bytes, and the entry name of each program."""

    code: str | bytes
    entries: Mapping[str, str]  # program name -> symbol


class Binary(NamedTuple):
    """What a compiler makes of a Source; `code` goes into the disk cache as it is."""

    code: bytes
    entries: Mapping[str, str]


# ---- Plan: one call per step


class PlanBuffer(NamedTuple):
    """Where a buffer of a Plan lives: "external", number `slot` of the handles given at each call,
    or "arena", at byte `offset` of the runtime's scratch memory."""

    kind: str  # "external" or "arena"
    nbytes: int
    slot: int = 0
    offset: int = 0


class Launch(NamedTuple):
    program: str
    buffers: tuple[int, ...]  # positions in Plan.buffers, one per param
    scalars: tuple[Postfix, ...] = ()  # one per variable of the program; a literal is (value,)
    grid: tuple[Postfix, ...] = ()


class CopyStep(NamedTuple):
    dst: int
    src: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A program of one device: integers only, so it serialises as it is."""

    buffers: tuple[PlanBuffer, ...]
    steps: tuple[Launch | CopyStep, ...]
    programs: Mapping[str, LinearProgram]
    arena_bytes: int = 0
    variables: tuple[VariableSpec, ...] = ()
    setup: tuple[Launch | CopyStep, ...] = ()
    edges: tuple[tuple[int, int], ...] = field(default=())  # (step, later step that must see it)
