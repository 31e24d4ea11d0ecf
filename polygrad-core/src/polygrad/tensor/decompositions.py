"""Linear systems and decompositions of matrices: solve, inv, det, cholesky, lu, qr, eigh, svd.

Matrices are the last two axes, those before are batches. Integers become floats, 16-bit floats are
computed in float32. The work is n³ in one kernel, whatever n is; nothing is read back, so a matrix
that has no inverse or no factor gives inf or NaN where numpy raises. Methods differentiate by the
textbook's formulas (`matrices.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import dtypes
from ..errors import ArgumentError, ShapeError, no_such, shown
from ..gradient_rules import FLAT
from ..uop.ops import UOp
from . import matrices
from .axes import own_axis
from .base import Base, Flag, Integer, Real, broadcast_shape, common_dtype, result, tensor_of
from .formulas import function
from .linalg import matmul
from .naming import also
from .sorting import Sorting

if TYPE_CHECKING:
    from .tensor import Tensor


class Stack:
    """A tensor's matrices as one stack, and the way back."""

    def __init__(self, name: str, t: Base, square: bool = False) -> None:
        u = t._float()
        if len(u.shape) < 2 or (square and u.shape[-1] != u.shape[-2]):
            kind = "square matrices" if square else "matrices"
            raise ShapeError(f"{name} takes {kind} in the last two axes, not shape {u.shape}.")
        self.tensor, self.dtype, self.lead = t, u.dtype, u.shape[:-2]
        if u.dtype.itemsize < 4:
            u = u.cast(dtypes.float32)
        self.uop = u.reshape((matrices.size_of(self.lead), *u.shape[-2:]))

    def back(self, u: UOp) -> Tensor:
        made = u.reshape((*self.lead, *u.shape[1:]))
        return result(made.cast(self.dtype) if u.dtype.is_float else made, self.tensor)


_NORMS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def _empty(u: UOp) -> bool:
    return 0 in u.shape


def _all_same(value: float, shape: Sequence[int], *inputs: UOp) -> UOp:
    """What is made of inputs without elements; gradients ask it for zeros."""
    made = UOp.const(inputs[0].dtype, value).broadcast_to(shape)
    return function(FLAT, [made], *inputs)[0]


class Decompositions(Sorting):
    """Systems, inverses, determinants and factors of matrices."""

    __slots__ = ()

    # ---- systems

    def _solved(
        self, name: str, b: Any, how: Callable[[UOp, UOp], UOp], square: bool = True
    ) -> Tensor:
        """`how` of self's matrices and right sides; a b of one axis is a vector."""
        right = tensor_of(b, name, self)
        kept = common_dtype((self, right))
        kept = kept if kept.is_float else dtypes.default_float
        dtype = dtypes.float32 if kept.itemsize < 4 else kept
        Stack(name, self, square)
        vector = right.ndim == 1
        x, y = self.uop.cast(dtype), right.uop.cast(dtype)
        y = y.reshape((*y.shape, 1)) if vector else y
        if len(y.shape) < 2 or y.shape[-2] != x.shape[-2]:
            raise ShapeError(
                f"{name}: matrices {self.shape} and right sides {right.shape} do not match: "
                f"{x.shape[-2]} rows are expected."
            )
        lead = broadcast_shape(name, [x.shape[:-2], y.shape[:-2]])
        stack = (matrices.size_of(lead),)
        x = x.broadcast_to((*lead, *x.shape[-2:])).reshape((*stack, *x.shape[-2:]))
        y = y.broadcast_to((*lead, *y.shape[-2:])).reshape((*stack, *y.shape[-2:]))
        shape = (x.shape[2], y.shape[2])
        if _empty(x) or _empty(y):
            made = _all_same(0.0, (*stack, *shape), x, y)
        else:
            made = how(x, y)
        out = made.reshape((*lead, *shape)).cast(kept)
        return result(out.reshape(out.shape[:-1]) if vector else out, self, right)

    def solve(self, b: Any) -> Tensor:
        """X with self @ X = b, by LU with partial pivoting; a b of one axis is a vector. Where self
        is singular, inf or NaN.

        >>> from polygrad import Tensor
        >>> Tensor([[2.0, 0.0], [0.0, 4.0]]).solve([2.0, 2.0]).tolist()
        [1.0, 0.5]
        """
        return self._solved("solve", b, matrices.solve)

    def triangular_solve(
        self,
        b: Any,
        upper: Flag = False,
        transpose_a: Flag = False,
        unit_diagonal: Flag = False,
    ) -> Tensor:
        """X with T @ X = b, where T is the lower (or upper) triangle of self, its diagonal taken as
        1 if `unit_diagonal`; T.T @ X = b if `transpose_a`. The other triangle is not read.

        >>> Tensor([[2.0, 0.0], [1.0, 1.0]]).triangular_solve(Tensor([[2.0], [3.0]])).tolist()
        [[1.0], [2.0]]
        """

        def how(t: UOp, y: UOp) -> UOp:
            if transpose_a:
                return matrices.triangular(matrices.turned(t), y, not upper, bool(unit_diagonal))
            return matrices.triangular(t, y, bool(upper), bool(unit_diagonal))

        return self._solved("triangular_solve", b, how)

    solve_triangular = also("solve_triangular", triangular_solve)

    def cholesky_solve(self, factor: Any, upper: Flag = False) -> Tensor:
        """X with A @ X = self, given the Cholesky factor of A.

        >>> Tensor([[8.0]]).cholesky_solve(Tensor([[2.0]])).tolist()
        [[2.0]]
        """

        def how(low: UOp, y: UOp) -> UOp:
            low = matrices.turned(low) if upper else low
            y = matrices.triangular(low, y)
            return matrices.triangular(matrices.turned(low), y, over=True)

        return tensor_of(factor, "cholesky_solve", self)._solved("cholesky_solve", self, how)

    def lstsq(self, b: Any, rcond: Real | None = None) -> Tensor:
        """The X of least size that makes self @ X - b smallest, for matrices of any shape and rank.
        Singular values up to rcond (size times the dtype's precision) of the largest count as 0.

        >>> Tensor([[1.0], [1.0]]).lstsq(Tensor([[1.0], [3.0]])).round().tolist()
        [[2.0]]
        """
        limit = None if rcond is None else float(rcond)

        def how(a: UOp, y: UOp) -> UOp:
            return matmul(matrices.pseudoinverse(a, limit), y)

        return self._solved("lstsq", b, how, square=False)

    def inv(self) -> Tensor:
        """The inverse of square matrices; inf or NaN where there is none.

        >>> Tensor([[2.0, 0.0], [0.0, 4.0]]).inv().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
        """
        s = Stack("inv", self, square=True)
        return s.back(s.uop if _empty(s.uop) else matrices.inverse(s.uop))

    inverse = also("inverse", inv)

    def pinv(self, rcond: Real | None = None) -> Tensor:
        """The pseudoinverse (Moore and Penrose) of matrices of any shape; `rcond` as in `lstsq`.

        >>> Tensor([[2.0]]).pinv().tolist()
        [[0.5]]
        """
        s = Stack("pinv", self)
        if _empty(s.uop):
            return s.back(matrices.turned(s.uop))
        return s.back(matrices.pseudoinverse(s.uop, None if rcond is None else float(rcond)))

    def det(self) -> Tensor:
        """The determinant of square matrices.

        >>> Tensor([[2.0, 0.0], [0.0, 4.0]]).det().item()
        8.0
        """
        s = Stack("det", self, square=True)
        if s.uop.shape[1] == 0:
            return s.back(_all_same(1.0, s.uop.shape[:1], s.uop))
        return s.back(matrices.determinant(s.uop))

    def slogdet(self) -> tuple[Tensor, Tensor]:
        """(sign, logarithm of the size) of the determinant; (0, -inf) where it is 0.

        >>> [round(t.item(), 4) for t in Tensor([[-1.0]]).slogdet()]
        [-1.0, 0.0]
        """
        s = Stack("slogdet", self, square=True)
        if s.uop.shape[1] == 0:
            both = [_all_same(v, s.uop.shape[:1], s.uop) for v in (1.0, 0.0)]
        else:
            both = list(matrices.log_determinant(s.uop))
        return s.back(both[0]), s.back(both[1])

    def matrix_norm(
        self,
        ord: Any = "fro",
        axis: Sequence[Integer] = (-2, -1),
        keepdim: Flag = False,
        *,
        dim: Sequence[Integer] | None = None,
    ) -> Tensor:
        """A norm of the matrices in two axes: "fro", "nuc" (the sum of the singular values), 2 and
        -2 (the largest and least of them), 1 and -1 (of the sums of columns' sizes), inf and -inf
        (of rows').

        >>> from polygrad import Tensor
        >>> Tensor([[3.0, 0.0], [0.0, -4.0]]).matrix_norm("nuc").item()
        7.0
        """
        name, given = "matrix_norm", tuple(axis if dim is None else dim)
        if self.ndim < 2 or len(given) != 2:
            raise ShapeError(f"{name} takes two axes, not {given} of shape {self.shape}.")
        rows, columns = (own_axis(name, a, self.ndim) for a in given)
        if rows == columns:
            raise ArgumentError(f"{name}: axes {given} name one axis twice.")
        if not isinstance(ord, (str, int, float)) or ord not in _NORMS:
            valid = ", ".join(map(repr, _NORMS))
            raise ArgumentError(f"{name}: no norm {shown(ord)}. Valid: {valid}.")
        x = result(self._float(), self)
        if ord == "fro":
            return x.norm(2, (rows, columns), keepdim)
        if ord in (1, -1, math.inf, -math.inf):
            summed, kept = (rows, columns) if ord in (1, -1) else (columns, rows)
            sums = x.abs().sum(summed, keepdim=True)
            out = sums.max(kept, keepdim=True) if ord > 0 else sums.min(kept, keepdim=True)
        else:
            sizes = x.movedim((rows, columns), (-2, -1)).svdvals()
            best = {2: sizes.max, -2: sizes.min, "nuc": sizes.sum}[ord](-1)
            out = best.reshape([1 if a in (rows, columns) else n for a, n in enumerate(x.shape)])
        return out if keepdim else out.squeeze((rows, columns))

    # ---- factors

    def cholesky(self, upper: Flag = False) -> Tensor:
        """L, lower triangular, with L @ L.T = self (or U with U.T @ U). Reads the lower triangle;
        NaN where self is not positive definite.

        >>> Tensor([[4.0]]).cholesky().tolist()
        [[2.0]]
        """
        s = Stack("cholesky", self, square=True)
        made = s.uop if _empty(s.uop) else matrices.cholesky(s.uop)
        return s.back(matrices.turned(made) if upper else made)

    def lu(self) -> tuple[Tensor, Tensor, Tensor]:
        """(P, L, U) with P @ L @ U = self: rows in an order that puts the largest of each column
        first, L lower with a diagonal of ones, U upper.

        >>> p, l, u = Tensor([[0.0, 1.0], [2.0, 0.0]]).lu()
        >>> (p @ l @ u).tolist()
        [[0.0, 1.0], [2.0, 0.0]]
        """
        s = Stack("lu", self)
        low, up, order = matrices.lu(s.uop)
        return s.back(matrices.permutation(order, low)), s.back(low), s.back(up)

    def qr(self, mode: str = "reduced") -> tuple[Tensor, Tensor]:
        """(Q, R) with Q @ R = self, the columns of Q orthonormal, R upper. Of m by n matrices,
        Q has min(m, n) columns, or m with mode "complete".

        >>> q, r = Tensor([[3.0, 1.0], [4.0, 2.0]]).qr()
        >>> (q @ r).round().tolist()
        [[3.0, 1.0], [4.0, 2.0]]
        """
        if mode not in ("reduced", "complete"):
            raise ArgumentError(f"qr: {no_such('mode', mode, ('reduced', 'complete'))}")
        s = Stack("qr", self)
        q, up = matrices.qr(s.uop, mode == "complete")
        return s.back(q), s.back(up)

    def eigh(self) -> tuple[Tensor, Tensor]:
        """(eigenvalues in ascending order, eigenvectors as columns) of symmetric matrices, of which
        the lower triangle is read.

        >>> [t.shape for t in Tensor([[2.0, 0.0], [0.0, 1.0]]).eigh()]
        [(2,), (2, 2)]
        """
        s = Stack("eigh", self, square=True)
        values, vectors = matrices.eigh(s.uop)
        return s.back(values), s.back(vectors)

    def eigvalsh(self) -> Tensor:
        """The eigenvalues of symmetric matrices, in ascending order.

        >>> Tensor([[2.0, 0.0], [0.0, 1.0]]).eigvalsh().round().tolist()
        [1.0, 2.0]
        """
        return self.eigh()[0]

    def svd(self, full_matrices: Flag = True) -> tuple[Tensor, Tensor, Tensor]:
        """(U, S, Vh) with U @ diag(S) @ Vh = self, S in descending order. U and Vh are square, or
        without `full_matrices` as narrow as S.

        >>> u, s, vh = Tensor([[3.0, 0.0], [0.0, 4.0]]).svd()
        >>> s.round().tolist()
        [4.0, 3.0]
        """
        s = Stack("svd", self)
        u, values, vt = matrices.svd(s.uop, bool(full_matrices))
        return s.back(u), s.back(values), s.back(vt)

    def svdvals(self) -> Tensor:
        """The singular values in descending order.

        >>> Tensor([[3.0, 0.0], [0.0, 4.0]]).svdvals().round().tolist()
        [4.0, 3.0]
        """
        return self.svd(full_matrices=False)[1]
