"""torch's methods that change a tensor in place, named with a last underscore.

Each is the method without it, and then an assignment as `+=` makes: what was computed from the old
value before keeps it. The result must have the tensor's shape and fit its kind of dtype; it is cast
to that dtype. Each gives self.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .base import Flag, Integer, Operand, Real, result
from .keeping import Keeping
from .store import before_write

if TYPE_CHECKING:
    from .tensor import Tensor


class InPlace(Keeping):
    """`add_`, `mul_`, `copy_` and the like."""

    __slots__ = ()

    def _changed(self, name: str, value: Callable[[Tensor], Tensor], other: Any = None) -> Tensor:
        """Self as `value` of it; `other` is what is joined to it."""
        before_write(self, other)
        mine = result(self.uop, self)
        return self._take(name, f"x = x.{name[:-1]}(...)", value(mine))

    # ---- arithmetic

    def add_(self, other: Operand, *, alpha: Real = 1) -> Tensor:
        """self + alpha * other, in place.

        >>> Tensor([1.0, 2.0]).add_(Tensor([1.0, 1.0]), alpha=0.5).tolist()
        [1.5, 2.5]
        """
        return self._changed("add_", lambda x: x.add(_times(other, alpha)), other)

    def sub_(self, other: Operand, *, alpha: Real = 1) -> Tensor:
        """self - alpha * other, in place.

        >>> Tensor([1.0, 2.0]).sub_(0.5).tolist()
        [0.5, 1.5]
        """
        return self._changed("sub_", lambda x: x.sub(_times(other, alpha)), other)

    def mul_(self, other: Operand) -> Tensor:
        """self * other, in place.

        >>> Tensor([1.0, 2.0]).mul_(2).tolist()
        [2.0, 4.0]
        """
        return self._changed("mul_", lambda x: x.mul(other), other)

    def div_(self, other: Operand) -> Tensor:
        """self / other, in place.

        >>> Tensor([1.0, 2.0]).div_(2).tolist()
        [0.5, 1.0]
        """
        return self._changed("div_", lambda x: x.div(other), other)

    def pow_(self, other: Operand) -> Tensor:
        """self ** other, in place.

        >>> Tensor([1.0, 2.0]).pow_(2).tolist()
        [1.0, 4.0]
        """
        return self._changed("pow_", lambda x: x.pow(other), other)

    def lerp_(self, end: Operand, weight: Operand) -> Tensor:
        """self + weight * (end - self), in place.

        >>> Tensor([0.0, 2.0]).lerp_(Tensor([4.0, 4.0]), 0.5).tolist()
        [2.0, 3.0]
        """
        return self._changed("lerp_", lambda x: x.lerp(end, weight), end)

    def clamp_(
        self,
        min_: Operand = None,
        max_: Operand = None,
        *,
        min: Operand = None,
        max: Operand = None,
    ) -> Tensor:
        """Not below `min` and not above `max`, in place.

        >>> Tensor([-1.0, 0.5, 2.0]).clamp_(0, 1).tolist()
        [0.0, 0.5, 1.0]
        """
        return self._changed("clamp_", lambda x: x.clamp(min_, max_, min=min, max=max))

    # ---- other values

    def fill_(self, value: Operand) -> Tensor:
        """Every element `value`, in place.

        >>> Tensor([1.0, 2.0]).fill_(3).tolist()
        [3.0, 3.0]
        """
        self[...] = value
        return self  # type: ignore[return-value]

    def zero_(self) -> Tensor:
        """Every element 0, in place.

        >>> Tensor([1.0, 2.0]).zero_().tolist()
        [0.0, 0.0]
        """
        return self.fill_(0)

    def copy_(self, other: Operand) -> Tensor:
        """The elements of `other`, which broadcasts and is cast, in place. Lazy, unlike
        `copy_from`.

        >>> Tensor([1, 2]).copy_(Tensor([3.7])).tolist()
        [3, 3]
        """
        self[...] = other
        return self  # type: ignore[return-value]

    def masked_fill_(self, mask: Operand, value: Operand) -> Tensor:
        """`value` where `mask` is true, in place.

        >>> Tensor([1.0, 2.0]).masked_fill_(Tensor([True, False]), 0).tolist()
        [0.0, 2.0]
        """
        return self._changed("masked_fill_", lambda x: x.masked_fill(mask, value), mask)

    def scatter_(
        self,
        dim: Any,
        index: Any,
        src: Operand = None,
        reduce: str | None = None,
        *,
        value: Operand = None,
    ) -> Tensor:
        """`scatter`, in place.

        >>> Tensor([0, 0, 0]).scatter_(0, Tensor([2, 0]), Tensor([5, 6])).tolist()
        [6, 0, 5]
        """
        return self._changed("scatter_", lambda x: x.scatter(dim, index, src, reduce, value=value))

    def scatter_add_(self, dim: Any, index: Any, src: Operand) -> Tensor:
        """`scatter_add`, in place.

        >>> Tensor([1, 1]).scatter_add_(0, Tensor([1, 1]), Tensor([5, 6])).tolist()
        [1, 12]
        """
        return self._changed("scatter_add_", lambda x: x.scatter_add(dim, index, src))

    def index_add_(self, dim: Integer, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
        """`index_add`, in place.

        >>> Tensor([1.0, 1.0]).index_add_(0, Tensor([1]), Tensor([5.0])).tolist()
        [1.0, 6.0]
        """
        return self._changed("index_add_", lambda x: x.index_add(dim, index, source, alpha))

    def index_put_(self, indices: Any, values: Operand, accumulate: Flag = False) -> Tensor:
        """`index_put`, in place.

        >>> Tensor([1.0, 1.0]).index_put_((Tensor([1]),), 5.0).tolist()
        [1.0, 5.0]
        """
        return self._changed("index_put_", lambda x: x.index_put(indices, values, accumulate))

    # ---- random values

    def uniform_(self, low: Real = 0.0, high: Real = 1.0) -> Tensor:
        """Even draws from low to high, in place.

        >>> Tensor.zeros(3).uniform_(2, 3).int().tolist()
        [2, 2, 2]
        """
        draw: Any = type(self).uniform
        drawn = draw(*self.shape, low=low, high=high, dtype=self.dtype, device=self.device)
        return self._changed("uniform_", lambda x: drawn)

    def normal_(self, mean: Real = 0.0, std: Real = 1.0) -> Tensor:
        """Normal draws, in place.

        >>> Tensor.ones(3).normal_(5, 0).tolist()
        [5.0, 5.0, 5.0]
        """
        draw: Any = type(self).normal
        drawn = draw(*self.shape, mean=mean, std=std, dtype=self.dtype, device=self.device)
        return self._changed("normal_", lambda x: drawn)


def _times(x: Any, alpha: Real) -> Any:
    return x if alpha == 1 else x * alpha
