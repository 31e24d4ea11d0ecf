"""What a reduction or a scan becomes before anything is stored.

One that is long and has few results is split in two with a partial result between, so that every
core has work; what a divisor of the length leaves is a rest of its own. The split comes from the
shape alone, never from the number of cores: the order of a sum must not depend on the machine. A
sum of products may have its factors in an order of their own (`packing`, `channels`), and reads
nothing for places that hold nothing (`gaps`, `sampling`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..dtype import dtypes
from ..uop.ops import ELEMENTWISE, Ops, UOp, size, toposort
from ..uop.rewrite import over
from ..uop.sizes import capacity, is_fixed
from .channels import in_terms, turned
from .gaps import without_gaps
from .packing import View, merged, packed, viewed, widened
from .parts import in_parts
from .sampling import narrowed

FEW_RESULTS: Final = 7  # from 8 on a core has a row of its own, and rows need no second kernel
LONG: Final = 1 << 16  # elements read by the whole reduction
PARTS: Final = (64, 256)  # wanted number of partial results along the split axis


def rules_of(
    order: Sequence[UOp], roots: Sequence[UOp], lanes: int
) -> dict[Ops, Callable[[UOp, tuple[UOp, ...]], UOp]]:
    """The rules of a graph, whose nodes are given in order: (node, its new sources) -> node."""
    views = viewed(order, roots)
    return {
        Ops.REDUCE: lambda node, src: _reduction(
            over(node, src), lanes, views.get(node, View.WHOLE)
        ),
        Ops.SCAN: lambda node, src: _split_scan(over(node, src)),
    }


def _reduction(node: UOp, lanes: int, view: View) -> UOp:
    node = narrowed(node)
    whole = without_gaps(node, lambda part: _packed(part, lanes, View.WHOLE))
    if whole is not None:
        return whole
    split = _split_long(node)
    if split is not node:
        return split
    plain = merged(node)
    if plain is not node:
        made = _packed(plain, lanes, view)
        return node if made is plain else made.reshape(node.shape)
    return _packed(node, lanes, view)


def _packed(node: UOp, lanes: int, view: View) -> UOp:
    """A sum of products in parts, or with its factors in an order of their own. What is stored in
    another order than its own is stored in its own first, and nothing is packed for a part."""
    parts = in_parts(node, lanes)
    if parts is not None:
        return parts
    channels = turned(node, lanes)
    if channels is not None:
        return channels.plain()
    made = node if view is View.PART else packed(node, lanes)
    if made is node and view is not View.PART:
        made = in_terms(node, lanes)  # no product of matrices
    return widened(made).contiguous() if view is View.TURNED and made is not node else widened(made)


# ---- long ones


def _split_long(node: UOp) -> UOp:
    x = node.src[0]
    op, axes = node.arg
    if capacity(node.shape) > FEW_RESULTS or capacity(x.shape) < LONG:
        return node
    varying = tuple(a for a in axes if not is_fixed((x.shape[a],)))
    if varying:
        return _split_varying(node, varying)
    for axis in axes:
        parts = _parts(x.shape[axis])
        if parts is not None:
            return _in_parts(x, op, axes, axis, parts)
    if not is_fixed(x.shape):
        return node
    axis = max(axes, key=x.shape.__getitem__)
    n, parts = x.shape[axis], PARTS[0]
    if n < LONG // capacity(node.shape):
        return node
    main, rest = (_between(x, axis, *ends) for ends in ((0, n - n % parts), (n - n % parts, n)))
    return UOp.alu(op, _in_parts(main, op, axes, axis, parts), rest.reduce(op, axes))


def _in_parts(x: UOp, op: Ops, axes: Sequence[int], axis: int, parts: int) -> UOp:
    """A reduction whose `axis` is cut in equal parts, with the result of each part stored."""
    shape = x.shape
    split = x.reshape((*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]))
    inner = tuple(a + (a >= axis) for a in axes)
    partial = split.reduce(op, inner).contiguous()
    return partial.reduce(op, (axis - sum(a < axis for a in axes),))


def _between(x: UOp, axis: int, lo: int, hi: int) -> UOp:
    """The elements from `lo` to `hi` of an axis, cut out of what x is computed from: a part of its
    own is computed where it is needed, and x as a whole not stored for two readers."""
    new: dict[UOp, UOp] = {}
    for node in toposort((x,), lambda n: n.op in ELEMENTWISE):
        if node.op in ELEMENTWISE:
            new[node] = UOp(node.op, node.dtype, tuple(new[s] for s in node.src), node.arg)
        else:
            bounds = ((lo, hi, 1) if a == axis else (0, n, 1) for a, n in enumerate(node.shape))
            new[node] = node.shrink(tuple(bounds))
    return new[x]


def _split_varying(node: UOp, varying: tuple[int, ...]) -> UOp:
    """What varies first, then the rest, whose elements are the partial results."""
    op, axes = node.arg
    rest = tuple(a - sum(v < a for v in varying) for a in axes if a not in varying)
    partial = node.src[0].reduce(op, varying)
    many = capacity(partial.shape) > FEW_RESULTS
    return partial.contiguous().reduce(op, rest) if rest and many else node


def _split_scan(node: UOp) -> UOp:
    """A long scan of few rows: scans of parts, a scan of their totals, and both combined."""
    x = node.src[0]
    op, axis = node.arg
    length = x.shape[axis]
    if not is_fixed(x.shape) or length < LONG or size(x.shape) // length >= FEW_RESULTS:
        return node
    parts = _parts(length) or PARTS[0]
    steps = -(-length // parts)
    return _scan_of_parts(_resized(x, axis, parts * steps), op, axis, parts, steps, length)


def _scan_of_parts(x: UOp, op: Ops, axis: int, parts: int, steps: int, length: int) -> UOp:
    split = (*x.shape[:axis], parts, steps, *x.shape[axis + 1 :])
    inner = x.reshape(split).scan(op, axis + 1)
    totals = _between(inner, axis + 1, steps - 1, steps).scan(op, axis)
    pads = [(int(i == axis), 0, 0) for i in range(len(split))]
    before = _between(totals, axis, 0, parts - 1).pad(pads).expand(split)
    places = UOp.iota(parts, dtypes.int32).reshape(
        [parts if i == axis else 1 for i in range(len(split))]
    )
    first = UOp.alu(Ops.CMPEQ, places, UOp.const(dtypes.int32, 0).broadcast_to(places.shape))
    both = UOp.alu(Ops.WHERE, first.expand(split), inner, UOp.alu(op, before, inner))
    return _resized(both.reshape(x.shape), axis, length)


def _resized(x: UOp, axis: int, n: int) -> UOp:
    """x with zeros after the end of an axis, or without its end."""
    have = x.shape[axis]
    if n > have:
        return x.pad([(0, n - have, 0) if a == axis else (0, 0, 0) for a in range(len(x.shape))])
    return x.shrink([(0, n, 1) if a == axis else (0, m, 1) for a, m in enumerate(x.shape)])


def _parts(n: int) -> int | None:
    """The divisor of n nearest to the wanted number of parts, if there is a useful one."""
    low, high = PARTS
    candidates = [d for d in range(8, min(high, n) + 1) if n % d == 0]
    return min(candidates, key=lambda d: abs(d - low)) if candidates else None
