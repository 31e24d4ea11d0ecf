"""Gaps: sums of products that read what a stride has spread, without the zeros between.

What flows back through a convolution with a stride, and the images of a transposed one, have
`stride - 1` zeros between neighbours; windows of them are summed. A place of the result meets an
element only at every stride-th term, and which terms those are says its remainder by the stride.
So places are sorted by remainder: each kind is a plain convolution of what was there before it was
spread with a part of the filter (3 x 3 with a stride of 2: four kinds, of 4, 2, 2 and 1 terms).
Kinds with as many terms are one convolution with more channels, so there are two of them along an
axis at most, and one where the stride divides the window. A last kernel puts them together.

The gradient of a transposed convolution's filter is the same with the axes' roles exchanged: the
result moves along the window and the sum along the places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, product
from math import gcd
from typing import Final, NamedTuple

from ..dtype import dtypes
from ..uop.linear import linear, ranges_of
from ..uop.ops import Ops, UOp, size
from .indexing import Index, place, source_index
from .sampling import Places, is_constant, sampled, views

WORTH: Final = 1 << 18  # products that pay for more kernels
MOST: Final = 16  # kinds of places that are told apart


class Gap(NamedTuple):
    """Element `(kept * i + summed * k + at) / stride` of what was spread is read at step i of a
    kept axis and step k of a summed one, and 0 where that is no whole number."""

    axes: tuple[int, int]  # of the products: kept, summed
    kept: int  # 1 or -1
    summed: int
    at: int
    stride: int


class Run(NamedTuple):
    """Neighbouring kinds of places whose terms are the same elements times others."""

    kinds: int
    first: int  # place of the first kind
    start: int  # its first term
    terms: int
    step: int  # from one term to the next


class Cut(NamedTuple):
    """The kinds of places along the kept axis of a gap."""

    gap: Gap
    before: int  # places that are computed before the first one, so that all kinds begin with it
    places: int  # of each kind
    runs: tuple[Run, ...]
    turn: int  # 1 if the first terms of neighbouring kinds are neighbours, -1 if in reverse


def without_gaps(node: UOp, made: Callable[[UOp], UOp]) -> UOp | None:
    """A sum of products whose zeros between elements are left out; None for what has none, and
    where that does not pay. `made` says how one of the sums is computed."""
    body = node.src[0]
    if node.arg[0] is not Ops.ADD or body.op is not Ops.MUL or not any(map(_spread, body.src)):
        return None
    if not all(map(is_constant, body.src)) or size(body.shape) < WORTH:
        return None
    gaps = [_gaps(node, i) for i in range(2)]
    found = max(range(2), key=lambda i: len(gaps[i]))
    cuts = [_cut(gap, *(body.shape[a] for a in gap.axes)) for gap in gaps[found]]
    if not cuts or size([len(c.runs) for c in cuts]) > MOST:
        return None
    blocks = {
        runs: _block(node, found, cuts, runs, made) for runs in product(*(c.runs for c in cuts))
    }
    return _together(node, cuts, blocks)


def _spread(factor: UOp) -> bool:
    """Does it read something with zeros between?"""
    pads = (v.arg for v in views(factor) if v.op is Ops.PAD)
    return any(interior for arg in pads for _, _, interior in arg)


# ---- what there is


class _Pad(NamedTuple):
    """A padded axis: where it is read, and where the others are."""

    at: UOp  # from its first element on
    others: tuple[UOp, ...]
    interior: int


def _gaps(node: UOp, which: int) -> list[Gap]:
    """The gaps of a factor that a kept axis and a summed one walk together, where the other factor
    is the same for all places of the kept one."""
    body, reduced = node.src[0], node.arg[1]
    index = tuple(UOp.range(0, n, i) if n != 1 else UOp.index(0) for i, n in enumerate(body.shape))
    fixed = ranges_of(place(body.src[1 - which], index))
    pads = list(_pads(body.src[which], index))
    found: list[Gap] = []
    for number, pad in enumerate(pads):
        gap = _gap(pad, index, reduced)
        if gap is None or gap in found or index[gap.axes[0]] in fixed:
            continue
        if all(_along(above.at, index, gap) for above in pads[:number]):
            found.append(gap)
    used = [a for gap in found for a in gap.axes]
    return found if len(used) == len(set(used)) else []


def _pads(factor: UOp, index: Index) -> Iterator[_Pad]:
    """What is padded on the way down."""
    for view in views(factor):
        if view.op is Ops.PAD:
            for axis, (before, after, interior) in enumerate(view.arg):
                if before or after or interior:
                    others = (*index[:axis], *index[axis + 1 :])
                    yield _Pad(index[axis] - before, others, interior)
        if view.op is not Ops.CAST:
            index, _ = source_index(view, index)


def _gap(pad: _Pad, index: Index, reduced: Sequence[int]) -> Gap | None:
    """The gap between the elements of an axis that a kept axis and a summed one walk alone."""
    const, terms = linear(pad.at)
    walked = {index.index(atom): c for atom, c in terms if atom in index}
    if not pad.interior or len(walked) != 2 or len(terms) != 2:
        return None
    i, k = sorted(walked, key=lambda a: a in reduced)
    elsewhere = frozenset[UOp]().union(*map(ranges_of, pad.others))
    if i in reduced or k not in reduced or abs(walked[i]) != 1 or {index[i], index[k]} & elsewhere:
        return None
    return Gap((i, k), walked[i], walked[k], const, pad.interior + 1)


def _along(at: UOp, index: Index, gap: Gap) -> bool:
    """Does a place move with both axes as the gap does, or with neither?"""
    i, k = (index[a] for a in gap.axes)
    moves = dict(linear(at)[1])
    if i in moves or k in moves:
        return (moves.get(i), moves.get(k)) == (gap.kept, gap.summed)
    return not {i, k} & ranges_of(at)


# ---- kinds of places


def _cut(gap: Gap, places: int, terms: int) -> Cut:
    """The terms of place i are those k with k = turn * (i + at) by the stride. Kinds that are one
    run are numbered so that the first terms of all go from 0 up, or down to 0."""
    stride, turn = gap.stride, -gap.kept * gap.summed
    before = (gap.kept * gap.at - (turn < 0)) % stride
    starts = list(range(stride))[:: -1 if turn < 0 else 1]
    runs, first = [], -before
    for count, same in groupby(starts, key=lambda start: len(range(start, terms, stride))):
        some = list(same)
        runs.append(Run(len(some), first, some[0], count, stride))
        first += len(some)
    if abs(turn) != 1 or len(runs) == stride:  # nothing to be won by places before the first
        apart = tuple(_run(gap, kind, terms) for kind in range(stride))
        return Cut(gap, 0, -(-places // stride), apart, 1)
    return Cut(gap, before, -(-(places + before) // stride), tuple(runs), turn)


def _run(gap: Gap, kind: int, terms: int) -> Run:
    """One kind of a dilated window, whose terms take other steps than its places."""
    step = gap.stride // gcd(gap.stride, gap.summed)
    at = gap.kept * kind + gap.at
    start = next((k for k in range(step) if (at + gap.summed * k) % gap.stride == 0), terms)
    return Run(1, kind, start, len(range(start, terms, step)), step)


# ---- one convolution


def _block(
    node: UOp, which: int, cuts: Sequence[Cut], runs: Sequence[Run], made: Callable[[UOp], UOp]
) -> UOp | None:
    """The places of some kinds, these as axes of their own before them (rows are long, kinds are
    few); None where all are 0."""
    if not all(run.terms for run in runs):
        return None
    body = node.src[0]
    read: Places = [(0, n, 1) for n in body.shape]
    other = body.src[1 - which]
    whole: Places = list(read)
    for cut, run in zip(cuts, runs, strict=True):
        i, k = cut.gap.axes
        read[i] = (run.first, cut.places, cut.gap.stride)
        read[k] = (run.start, run.terms, run.step)
        whole[i] = (0, 1, 1)
    spread, other = sampled(body.src[which], read), sampled(other, whole)
    more, rank = len(runs), len(body.shape)
    spread = spread.reshape((*(1 for _ in runs), *spread.shape))
    for cut, run in zip(cuts, runs, strict=True):
        other = _terms(other, cut, run)
    other = other.permute((*range(rank, rank + more), *range(rank)))
    shape = [max(n, m) for n, m in zip(spread.shape, other.shape, strict=True)]
    factors = [spread.expand(shape), other.expand(shape)]
    product_ = UOp.alu(Ops.MUL, *(factors if which == 0 else factors[::-1]))
    return made(product_.reduce(Ops.ADD, [a + more for a in node.arg[1]]))


def _terms(x: UOp, cut: Cut, run: Run) -> UOp:
    """The terms of each kind of a run, the kinds as one more axis."""
    axis = cut.gap.axes[1]
    if run.kinds == 1:
        x = sampled(x, _at(x, axis, (run.start, run.terms, run.step)))
        return x.reshape((*x.shape, 1))
    start = run.start if cut.turn > 0 else run.start - run.kinds + 1
    x = sampled(x, _at(x, axis, (start, run.terms * run.step, 1)))
    shape, rank = x.shape, len(x.shape)
    x = x.reshape((*shape[:axis], run.terms, run.step, *shape[axis + 1 :]))
    x = x.permute((*range(axis + 1), *range(axis + 2, rank + 1), axis + 1))
    x = x.shrink([*((0, m, 1) for m in x.shape[:-1]), (0, run.kinds, 1)])
    return x if cut.turn > 0 else x.flip((rank,))


def _at(x: UOp, axis: int, places: tuple[int, int, int]) -> Places:
    return [places if a == axis else (0, n, 1) for a, n in enumerate(x.shape)]


# ---- all of them together


def _together(node: UOp, cuts: Sequence[Cut], blocks: Mapping[tuple[Run, ...], UOp | None]) -> UOp:
    """The result from its kinds of places, put together in the order in which they lie."""
    more, rank = len(cuts), len(node.shape)
    order = next((x.arg for x in blocks.values() if x is not None and x.op is Ops.PERMUTE), None)
    order = tuple(range(more + rank)) if order is None else order
    kept = [a for a in range(len(node.src[0].shape)) if a not in node.arg[1]]
    at = [kept.index(cut.gap.axes[0]) for cut in cuts]
    parts = {runs: None if x is None else _lying(x, order) for runs, x in blocks.items()}
    for g in reversed(range(more)):
        heads = dict.fromkeys(runs[:g] for runs in parts)
        axis = order[g]
        parts = {
            head: _joined([(r.kinds, parts[head + (r,)]) for r in cuts[g].runs], axis)
            for head in heads
        }
    whole = parts[()]
    if whole is None:
        return UOp.const(node.dtype, 0).broadcast_to(node.shape)
    # Each axis of kinds comes after the places that it is between.
    back = sorted(range(rank), key=lambda a: order[more + a])  # results' axes as they lie
    near = [order[m] for a in back for m in ((more + a, at.index(a)) if a in at else (more + a,))]
    whole = whole.permute(near)
    if len(blocks) > 1:
        whole = whole.contiguous()
    shape = list(node.shape)
    bounds = [(0, n, 1) for n in node.shape]
    for a, cut in zip(at, cuts, strict=True):
        shape[a] = cut.places * cut.gap.stride
        bounds[a] = (cut.before, cut.before + node.shape[a], 1)
    whole = whole.reshape([shape[a] for a in back])
    return whole.permute([back.index(a) for a in range(rank)]).shrink(bounds)


def _lying(block: UOp, order: tuple[int, ...]) -> UOp:
    """A block stored, with its axes in the order in which all blocks lie."""
    if block.op is Ops.PERMUTE and block.arg == order:
        return block.src[0]
    plain = block if block.base.op is Ops.CONTIGUOUS else block.contiguous()
    return plain.permute([order.index(a) for a in range(len(order))]).contiguous()


def _joined(parts: Sequence[tuple[int, UOp | None]], axis: int) -> UOp | None:
    """Parts of so many steps one after another along an axis; None are zeros."""
    length, before = sum(n for n, _ in parts), 0
    whole: UOp | None = None
    for n, part in parts:
        if part is not None:
            pads = [(0, 0, 0)] * len(part.shape)
            pads[axis] = (before, length - before - n, 0)
            inside = UOp.const(dtypes.bool, True).broadcast_to(part.shape).pad(pads)
            here = part.pad(pads)
            whole = here if whole is None else inside.where(here, whole)
        before += n
    return whole
