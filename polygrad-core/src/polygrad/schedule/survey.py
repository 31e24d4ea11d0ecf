"""What is known of each node before anything is decided: one pass from the sources to the results.

`fusion` asks how much work lies below a node, how deep it is and how reductions are nested, and
gets the nodes that are stored whatever their uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..dtype import dtypes
from ..uop.costs import COSTS
from ..uop.ops import COMPARISONS, ELEMENTWISE, MOVEMENT, Ops, UOp

if TYPE_CHECKING:
    from .limits import Cuts

MAX_DEPTH: Final = 1000  # weighted ops chained in one kernel (compile time is superlinear)
PAD_DEPTH: Final = 10  # ops that the condition of a PAD counts for
_INDEX, _BOOL = dtypes.index, dtypes.bool
# Sets, and local names: looking up a member of an enum takes 0.1 us before Python 3.12.
AFTER, CONST, GATHER, PAD, REDUCE, RESHAPE = (
    Ops.AFTER, Ops.CONST, Ops.GATHER, Ops.PAD, Ops.REDUCE, Ops.RESHAPE,
)  # fmt: skip
WHOLE: Final = frozenset({Ops.COPY, Ops.SCATTER, Ops.KERNEL})  # these read sources as buffers
ALONE: Final = WHOLE | {Ops.SCAN}  # these share no kernel
_STORED: Final = ALONE | {Ops.CONTIGUOUS, AFTER}
_SHAPED: Final = (ELEMENTWISE | MOVEMENT) - {Ops.EXPAND, Ops.WINDOW}
_PLACED: Final = COMPARISONS | MOVEMENT | {Ops.AND, Ops.OR}  # of positions: where something lies


class Facts:
    """What is known of each node before the walk, from sources to results."""

    __slots__ = ("cost", "deep", "depth", "epilogue", "forced", "level", "places", "readers")

    def __init__(self) -> None:
        self.level: dict[UOp, int] = {}  # nesting of reductions below
        self.cost: dict[UOp, int] = {}  # elementwise work below, up to stored nodes
        self.depth: dict[UOp, int] = {}
        # a reduction of the same element count lies below
        self.epilogue: set[UOp] = set()
        self.readers: Counter[UOp] = Counter()  # of each epilogue: nodes that read it
        self.forced: set[UOp] = set()  # stored whatever their uses
        self.deep: set[UOp] = set()  # where a chain is cut: a kernel of its own
        # positions and what compares them: a few instructions, and memory holds no index
        self.places: set[UOp] = set()

    def follows(self, node: UOp) -> bool:
        """Whether a node is one cheap step from a single value of its epilogue, which others read
        as well: who needs the node has that stored, and takes the step again."""
        below = self.epilogue.intersection(node.src)
        if len(below) != 1 or COSTS.get(node.op, 1) > 1:
            return False
        (source,) = below
        others = (s for s in node.src if s is not source)
        return self.readers[source] > 1 and all(s.op is CONST or not self.cost[s] for s in others)


def survey(order: Sequence[UOp], roots: Sequence[UOp], cuts: Cuts | None = None) -> Facts:
    """Facts of every node, and the nodes that must be stored."""
    facts = Facts()
    facts.forced.update(r for r in roots if r.op is not Ops.BUFFER)
    if cuts is not None:
        facts.forced |= cuts.stored | cuts.alone
        facts.deep |= cuts.stored | cuts.alone
    for node in order:
        if node.op in MOVEMENT and node not in facts.forced:
            _moved(node, node.src[0], facts)
        else:
            _survey(node, facts)
    return facts


def _moved(node: UOp, source: UOp, facts: Facts) -> None:
    """Of a movement that is stored for no reason of its own: half of all nodes are such."""
    facts.level[node], facts.cost[node] = facts.level[source], facts.cost[source]
    facts.depth[node] = facts.depth[source]
    if source in facts.places:
        facts.places.add(node)
    if source in facts.epilogue and node.op in _SHAPED:
        facts.epilogue.add(node)


def _survey(node: UOp, facts: Facts) -> None:
    op, src = node.op, node.src
    level = cost = depth = 0
    for s in src:
        level, depth = max(level, facts.level[s]), max(depth, facts.depth[s])
    for s in src:
        # Else `s` is stored, as below: a sum along a chain of layers must not grow with each.
        if facts.level[s] == level or s not in facts.epilogue:
            cost += facts.cost[s]
    if op in _STORED:
        facts.forced.add(node)
    if op in WHOLE:
        facts.forced.update(s for s in src if s.op is not Ops.BUFFER)
    if op is GATHER:
        facts.forced.update(_gather_base(node))
        cost, depth = facts.cost[src[1]] + 1, depth + 1
    if op in ELEMENTWISE:
        work = COSTS.get(op, 1)
        cost = min(cost + work, 1 << 20)
        depth += max(work, 1) + PAD_DEPTH * [s.op for s in src].count(PAD)
        if depth >= MAX_DEPTH:
            facts.forced.add(node)
            facts.deep.add(node)
    placed = op in _PLACED and facts.places.issuperset(src)
    if placed or node.dtype is _INDEX or (op is CONST and node.dtype is _BOOL):
        facts.places.add(node)
    if op is REDUCE:
        level += 1
    if op is REDUCE or (
        op in _SHAPED
        # beside a reduction of it (a row's maximum) it has two readers: it is stored, this is not
        and not facts.epilogue.isdisjoint(src)
        and any(s in facts.epilogue and facts.level[s] == level for s in src)
    ):
        facts.epilogue.add(node)
    if node in facts.forced or op is REDUCE:
        cost = 0
        if node in facts.forced:
            level = 0
            facts.epilogue.discard(node)
    if op in ALONE or op is REDUCE or node in facts.deep:
        depth = 0  # any other stored node may be one of several results of one kernel
    facts.level[node], facts.cost[node], facts.depth[node] = level, cost, depth
    facts.readers.update(facts.epilogue.intersection(src))


def _gather_base(node: UOp) -> list[UOp]:
    base = node.src[0].base
    return [] if base.op is Ops.BUFFER else [base]
