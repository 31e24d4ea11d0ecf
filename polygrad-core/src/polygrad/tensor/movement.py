"""Movement: operations that only say where an element is read. None of them costs a copy.

Axes may be given as `axis=` (numpy) or `dim=` (torch) where people expect either; shapes and orders
as separate integers or as one tuple or list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import dtypes
from ..errors import ArgumentError, ShapeError, shown
from ..uop.ops import Shape, UOp, size
from ..uop.sizes import larger
from .base import (
    Base,
    axes_of,
    axis_of,
    either,
    extent,
    integer,
    own_axis,
    result,
    scalar,
    shape_of_args,
)
from .distribution import Distribution

if TYPE_CHECKING:
    from .tensor import Tensor

Axes = int | Sequence[int] | None


def swap(u: UOp, a: int, b: int) -> UOp:
    """Two axes exchanged; negative numbers count from the end."""
    order = list(range(len(u.shape)))
    order[a], order[b] = order[b], order[a]
    return u.permute(order)


def unsqueeze(u: UOp, axis: int) -> UOp:
    """An axis of size 1 put in front of `axis`."""
    return u.reshape((*u.shape[:axis], 1, *u.shape[axis:]))


def spread(u: UOp, shape: Shape, axes: Sequence[int]) -> UOp:
    """The inverse of a reduction's shape: `axes`, missing in u, come back with the sizes of
    `shape`."""
    ones = tuple(1 if a in axes else n for a, n in enumerate(shape))
    return u.reshape(ones).expand(shape)


def full_bounds(shape: Shape) -> list[tuple[int, int, int]]:
    return [(0, n, 1) for n in shape]


def pad_with(u: UOp, pads: Sequence[tuple[int, int, int]], value: Any) -> UOp:
    """PAD with another value than 0."""
    out = u.pad(pads)
    if out is u or (value == 0 and str(value) != "-0.0"):
        return out
    inside = UOp.const(dtypes.bool, True).broadcast_to(u.shape).pad(pads)
    return inside.where(out, scalar("pad", value, u.dtype, out.shape))


def mask_of(shape: Shape, bounds: Sequence[tuple[int, int, int]]) -> UOp:
    """A bool of `shape`, true inside the box (or every step-th element of it)."""
    size_of = [larger(0, -(-(stop - start) // step)) for start, stop, step in bounds]
    pads = [
        (
            start,
            n - start - (count if step == 1 else max(0, (count - 1) * step + (count > 0))),
            step - 1,
        )
        for (start, _, step), n, count in zip(bounds, shape, size_of, strict=True)
    ]
    return UOp.const(dtypes.bool, True).broadcast_to(size_of).pad(pads)


class Movement(Distribution):
    """Reshape, permute, expand, shrink, pad, flip and what is made of them."""

    __slots__ = ()

    # ---- shape

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in row-major order under another shape; one size may be -1."""
        new = shape_of_args("reshape", shape)
        return result(self.uop.reshape(self._known("reshape", new)), self)

    view = reshape

    def _known(self, name: str, new: tuple[int, ...]) -> tuple[int, ...]:
        old, total = self.shape, self.numel()
        unknown = [a for a, n in enumerate(new) if n == -1]
        rest = size([n for n in new if n != -1])
        if len(unknown) == 1 and rest and total % rest == 0 and all(n >= -1 for n in new):
            return tuple(total // rest if n == -1 else n for n in new)
        if len(unknown) == 1 and rest == 0 and all(n >= -1 for n in new):
            raise ShapeError(f"{name}: {old} to {new}: -1 could be any size.")
        if unknown or any(n < 0 for n in new) or rest != total:
            raise ShapeError(
                f"{name}: {old} has {total} elements, which do not make {new}"
                + (f" ({rest} elements)." if not unknown else ".")
            )
        return new

    def flatten(
        self,
        start_axis: int = 0,
        end_axis: int = -1,
        *,
        start_dim: int | None = None,
        end_dim: int | None = None,
    ) -> Tensor:
        """The axes from start to end, both included, made one."""
        start = axis_of("flatten", start_axis if start_dim is None else start_dim, self.ndim)
        end = axis_of("flatten", end_axis if end_dim is None else end_dim, self.ndim)
        if start > end:
            raise ArgumentError(f"flatten: start {start} lies behind end {end}.")
        s = self.shape
        return result(self.uop.reshape((*s[:start], size(s[start : end + 1]), *s[end + 1 :])), self)

    def ravel(self) -> Tensor:
        """All axes made one."""
        return result(self.uop.reshape((self.numel(),)), self)

    def unflatten(
        self, axis: int | None = None, sizes: Sequence[int] = (), *, dim: int | None = None
    ) -> Tensor:
        """One axis split into several; one size may be -1."""
        at = own_axis("unflatten", either("unflatten", axis, dim), self.ndim)
        s = self.shape
        return self.reshape(
            (*s[:at], *self._split_size("unflatten", s[at], tuple(sizes)), *s[at + 1 :])
        )

    def _split_size(self, name: str, n: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
        rest = size([k for k in sizes if k != -1])
        if sizes.count(-1) == 1 and rest > 0 and n % rest == 0:
            return tuple(n // rest if k == -1 else k for k in sizes)
        if -1 in sizes or rest != n:
            raise ShapeError(f"{name}: an axis of size {n} does not split into {sizes}.")
        return sizes

    def squeeze(self, axis: Axes = None, *, dim: Axes = None) -> Tensor:
        """Axes of size 1 dropped: all of them, or those given that have size 1."""
        chosen = axes_of("squeeze", either("squeeze", axis, dim), self.ndim)
        shape = [n for a, n in enumerate(self.shape) if n != 1 or a not in chosen]
        return result(self.uop.reshape(shape), self)

    def unsqueeze(self, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """An axis of size 1 at `axis` of the result."""
        at = axis_of("unsqueeze", either("unsqueeze", axis, dim), self.ndim + 1)
        return result(unsqueeze(self.uop, at), self)

    # ---- order of axes

    def permute(self, *order: Any) -> Tensor:
        """Axes in another order."""
        given = shape_of_args("permute", order)
        axes = tuple(axis_of("permute", a, self.ndim) for a in given)
        if sorted(axes) != list(range(self.ndim)):
            raise ArgumentError(
                f"permute: {given} does not name each axis of shape {self.shape} once."
            )
        return result(self.uop.permute(axes), self)

    def transpose(
        self, axis0: int = -2, axis1: int = -1, *, dim0: int | None = None, dim1: int | None = None
    ) -> Tensor:
        """Two axes exchanged; the last two by default."""
        a = axis_of("transpose", axis0 if dim0 is None else dim0, self.ndim)
        b = axis_of("transpose", axis1 if dim1 is None else dim1, self.ndim)
        return result(swap(self.uop, a, b) if self.ndim else self.uop, self)

    swapaxes = transpose

    @property
    def T(self) -> Tensor:  # everybody's name for it
        """All axes in reverse order."""
        return result(self.uop.permute(tuple(reversed(range(self.ndim)))), self)

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return self.transpose(-2, -1)

    def movedim(self, source: Axes, destination: Axes) -> Tensor:
        """Axes moved to other places; the rest keep their order."""
        pair = [x if isinstance(x, (tuple, list)) else (x,) for x in (source, destination)]
        froms, tos = ([axis_of("movedim", a, self.ndim) for a in part] for part in pair)
        if len(set(froms)) != len(set(tos)) or len(froms) != len(tos):
            raise ArgumentError(f"movedim: {source} and {destination} do not pair up.")
        rest = iter(a for a in range(self.ndim) if a not in froms)
        back = dict(zip(tos, froms, strict=True))
        order = [back[a] if a in back else next(rest) for a in range(self.ndim)]
        return result(self.uop.permute(order), self)

    moveaxis = movedim

    # ---- size of axes

    def expand(self, *shape: Any) -> Tensor:
        """Axes of size 1 repeated without a copy; -1 keeps a size, missing leading axes are
        added."""
        new = shape_of_args("expand", shape)
        old = (1,) * (len(new) - self.ndim) + self.shape
        filled = tuple(o if n == -1 else n for n, o in zip(new, old, strict=False))
        fits = len(old) == len(new) and all(
            n == o or o == 1 for n, o in zip(filled, old, strict=True)
        )
        if not fits or any(n < 0 for n in filled):
            raise ShapeError(
                f"expand: {self.shape} does not expand to {new}: only axes of size 1 grow."
            )
        return result(self.uop.broadcast_to(filled), self)

    broadcast_to = expand

    def expand_as(self, other: Base) -> Tensor:
        """Expanded to the shape of `other`."""
        return self.expand(other.shape)

    def view_as(self, other: Base) -> Tensor:
        """Reshaped to the shape of `other`."""
        return self.reshape(other.shape)

    def shrink(self, bounds: Sequence[tuple[int, int] | None]) -> Tensor:
        """A box cut out: (start, stop) for each axis, None for all of it."""
        if len(bounds) != self.ndim:
            raise ShapeError(
                f"shrink: shape {self.shape} needs {self.ndim} pairs, got {len(bounds)}."
            )
        box = [(0, n) if b is None else _bound(b) for b, n in zip(bounds, self.shape, strict=True)]
        if any(not 0 <= lo <= hi <= n for (lo, hi), n in zip(box, self.shape, strict=True)):
            raise ShapeError(f"shrink: {tuple(box)} lies outside shape {self.shape}.")
        return result(self.uop.shrink([(lo, hi, 1) for lo, hi in box]), self)

    def shrink_to(self, *shape: Any) -> Tensor:
        """The first elements of each axis; None keeps an axis."""
        new = self._sizes("shrink_to", shape)
        if any(not 0 <= n <= o for n, o in zip(new, self.shape, strict=True)):
            raise ShapeError(f"shrink_to: {self.shape} does not shrink to {new}.")
        return result(self.uop.shrink([(0, n, 1) for n in new]), self)

    def pad_to(self, *shape: Any) -> Tensor:
        """Zeros appended until the axes have these sizes; None keeps an axis."""
        new = self._sizes("pad_to", shape)
        if any(n < o for n, o in zip(new, self.shape, strict=True)):
            raise ShapeError(f"pad_to: {self.shape} does not pad to {new}.")
        pads = [(0, n - o, 0) for n, o in zip(new, self.shape, strict=True)]
        return result(self.uop.pad(pads), self)

    def _sizes(self, name: str, shape: tuple[Any, ...]) -> tuple[int, ...]:
        """A size for each axis; None is the one it has."""
        new = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if len(new) != self.ndim:
            given = shown(tuple(new))
            raise ShapeError(f"{name}: {given} does not name each axis of shape {self.shape}.")
        own = zip(new, self.shape, strict=True)
        return shape_of_args(name, ([o if n is None else n for n, o in own],))

    def flip(self, *axes: Any) -> Tensor:
        """The order of elements reversed along axes; all without an argument."""
        chosen = axes[0] if len(axes) == 1 else axes or None
        return result(self.uop.flip(axes_of("flip", chosen, self.ndim)), self)

    # ---- repetition

    def repeat(self, *repeats: Any) -> Tensor:
        """The whole tensor repeated along each axis; missing leading axes are added (torch's
        repeat)."""
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
        """As `repeat`, with missing counts taken as 1 (numpy's tile)."""
        times = shape_of_args("tile", repeats)
        return self.repeat((1,) * (self.ndim - len(times)) + times)

    def repeat_interleave(
        self, repeats: int, axis: int | None = None, *, dim: int | None = None
    ) -> Tensor:
        """Each element repeated, next to itself."""
        axis = either("repeat_interleave", axis, dim)
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
        """Sliding windows of `size` elements every `step`, in a new last axis."""
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
        """The elements (i, i + offset) of two axes, as a new last axis."""
        a = axis_of("diagonal", axis0 if dim1 is None else dim1, self.ndim)
        b = axis_of("diagonal", axis1 if dim2 is None else dim2, self.ndim)
        if self.ndim < 2 or a == b:
            raise ShapeError(f"diagonal: axes {a} and {b} of shape {self.shape} are not two axes.")
        offset = integer("diagonal", "offset", offset)
        rest = [i for i in range(self.ndim) if i not in (a, b)]
        return result(diagonal(self.uop.permute((*rest, a, b)), offset), self)

    def diag(self, diagonal: int = 0) -> Tensor:
        """A matrix with self (one axis) on a diagonal, or the diagonal of a matrix."""
        if self.ndim == 2:
            return self.diagonal(diagonal)
        if self.ndim != 1:
            raise ShapeError(f"diag takes one or two axes, not shape {self.shape}.")
        return self.diag_embed(diagonal)

    def diag_embed(self, offset: int = 0) -> Tensor:
        """Matrices with the last axis on a diagonal."""
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
        """The elements on and below a diagonal of the last two axes, zeros above."""
        return self._triangle("tril", diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Tensor:
        """The elements on and above a diagonal of the last two axes, zeros below."""
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
        """Pieces of one size (the last may be smaller) or of the given sizes along an axis."""
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
        """At most `chunks` pieces of equal size; the last may be smaller."""
        axis = either("chunk", axis, dim)
        a = axis_of("chunk", 0 if axis is None else axis, self.ndim)
        chunks = integer("chunk", "chunks", chunks)
        if chunks < 1 or not self.ndim:
            raise ArgumentError(f"chunk: shape {self.shape} does not split into {chunks} pieces.")
        return self.split(max(1, -(-self.shape[a] // chunks)), a)

    def unbind(self, axis: int | None = None, *, dim: int | None = None) -> tuple[Tensor, ...]:
        """The slices along an axis, which disappears."""
        axis = either("unbind", axis, dim)
        a = own_axis("unbind", 0 if axis is None else axis, self.ndim)
        return tuple(piece.squeeze(a) for piece in self.split(1, a)) if self.shape[a] else ()

    def narrow(
        self, axis: int | None = None, start: int = 0, length: int = 0, *, dim: int | None = None
    ) -> Tensor:
        """`length` elements of an axis from `start` on."""
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


# ---- helpers of the class


def _bound(pair: Any) -> tuple[int, int]:
    """(start, stop) as given to `shrink`."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ArgumentError(f"shrink: a bound is a pair (start, stop) or None, not {shown(pair)}.")
    start, stop = shape_of_args("shrink", (pair,))
    return start, stop


def piece(u: UOp, axis: int, start: int, stop: int) -> UOp:
    """Elements start to stop - 1 of one axis."""
    bounds = full_bounds(u.shape)
    bounds[axis] = (start, stop, 1)
    return u.shrink(bounds)


def diagonal(u: UOp, offset: int = 0) -> UOp:
    """Of the last two axes: every (n + 1)-th element of the rows laid end to end."""
    *lead, rows, columns = u.shape
    row, column = max(-offset, 0), max(offset, 0)
    n = max(0, min(rows - row, columns - column))
    u = u.shrink(
        [*full_bounds(tuple(lead)), *((row, row + n, 1), (column, column + n, 1))]
        if n
        else [*full_bounds(tuple(lead)), (0, 0, 1), (0, 0, 1)]
    )
    return u.reshape((*lead, n * n)).shrink([*full_bounds(tuple(lead)), (0, n * n, n + 1)])
