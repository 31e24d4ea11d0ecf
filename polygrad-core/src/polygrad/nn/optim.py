"""Optimizers: each is a function from gradients to assignments, realised all at once.

    p <- p - lr * direction(g)

The rate is a tensor, so changing it compiles nothing. What an optimizer remembers (moments, bias
corrections) are tensors too; `Model.fit` puts gradients, moments and parameters into one Plan.

Without parameters an optimizer is a description, which `Model.fit` and `bind` complete. Each takes
`decay_filter` and `fused`, see `Optimizer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ..dtype import dtypes
from ..errors import (
    ArgumentError,
    UnknownName,
    no_such,
    public,
    shown,
)
from ..tensor import Tensor
from .optimizer import Filter, Params, Update, width, with_gradient, zeros
from .optimizer import Optimizer as Optimizer
from .optimizer import OptimizerGroup as OptimizerGroup
from .wrong import times

__all__ = [
    "Adam",
    "AdamW",
    "LAMB",
    "LARS",
    "Muon",
    "Optimizer",
    "OptimizerGroup",
    "SGD",
    "clip_grad_norm_",
    "make",
]


@public
class SGD(Optimizer):
    """``v <- momentum * v + g;  p <- p - lr * v``; Nesterov looks one step ahead.

    `weight_decay` adds ``weight_decay * p`` to the gradient, as in torch. With `classic` the rate
    is part of the momentum: ``v <- momentum * v + lr * g;  p <- p - v``.

    >>> p = Tensor([1.0, 1.0], requires_grad=True)
    >>> optimizer = nn.optim.SGD([p], lr=0.5)
    >>> _ = p.sum().backward()
    >>> with Context(TRAINING=1):
    ...     optimizer.step()
    >>> p.tolist()
    [0.5, 0.5]
    """

    name = "sgd"

    def __init__(
        self,
        params: Params | None = None,
        lr: Any = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
        decay_filter: Filter | None = None,
        fused: bool = False,
    ) -> None:
        if nesterov and not momentum:
            raise ArgumentError("sgd: nesterov needs a momentum.")
        super().__init__(
            params,
            lr,
            decay_filter,
            fused,
            momentum=momentum,
            weight_decay=weight_decay,
            nesterov=nesterov,
            classic=classic,
        )

    def _remember(self) -> dict[str, Tensor]:
        return zeros("momentum", self.params) if self.config["momentum"] else {}

    def updates(self, gradients: Sequence[Tensor | None]) -> list[Update]:
        momentum, rate = self.config["momentum"], self.lr.reshape(())
        made: list[Update] = []
        for i, p, g in with_gradient(self.params, gradients):
            if decay := self.decay_of(i):
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
    What is the same for all elements is taken together (the end of the paper's section 2): one
    division and one root an element.
    `weight_decay` adds ``weight_decay * p`` to the gradient. With `amsgrad` the largest v so far
    takes v's place (Reddi, Kale and Kumar 2018).

    >>> p = Tensor([1.0, 1.0], requires_grad=True)
    >>> optimizer = nn.optim.Adam([p], lr=0.5)
    >>> _ = p.sum().backward()
    >>> with Context(TRAINING=1):
    ...     optimizer.step()
    >>> [round(x, 4) for x in p.tolist()]
    [0.5, 0.5]
    """

    name = "adam"
    decoupled: ClassVar[bool] = False

    def __init__(
        self,
        params: Params | None = None,
        lr: Any = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decay_filter: Filter | None = None,
        fused: bool = False,
        amsgrad: bool = False,
    ) -> None:
        if not (0 <= b1 < 1 and 0 <= b2 < 1):
            raise ArgumentError(f"{self.name}: b1={b1} and b2={b2} must be below 1.")
        super().__init__(
            params,
            lr,
            decay_filter,
            fused,
            b1=b1,
            b2=b2,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
        )

    def _remember(self) -> dict[str, Tensor]:
        corrections = {name: Tensor.zeros(1) for name in ("c1", "c2")}
        largest = zeros("largest", self.params) if self.config["amsgrad"] else {}
        return zeros("m", self.params) | zeros("v", self.params) | largest | corrections

    def _scaled(self, old: Tensor, move: Tensor) -> Tensor:
        """The step as it is; LAMB fits its length to the parameter's."""
        return move

    def updates(self, gradients: Sequence[Tensor | None]) -> list[Update]:
        b1, b2, eps = (self.config[k] for k in ("b1", "b2", "eps"))
        c1 = self.state["c1"] * b1 + (1 - b1)
        c2 = self.state["c2"] * b2 + (1 - b2)
        made: list[Update] = [(self.state["c1"], c1), (self.state["c2"], c2)]
        rate, c1, c2 = (t.reshape(()) for t in (self.lr, c1, c2))  # parameters may be 0-d
        root = c2.sqrt()
        factor, least = root / c1, root * eps
        for i, p, g in with_gradient(self.params, gradients):
            old, decay = p.detach(), self.decay_of(i)
            if decay and not self.decoupled:
                g = g + old * decay
            m = self.state[f"m.{i}"] * b1 + g * (1 - b1)
            v = self.state[f"v.{i}"] * b2 + g * (1 - b2) * g
            spread = v
            if self.config["amsgrad"]:
                spread = self.state[f"largest.{i}"].maximum(v)
                made.append((self.state[f"largest.{i}"], spread))
            move = m * factor / (spread.sqrt() + least)
            if decay and self.decoupled:
                move = move + old * decay
            move = self._scaled(old, move)
            made += [(self.state[f"m.{i}"], m), (self.state[f"v.{i}"], v)]
            made.append((p, old - (rate * move).cast(p.dtype)))
        return made


@public
class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself (Loshchilov and Hutter 2019).

    >>> p = Tensor([1.0, 1.0], requires_grad=True)
    >>> optimizer = nn.optim.AdamW([p], lr=0.5)
    >>> _ = p.sum().backward()
    >>> with Context(TRAINING=1):
    ...     optimizer.step()
    >>> [round(x, 4) for x in p.tolist()]
    [0.495, 0.495]
    """

    name = "adamw"
    decoupled = True

    def __init__(
        self,
        params: Params | None = None,
        lr: Any = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        decay_filter: Filter | None = None,
        fused: bool = False,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay, decay_filter, fused, amsgrad)


# ---- optimizers that scale a step by the sizes of parameter and direction


def _length(t: Tensor) -> Tensor:
    return t.cast(max(t.dtype, dtypes.float32, key=width)).square().sum().sqrt()


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

    >>> p = Tensor([1.0, 1.0], requires_grad=True)
    >>> optimizer = nn.optim.LARS([p], lr=0.5)
    >>> _ = p.sum().backward()
    >>> with Context(TRAINING=1):
    ...     optimizer.step()
    >>> [round(x, 4) for x in p.tolist()]
    [0.9995, 0.9995]
    """

    name = "lars"

    def __init__(
        self,
        params: Params | None = None,
        lr: Any = 0.001,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        nesterov: bool = False,
        classic: bool = True,
        tcoef: float = 0.001,
        decay_filter: Filter | None = None,
        fused: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr,
            decay_filter,
            fused,
            momentum=momentum,
            weight_decay=weight_decay,
            nesterov=nesterov,
            classic=classic,
            tcoef=tcoef,
        )

    def _remember(self) -> dict[str, Tensor]:
        return zeros("momentum", self.params)

    def updates(self, gradients: Sequence[Tensor | None]) -> list[Update]:
        momentum, rate = self.config["momentum"], self.lr.reshape(())
        made: list[Update] = []
        for i, p, g in with_gradient(self.params, gradients):
            old, decay = p.detach(), self.decay_of(i)
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
    weight_decay p, ``p <- p - lr |p| / |r| r``.

    >>> p = Tensor([1.0, 1.0], requires_grad=True)
    >>> optimizer = nn.optim.LAMB([p], lr=0.5)
    >>> _ = p.sum().backward()
    >>> with Context(TRAINING=1):
    ...     optimizer.step()
    >>> [round(x, 4) for x in p.tolist()]
    [0.5, 0.5]
    """

    name = "lamb"
    decoupled = True

    def __init__(
        self,
        params: Params | None = None,
        lr: Any = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        decay_filter: Filter | None = None,
        fused: bool = False,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay, decay_filter, fused)

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

    >>> p = Tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    >>> optimizer = nn.optim.Muon([p], lr=0.5, weight_decay=0)
    >>> _ = p.sum().backward()
    >>> with Context(TRAINING=1):
    ...     optimizer.step()
    >>> p.shape
    (2, 2)
    """

    name = "muon"

    def __init__(
        self,
        params: Params | None = None,
        lr: Any = 0.001,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
        ns_steps: int = 5,
        nesterov: bool = True,
        decay_filter: Filter | None = None,
        fused: bool = False,
    ) -> None:
        ns_steps = times(self.name, "ns_steps", ns_steps)
        super().__init__(
            params,
            lr,
            decay_filter,
            fused,
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
        return zeros("momentum", self.params)

    def updates(self, gradients: Sequence[Tensor | None]) -> list[Update]:
        momentum, rate = self.config["momentum"], self.lr.reshape(())
        made: list[Update] = []
        for i, p, g in with_gradient(self.params, gradients):
            last = self.state[f"momentum.{i}"]
            velocity = last * momentum + g
            made.append((last, velocity))
            move = g + velocity * momentum if self.config["nesterov"] else velocity
            rows = move.reshape(move.shape[0], -1)
            move = _orthogonal(rows, self.config["ns_steps"]).reshape(p.shape)
            old, decay = p.detach(), self.decay_of(i)
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


@public
def clip_grad_norm_(
    params: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0
) -> Tensor:
    """Scale the gradients of `params` so that the norm of all of them together is at most
    `max_norm`; gives the norm before. Nothing is computed until the gradients are.

    >>> p = Tensor([3.0, 4.0], requires_grad=True)
    >>> _ = (p * p).sum().backward()
    >>> nn.clip_grad_norm_([p], 5.0).item(), [round(g, 3) for g in p.grad.tolist()]
    (10.0, [3.0, 4.0])
    """
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
    """An optimizer by name with its options, or the one given.

    >>> nn.optim.make("adam", lr=0.1)
    Adam(lr=0.1, b1=0.9, b2=0.999, eps=1e-08, weight_decay=0.0, amsgrad=False)
    """
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
