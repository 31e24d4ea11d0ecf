"""Rewrites of the tensor graph before anything is stored: what makes the later decisions simple.

Constants are stored where a buffer is read or wanted; what is stored already is not stored twice.
What reductions and scans become is a long story of its own (`reductions`), which is imported for a
graph that has any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import over
from .limits import Lanes, no_lanes

# nodes without storage of their own
_LEAVES: Final = frozenset({Ops.CONST, Ops.IOTA, Ops.VARIABLE})
# nodes whose values a kernel of theirs leaves in memory
_STORED: Final = frozenset({Ops.SCAN, Ops.SCATTER, Ops.COPY, Ops.KERNEL, Ops.CONTIGUOUS})
# Functions with a value that is cheaper to have alone: by name, number of the value -> number of
# the same value by another way, which is taken where no other value of the call is read. Floors
# above put theirs in.
ALONE: Final[dict[str, dict[int, int]]] = {}


def prepare(roots: Sequence[UOp], device: str = "", lanes: Lanes = no_lanes) -> list[UOp]:
    """The same roots with long reductions split; nodes that need no change stay the same. `device`
    is for graphs that read no buffer."""
    new: dict[UOp, UOp] = {}  # what became another node
    order = toposort(roots)
    read = _read_together(order)
    homes = {n.arg[2] for n in order if n.op is Ops.BUFFER} or {device}
    width = min(map(lanes, homes))
    rules = _RULES
    if any(n.op in (Ops.REDUCE, Ops.SCAN) for n in order):
        from .reductions import rules_of  # with five modules: not for the first x + 1 of a process

        rules = _RULES | rules_of(order, roots, width)
    for node in order:
        src, rule = node.src, rules.get(node.op)
        if not new.keys().isdisjoint(src):
            src = tuple([new.get(s, s) for s in src])
        if node.op is Ops.FUNCTION:  # its rule is for gradients
            new[node] = src[_value(node, read)]
        elif rule is not None or src is not node.src:
            made = over(node, src) if rule is None else rule(node, src)
            if made is not node:
                new[node] = made
    ends = [new.get(r, r) for r in roots]
    return [end.contiguous() if end.op in _LEAVES else end for end in ends]


def _read_together(order: Sequence[UOp]) -> dict[tuple[UOp, ...], set[int]]:
    """Which values of each call of a function are in a graph."""
    read: dict[tuple[UOp, ...], set[int]] = {}
    for node in order:
        if node.op is Ops.FUNCTION:
            read.setdefault(node.src, set()).add(node.arg[1])
    return read


def _value(call: UOp, read: Mapping[tuple[UOp, ...], set[int]]) -> int:
    """The number of the value to compute."""
    name, which = call.arg[:2]
    alone: int = ALONE.get(name, {}).get(which, which)
    return alone if len(read[call.src]) == 1 else which


def _reading(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """A node that reads buffers: what has none is stored."""
    return over(node, tuple([s.contiguous() if s.base.op in _LEAVES else s for s in src]))


def _kernel(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """It reads memory, whatever the shape."""
    stored = (s.contiguous() if s.base.op in _LEAVES else s for s in src)
    return over(node, tuple([_memory(s) for s in stored]))


def _detached(node: UOp, src: tuple[UOp, ...]) -> UOp:
    return src[0] if src[0].op in _STORED else over(node, src)  # one buffer holds it


def _reshape(node: UOp, src: tuple[UOp, ...]) -> UOp:
    if src[0].op is Ops.RESHAPE:  # an assignment stood between
        return src[0].reshape(node.arg)
    return over(node, src)


def _memory(node: UOp) -> UOp:
    while node.op in (Ops.RESHAPE, Ops.DETACH):
        node = node.src[0]
    return node


# op -> what becomes of (node, its new sources)
Rule = Callable[[UOp, tuple[UOp, ...]], UOp]
_RULES: Final[dict[Ops, Rule]] = {
    Ops.GATHER: _reading,
    Ops.SCATTER: _reading,
    Ops.COPY: _reading,
    Ops.KERNEL: _kernel,
    Ops.DETACH: _detached,
    Ops.RESHAPE: _reshape,
}
