"""Programs and prepared Plans of the cpu device.

`Prepared` is the Executable of one Plan. Its tables are built once; a call writes the addresses of
handles that changed and the slots of variables that changed, then makes one native call for the
whole Plan.
"""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from polygrad.contract import CopyStep, Launch, Plan, evaluate
from polygrad.errors import ArgumentError

from .compile import Linked
from .function import Entry
from .memory import CpuAllocator, Memory
from .pool import pool, pool_is_made
from .tables import (
    ALIGN,
    SMALL_US,
    TICKET_US,
    TICKETS_PER_THREAD,
    Block,
    Scalar,
    Slots,
    Step,
    Tables,
    aligned,
    estimate,
    phases,
    traffic,
)

ROUSE_US = 60.0  # waking sleeping workers costs 30 us: only for this much work
COPY_TILE = 64 << 10  # as in `copy` of the executor

_kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
_bare = ctypes.CFUNCTYPE(None)


class Program:
    """One loaded program. Calling it runs the whole grid on the calling thread."""

    def __init__(self, address: int, entry: Entry, code: Linked) -> None:
        self.address, self.entry = address, entry
        self.function = _kernel(address)
        self._code = code  # keeps the machine code in memory

    def __call__(
        self,
        *handles: Memory,
        grid: tuple[int, ...] = (),
        scalars: tuple[Scalar, ...] = (),
        wait: bool = False,
    ) -> float | None:
        params = (ctypes.c_uint64 * max(1, len(handles)))(*(h.address for h in handles))
        slots = Slots(len(scalars) + len(grid))
        slots.write(0, self.entry.kinds, (*scalars, *grid))
        scratch = ctypes.create_string_buffer(self.entry.scratch + ALIGN)
        start = time.perf_counter()
        self.function(params, slots.ints, aligned(scratch), 0, math.prod(grid))
        return time.perf_counter() - start if wait else None


class Prepared:
    """See `polygrad.plugin.Executable`."""

    def __init__(
        self,
        plan: Plan,
        programs: Mapping[str, Program],
        arena: Memory | None,
        allocator: CpuAllocator,
        threads: int,
    ) -> None:
        self._specs = plan.variables
        self._setup = _setup(plan, programs, arena, allocator, threads)
        self._slots = _external(plan)
        self._handles: list[Memory | None] = [None] * len(self._slots)
        self._variables: tuple[Scalar, ...] = ()
        self._programs = dict(programs)  # keeps the machine code in memory
        largest = {v.name: v.hi for v in plan.variables}
        steps = [_step(plan, s, programs, largest, threads) for s in plan.steps]
        groups = phases(steps, plan.edges)
        stride = -(-max((s.scratch for s in steps), default=0) // ALIGN) * ALIGN + 2 * ALIGN
        self._scratch, self._free = allocator.alloc(stride * threads), allocator.free
        self._tables = Tables(steps, groups, self._scratch.address, stride, threads)
        for i, buffer in enumerate(plan.buffers):
            if buffer.kind == "arena" and arena is not None:
                self._tables.point(i, arena.address + buffer.offset)
        self._tables.fill_constant()
        self._retire: Callable[[int], None] | None = None
        self._run = self._runner(plan, steps, threads)

    def __call__(self, handles: Sequence[Memory], variables: Sequence[Scalar] = ()) -> None:
        if self._handles != handles:
            self._bind(handles)
        if self._specs:
            now = tuple(variables)  # a list is never equal to a tuple
            if self._variables != now or 0.0 in now:  # -0.0 == 0.0
                self._set(now)
        if self._setup is not None:
            self._setup(handles, variables)
            self._setup = None
        self._run()

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of the interpreter the names of modules are gone, and memory goes anyway.
        if hasattr(self, "_run") and not ending():  # without _run the constructor failed
            if self._retire is not None:
                self._retire(self._tables.plan)  # a late worker may still be reading the tables
            self._free(self._scratch)

    def _bind(self, handles: Sequence[Memory]) -> None:
        """Write the addresses of the handles that are others than at the last call."""
        if len(handles) != len(self._slots):
            raise ArgumentError(f"this Plan takes {len(self._slots)} buffers, got {len(handles)}.")
        for slot, new in enumerate(handles):
            if new is self._handles[slot]:
                continue
            for buffer, nbytes in self._slots[slot]:
                if new.nbytes < nbytes:
                    raise ArgumentError(
                        f"buffer {slot} of this Plan has {nbytes} bytes, got {new.nbytes}."
                    )
                self._tables.point(buffer, new.address)
            self._handles[slot] = new

    def _set(self, variables: tuple[Scalar, ...]) -> None:
        values: dict[str, Scalar] = {}
        for spec, value in zip(self._specs, variables, strict=True):
            if not spec.dtype.is_float and not spec.lo <= value <= spec.hi:
                raise ArgumentError(f"{spec.name}={value} is not in [{spec.lo}, {spec.hi}].")
            values[spec.name] = value
        self._tables.fill(values)
        self._variables = variables

    def _runner(self, plan: Plan, steps: Sequence[Step], threads: int) -> Callable[[], None]:
        """The cheapest way to run: nothing, one kernel, all steps on this thread, or the pool."""
        if not steps:
            return lambda: None
        if any(s.split for s in steps):
            rouse = sum(s.work for s in steps if s.split) > ROUSE_US
            self._retire = pool().retire
            return partial(pool().run, self._tables.plan, threads, rouse)
        only = plan.steps[0]
        if not pool_is_made() and len(steps) == 1 and steps[0].block.constant:
            # The first call of a process need not wait until the executor is compiled.
            assert isinstance(only, Launch), "a copy needs the executor"
            return _fixed(self._programs[only.program].address, *self._tables.arguments())
        return _fixed(pool().alone, ctypes.c_void_p.from_param(self._tables.plan))


def _fixed(address: int, *arguments: Any) -> Callable[[], None]:
    """A call of machine code with the same arguments every time, made by `from_param`: where no
    types are declared ctypes takes such as they are, in half the time of any others."""
    return partial(_bare(address), *arguments)


def _external(plan: Plan) -> list[list[tuple[int, int]]]:
    """For each slot of the handles: the buffers it stands for and their bytes."""
    count = 1 + max((b.slot for b in plan.buffers if b.kind == "external"), default=-1)
    slots: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for i, buffer in enumerate(plan.buffers):
        if buffer.kind == "external":
            slots[buffer.slot].append((i, buffer.nbytes))
    return slots


def _setup(
    plan: Plan,
    programs: Mapping[str, Program],
    arena: Memory | None,
    allocator: CpuAllocator,
    threads: int,
) -> Prepared | None:
    """The steps that run once, each seeing the one before."""
    if not plan.setup:
        return None
    edges = tuple((i, i + 1) for i in range(len(plan.setup) - 1))
    once = replace(plan, steps=plan.setup, setup=(), edges=edges)
    return Prepared(once, programs, arena, allocator, threads)


def _step(
    plan: Plan,
    step: Launch | CopyStep,
    programs: Mapping[str, Program],
    largest: Mapping[str, Scalar],
    threads: int,
) -> Step:
    """`largest`: the most that each variable can be."""
    if isinstance(step, CopyStep):
        tiles, nbytes = -(-step.nbytes // COPY_TILE), 2 * step.nbytes
        work = estimate(0, nbytes)
        split, chunk = _split(tiles, work, threads)
        block = Block("i", ((step.nbytes,),), ((tiles,),), chunk)
        return Step(pool().copy, (step.dst, step.src), block, split, work, nbytes, 0)
    program, linear = programs[step.program], plan.programs[step.program]
    grid = step.grid or linear.grid
    tiles = math.prod(int(evaluate(g, largest)) for g in grid)
    touched = traffic(linear)
    work = estimate(linear.flops, touched)
    split, chunk = _split(tiles, work, threads)
    block = Block(program.entry.kinds, step.scalars, grid, chunk)
    return Step(program.address, step.buffers, block, split, work, touched, program.entry.scratch)


def _split(tiles: int, work: float, threads: int) -> tuple[bool, int]:
    """(split over threads?, tiles per ticket) of a step."""
    if threads == 1 or tiles < 2 or work < SMALL_US:
        return False, max(1, tiles)
    tickets = min(tiles, threads * TICKETS_PER_THREAD, max(threads, int(work / TICKET_US)))
    return True, -(-tiles // tickets)
