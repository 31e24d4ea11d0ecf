"""Channels: the layout in which a convolution reads its filters and leaves its results.

Vectors that run along the places of an image fit rows of whole vectors, one element apart. In a
row of 14 or 7 most lanes are empty, and with a stride no two lanes are neighbours. Vectors along
channels are always full: a tile has some neighbouring places times a panel of filters, loads
vectors of filters and broadcasts elements of the images, wherever those lie. So the filters are
stored once in panels, [channels / 32][terms][32], in the order in which the images' elements lie,
and results channels last; what follows reads them in the old order.

The gradient of a filter is the same sum with another factor in panels: what flows in. That of the
images is a convolution. A window of one place is a matrix for each image; whichever factor costs
less is in panels then, and over small images that pays too.

Storing the results in another order costs about as much as four terms of the sum a lane, so short
sums and rows that fill their vectors stay as they are: see `_steps_along`. (Measured on AVX-512,
one thread, CPU time alternately, ratio to vectors along places: 3 x 3 over 56 x 56 1.06, over 28 x
28 1.5, over 14 x 14 3.6, over 7 x 7 9; with a stride of 2 36; gradient of the filters at 56 x 56
1.4; 1 x 1 over 7 x 7 1.1, its gradients 2.3, that of the filters over 14 x 14 2.1.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from ..uop.linear import coefficient, ranges_of
from ..uop.ops import MOVEMENT, Ops, UOp, size
from ..uop.sizes import is_fixed
from .indexing import Index, place
from .packing import in_panels, product, settled, widened

CHANNELS: Final = 16  # of the narrowest panel
WORTH: Final = 1 << 18  # products that pay for two more kernels
USED: Final = 256  # products of an element of the filters that pay for a copy of them
TURN: Final = 4  # terms of a sum, times the lanes, that cost as much as the results' other order
SHORTER: Final = 1.2  # time of a vector that is not full, in those of a full one
LEAST: Final = 4  # elements of the shortest vector; fewer are computed one by one
LINE: Final = 16  # elements of a cache line
NEAR: Final = 4 * LINE  # from one term to the next: lines that lie farther apart come late, and
LATE: Final = 2  # a tile waits that much longer for them (1 x 1 over 14 x 14 and 28 x 28: 2 to 4)
ACROSS: Final = 1.25  # of dot products whose vectors are whole lines: each one lies in two of them


class Turned(NamedTuple):
    """A sum of products stored with its channels last, and the order that turns it back."""

    stored: UOp
    back: tuple[int, ...]

    def plain(self) -> UOp:
        return self.stored.permute(self.back)

    def total(self, axis: int) -> UOp:
        """The sum over an axis, stored in the same order before it is turned back."""
        at = self.back[axis]
        summed = self.stored.reduce(Ops.ADD, (at,)).contiguous()
        return summed.permute([b - (b > at) for b in self.back if b != at])


class _Convolution(NamedTuple):
    """A sum of products of windows and filters; axes are those of the products."""

    windows: UOp
    filters: UOp
    channels: int  # the axis that moves the filters alone
    kept: tuple[int, ...]  # axes that move the filters and are not summed
    summed: tuple[int, ...]  # those that are, as the images lie
    far: bool  # does each term of the sum lie in a line of its own?


def turned(node: UOp, lanes: int) -> Turned | None:
    """A convolution with its channels last; None for anything else, and where it does not pay."""
    found = _convolution(node, lanes) if lanes else None
    if found is None:
        return None
    axis, reduced, shape = found.channels, node.arg[1], list(node.src[0].shape)
    n = shape[axis]
    filters = _in_order(found, shape, lanes)
    shape[axis] = filters.shape[axis]
    others = [a for a in range(len(shape)) if a not in reduced and a != axis]
    order = (*others, axis, *reduced)
    factors = (_first(found.windows, (axis,)), filters)
    body = UOp.alu(Ops.MUL, *(f.expand(shape).permute(order) for f in factors))
    stored = widened(body.reduce(Ops.ADD, range(len(others) + 1, len(order)))).contiguous()
    stored = stored.shrink([(0, m, 1) for m in (*stored.shape[:-1], n)])
    before = sum(a < axis for a in others)
    last = len(others)
    return Turned(stored, (*range(before), last, *range(before, last)))


def in_terms(node: UOp, lanes: int) -> UOp:
    """A convolution along places with its filters stored term after term, if they do not lie so:
    those that the gradient of the images reads lie apart, and run against them. Others as they are.
    (3 x 3 over 56 x 56 on AVX2: 1.04x.)"""
    found = _apart(node) if lanes else None
    if found is None:
        return node
    shape = node.src[0].shape
    used = (*found.kept, found.channels, *found.summed)
    rest = tuple(a for a in range(len(shape)) if a not in used)
    order = (*used, *rest)
    stored = _first(settled(found.filters), rest).permute(order).contiguous()
    filters = stored.permute([order.index(a) for a in range(len(order))]).expand(shape)
    return UOp.alu(Ops.MUL, found.windows, filters).reduce(Ops.ADD, node.arg[1])


def _apart(node: UOp) -> _Convolution | None:
    """A sum of products of windows with filters whose terms do not lie together, each used many
    times; None for anything else."""
    body = node.src[0]
    if node.arg[0] is not Ops.ADD or body.op is not Ops.MUL or not is_fixed(body.shape):
        return None
    windowed = [_has_windows(s) for s in body.src]
    if size(body.shape) < WORTH or sum(windowed) != 1 or not _has_places(node):
        return None
    index = _index(body)
    places = [place(s, index) for s in body.src]
    found = _along_channels(node, index, places, windowed.index(False))
    if found is None:
        return None
    at = places[windowed.index(False)]
    used = (found.channels, *found.kept, *found.summed)
    often = size(body.shape) >= USED * size([body.shape[a] for a in used])
    steps = sorted((abs(coefficient(at, index[a]) or 0), body.shape[a]) for a in found.summed)
    reached = 1
    for step, n in steps:
        if step != reached:
            return found if often else None
        reached *= n
    return None


def _index(body: UOp) -> Index:
    """A place of the products: a range for each axis."""
    return tuple(UOp.range(0, n, i) if n != 1 else UOp.index(0) for i, n in enumerate(body.shape))


def _in_order(found: _Convolution, shape: Sequence[int], lanes: int) -> UOp:
    """The filters in panels, zeros in the channels that fill the last one, each element once."""
    axis = found.channels
    order = (axis, *found.kept, *found.summed)
    rest = tuple(a for a in range(len(shape)) if a not in order)
    short = -shape[axis] % CHANNELS
    factor = _first(settled(found.filters), rest)
    factor = factor.pad([(0, short if a == axis else 0, 0) for a in range(len(shape))])
    order = (*order, *rest)
    n, *terms = factor.permute(order).shape
    plain = factor.permute(order).reshape((1, n, size(terms)))
    panels = in_panels(plain, lanes).reshape((n, *terms))
    return panels.permute([order.index(a) for a in range(len(order))])


def _first(x: UOp, axes: Sequence[int]) -> UOp:
    """The first element of some axes."""
    return x.shrink([(0, 1 if a in axes else n, 1) for a, n in enumerate(x.shape)])


# ---- what is one, and whether it pays


def _convolution(node: UOp, lanes: int) -> _Convolution | None:
    body = node.src[0]
    if node.arg[0] is not Ops.ADD or body.op is not Ops.MUL or not body.dtype.is_float:
        return None
    if not is_fixed(body.shape) or size(body.shape) < WORTH or not _has_places(node):
        return None
    windowed = [_has_windows(s) for s in body.src]
    if all(windowed) or (not any(windowed) and product(node) is not None):
        return None
    index = _index(body)
    places = [place(s, index) for s in body.src]
    least, best = _now(node, index, places, lanes), None
    for which in (i for i in range(2) if not windowed[i]):
        found = _along_channels(node, index, places, which)
        if found is not None and (any(windowed) or not _batch(node, index, places)):
            time = _time(node, found, lanes)
            if time < least:
                least, best = time, found
    return best


def _has_places(node: UOp) -> bool:
    """Is there an axis of the result beside the channels? (One row of a product has none.)"""
    reduced = node.arg[1]
    return sum(n != 1 for a, n in enumerate(node.src[0].shape) if a not in reduced) > 1


def _along_channels(
    node: UOp, index: Index, places: Sequence[UOp], which: int
) -> _Convolution | None:
    """The sum with one of its factors as filters; None where that has no channels of its own."""
    body, reduced = node.src[0], node.arg[1]
    windows, filters = body.src[1 - which], body.src[which]
    read, kept = places[1 - which], places[which]
    moving, own = ([a for a, i in enumerate(index) if i in ranges_of(at)] for at in (read, kept))
    channels = [a for a in own if a not in moving and a not in reduced]
    if not channels or not any(a not in own and a not in reduced for a in moving):
        return None
    axis = max(channels, key=body.shape.__getitem__)
    if body.shape[axis] < CHANNELS:
        return None
    steps = {a: coefficient(read, index[a]) or 0 for a in reduced if a in own}
    summed = sorted(steps, key=lambda a: -abs(steps[a]))
    others = tuple(a for a in own if a not in reduced and a != axis)
    down = [a for a in summed if steps[a] < 0]  # memory ahead is fetched before it is asked for
    far = min((abs(s) for s in steps.values() if s), default=0) > NEAR
    return _Convolution(windows.flip(down), filters.flip(down), axis, others, tuple(summed), far)


def _batch(node: UOp, index: Index, places: Sequence[UOp]) -> bool:
    """Is there an axis of the result that both factors walk?"""
    both = ranges_of(places[0]) & ranges_of(places[1])
    return any(i in both for a, i in enumerate(index) if a not in node.arg[1])


def _time(node: UOp, found: _Convolution, lanes: int) -> float:
    """The time of a sum along its channels, in that of full vectors: the factor in panels and the
    result are written in another order, unless that is the result's own."""
    shape, reduced = node.src[0].shape, node.arg[1]
    n = shape[found.channels]
    full = -(-n // CHANNELS) * CHANNELS / n
    terms = size([shape[a] for a in reduced])
    read = size(shape) / size([shape[a] for a in (found.channels, *found.kept, *found.summed)])
    full += LATE if found.far else 0
    return full + TURN * lanes * (1 / read + (found.channels != _last(node)) / terms)


def _last(node: UOp) -> int:
    """The last axis of the products along which the result lies."""
    shape, reduced = node.src[0].shape, node.arg[1]
    return max(a for a, n in enumerate(shape) if n != 1 and a not in reduced)


def _has_windows(factor: UOp) -> bool:
    """Do windows overlap or leave something out? Those of one place side by side are a matrix."""
    while factor.op in MOVEMENT or factor.op is Ops.CAST:
        if factor.op is Ops.WINDOW and factor.arg[1:3] != (1, 1):
            return True
        factor = factor.src[0]
    return False


def _now(node: UOp, index: Index, places: Sequence[UOp], lanes: int) -> float:
    """The time of a sum as it stands, in that of full vectors: along the last axis of the result,
    or along a summed one that both factors lie along."""
    reduced, last = node.arg[1], _last(node)
    steps = [[coefficient(at, i) for at in places] for i in index]
    times = [inf]
    if 1 in steps[last]:
        times.append(_steps_along(_length(node, steps, last), lanes))
    across = ACROSS if lanes >= LINE else 1.0
    along = (a for a in reduced if steps[a] == [1, 1])
    times += [across * _steps_along(_length(node, steps, a), lanes) for a in along]
    return min(times)


def _length(node: UOp, steps: Sequence[Sequence[int | None]], axis: int) -> int:
    """Of an axis, with those before it that go on where it ends."""
    shape, reduced = node.src[0].shape, node.arg[1]
    n = shape[axis]
    for a in (a for a in reversed(range(axis)) if shape[a] != 1):
        whole = [None if s is None else s * n for s in steps[axis]]
        if steps[a] != whole or None in whole or (a in reduced) != (axis in reduced):
            break
        n *= shape[a]
    return n


def _steps_along(n: int, lanes: int) -> float:
    """The time of a row, in that of full vectors: what does not fill one is shorter vectors, and
    single elements at the end."""
    shorter = [1 << i for i in range(lanes.bit_length()) if LEAST <= 1 << i < lanes]
    count = n // lanes + SHORTER * (sum(n // s % 2 for s in shorter) + n % min(LEAST, lanes))
    return count * lanes / n
