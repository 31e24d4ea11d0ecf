"""From an author's object to graphs: run it once per mode on placeholders, keep what it built.

The author is called like a function, `author(**inputs)`, with Tensors that have a shape and a dtype
but no value. What it returns are the outputs; what it assigned to auxiliary tensors (running means)
are writes of the entrypoint. Its Tensors become the Model's state, by the path of attributes.

With a loss there are three entrypoints, of two runs: `forward` and `loss` as in use, `train` with
TRAINING on. Without one there is `forward`, with TRAINING as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import settings
from ..arguments import call_back
from ..engine.capture import Capture, Check
from ..engine.functional import functional
from ..engine.runtime import Runtime, current
from ..errors import ArgumentError, CaptureError, shown
from ..nn.init import decays
from ..nn.state import get_state_dict, is_parameter, put_back
from ..schedule.cache import substitute_all
from ..tensor import Tensor
from ..tensor.base import leaf as make_leaf
from ..tensor.store import realize
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.provenance import describe
from ..uop.sizes import is_fixed, variables_of
from .graph import Entrypoint
from .signature import Outputs, Spec

ROLES = ("param", "aux", "frozen", "optimizer")


@dataclass(slots=True)
class State:
    """One array that lives between calls: `symbol` in graphs, `tensor` in memory.

    The symbol is a leaf of its own that never has memory: were it the tensor's leaf, every graph
    would count as a reader of the old value, and each update would have to keep a copy for it.
    `tensor` is the author's own object where there is one, so that both see each other's changes.
    """

    role: str
    tensor: Tensor
    symbol: UOp
    decays: bool = True  # whether weight decay shrinks it, unless the optimizer says otherwise

    @classmethod
    def of(cls, role: str, tensor: Tensor) -> State:
        symbol = UOp.buffer(tensor.dtype, tensor.shape, tensor.device)
        return cls(role, tensor, symbol, decays(tensor))

    @property
    def spec(self) -> Spec:
        return Spec.of(self.tensor)


@dataclass(slots=True)
class Captured:
    """Everything a Model is made of."""

    inputs: dict[str, UOp]  # name -> placeholder, targets too
    states: dict[str, State] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)  # a further name of a tied tensor -> name
    entrypoints: dict[str, Entrypoint] = field(default_factory=dict)


def capture(
    runtime: Runtime,
    author: Any,
    inputs: Mapping[str, Spec],
    targets: Mapping[str, Spec],
    loss: Callable[..., Any] | None,
    params: Any,
    device: str,
) -> Captured:
    """Run `author` once per mode and collect graphs and state."""
    call = _callable(author)
    states, aliases = _states(author, params)
    leaves = {
        name: UOp.buffer(s.dtype, s.shape, device) for name, s in {**inputs, **targets}.items()
    }
    made = Captured(leaves, states, aliases)
    run = _Run(runtime, made, call, loss, tuple(inputs), tuple(targets))
    try:
        run.trace_all()
        if params is None:
            _check_not_replaced(author, made)
    except BaseException:
        if params is None:
            _put_back(author, made)
        raise
    return made


def _callable(author: Any) -> Callable[..., Any]:
    if callable(author):
        return author  # type: ignore[no-any-return]
    forward = getattr(author, "forward", None)
    if not callable(forward):
        given = shown(author)
        raise ArgumentError(f"Model takes a callable, or an object with forward(), not {given}.")
    return forward  # type: ignore[no-any-return]


# ---- state


def _states(author: Any, params: Any) -> tuple[dict[str, State], dict[str, str]]:
    """The named Tensors, realised together, with their roles; a second name of one is an alias."""
    named = get_state_dict(author if params is None else params)
    states: dict[str, State] = {}
    aliases: dict[str, str] = {}
    first: dict[int, str] = {}
    for name, tensor in named.items():
        if id(tensor) in first:
            aliases[name] = first[id(tensor)]
        else:
            first[id(tensor)] = name
            if not is_fixed(tensor.shape):
                raise ArgumentError(f"the state {name!r} has a size that varies: {tensor.shape}.")
            states[name] = State.of("param" if is_parameter(tensor) else "aux", tensor)
    realize([s.tensor for s in states.values()])
    return states, aliases


def _put_back(author: Any, made: Captured) -> None:
    """After a failure: no attribute keeps a tensor of a capture that has ended."""
    found = get_state_dict(author)
    for name, own in {**{n: n for n in made.states}, **made.aliases}.items():
        state = made.states[own]
        if state.role != "frozen" and found.get(name, state.tensor) is not state.tensor:
            put_back(author, name, state.tensor)


def _check_not_replaced(author: Any, made: Captured) -> None:
    """An attribute that holds another Tensor now is lost: the graph knows only assignments."""
    after = get_state_dict(author)
    for name, state in made.states.items():
        if state.role != "frozen" and after.get(name) is not state.tensor:
            raise CaptureError(
                f"the author replaced its tensor {name!r} while it was captured;"
                f" change it with .assign(…), so that the Model keeps it."
            )


# ---- one run of the author


class _Run:
    def __init__(
        self,
        runtime: Runtime,
        made: Captured,
        call: Callable[..., Any],
        loss: Callable[..., Any] | None,
        inputs: tuple[str, ...],
        targets: tuple[str, ...],
    ) -> None:
        self.runtime, self.made, self.call, self.loss = runtime, made, call, loss
        self.inputs, self.targets = inputs, targets

    def trace_all(self) -> None:
        """Make the entrypoints."""
        entrypoints = self.made.entrypoints
        if self.loss is None:
            outputs, _, entry = self.trace(bool(settings.get("TRAINING")))
            entrypoints["forward"] = entry(outputs)
            return
        outputs, value, entry = self.trace(False)
        entrypoints["forward"] = entry(outputs)
        entrypoints["loss"] = entry({"loss": value}, targets=True)
        outputs, value, entry = self.trace(True)
        entrypoints["train"] = entry({"loss": value}, targets=True)

    def trace(self, training: bool) -> tuple[dict[str, UOp], UOp | None, _Entry]:
        """Outputs, loss and a maker of entrypoints of one run; the tensors are put back."""
        what = "training" if training else "forward"
        notes = Capture(self.runtime, f"capture of the Model's {what}", watched=True)
        states = self.made.states
        before = {name: s.tensor.uop for name, s in states.items()}
        notes.placeholders.update(self.made.inputs.values(), (s.symbol for s in states.values()))
        symbols = {n: make_leaf(u, u.arg[2], False) for n, u in self.made.inputs.items()}
        try:
            for s in states.values():
                s.tensor._replace(s.symbol)
            with settings.Context(TRAINING=training), self.runtime.capture(notes):
                given = {n: symbols[n] for n in self.inputs}
                returned = call_back("Model: the author", self.call, **given)
                outputs, forward = _named(returned), len(notes.checks)
                loss = self._loss(outputs, {n: symbols[n] for n in self.targets})
            # Nodes, not tensors: an output may be a state's own tensor, which is put back below.
            results = {name: t.uop for name, t in outputs.items()}
            value = None if loss is None else loss.uop
            after = {name: s.tensor.uop for name, s in states.items()}
            self._check_assigned(notes, symbols)
        finally:
            notes.restore()
            for name, s in states.items():
                s.tensor._replace(before[name])
        writes = {n: u for n, u in after.items() if u is not states[n].symbol}
        return results, value, _Entry(self, notes, writes, forward)

    def _loss(self, outputs: dict[str, Tensor], targets: dict[str, Tensor]) -> Tensor | None:
        if self.loss is None:
            return None
        value = call_back("Model: the loss", self.loss, outputs, **targets)
        if not isinstance(value, Tensor):
            raise ArgumentError(
                f"the loss of a Model is a tensor of one float, not {shown(value)}."
            )
        if size(value.shape) != 1 or not value.dtype.is_float:
            raise ArgumentError(
                f"the loss of a Model is one float, not {Spec.of(value)}; take its mean()."
            )
        return value

    def _check_assigned(self, notes: Capture, symbols: Mapping[str, Tensor]) -> None:
        names = {id(s.tensor): n for n, s in self.made.states.items()}
        given = {id(t): n for n, t in symbols.items()}
        for reference, node in notes.assigned.values():
            tensor = reference()
            name = names.get(id(tensor))
            if tensor is None or (name and self.made.states[name].role == "aux"):
                continue
            if name:
                raise CaptureError(
                    f"the author assigns to its parameter {name!r}; the optimizer does that."
                    f" Mark state of your own with .requires_grad_(False)."
                )
            if id(tensor) in given:
                raise CaptureError(f"the author assigns to its input {given[id(tensor)]!r}.")
            if not notes.made_here(node):
                raise CaptureError(
                    f"the author assigns to a tensor of shape {tensor.shape} that is no state of"
                    " the Model; make it an attribute, or name it in params=."
                )


def _named(returned: Any) -> dict[str, Tensor]:
    """The outputs by name: a dict as it is, one Tensor as "output", a tuple as "output0", …"""
    if isinstance(returned, Tensor):
        returned = {"output": returned}
    elif isinstance(returned, tuple) and hasattr(returned, "_fields"):
        returned = dict(zip(returned._fields, returned, strict=True))
    elif isinstance(returned, (list, tuple)):
        returned = {f"output{i}": t for i, t in enumerate(returned)}
    if not isinstance(returned, Mapping) or not returned:
        raise ArgumentError(
            f"the author returns a Tensor or a dict of them, not {shown(returned)}."
        )
    for name, tensor in returned.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ArgumentError(f"the author's output {name!r} is no Tensor but {shown(tensor)}.")
    return Outputs(returned)


class _Entry:
    """Makes entrypoints of one run: graphs without assignments, over known leaves only."""

    def __init__(self, run: _Run, notes: Capture, writes: Mapping[str, UOp], forward: int) -> None:
        """`forward` is the number of checks that were noted before the loss."""
        self.run, self.notes, self.writes, self.forward = run, notes, writes, forward

    def __call__(self, outputs: Mapping[str, UOp | None], targets: bool = False) -> Entrypoint:
        nodes = {n: u for n, u in outputs.items() if u is not None}
        roots = [*nodes.values(), *self.writes.values()]
        plain = functional(roots, self.run.runtime.leaf_of)
        frozen = self._frozen(plain)
        plain = substitute_all(plain, frozen)
        count = len(nodes)
        names = self.run.inputs + (self.run.targets if targets else ())
        return Entrypoint(
            names,
            dict(zip(nodes, plain[:count], strict=True)),
            dict(zip(self.writes, plain[count:], strict=True)),
            self.notes.drawn,
            self._checks(plain, frozen, None if targets else self.forward),
        )

    def _checks(
        self, roots: list[UOp], frozen: Mapping[UOp, UOp], count: int | None
    ) -> tuple[Check, ...]:
        """Those of indices that the graph of the results reads."""
        some = self.notes.checks[:count]
        nodes = functional([c.node for c in some], self.run.runtime.leaf_of)
        read = set(toposort(roots))
        nodes = substitute_all(nodes, frozen)
        return tuple(Check(u, c.bounds) for u, c in zip(nodes, some, strict=True) if u in read)

    def _frozen(self, roots: list[UOp]) -> dict[UOp, UOp]:
        """Leaves are inputs, state, draws, or data made on the spot: those are frozen."""
        states = self.run.made.states
        known = {s.symbol for s in states.values()} | set(self.run.made.inputs.values())
        known.update(self.notes.draw_nodes or ())
        known.update(variables_of(list(self.run.made.inputs.values())))
        frozen: dict[UOp, UOp] = {}
        for node in variables_of(roots):
            if node not in known:
                raise CaptureError(self._unknown(node))
        for node in toposort(roots):
            if node in known or node.op is not Ops.BUFFER:
                continue
            if node.arg[0] <= self.notes.started:
                raise CaptureError(self._unknown(node))
            state = State.of("frozen", make_leaf(node, node.arg[2], False))
            states[f"constants.{sum(s.role == 'frozen' for s in states.values())}"] = state
            frozen[node] = state.symbol
        return frozen

    def _unknown(self, node: UOp) -> str:
        if node.op is Ops.VARIABLE:
            return (
                f"the author uses the variable {node.arg[0]!r}, which no input has, or a random"
                " tensor that was made outside; realize() it, and name it in params=."
            )
        where = f", made at {describe(node)}" if node.provenance else ""
        return (
            f"the author uses a tensor of shape {node.shape} that is no attribute of it{where};"
            " name the tensors of a plain function: params={'w': w}."
        )


def draw_variables() -> tuple[UOp, UOp, UOp]:
    """The leaves that random draws of any captured graph take their key and base from."""
    return Capture(current(), "Model").draw(0)
