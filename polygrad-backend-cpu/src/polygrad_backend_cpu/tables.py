"""The tables that the executor walks (`layout.py`), built once per Plan.

Steps that share no data form a *phase*. Inside it an *item* is either one step split into tiles or
a row of small steps that one thread runs in order. Which steps are small is an estimate from the
program's flops and bytes, never a measurement: the tables of a Plan are the same in every run.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from polygrad.contract import LinearProgram, Postfix, evaluate

from . import layout

ALIGN = 64
FLOPS_PER_US = 10e3  # of one core, for estimates
BYTES_PER_US = 10e3
SMALL_US = 4.0  # a step below this is not split
TICKET_US = 8.0  # about the work of one ticket; an estimate, several times that of tiles
KEPT = 16 << 20  # bytes of a step, a part of which the caches have when the next one comes
TICKETS_PER_THREAD = 16  # two cores differ by a tenth: of 8 each the last costs 3 % more

OPERATORS = frozenset(("+", "-", "*", "//", "%", "max", "min"))  # of a postfix expression

Scalar = int | float


def aligned(buffer: Any) -> int:
    """The first address of a ctypes `buffer` that is a multiple of 64; it has 64 bytes to spare."""
    return -(-ctypes.addressof(buffer) // ALIGN) * ALIGN


class Slots:
    """Eight-byte slots, each an integer or a double."""

    def __init__(self, count: int) -> None:
        self.ints = (ctypes.c_int64 * max(1, count))()
        self.floats = (ctypes.c_double * max(1, count)).from_buffer(self.ints)

    def write(self, at: int, kinds: str, values: Sequence[Scalar]) -> None:
        """`kinds` may be shorter than `values`: the rest are integers."""
        for i, value in enumerate(values):
            if i < len(kinds) and kinds[i] == "f":
                self.floats[at + i] = value
            else:
                self.ints[at + i] = int(value)

    def address(self, at: int) -> int:
        return ctypes.addressof(self.ints) + 8 * at


class Block(NamedTuple):
    """The scalars of a step: its variables' kinds and expressions, its grid, tiles per ticket."""

    kinds: str
    scalars: tuple[Postfix, ...]
    grid: tuple[Postfix, ...]
    chunk: int

    @property
    def slots(self) -> int:
        return len(self.scalars) + len(self.grid) + 2  # + (tiles, chunk)

    @property
    def constant(self) -> bool:
        expressions = (*self.scalars, *self.grid)
        return not any(isinstance(i, str) and i not in OPERATORS for e in expressions for i in e)

    def values(self, variables: Mapping[str, Scalar]) -> tuple[Scalar, ...]:
        """What the slots hold: scalars, grid, number of tiles, tiles per ticket."""
        grid = [int(evaluate(g, variables)) for g in self.grid]
        scalars = [evaluate(s, variables) for s in self.scalars]
        return (*scalars, *grid, math.prod(grid), self.chunk)


class Step(NamedTuple):
    """One step of a Plan, ready to be laid out."""

    function: int
    buffers: tuple[int, ...]
    block: Block
    split: bool
    work: float  # microseconds on one core, estimated
    nbytes: float  # read and written
    scratch: int


# ---- phases: which steps may run together


def traffic(program: LinearProgram) -> float:
    """Bytes that one launch reads and writes."""
    return program.bytes or sum(p.size * p.dtype.itemsize for p in program.params)


def estimate(flops: float, nbytes: float) -> float:
    """Microseconds of one launch on one core."""
    return flops / FLOPS_PER_US + nbytes / BYTES_PER_US


def _shares(nbytes: float, threads: int) -> int:
    """Into how many shares the tickets of an item are cut: one of each thread, if its caches may
    still have a part of what the step before left there. What is larger, threads walk side by
    side."""
    return 1 if nbytes > KEPT else min(threads, layout.MOST_SHARES)


def phases(steps: Sequence[Step], edges: Sequence[tuple[int, int]]) -> list[list[list[int]]]:
    """Step numbers as phases of items of steps; an item is one split step or one row of small ones.

    A step that must see another (`edges`) comes in a later phase or later in the same row.
    """
    sees: dict[int, set[int]] = {}
    for earlier, later in edges:
        sees.setdefault(later, set()).add(earlier)
    done: list[list[list[int]]] = []
    row: list[int] = []  # the current phase's small steps
    apart: set[int] = set()  # the split steps of the current phase
    small: set[int] = set()
    for number, step in enumerate(steps):
        needs = sees.get(number, set())
        waits = not needs.isdisjoint(apart) or (step.split and not needs.isdisjoint(small))
        if not done or waits:
            done.append([])
            row, apart, small = [], set(), set()
        if step.split:
            done[-1].append([number])
            apart.add(number)
            continue
        if not row:
            done[-1].append(row)
        row.append(number)
        small.add(number)
    return done


# ---- memory


class Tables:
    """The memory of a Plan's tables. `plan` is its address; nothing moves after construction."""

    def __init__(
        self,
        steps: Sequence[Step],
        groups: Sequence[Sequence[Sequence[int]]],
        scratch: int,
        stride: int,
        threads: int,
    ) -> None:
        self._positions: dict[int, list[int]] = {}  # buffer -> its places in `_addresses`
        self._addresses = (ctypes.c_uint64 * (1 + sum(len(s.buffers) for s in steps)))()
        self._first = {step.block: 0 for step in steps}  # block -> its first slot
        count = 0
        for block in self._first:
            self._first[block], count = count, count + block.slots
        self._varying = {block: i for block, i in self._first.items() if not block.constant}
        self._slots = Slots(count)
        self._threads, self._item_bytes = threads, layout.item_bytes(threads)
        sizes = (layout.PLAN_BYTES, layout.PHASE_BYTES * len(groups),
                 self._item_bytes * sum(map(len, groups)),
                 layout.STEP_BYTES * len(steps))  # fmt: skip
        self._memory = ctypes.create_string_buffer(sum(sizes) + ALIGN)
        self._phases = aligned(self._memory)  # first: its counters have cache lines of their own
        self._words = (ctypes.c_uint64 * (sum(sizes) // 8)).from_address(self._phases)
        self._items = self._phases + sizes[1]
        self._steps = self._items + sizes[2]
        self.plan = self._steps + sizes[3]
        self._lay_steps(steps, [n for group in groups for item in group for n in item])
        self._lay_groups(steps, groups)
        self._put(
            self.plan, layout.PLAN, phases=self._phases, phase_count=len(groups),
            steps=self._steps, step_count=len(steps), scratch=scratch, stride=stride,
            threads=threads,
        )  # fmt: skip

    def point(self, buffer: int, address: int) -> None:
        """Buffer number `buffer` of the Plan is at `address` from now on."""
        for position in self._positions.get(buffer, ()):
            self._addresses[position] = address

    def fill_constant(self) -> None:
        """Write the slots of the steps that depend on no variable."""
        for block, first in self._first.items():
            if block not in self._varying:
                self._slots.write(first, block.kinds, block.values({}))

    def fill(self, variables: Mapping[str, Scalar]) -> None:
        """Write the slots of the steps that depend on variables."""
        for block, first in self._varying.items():
            self._slots.write(first, block.kinds, block.values(variables))

    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the first step's function, as ctypes hands them to C, for a call without
        the executor."""
        block, first = next(iter(self._first.items()))
        tiles = self._slots.ints[first + block.slots - 2]
        table, variables = ctypes.addressof(self._addresses), self._slots.address(first)
        scratch = self._words[(self.plan - self._phases + layout.PLAN["scratch"]) >> 3]
        pointers = map(ctypes.c_void_p.from_param, (table, variables, scratch))
        return *pointers, *map(ctypes.c_int64.from_param, (0, tiles))

    def _put(self, base: int, offsets: Mapping[str, int], **values: int) -> None:
        words, first = self._words, base - self._phases
        for name, value in values.items():
            words[(first + offsets[name]) >> 3] = value

    def _lay_steps(self, steps: Sequence[Step], order: Sequence[int]) -> None:
        position = 0
        addresses, slots = ctypes.addressof(self._addresses), self._slots.address(0)
        for row, number in enumerate(order):
            step = steps[number]
            variables = slots + 8 * self._first[step.block]
            self._put(
                self._steps + row * layout.STEP_BYTES,
                layout.STEP,
                function=step.function,
                params=addresses + 8 * position,
                variables=variables,
                extent=variables + 8 * (step.block.slots - 2),
            )
            for buffer in step.buffers:
                self._positions.setdefault(buffer, []).append(position)
                position += 1

    def _lay_groups(self, steps: Sequence[Step], groups: Sequence[Sequence[Sequence[int]]]) -> None:
        # Others wait for the end of a phase if the next has work for several, or if it is the last.
        several = [len(group) > 1 or steps[group[0][0]].split for group in groups]
        item, step = self._items, self._steps
        for i, group in enumerate(groups):
            wake = i + 1 == len(groups) or several[i + 1]
            self._put(
                self._phases + i * layout.PHASE_BYTES, layout.PHASE,
                items=item, item_count=len(group), wake=wake,
            )  # fmt: skip
            for numbers in group:
                row = 0 if steps[numbers[0]].split else len(numbers)
                nbytes = sum(steps[n].nbytes for n in numbers)
                shares = _shares(nbytes, self._threads)
                self._put(item, layout.ITEM, steps=step, step_count=row, shares=shares)
                item += self._item_bytes
                step += layout.STEP_BYTES * len(numbers)
