"""The loops of an ordered kernel as its author nested them, and the order of what stands in them.

Floor: uop. In: a SINK whose effects may follow each other through memory. Out: a tree of *units*,
each a store, a read of memory that the kernel writes, or a loop with units inside. Nothing is
chosen here; where the graph leaves an order open, the author's is kept.

* A store stands in the loops that its END closes and in those it depends on.
* A read stands in the loops it depends on, before every store to the same memory that it does not
  follow, and after those it does.
* A reduction is an accumulator of its own: `expanded` writes it as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..dtype import dtypes
from ..errors import SpecError
from .linear import ranges_of as _all_ranges
from .ops import Ops, UOp
from .printer import short
from .rewrite import rebuild
from .values import identity

FIRST_LOCAL: Final = 1 << 20  # numbers of accumulators, above those an author gives


@dataclass(eq=False, slots=True)
class Unit:
    """A store, a read, or a loop with what stands in it. The masks number stores and reads."""

    node: UOp
    place: int  # where the author has it
    inside: list[Unit] = field(default_factory=list)
    own: int = 0
    needs: int = 0

    @property
    def is_loop(self) -> bool:
        return self.node.op is Ops.RANGE


@dataclass(slots=True)
class Nest:
    """Units of the whole kernel in order; its reads of memory that it writes; its loops."""

    units: list[Unit]
    reads: frozenset[UOp]
    loops: tuple[UOp, ...]  # outer ones first


def expanded(sink: UOp) -> UOp:
    """Every REDUCE as an accumulator: a LOCAL that starts at the identity and takes each value."""
    new: dict[UOp, UOp] = {}
    taken: dict[UOp, UOp] = {}
    for node in sink.toposort():
        src = tuple(new[s] for s in node.src)
        if node.op is not Ops.REDUCE:
            new[node] = rebuild(node, src)
            continue
        for r in node.src[1:]:
            if taken.setdefault(r, node) is not node:
                raise _error("two reductions share this loop; give each one of its own", r)
        new[node] = _accumulated(node, src, FIRST_LOCAL + len(taken))
    return new[sink]


def _accumulated(node: UOp, src: tuple[UOp, ...], ident: int) -> UOp:
    read, step = accumulator(UOp(Ops.REDUCE, node.dtype, src, node.arg), ident)
    return read(UOp(Ops.END, dtypes.void, (step, *src[1:])))


def accumulator(node: UOp, ident: int) -> tuple[Callable[[UOp], UOp], UOp]:
    """The LOCAL of this number that a REDUCE or SCAN fills: how it is read after an effect, and the
    effect that takes one value."""
    value, *loops = node.src
    dtype = node.dtype.arithmetic
    place = UOp(Ops.LOCAL, dtype, (), (1, "register", ident))
    outer = sorted(ranges_of(node).difference(loops), key=lambda r: r.arg[0])
    start = _element(place.after(*outer) if outer else place)
    first = start.store(UOp.const(dtype, identity(node.arg, dtype)))
    old = UOp(Ops.LOAD, dtype, (_element(place.after(first, *loops)),))
    step = old.src[0].store(UOp.alu(node.arg, old, value.cast(dtype)))

    def read(effect: UOp) -> UOp:
        return UOp(Ops.LOAD, dtype, (_element(place.after(effect)),)).cast(node.dtype)

    return read, step


def _element(base: UOp) -> UOp:
    return UOp(Ops.INDEX, base.dtype, (base, UOp.index(0)))


def _memory(access: UOp) -> UOp:
    base = access.src[0].src[0]
    while base.op is Ops.AFTER:
        base = base.src[0]
    return base


def _error(wrong: str, node: UOp) -> SpecError:
    return SpecError(f"kernel: {wrong}.\n  in {short(node)}")


def ranges_of(u: UOp) -> frozenset[UOp]:
    """The loops that a node depends on; lanes of a vector are none."""
    found = _all_ranges(u)
    lanes = [r for r in found if r.arg[1] == "vector"]
    return found.difference(lanes) if lanes else found


# ---- the analysis


def analyse(sink: UOp) -> Nest:
    """The units of a kernel without REDUCEs; SpecError where its order contradicts itself."""
    order = sink.toposort()
    around, chains = _loops(order)
    stores = [n for n in order if n.op is Ops.STORE]
    memories = {_memory(s) for s in stores}
    reads = [n for n in order if n.op is Ops.LOAD and _memory(n) in memories]
    items = sorted([*stores, *reads], key={n: i for i, n in enumerate(order)}.__getitem__)
    needs = _ancestors(order, items)
    waits = _hazards(items, needs)
    root = Unit(sink, 0)
    place = {n: i for i, n in enumerate(order)}
    found: dict[UOp, Unit] = {}
    for bit, item in enumerate(items):
        inner = chains.chain(around.get(item, frozenset()) | ranges_of(item), item)
        block = root
        for loop in inner:
            block = _enter(block, loop, found, needs, place)
        block.inside.append(Unit(item, place[item], own=1 << bit, needs=waits[item]))
    _gather(root)
    _sort(root)
    loops = sorted(chains.parents, key=lambda r: (len(chains.parents[r]), r.arg[0]))
    return Nest(root.inside, frozenset(reads), tuple(loops))


class _Chains:
    """Which loops stand around which."""

    def __init__(self) -> None:
        self.parents: dict[UOp, frozenset[UOp]] = {}

    def close(self, loops: frozenset[UOp], node: UOp) -> frozenset[UOp]:
        """These loops and all around them."""
        for r in loops:
            if r not in self.parents:
                raise _error(f"range {r.arg[0]} is never closed; .end(range) closes it", node)
        return loops.union(*(self.parents[r] for r in loops))

    def chain(self, loops: frozenset[UOp], node: UOp) -> list[UOp]:
        """These loops and those around them, outermost first."""
        inside = sorted(self.close(loops, node), key=lambda r: len(self.parents[r]))
        for k, r in enumerate(inside):
            if self.parents[r] != frozenset(inside[:k]):
                raise _error(f"range {r.arg[0]} is used outside its loop", node)
        return inside


def _loops(order: Sequence[UOp]) -> tuple[dict[UOp, frozenset[UOp]], _Chains]:
    """The loops that ENDs put around each effect, and those around each loop."""
    around: dict[UOp, frozenset[UOp]] = {}
    chains = _Chains()
    none: frozenset[UOp] = frozenset()
    for node in reversed(order):
        if node.op not in (Ops.END, Ops.SINK):
            continue
        loops = [s for s in node.src if s.op is Ops.RANGE and s.arg[1] != "vector"]
        own = around.get(node, none)
        inside = own | frozenset(loops)
        for effect in node.src:
            if effect.op is not Ops.RANGE:
                around[effect] = around.get(effect, none) | inside
        outer = chains.close(own | (ranges_of(node) if node.op is Ops.END else none), node)
        for r in loops:
            if r in chains.parents:
                raise _error(f"range {r.arg[0]} is closed twice; give each loop a number", node)
            if any(s in loops for b in r.src for s in ranges_of(b) if s not in outer):
                raise _error(f"range {r.arg[0]} is bounded by one inside it", node)
            chains.parents[r] = outer
            outer = outer | {r}
    return around, chains


def _ancestors(order: Sequence[UOp], items: Sequence[UOp]) -> dict[UOp, int]:
    """For each node the stores and reads it is computed from or comes after, as bits."""
    bits = {item: 1 << i for i, item in enumerate(items)}
    masks: dict[UOp, int] = {}
    for node in order:
        mask = bits.get(node, 0)
        for s in node.src:
            mask |= masks[s]
        masks[node] = mask
    return masks


def _hazards(items: Sequence[UOp], needs: dict[UOp, int]) -> dict[UOp, int]:
    """What each store and read waits for: its ancestors, and for a store the earlier stores to its
    memory and the reads there that do not follow it."""
    waits = {item: needs[item] & ~(1 << i) for i, item in enumerate(items)}
    for i, store in enumerate(items):
        if store.op is not Ops.STORE:
            continue
        memory = _memory(store)
        for k, other in enumerate(items):
            if k == i or _memory(other) is not memory or needs[other] >> i & 1:
                continue
            if other.op is Ops.LOAD or k < i:
                waits[store] |= 1 << k
    return waits


def _enter(
    block: Unit, loop: UOp, found: dict[UOp, Unit], needs: dict[UOp, int], place: dict[UOp, int]
) -> Unit:
    unit = found.get(loop)
    if unit is None:
        unit = found[loop] = Unit(loop, place[loop], needs=needs[loop])
        block.inside.append(unit)
    return unit


def _gather(unit: Unit) -> None:
    """A loop owns and needs what its units do."""
    for inner in unit.inside:
        _gather(inner)
        unit.own |= inner.own
        unit.needs |= inner.needs
        unit.place = max(unit.place, inner.place)
    unit.needs &= ~unit.own


def _sort(block: Unit) -> None:
    """Each unit after those it needs; otherwise as the author has them."""
    waiting = sorted(block.inside, key=lambda u: u.place)
    done: list[Unit] = []
    while waiting:
        pending = 0
        for u in waiting:
            pending |= u.own
        ready = next((u for u in waiting if not u.needs & pending & ~u.own), None)
        if ready is None:
            raise _error("effects wait for each other in a circle", waiting[0].node)
        waiting.remove(ready)
        done.append(ready)
    block.inside = done
    for u in done:
        if u.is_loop:
            _sort(u)
