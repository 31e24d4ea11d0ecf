"""Printing expressions: the part of linearizing that knows scopes, lanes and addresses.

A value is printed where it is first needed and found again while its scope is open. An expression
that depends on a `vector` range is a vector; scalars that meet it are broadcast; a LOAD or STORE is
one access where its lanes are contiguous and one a lane where they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..contract import Instr
from ..dtype import DType, dtypes
from ..target import Target
from ..uop.linear import ranges_of
from ..uop.ops import Ops, UOp, toposort
from .kernel import Kernel, extent, length
from .offsets import along


@dataclass(eq=False, slots=True)
class Scope:
    """An open loop (None: the whole program or a branch) and the values printed in it."""

    loop: UOp | None
    values: dict[Any, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Where a reduction adds up: a LOCAL with `dims` of printed-out ranges, elements of `dtype`.

    `lost`: a second LOCAL, for what the roundings of a long float sum lost. `before`: the total of
    a running sum before this block.
    """

    local: int
    dims: tuple[UOp, ...]
    dtype: DType
    partial: tuple[UOp, ...]
    lost: int | None = None
    before: Accumulator | None = None

    @property
    def errors(self) -> Accumulator:
        assert self.lost is not None
        return replace(self, local=self.lost, lost=None)


class Printer:
    """Prints one kernel. `emit` appends an instruction, `value` gives an expression's position."""

    def __init__(self, kernel: Kernel, target: Target, index: DType) -> None:
        self.kernel, self.target, self.index = kernel, target, index
        self.ops: list[Instr] = []
        self.scopes: list[Scope] = [Scope(None)]
        self.position = {r: i for i, r in enumerate(kernel.order)}
        self.vectors = frozenset(kernel.of_kind("vector"))
        self.grid = kernel.of_kind("grid")
        self.reduce_values: dict[UOp, Accumulator] = {}

    # ---- output

    def emit(self, op: Ops, dtype: DType, src: tuple[int, ...] = (), arg: Any = None) -> int:
        self.ops.append(Instr(op, dtype, src, arg))
        return len(self.ops) - 1

    def once(self, op: Ops, dtype: DType, src: tuple[int, ...] = (), arg: Any = None) -> int:
        """`emit`, or the position of the same pure instruction if one is visible."""
        key = (op, dtype, src, repr(arg))
        found = self.lookup(key)
        if found is None:
            found = self.emit(op, dtype, src, arg)
            self.scopes[-1].values[key] = found
        return found

    def lookup(self, key: Any) -> int | None:
        for scope in reversed(self.scopes):
            found = scope.values.get(key)
            if found is not None:
                return found
        return None

    def constant(self, dtype: DType, value: Any) -> int:
        return self.once(Ops.CONST, dtype, (), value)

    def broadcast(self, at: int, lanes: int) -> int:
        have = self.ops[at].dtype
        if lanes == 1 or have.lanes == lanes:
            return at
        return self.once(Ops.BROADCAST, have.vec(lanes), (at,))

    # ---- loops

    def loops_of(self, node: UOp) -> tuple[UOp, ...]:
        """The loops an expression stands in, outermost first."""
        found = [
            r for r in ranges_of(node) if r not in self.vectors and self.kernel.kind(r) != "grid"
        ]
        return tuple(sorted(found, key=self.position.__getitem__))

    def lane_of(self, node: UOp) -> UOp | None:
        inside = ranges_of(node) & self.vectors
        if len(inside) > 1:  # a recipe's mistake, which would give wrong numbers
            raise AssertionError(f"two vector ranges meet in {node}")
        return next(iter(inside), None)

    def lanes(self, node: UOp) -> int:
        lane = self.lane_of(node)
        return length(lane) if lane is not None else 1

    def open_loops(self) -> list[UOp]:
        return [s.loop for s in self.scopes if s.loop is not None]

    def open(self, loop: UOp) -> None:
        bounds = tuple(self.value(s) for s in loop.src)
        kind = "unroll" if self.kernel.kind(loop) in ("unroll", "partial") else "loop"
        at = self.emit(Ops.RANGE, self.index, bounds, kind)
        self.scopes.append(Scope(loop, {loop: at}))

    def close(self) -> None:
        scope = self.scopes.pop()
        self.emit(Ops.END, dtypes.void, (scope.values[scope.loop],))

    def enter(self, loops: Sequence[UOp], nodes: Sequence[UOp]) -> None:
        """Make exactly `loops` the open ones, printing what `nodes` need before each inner loop."""
        current = self.open_loops()
        shared = 0
        while shared < min(len(current), len(loops)) and current[shared] is loops[shared]:
            shared += 1
        for _ in range(len(current) - shared):
            self.close()
        for depth in range(shared, len(loops)):
            self.hoist(nodes, frozenset(loops[:depth]))
            self.open(loops[depth])

    def hoist(self, nodes: Sequence[UOp], available: frozenset[UOp]) -> None:
        known = available | self.vectors | frozenset(self.grid)
        for node in nodes:
            if (
                node.op not in (Ops.CONST, Ops.PARAM, Ops.STORE, Ops.INDEX)
                and ranges_of(node) <= known
            ):
                if node.op is Ops.REDUCE and node not in self.reduce_values:
                    return
                self.value(node)

    # ---- expressions

    def value(self, root: UOp) -> int:
        """The position of an expression's value, printing what is not yet visible."""
        found = self.lookup(root)
        if found is not None:
            return found
        stop = self.available
        for node in toposort((root,), lambda n: not stop(n)):
            if self.lookup(node) is None:
                self.scopes[-1].values[node] = self.print_node(node)
        return self.scopes[-1].values[root]

    def available(self, node: UOp) -> bool:
        return node.op in (Ops.REDUCE, Ops.RANGE, Ops.INDEX) or self.lookup(node) is not None

    def print_node(self, node: UOp) -> int:
        op = node.op
        if op is Ops.CONST:
            return self.constant(self.dtype_of(node), node.arg)
        if op is Ops.VARIABLE:
            return self.once(Ops.VARIABLE, self.dtype_of(node), (), node.arg[0])
        if op is Ops.RANGE:
            return self.lane_numbers(node)
        if op is Ops.REDUCE:
            acc = self.reduce_values[node]
            return self.emit(Ops.LOAD, acc.dtype, (self.element(acc),))
        if op is Ops.INDEX:
            return -1  # printed with its LOAD or STORE
        if op is Ops.LOAD:
            return self.load(node)
        if op is Ops.SCAN:
            return self.scan_step(node)
        if op is Ops.AFTER:  # a value that was kept for later as well
            return self.value(node.src[0])
        if op is Ops.STORE:
            return self.write(node, self.value(node.src[1]), self.address(node))
        lanes = self.lanes(node)
        src = tuple(self.broadcast(self.value(s), lanes) for s in node.src)
        return self.emit(op, self.dtype_of(node).vec(lanes), src, node.arg)

    def scan_step(self, node: UOp) -> int:
        """One step of a running reduction: its new value."""
        raise NotImplementedError

    def dtype_of(self, node: UOp) -> DType:
        return self.index if node.dtype is dtypes.index else node.dtype

    def lane_numbers(self, loop: UOp) -> int:
        if loop not in self.vectors:
            raise AssertionError(f"range {loop.arg} is used outside its loop")
        n = length(loop)
        return self.once(Ops.CONST, self.index.vec(n), (), tuple(range(n)))

    def load(self, node: UOp) -> int:
        addresses, contiguous = self.address(node)
        lanes = self.lanes(node)
        if contiguous and self.in_one(node, 1, lanes):
            gate = self.gate(node, 1, lanes)
            return self.emit(Ops.LOAD, node.dtype.vec(lanes), (addresses[0], *gate), node.arg)
        addresses = self.spread(node, addresses, lanes)
        gate = self.gate(node, 1, lanes)
        parts = []
        for i, address in enumerate(addresses):
            guard = tuple(self.emit(Ops.EXTRACT, dtypes.bool, (g,), i) for g in gate)
            parts.append(self.emit(Ops.LOAD, node.dtype, (address, *guard)))
        return self.emit(Ops.VECTOR, node.dtype.vec(lanes), tuple(parts))

    # ---- memory

    def element(self, acc: Accumulator, skip: tuple[UOp, ...] = ()) -> int:
        """The address of the accumulator that belongs to the running steps of its loops."""
        offset = self.constant(self.index, 0)
        stride = 1
        terms: list[int] = []
        for loop in reversed(acc.dims):
            at = self.lookup(loop)
            lo = int(loop.src[0].lo or 0)
            if at is None:
                raise AssertionError(f"accumulator loop {loop} is not open")
            if lo:
                at = self.emit(Ops.SUB, self.index, (at, self.constant(self.index, lo)))
            scale = self.constant(self.index, stride)
            terms.append(at if stride == 1 else self.emit(Ops.MUL, self.index, (at, scale)))
            stride *= extent(loop)
        for term in terms:
            offset = self.emit(Ops.ADD, self.index, (offset, term))
        return self.emit(Ops.INDEX, acc.dtype, (acc.local, offset))

    def write(self, store: UOp, value: int, address: tuple[list[int], bool]) -> int:
        addresses, contiguous = address
        lanes = self.lanes(store.src[0])
        if not (contiguous and self.in_one(store, 2, lanes)):
            return self.write_apart(store, value, self.spread(store, addresses, lanes))
        gate = self.gate(store, 2, lanes)
        src = (addresses[0], self.broadcast(value, lanes), *gate)
        return self.emit(Ops.STORE, dtypes.void, src, store.arg)

    def write_apart(self, store: UOp, value: int, addresses: Sequence[int]) -> int:
        lanes = len(addresses)
        wide = self.broadcast(value, lanes)
        scalar = self.ops[wide].dtype.scalar
        gate = self.gate(store, 2, lanes)
        for i, address in enumerate(addresses):
            one = self.emit(Ops.EXTRACT, scalar, (wide,), i) if lanes > 1 else wide
            guard = tuple(self.emit(Ops.EXTRACT, dtypes.bool, (g,), i) for g in gate)
            self.emit(Ops.STORE, dtypes.void, (address, one, *guard), store.arg)
        return len(self.ops) - 1

    def in_one(self, node: UOp, at: int, lanes: int) -> bool:
        """May these lanes be one access? A gate with a bit for each is not every machine's."""
        return lanes == 1 or len(node.src) <= at or self.target.lane_gates

    def spread(self, node: UOp, addresses: list[int], lanes: int) -> list[int]:
        """An address for each lane."""
        if len(addresses) == lanes:
            return addresses
        base, offset = self.ops[addresses[0]].src
        return self.steps(node.src[0], base, offset, 1, lanes)

    def steps(self, index: UOp, base: int, offset: int, step: int, lanes: int) -> list[int]:
        """The addresses of lanes that are a constant number of elements apart."""
        out = []
        for i in range(lanes):
            at = self.emit(Ops.ADD, self.index, (offset, self.constant(self.index, i * step)))
            out.append(self.emit(Ops.INDEX, index.dtype, (base, at)))
        return out

    def gate(self, node: UOp, at: int, lanes: int) -> tuple[int, ...]:
        if len(node.src) <= at:
            return ()
        value = self.value(node.src[at])
        apart = self.ops[value].dtype.lanes > 1 or lanes > 1
        return (self.broadcast(value, lanes) if apart else value,)

    def address(self, node: UOp) -> tuple[list[int], bool]:
        """Addresses of a LOAD's or STORE's INDEX: one for contiguous lanes, else one per lane."""
        index = node.src[0]
        param, offset = index.src
        base = self.value(param)
        lane = self.lane_of(node)
        if lane is None:
            return [self.emit(Ops.INDEX, index.dtype, (base, self.value(offset)))], True
        start, step = along(offset, lane)
        if step == 1:
            return [self.emit(Ops.INDEX, index.dtype, (base, self.value(start)))], True
        if step is not None:  # constants, which are part of an address in most machines
            return self.steps(index, base, self.value(start), step, length(lane)), False
        wide = self.broadcast(self.value(offset), length(lane))
        scalars = [self.emit(Ops.EXTRACT, self.index, (wide,), i) for i in range(length(lane))]
        return [self.emit(Ops.INDEX, index.dtype, (base, s)) for s in scalars], False
