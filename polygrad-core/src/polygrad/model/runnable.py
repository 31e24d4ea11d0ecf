"""The half of a Model that runs: its graphs, its state, and calls of its entrypoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..engine import Runtime, current, make_plan, use
from ..engine.random import Draws
from ..errors import ArgumentError, StateError, UnknownName, no_such, public, shown
from ..nn.optim import Optimizer
from ..tensor import Tensor
from ..uop.ops import UOp
from ..uop.sizes import variables_in
from .capture import Captured, State, draw_variables
from .graph import Entrypoint
from .ports import Input, Output, Ports
from .signature import Outputs, Spec, Values, check_names
from .tuned import Tuned, offered

if TYPE_CHECKING:
    from .train import Trainer


@public
class Runnable:
    """Entrypoints over state. Each is made into a Plan when it is first called."""

    def _set_up(
        self,
        captured: Captured,
        all_specs: Mapping[str, Spec],
        targets: tuple[str, ...],
        generator: Draws,
        runtime: Runtime,
        device: str,
    ) -> None:
        self.captured, self.specs, self.targets = captured, dict(all_specs), targets
        self.generator, self.runtime, self.device = generator, runtime, device
        self.metadata: dict[str, Any] = {}
        self.optimizer: Optimizer | None = None
        self._optimizer_config: dict[str, Any] | None = None  # of a loaded bundle
        self._optimizer_given: str | Optimizer | None = None
        self._trainer: Trainer | None = None
        self.tuned: Tuned = {}
        self._ports: dict[str, Ports] = {}  # by entrypoint, once it was called
        self._ready = self._disposed = False

    @property
    def states(self) -> dict[str, State]:
        """Every array that lives between calls, by name."""
        return self.captured.states

    def holders(self) -> dict[UOp, Tensor]:
        """Symbol of each state -> the Tensor that has its value."""
        return {s.symbol: s.tensor for s in self.states.values()}

    # ---- calling

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> Outputs:
        return self._run("forward", inputs, named)

    def forward(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> Outputs:
        """Run the entrypoint "forward": `model.forward(x=…)` or `model.forward({"x": …})`.

        Gives the outputs by name: numpy arrays, or Tensors if any input is one.
        """
        return self._run("forward", inputs, named)

    def call(
        self,
        entrypoint: str,
        inputs: Mapping[str, Any] | None = None,
        /,
        readback: bool = True,
        **named: Any,
    ) -> Outputs:
        """Run an entrypoint. Without `readback` nothing is returned but state may have changed."""
        return self._run(entrypoint, inputs, named, readback)

    def _run(
        self, entrypoint: str, inputs: Any, named: dict[str, Any], readback: bool = True
    ) -> Outputs:
        runtime = self.runtime
        if current() is not runtime or runtime.disposed:
            with use(runtime):
                return self._run(entrypoint, inputs, named, readback)
        entry = self._entrypoint(entrypoint)
        given = {**mapping(inputs), **named} if named else mapping(inputs)
        ports = self._ports.get(entrypoint) or self._made_ports(entrypoint, entry)
        if given.keys() != ports.names:
            check_names(given, dict(ports.inputs), f"entrypoint {entrypoint!r}")
        sizes: Values = {}
        buffers = [port.take(given[name], sizes) for name, port in ports.inputs]
        made = ports.plan(buffers, self._numbers(entry, sizes))
        if not readback:
            return Outputs()
        for value in given.values():
            if isinstance(value, Tensor):
                return ports.tensors(made, sizes)
        return ports.arrays(made, sizes)

    def _entrypoint(self, name: str) -> Entrypoint:
        self._check_alive()
        known = self.captured.entrypoints
        if name not in known:
            raise UnknownName(no_such("entrypoint", name, known))
        return known[name]

    def _made_ports(self, name: str, entry: Entrypoint) -> Ports:
        if not self._ready:
            self._check_initialized()
        with offered(self.tuned, self.device):
            plan = make_plan(
                list(entry.outputs.values()),
                [self.captured.inputs[n] for n in entry.inputs],
                [*(draw_variables() if entry.draws else ()), *self._variables(entry)],
                {self.states[n].symbol: u for n, u in entry.writes.items()},
                self.holders(),
            )
        inputs = [
            (n, Input(f"entrypoint {name!r}: {n!r}", self.specs[n], self.device, self.runtime))
            for n in entry.inputs
        ]
        outputs = [Output.of(n, u) for n, u in entry.outputs.items()]
        made = Ports(plan, frozenset(entry.inputs), tuple(inputs), tuple(outputs), self.device)
        self._ports[name] = made
        return made

    def _variables(self, entry: Entrypoint) -> list[UOp]:
        """What the sizes of its inputs depend on."""
        return variables_in(n for name in entry.inputs for n in self.specs[name].shape)

    def _numbers(self, entry: Entrypoint, sizes: Values) -> tuple[int, ...]:
        """The numbers of a call: what its random draws start from, and its sizes."""
        drawn = self.generator.take(entry.draws) if entry.draws else ()
        return (*drawn, *[sizes[v] for v in self._variables(entry)]) if sizes else drawn

    def _check_initialized(self) -> None:
        """Refuse parameters that nobody wrote: `Tensor.empty` in an author, say."""
        for name, state in self.states.items():
            self._check_written(name, state)
        self._ready = True

    def _check_written(self, name: str, state: State) -> None:
        leaf = self.runtime.leaf_of(state.tensor.uop)
        buffer = None if leaf is None else self.runtime.find(leaf)
        if buffer is not None and buffer.nbytes and not buffer.allocated:
            raise StateError(
                f"{state.role} {name!r} ({state.spec}) is not initialized: nothing was ever"
                " written into it. Assign a value, or use load_state_dict or import_weights."
            )

    def _check_alive(self) -> None:
        if self._disposed:
            raise StateError("this Model was disposed.")


def mapping(inputs: Any) -> Mapping[str, Any]:
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        raise ArgumentError(
            f"inputs are given by name, as x=… or {{'x': …}}, not as {shown(inputs)}."
        )
    return inputs
