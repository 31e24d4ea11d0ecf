"""Whether a kernel is a product of matrices, for providers that have a better one.

The expression must be exactly `out[b, i, j] = sum over k of x[b, i, k] * y[b, k, j]`, each address
a sum of counters times constants: one store, one sum, one product of two loads, nothing fused to
it. Strides and offsets may be any, so transposes and slices are recognised as what they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..contract import Param
from ..dtype import DType
from ..uop.linear import linear
from ..uop.ops import Ops, UOp


class Operand(NamedTuple):
    """One of the three arrays, in elements: `place` among the program's params, the `offset` of its
    first element, and how far a step along rows, columns and each batch axis goes."""

    place: int
    offset: int
    row: int
    column: int
    batch: tuple[int, ...]


class Matmul(NamedTuple):
    """`out = x @ y` of m x k and k x n matrices, once for each index of `batch`."""

    m: int
    n: int
    k: int
    batch: tuple[int, ...]
    dtype: DType
    out: Operand
    x: Operand
    y: Operand


Address = tuple[int, int, Mapping[UOp, int]]  # (slot, offset, counter -> stride)


def matmul_of(sink: UOp, params: Sequence[Param]) -> Matmul | None:
    """The product that a kernel is, None if it is anything else."""
    parts = _parts(sink)
    if parts is None:
        return None
    k, addresses = parts
    out, x, y = (a[2] for a in addresses)
    if k in out or k not in x or k not in y:
        return None
    counters = {c for strides in (out, x, y) for c in strides} - {k}
    rows = [c for c in counters if c in out and c in x and c not in y]
    columns = [c for c in counters if c in out and c in y and c not in x]
    batch = sorted((c for c in counters if c in out and c in x and c in y), key=lambda c: c.arg[0])
    if len(rows) > 1 or len(columns) > 1 or counters != {*rows, *columns, *batch}:
        return None
    i, j = next(iter(rows), None), next(iter(columns), None)
    axes = ((i, j), (i, k), (k, j))
    places = {p.slot: place for place, p in enumerate(params)}
    operands = [
        _operand(places, address, pair, batch)
        for address, pair in zip(addresses, axes, strict=True)
    ]
    dtype = params[operands[0].place].dtype
    sizes = tuple(map(_size, batch))
    return Matmul(_size(i), _size(j), _size(k), sizes, dtype, *operands)


def _parts(sink: UOp) -> tuple[UOp, tuple[Address, Address, Address]] | None:
    """The counter of the sum, and the addresses of result and factors."""
    if len(sink.src) != 1 or sink.src[0].op is not Ops.STORE or len(sink.src[0].src) != 2:
        return None
    where, total = sink.src[0].src
    if total.op is not Ops.REDUCE or total.arg is not Ops.ADD or len(total.src) != 2:
        return None
    product, k = total.src
    if product.op is not Ops.MUL or any(s.op is not Ops.LOAD for s in product.src):
        return None
    loads = product.src
    if any(len(load.src) != 1 or load.dtype is not total.dtype for load in loads):
        return None
    found = [_address(index) for index in (where, *(load.src[0] for load in loads))]
    out, x, y = found
    if out is None or x is None or y is None:
        return None
    return k, (out, x, y)


def _address(index: UOp) -> Address | None:
    if index.op is not Ops.INDEX or index.src[0].op is not Ops.PARAM:
        return None
    offset, terms = linear(index.src[1])
    if any(c.op is not Ops.RANGE or c.src[1].op is not Ops.CONST for c, _ in terms):
        return None
    return index.src[0].arg[0], offset, dict(terms)


def _operand(
    places: Mapping[int, int],
    address: Address,
    axes: tuple[UOp | None, UOp | None],
    batch: Sequence[UOp],
) -> Operand:
    slot, offset, strides = address
    row, column = (0 if axis is None else strides[axis] for axis in axes)
    return Operand(places[slot], offset, row, column, tuple(strides[c] for c in batch))


def _size(counter: UOp | None) -> int:
    return 1 if counter is None else int(counter.src[1].arg)
