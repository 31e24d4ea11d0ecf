"""Where the columns of a chain of rows end: what a mask hides is neither computed nor read.

Floor: codegen, called by `chain.py`. A causal mask makes every score behind the diagonal -inf, its
exponential 0, and 0 times anything adds nothing to a sum. So from the condition of a WHERE follows
a *limit* of a row: its columns from there on, or those before, hold one constant. A reduction over
them that would only add its identity stops at the limit, and what nobody reads is not written.

That `-inf - x` is -inf and `0 * x` is 0 holds for finite x. Where x is not finite, the columns that
are left make a row NaN as all of them would; only a NaN or inf among the *values* of hidden
positions, times 0, is left out (as a kernel that skips tiles leaves it out).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..dtype import dtypes
from ..uop.linear import coefficient, linear, ranges_of
from ..uop.ops import Ops, UOp, toposort
from ..uop.values import identity
from .kernel import length

INF: Final = math.inf
_CLOSED: Final = frozenset({Ops.REDUCE, Ops.INDEX})


class Cut(NamedTuple):
    """From column `limit` on, or before it, a value is `constant`."""

    limit: UOp
    constant: Any


@dataclass(frozen=True, slots=True)
class Limits:
    """Which tiles of `step` columns a block needs of a row, by the range over the columns: the
    first, and how many there are up to the last."""

    step: int
    first: dict[UOp, UOp]
    end: dict[UOp, UOp]

    def __contains__(self, loop: UOp) -> bool:
        return loop in self.first or loop in self.end

    def tiles(self, loop: UOp) -> tuple[UOp, UOp]:
        """The first whole tile and the number of whole tiles from there."""
        whole = length(loop) // self.step
        first = self.first.get(loop, UOp.index(0)).minimum(whole)
        return first, (self.end.get(loop, UOp.index(whole)).minimum(whole) - first).maximum(0)

    def columns(self, loop: UOp) -> tuple[UOp, UOp]:
        """The first column and the number of columns of these tiles."""
        n, step = length(loop), self.step
        first, tiles = self.tiles(loop)
        if n % step == 0:
            return first * step, tiles * step
        end = (self.end[loop] * step).minimum(n) if loop in self.end else UOp.index(n)
        return first * step, (end - first * step).maximum(0)


Known = Mapping[UOp, tuple[UOp, Cut]]  # load of a row -> the range it walks, and its cut


def bounded(effects: Sequence[UOp], column_of: Mapping[UOp, UOp], behind: bool) -> dict[UOp, UOp]:
    """Ranges over columns -> where they may end; where they may start, if not `behind`. `effects`
    are the stores of a chain in order, with ranges of their own each, and `column_of` has the range
    over the columns of each store into a wide LOCAL, or of what a sum over rows adds up."""
    cuts: dict[UOp, Cut] = {}  # of what a LOCAL holds
    limits: dict[UOp, UOp] = {}
    for store in effects:
        known = _known(store, cuts)
        if store in column_of and store.src[0].src[0].op is Ops.PARAM:  # a sum over rows
            column = column_of[store]
            cut = _of_value(store.src[1].src[0], column, known, behind)
            if cut is not None and cut.constant == 0:
                limits[column] = cut.limit
            continue
        reductions = [n for n in toposort((store.src[1],)) if n.op is Ops.REDUCE]
        for loop in {r for n in reductions for r in n.src[1:]}:
            over = [n for n in reductions if loop in n.src[1:]]
            limit = _of_reductions(over, loop, known, behind)
            if limit is not None:
                limits[loop] = limit
        if store in column_of:
            cut = _of_value(store.src[1], column_of[store], known, behind)
            if cut is not None:
                cuts[store.src[0].src[0]] = cut
    for store in reversed(effects):
        if store in column_of:  # what nobody reads is not written
            loops = [column_read(n) for e in effects for n in _loads(e, store.src[0].src[0])]
            found = {None if r is None else limits.get(r) for r in loops}
            limit = found.pop() if len(found) == 1 else None
            if limit is not None:
                limits[column_of[store]] = limit
    return limits


def _loads(effect: UOp, local: UOp) -> list[UOp]:
    return [n for n in toposort((effect,)) if n.op is Ops.LOAD and n.src[0].src[0] is local]


def column_read(load: UOp) -> UOp | None:
    """The range that a LOAD of a row walks, element by element from its start."""
    const, terms = linear(load.src[0].src[1])
    if const or len(terms) != 1 or terms[0][1] != 1 or terms[0][0].op is not Ops.RANGE:
        return None
    return terms[0][0]


def _known(store: UOp, cuts: Mapping[UOp, Cut]) -> Known:
    found = {}
    for node in toposort((store.src[1],)):
        if node.op is Ops.LOAD and node.src[0].src[0] in cuts:
            loop = column_read(node)
            if loop is not None:
                found[node] = (loop, cuts[node.src[0].src[0]])
    return found


def _of_reductions(reductions: Sequence[UOp], loop: UOp, known: Known, behind: bool) -> UOp | None:
    """The limit beyond which no reduction over `loop` gets anything but its identity."""
    limits: set[UOp] = set()
    for node in reductions:
        cut = _of_value(node.src[0], loop, known, behind)
        if cut is None or cut.constant != identity(node.arg, node.dtype):
            return None
        limits.add(cut.limit)
    return limits.pop() if len(limits) == 1 else None


def _of_value(value: UOp, column: UOp, known: Known, behind: bool) -> Cut | None:
    """Where a value is constant along its columns."""
    cuts = {n: cut for n, (loop, cut) in known.items() if loop is column}
    inside = toposort((value,), lambda n: n not in cuts and n.op not in _CLOSED)
    for node in inside:
        if node.op is Ops.WHERE and column in ranges_of(node.src[0]):
            truth = _truth(node.src[0], column, behind)
            chosen = node.src[1 if truth is None or truth[1] else 2]
            if truth is not None and chosen.op is Ops.CONST:
                cuts[node] = Cut(truth[0], chosen.arg)
    limits = {cuts[n].limit for n in inside if n in cuts}
    if len(limits) != 1:
        return None
    constant = _beyond(value, {n: cut.constant for n, cut in cuts.items()})
    return None if constant is None else Cut(limits.pop(), constant)


# ---- conditions


def _truth(condition: UOp, column: UOp, behind: bool) -> tuple[UOp, bool] | None:
    """(limit, what the condition is from there on, or before)."""
    op = condition.op
    if op in (Ops.AND, Ops.OR):
        decisive = op is Ops.OR
        sides = [_truth(s, column, behind) for s in condition.src]
        return next((t for t in sides if t is not None and t[1] is decisive), None)
    if op is Ops.XOR and condition.src[1].op is Ops.CONST:
        inner = _truth(condition.src[0], column, behind)
        return inner and (inner[0], inner[1] is not bool(condition.src[1].arg))
    if op not in (Ops.CMPLT, Ops.CMPLE):
        return None
    a, b = (_position(s) for s in condition.src)
    if a is None or b is None:
        return None
    gap = b - a  # true where it is above 0, or at least 0
    least = 1 if op is Ops.CMPLT else 0
    step = coefficient(gap, column)
    if step == 1:
        limit = column - gap + least
    elif step == -1:
        limit = gap + column - least + 1
    else:
        return None
    return None if column in ranges_of(limit) else (limit, (step == 1) is behind)


def _position(value: UOp) -> UOp | None:
    """A place in a row or its number, as an index; None where it is anything else."""
    if value.dtype is dtypes.index:
        return value
    if value.op is Ops.CONST and value.dtype.is_int:
        return UOp.index(int(value.arg))
    if value.op is Ops.CAST and value.src[0].dtype is dtypes.index and value.dtype.itemsize >= 4:
        return value.src[0]
    if value.op in (Ops.ADD, Ops.SUB) and value.dtype.is_int and value.dtype.itemsize >= 4:
        a, b = (_position(s) for s in value.src)
        if a is not None and b is not None:
            return a + b if value.op is Ops.ADD else a - b
    return None


# ---- constants


def _beyond(root: UOp, known: Mapping[UOp, Any]) -> Any:
    """What an expression is where parts of it are constants; None where that is not certain."""
    found: dict[UOp, Any] = dict(known)
    for node in toposort((root,), lambda n: n not in known and n.op not in _CLOSED):
        if node not in found:
            rule = _CONSTANT.get(node.op)
            values = [found.get(s) for s in node.src]
            found[node] = node.arg if node.op is Ops.CONST else rule and rule(*values)
    return found.get(root)


def _sum(a: Any, b: Any) -> Any:
    return -INF if -INF in (a, b) else None


def _product(a: Any, b: Any) -> Any:
    return 0.0 if a == 0 or b == 0 else None


_CONSTANT: Final[Mapping[Ops, Callable[..., Any]]] = {
    Ops.CAST: lambda a: a,
    Ops.ADD: _sum,
    Ops.SUB: lambda a, b: -INF if a == -INF else None,
    Ops.MUL: _product,
    Ops.DIV: lambda a, b: 0.0 if a == 0 else None,
    Ops.EXP: lambda a: 0.0 if a == -INF else None,
    Ops.EXP2: lambda a: 0.0 if a == -INF else None,
    Ops.WHERE: lambda c, a, b: a if a == b else None,
}
