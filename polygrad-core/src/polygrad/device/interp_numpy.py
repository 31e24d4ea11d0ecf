"""The reference device's numpy engine: a value is an array with a point per block of the grid.

Grid axis g of size n is an arange along array axis g, and everything else follows by broadcasting;
a vector value has one more axis, its lanes, at the end. Loops stay Python loops, so what a program
costs here is its instruction count, not its data. Where a branch or a loop bound differs between
blocks, a mask says who takes part. Every address is checked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Instr, LinearProgram
from ..dtype import DType
from ..uop.ops import Ops
from .interp_nests import nest_at, together
from .interp_numpy_ops import (
    FROM_STORAGE,
    PURE,
    STORAGE,
    TO_STORAGE,
    VALUE,
    Array,
    bitcaster,
    caster,
    same,
)
from .interp_walk import Frame, Step, Walker

TILE = 1 << 15  # points of the grid that run together: what a large kernel's temporaries may occupy


def _both(a: Array, b: Array) -> Array:
    """The conjunction of two masks, where None means everybody."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


class NumpyWalker(Walker):
    """Makes the steps of one program; `run` executes them over a grid."""

    def __init__(self, program: LinearProgram) -> None:
        self._find_varying(program)
        super().__init__(program)

    def _find_varying(self, program: LinearProgram) -> None:
        """Which values may differ between blocks, so which LOCALs need an array with a grid."""
        self.varying = varying = set[int]()
        self.arrays: set[int] = set()  # LOCALs with an index that varies
        for i, instr in enumerate(program.ops):
            if instr.op in (Ops.GRID, Ops.LOAD) or not varying.isdisjoint(instr.src):
                varying.add(i)
            if instr.op is Ops.INDEX and instr.src[1] in varying:
                self.arrays.add(instr.src[0])

    def run(
        self, buffers: Sequence[memoryview], grid: Sequence[int], scalars: Mapping[str, Any]
    ) -> None:
        arrays = [
            np.frombuffer(memory, STORAGE[p.dtype]) if p.size else np.empty(0, STORAGE[p.dtype])
            for p, memory in zip(self.program.params, buffers, strict=True)
        ]
        typed = {v.name: VALUE[v.dtype].type(scalars[v.name]) for v in self.program.variables}
        with np.errstate(all="ignore"):
            for starts, shape in _tiles(grid):
                frame = Frame(self.constants.copy(), arrays, typed, starts, shape)
                for step in self.steps:
                    step(frame)

    # ---- leaves

    def value_of(self, constant: Instr) -> Any:
        made = VALUE[constant.dtype.scalar]
        lanes = isinstance(constant.arg, tuple)
        return np.array(constant.arg, made) if lanes else made.type(constant.arg)

    def grid(self, i: int) -> Step:
        axis, made = self.ops[i].arg, VALUE[self.ops[i].dtype]

        def step(f: Frame) -> None:
            start, extent = f.coords[axis], f.shape[axis]
            along = [1] * len(f.shape)
            along[axis] = extent
            f.values[i] = np.arange(start, start + extent, dtype=made).reshape(along)

        return step

    # ---- pure values

    def pure(self, i: int) -> Step:
        instr = self.ops[i]
        self.check_sources(i)
        return _apply(i, instr.src, PURE[instr.op])

    def cast(self, i: int) -> Step:
        instr = self.ops[i]
        source = self.ops[instr.src[0]].dtype.scalar
        make = caster if instr.op is Ops.CAST else bitcaster
        return _apply(i, instr.src, make(source, instr.dtype.scalar))

    def broadcast(self, i: int) -> Step:
        lanes = self.ops[i].dtype.lanes
        return _apply(i, self.ops[i].src, lambda x: np.repeat(np.asarray(x)[..., None], lanes, -1))

    def vector(self, i: int) -> Step:
        return _apply(i, self.ops[i].src, lambda *xs: np.stack(np.broadcast_arrays(*xs), axis=-1))

    def extract(self, i: int) -> Step:
        lane = self.ops[i].arg
        return _apply(i, self.ops[i].src, lambda x: x[..., lane])

    def shuffle(self, i: int) -> Step:
        lanes = list(self.ops[i].arg)

        def pick(*vectors: Array) -> Array:
            return np.concatenate(np.broadcast_arrays(*vectors), axis=-1)[..., lanes]

        return _apply(i, self.ops[i].src, pick)

    def lanes(self, i: int) -> Step:
        combine = PURE[self.ops[i].arg]

        def halve(x: Array) -> Array:
            while x.shape[-1] > 1:
                half = x.shape[-1] // 2
                x = combine(x[..., :half], x[..., half:])
            return x[..., 0]

        return _apply(i, self.ops[i].src, halve)

    # ---- control flow

    def loop(self, i: int) -> Step:
        lo, hi = self.ops[i].src
        body, made = self.body(i), VALUE[self.ops[i].dtype].type

        def step(f: Frame) -> None:
            first, last = f.values[lo], f.values[hi]
            uniform = not np.ndim(first) and not np.ndim(last)
            saved = f.mask
            for k in range(int(np.min(first)), int(np.max(last))):
                f.values[i] = made(k)
                if not uniform:
                    f.mask = _both(saved, (first <= k) & (k < last))
                for inner in body:
                    inner(f)
            f.mask = saved

        return together(self, nest_at(self, i), step)

    def branch(self, i: int) -> Step:
        condition, body = self.ops[i].src[0], self.body(i)

        def step(f: Frame) -> None:
            mask = f.values[condition]
            if not np.any(mask):
                return
            saved = f.mask
            f.mask = _both(saved, mask) if np.ndim(mask) else saved
            for inner in body:
                inner(f)
            f.mask = saved

        return step

    # ---- registers: a list of values where all blocks use one index, else an array (count, *grid)

    def local(self, i: int) -> Step:
        dtype = self.ops[i].dtype
        count = self.ops[i].arg[0] * dtype.lanes
        made = VALUE[dtype.scalar]
        # What was never stored is NaN, or a number nobody expects.
        unset = made.type("nan" if dtype.is_float else dtype.max // 3)
        as_array = i in self.arrays

        def step(f: Frame) -> None:
            f.values[i] = np.full((count, *f.shape), unset) if as_array else [unset] * count

        return step

    # ---- memory

    def load(self, i: int) -> Step:
        instr = self.ops[i]
        lanes, scalar = instr.dtype.lanes, instr.dtype.scalar
        base, base_at, offset_at = self.address(i)
        gate_at, other_at = (*instr.src[1:], None, None)[:2]
        convert = FROM_STORAGE.get(scalar, same) if base.op is Ops.PARAM else same
        zero = VALUE[scalar].type(0)
        counter, unit = np.arange(lanes), base.dtype.lanes
        is_list = base.op is Ops.LOCAL and base_at not in self.arrays
        read = _reader(base.op is Ops.PARAM, is_list, base.arg, base_at)

        def step(f: Frame) -> None:
            offset = f.values[offset_at] * unit if unit > 1 else f.values[offset_at]
            own = None if gate_at is None else f.values[gate_at]
            # Reading one's own register is harmless, so only memory looks at the mask.
            gate = _mask_for(None if is_list else f.mask, own, lanes)
            if lanes > 1:
                offset = np.asarray(offset)[..., None] + counter
            if gate is None:
                f.values[i] = convert(read(self, i, f, offset))
                return
            other = zero if other_at is None else f.values[other_at]
            if not np.any(gate):
                f.values[i] = np.broadcast_to(other, (lanes,)) if lanes > 1 else other
                return
            safe = offset if is_list else np.where(gate, offset, offset.dtype.type(0))
            f.values[i] = np.where(gate, convert(read(self, i, f, safe)), other)

        return step

    def store(self, i: int) -> Step:
        base, base_at, offset_at = self.address(i)
        value_at, gate_at, dtype = self.stored(i, base)
        lanes, unit, counter = dtype.lanes, base.dtype.lanes, np.arange(dtype.lanes)
        if base.op is Ops.PARAM:
            return self._store_param(i, base.arg, offset_at, value_at, gate_at, dtype)
        write = _write_array if base_at in self.arrays else _write_list

        def step(f: Frame) -> None:
            offset, value = f.values[offset_at] * unit, f.values[value_at]
            gate = _mask_for(f.mask, None if gate_at is None else f.values[gate_at], lanes)
            store = f.values[base_at]
            if lanes == 1:
                write(self, i, f, store, offset, value, gate)
                return
            for lane in range(lanes):
                mine = gate[..., lane % gate.shape[-1]] if np.ndim(gate) else gate
                write(self, i, f, store, offset + counter[lane], value[..., lane], mine)

        return step

    def _store_param(
        self, i: int, place: int, offset_at: int, value_at: int, gate_at: int | None, dtype: DType
    ) -> Step:
        lanes, convert = dtype.lanes, TO_STORAGE.get(dtype.scalar, same)
        counter, size = np.arange(lanes), self.sizes[place]

        def step(f: Frame) -> None:
            offset = np.asarray(f.values[offset_at])
            value = np.asarray(convert(f.values[value_at]))
            gate = _mask_for(f.mask, None if gate_at is None else f.values[gate_at], lanes)
            if lanes > 1:
                offset = offset[..., None] + counter
            if gate is not None:
                offset, value, gate = np.broadcast_arrays(offset, value, gate)
                offset, value = offset[gate], value[gate]
                if not offset.size:
                    return
            _check(self, i, offset, size)
            if np.broadcast_shapes(offset.shape, value.shape) != offset.shape:
                offset, value = np.broadcast_arrays(offset, value)
            memory = f.buffers[place]
            memory[offset] = value
            self._check_race(i, memory, offset, value)

        return step

    def _check_race(self, i: int, memory: Array, offset: Array, value: Array) -> None:
        """Blocks run in any order, so two of them may not leave different bits in one element."""
        if offset.size > 1:
            bits = f"u{memory.itemsize}"
            lost = memory[offset].view(bits) != np.ascontiguousarray(value).view(bits)
            if lost.any():
                where = int(offset[lost].flat[0])
                raise self.error(
                    i, f"stores two values at offset {where}: blocks are not independent"
                )


def _apply(i: int, src: tuple[int, ...], fn: Callable[..., Array]) -> Step:
    """The step of a pure instruction."""
    if len(src) == 1:
        (x,) = src

        def unary(f: Frame) -> None:
            f.values[i] = fn(f.values[x])

        return unary
    if len(src) == 2:
        a, b = src

        def binary(f: Frame) -> None:
            values = f.values
            values[i] = fn(values[a], values[b])

        return binary

    def step(f: Frame) -> None:
        f.values[i] = fn(*[f.values[s] for s in src])

    return step


def _mask_for(mask: Array, gate: Array, lanes: int) -> Array:
    """Who takes part in an access, with an axis for lanes when the access is a vector."""
    if lanes > 1:
        mask = mask[..., None] if np.ndim(mask) else mask
        gate_has_lanes = np.ndim(gate) and gate.shape[-1] == lanes
        gate = gate if gate is None or gate_has_lanes else np.asarray(gate)[..., None]
    return _both(mask, gate)


def _check(walker: Walker, i: int, offset: Array, size: int) -> None:
    """Raise unless all of `offset` is in 0 .. size - 1."""
    if not isinstance(offset, np.ndarray):
        low = high = int(offset)
        inside = 0 <= low < size
    else:  # as a number without sign what is below 0 is large
        inside = int(np.maximum.reduce(offset.view(_UNSIGNED[offset.dtype]), axis=None)) < size
    if not inside:
        low, high = int(np.min(offset)), int(np.max(offset))
        raise walker.outside(i, low if low < 0 else high, size)


_UNSIGNED = {np.dtype(f"{sign}{n}"): np.dtype(f"u{n}") for n in (1, 2, 4, 8) for sign in "iu"}


def _reader(is_param: bool, is_list: bool, arg: Any, at: int) -> Callable[..., Array]:
    if is_param:

        def read_param(walker: Walker, i: int, f: Frame, offset: Array) -> Array:
            memory = f.buffers[arg]
            _check(walker, i, offset, len(memory))
            return memory[offset]

        return read_param

    def read_list(walker: Walker, i: int, f: Frame, offset: Array) -> Array:
        store = f.values[at]
        _check(walker, i, offset, len(store))
        if np.ndim(offset) == 0:
            return store[int(offset)]
        return np.stack(np.broadcast_arrays(*[store[int(k)] for k in offset]), axis=-1)

    def read_array(walker: Walker, i: int, f: Frame, offset: Array) -> Array:
        store = f.values[at]
        _check(walker, i, offset, len(store))
        mesh = _mesh(f.shape)
        if np.ndim(offset) > len(f.shape):
            mesh = [m[..., None] for m in mesh]
        where = (offset, *mesh)
        return store[where]

    return read_list if is_list else read_array


def _write_list(
    walker: Walker, i: int, f: Frame, store: Any, offset: Array, value: Array, gate: Array
) -> None:
    if gate is not None and not np.any(gate):
        return
    _check(walker, i, offset, len(store))
    k = int(offset)
    store[k] = value if gate is None else np.where(gate, value, store[k])


def _write_array(
    walker: Walker, i: int, f: Frame, store: Any, offset: Array, value: Array, gate: Array
) -> None:
    if gate is not None:
        offset = np.where(gate, offset, offset.dtype.type(0))
    _check(walker, i, offset, len(store))
    where = (offset, *_mesh(f.shape))
    store[where] = value if gate is None else np.where(gate, value, store[where])


def _mesh(shape: tuple[int, ...]) -> list[Array]:
    return list(np.ogrid[tuple(slice(n) for n in shape)])


def _tiles(grid: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cut a grid into boxes of at most TILE points: (first block, extent) each."""
    room, steps = TILE, []
    for n in reversed(grid):
        step = max(1, min(n, room))
        steps.append(step)
        room //= step
    cuts = [range(0, n, s) for n, s in zip(grid, reversed(steps), strict=True)]
    for starts in itertools.product(*cuts):
        stops = zip(starts, grid, reversed(steps), strict=True)
        yield starts, tuple(min(s, n - at) for at, n, s in stops)
