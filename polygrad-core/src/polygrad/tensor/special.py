"""Functions of several variables and numpy's smaller conveniences, made of what stands below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import dtypes
from ..errors import ArgumentError, ShapeError, shown
from ..uop.ops import Ops, UOp, size
from . import formulas
from .axes import axis_of, either, integer, own_axis
from .base import Base, Flag, Integer, Operand, broadcast_shape, result, tensor_of
from .elementwise import joined_floats
from .linalg import Linalg
from .movement import swap

if TYPE_CHECKING:
    from .tensor import Tensor


class Special(Linalg):
    """atan2, hypot, kron, tensordot, cross, diff, stacks and rotations."""

    __slots__ = ()

    # ---- elementwise

    def atan2(self, other: Operand) -> Tensor:
        """The angle of the point (other, self), in [-pi, pi]. At (0, 0) its slopes are 0, as
        torch's.

        >>> round(Tensor([1.0]).atan2(Tensor([-1.0])).item(), 4)
        2.3562
        """
        nodes, tensors = joined_floats("atan2", self, other)
        return result(formulas.half_wide(_atan2, *nodes), *tensors)

    def hypot(self, other: Operand) -> Tensor:
        """sqrt(self^2 + other^2) without overflow.

        >>> Tensor([3.0]).hypot(Tensor([4.0])).item()
        5.0
        """
        nodes, tensors = joined_floats("hypot", self, other)
        return result(formulas.half_wide(_hypot, *nodes), *tensors)

    def threefry(self, seed: Base) -> Tensor:
        """32 random bits for each counter, an element number, under a 64-bit key (its low word
        first): word i & 1 of the threefry2x32-20 block with counter i >> 1.

        >>> Tensor([1, 2], dtype="uint64").threefry(Tensor([7, 7], dtype="uint64")).dtype
        dtypes.uint32
        """
        counter, key = self.uop.cast(dtypes.uint64), seed.uop.cast(dtypes.uint64)
        shape = broadcast_shape("threefry", [counter.shape, key.shape])
        key = key.broadcast_to(shape)
        low, high = key.cast(dtypes.uint32), (key >> 32).cast(dtypes.uint32)
        return result(UOp.alu(Ops.THREEFRY, counter.broadcast_to(shape), low, high), self, seed)

    def isin(self, elements: Operand, invert: Flag = False) -> Tensor:
        """Whether an element is among `elements`; with `invert`, whether it is not.

        >>> Tensor([1, 2, 3]).isin(Tensor([3, 1])).tolist()
        [True, False, True]
        """
        known = tensor_of(elements, "isin", self).ravel()
        found = (self.unsqueeze(-1) == known).any(-1)
        return found.logical_not() if invert else found

    # ---- products

    def kron(self, other: Operand) -> Tensor:
        """Every element of self times all of `other`, in blocks.

        >>> Tensor([1, 2]).kron(Tensor([1, 10])).tolist()
        [1, 10, 2, 20]
        """
        right = tensor_of(other, "kron", self)
        n = max(self.ndim, right.ndim)
        a = (1,) * (n - self.ndim) + self.shape
        b = (1,) * (n - right.ndim) + right.shape
        left = self.reshape([k for m in a for k in (m, 1)])
        blocks = left * right.reshape([k for m in b for k in (1, m)])
        return blocks.reshape([m * k for m, k in zip(a, b, strict=True)])

    def tensordot(self, other: Operand, axes: Any = None, *, dims: Any = None) -> Tensor:
        """The sum of products over the last `axes` axes (two by default) of self and the first of
        `other`, or over two lists of axes. torch says `dims`.

        >>> Tensor([[1, 2]]).tensordot(Tensor([[3, 4]])).item()
        11
        """
        right = tensor_of(other, "tensordot", self)
        axes = either("tensordot", axes, dims, "axes and dims")
        axes = 2 if axes is None else axes
        if not isinstance(axes, (tuple, list)):
            axes = integer("tensordot", "axes", axes)
            if not 0 <= axes <= min(self.ndim, right.ndim):
                raise ArgumentError(f"tensordot: {self.shape} and {right.shape} lack {axes} axes.")
            mine, theirs = list(range(self.ndim - axes, self.ndim)), list(range(axes))
        else:
            pair = [list(x) if isinstance(x, (tuple, list)) else [x] for x in axes]
            if len(pair) != 2:
                raise ArgumentError(f"tensordot: axes is a number or two lists, not {shown(axes)}.")
            mine = [own_axis("tensordot", a, self.ndim) for a in pair[0]]
            theirs = [own_axis("tensordot", a, right.ndim) for a in pair[1]]
        if [self.shape[a] for a in mine] != [right.shape[a] for a in theirs]:
            raise ShapeError(
                f"tensordot: axes {mine} of {self.shape} and {theirs} of {right.shape} differ."
            )
        rest = [a for a in range(self.ndim) if a not in mine]
        others = [a for a in range(right.ndim) if a not in theirs]
        shared = size([self.shape[a] for a in mine])
        a = self.permute(*rest, *mine).reshape(size([self.shape[i] for i in rest]), shared)
        b = right.permute(*theirs, *others).reshape(shared, size([right.shape[i] for i in others]))
        shape = (*(self.shape[i] for i in rest), *(right.shape[i] for i in others))
        return a.matmul(b).reshape(shape)

    def addmm(self, a: Operand, b: Operand, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta self + alpha (a @ b). A number 0 for beta or alpha leaves its part out, NaN of it
        too, as torch's beta.

        >>> Tensor([[1]]).addmm(Tensor([[2, 3]]), Tensor([[4], [5]])).tolist()
        [[24]]
        """
        product = tensor_of(a, "addmm", self, b).matmul(b).mul(alpha)
        none = isinstance(beta, (int, float)) and not beta
        if none:
            return result(UOp.const(self.dtype, 0).broadcast_to(self.shape), self) + product
        return self.mul(beta) + product

    def cross(
        self, other: Operand, axis: Integer | None = None, *, dim: Integer | None = None
    ) -> Tensor:
        """The cross product of vectors of three along an axis (the last by default).

        >>> Tensor([1, 0, 0]).cross(Tensor([0, 1, 0])).tolist()
        [0, 0, 1]
        """
        right = tensor_of(other, "cross", self)
        axis = either("cross", axis, dim)
        a = own_axis("cross", -1 if axis is None else axis, self.ndim)
        if self.shape != right.shape or self.shape[a] != 3:
            raise ShapeError(f"cross takes vectors of three, not {self.shape} and {right.shape}.")
        return self.roll(-1, a) * right.roll(1, a) - self.roll(1, a) * right.roll(-1, a)

    def trace(self, offset: Integer = 0) -> Tensor:
        """The sum of a diagonal of the first two axes.

        >>> Tensor([[1, 2], [3, 4]]).trace().item()
        5
        """
        return self.diagonal(offset).sum(-1)

    # ---- pieces and places

    @staticmethod
    def vstack(*tensors: Any) -> Tensor:
        """Tensors with at least two axes one below the other; vectors are rows.

        >>> Tensor.vstack(Tensor([1, 2]), Tensor([3, 4])).tolist()
        [[1, 2], [3, 4]]
        """
        rows = [t.reshape(1, -1) if t.ndim < 2 else t for t in _listed(tensors)]
        return rows[0].cat(*rows[1:], axis=0)

    @staticmethod
    def hstack(*tensors: Any) -> Tensor:
        """Tensors side by side; vectors end to end.

        >>> Tensor.hstack(Tensor([1, 2]), Tensor([3])).tolist()
        [1, 2, 3]
        """
        parts = [t.reshape(-1) if t.ndim < 1 else t for t in _listed(tensors)]
        return parts[0].cat(*parts[1:], axis=0 if parts[0].ndim == 1 else 1)

    def diff(
        self,
        n: Integer = 1,
        axis: Integer | None = None,
        prepend: Operand = None,
        append: Operand = None,
        *,
        dim: Integer | None = None,
    ) -> Tensor:
        """Differences of neighbours along an axis (the last by default), `n` times. What is put
        before or after self first, `prepend` and `append`, is a number or has its shape beside the
        axis.

        >>> Tensor([1, 4, 9]).diff().tolist()
        [3, 5]
        """
        axis = either("diff", axis, dim)
        a = own_axis("diff", -1 if axis is None else axis, self.ndim)
        out = _put_beside(self, a, prepend, append)
        for _ in range(min(integer("diff", "n", n, 0), out.shape[a])):  # nothing is left then
            m = max(out.shape[a] - 1, 0)
            out = out.narrow(a, min(1, out.shape[a]), m) - out.narrow(a, 0, m)
        return out

    def rot90(self, k: Integer = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
        """Turned by k quarters from the first axis towards the second.

        >>> Tensor([[1, 2], [3, 4]]).rot90().tolist()
        [[2, 4], [1, 3]]
        """
        k, plane = integer("rot90", "k", k), [axis_of("rot90", x, self.ndim) for x in axes]
        if len(plane) != 2 or plane[0] == plane[1]:
            raise ArgumentError(f"rot90: axes {tuple(axes)} are not two axes.")
        a, b = plane
        u = self.uop
        if k % 4 in (1, 3):
            u = swap(u, a, b).flip((a,)) if k % 4 == 1 else swap(u, a, b).flip((b,))
        elif k % 4 == 2:
            u = u.flip((a, b))
        return result(u, self)

    def contiguous_backward(self) -> Tensor:
        """The same values; hands on its gradient.

        >>> Tensor([1, 2]).contiguous_backward().tolist()
        [1, 2]
        """
        return result(self.uop, self)

    def rearrange(self, formula: str, **sizes: Integer) -> Tensor:
        """Axes by name, as einops writes it: `"b (h w) c -> b c h w"`, sizes as `h=4`.

        >>> Tensor([[1, 2, 3, 4]]).rearrange("a (b c) -> b (a c)", c=2).tolist()
        [[1, 2], [3, 4]]
        """
        left, arrow, right = (p.strip() for p in formula.partition("->"))
        if not arrow:
            raise ArgumentError(f"rearrange: {formula!r} has no '->'.")
        split, flat = _groups(formula, left), _groups(formula, right)
        names = [n for g in split for n in g]
        if sorted(names) != sorted(n for g in flat for n in g) or len(set(names)) < len(names):
            raise ArgumentError(f"rearrange: {formula!r} must name each axis once on both sides.")
        if len(split) != self.ndim:
            raise ShapeError(f"rearrange: {left!r} names {len(split)} axes of shape {self.shape}.")
        known: dict[str, int] = dict(sizes)
        shape: list[int] = []
        for group, n in zip(split, self.shape, strict=True):
            shape += self._split_size("rearrange", n, tuple(known.get(x, -1) for x in group))
        known = dict(zip(names, shape, strict=True))
        out = self.reshape(shape).permute([names.index(x) for g in flat for x in g])
        return out.reshape([math.prod(known[x] for x in g) for g in flat])


def _groups(formula: str, side: str) -> list[list[str]]:
    """`"b (h w)"` as [["b"], ["h", "w"]]; 1 is an axis of size 1 without a name."""
    out: list[list[str]] = []
    inside: list[str] | None = None
    for token in side.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(" and inside is None:
            inside = []
        elif token == ")" and inside is not None:
            out.append(inside)
            inside = None
        elif token == "1":
            if inside is None:
                out.append([])
        elif token.isidentifier():
            out.append([token]) if inside is None else inside.append(token)
        else:
            raise ArgumentError(f"rearrange: {formula!r} cannot be read at {token!r}.")
    if inside is not None:
        raise ArgumentError(f"rearrange: {formula!r} has an open bracket.")
    return out


def _listed(tensors: Sequence[Any]) -> list[Tensor]:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if not given:
        raise ArgumentError("a stack takes at least one tensor.")
    return [tensor_of(t, "a stack", *given) for t in given]


def _put_beside(x: Any, axis: int, before: Any, after: Any) -> Tensor:
    """x between what is put before and after it along an axis, where anything is."""
    if before is None and after is None:
        return result(x.uop, x)
    edge = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    parts = [None if t is None else tensor_of(t, "diff", x) for t in (before, after)]
    first, last = (t if t is None or t.ndim else t.expand(*edge) for t in parts)
    ends = ([] if first is None else [first], [] if last is None else [last])
    joined_parts = [*ends[0], x, *ends[1]]
    out: Tensor = joined_parts[0].cat(*joined_parts[1:], axis=axis)
    return out


def _atan2(y: UOp, x: UOp) -> UOp:
    """atan of the smaller over the larger, turned into its octant; signs of zeros count."""
    left, lower = formulas.signbit(x), formulas.signbit(y)
    a, b = left.where(-x, x), lower.where(-y, y)
    steep = a < b
    small, large = steep.where(a, b), steep.where(b, a)
    both = small.eq(large) & (large.eq(math.inf) | large.eq(0.0))  # inf / inf and 0 / 0
    share = both.where(small._with(0.0), small) / both.where(large._with(1.0), large)
    ratio = both.where(large.eq(0.0).where(large._with(0.0), 1.0), share)
    angle = formulas.atan(ratio)
    angle = steep.where(math.pi / 2 - angle, angle)
    angle = left.where(math.pi - angle, angle)
    return lower.where(-angle, angle)


def _hypot(x: UOp, y: UOp) -> UOp:
    """The larger times sqrt(1 + ratio^2)."""
    a, b = formulas.absolute(x), formulas.absolute(y)
    large = a.maximum(b)
    safe = large.eq(0.0) | large.eq(math.inf)
    ratio = a.minimum(b) / safe.where(large._with(1.0), large)
    plain = safe.where(large, large * formulas.sqrt(ratio * ratio + 1.0))
    infinite = a.eq(math.inf) | b.eq(math.inf)
    return infinite.where(large._with(math.inf), plain)
