"""The half of a Model that runs: its graphs, its state, and calls of its entrypoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..device.buffer import Buffer, pool, with_room
from ..engine import Recorded, Runtime, make_plan, use
from ..engine.owner import mixed
from ..engine.random import Draws
from ..errors import ArgumentError, StateError, UnknownName, no_such, public, shown
from ..nn.optim import Optimizer
from ..tensor import Tensor
from ..tensor.base import away, replayed
from ..tensor.host import array_of
from ..uop.ops import Ops, UOp, size
from ..uop.sizes import actual, rebound, variables_in
from .capture import Captured, State, draw_variables
from .graph import Entrypoint
from .signature import (
    Outputs,
    Spec,
    Values,
    check_dtype,
    check_names,
    check_shape,
    host_array,
)

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
        self._plans: dict[str, Recorded] = {}
        self._ready = self._disposed = False

    @property
    def states(self) -> dict[str, State]:
        """Every array that lives between calls, by name."""
        return self.captured.states

    def holders(self) -> dict[UOp, Tensor]:
        """Symbol of each state -> the Tensor that has its value."""
        return {s.symbol: s.tensor for s in self.states.values()}

    # ---- calling

    def __call__(self, *args: Any, **inputs: Any) -> Outputs:
        return self.forward(*args, **inputs)

    def forward(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> Outputs:
        """Run the entrypoint "forward": `model.forward(x=…)` or `model.forward({"x": …})`.

        Gives the outputs by name: numpy arrays, or Tensors if any input is one.
        """
        return self.call("forward", inputs, **named)

    def call(
        self,
        entrypoint: str,
        inputs: Mapping[str, Any] | None = None,
        /,
        readback: bool = True,
        **named: Any,
    ) -> Outputs:
        """Run an entrypoint. Without `readback` nothing is returned but state may have changed."""
        entry = self._entrypoint(entrypoint)
        given = {**mapping(inputs), **named}
        what = f"entrypoint {entrypoint!r}"
        check_names(given, dict.fromkeys(entry.inputs), what)
        with use(self.runtime):
            sizes: Values = {}
            buffers = [self._input(what, n, given[n], sizes) for n in entry.inputs]
            plan = self._plan(entrypoint, entry)
            made = plan(buffers, self._numbers(entry, sizes))
            if not readback:
                return Outputs()
            tensors = any(isinstance(v, Tensor) for v in given.values())
            give = self._tensor if tensors else _array
            pairs = zip(entry.outputs.items(), made, strict=True)
            return Outputs({n: give(b, _spec(u, sizes)) for (n, u), b in pairs})

    def _entrypoint(self, name: str) -> Entrypoint:
        self._check_alive()
        known = self.captured.entrypoints
        if name not in known:
            raise UnknownName(no_such("entrypoint", name, known))
        return known[name]

    def _plan(self, name: str, entry: Entrypoint) -> Recorded:
        if not self._ready:
            self._check_initialized()
        found = self._plans.get(name)
        if found is None:
            with use(self.runtime):
                found = self._plans[name] = make_plan(
                    list(entry.outputs.values()),
                    [self.captured.inputs[n] for n in entry.inputs],
                    [*(draw_variables() if entry.draws else ()), *self._variables(entry)],
                    {self.states[n].symbol: u for n, u in entry.writes.items()},
                    self.holders(),
                )
        return found

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

    def _input(self, what: str, name: str, value: Any, sizes: Values) -> Buffer:
        """A Buffer with room for the largest, whatever was given; its sizes go to `sizes`."""
        spec = self.specs[name]
        if isinstance(value, Tensor):
            label = f"{what}: {name!r}"
            if away(value):
                raise mixed(self.runtime.owner, value.runtime.owner)
            check_shape(label, value.shape, spec, sizes)
            check_dtype(label, value.dtype, spec)
            node = value.uop
            if node.op is Ops.BUFFER and node.dtype is spec.dtype and node.arg[2] == self.device:
                return with_room(self.runtime.buffer_of(node), spec.nbytes)
            ready = value.cast(spec.dtype).to(self.device).realize()
            leaf = self.runtime.leaf_of(ready.uop)
            assert leaf is not None
            return with_room(self.runtime.buffer_of(leaf), spec.nbytes)
        view, shape = host_array(f"{what}: {name!r}", value, spec.dtype)
        check_shape(f"{what}: {name!r}", shape, spec, sizes)
        buffer = Buffer.of_pool(pool(self.device), spec.nbytes)
        buffer.write(view)
        return buffer

    def _tensor(self, buffer: Buffer, spec: Spec) -> Tensor:
        node = UOp.buffer(spec.dtype, spec.shape, self.device)
        self.runtime.bind(node, buffer)
        return replayed(node, self.device, self.runtime.owner)

    def _check_alive(self) -> None:
        if self._disposed:
            raise StateError("this Model was disposed.")


def _spec(u: UOp, sizes: Values) -> Spec:
    """What an output of a call is."""
    return Spec(tuple([rebound(n, sizes) for n in u.shape]) if sizes else u.shape, u.dtype)


def _array(buffer: Buffer, spec: Spec) -> Any:
    shape = actual(spec.shape)
    return array_of(buffer.read(size(shape) * spec.dtype.itemsize), spec.dtype, shape)


def mapping(inputs: Any) -> Mapping[str, Any]:
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        raise ArgumentError(
            f"inputs are given by name, as x=… or {{'x': …}}, not as {shown(inputs)}."
        )
    return inputs
