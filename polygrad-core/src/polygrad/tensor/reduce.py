"""Reductions: axes that disappear into a sum, a product, an extreme or a statistic.

`axis` (or `dim`) is an integer, several, or None for all; `keepdim` keeps them with size 1. Sums
and products of bools and signed integers are int64, of unsigned ones uint64, as numpy's; they wrap
(`dtype=` gives another type). Narrow floats accumulate in float32 and are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import DType, dtypes, sum_dtype, to_dtype
from ..errors import ArgumentError, DTypeError, ShapeError, shown
from ..uop.ops import Ops, Shape, UOp, size
from ..uop.sizes import Size
from . import formulas
from .axes import axes_of, axis_of, either
from .base import Flag, Integer, Operand, Real, joined, result
from .elementwise import of_many
from .joining import Joining
from .movement import spread

if TYPE_CHECKING:
    from .tensor import Tensor

Axes = Integer | Sequence[Integer] | None


def kept(shape: Shape, axes: Sequence[int]) -> Shape:
    """The shape after a reduction that keeps its axes."""
    return tuple(1 if a in axes else n for a, n in enumerate(shape))


def wide(u: UOp) -> UOp:
    """Floats wide enough to accumulate in: float32 for ints and narrow floats."""
    return u.cast(dtypes.float32) if not u.dtype.is_float or u.dtype.is_narrow else u


def narrow(u: UOp, dtype: DType) -> UOp:
    """Back from `wide`; what was an integer stays a float."""
    return u.cast(dtype) if dtype.is_float else u


def mean(u: UOp, axes: Sequence[int]) -> UOp:
    """In u's own (wide) dtype; an empty mean is NaN."""
    return quotient(u.reduce(Ops.ADD, axes), size([u.shape[a] for a in axes]))


def variance(u: UOp, axes: Sequence[int], correction: float) -> UOp:
    """Of wide floats: the mean square distance from the mean, divided by n - correction."""
    distance = u - spread(mean(u, axes), u.shape, axes)
    count = size([u.shape[a] for a in axes])
    total = (distance * distance).reduce(Ops.ADD, axes)
    if isinstance(count, Size):
        return total / (total._with(count) - float(correction)).maximum(0.0)
    return total / float(max(0, count - correction))


def quotient(total: UOp, count: int) -> UOp:
    """A sum divided by how many there are, also where that varies."""
    return total / (count if isinstance(count, Size) else float(count))


class Reduce(Joining):
    """Sums, extremes, statistics and tests over axes."""

    __slots__ = ()

    def _reduced(self, u: UOp, axes: tuple[int, ...], keepdim: Flag) -> Tensor:
        return result(u.reshape(kept(self.shape, axes)) if keepdim else u, self)

    # ---- sums and products

    def sum(
        self,
        axis: Axes = None,
        keepdim: Flag = False,
        dtype: Any = None,
        *,
        dim: Axes = None,
    ) -> Tensor:
        """The sum; 0 of nothing. int64 or uint64 for integers and bools, unless `dtype` says so.

        >>> Tensor([[1, 2], [3, 4]]).sum().item(), Tensor([[1, 2], [3, 4]]).sum(axis=0).tolist()
        (10, [4, 6])
        >>> Tensor([2_000_000_000, 2_000_000_000]).sum().item()
        4000000000
        """
        return self._total("sum", Ops.ADD, either("sum", axis, dim), keepdim, dtype)

    def prod(
        self,
        axis: Axes = None,
        keepdim: Flag = False,
        dtype: Any = None,
        *,
        dim: Axes = None,
    ) -> Tensor:
        """The product; 1 of nothing. int64 or uint64 for integers and bools, unless `dtype` says
        so.

        >>> Tensor([2, 3, 4]).prod().item()
        24
        """
        return self._total("prod", Ops.MUL, either("prod", axis, dim), keepdim, dtype)

    def _total(self, name: str, op: Ops, axis: Axes, keepdim: Flag, dtype: Any) -> Tensor:
        axes = axes_of(name, axis, self.ndim)
        wanted = sum_dtype(self.uop.dtype) if dtype is None else to_dtype(dtype)
        total = self.uop.cast(wanted).reduce(of_many(op, wanted), axes)
        return self._reduced(total, axes, keepdim)

    def mean(
        self,
        axis: Axes = None,
        keepdim: Flag = False,
        dtype: Any = None,
        *,
        dim: Axes = None,
    ) -> Tensor:
        """The mean, float32 for integers, unless `dtype` names another float; NaN of nothing.

        >>> Tensor([1, 2]).mean().item()
        1.5
        """
        axes = axes_of("mean", either("mean", axis, dim), self.ndim)
        u = self.uop if dtype is None else self.uop.cast(to_dtype(dtype))
        if dtype is not None and not u.dtype.is_float:
            raise DTypeError(f"mean: dtype is a float, not {u.dtype.name}.")
        return self._reduced(narrow(mean(wide(u), axes), u.dtype), axes, keepdim)

    def var(
        self, axis: Axes = None, keepdim: Flag = False, correction: Real = 1, *, dim: Axes = None
    ) -> Tensor:
        """The mean square distance from the mean, divided by n - correction.

        >>> Tensor([1.0, 3.0]).var().item()
        2.0
        """
        axes = axes_of("var", either("var", axis, dim), self.ndim)
        out = narrow(variance(wide(self.uop), axes, correction), self.uop.dtype)
        return self._reduced(out, axes, keepdim)

    def std(
        self, axis: Axes = None, keepdim: Flag = False, correction: Real = 1, *, dim: Axes = None
    ) -> Tensor:
        """The square root of `var`; its slope is 0 where all elements are equal.

        >>> Tensor([1.0, 1.0, 4.0]).std(correction=0).item() ** 2
        1.9999999315429164
        """
        axes = axes_of("std", either("std", axis, dim), self.ndim)
        out = _root(variance(wide(self.uop), axes, correction), formulas.sqrt)
        return self._reduced(narrow(out, self.uop.dtype), axes, keepdim)

    def std_mean(
        self, axis: Axes = None, keepdim: Flag = False, correction: Real = 1, *, dim: Axes = None
    ) -> tuple[Tensor, Tensor]:
        """(std, mean).

        >>> [round(t.item(), 4) for t in Tensor([1.0, 3.0]).std_mean()]
        [1.4142, 2.0]
        """
        axis = either("std_mean", axis, dim)
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def norm(
        self, p: Real | str = 2, axis: Axes = None, keepdim: Flag = False, *, dim: Axes = None
    ) -> Tensor:
        """(sum |x|^p)^(1/p) over axes; inf and -inf are the extremes of |x|, 0 counts what is not
        0. "fro" is 2, as of torch's default.

        >>> Tensor([3.0, 4.0]).norm().item(), Tensor([3.0, -4.0]).norm(1).item()
        (5.0, 7.0)
        """
        axes = axes_of("norm", either("norm", axis, dim), self.ndim)
        u = wide(self.uop)
        if isinstance(p, str) and p != "fro":
            raise ArgumentError(f'norm: p is a number or "fro", not {shown(p)}.')
        length = vector_norm(u, axes, 2 if isinstance(p, str) else p)
        return self._reduced(narrow(length, self.uop.dtype), axes, keepdim)

    def normalize(
        self,
        p: Real = 2,
        axis: Integer | None = None,
        eps: Real = 1e-12,
        *,
        dim: Integer | None = None,
    ) -> Tensor:
        """self / max(norm, eps) along an axis (1 by default).

        >>> Tensor([[3.0, 4.0]]).normalize().sum().item()
        1.4000000953674316
        """
        axis = either("normalize", axis, dim)
        axes = axes_of("normalize", 1 if axis is None else axis, self.ndim)
        u = wide(self.uop)
        length = vector_norm(u, axes, p)
        length = (length < eps).where(length._with(eps), length)
        return result(narrow(u / spread(length, u.shape, axes), self.uop.dtype), self)

    # ---- extremes

    def max(self, axis: Axes = None, keepdim: Flag = False, *, dim: Axes = None) -> Tensor:
        """The largest element; NaN if there is one. Equal ones share the gradient.

        >>> Tensor([[1, 5], [3, 2]]).max(axis=1).tolist()
        [5, 3]
        """
        return self._extreme("max", Ops.MAXIMUM, either("max", axis, dim), keepdim)

    def min(self, axis: Axes = None, keepdim: Flag = False, *, dim: Axes = None) -> Tensor:
        """The smallest element; NaN if there is one. Equal ones share the gradient.

        >>> Tensor([[1, 5], [3, 2]]).min(axis=1).tolist()
        [1, 2]
        """
        return self._extreme("min", Ops.MINIMUM, either("min", axis, dim), keepdim)

    amax, amin = max, min

    def _extreme(self, name: str, op: Ops, axis: Axes, keepdim: Flag) -> Tensor:
        axes = axes_of(name, axis, self.ndim)
        self._some(name, axes)
        return self._reduced(extreme(self.uop, op, axes), axes, keepdim)

    def _some(self, name: str, axes: Sequence[int]) -> None:
        count = size([self.shape[a] for a in axes])
        if not count:
            raise ShapeError(
                f"{name} of no elements: shape {self.shape} has axes {tuple(axes)} empty."
            )
        if isinstance(count, Size) and not count.min:
            raise ShapeError(
                f"{name} of {count} elements, which may be none: give the variable of shape"
                f" {self.shape} a lower bound that leaves some."
            )

    def argmax(
        self, axis: Integer | None = None, keepdim: Flag = False, *, dim: Integer | None = None
    ) -> Tensor:
        """The int32 position of the first largest element, of the first NaN if there is one; int64
        along 2**31 elements or more (numpy and torch: always int64).

        >>> Tensor([1, 5, 5]).argmax().item()
        1
        """
        return self._position("argmax", Ops.MAXIMUM, either("argmax", axis, dim), keepdim)

    def argmin(
        self, axis: Integer | None = None, keepdim: Flag = False, *, dim: Integer | None = None
    ) -> Tensor:
        """The int32 position of the first smallest element, of the first NaN if there is one; int64
        along 2**31 elements or more (numpy and torch: always int64).

        >>> Tensor([2, 1, 1]).argmin().item()
        1
        """
        return self._position("argmin", Ops.MINIMUM, either("argmin", axis, dim), keepdim)

    def _position(self, name: str, op: Ops, axis: Integer | None, keepdim: Flag) -> Tensor:
        if axis is None:
            self._some(name, range(self.ndim))
            first = position(self.uop.reshape((self.numel(),)), op, 0)
            return result(first.reshape((1,) * self.ndim if keepdim else ()), self)
        at = axis_of(name, axis, self.ndim)
        if not self.ndim:
            return result(UOp.const(dtypes.int32, 0), self)
        self._some(name, (at,))
        return self._reduced(position(self.uop, op, at), (at,), keepdim)

    # ---- tests

    def all(self, axis: Axes = None, keepdim: Flag = False, *, dim: Axes = None) -> Tensor:
        """Whether no element is 0.

        >>> Tensor([1, 0]).all().item()
        False
        """
        return self._test("all", Ops.MINIMUM, either("all", axis, dim), keepdim)

    def any(self, axis: Axes = None, keepdim: Flag = False, *, dim: Axes = None) -> Tensor:
        """Whether some element is not 0.

        >>> Tensor([1, 0]).any().item()
        True
        """
        return self._test("any", Ops.MAXIMUM, either("any", axis, dim), keepdim)

    def _test(self, name: str, op: Ops, axis: Axes, keepdim: Flag) -> Tensor:
        axes = axes_of(name, axis, self.ndim)
        return self._reduced(self.uop.cast(dtypes.bool).reduce(op, axes), axes, keepdim)

    def count_nonzero(self, axis: Axes = None, *, dim: Axes = None) -> Tensor:
        """How many elements are not 0, int32; int64 of a tensor of 2**31 elements or more.

        >>> Tensor([1, 0, 2]).count_nonzero().item()
        2
        """
        axes = axes_of("count_nonzero", either("count_nonzero", axis, dim), self.ndim)
        kind = dtypes.int32 if self.numel() < 1 << 31 else dtypes.int64
        ones = self.uop.cast(dtypes.bool).cast(kind)
        return self._reduced(ones.reduce(Ops.ADD, axes), axes, False)

    def allclose(
        self, other: Operand, rtol: Real = 1e-5, atol: Real = 1e-8, equal_nan: Flag = False
    ) -> Flag:
        """Whether `isclose` holds everywhere; computes and reads the answer.

        >>> Tensor([1.0]).allclose(1.0 + 1e-7)
        True
        """
        return bool(self.isclose(other, rtol, atol, equal_nan).all())

    def equal(self, other: Operand) -> Flag:
        """Whether shapes and all elements are equal; computes and reads the answer.

        >>> Tensor([1, 2]).equal(Tensor([1, 2]))
        True
        """
        (a, b), tensors = joined("equal", self, other)
        same = all(t.shape == self.shape for t in tensors)
        return same and bool(result(a.eq(b), *tensors).all())

    # ---- exponentials

    def logsumexp(self, axis: Axes = None, keepdim: Flag = False, *, dim: Axes = None) -> Tensor:
        """log(sum(exp(self))) without overflow; -inf for nothing but -inf.

        >>> Tensor([float("-inf"), 2.0]).logsumexp().item()
        2.0
        """
        axes = axes_of("logsumexp", either("logsumexp", axis, dim), self.ndim)
        u = wide(self.uop)
        if not size([u.shape[a] for a in axes]):
            return self._reduced(formulas.log(formulas.exp(u).reduce(Ops.ADD, axes)), axes, keepdim)
        top = formulas.finite_or_zero(u.detach().reduce(Ops.MAXIMUM, axes))
        inner = formulas.exp(u - spread(top, u.shape, axes)).reduce(Ops.ADD, axes)
        return self._reduced(narrow(formulas.log(inner) + top, self.uop.dtype), axes, keepdim)

    def softmax(
        self, axis: Integer | None = None, dtype: Any = None, *, dim: Integer | None = None
    ) -> Tensor:
        """exp(self) divided by its sum along an axis (the last by default).

        >>> Tensor([0.0, 0.0]).softmax().tolist()
        [0.5, 0.5]
        """
        u, axes, out = self._along("softmax", axis, dim, dtype)
        return result(narrow(softmax(u, axes), out), self)

    def log_softmax(
        self, axis: Integer | None = None, dtype: Any = None, *, dim: Integer | None = None
    ) -> Tensor:
        """log(softmax(self)) without the loss of taking both.

        >>> Tensor([0.0]).log_softmax().tolist()
        [0.0]
        """
        u, axes, out = self._along("log_softmax", axis, dim, dtype)
        return result(narrow(log_softmax(u, axes), out), self)

    def softmin(
        self, axis: Integer | None = None, dtype: Any = None, *, dim: Integer | None = None
    ) -> Tensor:
        """softmax(-self).

        >>> Tensor([0.0, 0.0]).softmin().tolist()
        [0.5, 0.5]
        """
        u, axes, out = self._along("softmin", axis, dim, dtype)
        return result(narrow(softmax(-u, axes), out), self)

    def _along(
        self, name: str, axis: Integer | None, dim: Integer | None, dtype: Any
    ) -> tuple[UOp, tuple[int, ...], DType]:
        axis = either(name, axis, dim)
        axes = axes_of(name, -1 if axis is None else axis, self.ndim)
        u = self.uop if dtype is None else self.uop.cast(to_dtype(dtype))
        if not u.dtype.is_float:
            u = u.cast(dtypes.default_float)
        return wide(u), axes, u.dtype


# ---- the formulas, as functions of nodes; axes are sorted and not negative


def extreme(u: UOp, op: Ops, axes: Sequence[int]) -> UOp:
    return u.reduce(op, axes)


def position(u: UOp, op: Ops, axis: int) -> UOp:
    """The first element equal to the extreme (or NaN): the least of their numbers."""
    n = u.shape[axis]
    best = spread(u.reduce(op, (axis,)), u.shape, (axis,))
    found = u.eq(best) | formulas.isnan(u) if u.dtype.is_float else u.eq(best)
    shape = (n,) + (1,) * (len(u.shape) - axis - 1)
    numbers = UOp.iota(n).reshape(shape).broadcast_to(u.shape)
    return found.where(numbers, n).reduce(Ops.MINIMUM, (axis,))


def softmax(u: UOp, axes: Sequence[int]) -> UOp:
    if not size([u.shape[a] for a in axes]):
        return u
    e = formulas.decay(u - spread(u.detach().reduce(Ops.MAXIMUM, axes), u.shape, axes))
    share = formulas.recip(e.reduce(Ops.ADD, axes))  # one division a row, not one an element
    return e * spread(share, u.shape, axes)


def log_softmax(u: UOp, axes: Sequence[int]) -> UOp:
    if not size([u.shape[a] for a in axes]):
        return u
    shifted = u - spread(u.detach().reduce(Ops.MAXIMUM, axes), u.shape, axes)
    log_total = formulas.log(formulas.decay(shifted).reduce(Ops.ADD, axes))
    return shifted - spread(log_total, u.shape, axes)


def vector_norm(u: UOp, axes: Sequence[int], p: Any) -> UOp:
    """Of wide floats. An element that is 0 has slope 0, whatever the norm."""
    inf = formulas.INF
    if p == 2:
        return _root((u * u).reduce(Ops.ADD, axes), formulas.sqrt)
    size_of = formulas.absolute(u)
    if p in (inf, -inf):
        return size_of.reduce(Ops.MAXIMUM if p > 0 else Ops.MINIMUM, axes)
    some = u.ne(0.0)
    if p == 0:
        return some.cast(u.dtype).reduce(Ops.ADD, axes)
    if p == 1:
        return size_of.reduce(Ops.ADD, axes)
    powers = some.where(_power(some.where(size_of, 1.0), p), 0.0 if p > 0 else inf)
    return _root(powers.reduce(Ops.ADD, axes), lambda total: _power(total, 1.0 / p))


def _power(u: UOp, exponent: float) -> UOp:
    return UOp.alu(Ops.POW, u, u._with(exponent))


def _root(total: UOp, root: Callable[[UOp], UOp]) -> UOp:
    """`root` of a sum, 0 with slope 0 for 0."""
    zero = total.eq(0.0)
    return zero.where(total, root(zero.where(total._with(1.0), total)))
