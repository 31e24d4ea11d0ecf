"""What all optimizers share: parameters, rate and schedule, remembered tensors, and steps.

Each optimizer of `optim.py` says what it remembers and which assignments one step is; here they are
made, realised all at once. A group steps several optimizers as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from .. import settings
from ..dtype import dtypes
from ..engine.capture import active as capturing
from ..errors import ArgumentError, GradientError, ShapeError, StateError, public, shown
from ..tensor import Tensor
from ..tensor.base import away, maybe, one_owner
from ..tensor.store import inside, realize
from . import init
from . import lr as lr_module

Update = tuple[Tensor, Tensor]  # what is assigned to, and what


Params = Mapping[str, Tensor] | Iterable[Tensor]
Filter = Callable[[str], bool]  # whether the parameter of a name decays


@public
class Optimizer:
    """What all share: parameters, the rate, remembered tensors by name, `step` and `zero_grad`.

    Parameters come in a list or, with their names, in a mapping (`nn.get_state_dict`).
    `decay_filter(name)` says which of them weight decay shrinks; without it, it is all but those
    that `nn.init.param` exempts. A step is one plan, be it called `fused` or not.
    """

    name: ClassVar[str]

    def __init__(
        self,
        params: Params | None,
        lr: Any,
        decay_filter: Filter | None = None,
        fused: bool = False,
        **options: Any,
    ) -> None:
        if decay_filter is not None and not callable(decay_filter):
            raise ArgumentError(
                f"{self.name}: decay_filter is a function of a name, not {shown(decay_filter)}."
            )
        maybe("fused", fused)
        self.decay_filter = decay_filter
        self.config: dict[str, Any] = options
        self.schedule = lr = lr_module.checked(lr)
        self.steps = 0
        _check_numbers(self, options)
        self.params: list[Tensor] = []
        self._set_rate(lr_module.resolve(lr, 1))
        self.state: dict[str, Tensor] = {}
        if params is not None:
            self.bind(params)

    def bind(self, params: Params) -> Optimizer:
        """Take these parameters, with nothing remembered yet."""
        named: Mapping[int, str] = {}
        if isinstance(params, Mapping):
            # Of a tensor with two names the first counts.
            named = {id(p): name for name, p in reversed([*params.items()])}
            params = params.values()
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
        self._decays = [self.decays(named.get(id(p)), init.decays(p)) for p in self.params]
        with self._home():
            self.state = {n: t.requires_grad_(False) for n, t in self._remember().items()}
            if away(self.lr):
                self._set_rate(lr_module.resolve(self.schedule, self.steps + 1))
        return self

    def decays(self, name: str | None, usually: bool) -> bool:
        """Whether weight decay shrinks a parameter of this name; `usually` where nothing else is
        said."""
        if self.decay_filter is None:
            return usually
        if name is None:
            raise ArgumentError(
                f"{self.name}: decay_filter asks for names; give the parameters with theirs, as"
                " nn.get_state_dict(net)."
            )
        return bool(self.decay_filter(name))

    def decay_of(self, i: int) -> float:
        """The weight decay of parameter i."""
        return float(self.config["weight_decay"]) if self._decays[i] else 0.0

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


# ---- what they are made of


def zeros(name: str, params: Sequence[Tensor]) -> dict[str, Tensor]:
    """One zero tensor per parameter, in float32 where the parameter is narrower."""
    return {
        f"{name}.{i}": Tensor.zeros(*p.shape, dtype=max(p.dtype, dtypes.float32, key=width))
        for i, p in enumerate(params)
    }


def width(dtype: Any) -> int:
    return int(dtype.itemsize)


def with_gradient(
    params: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> list[tuple[int, Tensor, Tensor]]:
    pairs = enumerate(zip(params, gradients, strict=True))
    return [(i, p, g) for i, (p, g) in pairs if g is not None]


# ---- several together


@public
class OptimizerGroup:
    """Optimizers for different parameters that step as one, in one plan.

    >>> a, b = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    >>> group = nn.optim.OptimizerGroup(nn.optim.SGD([a], lr=0.5), nn.optim.SGD([b], lr=0.25))
    >>> _ = (a + b).sum().backward()
    >>> with Context(TRAINING=1):
    ...     group.step()
    >>> a.tolist(), b.tolist()
    ([0.5], [0.75])
    """

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
