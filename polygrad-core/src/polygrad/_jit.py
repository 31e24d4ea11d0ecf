"""`jit` and `compile`: a Python function over tensors becomes Plans that need no Python.

The first call runs the function once with symbols in place of its tensors and numbers, and compiles
the graph that comes out: there is no warm-up. Later calls give the same graph other inputs. What a
call may change:

* tensors in arguments (in lists, tuples, dicts and dataclasses too): inputs. Which of them are one,
  and which the function meets as tensors from outside too, belongs to the capture;
* the values of variables that their shapes depend on, and of variables among the arguments;
* Python ints and floats: variables of the graph where they meet a tensor or say a place; where
  Python itself uses the value (a condition, a shape, a key), another value is captured anew, so
  that nothing is ever stale; so are the names around the function that its code reads (_around.py);
* tensors from outside that the function assigns to (weights, counters): state, written in place;
* tensors from outside that it only reads: their value at the time of the call.

Results have gradients (_slopes.py). `jit` has one set of shapes, dtypes and devices; `compile`
captures again for each. What the function does besides (printing, appending to a list) happens
while capturing only: once, or again where it meets tensors from outside that were not computed yet
or are arguments, or where a TypeError says that Python insists on plain numbers.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any, Final, NamedTuple

from . import _collector, settings
from ._around import Place, Same, places, receiver_of
from ._nested import filled, flatten, names_of, sizes_in, sizes_of, tensors_of
from ._slopes import Slopes, slopes_of
from ._trace import Trace, settled
from .contract import Plan
from .device.buffer import Buffer
from .dtype import DType
from .engine.capture import active, fulfilled
from .engine.number import as_scalar, evaluator
from .engine.owner import explicit, world
from .engine.record import Recorded, make_plan
from .engine.run import realize as realize_nodes
from .engine.runtime import Runtime, owned_by, use
from .errors import ArgumentError, CaptureWarning, IndexError_, public, shown, user_level
from .tensor import Tensor
from .tensor.base import _no_grad, one_owner, replayed
from .tensor.checks import Guard, guard_of
from .tensor.store import realize
from .uop.ops import Ops, UOp
from .uop.sizes import opened, rebound, values_in

_BUFFER: Final = Ops.BUFFER  # older Pythons take 0.1 us to read a member of an enum
CAPACITY = 32  # captures kept per function; the least recently used goes first


@public
def jit(function: Callable[..., Any]) -> Compiled:
    """Compile `function` at its first call, for the shapes, dtypes and devices of that call.

    A later call with others raises ArgumentError. Used as a decorator of a function or a method.

    >>> double = jit(lambda x: x * 2)
    >>> double(Tensor([1.0, 2.0])).tolist(), double.stats()["captures"]
    ([2.0, 4.0], 1)
    """
    return Compiled(function, "jit", one_signature=True)


@public
def compile(function: Callable[..., Any], sample_inputs: Sequence[Any] | None = None) -> Compiled:
    """Compile `function` for each set of shapes, dtypes and devices that it is called with.

    With `sample_inputs`, positional arguments, it is captured and compiled at once.

    >>> double = compile(lambda x: x * 2, [Tensor([1.0, 2.0])])
    >>> double(Tensor([3.0])).tolist(), double.stats()["captures"]
    ([6.0], 2)
    """
    compiled = Compiled(function, "compile", one_signature=False)
    if sample_inputs is not None:
        compiled.prepare(*sample_inputs)
    return compiled


_LATER = 0x20 | 0x80 | 0x200  # flags of code: a generator, a coroutine, an asynchronous generator


class Signature(NamedTuple):
    """What two calls must share to share a capture, but for numbers that Python looked at.

    A call makes the plain tuple of these, which is as equal and three times as fast to make."""

    structure: tuple[Any, ...]  # of the arguments, with everything that is no tensor or number
    tensors: tuple[tuple[DType, tuple[int, ...], str, bool | None], ...]
    alike: tuple[tuple[int, int], ...]  # which of them are one (`alike`)
    modes: tuple[bool, Any]  # TRAINING and POLY_CHECK
    no_grad: bool
    owner: Runtime | None  # the runtime, None for the default one
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
        self._captures: dict[Any, list[Any]] = {}  # by Signature, the oldest first
        self._lock = threading.RLock()
        self._calls = self._captured = 0
        self._warned = False
        self.receiver = receiver_of(function)
        self._places: tuple[Place, ...] | None = None  # until the first call
        self._owner = explicit.get()

    @property
    def name(self) -> str:
        """The qualified name of the function.

        >>> jit(len).name
        'len'
        """
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    @property
    def title(self) -> str:
        """What it is called in messages.

        >>> jit(len).title
        'jit of len'
        """
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
        captured = self._find(signature, tensors, numbers)
        if captured is None:
            captured = self._capture(signature, args, kwargs, tensors, numbers)
        return captured(tensors, numbers, signature[0])

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else partial(self, instance)

    # ---- what users may ask

    @public
    def run(self, inputs: Sequence[Any]) -> Any:
        """Call with a list of positional arguments.

        >>> jit(lambda x: x * 2).run([Tensor([1.0, 2.0])]).tolist()
        [2.0, 4.0]
        """
        return self(*inputs)

    @public
    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Capture and compile for these arguments without running.

        >>> f = jit(lambda x: x * 2)
        >>> f.prepare(Tensor([1.0, 2.0]))
        >>> f.stats()["calls"], f.stats()["captures"]
        (0, 1)
        """
        if world.several and (home := self._elsewhere((args, kwargs))):
            with use(home):
                self.prepare(*args, **kwargs)
            return
        tensors: list[Tensor] = []
        numbers: list[int | float] = []
        signature = self._signature(args, kwargs, tensors, numbers)
        if self._find(signature, tensors, numbers) is None:
            self._capture(signature, args, kwargs, tensors, numbers)

    def stats(self) -> dict[str, int]:
        """Calls, captures made and kept, and the kernels and scratch bytes of those kept.

        >>> f = jit(lambda x: x * 2)
        >>> f(Tensor([1.0])).item(), f(Tensor([2.0])).item()
        (2.0, 4.0)
        >>> f.stats()["calls"], f.stats()["captures"], f.stats()["kernels"]
        (2, 1, 1)
        """
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
        """Forget every capture; the next call captures anew.

        >>> f = jit(lambda x: x * 2)
        >>> _ = f(Tensor([1.0]))
        >>> f.dispose()
        >>> f.stats()["kept"]
        0
        """
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
    ) -> tuple[Any, ...]:
        """The plain tuple of the Signature of a call, whose tensors and numbers are collected."""
        # A call of something tiny waits for this: plain loops, for a comprehension is a call.
        structure: tuple[Any, ...] = ()
        for a in args:
            if type(a) is Tensor:  # as `flatten` does
                tensors.append(a)
                structure += (Tensor,)
            else:
                structure += (flatten(a, tensors, numbers),)
        if kwargs:
            structure += tuple((k, flatten(kwargs[k], tensors, numbers)) for k in sorted(kwargs))
        if not self.any_size:
            structure += tuple(sizes_in(structure))
        shown = []
        for t in tensors:
            node = t.uop
            shape = node.shape
            for n in shape:
                if type(n) is not int and self.any_size:
                    shape = opened(shape)
                    break
            shown.append((node.dtype, shape, t._device or t.device, t._requires_grad))
        around: tuple[Any, ...] = ()
        read = self._places
        if read is None or read:
            first = structure[0] if structure else None
            around = self._around(first.it if isinstance(first, Same) else self.receiver)
        ways = alike(tensors) if len(tensors) > 1 else ()
        modes, no_grad = settings.modes(), _no_grad.get()
        return structure, tuple(shown), ways, modes, no_grad, explicit.get(), around

    def _around(self, receiver: Any) -> tuple[Any, ...]:
        if self._places is None:
            self._places = places(self.function, receiver)
        return tuple([p.value(receiver) for p in self._places])

    def _find(
        self, signature: tuple[Any, ...], tensors: Sequence[Tensor], numbers: Sequence[int | float]
    ) -> Any:
        for captured in self._captures.get(signature, ()):
            if captured.conditions and not fulfilled(captured.conditions, numbers):
                continue
            met = captured.met
            if not met or (not captured.both and met.keys().isdisjoint(map(id, tensors))):
                return captured
            if captured.both == met_again(met, tensors):
                return captured
        return None

    def _capture(
        self,
        signature: tuple[Any, ...],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Tensor],
        numbers: Sequence[int | float],
    ) -> Any:
        with self._lock, _collector.paused():
            found = self._find(signature, tensors, numbers)  # another thread may have been faster
            if found is not None:
                return found
            if self.one_signature:
                self._refuse_others(signature, args, kwargs)
            make = partial(Trace, self.title, args, kwargs, tensors, numbers)
            captured = _compiled(settled(make, self.function))
            self._captured += 1
            self._keep(signature, captured)
            return captured

    def _keep(self, key: tuple[Any, ...], captured: Any) -> None:
        signature = Signature._make(key)
        some = self._captures.pop(signature, [])
        some.append(captured)
        self._captures[signature] = some
        alike = [
            s for s in self._captures if s._replace(around=()) == signature._replace(around=())
        ]
        if len(some) > CAPACITY:
            self._warn("a number that Python looks at (a condition, a shape, a loop)")
        elif len(alike) > CAPACITY:
            self._warn("what it reads from around it (a global, an attribute)")
        del some[:-CAPACITY]
        while len(self._captures) > CAPACITY:
            del self._captures[next(iter(self._captures))]

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
        self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Raise if the arguments differ from a known call in tensors alone."""
        signature = Signature._make(key)
        for known in self._captures:
            alike = known.structure == signature.structure and known.owner is signature.owner
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


def alike(tensors: Sequence[Tensor]) -> tuple[tuple[int, int], ...]:
    """The first of the same object and the first on the same node, for each of the tensors; empty
    if no two stand on one node."""
    if len({t.uop for t in tensors}) == len(tensors):
        return ()
    objects: dict[int, int] = {}
    nodes: dict[UOp, int] = {}
    return tuple(
        [(objects.setdefault(id(t), i), nodes.setdefault(t.uop, i)) for i, t in enumerate(tensors)]
    )


def met_again(met: Mapping[int, Tensor], tensors: Sequence[Tensor]) -> Sequence[tuple[int, int]]:
    """Those of `tensors` that are in `met`, by place."""
    return [(i, id(t)) for i, t in enumerate(tensors) if id(t) in met]


def _shown(spec: tuple[DType, tuple[int, ...], str, Any]) -> str:
    dtype, shape, device, _ = spec
    return f"{dtype.name} {shape} on {device!r}"


# ---- one capture


class _Captured:
    """A compiled graph with what it takes from a call and what it gives back."""

    def __init__(
        self,
        recorded: Recorded,
        trace: Trace,
        specs: Sequence[tuple[DType, tuple[int, ...], str]],
        slopes: Slopes | None,
        guard: Guard | None,
    ) -> None:
        self.guard = guard
        capture, outputs, assigned = trace.capture, trace.outputs, trace.assigned
        self.slopes, self.before = slopes, tuple(capture.before_calls)
        self.recorded, self.outputs, self.specs = recorded, outputs, tuple(specs)
        self.sizes = tuple(trace.sizes)  # variables that the arguments' shapes depend on
        self.conditions = capture.conditions(trace.numbers)
        # A tensor from outside may be given as an argument as well: then they are one.
        self.met = {i: o.tensor for i, o in capture.outside.items()}
        self.both = met_again(self.met, trace.tensors)
        every = trace.inputs == [*range(len(trace.tensors))]
        self.inputs = None if every else trace.inputs  # numbers of the tensors that it takes
        self.values = [(evaluator(a.expression), a.dtype) for a in capture.numbers]
        self.drawn = capture.drawn if capture.draw_nodes else None
        self.assigned = tuple(assigned)  # input numbers; their new values are the last outputs
        varies = self.values or self.drawn is not None or self.sizes
        does_more = guard is not None or self.before or assigned or slopes is not None
        self.plain = outputs == ("tensor", 0) and not varies and not does_more

    def __call__(
        self, tensors: Sequence[Tensor], numbers: Sequence[int | float], structure: tuple[Any, ...]
    ) -> Any:
        recorded, specs = self.recorded, self.specs
        runtime = recorded.runtime
        given = tensors if self.inputs is None else [tensors[i] for i in self.inputs]
        inputs = []
        for t in given:
            node = t.uop
            inputs.append(node if node.op is _BUFFER else _leaf_of(t))
        if self.plain:  # what tiny work waits for
            return _fresh(runtime, recorded.with_leaves(inputs)[0], specs[0])
        values: Any = ()
        bound: dict[UOp, int] = {}
        if self.values:
            values = [as_scalar(value(numbers), dtype) for value, dtype in self.values]
        if self.drawn is not None:
            values = [*values, *runtime.draws.take(self.drawn)]
        if self.sizes:
            bound = values_in(sizes_of(tensors, structure))
            values = [*values, *[bound[v] for v in self.sizes]]
            specs = tuple([(d, tuple([rebound(n, bound) for n in s]), p) for d, s, p in specs])
        if self.guard is not None:
            self._check(self.guard, inputs, values, bound)
        for prepare in self.before:
            prepare()
        buffers = recorded.with_leaves(inputs, values)
        made = [_fresh(runtime, b, s) for b, s in zip(buffers, specs, strict=True)]
        if self.slopes is not None:
            at = len(values) - len(self.sizes)
            drawn = None if self.drawn is None else values[at - 3 : at]
            self.slopes.follow(runtime, made, tensors, numbers, drawn, bound)
        first = len(made) - len(self.assigned)
        for number, new in zip(self.assigned, made[first:], strict=True):
            tensors[number]._replace(new.uop)
        return filled(self.outputs, made, numbers)

    def _check(
        self, guard: Guard, inputs: Sequence[UOp], values: Sequence[Any], sizes: Mapping[UOp, int]
    ) -> None:
        """Raises IndexError_, with everything as before the call."""
        try:
            guard.judge(guard.recorded.with_leaves(inputs, values), sizes)
        except IndexError_:
            if self.drawn is not None:
                self.recorded.runtime.draws.give_back(values[len(self.values) + 2], self.drawn)
            raise


def _leaf_of(tensor: Tensor) -> UOp:
    """The leaf with the value of a tensor that may not have been computed yet."""
    realize([tensor])
    node = tensor.uop  # itself where its graph is kept for a gradient
    (leaf,) = realize_nodes([node], [node])
    return leaf


def _fresh(runtime: Runtime, buffer: Buffer, spec: tuple[DType, tuple[int, ...], str]) -> Tensor:
    dtype, shape, device = spec
    return replayed(runtime.leaf(dtype, shape, device, buffer), device, runtime.owner)


def _compiled(trace: Trace) -> _Captured:
    capture, updates = trace.capture, trace.updates
    holders = {o.node: o.tensor for o in capture.outside.values() if o.node.op is Ops.BUFFER}
    variables = [v for v, _ in capture.numbers.values()]
    inputs = [trace.leaves[i] for i in trace.inputs]
    given = [*variables, *(capture.draw_nodes or ()), *trace.sizes]
    recorded = make_plan(trace.roots, inputs, given, updates, holders)
    guard = guard_of(capture.checks, lambda roots: make_plan(roots, inputs, given, {}, holders))
    outside = [o for o in capture.outside.values() if not capture.symbolic([o.node])]
    slopes = slopes_of(trace, outside)
    default = next((f.device for f in recorded.routine.fresh), "")
    specs = [(r.dtype, r.shape, r.device or default) for r in trace.roots]
    return _Captured(recorded, trace, specs, slopes, guard)
