"""`jit` and `compile`: a Python function over tensors becomes Plans that need no Python.

The first call runs the function once with symbols in place of its tensors and numbers, and compiles
the graph that comes out: there is no warm-up. Later calls give the same graph other inputs. What a
call may change:

* tensors in arguments (in lists, tuples, dicts and dataclasses too): inputs;
* the values of variables that their shapes depend on, and of variables among the arguments;
* Python ints and floats: variables of the graph where they meet a tensor; where Python itself uses
  the value (a condition, a shape), another value is captured anew, so that nothing is ever stale;
* tensors from outside that the function assigns to (weights, counters): state, written in place;
* tensors from outside that it only reads: their value at the time of the call.

`jit` has one set of shapes, dtypes and devices; `compile` captures again for each. What the
function does besides (printing, appending to a list) happens while capturing only: once, or twice
where it meets tensors from outside that were not computed yet.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import settings
from ._nested import filled, flatten, names_of, rebuilt, sizes_in, taken
from .arguments import call_back
from .contract import Plan
from .device.buffer import Buffer
from .dtype import DType
from .engine.capture import Capture, active, as_scalar, evaluator
from .engine.record import Recorded, make_plan
from .engine.run import copy_of
from .engine.run import realize as realize_nodes
from .engine.runtime import Runtime, current
from .errors import ArgumentError, public, shown
from .tensor import Tensor
from .tensor.base import leaf as tensor_of_leaf
from .tensor.base import replayed
from .tensor.store import realize
from .uop.ops import Ops, UOp
from .uop.sizes import opened, rebound, values_in, variables_in

CAPACITY = 32  # captures kept per function; the least recently used goes first


@public
def jit(function: Callable[..., Any]) -> Compiled:
    """Compile `function` at its first call, for the shapes, dtypes and devices of that call.

    A later call with others raises ArgumentError. Used as a decorator of a function or a method.
    """
    return Compiled(function, "jit", one_signature=True)


@public
def compile(function: Callable[..., Any], sample_inputs: Sequence[Any] | None = None) -> Compiled:
    """Compile `function` for each set of shapes, dtypes and devices that it is called with.

    With `sample_inputs`, positional arguments, it is captured and compiled at once.
    """
    compiled = Compiled(function, "compile", one_signature=False)
    if sample_inputs is not None:
        compiled.prepare(*sample_inputs)
    return compiled


class Signature(NamedTuple):
    """What two calls must share to share a capture, but for numbers that Python looked at."""

    structure: tuple[Any, ...]  # of the arguments, with everything that is no tensor or number
    tensors: tuple[tuple[DType, tuple[int, ...], str, bool | None], ...]
    training: bool
    runtime: Runtime


class Compiled:
    """A function made by `jit` or `compile`; call it as the original."""

    def __init__(self, function: Callable[..., Any], what: str, one_signature: bool) -> None:
        if not callable(function):
            raise ArgumentError(f"{what} takes a function, not {shown(function)}.")
        functools.update_wrapper(self, function)
        self.function, self.what, self.one_signature = function, what, one_signature
        self._captures: OrderedDict[Signature, list[_Captured]] = OrderedDict()
        self._lock = threading.RLock()
        self._calls = self._captured = 0

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active.get() is not None:  # inside another capture it is an ordinary function
            return self.function(*args, **kwargs)
        tensors: list[Tensor] = []
        numbers: list[int | float] = []
        signature = self._signature(args, kwargs, tensors, numbers)
        self._calls += 1
        captured = self._find(signature, numbers)
        if captured is None:
            captured = self._capture(signature, args, kwargs, tensors, numbers)
        return captured(tensors, numbers, signature)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    # ---- what users may ask

    @public
    def run(self, inputs: Sequence[Any]) -> Any:
        """Call with a list of positional arguments."""
        return self(*inputs)

    @public
    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Capture and compile for these arguments without running."""
        tensors: list[Tensor] = []
        numbers: list[int | float] = []
        signature = self._signature(args, kwargs, tensors, numbers)
        if self._find(signature, numbers) is None:
            self._capture(signature, args, kwargs, tensors, numbers)

    def stats(self) -> dict[str, int]:
        """Calls, captures made and kept, and the kernels and scratch bytes of those kept."""
        kept = [c for some in list(self._captures.values()) for c in some]
        plans: list[Plan] = [p for c in kept for p in c.recorded.plans]
        return {
            "calls": self._calls,
            "captures": self._captured,
            "kept": len(kept),
            "kernels": sum(len(p.steps) for p in plans),
            "scratch_bytes": max((p.arena_bytes for p in plans), default=0),
        }

    def dispose(self) -> None:
        """Forget every capture; the next call captures anew."""
        with self._lock:
            self._captures.clear()

    # ---- captures

    def _signature(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: list[Tensor],
        numbers: list[int | float],
    ) -> Signature:
        structure = tuple([flatten(a, tensors, numbers) for a in args])
        if kwargs:
            structure += tuple((k, flatten(kwargs[k], tensors, numbers)) for k in sorted(kwargs))
        shown = tuple(
            [
                (t.uop.dtype, opened(t.uop.shape), t._device or t.device, t._requires_grad)
                for t in tensors
            ]
        )
        return Signature(structure, shown, settings.get("TRAINING"), current())

    def _find(self, signature: Signature, numbers: Sequence[int | float]) -> _Captured | None:
        for captured in self._captures.get(signature, ()):
            if captured.pinned is None or captured.fits(numbers):
                return captured
        return None

    def _capture(
        self,
        signature: Signature,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Tensor],
        numbers: Sequence[int | float],
    ) -> _Captured:
        with self._lock:
            found = self._find(signature, numbers)  # another thread may have been faster
            if found is not None:
                return found
            if self.one_signature:
                self._refuse_others(signature, args, kwargs)
            what = f"{self.what} of {self.name}"
            captured = _capture(
                self.function, what, args, kwargs, tensors, numbers, signature.structure
            )
            self._captured += 1
            some = self._captures.setdefault(signature, [])
            some.append(captured)
            self._captures.move_to_end(signature)
            del some[:-CAPACITY]
            while len(self._captures) > CAPACITY:
                self._captures.popitem(last=False)
            return captured

    def _refuse_others(
        self, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Raise if the arguments differ from a known call in tensors alone."""
        for known in self._captures:
            alike = known.structure == signature.structure and known.runtime is signature.runtime
            if not alike or known.tensors == signature.tensors:
                continue
            names = names_of(self.function, args, kwargs)
            for name, old, new in zip(names, known.tensors, signature.tensors, strict=True):
                if old[:3] != new[:3]:
                    raise ArgumentError(
                        f"jit of {self.name}: argument {name} is {_shown(new)}, but was captured"
                        f" as {_shown(old)}.\nA jit function has one set of shapes, dtypes and"
                        " devices; polygrad.compile captures again for each."
                    )


def _shown(spec: tuple[DType, tuple[int, ...], str, Any]) -> str:
    dtype, shape, device, _ = spec
    return f"{dtype.name} {shape} on {device!r}"


# ---- one capture


class _Captured:
    """A compiled graph with what it takes from a call and what it gives back."""

    def __init__(
        self,
        recorded: Recorded,
        capture: Capture,
        pinned: Mapping[int, int | float],
        outputs: Any,
        specs: Sequence[tuple[DType, tuple[int, ...], str]],
        assigned: Sequence[int],
        sizes: Sequence[UOp],
    ) -> None:
        self.recorded, self.outputs, self.specs = recorded, outputs, tuple(specs)
        self.sizes = tuple(sizes)  # variables that the arguments' shapes depend on
        self.pinned = dict(pinned) or None  # number argument -> the value it was captured with
        self.values = [(evaluator(e), d) for e, d in capture.numbers]
        self.drawn = capture.drawn if capture.draw_nodes else None
        self.assigned = tuple(assigned)  # input numbers; their new values are the last outputs
        self.simple = outputs == ("tensor", 0) and not assigned

    def fits(self, numbers: Sequence[int | float]) -> bool:
        assert self.pinned is not None
        return all(numbers[i] == v for i, v in self.pinned.items())

    def __call__(
        self, tensors: Sequence[Tensor], numbers: Sequence[int | float], signature: Signature
    ) -> Any:
        runtime = self.recorded.runtime
        specs = self.specs
        inputs = [_leaf_of(t) for t in tensors]
        values: Any = ()
        if self.values:
            values = [as_scalar(value(numbers), dtype) for value, dtype in self.values]
        if self.drawn is not None:
            values = [*values, *runtime.draws.take(self.drawn)]
        if self.sizes:
            bound = values_in(_sizes_of(tensors, signature.structure))
            values = [*values, *[bound[v] for v in self.sizes]]
            specs = tuple([(d, tuple([rebound(n, bound) for n in s]), p) for d, s, p in specs])
        buffers = self.recorded.with_leaves(inputs, values)
        made = [_fresh(runtime, b, s) for b, s in zip(buffers, specs, strict=True)]
        if self.simple:
            return made[0]
        first = len(made) - len(self.assigned)
        for number, new in zip(self.assigned, made[first:], strict=True):
            tensors[number]._replace(new.uop)
        return filled(self.outputs, made, numbers)


def _sizes_of(tensors: Sequence[Tensor], structure: Any) -> Iterator[int]:
    """The sizes of a call: those in the shapes of its tensors, and those among its arguments."""
    for t in tensors:
        yield from t.uop.shape
    yield from sizes_in(structure)


def _leaf_of(tensor: Tensor) -> UOp:
    """The leaf with the tensor's value, computed now if need be."""
    node = tensor.uop
    if node.op is not Ops.BUFFER:
        realize([tensor])
        node = tensor.uop  # itself where its graph is kept for a gradient
        (node,) = realize_nodes([node], [node])
    return node


def _fresh(runtime: Runtime, buffer: Buffer, spec: tuple[DType, tuple[int, ...], str]) -> Tensor:
    dtype, shape, device = spec
    node = UOp.buffer(dtype, shape, device)
    runtime.bind(node, buffer)
    return replayed(node, device)


def _capture(
    function: Callable[..., Any],
    what: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    tensors: Sequence[Tensor],
    numbers: Sequence[int | float],
    structure: Any,
) -> _Captured:
    """Run the function over symbols, again if it met tensors without memory, and compile."""
    runtime = current()
    for _ in range(2):
        trace = _Trace(runtime, what, args, kwargs, tensors, numbers, structure)
        trace.run(function)
        if not _settle(trace):
            break
    return trace.compile()


def _settle(trace: _Trace) -> bool:
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
    new = UOp.buffer(old.dtype, old.arg[1], old.arg[2])
    runtime.bind(new, copy_of(runtime.buffer_of(old)))
    tensor._replace(new)


class _Trace:
    """One run of the function over symbols."""

    def __init__(
        self,
        runtime: Runtime,
        what: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Tensor],
        numbers: Sequence[int | float],
        structure: Any,
    ) -> None:
        self.capture = capture = Capture(runtime, what)
        self.numbers = numbers
        self.leaves = [capture.placeholder(t.dtype, opened(t.shape), t.device) for t in tensors]
        self.sizes = variables_in(_sizes_of(tensors, structure))
        self.symbols = [
            tensor_of_leaf(u, u.arg[2], t._requires_grad)
            for u, t in zip(self.leaves, tensors, strict=True)
        ]
        capture.made.update(map(id, self.symbols))
        given = iter(self.symbols)
        values = iter([capture.number(i, v) for i, v in enumerate(numbers)])
        self.args = [rebuilt(a, given, values) for a in args]
        self.kwargs = {k: rebuilt(kwargs[k], given, values) for k in sorted(kwargs)}

    def run(self, function: Callable[..., Any]) -> None:
        """Fill `roots`, `outputs`, `assigned`, `updates`; put every tensor from outside back."""
        capture = self.capture
        roots: dict[UOp, int] = {}
        try:
            with capture.runtime.capture(capture):
                returned = call_back(capture.what, function, *self.args, **self.kwargs)
                self.outputs = taken(returned, roots)
            ends = [(o, o.tensor.uop) for o in capture.outside.values()]
        finally:
            capture.restore()
        self.assigned = [i for i, s in enumerate(self.symbols) if s.uop is not self.leaves[i]]
        self.roots = [*roots, *[self.symbols[i].uop for i in self.assigned]]
        self.updates = {o.node: end for o, end in ends if end is not o.node}

    def compile(self) -> _Captured:
        capture = self.capture
        holders = {o.node: o.tensor for o in capture.outside.values() if o.node.op is Ops.BUFFER}
        variables = [v for v, _ in capture.numbers.values()]
        recorded = make_plan(
            self.roots,
            self.leaves,
            [*variables, *(capture.draw_nodes or ()), *self.sizes],
            self.updates,
            holders,
        )
        pinned = {i: self.numbers[i] for i in sorted(capture.pinned)}
        default = next((f.device for f in recorded.routine.fresh), "")
        specs = [(r.dtype, r.shape, r.device or default) for r in self.roots]
        return _Captured(recorded, capture, pinned, self.outputs, specs, self.assigned, self.sizes)
