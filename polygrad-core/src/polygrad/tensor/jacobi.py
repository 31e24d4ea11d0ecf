"""Singular values and eigenvalues by Jacobi's rotations, as one kernel.

Each sweep visits every pair of columns and turns both so that they become orthogonal; sweeps end
when one has found nothing left to turn (one-sided: Golub and Van Loan, 8.6.3). Slower than a
bidiagonal method by a constant, and at least as accurate: small singular values keep their digits.
Symmetric matrices come here as a Cholesky factor (Veselic and Hari, A note on a one-sided Jacobi
algorithm, 1989): two-sided rotations walk down columns of memory, which is slow.
"""

from __future__ import annotations

from typing import Final

from ..dtype import DType, dtypes
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, UOp
from .factors import absolute, sqrt, total

SWEEPS: Final = 40  # at most; 6 to 10 are usual
_EPSILON: Final = {dtypes.float32: 2.0**-24, dtypes.float64: 2.0**-53}


def columns(a: UOp) -> tuple[UOp, UOp]:
    """(columns turned until they are orthogonal, right singular vectors), both as rows, of
    matrices given by columns: (batch, n, m)."""
    batch, n, m = a.shape
    outputs = [(1, a.dtype, a.shape), (2, a.dtype, (batch, n, n))]
    made = call(_columns(batch, n, m, a.dtype, True), [(0, a)], outputs)
    return made[0], made[1]


def orthogonal(a: UOp) -> UOp:
    """The first of `columns` alone."""
    return call(_columns(*a.shape, a.dtype, False), [(0, a)], [(1, a.dtype, a.shape)])[0]


class _Sweeps:
    """The loops over sweeps and pairs: r, s, p, q and two branches."""

    def __init__(self, batch: int, n: int, *ready: UOp) -> None:
        self.r = UOp.range(0, batch, 0, "grid")
        self.flag = local(dtypes.int32, 1, 0)  # did the last sweep turn anything?
        start = self.flag.after(self.r)[0].store(1)
        self.s = UOp.range(SWEEPS, 1)
        self.on = UOp.range(0, self.flag.after(start, self.s)[0].load().cast(dtypes.index), 2)
        self.clear = self.flag.after(start, self.s, self.on)[0].store(0)
        self.p = UOp.range(n - 1, 3)
        self.apart = UOp.range(UOp.index(n - 1) - self.p, 4)
        self.q = self.p + 1 + self.apart

    def turn(self, wanted: UOp) -> UOp:
        """A loop of one step where this pair is turned, of none where not."""
        return UOp.range(0, wanted.cast(dtypes.index), 5)

    def end(self, turned: UOp, turn: UOp) -> UOp:
        mark = self.flag.after(self.clear, turn)[0].store(1)
        pairs = turned.group(mark).end(turn).end(self.p, self.apart)
        return self.clear.group(pairs).end(self.on).end(self.s)


def _angle(difference: UOp, coupling: UOp) -> tuple[UOp, UOp]:
    """(cosine, sine) of the smaller rotation that undoes a coupling."""
    ratio = difference / (coupling * 2.0)
    tangent = 1.0 / (absolute(ratio) + sqrt(ratio * ratio + 1.0))
    tangent = (ratio < 0.0).where(-tangent, tangent)
    cosine = 1.0 / sqrt(tangent * tangent + 1.0)
    return cosine, tangent * cosine


def _turned(a: UOp, b: UOp, cosine: UOp, sine: UOp) -> UOp:
    """Two places rotated into each other."""
    return a.store(cosine * a - sine * b).group(b.store(sine * a + cosine * b))


def _identity(v: Placeholder, r: UOp, n: int, first: int) -> UOp:
    i, j = UOp.range(n, first), UOp.range(n, first + 1)
    one, zero = UOp.const(v.dtype, 1.0), UOp.const(v.dtype, 0.0)
    return v[r, i, j].store(i.eq(j).where(one, zero)).end(i, j)


@library
def _columns(batch: int, n: int, m: int, dtype: DType, vectors: bool) -> UOp:
    a, w = (Placeholder.param(s, dtype, (batch, n, m)) for s in (0, 1))
    r = UOp.range(0, batch, 0, "grid")
    i, j = UOp.range(n, 10), UOp.range(m, 11)
    copied = [w[r, i, j].store(a[r, i, j]).end(i, j)]
    v = Placeholder.param(2, dtype, (batch, n, n))
    if vectors:
        copied.append(_identity(v, r, n, 12))
        v = v.after(copied[1])
    if n < 2:  # there is no pair
        return finished(copied[0].group(*copied[1:]).end(r).sink(arg=KernelInfo("svd")))
    w = w.after(copied[0])
    loops = _Sweeps(batch, n)
    p, q = loops.p, loops.q
    x, y, z = UOp.range(m, 14), UOp.range(m, 15), UOp.range(m, 16)
    first, second = total(w[r, p, x] * w[r, p, x], x), total(w[r, q, y] * w[r, q, y], y)
    coupling = total(w[r, p, z] * w[r, q, z], z)
    turn = loops.turn(sqrt(first) * sqrt(second) * _EPSILON[dtype] * 4.0 < absolute(coupling))
    cosine, sine = _angle(second - first, coupling)
    k, g = UOp.range(m, 17), UOp.range(n, 18)
    w = w.after(turn)
    turned = _turned(w[r, p, k], w[r, q, k], cosine, sine).end(k)
    if vectors:
        v = v.after(turn)
        turned = turned.group(_turned(v[r, p, g], v[r, q, g], cosine, sine).end(g))
    return finished(loops.end(turned, turn).end(r).sink(arg=KernelInfo("svd")))
