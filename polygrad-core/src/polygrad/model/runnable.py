"""The half of a Model that runs: its graphs, its state, and calls of its entrypoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import settings
from ..device.buffer import Buffer
from ..engine import Recorded, Runtime, make_plan, use
from ..engine.owner import explicit
from ..engine.random import Draws
from ..errors import ArgumentError, IndexError_, StateError, UnknownName, no_such, public, shown
from ..nn.optim import Optimizer
from ..tensor import Tensor
from ..tensor.checks import Guard
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
        self._plans: dict[str, Recorded] = {}  # the same
        self._guards: dict[str, Guard] = {}
        self._ready = self._disposed = False

    @property
    def states(self) -> dict[str, State]:
        """Every array that lives between calls, by name.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> [(name, state.role) for name, state in model.states.items()]
        [('weight', 'param'), ('bias', 'param')]
        """
        return self.captured.states

    def holders(self) -> dict[UOp, Tensor]:
        """Symbol of each state -> the Tensor that has its value.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> [t.shape for t in model.holders().values()]
        [(1, 2), (1,)]
        """
        return {s.symbol: s.tensor for s in self.states.values()}

    # ---- calling

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> Outputs:
        return self._run("forward", inputs, named)

    def forward(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> Outputs:
        """Run the entrypoint "forward": `model.forward(x=…)` or `model.forward({"x": …})`.

        Gives the outputs by name: numpy arrays, or Tensors if any input is one.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.forward(x=np.ones((1, 2), np.float32))["output"].shape
        (1, 1)
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
        """Run an entrypoint. Without `readback` nothing is returned but state may have changed.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> list(model.call("forward", {"x": np.ones((1, 2), np.float32)}))
        ['output']
        >>> model.call("forward", {"x": np.ones((1, 2), np.float32)}, readback=False)
        {}
        """
        return self._run(entrypoint, inputs, named, readback)

    def _run(
        self, entrypoint: str, inputs: Any, named: dict[str, Any], readback: bool = True
    ) -> Outputs:
        runtime = self.runtime
        if explicit.get() is not runtime.owner or runtime.disposed:
            with use(runtime):
                return self._run(entrypoint, inputs, named, readback)
        ports = self._ports.get(entrypoint) or self._made_ports(entrypoint)
        entry = ports.entry
        given = {**mapping(inputs), **named} if named else mapping(inputs)
        if given.keys() != ports.names:
            check_names(given, dict(ports.inputs), f"entrypoint {entrypoint!r}")
        sizes: Values = {}
        buffers = []
        for name, port in ports.inputs:
            buffers.append(port.take(given[name], sizes))
        # Made by the first call that gives what is taken: one that fails leaves nothing behind.
        plan = self._plans.get(entrypoint) or self._made_plan(entrypoint, entry)
        numbers = self._numbers(entry, sizes) if sizes or entry.draws else ()
        if entry.checks:
            self.check_indices(entrypoint, buffers, numbers, sizes)
        made = plan(buffers, numbers)
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

    def _made_plan(self, name: str, entry: Entrypoint) -> Recorded:
        if not self._ready:
            self._check_initialized()
        updates = {self.states[n].symbol: u for n, u in entry.writes.items()}
        with offered(self.tuned, self.device):
            made = self._compiled(entry, list(entry.outputs.values()), updates)
        self._plans[name] = made
        return made

    def _made_ports(self, name: str) -> Ports:
        entry = self._entrypoint(name)
        inputs = [
            (n, Input(f"entrypoint {name!r}: {n!r}", self.specs[n], self.device, self.runtime))
            for n in entry.inputs
        ]
        outputs = [Output.of(n, u) for n, u in entry.outputs.items()]
        names = frozenset(entry.inputs)
        made = Ports(entry, names, tuple(inputs), tuple(outputs), self.device, self.runtime)
        self._ports[name] = made
        return made

    def _compiled(
        self, entry: Entrypoint, roots: list[UOp], updates: Mapping[UOp, UOp]
    ) -> Recorded:
        """A Plan that takes what a call of `entry` gives."""
        return make_plan(
            roots,
            [self.captured.inputs[n] for n in entry.inputs],
            [*(draw_variables() if entry.draws else ()), *self._variables(entry)],
            updates,
            self.holders(),
        )

    def check_indices(
        self, name: str, buffers: Sequence[Buffer], numbers: Sequence[int], sizes: Values
    ) -> None:
        """Under POLY_CHECK=1 raise IndexError_ for an index of this call that is outside.

        >>> net = nn.Embedding(3, 2)
        >>> model = Model(net, {"index": Tensor.empty(1, dtype="int32")})
        >>> with Context(POLY_CHECK=1):
        ...     model.forward(index=np.array([3], np.int32))  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        polygrad.errors.IndexError_: element (0,) of the index is 3
        """
        entry = self.captured.entrypoints[name]
        if not entry.checks or not settings.get("POLY_CHECK"):
            return
        if name not in self._guards:
            self._guards[name] = Guard(entry.checks, lambda roots: self._compiled(entry, roots, {}))
        guard = self._guards[name]
        try:
            guard.judge(guard.recorded(buffers, numbers), sizes)
        except IndexError_:
            if entry.draws:
                self.generator.give_back(numbers[2], entry.draws)
            raise

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
    if type(inputs) is dict:  # what it is, almost always; to ask for any Mapping takes 0.2 us
        return inputs
    if not isinstance(inputs, Mapping):
        raise ArgumentError(
            f"inputs are given by name, as x=… or {{'x': …}}, not as {shown(inputs)}."
        )
    return inputs
