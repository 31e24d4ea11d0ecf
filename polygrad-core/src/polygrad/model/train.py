"""Training: forward, backward and optimizer as one Plan, and the loop around it.

A step takes the batch and the parameters, and writes loss, parameters, moments and running means:
one native call. The rate is a number given at each call, so schedules and changes of it compile
nothing.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..device.buffer import Buffer
from ..dtype import dtypes
from ..engine import make_plan, use
from ..errors import StateError
from ..gradient import gradient
from ..nn import lr as rates
from ..nn.init import exempt
from ..nn.optim import Optimizer
from ..schedule.cache import scalar_variable
from ..tensor import Tensor
from ..tensor.base import leaf as make_leaf
from ..tensor.store import realize
from ..uop.ops import UOp
from ..uop.sizes import variables_in
from .capture import State, draw_variables
from .data import Batch, Batches
from .history import History, Progress, Step
from .ports import Ports
from .signature import Spec, Values
from .tuned import offered

if TYPE_CHECKING:
    from .runnable import Runnable

Callback = Callable[[Step], Any]
PREFIX = "optimizer."
_FLOAT = struct.Struct("f")


class Trainer:
    """The training step of a Model with one optimizer, whose memory is state of the Model."""

    def __init__(self, model: Runnable, optimizer: Optimizer, ports: Ports) -> None:
        self.model, self.optimizer, self.ports = model, optimizer, ports
        self.names = [n for n, s in model.states.items() if s.role == "param"]
        if not self.names:
            raise StateError("the Model has no parameter to train.")
        entry = model.captured.entrypoints["train"]
        self.draws, self.checked = entry.draws, bool(entry.checks)
        drawn = draw_variables() if self.draws else ()
        self.variables = variables_in(n for i in entry.inputs for n in model.specs[i].shape)
        rate, rate_node = scalar_variable("learning_rate", dtypes.float32)
        with use(model.runtime), offered(model.tuned, model.device):
            updates = self._updates(entry.outputs["loss"], make_leaf(rate_node, None, False))
            updates |= {model.states[n].symbol: u for n, u in entry.writes.items()}
            self.step = make_plan(
                [entry.outputs["loss"].cast(dtypes.float32)],
                [model.captured.inputs[n] for n in entry.inputs],
                [rate, *drawn, *self.variables],
                updates,
                model.holders(),
            )
        self.loss = memoryview(bytearray(4))

    def _updates(self, loss: UOp, rate: Tensor) -> dict[UOp, UOp]:
        """Symbol -> new value of parameters and moments. The optimizer works on stand-ins."""
        optimizer = self.optimizer
        symbols = [self.model.states[n].symbol for n in self.names]
        gradients = gradient(loss.reshape(()), symbols)
        optimizer.bind(self._stand_ins(symbols))
        moments = self._moments(optimizer.state)
        optimizer.state = {key: make_leaf(s.symbol, None, False) for key, s in moments.items()}
        own, optimizer.lr = optimizer.lr, rate
        updates = optimizer.updates([make_leaf(g, None, False) for g in gradients])
        optimizer.lr = own
        return {target.uop: value.uop for target, value in updates}

    def _stand_ins(self, symbols: Sequence[UOp]) -> dict[str, Tensor]:
        made = {n: make_leaf(s, None, True) for n, s in zip(self.names, symbols, strict=True)}
        for name, tensor in made.items():
            if not self.model.states[name].decays:
                exempt(tensor)
        return made

    def _moments(self, remembered: dict[str, Tensor]) -> dict[str, State]:
        """The same as states of the Model: those it has already, else as they start."""
        states = self.model.states
        wanted = {self._name(key): tensor for key, tensor in remembered.items()}
        for name in [n for n, s in states.items() if s.role == "optimizer"]:
            if name not in wanted or states[name].spec != Spec.of(wanted[name]):
                del states[name]
        fresh = {
            n: State.of("optimizer", t.to(self.model.device))
            for n, t in wanted.items()
            if n not in states
        }
        realize([s.tensor for s in fresh.values()])
        states.update(fresh)
        return {key: states[self._name(key)] for key in remembered}

    def _name(self, key: str) -> str:
        kind, dot, number = key.partition(".")
        return PREFIX + kind + (f".{self.names[int(number)]}" if dot else "")

    def on(self, batch: Batch) -> float:
        """One step on the bytes of a batch."""
        buffers = [port.holding(batch[name]) for name, port in self.ports.inputs]
        return self(buffers, batch.sizes)

    def __call__(self, buffers: Sequence[Buffer], sizes: Values) -> float:
        """One step; gives the loss before it."""
        optimizer = self.optimizer
        at = optimizer.steps + 1
        rate = rates.resolve(optimizer.schedule, at)
        numbers: tuple[int, ...] = self.model.generator.take(self.draws) if self.draws else ()
        if self.variables:
            numbers += tuple([sizes[v] for v in self.variables])
        if self.checked:
            self.model.check_indices("train", buffers, numbers, sizes)
        (loss,) = self.step(buffers, (rate, *numbers))
        optimizer.steps = at
        loss.read_into(self.loss)
        return _FLOAT.unpack(self.loss)[0]  # type: ignore[no-any-return]


def loop(
    trainer: Trainer,
    source: Batches,
    epochs: int,
    callbacks: Sequence[Callback],
    progress: bool,
    evaluate: Callable[[], float] | None,
) -> History:
    """`epochs` times over `source`. An interrupt ends it between two steps; the state is whole."""
    history = History()
    losses = history.losses
    shown = Progress(progress, epochs, source.steps, source.size)
    watched = bool(callbacks) or shown.bar is not None
    try:
        for epoch in range(epochs):
            started = time.perf_counter()
            for batch in source.epoch(epoch):
                losses.append(trainer.on(batch))
                if watched:
                    at = Step(len(losses), epoch + 1, losses[-1])
                    shown.step(at)
                    answers = [callback(at) for callback in callbacks]  # all, whoever says no
                    if False in answers:
                        return history
            history.seconds.append(time.perf_counter() - started)
            if evaluate is not None:
                history.validation.append(evaluate())
            shown.epoch(epoch + 1, history)
    finally:
        shown.close()
    return history
