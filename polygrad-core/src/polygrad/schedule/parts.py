"""Long sums of products in parts, each over operands that stay near the core.

A tile of the result reads its rows and columns of both factors from end to end. Where the sum is
long and the result small (the gradient of a weight, summed over a large batch), they do not stay in
the second cache from one tile to the next, and every tile reads them from memory again. So the sum
is cut: all tiles of one part, then all of the next, and a last kernel adds the parts up. Partial
results are stored, which pays where they are fewer than what the tiles would read. (Measured on
AVX2, one thread, against torch: `g.T @ h` of 8192 x 256 goes from 0.40 to 0.82, the gradient of a
filter, 8 x 64 x 56 x 56, from 1.0 to 1.2.)

The cut comes from the shape alone: a sum has one order on every machine.
"""

from __future__ import annotations

from typing import Final

from ..uop.ops import Ops, UOp, size
from ..uop.sizes import is_fixed
from .channels import turned
from .packing import (
    Product,
    in_panels,
    lies_across,
    lies_along,
    panel,
    product,
    settled,
    widened,
)

PART: Final = 512  # steps of a part: rows and columns of a tile fit the first cache
LONG: Final = 4 * PART
NEAR: Final = 4096  # steps of a part of many axes: a panel of one factor stays near the core
LEAST: Final = 128  # rows and columns of a result that is worth parts
APART: Final = 64  # the same where each step of the sum reads both factors somewhere else


def in_parts(node: UOp, lanes: int = 0) -> UOp | None:
    """A sum of products as a sum of partial sums, None for what is summed at once."""
    body = node.src[0]
    if node.arg[0] is not Ops.ADD or body.op is not Ops.MUL or not is_fixed(body.shape):
        return None
    axes = product(node)
    return _by_axis(node, lanes) if axes is None else _along(node, axes, lanes)


def _along(node: UOp, axes: Product, lanes: int) -> UOp | None:
    """A matrix product with k cut: first a batch of products, one for each part."""
    shape = node.src[0].shape
    m, n, k = (shape[a] for a in axes)
    if size(shape) != m * n * k or k < LONG or min(m, n) < _least(node.src[0], axes):
        return None
    each = next((c for c in range(PART, 2 * PART) if k % c == 0), k)
    parts = k // each
    if parts < 2 or 2 * parts * m * n > (m + n) * k:
        return None

    def cut(factor: UOp, axis: int, length: int) -> UOp:
        turned = axis > axes.k
        plain = factor.reshape((k, length)).permute((1, 0)) if turned else factor
        return plain.reshape((length, parts, each)).permute((1, 0, 2))

    left, right = (s.src[0] for s in node.src[0].src)
    left, right = cut(left, axes.m, m), cut(right, axes.n, n)
    if panel(n, lanes):
        right = in_panels(right, lanes)
    if lies_across(node.src[0].src[0], axes, lanes):
        left = settled(left).contiguous()
    whole = (parts, m, n, each)
    wide = left.reshape((parts, m, 1, each)).expand(whole)
    body = UOp.alu(Ops.MUL, wide, right.reshape((parts, 1, n, each)).expand(whole))
    inner = widened(UOp(Ops.REDUCE, node.dtype, (body,), (Ops.ADD, (3,))))
    return inner.contiguous().reduce(Ops.ADD, (0,)).reshape(node.shape)


def _least(body: UOp, axes: Product) -> int:
    """Rows and columns that are worth parts. A tile that goes down two columns reads a part of a
    cache line at each step, and needs the rest of it when the next tile does (a gradient of
    256 x 64 over 8192: 2.0x)."""
    return LEAST if any(lies_along(s, axes.k) for s in body.src) else APART


def _by_axis(node: UOp, lanes: int) -> UOp | None:
    """A sum over several axes, such as a filter's gradient: a step of the first is a part, or some
    steps where one is short."""
    body, axes = node.src[0], node.arg[1]
    long = [a for a in axes if body.shape[a] != 1]
    if len(long) < 2 or not size(body.shape):
        return None
    first, n = long[0], body.shape[long[0]]
    most = sum(size(s.base.shape) for s in body.src) // (2 * size(node.shape))
    steps = _steps(n, size([body.shape[a] for a in long[1:]]), most)
    parts = n // steps
    if not 1 < parts <= most:
        return None
    shape = (*body.shape[:first], parts, steps, *body.shape[first + 1 :])
    cut = UOp.alu(Ops.MUL, *(s.reshape(shape) for s in body.src))
    inner = cut.reduce(Ops.ADD, [a + (a >= first) for a in axes])
    at = first - sum(a < first for a in axes)
    channels = turned(inner, lanes)
    if channels is not None:
        return channels.total(at)
    return widened(inner).contiguous().reduce(Ops.ADD, (at,))


def _steps(n: int, inside: int, most: int) -> int:
    """How many of `n` steps, of so many terms each, are a part, if there may be at most `most`."""
    if inside >= PART and n <= most:
        return 1
    if n * inside <= 2 * NEAR:
        return n
    near = (d for d in range(1, n + 1) if n % d == 0 and PART <= d * inside <= NEAR)
    return max(near, default=n)
