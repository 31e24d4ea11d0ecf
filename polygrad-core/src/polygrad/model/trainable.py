"""The half of a Model that learns: fit, single steps, and the optimizer it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Literal

from ..engine import use
from ..engine.owner import explicit
from ..errors import ArgumentError, StateError, public, shown
from ..nn.lr import checked
from ..nn.optim import Optimizer
from ..nn.optim import make as make_optimizer
from . import data as batches
from .graph import Entrypoint
from .history import History
from .ports import Ports
from .runnable import Runnable, mapping
from .signature import Values, check_names
from .train import Callback, Trainer, loop


@public
class Trainable(Runnable):
    """Training on top of what can be called."""

    def fit(
        self,
        data: Any,
        epochs: int = 1,
        batch_size: int | None = None,
        optimizer: str | Optimizer | None = None,
        lr: Any = None,
        remainder: Literal["error", "drop", "keep"] = "error",
        shuffle: bool | int = False,
        validation: Any = None,
        callbacks: Callback | Sequence[Callback] = (),
        progress: bool = True,
    ) -> History:
        """Train on `data`, and give the loss of each step.

        `data` maps inputs and targets to arrays, or is an iterable of such mappings, one per batch.
        Without `batch_size` each step sees all of it. `shuffle` draws a new order for each epoch (a
        number seeds it). `validation` is data whose loss is taken after each epoch. A callback gets
        a `Step` after each step, and ends the training by returning False.

        >>> loss = lambda out, y: (out["output"] - y).square().mean()
        >>> spec = Tensor.empty(4, 1)
        >>> model = Model(nn.Linear(1, 1), {"x": spec}, {"y": spec}, loss)
        >>> x = np.ones((4, 1), np.float32)
        >>> model.set_optimizer("sgd", lr=0.1)
        >>> len(model.fit({"x": x, "y": x}, epochs=3, progress=False).losses)
        3
        """
        entry = self._training_entry()
        wanted = {n: self.specs[n] for n in entry.inputs}
        source = batches.batches(data, wanted, batch_size, remainder, shuffle)
        evaluate = self._evaluation(validation, batch_size)
        if type(epochs) is not int or epochs < 0:
            raise ArgumentError(f"fit: epochs={epochs!r} is no whole number of 0 or more.")
        some = (callbacks,) if callable(callbacks) else tuple(callbacks)
        if not all(map(callable, some)):
            raise ArgumentError(f"fit: callbacks are functions, not {shown(callbacks)}.")
        trainer = self._trained_by(optimizer, lr)
        with use(self.runtime):
            return loop(trainer, source, epochs, some, progress, evaluate)

    def train_step(self, data: Mapping[str, Any] | None = None, /, **named: Any) -> float:
        """One step on one batch with the optimizer that is set; gives the loss before it.

        Arrays are copied. A Tensor of the declared dtype on the Model's device is read where it is.

        >>> loss = lambda out, y: (out["output"] - y).square().mean()
        >>> spec = Tensor.empty(4, 1)
        >>> model = Model(nn.Linear(1, 1), {"x": spec}, {"y": spec}, loss)
        >>> x = np.ones((4, 1), np.float32)
        >>> model.set_optimizer("sgd", lr=0.1)
        >>> model.train_step(x=x, y=x) > model.train_step(x=x, y=x)
        True
        """
        runtime = self.runtime
        if explicit.get() is not runtime.owner or runtime.disposed:
            with use(runtime):
                return self.train_step(data, **named)
        ports = self._ports.get("train") or self._training_ports()
        given = {**mapping(data), **named} if named else mapping(data)
        if given.keys() != ports.names:
            check_names(given, dict(ports.inputs), "train_step")
        sizes: Values = {}
        buffers = [port.take(given[name], sizes) for name, port in ports.inputs]
        trainer = self._trainer or self._trained_by(None, None)
        return trainer(buffers, sizes)

    def _training_ports(self) -> Ports:
        self._training_entry()
        return self._ports.get("train") or self._made_ports("train")

    def _training_entry(self) -> Entrypoint:
        self._check_alive()
        if "train" not in self.captured.entrypoints:
            raise StateError("this Model was made without a loss, so it cannot be trained.")
        return self.captured.entrypoints["train"]

    def _evaluation(self, validation: Any, batch_size: int | None) -> Callable[[], float] | None:
        if validation is None:
            return None
        entry = self._entrypoint("loss")
        wanted = {n: self.specs[n] for n in entry.inputs}
        source = batches.batches(validation, wanted, batch_size, "drop", False)

        def evaluate() -> float:
            ports = self._ports.get("loss") or self._made_ports("loss")
            plan = self._plans.get("loss") or self._made_plan("loss", entry)
            losses = []
            for batch in source.epoch(0):
                buffers = [port.holding(batch[name]) for name, port in ports.inputs]
                numbers = self._numbers(entry, batch.sizes)
                self.check_indices("loss", buffers, numbers, batch.sizes)
                made = plan(buffers, numbers)
                losses.append(ports.tensors(made, batch.sizes)["loss"].item())
            return float(sum(losses) / len(losses))

        return evaluate

    # ---- the optimizer

    def set_optimizer(self, optimizer: str | Optimizer, **options: Any) -> None:
        """Train with this optimizer from now on: a name with its options, or an object.

        Moments are kept where the new one remembers the same ones, as after loading a bundle.

        >>> loss = lambda out, y: (out["output"] - y).square().mean()
        >>> spec = Tensor.empty(4, 1)
        >>> model = Model(nn.Linear(1, 1), {"x": spec}, {"y": spec}, loss)
        >>> model.set_optimizer("adamw", lr=0.1, weight_decay=0.5)
        >>> model.optimizer
        AdamW(lr=0.1, b1=0.9, b2=0.999, eps=1e-08, weight_decay=0.5, amsgrad=False)
        """
        self._training_entry()
        self.optimizer = copy(make_optimizer(optimizer, **options))  # another Model may take it too
        self._optimizer_given = optimizer
        config = self._optimizer_config or {}
        if config.get("name") == self.optimizer.name:
            self.optimizer.steps = config["steps"]
        self._trainer = None

    def set_learning_rate(self, lr: Any) -> None:
        """Change the rate or its schedule; nothing is compiled, and moments stay.

        >>> loss = lambda out, y: (out["output"] - y).square().mean()
        >>> spec = Tensor.empty(4, 1)
        >>> model = Model(nn.Linear(1, 1), {"x": spec}, {"y": spec}, loss)
        >>> model.set_optimizer("sgd", lr=0.1)
        >>> model.set_learning_rate(0.01)
        >>> model.optimizer_config()["lr"]
        0.01
        """
        self._trained_by(None, lr)

    def reset_optimizer_state(self) -> None:
        """Forget the moments.

        >>> loss = lambda out, y: (out["output"] - y).square().mean()
        >>> spec = Tensor.empty(4, 1)
        >>> model = Model(nn.Linear(1, 1), {"x": spec}, {"y": spec}, loss)
        >>> x = np.ones((4, 1), np.float32)
        >>> _ = model.fit({"x": x, "y": x}, optimizer="adam", lr=0.1, progress=False)
        >>> model.reset_optimizer_state()
        >>> [name for name, state in model.states.items() if state.role == "optimizer"]
        []
        """
        for name in [n for n, s in self.states.items() if s.role == "optimizer"]:
            del self.states[name]
        self._optimizer_config = self._trainer = None
        if self.optimizer is not None:
            self.optimizer.steps = 0

    def _trained_by(self, optimizer: str | Optimizer | None, lr: Any) -> Trainer:
        """The training step; a new one only if the optimizer is another one than before."""
        if not self._ready:
            self._check_initialized()
        if lr is not None:
            lr = checked(lr)  # raises before anything is changed
        if optimizer is not None and not self._is_current(optimizer):
            self.set_optimizer(optimizer)
        if self.optimizer is None:
            config = self._optimizer_config
            if config is None and optimizer is None and lr is None:
                raise StateError(
                    "no optimizer is set: fit(optimizer='adam', lr=0.001), or set_optimizer(…)."
                )
            self.set_optimizer(config["name"] if config else "adam", **_options(config))
        assert self.optimizer is not None
        if lr is not None:
            self.optimizer.set_schedule(lr)
        if self._trainer is None:
            self._trainer = Trainer(self, self.optimizer, self._training_ports())
        return self._trainer

    def _is_current(self, optimizer: str | Optimizer) -> bool:
        mine = self.optimizer
        if mine is None:
            return False
        if isinstance(optimizer, Optimizer):
            return self._optimizer_given is optimizer
        return mine.name == optimizer.lower() and mine.config == make_optimizer(optimizer).config

    def optimizer_config(self) -> dict[str, Any] | None:
        """What it is trained by: name, rate, options and steps; None if nothing is set.

        >>> loss = lambda out, y: (out["output"] - y).square().mean()
        >>> spec = Tensor.empty(4, 1)
        >>> model = Model(nn.Linear(1, 1), {"x": spec}, {"y": spec}, loss)
        >>> model.set_optimizer("sgd", lr=0.1)
        >>> model.optimizer_config()["name"], model.optimizer_config()["steps"]
        ('sgd', 0)
        """
        optimizer = self.optimizer
        if optimizer is None:
            return self._optimizer_config
        lr = optimizer.schedule
        lr = lr if isinstance(lr, (int, float)) else dict(lr)
        return {
            "name": optimizer.name,
            "lr": lr,
            "options": optimizer.config,
            "steps": optimizer.steps,
            **self._exempt_by(optimizer),
        }

    def _exempt_by(self, optimizer: Optimizer) -> dict[str, Any]:
        """The parameters that its decay_filter exempts: a function itself is in no bundle."""
        choice = optimizer.decay_filter
        names = [n for n, s in self.states.items() if s.role == "param"]
        return {} if choice is None else {"exempt": [n for n in names if not choice(n)]}


def _options(config: dict[str, Any] | None) -> dict[str, Any]:
    if not config:
        return {}
    options = {**config["options"], "lr": config["lr"]}
    if "exempt" in config:
        exempt = frozenset(config["exempt"])
        options["decay_filter"] = lambda name: name not in exempt
    return options
