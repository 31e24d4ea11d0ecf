"""Who still needs the bytes that an assignment is about to write over?

Assignment makes a new version of a buffer. A lazily built reader of the old version must see the
old value, always. The graph being run is ordered by the scheduler; what is left is everything
outside of it, and every such reader holds a reference to some node of this graph: to the old leaf
itself, or to a node computed from it. So one pass counts the references that the graph accounts
for and compares: a node that somebody else holds too is a reader. A reference too many costs a
copy of the buffer, never a wrong number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ..uop.ops import UOp

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
    found = _held_elsewhere(account, ending) | _shared_sources(account)
    return {leaf for i, leaf in enumerate(written) if found >> i & 1}


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


def _held_elsewhere(account: _Account, ending: Collection[UOp]) -> int:
    """Written leaves, as bits, below nodes that have more references than expected."""
    expected, reads, _ = account
    suspects = [n for n in reads if reads[n] and n not in ending]
    found = 0
    for node, n in zip(suspects, _references(suspects), strict=True):
        if n > expected[node]:
            found |= reads[node]
    return found


def _shared_sources(account: _Account) -> int:
    """The same for source tuples that a node outside shares with one inside."""
    _, reads, sources = account
    some = [(t, sharing) for t, sharing in sources.values() if any(reads.get(s) for s in t)]
    tuples = [t for t, _ in some]
    found = 0
    # Beside the list each is held by `sources` and by its pair in `some`.
    for (below, sharing), n in zip(some, _references(tuples), strict=True):
        if n > _LISTED + 2 + _PER_NODE * sharing:
            for s in below:
                found |= reads.get(s, 0)
    return found
