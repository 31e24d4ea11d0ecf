"""Explicit runtimes: `polygrad.create()`.

A program has one runtime without asking: every Tensor that names none belongs to it. `create` makes
another one, with tensors, random numbers, settings, compiled graphs and counters of its own, which
all end with it:

    with polygrad.create("interp") as rt:
        net = rt.nn.Linear(4, 2)
        print(net(rt.Tensor.rand(3, 4)).tolist())

`rt.Tensor`, `rt.nn`, `rt.Model`, `rt.jit` and `rt.compile` are the library's own, called inside the
runtime (`Within`); inside a `with` block of the runtime the plain names do the same. A tensor knows
its owner: from the first explicit runtime on, its methods enter the runtime of their tensor, so
that it may be used anywhere. Before there is nothing to enter, and nothing is paid.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import wraps
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from . import _can_run, _jit, device, engine, nn, settings
from .engine.owner import world
from .engine.runtime import owned_by, use
from .errors import ArgumentError, did_you_mean, public, shown
from .model import Model as _Model
from .settings import Context
from .tensor import Tensor as _Tensor
from .tensor.base import Base, away
from .tensor.keeping import NEVER

# Settings that a runtime can have for itself; the others belong to a device or the process.
LOCAL = ("LOGICAL", "POLY_CACHE", "POLY_FUSION", "POLY_SPEC", "TIMING", "TRAINING")
_serials = itertools.count(1)


@public
def create(
    device: str | None = None,
    logical: str | None = None,
    kernels: None = None,
    env: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Runtime:
    """A new runtime, beside the default one.

    `device`: where its tensors go that name no device; "auto", or None: what POLY_DEV says, else
    the best that works. `logical`: "until_realize" or "always", whether computed tensors keep
    their graph. `env`: settings for this runtime alone, such as {"POLY_FUSION": 0}. `name`: for
    messages. Raises the device's error if it cannot be used.

    >>> with create("interp") as rt:
    ...     (rt.Tensor([1.0, 2.0]) * 3).tolist()
    [3.0, 6.0]
    """
    return Runtime(device, logical, kernels, env, name)


@public
class Runtime(engine.Runtime):
    """One owner of tensors; `polygrad.create` makes it.

    Its attributes `Tensor`, `nn`, `Model` and its methods `jit` and `compile` are those of
    polygrad, for this runtime. May be used from any thread. `with rt:` makes it the current one
    inside the block, and disposes of it at the end.

    >>> with polygrad.create("interp") as rt:
    ...     rt.Tensor([1.0, 2.0]).sum().item()
    3.0
    """

    if TYPE_CHECKING:
        Tensor: type[_Tensor]
        Model: type[_Model]

    def __init__(
        self,
        device: str | None = None,
        logical: str | None = None,
        kernels: None = None,
        env: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        place = _place(device)
        if kernels is not None:
            raise ArgumentError(
                "create: kernels= chooses matrix kernels of the wasm device, which is not here;"
                " leave it out."
            )
        values = {"POLY_DEV": place, **_own_settings(logical, env)}
        world.several = True
        super().__init__(name or f"{place} {next(_serials)}", Context(**values).values)
        self.device = place
        here: list[Any] = [Within(self, it) for it in (_Tensor, _Model, nn)]
        self.Tensor, self.Model, self.nn = here
        self.jit, self.compile = Within(self, _jit.jit), Within(self, _jit.compile)
        self.can_run = Within(self, _can_run.can_run)
        self._blocks: list[Block] = []

    def context(self, **values: Any) -> Block:
        """`with rt.context(TRAINING=1):` makes it the current runtime, with these settings.

        >>> with polygrad.create("interp") as rt:
        ...     with rt.context(TRAINING=1):
        ...         Tensor.training
        True
        """
        return Block(self, values)

    Context = context

    def __enter__(self) -> Runtime:
        block = Block(self, {})
        block.__enter__()
        self._blocks.append(block)
        return self

    def __exit__(self, *_: object) -> None:
        self._blocks.pop().__exit__()
        self.dispose()

    def __repr__(self) -> str:
        state = ", disposed" if self.disposed else ""
        return f"Runtime({self.name!r} on {self.device!r}{state})"


@public
class Block:
    """What `rt.context()` gives: inside, the runtime is the current one, with more settings."""

    def __init__(self, runtime: Runtime, values: Mapping[str, Any]) -> None:
        self._runtime, self._parts = runtime, (use(runtime), Context(**values))

    def __enter__(self) -> Runtime:
        for part in self._parts:
            part.__enter__()
        return self._runtime

    def __exit__(self, *_: object) -> None:
        for part in reversed(self._parts):
            part.__exit__()


def _place(name: str | None) -> str:
    """The device of a runtime, opened: one that cannot be used is an error here."""
    if name is None or name == "auto":
        place = device.default() if name is None else _automatic()
    else:
        place = device.canonical(name)
    device.get(place)
    return place


def _automatic() -> str:
    with Context(POLY_DEV="auto"):
        return device.default()


def _own_settings(logical: Any, env: Any) -> dict[str, Any]:
    values = dict(env or {})
    for name in values:
        if name in ("POLY_DEV", "DEV"):
            raise ArgumentError("create: give the device as device=, not in env.")
        if name not in LOCAL:
            known = settings.TABLE if isinstance(name, str) else {}
            what = "belongs to the whole process" if name in known else "is no setting"
            hint = did_you_mean(name, LOCAL, fold=str.upper) if isinstance(name, str) else ""
            raise ArgumentError(
                f"create: env: {shown(name)} {what}.{hint} A runtime takes: {', '.join(LOCAL)}."
            )
    if logical == "never":
        raise ArgumentError(f"create: logical: {NEVER}")
    return values if logical is None else {**values, "LOGICAL": logical}


# ---- the library, in one runtime


@public
class Within:
    """Something of polygrad's (a module, a class, a function) that runs inside one runtime."""

    __slots__ = ("_it", "_runtime")

    def __init__(self, runtime: engine.Runtime, it: Any) -> None:
        self._runtime, self._it = runtime, it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with use(self._runtime):
            return self._it(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        with use(self._runtime):
            found = getattr(self._it, name)
        return Within(self._runtime, found) if isinstance(found, _CALLED) else found

    def __instancecheck__(self, x: object) -> bool:
        owned = not isinstance(x, Base) or x.runtime is self._runtime
        return owned and isinstance(x, self._it)

    def __dir__(self) -> list[str]:
        return dir(self._it)

    def __repr__(self) -> str:
        return f"<{getattr(self._it, '__qualname__', self._it.__name__)} of {self._runtime!r}>"


_CALLED = (ModuleType, type, FunctionType, MethodType, BuiltinFunctionType)


# ---- methods enter the runtime of their tensor

# What needs no runtime, or none that lives.
_OUTSIDE = ("__init__", "__repr__", "_repr_html_", "dispose")


def _entering(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, Base):  # Tensor.stack([x, y])
            return method(self, *args, **kwargs)
        if away(self):
            with use(owned_by(self._owner)):
                return method(self, *args, **kwargs)
        if self._owner is not None and self._owner.disposed:
            raise self._owner.gone()
        return method(self, *args, **kwargs)

    return call


def _enter_owners(cls: type) -> None:
    """Let what users call on a tensor (all that is marked `public`) run in the tensor's runtime."""
    for name, member in list(vars(cls).items()):
        if name in _OUTSIDE:
            continue
        if isinstance(member, property):
            parts: list[Any] = [member.fget, member.fset, member.fdel]
            setattr(cls, name, property(*map(_entered, parts)))
        elif isinstance(member, FunctionType):
            setattr(cls, name, _entered(member))


def _entered(function: Any) -> Any:
    inner = getattr(function, "__wrapped__", None)
    return function if inner is None else public(_entering(inner))


for _storey in _Tensor.__mro__[:-1]:
    _enter_owners(_storey)
