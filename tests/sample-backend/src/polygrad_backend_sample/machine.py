"""The machine: registers, a program counter, and what each instruction does.

A register holds a tuple of lanes. Integers wrap at their width, floats are rounded to 32 bits after
every operation, so each result is what the reference engine gives.
"""

from __future__ import annotations

import itertools
import math
import operator
import struct
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from .assemble import KINDS, NAMES, Code, Module
from .memory import Heap

FORMATS = dict(zip(KINDS, "?bBhHiIf", strict=False))
Step = Callable[[list[Any], int], int]  # registers, own number -> next number

# ---- numbers


def rounded(x: float) -> float:
    """The nearest float32."""
    try:
        return float(struct.unpack("f", struct.pack("f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def wrapped(kind: str) -> Callable[[int], int]:
    """Brings a whole number into the range of an integer type."""
    bits = 8 * struct.calcsize(FORMATS[kind])
    mask, top = (1 << bits) - 1, 1 << (bits - 1)
    if kind.startswith("u"):
        return lambda x: x & mask
    return lambda x: ((x & mask) ^ top) - top


def fitted(kind: str) -> Callable[[Any], Any]:
    """Brings the result of an operation into its type."""
    if kind == "float32":
        return rounded
    return bool if kind == "bool" else wrapped(kind)


def divided(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a != a or not a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "min": lambda a, b: a if a < b else b,
    "max": lambda a, b: a if a > b else b,
    "div": divided,
    "sqrt": lambda a: math.nan if a < 0 else math.sqrt(a),
    "idiv": quotient,
    "imod": lambda a, b: a - quotient(a, b) * b,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "cmplt": operator.lt,
    "cmple": operator.le,
    "cmpeq": operator.eq,
    "cmpne": operator.ne,
    "where": lambda c, a, b: a if c else b,
}
MOVES = ("where", "cmplt", "cmple", "cmpeq", "cmpne")  # results need no rounding


def alu(name: str, kind: str) -> Callable[..., Any]:
    """One operation on one lane."""
    if name == "not":
        wrap = fitted(kind)
        return operator.not_ if kind == "bool" else (lambda a: wrap(~a))
    function, fit = FUNCTIONS[name], fitted(kind)
    return function if name in MOVES else lambda *lanes: fit(function(*lanes))


def caster(source: str, kind: str) -> Callable[[Any], Any]:
    """A conversion: floats saturate, integers wrap."""
    if kind == "float32" and source != "float32":
        return lambda x: rounded(float(x))
    if source == "float32" and kind not in ("float32", "bool"):
        bits, signed = 8 * struct.calcsize(FORMATS[kind]), not kind.startswith("u")
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        return lambda x: 0 if x != x else int(max(low, min(high, x)))
    return fitted(kind)


# ---- steps


def pure(one: Code) -> Step:
    """A step whose result depends on registers alone."""
    name, kind, out, of = one.name, one.kind, one.out, one.operands
    if name in ("cast", "bitcast"):
        (at, source), code = of, f"{one.lanes}{FORMATS[kind]}"
        if name == "cast":
            return _lanewise(out, (at,), caster(KINDS[source], kind))
        packing = f"{one.lanes}{FORMATS[KINDS[source]]}"
        return _whole(out, (at,), lambda x: struct.unpack(code, struct.pack(packing, *x)))
    if name == "broadcast":
        return _whole(out, of, lambda x: x * one.lanes)
    if name == "vector":
        return _whole(out, of, lambda *parts: tuple(itertools.chain(*parts)))
    if name in ("extract", "shuffle"):
        return _whole(out, of[:1], lambda x: tuple(x[i] for i in of[1:]))
    if name == "lanes":
        combine = alu(NAMES[of[1]], kind)
        return _whole(out, of[:1], lambda x: _halved(combine, x))
    if name in ("cmplt", "cmple", "cmpeq", "cmpne"):
        return _lanewise(out, of[:2], alu(name, KINDS[of[2]]))
    return _lanewise(out, of, alu(name, kind))


def _halved(combine: Callable[..., Any], x: tuple[Any, ...]) -> tuple[Any, ...]:
    while len(x) > 1:
        half = len(x) // 2
        x = tuple(map(combine, x[:half], x[half:]))
    return x


def _lanewise(out: int, of: Sequence[int], function: Callable[..., Any]) -> Step:
    return _whole(out, of, lambda *xs: tuple(map(function, *xs)))


def _whole(out: int, of: Sequence[int], function: Callable[..., Any]) -> Step:
    def step(r: list[Any], pc: int) -> int:
        r[out] = function(*[r[s] for s in of])
        return pc + 1

    return step


class Kernel:
    """A loaded program: a list of steps."""

    def __init__(self, module: Module, heap: Heap) -> None:
        self.module, self.heap = module, heap
        self.steps = [self._step(one) for one in module.code]

    def __call__(
        self,
        *handles: int,
        grid: tuple[int, ...] = (),
        scalars: tuple[int | float, ...] = (),
        wait: bool = False,
    ) -> float | None:
        start, end = perf_counter(), len(self.steps)
        for block in itertools.product(*map(range, grid)):
            registers: list[Any] = [None] * self.module.registers
            registers += [handles, block, scalars]
            pc = 0
            while pc < end:
                pc = self.steps[pc](registers, pc)
        return perf_counter() - start if wait else None

    def _step(self, one: Code) -> Step:
        made: Step = getattr(self, "_" + one.name, pure)(one)
        return made

    # ---- leaves: the launch stands behind the last register

    def _const(self, one: Code) -> Step:
        fit = fitted(one.kind)
        value = tuple(fit(v if one.kind == "float32" else int(v)) for v in one.value)
        return _whole(one.out, (), lambda: value)

    def _grid(self, one: Code) -> Step:
        return _whole(one.out, (self.module.registers + 1,), lambda x: (x[one.operands[0]],))

    def _variable(self, one: Code) -> Step:
        fit = fitted(one.kind)
        at = one.operands[0]
        return _whole(one.out, (self.module.registers + 2,), lambda x: (fit(x[at]),))

    # ---- control

    def _loop(self, one: Code) -> Step:
        lo, hi, end = one.operands

        def step(r: list[Any], pc: int) -> int:
            r[one.out] = r[lo]
            return pc + 1 if r[lo] < r[hi] else end + 1

        return step

    def _end(self, one: Code) -> Step:
        (start,) = one.operands
        loop = self.module.code[start]

        def step(r: list[Any], pc: int) -> int:
            r[loop.out] = (r[loop.out][0] + 1,)
            return start + 1 if r[loop.out] < r[loop.operands[1]] else pc + 1

        return step

    def _if(self, one: Code) -> Step:
        condition, end = one.operands
        return lambda r, pc: pc + 1 if r[condition][0] else end + 1

    def _endif(self, one: Code) -> Step:
        return lambda r, pc: pc + 1

    # ---- memory

    def _local(self, one: Code) -> Step:
        count = one.operands[0] * one.lanes
        return _whole(one.out, (), lambda: [math.nan if one.kind == "float32" else 0] * count)

    def _load(self, one: Code) -> Step:
        space, number, unit, offset, *gate = one.operands
        lanes, code = one.lanes, f"<{one.lanes}{FORMATS[one.kind]}"
        size, handles = struct.calcsize(code) // lanes, self.module.registers
        fit = fitted(one.kind)
        zero = (fit(0),) * lanes

        def step(r: list[Any], pc: int) -> int:
            at = r[offset][0] * unit
            if gate and not r[gate[0]][0]:
                r[one.out] = r[gate[1]] if len(gate) > 1 else zero
            elif space:
                r[one.out] = tuple(r[number][at : at + lanes])
            else:
                place = r[handles][number] + at * size
                r[one.out] = struct.unpack_from(code, self.heap.bytes, place)
            return pc + 1

        return step

    def _store(self, one: Code) -> Step:
        space, number, unit, offset, value, *gate = one.operands
        lanes, code = one.lanes, f"<{one.lanes}{FORMATS[one.kind]}"
        size, handles = struct.calcsize(code) // lanes, self.module.registers

        def step(r: list[Any], pc: int) -> int:
            at = r[offset][0] * unit
            if not gate or r[gate[0]][0]:
                if space:
                    r[number][at : at + lanes] = r[value]
                else:
                    place = r[handles][number] + at * size
                    struct.pack_into(code, self.heap.bytes, place, *r[value])
            return pc + 1

        return step
