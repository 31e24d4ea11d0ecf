"""The graph that a captured function built, over symbols, to be built again over other nodes.

`jit` compiles such a graph and keeps it for gradients; `function` puts it into the graph of each
call. The symbols stand for the tensors of a call, for its numbers and for its random draws; a
`Filling` says what they are in one call. The graph of a gradient is made once for each set of
values that something flows into, and then filled in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .engine.capture import Asked, Capture, Outside
from .engine.number import Number, as_scalar, evaluator
from .engine.runtime import Runtime
from .gradient import flows
from .uop.ops import UOp
from .uop.sizes import exchanged

Draws = tuple[UOp, UOp, UOp]  # key words and base, as nodes


class Filling(NamedTuple):
    """What the symbols of a graph are in one call."""

    nodes: Sequence[UOp]  # for its leaves
    numbers: Sequence[Any]  # the number arguments, of an outer capture's too
    draws: Draws | None
    sizes: Mapping[UOp, UOp] = {}  # variables of the graph -> those of the call


class Traced:
    """Roots over symbols."""

    def __init__(self, capture: Capture, roots: Sequence[UOp], leaves: Sequence[UOp]) -> None:
        self.roots, self.leaves = list(roots), list(leaves)
        self.numbers = [
            (node, evaluator(asked.expression), asked)
            for asked, (_, node) in capture.numbers.items()
        ]
        self.drawn, self.draw_nodes = capture.drawn, capture.draw_nodes
        self._slopes: dict[tuple[bool, ...], _Slope] = {}

    def draws(self, runtime: Runtime) -> Draws | None:
        """The draws of a new call."""
        return None if self.draw_nodes is None else runtime.draw(self.drawn)

    def over(self, filling: Filling) -> list[UOp]:
        """The roots of one call."""
        return exchanged(self.roots, self._table(filling))[0]

    def _table(self, filling: Filling) -> dict[UOp, UOp]:
        table = {**filling.sizes, **dict(zip(self.leaves, filling.nodes, strict=True))}
        for node, value, asked in self.numbers:
            table[node] = _constant(value(filling.numbers), asked)
        if self.draw_nodes is not None and filling.draws is not None:
            table.update(zip(self.draw_nodes, filling.draws, strict=True))
        return table

    def slope(self, given: Sequence[UOp | None], filling: Filling) -> list[UOp | None]:
        """What flows into each leaf of one call if `given` flows into the roots."""
        key = tuple(g is not None for g in given)
        if key not in self._slopes:
            self._slopes[key] = self._differentiated(key)
        slope = self._slopes[key]
        table = self._table(filling)
        table.update(zip(slope.seeds, (g for g in given if g is not None), strict=True))
        made = iter(exchanged([p for p in slope.parts if p is not None], table)[0])
        return [None if p is None else next(made) for p in slope.parts]

    def _differentiated(self, key: tuple[bool, ...]) -> _Slope:
        roots = [r for r, flowing in zip(self.roots, key, strict=True) if flowing]
        seeds = [UOp.buffer(r.dtype, r.shape, r.device or "") for r in roots]
        total: dict[UOp, UOp | None] = {}
        for root, seed in zip(roots, seeds, strict=True):  # one node may be several results
            old = total.get(root)
            total[root] = seed if old is None else old + seed
        parts = flows(total, self.leaves)
        again = [leaf in self.leaves[:i] for i, leaf in enumerate(self.leaves)]
        return _Slope(seeds, [None if a else p for a, p in zip(again, parts, strict=True)])


class _Slope(NamedTuple):
    """A gradient over symbols: of what flows in, and of what the graph is over."""

    seeds: list[UOp]
    parts: list[UOp | None]  # for each leaf, once for one that stands there twice


def _constant(value: Any, asked: Asked) -> UOp:
    if isinstance(value, Number):
        return value.node(asked.dtype) if asked.most is None else value.start(asked.most)
    return UOp.const(asked.dtype, as_scalar(value, asked.dtype))


def stand_in(outside: Outside) -> UOp:
    """A symbol for a tensor from outside."""
    node = outside.node
    return UOp.buffer(node.dtype, node.shape, outside.tensor.device)
