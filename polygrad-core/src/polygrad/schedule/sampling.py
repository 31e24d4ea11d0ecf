"""Some places of a tensor, taken below the movements on top of it.

`x.shrink(...)` says the same on top; but what is stored, and what a recipe sees, is then still all
of what lies below: an array spread by zeros of which only the elements are read. Here each movement
is made anew over the places that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import Any, Final

from ..uop.ops import MOVEMENT, Ops, Shape, UOp, size
from ..uop.sizes import is_fixed

VIEWS: Final = MOVEMENT | {Ops.CAST}
# (first, count, step) along each axis; they may begin before it and go on after its end.
Places = list[tuple[int, int, int]]


def sampled(x: UOp, places: Places) -> UOp:
    """x at some places of each axis. Outside of an axis stands anything."""
    if all(p == (0, n, 1) for p, n in zip(places, x.shape, strict=True)):
        return x
    if not all(count for _, count, _ in places):
        return UOp.const(x.dtype, 0).broadcast_to([count for _, count, _ in places])
    rule = _RULES.get(x.op, _cut)
    return rule(x, places)


def narrowed(node: UOp) -> UOp:
    """A sum of products of parts of what is padded, padded by no more than is read: the gradient of
    a convolution's images, of which that of their padding is cut off."""
    body = node.src[0]
    if node.arg[0] is not Ops.ADD or body.op is not Ops.MUL or not is_fixed(body.shape):
        return node
    factors = tuple([_narrowed(s) for s in body.src])
    return node if factors == body.src else UOp.alu(Ops.MUL, *factors).reduce(*node.arg)


def _narrowed(factor: UOp) -> UOp:
    if factor.op is not Ops.SHRINK or not is_constant(factor):
        return factor
    if not any(move.op is Ops.PAD for move in views(factor)):
        return factor
    places = [(lo, -(-(hi - lo) // step), step) for lo, hi, step in factor.arg]
    return sampled(factor.src[0], places)


def views(x: UOp) -> Iterator[UOp]:
    """The movements and conversions on top of what is computed or stored."""
    while x.op in VIEWS:
        yield x
        x = x.src[0]


def is_constant(x: UOp) -> bool:
    """Is no size or place of the movements on top of it one that varies?"""
    return all(is_fixed(v.src[0].shape) and is_fixed(_numbers(v.arg)) for v in views(x))


def _numbers(arg: Any) -> tuple[int, ...]:
    """All numbers of a movement's argument, in which pairs and triples stand."""
    if not isinstance(arg, tuple):
        return () if arg is None else (arg,)
    return tuple(n for part in arg for n in _numbers(part))


def _cut(x: UOp, places: Places) -> UOp:
    """On top of x, zeros outside."""
    inside, pads = _inside(x.shape, places)
    bounds = [(f, f + (c - 1) * s + 1 if c else f, s) for f, c, s in inside]
    return x.shrink(bounds).pad(pads)


def _inside(shape: Shape, places: Places) -> tuple[Places, list[tuple[int, int, int]]]:
    """The places that there are, and how many lie before and after them."""
    inside: Places = []
    pads = []
    for n, (first, count, step) in zip(shape, places, strict=True):
        before = min(max(-(first // step), 0), count)
        after = min(max(count - max(-((first - n) // step), 0), 0), count - before)
        left = count - before - after
        inside.append((first + before * step if left else 0, left, step))
        pads.append((before, after, 0))
    return inside, pads


def _cast(x: UOp, places: Places) -> UOp:
    return sampled(x.src[0], places).cast(x.dtype)


def _permute(x: UOp, places: Places) -> UOp:
    inner = list(places)
    for place, axis in zip(places, x.arg, strict=True):
        inner[axis] = place
    return sampled(x.src[0], inner).permute(x.arg)


def _expand(x: UOp, places: Places) -> UOp:
    old = x.src[0].shape
    inner = [p if m == n else (0, 1, 1) for p, m, n in zip(places, old, x.shape, strict=True)]
    return sampled(x.src[0], inner).expand([count for _, count, _ in places])


def _flip(x: UOp, places: Places) -> UOp:
    inner = list(places)
    for axis in x.arg:
        first, count, step = places[axis]
        inner[axis] = (x.shape[axis] - 1 - first - (count - 1) * step, count, step)
    return sampled(x.src[0], inner).flip(x.arg)


def _shrink(x: UOp, places: Places) -> UOp:
    inner = [
        (start + first * by, count, step * by)
        for (first, count, step), (start, _, by) in zip(places, x.arg, strict=True)
    ]
    return sampled(x.src[0], inner)


def _pad(x: UOp, places: Places) -> UOp:
    """Axes that are read at every element that was spread, or at none between, lose their zeros;
    others are padded as before and cut on top."""
    old = x.src[0].shape
    inner: Places = []
    pads, on_top = [], []
    for n, (first, count, step), around in zip(old, places, x.arg, strict=True):
        before, _, interior = around
        if (first - before) % (interior + 1) or step % (interior + 1):
            inner.append((0, n, 1))
            pads.append(around)
            on_top.append((first, count, step))
            continue
        place = ((first - before) // (interior + 1), count, step // (interior + 1))
        (here,), (zeros,) = _inside((n,), [place])
        inner.append(here)
        pads.append(zeros)
        on_top.append((0, count, 1))
    return _cut(sampled(x.src[0], inner).pad(pads), on_top)


def _reshape(x: UOp, places: Places) -> UOp:
    old, new = x.src[0].shape, x.shape
    inner: Places = [(0, n, 1) for n in old]
    for axis, n in enumerate(new):
        if places[axis] != (0, n, 1):
            before = size(new[:axis])
            same = (a for a, m in enumerate(old) if m == n and size(old[:a]) == before)
            found = next(same, None)
            if found is None or n == 1:
                return _cut(x, places)
            inner[found] = places[axis]
    return sampled(x.src[0], inner).reshape([count for _, count, _ in places])


def _window(x: UOp, places: Places) -> UOp:
    axis, _, stride, dilation = x.arg
    (first, count, step), (start, terms, by) = places[axis], places[-1]
    far, near = step * stride, by * dilation
    each = far if terms == 1 else near if count == 1 else gcd(far, near)
    inner = list(places[:-1])
    whole = (count - 1) * far + (terms - 1) * near
    inner[axis] = (first * stride + start * dilation, whole // each + 1, each)
    made = sampled(x.src[0], inner)
    if terms == 1:
        return made.reshape((*made.shape, 1))
    return made.window(axis, terms, far // each if count > 1 else 1, near // each)


_RULES: Final[dict[Ops, Callable[[UOp, Places], UOp]]] = {
    Ops.CAST: _cast,
    Ops.PERMUTE: _permute,
    Ops.EXPAND: _expand,
    Ops.FLIP: _flip,
    Ops.SHRINK: _shrink,
    Ops.PAD: _pad,
    Ops.RESHAPE: _reshape,
    Ops.WINDOW: _window,
}
