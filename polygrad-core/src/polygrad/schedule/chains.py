"""Chains: kernels that hand each other rows become one kernel, and the rows stay near the core.

A product of two thin matrices is a wide one: the scores of attention have as many columns as there
are keys. What follows takes each row for itself (its largest element, exponentials, their sum), and
when another product has summed over the columns, the wide matrix is gone. Stored, it costs more
time than all the arithmetic on it. So kernels stand one after another inside loops over rows: each
value between them is a LOCAL of one row, written by the effect that every reader follows, in the
form that `codegen/chain_stages.py` takes.

A kernel belongs to a chain when it reads a row only in the step that owns it. The values between
are read by nobody else; whatever else a kernel of the chain stores is an output as before.

Where rows are taken in order, a sum of products over the rows belongs to it too (the gradient of
queries, where rows are keys), or one over each of several equal parts of them: every row adds to
its result, so nothing is computed twice for the sake of another order.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ..dtype import dtypes
from ..uop.linear import linear, ranges_of
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.rewrite import rebuild
from .items import CopyItem, Item, KernelItem
from .limits import Lanes, no_lanes
from .sinks import sink_facts

WIDEST: Final = 1 << 16  # elements of a row that is kept
MOST_BUFFERS: Final = 24
ENOUGH: Final = 32  # sums over rows, each in the order of its rows, that keep all cores busy


class Rows(NamedTuple):
    """How a wide value lies in memory: lengths of the axes over its rows, and elements of a row."""

    lengths: tuple[int, ...]
    width: int

    def strides(self, width: int) -> list[int]:
        """Of each axis, in a value with `width` elements a row."""
        return [width * size(self.lengths[i + 1 :]) for i in range(len(self.lengths))]


class Facts:
    """What a kernel reads and writes, by leaf."""

    __slots__ = ("item", "loads", "plain", "product", "reduced", "stores")

    def __init__(
        self,
        item: Item | None,
        reduced: frozenset[UOp] = frozenset(),
        product: bool = False,
        plain: bool = True,
    ) -> None:
        self.item, self.reduced, self.product, self.plain = item, reduced, product, plain
        self.loads: dict[UOp, list[UOp]] = {}
        self.stores: dict[UOp, list[UOp]] = {}

    @property
    def kernel(self) -> KernelItem:
        assert isinstance(self.item, KernelItem)
        return self.item

    @property
    def touched(self) -> set[UOp]:
        return {*self.loads, *self.stores}


# The place of a kernel that became part of a chain
NOTHING: Final = Facts(None, plain=False)


def facts_of(item: Item) -> Facts:
    """The facts of any item; `plain` where it may be part of a chain."""
    if isinstance(item, CopyItem):
        copy = Facts(item, plain=False)
        copy.loads[item.src], copy.stores[item.dst] = [], []
        return copy
    kernel = sink_facts(item.sink)
    plain = kernel.plain and not item.values and item.sink.arg is None
    found = Facts(item, reduced=kernel.reduced, product=kernel.product, plain=plain)
    for slot, access in kernel.loads:
        found.loads.setdefault(item.buffers[slot], []).append(access)
    for slot, access in kernel.stores:
        found.stores.setdefault(item.buffers[slot], []).append(access)
    if not plain:  # an ordered kernel reads what it writes through its effects
        for leaf in item.buffers:
            found.loads.setdefault(leaf, [])
    return found


# ---- rows


def rows_of(store: UOp, axes: int = 1) -> Rows | None:
    """The rows of what a store writes: its last axes, of which there are so many, are one row."""
    const, terms = linear(store.src[0].src[1])
    if const or len(store.src) > 2 or any(a.op is not Ops.RANGE for a, _ in terms):
        return None
    terms = tuple(sorted(terms, key=lambda t: -t[1]))
    lengths = [int(r.src[1].arg) for r, _ in terms]
    dense = [size(lengths[i + 1 :]) for i in range(len(lengths))]
    if len(terms) <= axes or [c for _, c in terms] != dense:
        return None
    return Rows(tuple(lengths[:-axes]), size(lengths[-axes:]))


def row_ranges(
    accesses: Sequence[UOp], rows: Rows, width: int, reduced: Iterable[UOp]
) -> tuple[UOp, ...] | None:
    """The ranges that stand for the axes of rows in all these accesses; None where one leaves its
    row."""
    found: set[tuple[UOp, ...]] = set()
    for access in accesses:
        if len(access.src) > (1 if access.op is Ops.LOAD else 2):
            return None
        offset = access.src[0].src[1]
        by_step = {c: a for a, c in reversed(linear(offset)[1]) if a.op is Ops.RANGE}
        mine = [by_step.get(s) for s in rows.strides(width)]
        for r, n in zip(mine, rows.lengths, strict=True):
            if r is None or r in reduced or r.src[1].arg != n:
                return None
        ranges = tuple(r for r in mine if r is not None)
        rest = within(offset, ranges, rows.strides(width))
        if rest.lo is None or rest.hi is None or rest.lo < 0 or rest.hi >= width:
            return None
        found.add(ranges)
    return found.pop() if len(found) == 1 else None


def summed_ranges(facts: Facts, leaf: UOp, rows: Rows, width: int) -> tuple[UOp, ...] | None:
    """`row_ranges` of a kernel that gives nothing but one sum over the rows of the last axis, or
    over each of several equal parts of them: that axis has two ranges then. None for others."""
    (store, *others) = facts.kernel.sink.src
    total = store.src[1]
    if others or len(store.src) > 2 or total.op is not Ops.REDUCE or total.arg is not Ops.ADD:
        return None
    row, *more = total.src[1:]
    parts, rest = divmod(rows.lengths[-1], int(row.src[1].arg))
    if more or rest or not facts.product or size(rows.lengths[:-1]) * parts < ENOUGH:
        return None
    cut = Rows((*rows.lengths[:-1], *[parts][: parts > 1], rows.lengths[-1] // parts), width)
    return row_ranges(facts.loads[leaf], cut, width, facts.reduced - {row})


def within(offset: UOp, ranges: Sequence[UOp], strides: Sequence[int]) -> UOp:
    """The place within a row."""
    for r, step in zip(ranges, strides, strict=True):
        offset = offset - r * step
    return offset


# ---- which kernels


class Chain:
    """Kernels by position with the ranges of their rows, what they write and read, and of that the
    values between, with their widths, and those that can never be."""

    __slots__ = ("inner", "members", "outside", "read", "rows", "written")

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.members: dict[int, tuple[UOp, ...]] = {}
        self.written: set[UOp] = set()
        self.read: set[UOp] = set()
        self.inner: dict[UOp, int] = {}
        self.outside: set[UOp] = set()


class Search:
    """Who reads and writes what, among all kernels. Devices with vectors take rows in order."""

    def __init__(
        self,
        facts: Sequence[Facts],
        kept: set[UOp],
        limit: Callable[[str], int],
        lanes: Lanes = no_lanes,
    ) -> None:
        self.facts, self.kept, self.limit, self.lanes = list(facts), kept, limit, lanes
        self.readers: dict[UOp, list[int]] = {}
        self.writers: dict[UOp, list[int]] = {}
        for at, one in enumerate(facts):
            self._know(at, one)

    def _know(self, at: int, facts: Facts) -> None:
        """Note what the kernel at this place reads and writes."""
        for table, leaves in ((self.readers, facts.loads), (self.writers, facts.stores)):
            for leaf in leaves:
                insort(table.setdefault(leaf, []), at)

    def _forget(self, at: int, facts: Facts) -> None:
        for table, leaves in ((self.readers, facts.loads), (self.writers, facts.stores)):
            for leaf in leaves:
                table[leaf].remove(at)

    def merge(self, chain: Chain) -> bool:
        """Put the chain as one kernel in the place of its members, if that changes nothing that
        somebody reads. No other kernel's place is beyond the chain's: it costs what it is long."""
        made = placed(self, chain)
        if made is None:
            return False
        for at, new in enumerate(made, min(chain.members)):
            self._forget(at, self.facts[at])
            self.facts[at] = new
            self._know(at, new)
        return True

    def items(self) -> list[Item]:
        """What all kernels are now, in order."""
        return [f.item for f in self.facts if f.item is not None]

    def chain(self, first: int, leaf: UOp) -> Chain | None:
        """The chain around a wide value; None if there is none or it does not pay."""
        facts = self.facts[first]
        rows = rows_of(facts.stores[leaf][0]) if len(facts.stores[leaf]) == 1 else None
        if rows is None or rows.width > WIDEST or not self._pays(facts, leaf):
            return None
        chain = Chain(rows)
        most = self._most_buffers({facts.kernel.device})
        waiting = [(leaf, rows.width)]
        while waiting:
            value, width = waiting.pop()
            if value in chain.inner or value in chain.outside:
                continue
            joined = self.joined(chain, value, width)
            if joined is None:
                chain.outside.add(value)
                joined = {}
            else:
                self.hold(chain, value, width, joined)
            if leaf in chain.outside or self._doomed(chain, most):
                return None
            waiting += [(w, rows.width) for at in joined for w in self._wide_beside(chain, at)]
        self._keep_numbers(chain)
        products = sum(self.facts[at].product for at in chain.members)
        return chain if products > 1 and self.legal(chain) else None

    def _pays(self, facts: Facts, leaf: UOp) -> bool:
        """Does this product give more than any of its factors has? As much is enough where rows of
        it are reduced: the scores of as many positions as a head is wide."""
        if not facts.product:
            return False
        readers = [self.facts[at] for at in self.readers.get(leaf, ())]
        more = 0 if any(f.reduced and not f.product for f in readers) else 1
        return all(size(leaf.shape) >= size(r.shape) + more for r in facts.loads)

    def joined(self, chain: Chain, value: UOp, width: int) -> dict[int, tuple[UOp, ...]] | None:
        """Writer and readers of a value between kernels with their rows; None where it cannot be
        one."""
        if not self._between(value):
            return None
        writers, readers = self.writers[value], self.readers[value]
        found: dict[int, tuple[UOp, ...]] = {}
        for at in (*writers, *readers):
            facts = self.facts[at]
            if not facts.plain:
                return None
            table = facts.stores if at in writers else facts.loads
            mine = row_ranges(table[value], chain.rows, width, facts.reduced)
            if mine is None and at in readers and self.lanes(facts.kernel.device):
                mine = summed_ranges(facts, value, chain.rows, width)
            if mine is None or chain.members.get(at, mine) != mine:
                return None
            own = set(mine) - facts.reduced
            if any(not own <= ranges_of(s.src[0]) for s in facts.kernel.sink.src):
                return None
            found[at] = mine
        return found if len(self.summed(chain.members | found)) <= 1 else None

    def hold(
        self, chain: Chain, value: UOp, width: int, joined: Mapping[int, tuple[UOp, ...]]
    ) -> None:
        """Make a value one between kernels of a chain, to which its writer and readers belong."""
        chain.inner[value] = width
        for at in joined.keys() - chain.members.keys():
            facts = self.facts[at]
            chain.written.update(facts.stores)
            chain.read.update(facts.loads)
            chain.outside.update(leaf for leaf in facts.touched if not self._between(leaf))
        chain.members.update(joined)

    def _doomed(self, chain: Chain, most: int) -> bool:
        """Whether no chain of these members and others is legal. Asked as it grows: in a network
        of many layers each layer's chain would go through all of them to find out."""
        written = chain.outside & chain.written
        return len(chain.outside) > most or not written.isdisjoint(chain.read)

    def _between(self, value: UOp) -> bool:
        """Whether one kernel hands a value to others, and nobody else has a use for it."""
        writers, readers = self.writers.get(value, []), self.readers.get(value, [])
        alone = len(writers) == 1 and value not in self.kept
        return alone and bool(readers) and writers[0] not in readers

    def summed(self, members: Mapping[int, tuple[UOp, ...]]) -> set[int]:
        """Over how many rows members sum."""
        sums = (r[-1] for at, r in members.items() if r[-1] in self.facts[at].reduced)
        return {int(r.src[1].arg) for r in sums}

    def _wide_beside(self, chain: Chain, at: int) -> list[UOp]:
        """Other values of a new member that are as wide."""
        facts = self.facts[at]
        wide = size(chain.rows.lengths) * chain.rows.width
        read = (leaf for leaf in facts.loads if leaf in self.writers)
        return [leaf for leaf in (*facts.stores, *read) if size(leaf.shape) == wide]

    def _keep_numbers(self, chain: Chain) -> None:
        """A number for each row, that only members read, stays inside too."""
        for at in tuple(chain.members):
            for leaf in self.facts[at].stores:
                readers = self.readers.get(leaf, [])
                if size(leaf.shape) == size(chain.rows.lengths) and chain.members.keys() >= {
                    *readers
                }:
                    if leaf not in chain.inner and self.joined(chain, leaf, 1) is not None:
                        chain.inner[leaf] = 1

    def legal(self, chain: Chain) -> bool:
        """May a kernel have this many buffers, and does the chain write nothing that it reads?"""
        written, read = chain.written - chain.inner.keys(), chain.read - chain.inner.keys()
        devices = {self.facts[at].kernel.device for at in chain.members}
        most = self._most_buffers(devices)
        if written & read or len(devices) > 1 or len(written | read) > most:
            return False
        return all(len(self.writers[leaf]) == 1 for leaf in written)

    def _most_buffers(self, devices: Iterable[str]) -> int:
        return min(MOST_BUFFERS, *map(self.limit, devices))


def chained(
    items: Sequence[Item],
    kept: Iterable[UOp],
    limit: Callable[[str], int],
    lanes: Lanes = no_lanes,
) -> list[Item]:
    """`items` with chains merged; `kept` are the buffers that somebody reads afterwards, `limit`
    gives the number of buffers that a kernel of a device may have, `lanes` the floats of a
    vector."""
    search = Search([facts_of(i) for i in items], set(kept), limit, lanes)
    seen: set[UOp] = set()
    at = 0
    while at < len(search.facts):
        at = _chained(search, at, seen)
    return search.items()


def _chained(search: Search, at: int, seen: set[UOp]) -> int:
    """Merge a chain around a value that the kernel at this place writes; where to go on."""
    facts = search.facts[at]
    for leaf in facts.stores if facts.plain and facts.product else ():
        if leaf not in seen:
            seen.add(leaf)
            chain = search.chain(at, leaf)
            if chain is not None and search.merge(chain):
                return min(chain.members)  # kernels between have other places now
    return at + 1


def placed(search: Search, chain: Chain) -> list[Facts] | None:
    """The kernels from a chain's first to its last with the chain as one: what needs it after it,
    everything else before, and NOTHING where there are fewer now. None where that would change what
    somebody reads."""
    members, facts = sorted(chain.members), search.facts
    first, last = members[0], members[-1]
    tainted = {leaf for at in members for leaf in facts[at].stores}
    passed: set[UOp] = set()  # what members and kernels after them read or write
    before: list[int] = []
    after: list[int] = []
    for at in range(first, last + 1):
        mine = facts[at]
        if at in chain.members:
            passed |= mine.touched
        elif tainted.isdisjoint(mine.touched):
            if not passed.isdisjoint(mine.stores):
                return None
            before.append(at)
        else:
            if any(_clash(mine, facts[m]) for m in members if m > at):
                return None
            after.append(at)
            tainted.update(mine.stores)
            passed |= mine.touched
    part = next(iter(search.summed(chain.members)), chain.rows.lengths[-1])
    writer = _Writer(chain, part)
    merged = _merged([facts[at] for at in members], [chain.members[at] for at in members], writer)
    empty = [NOTHING] * (len(members) - 1)
    return [*(facts[i] for i in before), facts_of(merged), *(facts[i] for i in after), *empty]


def _clash(a: Facts, b: Facts) -> bool:
    """Does one write what the other reads or writes?"""
    return not (a.stores.keys().isdisjoint(b.touched) and b.stores.keys().isdisjoint(a.touched))


# ---- the kernel


def _merged(facts: Sequence[Facts], rows: Sequence[tuple[UOp, ...]], writer: _Writer) -> KernelItem:
    stores = [s for f, r in zip(facts, rows, strict=True) for s in writer.member(f, r)]
    sink = UOp(Ops.SINK, dtypes.void, tuple(stores))
    variables = tuple(dict.fromkeys(v for f in facts for v in f.kernel.variables))
    return KernelItem(sink, tuple(writer.buffers), facts[0].kernel.device, variables)


class _Writer:
    """Writes the members of a chain into one kernel, with ranges of their own inside the rows'.
    The last axis of rows has two ranges where it is summed over in parts of `part` rows."""

    def __init__(self, chain: Chain, part: int) -> None:
        self.chain = chain
        *outer, last = chain.rows.lengths
        lengths = (*outer, last) if part == last else (*outer, last // part, part)
        self.rows = tuple(UOp.range(0, n, i, "loop") for i, n in enumerate(lengths))
        self.places = self.rows  # of the axes
        if part != last:
            self.places = (*self.rows[:-2], self.rows[-2] * part + self.rows[-1])
        self.number = len(lengths)
        self.buffers: dict[UOp, int] = {}
        self.idents: dict[UOp, int] = {}  # numbers of LOCALs
        self.kept: dict[UOp, UOp] = {}  # value between kernels -> its LOCAL after the store

    def member(self, facts: Facts, rows: Sequence[UOp]) -> list[UOp]:
        """The stores to outputs of one kernel; those to values between go into `kept`."""
        item = facts.kernel
        inside = rows[-1] not in facts.reduced
        new: dict[UOp, UOp] = dict(zip(rows, self.places if inside else self.rows, strict=True))
        loops = [n for n in item.sink.toposort() if n.op is Ops.RANGE and n not in new]
        for loop in sorted(loops, key=lambda r: int(r.arg[0])):
            new[loop] = UOp.range(loop.src[0], loop.src[1], self.number, loop.arg[1])
            self.number += 1
        stores: list[UOp] = []
        for node in toposort(item.sink.src):
            if node in new:
                continue
            src = tuple(new[s] for s in node.src)
            if node.op is Ops.PARAM:
                new[node] = self._param(node, item.buffers[node.arg[0]])
            elif node.op is Ops.INDEX:
                new[node] = self._index(node, item, src)
            else:
                new[node] = rebuild(node, src)
            if node.op is Ops.STORE:
                leaf = item.buffers[node.src[0].src[0].arg[0]]
                if leaf in self.chain.inner:
                    self._keep(leaf, new[node])
                else:
                    stores.append(new[node])
        return stores

    def _param(self, node: UOp, leaf: UOp) -> UOp:
        if leaf in self.kept:
            return self.kept[leaf]
        if leaf in self.chain.inner:  # written here
            ident = self.idents.setdefault(leaf, len(self.idents))
            return UOp(Ops.LOCAL, node.dtype, (), (self.chain.inner[leaf], "scratch", ident))
        slot = self.buffers.setdefault(leaf, len(self.buffers))
        return UOp(Ops.PARAM, node.dtype, (), (slot, node.arg[1]))

    def _index(self, node: UOp, item: KernelItem, src: tuple[UOp, ...]) -> UOp:
        leaf = item.buffers[node.src[0].arg[0]]
        base, offset = src
        if leaf in self.chain.inner:
            strides = self.chain.rows.strides(self.chain.inner[leaf])
            offset = within(offset, self.places, strides)
        return UOp(Ops.INDEX, node.dtype, (base, offset))

    def _keep(self, leaf: UOp, store: UOp) -> None:
        loops = sorted(ranges_of(store) - set(self.rows), key=lambda r: int(r.arg[0]))
        done = store.end(*loops) if loops else store
        self.kept[leaf] = store.src[0].src[0].after(done)
