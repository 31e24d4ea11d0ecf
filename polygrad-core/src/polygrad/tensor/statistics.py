"""Counts, draws from them, distances and covariances; running extremes; writing at many places.

All are made of what stands below. A shape that depends on values (`bincount`, `argwhere`) is
computed first, which the method says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import DType, dtypes, to_dtype
from ..errors import ArgumentError, DTypeError, ShapeError, shown
from ..uop.ops import Ops, UOp, size
from . import formulas
from .axes import Scalar, axis_of, either, integer, number
from .base import (
    Base,
    Flag,
    Integer,
    Operand,
    Real,
    broadcast_shape,
    leaf,
    operand,
    result,
    scalar,
    tensor_of,
)
from .checks import check_range
from .elementwise import joined_floats
from .indexing import read
from .random import unit
from .reduce import narrow, vector_norm, wide
from .scans import running
from .subscripts import parse
from .writing import Writing

if TYPE_CHECKING:
    from .tensor import Tensor


class Statistics(Writing):
    """bincount, histogram, multinomial, cov, cdist, cummax, index_put and others."""

    __slots__ = ()

    # ---- counts

    def bincount(self, weights: Base | None = None, minlength: Integer = 0) -> Tensor:
        """How often each of 0, 1, … occurs in a vector of integers, int32; or the sum of their
        `weights`. Reads the largest element first, for the length of the result.

        >>> Tensor([1, 0, 1]).bincount().tolist()
        [1, 2]
        """
        if self.dtype.kind == "bool":
            return self.cast(dtypes.int32).bincount(weights, minlength)
        if self.ndim != 1 or not self.dtype.is_int:
            raise ShapeError(
                f"bincount takes a vector of integers, not {self.dtype.name} {self.shape}."
            )
        least = integer("bincount", "minlength", minlength, 0)
        if weights is not None and weights.shape != self.shape:
            raise ShapeError(f"bincount: weights {weights.shape} do not fit {self.shape}.")
        count = least
        if self.numel():
            ends: Any = self.min().stack(self.max()).tolist()
            if ends[0] < 0:
                raise ArgumentError(f"bincount: {ends[0]} is negative.")
            count = max(least, ends[1] + 1)
        return self._counted(count, weights)

    def _counted(self, count: int, weights: Base | None) -> Tensor:
        """Added up at the places that self names, those outside of `count` left out."""
        ones = UOp.const(dtypes.int32, 1).broadcast_to(self.shape)
        updates = ones if weights is None else weights.uop
        start = UOp.const(updates.dtype, 0).broadcast_to((count,))
        used = (self,) if weights is None else (self, weights)
        if not count or not self.numel():
            return result(start, *used)
        return result(start.scatter(self.uop, updates, 0, "add"), *used)

    def histogram(
        self,
        bins: Any = 10,
        range: Sequence[Real] | None = None,
        weights: Base | None = None,
        density: Flag = False,
    ) -> tuple[Tensor, Tensor]:
        """(counts, edges) as numpy's: `bins` equal parts of `range`, by default from the least to
        the largest element, or a vector of rising edges. Each part holds its lower edge, the last
        one both. Counts are int32, or sums of `weights`; `density` divides so that the area is 1.
        NaN is in no part, and a range that would come from NaN is NaN (numpy raises).

        >>> Tensor([0.0, 1.0, 1.5, 4.0]).histogram(2)[0].tolist()
        [3, 1]
        """
        x = self.ravel().cast(self._float().dtype)
        edges = x._edges(bins, range)
        n = edges.shape[0] - 1
        at = edges.searchsorted(x, right=True).uop - 1
        last = x.eq(edges[-1]).uop
        at = last.where(at._with(n - 1), at)
        inside = (at >= 0) & formulas.isnan(x.uop).eq(False)
        places = result(inside.where(at, at._with(n)), x, edges)
        counts = places._counted(
            n, None if weights is None else tensor_of(weights, "w", self).ravel()
        )
        if not density:
            return counts, edges
        widths = edges[1:] - edges[:-1]
        return counts / (counts.sum() * widths), edges

    def _edges(self, bins: Any, ends: Sequence[Real] | None) -> Tensor:
        name = "histogram"
        if not hasattr(bins, "__index__") or getattr(bins, "shape", ()) != ():
            edges = tensor_of(bins, name, self)
            if edges.ndim != 1 or edges.shape[0] < 2:
                raise ShapeError(f"{name}: edges are a vector of two or more, not {edges.shape}.")
            return edges.cast(self.dtype)
        n = integer(name, "bins", bins, 1)
        low: Any
        high: Any
        if ends is None:
            low, high = (self.min(), self.max()) if self.numel() else (0.0, 1.0)
        else:
            pair = tuple(number(name, "an end of range", e) for e in ends)
            if len(pair) != 2:
                raise ArgumentError(f"{name}: a range is (low, high), not {shown(ends)}.")
            low, high = pair
            if not low <= high:
                raise ArgumentError(f"{name}: the range {tuple(ends)} does not rise.")
        low, high = (tensor_of(e, name, self).cast(self.dtype) for e in (low, high))
        flat = low.eq(high)
        low, high = flat.where(low - 0.5, low), flat.where(high + 0.5, high)
        part = self.linspace(0.0, 1.0, n + 1, dtype=self.dtype)
        steps = part * (high - low) + low
        return part.eq(1.0).where(high, steps)

    def multinomial(self, num_samples: Integer = 1, replacement: Flag = False) -> Tensor:
        """`num_samples` int32 numbers of elements of each row (the last axis), drawn with
        probabilities proportional to the elements; without `replacement` all different.

        >>> Tensor([0.0, 1.0, 0.0]).multinomial().tolist()
        [1]
        """
        name = "multinomial"
        if self.ndim not in (1, 2) or not self.shape[-1]:
            raise ShapeError(f"{name} takes a vector or rows of weights, not shape {self.shape}.")
        count, n = integer(name, "num_samples", num_samples, 1), self.shape[-1]
        if not replacement and count > n:
            raise ArgumentError(f"{name}: {count} of {n} elements cannot be drawn all different.")
        weights = result(wide(self._float()).detach(), self)
        if not replacement:  # the least of exponential waiting times (Efraimidis, Spirakis 2006)
            waits = -formulas.log(1.0 - unit(weights.shape, weights.dtype))
            keys = weights / result(waits)
            return keys.topk(count, -1)[1]
        below: Any = weights.cumsum(-1)
        total = below.narrow(-1, n - 1, 1)
        draws = result(unit((*self.shape[:-1], count), weights.dtype)) * total
        passed = (below.unsqueeze(-2) <= draws.unsqueeze(-1)).sum(-1, dtype=dtypes.int32)
        last = below.eq(total).argmax(-1, keepdim=True)  # the last one of positive weight
        chosen: Tensor = passed.minimum(last)
        return chosen

    def sample_logits(
        self, temperature: Real = 1.0, top_k: Integer = 0, keepdim: Flag = False
    ) -> Tensor:
        """An int32 number along the last axis, drawn with probabilities softmax(self / temperature)
        among the `top_k` largest (0: all; ties with the last of them are in). Temperature 0 takes
        the largest. The logits must be finite. Drawn as the largest of logits with Gumbel noise.

        >>> Tensor([0.0, 50.0, 1.0]).sample_logits().item()
        1
        """
        name = "sample_logits"
        if not self.ndim or not self.shape[-1]:
            raise ShapeError(f"{name}: shape {self.shape} has no last axis to draw from.")
        heat = number(name, "temperature", temperature)
        if not 0 <= heat < math.inf:
            raise ArgumentError(f"{name}: temperature is a finite number of 0 or more, not {heat}.")
        count = integer(name, "top_k", top_k, 0)
        logits = result(wide(self._float()).detach(), self)
        if not heat:
            return logits.argmax(-1, keepdim)
        if 0 < count < self.shape[-1]:
            least = logits.topk(count, -1)[0].narrow(-1, count - 1, 1)
            logits = logits.masked_fill(logits < least, -math.inf)
        noise = -formulas.log(-formulas.log(unit(self.shape, logits.dtype)))
        return (logits * (1.0 / heat) + result(noise)).argmax(-1, keepdim)

    # ---- second moments and distances

    def cov(self, correction: Real = 1) -> Tensor:
        """The covariances of the rows, whose columns are observations: (n, m) -> (n, n), or the
        variance, 0-d, of a single row or a vector.

        >>> Tensor([[1.0, 2.0], [2.0, 0.0]]).cov().tolist()
        [[0.5, -1.0], [-1.0, 2.0]]
        """
        if self.ndim > 2:
            raise ShapeError(f"cov takes a matrix of variables in rows, not shape {self.shape}.")
        rows = self if self.ndim == 2 else self.reshape(1, self.numel())
        x = result(wide(rows._float()), self)
        centred = x - x.mean(-1, keepdim=True)
        divisor = float(max(0, x.shape[-1] - correction))
        out = centred.matmul(centred.transpose(0, 1)) / (divisor or math.nan)
        out = out if self.dtype.is_float is False else out.cast(self.dtype)
        return out.reshape(()) if rows.shape[0] == 1 else out

    def corrcoef(self) -> Tensor:
        """The correlations of the rows, `cov` scaled to a diagonal of ones.

        >>> Tensor([[1.0, 2.0], [2.0, 4.0]]).corrcoef().round().tolist()
        [[1.0, 1.0], [1.0, 1.0]]
        """
        covariance = self.cov()
        if not covariance.ndim:
            return covariance / covariance
        scale = covariance.diagonal().sqrt()
        return (covariance / scale.unsqueeze(1) / scale.unsqueeze(0)).clip(-1.0, 1.0)

    def cdist(self, other: Operand, p: Real = 2) -> Tensor:
        """The p-norm of the difference of each row of self (..., m, k) and each of `other`
        (..., n, k): (..., m, n). The slope at distance 0 is 0.

        >>> Tensor([[0.0, 0.0]]).cdist(Tensor([[3.0, 4.0]])).tolist()
        [[5.0]]
        """
        right = tensor_of(other, "cdist", self)
        if self.ndim < 2 or right.ndim < 2 or self.shape[-1] != right.shape[-1]:
            raise ShapeError(f"cdist: rows of {self.shape} and {right.shape} have no distance.")
        (a, b), tensors = joined_floats("cdist", self.unsqueeze(-2), right.unsqueeze(-3))
        dtype = a.dtype
        gap = wide(a) - wide(b)
        return result(narrow(vector_norm(gap, (len(gap.shape) - 1,), p), dtype), *tensors)

    # ---- running extremes

    def cummax(
        self, axis: Integer | None = None, *, dim: Integer | None = None
    ) -> tuple[Tensor, Tensor]:
        """(values, int32 places) of the largest element so far along an axis (the first by
        default); of equal ones the place is the latest. NaN stays.

        >>> [t.tolist() for t in Tensor([1, 3, 2]).cummax()]
        [[1, 3, 3], [0, 1, 1]]
        """
        return self._so_far("cummax", Ops.MAXIMUM, either("cummax", axis, dim))

    def cummin(
        self, axis: Integer | None = None, *, dim: Integer | None = None
    ) -> tuple[Tensor, Tensor]:
        """(values, int32 places) of the least element so far along an axis (the first by default);
        of equal ones the place is the latest. NaN stays.

        >>> [t.tolist() for t in Tensor([2, 3, 1]).cummin()]
        [[2, 2, 1], [0, 0, 2]]
        """
        return self._so_far("cummin", Ops.MINIMUM, either("cummin", axis, dim))

    def _so_far(self, name: str, op: Ops, axis: Integer | None) -> tuple[Tensor, Tensor]:
        a, u = axis_of(name, 0 if axis is None else axis, self.ndim), self.uop
        if not u.shape or not size(u.shape):
            return result(u, self), result(UOp.const(dtypes.int32, 0).broadcast_to(u.shape))
        best = running(u.detach(), a, op)
        reached = u.eq(best) | formulas.isnan(u) if u.dtype.is_float else u.eq(best)
        numbers = UOp.iota(u.shape[a]).reshape(_along(a, u.shape)).broadcast_to(u.shape)
        places = result(reached.where(numbers, 0).scan(Ops.MAXIMUM, a), self)
        return self.gather(a, places), places

    # ---- places

    def argwhere(self) -> Tensor:
        """numpy's name for `nonzero`: one row of indices for each element that is not 0; computes
        self.

        >>> Tensor([0, 5]).argwhere().tolist()
        [[1]]
        """
        return self.nonzero()

    def index_put(self, indices: Any, values: Operand, accumulate: Flag = False) -> Tensor:
        """self with `values` at `self[indices]`; with `accumulate` they are added, repeated places
        too. Self is not changed.

        >>> Tensor([0, 0, 0]).index_put((Tensor([2, 2]),), 3, accumulate=True).tolist()
        [0, 0, 6]
        """
        view = parse(
            "index_put", self.shape, indices if isinstance(indices, tuple) else (indices,), self
        )
        total = self.numel()
        kind = dtypes.int64 if total >= 1 << 31 else dtypes.int32
        numbers = (UOp.iota(total, kind) + 1).reshape(self.shape)
        places = read(numbers, view) - 1  # outside its axis an index reads 0, here -1
        given = operand(values, "index_put", self)
        if isinstance(given, Base):
            updates = given.uop.cast(self.dtype)
            if broadcast_shape("index_put", [places.shape, updates.shape]) != places.shape:
                raise ShapeError(f"index_put: values {given.shape} do not fit {places.shape}.")
            updates = updates.broadcast_to(places.shape)
        else:
            updates = scalar("index_put", given, self.dtype, places.shape)
        mode = "add" if accumulate else "set"
        flat = self.uop.reshape((total,)).scatter(places, updates, 0, mode)
        used = [self, *(array.tensor for _, array in view.arrays)]
        used += [given] if isinstance(given, Base) else []  # type: ignore[list-item]
        return result(flat.reshape(self.shape), *used)

    def max_unpool2d(
        self,
        indices: Base,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        """The inverse of `max_pool2d` with `return_indices`: each element goes back to the place
        that `indices` names within its plane, zeros elsewhere. (..., h, w) -> (..., H, W).

        >>> v, i = Tensor([[1.0, 2.0], [3.0, 4.0]]).max_pool2d(return_indices=True)
        >>> v.max_unpool2d(i).tolist()
        [[0.0, 0.0], [0.0, 4.0]]
        """
        name = "max_unpool2d"
        if self.ndim < 2 or indices.shape != self.shape:
            raise ShapeError(f"{name}: indices {indices.shape} do not fit {self.shape}.")
        if kernel_size is None:
            raise ArgumentError(f"{name}: kernel_size is an integer, or one for each axis.")
        window, step, gap, pad = (
            tuple(x) if isinstance(x, (tuple, list)) else (x, x)
            for x in (kernel_size, kernel_size if stride is None else stride, dilation, padding)
        )
        lead = self.shape[:-2]
        plane = (
            tuple(output_size)[-2:]
            if output_size is not None
            else tuple(
                (n - 1) * s - 2 * p + d * (k - 1) + 1
                for n, k, s, d, p in zip(self.shape[-2:], window, step, gap, pad, strict=True)
            )
        )
        check_range(name, indices, 0, size(plane), f"a plane of shape {plane}")
        rows, each = size(lead), size(self.shape[-2:])
        empty = self.zeros(rows, size(plane), dtype=self.dtype, device=self._device)
        index = result(indices.uop.reshape((rows, each)), indices)
        return empty.scatter(1, index, self.reshape(rows, each)).reshape(*lead, *plane)

    # ---- numbers

    def nextafter(self, other: Operand) -> Tensor:
        """The next float after self towards `other`, in their common dtype, which has 16 bits or
        more.

        >>> Tensor([1.0]).nextafter(2.0).item() - 1.0
        1.1920928955078125e-07
        """
        (a, b), tensors = joined_floats("nextafter", self, other)
        if a.dtype not in _BITS:
            raise DTypeError(f"nextafter takes floats of 16 bits or more, not {a.dtype.name}.")
        return result(formulas.sloped("nextafter", _next_float(a, b), a, b), *tensors)

    @staticmethod
    def logspace(
        start: Real,
        stop: Real,
        steps: Integer = 100,
        base: Real = 10.0,
        dtype: Any = None,
        device: Any = None,
    ) -> Tensor:
        """`steps` numbers from base^start to base^stop, both included, at equal ratios.

        >>> Tensor.logspace(0, 3, 4, base=2.0).tolist()
        [1.0, 2.0, 4.0, 8.0]
        """
        from .base import _class

        base = number("logspace", "base", base)
        if base <= 0:
            raise ArgumentError(f"logspace: base is a positive number, not {base}.")
        d = dtypes.default_float if dtype is None else to_dtype(dtype)
        exact = d if d.is_float and d.itemsize > 2 else dtypes.float32
        exponents = _class.linspace(start, stop, steps, dtype=exact, device=device)
        node = exponents.uop
        return result(UOp.alu(Ops.POW, node._with(base), node).cast(d), exponents)

    @staticmethod
    def const(value: Scalar, dtype: Any = None) -> Tensor:
        """A number as a 0-d tensor that is part of the graph, not stored.

        >>> Tensor.const(3).shape
        ()
        """
        plain = number("const", "value", value)
        d = to_dtype(type(plain) if dtype is None else dtype)
        return leaf(scalar("const", plain, d, ()), None)

    def const_like(self, value: Scalar) -> Tensor:
        """A number in the shape, dtype and place of self, part of the graph, not stored.

        >>> Tensor([1.5, 2.5]).const_like(3).tolist()
        [3.0, 3.0]
        """
        given = number("const_like", "value", value)
        return leaf(scalar("const_like", given, self.dtype, self.shape), self._device)


def _along(axis: int, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n if a == axis else 1 for a, n in enumerate(shape))


_BITS: dict[DType, DType] = {  # the words of floats whose order is that of their bits
    dtypes.float16: dtypes.uint16,
    dtypes.bfloat16: dtypes.uint16,
    dtypes.float32: dtypes.uint32,
    dtypes.float64: dtypes.uint64,
}


def _next_float(a: UOp, b: UOp) -> UOp:
    """By one in the bits of the size, up or down; from 0 to the least float of b's sign."""
    whole = _BITS[a.dtype]
    bits = a.bitcast(whole)
    grows = (a < b).eq(a > 0.0)
    moved = grows.where(bits + 1, bits - 1)
    sign = 1 << (8 * whole.itemsize - 1)
    least = (b < 0.0).where(bits._with(sign | 1), 1)
    out = a.eq(0.0).where(least, moved).bitcast(a.dtype)
    out = a.eq(b).where(b, out)
    return (formulas.isnan(a) | formulas.isnan(b)).where(a._with(math.nan), out)
