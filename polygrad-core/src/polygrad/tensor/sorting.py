"""Order: sort, argsort, topk, unique, searchsorted, median, quantile.

A sort computes the permutation alone (`merging.py`) and then gathers, so its gradient is that of a
gather: each element gets what flowed into its place. NaN counts as the greatest value: it is last
in ascending order and first in descending, and `median` and `quantile` of it are NaN, as in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import dtypes, to_dtype
from ..errors import ArgumentError, DTypeError, ShapeError, no_such
from ..uop.ops import Ops, Shape, UOp
from . import formulas, merging
from .base import (
    Flag,
    Integer,
    axes_of,
    axis_of,
    common_dtype,
    either,
    integer,
    number,
    result,
    tensor_of,
)
from .kernels import Kernels
from .random import words
from .reduce import narrow, wide

if TYPE_CHECKING:
    from .tensor import Tensor


def _rows(u: UOp, axis: int) -> UOp:
    """A matrix whose rows lie along `axis`."""
    return _last(u, axis).reshape((math.prod(u.shape) // max(u.shape[axis], 1), u.shape[axis]))


def _last(u: UOp, axis: int) -> UOp:
    rank = len(u.shape)
    return u.permute((*(a for a in range(rank) if a != axis), axis))


def _back(matrix: UOp, shape: Shape, axis: int) -> UOp:
    """The rows of a matrix put back along `axis` of a tensor that had `shape` (but there)."""
    rest = [n for a, n in enumerate(shape) if a != axis]
    u = matrix.reshape((*rest, matrix.shape[1]))
    rank = len(shape)
    return u.permute((*range(axis), rank - 1, *range(axis, rank - 1)))


def picked(matrix: UOp, places: UOp) -> UOp:
    """From each row of a matrix the elements at `places` of that row."""
    rows, n = matrix.shape
    if rows == 1:
        return (
            matrix.reshape((n,)).gather(places.reshape((places.shape[1],)), 0).reshape(places.shape)
        )
    wide = dtypes.int64 if rows * n >= 1 << 31 else dtypes.int32
    first = (UOp.iota(rows, wide) * n).reshape((rows, 1)).expand(places.shape)
    return matrix.reshape((rows * n,)).gather(places.cast(wide) + first, 0)


def _sortable(name: str, t: Any) -> None:
    if max(t.shape, default=0) >= 1 << 31:
        raise ShapeError(f"{name}: an axis of {max(t.shape)} elements is too long; 2**31 - 1 fit.")


_SIDES = ("left", "right")


class Sorting(Kernels):
    """What puts elements in order."""

    __slots__ = ()

    def _order(self, name: str, axis: int, descending: bool) -> UOp:
        """The permutation of each row along `axis`, as a matrix."""
        _sortable(name, self)
        return merging.order(merging.keys(_rows(self.uop.detach(), axis), descending))

    def sort(
        self, dim: Integer = -1, descending: Flag = False, *, axis: Integer | None = None
    ) -> tuple[Tensor, Tensor]:
        """(the elements in order along an axis, where each of them was). Equal ones keep their
        order. The gradient of an element is that of the place it came to.

        >>> from polygrad import Tensor
        >>> values, places = Tensor([3, 1, 2]).sort()
        >>> values.tolist(), places.tolist()
        ([1, 2, 3], [1, 2, 0])
        """
        at = axis_of("sort", dim if axis is None else axis, self.ndim)
        if not self.ndim:
            return result(self.uop, self), result(UOp.const(dtypes.int32, 0), self)
        places = self._order("sort", at, bool(descending))
        values = picked(_rows(self.uop, at), places)
        return (
            result(_back(values, self.shape, at), self),
            result(_back(places, self.shape, at), self),
        )

    def argsort(
        self, dim: Integer = -1, descending: Flag = False, *, axis: Integer | None = None
    ) -> Tensor:
        """Where the elements in order along an axis are, int32.

        >>> Tensor([3, 1, 2]).argsort().tolist()
        [1, 2, 0]
        """
        return self.sort(dim, descending, axis=axis)[1]

    def topk(
        self,
        k: Integer,
        dim: Integer = -1,
        largest: Flag = True,
        sorted_: Flag = True,
        *,
        axis: Integer | None = None,
    ) -> tuple[Tensor, Tensor]:
        """(the k largest elements along an axis, or smallest, in order; where they are).

        >>> [t.tolist() for t in Tensor([3, 1, 2]).topk(2)]
        [[3, 2], [0, 2]]
        """
        at = axis_of("topk", dim if axis is None else axis, self.ndim)
        n = self.shape[at] if self.ndim else 1
        count = integer("topk", "k", k, 0)
        if count > n:
            raise ArgumentError(f"topk: k is {count}, axis {at} of {self.shape} has {n} elements.")
        values, places = self.sort(at, descending=largest)
        if not self.ndim:
            return values, places
        cut = [(0, count if a == at else m, 1) for a, m in enumerate(self.shape)]
        return result(values.uop.shrink(cut), values), result(places.uop.shrink(cut), places)

    def kthvalue(
        self,
        k: Integer,
        dim: Integer = -1,
        keepdim: Flag = False,
        *,
        axis: Integer | None = None,
    ) -> tuple[Tensor, Tensor]:
        """(the k-th least element along an axis, counted from 1; where it is).

        >>> from polygrad import Tensor
        >>> value, place = Tensor([5.0, 1.0, 3.0]).kthvalue(2)
        >>> value.item(), place.item()
        (3.0, 2)
        """
        at = axis_of("kthvalue", dim if axis is None else axis, self.ndim)
        n = self.shape[at] if self.ndim else 1
        which = integer("kthvalue", "k", k, 1)
        if which > n:
            raise ArgumentError(
                f"kthvalue: k is {which}, axis {at} of {self.shape} has {n} elements."
            )
        pair = self.sort(at)
        if not self.ndim:
            return pair
        cut = [(which - 1, which, 1) if a == at else (0, m, 1) for a, m in enumerate(self.shape)]
        shape = [1 if a == at else m for a, m in enumerate(self.shape) if keepdim or a != at]
        values, places = (result(t.uop.shrink(cut).reshape(shape), t) for t in pair)
        return values, places

    @staticmethod
    def randperm(n: Integer, device: Any = None, dtype: Any = dtypes.int32) -> Tensor:
        """The numbers below n in a random order: those of 64 random bits each.

        >>> sorted(Tensor.randperm(4).tolist())
        [0, 1, 2, 3]
        """
        from .creation import made

        count, wanted = integer("randperm", "n", n, 0), to_dtype(dtype)
        if not wanted.is_int:
            raise DTypeError(f"randperm: the order is of integers, not {wanted.name}.")
        if not count:
            return made(UOp.const(wanted, 0).broadcast_to((0,)), device, None)
        high, low = (w.cast(dtypes.uint64) for w in words(count, 2))
        key = merging.keys((high << 32) | low).reshape((1, count))
        return made(merging.order(key).reshape((count,)).cast(wanted), device, None)

    def searchsorted(self, values: Any, right: Flag = False, side: str | None = None) -> Tensor:
        """For each value where it belongs in self, whose last axis is sorted: before equal ones, or
        with `right`, or side "right", after them. Leading axes of both are the same, or self has
        one axis. int32.

        >>> Tensor([1, 3, 5]).searchsorted(Tensor([0, 3, 9])).tolist()
        [0, 1, 3]
        """
        wanted = tensor_of(values, "searchsorted", self)
        if side is not None:
            if side not in _SIDES:
                raise ArgumentError(f"searchsorted: {no_such('side', side, _SIDES)}")
            right = right or side == "right"
        lead = self.shape[:-1]
        if not self.ndim or (lead and lead != wanted.shape[:-1]):
            raise ShapeError(
                f"searchsorted: values {wanted.shape} do not stand beside sorted {self.shape}."
            )
        dtype = common_dtype((self, wanted))
        rows = math.prod(lead)
        n, m = self.shape[-1], wanted.numel() // max(rows, 1)
        table = merging.keys(self.uop.detach().cast(dtype)).reshape((rows, n))
        at = merging.keys(wanted.uop.detach().cast(dtype)).reshape((rows, m))
        found = merging.search(table, at, bool(right)).reshape(wanted.shape)
        return result(found, self, wanted)

    def unique(
        self, return_inverse: Flag = False, return_counts: Flag = False
    ) -> Tensor | tuple[Tensor, ...]:
        """The different elements in order, with one axis; NaN counts once. Also where each element
        of self is among them, and how often each occurs, if asked. How many there are depends on
        the data, so self is computed first. No gradient passes.

        >>> Tensor([3, 1, 3]).unique().tolist()
        [1, 3]
        """
        flat = self.reshape(-1).detach()
        n = flat.numel()
        places = flat._order("unique", 0, False).reshape((n,))
        values = flat.uop.gather(places, 0)
        key = merging.keys(values)
        new = UOp.const(dtypes.bool, False).broadcast_to((min(n, 1),))
        if n > 1:
            new = key.shrink([(1, n, 1)]).ne(key.shrink([(0, n - 1, 1)])).pad([(1, 0, 0)])
        number = result(
            new.cast(dtypes.int32).scan(Ops.ADD, 0) if n else new.cast(dtypes.int32), flat
        )
        count = int(number[-1].item()) + 1 if n else 0
        none = UOp.const(flat.dtype, 0).broadcast_to((count,))
        out = [result(none.scatter(number.uop, values, 0, "set"), flat)]
        zeros = UOp.const(dtypes.int32, 0)
        if return_inverse:
            inverse = zeros.broadcast_to((n,)).scatter(places, number.uop, 0, "set")
            out.append(result(inverse.reshape(self.shape), flat))
        if return_counts:
            ones = UOp.const(dtypes.int32, 1).broadcast_to((n,))
            counts = zeros.broadcast_to((count,)).scatter(number.uop, ones, 0, "add")
            out.append(result(counts, flat))
        return out[0] if len(out) == 1 else tuple(out)

    def median(
        self,
        axis: Integer | Sequence[Integer] | None = None,
        keepdim: Flag = False,
        *,
        dim: Integer | Sequence[Integer] | None = None,
    ) -> Tensor:
        """The middle element along axes (of all by default), the mean of the middle two of an even
        number, in a float dtype; NaN where there is one. numpy's rule, not torch's.

        >>> Tensor([1.0, 9.0, 2.0]).median().item()
        2.0
        """
        return self._quantiles("median", [0.5], either("median", axis, dim), keepdim)[0]

    def quantile(
        self,
        q: Any,
        axis: Integer | Sequence[Integer] | None = None,
        keepdim: Flag = False,
        *,
        dim: Integer | Sequence[Integer] | None = None,
    ) -> Tensor:
        """The value below which the fraction `q` of the elements along axes lies (of all elements
        by default), on the line between neighbours. Several fractions, with one axis, come first in
        the shape. NaN where there is one.

        >>> Tensor([0.0, 10.0]).quantile(0.25).item()
        2.5
        """
        given = q if isinstance(q, (list, tuple)) else [q]
        fractions = [float(number("quantile", "q", f)) for f in given]
        if any(not 0.0 <= f <= 1.0 for f in fractions):
            raise ArgumentError(f"quantile: fractions lie between 0 and 1, not {q}.")
        made = self._quantiles("quantile", fractions, either("quantile", axis, dim), keepdim)
        if not isinstance(q, (list, tuple)):
            return made[0]
        from .tensor import Tensor

        return Tensor.stack(*made)

    def _quantiles(
        self, name: str, fractions: Sequence[float], axis: Any, keepdim: bool
    ) -> list[Tensor]:
        axes, u = axes_of(name, axis, self.ndim), self._float()
        kept = [n for a, n in enumerate(u.shape) if a not in axes]
        count = math.prod(u.shape[a] for a in axes)
        if not count:
            raise ArgumentError(f"{name}: there is nothing along the axis of {self.shape}.")
        rest = (a for a in range(self.ndim) if a not in axes)
        rows = u.permute((*rest, *axes)).reshape((*kept, count))
        ordered = wide(result(rows, self).sort(-1)[0].uop)
        shape = [1 if a in axes else n for a, n in enumerate(u.shape)] if keepdim else kept
        lines = (_between(ordered, f).reshape(shape) for f in fractions)
        return [result(narrow(line, u.dtype), self) for line in lines]


def _between(ordered: UOp, fraction: float) -> UOp:
    """The element at `fraction` of the way along sorted rows; NaN where the last is. A mean with
    weights: a difference of neighbours may overflow, and that of equal infinities is NaN. Of equal
    numbers it is exactly theirs, and both have their share of its slope."""
    n = ordered.shape[-1]
    place = fraction * (n - 1)
    low = min(int(place), n - 1)
    weight = place - low

    def element(i: int) -> UOp:
        return ordered.shrink([*((0, m, 1) for m in ordered.shape[:-1]), (i, i + 1, 1)])

    value = first = element(low)
    if weight:
        after = element(low + 1)
        equal = first.eq(after) & formulas.isfinite(first)
        mean = first * (1.0 - weight) + after * weight
        value = equal.where(first + (after - first) * weight, mean)
    last = element(n - 1)
    return last.ne(last).where(last, value)
