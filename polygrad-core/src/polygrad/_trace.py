"""One run of a Python function over symbols: what `jit` and `function` make of a call.

The tensors among the arguments are exchanged for leaves without memory and the numbers for
`Number`s. Tensors that are one object stay one, and those that only stand on one node stand on one
leaf. An argument that the function also meets as a tensor from outside is given as itself: it is
state.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from . import settings
from ._nested import flatten, rebuilt, sizes_of, taken
from .arguments import call_back
from .engine.capture import Capture
from .engine.number import plain
from .engine.run import copy_of
from .engine.run import realize as realize_nodes
from .engine.runtime import Runtime, current
from .tensor import Tensor
from .tensor.base import is_leaf
from .tensor.base import leaf as tensor_of_leaf
from .tensor.store import realize
from .uop.ops import Ops, UOp
from .uop.sizes import opened, unbound, variables_in


class Trace:
    """One run of the function over symbols."""

    def __init__(
        self,
        what: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Tensor],
        numbers: Sequence[Any],
        *,
        pure: bool = False,
        fixed: bool = False,
        plainly: bool = False,
        both: Container[int] = frozenset(),
    ) -> None:
        """`fixed`: numbers are given as they are; `plainly`: so, and captured for them alone.
        `both`: ids of arguments that the function also meets as tensors from outside."""
        self.capture = capture = Capture(current(), what, pure, settings.get("POLY_CHECK"))
        self.tensors, self.numbers = tensors, numbers
        self._stand_in(both)
        structure = tuple([flatten(a, [], []) for a in (*args, *kwargs.values())])
        self.sizes = [] if pure else variables_in(sizes_of(tensors, structure))
        given = iter(self.symbols)
        symbols = [capture.number(i, plain(v)) for i, v in enumerate(numbers)]
        values: Iterator[Any] = iter(numbers if fixed else symbols)
        if plainly:
            values = iter([n.pin() for n in symbols])
        size = (lambda n: n) if pure else unbound
        self.args = [rebuilt(a, given, values, size) for a in args]
        self.kwargs = {k: rebuilt(kwargs[k], given, values, size) for k in sorted(kwargs)}

    def _stand_in(self, both: Container[int]) -> None:
        """Fill `leaves` and `symbols`, one for each tensor, and `inputs`, the numbers of those
        whose leaf is the first of its kind."""
        tensors, capture = self.tensors, self.capture
        # A graph that is put into another one has the sizes of that; a compiled one has any.
        opening = tuple if capture.pure else opened
        nodes: dict[tuple[UOp, str], UOp] = {}
        objects: dict[int, Tensor] = {}
        for t in sorted(tensors, key=is_leaf):  # on one node, the last one made becomes its leaf
            if id(t) in both:
                objects[id(t)] = t
            elif id(t) not in objects:
                key = (t.uop, t.device)
                if key not in nodes:
                    nodes[key] = capture.placeholder(t.dtype, opening(t.shape), t.device)
                symbol = tensor_of_leaf(nodes[key], t.device, t._requires_grad)
                objects[id(t)] = symbol
                capture.made.add(id(symbol))
        self.symbols = [objects[id(t)] for t in tensors]
        self.leaves = [s.uop for s in self.symbols]
        first = {leaf: i for i, leaf in reversed([*enumerate(self.leaves)])}
        self.inputs = sorted(first[leaf] for leaf in nodes.values())

    def met_arguments(self) -> set[int]:
        """Ids of the arguments that the function met as tensors from outside as well."""
        return set() if self.capture.pure else self.capture.outside.keys() & map(id, self.tensors)

    def run(self, function: Callable[..., Any]) -> None:
        """Fill `roots`, `outputs`, `assigned`, `updates`; put every tensor from outside back."""
        capture = self.capture
        roots: dict[UOp, int] = {}
        try:
            with capture.runtime.capture(capture), settings.Context():  # settings are put back
                returned = call_back(capture.what, function, *self.args, **self.kwargs)
                self.outputs = taken(returned, roots)
            ends = [(o, o.tensor.uop) for o in capture.outside.values()]
        finally:
            capture.restore()
        of = {id(s): i for i, s in enumerate(self.symbols) if s is not self.tensors[i]}
        self.assigned = [i for i in of.values() if self.symbols[i].uop is not self.leaves[i]]
        self.roots = [*roots, *[self.symbols[i].uop for i in self.assigned]]
        self.updates = {o.node: end for o, end in ends if end is not o.node}


def settled(make: Callable[..., Trace], function: Callable[..., Any]) -> Trace:
    """A run of the function over symbols. It runs again if it met tensors without memory or an
    argument as a tensor from outside, and over plain numbers if Python refuses what stands for
    them."""
    both: frozenset[int] = frozenset()
    plainly = placed = False
    while True:
        trace = make(both=both, plainly=plainly)
        try:
            trace.run(function)
        except TypeError:
            if plainly or not trace.numbers:
                raise
            plainly = True
            continue
        new = trace.met_arguments() - both
        changed = _settle(trace) and not placed
        if not changed and not new:
            return trace
        both, placed = both | new, placed or changed


def _settle(trace: Trace) -> bool:
    """Give memory to the tensors from outside. True if some changed, so that the trace is of no
    use.

    A tensor that is lazily zero, say, was folded away; its later values would never be read.
    """
    capture = trace.capture
    outside = [o.tensor for o in capture.outside.values() if not capture.symbolic([o.node])]
    before = [t.uop for t in outside]
    realize(outside)
    for tensor in outside:
        if tensor.uop in trace.updates and tensor.uop.op is not Ops.BUFFER:
            # What is assigned to is state: it stands on memory, not on the graph of its gradient.
            tensor._replace(realize_nodes([tensor.uop])[0])
    seen: set[UOp] = set()
    for tensor in outside:
        if tensor.uop.op is Ops.BUFFER and tensor.uop in seen:
            _part(tensor, capture.runtime)
        seen.add(tensor.uop)
    return any(t.uop is not u for t, u in zip(outside, before, strict=True))


def _part(tensor: Tensor, runtime: Runtime) -> None:
    """Two tensors share one leaf, and one may be assigned to: give this one memory of its own."""
    old = tensor.uop
    with runtime.lock:
        copy = copy_of(runtime.buffer_of(old))
    tensor._replace(runtime.leaf(old.dtype, old.arg[1], old.arg[2], copy))
