"""Gradients as users ask for them: marks on leaves, `backward`, `gradient`, and what stops them.

A leaf (data, zeros, a random draw, a realised result) takes a gradient if its `requires_grad` is
True; if no leaf of a graph says so, every float leaf that was not told False takes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..engine.capture import active as capturing
from ..errors import ArgumentError, DTypeError, GradientError, ShapeError
from ..uop.ops import Ops, UOp, toposort
from .alignment import Alignment
from .base import Base, Flag, _leaves, _no_grad, maybe, one_owner, result, wants_gradient
from .naming import also
from .store import before_write, differentiated, own, realize

if TYPE_CHECKING:
    from .tensor import Tensor


class Autograd(Alignment):
    """backward, gradient and requires_grad."""

    __slots__ = ()

    @property
    def requires_grad(self) -> Flag | None:
        """True: takes a gradient, or was computed from such a leaf; None: takes one if no leaf says
        True.

        >>> Tensor([1.0], requires_grad=True).requires_grad
        True
        """
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: Flag | None) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: Flag | None = True) -> Tensor:
        """Set `requires_grad`: True, False or None. What is marked True is a leaf from then on.

        >>> Tensor([1.0]).requires_grad_().requires_grad
        True
        """
        self._requires_grad = wants_gradient(requires_grad, self.uop.dtype)
        if self._requires_grad:
            owner = _leaves.setdefault(id(self.uop), self)  # type: ignore[arg-type]
            if owner is not self:  # two names of one node: this one becomes a leaf beside it
                self.uop = own(self.uop, self.device)
                _leaves[id(self.uop)] = self  # type: ignore[assignment]
        return self  # type: ignore[return-value]

    @property
    def is_leaf(self) -> Flag:
        """Whether no operation made it.

        >>> Tensor([1.0]).is_leaf
        True
        """
        return _leaves.get(id(self.uop)) is self

    @property
    def is_param(self) -> Flag | None:
        """Whether a captured Model trains it; None: if it is a float.

        >>> Tensor([1.0], is_param=True).is_param
        True
        """
        return self._is_param

    def is_param_(self, is_param: Flag = True) -> Tensor:
        """Mark as a parameter, or (False) as auxiliary state that no optimizer touches.

        >>> Tensor([1.0]).is_param_(False).is_param
        False
        """
        self._is_param = maybe("is_param", is_param)
        self._requires_grad = self._requires_grad if self._is_param else False
        return self  # type: ignore[return-value]

    def detach(self) -> Tensor:
        """The same values, through which no gradient flows.

        >>> Tensor([1.0], requires_grad=True).detach().requires_grad
        False
        """
        out = result(self.uop.detach(), self)
        out._requires_grad = False
        return out

    def zero_grad(self) -> None:
        """Forget `grad`.

        >>> x = Tensor([1.0], requires_grad=True)
        >>> _ = (x * x).sum().backward()
        >>> x.zero_grad()
        >>> x.grad is None
        True
        """
        self.grad = None

    def backward(self, gradient: Any = None, retain_graph: Flag = False) -> Tensor:
        """Add d self / d leaf to the `grad` of each leaf that takes one; gives self.

        `gradient`, of self's shape, is what flows in; it may be left out for a scalar. An
        assignment that follows (an optimizer's step) computes self and lets its graph go, unless
        `retain_graph`.

        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> _ = (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        seed = self._seed("backward", gradient)
        leaves = self._receivers()
        from ..gradient import flows

        found = flows({self.uop: seed}, [t.uop for t in leaves], through=False)
        if not any(g is not None for g in found):
            raise GradientError(f"backward: nothing flows to any leaf.{self._why_not()}")
        capture = capturing.get()
        for t, g in zip(leaves, found, strict=True):
            if g is not None:
                new = result(g)
                new._device, new._owner = t._device, t._owner
                if capture is not None:
                    capture.see(t)
                t.grad = new if t.grad is None else t.grad + new
        given = [t.grad for t in leaves if t.grad is not None]
        differentiated([*given] if retain_graph else [self, *given])
        return self  # type: ignore[return-value]

    def gradient(
        self, *targets: Base, gradient: Any = None, allow_unused: Flag = False
    ) -> list[Tensor]:
        """d self / d target for each target, leaving every `grad` alone. A target that self does
        not depend on is an error, or gets zeros under `allow_unused`.

        >>> x = Tensor([1.0, 2.0])
        >>> [g.tolist() for g in (x * x).sum().gradient(x)]
        [[2.0, 4.0]]
        """
        seed = self._seed("gradient", gradient)
        one_owner((self, *targets))
        for t in targets:
            if not t.dtype.is_float:
                raise GradientError(
                    f"gradient: a target of {t.dtype.name} has none; only floats do."
                )
        from ..gradient import flows

        out: list[Tensor] = []
        for t, g in zip(targets, flows({self.uop: seed}, [t.uop for t in targets]), strict=True):
            if g is None and not allow_unused:
                raise GradientError(
                    f"gradient: the tensor does not depend on target {len(out)} (shape {t.shape})."
                    f"{self._why_not()}"
                )
            zeros = UOp.const(t.dtype, 0).broadcast_to(t.shape)
            out.append(result(zeros if g is None else g, self, t))
        return out

    def _why_not(self) -> str:
        """A hint for a tensor whose graph is gone."""
        if self.uop.op is not Ops.BUFFER:
            return ""
        return (
            " It was computed before and forgot how: mark the inputs with requires_grad=True,"
            " or take the gradient first."
        )

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
        given = gradient if isinstance(gradient, Base) else self._like(gradient)
        one_owner((self, given))
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
                "backward: no leaf tensors require grad: none is a float, or all are detached"
                " or were assigned to since." + self._why_not()
            )
        return asked or found

    @staticmethod
    @contextmanager
    def no_grad() -> Iterator[None]:
        """Operations inside the block are not followed by gradients.

        >>> with Tensor.no_grad():
        ...     y = Tensor([1.0], requires_grad=True) * 2
        >>> y.requires_grad
        False
        """
        token = _no_grad.set(True)
        try:
            yield
        finally:
            _no_grad.reset(token)

    # ---- assignment

    def assign(self, value: Any) -> Tensor:
        """Overwrite self with `value`, which must have its shape and dtype; gives self. Lazy, as
        everything: what was built from the old value before keeps it. If gradients go through the
        value, self is no leaf from then on and they go through self, as in torch; not so if self
        takes a gradient itself (an optimizer's step) or has requires_grad False.

        Of writes to one tensor (`assign`, `x[...] = v`, `x += v`) 32 wait at most; the next one
        computes them first. They wait longer where the program holds something that was computed on
        the way, or a float tensor that it was computed from: a gradient could be asked for. Inside
        of `jit` they all belong to the graph.

        >>> x = Tensor([1.0, 2.0]).realize()
        >>> y = x * 10
        >>> x.assign(x + 1).tolist(), y.tolist()
        ([2.0, 3.0], [10.0, 20.0])
        """
        new = self._accepted("assign", value)
        before_write(self, new)
        self._assign(new.uop, bool(new._requires_grad))
        return self  # type: ignore[return-value]

    def copy_from(self, data: Any) -> Tensor:
        """Write host data or another tensor into the storage of self, now; gives self.

        >>> Tensor([1.0, 2.0]).copy_from([3.0, 4.0]).tolist()
        [3.0, 4.0]
        """
        new = self._accepted("copy_from", data)
        out = self._assigned(new.uop if new._device == self._device else new.to(self.device).uop)
        realize([self])
        return out

    update_from = also("update_from", copy_from)

    def _assigned(self, value: UOp) -> Tensor:
        self._assign(value)
        return self  # type: ignore[return-value]

    def replace(self, other: Base) -> Tensor:
        """Become what `other` is, another graph of the same shape and dtype; nothing is written.

        >>> Tensor([1.0]).replace(Tensor([2.0])).tolist()
        [2.0]
        """
        self._replace(self._accepted("replace", other).uop)
        return self  # type: ignore[return-value]

    def _accepted(self, name: str, value: Any) -> Any:
        """`value` as a Tensor that fits self."""
        new = value if isinstance(value, Base) else self._like(value)
        one_owner((self, new))
        if new.shape != self.shape:
            raise ShapeError(f"{name}: shape {new.shape} does not fit {self.shape}.")
        if new.dtype is not self.dtype:
            raise DTypeError(
                f"{name}: a value of {new.dtype.name} does not fit {self.dtype.name};"
                f" use .cast({self.dtype.name!r})."
            )
        elsewhere = new._device is not None and new.device != self.device
        if elsewhere and name != "copy_from":
            raise ArgumentError(
                f"{name}: the value is on {new.device!r}, the tensor on {self.device!r};"
                f" use .to({self.device!r})."
            )
        return new
