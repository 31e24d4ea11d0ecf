"""Vectors in ordered kernels: innermost loops along memory run several steps at once.

Two shapes, both of one loop that nothing else stands in:

* a sum of values read along memory: each lane sums every L-th value, then the lanes are added by
  halves, then what is left over is;
* stores along memory whose steps do not touch what steps less than L away touch.

The loop becomes one over whole vectors and, unless its length is a multiple, one over what is left.
Loads of the second follow the stores of the first, as they did before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..dtype import dtypes
from ..target import Target
from ..uop.linear import coefficient, ranges_of
from ..uop.nest import FIRST_LOCAL
from ..uop.ops import ELEMENTWISE, Ops, UOp, toposort
from ..uop.rewrite import over, rebuild
from ..uop.values import identity
from .kernel import extent

FIRST = FIRST_LOCAL * 2  # numbers of loops and accumulators made here
_FLOATS = (dtypes.float32, dtypes.float64)


def widened(sink: UOp, target: Target) -> UOp:
    """The kernel with vectors in its innermost loops, where that is known to be right."""
    if target.grid_only or target.vector_bytes < 8:
        return sink
    return _Widening(target).run(sink)


def is_lane(loop: UOp) -> bool:
    return bool(loop.arg[1] == "vector")


@dataclass(slots=True)
class _Widening:
    target: Target
    new: dict[UOp, UOp] = field(default_factory=dict)
    made: int = 0

    def run(self, sink: UOp) -> UOp:
        for node in sink.toposort():
            src = tuple(self.new[s] for s in node.src)
            made = rebuild(node, src)
            if node.op is Ops.REDUCE:
                made = self.reduction(made)
            elif node.op is Ops.END:
                made = self.stores(made)
            self.new[node] = made
        return self.new[sink]

    def number(self) -> int:
        self.made += 1
        return FIRST + self.made

    def loops(self, loop: UOp, lanes: int) -> tuple[UOp, UOp, UOp]:
        """(whole vectors, lanes, what is left over)."""
        lo, hi = loop.src
        count = (hi - lo).maximum(0) // lanes
        outer = UOp.range(0, count, self.number())
        lane = UOp.range(0, lanes, self.number(), "vector")
        return outer, lane, UOp.range(lo + count * lanes, hi, self.number())

    def whole(self, loop: UOp, lanes: int) -> tuple[tuple[UOp, ...], UOp] | None:
        """(loops in place of one that is vectors and nothing more, the place in it); a single
        vector needs no loop."""
        lo, hi = loop.src
        if lo.op is not Ops.CONST or hi.op is not Ops.CONST or (hi.arg - lo.arg) % lanes:
            return None
        lane = UOp.range(0, lanes, self.number(), "vector")
        if hi.arg - lo.arg == lanes:
            return (lane,), lo + lane
        outer = UOp.range(0, (hi.arg - lo.arg) // lanes, self.number())
        return (outer, lane), lo + outer * lanes + lane

    # ---- sums

    def reduction(self, node: UOp) -> UOp:
        value, *loops = node.src
        if len(loops) != 1 or node.arg is not Ops.ADD or node.dtype not in _FLOATS:
            return node
        loop, lanes = loops[0], self.target.vector_bytes // node.dtype.itemsize
        if extent(loop) < 2 * lanes or not _streams([value], loop):
            return node
        outer, lane, rest = self.loops(loop, lanes)
        wide = _moved(value, {loop: loop.src[0] + outer * lanes + lane})
        place = UOp(Ops.LOCAL, node.dtype, (), (lanes, "stack", self.number()))
        around = sorted(ranges_of(node), key=lambda r: r.arg[0])
        zero = UOp.const(node.dtype, identity(Ops.ADD, node.dtype))
        start = _at(place.after(*around) if around else place, lane).store(zero).end(lane)
        running = _at(place.after(start, outer), lane)
        done = UOp(Ops.END, dtypes.void, (running.store(running.load() + wide), outer, lane))
        parts = [_at(place.after(done), UOp.index(i)).load() for i in range(lanes)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [parts[i] + parts[i + half] for i in range(half)]
        left = UOp(Ops.REDUCE, node.dtype, (_moved(value, {loop: rest}), rest), Ops.ADD)
        return parts[0] + left

    # ---- stores

    def stores(self, node: UOp) -> UOp:
        effects = _grouped(node)
        loops = [s for s in node.src if s.op is Ops.RANGE]
        if not loops or any(s.op is not Ops.STORE for s in effects):
            return node
        loop, widest = loops[-1], max(s.src[1].dtype.itemsize for s in effects)
        lanes = self.target.vector_bytes // max(widest, 4)
        if extent(loop) < lanes or not _apart(effects, loop, lanes):
            return node
        even = self.whole(loop, lanes)
        if even is not None:
            inner, place = even
            stores = (_moved(s, {loop: place}) for s in effects)
            return UOp(Ops.END, dtypes.void, (*stores, *loops[:-1], *inner))
        return self.uneven(effects, loops, lanes) if extent(loop) >= 2 * lanes else node

    def uneven(self, effects: Sequence[UOp], loops: Sequence[UOp], lanes: int) -> UOp:
        """Vectors first, then what is left over."""
        loop = loops[-1]
        outer, lane, rest = self.loops(loop, lanes)
        wide = {loop: loop.src[0] + outer * lanes + lane}
        first = UOp(Ops.END, dtypes.void, (*(_moved(s, wide) for s in effects), outer, lane))
        written = {_memory(s) for s in effects}
        table = {loop: rest}
        for access in _accesses(effects):
            base = access.src[0].src[0]
            if _memory(access) in written and loop in ranges_of(access):
                table[base] = base.after(first)
        second = UOp(Ops.END, dtypes.void, (*(_moved(s, table) for s in effects), rest))
        return UOp(Ops.END, dtypes.void, (first, second, *loops[:-1]))


def _grouped(end: UOp) -> list[UOp]:
    """The effects that an END closes, those of groups one by one."""
    out: list[UOp] = []
    waiting = [s for s in reversed(end.src) if s.op is not Ops.RANGE]
    while waiting:
        effect = waiting.pop()
        if effect.op is Ops.END and all(s.op is not Ops.RANGE for s in effect.src):
            waiting += reversed(effect.src)
        else:
            out.append(effect)
    return out


def _at(base: UOp, offset: UOp) -> UOp:
    return UOp(Ops.INDEX, base.dtype, (base, offset))


def _memory(access: UOp) -> UOp:
    base = access.src[0].src[0]
    while base.op is Ops.AFTER:
        base = base.src[0]
    return base


def _inside(node: UOp) -> bool:
    """Is a node part of an expression, rather than of what its memory follows?"""
    return node.op not in (Ops.AFTER, Ops.REDUCE)


def _accesses(roots: Sequence[UOp]) -> list[UOp]:
    return [n for n in toposort(roots, _inside) if n.op in (Ops.LOAD, Ops.STORE)]


def _moved(root: UOp, table: dict[UOp, UOp]) -> UOp:
    """`root` with a loop replaced, in expressions alone."""
    new = dict(table)
    for node in toposort((root,), lambda n: n not in table and _inside(n)):
        if node not in new:
            new[node] = rebuild(node, tuple(new[s] for s in node.src)) if _inside(node) else node
    return new[root]


def _streams(values: Sequence[UOp], loop: UOp) -> bool:
    """Do values use the loop only to read elements next to each other, and at least one so?"""
    found = False
    for node in toposort(tuple(values), lambda n: n.op is not Ops.LOAD and _inside(n)):
        if node.op is Ops.RANGE or loop not in ranges_of(node):
            if node is loop:
                return False
            continue
        if node.op is Ops.LOAD:
            address, offset = node.src[0], node.src[0].src[1]
            if len(node.src) > 1 or loop in ranges_of(address.src[0]):
                return False
            if coefficient(offset, loop) != 1 or node.dtype.itemsize < 4:
                return False
            found = True
        elif node.op not in ELEMENTWISE or node.dtype is dtypes.index:
            return False
    return found


def _apart(stores: Sequence[UOp], loop: UOp, lanes: int) -> bool:
    """May `lanes` steps of these stores run at once?"""
    for s in stores:
        base, offset = s.src[0].src
        if len(s.src) > 2 or s.arg not in (None, "nt") or not _several(_memory(s)):
            return False
        if coefficient(offset, loop) != 1 or loop in ranges_of(base) or s.src[1].dtype.itemsize < 4:
            return False
    if not _streams([s.src[1] for s in stores], loop):
        return False
    for access in _accesses(stores):
        if loop in ranges_of(access):
            same = [s for s in stores if _memory(s) is _memory(access)]
            if not all(_far(access, s, lanes) for s in same):
                return False
    return True


def _several(memory: UOp) -> bool:
    """Does memory have elements next to each other? A register is one."""
    return memory.op is Ops.PARAM or bool(memory.arg[0] > 1)


def _far(a: UOp, b: UOp, lanes: int) -> bool:
    """Are two places one, or never less than `lanes` elements apart?"""
    between = a.src[0].src[1] - b.src[0].src[1]
    lo, hi = between.lo, between.hi
    if lo is None or hi is None:
        return False
    return lo == hi == 0 or lo >= lanes or hi <= -lanes


def lanes_last(sink: UOp) -> UOp:
    """Offsets as a sum of what all lanes share and the lane, in which form they are printed."""
    new: dict[UOp, UOp] = {}
    for node in sink.toposort():
        src = tuple(new[s] for s in node.src)
        if node.op is Ops.INDEX:
            lane = next((r for r in ranges_of(src[1]) if is_lane(r)), None)
            if lane is not None and coefficient(src[1], lane) == 1:
                rest = src[1] - lane
                zero = rest.op is Ops.CONST and rest.arg == 0
                src = (src[0], lane if zero else UOp(Ops.ADD, dtypes.index, (rest, lane)))
        new[node] = over(node, src)
    return new[sink]
