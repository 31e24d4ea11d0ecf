"""Optimizers: each is a function from gradients to assignments, realised all at once.

    p <- p - lr * direction(g)

The rate is a tensor, so changing it compiles nothing. What an optimizer remembers (moments, bias
corrections) are tensors too; `Model.fit` puts gradients, moments and parameters into one Plan.

Without parameters an optimizer is a description, which `Model.fit` and `bind` complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from .. import settings
from ..dtype import dtypes
from ..errors import (
    ArgumentError,
    GradientError,
    StateError,
    UnknownName,
    no_such,
    public,
    shown,
)
from ..tensor import Tensor
from ..tensor.store import realize
from . import lr as lr_module

Update = tuple[Tensor, Tensor]  # what is assigned to, and what


@public
class Optimizer:
    """What all share: parameters, the rate, remembered tensors by name, `step` and `zero_grad`."""

    name: ClassVar[str]

    def __init__(self, params: Iterable[Tensor] | None, lr: Any, **options: Any) -> None:
        self.config: dict[str, Any] = options
        self.schedule = lr = lr_module.checked(lr)
        self.steps = 0
        _check_numbers(self, options)
        self._set_rate(lr_module.resolve(lr, 1))
        self.params: list[Tensor] = []
        self.state: dict[str, Tensor] = {}
        if params is not None:
            self.bind(params)

    def bind(self, params: Iterable[Tensor]) -> Optimizer:
        """Take these parameters, with nothing remembered yet."""
        given = list(params)
        if not all(isinstance(p, Tensor) for p in given):
            strange = next(p for p in given if not isinstance(p, Tensor))
            raise ArgumentError(f"{self.name} takes Tensors as parameters, not {shown(strange)}.")
        unique = {id(p): p for p in given if p.requires_grad is not False}
        self.params = list(unique.values())
        if not self.params:
            raise ArgumentError(f"{self.name} got no parameter that takes a gradient.")
        for p in self.params:
            if not p.dtype.is_float:
                raise ArgumentError(f"{self.name} cannot train a tensor of {p.dtype.name}.")
        self.state = {n: t.requires_grad_(False) for n, t in self._remember().items()}
        return self

    # ---- what each optimizer says

    def _remember(self) -> dict[str, Tensor]:
        """The tensors kept between steps, by name; `name.i` belongs to parameter i."""
        raise NotImplementedError

    def updates(self, gradients: Sequence[Tensor | None]) -> list[Update]:
        """The assignments of one step, none of them made. A parameter without gradient stays."""
        raise NotImplementedError

    # ---- eager use

    def step(self) -> None:
        """Make one step with the gradients of the parameters."""
        if not settings.get("TRAINING"):
            raise StateError(
                f"{self.name}.step(): TRAINING must be enabled; use `with Context(TRAINING=1):`."
            )
        if not self.params:
            raise StateError(f"{self.name}.step(): it was made without parameters.")
        gradients = [p.grad for p in self.params]
        if all(g is None for g in gradients):
            raise GradientError(
                f"{self.name}.step(): no parameter has a gradient; call backward()."
            )
        self.steps += 1
        self._follow_schedule()
        # Nothing else may hold the new values: a holder counts as a reader of the old parameters.
        realize([t.assign(value.detach()) for t, value in self.updates(gradients)])

    def zero_grad(self) -> None:
        """Forget the gradients of the parameters."""
        for p in self.params:
            p.grad = None

    def _follow_schedule(self) -> None:
        if not isinstance(self.schedule, (int, float)):
            self._set_rate(lr_module.resolve(self.schedule, self.steps))

    def set_schedule(self, lr: Any) -> None:
        """Change the rate, or its schedule, from the next step on; nothing is compiled for it."""
        lr = lr_module.checked(lr)
        self._set_rate(lr_module.resolve(lr, self.steps + 1))
        self.schedule = lr

    def _set_rate(self, rate: float) -> None:
        self.lr = Tensor([rate], requires_grad=False)  # leaves are alike: the same kernels serve

    def __repr__(self) -> str:
        shown = [f"lr={self.schedule}", *(f"{k}={v}" for k, v in self.config.items())]
        return f"{type(self).__name__}({', '.join(shown)})"


def _check_numbers(optimizer: Optimizer, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if not isinstance(value, bool) and not (isinstance(value, (int, float)) and value >= 0):
            raise ArgumentError(f"{optimizer.name}: {name}={value!r} is no number of 0 or more.")


@public
class SGD(Optimizer):
    """``v <- momentum * v + g;  p <- p - lr * v``; Nesterov looks one step ahead.

    `weight_decay` adds ``weight_decay * p`` to the gradient, as in torch.
    """

    name = "sgd"

    def __init__(
        self,
        params: Iterable[Tensor] | None = None,
        lr: Any = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and not momentum:
            raise ArgumentError("sgd: nesterov needs a momentum.")
        super().__init__(
            params, lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov
        )

    def _remember(self) -> dict[str, Tensor]:
        return _zeros("momentum", self.params) if self.config["momentum"] else {}

    def updates(self, gradients: Sequence[Tensor | None]) -> list[Update]:
        decay, momentum = self.config["weight_decay"], self.config["momentum"]
        rate = self.lr.reshape(())
        made: list[Update] = []
        for i, p, g in _with_gradient(self.params, gradients):
            if decay:
                g = g + p.detach() * decay
            if momentum:
                old = self.state[f"momentum.{i}"]
                velocity = old * momentum + g
                made.append((old, velocity))
                g = g + velocity * momentum if self.config["nesterov"] else velocity
            made.append((p, p.detach() - (rate * g).cast(p.dtype)))
        return made


@public
class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), with the moments' bias divided out.

        m <- b1 m + (1 - b1) g;      v <- b2 v + (1 - b2) g²
        p <- p - lr * (m / c1) / (sqrt(v / c2) + eps)

    c = 1 - bᵗ is kept as the same moving average of ones, which needs no power and loses no digits.
    `weight_decay` adds ``weight_decay * p`` to the gradient.
    """

    name = "adam"
    decoupled: ClassVar[bool] = False

    def __init__(
        self,
        params: Iterable[Tensor] | None = None,
        lr: Any = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not (0 <= b1 < 1 and 0 <= b2 < 1):
            raise ArgumentError(f"{self.name}: b1={b1} and b2={b2} must be below 1.")
        super().__init__(params, lr, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay)

    def _remember(self) -> dict[str, Tensor]:
        corrections = {name: Tensor.zeros(1) for name in ("c1", "c2")}
        return _zeros("m", self.params) | _zeros("v", self.params) | corrections

    def updates(self, gradients: Sequence[Tensor | None]) -> list[Update]:
        b1, b2, eps, decay = (self.config[k] for k in ("b1", "b2", "eps", "weight_decay"))
        c1 = self.state["c1"] * b1 + (1 - b1)
        c2 = self.state["c2"] * b2 + (1 - b2)
        made: list[Update] = [(self.state["c1"], c1), (self.state["c2"], c2)]
        rate, c1, c2 = (t.reshape(()) for t in (self.lr, c1, c2))  # parameters may be 0-d
        for i, p, g in _with_gradient(self.params, gradients):
            old = p.detach()
            if decay and not self.decoupled:
                g = g + old * decay
            m = self.state[f"m.{i}"] * b1 + g * (1 - b1)
            v = self.state[f"v.{i}"] * b2 + g * g * (1 - b2)
            move = (m / c1) / ((v / c2).sqrt() + eps)
            if decay and self.decoupled:
                move = move + old * decay
            made += [(self.state[f"m.{i}"], m), (self.state[f"v.{i}"], v)]
            made.append((p, old - (rate * move).cast(p.dtype)))
        return made


@public
class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself (Loshchilov and Hutter 2019)."""

    name = "adamw"
    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor] | None = None,
        lr: Any = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay)


def _zeros(name: str, params: Sequence[Tensor]) -> dict[str, Tensor]:
    """One zero tensor per parameter, in float32 where the parameter is narrower."""
    return {
        f"{name}.{i}": Tensor.zeros(*p.shape, dtype=max(p.dtype, dtypes.float32, key=_width))
        for i, p in enumerate(params)
    }


def _width(dtype: Any) -> int:
    return int(dtype.itemsize)


def _with_gradient(
    params: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> list[tuple[int, Tensor, Tensor]]:
    pairs = enumerate(zip(params, gradients, strict=True))
    return [(i, p, g) for i, (p, g) in pairs if g is not None]


OPTIMIZERS: dict[str, type[Optimizer]] = {cls.name: cls for cls in (SGD, Adam, AdamW)}


@public
def make(optimizer: str | Optimizer | Mapping[str, Any], **options: Any) -> Optimizer:
    """An optimizer by name with its options, or the one given."""
    if isinstance(optimizer, Optimizer):
        if options:
            raise ArgumentError(
                f"give {', '.join(options)} to {type(optimizer).__name__}(…) itself."
            )
        return optimizer
    name = str(optimizer).lower()
    if name not in OPTIMIZERS:
        raise UnknownName(no_such("optimizer", optimizer, OPTIMIZERS))
    cls = OPTIMIZERS[name]
    known = _options_of(cls)
    for option in options:
        if option not in known:
            raise ArgumentError(f"{name}: {no_such('option', option, known)}")
    return cls(None, **options)


def _options_of(cls: type[Optimizer]) -> list[str]:
    from inspect import signature

    return list(signature(cls.__init__).parameters)[2:]  # after self and params
