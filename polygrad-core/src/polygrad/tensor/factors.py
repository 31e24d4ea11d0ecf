"""Kernels that factor matrices and solve with the factors: Cholesky, LU, triangular, Householder.

All take and give stacks of matrices, `(batch, rows, columns)` in float32 or float64, the batch on
the grid. The work is n³ and the graph one node, whatever n is. Loops run along rows of memory, so
some take or give the transposed. Nothing raises: a matrix that has no such factor gives inf or NaN.
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, Ops, UOp


def sqrt(x: UOp) -> UOp:
    return UOp.alu(Ops.SQRT, x)


def absolute(x: UOp) -> UOp:
    return (x < 0.0).where(-x, x)


def total(x: UOp, loop: UOp) -> UOp:
    return x.reduce(Ops.ADD, (loop,))


# ---- Cholesky


def cholesky(a: UOp) -> UOp:
    """L, lower, with L Lᵀ = a; reads the lower triangle. NaN where a is not positive definite."""
    batch, n, _ = a.shape
    return call(_cholesky(batch, n, a.dtype), [(0, a)], [(1, a.dtype, a.shape)])[0]


@library
def _cholesky(batch: int, n: int, dtype: DType) -> UOp:
    a, out = (Placeholder.param(s, dtype, (batch, n, n)) for s in (0, 1))
    r, j = UOp.range(0, batch, 0, "grid"), UOp.range(n, 1)
    k, h = UOp.range(0, j, 2), UOp.range(0, j, 3)
    i, z = UOp.range(j + 1, n, 4), UOp.range(j + 1, n, 5)
    pivot = out[r, j, j].store(sqrt(a[r, j, j] - total(out[r, j, k] * out[r, j, k], k)))
    out = out.after(pivot)
    rest = a[r, i, j] - total(out[r, i, h] * out[r, j, h], h)
    below = out[r, i, j].store(rest / out[r, j, j].load()).end(i)
    above = out[r, j, z].store(0.0).end(z)
    return finished(pivot.group(below, above).end(r, j).sink(arg=KernelInfo("cholesky")))


# ---- LU with partial pivoting


def lu(a: UOp) -> tuple[UOp, UOp]:
    """(L below the diagonal and U, rows in the order chosen; that order, int32)."""
    batch, n, m = a.shape
    outputs = [(1, a.dtype, a.shape), (2, dtypes.int32, (batch, n))]
    packed, order = call(_lu(batch, n, m, a.dtype), [(0, a)], outputs)
    return packed, order


@library
def _lu(batch: int, n: int, m: int, dtype: DType) -> UOp:
    a, out = (Placeholder.param(s, dtype, (batch, n, m)) for s in (0, 1))
    order = Placeholder.param(2, dtypes.int32, (batch, n))
    r, k = UOp.range(0, batch, 0, "grid"), UOp.range(min(n, m), 1)
    i, j, h = UOp.range(n, 2), UOp.range(m, 3), UOp.range(n, 4)
    out = out.after(out[r, i, j].store(a[r, i, j]).end(i, j))
    order = order.after(order[r, h].store(h.cast(dtypes.int32)).end(h))

    # the largest of column k from row k on
    best, row = local(dtype, 1, 0), local(dtypes.int32, 1, 1)
    best0 = best.after(r, k)[0].store(absolute(out[r, k, k].load()))
    row0 = row.after(r, k)[0].store(k.cast(dtypes.int32))
    i = UOp.range(k + 1, n, 5)
    largest, where = best.after(best0, i)[0], row.after(row0, i)[0]
    size = absolute(out[r, i, k].load())
    better = largest.load() < size
    found = (
        largest.store(better.where(size, largest))
        .group(where.store(better.where(i.cast(dtypes.int32), where)))
        .end(i)
    )
    p = row.after(found)[0].load().cast(dtypes.index)

    # its row and row k change places
    out, order, j = out.after(found), order.after(found), UOp.range(m, 6)
    rows = out[r, k, j].store(out[r, p, j]).group(out[r, p, j].store(out[r, k, j])).end(j)
    names = order[r, k].store(order[r, p]).group(order[r, p].store(order[r, k]))

    # rows below lose their part of it
    out = out.after(rows)
    down, j = UOp.range(UOp.index(n - 1) - k, 7), UOp.range(k + 1, m, 8)
    i = k + 1 + down
    pivot = out[r, k, k].load()
    factor = pivot.eq(0.0).where(pivot._with(0.0), out[r, i, k] / pivot)
    below = out[r, i, k].store(factor)
    rest = out[r, i, j].store(out[r, i, j] - factor * out[r, k, j]).end(j)
    step = rest.group(below).end(down)
    return finished(names.group(step).end(r, k).sink(arg=KernelInfo("lu")))


# ---- triangular systems


def triangular(t: UOp, b: UOp, upper: bool = False, unit: bool = False) -> UOp:
    """X with t Xᵀ = bᵀ: b and X are (batch, right sides, n). `unit`: the diagonal is taken as 1."""
    batch, m, n = b.shape
    if 0 in b.shape:
        return b
    sink = _triangular(batch, m, n, t.dtype, upper, unit)
    return call(sink, [(0, t), (1, b)], [(2, b.dtype, b.shape)])[0]


@library
def _triangular(batch: int, m: int, n: int, dtype: DType, upper: bool, unit: bool) -> UOp:
    t = Placeholder.param(0, dtype, (batch, n, n))
    b, x = (Placeholder.param(s, dtype, (batch, m, n)) for s in (1, 2))
    r, c, s = UOp.range(0, batch, 0, "grid"), UOp.range(0, m, 1, "grid"), UOp.range(n, 2)
    i = UOp.index(n - 1) - s if upper else s
    k = UOp.range(i + 1, n, 3) if upper else UOp.range(0, i, 3)
    value = b[r, c, i] - total(t[r, i, k] * x[r, c, k], k)
    if not unit:
        value = value / t[r, i, i].load()
    return finished(x[r, c, i].store(value).end(r, c, s).sink(arg=KernelInfo("triangular")))


# ---- QR by Householder reflections (Golub and Van Loan, 5.2; signs as in LAPACK's geqrf)


def householder(columns: UOp) -> tuple[UOp, UOp, UOp]:
    """(Rᵀ above its diagonal, vectors, their factors) of matrices given by columns,
    (batch, n, m)."""
    batch, n, m = columns.shape
    k, dtype = min(n, m), columns.dtype
    outputs = [(1, dtype, (batch, n, m)), (2, dtype, (batch, k, m)), (3, dtype, (batch, k))]
    made = call(_householder(batch, n, m, dtype), [(0, columns)], outputs)
    return made[0], made[1], made[2]


@library
def _householder(batch: int, n: int, m: int, dtype: DType) -> UOp:
    a, w = (Placeholder.param(s, dtype, (batch, n, m)) for s in (0, 1))
    v = Placeholder.param(2, dtype, (batch, min(n, m), m))
    taus = Placeholder.param(3, dtype, (batch, min(n, m)))
    r, j = UOp.range(0, batch, 0, "grid"), UOp.range(min(n, m), 1)
    c, i = UOp.range(n, 2), UOp.range(m, 3)
    w = w.after(w[r, c, i].store(a[r, c, i]).end(c, i))

    # the reflection that leaves column j its first element alone
    i, h, z = UOp.range(j + 1, m, 4), UOp.range(j + 1, m, 5), UOp.range(0, j, 6)
    first, tail = w[r, j, j].load(), total(w[r, j, i] * w[r, j, i], i)
    length = sqrt(first * first + tail)
    none = tail.eq(0.0)
    left = none.where(first, (first < 0.0).where(length, -length))
    tau = none.where(first._with(0.0), (left - first) / left)
    scale = none.where(first._with(0.0), 1.0 / (first - left))
    vector = (
        v[r, j, j]
        .store(1.0)
        .group(v[r, j, h].store(w[r, j, h] * scale).end(h), v[r, j, z].store(0.0).end(z))
    )
    store = taus[r, j].store(tau)
    v, w = v.after(vector), w.after(vector)
    pivot = w[r, j, j].store(left)

    # applied to the columns after it
    w = w.after(pivot)
    c, i, h = UOp.range(j + 1, n, 7), UOp.range(j, m, 8), UOp.range(j, m, 9)
    part = total(v[r, j, i] * w[r, c, i], i) * tau
    step = w[r, c, h].store(w[r, c, h] - part * v[r, j, h]).end(h).end(c)
    return finished(store.group(pivot, step).end(r, j).sink(arg=KernelInfo("householder")))


def reflected(vectors: UOp, taus: UOp, count: int) -> UOp:
    """The first `count` columns of Q, as rows: (batch, count, m)."""
    batch, k, m = vectors.shape
    sink = _reflected(batch, k, m, count, vectors.dtype)
    shape = (batch, count, m)
    return call(sink, [(0, vectors), (1, taus)], [(2, vectors.dtype, shape)])[0]


@library
def _reflected(batch: int, k: int, m: int, count: int, dtype: DType) -> UOp:
    v, taus = Placeholder.param(0, dtype, (batch, k, m)), Placeholder.param(1, dtype, (batch, k))
    q = Placeholder.param(2, dtype, (batch, count, m))
    r, c = UOp.range(0, batch, 0, "grid"), UOp.range(0, count, 1, "grid")
    i, s = UOp.range(m, 2), UOp.range(k, 3)
    one, zero = UOp.const(dtype, 1.0), UOp.const(dtype, 0.0)
    q = q.after(q[r, c, i].store(i.eq(c).where(one, zero)).end(i))
    j = UOp.index(k - 1) - s
    h, g = UOp.range(j, m, 4), UOp.range(j, m, 5)  # the vector is 0 before
    part = total(v[r, j, h] * q[r, c, h], h) * taus[r, j]
    step = q[r, c, g].store(q[r, c, g] - part * v[r, j, g]).end(g)
    return finished(step.end(r, c, s).sink(arg=KernelInfo("reflect")))
