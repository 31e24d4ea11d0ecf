"""Order: sort, argsort, topk, unique, searchsorted, median, quantile.

Rows are put in order by `ordering.py`. NaN counts as the greatest value: it is last in ascending
order and first in descending, and `median` and `quantile` of it are NaN, as in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..dtype import dtypes, to_dtype
from ..errors import ArgumentError, DTypeError, ShapeError, no_such
from ..uop.ops import Ops, Shape, UOp
from . import formulas
from .axes import axes_of, axis_of, either, integer, number
from .base import Flag, Integer, common_dtype, result, tensor_of
from .joining import concatenate
from .kernels import Kernels
from .keys import key_bits, keys
from .network import LONGEST
from .ordering import SMALL, order, ordered, picked
from .random import words
from .reduce import narrow, wide
from .search import search
from .selection import least, places_of

if TYPE_CHECKING:
    from .tensor import Tensor

FEW: Final = 4  # the part of a long row up to which its first elements are not found by a sort
MOST_RANKS: Final = 4  # that are found one by one in long rows


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


def _is_large(shape: Shape, n: int) -> bool:
    """Are rows of n elements, and the whole, too long to be sorted for a few of them?"""
    return n > LONGEST and math.prod(shape) >= SMALL


def _sortable(name: str, t: Any) -> None:
    if max(t.shape, default=0) >= 1 << 31:
        raise ShapeError(f"{name}: an axis of {max(t.shape)} elements is too long; 2**31 - 1 fit.")


_SIDES = ("left", "right")


class Sorting(Kernels):
    """What puts elements in order."""

    __slots__ = ()

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
        _sortable("sort", self)
        rows = _rows(self.uop, at)
        lined = self.shape if at == self.ndim - 1 else rows.shape
        made = ordered(rows, lined, bool(descending))
        values, places = (u if lined is self.shape else _back(u, self.shape, at) for u in made)
        return result(values, self), result(places, self)

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
        if self.ndim and _is_large(self.shape, n) and 0 < count <= n // FEW:
            return self._few(at, count, bool(largest))
        values, places = self.sort(at, descending=largest)
        if not self.ndim:
            return values, places
        cut = [(0, count if a == at else m, 1) for a, m in enumerate(self.shape)]
        return result(values.uop.shrink(cut), values), result(places.uop.shrink(cut), places)

    def _few(self, axis: int, count: int, largest: bool) -> tuple[Tensor, Tensor]:
        """The first of a long axis in order."""
        _sortable("topk", self)
        rows = _rows(self.uop, axis)
        places = least(keys(rows.detach(), largest), key_bits(rows.dtype), count)
        both = (_back(u, self.shape, axis) for u in (picked(rows, places), places))
        values, where = (result(u, self) for u in both)
        return values, where

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
        if not self.ndim:
            return self.sort(at)
        rows = _rows(self.uop, at)
        shape = [1 if a == at else m for a, m in enumerate(self.shape) if keepdim or a != at]
        places = self._ranked("kthvalue", rows, [which - 1])
        both = (picked(rows, places), places)
        value, place = (result(u.reshape(shape), self) for u in both)
        return value, place

    def _ranked(self, name: str, rows: UOp, ranks: Sequence[int]) -> UOp:
        """Where the elements of ascending ranks are in each row of a matrix, a column each."""
        _sortable(name, self)
        key, bits = keys(rows.detach()), key_bits(rows.dtype)
        if _is_large(rows.shape, rows.shape[1]):
            return places_of(key, bits, ranks)
        places = order(key, bits)
        return concatenate([_column(places, r) for r in ranks], 1)

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
        key = ((high << 32) | low).reshape((1, count))
        return made(order(key, 64).reshape((count,)).cast(wanted), device, None)

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
        table = keys(self.uop.detach().cast(dtype)).reshape((rows, n))
        at = keys(wanted.uop.detach().cast(dtype)).reshape((rows, m))
        found = search(table, at, bool(right)).reshape(wanted.shape)
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
        values, places = flat.sort(0)
        key = keys(values.uop)
        new = UOp.const(dtypes.bool, False).broadcast_to((min(n, 1),))
        if n > 1:
            new = key.shrink([(1, n, 1)]).ne(key.shrink([(0, n - 1, 1)])).pad([(1, 0, 0)])
        number = result(
            new.cast(dtypes.int32).scan(Ops.ADD, 0) if n else new.cast(dtypes.int32), flat
        )
        number.realize(values, *([places] if return_inverse else []))
        count = int(number[-1].item()) + 1 if n else 0
        none = UOp.const(flat.dtype, 0).broadcast_to((count,))
        out = [result(none.scatter(number.uop, values.uop, 0, "set"), flat)]
        if return_inverse:
            whole = UOp.const(dtypes.int32, 0).broadcast_to((n,))
            inverse = whole.scatter(places.uop, number.uop, 0, "set")
            out.append(result(inverse.reshape(self.shape), flat))
        if return_counts:
            out.append(result(_run_lengths(number.uop, count), flat))
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
        interpolation: str | None = None,
        method: str | None = None,
    ) -> Tensor:
        """The value below which the fraction `q` of the elements along axes lies (of all elements
        by default). Between two neighbours it lies on their line ("linear"), or `interpolation`
        (numpy: `method`) takes the "lower", "higher" or "nearest" one or their "midpoint". Several
        fractions, with one axis, come first in the shape. NaN where there is one.

        >>> Tensor([0.0, 10.0]).quantile(0.25).item()
        2.5
        >>> Tensor([0.0, 10.0]).quantile(0.25, interpolation="higher").item()
        10.0
        """
        rule = either("quantile", interpolation, method, "interpolation and method") or "linear"
        if rule not in _BETWEEN:
            raise ArgumentError(f"quantile: {no_such('interpolation', rule, _BETWEEN)}")
        given = q if isinstance(q, (list, tuple)) else [q]
        fractions = [float(number("quantile", "q", f)) for f in given]
        if any(not 0.0 <= f <= 1.0 for f in fractions):
            raise ArgumentError(f"quantile: fractions lie between 0 and 1, not {q}.")
        made = self._quantiles("quantile", fractions, either("quantile", axis, dim), keepdim, rule)
        if not isinstance(q, (list, tuple)):
            return made[0]
        from .tensor import Tensor

        return Tensor.stack(*made)

    def _quantiles(
        self,
        name: str,
        fractions: Sequence[float],
        axis: Any,
        keepdim: bool,
        rule: str = "linear",
    ) -> list[Tensor]:
        axes, u = axes_of(name, axis, self.ndim), self._float()
        kept = [n for a, n in enumerate(u.shape) if a not in axes]
        count = math.prod(u.shape[a] for a in axes)
        if not count:
            raise ArgumentError(f"{name}: there is nothing along the axis of {self.shape}.")
        rest = (a for a in range(self.ndim) if a not in axes)
        rows = u.permute((*rest, *axes)).reshape((math.prod(kept), count))
        places = [_BETWEEN[rule](f * (count - 1)) for f in fractions]
        elements = self._elements(name, rows, _ranks(places, count))
        shape = [1 if a in axes else n for a, n in enumerate(u.shape)] if keepdim else kept
        lines = (_at(elements, count, place).reshape(shape) for place in places)
        return [result(narrow(line, u.dtype), self) for line in lines]

    def _elements(self, name: str, rows: UOp, ranks: Sequence[int]) -> dict[int, UOp]:
        """The elements of ascending ranks in each row of a matrix, as columns."""
        if _is_large(rows.shape, rows.shape[1]) and len(ranks) <= MOST_RANKS:
            found = picked(rows, self._ranked(name, rows, ranks))
            return {rank: _column(wide(found), i) for i, rank in enumerate(ranks)}
        lined = wide(result(rows, self).sort(1)[0].uop)
        return {rank: _column(lined, rank) for rank in ranks}


def _column(matrix: UOp, i: int) -> UOp:
    return matrix.shrink([(0, matrix.shape[0], 1), (i, i + 1, 1)])


def _run_lengths(number: UOp, count: int) -> UOp:
    """How often each of the numbers 0, 1, … below `count` occurs in an ascending sequence."""
    n = number.shape[0]
    none = UOp.const(dtypes.int32, 0).broadcast_to((count,))
    ends = none.scatter(number, UOp.iota(n, dtypes.int32) + 1, 0, "set")  # after the last of each
    return ends - ends.shrink([(0, max(count - 1, 0), 1)]).pad([(min(count, 1), 0, 0)])


# where between the neighbours of a place, counted in elements, a quantile is taken
_BETWEEN: dict[str, Callable[[float], float]] = {
    "linear": lambda place: place,
    "lower": math.floor,
    "higher": math.ceil,
    "nearest": round,  # of two at the same distance the even one, as numpy and torch
    "midpoint": lambda place: (math.floor(place) + math.ceil(place)) / 2,
}


def _split(place: float, count: int) -> tuple[int, float]:
    """(the rank at or before a place, how far it is to the next)."""
    low = min(int(place), count - 1)
    return low, place - low


def _ranks(places: Sequence[float], count: int) -> list[int]:
    """What the quantiles at places among so many elements look at."""
    split = [_split(place, count) for place in places]
    ranks = {r for low, weight in split for r in (low, low + bool(weight))}
    return sorted(ranks | {count - 1})


def _at(elements: dict[int, UOp], count: int, place: float) -> UOp:
    """What stands at a place in sorted rows; NaN where the last is. Between two elements a mean
    with weights: a difference of neighbours may overflow, and that of equal infinities is NaN. Of
    equal numbers it is exactly theirs, and both have their share of its slope."""
    low, weight = _split(place, count)
    value = first = elements[low]
    if weight:
        after = elements[low + 1]
        equal = first.eq(after) & formulas.isfinite(first)
        mean = first * (1.0 - weight) + after * weight
        value = equal.where(first + (after - first) * weight, mean)
    last = elements[count - 1]
    return last.ne(last).where(last, value)
