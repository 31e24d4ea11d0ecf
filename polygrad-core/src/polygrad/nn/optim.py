"""Optimizers: each is a function from gradients to assignments, realised all at once.

    p <- p - lr * direction(g)

The rate is a tensor, so changing it compiles nothing. What an optimizer remembers (moments, bias
corrections) are tensors too; `Model.fit` puts gradients, moments and parameters into one Plan.

Without parameters an optimizer is a description, which `Model.fit` and `bind` complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from .. import settings
from ..dtype import dtypes
from ..engine.capture import active as capturing
from ..errors import (
    ArgumentError,
    GradientError,
    ShapeError,
    StateError,
    UnknownName,
    no_such,
    public,
    shown,
)
from ..tensor import Tensor
from ..tensor.base import away, one_owner
from ..tensor.store import inside, realize
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
        self.params: list[Tensor] = []
        self._set_rate(lr_module.resolve(lr, 1))
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
        with self._home():
            self.state = {n: t.requires_grad_(False) for n, t in self._remember().items()}
            if away(self.lr):
                self._set_rate(lr_module.resolve(self.schedule, self.steps + 1))
        return self

    def _home(self) -> AbstractContextManager[Any]:
        """A block in the runtime of the parameters, which all have the same."""
        return inside(one_owner(self.params))

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
        # Nothing else may hold the new values: a holder counts as a reader of the old parameters.
        realize(self._moves())

    def _moves(self) -> list[Tensor]:
        """What one step assigns to, assigned and not yet computed."""
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
        for i, (p, g) in enumerate(zip(self.params, gradients, strict=True)):
            if g is not None and g.shape != p.shape:
                raise ShapeError(
                    f"{self.name}.step(): parameter {i} has shape {p.shape}, its gradient"
                    f" {g.shape}."
                )
        capture = capturing.get()
        if capture is None:
            self._advance()
        else:  # each call of what is being compiled is a step
            capture.before_calls.append(self._advance)
        with self._home():
            return [t.assign(value.detach()) for t, value in self.updates(gradients)]

    def zero_grad(self) -> None:
        """Forget the gradients of the parameters."""
        for p in self.params:
            p.grad = None

    @property
    def lr(self) -> Any:
        """The rate of this step, a tensor of one element. Set to a number or a schedule it is as
        `set_schedule`."""
        return self.__dict__["lr"]

    @lr.setter
    def lr(self, value: Any) -> None:
        if isinstance(value, Tensor):
            self.__dict__["lr"] = value
        else:
            self.set_schedule(value)

    def _advance(self) -> None:
        self.steps += 1
        if not isinstance(self.schedule, (int, float)):
            self._set_rate(lr_module.resolve(self.schedule, self.steps))

    def set_schedule(self, lr: Any) -> None:
        """Change the rate, or its schedule, from the next step on; nothing is compiled for it."""
        lr = lr_module.checked(lr)
        self._set_rate(lr_module.resolve(lr, self.steps + 1))
        self.schedule = lr

    def _set_rate(self, rate: float) -> None:
        with self._home():  # leaves are alike: the same kernels serve
            new = Tensor([rate], requires_grad=False)
            if "lr" in self.__dict__ and not away(self.lr):
                self.lr.replace(new)  # what was compiled with it follows
            else:
                self.lr = new

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

    `weight_decay` adds ``weight_decay * p`` to the gradient, as in torch. With `classic` the rate
    is part of the momentum: ``v <- momentum * v + lr * g;  p <- p - v``.
    """

    name = "sgd"

    def __init__(
        self,
        params: Iterable[Tensor] | None = None,
        lr: Any = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
    ) -> None:
        if nesterov and not momentum:
            raise ArgumentError("sgd: nesterov needs a momentum.")
        super().__init__(
            params,
            lr,
            momentum=momentum,
            weight_decay=weight_decay,
            nesterov=nesterov,
            classic=classic,
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
            g = rate * g if self.config["classic"] else g
            if momentum:
                old = self.state[f"momentum.{i}"]
                velocity = old * momentum + g
                made.append((old, velocity))
                g = g + velocity * momentum if self.config["nesterov"] else velocity
            move = g if self.config["classic"] else rate * g
            made.append((p, p.detach() - move.cast(p.dtype)))
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

    def _scaled(self, old: Tensor, move: Tensor) -> Tensor:
        """The step as it is; LAMB fits its length to the parameter's."""
        return move

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
            move = self._scaled(old, move)
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


# ---- optimizers that scale a step by the sizes of parameter and direction


def _length(t: Tensor) -> Tensor:
    return t.cast(max(t.dtype, dtypes.float32, key=_width)).square().sum().sqrt()


def _trust(p: Tensor, move: Tensor, ratio: Tensor) -> Tensor:
    """`ratio`, or 1 where parameter or direction is 0."""
    both = (_length(p) > 0) & (_length(move) > 0)
    return both.where(ratio, 1.0)


@public
class LARS(Optimizer):
    """SGD with momentum whose rate follows each parameter's length (You et al. 2017).

        t = tcoef |p| / (|g| + weight_decay |p|)
        v <- momentum v + lr t (g + weight_decay p);  p <- p - v

    With `classic` False the rate is not part of v but multiplies it; Nesterov looks a step ahead.
    """

    name = "lars"

    def __init__(
        self,
        params: Iterable[Tensor] | None = None,
        lr: Any = 0.001,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        nesterov: bool = False,
        classic: bool = True,
        tcoef: float = 0.001,
    ) -> None:
        super().__init__(
            params,
            lr,
            momentum=momentum,
            weight_decay=weight_decay,
            nesterov=nesterov,
            classic=classic,
            tcoef=tcoef,
        )

    def _remember(self) -> dict[str, Tensor]:
        return _zeros("momentum", self.params)

    def updates(self, gradients: Sequence[Tensor | None]) -> list[Update]:
        momentum, decay = self.config["momentum"], self.config["weight_decay"]
        rate = self.lr.reshape(())
        made: list[Update] = []
        for i, p, g in _with_gradient(self.params, gradients):
            old = p.detach()
            size = _length(old)
            trust = _trust(old, g, size * self.config["tcoef"] / (_length(g) + size * decay))
            g = (g + old * decay) * trust
            g = g * rate if self.config["classic"] else g
            last = self.state[f"momentum.{i}"]
            velocity = last * momentum + g
            made.append((last, velocity))
            move = g + velocity * momentum if self.config["nesterov"] else velocity
            move = move if self.config["classic"] else move * rate
            made.append((p, old - move.cast(p.dtype)))
        return made


@public
class LAMB(Adam):
    """Adam whose step is as long as the parameter (You et al. 2020): with Adam's direction r, plus
    weight_decay p, ``p <- p - lr |p| / |r| r``."""

    name = "lamb"
    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor] | None = None,
        lr: Any = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay)

    def _scaled(self, old: Tensor, move: Tensor) -> Tensor:
        return move * _trust(old, move, _length(old) / _length(move))


@public
class Muon(Optimizer):
    """Momentum whose matrix is made orthogonal before it is a step (Jordan et al. 2024).

        v <- momentum v + g;  d = v, or g + momentum v with Nesterov
        p <- p (1 - lr weight_decay) - lr O(d)

    O takes the singular values near 1 by `ns_steps` of Newton and Schulz's iteration. Parameters of
    more than two axes count as matrices of rows; those of fewer belong to another optimizer, see
    `OptimizerGroup`.
    """

    name = "muon"

    def __init__(
        self,
        params: Iterable[Tensor] | None = None,
        lr: Any = 0.001,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
        ns_steps: int = 5,
        nesterov: bool = True,
    ) -> None:
        super().__init__(
            params,
            lr,
            momentum=momentum,
            weight_decay=weight_decay,
            ns_steps=ns_steps,
            nesterov=nesterov,
        )

    def _remember(self) -> dict[str, Tensor]:
        for p in self.params:
            if len(p.shape) < 2:
                raise ArgumentError(
                    f"muon trains matrices, not a parameter of shape {p.shape}; give that one to"
                    " another optimizer of an OptimizerGroup."
                )
        return _zeros("momentum", self.params)

    def updates(self, gradients: Sequence[Tensor | None]) -> list[Update]:
        momentum, decay = self.config["momentum"], self.config["weight_decay"]
        rate = self.lr.reshape(())
        made: list[Update] = []
        for i, p, g in _with_gradient(self.params, gradients):
            last = self.state[f"momentum.{i}"]
            velocity = last * momentum + g
            made.append((last, velocity))
            move = g + velocity * momentum if self.config["nesterov"] else velocity
            rows = move.reshape(move.shape[0], -1)
            move = _orthogonal(rows, self.config["ns_steps"]).reshape(p.shape)
            old = p.detach()
            made.append((p, (old * (1.0 - rate * decay) - rate * move).cast(p.dtype)))
        return made


def _orthogonal(x: Tensor, steps: int) -> Tensor:
    """The nearest matrix with orthogonal rows or columns, roughly: singular values s become
    a s + b s^3 + c s^5 at each step, which carries (0, 1] to about 1."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = x.shape[0] > x.shape[1]
    x = x.transpose(0, 1) if tall else x
    x = x / (_length(x) + 1e-7)
    for _ in range(steps):
        square = x @ x.transpose(0, 1)
        x = x * a + (square * b + (square @ square) * c) @ x
    return x.transpose(0, 1) if tall else x


# ---- several together


@public
class OptimizerGroup:
    """Optimizers for different parameters that step as one, in one plan."""

    def __init__(self, *optimizers: Optimizer) -> None:
        if not optimizers:
            raise ArgumentError("an OptimizerGroup takes at least one optimizer.")
        self.optimizers = list(optimizers)
        self.params = [p for o in optimizers for p in o.params]
        if len({id(p) for p in self.params}) < len(self.params):
            raise ArgumentError("an OptimizerGroup trains each parameter by one optimizer only.")

    def __getitem__(self, i: int) -> Optimizer:
        return self.optimizers[i]

    def step(self) -> None:
        """Make one step of all."""
        moved = [o._moves() for o in self.optimizers if any(p.grad is not None for p in o.params)]
        if not moved:
            self.optimizers[0]._moves()  # says what is missing
        realize([t for tensors in moved for t in tensors])

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for o in self.optimizers:
            o.zero_grad()

    def __repr__(self) -> str:
        return f"OptimizerGroup({', '.join(map(repr, self.optimizers))})"


@public
def clip_grad_norm_(
    params: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0
) -> Tensor:
    """Scale the gradients of `params` so that the norm of all of them together is at most
    `max_norm`; gives the norm before. Nothing is computed until the gradients are."""
    given = [params] if isinstance(params, Tensor) else list(params)
    if strange := [p for p in given if not isinstance(p, Tensor)]:
        raise ArgumentError(f"clip_grad_norm_ takes Tensors, not {shown(strange[0])}.")
    owners = [p for p in given if p.grad is not None]
    if not owners:
        return Tensor.zeros(requires_grad=False)
    norms = [p.grad.norm(norm_type).cast(dtypes.float32) for p in owners if p.grad is not None]
    total = norms[0].stack(*norms[1:]).norm(norm_type)
    factor = (max_norm / (total + 1e-6)).minimum(1.0)
    for p in owners:
        if p.grad is not None:
            p.grad = (p.grad * factor).cast(p.grad.dtype)
    return total


OPTIMIZERS: dict[str, type[Optimizer]] = {
    cls.name: cls for cls in (SGD, Adam, AdamW, LAMB, LARS, Muon)
}


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
