"""Repetition, windows, diagonals and pieces: movements made of those below. None costs a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ShapeError
from ..uop.ops import UOp
from .axes import axis_of, either, extent, integer, own_axis, shape_of_args
from .base import result, tensor_of
from .movement import Movement, diagonal, full_bounds, unsqueeze

if TYPE_CHECKING:
    from .tensor import Tensor


class Pieces(Movement):
    """repeat, unfold, diagonal, tril, split and their relatives."""

    __slots__ = ()

    # ---- repetition

    def repeat(self, *repeats: Any) -> Tensor:
        """The whole tensor repeated along each axis; missing leading axes are added (torch's
        repeat).

        >>> Tensor([1, 2]).repeat(2, 2).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        times = shape_of_args("repeat", repeats)
        if len(times) < self.ndim or any(n < 0 for n in times):
            raise ArgumentError(
                f"repeat: {times} does not give a count for each axis of {self.shape}."
            )
        shape = (1,) * (len(times) - self.ndim) + self.shape
        split = tuple(n for s in shape for n in (1, s))
        grown = tuple(n for r, s in zip(times, shape, strict=True) for n in (r, s))
        u = self.uop.reshape(split).expand(grown)
        return result(u.reshape([r * s for r, s in zip(times, shape, strict=True)]), self)

    def tile(self, *repeats: Any) -> Tensor:
        """As `repeat`, with missing counts taken as 1 (numpy's tile).

        >>> Tensor([[1, 2]]).tile(2).tolist()
        [[1, 2, 1, 2]]
        """
        times = shape_of_args("tile", repeats)
        return self.repeat((1,) * (self.ndim - len(times)) + times)

    def repeat_interleave(
        self, repeats: Any, axis: int | None = None, *, dim: int | None = None
    ) -> Tensor:
        """Each element repeated, next to itself. `repeats` may be a vector, one number for each
        element along the axis; it is computed, as the result's size is their sum.

        >>> Tensor([1, 2]).repeat_interleave(2).tolist()
        [1, 1, 2, 2]
        """
        axis = either("repeat_interleave", axis, dim)
        if isinstance(repeats, (tuple, list)) or getattr(repeats, "shape", ()) != ():
            return _each_repeated(self, tensor_of(repeats, "repeat_interleave", self), axis)
        repeats = integer("repeat_interleave", "repeats", repeats, 0)
        if axis is None:
            return self.ravel().repeat_interleave(repeats, 0)
        a, s = own_axis("repeat_interleave", axis, self.ndim), self.shape
        u = unsqueeze(self.uop, a + 1).expand((*s[: a + 1], repeats, *s[a + 1 :]))
        return result(u.reshape((*s[:a], s[a] * repeats, *s[a + 1 :])), self)

    # ---- windows and diagonals

    def unfold(
        self, axis: int | None = None, size: int = 1, step: int = 1, *, dim: int | None = None
    ) -> Tensor:
        """Sliding windows of `size` elements every `step`, in a new last axis.

        >>> Tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
        [[1, 2], [2, 3], [3, 4]]
        """
        a = own_axis("unfold", either("unfold", axis, dim), self.ndim)
        size, step = integer("unfold", "size", size, 1), integer("unfold", "step", step, 1)
        if size > self.shape[a]:
            raise ShapeError(
                f"unfold: size {size}, step {step} do not fit axis {a} of {self.shape}."
            )
        return result(self.uop.window(a, size, step, 1), self)

    def diagonal(
        self,
        offset: int = 0,
        axis0: int = 0,
        axis1: int = 1,
        *,
        dim1: int | None = None,
        dim2: int | None = None,
    ) -> Tensor:
        """The elements (i, i + offset) of two axes, as a new last axis.

        >>> x = Tensor([[1, 2], [3, 4]])
        >>> x.diagonal().tolist(), x.diagonal(1).tolist()
        ([1, 4], [2])
        """
        a = axis_of("diagonal", axis0 if dim1 is None else dim1, self.ndim)
        b = axis_of("diagonal", axis1 if dim2 is None else dim2, self.ndim)
        if self.ndim < 2 or a == b:
            raise ShapeError(f"diagonal: axes {a} and {b} of shape {self.shape} are not two axes.")
        offset = integer("diagonal", "offset", offset)
        rest = [i for i in range(self.ndim) if i not in (a, b)]
        return result(diagonal(self.uop.permute((*rest, a, b)), offset), self)

    def diag(self, diagonal: int = 0) -> Tensor:
        """A matrix with self (one axis) on a diagonal, or the diagonal of a matrix.

        >>> Tensor([1, 2]).diag().tolist(), Tensor([[1, 2], [3, 4]]).diag().tolist()
        ([[1, 0], [0, 2]], [1, 4])
        """
        if self.ndim == 2:
            return self.diagonal(diagonal)
        if self.ndim != 1:
            raise ShapeError(f"diag takes one or two axes, not shape {self.shape}.")
        return self.diag_embed(diagonal)

    def diag_embed(self, offset: int = 0) -> Tensor:
        """Matrices with the last axis on a diagonal.

        >>> Tensor([1, 2]).diag_embed().tolist()
        [[1, 0], [0, 2]]
        """
        if not self.ndim:
            raise ShapeError("diag_embed takes at least one axis.")
        offset, n = integer("diag_embed", "offset", offset), self.shape[-1]
        lead, zeros = self.shape[:-1], [(0, 0, 0)] * (self.ndim - 1)
        u = self.uop.pad(
            [*zeros, (0, n if n else 0, n)]
        )  # row i's element lands n + 1 after row i - 1's
        u = u.shrink([*full_bounds(lead), (0, n * n, 1)]).reshape((*lead, n, n))
        above, below = max(offset, 0), max(-offset, 0)
        return result(u.pad([*zeros, (below, above, 0), (above, below, 0)]), self)

    def tril(self, diagonal: int = 0) -> Tensor:
        """The elements on and below a diagonal of the last two axes, zeros above.

        >>> Tensor([[1, 2], [3, 4]]).tril().tolist()
        [[1, 0], [3, 4]]
        """
        return self._triangle("tril", diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Tensor:
        """The elements on and above a diagonal of the last two axes, zeros below.

        >>> Tensor([[1, 2], [3, 4]]).triu().tolist()
        [[1, 2], [0, 4]]
        """
        return self._triangle("triu", diagonal, lower=False)

    def _triangle(self, name: str, diagonal: int, lower: bool) -> Tensor:
        if self.ndim < 2:
            raise ShapeError(f"{name} takes at least two axes, not shape {self.shape}.")
        rows, columns = self.shape[-2:]
        diagonal = integer(name, "diagonal", diagonal)
        i = UOp.iota(rows).reshape((rows, 1)).expand((rows, columns)) + diagonal
        j = UOp.iota(columns).broadcast_to((rows, columns))
        keep = (j <= i if lower else i <= j).broadcast_to(self.shape)
        return result(keep.where(self.uop, 0), self)

    # ---- pieces

    def split(
        self, sizes: int | Sequence[int], axis: int | None = None, *, dim: int | None = None
    ) -> tuple[Tensor, ...]:
        """Pieces of one size (the last may be smaller) or of the given sizes along an axis.

        >>> [t.tolist() for t in Tensor([1, 2, 3]).split(2)]
        [[1, 2], [3]]
        """
        axis = either("split", axis, dim)
        a = axis_of("split", 0 if axis is None else axis, self.ndim)
        n = self.shape[a] if self.ndim else 0
        if not isinstance(sizes, (tuple, list)):
            each = integer("split", "the size of a piece", sizes, 1)
            sizes = [min(each, n - i) for i in range(0, max(n, 1), each)]
        sizes = shape_of_args("split", (sizes,))
        if sum(sizes) != n or any(k < 0 for k in sizes) or not self.ndim:
            raise ShapeError(
                f"split: sizes {tuple(sizes)} do not add up to axis {a} of {self.shape}."
            )
        out, start = [], 0
        for k in sizes:
            bounds = full_bounds(self.shape)
            bounds[a] = (start, start + k, 1)
            out.append(result(self.uop.shrink(bounds), self))
            start += k
        return tuple(out)

    def chunk(
        self, chunks: int, axis: int | None = None, *, dim: int | None = None
    ) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of equal size; the last may be smaller.

        >>> [t.tolist() for t in Tensor([1, 2, 3]).chunk(2)]
        [[1, 2], [3]]
        """
        axis = either("chunk", axis, dim)
        a = axis_of("chunk", 0 if axis is None else axis, self.ndim)
        chunks = integer("chunk", "chunks", chunks)
        if chunks < 1 or not self.ndim:
            raise ArgumentError(f"chunk: shape {self.shape} does not split into {chunks} pieces.")
        return self.split(max(1, -(-self.shape[a] // chunks)), a)

    def unbind(self, axis: int | None = None, *, dim: int | None = None) -> tuple[Tensor, ...]:
        """The slices along an axis, which disappears.

        >>> [t.tolist() for t in Tensor([[1, 2], [3, 4]]).unbind()]
        [[1, 2], [3, 4]]
        """
        axis = either("unbind", axis, dim)
        a = own_axis("unbind", 0 if axis is None else axis, self.ndim)
        return tuple(piece.squeeze(a) for piece in self.split(1, a)) if self.shape[a] else ()

    def narrow(
        self, axis: int | None = None, start: int = 0, length: int = 0, *, dim: int | None = None
    ) -> Tensor:
        """`length` elements of an axis from `start` on.

        >>> Tensor([1, 2, 3, 4]).narrow(0, 1, 2).tolist()
        [2, 3]
        """
        a = own_axis("narrow", either("narrow", axis, dim), self.ndim)
        n, start = self.shape[a], extent("narrow", "start", start)
        length = extent("narrow", "length", length)
        start = start + n if start < 0 else start
        if not (start >= 0 and length >= 0 and start + length <= n):
            raise ShapeError(
                f"narrow: {length} elements from {start} leave axis {a} of {self.shape}."
            )
        bounds: list[tuple[int, int] | None] = [None] * self.ndim
        bounds[a] = (start, start + length)
        return self.shrink(bounds)


def _each_repeated(x: Any, repeats: Any, axis: int | None) -> Tensor:
    """Each element along an axis as often as its own number says."""
    x, axis = (x.ravel(), 0) if axis is None else (x, axis)
    a = own_axis("repeat_interleave", axis, x.ndim)
    n = x.shape[a]
    if repeats.shape not in ((n,), (1,)) or not repeats.dtype.is_int:
        raise ShapeError(
            f"repeat_interleave: repeats {repeats.dtype.name} {repeats.shape} are no integers for"
            f" the {n} elements of axis {a} of {x.shape}."
        )
    counts = repeats.tolist() * (1 if repeats.shape == (n,) else n)
    if (least := min(counts, default=0)) < 0:
        raise ArgumentError(f"repeat_interleave: repeats has {least}, which is less than 0.")
    out: Tensor = x.take([i for i, count in enumerate(counts) for _ in range(count)], a)
    return out
