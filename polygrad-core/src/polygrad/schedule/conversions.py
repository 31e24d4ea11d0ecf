"""Conversions near the core: a factor of 16 bits is converted row by row before its product.

A product of halves reads its factors converted: a tile would convert an element again for every
strip of the other factor. Stored as a whole, a batch of small matrices spends as long on writing
and reading the converted ones as on multiplying. So the conversion and the product become a chain
(`chains.py`), whose rows are those of a batch, or of the first factor: what is converted lies in
scratch until its product has read it. The numbers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..uop.linear import ranges_of
from ..uop.ops import Ops, UOp, size, toposort
from .chains import Chain, Rows, Search, facts_of, placed, rows_of
from .items import Item, KernelItem

LARGEST: Final = 1 << 16  # elements of a row that is converted at once: 256 KB of float32
USES: Final = 1 << 10  # products of an element from which on its conversion is cheap anywhere
FEWEST: Final = 16  # rows, so that every core has some


def converted_near(
    items: Sequence[Item], kept: Iterable[UOp], limit: Callable[[str], int]
) -> list[Item]:
    """`items` with conversions in the kernels of their products; the rest is as in `chained`."""
    if not any(_has_halves(item) for item in items):
        return list(items)
    facts, wanted = [facts_of(i) for i in items], set(kept)
    for item in [f.item for f in facts if f.product and f.plain]:
        search = Search(facts, wanted, limit)
        at = next(i for i, f in enumerate(facts) if f.item is item)
        chain = _chain(search, at)
        made = None if chain is None else placed(search, chain)
        facts = facts if made is None else made
    return [f.item for f in facts]


def _has_halves(item: Item) -> bool:
    return isinstance(item, KernelItem) and any(b.dtype.is_narrow for b in item.buffers)


def _chain(search: Search, at: int) -> Chain | None:
    """A product with those of its factors whose conversion it can hold: as many elements as
    possible."""
    product = search.facts[at].kernel.sink
    factors = [leaf for leaf in search.facts[at].loads if _converts(search, leaf, product)]
    cuts = dict.fromkeys(rows for leaf in factors for rows in _cuts(search, leaf))
    chains = [_of_rows(search, at, factors, rows) for rows in cuts]
    return max((c for c in chains if c is not None), key=_elements, default=None)


def _of_rows(search: Search, at: int, factors: Sequence[UOp], rows: Rows) -> Chain | None:
    """The product with the factors that these rows cut, if they are first those of a batch."""
    chain = Chain(rows)
    for leaf in factors:
        width = size(leaf.shape) // size(rows.lengths)
        joined = search.joined(chain, leaf, width) if width <= LARGEST else None
        if joined is not None:
            chain.inner[leaf] = width
            chain.members.update(joined)
    if not chain.inner or not search.legal(chain):
        return None
    sums = [n for n in search.facts[at].kernel.sink.toposort() if n.op is Ops.REDUCE]
    read = [n for n in toposort([s.src[0] for s in sums]) if n.op is Ops.LOAD]
    return chain if all(chain.members[at][0] in ranges_of(load) for load in read) else None


def _elements(chain: Chain) -> int:
    return sum(size(leaf.shape) for leaf in chain.inner)


def _converts(search: Search, leaf: UOp, product: UOp) -> bool:
    """Is this factor written by a mere conversion, for this product alone, whose use of each
    element is not that many times?"""
    writers = [search.facts[at] for at in search.writers.get(leaf, ())]
    if len(writers) != 1 or not writers[0].plain or len(search.readers[leaf]) != 1:
        return False
    (store, *others) = writers[0].kernel.sink.src
    cast = store.src[1]
    if others or cast.op is not Ops.CAST or cast.src[0].op is not Ops.LOAD:
        return False
    products = size([r.src[1].arg for r in product.toposort() if r.op is Ops.RANGE])
    return cast.src[0].dtype.is_narrow and products < USES * size(leaf.shape)


def _cuts(search: Search, leaf: UOp) -> list[Rows]:
    """The ways to see a converted factor as rows."""
    (access,) = search.facts[search.writers[leaf][0]].stores[leaf]
    found = (rows_of(access, axes) for axes in range(1, len(leaf.shape)))
    return [rows for rows in found if rows is not None and size(rows.lengths) >= FEWEST]
