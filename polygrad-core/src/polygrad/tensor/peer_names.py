"""Names of numpy and torch for what is short to say here: other spellings, and small compositions.

So that code written for either runs with the import changed. What they promise is said with the
method that does the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ShapeError
from .axes import axis_of, either, integer, own_axis
from .base import Base, Flag, Integer, Operand, Real, tensor_of
from .in_place import InPlace
from .naming import also
from .reduce import Axes

if TYPE_CHECKING:
    from .tensor import Tensor


_MOST_PIECES = 1 << 16  # each is a Tensor of its own


class PeerNames(InPlace):
    """Aliases and small compositions."""

    __slots__ = ()

    # ---- the same by another name

    arccos, arccosh = also("arccos", InPlace.acos), also("arccosh", InPlace.acosh)
    arcsin, arcsinh = also("arcsin", InPlace.asin), also("arcsinh", InPlace.asinh)
    arctan, arctanh = also("arctan", InPlace.atan), also("arctanh", InPlace.atanh)
    arctan2 = also("arctan2", InPlace.atan2)
    fix, negative, sgn = (
        also("fix", InPlace.trunc),
        also("negative", InPlace.neg),
        also("sgn", InPlace.sign),
    )
    subtract, multiply = also("subtract", InPlace.sub), also("multiply", InPlace.mul)
    divide, true_divide = also("divide", InPlace.div), also("true_divide", InPlace.div)
    greater, greater_equal = also("greater", InPlace.gt), also("greater_equal", InPlace.ge)
    less, less_equal = also("less", InPlace.lt), also("less_equal", InPlace.le)
    not_equal = also("not_equal", InPlace.ne)
    mv, ger = also("mv", InPlace.matmul), also("ger", InPlace.outer)
    swapdims = also("swapdims", InPlace.transpose)
    nelement, ndimension = also("nelement", InPlace.numel), also("ndimension", InPlace.dim)

    # ---- elementwise

    def frac(self) -> Tensor:
        """self - trunc(self): what stands behind the point, with the sign of self.

        >>> Tensor([1.5, -1.25]).frac().tolist()
        [0.5, -0.25]
        """
        return self - self.trunc()

    def deg2rad(self) -> Tensor:
        """Degrees as radians.

        >>> round(Tensor([180.0]).deg2rad().item(), 4)
        3.1416
        """
        return self * (math.pi / 180)

    def rad2deg(self) -> Tensor:
        """Radians as degrees.

        >>> round(Tensor([3.14159265]).rad2deg().item(), 4)
        180.0
        """
        return self * (180 / math.pi)

    def logit(self, eps: Real | None = None) -> Tensor:
        """log(p / (1 - p)), the inverse of sigmoid; with `eps`, of p clamped to [eps, 1 - eps].

        >>> Tensor([0.5, 1.0]).logit().tolist()
        [0.0, inf]
        """
        p = self if eps is None else self.clamp(eps, 1 - eps)
        return p.log() - (-p).log1p()

    def xlogy(self, other: Operand) -> Tensor:
        """self * log(other), 0 where self is 0 unless `other` is NaN.

        >>> Tensor([0.0, 2.0]).xlogy(Tensor([0.0, 1.0])).tolist()
        [0.0, 0.0]
        """
        y: Tensor = tensor_of(other, "xlogy", self)
        ordinary = ((y > 0) & (y < math.inf)) | y.isnan()
        none = (self == 0) & ordinary.logical_not()
        return none.where(0.0, self * none.where(1.0, y).log())

    def fmax(self, other: Operand) -> Tensor:
        """The larger of two; of a NaN and a number the number. Equal ones share the gradient.

        >>> Tensor([float("nan"), 1.0]).fmax(0.5).tolist()
        [0.5, 1.0]
        """
        y: Tensor = tensor_of(other, "fmax", self)
        number: Tensor = self.isnan().where(y, self.maximum(y))
        return y.isnan().where(self, number)

    def fmin(self, other: Operand) -> Tensor:
        """The smaller of two; of a NaN and a number the number. Equal ones share the gradient.

        >>> Tensor([float("nan"), 1.0]).fmin(0.5).tolist()
        [0.5, 0.5]
        """
        y: Tensor = tensor_of(other, "fmin", self)
        number: Tensor = self.isnan().where(y, self.minimum(y))
        return y.isnan().where(self, number)

    def isposinf(self) -> Tensor:
        """Whether an element is inf.

        >>> Tensor([float("inf"), -float("inf")]).isposinf().tolist()
        [True, False]
        """
        return self.isinf(detect_negative=False)

    def isneginf(self) -> Tensor:
        """Whether an element is -inf.

        >>> Tensor([float("inf"), -float("inf")]).isneginf().tolist()
        [False, True]
        """
        return self.isinf(detect_positive=False)

    def clamp_min(self, min: Operand) -> Tensor:
        """`clamp` from below.

        >>> Tensor([-1.0, 2.0]).clamp_min(0).tolist()
        [0.0, 2.0]
        """
        return self.clamp(min)

    def clamp_max(self, max: Operand) -> Tensor:
        """`clamp` from above.

        >>> Tensor([-1.0, 2.0]).clamp_max(0).tolist()
        [-1.0, 0.0]
        """
        return self.clamp(None, max)

    def addcmul(self, a: Operand, b: Operand, *, value: Real = 1) -> Tensor:
        """self + value * a * b.

        >>> Tensor([1.0]).addcmul(Tensor([2.0]), Tensor([3.0]), value=0.5).tolist()
        [4.0]
        """
        product: Tensor = tensor_of(a, "addcmul", self).mul(b)
        return self + product * value

    def addcdiv(self, a: Operand, b: Operand, *, value: Real = 1) -> Tensor:
        """self + value * a / b.

        >>> Tensor([1.0]).addcdiv(Tensor([6.0]), Tensor([3.0]), value=0.5).tolist()
        [2.0]
        """
        quotient: Tensor = tensor_of(a, "addcdiv", self).div(b)
        return self + quotient * value

    # ---- activations

    def prelu(self, weight: Operand) -> Tensor:
        """self above 0, weight * self below; a weight of more than one element is one for each
        channel (axis 1).

        >>> Tensor([-2.0, 3.0]).prelu(Tensor([0.25])).tolist()
        [-0.5, 3.0]
        """
        w = tensor_of(weight, "prelu", self)
        if w.ndim == 1 and self.ndim > 1:
            w = w.reshape(-1, *(1,) * (self.ndim - 2))
        return (self > 0).where(self, w * self)

    def softshrink(self, lambd: Real = 0.5) -> Tensor:
        """self moved by `lambd` towards 0, and 0 within.

        >>> Tensor([-2.0, 0.25, 1.0]).softshrink().tolist()
        [-1.5, 0.0, 0.5]
        """
        inner = (self < -lambd).where(self + lambd, self * 0.0)
        return (self > lambd).where(self - lambd, inner)

    def hardshrink(self, lambd: Real = 0.5) -> Tensor:
        """self, and 0 from -lambd to lambd.

        >>> Tensor([-2.0, 0.25, 1.0]).hardshrink().tolist()
        [-2.0, 0.0, 1.0]
        """
        return ((self >= -lambd) & (self <= lambd)).where(0.0, self)

    def threshold(self, threshold: Real, value: Real) -> Tensor:
        """self above `threshold`, `value` elsewhere.

        >>> Tensor([-2.0, 3.0]).threshold(0.5, -1.0).tolist()
        [-1.0, 3.0]
        """
        return (self <= threshold).where(value, self)

    # ---- reductions

    def nansum(
        self, axis: Axes = None, keepdim: Flag = False, dtype: Any = None, *, dim: Axes = None
    ) -> Tensor:
        """`sum` with NaN as 0.

        >>> Tensor([1.0, float("nan")]).nansum().item()
        1.0
        """
        return self._numbers().sum(either("nansum", axis, dim), keepdim, dtype)

    def nanmean(self, axis: Axes = None, keepdim: Flag = False, *, dim: Axes = None) -> Tensor:
        """`mean` of what is not NaN; NaN where all is.

        >>> Tensor([1.0, float("nan"), 2.0]).nanmean().item()
        1.5
        """
        axis = either("nanmean", axis, dim)
        count = self.isnan().logical_not().sum(axis, keepdim)
        return self._numbers().sum(axis, keepdim) / count

    def _numbers(self) -> Tensor:
        return self.isnan().where(0, self)

    def aminmax(
        self, axis: Axes = None, keepdim: Flag = False, *, dim: Axes = None
    ) -> tuple[Tensor, Tensor]:
        """(min, max).

        >>> [t.item() for t in Tensor([3, 1, 2]).aminmax()]
        [1, 3]
        """
        axis = either("aminmax", axis, dim)
        return self.min(axis, keepdim), self.max(axis, keepdim)

    def dist(self, other: Operand, p: Real = 2) -> Tensor:
        """The norm of the difference.

        >>> Tensor([3.0, 0.0]).dist(Tensor([0.0, 4.0])).item()
        5.0
        """
        return (self - tensor_of(other, "dist", self)).norm(p)

    def cosine_similarity(
        self, other: Operand, axis: Integer | None = None, eps: Real = 1e-8, *, dim: Any = None
    ) -> Tensor:
        """The products of vectors along an axis (1 by default), each divided by its norm, or by
        `eps` where that is larger.

        >>> Tensor([[3.0, 4.0]]).cosine_similarity(Tensor([[6.0, 8.0]])).tolist()
        [1.0]
        """
        axis, y = (
            either("cosine_similarity", axis, dim),
            tensor_of(other, "cosine_similarity", self),
        )
        axis = 1 if axis is None else axis
        mine, theirs = self.norm(2, axis, True), y.norm(2, axis, True)
        return ((self / mine.clamp(eps)) * (y / theirs.clamp(eps))).sum(axis)

    # ---- products

    def inner(self, other: Operand) -> Tensor:
        """The sum of products over the last axes of both.

        >>> Tensor([1, 2]).inner(Tensor([3, 4])).item()
        11
        """
        y = tensor_of(other, "inner", self)
        return self * y if not (self.ndim and y.ndim) else self.tensordot(y, ([-1], [-1]))

    def vdot(self, other: Operand) -> Tensor:
        """The product of two vectors.

        >>> Tensor([1, 2]).vdot(Tensor([3, 4])).item()
        11
        """
        y = tensor_of(other, "vdot", self)
        if self.ndim != 1 or y.ndim != 1:
            raise ShapeError(f"vdot takes two vectors, not shapes {self.shape} and {y.shape}.")
        return self.matmul(y)

    def baddbmm(self, a: Operand, b: Operand, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta self + alpha (a @ b), of batches.

        >>> Tensor([[[1]]]).baddbmm(Tensor([[[2, 3]]]), Tensor([[[4], [5]]])).tolist()
        [[[24]]]
        """
        return self.addmm(a, b, beta, alpha)

    def matrix_power(self, n: Integer) -> Tensor:
        """self @ self @ ... n times; of its inverse below 0.

        >>> Tensor([[1, 1], [0, 1]]).matrix_power(5).tolist()
        [[1, 5], [0, 1]]
        """
        n = integer("matrix_power", "n", n)
        if self.ndim < 2 or self.shape[-1] != self.shape[-2]:
            raise ShapeError(f"matrix_power takes square matrices, not shape {self.shape}.")
        base: Any = self.inv() if n < 0 else self
        eye = base.eye(self.shape[-1], dtype=base.dtype, device=self.device)
        out = eye.expand(*self.shape) if n == 0 else None
        rest = abs(n)
        while rest:
            if rest & 1:
                out = base if out is None else out @ base
            rest >>= 1
            base = base @ base if rest else base
        return out  # type: ignore[return-value]

    def logdet(self) -> Tensor:
        """log(det), NaN where the determinant is below 0.

        >>> round(Tensor([[2.0, 0.0], [0.0, 3.0]]).logdet().item(), 4)
        1.7918
        """
        sign, size = self.slogdet()
        return (sign < 0).where(float("nan"), size)

    # ---- shapes

    def t(self) -> Tensor:
        """The transpose of a matrix; vectors and numbers as they are.

        >>> Tensor([[1, 2], [3, 4]]).t().tolist()
        [[1, 3], [2, 4]]
        """
        if self.ndim > 2:
            raise ShapeError(f"t takes at most two axes, not shape {self.shape}; use .mT.")
        return self.transpose(0, 1) if self.ndim == 2 else self.view_as(self)

    def fliplr(self) -> Tensor:
        """The second axis reversed.

        >>> Tensor([[1, 2], [3, 4]]).fliplr().tolist()
        [[2, 1], [4, 3]]
        """
        return self.flip(own_axis("fliplr", 1, self.ndim))

    def flipud(self) -> Tensor:
        """The first axis reversed.

        >>> Tensor([[1, 2], [3, 4]]).flipud().tolist()
        [[3, 4], [1, 2]]
        """
        return self.flip(own_axis("flipud", 0, self.ndim))

    def reshape_as(self, other: Base) -> Tensor:
        """`reshape` to the shape of another.

        >>> Tensor([1, 2]).reshape_as(Tensor([[0], [0]])).tolist()
        [[1], [2]]
        """
        return self.reshape(other.shape)

    def diagflat(self, offset: Integer = 0) -> Tensor:
        """A matrix with the elements on a diagonal.

        >>> Tensor([[1, 2]]).diagflat().tolist()
        [[1, 0], [0, 2]]
        """
        return self.ravel().diag(offset)

    def select(self, dim: Integer, index: Integer) -> Tensor:
        """One slice of an axis, which disappears.

        >>> Tensor([[1, 2], [3, 4]]).select(1, -1).tolist()
        [2, 4]
        """
        return self[(slice(None),) * own_axis("select", dim, self.ndim) + (index,)]

    def tensor_split(
        self, sections: Any, axis: Integer | None = None, *, dim: Integer | None = None
    ) -> tuple[Tensor, ...]:
        """An axis (the first by default) in a number of pieces of which the first are one longer,
        or cut before each place that a list names: numpy's `array_split`.

        >>> [t.tolist() for t in Tensor([1, 2, 3]).tensor_split(2)]
        [[1, 2], [3]]
        """
        axis = either("tensor_split", axis, dim)
        a = own_axis("tensor_split", 0 if axis is None else axis, self.ndim)
        n = self.shape[a]
        if isinstance(sections, (tuple, list)):
            places = [integer("tensor_split", "a place", i) for i in sections]
            cuts = [slice(i, None).indices(n)[0] for i in places]
        else:
            count = integer("tensor_split", "sections", sections, 1)
            if count > _MOST_PIECES:
                raise ArgumentError(f"tensor_split: {count} pieces are more than {_MOST_PIECES}.")
            cuts = [i * (n // count) + min(i, n % count) for i in range(1, count)]
        edges = zip([0, *cuts], [*cuts, n], strict=True)
        pieces = [slice(start, max(start, stop)) for start, stop in edges]
        return tuple(self[(slice(None),) * a + (piece,)] for piece in pieces)

    def index_fill(self, dim: Integer, index: Any, value: Operand) -> Tensor:
        """self with `value` in the slices of an axis that a vector numbers.

        >>> Tensor([[1, 2], [3, 4]]).index_fill(1, Tensor([0]), 9).tolist()
        [[9, 2], [9, 4]]
        """
        return self._with_slices("index_fill", dim, index, value)

    def index_copy(self, dim: Integer, index: Any, source: Operand) -> Tensor:
        """self with the slices of `source` in place of those of an axis that a vector numbers.

        >>> Tensor([[1, 2], [3, 4]]).index_copy(0, Tensor([1]), Tensor([[7, 8]])).tolist()
        [[1, 2], [7, 8]]
        """
        return self._with_slices("index_copy", dim, index, source)

    def _with_slices(self, name: str, dim: Integer, index: Any, value: Operand) -> Tensor:
        a = axis_of(name, dim, self.ndim)
        at = tensor_of(index, name, self)
        if at.ndim > 1 or not at.dtype.is_int:
            given = f"{at.dtype.name} {at.shape}"
            raise ArgumentError(f"{name}: index is a vector of integers, not {given}.")
        return self.index_put((slice(None),) * a + (at.reshape(-1),), value)

    # ---- new tensors beside this one

    def new_zeros(self, *shape: Any, dtype: Any = None) -> Tensor:
        """`zeros` of self's dtype and device.

        >>> Tensor([1]).new_zeros(2).tolist()
        [0, 0]
        """
        return self._new("zeros", shape, dtype)

    def new_ones(self, *shape: Any, dtype: Any = None) -> Tensor:
        """`ones` of self's dtype and device.

        >>> Tensor([1]).new_ones((1, 2)).tolist()
        [[1, 1]]
        """
        return self._new("ones", shape, dtype)

    def new_empty(self, *shape: Any, dtype: Any = None) -> Tensor:
        """`empty` of self's dtype and device.

        >>> Tensor([1]).new_empty(2).shape
        (2,)
        """
        return self._new("empty", shape, dtype)

    def new_full(self, shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
        """`full` of self's dtype and device.

        >>> Tensor([1.0]).new_full((2,), 7).tolist()
        [7.0, 7.0]
        """
        make: Any = type(self).full
        made: Tensor = make(
            shape, fill_value, dtype=self.dtype if dtype is None else dtype, device=self.device
        )
        return made

    def new_tensor(self, data: Any, dtype: Any = None) -> Tensor:
        """A tensor of data with self's dtype and device.

        >>> Tensor([1.0]).new_tensor([2, 3]).tolist()
        [2.0, 3.0]
        """
        make: Any = type(self)
        made: Tensor = make(data, dtype=self.dtype if dtype is None else dtype, device=self.device)
        return made

    def _new(self, name: str, shape: Sequence[Any], dtype: Any) -> Tensor:
        make: Any = getattr(type(self), name)
        made: Tensor = make(
            *shape, dtype=self.dtype if dtype is None else dtype, device=self.device
        )
        return made
