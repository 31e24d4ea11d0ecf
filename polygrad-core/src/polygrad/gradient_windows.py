"""The gradient of windows: what overlaps adds up.

Floor: gradient. Element i of the source of a WINDOW is place k of the window at (i - k d) / s, for
each k for which there is one; so it gets the sum over k of what flows into those.
"""

from __future__ import annotations

from collections.abc import Sequence

from .uop.ops import MOVEMENT, Ops, Shape, UOp, size
from .uop.sizes import is_fixed


def window(node: UOp, g: UOp) -> UOp:
    """What flows into the source.

    If g is a sum of products (a convolution's is), its axes of summation are carried along and all
    of it becomes one sum, so that nothing of the windows' size is ever stored.
    """
    axis, length, stride, dilation = node.arg
    n, count, last = node.src[0].shape[axis], node.shape[axis], len(node.shape) - 1
    reach = (length - 1) * dilation
    around = (reach, n - (count - 1) * stride - 1, stride - 1)
    if length == 1:  # nothing overlaps
        pads = [around if a == axis else (0, 0, 0) for a in range(last)]
        return g.reshape(g.shape[:-1]).pad(pads)
    terms, extra = _terms(g)
    rank = last + 1 + extra
    spread = _of_product(terms, axis, last, around, node.arg)
    if spread is None:
        spread = _diagonal(terms, axis, last, around, node.arg)
    return spread.reduce(Ops.ADD, range(last, rank))


def shrunk(g: UOp, bounds: Sequence[tuple[int, int, int]]) -> UOp:
    """`g.shrink(bounds)`; of a sum of products the sum of products of parts: a sum that is stored
    (a convolution's, in an order of its own) holds nothing then that nobody reads."""
    moves, base = _below(g)
    if base.op is not Ops.REDUCE or base.arg[0] is not Ops.ADD or base.src[0].op is not Ops.MUL:
        return g.shrink(bounds)
    inner, axes = base.src[0], base.arg[1]
    kept = [a for a in range(len(inner.shape)) if a not in axes]
    rank, summed = len(bounds), [(0, inner.shape[a], 1) for a in axes]
    factors = (_moved(s.permute((*kept, *axes)), moves) for s in inner.src)
    product = UOp.alu(Ops.MUL, *(f.shrink((*bounds, *summed)) for f in factors))
    return product.reduce(Ops.ADD, range(rank, rank + len(axes)))


def _diagonal(
    terms: UOp, axis: int, last: int, around: tuple[int, int, int], arg: tuple[int, ...]
) -> UOp:
    """With g spread by the stride and padded, that is a window again, of which place k is wanted
    for k alone: a diagonal."""
    _, length, _, dilation = arg
    rank = len(terms.shape)
    moved = _padded(terms, axis, around).flip((last,)).window(axis, length, 1, dilation)
    moved = moved.permute((*range(last + 1), rank, *range(last + 1, rank)))
    shape = moved.shape
    moved = moved.reshape((*shape[:last], length * length, *shape[last + 2 :]))
    bounds = [(0, m, 1) for m in moved.shape]
    bounds[last] = (0, length * length, length + 1)
    return moved.shrink(bounds)


def _of_product(
    terms: UOp, axis: int, last: int, around: tuple[int, int, int], arg: tuple[int, ...]
) -> UOp | None:
    """The same for a product of one factor that no place in the window changes, and another that
    is the same for all windows (a filter): windows of the one, times the other. None for others.

    The factor is padded, not the product, as a convolution's input is: a zero of the padding times
    an infinite weight is NaN.
    """
    _, length, _, dilation = arg
    moves, base = _below(terms)
    if base.op is not Ops.MUL:
        return None
    factors = [_moved(s, moves) for s in base.src]
    for one, other in (factors, factors[::-1]):
        if _constant(one, last) and _constant(other, axis):
            rank = len(terms.shape)
            spread = _padded(_first(one, last), axis, around).window(axis, length, 1, dilation)
            spread = spread.flip((rank,))
            spread = spread.permute((*range(last), rank, *range(last + 1, rank), last))
            spread = spread.reshape(spread.shape[:-1])
            return UOp.alu(Ops.MUL, spread, _first(other, axis).expand(spread.shape))
    return None


# ---- sums and products below movements


def _below(x: UOp) -> tuple[list[UOp], UOp]:
    """The movements on top of x, outermost last, and what they move."""
    moves = []
    while x.op in MOVEMENT:
        moves.append(x)
        x = x.src[0]
    return moves[::-1], x


def _terms(g: UOp) -> tuple[UOp, int]:
    """(p, k) such that g is the sum of p over its last k axes."""
    moves, base = _below(g)
    if base.op is not Ops.REDUCE or base.arg[0] is not Ops.ADD:
        return g, 0
    inner, axes = base.src[0], base.arg[1]
    kept = [a for a in range(len(inner.shape)) if a not in axes]
    return _moved(inner.permute((*kept, *axes)), moves), len(axes)


def _moved(x: UOp, moves: list[UOp]) -> UOp:
    """The same movements, applied to the first axes of x."""
    for move in moves:
        x = _beside(move, x, x.shape[len(move.src[0].shape) :])
    return x


def _beside(move: UOp, x: UOp, rest: Shape) -> UOp:
    """A movement applied to the first axes of x; `rest` are the sizes of those after them."""
    arg, rank = move.arg, len(move.src[0].shape)
    if move.op in (Ops.RESHAPE, Ops.EXPAND):
        return UOp(move.op, x.dtype, (x,), (*arg, *rest))
    if move.op is Ops.PERMUTE:
        return x.permute((*arg, *range(rank, rank + len(rest))))
    if move.op is Ops.SHRINK:
        return x.shrink((*arg, *((0, n, 1) for n in rest)))
    if move.op is Ops.PAD:
        return x.pad((*arg, *((0, 0, 0) for _ in rest)))
    if move.op is Ops.FLIP:
        return x.flip(arg)
    wide = x.window(*arg)
    return wide.permute((*range(rank), rank + len(rest), *range(rank, rank + len(rest))))


# ---- one axis


def _first(x: UOp, axis: int) -> UOp:
    """The first element of an axis."""
    return x.shrink([(0, 1 if a == axis else n, 1) for a, n in enumerate(x.shape)])


def _constant(x: UOp, axis: int) -> bool:
    """Are all elements along an axis one element of memory?"""
    while x.shape[axis] != 1:
        if x.op not in MOVEMENT and x.op is not Ops.CAST:
            return False
        if x.op is Ops.PAD and x.arg[axis] != (0, 0, 0):
            return False
        found = _before(x, axis)
        if found is None:
            return False
        x, axis = x.src[0], found
    return True


def _before(move: UOp, axis: int) -> int | None:
    """The axis of the source that an axis of a movement comes from alone; None if it is no one."""
    if move.op is Ops.PERMUTE:
        return int(move.arg[axis])
    if move.op is Ops.WINDOW and axis == len(move.shape) - 1:
        return int(move.arg[0])
    if move.op is not Ops.RESHAPE:
        return axis
    old, new = move.src[0].shape, move.shape
    if not is_fixed((*old, *new)):
        return None
    before = size(new[:axis])
    same = (a for a, n in enumerate(old) if n == new[axis] and size(old[:a]) == before)
    return next(same, None)


def _padded(x: UOp, axis: int, around: tuple[int, int, int]) -> UOp:
    """x with one axis padded, below all movements that leave the axis alone: what is stored so
    that a contraction reads it without conditions is the array then, and not its windows."""
    inner = None
    if x.op in MOVEMENT and _leaves_alone(x, axis):
        found = _before(x, axis)
        inner = None if found is None else _padded(x.src[0], found, around)
    if inner is None or found is None:
        return x.pad([around if a == axis else (0, 0, 0) for a in range(len(x.shape))])
    n = inner.shape[found]
    arg = x.arg
    if x.op in (Ops.RESHAPE, Ops.EXPAND):
        arg = (*arg[:axis], n, *arg[axis + 1 :])
    elif x.op is Ops.SHRINK:
        arg = (*arg[:axis], (0, n, 1), *arg[axis + 1 :])
    return UOp(x.op, x.dtype, (inner,), arg)


def _leaves_alone(move: UOp, axis: int) -> bool:
    """Is every element of an axis one of the source's, in the same place?"""
    if move.op is Ops.EXPAND:
        return bool(move.src[0].shape[axis] == move.shape[axis])
    if move.op is Ops.PAD:
        return bool(move.arg[axis] == (0, 0, 0))
    if move.op is Ops.SHRINK:
        return bool(move.arg[axis] == (0, move.src[0].shape[axis], 1))
    if move.op is Ops.FLIP:
        return axis not in move.arg
    if move.op is Ops.WINDOW:
        return axis not in (move.arg[0], len(move.shape) - 1)
    return True
