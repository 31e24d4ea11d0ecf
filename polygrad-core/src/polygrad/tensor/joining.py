"""Joining and padding: tensors put together along an axis, and elements put around a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import dtypes
from ..errors import ArgumentError, ShapeError, no_such, shown
from ..uop.ops import UOp
from ..uop.sizes import is_fixed
from .axes import axis_of, either, extent, integer, number
from .base import Operand, common_dtype, result, tensor_of
from .movement import Axes, pad_with, piece, unsqueeze
from .pieces import Pieces

if TYPE_CHECKING:
    from .tensor import Tensor


class Joining(Pieces):
    """cat, stack, roll and pad."""

    __slots__ = ()

    # ---- joining

    def cat(self, *others: Any, axis: int | None = None, dim: int | None = None) -> Tensor:
        """Tensors one after the other along an axis; also `Tensor.cat([a, b], axis)`.

        >>> Tensor([1, 2]).cat(Tensor([3])).tolist()
        [1, 2, 3]
        """
        tensors, axis = _parts("cat", self, others, axis, dim)
        nodes, used = _same_dtype("cat", tensors)
        a = axis_of("cat", axis, len(nodes[0].shape))
        for u in nodes:
            if (
                len(u.shape) != len(nodes[0].shape)
                or not u.shape
                or any(
                    m != n
                    for i, (m, n) in enumerate(zip(u.shape, nodes[0].shape, strict=True))
                    if i != a
                )
            ):
                raise ShapeError(
                    f"cat: shapes {nodes[0].shape} and {u.shape} differ beyond axis {a}."
                )
        return result(concatenate(nodes, a), *used)

    concat = cat

    def stack(self, *others: Any, axis: int | None = None, dim: int | None = None) -> Tensor:
        """Tensors of one shape along a new axis; also `Tensor.stack([a, b], axis)`.

        >>> Tensor([1, 2]).stack(Tensor([3, 4])).tolist()
        [[1, 2], [3, 4]]
        """
        tensors, axis = _parts("stack", self, others, axis, dim)
        nodes, used = _same_dtype("stack", tensors)
        for u in nodes:
            if u.shape != nodes[0].shape:
                raise ShapeError(f"stack: shapes {nodes[0].shape} and {u.shape} differ.")
        a = axis_of("stack", axis, len(nodes[0].shape) + 1)
        return result(concatenate([unsqueeze(u, a) for u in nodes], a), *used)

    # ---- padding

    def pad(self, padding: Any, mode: str = "constant", value: Any = 0.0) -> Tensor:
        """Elements put around: `(left, right, top, bottom, …)` from the last axis on (torch), or a
        pair or None for each axis. Modes: constant, reflect, replicate, circular. Negative cuts
        off.

        >>> Tensor([1, 2]).pad((1, 1), value=9).tolist()
        [9, 1, 2, 9]
        >>> Tensor([1.0, 2.0, 3.0]).pad((1, 1), mode="reflect").tolist()
        [2.0, 1.0, 2.0, 3.0, 2.0]
        """
        pads = _pads("pad", padding, self.ndim)
        if mode not in _PADDING:
            raise ArgumentError(f"pad: {no_such('mode', mode, _PADDING)}")
        grown = [n + b + a for n, (b, a) in zip(self.shape, pads, strict=True)]
        if any(n < 0 for n in grown):
            raise ShapeError(f"pad: {padding} cuts more than shape {self.shape} has.")
        cut = [(max(-b, 0), n - max(-a, 0), 1) for n, (b, a) in zip(self.shape, pads, strict=True)]
        u = self.uop.shrink(cut)
        pads = [(max(b, 0), max(a, 0)) for b, a in pads]
        if mode == "constant":
            value = number("pad", "value", value)
            if not u.dtype.is_float and not float(value).is_integer():
                raise ArgumentError(f"pad: {value} does not fit {u.dtype.name}; cast the tensor.")
            return result(pad_with(u, [(b, a, 0) for b, a in pads], value), self)
        for axis, (before, after) in enumerate(pads):
            if before or after:
                u = _PADDING[mode](u, axis, before, after)
        return result(u, self)

    def roll(
        self, shifts: Axes, axis: Axes = None, *, dim: Axes = None, dims: Axes = None
    ) -> Tensor:
        """Elements moved by `shifts`; what leaves at one end enters at the other.

        >>> Tensor([1, 2, 3]).roll(1).tolist()
        [3, 1, 2]
        """
        axis = either("roll", either("roll", axis, dim), dims)
        if axis is None:
            return self.ravel().roll(shifts, 0).reshape(self.shape)
        moves, axes = (list(x) if isinstance(x, (tuple, list)) else [x] for x in (shifts, axis))
        if len(moves) != len(axes):
            raise ArgumentError(f"roll: {len(moves)} shifts for {len(axes)} axes.")
        u = self.uop
        for shift, a in zip(moves, axes, strict=True):
            by = integer("roll", "a shift", shift)
            u = _rolled(u, by, axis_of("roll", a, self.ndim))
        return result(u, self)


# ---- the functions of nodes behind them


def _rolled(u: UOp, shift: int, axis: int) -> UOp:
    n = u.shape[axis] if u.shape else 0
    if is_fixed((n,)):
        shift = shift % n if n else 0
    elif shift < 0:
        shift = n + shift
    if not shift:
        return u
    return concatenate([piece(u, axis, n - shift, n), piece(u, axis, 0, n - shift)], axis)


_TOGETHER = 16  # tensors one kernel of `cat` reads; beyond it, groups are stored first


def concatenate(nodes: Sequence[UOp], axis: int) -> UOp:
    """A balanced tree of selections between padded parts, so no element is computed with
    another's."""
    level = [u for u in nodes if u.shape[axis]] or [nodes[0]]
    while len(level) > 1:
        groups = [level[i : i + _TOGETHER] for i in range(0, len(level), _TOGETHER)]
        joined_groups = [_tree(group, axis) for group in groups]
        if len(groups) > 1:
            joined_groups = [u.contiguous() for u in joined_groups]
        level = joined_groups
    return level[0]


def _tree(nodes: list[UOp], axis: int) -> UOp:
    while len(nodes) > 1:
        pairs = [nodes[i : i + 2] for i in range(0, len(nodes), 2)]
        nodes = [_pair(pair[0], pair[1], axis) if len(pair) == 2 else pair[0] for pair in pairs]
    return nodes[0]


def _pair(first: UOp, second: UOp, axis: int) -> UOp:
    left, right = first.shape[axis], second.shape[axis]
    pads = [(0, 0, 0)] * len(first.shape)
    before, after = list(pads), list(pads)
    before[axis], after[axis] = (left, 0, 0), (0, right, 0)
    inside = UOp.const(dtypes.bool, True).broadcast_to(first.shape).pad(after)
    return inside.where(first.pad(after), second.pad(before))


def _parts(
    name: str, first: Any, others: Sequence[Any], axis: int | None, dim: int | None
) -> tuple[list[Any], int]:
    """The tensors and the axis of `a.cat(b, c, axis=1)` and of `Tensor.cat([a, b, c], 1)`."""
    axis = either(name, axis, dim)
    if isinstance(first, (tuple, list)):
        if len(others) > 1 or (others and axis is not None):
            raise ArgumentError(f"{name}: give one list of tensors and one axis.")
        return list(first), others[0] if others else axis or 0
    if others and isinstance(others[-1], int):
        raise ArgumentError(f"{name}: give the axis by name, as axis={others[-1]}.")
    flat = others[0] if len(others) == 1 and isinstance(others[0], (tuple, list)) else others
    return [first, *flat], axis or 0


def _same_dtype(name: str, tensors: Sequence[Operand]) -> tuple[list[UOp], list[Tensor]]:
    if not tensors:
        raise ArgumentError(f"{name} takes at least one tensor.")
    used = [tensor_of(t, name, *tensors) for t in tensors]
    dtype = common_dtype(used)
    return [t.uop.cast(dtype) for t in used], used


def _pads(name: str, padding: Any, ndim: int) -> list[tuple[int, int]]:
    """Both spellings of padding as one (before, after) pair for each axis."""
    entries = list(padding) if isinstance(padding, (tuple, list)) else [padding]
    if all(p is None or isinstance(p, (tuple, list)) for p in entries):
        if len(entries) != ndim:
            raise ShapeError(f"{name}: {len(entries)} pairs do not pad a tensor of {ndim} axes.")
        pairs = [(0, 0) if p is None else p for p in entries]
        if any(len(p) != 2 for p in pairs):
            raise ShapeError(f"{name}: an axis is padded by (before, after), not {shown(padding)}.")
        return [(integer(name, "padding", b), integer(name, "padding", a)) for b, a in pairs]
    if len(entries) % 2 or len(entries) > 2 * ndim or any(not isinstance(p, int) for p in entries):
        raise ShapeError(
            f"{name}: padding is a pair of integers for each of at most {ndim} axes,"
            f" not {shown(padding)}."
        )
    whole = [extent(name, "padding", p) for p in entries]
    pairs = [(whole[i], whole[i + 1]) for i in range(0, len(whole), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


def _reflect(u: UOp, axis: int, before: int, after: int) -> UOp:
    n = u.shape[axis]
    if max(before, after) >= n:
        raise ShapeError(
            f"pad: reflecting {(before, after)} needs more than {n} elements on axis {axis}."
        )
    left = piece(u, axis, 1, before + 1).flip((axis,))
    right = piece(u, axis, n - 1 - after, n - 1).flip((axis,))
    return concatenate([left, u, right], axis)


def _replicate(u: UOp, axis: int, before: int, after: int) -> UOp:
    n = u.shape[axis]
    if not n:
        raise ShapeError(f"pad: axis {axis} of {u.shape} has no element to replicate.")
    shape = list(u.shape)
    parts = []
    for start, count in ((0, before), (n - 1, after)):
        shape[axis] = count
        parts.append(piece(u, axis, start, start + 1).expand(shape))
    return concatenate([parts[0], u, parts[1]], axis)


def _circular(u: UOp, axis: int, before: int, after: int) -> UOp:
    n = u.shape[axis]
    if max(before, after) > n:
        raise ShapeError(
            f"pad: wrapping {(before, after)} needs more than {n} elements on axis {axis}."
        )
    return concatenate([piece(u, axis, n - before, n), u, piece(u, axis, 0, after)], axis)


_PADDING: dict[str, Any] = {
    "constant": None,
    "reflect": _reflect,
    "replicate": _replicate,
    "circular": _circular,
}
