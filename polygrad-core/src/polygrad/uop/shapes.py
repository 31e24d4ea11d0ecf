"""The shape of a node from its op, sources and argument: one rule per op.

Floor: uop. A rule raises ShapeError where the parts do not fit, so a node that exists has a shape.
An op that is not listed has the shape of its first source, or () without one. Sizes that vary
(sizes.py) are computed with like integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import ShapeError, VaryingSize
from .opcodes import ELEMENTWISE, Ops

if TYPE_CHECKING:
    from .ops import UOp

Shape = tuple[int, ...]


def _same_shape(src: tuple[UOp, ...], arg: Any) -> Shape:
    shape = src[0].shape
    for s in src:
        if s.shape != shape:
            raise ShapeError(f"elementwise sources have shapes {[x.shape for x in src]}")
    return shape


def _reshape(src: tuple[UOp, ...], arg: Shape) -> Shape:
    old = src[0].shape
    if size(arg) != size(old) or _negative(arg):
        raise ShapeError(f"cannot reshape {old} ({size(old)} elements) to {arg}")
    return arg


def _negative(shape: Shape) -> bool:
    for n in shape:  # noqa: SIM110 - every node comes through here, and a generator is a call
        if n < 0:
            return True
    return False


def _permute(src: tuple[UOp, ...], arg: Shape) -> Shape:
    old = src[0].shape
    if sorted(arg) != list(range(len(old))):
        raise ShapeError(f"permute axes {arg} are not a permutation for shape {old}")
    return tuple([old[a] for a in arg])


def _expand(src: tuple[UOp, ...], arg: Shape) -> Shape:
    old = src[0].shape
    if len(old) != len(arg) or any(a != b and a != 1 for a, b in zip(old, arg, strict=True)):
        raise ShapeError(f"cannot expand {old} to {arg}: only axes of size 1 grow")
    return arg


def _shrink(src: tuple[UOp, ...], arg: tuple[tuple[int, int, int], ...]) -> Shape:
    old = src[0].shape
    if len(old) != len(arg):
        raise ShapeError(f"shrink of shape {old} needs {len(old)} bounds, got {len(arg)}")
    for n, (start, stop, step) in zip(old, arg, strict=True):
        if not (0 <= start <= stop <= n and step >= 1):
            raise ShapeError(f"shrink bounds {arg} do not fit shape {old}")
    return tuple(-(-(stop - start) // step) for start, stop, step in arg)


def _pad(src: tuple[UOp, ...], arg: tuple[tuple[int, int, int], ...]) -> Shape:
    old = src[0].shape
    if len(old) != len(arg) or any(v < 0 for p in arg for v in p):
        raise ShapeError(f"pad {arg} does not fit shape {old}")
    return tuple(
        n + b + a + (max(n - 1, 0) * i if i else 0) for n, (b, a, i) in zip(old, arg, strict=True)
    )


def _window(src: tuple[UOp, ...], arg: tuple[int, int, int, int]) -> Shape:
    axis, length, stride, dilation = arg
    shape = src[0].shape
    for n in (length, stride, dilation):
        if type(n) is not int:
            raise VaryingSize(f"a window has constant sizes, not {n!r}")
    count = (shape[axis] - (length - 1) * dilation - 1) // stride + 1
    if length < 1 or stride < 1 or dilation < 1 or count < 1:
        raise ShapeError(f"window {arg} does not fit axis {axis} of shape {shape}")
    return (*shape[:axis], count, *shape[axis + 1 :], length)


def _reduce(src: tuple[UOp, ...], arg: Any) -> Shape:
    if isinstance(arg, Ops):  # kernel floor
        return ()
    axes = arg[1]
    return tuple([n for i, n in enumerate(src[0].shape) if i not in axes])


def _gather(src: tuple[UOp, ...], axis: int) -> Shape:
    x, index = src
    return (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def _scatter(src: tuple[UOp, ...], arg: tuple[int, str]) -> Shape:
    base, index, updates = src
    if updates.shape != _gather((base, index), arg[0]):
        where = f"base {base.shape} and index {index.shape}"
        raise ShapeError(f"scatter updates {updates.shape} do not fit {where}")
    return base.shape


def _nothing(src: tuple[UOp, ...], arg: Any) -> Shape:
    return ()


SHAPES: Final[dict[Ops, Callable[[tuple[UOp, ...], Any], Shape]]] = {
    Ops.BUFFER: lambda src, arg: arg[1],
    Ops.IOTA: lambda src, arg: (arg,),
    Ops.CONST: _nothing,
    Ops.RESHAPE: _reshape,
    Ops.PERMUTE: _permute,
    Ops.EXPAND: _expand,
    Ops.SHRINK: _shrink,
    Ops.PAD: _pad,
    Ops.WINDOW: _window,
    Ops.REDUCE: _reduce,
    Ops.GATHER: _gather,
    Ops.SCATTER: _scatter,
    Ops.STORE: _nothing,
    Ops.SINK: _nothing,
    Ops.RANGE: _nothing,
    Ops.INDEX: _nothing,
    Ops.LOAD: _nothing,
    Ops.END: _nothing,
    Ops.KERNEL: lambda src, arg: arg.shape,
    Ops.FUNCTION: lambda src, arg: src[arg[1]].shape,
    **dict.fromkeys(ELEMENTWISE, _same_shape),
}


def shape_of(op: Ops, src: tuple[UOp, ...], arg: Any) -> Shape:
    """The shape of a node of these parts; raises ShapeError where they do not fit."""
    rule = SHAPES.get(op)
    if rule is not None:
        return rule(src, arg)
    return src[0].shape if src else ()


def size(shape: Sequence[int]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total
