"""The stages of a chain: its stores in order, as kernels that share nothing but rows.

Floor: codegen, called by `chain.py`. Comes in: the SINK that `schedule/chains.py` makes, whose
stores into LOCALs are followed by what reads them. Goes out: a list of stages, each with ranges of
its own besides those over rows, the order being that of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..uop.linear import linear, ranges_of
from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import rebuild
from .kernel import substitute
from .recipes.common import cost
from .recipes.contraction import product_of
from .recipes.reduction import DEAR

_CLOSED: Final = frozenset({Ops.REDUCE, Ops.INDEX})
_NO_ROW: Final = -1  # the number of a range that nothing has


@dataclass(frozen=True, slots=True)
class Stage:
    """Stores that run together, their memory without the order."""

    stores: tuple[UOp, ...]
    column: UOp | None = None  # the range over a row of the LOCAL that is written, or summed up
    sums: UOp | None = None  # the range over rows that an output is a sum over

    @property
    def local(self) -> UOp | None:
        base = self.stores[0].src[0].src[0]
        return base if base.op is Ops.LOCAL else None


def is_chain(sink: UOp) -> bool:
    """Is this a kernel over rows that stages leave to each other?"""
    return any(n.op is Ops.LOCAL and n.arg[1] == "scratch" for n in sink.toposort())


def stages_of(sink: UOp) -> list[Stage]:
    """The stages of a chain in order, each with ranges of its own besides those over rows."""
    plain: dict[UOp, UOp] = {}
    kept: list[UOp] = []
    for node in sink.toposort():
        src = tuple(plain[s] for s in node.src)
        plain[node] = src[0] if node.op in (Ops.AFTER, Ops.END) else rebuild(node, src)
        if node.op is Ops.STORE and node not in sink.src:
            kept.append(plain[node])
    rows, number = rows_of(sink), 1 + max(numbers_of(sink))
    # What is reduced to a number for each row and kept anyway is not reduced again for an output.
    reduced = [s for s in kept if reductions_of((s,)) and ranges_of(s) <= frozenset(rows)]
    known = {s.src[1]: s.src[0].load() for s in reduced}
    outputs: dict[frozenset[UOp], list[UOp]] = {}
    for store in substitute([plain[s] for s in sink.src], known):
        outputs.setdefault(ranges_of(store), []).append(store)
    stages: list[Stage] = []
    for stores in (*([s] for s in _apart(kept)), *outputs.values()):
        loops = [n for n in toposort(stores) if n.op is Ops.RANGE and n not in rows]
        fresh = {r: UOp.range(r.src[0], r.src[1], number + r.arg[0], r.arg[1]) for r in loops}
        number += 1 + max((r.arg[0] for r in loops), default=0)
        moved = tuple(substitute(stores, fresh))
        stages.append(_stage(moved, rows[-1]))
    return stages


def _stage(stores: tuple[UOp, ...], row: UOp) -> Stage:
    if not any(row in n.src[1:] for n in reductions_of(stores)):
        return Stage(stores, _column(stores[0]))
    inside = toposort(stores)
    read = (_walked(n) for n in inside if n.op is Ops.LOAD and n.src[0].src[0].op is Ops.LOCAL)
    return Stage(stores, next((r for r in read if r in ranges_of(stores[0])), None), row)


def _apart(kept: Sequence[UOp]) -> list[UOp]:
    """What is dear beside a product as a store before it: in the product's tile each of its vectors
    would wait for the one before. A value that is kept anyway is computed once."""
    number = 1 + max(s.src[0].src[0].arg[2] for s in kept)
    out: list[UOp] = []
    for store in kept:
        column = _column(store)
        for value in [] if column is None else _dear(store.src[1], column):
            assert column is not None
            twin = next((s for s in kept if s.src[1] is value and _column(s) is column), None)
            if twin is None:
                arg = (store.src[0].src[0].arg[0], "scratch", number)
                place = UOp(Ops.INDEX, value.dtype, (UOp(Ops.LOCAL, value.dtype, (), arg), column))
                twin, number = place.store(value), number + 1
            out += [] if twin in out else [twin]
            (store,) = substitute((store,), {value: twin.src[0].load()})
        out += [] if store in out else [store]
    return out


def _dear(root: UOp, column: UOp) -> list[UOp]:
    """The largest dear parts of an expression along a column that are free of its products; none
    if it has no product."""
    products = {n for n in reductions_of((root,)) if product_of(n) is not None}
    found: list[UOp] = []
    waiting = [root] if products else []
    while waiting:
        node = waiting.pop()
        if node.op in _CLOSED or column not in ranges_of(node) or cost(node) < DEAR:
            continue
        if _has(node, products):
            waiting += node.src
        elif node not in found:
            found.append(node)
    return found


def _has(root: UOp, wanted: set[UOp]) -> bool:
    return any(n in wanted for n in root.toposort())


def numbers_of(sink: UOp) -> list[int]:
    return [n.arg[0] for n in sink.toposort() if n.op is Ops.RANGE]


def _column(store: UOp) -> UOp | None:
    return _walked(store) if store.src[0].src[0].op is Ops.LOCAL else None


def _walked(access: UOp) -> UOp | None:
    """The range that moves an access through a row, element by element."""
    _, terms = linear(access.src[0].src[1])
    return terms[0][0] if len(terms) == 1 and terms[0][1] == 1 else None


def rows_of(sink: UOp) -> list[UOp]:
    """The ranges over rows, outermost first: those that effects leave open. Where what is kept is
    the same for all rows (the queries are constants), there is one."""
    effects = [n for n in sink.toposort() if n.op is Ops.AFTER]
    loops = frozenset[UOp]().union(*(ranges_of(n) for n in effects))
    return sorted(loops, key=lambda r: int(r.arg[0])) or [UOp.range(0, 1, _NO_ROW)]


def reductions_of(stores: Sequence[UOp]) -> list[UOp]:
    return [n for n in toposort(tuple(stores)) if n.op is Ops.REDUCE]
