"""From a transformed kernel to the flat list of a LinearProgram.

The body of a kernel is a handful of *statements*: its reductions, inner ones first, and its
stores. Each statement stands in a nest of loops: the ranges that its expression depends on, in the
kernel's order. Statements are printed one after another; neighbours share the loops they have in
common, and whatever an expression computes without an inner loop is printed before that loop opens
(hoisting).

A reduction owns accumulators in a register LOCAL: one per step of every unrolled output range
inside its first loop (a register tile) and one per `partial` step, each a vector where a `vector`
range is inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..contract import Instr, LinearProgram, Param, VariableSpec
from ..dtype import DType, dtypes
from ..target import Target
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.values import identity
from .cost import operations, traffic
from .kernel import Free, Kernel, extent, length
from .offsets import along

STORES = 1 << 30  # the rank of stores: after every reduction of their nest


@dataclass(eq=False, slots=True)
class Scope:
    """An open loop (None: the whole program or a branch) and the values printed in it."""

    loop: UOp | None
    values: dict[Any, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Where a reduction adds up: a LOCAL with `dims` of printed-out ranges, elements of `dtype`."""

    local: int
    dims: tuple[UOp, ...]
    dtype: DType
    partial: tuple[UOp, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """Reductions that share their loops, or stores that do, and the nest they stand in."""

    loops: tuple[UOp, ...]
    rank: int  # reductions below; STORES for stores
    nodes: list[UOp]


class Linearizer:
    """Prints one kernel. `emit` appends an instruction, `value` gives an expression's position."""

    def __init__(self, kernel: Kernel, target: Target, index: DType) -> None:
        self.kernel, self.target, self.index = kernel, target, index
        self.free = Free()
        self.ops: list[Instr] = []
        self.scopes: list[Scope] = [Scope(None)]
        self.position = {r: i for i, r in enumerate(kernel.order)}
        self.vectors = frozenset(kernel.of_kind("vector"))
        self.grid = kernel.of_kind("grid")
        self.reduce_values: dict[UOp, Accumulator] = {}
        self.statement_nodes: dict[tuple[UOp, ...], list[UOp]] = {}

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
            r for r in self.free(node) if r not in self.vectors and self.kernel.kind(r) != "grid"
        ]
        return tuple(sorted(found, key=self.position.__getitem__))

    def lane_of(self, node: UOp) -> UOp | None:
        inside = self.free(node) & self.vectors
        return next(iter(inside)) if inside else None

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
                and self.free(node) <= known
            ):
                if node.op is Ops.REDUCE and node not in self.reduce_values:
                    return
                self.value(node)

    # ---- the program

    def run(self) -> None:
        self.parameters()
        for axis, loop in enumerate(self.grid):
            at = self.emit(Ops.GRID, self.index, (), axis)
            lo = int(loop.src[0].arg)
            if lo:
                at = self.emit(Ops.ADD, self.index, (at, self.constant(self.index, lo)))
            self.scopes[0].values[loop] = at
        for missing, stores in self.by_missing_grid():
            guarded = self.begin_guard(missing)
            self.statements(stores)
            self.enter((), ())
            if guarded is not None:
                self.scopes.pop()
                self.emit(Ops.ENDIF, dtypes.void, (guarded,))

    def parameters(self) -> None:
        params = {n.arg: n for n in toposort(self.kernel.stores) if n.op is Ops.PARAM}
        for place, slot in enumerate(sorted(params)):
            node = params[slot]
            self.scopes[0].values[node] = self.emit(Ops.PARAM, node.dtype, (), place)
        for node in toposort(self.kernel.stores):
            if node.op is Ops.LOCAL:
                self.scopes[0].values[node] = self.emit(Ops.LOCAL, node.dtype, (), node.arg)

    def by_missing_grid(self) -> list[tuple[tuple[UOp, ...], list[UOp]]]:
        """Stores by the grid ranges they do not depend on: only the first block may run those."""
        groups: dict[tuple[UOp, ...], list[UOp]] = {}
        for store in self.kernel.stores:
            free = self.free(store)
            missing = tuple(g for g in self.grid if g not in free and length(g) > 1)
            groups.setdefault(missing, []).append(store)
        return list(groups.items())

    def begin_guard(self, missing: Sequence[UOp]) -> int | None:
        if not missing:
            return None
        condition: int | None = None
        for loop in missing:
            first = self.constant(self.index, int(loop.src[0].arg))
            test = self.emit(Ops.CMPEQ, dtypes.bool, (self.scopes[0].values[loop], first))
            if condition is not None:
                test = self.emit(Ops.AND, dtypes.bool, (condition, test))
            condition = test
        assert condition is not None
        at = self.emit(Ops.IF, dtypes.void, (condition,))
        self.scopes.append(Scope(None))
        return at

    def statements(self, stores: Sequence[UOp]) -> None:
        """Print reductions and stores, each in its nest of loops."""
        rank: dict[UOp, int] = {}
        found: dict[Any, Statement] = {}
        for node in toposort(stores):
            rank[node] = max((rank[s] for s in node.src), default=0)
            if node.op is Ops.REDUCE:
                nest = self.before(node)
                key = (rank[node], self.loops_of(node), node.src[1:])
                found.setdefault(key, Statement(nest, rank[node], [])).nodes.append(node)
                rank[node] += 1
        for store in stores:
            nest = self.loops_of(store)
            found.setdefault(nest, Statement(nest, STORES, [])).nodes.append(store)
        self.nest((), sorted(found.values(), key=lambda s: s.rank))

    def nest(self, loops: tuple[UOp, ...], inside: Sequence[Statement]) -> None:
        """Statements that stand directly in `loops`, by rank, then each inner loop with all of it:
        what a reduction leaves in its accumulators is read before the loop around it goes on."""
        inner: dict[UOp, list[Statement]] = {}
        for statement in inside:
            if statement.loops != loops:
                inner.setdefault(statement.loops[len(loops)], []).append(statement)
            elif statement.rank == STORES:
                self.store(loops, statement.nodes)
            else:
                self.reduce(statement.nodes)
        for loop, statements in inner.items():
            self.nest((*loops, loop), statements)

    def before(self, node: UOp) -> tuple[UOp, ...]:
        """The loops around the first loop of a reduction."""
        start = self.start(node)
        return tuple(r for r in self.loops_of(node) if self.position[r] < start)

    def start(self, node: UOp) -> int:
        reduced = [r for r in node.src[1:] if r not in self.vectors]
        return min((self.position[r] for r in reduced), default=len(self.position))

    def nodes_of(self, roots: Sequence[UOp]) -> list[UOp]:
        """What the roots are computed from, not looking into reductions."""
        return toposort(roots, lambda n: n.op is not Ops.REDUCE or n in roots)

    # ---- reductions

    def reduce(self, nodes: Sequence[UOp]) -> None:
        """Print reductions that share their loops: start values, loops, combination."""
        first = nodes[0]
        reduced = [r for r in first.src[1:] if r not in self.vectors]
        outside = self.loops_of(first)
        everything = sorted([*outside, *reduced], key=self.position.__getitem__)
        before = self.before(first)
        tile = outside[len(before) :]
        bodies = [n.src[0] for n in nodes]
        needed = self.nodes_of(bodies)
        self.enter(before, needed)
        accumulators = [self.accumulator(n, tile) for n in nodes]
        self.fill(nodes, accumulators)
        self.hoist(needed, frozenset(before))
        self.enter(tuple(everything), needed)
        values = [self.step_operands(n) for n in nodes]
        for node, acc, operands in zip(nodes, accumulators, values, strict=True):
            self.step(node, acc, operands)
        self.enter(before, ())
        for node, acc in zip(nodes, accumulators, strict=True):
            self.reduce_values[node] = self.finish(node, acc, tile)

    def accumulator(self, node: UOp, tile: tuple[UOp, ...]) -> Accumulator:
        partial = tuple(r for r in node.src[1:] if self.kernel.kind(r) == "partial")
        lanes = self.reduced_lanes(node)
        in_registers = all(self.kernel.kind(r) == "unroll" for r in tile)
        count = size([extent(r) for r in (*tile, *partial)])
        dtype = node.dtype.vec(lanes)
        space = "register" if in_registers else "stack"
        local = self.emit(Ops.LOCAL, dtype, (), (count, space))
        return Accumulator(local, (*tile, *partial), dtype, partial)

    def fill(self, nodes: Sequence[UOp], accumulators: Sequence[Accumulator]) -> None:
        loops = accumulators[0].dims
        starts = [self.constant(n.dtype, identity(n.arg, n.dtype)) for n in nodes]
        for loop in loops:
            self.open(loop)
        for acc, start in zip(accumulators, starts, strict=True):
            value = self.broadcast(start, acc.dtype.lanes)
            self.emit(Ops.STORE, dtypes.void, (self.element(acc), value))
        for _ in loops:
            self.close()

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

    def step_operands(self, node: UOp) -> tuple[int, ...]:
        body, lanes = node.src[0], self.reduced_lanes(node)
        if self.fuses(node):
            return tuple(self.broadcast(self.value(s), lanes) for s in body.src)
        return (self.broadcast(self.value(body), lanes),)

    def reduced_lanes(self, node: UOp) -> int:
        """Lanes of an accumulator: each lane of a reduced vector counts, whatever is read."""
        own = [length(r) for r in node.src[1:] if r in self.vectors]
        return own[0] if own else self.lanes(node.src[0])

    def fuses(self, node: UOp) -> bool:
        """A product sum in floats may be a fused multiply-add where the machine has one."""
        body = node.src[0]
        if node.arg is not Ops.ADD or body.op is not Ops.MUL or not node.dtype.is_float:
            return False
        return self.target.supports(Ops.FMA, node.dtype) and self.lookup(body) is None

    def step(self, node: UOp, acc: Accumulator, operands: tuple[int, ...]) -> None:
        address = self.element(acc)
        old = self.emit(Ops.LOAD, acc.dtype, (address,))
        if len(operands) == 2:
            new = self.emit(Ops.FMA, acc.dtype, (*operands, old))
        else:
            new = self.combine(node.arg, acc.dtype, old, operands[0])
        self.emit(Ops.STORE, dtypes.void, (address, new))

    def combine(self, op: Ops, dtype: DType, a: int, b: int) -> int:
        """`a op b` for a reduction; a NaN on either side stays."""
        if op in (Ops.ADD, Ops.MUL):
            return self.emit(op, dtype, (a, b))
        if dtype.kind == "bool":
            return self.emit(Ops.OR if op is Ops.MAXIMUM else Ops.AND, dtype, (a, b))
        exact = Ops.MAX if op is Ops.MAXIMUM else Ops.MIN
        if not dtype.is_float:
            return self.emit(exact, dtype, (b, a))
        mask = dtypes.bool.vec(dtype.lanes)
        pair = (a, b) if op is Ops.MAXIMUM else (b, a)
        better = self.emit(Ops.CMPLT, mask, pair)
        nan = self.emit(Ops.CMPNE, mask, (b, b))
        take = self.emit(Ops.OR, mask, (better, nan))
        return self.emit(Ops.WHERE, dtype, (take, b, a))

    def finish(self, node: UOp, acc: Accumulator, tile: tuple[UOp, ...]) -> Accumulator:
        """Combine partial accumulators and lanes: one element per step of the tile remains."""
        across = any(r in self.vectors for r in node.src[1:])
        if not acc.partial and not across:
            return acc
        dtype = node.dtype if across else acc.dtype
        count = size([extent(r) for r in tile])
        space = self.ops[acc.local].arg[1]
        result = Accumulator(self.emit(Ops.LOCAL, dtype, (), (count, space)), tile, dtype, ())
        for loop in tile:
            self.open(loop)
        value = self.across_partials(node, acc, ())
        if across:
            value = self.across_lanes(node.arg, value)
        self.emit(Ops.STORE, dtypes.void, (self.element(result), value))
        for _ in tile:
            self.close()
        return result

    def across_partials(self, node: UOp, acc: Accumulator, fixed: tuple[int, ...]) -> int:
        """A balanced tree over the partial accumulators, in the order of their steps."""
        if not acc.partial:
            return self.emit(Ops.LOAD, acc.dtype, (self.element(acc),))
        values = self.load_partials(acc)
        while len(values) > 1:
            pairs = list(zip(values[::2], values[1::2], strict=False))
            odd = values[len(pairs) * 2 :]
            values = [self.combine(node.arg, acc.dtype, a, b) for a, b in pairs] + odd
        return values[0]

    def load_partials(self, acc: Accumulator) -> list[int]:
        out: list[int] = []
        steps: list[list[tuple[UOp, int]]] = [[]]
        for loop in acc.partial:
            lo = int(loop.src[0].arg)
            steps = [[*s, (loop, lo + i)] for s in steps for i in range(length(loop))]
        for step in steps:
            self.scopes.append(Scope(None))
            for loop, at in step:
                self.scopes[-1].values[loop] = self.constant(self.index, at)
            out.append(self.emit(Ops.LOAD, acc.dtype, (self.element(acc),)))
            self.scopes.pop()
        return out

    def across_lanes(self, op: Ops, at: int) -> int:
        dtype = self.ops[at].dtype
        scalar = dtype.scalar
        if op in (Ops.ADD, Ops.MUL) and scalar.kind != "bool":
            return self.emit(Ops.LANES, scalar, (at,), op)
        values = [self.emit(Ops.EXTRACT, scalar, (at,), i) for i in range(dtype.lanes)]
        while len(values) > 1:  # lane i with lane i + n/2, as LANES does
            half = len(values) // 2
            values = [self.combine(op, scalar, values[i], values[i + half]) for i in range(half)]
        return values[0]

    # ---- stores

    def store(self, loops: tuple[UOp, ...], stores: Sequence[UOp]) -> None:
        """Everything is computed before the first write: one of the stores may be in place."""
        self.enter(loops, self.nodes_of(stores))
        ready = [(s, self.value(s.src[1]), self.address(s)) for s in stores]
        for store, value, address in ready:
            self.write(store, value, address)

    def write(self, store: UOp, value: int, address: tuple[list[int], bool]) -> int:
        addresses, contiguous = address
        if not contiguous:
            return self.write_apart(store, value, addresses)
        lanes = self.lanes(store.src[0])
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
        start, step = along(offset, lane, self.free)
        if step == 1:
            return [self.emit(Ops.INDEX, index.dtype, (base, self.value(start)))], True
        wide = self.broadcast(self.value(offset), length(lane))
        scalars = [self.emit(Ops.EXTRACT, self.index, (wide,), i) for i in range(length(lane))]
        return [self.emit(Ops.INDEX, index.dtype, (base, s)) for s in scalars], False

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
        if op is Ops.AFTER:  # a value that was kept for later as well
            return self.value(node.src[0])
        if op is Ops.STORE:
            return self.write(node, self.value(node.src[1]), self.address(node))
        lanes = self.lanes(node)
        src = tuple(self.broadcast(self.value(s), lanes) for s in node.src)
        return self.emit(op, self.dtype_of(node).vec(lanes), src, node.arg)

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
        if contiguous:
            gate = self.gate(node, 1, lanes)
            return self.emit(Ops.LOAD, node.dtype.vec(lanes), (addresses[0], *gate))
        gate = self.gate(node, 1, lanes)
        parts = []
        for i, address in enumerate(addresses):
            guard = tuple(self.emit(Ops.EXTRACT, dtypes.bool, (g,), i) for g in gate)
            parts.append(self.emit(Ops.LOAD, node.dtype, (address, *guard)))
        return self.emit(Ops.VECTOR, node.dtype.vec(lanes), tuple(parts))


def program(
    kernel: Kernel, target: Target, name: str, index: DType, note: str = ""
) -> LinearProgram:
    """The LinearProgram of a lowered kernel."""
    printer = Linearizer(kernel, target, index)
    printer.run()
    ops = printer.ops
    grid = tuple((length(r),) for r in printer.grid)
    variables = {n.arg: n for n in toposort(kernel.stores) if n.op is Ops.VARIABLE}
    specs = tuple(
        VariableSpec(n.arg[0], printer.dtype_of(n), n.arg[1], n.arg[2]) for n in variables.values()
    )
    return LinearProgram(
        name,
        tuple(ops),
        _params(kernel),
        specs,
        grid,
        flops=operations(kernel),
        bytes=traffic(kernel),
        note=note,
    )


def _params(kernel: Kernel) -> tuple[Param, ...]:
    read: set[UOp] = set()
    written: set[UOp] = set()
    for node in toposort(kernel.stores):
        if node.op not in (Ops.LOAD, Ops.STORE) or node.src[0].src[0].op is Ops.LOCAL:
            continue
        (read if node.op is Ops.LOAD else written).add(node.src[0].src[0])
    out = []
    for param in sorted(read | written, key=lambda p: p.arg[0]):
        access = ("r" if param in read else "") + ("w" if param in written else "")
        out.append(Param(param.arg[0], param.dtype, param.arg[1], access))
    return tuple(out)
