"""Reading with an index: `x[...]`, gather, take. numpy's rules throughout.

A parsed index (`subscripts.py`) becomes SHRINK and FLIP for its integers and slices, a reshape for
each new axis, and one GATHER for its index arrays. Negative indices count from the end, in tensors
too; an element of an index tensor outside its axis reads 0, or is an IndexError under POLY_CHECK=1
(`checks.py`).

Where index arrays stand next to each other (integers count as such) their common shape takes their
place; otherwise it comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ..dtype import dtypes
from ..errors import DTypeError, ShapeError
from ..schedule.moving import taken
from ..uop.ops import Shape, UOp, size
from ..uop.sizes import capacity
from .axes import axis_of, either
from .base import Base, Flag, Integer, broadcast_shape, one_device, one_owner, result, tensor_of
from .checks import check_index
from .layers import Layers
from .subscripts import Array, View, index_vector, nonzero, parse

if TYPE_CHECKING:
    from .tensor import Tensor


class Indexing(Layers):
    """`x[index]`, gather and take."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Tensor:
        check_owners(self, index)
        view = parse("getitem", self.shape, index, self)
        return result(read(self.uop, view), self, *(a.tensor for _, a in view.arrays))

    def gather(self, dim: Any = None, index: Any = None, *, axis: Integer | None = None) -> Tensor:
        """out[i][j] = self[index[i][j]][j] for dim 0, and so on: torch's gather. `index` may be
        smaller than self in the other axes. An index outside its axis reads 0, or is an IndexError
        under POLY_CHECK=1.

        >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[1], [0]])).tolist()
        [[2], [3]]
        """
        at, chosen = either("gather", dim, axis), tensor_of(index, "gather", self)
        return self._gathered("gather", chosen, axis_of("gather", at, self.ndim))

    def _gathered(self, name: str, chosen: Tensor, axis: int) -> Tensor:
        places = flat_places(name, self.shape, chosen, axis)
        return result(self.uop.reshape((self.numel(),)).gather(places, 0), self, chosen)

    def take_along_axis(
        self, indices: Any, axis: Integer | None = None, *, dim: Integer | None = None
    ) -> Tensor:
        """numpy's name for `gather`: `indices` broadcasts with self in the other axes; flat for
        None.

        >>> Tensor([[3, 1, 2]]).take_along_axis(Tensor([[1, 2, 0]]), 1).tolist()
        [[1, 2, 3]]
        """
        axis, chosen = (
            either("take_along_axis", axis, dim),
            tensor_of(indices, "take_along_axis", self),
        )
        if axis is None:
            return self.ravel().take_along_axis(chosen.ravel(), 0)
        a = axis_of("take_along_axis", axis, self.ndim)
        if chosen.ndim != self.ndim:
            raise ShapeError(
                f"take_along_axis: indices {chosen.shape} and the tensor {self.shape} must have the"
                " same number of axes."
            )
        rest = [(*s[:a], 1, *s[a + 1 :]) for s in (self.shape, chosen.shape)]
        both = broadcast_shape("take_along_axis", rest)
        mine, places = (t.expand(*both[:a], t.shape[a], *both[a + 1 :]) for t in (self, chosen))
        return mine._gathered("take_along_axis", places, a)

    def take(
        self, indices: Any, axis: Integer | None = None, *, dim: Integer | None = None
    ) -> Tensor:
        """The elements of an axis that `indices` number, whose shape takes its place; flat for
        None.

        >>> Tensor([[1, 2], [3, 4]]).take(Tensor([3, 0])).tolist()
        [4, 1]
        """
        axis = either("take", axis, dim)
        if axis is None:
            return self.ravel().take(indices, 0)
        a = axis_of("take", axis, self.ndim)
        return self[(slice(None),) * a + (_listed(indices),)]

    def index_select(self, dim: Integer, index: Any) -> Tensor:
        """The slices of an axis that a vector numbers (torch's name for `take`).

        >>> Tensor([[1, 2], [3, 4]]).index_select(1, Tensor([1, 1])).tolist()
        [[2, 2], [4, 4]]
        """
        return self.take(index, dim)

    def masked_select(self, mask: Any) -> Tensor:
        """The elements where `mask` is true, as a vector; computes the mask.

        >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist()
        [1, 3]
        """
        chosen = tensor_of(mask, "masked_select", self)
        both = broadcast_shape("masked_select", [self.shape, chosen.shape])
        return self.expand(both)[chosen.expand(both).cast(dtypes.bool)]

    @overload
    def nonzero(self, as_tuple: Literal[False] = False) -> Tensor: ...

    @overload
    def nonzero(self, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...

    def nonzero(self, as_tuple: Flag = False) -> Any:
        """The indices of the elements that are not 0, one row each, or with `as_tuple` one vector
        for each axis, as numpy's; computes self.

        >>> Tensor([[0, 1], [2, 0]]).nonzero().tolist()
        [[0, 1], [1, 0]]
        """
        columns = nonzero(self.cast(dtypes.bool))
        if as_tuple:
            return tuple(index_vector(column, self) for column in columns)
        count = len(columns[0]) if columns else int(bool(self))
        flat = [n for row in zip(*columns, strict=True) for n in row]
        return index_vector(flat, self).reshape((count, self.ndim))


def check_owners(x: Base, index: Any, *more: Any) -> None:
    """Refuse an index or a value of another runtime or device; a mask is read before anything is
    joined."""
    parts = (*index, *more) if isinstance(index, tuple) else (index, *more)
    tensors = [p for p in parts if isinstance(p, Base)]
    if tensors:
        one_owner((x, *tensors))
        one_device((x, *tensors))


def _listed(indices: Any) -> Any:
    return list(indices) if isinstance(indices, tuple) else indices


# ---- reading


def read(x: UOp, view: View) -> UOp:
    """The elements of x that a parsed index names."""
    out = x.shrink(view.bounds).flip(view.flips)
    for axis, begin, length in view.moving:
        out = taken(out, axis, begin, length)
    out = out.reshape(view.shape)
    if not view.arrays:
        return out
    axes = [axis for axis, _ in view.arrays]
    nodes, common = joined_arrays([a for _, a in view.arrays], [view.shape[a] for a in axes])
    if len(axes) == 1:
        out = out.gather(nodes[0], axes[0])
        front, width = axes[0], len(common)
    else:
        rest = [a for a in range(len(view.shape)) if a not in axes]
        sizes = [view.shape[a] for a in axes]
        out = out.permute((*axes, *rest)).reshape((size(sizes), *(view.shape[a] for a in rest)))
        out = out.gather(flat_index(nodes, sizes), 0)
        front, width = 0, len(common)
    return _moved(out, front, width, view.place)


def _moved(u: UOp, front: int, width: int, place: int) -> UOp:
    """`width` axes from `front` on, moved so that they start at `place`."""
    block = range(front, front + width)
    rest = [a for a in range(len(u.shape)) if a not in block]
    return u.permute((*rest[:place], *block, *rest[place:]))


def joined_arrays(arrays: Sequence[Array], sizes: Sequence[int]) -> tuple[list[UOp], Shape]:
    """The index arrays in one shape, negative elements counted from the end."""
    common = broadcast_shape("index", [a.tensor.shape for a in arrays])
    nodes = []
    for array, n in zip(arrays, sizes, strict=True):
        u = array.tensor.uop
        if array.extent is None or array.extent[0] < 0:
            u = wrapped(u, n)
        nodes.append(u.broadcast_to(common))
    return nodes, common


def wrapped(index: UOp, n: int) -> UOp:
    """Negative elements counted from the end of an axis of n, in a type that holds n."""
    if index.dtype.is_unsigned:
        return index
    index = index.cast(dtypes.int64 if index.dtype.itemsize == 8 or n >= 1 << 31 else dtypes.int32)
    return (index < 0).where(index + n, index)


def flat_index(nodes: Sequence[UOp], sizes: Sequence[int]) -> UOp:
    """Row-major numbers of coordinates; -1 where one of them lies outside its axis."""
    wide = dtypes.int64 if capacity(sizes) >= 1 << 31 else dtypes.int32
    out: UOp | None = None
    inside: UOp | None = None
    for u, n in zip(nodes, sizes, strict=True):
        here = (u < n) if u.dtype.is_unsigned else (u < n) & (u >= 0)
        inside = here if inside is None else inside & here
        out = u.cast(wide) if out is None else out * n + u.cast(wide)
    assert out is not None and inside is not None
    return inside.where(out, -1)


def flat_places(name: str, shape: Shape, index: Base, axis: int) -> UOp:
    """Row-major numbers in `shape` of the elements that torch's gather reads (or scatter
    writes)."""
    if not index.dtype.is_int:
        raise DTypeError(f"{name}: an index holds integers, not {index.dtype.name}.")
    inner = index.shape
    fits = len(inner) == len(shape) and all(
        m <= n for a, (m, n) in enumerate(zip(inner, shape, strict=True)) if a != axis
    )
    if not fits:
        raise ShapeError(
            f"{name}: index {inner} must be no larger than {shape} beside axis {axis}."
        )
    check_index(name, index, axis, shape)
    if not shape:
        return wrapped(index.uop, 1)
    nodes = []
    for a, n in enumerate(inner):
        if a == axis:
            nodes.append(wrapped(index.uop, shape[a]))
        else:
            along = (1,) * a + (n,) + (1,) * (len(inner) - a - 1)
            nodes.append(UOp.iota(n).reshape(along).expand(inner))
    return flat_index(nodes, shape)
