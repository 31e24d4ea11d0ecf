"""From fusion's decisions to kernels: every inlined node becomes a scalar expression over loop
counters.

Comes in: which kernel needs which node at which index (`fusion.Fusion`). Goes out: one SINK of
stores per kernel, over PARAM slots instead of buffers, so that equal layers give the same kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..dtype import DType, dtypes
from ..uop.ops import ELEMENTWISE, MOVEMENT, Ops, Shape, UOp, size
from ..uop.sizes import capacity
from ..uop.values import identity
from .fusion import Fusion, Group, Use, sources
from .indexing import Index, both, flat, known, source_index, through


def memory_dtype(dtype: DType) -> DType:
    """The type that memory holds: a bool is a byte."""
    return dtypes.uint8 if dtype is dtypes.bool else dtype


class KernelBuilder:
    """The parameters and stores of one kernel."""

    def __init__(self, slots: Mapping[UOp, int] = {}, stores: Sequence[UOp] = ()) -> None:
        self.slots, self.stores = dict(slots), list(stores)

    def param(self, leaf: UOp) -> UOp:
        slot = self.slots.setdefault(leaf, len(self.slots))
        return UOp(Ops.PARAM, memory_dtype(leaf.dtype), (), (slot, capacity(leaf.shape)))

    def address(self, leaf: UOp, offset: UOp) -> UOp:
        param = self.param(leaf)
        return UOp(Ops.INDEX, param.dtype, (param, offset))

    def load(self, leaf: UOp, offset: UOp, valid: UOp | None) -> UOp:
        address = self.address(leaf, offset)
        value = UOp(Ops.LOAD, address.dtype, (address,) if valid is None else (address, valid))
        return value.cast(leaf.dtype)

    def store(self, leaf: UOp, offset: UOp, value: UOp, gate: UOp | None = None) -> None:
        address = self.address(leaf, offset)
        src = (address, value.cast(address.dtype))
        self.stores.append(UOp(Ops.STORE, dtypes.void, src if gate is None else (*src, gate)))

    def sink(self) -> UOp:
        return UOp(Ops.SINK, dtypes.void, tuple(self.stores))


class Builder:
    """Expressions of every node at every use, sources first, without recursion."""

    def __init__(self, fusion: Fusion, leaves: dict[UOp, UOp]) -> None:
        self.fusion = fusion
        self.leaves = leaves  # stored node -> BUFFER leaf of its result
        self.kernels: dict[Group, KernelBuilder] = {g: KernelBuilder() for g in fusion.groups}
        self.values: dict[tuple[UOp, Use], UOp] = {}
        # What equal layers ask again, at the same loops of their own kernels.
        self.offsets: dict[tuple[Index, Shape], UOp] = {}
        self.results: dict[tuple[Any, ...], UOp] = {}
        for node in fusion.order:
            self._build(node)

    def _build(self, node: UOp) -> None:
        uses = self.fusion.uses[node]
        home = self.fusion.home.get(node)
        if home is not None and node.op in (Ops.COPY, Ops.SCATTER, Ops.KERNEL):
            home_value: UOp | None = None
        elif home is not None:
            home_value = self._expression(node, home)
            self._store(node, home, home_value)
        for use in uses:
            if home is None:
                self.values[node, use] = self._expression(node, use)
            elif use == home and home_value is not None:
                self.values[node, use] = home_value
            else:
                self.values[node, use] = self._load(self.leaves[node], node, use)

    def _store(self, node: UOp, home: Use, value: UOp) -> None:
        offset = flat(home.index, home.kernel.shape)
        self.kernels[home.kernel].store(self.leaves[node], offset, value)

    def _load(self, leaf: UOp, node: UOp, use: Use) -> UOp:
        key = (use.index, node.shape)
        offset = self.offsets.get(key)
        if offset is None:
            offset = self.offsets[key] = flat(*key)
        return self.kernels[use.kernel].load(leaf, offset, use.valid)

    def _expression(self, node: UOp, use: Use) -> UOp:
        op = node.op
        if not node.src:
            return self._leaf(node, use)
        if op is Ops.CONST:  # a leaf of its own
            return UOp.const(node.dtype, node.arg)
        links = self.fusion.links[node, use]
        src = [self.values[s, u] for s, u in zip(sources(node), links, strict=True)]
        if op in MOVEMENT:
            return self._moved(node, use, src[0])
        if op in ELEMENTWISE:
            key = (op, node.dtype, *src)
            found = self.results.get(key)
            if found is None:
                found = self.results[key] = _elementwise(node, src)
            return found
        if op is Ops.REDUCE:
            return self._reduced(node, use, src[0])
        if op is Ops.SCAN:
            loop = use.index[node.arg[1]]
            return (
                UOp(op, node.dtype, (src[0], loop), node.arg[0]) if loop.op is Ops.RANGE else src[0]
            )
        if op is Ops.GATHER:
            return self._gathered(node, use, src[0])
        return src[0]  # CONTIGUOUS, DETACH, AFTER

    def _leaf(self, node: UOp, use: Use) -> UOp:
        if node.op is Ops.BUFFER:
            return self._load(node, node, use)
        if node.op is Ops.CONST:
            return UOp.const(node.dtype, node.arg)
        if node.op is Ops.IOTA:
            return use.index[0].cast(node.dtype)
        return node  # a VARIABLE

    def _moved(self, node: UOp, use: Use, value: UOp) -> UOp:
        if node.op is not Ops.PAD or size(node.shape) == 0:
            return value
        _, condition = source_index(node, use.index)
        condition = known(condition)
        if condition is None or vanishes(value):
            return value  # the loads' gates already give 0 outside
        return condition.where(value, 0)

    def _reduced(self, node: UOp, use: Use, value: UOp) -> UOp:
        op, axes = node.arg
        if any(node.src[0].shape[a] == 0 for a in axes):
            return UOp.const(node.dtype, identity(op, node.dtype))
        loops = self.fusion.reduce_loops[node, use]
        return UOp(Ops.REDUCE, node.dtype, (value, *loops), op) if loops else value

    def _gathered(self, node: UOp, use: Use, picked: UOp) -> UOp:
        x, axis = node.src[0], node.arg
        rank = len(node.src[1].shape)
        length = x.shape[axis]
        position = picked.cast(dtypes.index)
        inside = (UOp.index(0) <= position) & (position < length)
        index = (*use.index[:axis], position, *use.index[axis + rank :])
        base, index, valid = through(x, index, both(use.valid, inside))
        leaf = self.leaves.get(base, base)
        return self.kernels[use.kernel].load(leaf, flat(index, base.shape), valid)


def vanishes(value: UOp, budget: int = 16) -> bool:
    """Is this expression 0 wherever the gates of all its loads are false?"""
    if value.op is Ops.LOAD:
        return len(value.src) > 1
    if budget == 0:
        return False
    if value.op in (Ops.CAST, Ops.NEG):
        return vanishes(value.src[0], budget - 1)
    if value.op is Ops.MUL and value.src[1].op is Ops.CONST:
        return math.isfinite(value.src[1].arg) and vanishes(value.src[0], budget - 1)
    if value.op in (Ops.MUL, Ops.ADD):
        return all(vanishes(s, budget // 2) for s in value.src)
    return False


def _elementwise(node: UOp, src: Sequence[UOp]) -> UOp:
    if node.op is Ops.CAST:
        return src[0].cast(node.dtype)
    if node.op is Ops.BITCAST:
        return src[0].bitcast(node.dtype)
    return UOp.alu(node.op, *src, arg=node.arg)


def scatter_kernels(node: UOp, out: UOp, leaves: dict[UOp, UOp]) -> list[KernelBuilder]:
    """A scatter in two kernels: a copy of the base, unless it goes into that itself, then the
    updates in index order.

    The loops over the index are sequential, so duplicates combine in order on every device; the
    other axes are parallel. Positions outside the axis are dropped, as reads outside give 0.
    """
    base, index, updates = node.src
    axis, mode = node.arg
    kernels: list[KernelBuilder] = []
    if out is not base:
        copy = KernelBuilder()
        whole = UOp.range(0, size(base.shape), 0)
        copy.store(out, whole, _read(copy, base, whole, leaves))
        kernels.append(copy)
    if size(updates.shape) == 0:
        return kernels
    kernel = KernelBuilder()
    rank = len(index.shape)
    loops = tuple(
        UOp.range(0, n, i, "seq" if axis <= i < axis + rank else "loop") if n != 1 else UOp.index(0)
        for i, n in enumerate(updates.shape)
    )
    at = _read(kernel, index, flat(loops[axis : axis + rank], index.shape), leaves)
    position = at.cast(dtypes.index)
    inside = known((UOp.index(0) <= position) & (position < base.shape[axis]))
    target = flat((*loops[:axis], position, *loops[axis + rank :]), base.shape)
    value = _read(kernel, updates, flat(loops, updates.shape), leaves)
    if mode != "set":
        value = UOp.alu(_MODES[mode], kernel.load(out, target, inside), value)
    kernel.store(out, target, value, inside)
    return [*kernels, kernel]


_MODES = {"add": Ops.ADD, "mul": Ops.MUL, "max": Ops.MAXIMUM, "min": Ops.MINIMUM}


def _read(kernel: KernelBuilder, node: UOp, offset: UOp, leaves: dict[UOp, UOp]) -> UOp:
    return kernel.load(leaves.get(node, node), offset, None)
