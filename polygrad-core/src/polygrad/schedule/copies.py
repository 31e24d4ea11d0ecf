"""Copies near the core: a factor that is converted or packed row by row before its product.

A product of halves reads its factors converted: a tile would convert an element again for every
strip of the other factor. Stored as a whole, a batch of small matrices spends as long on writing
and reading the converted ones as on multiplying. So the conversion and the product become a chain
(`chains.py`), whose rows are those of a batch, or of the first factor: what is converted lies in
scratch until its product has read it. The numbers are the same.

A product of few rows does the same with a factor in panels (`packing.py`): the rows of its chain
are the panels, each of which is copied and multiplied while it is near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..uop.linear import mixed, moves_along, ranges_of
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.rewrite import rebuild, substitute
from .chains import Chain, Facts, Rows, Search, facts_of, rows_of
from .items import Item, KernelItem
from .limits import Lanes
from .packing import FEWEST, NEAR
from .sinks import sink_facts

LARGEST: Final = 1 << 17  # elements of a row that is copied at once: 512 KB of float32
# Products of an element from which on its copy is cheap anywhere
USES: Final = {Ops.CAST: 1 << 10, Ops.LOAD: NEAR}


def copied_near(
    items: Sequence[Item], kept: Iterable[UOp], limit: Callable[[str], int], lanes: Lanes
) -> list[Item]:
    """`items` with copies in the kernels of their products; the rest is as in `chained`. Where a
    device has no vectors (`lanes`), only conversions are."""
    search = Search([facts_of(i) for i in items], set(kept), limit)
    for at, facts in enumerate(search.facts):
        if facts.product and facts.plain:
            search.facts[at] = _evened(search, facts)
    for product in [f for f in search.facts if f.product and f.plain]:
        kinds = (Ops.CAST, Ops.LOAD) if lanes(product.kernel.device) else (Ops.CAST,)
        factors = [leaf for leaf in product.loads if _copy(search, leaf, product) in kinds]
        if factors:
            _merge(search, product, factors)
    return search.items()


def _merge(search: Search, product: Facts, factors: Sequence[UOp]) -> None:
    """Make one kernel of a product and the copies that it can hold, if there are any."""
    writers = search.writers[next(iter(product.stores))]
    at = next(i for i in writers if search.facts[i] is product)
    plain = search.facts[at] = facts_of(_unmixed(product.kernel))
    # Over finer ranges a factor may turn out to be read nowhere: all that is left of it is padding.
    chain = _chain(search, at, [leaf for leaf in factors if leaf in plain.loads])
    if chain is None or not search.merge(chain):
        search.facts[at] = product


def _evened(search: Search, product: Facts) -> Facts:
    """A product that goes on to the end of its last panel, where that is not full, and neither
    reads nor writes anything else there."""
    sink = product.kernel.sink
    made = [loads for leaf, loads in product.loads.items() if leaf in search.writers]
    found = mixed([load for loads in made for load in loads], sink_facts(sink).outer, uneven=True)
    if found is None:
        return product
    loop, d = found
    outer = UOp.range(0, -(-loop.src[1].arg // d), loop.arg[0], loop.arg[1])
    inner = UOp.range(0, d, _free(sink), loop.arg[1])
    place = outer * d + inner
    new: dict[UOp, UOp] = {loop: place}
    for node in sink.toposort():
        if node not in new:
            src = tuple(new[s] for s in node.src)
            reads = node.op in (Ops.LOAD, Ops.STORE) and loop in ranges_of(node.src[0])
            new[node] = rebuild(node, _gated(node, src, place < loop.src[1]) if reads else src)
    return facts_of(product.kernel._replace(sink=new[sink]))


def _gated(access: UOp, src: tuple[UOp, ...], inside: UOp) -> tuple[UOp, ...]:
    """The sources of an access that is made inside alone, if its memory does not go on."""
    base, offset = src[0].src
    least, most = offset.lo, offset.hi
    if access.op is Ops.LOAD and least is not None and most is not None:
        if least >= 0 and most < base.arg[1]:
            return src
    at = 1 if access.op is Ops.LOAD else 2
    return (*src[:at], src[at] & inside if len(src) > at else inside)


def _free(sink: UOp) -> int:
    """The number of a new range."""
    return 1 + max(int(r.arg[0]) for r in sink.toposort() if r.op is Ops.RANGE)


def _unmixed(item: KernelItem) -> KernelItem:
    """A kernel whose ranges are those of panels and their columns, where it has both in one."""
    sink, number = item.sink, _free(item.sink)
    while (found := mixed(sink.src, sink_facts(sink).outer)) is not None:
        loop, d = found
        outer = UOp.range(0, loop.src[1].arg // d, loop.arg[0], loop.arg[1])
        inner = UOp.range(0, d, number, loop.arg[1])
        sink, number = substitute(sink, {loop: outer * d + inner}), number + 1
    return item._replace(sink=sink)


def _chain(search: Search, at: int, factors: Sequence[UOp]) -> Chain | None:
    """A product with those of its factors whose copy it can hold: as many elements as possible."""
    chains = [
        _of_rows(search, at, sorted(factors, key=lambda f: f is not leaf), rows)
        for leaf in factors
        for rows in _cuts(search, leaf)
    ]
    return max((c for c in chains if c is not None), key=_elements, default=None)


def _of_rows(search: Search, at: int, factors: Sequence[UOp], rows: Rows) -> Chain | None:
    """The product with the factors that these rows cut, if they are first those of a batch, or
    strips of its columns. The first factor is the one that they are rows of."""
    chain, facts = Chain(rows), search.facts[at]
    for leaf in factors:
        width = size(leaf.shape) // size(rows.lengths)
        joined = search.joined(chain, leaf, width) if width <= LARGEST else None
        (writer,) = search.writers[leaf]
        (copy,) = search.facts[writer].stores[leaf]
        if joined is not None and ranges_of(copy.src[1]).issuperset(joined[writer]):
            search.hold(chain, leaf, width, joined)
    if not chain.inner or not search.legal(chain):
        return None
    sums = [n for n in facts.kernel.sink.toposort() if n.op is Ops.REDUCE]
    read = [n for n in toposort([s.src[0] for s in sums]) if n.op is Ops.LOAD]
    mine, stores = chain.members[at], facts.kernel.sink.src
    kept = [load for leaf in chain.inner for load in facts.loads[leaf]]
    strips = all(moves_along(store, load, mine) for store in stores for load in kept)
    return chain if strips or all(mine[0] in ranges_of(load) for load in read) else None


def _elements(chain: Chain) -> int:
    return sum(size(leaf.shape) for leaf in chain.inner)


def _copy(search: Search, leaf: UOp, product: Facts) -> Ops | None:
    """What writes this factor, a mere conversion (CAST) or copy (LOAD) for this product alone,
    whose use of each element is not that many times; None for anything else."""
    writers = [search.facts[at] for at in search.writers.get(leaf, ())]
    if len(writers) != 1 or not writers[0].plain or len(search.readers[leaf]) != 1:
        return None
    (store, *others) = writers[0].kernel.sink.src
    value = store.src[1]
    read = value.src[0] if value.op is Ops.CAST and value.src[0].dtype.is_narrow else value
    if others or read.op is not Ops.LOAD:
        return None
    ranges = (r for r in product.kernel.sink.toposort() if r.op is Ops.RANGE)
    products = size([r.src[1].arg for r in ranges])
    return value.op if products < USES[value.op] * size(leaf.shape) else None


def _cuts(search: Search, leaf: UOp) -> list[Rows]:
    """The ways to see a copied factor as rows."""
    (access,) = search.facts[search.writers[leaf][0]].stores[leaf]
    found = (rows_of(access, axes) for axes in range(1, len(leaf.shape)))
    return [rows for rows in found if rows is not None and size(rows.lengths) >= FEWEST]
