"""Ordered kernels: those whose effects follow each other through memory, printed as they stand.

A Cholesky factorization, a merge, a kernel of the user's with `.after`: each step needs what others
left in memory, so no recipe may choose the loops. They run as the author nested them
(`uop/nest.py`), with one freedom: outermost loops whose steps touch memory of their own are bound
to the grid. A loop is known to be such when every access to memory that the kernel writes moves by
a constant as it advances, and stays within that step otherwise; or when its author says so
(kind "grid"). Innermost loops along memory run in vectors (`lanes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import LinearProgram, Param, VariableSpec
from ..target import Target
from ..uop.linear import coefficient, ranges_of
from ..uop.nest import Unit, analyse, expanded
from ..uop.ops import ELEMENTWISE, Ops, UOp, toposort
from .decompose import decompose
from .kernel import Kernel, extent, static
from .lanes import is_lane, lanes_last, widened
from .lower import index_dtype
from .printing import Printer
from .words import in_words, lacks

MOVES = frozenset({Ops.PARAM, Ops.LOCAL, Ops.AFTER, Ops.INDEX, Ops.RANGE, Ops.CONST, Ops.VARIABLE})


def is_ordered(sink: UOp) -> bool:
    """Was this kernel written with loops in an order of its own?"""
    return any(n.op is Ops.END for n in sink.src)


def program(sink: UOp, target: Target, name: str) -> LinearProgram:
    """The LinearProgram of an ordered kernel."""
    grid = _independent(sink)
    sink = decompose(expanded(widened(sink, target)), target)
    if lacks(target):  # what a rule computed in 64 bits
        apart = UOp(Ops.SINK, sink.dtype, tuple(in_words(sink.src, target)), sink.arg)
        sink = decompose(apart, target)
    sink = lanes_last(sink)
    nest = analyse(sink)
    nodes = sink.toposort()
    accesses = [n for n in nodes if n.op in _ACCESS]
    lanes = [n for n in nodes if n.op is Ops.RANGE and is_lane(n)]
    kinds = {**dict.fromkeys(grid, "grid"), **dict.fromkeys(lanes, "vector")}
    stores = tuple(n for n in accesses if n.op is Ops.STORE)
    kernel = Kernel(stores, (*nest.loops, *lanes), kinds, recipe="ordered")
    printer = Ordered(kernel, target, nest.reads)
    printer.print(nest.units)
    variables = [n for n in sink.toposort() if n.op is Ops.VARIABLE]
    return LinearProgram(
        name,
        tuple(printer.ops),
        _params(accesses),
        tuple(VariableSpec(v.arg[0], printer.dtype_of(v), v.arg[1], v.arg[2]) for v in variables),
        tuple((extent(r),) for r in grid),
        flops=_work(sink),
        bytes=sum(p.size * p.dtype.itemsize for p in _params(accesses)),
        note=f"ordered {sink.arg.name if sink.arg else ''} over {'x'.join(map(_size, nest.loops))}",
    )


def _size(loop: UOp) -> str:
    return str(extent(loop))


def memory(access: UOp) -> UOp:
    """The PARAM or LOCAL that a LOAD or STORE touches."""
    base = access.src[0].src[0]
    while base.op is Ops.AFTER:
        base = base.src[0]
    return base


def _independent(sink: UOp) -> list[UOp]:
    """The outermost loops that hold everything and whose steps may run in any order."""
    plain = expanded(sink)
    units = analyse(plain).units
    accesses = [n for n in plain.toposort() if n.op in _ACCESS]
    written = {memory(a) for a in accesses if a.op is Ops.STORE}
    shared = [a for a in accesses if memory(a) in written and memory(a).op is Ops.PARAM]
    grid: list[UOp] = []
    while len(units) == 1 and units[0].is_loop and static(units[0].node):
        loop = units[0].node
        if loop.arg[1] != "grid" and not all(_moves_apart(a, loop, shared) for a in shared):
            break
        grid.append(loop)
        units = units[0].inside
    return grid


def _moves_apart(access: UOp, loop: UOp, shared: Sequence[UOp]) -> bool:
    """Does this access stay between `step * loop` and the next step, as all others there do?"""
    offset = access.src[0].src[1]
    step = coefficient(offset, loop)
    if not step or any(
        coefficient(a.src[0].src[1], loop) != step for a in shared if memory(a) is memory(access)
    ):
        return False
    rest = offset - loop * step
    if rest.lo is None or rest.hi is None:
        return False
    return rest.lo >= 0 and rest.hi < abs(step)


def _params(accesses: Sequence[UOp]) -> tuple[Param, ...]:
    access: dict[UOp, str] = {}
    for a in accesses:
        param = memory(a)
        if param.op is Ops.PARAM:
            letter = "r" if a.op is Ops.LOAD else "w"
            access[param] = "".join(sorted({*access.get(param, ""), letter}))
    return tuple(
        Param(p.arg[0], p.dtype, p.arg[1], access[p])
        for p in sorted(access, key=lambda p: p.arg[0])
    )


def _work(sink: UOp) -> int:
    """Scalar operations of one launch, an estimate: every loop as long as it can be."""
    total = 0
    for node in sink.toposort():
        if node.op in ELEMENTWISE or node.op in (Ops.LOAD, Ops.STORE):
            times = 1
            for r in ranges_of(node):
                times *= max(extent(r), 1)
            total += times
    return total


class Ordered(Printer):
    """Prints the units of one kernel in their order."""

    def __init__(self, kernel: Kernel, target: Target, reads: frozenset[UOp]) -> None:
        super().__init__(kernel, target, index_dtype(target))
        self.reads = reads  # of memory that the kernel writes: printed where they stand

    def print(self, units: Sequence[Unit]) -> None:
        """The whole program."""
        nodes = self.kernel.nodes
        params = sorted({n for n in nodes if n.op is Ops.PARAM}, key=lambda p: p.arg[0])
        used = [p for p in params if any(p is memory(n) for n in nodes if n.op in _ACCESS)]
        top = self.scopes[0].values
        for place, param in enumerate(used):
            top[param] = self.emit(Ops.PARAM, param.dtype, (), place)
        for node in nodes:
            if node.op is Ops.LOCAL:
                top[node] = self.emit(Ops.LOCAL, node.dtype, (), node.arg[:2])
        for axis, loop in enumerate(self.grid):
            top[loop] = self.counter(axis, int(loop.src[0].arg))
            units = units[0].inside
        self.block(units)

    def counter(self, axis: int, lo: int) -> int:
        at = self.emit(Ops.GRID, self.index, (), axis)
        return self.emit(Ops.ADD, self.index, (at, self.constant(self.index, lo))) if lo else at

    def block(self, units: Sequence[Unit]) -> None:
        for unit in units:
            node = unit.node
            if unit.is_loop:
                self.outside(unit)
                self.open(node)
                self.block(unit.inside)
                self.close()
            elif node.op is Ops.LOAD:
                self.scopes[-1].values[node] = self.load(node)
            else:
                self.write(node, self.value(node.src[1]), self.address(node))

    def outside(self, loop: Unit) -> None:
        """Print before a loop what it needs and what is known already."""
        known = {*self.open_loops(), *self.grid, *self.vectors}
        ready: dict[UOp, bool] = {}
        inner = _leaves(loop)
        for node in toposort(inner, lambda n: n.op is not Ops.AFTER):
            if node.op in MOVES:
                ready[node] = node.op is not Ops.RANGE or node in known
            elif node in self.reads:
                ready[node] = self.lookup(node) is not None
            else:
                ready[node] = all(ready[s] for s in node.src) and ranges_of(node) <= known
                ready[node] &= node.op is not Ops.LOAD or _inside(node)
            if ready[node] and node.op in _PRINTED:
                self.value(node)

    def available(self, node: UOp) -> bool:
        return node.op is Ops.AFTER or super().available(node)


_ACCESS = (Ops.LOAD, Ops.STORE)
_PRINTED = ELEMENTWISE | {Ops.LOAD, Ops.MAX, Ops.MIN, Ops.IDIV, Ops.IMOD}


def _inside(load: UOp) -> bool:
    """Is it read under a condition, or within its memory whatever the loops do?"""
    param, offset = load.src[0].src
    if len(load.src) > 1 or offset.lo is None:
        return len(load.src) > 1
    return bool(param.op is Ops.PARAM and offset.lo >= 0 and offset.hi < param.arg[1])


def _leaves(unit: Unit) -> list[UOp]:
    if not unit.is_loop:
        return [unit.node]
    return [unit.node, *(n for inner in unit.inside for n in _leaves(inner))]
