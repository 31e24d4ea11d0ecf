"""The reference device's engine without numpy: one block at a time, one Python number per value.

Floats are Python's doubles, rounded to their dtype after every operation: for + - * / and sqrt of
float32 that is exact, because a double has more than twice its digits (Figueroa, "When is double
rounding innocuous?"). Integers wrap. A vector is a tuple of lanes. Slow, and meant to be: it is
short enough to be read as the definition of each instruction, and it runs where numpy is missing.
"""

from __future__ import annotations

import itertools
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..contract import Instr
from ..dtype import DType, canonical, word_format
from ..uop.ops import COMPARISONS, Ops
from .interp_walk import Frame, Step, Walker

Number = Any  # bool, int or float

# ---- memory: one element as bytes


def _codec(dtype: DType) -> tuple[int, Callable[..., Number], Callable[..., bytes]]:
    """Size, reader(memory, byte) and writer(value) of one element."""
    one, layout = struct.Struct("<" + word_format(dtype)), dtype.layout
    if dtype.format or layout is None:
        return one.size, lambda memory, at: one.unpack_from(memory, at)[0], one.pack
    return (
        one.size,
        lambda memory, at: layout.decode(one.unpack_from(memory, at)[0]),
        lambda value: one.pack(layout.encode(value)),
    )


# ---- arithmetic


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    if a != a or not a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _sqrt(a: float) -> float:
    return math.nan if a < 0 else math.sqrt(a)


def _whole(rounding: Callable[[float], int]) -> Callable[[float], float]:
    def apply(a: float) -> float:
        return math.copysign(float(rounding(a)), a) if math.isfinite(a) else a

    return apply


def _idiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return -quotient if (a < 0) != (b < 0) else quotient


def _imod(a: int, b: int) -> int:
    return a - _idiv(a, b) * b if b else 0


_PURE: dict[Ops, Callable[..., Number]] = {
    Ops.ADD: operator.add,
    Ops.SUB: operator.sub,
    Ops.MUL: operator.mul,
    Ops.NEG: operator.neg,
    Ops.MIN: lambda a, b: a if a < b else b,
    Ops.MAX: lambda a, b: a if a > b else b,
    Ops.DIV: _divide,
    Ops.IDIV: _idiv,
    Ops.IMOD: _imod,
    Ops.SQRT: _sqrt,
    Ops.FLOOR: _whole(math.floor),
    Ops.CEIL: _whole(math.ceil),
    Ops.TRUNC: _whole(math.trunc),
    Ops.ROUND: _whole(round),
    Ops.AND: operator.and_,
    Ops.OR: operator.or_,
    Ops.XOR: operator.xor,
    Ops.SHL: operator.lshift,
    Ops.SHR: operator.rshift,
    Ops.CMPLT: operator.lt,
    Ops.CMPLE: operator.le,
    Ops.CMPEQ: operator.eq,
    Ops.CMPNE: operator.ne,
    Ops.WHERE: lambda c, a, b: a if c else b,
}


def _scalar_op(op: Ops, dtype: DType) -> Callable[..., Number]:
    """What `op` does to scalars of `dtype`, rounded or wrapped to it."""
    if op is Ops.NOT:
        if dtype.kind == "bool":
            return operator.not_
        return lambda a: canonical(dtype, ~a)
    if (
        op is Ops.FMA
    ):  # two roundings: the contract leaves it open, and other devices differ by tolerance
        return lambda a, b, c: canonical(dtype, canonical(dtype, a * b) + c)
    fn = _PURE[op]
    if op is Ops.WHERE or op in COMPARISONS:
        return fn
    return lambda *args: canonical(dtype, fn(*args))


def _caster(source: DType, target: DType) -> Callable[[Number], Number]:
    if not (source.is_float and target.is_int):
        return lambda value: canonical(target, value)
    low, high = int(target.min), int(target.max)

    def saturate(value: float) -> int:
        if value != value:
            return 0
        return (
            max(low, min(high, int(value))) if math.isfinite(value) else high if value > 0 else low
        )

    return saturate


def _bitcaster(source: DType, target: DType) -> Callable[[Number], Number]:
    _, _, pack = _codec(source)
    _, unpack, _ = _codec(target)
    return lambda value: unpack(pack(value), 0)


class PythonWalker(Walker):
    """Makes the steps of one program; `run` executes them block by block."""

    def run(
        self, buffers: Sequence[memoryview], grid: Sequence[int], scalars: Mapping[str, Any]
    ) -> None:
        typed = {v.name: canonical(v.dtype, scalars[v.name]) for v in self.program.variables}
        for block in itertools.product(*map(range, grid)):
            frame = Frame(self.constants.copy(), buffers, typed, block, ())
            for step in self.steps:
                step(frame)

    # ---- leaves

    def value_of(self, constant: Instr) -> Any:
        scalar, arg = constant.dtype.scalar, constant.arg
        if isinstance(arg, tuple):
            return tuple(canonical(scalar, x) for x in arg)
        return canonical(scalar, arg)

    def grid(self, i: int) -> Step:
        axis = self.ops[i].arg

        def step(f: Frame) -> None:
            f.values[i] = f.coords[axis]

        return step

    # ---- pure values

    def pure(self, i: int) -> Step:
        self.check_sources(i)
        return self._lanewise(i, _scalar_op(self.ops[i].op, self.ops[i].dtype.scalar))

    def cast(self, i: int) -> Step:
        instr = self.ops[i]
        source = self.ops[instr.src[0]].dtype.scalar
        make = _caster if instr.op is Ops.CAST else _bitcaster
        return self._lanewise(i, make(source, instr.dtype.scalar))

    def _lanewise(self, i: int, fn: Callable[..., Number]) -> Step:
        src, vector = self.ops[i].src, self.ops[i].dtype.lanes > 1
        if not vector:
            return _apply(i, src, fn)
        return _apply(i, src, lambda *xs: tuple(map(fn, *xs)))

    def broadcast(self, i: int) -> Step:
        lanes = self.ops[i].dtype.lanes
        return _apply(i, self.ops[i].src, lambda x: (x,) * lanes)

    def vector(self, i: int) -> Step:
        return _apply(i, self.ops[i].src, lambda *xs: xs)

    def extract(self, i: int) -> Step:
        return _apply(i, self.ops[i].src, operator.itemgetter(self.ops[i].arg))

    def shuffle(self, i: int) -> Step:
        lanes = self.ops[i].arg
        return _apply(
            i, self.ops[i].src, lambda *xs: tuple([*itertools.chain(*xs)][k] for k in lanes)
        )

    def lanes(self, i: int) -> Step:
        combine = _scalar_op(self.ops[i].arg, self.ops[i].dtype.scalar)

        def halve(x: tuple[Number, ...]) -> Number:
            while len(x) > 1:
                half = len(x) // 2
                x = tuple(map(combine, x[:half], x[half:]))
            return x[0]

        return _apply(i, self.ops[i].src, halve)

    # ---- control flow

    def loop(self, i: int) -> Step:
        lo, hi = self.ops[i].src
        body = self.body(i)

        def step(f: Frame) -> None:
            for k in range(f.values[lo], f.values[hi]):
                f.values[i] = k
                for inner in body:
                    inner(f)

        return step

    def branch(self, i: int) -> Step:
        condition, body = self.ops[i].src[0], self.body(i)

        def step(f: Frame) -> None:
            if f.values[condition]:
                for inner in body:
                    inner(f)

        return step

    # ---- memory: registers are a list, a param is bytes

    def local(self, i: int) -> Step:
        dtype = self.ops[i].dtype
        count = self.ops[i].arg[0] * dtype.lanes
        unset = math.nan if dtype.is_float else int(dtype.max) // 3

        def step(f: Frame) -> None:
            f.values[i] = [unset] * count

        return step

    def load(self, i: int) -> Step:
        instr = self.ops[i]
        lanes, scalar = instr.dtype.lanes, instr.dtype.scalar
        base, base_at, offset_at = self.address(i)
        gate_at, other_at = (*instr.src[1:], None, None)[:2]
        in_memory, unit = base.op is Ops.PARAM, base.dtype.lanes
        size, read, _ = _codec(scalar)
        zero = canonical(scalar, 0)

        def element(f: Frame, offset: int) -> Number:
            store = f.buffers[base.arg] if in_memory else f.values[base_at]
            count = self.sizes[base.arg] if in_memory else len(store)
            if not 0 <= offset < count:
                raise self.outside(i, offset, count)
            return read(store, offset * size) if in_memory else store[offset]

        def step(f: Frame) -> None:
            offset = f.values[offset_at] * unit
            gate = True if gate_at is None else f.values[gate_at]
            other = zero if other_at is None else f.values[other_at]
            if lanes == 1:
                f.values[i] = element(f, offset) if gate else other
                return
            gates = gate if isinstance(gate, tuple) else (gate,) * lanes
            others = other if isinstance(other, tuple) else (other,) * lanes
            f.values[i] = tuple(
                element(f, offset + k) if gates[k] else others[k] for k in range(lanes)
            )

        return step

    def store(self, i: int) -> Step:
        base, base_at, offset_at = self.address(i)
        value_at, gate_at, dtype = self.stored(i, base)
        in_memory, lanes, unit = base.op is Ops.PARAM, dtype.lanes, base.dtype.lanes
        size, _, pack = _codec(dtype.scalar)

        def put(f: Frame, offset: int, value: Number) -> None:
            store = f.buffers[base.arg] if in_memory else f.values[base_at]
            count = self.sizes[base.arg] if in_memory else len(store)
            if not 0 <= offset < count:
                raise self.outside(i, offset, count)
            if in_memory:
                store[offset * size : (offset + 1) * size] = pack(value)
            else:
                store[offset] = value

        def step(f: Frame) -> None:
            offset, value = f.values[offset_at] * unit, f.values[value_at]
            gate = True if gate_at is None else f.values[gate_at]
            if lanes == 1:
                if gate:
                    put(f, offset, value)
                return
            gates = gate if isinstance(gate, tuple) else (gate,) * lanes
            for k in range(lanes):
                if gates[k]:
                    put(f, offset + k, value[k])

        return step


def _apply(i: int, src: tuple[int, ...], fn: Callable[..., Any]) -> Step:
    def step(f: Frame) -> None:
        f.values[i] = fn(*[f.values[s] for s in src])

    return step
