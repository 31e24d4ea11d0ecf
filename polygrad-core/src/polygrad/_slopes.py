"""Gradients through the results of a compiled function.

Where an argument or a tensor from outside asks for a gradient, a result is no plain leaf: it is a
FUNCTION node whose value is that leaf, over what the call was given, and whose rule differentiates
the captured graph. So a call costs one node more, and what the gradient reads (the forward pass) is
computed when somebody asks for one. The graph is kept over symbols, which keep no memory alive.

A result that depends on what the function itself writes has no gradient: the old value is gone when
the call ends.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ._traced import Filling, Traced, stand_in
from .dtype import dtypes
from .engine.capture import Outside
from .engine.functional import functional
from .engine.runtime import Runtime
from .gradient import between
from .gradient_rules import PYTHON, Function
from .schedule.cache import substitute_all
from .tensor import Tensor
from .uop.ops import Ops, UOp, toposort
from .uop.sizes import with_values

if TYPE_CHECKING:
    from ._trace import Trace


class Slopes:
    """The graph of those results that have a gradient, and what it is over."""

    def __init__(
        self,
        traced: Traced,
        results: Sequence[int],
        inputs: Sequence[int],
        outside: Sequence[Tensor | UOp],
    ) -> None:
        self.traced, self.results = traced, tuple(results)
        self.inputs, self.outside = tuple(inputs), tuple(outside)

    def follow(
        self,
        runtime: Runtime,
        made: Sequence[Tensor],
        tensors: Sequence[Tensor],
        arguments: Sequence[Any],
        drawn: Any,
        sizes: Mapping[UOp, int],
    ) -> None:
        """Let the results of one call know how they were computed."""
        nodes = [tensors[i].uop for i in self.inputs]
        nodes += [x if isinstance(x, UOp) else x.uop for x in self.outside]
        leaves = [made[i].uop for i in self.results]
        rule = partial(self._rule, runtime, arguments, drawn, with_values(sizes))
        src, total = (*leaves, *nodes), len(leaves)
        for which, number in enumerate(self.results):
            leaf = leaves[which]
            node = UOp(Ops.FUNCTION, leaf.dtype, src, Function(PYTHON, which, total, rule))
            runtime.settle(node, leaf)
            made[number].uop, made[number]._requires_grad = node, True

    def _rule(
        self,
        runtime: Runtime,
        arguments: Sequence[Any],
        drawn: Any,
        sizes: Mapping[UOp, UOp],
        node: UOp,
        given: Sequence[UOp | None],
    ) -> list[UOp | None]:
        total = len(self.results)
        draws = None if drawn is None else _scalars(runtime, drawn)
        filling = Filling(node.src[total:], arguments, draws, sizes)
        return [*[None] * total, *self.traced.slope(given, filling)]


def _scalars(runtime: Runtime, drawn: Any) -> Any:
    types = (dtypes.uint32, dtypes.uint32, dtypes.uint64)
    return tuple(runtime.scalar(d, v) for d, v in zip(types, drawn, strict=True))


def slopes_of(trace: Trace, outside: Sequence[Outside]) -> Slopes | None:
    """What is to be kept of a trace for gradients; None where no result has one."""
    met = {o.node: o for o in outside}
    given = zip(trace.leaves, trace.symbols, strict=True)
    asking = [u for u, t in given if t._requires_grad]
    asking += [u for u, o in met.items() if o.tensor._requires_grad]
    if not asking:
        return None
    written = {*trace.updates, *[trace.leaves[i] for i in trace.assigned]}
    kept = [i for i, root in enumerate(trace.roots) if not _reads(root, written, met)]
    plain = functional([trace.roots[i] for i in kept], lambda n: n if n in met else None)
    found = [(i, root) for i, root in zip(kept, plain, strict=True) if between([root], asking)]
    results, roots = [i for i, _ in found], [root for _, root in found]
    used = set(toposort(roots, lambda n: n not in met))
    inputs = [i for i in trace.inputs if trace.leaves[i] in used]
    some = [o for u, o in met.items() if u in used]
    symbols = {o.node: stand_in(o) for o in some}
    leaves = [*[trace.leaves[i] for i in inputs], *symbols.values()]
    # A tensor may get another value; a graph that a gradient goes through stays as it was.
    held = [o.tensor if o.node.op is Ops.BUFFER else o.node for o in some]
    traced = Traced(trace.capture, substitute_all(roots, symbols), leaves)
    return Slopes(traced, results, inputs, held) if results else None


def _reads(root: UOp, written: Container[UOp], met: Container[UOp]) -> bool:
    """Whether a result is computed from any of `written`, down to `met`, were assignments the
    values assigned."""
    seen: set[UOp] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in written:
            return True
        if node not in seen:
            seen.add(node)
            if node not in met:
                stack += (node.src[1].src[1],) if node.op is Ops.AFTER else node.src
    return False
