"""Who still needs the bytes that an assignment is about to write over?

Assignment makes a new version of a buffer. A lazily built reader of the old version must see the
old value, always. The graph being run is ordered by the scheduler; what is left is everything
outside of it, and every such reader holds a reference to some node of this graph: to the old leaf
itself, or to a node computed from it. So one pass counts the references that the graph accounts
for and compares: a node that somebody else holds too is a reader. A reference too many costs a
copy of the buffer, never a wrong number.

The same count tells which versions between two writes nobody will ask for. A loop that writes a
thousand times leaves a thousand versions and needs the last: the others are `passing`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ..uop.ops import Ops, UOp

_count: Callable[[Any], int] | None = getattr(sys, "getrefcount", None)


def _references(objects: list[Any]) -> list[int]:
    assert _count is not None
    return [_count(o) for o in objects]


def _held_by_a_list() -> int:
    """What `_references` says of an object that only the list holds (Pythons differ)."""
    return 0 if _count is None else _references([object()])[0]


_LISTED: Final = _held_by_a_list()
_PER_NODE: Final = 2  # a source tuple is held by its node and by that node's key in the node table
_TABLES: Final = 2  # `expected` and `reads` hold each node


class Holder(Protocol):
    """Who holds the current version of a state leaf: a Tensor."""

    uop: UOp

    def _replace(self, uop: UOp) -> None: ...


class _Alone:
    """The only holder of an object."""

    __slots__ = ("uop",)

    def __init__(self) -> None:
        self.uop: Any = object()


def _held(holders: Sequence[Any]) -> list[int]:
    assert _count is not None
    return [_count(h.uop) for h in holders]


_ALONE: Final = 0 if _count is None else _held([_Alone()])[0]


def have_readers(holders: Sequence[Holder]) -> list[bool]:
    """Whether anything but its holder holds a leaf: nodes computed from it, other tensors."""
    if _count is None:
        return [True] * len(holders)
    return [n > _ALONE for n in _held(holders)]


class _Account(NamedTuple):
    expected: dict[UOp, int]  # references from inside the graph
    reads: dict[UOp, int]  # written leaves below a node, as bits
    sources: dict[
        int, tuple[tuple[UOp, ...], int]
    ]  # source tuples by id, and nodes that share each


def with_readers(
    written: Sequence[UOp],
    nodes: list[UOp],
    settled: Mapping[UOp, UOp],
    ending: Collection[UOp],
    holders: Sequence[Iterable[UOp]] = (),
) -> set[UOp]:
    """Those leaves of `written` that something outside the graph `nodes` (sources first) still
    reads.

    `settled` maps realised nodes to their leaves; `ending` are nodes that stand for their own
    result after the run, so whoever holds them reads no old value; `holders` are the caller's own
    collections of nodes.
    """
    if _count is None:
        return set(written)
    account = _accounted(written, nodes, settled, ending, holders)
    reads, found = account.reads, 0
    for node in _held_elsewhere(account, [n for n in reads if reads[n] and n not in ending]):
        found |= reads[node]
    for below in _shared_sources(account, lambda s: reads.get(s, 0)):
        for s in below:
            found |= reads.get(s, 0)
    return {leaf for i, leaf in enumerate(written) if found >> i & 1}


def passing(
    nodes: list[UOp],
    settled: Mapping[UOp, UOp],
    ending: Collection[UOp],
    holders: Sequence[Iterable[UOp]] = (),
) -> tuple[int, ...]:
    """Places in `nodes` of the versions that are written over in this graph and that nothing
    outside of it needs, directly or for what it was computed from. (Places, as a reference to a
    node would count.) The arguments are those of `with_readers`.

    A version of constants alone is none: it says which device they are on.
    """
    over = _written_over(nodes, settled, ending)
    if _count is None or not over:
        return ()
    account = _accounted((), nodes, settled, ending, holders)
    needed = {*_held_elsewhere(account, list(account.reads))}
    needed.update(*_shared_sources(account, lambda s: True))
    for node in reversed(nodes):
        if node in needed and node.op is not Ops.AFTER and node not in settled:
            if node not in ending:
                needed.update(node.src)
    return tuple([i for i in over if nodes[i] not in needed])


def unshared(nodes: list[UOp], holders: Sequence[Holder]) -> bool:
    """Whether nothing outside the graph `nodes` and beside `holders` holds any of it, but integers
    in memory and what constants alone make."""
    if _count is None:
        return False
    suspects = _with_storage(nodes)
    account = _accounted((), nodes, {}, (), ((h.uop for h in holders),))
    return not (_held_elsewhere(account, suspects) or _shared_sources(account, lambda s: True))


def _with_storage(nodes: list[UOp]) -> list[UOp]:
    """Those of `nodes` that are not shared with the whole process, less integers in memory."""
    own: set[UOp] = set()
    for node in nodes:
        if node.op in (Ops.BUFFER, Ops.UNIQUE) or any(s in own for s in node.src):
            own.add(node)
    return [n for n in nodes if n in own and (n.op is not Ops.BUFFER or n.dtype.is_float)]


def _written_over(
    nodes: list[UOp], settled: Mapping[UOp, UOp], ending: Collection[UOp]
) -> list[int]:
    """Places of versions that have a later one, and a value that is on a device."""
    places: dict[UOp, int] = {}
    placed: set[UOp] = set()
    over = []
    for i, node in enumerate(nodes):
        known = node in settled
        if known or node.op in (Ops.BUFFER, Ops.COPY) or any(s in placed for s in node.src):
            placed.add(node)
        if known or node.op is not Ops.AFTER:
            continue
        if node not in ending and node.src[1].src[-1] in placed:
            places[node] = i
        at = places.pop(node.src[0], None)
        if at is not None:
            over.append(at)
    return over


def _accounted(
    written: Sequence[UOp],
    nodes: list[UOp],
    settled: Mapping[UOp, UOp],
    ending: Collection[UOp],
    holders: Sequence[Iterable[UOp]],
) -> _Account:
    # A realised node stands in the graph for its leaf, which need not be there itself.
    expected = dict.fromkeys([*settled.values(), *nodes], _LISTED + _TABLES)
    for holder in (written, nodes, *holders):
        for node in holder:
            expected[node] += 1
    bits = {leaf: 1 << i for i, leaf in enumerate(written)}
    reads: dict[UOp, int] = {}
    sources: dict[int, tuple[tuple[UOp, ...], int]] = {}
    for node in list(expected):
        leaf = settled.get(node)
        below = node.src if leaf is None else (leaf,)
        if leaf is not None:
            expected[node] += 1  # the mapping's key
            expected[leaf] += 2  # its value, and the runtime's own table
        elif below:
            _, sharing = sources.get(id(below), (below, 0))
            sources[id(below)] = (below, sharing + 1)
            if not sharing:
                for s in below:
                    expected[s] += 1
        mask = bits.get(node, 0)
        if node not in ending:
            for s in below:
                mask |= reads.get(s, 0)
        reads[node] = mask
    return _Account(expected, reads, sources)


def _held_elsewhere(account: _Account, suspects: list[UOp]) -> list[UOp]:
    """Those of `suspects` that have more references than expected."""
    expected = account.expected
    counted = zip(suspects, _references(suspects), strict=True)
    return [node for node, n in counted if n > expected[node]]


def _shared_sources(account: _Account, counts: Callable[[UOp], object]) -> list[tuple[UOp, ...]]:
    """Source tuples, with a node that `counts`, that a node outside shares with one inside."""
    some = [(t, sharing) for t, sharing in account.sources.values() if any(map(counts, t))]
    tuples = [t for t, _ in some]
    # Beside the list each is held by `sources` and by its pair in `some`.
    counted = zip(some, _references(tuples), strict=True)
    return [t for (t, sharing), n in counted if n > _LISTED + 2 + _PER_NODE * sharing]
