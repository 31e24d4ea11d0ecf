"""The graph that a recording is planned from: values without assignments, and what state becomes.

Nodes come in and go out; nothing is known of Buffers here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import over


class Resolved(NamedTuple):
    """A graph read as if it had no assignments, and no node made anew for that: `ends` has the node
    that stands for each."""

    roots: list[UOp]
    ends: Mapping[UOp, UOp]
    given: set[UOp]  # nodes that stay as they are
    order: list[UOp]  # what the roots are computed from, sources first

    def rebuilt(self, node: UOp, new: Mapping[UOp, UOp]) -> UOp:
        """A node of the graph over what became of its sources."""
        if node in self.given:
            return node
        return over(node, tuple([new[self.ends[s]] for s in node.src]))


def resolved(
    roots: Sequence[UOp], known: Callable[[UOp], UOp | None], gradients: bool = True
) -> Resolved:
    """Read an AFTER as the value stored. `known` says what stands for a node whose graph plays no
    part, such as the leaf of a realised one. Where no `gradients` are asked for, functions are
    their values too."""
    ends: dict[UOp, UOp] = {}
    given: set[UOp] = set()

    def enter(node: UOp) -> bool:
        end = known(node)
        if end is None:
            return True
        ends[node] = end
        given.add(end)
        return False

    for node in toposort(roots, enter):
        if node in ends or (not node.src and not enter(node)):
            continue
        if node.op is Ops.AFTER:
            ends[node] = ends[node.src[1].src[1]]
        elif node.op is Ops.FUNCTION and not gradients:
            ends[node] = ends[node.src[node.arg[1]]]
        else:
            ends[node] = node
    return _in_use([ends[r] for r in roots], ends, given)


def _in_use(roots: list[UOp], ends: Mapping[UOp, UOp], given: set[UOp]) -> Resolved:
    used = set(roots)
    order = []
    for node in reversed(dict.fromkeys(ends.values())):
        if node in used:
            order.append(node)
            if node not in given:
                used.update([ends[s] for s in node.src])
    return Resolved(roots, ends, given, order[::-1])


def functional(
    roots: Sequence[UOp], known: Callable[[UOp], UOp | None], gradients: bool = True
) -> list[UOp]:
    """The graph without assignments; see `resolved`."""
    graph = resolved(roots, known, gradients)
    new: dict[UOp, UOp] = {}
    for node in graph.order:
        new[node] = graph.rebuilt(node, new)
    return [new[r] for r in graph.roots]


def assigned(
    graph: Resolved, count: int, leaves: Sequence[UOp], apart: Collection[UOp] = ()
) -> list[UOp]:
    """`count` results, and the assignments of the other roots to `leaves`.

    Where a new value is the old one but for parts, everybody who reads it reads it in memory, when
    the parts have been written; else each reader would choose between old and new at every element.
    Not so for `apart`.
    """
    ends, wanted, values = graph.ends, set(graph.roots), graph.roots[count:]
    written: dict[UOp, UOp] = {}
    for leaf, value in zip(leaves, values, strict=True):
        if leaf not in apart:
            written |= dict.fromkeys(versions(value, leaf, ends), leaf)
    inner = [n for n in graph.order if n not in graph.given] if written else []
    read = Counter([ends[s] for node in inner for s in node.src])
    new: dict[UOp, UOp] = {}
    for node in graph.order:
        made = graph.rebuilt(node, new)
        if node in written and (read[node] > 1 or node in wanted):
            before = _under(made)
            made = before.after(before.store(made))
        new[node] = made
    stores = [
        new[v] if written.get(v) is leaf else leaf.after(leaf.store(new[v]))
        for leaf, v in zip(leaves, values, strict=True)
    ]
    return [*[new[r] for r in graph.roots[:count]], *stores]


def versions(value: UOp, leaf: UOp, ends: Mapping[UOp, UOp]) -> list[UOp]:
    """`value` and what it lies over, down to what `leaf` holds; none if that is not below."""
    found = []
    while value.op is Ops.WHERE:
        found.append(value)
        value = ends[value.src[2]]
    return found if value is leaf else []


def _under(value: UOp) -> UOp:
    """The last stored version that `value` lies over."""
    while value.op is Ops.WHERE:
        value = value.src[2]
    return value
