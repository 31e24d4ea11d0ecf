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

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..uop.linear import ranges_of
from ..uop.ops import ELEMENTWISE, MOVEMENT, Ops, Shape, UOp, size, toposort
from ..uop.sizes import capacity
from .indexing import Index, both, source_index
from .survey import (
    AFTER,
    ALONE,
    CONST,
    GATHER,
    PAD,
    REDUCE,
    RESHAPE,
    WHOLE,
    survey,
)

if TYPE_CHECKING:
    from .limits import Cuts

# weighted ops that are cheaper to repeat in another kernel than to store
RECOMPUTE_COST: Final = 32
ROW_COST: Final = 80  # the same inside one kernel, where repeating costs no memory traffic
MAX_USES: Final = 4
MAX_STORES: Final = 16  # results of one kernel
ENOUGH_ROWS: Final = 8  # hoisted reductions below this many rows would leave cores idle
SMALL_WORK: Final = 1 << 14
_NONE: Final[frozenset[UOp]] = frozenset()
_LEAVES: Final = frozenset({Ops.BUFFER, CONST, Ops.IOTA, Ops.VARIABLE, Ops.UNIQUE, Ops.STORE})
_COPIES: Final = (Ops.AFTER, Ops.CONTIGUOUS)
_PASSED: Final = MOVEMENT - {PAD}  # a PAD may be stored


class Use:
    """One place that needs a node's value. There is one object for each place of a kernel
    (`Fusion._use`): it is compared and looked up more than anything else here."""

    __slots__ = ("_depends", "index", "kernel", "valid")

    def __init__(self, kernel: Group, index: Index, valid: UOp | None) -> None:
        self.kernel, self.index, self.valid = kernel, index, valid
        self._depends: frozenset[UOp] | None = None

    @property
    def depends(self) -> frozenset[UOp]:
        """The loops that the index and the condition run over."""
        if self._depends is None:
            valid = _NONE if self.valid is None else ranges_of(self.valid)
            self._depends = valid.union(*[ranges_of(i) for i in self.index])
        return self._depends


Links = tuple[tuple[UOp, Use], ...]  # values, and where they are read


class Around(NamedTuple):
    """The loops of the reduction a use stands in: all of them, and the reduced ones among them."""

    loops: frozenset[UOp]
    reduced: frozenset[UOp]


class Group:
    """A kernel in the making: the stored nodes it computes over one set of output ranges."""

    __slots__ = (
        "contraction", "hoisted", "inlined", "needed_by", "next_range", "number", "ranges", "reads",
        "reduce_ranges", "shape", "stored",
    )  # fmt: skip

    def __init__(self, number: int, shape: tuple[int, ...], ranges: Index) -> None:
        self.number, self.shape, self.ranges = number, shape, ranges
        self.stored: list[UOp] = []
        self.reads: set[Group] = set()  # kernels that must run before
        self.hoisted: list[frozenset[UOp]] = []
        self.inlined: list[UOp] = []  # the reductions of those
        self.reduce_ranges: dict[tuple[int, tuple[int, ...]], tuple[UOp, ...]] = {}
        self.contraction = False
        self.next_range = 100
        self.needed_by = 0  # the numbers of all kernels that must run later, as bits

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

    def read(self, earlier: Group) -> None:
        """This kernel, and so each that needs it, needs `earlier` and what that reads."""
        if earlier in self.reads:
            return
        self.reads.add(earlier)
        later = self.needed_by | 1 << self.number
        stack = [earlier]
        while stack:
            group = stack.pop()
            if group.needed_by | later != group.needed_by:
                group.needed_by |= later
                stack.extend(group.reads)

    def needs(self, earlier: Group) -> bool:
        """Does this kernel need, directly or not, the results of `earlier`?"""
        return self is earlier or bool(earlier.needed_by >> self.number & 1)


def is_contraction(node: UOp) -> bool:
    """A sum of products, each operand re-used along an axis of the other: matmul, conv."""
    if node.op is not Ops.REDUCE or node.arg[0] is not Ops.ADD:
        return False
    body = node.src[0]
    while body.op in MOVEMENT or body.op is Ops.CAST:
        body = body.src[0]
    return body.op is Ops.MUL and all(_reused(s) for s in body.src)


def _reused(node: UOp) -> bool:
    """Whether each element stands in several places: it would be stored as often."""
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
        self.links: dict[tuple[UOp, Use], Links] = {}
        self.home: dict[UOp, Use] = {}
        self.groups: list[Group] = []
        self.made = 0  # kernels, those that were given up among them
        self.reduce_loops: dict[tuple[UOp, Use], tuple[UOp, ...]] = {}
        self.launches: dict[tuple[Any, ...], Use] = {}
        self.loops: dict[tuple[Shape, int | None], Index] = {}  # of kernels of a shape
        self.places: dict[tuple[Group, Index, UOp | None], Use] = {}
        self.moves: dict[tuple[Any, ...], tuple[Index, UOp | None]] = {}
        self.passed = self._passed()
        for node in reversed(self.order):
            if node not in self.passed:
                self._visit(node)

    def _passed(self) -> set[UOp]:
        """Movements that one node reads, and that are never stored: they are no places of their
        own, but part of the way to what they move."""
        readers = Counter(chain.from_iterable(map(sources, self.order)))
        kept = self.facts.forced
        return {n for n, r in readers.items() if r == 1 and n.op in _PASSED and n not in kept}

    # ---- one node, all of its consumers decided

    def _visit(self, node: UOp) -> None:
        uses = self.uses[node]
        if node.op in _LEAVES:
            return
        if not uses and node not in self.roots and node not in self.whole:
            return  # only the target of an assignment
        if self.fuse and len(uses) > 1:
            self._absorb_copies(node, uses)
        if node in self.facts.forced or self._must_store(node, uses):
            self._store(node, uses)
            return
        if node.op is REDUCE:
            self._account(node, next(iter(uses)))
        for use, arounds in uses.items():
            for around in arounds:
                self._descend(node, use, around)

    def _must_store(self, node: UOp, uses: dict[Use, list[Around | None]]) -> bool:
        if node in self.facts.places:
            return False
        if not self.fuse:
            return node.op is Ops.REDUCE or node.op in ELEMENTWISE
        if node.op is REDUCE:
            return self._store_reduction(node, uses)
        if node.op is PAD and self._repeated(uses):
            return True  # a contraction reads it without conditions then
        cost = self.facts.cost[node]
        if node.op not in ELEMENTWISE:  # to look at what is stored in another order costs nothing
            free = node.op in MOVEMENT and (cost == 0 or _reused(node))
            return len(uses) > 4 * MAX_USES and not free
        if cost == 0:
            return False
        if len(uses) > 1:
            if len(uses) > MAX_USES:
                return True
            if node in self.facts.epilogue:
                return self._repeated(uses) or not self.facts.follows(node)
            kernels = {u.kernel for u in uses}
            if cost > (RECOMPUTE_COST if len(kernels) > 1 else ROW_COST):
                return True
        return self._repeated(uses)

    def _repeated(self, uses: dict[Use, list[Around | None]]) -> bool:
        for use, arounds in uses.items():
            for around in arounds:
                if around is not None and self._repeats(use, around) > 2:
                    return True
        return False

    def _store_reduction(self, node: UOp, uses: dict[Use, list[Around | None]]) -> bool:
        if len(uses) != 1:
            return True
        ((use, arounds),) = uses.items()
        return not self._admits(node, use, arounds)

    def _admits(self, node: UOp, use: Use, arounds: Sequence[Around | None]) -> bool:
        """May the kernel of `use` compute this reduction inside its own loops?"""
        kernel, depends = use.kernel, use.depends
        if use.valid is not None or any(a and a.reduced & depends for a in arounds):
            return False
        if any(r.arg[1] == "seq" for r in depends):
            return False  # it would be computed step by step
        contraction = is_contraction(node)
        if kernel.inlined and (contraction or kernel.contraction):
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
        kernel.hoisted.append(use.depends)
        kernel.inlined.append(node)

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
            if not any(target.kernel.needs(g) for g in readers):
                self._move(use.kernel, target, readers)
                del uses[use]

    def _move(self, copy: Group, target: Use, readers: Sequence[Group]) -> None:
        """The stored nodes of kernel `copy` become stores of the kernel of `target`."""
        for node in copy.stored:
            self.home[node] = target
            self.links[node, target] = tuple([(s, target) for s in sources(node)])
            target.kernel.stored.append(node)
        for group in readers:
            group.reads.discard(copy)
            group.read(target.kernel)
        self.groups.remove(copy)

    def _repeats(self, use: Use, around: Around) -> int:
        """How often each value would be computed if inlined here."""
        depends = use.depends
        if not around.reduced & depends:
            return 1  # hoisted out of the reduction
        return size([_length(r) for r in around.loops - depends])

    # ---- storing

    def _store(self, node: UOp, uses: dict[Use, list[Around | None]]) -> None:
        alone = node.op in ALONE or node in self.facts.deep
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
            reader.read(home.kernel)
        if node.op is Ops.REDUCE:
            self._account(node, home)
        self._descend(node, home, None)

    def _new_group(self, node: UOp) -> Use:
        core = _core(node)
        along = node.arg[1] if node.op is Ops.SCAN else None
        ranges = self.loops.get((core.shape, along))
        if ranges is None:
            ranges = self.loops[core.shape, along] = tuple(
                UOp.range(0, n, i, "seq" if i == along else "loop") if n != 1 else UOp.index(0)
                for i, n in enumerate(core.shape)
            )
        group = Group(self.made, core.shape, ranges)
        self.made += 1
        self.groups.append(group)
        return self._use(group, ranges, None)

    def _join(self, node: UOp, uses: dict[Use, list[Around | None]]) -> Use | None:
        """A consumer's kernel that visits exactly `node`'s elements, if joining it is legal."""
        if _core(node) is not node or not self.fuse:
            return None
        for use, arounds in uses.items():
            kernel = use.kernel
            if not _visits(use, arounds, node) or len(kernel.stored) >= MAX_STORES:
                continue
            others = {u.kernel for u in uses if u != use} | self.whole.get(node, set())
            if kernel in others or any(kernel.needs(other) for other in others):
                continue
            if node.op is Ops.REDUCE and not self._admits(node, use, arounds):
                continue
            return use
        return None

    # ---- handing uses down

    def _descend(self, node: UOp, use: Use, around: Around | None) -> None:
        key = (node, use)
        links = self.links.get(key)
        if links is None:
            links = self.links[key] = self._links(node, use)
        op = node.op
        if op in WHOLE or op is GATHER:
            for base in stored_inputs(node):
                self.whole.setdefault(base, set()).add(use.kernel)
        inner = around
        if op is REDUCE:
            loops = frozenset(self.reduce_loops[key])
            inner = Around(use.depends | loops, loops)
        for source, at in links:
            arounds = self.uses[source].setdefault(at, [])
            if inner not in arounds:
                arounds.append(inner)

    def _links(self, node: UOp, use: Use) -> Links:
        """What `node` reads for its value at `use`, and where."""
        op, at = node.op, use
        if op in MOVEMENT:
            if op is not RESHAPE or self.home.get(node) is not use:
                _, at = self._through(node, use, (node,))
        elif op is REDUCE:
            at = self._reduce_use(node, use)
        elif op is GATHER:
            axis, rank = node.arg, len(node.src[1].shape)
            at = self._use(use.kernel, use.index[axis : axis + rank], use.valid)
        passed = self.passed
        return tuple(
            [self._through(s, at, passed) if s in passed else (s, at) for s in sources(node)]
        )

    def _through(self, node: UOp, use: Use, moves: Container[UOp]) -> tuple[UOp, Use]:
        """What the movements from `node` down that are in `moves` read at `use`, and where."""
        index, valid = use.index, use.valid
        while node in moves:
            index, condition = self.moved(node, index)
            valid = both(valid, condition)
            node = node.src[0]
        return node, self._use(use.kernel, index, valid)

    def _use(self, kernel: Group, index: Index, valid: UOp | None) -> Use:
        """The place of a kernel at `index` under the condition `valid`."""
        key = (kernel, index, valid)
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = Use(*key)
        return found

    def moved(self, node: UOp, index: Index) -> tuple[Index, UOp | None]:
        """`source_index`, found once for what equal layers ask."""
        key = (node.op, node.arg, node.src[0].shape, index)
        found = self.moves.get(key)
        if found is None:
            found = self.moves[key] = source_index(node, index)
        return found

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
        return self._use(use.kernel, index, use.valid)


def _visits(use: Use, arounds: Sequence[Around | None], node: UOp) -> bool:
    """Does this use visit exactly the elements of `node`, in the kernel's own loops?"""
    kernel = use.kernel
    if use.index != kernel.ranges or use.valid is not None or node.shape != kernel.shape:
        return False
    return all(a is None for a in arounds)


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


def sources(node: UOp) -> Sequence[UOp]:
    """The sources that are evaluated inside the node's own kernel."""
    op = node.op
    if op is GATHER:
        return node.src[1:]
    if op is AFTER:
        return (node.src[1].src[1],)
    return () if op in WHOLE or op is CONST else node.src


def stored_inputs(node: UOp) -> Iterator[UOp]:
    """Sources of `node` that it reads as whole buffers."""
    if node.op is Ops.GATHER:
        yield node.src[0].base
    elif node.op in WHOLE:
        yield from node.src
