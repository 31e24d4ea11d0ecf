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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..contract import LinearProgram, Param, Postfix, VariableSpec
from ..dtype import DType, dtypes
from ..target import Target
from ..uop.linear import ranges_of
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.values import identity
from .cost import operations, traffic
from .kernel import FEW_BLOCKS, Kernel, extent, float_sum, keeps, length, nodes_of
from .printing import Accumulator, Scope
from .turning import Turning

STORES = 1 << 30  # the rank of stores: after every reduction of their nest


@dataclass(frozen=True, slots=True)
class Statement:
    """Reductions that share their loops, or stores that do, and the nest they stand in."""

    loops: tuple[UOp, ...]
    rank: int  # reductions below; STORES for stores
    nodes: list[UOp]


class Linearizer(Turning):
    """Prints one kernel, statement by statement."""

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
        params = {n.arg: n for n in self.kernel.nodes if n.op is Ops.PARAM}
        for place, slot in enumerate(sorted(params)):
            node = params[slot]
            self.scopes[0].values[node] = self.emit(Ops.PARAM, node.dtype, (), place)
        for node in self.kernel.nodes:
            if node.op is Ops.LOCAL:
                self.scopes[0].values[node] = self.emit(Ops.LOCAL, node.dtype, (), node.arg[:2])

    def by_missing_grid(self) -> list[tuple[tuple[UOp, ...], list[UOp]]]:
        """Stores by the grid ranges they do not depend on: only the first block may run those."""
        groups: dict[tuple[UOp, ...], list[UOp]] = {}
        for store in self.kernel.stores:
            inside = ranges_of(store)
            missing = tuple(g for g in self.grid if g not in inside and extent(g) > 1)
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
        for node in nodes_of(tuple(stores)):
            rank[node] = max((rank[s] for s in node.src), default=0)
            if node.op is Ops.REDUCE:
                nest = self.before(node)
                key = (rank[node], self.loops_of(node), node.src[1:])
                found.setdefault(key, Statement(nest, rank[node], [])).nodes.append(node)
                rank[node] += 1
        for store in stores:
            nest = self.loops_of(store)
            for node in toposort((store,)):
                if node.op is Ops.SCAN:  # starts anew in every step of the loops around its own
                    around = tuple(r for r in nest if self.position[r] < self.start(node))
                    blocks = [r for r in node.src[1:] if self.ends_block(r)]
                    for loops in (around, *((*around, r) for r in blocks)):
                        found.setdefault((node, loops), Statement(loops, rank[node], [node]))
            found.setdefault(nest, Statement(nest, STORES, [])).nodes.append(store)
        self.nest((), sorted(found.values(), key=lambda s: s.rank))

    def nest(self, loops: tuple[UOp, ...], inside: Sequence[Statement]) -> None:
        """Statements that stand directly in `loops`, by rank, then each inner loop with all of it:
        what a reduction leaves in its accumulators is read before the loop around it goes on."""
        inner: dict[UOp, list[Statement]] = {}
        begun: dict[UOp, Accumulator] = {}
        for statement in inside:
            if statement.loops != loops:
                inner.setdefault(statement.loops[len(loops)], []).append(statement)
            elif statement.rank == STORES:
                self.store(loops, statement.nodes)
            elif statement.nodes[0].op is Ops.SCAN and self.runs_in(loops, statement.nodes[0]):
                self.next_block(loops, statement.nodes[0])
            elif statement.nodes[0].op is Ops.SCAN:
                self.begin_scan(loops, statement.nodes[0])
                begun[statement.nodes[0]] = self.reduce_values[statement.nodes[0]]
            else:
                self.reduce(statement.nodes)
        for loop, statements in inner.items():
            self.reduce_values.update(begun)  # an earlier loop may have begun the same scan anew
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

    # ---- scans

    def begin_scan(self, loops: tuple[UOp, ...], node: UOp) -> None:
        """The running value of a scan, before its loop; each step is printed where it is read."""
        self.enter(loops, ())
        acc = self.scan_state(node)
        if float_sum(node) and any(map(self.ends_block, node.src[1:])):
            before = replace(self.scan_state(node), lost=self.scan_state(node).local)
            self.fill({node: before})
            self.fill({node: before.errors})
            acc = replace(acc, before=before)
        self.fill({node: acc})
        self.reduce_values[node] = acc

    def runs_in(self, loops: tuple[UOp, ...], node: UOp) -> bool:
        """Whether the innermost of these loops is the scan's own."""
        return bool(loops) and loops[-1] in node.src[1:]

    def scan_state(self, node: UOp) -> Accumulator:
        dtype = node.dtype.vec(self.lanes(node))
        return Accumulator(self.emit(Ops.LOCAL, dtype, (), (1, "register")), (), dtype, ())

    def next_block(self, loops: tuple[UOp, ...], node: UOp) -> None:
        """A running sum starts anew in each block, beside the total of those before."""
        acc = self.reduce_values[node]
        if acc.before is not None:
            self.enter(loops, ())
            self.add_subtotal(node, acc, acc.before)
            self.fill({node: acc})

    def scan_step(self, node: UOp) -> int:
        acc = self.reduce_values[node]
        value = self.broadcast(self.value(node.src[0]), acc.dtype.lanes)
        address = self.element(acc)
        old = self.emit(Ops.LOAD, acc.dtype, (address,))
        new = self.combine(node.arg, acc.dtype, old, value)
        self.emit(Ops.STORE, dtypes.void, (address, new))
        if acc.before is None:
            return new
        before = self.emit(Ops.LOAD, acc.dtype, (self.element(acc.before),))
        return self.emit(Ops.ADD, acc.dtype, (before, new))

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
        around = self.around_blocks(everything, first, tile)
        totals = {n: self.total(n, tile, around) for n in nodes if around and float_sum(n)}
        inside = tuple(r for r in tile if r not in around)
        accumulators = {n: self.accumulator(n, inside if n in totals else tile) for n in nodes}
        self.fill({n: a for n, a in accumulators.items() if n not in totals})
        self.fill(totals)
        self.fill({n: a.errors for n, a in totals.items() if a.lost is not None})
        self.hoist(needed, frozenset(before))
        if totals:
            self.enter(around, needed)
            self.fill({n: accumulators[n] for n in totals})
            self.hoist(needed, frozenset(around))
        self.enter(tuple(everything), needed)
        values = [self.step_operands(n) for n in nodes]
        for (node, acc), operands in zip(accumulators.items(), values, strict=True):
            self.step(node, acc, operands)
        if totals:
            self.enter(around, ())
        for node, total in totals.items():
            self.add_subtotal(node, accumulators[node], total)
        self.enter(before, ())
        for node, acc in accumulators.items():
            self.reduce_values[node] = self.finish(node, totals.get(node, acc))

    def accumulator(self, node: UOp, tile: tuple[UOp, ...]) -> Accumulator:
        """Where the steps of a reduction add up."""
        partial = tuple(r for r in node.src[1:] if self.kernel.kind(r) == "partial")
        return self.registers(node, tile, partial)

    def registers(
        self, node: UOp, tile: tuple[UOp, ...], partial: tuple[UOp, ...] = ()
    ) -> Accumulator:
        in_registers = all(self.kernel.kind(r) == "unroll" for r in tile)
        count = size([extent(r) for r in (*tile, *partial)])
        dtype = node.dtype.vec(self.reduced_lanes(node))
        space = "register" if in_registers else "stack"
        local = self.emit(Ops.LOCAL, dtype, (), (count, space))
        return Accumulator(local, (*tile, *partial), dtype, partial)

    def fill(self, accumulators: Mapping[UOp, Accumulator]) -> None:
        """Start values, in the loops that all of these accumulators have in common."""
        if not accumulators:
            return
        loops = next(iter(accumulators.values())).dims
        starts = [self.constant(n.dtype, identity(n.arg, n.dtype)) for n in accumulators]
        for loop in loops:
            self.open(loop)
        for acc, start in zip(accumulators.values(), starts, strict=True):
            value = self.broadcast(start, acc.dtype.lanes)
            self.emit(Ops.STORE, dtypes.void, (self.element(acc), value))
        for _ in loops:
            self.close()

    # ---- sums in blocks: a total, and what its roundings lost where they are many

    def total(self, node: UOp, tile: tuple[UOp, ...], around: tuple[UOp, ...]) -> Accumulator:
        total = self.registers(node, tile)
        if size([extent(r) for r in around if r in node.src[1:]]) <= FEW_BLOCKS:
            return total
        return replace(total, lost=self.registers(node, tile).local)

    def around_blocks(
        self, everything: Sequence[UOp], node: UOp, tile: Sequence[UOp]
    ) -> tuple[UOp, ...]:
        """The loops up to the one whose steps end a block, and those of an output that stand right
        inside of it: each of their steps reads the same block. None where one stands farther out:
        its accumulators are all needed to the end."""
        ends = [i for i, r in enumerate(everything) if self.ends_block(r) and r in node.src[1:]]
        if not ends or any(r in tile for r in everything[: ends[-1]]):
            return ()
        at = ends[-1] + 1
        while at < len(everything) and everything[at] in tile and self.is_loop(everything[at]):
            at += 1
        return tuple(everything[:at])

    def is_loop(self, loop: UOp) -> bool:
        return self.kernel.kind(loop) == "loop"

    def ends_block(self, loop: UOp) -> bool:
        return self.kernel.kind(loop) == "subtotal"

    def add_subtotal(self, node: UOp, acc: Accumulator, total: Accumulator) -> None:
        """Add what a block has summed up, and what was lost before, to the total; keep what this
        loses (Kahan, 1965)."""
        dims = [r for r in total.dims if self.lookup(r) is None]
        for loop in dims:
            self.open(loop)
        value, address = self.across_partials(node, acc), self.element(total)
        if total.lost is None:
            old = self.emit(Ops.LOAD, total.dtype, (address,))
            new = self.emit(Ops.ADD, total.dtype, (old, value))
        else:
            rest = self.element(total.errors)
            old, lost = (self.emit(Ops.LOAD, total.dtype, (a,)) for a in (address, rest))
            value = self.emit(Ops.ADD, total.dtype, (value, lost))
            new, error = self.exact_sum(total.dtype, old, value)
            self.emit(Ops.STORE, dtypes.void, (rest, self.if_known(total.dtype, error)))
        self.emit(Ops.STORE, dtypes.void, (address, new))
        for _ in dims:
            self.close()

    def exact_sum(self, dtype: DType, a: int, b: int) -> tuple[int, int]:
        """a + b and its rounding error (Knuth, "Seminumerical Algorithms", 4.2.2, theorem B)."""

        def op(of: Ops, *src: int) -> int:
            return self.emit(of, dtype, src)

        total = op(Ops.ADD, a, b)
        from_b = op(Ops.SUB, total, a)
        lost_a = op(Ops.SUB, a, op(Ops.SUB, total, from_b))
        return total, op(Ops.ADD, lost_a, op(Ops.SUB, b, from_b))

    def if_known(self, dtype: DType, error: int) -> int:
        """A rounding error; 0 where the sum is infinite or NaN, and its error a NaN."""
        known = self.emit(Ops.CMPEQ, dtypes.bool.vec(dtype.lanes), (error, error))
        zero = self.broadcast(self.constant(dtype.scalar, 0.0), dtype.lanes)
        return self.emit(Ops.WHERE, dtype, (known, error, zero))

    def step_operands(self, node: UOp) -> tuple[int, ...]:
        """What one step adds, its effects done: a value, or two factors, or a mask and two."""
        body, lanes = node.src[0], self.reduced_lanes(node)
        if keeps(node):
            body, *effects = body.src
            for effect in effects:
                self.value(effect)
        parts: tuple[UOp, ...] = (body,)
        if self.fuses(node):
            parts = body.src if body.op is Ops.MUL else (body.src[0], *body.src[1].src)
        return tuple(self.broadcast(self.value(s), lanes) for s in parts)

    def reduced_lanes(self, node: UOp) -> int:
        """Lanes of an accumulator: each lane of a reduced vector counts, whatever is read."""
        own = [length(r) for r in node.src[1:] if r in self.vectors]
        return own[0] if own else self.lanes(node.src[0])

    def fuses(self, node: UOp) -> bool:
        """A product sum in floats may be a fused multiply-add where the machine has one; a product
        that is 0 under a condition is one whose result is taken only where it holds."""
        body = node.src[0].src[0] if keeps(node) else node.src[0]
        if body.op is Ops.WHERE and body.src[2].op is Ops.CONST and body.src[2].arg == 0:
            body = body.src[1]
        if node.arg is not Ops.ADD or body.op is not Ops.MUL or not node.dtype.is_float:
            return False
        return self.target.supports(Ops.FMA, node.dtype) and self.lookup(body) is None

    def step(self, node: UOp, acc: Accumulator, operands: tuple[int, ...]) -> None:
        address = self.element(acc)
        old = self.emit(Ops.LOAD, acc.dtype, (address,))
        if len(operands) == 1:
            new = self.combine(node.arg, acc.dtype, old, operands[0])
        else:
            new = self.emit(Ops.FMA, acc.dtype, (*operands[-2:], old))
        if len(operands) == 3:
            new = self.emit(Ops.WHERE, acc.dtype, (operands[0], new, old))
        self.emit(Ops.STORE, dtypes.void, (address, new))

    def combine(self, op: Ops, dtype: DType, a: int, b: int) -> int:
        """`a op b` for a reduction; a NaN on either side stays."""
        if op in (Ops.ADD, Ops.MUL):
            return self.emit(op, dtype, (a, b))
        if dtype.kind == "bool":
            return self.emit(Ops.OR if op is Ops.MAXIMUM else Ops.AND, dtype, (a, b))
        exact = Ops.MAX if op is Ops.MAXIMUM else Ops.MIN
        better = self.emit(exact, dtype, (b, a))  # a, where a is a NaN
        if not dtype.is_float:
            return better
        nan = self.emit(Ops.CMPNE, dtypes.bool.vec(dtype.lanes), (b, b))
        return self.emit(Ops.WHERE, dtype, (nan, b, better))

    def finish(self, node: UOp, acc: Accumulator) -> Accumulator:
        """Combine partial accumulators and lanes: one element per step of the tile remains."""
        across = any(r in self.vectors for r in node.src[1:])
        if not acc.partial and not across and acc.lost is None:
            return acc
        dtype = node.dtype if across else acc.dtype
        tile = acc.dims[: len(acc.dims) - len(acc.partial)]
        count = size([extent(r) for r in tile])
        space = self.ops[acc.local].arg[1]
        result = Accumulator(self.emit(Ops.LOCAL, dtype, (), (count, space)), tile, dtype, ())
        for loop in tile:
            self.open(loop)
        value = self.across_partials(node, acc)
        if acc.lost is not None:
            lost = self.emit(Ops.LOAD, acc.dtype, (self.element(acc.errors),))
            value = self.emit(Ops.ADD, acc.dtype, (value, lost))
        if across:
            value = self.across_lanes(node.arg, value)
        self.emit(Ops.STORE, dtypes.void, (self.element(result), value))
        for _ in tile:
            self.close()
        return result

    def across_partials(self, node: UOp, acc: Accumulator) -> int:
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
        lanes = dtype.lanes
        while lanes > 2 and self.target.supports(Ops.SHUFFLE, scalar):
            lanes //= 2
            halves = (tuple(range(lanes)), tuple(range(lanes, 2 * lanes)))
            low, high = (self.emit(Ops.SHUFFLE, scalar.vec(lanes), (at,), h) for h in halves)
            at = self.combine(op, scalar.vec(lanes), low, high)
        values = [self.emit(Ops.EXTRACT, scalar, (at,), i) for i in range(lanes)]
        while len(values) > 1:  # lane i with lane i + n/2, as LANES does
            half = len(values) // 2
            values = [self.combine(op, scalar, values[i], values[i + half]) for i in range(half)]
        return values[0]

    # ---- stores

    def store(self, loops: tuple[UOp, ...], stores: Sequence[UOp]) -> None:
        """Everything is computed before the first write: one of the stores may be in place."""
        nodes = self.nodes_of(stores)
        self.turn(loops, nodes)
        self.enter(loops, nodes)
        ready = [(s, self.value(s.src[1]), self.address(s)) for s in stores]
        for store, value, address in ready:
            self.write(store, value, address)


def program(
    kernel: Kernel,
    target: Target,
    name: str,
    index: DType,
    grid: tuple[Postfix, ...],
    note: str = "",
) -> LinearProgram:
    """The LinearProgram of a lowered kernel; `grid` has the lengths of its ranges of that kind."""
    printer = Linearizer(kernel, target, index)
    printer.run()
    ops = printer.ops
    variables = {n.arg: n for n in kernel.nodes if n.op is Ops.VARIABLE}
    specs = tuple(
        VariableSpec(n.arg[0], printer.dtype_of(n), n.arg[1], n.arg[2]) for n in variables.values()
    )
    return LinearProgram(
        name,
        tuple(ops),
        params_of(kernel.stores),
        specs,
        grid,
        flops=operations(kernel),
        bytes=traffic(kernel),
        note=note,
    )


def params_of(stores: Sequence[UOp]) -> tuple[Param, ...]:
    """The buffers that stores read and write, by slot."""
    read: set[UOp] = set()
    written: set[UOp] = set()
    for node in nodes_of(tuple(stores)):
        if node.op not in (Ops.LOAD, Ops.STORE) or node.src[0].src[0].op is Ops.LOCAL:
            continue
        (read if node.op is Ops.LOAD else written).add(node.src[0].src[0])
    out = []
    for param in sorted(read | written, key=lambda p: p.arg[0]):
        access = ("r" if param in read else "") + ("w" if param in written else "")
        out.append(Param(param.arg[0], param.dtype, param.arg[1], access))
    return tuple(out)
