"""Loops of the reference device's numpy engine, many turns at once.

What a turn of a loop computes from its counter, and from memory that the program only reads, is the
same in whatever order turns run. Those instructions are *free*: they run once for many turns, their
values having one more axis in front. The others, *carried* from turn to turn in registers or seen
in memory, run turn by turn on their part of those values; a plain running sum is one call. Loops
with nothing but free instructions between them are one long loop. The steps are the same ones as
turn by turn, on longer arrays, so results are the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..uop.ops import Ops
from .interp_numpy_ops import PURE, VALUE, Array
from .interp_walk import MAKERS, Frame, Step, Walker

if TYPE_CHECKING:
    from .interp_numpy import NumpyWalker

TURNS = 1 << 12  # points, blocks times turns, that run together: what their temporaries may occupy
FEW = 4  # turns that are worth it
_FREE = {
    *("pure", "cast", "broadcast", "vector", "extract", "shuffle", "lanes"),
    *("grid", "variable", "constant"),
}
_IN_ORDER = (Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR)  # ufuncs, which accumulate in order


class Nest(NamedTuple):
    """Positions in a program: `loops` from the outermost, the others in order."""

    loops: tuple[int, ...]
    free: tuple[int, ...]
    carried: tuple[int, ...]
    read: tuple[int, ...]  # loops and free instructions that turns differ in and `carried` reads


def nest_at(walker: Walker, start: int) -> Nest:
    """The nest whose outermost loop is at `start`."""
    ops, ends = walker.ops, walker.ends
    loops, free, carried, turning = [start], [], list[int](), {start}
    at, stop = start + 1, ends[start]
    made: set[int] = set()  # `free`, to look up

    def is_free(i: int) -> bool:
        """Whether neither registers nor written memory play a part in `i`."""
        instr = ops[i]
        if instr.op is Ops.LOAD:
            base = ops[ops[instr.src[0]].src[0]]
            if base.op is not Ops.PARAM or walker.program.params[base.arg].access != "r":
                return False
        elif instr.op is not Ops.INDEX and MAKERS.get(instr.op) not in _FREE:
            return False
        return all(s < start or s in turning or s in made for s in instr.src)

    while at < stop:
        instr = ops[at]
        last = instr.op is Ops.RANGE and ends[at] == stop - 1 and not carried
        if last and all(s < start or ops[s].op is Ops.CONST for s in instr.src):
            loops.append(at)
            turning.add(at)
            stop = ends[at]
        elif is_free(at):
            free.append(at)
            made.add(at)
            if not turning.isdisjoint(instr.src):
                turning.add(at)
        else:
            carried.append(at)
            at = ends.get(at, at)
        at += 1
    read = {s for i in carried for s in _sources(walker, i)} & turning
    return Nest(tuple(loops), tuple(free), tuple(carried), tuple(sorted(read)))


def _sources(walker: Walker, i: int) -> Iterator[int]:
    """What instruction `i`, or what it encloses, reads; of an INDEX its offset."""
    ops = walker.ops
    for at in range(i, walker.ends.get(i, i) + 1):
        for s in ops[at].src:
            yield ops[s].src[1] if ops[s].op is Ops.INDEX else s


def together(walker: NumpyWalker, nest: Nest, turn_by_turn: Step) -> Step:
    """The step of a nest; where turns are few, or their number differs between blocks, that of its
    outermost loop."""
    ops = walker.ops
    bounds = [ops[loop].src for loop in nest.loops]
    counters = [(loop, VALUE[ops[loop].dtype]) for loop in nest.loops]
    free, carried = walker.steps_of(nest.free), walker.steps_of(nest.carried)
    read = [(i, i not in walker.varying, int(ops[i].dtype.lanes > 1)) for i in nest.read]
    running = _running(walker, nest)

    def count(f: Frame, start: int, sizes: Sequence[int], first: Sequence[int]) -> int:
        """Set the counters to those of the turns from `start` on; their number."""
        stop = min(start + TURNS // math.prod(f.shape), math.prod(sizes))
        places = np.unravel_index(np.arange(start, stop), sizes)
        for (loop, made), lo, k in zip(counters, first, places, strict=True):
            f.values[loop] = (k + lo).astype(made).reshape(-1, *[1] * len(f.shape))
        return stop - start

    def one_by_one(f: Frame, turns: int) -> None:
        values = f.values
        taken = [(i, _turns(f, values[i], same, lanes)) for i, same, lanes in read]
        differing = [(i, each) for i, each in taken if each is not None]
        for turn in range(turns):
            for i, each in differing:
                values[i] = each[turn]
            for one in carried:
                one(f)

    def step(f: Frame) -> None:
        limits = [(f.values[lo], f.values[hi]) for lo, hi in bounds]
        vary = any(np.ndim(lo) or np.ndim(hi) for lo, hi in limits)
        sizes = [] if vary else [max(int(hi) - int(lo), 0) for lo, hi in limits]
        total = math.prod(sizes)
        if min(total, TURNS // math.prod(f.shape)) < FEW:
            turn_by_turn(f)
            return
        start = 0
        while start < total:
            turns = count(f, start, sizes, [int(lo) for lo, _ in limits])
            for one in free:
                one(f)
            if running is not None and f.mask is None:
                running(f, turns)
            else:
                one_by_one(f, turns)
            start += turns

    return step


def _turns(f: Frame, value: Array, uniform: bool, lanes: int) -> Array:
    """A value with its turns in front, None if it came out the same for all of them."""
    value = np.asarray(value)
    if value.ndim <= len(f.shape) + lanes:
        return None
    return value.reshape(len(value), *value.shape[value.ndim - lanes :]) if uniform else value


def _running(walker: NumpyWalker, nest: Nest) -> Callable[[Frame, int], None] | None:
    """The turns of `register = register + value` as one call, None where they are not that."""
    ops = walker.ops
    found = [ops[i] for i in nest.carried]
    if [i.op for i in found[::2]] != [Ops.LOAD, Ops.STORE] or len(found) != 3:
        return None
    (load, made, store), (at, of, _) = found, nest.carried
    where = ops[load.src[0]].src
    base, place = where
    plain = len(load.src) == 1 and load.dtype.lanes == 1 and ops[base].op is Ops.LOCAL
    kept = ops[store.src[0]].src == where and store.src[1:] == (of,)
    if not plain or not kept or ops[place].op is not Ops.CONST or base in walker.arrays:
        return None
    k = ops[place].arg
    if not 0 <= k < ops[base].arg[0]:
        return None  # what turns one by one refuse
    others = [s for s in made.src if s != at]
    combine: Any
    value: Callable[..., Array]
    if made.op is Ops.FMA and made.src[2] == at and len(others) == 2:
        combine, value = np.add, np.multiply
    elif made.op in _IN_ORDER and len(others) == 1:
        combine, value = PURE[made.op], np.asarray
    else:
        return None

    def run(f: Frame, turns: int) -> None:
        registers = f.values[base]
        each = np.asarray(value(*[f.values[s] for s in others]))
        one = each.shape[1:] if each.ndim > len(f.shape) else each.shape
        line = np.empty((1 + turns, *np.broadcast_shapes(np.shape(registers[k]), one)), each.dtype)
        line[0], line[1:] = registers[k], each
        registers[k] = combine.accumulate(line, axis=0, dtype=line.dtype)[-1]

    return run
