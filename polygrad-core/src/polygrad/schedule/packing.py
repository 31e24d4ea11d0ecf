"""Packing: the layout in which a large matrix product reads its second factor.

A register tile walks down a strip of columns that is one or two cache lines wide. In a large
row-major matrix each step of that walk is another page, and a row length that is a power of two
maps all of them to a few cache sets. So the factor is copied once into panels, one after another,
[columns / width][k][width], which the tile reads as one stream. The copy costs k * n, the product
m * k * n: from a few hundred rows on it is 1-3 % (measured on AVX2, one thread: matmul 1024 goes
from 44 to 94 GFLOP/s, x @ w.T at 512 from 68 to 89, matmul 512 stays at 87; of 8192 rows and 256
columns x @ w.T goes from 0.39 to 1.0 of torch, x @ w from 0.70 to 1.0). A panel has the two vectors
of a tile, and at least a cache line. With 16 lanes, panels of 16 columns make a tile of one vector,
which loads as often as it multiplies (AVX-512: 512 to 2048 are 1.18 times as fast with 32). With 8
lanes, a tile that walks down half a panel of 32 leaves out every other line: those that it reads
share half of the first cache's sets, and come late (AVX2: 1024 and 2048 take 0.94 of the time with
panels of 16, a convolution of 256 channels of 14 x 14 0.9).

Where the second factor lies along k, a copy in panels pays from fewer elements on: it makes a
product of vectors along the columns of what would be dot products (AVX2, one thread, x @ w.T: 192
and 256 1.2x, of 128 rows 1.14x).

A number of columns that no panel divides leaves the last one with zeros, and what goes on to its
end stores nothing there (`copies.py`). That pays where rows begin anywhere in a vector, so that
half of what is read as it lies crosses a cache line, beside a large first factor (AVX2, two
threads: 192 x 1024 x 4001 1.7x, 1024 x 1024 x 1001 1.27x, 256 x 768 x 50257 1.3x, 128 x 768 x 2300
1.2x; of 240 x 320 x 1000, whose rows are whole vectors, 0.65x).

A first factor that lies across the sum (the slopes in a weight's gradient) is copied along it: a
tile of six rows reads a line for each step otherwise, a third of it, and in rows of a power of two
all of them share a few sets (AVX2, two threads, `a.T @ b` of 1024 1.4x, 512 1.4x, 3072 x 768 over
1024 1.7x, 256 x 256 over 4096 1.25x; packed in panels as the second one, 1024 was 1.4x slower). A
tile of longer vectors reads half of the line, and there only steps a page apart were found to pay.

A factor that lies along a short k (the keys of attention) is turned, so that vectors run along the
columns: a dot product of 64 elements spends as long on adding up its lanes as on multiplying
(q @ k.T of 512 x 64 on AVX-512, one thread: 62 -> 78 GFLOP/s).

Few rows do not pay for a copy of the second factor on its way through memory. Where its rows lie
far apart, the kernel of the product copies each strip of it ([k][32]) before the tiles read it, and
the strip stays near (`copies.py`; AVX-512, two threads, time of torch / ours: 64 x 768 x 3072
0.49 -> 1.0, of 16 rows 0.61 -> 1.07, of 128 rows 0.82 -> 1.05). Where it lies along a long k
(x @ w.T of a small batch) the rows are turned themselves, [k][m], and the result is stored [n][m]:
vectors run along the rows, each weight is read once, and what follows (a bias, a gelu) is computed
in vectors, which the scalars that dot products end in are not.

Rows may be two axes of a result, and the sum may run over two (a layer of an ensemble, and the
gradient of its weight): neighbours with one role count as one axis here.

In the graph this is movement only: the values are the same, in another order of memory. Whatever
computes the factor is part of the copying kernel.

A factor of 16 bits that is not copied anyway is stored once in the type of the product: a tile
would convert its elements again for every strip of the other factor, and a conversion costs more
than the multiply-add that it is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ..uop.linear import coefficient
from ..uop.ops import ELEMENTWISE, MOVEMENT, Ops, UOp, size, toposort
from ..uop.sizes import capacity, is_fixed, most
from .indexing import flat, through

PANELS: Final = (32, 16)  # columns: two cache lines of float32, or one
LEAST: Final = 384 * 384  # elements of a factor that does not stay near the core
MANY_ROWS: Final = 512  # from here on a smaller one is copied too: its rows lie far apart, and
SMALLER: Final = 128 * 128  # their lines share a few sets of the first cache
ROWS: Final = 128  # rows of the other factor that pay for the copy, and for turning a smaller one
NEAR: Final = 256  # rows below which the copy of a strip stays near until its product is done
FEWEST: Final = 16  # strips, so that every core has some
UNEVEN: Final = 1 << 16  # elements of a first factor beside which rows of any length are copied
LINE: Final = 16  # elements of a cache line: a vector that is one reads as much as a step of rows
WIDE: Final = 1024  # rows from which on the first factor is copied even so if it lies across the
DEEP: Final = 512  # sum, over so many steps: they share a few sets of both caches (2.5x)
FEW: Final = 16  # rows that fill a long vector
STRIP: Final = 32  # columns of a turned factor that lie together
SHORT: Final = 128  # steps of a dot product for which turning pays
COLUMNS: Final = 64  # of a factor that is worth turning
REUSED: Final = 64  # products of one element that pay for storing it converted
WORTH: Final = 1 << 16  # products of a sum that pay for one more kernel
_BATCH: Final = (False, True, True)  # is an axis summed, do the factors walk it?
_INLINED: Final = ELEMENTWISE | MOVEMENT | {Ops.DETACH}
_SAME_SIZE: Final = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP})


class Product(NamedTuple):
    """A matrix product, batched or not: REDUCE(ADD) over k of MUL(left, right), both EXPANDed."""

    m: int
    n: int
    k: int  # axes of the products


class View(IntEnum):
    """What of a product is stored, and in which order; of several readers the largest decides.
    Panels of columns are walked as they lie where they lie together in the result as well."""

    WHOLE = 0  # panel by panel
    TURNED = 1  # most of it, in another order
    PART = 2  # a small part


_MOST: Final = 4  # a part that is not so much smaller is taken from all of it


def viewed(order: Sequence[UOp], roots: Sequence[UOp]) -> dict[UOp, View]:
    """How what is stored sees the large products that it is computed from, where that is not as a
    whole. `order`: all nodes, sources first."""
    if not any(n.op is Ops.REDUCE and _is_large(n) for n in order):
        return {}
    uses = Counter(s for n in order for s in dict.fromkeys(n.src))
    stored = set(roots)  # in this order, whatever movements and arithmetic come between
    views: dict[UOp, View] = {}
    for node in reversed(order):
        if node.op is Ops.EXPAND or node.op is Ops.REDUCE:
            continue  # of another kernel, which reads what is stored as it likes
        inlined, moves = node.op in _INLINED, node.op in MOVEMENT
        view = views.get(node, View.WHOLE)
        if moves and node in stored:
            view = max(view, _seen(node, uses[node.src[0]] > 1))
        for source in node.src[:1] if moves else node.src:
            if not inlined or node in stored:
                stored.add(source)
            if inlined and view is not View.WHOLE:
                views[source] = max(views.get(source, View.WHOLE), view)
    return views


def _is_large(node: UOp) -> bool:
    body = node.src[0]
    return body.op is Ops.MUL and capacity(body.shape) >= FEW * LEAST


def _seen(move: UOp, shared: bool) -> View:
    """What a movement makes of panels of the last axis. `shared`: others see the same value."""
    before, after, width = move.src[0].shape, move.shape, PANELS[0]
    if move.op is Ops.SHRINK and before:
        lo, hi, step = move.arg[-1]
        rows = all(a == (0, n, 1) for a, n in zip(move.arg[:-1], before[:-1], strict=True))
        even = is_fixed((lo, hi)) and lo % width == hi % width == 0 and step == 1
        if shared and rows and even:
            return View.WHOLE
        return View.TURNED if _MOST * capacity(after) >= capacity(before) else View.PART
    if move.op is Ops.PERMUTE:
        return View.WHOLE if move.arg[-1:] == (len(before) - 1,) else View.TURNED
    if move.op is Ops.RESHAPE and before and after and is_fixed((before[-1], after[-1])):
        kept = after[-1] == before[-1] or after[-1] % width == before[-1] % width == 0
        return View.WHOLE if kept else View.TURNED
    return View.TURNED


def packed(node: UOp, lanes: int) -> UOp:
    """A large matrix product with its second factor in panels, or turned; others as they are.
    `lanes`: the floats of a vector, 0 where there are none and what is near is no nearer."""
    found = product(node)
    if found is None:
        return node
    left, right = node.src[0].src
    shape = node.src[0].shape
    m, n, k = (shape[a] for a in found)
    if not is_fixed((n, k)):
        return node
    if most(m) < ROWS and not (lanes and _far_apart(node, found)):
        return _few_rows(node, found)
    many = ROWS if lies_along(right.src[0], found.k) else MANY_ROWS
    least = SMALLER if most(m) >= many else LEAST
    panels = panel(n, lanes) or (lanes and n % lanes and _is_uneven(node, found))
    if size(shape) == m * n * k and panels and n * k >= least:
        right = _in_panels(right, found.n, found.k, lanes).expand(shape)
        if n >= ROWS and lies_across(left, found, lanes):
            left = _in_rows(left, found).expand(shape)
    elif k <= SHORT and n >= COLUMNS and lies_along(right.src[0], found.k):
        right = _turned(right, found.n, found.k).expand(shape)
    return _product_of(node, left, right)


def _is_uneven(node: UOp, axes: Product) -> bool:
    """Is a factor worth panels of which the last is not full, because its rows begin anywhere in a
    vector? Beside a smaller first factor it is read as fast where it lies."""
    m, n, k = (node.src[0].shape[a] for a in axes)
    if not is_fixed((m,)) or m * k < UNEVEN or n < FEWEST * PANELS[0]:
        return False
    return not lies_along(node.src[0].src[1].src[0], axes.k)


def _far_apart(node: UOp, axes: Product) -> bool:
    """Are strips of the second factor worth a copy each: of whole panels, for several tiles of
    rows, and too far from row to row for the sets of a cache?"""
    right, shape = node.src[0].src[1].src[0], node.src[0].shape
    m, n, k = (shape[a] for a in axes)
    if not is_fixed((m,)) or m < FEW or size(shape) != m * n * k or lies_along(right, axes.k):
        return False
    return n * k >= LEAST and n >= FEWEST * PANELS[0] and n % PANELS[0] == 0


def _few_rows(node: UOp, axes: Product) -> UOp:
    """A product with too few rows to pay for a copy of the second factor, which lies along k. Short
    sums turn it nevertheless where it is not much larger than the first. Long ones turn the rows,
    and with them the result: each element of the second factor is read once then, and what becomes
    of the result is computed in vectors."""
    left, right = node.src[0].src
    shape = node.src[0].shape
    m, n, k = (shape[a] for a in axes)
    if not is_fixed((m,)) or m < FEW or n < COLUMNS or not lies_along(right.src[0], axes.k):
        return node
    if k <= SHORT:
        right = _turned(right, axes.n, axes.k) if n <= 2 * m else right.src[0]
        return _product_of(node, left, right.expand(shape))
    order = [axes.n if a == axes.m else axes.m if a == axes.n else a for a in range(len(shape))]
    left = _turned(left, axes.m, axes.k).expand(shape).permute(order)
    turned = UOp.alu(Ops.MUL, left, right.permute(order)).reduce(Ops.ADD, node.arg[1])
    back = [a - (a > axes.k) for a in order if a != axes.k]
    return turned.contiguous().permute(back)


def _product_of(node: UOp, *factors: UOp) -> UOp:
    """The same sum of other factors."""
    if factors == node.src[0].src:
        return node
    return UOp(Ops.REDUCE, node.dtype, (UOp.alu(Ops.MUL, *factors), *node.src[1:]), node.arg)


def merged(node: UOp) -> UOp:
    """A sum of products of plain factors with neighbouring axes of one role as one axis: rows of
    two axes, a sum over two. Axes of a batch stay as they are, and so do other sums."""
    body = node.src[0]
    if node.arg[0] is not Ops.ADD or body.op is not Ops.MUL or not is_fixed(body.shape):
        return node
    if not all(s.op is Ops.EXPAND and _plain(s.src[0]) for s in body.src):
        return node
    factors = [s.src[0] for s in body.src]
    groups: list[list[int]] = []
    last: tuple[bool, ...] = _BATCH
    for axis in (a for a, n in enumerate(body.shape) if n != 1):
        role = (axis in node.arg[1], *(f.shape[axis] != 1 for f in factors))
        if role == last != _BATCH:
            groups[-1].append(axis)
        else:
            groups.append([axis])
        last = role
    summed = [i for i, g in enumerate(groups) if g[0] in node.arg[1]]
    if not summed or all(len(g) == 1 for g in groups):
        return node

    def lengths(u: UOp) -> tuple[int, ...]:
        return tuple(size([u.shape[a] for a in g]) for g in groups)

    src = (f.reshape(lengths(f)).expand(lengths(body)) for f in factors)
    return UOp.alu(Ops.MUL, *src).reduce(Ops.ADD, summed)


def _plain(factor: UOp) -> bool:
    """Does each element of what is computed stand in one place of the factor?"""
    moves: list[UOp] = []
    _below(factor, MOVEMENT, moves)
    return all(move.op in _SAME_SIZE for move in moves)


def widened(node: UOp) -> UOp:
    """A sum of products whose factors are converted once, where each of their elements is used in
    many products; others as they are."""
    body = node.src[0]
    if (
        node.op is not Ops.REDUCE
        or node.arg[0] is not Ops.ADD
        or body.op is not Ops.MUL
        or capacity(body.shape) < WORTH
    ):
        return node
    src = tuple(_converted(s, capacity(body.shape)) for s in body.src)
    return _product_of(node, *src)


def _converted(factor: UOp, products: int) -> UOp:
    """A factor with the conversion of a narrow type stored, in the order in which that lies."""
    moves: list[UOp] = []
    cast = _below(factor, MOVEMENT, moves)
    if cast.op is not Ops.CAST:
        return factor
    made = _below(cast.src[0], _SAME_SIZE, moves)
    if not made.dtype.is_narrow or products < REUSED * capacity(made.shape):
        return factor
    return _moved(made.cast(cast.dtype).contiguous(), moves)


def _below(node: UOp, moving: frozenset[Ops], moves: list[UOp]) -> UOp:
    """What lies below these movements, which join `moves`."""
    while node.op in moving:
        moves.append(node)
        node = node.src[0]
    return node


def _moved(node: UOp, moves: list[UOp]) -> UOp:
    """A node under the movements that `_below` found."""
    for move in reversed(moves):
        node = UOp(move.op, node.dtype, (node, *move.src[1:]), move.arg)
    return node


def product(node: UOp) -> Product | None:
    """The axes of a matrix product whose last long result axis belongs to the second factor."""
    body = node.src[0]
    if node.arg[0] is not Ops.ADD or body.op is not Ops.MUL or len(node.arg[1]) != 1:
        return None
    if any(s.op is not Ops.EXPAND for s in body.src):
        return None
    long = [a for a, n in enumerate(body.shape) if n != 1]
    (k,) = node.arg[1]
    rows = [a for a in long if body.src[1].src[0].shape[a] == 1]
    columns = [a for a in long if body.src[0].src[0].shape[a] == 1]
    if len(rows) != 1 or len(columns) != 1 or k in (*rows, *columns):
        return None
    last = max(a for a in long if a != k)
    return Product(rows[0], columns[0], k) if columns[0] == last else None


def lies_along(factor: UOp, axis: int) -> bool:
    """Are neighbours along an axis neighbours in memory, that of what is converted if it is?"""
    shape = factor.shape
    index = tuple(UOp.range(0, n, i) if n != 1 else UOp.index(0) for i, n in enumerate(shape))
    base, places, _ = through(factor, index, None)
    while base.op is Ops.CAST:
        base, places, _ = through(base.src[0], places, None)
    return coefficient(flat(places, base.shape), index[axis]) == 1


def _turned(expanded: UOp, axis: int, along: int) -> UOp:
    """The factor below EXPAND that lies along k, stored with its other axis last, in strips of
    STRIP steps where they come out even, and seen in its old shape."""
    factor = settled(expanded.src[0])
    others = [a for a in range(len(factor.shape)) if a not in (axis, along)]
    order = (*others, axis, along)
    back = tuple(order.index(a) for a in range(len(order)))
    plain = factor.permute(order)
    *batch, n, k = plain.shape
    step = STRIP if n % STRIP == 0 and n >= ROWS else n
    strips = swapped(plain.reshape((*batch, n // step, step, k))).contiguous()
    return swapped(strips).reshape(plain.shape).permute(back)


def settled(factor: UOp) -> UOp:
    """A factor whose copy is no reduction itself: that has an order of its own, in which its
    vectors run, and would be computed element by element in another (a layer norm of 64 x 768 in
    bfloat16 that feeds a product of few rows: 7.4x)."""
    moves: list[UOp] = []
    made = _below(factor, MOVEMENT, moves)
    inside = toposort((made,), lambda n: n.op in _INLINED)
    if not any(n.op is Ops.REDUCE for n in inside):
        return factor
    return _moved(made.contiguous(), moves)


def swapped(u: UOp) -> UOp:
    """The last two axes exchanged."""
    rank = len(u.shape)
    return u.permute((*range(rank - 2), rank - 1, rank - 2))


def _in_panels(expanded: UOp, axis: int, along: int, lanes: int) -> UOp:
    """The factor below EXPAND, stored as [n / panel][k][panel] and seen in its old shape."""
    factor = settled(expanded.src[0])
    n, k = factor.shape[axis], factor.shape[along]
    turned = along < axis
    plain = factor.reshape((k, n)).permute((1, 0)) if turned else factor.reshape((n, k))
    seen = in_panels(plain.reshape((1, n, k)), lanes).reshape((n, k))
    return (seen.permute((1, 0)) if turned else seen).reshape(factor.shape)


def lies_across(left: UOp, axes: Product, lanes: int) -> bool:
    """Does the first factor lie across the sum, in steps that are worth a copy along it?"""
    m, k = (left.shape[a] for a in (axes.m, axes.k))
    if not lanes or not is_fixed((m, k)) or lies_along(left.src[0], axes.k):
        return False
    return lanes < LINE or (m >= WIDE and k >= DEEP)


def _in_rows(expanded: UOp, axes: Product) -> UOp:
    """The factor below EXPAND, stored as [m][k] and seen in its old shape."""
    factor = settled(expanded.src[0])
    order = sorted(range(len(factor.shape)), key=axes.k.__eq__)
    back = [order.index(a) for a in range(len(order))]
    return factor.permute(order).contiguous().permute(back)


def panel(n: int, lanes: int) -> int:
    """Columns of a panel of `n` columns: those of two vectors, a cache line at least; 0 where no
    width divides them."""
    return next((width for width in _widths(lanes) if n % width == 0), 0)


def _widths(lanes: int) -> list[int]:
    return [width for width in PANELS if width <= max(2 * lanes, min(PANELS))]


def in_panels(x: UOp, lanes: int) -> UOp:
    """(batch, n, k) stored as [batch][n / panel][k][panel], zeros where the last panel has no
    columns, and seen as it was."""
    batch, n, k = x.shape
    width = panel(n, lanes) or _widths(lanes)[0]
    whole = -(-n // width) * width
    full = x.pad([(0, 0, 0), (0, whole - n, 0), (0, 0, 0)])
    panels = full.reshape((batch, whole // width, width, k)).permute((0, 1, 3, 2)).contiguous()
    seen = panels.permute((0, 1, 3, 2)).reshape((batch, whole, k))
    return seen.shrink([(0, batch, 1), (0, n, 1), (0, k, 1)])
