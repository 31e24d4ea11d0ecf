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
from .axes import axes_of, axis_of, either, own_axis, shape_of_args
from .base import Base, result, scalar
from .distribution import Distribution
from .naming import also

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


class Movement(Distribution):
    """Reshape, permute, expand, shrink, pad and flip."""

    __slots__ = ()

    # ---- shape

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in row-major order under another shape; one size may be -1.

        >>> Tensor([[1, 2, 3], [4, 5, 6]]).reshape(3, -1).tolist()
        [[1, 2], [3, 4], [5, 6]]
        """
        new = shape_of_args("reshape", shape)
        return result(self.uop.reshape(self._known("reshape", new)), self)

    view = also("view", reshape)

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
        """The axes from start to end, both included, made one.

        >>> Tensor.ones(2, 3, 4).flatten(1).shape
        (2, 12)
        """
        start = axis_of("flatten", start_axis if start_dim is None else start_dim, self.ndim)
        end = axis_of("flatten", end_axis if end_dim is None else end_dim, self.ndim)
        if start > end:
            raise ArgumentError(f"flatten: start {start} lies behind end {end}.")
        s = self.shape
        return result(self.uop.reshape((*s[:start], size(s[start : end + 1]), *s[end + 1 :])), self)

    def ravel(self) -> Tensor:
        """All axes made one.

        >>> Tensor([[1, 2], [3, 4]]).ravel().tolist()
        [1, 2, 3, 4]
        """
        return result(self.uop.reshape((self.numel(),)), self)

    def unflatten(
        self, axis: int | None = None, sizes: Sequence[int] = (), *, dim: int | None = None
    ) -> Tensor:
        """One axis split into several; one size may be -1.

        >>> Tensor.ones(2, 6).unflatten(1, (3, -1)).shape
        (2, 3, 2)
        """
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
        """Axes of size 1 dropped: all of them, or those given that have size 1.

        >>> Tensor.ones(1, 3, 1).squeeze().shape, Tensor.ones(1, 3, 1).squeeze(0).shape
        ((3,), (3, 1))
        """
        chosen = axes_of("squeeze", either("squeeze", axis, dim), self.ndim)
        shape = [n for a, n in enumerate(self.shape) if n != 1 or a not in chosen]
        return result(self.uop.reshape(shape), self)

    def unsqueeze(self, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """An axis of size 1 at `axis` of the result.

        >>> Tensor.ones(2, 3).unsqueeze(-1).shape
        (2, 3, 1)
        """
        at = axis_of("unsqueeze", either("unsqueeze", axis, dim), self.ndim + 1)
        return result(unsqueeze(self.uop, at), self)

    # ---- order of axes

    def permute(self, *order: Any, dims: Any = None) -> Tensor:
        """Axes in another order. torch says `dims`.

        >>> Tensor.ones(2, 3, 4).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        chosen = either("permute", order or None, dims, "order and dims")
        given = shape_of_args("permute", order if chosen is None or order else (chosen,))
        axes = tuple(axis_of("permute", a, self.ndim) for a in given)
        if sorted(axes) != list(range(self.ndim)):
            raise ArgumentError(
                f"permute: {given} does not name each axis of shape {self.shape} once."
            )
        return result(self.uop.permute(axes), self)

    def transpose(
        self, axis0: int = -2, axis1: int = -1, *, dim0: int | None = None, dim1: int | None = None
    ) -> Tensor:
        """Two axes exchanged; the last two by default.

        >>> Tensor([[1, 2], [3, 4]]).transpose().tolist()
        [[1, 3], [2, 4]]
        """
        a = axis_of("transpose", axis0 if dim0 is None else dim0, self.ndim)
        b = axis_of("transpose", axis1 if dim1 is None else dim1, self.ndim)
        return result(swap(self.uop, a, b) if self.ndim else self.uop, self)

    swapaxes = also("swapaxes", transpose)

    @property
    def T(self) -> Tensor:  # everybody's name for it
        """All axes in reverse order.

        >>> Tensor([[1, 2, 3]]).T.tolist()
        [[1], [2], [3]]
        """
        return result(self.uop.permute(tuple(reversed(range(self.ndim)))), self)

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged.

        >>> Tensor.ones(2, 3, 4).mT.shape
        (2, 4, 3)
        """
        return self.transpose(-2, -1)

    def movedim(self, source: Axes, destination: Axes) -> Tensor:
        """Axes moved to other places; the rest keep their order.

        >>> Tensor.ones(2, 3, 4).movedim(0, -1).shape
        (3, 4, 2)
        """
        pair = [x if isinstance(x, (tuple, list)) else (x,) for x in (source, destination)]
        froms, tos = ([axis_of("movedim", a, self.ndim) for a in part] for part in pair)
        if len(set(froms)) != len(set(tos)) or len(froms) != len(tos):
            raise ArgumentError(f"movedim: {source} and {destination} do not pair up.")
        rest = iter(a for a in range(self.ndim) if a not in froms)
        back = dict(zip(tos, froms, strict=True))
        order = [back[a] if a in back else next(rest) for a in range(self.ndim)]
        return result(self.uop.permute(order), self)

    moveaxis = also("moveaxis", movedim)

    # ---- size of axes

    def expand(self, *shape: Any) -> Tensor:
        """Axes of size 1 repeated without a copy; -1 keeps a size, missing leading axes are
        added.

        >>> Tensor([[1], [2]]).expand(-1, 3).tolist()
        [[1, 1, 1], [2, 2, 2]]
        """
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

    broadcast_to = also("broadcast_to", expand)

    def expand_as(self, other: Base) -> Tensor:
        """Expanded to the shape of `other`.

        >>> Tensor([1, 2]).expand_as(Tensor.ones(2, 2)).tolist()
        [[1, 2], [1, 2]]
        """
        return self.expand(other.shape)

    def view_as(self, other: Base) -> Tensor:
        """Reshaped to the shape of `other`.

        >>> Tensor([1, 2]).view_as(Tensor.ones(2, 1)).tolist()
        [[1], [2]]
        """
        return self.reshape(other.shape)

    def shrink(self, bounds: Sequence[tuple[int, int] | None]) -> Tensor:
        """A box cut out: (start, stop) for each axis, None for all of it.

        >>> Tensor([[1, 2], [3, 4]]).shrink(((0, 1), None)).tolist()
        [[1, 2]]
        """
        if len(bounds) != self.ndim:
            raise ShapeError(
                f"shrink: shape {self.shape} needs {self.ndim} pairs, got {len(bounds)}."
            )
        box = [(0, n) if b is None else _bound(b) for b, n in zip(bounds, self.shape, strict=True)]
        if any(not 0 <= lo <= hi <= n for (lo, hi), n in zip(box, self.shape, strict=True)):
            raise ShapeError(f"shrink: {tuple(box)} lies outside shape {self.shape}.")
        return result(self.uop.shrink([(lo, hi, 1) for lo, hi in box]), self)

    def shrink_to(self, *shape: Any) -> Tensor:
        """The first elements of each axis; None keeps an axis.

        >>> Tensor([1, 2, 3]).shrink_to(2).tolist()
        [1, 2]
        """
        new = self._sizes("shrink_to", shape)
        if any(not 0 <= n <= o for n, o in zip(new, self.shape, strict=True)):
            raise ShapeError(f"shrink_to: {self.shape} does not shrink to {new}.")
        return result(self.uop.shrink([(0, n, 1) for n in new]), self)

    def pad_to(self, *shape: Any) -> Tensor:
        """Zeros appended until the axes have these sizes; None keeps an axis.

        >>> Tensor([1, 2]).pad_to(4).tolist()
        [1, 2, 0, 0]
        """
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

    def flip(self, *axes: Any, dims: Any = None) -> Tensor:
        """The order of elements reversed along axes; all without an argument. torch says `dims`.

        >>> Tensor([[1, 2], [3, 4]]).flip(0).tolist()
        [[3, 4], [1, 2]]
        """
        chosen = axes[0] if len(axes) == 1 else axes or None
        chosen = either("flip", chosen, dims, "axes and dims")
        return result(self.uop.flip(axes_of("flip", chosen, self.ndim)), self)


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
