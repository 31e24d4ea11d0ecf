"""The graph that a recording is planned from: values without assignments, and what state becomes.

Nodes come in and go out; nothing is known of Buffers here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import over


def functional(
    roots: Sequence[UOp], known: Callable[[UOp], UOp | None], gradients: bool = True
) -> list[UOp]:
    """The graph without assignments: an AFTER is the value stored. `known` says what stands for a
    node whose graph plays no part, such as the leaf of a realised one. Where no `gradients` are
    asked for, functions are their values too."""
    new: dict[UOp, UOp] = {}

    def enter(node: UOp) -> bool:
        end = known(node)
        if end is None:
            return True
        new[node] = end
        return False

    for node in toposort(roots, enter):
        if node in new:
            continue
        if not node.src and (end := known(node)) is not None:
            new[node] = end
        elif node.op is Ops.AFTER:
            new[node] = new[node.src[1].src[1]]
        elif node.op is Ops.FUNCTION and not gradients:
            new[node] = new[node.src[node.arg[1]]]
        else:
            new[node] = over(node, tuple([new[s] for s in node.src]))
    return [new[r] for r in roots]


def assigned(
    plain: Sequence[UOp], count: int, leaves: Sequence[UOp], apart: Collection[UOp] = ()
) -> list[UOp]:
    """`count` results, and the assignments of the other nodes to `leaves`.

    Where a new value is the old one but for parts, everybody who reads it reads it in memory, when
    the parts have been written; else each reader would choose between old and new at every element.
    Not so for `apart`.
    """
    values = plain[count:]
    new: dict[UOp, UOp] = {}
    written: dict[UOp, UOp] = {}
    for leaf, value in zip(leaves, values, strict=True):
        if leaf not in apart:
            written |= dict.fromkeys(versions(value, leaf), leaf)
    order = toposort(plain) if written else ()
    read = Counter(s for node in order for s in node.src)
    for node in order:
        made = over(node, tuple([new[s] for s in node.src]))
        if node in written and (read[node] > 1 or node in plain):
            before = _under(made)
            made = before.after(before.store(made))
        new[node] = made
    stores = [new.get(v, v) for v in values]
    stores = [
        v if written.get(old) is leaf else leaf.after(leaf.store(v))
        for leaf, old, v in zip(leaves, values, stores, strict=True)
    ]
    return [*[new.get(r, r) for r in plain[:count]], *stores]


def versions(value: UOp, leaf: UOp) -> list[UOp]:
    """`value` and what it lies over, down to what `leaf` holds; none if that is not below."""
    found = []
    while value.op is Ops.WHERE:
        found.append(value)
        value = value.src[2]
    return found if value is leaf else []


def _under(value: UOp) -> UOp:
    """The last stored version that `value` lies over."""
    while value.op is Ops.WHERE:
        value = value.src[2]
    return value
