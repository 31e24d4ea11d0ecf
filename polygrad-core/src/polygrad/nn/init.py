"""Initial values as data: a kind and its number, so that they can be kept in a file and made again.

>>> weight = nn.init.kaiming_uniform()((64, 32))

A spec is called with a shape and gives a Tensor that requires a gradient. The random ones draw from
the library's generator, so `Tensor.manual_seed` before construction fixes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ..arguments import call_back
from ..dtype import DType, dtypes, to_dtype
from ..errors import ArgumentError, UnknownName, no_such, public, shown
from ..tensor import Tensor
from ..tensor.axes import number
from ..tensor.base import maybe

__all__ = [
    "Init",
    "kaiming",
    "kaiming_uniform",
    "literal",
    "ones",
    "param",
    "randn",
    "uniform",
    "zeros",
]

Shape = tuple[int, ...]


@public
class Init(NamedTuple):
    """How a parameter starts: `kind` names an entry of the table below."""

    kind: str
    value: Any = None

    def __call__(self, shape: Sequence[int], dtype: DType = dtypes.float32) -> Tensor:
        if self.kind not in _MAKERS:
            raise UnknownName(no_such("initial value", self.kind, _MAKERS))
        value = self.value
        if self.kind in _NUMBERS:
            value = number(f"init.{self.kind}", _NUMBERS[self.kind], value)
        return parameter(_MAKERS[self.kind](tuple(shape), value).cast(dtype))


def parameter(tensor: Tensor) -> Tensor:
    """Mark a tensor as one that is trained."""
    return tensor.requires_grad_(True)


# Parameters that weight decay leaves alone, by id: a Tensor compares by its elements.
_exempt: WeakValueDictionary[int, Tensor] = WeakValueDictionary()


@public
def param(
    shape: int | Sequence[int],
    init: str | Mapping[str, Any] | Init = "randn",
    dtype: Any = dtypes.float32,
    decay: bool | None = None,
) -> Tensor:
    """A parameter of a shape: how it starts, its dtype, and whether weight decay shrinks it.

    `init` is an `Init`, the name of one, or a mapping such as ``{"kind": "kaiming", "gain": 1.0}``.
    Without `decay`, all but zeros and ones decay. Raises ArgumentError and UnknownName.

    >>> nn.init.param((2,), "ones").tolist()
    [1.0, 1.0]
    >>> nn.init.param((3, 4), {"kind": "randn", "scale": 0.1}, "float16").dtype
    dtypes.float16
    """
    spec = _spec(init)
    made = spec((shape,) if isinstance(shape, int) else shape, to_dtype(dtype))
    wanted = maybe("decay", decay)
    if not (spec.kind not in ("zeros", "ones") if wanted is None else wanted):
        exempt(made)
    return made


def _spec(init: str | Mapping[str, Any] | Init) -> Init:
    if isinstance(init, Init):
        return init
    given = {"kind": init} if isinstance(init, str) else init
    if not isinstance(given, Mapping) or "kind" not in given:
        raise ArgumentError(
            f"init is one of nn.init, its name, or a mapping with its kind, not {shown(init)}."
        )
    kind, rest = given["kind"], {k: v for k, v in given.items() if k != "kind"}
    if not isinstance(kind, str) or kind not in _BY_NAME:
        raise UnknownName(no_such("initial value", kind, _BY_NAME))
    made: Init = call_back(f"init {kind!r}", _BY_NAME[kind], **rest)
    return made


def exempt(tensor: Tensor) -> None:
    """Let weight decay leave a parameter alone."""
    _exempt[id(tensor)] = tensor


def decays(tensor: Tensor) -> bool:
    """Whether weight decay shrinks a parameter, if nothing else is said."""
    return _exempt.get(id(tensor)) is not tensor


def fan_in(shape: Sequence[int]) -> int:
    """Inputs of one output element of a weight (out, in, *kernel)."""
    return math.prod(shape[1:]) if len(shape) > 1 else math.prod(shape)


def zeros() -> Init:
    """0 everywhere.

    >>> nn.init.zeros()((2,)).tolist()
    [0.0, 0.0]
    """
    return Init("zeros")


def ones() -> Init:
    """1 everywhere.

    >>> nn.init.ones()((2,)).tolist()
    [1.0, 1.0]
    """
    return Init("ones")


def randn(scale: float = 0.02) -> Init:
    """Normal with mean 0 and standard deviation `scale`.

    >>> nn.init.randn(0.02)((3, 4)).shape
    (3, 4)
    """
    return Init("randn", scale)


def uniform(bound: float) -> Init:
    """Uniform in [-bound, bound).

    >>> nn.init.uniform(0.5)((64,)).abs().max().item() <= 0.5
    True
    """
    return Init("uniform", bound)


def kaiming(gain: float = math.sqrt(2)) -> Init:
    """Normal with standard deviation gain / sqrt(fan_in) (He et al. 2015).

    >>> nn.init.kaiming()((3, 4)).shape
    (3, 4)
    """
    return Init("kaiming", gain)


def kaiming_uniform(a: float = math.sqrt(5)) -> Init:
    """Uniform in ±sqrt(6 / ((1 + a²) fan_in)); with the default, ±1 / sqrt(fan_in).

    >>> nn.init.kaiming_uniform()((64, 4)).abs().max().item() <= 0.5
    True
    """
    return Init("kaiming_uniform", a)


def literal(data: Any) -> Init:
    """These values; their number must be that of the shape.

    >>> nn.init.literal([1.0, 2.0])((2,)).tolist()
    [1.0, 2.0]
    """
    return Init("literal", data)


def _uniform(shape: Shape, bound: float) -> Tensor:
    return Tensor.rand(*shape) * (2 * bound) - bound


def _kaiming_uniform(shape: Shape, a: float) -> Tensor:
    return _uniform(shape, math.sqrt(6 / ((1 + a * a) * max(fan_in(shape), 1))))


def _literal(shape: Shape, data: Any) -> Tensor:
    tensor = data if isinstance(data, Tensor) else Tensor(data)
    if tensor.numel() != math.prod(shape):
        raise ArgumentError(
            f"init.literal has {tensor.numel()} values; the shape {shape} needs {math.prod(shape)}."
        )
    return tensor.reshape(shape)


_MAKERS: dict[str, Callable[[Shape, Any], Tensor]] = {
    "zeros": lambda shape, _: Tensor.zeros(*shape),
    "ones": lambda shape, _: Tensor.ones(*shape),
    "randn": lambda shape, scale: Tensor.randn(*shape) * scale,
    "uniform": _uniform,
    "kaiming": lambda shape, gain: Tensor.randn(*shape) * (gain / math.sqrt(max(fan_in(shape), 1))),
    "kaiming_uniform": _kaiming_uniform,
    "literal": _literal,
}
# The kinds that one number says more about, and what that is.
_NUMBERS = {"randn": "scale", "uniform": "bound", "kaiming": "gain", "kaiming_uniform": "a"}
_BY_NAME: dict[str, Callable[..., Init]] = {
    f.__name__: f for f in (zeros, ones, randn, uniform, kaiming, kaiming_uniform, literal)
}
