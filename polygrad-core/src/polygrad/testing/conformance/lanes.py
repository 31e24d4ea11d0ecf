"""What a vector asks of a machine: lanes moved, reduced, gated and addressed, for every dtype.

Arithmetic on vectors stands in `ops`. Each program here is compared with the reference engine; the
bool vectors are masks, which memory holds as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from ...dtype import DType, dtypes, pack, unpack
from ...target import Target
from ...uop.ops import Ops
from ..assembler import Assembler
from . import values
from .check import Check, Subject, reference
from .programs import F32, I32, Sample, floats, same_as_reference

MOVES: Final = (Ops.BROADCAST, Ops.VECTOR, Ops.EXTRACT, Ops.SHUFFLE)
ACROSS: Final = (Ops.ADD, Ops.MUL, Ops.MIN, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR)
MASK_OF: Final = F32  # a mask has the lanes of this type


def lanes_of(target: Target, dtype: DType) -> int:
    """Lanes of a dtype that fill a register."""
    return target.vector_bytes // (MASK_OF if dtype.kind == "bool" else dtype).itemsize


def loaded(a: Assembler, base: int, at: int, dtype: DType, lanes: int) -> int:
    """Lanes from memory; a byte becomes a bool."""
    value = a.load(base, at, lanes=lanes)
    if dtype.kind != "bool":
        return value
    zero = a.const(dtypes.uint8.vec(lanes), (0,) * lanes if lanes > 1 else 0)
    return a(Ops.CMPNE, value, zero)


def stored(a: Assembler, base: int, at: int, value: int) -> None:
    """Lanes to memory; a bool becomes a byte."""
    dtype = a.ops[value].dtype
    if dtype.kind == "bool":
        value = a.emit(Ops.CAST, dtypes.uint8.vec(dtype.lanes), (value,))
    a.store(base, at, value)


def numbers(dtype: DType, count: int) -> bytes:
    """Small numbers, no two neighbours equal; of bool, no pattern that a turn leaves as it is."""
    if dtype.kind == "bool":
        return bytes(i * i % 7 in (1, 2) for i in range(count))
    return values.to_bytes(dtype, [(i * 37) % 101 + 1 for i in range(count)])


# ---- moves


def moved(op: Ops, dtype: DType, lanes: int) -> Sample:
    """One kind of move, in each form that a program may have it in."""
    a = Assembler(f"k_{op.name}_{dtype.name}")
    memory = values.memory_dtype(dtype)
    x, y = a.param(memory, lanes), a.param(memory, 4 * lanes, "w")
    v = loaded(a, x, a.number(0), dtype, lanes)
    scalars = [loaded(a, x, a.number(i), dtype, 1) for i in range(lanes)]
    wide = dtype.vec(lanes)
    forms: dict[Ops, list[tuple[DType, tuple[int, ...], Any]]] = {
        Ops.BROADCAST: [(wide, (scalars[i],), None) for i in (0, 1)],
        Ops.VECTOR: [(wide, tuple(reversed(scalars)), None)],
        Ops.EXTRACT: [(dtype, (v,), i) for i in reversed(range(lanes))],
        Ops.SHUFFLE: [(dtype.vec(len(order)), (v,), order) for order in _orders(lanes)],
    }
    at = 0
    for kind, src, arg in forms[op]:
        stored(a, y, a.number(at), a.emit(op, kind, src, arg))
        at += kind.lanes
    return Sample(a.build(), (numbers(dtype, lanes), bytes(memory.itemsize * 4 * lanes)))


def _orders(lanes: int) -> list[tuple[int, ...]]:
    """Turned round, moved on by one, some lanes twice, and every other one."""
    every = range(lanes)
    found = [(*reversed(every),), tuple((i + 1) % lanes for i in every)]
    return [*found, tuple(i // 2 for i in every), *([tuple(every[1::2])] if lanes >= 4 else [])]


def picked(dtype: DType, lanes: int) -> Sample:
    """Lanes of two vectors: halves of both, in turns, and those of the second first."""
    a = Assembler(f"k_SHUFFLE_two_{dtype.name}")
    memory, n = values.memory_dtype(dtype), lanes // 2
    both = [(*range(n), *range(lanes, lanes + n)), (*range(n, lanes), *range(lanes + n, 2 * lanes))]
    turns = [tuple(i // 2 + i % 2 * lanes + start for i in range(lanes)) for start in (0, n)]
    orders = [*both, *turns, (*reversed(range(2 * lanes - n, 2 * lanes)), *range(n)), (lanes, 0)]
    x = a.param(memory, 2 * lanes)
    y = a.param(memory, sum(map(len, orders)), "w")
    pair = tuple(loaded(a, x, a.number(i * lanes), dtype, lanes) for i in range(2))
    at = 0
    for order in orders:
        stored(a, y, a.number(at), a.emit(Ops.SHUFFLE, dtype.vec(len(order)), pair, order))
        at += len(order)
    return Sample(a.build(), (numbers(dtype, 2 * lanes), bytes(memory.itemsize * at)))


# ---- reductions


def across(op: Ops, dtype: DType, lanes: int, rows: int) -> Sample:
    """`y[row] = op over the lanes of x[row]`: by halves, lane i with lane i + n/2."""
    a = Assembler(f"k_LANES_{op.name}_{dtype.name}")
    memory = values.memory_dtype(dtype)
    x, y = a.param(memory, rows * lanes), a.param(memory, rows, "w")
    row = a.grid(rows)
    v = loaded(a, x, a(Ops.MUL, row, a.number(lanes)), dtype, lanes)
    stored(a, y, row, a.emit(Ops.LANES, dtype, (v,), op))
    return Sample(a.build(), ())


def reduces(op: Ops, dtype: DType) -> Callable[[Subject], None]:
    """Rows of numbers at the edges of the dtype, in which the order of the steps shows."""

    def run(subject: Subject) -> None:
        target, memory = subject.target, values.memory_dtype(dtype)
        lanes = lanes_of(target, dtype)
        rows = _rows(target, dtype, lanes)
        program = across(op, dtype, lanes, len(rows)).program
        contents = (
            values.to_bytes(dtype, [v for row in rows for v in row]),
            bytes(memory.itemsize * len(rows)),
        )
        got, wanted = subject.run(program, *contents)[1], reference(program, *contents)[1]
        keep = [
            i
            for i, value in enumerate(unpack(memory, wanted))
            if not values.leaves_out(target, dtype, (value,))
        ]
        size = memory.itemsize
        a, b = (b"".join(d[i * size : (i + 1) * size] for i in keep) for d in (got, wanted))
        with subject.explained(program):
            allowed = target.ulp.get((op, dtype), 0.0)
            values.compare(a, b, memory, [rows[i] for i in keep], ulp=allowed)

    return run


def _rows(target: Target, dtype: DType, lanes: int) -> list[tuple[values.Number, ...]]:
    """Rows of lanes: edges in several orders, and for floats two whose sum depends on the order."""
    some = [v for v in values.edges(dtype) if not values.leaves_out(target, dtype, (v,))]
    rows = [
        tuple(some[(start + step * i) % len(some)] for i in range(lanes))
        for step in (1, 3, 5)
        for start in range(len(some))
    ]
    if dtype.is_float:
        rows += [tuple((1e8, 1.0, -1e8, 0.5)[(i + r) % 4] for i in range(lanes)) for r in (0, 1)]
    return rows


# ---- memory


def half(dtype: DType, lanes: int) -> Sample:
    """Fewer lanes than fill a register: narrow numbers beside wide ones."""
    a = Assembler(f"k_half_{dtype.name}")
    x, y = a.param(dtype, lanes), a.param(dtype, lanes, "w")
    n = lanes // 2
    at = a(Ops.MUL, a.grid(2), a.number(n))
    a.store(y, at, a(Ops.ADD, *(a.load(x, at, lanes=n),) * 2))
    return Sample(a.build(), (numbers(dtype, lanes), bytes(dtype.itemsize * lanes)))


def between(lanes: int) -> Sample:
    """A vector may begin at any element, not only at multiples of its size."""
    a = Assembler("k_between")
    x, y = a.param(F32, 2 * lanes), a.param(F32, 2 * lanes, "rw")
    a.store(y, a.number(lanes - 1), a.load(x, a.number(1), lanes=lanes))
    return Sample(a.build(), (floats(2 * lanes), pack(F32, [9.0] * 2 * lanes)))


def offsets(index: DType, lanes: int) -> Sample:
    """A vector of offsets beside bytes: as many lanes, so larger than a register."""
    a = Assembler(f"k_offsets_{index.name}")
    U8 = dtypes.uint8
    x, y = a.param(U8, 3 * lanes), a.param(U8, lanes, "w")
    wide = index.vec(lanes)
    three = a.emit(Ops.BROADCAST, wide, (a.const(index, 3),))
    at = a(Ops.MUL, a.const(wide, tuple(range(lanes))), three)
    parts = [a.load(x, a.emit(Ops.EXTRACT, index, (at,), i)) for i in range(lanes)]
    a.store(y, a.const(index, 0), a.emit(Ops.VECTOR, U8.vec(lanes), parts))
    return Sample(a.build(), (numbers(U8, 3 * lanes), bytes(lanes)))


def register_tile(lanes: int) -> Sample:
    """A register tile of two vectors, its loops printed out."""
    a = Assembler("k_tile")
    wide = F32.vec(lanes)
    x, y, zero = a.param(F32, 6 * lanes), a.param(F32, 2 * lanes, "w"), a.number(0)
    tile = a.local(wide, 2)
    r = a.range(zero, a.number(2), "unroll")
    a.store(tile, r, a.const(wide, (0.0,) * lanes))
    a.end(r)
    k = a.range(zero, a.number(3))
    r = a.range(zero, a.number(2), "unroll")
    at = a(Ops.MUL, a(Ops.ADD, a(Ops.MUL, k, a.number(2)), r), a.number(lanes))
    a.store(tile, r, a(Ops.ADD, a.load(tile, r, lanes=1), a.load(x, at, lanes=lanes)))
    a.end(r)
    a.end(k)
    r = a.range(zero, a.number(2), "unroll")
    a.store(y, a(Ops.MUL, r, a.number(lanes)), a.load(tile, r))
    a.end(r)
    return Sample(a.build(), (floats(6 * lanes), bytes(8 * lanes)))


def gates(lanes: int) -> Sample:
    """A gate with one bit per lane reads and writes the tail of a row: part of a vector."""
    n = lanes + lanes // 2
    a = Assembler("k_masked")
    x, y = a.param(F32, n), a.param(F32, 2 * lanes, "rw")
    base = a(Ops.MUL, a.grid(2), a.number(lanes))
    numbers = a.const(I32.vec(lanes), tuple(range(lanes)))
    places = a(Ops.ADD, a.emit(Ops.BROADCAST, I32.vec(lanes), (base,)), numbers)
    end = a.emit(Ops.BROADCAST, I32.vec(lanes), (a.number(n),))
    gate = a(Ops.CMPLT, places, end)
    other = a.const(F32.vec(lanes), (3.0,) * lanes)
    a.store(y, base, a.load(x, base, gate, other, lanes=lanes), gate)
    return Sample(a.build(), (floats(n), pack(F32, [9.0] * 2 * lanes)))


# ---- checks


def checks(target: Target) -> Iterator[Check]:
    if not target.vector_bytes:
        return
    held = target.ops[Ops.LOAD] & target.ops[Ops.STORE]
    kinds = [
        d
        for d in sorted(held | {dtypes.bool}, key=lambda d: d.priority)
        if d.kind != "index" and lanes_of(target, d) >= 2
    ]
    for dtype in kinds:
        for op in MOVES:
            made = partial(moved, op, dtype, lanes_of(target, dtype))
            yield Check(f"lanes/{op.name}-{dtype.name}", same_as_reference(made))
        if target.shuffle_sources == 2:
            made = partial(picked, dtype, lanes_of(target, dtype))
            yield Check(f"lanes/SHUFFLE-two-{dtype.name}", same_as_reference(made))
        for op in ACROSS:
            if target.supports(Ops.LANES, dtype) and target.supports(op, dtype):
                yield Check(f"lanes/LANES-{op.name}-{dtype.name}", reduces(op, dtype))
        if target.supports(Ops.ADD, dtype) and lanes_of(target, dtype) >= 4:
            made = partial(half, dtype, lanes_of(target, dtype))
            yield Check(f"lanes/half-{dtype.name}", same_as_reference(made))
    index = dtypes.int64 if target.supports(Ops.ADD, dtypes.int64) else I32
    made = partial(offsets, index, target.vector_bytes)
    yield Check("lanes/offsets", same_as_reference(made))
    if F32 in kinds:
        for maker in (between, register_tile, *([gates] * target.lane_gates)):
            made = partial(maker, lanes_of(target, F32))
            yield Check(f"lanes/{maker.__name__}", same_as_reference(made))
