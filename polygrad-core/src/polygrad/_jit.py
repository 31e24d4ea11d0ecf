"""`jit` and `compile`: a Python function over tensors becomes Plans that need no Python.

The first call runs the function once with symbols in place of its tensors and numbers, and compiles
the graph that comes out: there is no warm-up. Later calls give the same graph other inputs. What a
call may change:

* tensors in arguments (in lists, tuples, dicts and dataclasses too): inputs;
* the values of variables that their shapes depend on, and of variables among the arguments;
* Python ints and floats: variables of the graph where they meet a tensor or say a place; where
  Python itself uses the value (a condition, a shape), another value is captured anew, so that
  nothing is ever stale; so are the names around the function that its code reads (_around.py);
* tensors from outside that the function assigns to (weights, counters): state, written in place;
* tensors from outside that it only reads: their value at the time of the call.

Results have gradients (_slopes.py). `jit` has one set of shapes, dtypes and devices; `compile`
captures again for each. What the function does besides (printing, appending to a list) happens
while capturing only: once, or twice where it meets tensors from outside that were not computed yet.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any, NamedTuple

from . import settings
from ._around import Place, Same, places, receiver_of
from ._nested import filled, flatten, names_of, rebuilt, sizes_in, taken, tensors_of
from ._slopes import Slopes, slopes_of
from .arguments import call_back
from .contract import Plan
from .device.buffer import Buffer
from .dtype import DType
from .engine.capture import Capture, Condition, active, as_scalar, evaluator, fulfilled, plain
from .engine.owner import explicit, world
from .engine.record import Recorded, make_plan
from .engine.run import copy_of
from .engine.run import realize as realize_nodes
from .engine.runtime import Runtime, current, owned_by, use
from .errors import ArgumentError, CaptureWarning, public, shown, user_level
from .tensor import Tensor
from .tensor.base import _no_grad, one_owner, replayed
from .tensor.base import leaf as tensor_of_leaf
from .tensor.store import realize
from .uop.ops import Ops, UOp
from .uop.sizes import opened, rebound, unbound, values_in, variables_in

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


_LATER = 0x20 | 0x80 | 0x200  # flags of code: a generator, a coroutine, an asynchronous generator


class Signature(NamedTuple):
    """What two calls must share to share a capture, but for numbers that Python looked at."""

    structure: tuple[Any, ...]  # of the arguments, with everything that is no tensor or number
    tensors: tuple[tuple[DType, tuple[int, ...], str, bool | None], ...]
    training: bool
    no_grad: bool
    runtime: Runtime
    around: tuple[Any, ...]  # what the function reads from closure, globals and its object


class Compiled:
    """A function made by `jit` or `compile`; call it as the original."""

    any_size = True  # a capture serves every value of the variables in shapes

    def __init__(self, function: Callable[..., Any], what: str, one_signature: bool) -> None:
        if not callable(function):
            raise ArgumentError(f"{what} takes a function, not {shown(function)}.")
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _LATER:
            raise ArgumentError(
                f"{what} takes a function that returns; {function.__name__} is a generator or a"
                " coroutine, which runs later. Compile what it calls."
            )
        update_wrapper(self, function)
        self.function, self.what, self.one_signature = function, what, one_signature
        self._captures: OrderedDict[Signature, list[Any]] = OrderedDict()
        self._lock = threading.RLock()
        self._calls = self._captured = 0
        self._warned = False
        self.receiver = receiver_of(function)
        self._places: tuple[Place, ...] | None = None  # until the first call
        self._owner = explicit.get()

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return f"{self.what} of {self.name}"

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active.get() is not None:  # inside another capture it is an ordinary function
            return self.function(*args, **kwargs)
        if world.several and (home := self._elsewhere((args, kwargs))):
            with use(home):
                return self(*args, **kwargs)
        tensors: list[Tensor] = []
        numbers: list[int | float] = []
        signature = self._signature(args, kwargs, tensors, numbers)
        self._calls += 1
        captured = self._find(signature, numbers)
        if captured is None:
            if settings.get("POLY_CHECK"):  # what is captured has no calls left to check
                return self.function(*args, **kwargs)
            captured = self._capture(signature, args, kwargs, tensors, numbers)
        return captured(tensors, numbers, signature)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else partial(self, instance)

    # ---- what users may ask

    @public
    def run(self, inputs: Sequence[Any]) -> Any:
        """Call with a list of positional arguments."""
        return self(*inputs)

    @public
    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Capture and compile for these arguments without running."""
        if world.several and (home := self._elsewhere((args, kwargs))):
            with use(home):
                self.prepare(*args, **kwargs)
            return
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

    def _elsewhere(self, arguments: Any) -> Runtime | None:
        """The runtime that a call belongs to, if it is not the current one: the function's own, or
        that of its arguments, which all have the same."""
        owner = self._owner
        if owner is None:
            owner = one_owner(tensors_of(arguments))
        return None if owner is explicit.get() else owned_by(owner)

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
        opening = opened if self.any_size else tuple
        if not self.any_size:
            structure += tuple(sizes_in(structure))
        shown = tuple(
            [
                (t.uop.dtype, opening(t.uop.shape), t._device or t.device, t._requires_grad)
                for t in tensors
            ]
        )
        training = bool(settings.override("TRAINING"))
        around: tuple[Any, ...] = ()
        if self._places is None or self._places:
            first = structure[0] if structure else None
            around = self._around(first.it if isinstance(first, Same) else self.receiver)
        return Signature(structure, shown, training, _no_grad.get(), current(), around)

    def _around(self, receiver: Any) -> tuple[Any, ...]:
        if self._places is None:
            self._places = places(self.function, receiver)
        return tuple([p.value(receiver) for p in self._places])

    def _find(self, signature: Signature, numbers: Sequence[int | float]) -> Any:
        for captured in self._captures.get(signature, ()):
            if not captured.conditions or fulfilled(captured.conditions, numbers):
                return captured
        return None

    def _capture(
        self,
        signature: Signature,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Tensor],
        numbers: Sequence[int | float],
    ) -> Any:
        with self._lock:
            found = self._find(signature, numbers)  # another thread may have been faster
            if found is not None:
                return found
            if self.one_signature:
                self._refuse_others(signature, args, kwargs)
            make = partial(Trace, self.title, args, kwargs, tensors, numbers)
            captured = settled(make, self.function).compile()
            self._captured += 1
            self._keep(signature, captured)
            return captured

    def _keep(self, signature: Signature, captured: Any) -> None:
        some = self._captures.setdefault(signature, [])
        some.append(captured)
        self._captures.move_to_end(signature)
        alike = [
            s for s in self._captures if s._replace(around=()) == signature._replace(around=())
        ]
        if len(some) > CAPACITY:
            self._warn("a number that Python looks at (a condition, a shape, a loop)")
        elif len(alike) > CAPACITY:
            self._warn("what it reads from around it (a global, an attribute)")
        del some[:-CAPACITY]
        while len(self._captures) > CAPACITY:
            self._captures.popitem(last=False)

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.title} was captured for {CAPACITY + 1} values of {what}; {CAPACITY} are"
                " kept. Pass it as an argument that meets tensors alone, or as a tensor.",
                CaptureWarning,
                stacklevel=user_level(),
            )

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
        conditions: Sequence[Condition],
        outputs: Any,
        specs: Sequence[tuple[DType, tuple[int, ...], str]],
        assigned: Sequence[int],
        sizes: Sequence[UOp],
        slopes: Slopes | None,
    ) -> None:
        self.slopes, self.before = slopes, tuple(capture.before_calls)
        self.recorded, self.outputs, self.specs = recorded, outputs, tuple(specs)
        self.sizes = tuple(sizes)  # variables that the arguments' shapes depend on
        self.conditions = conditions
        self.values = [(evaluator(a.expression), a.dtype) for a in capture.numbers]
        self.drawn = capture.drawn if capture.draw_nodes else None
        self.assigned = tuple(assigned)  # input numbers; their new values are the last outputs
        self.plain = outputs == ("tensor", 0) and not assigned and slopes is None

    def __call__(
        self, tensors: Sequence[Tensor], numbers: Sequence[int | float], signature: Signature
    ) -> Any:
        for prepare in self.before:
            prepare()
        runtime = self.recorded.runtime
        specs = self.specs
        inputs = [_leaf_of(t) for t in tensors]
        values: Any = ()
        bound: dict[UOp, int] = {}
        if self.values:
            values = [as_scalar(value(numbers), dtype) for value, dtype in self.values]
        if self.drawn is not None:
            values = [*values, *runtime.draws.take(self.drawn)]
        if self.sizes:
            bound = values_in(_sizes_of(tensors, signature.structure))
            values = [*values, *[bound[v] for v in self.sizes]]
            specs = tuple([(d, tuple([rebound(n, bound) for n in s]), p) for d, s, p in specs])
        buffers = self.recorded.with_leaves(inputs, values)
        if self.plain:
            return _fresh(runtime, buffers[0], specs[0])
        made = [_fresh(runtime, b, s) for b, s in zip(buffers, specs, strict=True)]
        if self.slopes is not None:
            at = len(values) - len(self.sizes)
            drawn = None if self.drawn is None else values[at - 3 : at]
            self.slopes.follow(runtime, made, tensors, numbers, drawn, bound)
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
    return replayed(node, device, runtime.owner)


def settled(make: Callable[[], Trace], function: Callable[..., Any]) -> Trace:
    """A run of the function over symbols; a second one if it met tensors without memory."""
    for _ in range(2):
        trace = make()
        trace.run(function)
        if not _settle(trace):
            break
    return trace


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
    new = UOp.buffer(old.dtype, old.arg[1], old.arg[2])
    with runtime.lock:
        runtime.bind(new, copy_of(runtime.buffer_of(old)))
    tensor._replace(new)


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
    ) -> None:
        self.capture = capture = Capture(current(), what, pure)
        self.numbers = numbers
        # A graph that is put into another one has the sizes of that; a compiled one has any.
        opening = tuple if pure else opened
        self.leaves = [capture.placeholder(t.dtype, opening(t.shape), t.device) for t in tensors]
        structure = tuple([flatten(a, [], []) for a in (*args, *kwargs.values())])
        self.sizes = [] if pure else variables_in(_sizes_of(tensors, structure))
        self.symbols = [
            tensor_of_leaf(u, u.arg[2], t._requires_grad)
            for u, t in zip(self.leaves, tensors, strict=True)
        ]
        capture.made.update(map(id, self.symbols))
        given = iter(self.symbols)
        symbols = [capture.number(i, plain(v)) for i, v in enumerate(numbers)]
        values: Iterator[Any] = iter(numbers if fixed else symbols)
        size = (lambda n: n) if pure else unbound
        self.args = [rebuilt(a, given, values, size) for a in args]
        self.kwargs = {k: rebuilt(kwargs[k], given, values, size) for k in sorted(kwargs)}

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
        self.assigned = [i for i, s in enumerate(self.symbols) if s.uop is not self.leaves[i]]
        self.roots = [*roots, *[self.symbols[i].uop for i in self.assigned]]
        self.updates = {o.node: end for o, end in ends if end is not o.node}

    def compile(self) -> _Captured:
        capture, updates = self.capture, self.updates
        holders = {o.node: o.tensor for o in capture.outside.values() if o.node.op is Ops.BUFFER}
        variables = [v for v, _ in capture.numbers.values()]
        recorded = make_plan(
            self.roots,
            self.leaves,
            [*variables, *(capture.draw_nodes or ()), *self.sizes],
            updates,
            holders,
        )
        outside = [o for o in capture.outside.values() if not capture.symbolic([o.node])]
        slopes = slopes_of(self, outside)
        default = next((f.device for f in recorded.routine.fresh), "")
        specs = [(r.dtype, r.shape, r.device or default) for r in self.roots]
        given = capture.conditions(self.numbers)
        return _Captured(
            recorded, capture, given, self.outputs, specs, self.assigned, self.sizes, slopes
        )
