"""Model: a function with its parameters, captured once; then called, trained, saved and loaded.

The author's code runs when the Model is made and never again. What it built is kept as graphs
(entrypoints) over named state; each becomes a Plan when it is first used. A loaded Model is the
same thing without an author.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, overload

from .. import device as devices
from ..engine import Runtime, current, use
from ..engine.random import Draws
from ..errors import ArgumentError, StateError, UnknownName, no_such, public
from ..files import SafetensorsFile, TensorSpec, atomic
from ..files import safetensors as st
from ..files.limits import DEFAULT, Limits
from ..hooks import installed as hooks
from ..nn.state import check_names as check_state_names
from ..nn.state import from_bytes
from ..schedule.cache import substitute_all
from ..tensor import Tensor
from ..tensor.store import device_name, realize
from ..uop.ops import UOp
from . import tuned
from .bundle import Bundle, Contents, save
from .capture import Captured, State, capture
from .graph import Entrypoint
from .signature import Spec, bytes_of, check_shape, host_array, specs
from .summary import summary
from .trainable import Trainable


@public
class Model(Trainable):
    """A captured network.

    >>> class Line:
    ...     def __init__(self):
    ...         self.w, self.b = Tensor([0.0]), Tensor([0.0])
    ...     def __call__(self, x):
    ...         return {"prediction": x * self.w + self.b}
    >>> model = Model(Line(), inputs={"x": Tensor.empty(5)}, targets={"y": Tensor.empty(5)},
    ...               loss=lambda outputs, y: (outputs["prediction"] - y).square().mean())
    >>> x = np.arange(5, dtype=np.float32)
    >>> history = model.fit({"x": x, "y": 3 * x + 2}, epochs=300, optimizer="sgd", lr=0.1)
    >>> model.forward({"x": x})["prediction"].round().tolist()
    [2.0, 5.0, 8.0, 11.0, 14.0]

    `author` is called with the inputs by name and returns a Tensor or a dict of named outputs.
    `loss` is called with those outputs and the targets by name. `params` names the state of a plain
    function; without it, it is every Tensor that can be reached from the author's attributes.
    """

    def __init__(
        self,
        author: Any,
        inputs: Mapping[str, Any],
        targets: Mapping[str, Any] | None = None,
        loss: Callable[..., Any] | None = None,
        params: Any = None,
    ) -> None:
        given, wanted = specs(inputs, "inputs"), specs(targets, "targets")
        if both := set(given) & set(wanted):
            raise ArgumentError(f"{min(both)!r} is both an input and a target.")
        if wanted and loss is None:
            raise ArgumentError("targets are for a loss: give loss= too.")
        runtime, device = current(), devices.default()
        captured = capture(runtime, author, given, wanted, loss, params, device)
        generator = Draws()
        generator.state = _own_generator(runtime)
        self._set_up(captured, given | wanted, tuple(wanted), generator, runtime, device)

    # ---- state

    @property
    def params(self) -> list[str]:
        """Names of what the optimizer trains.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.params
        ['weight', 'bias']
        """
        return [n for n, s in self.states.items() if s.role == "param"]

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters, auxiliary and frozen state by name, tied names included.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> {name: t.shape for name, t in model.state_dict().items()}
        {'weight': (1, 2), 'bias': (1,)}
        """
        own = {n: s.tensor for n, s in self.states.items() if s.role != "optimizer"}
        return own | {alias: own[n] for alias, n in self.captured.aliases.items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Set the state to the values of the same names; all of it or, on an error, nothing.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.load_state_dict({"weight": [[1.0, 2.0]], "bias": [0.5]})
        >>> model.forward(x=np.ones((1, 2), np.float32))["output"].tolist()
        [[3.5]]
        """
        from ..nn import load_state_dict

        self._check_alive()
        with use(self.runtime):
            load_state_dict(self.state_dict(), state_dict, strict)

    def read_buffer(self, name: str) -> Any:
        """A numpy copy of one array of the state.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.read_buffer("weight").shape
        (1, 2)
        """
        state = self._state(name)
        self._check_written(name, state)
        return state.tensor.numpy()

    def write_buffer(self, name: str, value: Any) -> None:
        """Overwrite one array of the state; the value has its shape.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.write_buffer("bias", [2.0])
        >>> model.read_buffer("bias").tolist()
        [2.0]
        """
        state = self._state(name)
        view, shape = host_array(f"write_buffer: {name!r}", value, state.spec.dtype)
        check_shape(f"write_buffer: {name!r}", shape, state.spec)
        with use(self.runtime):
            state.tensor.assign(from_bytes(view, state.spec.dtype, shape, self.device)).realize()

    def _state(self, name: str) -> State:
        self._check_alive()
        real = self.captured.aliases.get(name, name)
        if real not in self.states:
            raise UnknownName(no_such("state", name, self.states))
        return self.states[real]

    def export_weights(self, path: str | os.PathLike[str] | None = None) -> bytes | None:
        """The state as a .safetensors file, or its bytes.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> list(nn.safe_load(model.export_weights()))
        ['bias', 'weight']
        """
        self._check_alive()
        self._check_initialized()
        tensors = {n: s.tensor for n, s in self.states.items() if s.role != "optimizer"}
        chunks = st.plan(
            {n: TensorSpec(*Spec.of(t)[::-1], bytes_of(t)) for n, t in tensors.items()}
        )
        if path is None:
            return b"".join(chunks)
        with atomic(path) as file:
            file.writelines(chunks)
        return None

    def import_weights(self, source: Any) -> None:
        """Replace the state by a .safetensors file with the same names, shapes and dtypes.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.write_buffer("bias", [2.0])
        >>> other = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> other.import_weights(model.export_weights())
        >>> other.read_buffer("bias").tolist()
        [2.0]
        """
        self._check_alive()
        own = {n: s for n, s in self.states.items() if s.role != "optimizer"}
        with SafetensorsFile(source) as file:
            check_state_names("import_weights", own, file.tensors)
            for name, info in file.tensors.items():
                what = f"import_weights: {name!r}"
                check_shape(what, info.shape, own[name].spec)
                if info.dtype is not own[name].spec.dtype:
                    raise ArgumentError(f"{what} is {info.dtype.name}, not {own[name].spec}.")
            with use(self.runtime):
                values = {
                    i.name: from_bytes(v, i.dtype, i.shape, self.device) for i, v in st.walk(file)
                }
        self.load_state_dict(values, strict=False)

    # ---- what it is

    def entrypoints(self) -> dict[str, dict[str, dict[str, str]]]:
        """What each entrypoint takes and gives, as texts.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.entrypoints()["forward"]
        {'inputs': {'x': 'float32[1, 2]'}, 'outputs': {'output': 'float32[1, 1]'}}
        """
        return {
            name: {
                "inputs": {n: str(self.specs[n]) for n in e.inputs},
                "outputs": {n: str(Spec(u.shape, u.dtype)) for n, u in e.outputs.items()},
            }
            for name, e in self.captured.entrypoints.items()
        }

    def summary(self) -> str:
        """A table of entrypoints and state. Runs nothing and reads no weight.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> "weight" in model.summary()
        True
        """
        entries = {
            name: (
                {n: self.specs[n] for n in e.inputs},
                {n: Spec(u.shape, u.dtype) for n, u in e.outputs.items()},
            )
            for name, e in self.captured.entrypoints.items()
        }
        return summary(entries, {n: (s.role, s.spec) for n, s in self.states.items()})

    def stats(self) -> dict[str, int]:
        """Kernels of each Plan made so far.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> _ = model.forward(x=np.ones((1, 2), np.float32))
        >>> list(model.stats())
        ['forward']
        """
        plans = dict(self._plans)
        plans |= {"train": self._trainer.step} if self._trainer else {}
        return {name: plan.routine.launches for name, plan in plans.items()}

    def __repr__(self) -> str:
        entries = ", ".join(self.captured.entrypoints)
        return f"Model({entries}; {len(self.params)} parameters on {self.device!r})"

    def set_metadata(self, key: str, value: Any) -> None:
        """Attach application data that JSON can hold; None removes it. Kept in bundles.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.set_metadata("classes", ["cat", "dog"])
        >>> model.get_metadata("classes")
        ['cat', 'dog']
        """
        from ..files import jsontext

        if key in ("transformer", "polygrad") or key.startswith("polygrad."):
            raise ArgumentError(f"the metadata key {key!r} is reserved.")
        try:
            text = jsontext.dumps(value)
        except (TypeError, ValueError) as e:
            raise ArgumentError(f"metadata {key!r} is no JSON value: {e}.") from None
        if "\0" in key or b"\\u0000" in text:
            raise ArgumentError(f"metadata {key!r} holds a NUL character.")
        self.metadata.pop(key, None)
        if value is not None:
            self.metadata[key] = jsontext.loads(text, ArgumentError)

    def get_metadata(self, key: str) -> Any:
        """A copy of what `set_metadata` attached, None if there is nothing.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.get_metadata("nothing") is None
        True
        """
        from copy import deepcopy

        return deepcopy(self.metadata.get(key))

    # ---- files

    @overload
    def save(self, path: None = None, include_optimizer: bool = True) -> bytes: ...
    @overload
    def save(self, path: str | os.PathLike[str], include_optimizer: bool = True) -> None: ...
    def save(
        self, path: str | os.PathLike[str] | None = None, include_optimizer: bool = True
    ) -> bytes | None:
        """Write a .pgb bundle atomically, or give its bytes. It needs no author's class to load.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> Model.load(model.save())
        Model(forward; 2 parameters on 'cpu')
        """
        self._check_alive()
        self._check_initialized()
        states = {
            n: s for n, s in self.states.items() if include_optimizer or s.role != "optimizer"
        }
        captured = Captured(
            self.captured.inputs, states, self.captured.aliases, self.captured.entrypoints
        )
        contents = Contents(
            captured,
            self.specs,
            self.targets,
            self.generator.state,
            self.optimizer_config() if include_optimizer else None,
            self.metadata,
            self.tuned,
        )
        with use(self.runtime):
            return save(contents, path)

    @classmethod
    def load(cls, source: Any, device: str | None = None, limits: Limits = DEFAULT) -> Model:
        """The Model of a .pgb bundle: a path or bytes. Raises BundleError for anything else.

        A text such as "hub:name" is a path too, unless an installed plugin knows the file behind
        it (the hook `polygrad_resolve_source`).
        Nothing in the file is executed: graphs are checked node by node and compiled here.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> Model.load(model.save()).params
        ['weight', 'bias']
        """
        place = device_name(device)
        runtime = current()
        with Bundle(hooks.resolve(source), limits) as bundle:
            contents = bundle.read(place)
        model = cls.__new__(cls)
        generator = Draws()
        generator.state = contents.generator
        model._set_up(
            contents.captured, contents.specs, contents.targets, generator, runtime, place
        )
        model.metadata = contents.metadata
        model._optimizer_config = contents.optimizer
        model.tuned = contents.tuned
        return model

    def __deepcopy__(self, memo: Any) -> Model:
        """A Model of its own in the same runtime, by way of the bytes of a bundle."""
        with use(self.runtime):
            return type(self).load(self.save(), self.device)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise StateError(
            "a Model is not pickled: its Plans are tied to this process. Write it with"
            " model.save(path) or data = model.save(), read it with Model.load. copy.deepcopy"
            " works."
        )

    # ---- speed

    def tune(self, beam: int = 4, seconds: int = 10) -> list[dict[str, Any]]:
        """Search for faster kernels for every entrypoint on this Model's device.

        `beam` is the width of the search, `seconds` what it may take for each kernel. What it
        found serves from now on and is kept in bundles, for machines alike. Results may differ in
        the last bits from those of a Model that was not tuned. Gives a row for each kernel: its
        times before and after, how many lists were tried, and the list that won.

        Raises ArgumentError on a device without times (interp).

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)}).place("cpu")
        >>> ["tried" in row for row in model.tune(beam=1, seconds=1)]
        [True]
        """
        self._check_alive()
        with use(self.runtime):
            return tuned.tune(self, beam, seconds)

    # ---- place and end

    def place(self, device: str) -> Model:
        """Move the Model to another device, in place; Plans are made anew there.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.place("interp").device
        'interp'
        """
        self._check_alive()
        target = device_name(device)
        captured = self.captured
        moved: dict[UOp, UOp] = {}
        for name, old in captured.inputs.items():
            captured.inputs[name] = moved[old] = UOp.buffer(old.dtype, old.shape, target)
        with use(self.runtime):
            for state in self.states.values():
                old, state.tensor = state.symbol, state.tensor.to(target)
                state.symbol = moved[old] = UOp.buffer(old.dtype, old.shape, target)
            realize([s.tensor for s in self.states.values()])
        for name, e in captured.entrypoints.items():
            roots = substitute_all([*e.roots, *[c.node for c in e.checks]], moved)
            count, last = len(e.outputs), len(e.roots)
            captured.entrypoints[name] = Entrypoint(
                e.inputs,
                dict(zip(e.outputs, roots[:count], strict=True)),
                dict(zip(e.writes, roots[count:last], strict=True)),
                e.draws,
                tuple(c._replace(node=u) for u, c in zip(roots[last:], e.checks, strict=True)),
            )
        self.device, self._ports, self._plans = target, {}, {}
        self._guards, self._trainer = {}, None
        return self

    def dispose(self) -> None:
        """Give the memory back; every later use is an error.

        >>> model = Model(nn.Linear(2, 1), {"x": Tensor.empty(1, 2)})
        >>> model.dispose()
        >>> model.forward(x=np.ones((1, 2), np.float32))
        Traceback (most recent call last):
        polygrad.errors.StateError: this Model was disposed.
        """
        self._disposed = True
        self._ports, self._plans, self._guards, self._trainer = {}, {}, {}, None
        self.captured = Captured({})

    free = dispose


def _own_generator(runtime: Runtime) -> tuple[int, int]:
    """Key and counter of a Model's own draws: fixed by the seed, apart from everybody else's."""
    from hashlib import blake2b

    drawn = ",".join(map(str, runtime.draws.take(2))).encode()
    return int.from_bytes(blake2b(drawn, digest_size=8).digest(), "little"), 0


__all__ = ["Model"]
