"""Rewrites of the tensor graph before anything is stored: what makes the later decisions simple.

Constants are stored where a buffer is read or wanted. A reduction that is long and has few results
is split in two with a partial result between, so that every core has work and float sums stay
accurate. The split comes from the shape alone, never from the number of cores: the order of a sum
must not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..dtype import dtypes
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.sizes import capacity, is_fixed
from .packing import packed

FEW_RESULTS: Final = 7  # from 8 on a core has a row of its own, and rows need no second kernel
LONG: Final = 1 << 16  # elements read by the whole reduction
DEEP: Final = 1 << 22  # elements of one result: float32 stops counting at 2^24
# nodes without storage of their own
_LEAVES: Final = frozenset({Ops.CONST, Ops.IOTA, Ops.VARIABLE})
_WHOLE: Final = frozenset({Ops.GATHER, Ops.SCATTER, Ops.COPY, Ops.KERNEL})  # these read buffers
PARTS: Final = (64, 256)  # wanted number of partial results along the split axis


def prepare(roots: Sequence[UOp]) -> list[UOp]:
    """The same roots with long reductions split; nodes that need no change stay the same."""
    new: dict[UOp, UOp] = {}
    for node in toposort(roots):
        src = tuple(new[s] for s in node.src)
        if node.op is Ops.FUNCTION:  # its rule is for gradients
            new[node] = src[node.arg[1]]
            continue
        if node.op in _WHOLE:
            src = tuple(s.contiguous() if s.base.op in _LEAVES else s for s in src)
        if node.op is Ops.KERNEL:  # it reads memory, whatever the shape
            src = tuple(map(_memory, src))
        same = all(a is b for a, b in zip(src, node.src, strict=True))
        kept = node if same else UOp(node.op, node.dtype, src, node.arg)
        new[node] = _SPLIT[node.op](kept) if node.op in _SPLIT else kept
    return [new[r].contiguous() if new[r].op in _LEAVES else new[r] for r in roots]


def _memory(node: UOp) -> UOp:
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node


def _split_long(node: UOp) -> UOp:
    x = node.src[0]
    op, axes = node.arg
    few = capacity(node.shape) <= FEW_RESULTS and capacity(x.shape) >= LONG
    if not few and capacity(x.shape) < DEEP * capacity(node.shape):
        return node
    varying = tuple(a for a in axes if not is_fixed((x.shape[a],)))
    if varying:
        return _split_varying(node, varying)
    for axis in axes:
        parts = _parts(x.shape[axis])
        if parts is None:
            continue
        shape = x.shape
        split = x.reshape((*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]))
        inner = tuple(a + (a > axis) if a != axis else axis + 1 for a in axes)
        partial = _split_long(split.reduce(op, inner)).contiguous()
        return partial.reduce(op, (axis - sum(a < axis for a in axes),))
    return node


def _split_varying(node: UOp, varying: tuple[int, ...]) -> UOp:
    """What varies first, then the rest, whose elements are the partial results."""
    op, axes = node.arg
    rest = tuple(a - sum(v < a for v in varying) for a in axes if a not in varying)
    partial = node.src[0].reduce(op, varying)
    many = capacity(partial.shape) > FEW_RESULTS
    return partial.contiguous().reduce(op, rest) if rest and many else node


def _reduction(node: UOp) -> UOp:
    split = _split_long(node)
    return packed(node) if split is node else split


def _split_scan(node: UOp) -> UOp:
    """A long scan of few rows: scans of parts, a scan of their totals, and both combined."""
    x = node.src[0]
    op, axis = node.arg
    shape, length = x.shape, x.shape[axis]
    long = is_fixed(shape) and length >= LONG and size(shape) // length < FEW_RESULTS
    parts = _parts(length) if long else None
    if parts is None:
        return node
    split = (*shape[:axis], parts, length // parts, *shape[axis + 1 :])
    inner = x.reshape(split).scan(op, axis + 1)
    last = [(0, n, 1) for n in split]
    last[axis + 1] = (length // parts - 1, length // parts, 1)
    totals = inner.shrink(last).scan(op, axis)
    shifted = [(0, n, 1) for n in totals.shape]
    shifted[axis] = (0, parts - 1, 1)
    pads = [(int(i == axis), 0, 0) for i in range(len(split))]
    before = totals.shrink(shifted).pad(pads).expand(split)
    places = UOp.iota(parts, dtypes.int32).reshape(
        [parts if i == axis else 1 for i in range(len(split))]
    )
    first = UOp.alu(Ops.CMPEQ, places, UOp.const(dtypes.int32, 0).broadcast_to(places.shape))
    return UOp.alu(Ops.WHERE, first.expand(split), inner, UOp.alu(op, before, inner)).reshape(shape)


_SPLIT: Final = {Ops.REDUCE: _reduction, Ops.SCAN: _split_scan}


def _parts(n: int) -> int | None:
    """The divisor of n nearest to the wanted number of parts, if there is a useful one."""
    low, high = PARTS
    candidates = [d for d in range(8, min(high, n) + 1) if n % d == 0]
    return min(candidates, key=lambda d: abs(d - low)) if candidates else None
