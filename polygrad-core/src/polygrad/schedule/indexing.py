"""Movement ops as index functions: the first thing the schedule floor does away with.

A tensor node read at an index tuple is a movement of its source read at another tuple, and perhaps
only where a condition holds. `source_index` states that for each movement op; composing it down to
a stored buffer gives one affine offset, so no movement ever costs a copy of its own.

An index is a tuple of `index` UOps, one per axis; a condition is a bool UOp or None (always).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..errors import VaryingSize
from ..uop.ops import Ops, Shape, UOp, size

Index = tuple[UOp, ...]
ZERO: Final = 0


def both(a: UOp | None, b: UOp | None) -> UOp | None:
    """The condition that holds where both do; None is always, a constant True is dropped."""
    if a is None or b is None or a is b:
        return known(b if a is None else a)
    return known(a & b)


def known(condition: UOp | None) -> UOp | None:
    """None for a condition that the intervals prove."""
    return None if condition is None or condition.lo == 1 else condition


def flat(index: Sequence[UOp], shape: Sequence[int]) -> UOp:
    """The row-major offset of `index` in an array of `shape`."""
    offset, stride = UOp.index(0), 1
    for i, n in zip(reversed(index), reversed(shape), strict=True):
        offset = offset + i * stride
        stride *= n
    return offset


def unflat(offset: UOp, shape: Sequence[int]) -> Index:
    """The index tuple of row-major `offset` in an array of `shape`."""
    out: list[UOp] = []
    stride = 1
    for axis, n in reversed(list(enumerate(shape))):
        if n == 1:
            out.append(UOp.index(0))
            continue
        part = offset // stride if stride != 1 else offset
        out.append(part if axis == _first_long(shape) else part % n)
        stride *= n
    return tuple(reversed(out))


def _first_long(shape: Sequence[int]) -> int:
    return next((i for i, n in enumerate(shape) if n != 1), 0)


def _reshape_groups(new: Shape, old: Shape) -> list[tuple[int, int, int, int]]:
    """Aligned slices (new lo, new hi, old lo, old hi) of two shapes whose products agree."""
    groups = []
    i = j = 0
    while i < len(new) or j < len(old):
        i0, j0 = i, j
        a = b = 1
        if i < len(new):
            a, i = new[i], i + 1
        if j < len(old):
            b, j = old[j], j + 1
        while a != b:
            less = _is_less(a, b)
            if less is None:  # sizes that vary: all that is left is one group
                i, j = len(new), len(old)
                break
            if less:
                a, i = a * new[i], i + 1
            else:
                b, j = b * old[j], j + 1
        groups.append((i0, i, j0, j))
    return groups


def _is_less(a: int, b: int) -> bool | None:
    """a < b, None where it varies."""
    try:
        return a < b
    except VaryingSize:
        return None


def _reshape(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    new, old = node.shape, node.src[0].shape
    if size(new) == 0:
        return tuple(UOp.index(0) for _ in old), None
    # axes of size 1 carry no information and would only blur the groups
    new_axes = [a for a, n in enumerate(new) if n != 1]
    old_axes = [a for a, n in enumerate(old) if n != 1]
    out = [UOp.index(0)] * len(old)
    new_long, old_long = tuple(new[a] for a in new_axes), tuple(old[a] for a in old_axes)
    for i0, i1, j0, j1 in _reshape_groups(new_long, old_long):
        picked = [index[a] for a in new_axes[i0:i1]]
        shape = old_long[j0:j1]
        parts = picked if new_long[i0:i1] == shape else unflat(flat(picked, new_long[i0:i1]), shape)
        for axis, part in zip(old_axes[j0:j1], parts, strict=True):
            out[axis] = part
    return tuple(out), None


def _permute(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    out = list(index)
    for position, axis in enumerate(node.arg):
        out[axis] = index[position]
    return tuple(out), None


def _expand(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    old = node.src[0].shape
    return tuple(UOp.index(0) if n == 1 else i for i, n in zip(index, old, strict=True)), None


def _shrink(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    return tuple(
        i * step + start for i, (start, _, step) in zip(index, node.arg, strict=True)
    ), None


def _flip(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    shape = node.shape
    return tuple(
        UOp.index(shape[a] - 1) - i if a in node.arg else i for a, i in enumerate(index)
    ), None


def _pad(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    out: list[UOp] = []
    valid: UOp | None = None
    for i, n, (before, after, interior) in zip(index, node.src[0].shape, node.arg, strict=True):
        inner = i - before if before else i
        if before:
            valid = both(valid, UOp.index(0) <= inner)
        if after:
            extent = n + (max(n - 1, 0) * interior if interior else 0)
            valid = both(valid, inner < extent)
        if interior:
            valid = both(valid, (inner % (interior + 1)).eq(0))
            inner = inner // (interior + 1)
        out.append(inner)
    return tuple(out), valid


def _window(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    axis, _, stride, dilation = node.arg
    out = list(index[:-1])
    out[axis] = index[axis] * stride + index[-1] * dilation
    return tuple(out), None


_MOVES: Final[dict[Ops, Callable[[UOp, Index], tuple[Index, UOp | None]]]] = {
    Ops.RESHAPE: _reshape,
    Ops.PERMUTE: _permute,
    Ops.EXPAND: _expand,
    Ops.SHRINK: _shrink,
    Ops.PAD: _pad,
    Ops.FLIP: _flip,
    Ops.WINDOW: _window,
}


def source_index(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    """Where a movement `node` at `index` reads its source, and under which condition."""
    return _MOVES[node.op](node, index)


def through(node: UOp, index: Index, valid: UOp | None) -> tuple[UOp, Index, UOp | None]:
    """Follow movement ops from `node` down to the first node that is none."""
    while node.op in _MOVES:
        index, condition = source_index(node, index)
        valid = both(valid, condition)
        node = node.src[0]
    return node, index, valid


def place(node: UOp, index: Index) -> UOp:
    """Where an element lies in what is stored: what is computed, or padded."""
    while node.op in _MOVES and node.op is not Ops.PAD:
        index, _ = source_index(node, index)
        node = node.src[0]
    return flat(index, node.shape)
