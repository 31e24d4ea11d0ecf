"""What is stored and what is fused: the decision that turns a tensor graph into kernels.

One walk from the results to the inputs. Every node collects its *uses*: (kernel, index,
condition), the places where some kernel needs its value. A node is *inlined* into each use or
*stored* once in a buffer, which makes it a result of a kernel of its own, or of a consumer's
kernel that visits the same elements in the same order (one kernel then has several stores: an
optimizer's p, m and v are one pass).

A reduction is inlined when nothing is computed twice: its loop is hoisted to the outermost place
where its index is known (softmax and layer norm are one kernel each), or it has the kernel's own
granularity (a matmul with its epilogue). Elementwise work under a contraction, repeated for every
row or column of the other operand, is stored first: that is where epilogues end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..dtype import dtypes
from ..uop.costs import COSTS
from ..uop.linear import ranges_of
from ..uop.ops import COMPARISONS, ELEMENTWISE, MOVEMENT, Ops, UOp, size, toposort
from ..uop.sizes import capacity
from .indexing import Index, both, source_index

if TYPE_CHECKING:
    from .limits import Cuts

# weighted ops that are cheaper to repeat in another kernel than to store
RECOMPUTE_COST: Final = 32
ROW_COST: Final = 80  # the same inside one kernel, where repeating costs no memory traffic
MAX_USES: Final = 4
MAX_DEPTH: Final = 1000  # weighted ops chained in one kernel (compile time is superlinear)
MAX_STORES: Final = 16  # results of one kernel
PAD_DEPTH: Final = 10  # ops that the condition of a PAD counts for
ENOUGH_ROWS: Final = 8  # hoisted reductions below this many rows would leave cores idle
SMALL_WORK: Final = 1 << 14
_NONE: Final[frozenset[UOp]] = frozenset()
_WHOLE: Final = (Ops.COPY, Ops.SCATTER, Ops.KERNEL)  # these read their sources as buffers
_ALONE: Final = (Ops.SCAN, *_WHOLE)  # these share no kernel
_PLACED: Final = COMPARISONS | MOVEMENT | {Ops.AND, Ops.OR}  # of positions: where something lies
_COPIES: Final = (Ops.AFTER, Ops.CONTIGUOUS)


class Use(NamedTuple):
    """One place that needs a node's value."""

    kernel: Group
    index: Index  # type: ignore[assignment]  # tuple.index is not used
    valid: UOp | None


class Around(NamedTuple):
    """The loops of the reduction a use stands in: all of them, and the reduced ones among them."""

    loops: frozenset[UOp]
    reduced: frozenset[UOp]


@dataclass(eq=False, slots=True)
class Group:
    """A kernel in the making: the stored nodes it computes over one set of output ranges."""

    number: int
    shape: tuple[int, ...]
    ranges: Index
    stored: list[UOp] = field(default_factory=list)
    reads: set[Group] = field(default_factory=set)  # kernels that must run before
    hoisted: list[frozenset[UOp]] = field(default_factory=list)
    reduce_ranges: dict[tuple[int, tuple[int, ...]], tuple[UOp, ...]] = field(default_factory=dict)
    contraction: bool = False
    reductions: int = 0
    next_range: int = 100

    def ranges_for(self, level: int, sizes: tuple[int, ...]) -> tuple[UOp, ...]:
        """Loop counters of a reduction; equal lengths at one level share them, and so one loop."""
        found = self.reduce_ranges.get((level, sizes))
        if found is None:
            found = tuple(
                UOp.range(0, n, self.next_range + i, "reduce") for i, n in enumerate(sizes)
            )
            self.next_range += len(sizes)
            self.reduce_ranges[level, sizes] = found
        return found


@dataclass(slots=True)
class Facts:
    """What is known of each node before the walk, from sources to results."""

    level: dict[UOp, int] = field(default_factory=dict)  # nesting of reductions below
    cost: dict[UOp, int] = field(default_factory=dict)  # elementwise work below, up to stored nodes
    depth: dict[UOp, int] = field(default_factory=dict)
    # a reduction of the same element count lies below
    epilogue: set[UOp] = field(default_factory=set)
    forced: set[UOp] = field(default_factory=set)  # stored whatever their uses
    deep: set[UOp] = field(default_factory=set)  # where a chain is cut: a kernel of its own
    # positions and what compares them: a few instructions, and memory holds no index
    places: set[UOp] = field(default_factory=set)


def survey(order: Sequence[UOp], roots: Sequence[UOp], cuts: Cuts | None = None) -> Facts:
    """Facts of every node, and the nodes that must be stored."""
    facts = Facts()
    facts.forced.update(r for r in roots if r.op is not Ops.BUFFER)
    if cuts is not None:
        facts.forced |= cuts.stored | cuts.alone
        facts.deep |= cuts.stored | cuts.alone
    for node in order:
        _survey(node, facts)
    return facts


def _survey(node: UOp, facts: Facts) -> None:
    src = [s for s in node.src if s.op is not Ops.UNIQUE]
    level = max((facts.level[s] for s in src), default=0)
    cost = sum(facts.cost[s] for s in src)
    depth = max((facts.depth[s] for s in src), default=0)
    op = node.op
    if op in (Ops.CONTIGUOUS, Ops.AFTER, *_ALONE):
        facts.forced.add(node)
    if op in _WHOLE:
        facts.forced.update(s for s in src if s.op is not Ops.BUFFER)
    if op is Ops.GATHER:
        facts.forced.update(_gather_base(node))
        cost, depth = facts.cost[src[1]] + 1, depth + 1
    if op in ELEMENTWISE:
        work = COSTS.get(op, 1)
        cost = min(cost + work, 1 << 20)
        depth += max(work, 1) + PAD_DEPTH * sum(s.op is Ops.PAD for s in src)
        if depth >= MAX_DEPTH:
            facts.forced.add(node)
            facts.deep.add(node)
    placed = op in _PLACED and all(s in facts.places for s in src)
    if placed or node.dtype is dtypes.index or (op is Ops.CONST and node.dtype is dtypes.bool):
        facts.places.add(node)
    if op is Ops.REDUCE:
        level += 1
    grows = op in (Ops.EXPAND, Ops.WINDOW)
    if op is Ops.REDUCE or (
        (op in ELEMENTWISE or op in MOVEMENT)
        and not grows
        # beside a reduction of it (a row's maximum) it has two readers: it is stored, this is not
        and any(s in facts.epilogue and facts.level[s] == level for s in src)
    ):
        facts.epilogue.add(node)
    if node in facts.forced or op is Ops.REDUCE:
        cost = 0
        if node in facts.forced:
            level = 0
            facts.epilogue.discard(node)
    if op in _ALONE or op is Ops.REDUCE or node in facts.deep:
        depth = 0  # any other stored node may be one of several results of one kernel
    facts.level[node], facts.cost[node], facts.depth[node] = level, cost, depth


def _gather_base(node: UOp) -> list[UOp]:
    base = node.src[0].base
    return [] if base.op is Ops.BUFFER else [base]


def is_contraction(node: UOp) -> bool:
    """A sum of products, each operand re-used along an axis of the other: matmul, conv."""
    if node.op is not Ops.REDUCE or node.arg[0] is not Ops.ADD:
        return False
    body = node.src[0]
    while body.op in MOVEMENT or body.op is Ops.CAST:
        body = body.src[0]
    return body.op is Ops.MUL and all(_reused(s) for s in body.src)


def _reused(node: UOp) -> bool:
    while node.op in MOVEMENT or node.op is Ops.CAST:
        if node.op in (Ops.EXPAND, Ops.WINDOW):
            return True
        node = node.src[0]
    return False


class Fusion:
    """The walk. Afterwards `uses` says where every node is needed and `home` which kernel stores
    it.
    """

    def __init__(self, roots: Sequence[UOp], fuse: bool = True, cuts: Cuts | None = None) -> None:
        self.fuse = fuse  # False: every operation is a kernel of its own, for tests
        self.order = toposort(roots)
        self.facts = survey(self.order, roots, cuts)
        self.roots = frozenset(roots)
        self.whole: dict[UOp, set[Group]] = {}  # kernels that read all of a stored node's buffer
        self.uses: dict[UOp, dict[Use, list[Around | None]]] = {n: {} for n in self.order}
        self.links: dict[tuple[UOp, Use], tuple[Use, ...]] = {}
        self.home: dict[UOp, Use] = {}
        self.groups: list[Group] = []
        self.reduce_loops: dict[tuple[UOp, Use], tuple[UOp, ...]] = {}
        self.launches: dict[tuple[Any, ...], Use] = {}
        for node in reversed(self.order):
            self._visit(node)

    # ---- one node, all of its consumers decided

    def _visit(self, node: UOp) -> None:
        uses = self.uses[node]
        if node.op in (Ops.BUFFER, Ops.CONST, Ops.IOTA, Ops.VARIABLE, Ops.UNIQUE, Ops.STORE):
            return
        if not uses and node not in self.roots and node not in self.whole:
            return  # only the target of an assignment
        if self.fuse and len(uses) > 1:
            self._absorb_copies(node, uses)
        if node in self.facts.forced or self._must_store(node, uses):
            self._store(node, uses)
            return
        if node.op is Ops.REDUCE:
            self._account(node, next(iter(uses)))
        for use, arounds in uses.items():
            for around in arounds:
                self._descend(node, use, around)

    def _must_store(self, node: UOp, uses: dict[Use, list[Around | None]]) -> bool:
        if node in self.facts.places:
            return False
        if not self.fuse:
            return node.op is Ops.REDUCE or node.op in ELEMENTWISE
        if node.op is Ops.REDUCE:
            return self._store_reduction(node, uses)
        if node.op is Ops.PAD and self._repeated(uses):
            return True  # a contraction reads it without conditions then
        if node.op not in ELEMENTWISE:
            return len(uses) > 4 * MAX_USES
        cost = self.facts.cost[node]
        if cost == 0:
            return False
        if len(uses) > 1:
            if node in self.facts.epilogue or len(uses) > MAX_USES:
                return True
            kernels = {u.kernel for u in uses}
            if cost > (RECOMPUTE_COST if len(kernels) > 1 else ROW_COST):
                return True
        return self._repeated(uses)

    def _repeated(self, uses: dict[Use, list[Around | None]]) -> bool:
        return any(self._repeats(u, a) > 2 for u, arounds in uses.items() for a in arounds)

    def _store_reduction(self, node: UOp, uses: dict[Use, list[Around | None]]) -> bool:
        if len(uses) != 1:
            return True
        ((use, arounds),) = uses.items()
        return not self._admits(node, use, arounds)

    def _admits(self, node: UOp, use: Use, arounds: Sequence[Around | None]) -> bool:
        """May the kernel of `use` compute this reduction inside its own loops?"""
        kernel, depends = use.kernel, self._depends(use)
        if use.valid is not None or any(a and a.reduced & depends for a in arounds):
            return False
        if any(r.arg[1] == "seq" for r in depends):
            return False  # it would be computed step by step
        contraction = is_contraction(node)
        if kernel.reductions and (contraction or kernel.contraction):
            return False
        if depends == frozenset(r for r in kernel.ranges if r.op is Ops.RANGE):
            return True
        rows = size([_length(r) for r in depends])
        if contraction or (rows < ENOUGH_ROWS and capacity(node.src[0].shape) > SMALL_WORK):
            return False
        return all(h <= depends or depends <= h for h in kernel.hoisted)

    def _account(self, node: UOp, use: Use) -> None:
        kernel = use.kernel
        kernel.contraction |= is_contraction(node)
        kernel.reductions += 1
        kernel.hoisted.append(self._depends(use))

    def _absorb_copies(self, node: UOp, uses: dict[Use, list[Around | None]]) -> None:
        """Let a kernel that computes `node` store it for those kernels that would only copy it.

        An optimizer's moment is a result of its own and part of the parameter's update: one pass.
        """
        same = [u for u, arounds in uses.items() if _visits(u, arounds, node)]
        if len(same) < 2:
            return
        target = next((u for u in same if not _copies(u.kernel, node)), same[0])
        for use in same:
            if use is target or not _copies(use.kernel, node):
                continue
            readers = [g for g in self.groups if use.kernel in g.reads]
            if not any(_reaches(target.kernel, g) for g in readers):
                self._move(use.kernel, target, readers)
                del uses[use]

    def _move(self, copy: Group, target: Use, readers: Sequence[Group]) -> None:
        """The stored nodes of kernel `copy` become stores of the kernel of `target`."""
        for node in copy.stored:
            self.home[node] = target
            self.links[node, target] = tuple(target for _ in sources(node))
            target.kernel.stored.append(node)
        for group in readers:
            group.reads.discard(copy)
            group.reads.add(target.kernel)
        self.groups.remove(copy)

    def _depends(self, use: Use) -> frozenset[UOp]:
        """The loops that the index and the condition of a use run over."""
        valid = _NONE if use.valid is None else ranges_of(use.valid)
        return valid.union(*(ranges_of(i) for i in use.index))

    def _repeats(self, use: Use, around: Around | None) -> int:
        """How often each value would be computed if inlined here."""
        if around is None:
            return 1
        depends = self._depends(use)
        if not around.reduced & depends:
            return 1  # hoisted out of the reduction
        return size([_length(r) for r in around.loops - depends])

    # ---- storing

    def _store(self, node: UOp, uses: dict[Use, list[Around | None]]) -> None:
        alone = node.op in _ALONE or node in self.facts.deep
        home = None if alone else self._join(node, uses)
        if node.op is Ops.KERNEL:  # one launch has several outputs
            launch = (node.src, node.arg._replace(which=0))
            home = self.launches[launch] = self.launches.get(launch) or self._new_group(node)
        if home is None:
            home = self._new_group(node)
        self.home[node] = home
        home.kernel.stored.append(node)
        readers = {use.kernel for use in uses if use != home} | self.whole.get(node, set())
        for reader in readers:
            reader.reads.add(home.kernel)
        if node.op is Ops.REDUCE:
            self._account(node, home)
        self._descend(node, home, None)

    def _new_group(self, node: UOp) -> Use:
        core = _core(node)
        along = node.arg[1] if node.op is Ops.SCAN else None
        ranges = tuple(
            UOp.range(0, n, i, "seq" if i == along else "loop") if n != 1 else UOp.index(0)
            for i, n in enumerate(core.shape)
        )
        group = Group(len(self.groups), core.shape, ranges)
        self.groups.append(group)
        return Use(group, ranges, None)

    def _join(self, node: UOp, uses: dict[Use, list[Around | None]]) -> Use | None:
        """A consumer's kernel that visits exactly `node`'s elements, if joining it is legal."""
        if _core(node) is not node or not self.fuse:
            return None
        for use, arounds in uses.items():
            kernel = use.kernel
            if not _visits(use, arounds, node) or len(kernel.stored) >= MAX_STORES:
                continue
            others = {u.kernel for u in uses if u != use} | self.whole.get(node, set())
            if kernel in others or any(_reaches(kernel, other) for other in others):
                continue
            if node.op is Ops.REDUCE and not self._admits(node, use, arounds):
                continue
            return use
        return None

    # ---- handing uses down

    def _descend(self, node: UOp, use: Use, around: Around | None) -> None:
        key = (node, use)
        if key not in self.links:
            self.links[key] = self._source_uses(node, use)
        for base in stored_inputs(node):
            self.whole.setdefault(base, set()).add(use.kernel)
        inner = around
        if node.op is Ops.REDUCE:
            loops = frozenset(self.reduce_loops[key])
            inner = Around(self._depends(use) | loops, loops)
        for source, source_use in zip(sources(node), self.links[key], strict=True):
            arounds = self.uses[source].setdefault(source_use, [])
            if inner not in arounds:
                arounds.append(inner)

    def _source_uses(self, node: UOp, use: Use) -> tuple[Use, ...]:
        op = node.op
        core = _core(node) if self.home.get(node) == use else node
        if core is not node:
            return (use,)
        if op in MOVEMENT:
            index, condition = source_index(node, use.index)
            return (Use(use.kernel, index, both(use.valid, condition)),)
        if op is Ops.REDUCE:
            return (self._reduce_use(node, use),)
        if op is Ops.GATHER:
            axis, rank = node.arg, len(node.src[1].shape)
            return (Use(use.kernel, use.index[axis : axis + rank], use.valid),)
        return tuple(use for _ in sources(node))

    def _reduce_use(self, node: UOp, use: Use) -> Use:
        _, axes = node.arg
        shape = node.src[0].shape
        long = tuple(a for a in axes if shape[a] != 1)
        loops = use.kernel.ranges_for(self.facts.level[node], tuple(shape[a] for a in long))
        self.reduce_loops[node, use] = loops
        kept = iter(use.index)
        index = tuple(
            (loops[long.index(a)] if a in long else UOp.index(0)) if a in axes else next(kept)
            for a in range(len(shape))
        )
        return Use(use.kernel, index, use.valid)


def _visits(use: Use, arounds: Sequence[Around | None], node: UOp) -> bool:
    """Does this use visit exactly the elements of `node`, in the kernel's own loops?"""
    inside = use.valid is not None or any(a is not None for a in arounds)
    return not inside and use.index == use.kernel.ranges and node.shape == use.kernel.shape


def _copies(group: Group, node: UOp) -> bool:
    """Does this kernel do nothing but store `node`?"""
    return all(s.op in _COPIES and tuple(sources(s)) == (node,) for s in group.stored)


def _length(loop: UOp) -> int:
    """The most steps of a loop."""
    return int(loop.src[1].hi or 0) - int(loop.src[0].lo or 0)


def _core(node: UOp) -> UOp:
    """Below reshapes: a stored node's kernel runs over this shape, row-major offsets being the
    same.
    """
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node


def _reaches(start: Group, goal: Group) -> bool:
    """Does kernel `start` need, directly or not, the results of `goal`?"""
    seen = {start}
    stack = [start]
    while stack:
        group = stack.pop()
        if group is goal:
            return True
        for earlier in group.reads:
            if earlier not in seen:
                seen.add(earlier)
                stack.append(earlier)
    return False


def sources(node: UOp) -> Sequence[UOp]:
    """The sources that are evaluated inside the node's own kernel."""
    op = node.op
    if op is Ops.GATHER:
        return node.src[1:]
    if op is Ops.AFTER:
        return (node.src[1].src[1],)
    if op in _WHOLE:
        return ()
    if op is Ops.CONST:
        return ()
    if _core(node) is not node:
        return (node.src[0],)
    return node.src


def stored_inputs(node: UOp) -> Iterator[UOp]:
    """Sources of `node` that it reads as whole buffers."""
    if node.op is Ops.GATHER:
        yield node.src[0].base
    elif node.op in _WHOLE:
        yield from node.src
