"""Assignments that leave most of a buffer alone store their box only.

`x[..., p] = v` is `where(inside, v, x)` to the tensor floor: a new value of the whole. In place
that reads every element and writes it back. Here, over finished kernels: a store whose value is
what was there but for a box becomes a store of the box, its loops over the box's elements. A
condition is read as bounds of loops: `p <= r`, `r < p + 1` make the loop of r one over the places
from p on. What proves true then (the gates of v's loads too) falls away; what does not, such as a
mask, gates the store.

Writes in a row are boxes inside each other's rest: a kernel each, in order, if no later one reads
what an earlier one wrote, and if that is less work than one pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..dtype import dtypes
from ..uop.linear import coefficient, linear, node, plus, ranges_of
from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import substitute
from .build import KernelBuilder

# Elements of a pass that one more kernel is worth. Running it takes as long as a tenth of them (m);
# the rest is for compiling it, which a loop that writes to a small table would never earn.
LAUNCH: Final = 1024


class Overlay(NamedTuple):
    """`value` where `condition` holds."""

    condition: UOp
    value: UOp


class Piece(NamedTuple):
    """A store over the elements of one box: how many they are at most, and the loops' places."""

    store: UOp
    places: tuple[tuple[UOp, UOp], ...]
    elements: int


class _Sides(NamedTuple):
    """What a condition says of one loop: starts, ends (not included), (multiple, remainder)."""

    starts: list[UOp]
    ends: list[UOp]
    steps: list[tuple[int, int]]


def boxed(kernel: KernelBuilder) -> list[KernelBuilder]:
    """Kernels that do what `kernel` does, in order: itself if it writes no box."""
    whole: list[UOp] = []
    parts: dict[tuple[int, tuple[tuple[UOp, UOp], ...]], list[Piece]] = {}
    for store in kernel.stores:
        pieces = _pieces(kernel, store)
        if pieces is None:
            whole.append(store)
            continue
        for level, piece in enumerate(pieces):
            if piece.elements:
                parts.setdefault((level, piece.places), []).append(piece)
    if len(whole) == len(kernel.stores):
        return [kernel]
    runs = [whole] if whole else []
    runs += [[p.store for p in parts[key]] for key in sorted(parts, key=lambda key: key[0])]
    work = sum(LAUNCH + same[0].elements for same in parts.values())
    if not _independent(runs) or (len(parts) > 1 and work > len(parts) * _extent(kernel.stores[0])):
        return [kernel]
    return [_kernel(kernel, stores) for stores in runs]


def _kernel(kernel: KernelBuilder, stores: Sequence[UOp]) -> KernelBuilder:
    """Some of the stores as a kernel, with the parameters that they use."""
    leaves, made = list(kernel.slots), KernelBuilder()
    sink = UOp(Ops.SINK, dtypes.void, tuple(stores))
    params = [n for n in sink.toposort() if n.op is Ops.PARAM]
    new = substitute(sink, {p: made.param(leaves[p.arg[0]]) for p in params})
    made.stores.extend(new.src)
    return made


def _extent(store: UOp) -> int:
    """The most elements that a store of the whole writes."""
    return math.prod(map(_length, ranges_of(store.src[0])))


def _length(loop: UOp) -> int:
    """The most steps of a loop."""
    first, last = loop.src
    return int(last.hi or 0) - int(first.lo or 0)


def _independent(runs: Sequence[Sequence[UOp]]) -> bool:
    """Whether no later kernel reads what an earlier one writes."""
    written: set[UOp] = set()
    for stores in runs:
        loads = [n for n in toposort(stores) if n.op is Ops.LOAD]
        if any(n.src[0].src[0] in written for n in loads):
            return False
        written.update(s.src[0].src[0] for s in stores)
    return True


# ---- one store


def _pieces(kernel: KernelBuilder, store: UOp) -> list[Piece] | None:
    """The boxes that `store` writes, in order; None if it is no store of boxes."""
    overlays = _overlays(kernel, store)
    if overlays is None:
        return None
    pieces = [_piece(store.src[0], overlay) for overlay in overlays]
    return None if None in pieces else pieces  # type: ignore[return-value]


def _overlays(kernel: KernelBuilder, store: UOp) -> list[Overlay] | None:
    """What lies over the old value of the very element, first written first; None if the new value
    is anything else."""
    address, value = store.src[:2]
    leaf = list(kernel.slots)[address.src[0].arg[0]]
    old = UOp(Ops.LOAD, address.dtype, (address,))
    if leaf.dtype is dtypes.bool:  # a byte in memory
        old, value = old.cast(dtypes.bool), value.src[0] if value.op is Ops.CAST else value
    found: list[Overlay] = []
    while value.op is Ops.WHERE:
        condition, new, value = value.src
        found.append(Overlay(condition, new.cast(address.dtype)))
    return found[::-1] if value is old and len(store.src) == 2 else None


def _piece(address: UOp, overlay: Overlay) -> Piece | None:
    """The store of an overlay over its box; None if the box is the whole."""
    loops = [r for r in ranges_of(address.src[1]) if r.arg[1] == "loop"]
    sides = {r: _Sides([], [], []) for r in loops}
    for part in _conjuncts(overlay.condition):
        _read(part, sides)
    elements, table = 1, {}
    for loop in sorted(loops, key=lambda r: int(r.arg[0])):
        place, count = _place(loop, sides[loop])
        elements *= count
        if place is not loop:
            table[loop] = place
    if not table:
        return None
    store = UOp(Ops.STORE, dtypes.void, (address, overlay.value, overlay.condition))
    return Piece(substitute(store, table), tuple(table.items()), elements)


def _conjuncts(condition: UOp) -> Iterator[UOp]:
    stack = [condition]
    while stack:
        part = stack.pop()
        if part.op is Ops.AND:
            stack.extend(part.src)
        else:
            yield part


def _read(part: UOp, sides: dict[UOp, _Sides]) -> None:
    """Note what a comparison of positions says of one loop. One that is not understood is left to
    the store's gate."""
    if part.op not in _BOUNDS or part.src[0].dtype is not dtypes.index:
        return
    a, b = part.src
    loops = [r for r in sides if r in ranges_of(part)]
    if len(loops) != 1:
        return
    (loop,) = loops
    if part.op is Ops.CMPEQ:
        _read_step(a, b, loop, sides[loop])
        return
    less = plus(linear(b), linear(a), -1)  # a < b: 0 < less
    factor = coefficient(node(less), loop)
    if factor is None or abs(factor) != 1:
        return
    rest = plus(less, (0, ((loop, factor),)), -1)
    strict = int(part.op is Ops.CMPLT)
    if factor == 1:
        sides[loop].starts.append(node(plus((strict, ()), rest, -1)))
    else:
        sides[loop].ends.append(node(plus((1 - strict, ()), rest)))


def _read_step(a: UOp, b: UOp, loop: UOp, sides: _Sides) -> None:
    """(c + r) % n == 0, and (c - r) % n == 0"""
    if a.op is not Ops.FLOORMOD or a.src[1].op is not Ops.CONST or linear(b) != (0, ()):
        return
    const, terms = linear(a.src[0])
    if len(terms) == 1 and terms[0][0] is loop and abs(terms[0][1]) == 1:
        sides.steps.append((a.src[1].arg, -const * terms[0][1]))


_BOUNDS: Final = frozenset({Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ})


def _place(loop: UOp, sides: _Sides) -> tuple[UOp, int]:
    """Where the steps of a loop lie that a condition leaves, and how many they are; the loop itself
    where it leaves all.

    Any start and end that hold will do: the condition gates what they leave too much.
    """
    first, last = loop.src
    length = _length(loop)
    start, count = _shortest([*sides.starts, first], [*sides.ends, last])
    if count is None or count >= length:
        return loop, length
    step = 1
    if sides.steps and start.op is Ops.CONST:
        step, remainder = sides.steps[0]
        skipped = (remainder - start.arg) % step
        start, count = start + skipped, -(-(count - skipped) // step)
    if count <= 0:
        return start, 0
    steps = UOp.index(0) if count == 1 else UOp.range(0, count, loop.arg[0], "loop")
    return _kept_inside(start, (count - 1) * step, loop) + steps * step, count


def _shortest(starts: Sequence[UOp], ends: Sequence[UOp]) -> tuple[UOp, int | None]:
    """The pair with the fewest steps between, where that is constant."""
    best: tuple[UOp, int | None] = starts[0], None
    for start in starts:
        for end in ends:
            count, terms = plus(linear(end), linear(start), -1)
            if not terms and (best[1] is None or count < best[1]):
                best = start, count
    return best


def _kept_inside(start: UOp, reach: int, loop: UOp) -> UOp:
    """`start`, moved so that no step reads or writes outside the loop where its bounds do not say
    so."""
    first, last = loop.src
    after = last - (reach + 1)
    if (first <= start).lo != 1:
        start = UOp.alu(Ops.MAXIMUM, start, first)
    return start if (start <= after).lo == 1 else UOp.alu(Ops.MINIMUM, start, after)
