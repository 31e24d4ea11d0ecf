"""Slices and places that are known at the call only: a SHRINK or PAD whose start is a node.

Floor: schedule, made of tensor floor ops. A slice is a GATHER along a line of positions; so is a
padded part, with positions outside, which give 0.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..uop.ops import COMPARISONS, MOVEMENT, Ops, Shape, UOp


def taken(x: UOp, axis: int, start: UOp, count: int, step: int = 1) -> UOp:
    """`count` elements of an axis from `start` (of dtype index) on."""
    return x.gather(_op(Ops.ADD, _line(count, step), start.broadcast_to((count,))), axis)


def put(x: UOp, axis: int, start: UOp, total: int) -> UOp:
    """An axis of `total` elements, 0 but where x lies, from `start` on."""
    return x.gather(_op(Ops.SUB, _line(total), start.broadcast_to((total,))), axis)


def uniform(x: UOp) -> UOp | None:
    """The constant that all elements of x are, None if it is none."""
    while x.op in MOVEMENT and x.op is not Ops.PAD:
        x = x.src[0]
    return x if x.op is Ops.CONST else None


def covered(shape: Shape, axis: int, start: UOp, count: int) -> UOp:
    """Where such a part of `count` elements lies in `shape`."""
    total = shape[axis]
    place = _op(Ops.SUB, _line(total), start.broadcast_to((total,)))
    first, end = (UOp.index(i).broadcast_to((total,)) for i in (0, count))
    here = _op(Ops.AND, _op(Ops.CMPLE, first, place), _op(Ops.CMPLT, place, end))
    return here.reshape(tuple(n if a == axis else 1 for a, n in enumerate(shape))).expand(shape)


def reverse(node: UOp, g: UOp) -> UOp | None:
    """What flows into the source of a GATHER that `taken` or `put` made; None for any other."""
    x, places = node.src
    if places.dtype is not dtypes.index or places.op not in (Ops.ADD, Ops.SUB):
        return None
    line, start = places.src[0], places.src[1].base
    if line.op is not Ops.IOTA or start.shape:
        return None
    if places.op is Ops.ADD:
        return put(g, node.arg, start, x.shape[node.arg])
    return taken(g, node.arg, start, x.shape[node.arg])


def both(a: UOp | None, b: UOp) -> UOp:
    return b if a is None else _op(Ops.AND, a, b)


def _line(count: int, step: int = 1) -> UOp:
    """0, step, 2·step, …"""
    line = UOp.iota(count, dtypes.index)
    return line if step == 1 else _op(Ops.MUL, line, UOp.index(step).broadcast_to((count,)))


def _op(op: Ops, a: UOp, b: UOp) -> UOp:
    """A node as it is: the smart constructor's normal form of indices is for scalars."""
    return UOp(op, dtypes.bool if op in COMPARISONS else a.dtype, (a, b))
