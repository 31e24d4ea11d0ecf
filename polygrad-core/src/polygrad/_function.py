"""`function`: a computation over tensors as one node of the graph.

The body runs over symbols, as in `jit`, but nothing is compiled or run: its graph is put into the
graph of the caller. So it is lazy and differentiable like an operation, may be called inside of
`jit` and a `Model`, and has no effects: it may not assign to what it did not make. It reads its
arguments (the tensors as they are when it is called) and, for a method, what its object holds;
other tensors are an error unless they are allowed.

The values are a FUNCTION node each, so that a rule of the user's (`grad_fxn`) can say what flows
into the arguments; without one, a gradient flows through the body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ._jit import Compiled, Signature
from ._nested import filled
from ._trace import Trace, settled
from ._traced import Filling, Traced
from .engine.capture import Check, active
from .engine.functional import functional
from .engine.owner import world
from .engine.runtime import current, use
from .errors import ArgumentError, CaptureError, GradientError, public, shown
from .gradient_rules import PYTHON, THROUGH, Function, Joint
from .nn.state import get_state_dict
from .schedule.cache import substitute_all
from .tensor import Tensor
from .tensor.base import result
from .tensor.checks import check_again
from .tensor.kernels import gradients_of
from .uop.ops import Ops, UOp
from .uop.provenance import describe


@public
def function(
    fn: Callable[..., Any] | None = None,
    *,
    precompile: bool = False,
    precompile_backward: bool = False,
    allow_implicit: bool = False,
    grad_fxn: Callable[..., Any] | None = None,
) -> Any:
    """Make a function of tensors one node of the graph; a decorator, with or without options.

    The function returns a Tensor, or a tuple or list of them. `precompile`: it runs in Python once
    for each set of shapes, dtypes, devices and other arguments, and later calls use that graph
    again (numbers stay variable, random draws differ). `precompile_backward`: so does the gradient.
    `allow_implicit`: it may use tensors that are neither arguments nor its object's.
    `grad_fxn(*gradients, *tensors)` gives a gradient, or None, for each tensor: gradients (None
    where nothing flows) are those of the results, tensors those of the arguments and then those of
    its object that it used. Raises ArgumentError, CaptureError and GradientError.

    >>> from polygrad import Tensor
    >>> @function(grad_fxn=lambda g, x: (g,))
    ... def rounded(x):
    ...     return x.round()
    >>> x = Tensor([0.2, 1.7])
    >>> rounded(x).tolist(), rounded(x).sum().gradient(x)[0].tolist()
    ([0.0, 2.0], [1.0, 1.0])
    """
    options = (precompile, precompile_backward, allow_implicit, grad_fxn)
    if fn is None:
        return lambda given: Wrapped(given, *options)
    return Wrapped(fn, *options)


class Wrapped(Compiled):
    """A function made by `function`; call it as the original."""

    any_size = False

    def __init__(
        self,
        fn: Callable[..., Any],
        precompile: bool,
        precompile_backward: bool,
        allow_implicit: bool,
        grad_fxn: Callable[..., Any] | None,
        only_tensors: bool = True,
    ) -> None:
        super().__init__(fn, "function", one_signature=False)
        if grad_fxn is not None and not callable(grad_fxn):
            raise ArgumentError(f"function: grad_fxn is a function, not {shown(grad_fxn)}.")
        self.precompile, self.allow_implicit = precompile, allow_implicit
        self.only_tensors = only_tensors
        self.grad_fxn, self.precompile_backward = grad_fxn, precompile_backward
        if grad_fxn is not None and precompile_backward:
            self.grad_fxn = Wrapped(grad_fxn, True, False, True, None, only_tensors=False)

    @property
    def title(self) -> str:
        return f"function {self.name}"

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._apply(self.receiver, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else partial(self._of, instance)

    @public
    def _of(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self._apply(instance, (instance, *args), kwargs)

    def stats(self) -> dict[str, int]:
        """Calls, runs of the function in Python, and graphs kept (`precompile`)."""
        kept = sum(map(len, list(self._captures.values())))
        return {"calls": self._calls, "captures": self._captured, "kept": kept}

    def _apply(self, receiver: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if world.several and (home := self._elsewhere((args, kwargs))):
            with use(home):
                return self._apply(receiver, args, kwargs)
        tensors: list[Tensor] = []
        numbers: list[Any] = []
        signature = self._signature(args, kwargs, tensors, numbers)
        outer = active.get()
        if outer is not None and outer.watched:
            told = Signature._make(signature)
            signature = told._replace(modes=(told.modes[0], True))
        self._calls += 1
        body = self._find(signature, tensors, numbers) if self.precompile else None
        if body is None:
            body = self._traced(receiver, args, kwargs, tensors, numbers)
            with self._lock:  # not while tracing: two functions may call each other on two threads
                self._captured += 1
                if self.precompile and body.lasting:
                    self._keep(signature, body)
        return body(tensors, numbers)

    def _traced(
        self,
        receiver: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Tensor],
        numbers: Sequence[Any],
    ) -> _Body:
        def make(**how: Any) -> Trace:
            now = not self.precompile
            return Trace(self.title, args, kwargs, tensors, numbers, pure=True, fixed=now, **how)

        if self.precompile and active.get() is None:
            trace = settled(make, self.function)
        else:
            trace = make()
            trace.run(self.function)
        return _Body(self, trace, [] if receiver is None else get_state_dict(receiver).values())


class _Body:
    """The graph of one run, and what it takes from a call."""

    met: Mapping[int, Tensor] = {}  # it writes nothing, so it is all one what else is an argument

    def __init__(self, owner: Wrapped, trace: Trace, state: Any) -> None:
        self.owner, self.outputs = owner, trace.outputs
        _check_results(owner, trace.outputs)
        capture = trace.capture
        met = list(capture.outside.values())
        known = {id(t): i for i, t in enumerate(state)}
        implicit = [o for o in met if id(o.tensor) not in known]
        if implicit and not owner.allow_implicit:
            raise CaptureError(_implicit_text(owner.title, implicit[0].node))
        if trace.updates:
            node = next(iter(trace.updates))
            raise CaptureError(
                f"the {owner.title} replaces a tensor of {node.dtype.name} {node.shape} that it did"
                " not make; a function only computes. Return the new value."
            )
        own = sorted((o for o in met if id(o.tensor) in known), key=lambda o: known[id(o.tensor)])
        self.own, self.implicit = [o.tensor for o in own], [o.tensor for o in implicit]
        stand_ins = {
            o.node: UOp.buffer(o.node.dtype, o.node.shape, o.tensor.device)
            for o in (*own, *implicit)
        }
        nodes = [*trace.roots, *[c.node for c in capture.checks]]
        plain = functional(nodes, lambda n: n if n in stand_ins else None)
        roots, count = substitute_all(plain, stand_ins), len(trace.roots)
        leaves = [*trace.leaves, *[stand_ins[o.node] for o in (*own, *implicit)]]
        self.traced = Traced(capture, roots[:count], leaves)
        self.bounds = [c.bounds for c in capture.checks]
        self.indices = Traced(capture, roots[count:], leaves)
        self.conditions = capture.conditions(trace.numbers)
        # What is met while another capture runs may not have its memory yet.
        self.lasting = not met or active.get() is None

    def __call__(self, tensors: Sequence[Tensor], numbers: Sequence[Any]) -> Any:
        operands = [*tensors, *self.own, *self.implicit]
        draws = self.traced.draws(current())
        filling = Filling([t.uop for t in operands], list(numbers), draws)
        values = self.traced.over(filling)
        if self.bounds:
            for index, bounds in zip(self.indices.over(filling), self.bounds, strict=True):
                check_again(Check(index, bounds), operands)
        total, rule = len(values), self._rule(tensors, filling)
        src = tuple(values)
        if rule is not None:
            src = (*[v.detach() for v in values], *filling.nodes)
        name = THROUGH if rule is None else PYTHON
        nodes = [
            UOp(Ops.FUNCTION, v.dtype, src, Function(name, i, total, rule))
            for i, v in enumerate(values)
        ]
        return filled(self.outputs, [_result(u, operands) for u in nodes], numbers)

    def _rule(self, tensors: Sequence[Tensor], filling: Filling) -> Joint | None:
        """What says what flows into the operands, None if it flows through the body."""
        total, owner = len(self.traced.roots), self.owner
        if owner.grad_fxn is not None:
            asking = next((t for t in self.implicit if t._requires_grad), None)
            if asking is not None:
                raise GradientError(
                    f"the {owner.title} has a grad_fxn, which gives no gradient to the tensor of"
                    f" {asking.dtype.name} {asking.shape} that it uses; pass it as an argument."
                )
            given = [*tensors, *self.own]
            return partial(_by_hand, owner, [result(t.uop, t) for t in given], total)
        if not owner.precompile_backward:
            return None

        def rule(node: UOp, flowing: Sequence[UOp | None]) -> list[UOp | None]:
            now = filling._replace(nodes=node.src[total:])
            return [*[None] * total, *self.traced.slope(flowing, now)]

        return rule


def _by_hand(
    owner: Wrapped,
    tensors: Sequence[Tensor],
    total: int,
    node: UOp,
    flowing: Sequence[UOp | None],
) -> list[UOp | None]:
    """`grad_fxn` on nodes; the operands are sources of the node that it is asked about."""
    given = [result(u, t) for u, t in zip(node.src[total:], tensors, strict=False)]
    each = [None if g is None else result(g) for g in flowing]
    found = owner.grad_fxn(*each, *given)  # type: ignore[misc]
    found = (found,) if isinstance(found, Tensor) and len(given) == 1 else found
    parts = gradients_of(owner.title, found, given)
    rest = len(node.src) - total - len(parts)
    return [*[None] * total, *parts, *[None] * rest]


def _result(u: UOp, operands: Sequence[Tensor]) -> Tensor:
    """The Tensor of a value; operands may be on other devices, if the body moved them."""
    here = [t for t in operands if t._device is None or t._device == u.device]
    out = result(u, *here)
    capture = active.get()
    for t in operands:
        if capture is not None:
            capture.see(t)
        if t._requires_grad and out._requires_grad is None:
            out._requires_grad = True
    return out


def _check_results(owner: Wrapped, outputs: Any) -> None:
    if not owner.only_tensors or outputs[0] == "tensor":
        return
    if outputs[0] == "parts" and isinstance(outputs[1], (list, tuple)) and outputs[2]:
        if all(kind == "tensor" for kind, *_ in outputs[2].values()):
            return
    given = "a number" if outputs[0] == "number" else shown(outputs[1])
    raise ArgumentError(
        f"the {owner.title} returns a Tensor, or a tuple or list of at least one, not {given}."
    )


def _implicit_text(what: str, node: UOp) -> str:
    where = f" made at {describe(node)}" if node.provenance else ""
    return (
        f"the {what} uses a tensor of {node.dtype.name} {node.shape}{where} that is no argument;"
        " pass it, or say allow_implicit=True."
    )
