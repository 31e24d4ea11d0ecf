"""Equal layers are scheduled once: of a long chain of them, a few stand for all.

The graph of a deep network *repeats*: from some node on, each has the operation of the node one
*period* before it, over sources that lie a period further on or that all periods share. A chain of
KEPT periods, with all that comes before and after, is scheduled in its place. That schedule repeats
in turn: a run of items is the run before it over leaves that lie a period further on. The run is
put in once more for each period that was left out, over the leaves of that period.

It is right because it is local: an item computes stored nodes from other stored nodes, in a part of
the graph that looks the same a period later. The kernels are those of the whole graph unless a
decision at one end of it reaches through all layers; then it reaches less far. Where the graph or
the items turn out not to repeat (layers that differ, results taken from some of them, a backward
pass that reads them in the other order), the whole graph is scheduled as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from ..uop.ops import Ops, UOp, toposort
from ..uop.provenance import hand_on
from ..uop.rewrite import over
from .items import CopyItem, Item, KernelItem, Planned, Schedule
from .sinks import sink_facts

KEPT: Final = 4  # periods that are scheduled: two between the first, and the last
FEWEST: Final = 6  # periods of a chain that is cut short
_BUFFER: Final = Ops.BUFFER  # older Pythons take 0.1 us to read a member of an enum


class Run(NamedTuple):
    """A list that repeats: from `first` on, so many `times` its `period`."""

    first: int
    period: int
    times: int

    @property
    def end(self) -> int:
        return self.first + self.times * self.period


def scheduled(roots: Sequence[UOp], plan: Callable[[Sequence[UOp]], Planned]) -> Schedule:
    """`plan(roots)`, made from the plan of a shorter graph where one stands for all."""
    order = toposort(roots)
    number = {node: i for i, node in enumerate(order)}
    run = _run_of_nodes(order, number)
    if run is not None:
        run = _with_like_roots(run, [number[r] for r in roots])
    if run is not None and run.times >= FEWEST:
        chain = Chain(order, number, run)
        short = chain.shortened(roots)
        extended = None if short is None else chain.extended(roots, plan(short))
        if extended is not None:
            return extended
    return plan(roots).schedule


# ---- what repeats


def _run_of_nodes(order: Sequence[UOp], number: dict[UOp, int]) -> Run | None:
    """The longest run of nodes whose period is the most common distance between like leaves (the
    weights of layers), those a like step behind the leaf before."""
    last: dict[object, int] = {}
    distances: Counter[int] = Counter()
    before = 0
    for i, node in enumerate(order):
        if node.op is _BUFFER:
            like = (node.dtype, node.arg[1:], i - before)
            distances[i - last.get(like, i)] += 1
            last[like] = before = i
    del distances[0]
    if not distances:
        return None
    ((period, often),) = distances.most_common(1)
    if often < FEWEST - 1:
        return None

    def alike(i: int, first: int) -> bool:
        node, later = order[i], order[i + period]
        if node.op is not later.op or node.shape != later.shape or not _same_parts(node, later):
            return False
        for s, t in zip(node.src, later.src, strict=True):
            at = number[s]
            if s is t:
                if at >= first:
                    return False
            elif number[t] - at != period or i - at > period or s.shape != t.shape:
                return False
        return True

    return _longest(len(order), period, alike)


def _with_like_roots(run: Run, roots: Sequence[int]) -> Run:
    """As many periods of a run as have roots at the same places, the first one aside."""
    inner = [divmod(at - run.first, run.period) for at in roots if run.first <= at < run.end]
    wanted = [{place for n, place in inner if n == number} for number in range(run.times)]
    alike = takewhile(lambda places: places == wanted[1], wanted[1:])
    return run._replace(times=1 + len(list(alike)))


def _same_parts(node: UOp, later: UOp) -> bool:
    """Whether two nodes are the same but for their sources and for what leaf they are."""
    if node.dtype is not later.dtype or len(node.src) != len(later.src):
        return False
    if node.op is _BUFFER:
        return bool(node.arg[1:] == later.arg[1:])
    if node.op is Ops.CONST:
        return repr(node.arg) == repr(later.arg)  # -0.0 is not 0.0
    return bool(node.op is Ops.UNIQUE or node.arg == later.arg)


def _longest(count: int, period: int, alike: Callable[[int, int], bool]) -> Run:
    """The longest run of places that are like those a period later; `alike(i, first)` is asked for
    place i of a run from `first` on."""
    best = (0, 0)
    first = 0
    for i in range(count - period):
        if not alike(i, first):
            first = i + 1
        elif i + 1 - first > best[1] - best[0]:
            best = (first, i + 1)
    return Run(best[0], period, (best[1] - best[0]) // period + 1)


# ---- the graph, cut short


class Chain:
    """A graph whose nodes repeat: `order`, with the place of each in `number`."""

    def __init__(self, order: Sequence[UOp], number: dict[UOp, int], run: Run) -> None:
        self.order, self.number, self.run = order, number, run
        self.gone = (run.times - KEPT) * run.period  # places that are left out
        self.short: dict[UOp, UOp] = {}  # nodes behind the chain, over the end of the short one

    def shortened(self, roots: Sequence[UOp]) -> list[UOp] | None:
        """The roots of the graph without the periods that stand before the last; None where they
        are needed."""
        run, number = self.run, self.number
        near = run.end - 2 * run.period
        for node in self.order[run.end :]:
            if any(run.first <= number[s] < near for s in node.src):
                return None
            self.short[node] = new = over(node, tuple([self._end(s) for s in node.src]))
            hand_on(node, new)
        last = run.first + (run.times - 1) * run.period
        left_out = range(last - self.gone, last)
        return [self._end(r) for r in roots if number[r] not in left_out]

    def _end(self, node: UOp) -> UOp:
        """What stands for a node in the short graph, if it is none of those that are left out."""
        at, run = self.number[node], self.run
        if at >= run.end:
            return self.short[node]
        return self.order[at - self.gone] if at >= run.end - 2 * run.period else node

    def _stands_for(self, at: int) -> tuple[UOp, int]:
        """What stands for the node at a place, and how many places before it."""
        run = self.run
        if at >= run.end - run.period:
            return self._end(self.order[at]), self.gone
        inner = run.first + (KEPT - 2) * run.period
        back = max(at - inner, 0) // run.period * run.period
        return self.order[at - back], back

    # ---- its schedule, made longer

    def extended(self, roots: Sequence[UOp], short: Planned) -> Schedule | None:
        """The schedule of all from that of the short graph; None where its items do not repeat."""
        items, leaves = short.schedule.items, short.leaves
        places = self._places(leaves)
        run = self._run_of_items(items, places)
        if run is None or run.times < 2:
            return None
        head = run.first + 2 * run.period
        if self._reach_through(items, head, leaves):
            return None
        longer = _Longer(self.order, self.run.first, places)
        out = [longer.moved(item, 0, _itself) for item in items[:head]]
        for shift in range(self.run.period, self.gone + 1, self.run.period):
            again = items[head - run.period : head]
            out += [longer.moved(item, shift, _like) for item in again]
        out += [longer.moved(item, self.gone, _itself) for item in items[head:]]

        def leaf_at(at: int) -> UOp | None:
            node, shift = self._stands_for(at)
            return longer.leaf(leaves.get(node, node), shift)

        results = [leaf_at(self.number[r]) for r in roots]
        writes = [(target, leaf_at(at)) for target, at in self._writes(leaves)]
        found = [i for i in out if i is not None]
        if len(found) < len(out) or None in results or None in [leaf for _, leaf in writes]:
            return None
        return Schedule(tuple(found), tuple(results), tuple(writes))  # type: ignore[arg-type]

    def _places(self, leaves: dict[UOp, UOp]) -> dict[UOp, int]:
        """The place of each leaf of the short graph up to the end of the chain: of its own, or of
        the node that it holds."""
        places: dict[UOp, int] = {}
        for i, node in enumerate(self.order[: self.run.end - self.gone]):
            leaf = node if node.op is _BUFFER else leaves.get(node)
            if leaf is not None:
                places.setdefault(leaf, i)
        return places

    def _run_of_items(self, items: Sequence[Item], places: dict[UOp, int]) -> Run | None:
        """The longest run of items over leaves that lie further on from period to period."""
        step, first = self.run.period, self.run.first
        writer = {
            places[w]: i for i, item in enumerate(items) for w in written(item) if w in places
        }
        distances = Counter(
            i - writer[at - step] for at, i in writer.items() if at - step in writer
        )
        ((period, _),) = distances.most_common(1) or ((0, 0),)
        if period < 1:
            return None

        def follows(leaf: UOp, later: UOp) -> bool:
            at, then = places.get(leaf), places.get(later)
            if at is None or then is None:
                return False
            return at < first if leaf is later else then == at + step and then >= first

        def alike(i: int, _: int) -> bool:
            one, other = items[i], items[i + period]
            same = _without_buffers(one) == _without_buffers(other)
            return same and all(map(follows, buffers(one), buffers(other)))

        return _longest(len(items), period, alike)

    def _reach_through(self, items: Sequence[Item], head: int, leaves: dict[UOp, UOp]) -> bool:
        """Whether items from `head` on compute something of each layer: what is not stored (a sum
        over all of them) leads from the end of the chain to what lies before it."""
        stored = {leaf for item in items for leaf in written(item)}
        stack, seen = self._computed_by(items[head:], leaves), set[UOp]()
        while stack:
            node = stack.pop()
            if node in seen or self.number.get(node, self.run.end) < self.run.first:
                continue
            seen.add(node)
            for source, outside in self._moving_sources(node):
                if outside:
                    return True
                if source.op is not _BUFFER and leaves.get(source) not in stored:
                    stack.append(source)
        return False

    def _computed_by(self, items: Sequence[Item], leaves: dict[UOp, UOp]) -> list[UOp]:
        """The nodes of the short graph that its last items store; of several in one leaf the last
        ones."""
        often = Counter(leaf for item in items for leaf in written(item))
        nodes: dict[UOp, list[UOp]] = {}
        for node in sorted(leaves, key=lambda n: self.number.get(n, self.run.end)):
            nodes.setdefault(leaves[node], []).append(node)
        return [node for leaf, n in often.items() for node in nodes.get(leaf, [])[-n:]]

    def _moving_sources(self, node: UOp) -> list[tuple[UOp, bool]]:
        """The sources of a node of the short graph that lie further on in the whole one, and
        whether they lie before the chain."""
        at = self.number.get(node, self.run.end)
        if at >= self.run.end - self.gone:
            return [(s, False) for s in node.src]
        later = self.order[at + self.gone].src
        moving = [s for s, then in zip(node.src, later, strict=True) if s is not then]
        return [(s, self.number[s] < self.run.first) for s in moving]

    def _writes(self, leaves: dict[UOp, UOp]) -> list[tuple[UOp, int]]:
        """The leaf that each assignment is to, and the place of the assignment."""
        found: dict[UOp, UOp] = {}
        for node in self.order:
            if node.op is Ops.AFTER:
                found[node] = found.get(node.src[0], node.src[0])
        some = ((target, self.number[node]) for node, target in found.items())
        return [(target, at) for target, at in some if self._stands_for(at)[0] in leaves]


class _Longer:
    """Items over leaves of other periods. `leaves` holds what is stored, by the place of its node
    in the whole graph, as soon as an item writes it."""

    def __init__(self, order: Sequence[UOp], first: int, places: dict[UOp, int]) -> None:
        self.order, self.first, self.places = order, first, places
        self.leaves: dict[int, UOp] = {}

    def leaf(self, leaf: UOp, shift: int) -> UOp | None:
        """What stands `shift` places behind a leaf; None if nothing is stored there."""
        at = self.places.get(leaf, -1)
        if at < self.first:
            return leaf
        return self.order[at + shift] if self.order[at] is leaf else self.leaves.get(at + shift)

    def moved(self, item: Item, shift: int, made: Callable[[UOp], UOp]) -> Item | None:
        """`item` over the leaves `shift` places behind its own, where what it stores is `made`;
        None where it reads what is not stored."""
        for leaf in written(item):
            at = self.places.get(leaf, -1)
            if self.order[at] is not leaf and at + shift not in self.leaves:
                self.leaves[at + shift] = made(leaf)
        new = [self.leaf(b, shift) for b in buffers(item)]
        if None in new:
            return None
        if isinstance(item, CopyItem):
            return CopyItem(*new)  # type: ignore[arg-type]
        return item._replace(buffers=tuple(new))  # type: ignore[arg-type]


def _itself(leaf: UOp) -> UOp:
    return leaf


def _like(leaf: UOp) -> UOp:
    return UOp.buffer(leaf.dtype, leaf.shape, leaf.arg[2])


# ---- items


def buffers(item: Item) -> tuple[UOp, ...]:
    """The leaves that an item reads or writes."""
    return item.buffers if isinstance(item, KernelItem) else item


def _without_buffers(item: Item) -> tuple[object, ...]:
    if isinstance(item, CopyItem):
        return (CopyItem,)
    return item.sink, item.device, item.variables, item.values, len(item.buffers)


def written(item: Item) -> list[UOp]:
    """The leaves that an item writes."""
    if isinstance(item, CopyItem):
        return [item.dst]
    return [item.buffers[slot] for slot, _ in sink_facts(item.sink).stores]
