"""Turned reads: what lies along an unrolled loop, and across the lanes of its store, in registers.

A transpose reads along one axis and writes along another. Element by element each vector that is
written takes a load and an insertion for every lane. Where a tile has as many steps as lanes, its
rows are read as whole vectors instead, before its loop, and a square of lanes is turned by log2(n)
rounds, each of which exchanges one bit of the number of a row with one of the number of a lane.

Only what nobody writes is read ahead of the steps that use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..dtype import DType, dtypes
from ..target import Target
from ..uop.linear import coefficient
from ..uop.ops import Ops, UOp
from .kernel import Kernel, length, substitute
from .masks import narrow_masks
from .offsets import along, ordered_offsets
from .printing import Accumulator, Printer

FEWEST = 4  # lanes of a square: two are moved as fast one by one
UNIT = 16  # bytes within which every machine with vectors moves lanes in one step


class Turning(Printer):
    """Prints turned reads; `turned` has the registers of each."""

    def __init__(self, kernel: Kernel, target: Target, index: DType) -> None:
        super().__init__(kernel, target, index)
        self.turned: dict[UOp, Accumulator] = {}
        self.written = {n.src[0].src[0] for n in kernel.nodes if n.op is Ops.STORE}

    def turn(self, loops: Sequence[UOp], nodes: Sequence[UOp]) -> None:
        """Read and turn what `nodes` read across their lanes, before the loop it lies along."""
        if self.target.shuffle_sources < 2:
            return
        for at, loop in enumerate(loops):
            found = {n: rows for n in nodes if (rows := self.rows(n, loop))}
            if found:
                self.enter(loops[:at], nodes)
            for load, rows in found.items():
                self.turned[load] = self.in_registers(load, loop, rows)

    def rows(self, load: UOp, loop: UOp) -> list[UOp]:
        """The vectors that a LOAD reads in a tile, for one square after another; empty where it is
        not to be turned."""
        lane = self.lane_of(load) if load.op is Ops.LOAD else None
        if lane is None or self.kernel.kind(loop) != "unroll" or load.src[0].src[0] in self.written:
            return []
        place, inside = load.src[0].src[1], self.loops_of(load)
        if coefficient(place, loop) != 1 or coefficient(place, lane) in (0, 1):
            return []
        lanes = length(lane)
        if inside[-1] is not loop or length(loop) % lanes or lanes < FEWEST or loop.src[0].arg != 0:
            return []
        other = UOp.range(0, lanes, self.kernel.fresh(), "vector")
        rows = [
            substitute((load,), {loop: other + start, lane: UOp.index(i)})[0]
            for start in range(0, length(loop), lanes)
            for i in range(lanes)
        ]
        rows = _lowered(self.kernel, rows, other)
        read = [r for r in rows if r.op is Ops.LOAD]  # a row that a gate closes is a constant
        if not all(self.in_one(r, 1, lanes) and _step(r, other) == 1 for r in read):
            return []
        self.vectors |= {other}
        return rows

    def in_registers(self, load: UOp, loop: UOp, rows: Sequence[UOp]) -> Accumulator:
        """The rows, turned: a register for each step of the loop."""
        lanes = self.lanes(load)
        dtype = load.dtype.vec(lanes)
        local = self.emit(Ops.LOCAL, dtype, (), (length(loop), "register"))
        for start in range(0, len(rows), lanes):
            square = [self.broadcast(self.value(r), lanes) for r in rows[start : start + lanes]]
            for i, value in enumerate(self.square(square)):
                place = self.emit(Ops.INDEX, dtype, (local, self.constant(self.index, start + i)))
                self.emit(Ops.STORE, dtypes.void, (place, value))
        return Accumulator(local, (loop,), dtype, ())

    def square(self, rows: list[int]) -> list[int]:
        """Vectors of as many lanes as there are, turned: lane i of vector k was lane k of i."""
        dtype = self.ops[rows[0]].dtype
        for bit, orders in rounds(dtype.lanes, max(UNIT // dtype.scalar.itemsize, 1)):
            for i in (i for i in range(len(rows)) if not i & bit):
                pair = (rows[i], rows[i | bit])
                made = [self.emit(Ops.SHUFFLE, dtype, pair, order) for order in orders]
                rows[i], rows[i | bit] = made
        return rows

    def available(self, node: UOp) -> bool:
        return node in self.turned or super().available(node)

    def load(self, node: UOp) -> int:
        registers = self.turned.get(node)
        if registers is None:
            return super().load(node)
        return self.emit(Ops.LOAD, registers.dtype, (self.element(registers),))


def _step(load: UOp, lane: UOp) -> int | None:
    return along(load.src[0].src[1], lane)[1]


def _lowered(kernel: Kernel, rows: list[UOp], lane: UOp) -> list[UOp]:
    """Reads along a new vector range, their masks and offsets as `lower` leaves them."""
    kinds = {**kernel.kinds, lane: "vector"}
    made = replace(kernel, stores=tuple(rows), order=(*kernel.order, lane), kinds=kinds)
    made = replace(made, stores=tuple(narrow_masks(made)))
    return ordered_offsets(made)


def rounds(lanes: int, unit: int) -> Iterator[tuple[int, tuple[tuple[int, ...], ...]]]:
    """(bit of a row's number, the lanes of both results) of each step in turning a square.

    Blocks of `unit` lanes change places first, even ones to the first of two rows and odd ones to
    the second; then lanes do within blocks, those of both rows in turns.
    """
    unit = min(unit, lanes)
    every = range(2 * lanes)
    bit = unit
    while bit < lanes:
        yield bit, tuple(tuple(i for i in every if i // unit % 2 == odd) for odd in (0, 1))
        bit *= 2
    bit = unit // 2
    while bit:
        yield bit, tuple(_in_turns(lanes, unit, half) for half in (0, unit // 2))
        bit //= 2


def _in_turns(lanes: int, unit: int, start: int) -> tuple[int, ...]:
    """Of each block the lanes from `start` on, of the first row and the second in turns."""
    return tuple(
        block + start + i // 2 + i % 2 * lanes
        for block in range(0, lanes, unit)
        for i in range(unit)
    )
