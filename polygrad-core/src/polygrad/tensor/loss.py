"""Losses: numbers to make small. `reduction` is "mean", "sum" or "none" everywhere.

Class numbers are compared with the numbers of the classes inside the sum, so no one-hot matrix is
ever stored and the gradient needs no scatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dtype import dtypes
from ..errors import ArgumentError, ShapeError, no_such
from ..gradient_rules import FUNCTIONS
from ..uop.ops import Ops, UOp, size
from . import formulas
from .axes import own_axis
from .base import Base, Integer, Operand, Real, result, tensor_of
from .checks import check_range
from .naming import also
from .pooling import Pooling
from .reduce import log_softmax, narrow, quotient, wide

if TYPE_CHECKING:
    from .tensor import Tensor


class Loss(Pooling):
    """Cross-entropies, distances and divergences."""

    __slots__ = ()

    def cross_entropy(
        self,
        target: Operand,
        reduction: str = "mean",
        label_smoothing: Real = 0.0,
        axis: Integer | None = None,
        ignore_index: Integer = -100,
        weight: Base | None = None,
    ) -> Tensor:
        """-log softmax(self) at the target class. Targets are class numbers, in self's shape
        without the class axis (1, or 0 of one axis), or probabilities in self's shape. Numbers
        equal to `ignore_index` count for nothing; `weight` is one factor for each class.

        >>> round(Tensor([[0.0, 0.0]]).cross_entropy(Tensor([1])).item(), 4)
        0.6931
        """
        name = "cross_entropy"
        y = tensor_of(target, name, self)
        at = own_axis(name, (1 if self.ndim > 1 else 0) if axis is None else axis, self.ndim)
        _check_smoothing(name, label_smoothing)
        logs = log_softmax(wide(self.uop), (at,))
        if y.dtype.is_float:
            return self._soft_targets(name, logs, y, at, reduction, label_smoothing, weight)
        return self._class_targets(
            name, logs, y, at, reduction, label_smoothing, ignore_index, weight
        )

    def sparse_categorical_crossentropy(
        self,
        target: Operand,
        ignore_index: Integer = -1,
        label_smoothing: Real = 0.0,
        reduction: str = "mean",
    ) -> Tensor:
        """`cross_entropy` for class numbers with the classes in the last axis.

        >>> round(Tensor([[0.0, 0.0]]).sparse_categorical_crossentropy(Tensor([1])).item(), 4)
        0.6931
        """
        return self.cross_entropy(target, reduction, label_smoothing, -1, ignore_index)

    def nll_loss(
        self,
        target: Operand,
        weight: Base | None = None,
        ignore_index: Integer = -100,
        reduction: str = "mean",
    ) -> Tensor:
        """-self at the target class, self being log-probabilities with classes in axis 1 (0 of
        one).

        >>> Tensor([[-3.0, -0.5]]).nll_loss(Tensor([1])).item()
        0.5
        """
        at = own_axis("nll_loss", 1 if self.ndim > 1 else 0, self.ndim)
        y = tensor_of(target, "nll_loss", self)
        return self._class_targets(
            "nll_loss", wide(self._float()), y, at, reduction, 0.0, ignore_index, weight
        )

    def _class_targets(
        self,
        name: str,
        logs: UOp,
        y: Base,
        at: int,
        reduction: str,
        smoothing: float,
        ignore: int,
        weight: Base | None,
    ) -> Tensor:
        shape, classes = logs.shape, logs.shape[at]
        rest = (*shape[:at], *shape[at + 1 :])
        if y.shape != rest or y.dtype.is_float:
            raise ShapeError(
                f"{name}: scores {shape} with classes in axis {at} take class numbers of shape"
                f" {rest}, got {y.dtype.name} {y.shape}."
            )
        check_range(name, y, 0, classes, f"the {classes} classes", ignore)
        numbers = UOp.iota(classes).cast(dtypes.int64 if y.dtype.itemsize == 8 else dtypes.int32)
        mine = y.uop.cast(numbers.dtype)
        spread = mine.reshape((*rest[:at], 1, *rest[at:])).expand(shape)
        chosen = spread.eq(_along(numbers, at, len(shape)).expand(shape))
        factor = None if weight is None else _class_weight(name, weight, classes, logs)
        weighted = logs if factor is None else logs * _along(factor, at, len(shape)).expand(shape)
        loss = -chosen.where(weighted, 0.0).reduce(Ops.ADD, (at,))
        if smoothing:
            even = -weighted.reduce(Ops.ADD, (at,)) * (smoothing / classes)
            loss = loss * (1.0 - smoothing) + even
        counts = mine.ne(ignore)
        loss = counts.where(loss, 0.0)
        if factor is None:
            share = counts.cast(loss.dtype)
        else:
            wide_factor = _along(factor, at, len(shape)).expand(shape)
            share = counts.where(chosen.where(wide_factor, 0.0).reduce(Ops.ADD, (at,)), 0.0)
        return self._ended(name, loss, reduction, share, y)

    def _soft_targets(
        self,
        name: str,
        logs: UOp,
        y: Base,
        at: int,
        reduction: str,
        smoothing: float,
        weight: Base | None,
    ) -> Tensor:
        if y.shape != self.shape:
            raise ShapeError(
                f"{name}: scores {self.shape} take probabilities of that shape, got {y.shape}."
            )
        p = y.uop.cast(logs.dtype)
        classes = self.shape[at]
        if smoothing:
            p = p * (1.0 - smoothing) + smoothing / classes
        if weight is not None:
            factor = _class_weight(name, weight, classes, logs)
            p = p * _along(factor, at, self.ndim).expand(self.shape)
        loss = -(p * logs).reduce(Ops.ADD, (at,))
        return self._ended(name, loss, reduction, None, y)

    def _ended(
        self, name: str, loss: UOp, reduction: str, share: UOp | None, *others: Base
    ) -> Tensor:
        """The reduction of a loss; a mean is weighted by `share` where given."""
        every = range(len(loss.shape))
        if reduction == "mean":
            total = loss.reduce(Ops.ADD, every)
            count = None if share is None else share.reduce(Ops.ADD, every)
            loss = quotient(total, size(loss.shape)) if count is None else total / count
        elif reduction == "sum":
            loss = loss.reduce(Ops.ADD, every)
        elif reduction != "none":
            valid = ("mean", "sum", "none")
            raise ArgumentError(f"{name}: {no_such('reduction', reduction, valid)}")
        return result(narrow(loss, self.uop.dtype), self, *others)

    # ---- binary cross-entropy

    def binary_crossentropy(self, target: Operand, reduction: str = "mean") -> Tensor:
        """-(y log p + (1 - y) log(1 - p)); logarithms below -100 count as -100, and the slope's
        p (1 - p) as 1e-12 where it is less (torch).

        >>> round(Tensor([0.5]).binary_crossentropy(Tensor([1.0])).item(), 4)
        0.6931
        """
        p, y, other = self._pair("binary_crossentropy", target)
        yes, no = _bounded_logs(p)
        loss = formulas.sloped("binary_crossentropy", -(y * yes + (1.0 - y) * no), p, y)
        return self._ended("binary_crossentropy", loss, reduction, None, other)

    def binary_crossentropy_logits(
        self, target: Operand, reduction: str = "mean", pos_weight: Operand = None
    ) -> Tensor:
        """`binary_crossentropy` of sigmoid(self), stable for large scores.

        >>> round(Tensor([0.0]).binary_crossentropy_logits(Tensor([1.0])).item(), 4)
        0.6931
        """
        x, y, other = self._pair("binary_crossentropy_logits", target)
        used = [other]
        yes, no = formulas.softplus(-x), formulas.softplus(x)  # -log sigmoid(x), -log sigmoid(-x)
        if pos_weight is not None:
            w = tensor_of(pos_weight, "binary_crossentropy_logits", self)
            used.append(w)
            yes = yes * w.uop.cast(x.dtype).broadcast_to(x.shape)
        return self._ended(
            "binary_crossentropy_logits", y * yes + (1.0 - y) * no, reduction, None, *used
        )

    binary_cross_entropy = also("binary_cross_entropy", binary_crossentropy)
    binary_cross_entropy_with_logits = also(
        "binary_cross_entropy_with_logits", binary_crossentropy_logits
    )

    # ---- distances

    def mse_loss(self, target: Operand, reduction: str = "mean") -> Tensor:
        """The square of the difference.

        >>> Tensor([1.0, 2.0]).mse_loss(Tensor([1.0, 4.0])).item()
        2.0
        """
        a, b, other = self._pair("mse_loss", target)
        return self._ended("mse_loss", (a - b) * (a - b), reduction, None, other)

    def l1_loss(self, target: Operand, reduction: str = "mean") -> Tensor:
        """The size of the difference.

        >>> Tensor([1.0, 2.0]).l1_loss(Tensor([1.0, 4.0])).item()
        1.0
        """
        a, b, other = self._pair("l1_loss", target)
        return self._ended("l1_loss", formulas.absolute(a - b), reduction, None, other)

    def huber_loss(self, target: Operand, delta: Real = 1.0, reduction: str = "mean") -> Tensor:
        """d^2 / 2 up to |d| = delta, delta (|d| - delta / 2) beyond.

        >>> Tensor([0.0]).huber_loss(Tensor([3.0])).item()
        2.5
        """
        a, b, other = self._pair("huber_loss", target)
        far = formulas.absolute(a - b)
        loss = (far <= delta).where(far * far * 0.5, (far - 0.5 * delta) * delta)
        return self._ended("huber_loss", loss, reduction, None, other)

    def smooth_l1_loss(self, target: Operand, beta: Real = 1.0, reduction: str = "mean") -> Tensor:
        """d^2 / (2 beta) up to |d| = beta, |d| - beta / 2 beyond.

        >>> Tensor([0.0]).smooth_l1_loss(Tensor([3.0])).item()
        2.5
        """
        a, b, other = self._pair("smooth_l1_loss", target)
        far = formulas.absolute(a - b)
        loss = (far < beta).where(far * far * (0.5 / beta), far - 0.5 * beta) if beta else far
        return self._ended("smooth_l1_loss", loss, reduction, None, other)

    def pinball_loss(
        self, target: Operand, quantile: Real = 0.5, reduction: str = "mean"
    ) -> Tensor:
        """quantile * d for d = target - self >= 0, (quantile - 1) * d below: least where self is
        that quantile of the targets (Koenker and Bassett 1978).

        >>> Tensor([0.0, 0.0]).pinball_loss(Tensor([2.0, -2.0]), 0.75).item()
        1.0
        """
        if not 0.0 <= quantile <= 1.0:
            raise ArgumentError(f"pinball_loss: quantile lies in [0, 1], not {quantile}.")
        a, b, other = self._pair("pinball_loss", target)
        gap = b - a
        loss = (gap < 0.0).where(gap * (quantile - 1.0), gap * quantile)
        return self._ended("pinball_loss", loss, reduction, None, other)

    def kl_div(self, target: Operand, reduction: str = "mean", log_target: bool = False) -> Tensor:
        """y (log y - self), self being log-probabilities; 0 where y is 0. The reduction may also be
        "batchmean": the sum divided by the size of the first axis, the divergence per sample.

        >>> Tensor([0.0]).kl_div(Tensor([1.0])).item()
        0.0
        """
        x, y, other = self._pair("kl_div", target)
        if log_target:
            loss = formulas.exp(y) * (y - x)
        else:
            some = y > 0.0
            loss = some.where(y * (formulas.log(some.where(y, 1.0)) - x), 0.0)
        if reduction != "batchmean":
            return self._ended("kl_div", loss, reduction, None, other)
        if not self.ndim:
            raise ShapeError("kl_div: a 0-d tensor has no samples to take the batchmean of.")
        return self._ended("kl_div", loss, "sum", None, other) / float(self.shape[0])

    def _pair(self, name: str, target: Operand) -> tuple[UOp, UOp, Base]:
        other = tensor_of(target, name, self)
        if other.shape != self.shape:
            raise ShapeError(f"{name}: shapes {self.shape} and {other.shape} differ.")
        x = wide(self._float())
        y = wide(other._float())
        dtype = dtypes.float64 if dtypes.float64 in (x.dtype, y.dtype) else dtypes.float32
        return x.cast(dtype), y.cast(dtype), other


def _bounded_logs(p: UOp) -> tuple[UOp, UOp]:
    low = p._with(-100.0)
    yes, no = formulas.log(p), formulas.log(1.0 - p)
    return formulas.clip(yes, low, None), formulas.clip(no, low, None)


def _binary_rule(node: UOp, g: UOp) -> list[UOp]:
    """(p - y) / (p (1 - p)), its denominator at least 1e-12: a number where p is 0 or 1, which
    rounding makes of sure predictions."""
    _, p, y = node.src
    yes, no = _bounded_logs(p)
    return [g * ((p - y) / (p * (1.0 - p)).maximum(1e-12)), g * (no - yes)]


FUNCTIONS["binary_crossentropy"] = _binary_rule


def _along(vector: UOp, axis: int, ndim: int) -> UOp:
    """A vector as an array whose `axis` it is, with size 1 elsewhere."""
    return vector.reshape((1,) * axis + vector.shape + (1,) * (ndim - axis - 1))


def _class_weight(name: str, weight: Base, classes: int, logs: UOp) -> UOp:
    if weight.shape != (classes,):
        raise ShapeError(f"{name}: weight has shape {weight.shape}, there are {classes} classes.")
    return weight.uop.cast(logs.dtype)


def _check_smoothing(name: str, smoothing: float) -> None:
    if not 0.0 <= smoothing <= 1.0:
        raise ArgumentError(f"{name}: label_smoothing lies in [0, 1], not {smoothing}.")
