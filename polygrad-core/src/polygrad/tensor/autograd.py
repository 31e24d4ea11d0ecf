"""Gradients as users ask for them: marks on leaves, `backward`, `gradient`, and what stops them.

A leaf (data, zeros, a random draw, a realised result) takes a gradient if its `requires_grad` is
True; if no leaf of a graph says so, every float leaf that was not told False takes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, DTypeError, GradientError, ShapeError
from ..uop.ops import UOp, toposort
from .base import Base, Flag, _leaves, _no_grad, result
from .writing import Writing

if TYPE_CHECKING:
    from .tensor import Tensor


class Autograd(Writing):
    """backward, gradient and requires_grad."""

    __slots__ = ()

    @property
    def requires_grad(self) -> Flag | None:
        """True: takes a gradient, or was computed from such a leaf; None: takes one if no leaf says
        True."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: Flag | None) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: Flag | None = True) -> Tensor:
        """Set `requires_grad`; a tensor marked True is a leaf from then on."""
        if requires_grad and not self.uop.dtype.is_float:
            raise DTypeError(f"only float tensors take gradients, not {self.uop.dtype.name}.")
        self._requires_grad = requires_grad
        if requires_grad:
            _leaves[id(self.uop)] = self  # type: ignore[assignment]
        return self  # type: ignore[return-value]

    @property
    def is_leaf(self) -> Flag:
        """Whether no operation made it."""
        return _leaves.get(id(self.uop)) is self

    @property
    def is_param(self) -> Flag | None:
        """Whether a captured Model trains it; None: if it is a float."""
        return self._is_param

    def is_param_(self, is_param: Flag = True) -> Tensor:
        """Mark as a parameter, or (False) as auxiliary state that no optimizer touches."""
        self._is_param = is_param
        self._requires_grad = self._requires_grad if is_param else False
        return self  # type: ignore[return-value]

    def detach(self) -> Tensor:
        """The same values, through which no gradient flows."""
        out = result(self.uop.detach(), self)
        out._requires_grad = False
        return out

    def zero_grad(self) -> None:
        """Forget `grad`."""
        self.grad = None

    def backward(self, gradient: Any = None) -> Tensor:
        """Add d self / d leaf to the `grad` of each leaf that takes one; gives self.

        `gradient`, of self's shape, is what flows in; it may be left out for a scalar."""
        seed = self._seed("backward", gradient)
        leaves = self._receivers()
        from ..gradient import gradient as differentiate

        found = differentiate(self.uop, [t.uop for t in leaves], seed)
        for t, g in zip(leaves, found, strict=True):
            new = result(g)
            new._device = t._device
            t.grad = new if t.grad is None else t.grad + new
        return self  # type: ignore[return-value]

    def gradient(self, *targets: Base, gradient: Any = None) -> list[Tensor]:
        """d self / d target for each target, leaving every `grad` alone; zeros where nothing
        depends."""
        seed = self._seed("gradient", gradient)
        for t in targets:
            if not t.dtype.is_float:
                raise GradientError(
                    f"gradient: a target of {t.dtype.name} has none; only floats do."
                )
        from ..gradient import gradient as differentiate

        found = differentiate(self.uop, [t.uop for t in targets], seed)
        return [result(g, self, t) for g, t in zip(found, targets, strict=True)]

    def _seed(self, name: str, gradient: Any) -> UOp | None:
        if not self.uop.dtype.is_float:
            raise GradientError(f"{name}: {self.uop.dtype.name} has no gradient; only floats do.")
        if gradient is None:
            if self.shape:
                raise GradientError(
                    f"{name} starts from one number, not shape {self.shape};"
                    f" use .sum().{name}() or pass gradient=."
                )
            return None
        given = gradient if isinstance(gradient, Base) else type(self)(gradient)  # type: ignore[call-arg]
        if given.shape != self.shape:
            raise ShapeError(f"{name}: gradient has shape {given.shape}, the tensor {self.shape}.")
        return given.uop.cast(self.uop.dtype)

    def _receivers(self) -> list[Tensor]:
        """The leaves below that take a gradient, in the order of the graph."""
        found = []
        for node in toposort((self.uop,)):
            t = _leaves.get(id(node))
            if t is not None and t.uop is node and t._requires_grad is not False:
                found.append(t)
        asked = [t for t in found if t._requires_grad]
        if not (asked or found):
            raise GradientError(
                "backward: no leaf tensors require grad: none is a float, or all are detached."
            )
        return asked or found

    @staticmethod
    @contextmanager
    def no_grad() -> Iterator[None]:
        """Operations inside the block are not followed by gradients."""
        token = _no_grad.set(True)
        try:
            yield
        finally:
            _no_grad.reset(token)

    # ---- assignment

    def assign(self, value: Any) -> Tensor:
        """Overwrite self with `value`, which must have its shape; gives self. Lazy, as everything.

        Tensors built from the old value before keep it."""
        new = value if isinstance(value, Base) else type(self)(value, dtype=self.dtype)  # type: ignore[call-arg]
        if new.shape != self.shape:
            raise ShapeError(f"assign: shape {new.shape} does not fit {self.shape}.")
        if new.dtype is not self.dtype:
            raise DTypeError(
                f"assign: a value of {new.dtype.name} does not fit {self.dtype.name};"
                f" use .cast({self.dtype.name!r})."
            )
        if new._device is not None and new.device != self.device:
            raise ArgumentError(
                f"assign: the value is on {new.device!r}, the tensor on {self.device!r}."
            )
        self._assign(new.uop)
        return self  # type: ignore[return-value]
