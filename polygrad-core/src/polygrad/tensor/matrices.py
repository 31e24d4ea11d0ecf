"""Linear algebra on stacks of matrices (batch, rows, columns): kernels for values, rules for
gradients.

The values come from `factors.py` and `jacobi.py`, of which nobody wants the derivative step by
step. Each is a FUNCTION node over its inputs; its rule below is the textbook's and is made of the
functions of this file again, so that second derivatives are right too. Rules of FUNCTION nodes with
several values see one value's gradient at a time: all are linear in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..dtype import dtypes
from ..errors import GradientError
from ..gradient_rules import FUNCTIONS
from ..uop.ops import Ops, UOp
from . import factors, jacobi
from .formulas import function
from .linalg import matmul
from .movement import diagonal, swap
from .ordering import argsorted, picked

Rule = Callable[[UOp, UOp], "Sequence[UOp | None]"]


def _values(node: UOp) -> list[UOp]:
    """All values of the function that `node` is one of."""
    return [
        UOp(Ops.FUNCTION, s.dtype, node.src, node.arg._replace(which=i))
        for i, s in enumerate(node.src[: node.arg.total])
    ]


def _rule(name: str) -> Callable[[Rule], Rule]:
    def put(rule: Rule) -> Rule:
        FUNCTIONS[name] = rule
        return rule

    return put


# ---- small pieces


def turned(u: UOp) -> UOp:
    """The transposed."""
    return swap(u, -1, -2)


def _mask(u: UOp, least: int, most: int | None = None) -> UOp:
    """Zeros where column - row is outside [least, most]."""
    rows, n = u.shape[-2:]
    i = UOp.iota(rows).reshape((rows, 1)).expand((rows, n))
    j = UOp.iota(n).reshape((1, n)).expand((rows, n))
    inside = (j - i) >= least
    if most is not None:
        inside = inside & ((j - i) <= most)
    return inside.broadcast_to(u.shape).where(u, 0.0)


def lower(u: UOp, offset: int = 0) -> UOp:
    return _mask(u, -(1 << 30), offset)


def upper(u: UOp, offset: int = 0) -> UOp:
    return _mask(u, offset)


def identity(like: UOp) -> UOp:
    """The identity beside each matrix of a stack of squares."""
    return _mask(like._with(1.0), 0, 0)


def _scaled(u: UOp, factors_: UOp) -> UOp:
    """Columns times factors (batch, columns)."""
    batch, n = factors_.shape
    return u * factors_.reshape((batch, 1, n)).expand(u.shape)


def _levelled(a: UOp) -> tuple[UOp, UOp]:
    """(each matrix divided by a power of two that brings its largest element near 1, the power):
    squares of elements neither overflow nor vanish then, and nothing is rounded."""
    largest = (a < 0.0).where(-a, a).reduce(Ops.MAXIMUM, (1, 2))
    whole, mask = _EXPONENT[a.dtype]
    power = (largest.bitcast(whole) & mask).bitcast(a.dtype)
    least = 2.0 ** (-1022 if a.dtype is dtypes.float64 else -126)
    power = power.eq(0.0).where(power._with(least), power)
    power = (power < math.inf).where(power, 1.0)
    return a / _each(power, a), power


_EXPONENT = {
    dtypes.float32: (dtypes.int32, 0xFF << 23),
    dtypes.float64: (dtypes.int64, 0x7FF << 52),
}


def _halved(u: UOp) -> UOp:
    """The lower triangle with half its diagonal."""
    return lower(u) - _mask(u, 0, 0) * 0.5


def _symmetric(u: UOp) -> UOp:
    return (u + turned(u)) * 0.5


def _part(u: UOp, first: int, end: int) -> UOp:
    """Columns first to end - 1."""
    return u.shrink([*((0, n, 1) for n in u.shape[:-1]), (first, end, 1)])


def rows_of(u: UOp, order: UOp) -> UOp:
    """Rows of each matrix in an order of (batch, count)."""
    batch, n, m = u.shape
    count = order.shape[1]
    if 0 in u.shape:
        return u
    wide = dtypes.int64 if batch * n >= 1 << 31 else dtypes.int32
    first = (UOp.iota(batch, wide) * n).reshape((batch, 1)).expand((batch, count))
    at = (order.cast(wide) + first).reshape((batch * count,))
    return u.reshape((batch * n, m)).gather(at, 0).reshape((batch, count, m))


# ---- triangular systems (Giles 2008)


def triangular(t: UOp, b: UOp, over: bool = False, unit: bool = False) -> UOp:
    """X with t X = b; `over`: t is upper."""
    value = turned(factors.triangular(t, turned(b), over, unit))
    return function(_triangular_name(over, unit), [value], t, b)[0]


def _triangular_name(over: bool, unit: bool) -> str:
    return f"triangular.{'upper' if over else 'lower'}{'.unit' if unit else ''}"


def _triangular_rule(over: bool, unit: bool) -> Rule:
    def rule(node: UOp, g: UOp) -> Sequence[UOp | None]:
        t = node.src[1]
        gb = triangular(turned(t), g, not over, unit)
        gt = -matmul(gb, turned(node))
        side = upper if over else lower
        return side(gt, (1 if over else -1) * unit), gb

    return rule


for _over in (False, True):
    for _unit in (False, True):
        FUNCTIONS[_triangular_name(_over, _unit)] = _triangular_rule(_over, _unit)


# ---- Cholesky (Murray 2016)


def cholesky(a: UOp) -> UOp:
    """The lower factor."""
    return function("cholesky", [factors.cholesky(a)], a)[0]


@_rule("cholesky")
def _cholesky(node: UOp, g: UOp) -> Sequence[UOp | None]:
    half = _halved(matmul(turned(node), lower(g)))
    left = triangular(turned(node), half, over=True)  # L⁻ᵀ Φ
    return (_symmetric(turned(triangular(turned(node), turned(left), over=True))),)


# ---- LU, solve, determinants


def lu(a: UOp) -> tuple[UOp, UOp, UOp]:
    """(L, U, the order of the rows): row i of L U is row order[i] of a."""
    _, n, m = a.shape
    k = min(n, m)
    packed, order = factors.lu(a)
    low, up = lower(_part(packed, 0, k), -1), upper(packed)
    low = low + _mask(low._with(1.0), 0, 0)
    up = up.shrink([(0, a.shape[0], 1), (0, k, 1), (0, m, 1)])
    made = function("lu", [low, up, order], a)
    return made[0], made[1], made[2]


def permutation(order: UOp, dtype: UOp) -> UOp:
    """P with P[order[i], i] = 1, so that a = P L U."""
    batch, n = order.shape
    i = UOp.iota(n).reshape((1, n, 1)).expand((batch, n, n))
    hit = i.eq(order.reshape((batch, 1, n)).expand((batch, n, n)))
    return hit.cast(dtype.dtype)


@_rule("lu")
def _lu(node: UOp, g: UOp) -> Sequence[UOp | None]:
    low, up, order = _values(node)
    if low.shape[1] != up.shape[2]:
        raise GradientError("lu of a matrix that is not square has no gradient.")
    which = node.arg[1]
    core = lower(matmul(turned(low), g), -1) if which == 0 else upper(matmul(g, turned(up)))
    core = triangular(turned(low), core, over=True, unit=True)
    core = turned(triangular(up, turned(core), over=True))
    return (matmul(permutation(order, core), core),)


def solve(a: UOp, b: UOp) -> UOp:
    """X with a X = b, by LU."""
    packed, order = factors.lu(a)
    y = factors.triangular(packed, turned(rows_of(b, order)), unit=True)
    x = turned(factors.triangular(packed, y, upper=True))
    return function("solve", [x], a, b)[0]


@_rule("solve")
def _solve(node: UOp, g: UOp) -> Sequence[UOp | None]:
    gb = solve(turned(node.src[1]), g)
    return -matmul(gb, turned(node)), gb


def inverse(a: UOp) -> UOp:
    return solve(a, identity(a))


def determinant(a: UOp) -> UOp:
    """(batch,)"""
    sign, pivots = _pivots(a)
    return function("det", [sign * pivots.reduce(Ops.MUL, (1,))], a)[0]


@_rule("det")
def _determinant(node: UOp, g: UOp) -> Sequence[UOp | None]:
    a = node.src[1]
    return (_each(g * node, a) * turned(inverse(a)),)


def log_determinant(a: UOp) -> tuple[UOp, UOp]:
    """(its sign, the logarithm of its size)."""
    sign, pivots = _pivots(a)
    signs = pivots.eq(0.0).where(pivots._with(0.0), 1.0)
    signs = (pivots < 0.0).where(pivots._with(-1.0), pivots.ne(pivots).where(pivots, signs))
    sizes = UOp.alu(Ops.LOG, (pivots < 0.0).where(-pivots, pivots))
    sign = sign * signs.reduce(Ops.MUL, (1,))
    made = function("slogdet", [sign, sizes.reduce(Ops.ADD, (1,))], a)
    return made[0], made[1]


@_rule("slogdet")
def _log_determinant(node: UOp, g: UOp) -> Sequence[UOp | None]:
    a = node.src[2]
    return (None if node.arg[1] == 0 else _each(g, a) * turned(inverse(a)),)


def _each(scalars: UOp, like: UOp) -> UOp:
    return scalars.reshape((like.shape[0], 1, 1)).expand(like.shape)


def _pivots(a: UOp) -> tuple[UOp, UOp]:
    """(the sign of the row order, U's diagonal)."""
    batch, n, _ = a.shape
    packed, order = factors.lu(a)
    first = order.reshape((batch, n, 1)).expand((batch, n, n))
    second = order.reshape((batch, 1, n)).expand((batch, n, n))
    crossed = upper((second < first).cast(dtypes.float32), 1).reduce(Ops.ADD, (1, 2))
    odd = (crossed.cast(dtypes.int32) & 1).cast(a.dtype)
    return 1.0 - odd * 2.0, diagonal(packed)


# ---- QR (Walter and Lehmann 2012; wide matrices: Roberts and Roberts 2020)


def qr(a: UOp, complete: bool = False) -> tuple[UOp, UOp]:
    """(Q, R), reduced or complete."""
    batch, m, n = a.shape
    k = m if complete else min(m, n)
    level, power = _levelled(a.detach())
    w, vectors, taus = factors.householder(turned(level))
    up = upper(turned(w)).shrink([(0, batch, 1), (0, k, 1), (0, n, 1)])
    up = up * _each(power, up)
    q = turned(factors.reflected(vectors, taus, k))
    made = function("qr", [q, up], a)
    return made[0], made[1]


@_rule("qr")
def _qr(node: UOp, g: UOp) -> Sequence[UOp | None]:
    q, up = _values(node)
    k, n = up.shape[1:]
    if k > n:
        raise GradientError("a complete qr of a tall matrix has no gradient; take a reduced one.")
    gq = g if node.arg[1] == 0 else None
    gr = g if node.arg[1] == 1 else None
    if k == n:
        return (_qr_square(q, up, gq, gr),)
    rest = _part(node.src[2], k, n)
    if gr is None:
        left = _qr_square(q, _part(up, 0, k), gq, None)
        return (left.pad([(0, 0, 0), (0, 0, 0), (0, n - k, 0)]),)
    gq = matmul(rest, turned(_part(gr, k, n)))
    left = _qr_square(q, _part(up, 0, k), gq, _part(gr, 0, k))
    right = matmul(q, _part(gr, k, n))
    ends = [(0, 0, 0), (0, 0, 0)]
    return (left.pad([*ends, (0, n - k, 0)]) + right.pad([*ends, (k, 0, 0)]),)


def _qr_square(q: UOp, up: UOp, gq: UOp | None, gr: UOp | None) -> UOp:
    """For a with no more columns than rows."""
    core: UOp | None = None
    if gr is not None:
        core = matmul(up, turned(gr))
    if gq is not None:
        part = matmul(turned(gq), q)
        core = -part if core is None else core - part
    assert core is not None
    sides = matmul(q, lower(core) + turned(lower(core, -1)))
    flow = sides if gq is None else gq + sides
    return turned(triangular(up, turned(flow), over=True))


# ---- eigenvalues of symmetric matrices (Giles 2008)


def eigh(a: UOp) -> tuple[UOp, UOp]:
    """(eigenvalues in ascending order, eigenvectors as columns); reads the lower triangle.

    a + c, with c beyond the norm of a, is positive definite and well conditioned: the orthogonal
    columns of its Cholesky factor are the eigenvectors, and their Rayleigh quotients in a, which
    the shift does not touch, the eigenvalues. c comes from the sums of the rows of a^4, which bound
    the norm closely."""
    level, power = _levelled(lower(a.detach()))
    whole = level + turned(lower(level, -1))
    square = matmul(whole, whole).contiguous()
    sums = factors.absolute(matmul(square, square)).reduce(Ops.ADD, (2,))
    bound = UOp.alu(Ops.SQRT, UOp.alu(Ops.SQRT, sums.reduce(Ops.MAXIMUM, (1,))))
    low = factors.cholesky(whole + identity(whole) * _each(bound + 1.0, whole))
    vectors = jacobi.orthogonal(turned(low))  # times the roots of the eigenvalues of a + c
    sizes = UOp.alu(Ops.SQRT, (vectors * vectors).reduce(Ops.ADD, (2,)))
    vectors = vectors / sizes.reshape((*sizes.shape, 1)).expand(vectors.shape)
    values = (matmul(vectors, whole) * vectors).reduce(Ops.ADD, (2,))
    values = values * power.reshape((a.shape[0], 1)).expand(values.shape)
    order = argsorted(values)
    made = function("eigh", [picked(values, order), turned(rows_of(vectors, order))], a)
    return made[0], made[1]


@_rule("eigh")
def _eigh(node: UOp, g: UOp) -> Sequence[UOp | None]:
    values, vectors = _values(node)
    if node.arg[1] == 0:
        return (matmul(_scaled(vectors, g), turned(vectors)),)
    core = _apart(values) * matmul(turned(vectors), g)
    return (_symmetric(matmul(matmul(vectors, core), turned(vectors))),)


def _apart(values: UOp) -> UOp:
    """1 / (values[j] - values[i]), 0 on the diagonal."""
    batch, n = values.shape
    square = (batch, n, n)
    row, column = (values.reshape(s).expand(square) for s in ((batch, n, 1), (batch, 1, n)))
    on = identity(row).ne(0.0)
    return on.where(row._with(0.0), 1.0 / on.where(row._with(1.0), column - row))


# ---- singular values (Townsend 2016) and the pseudoinverse (Golub and Pereyra 1973)


def svd(a: UOp, full: bool = False) -> tuple[UOp, UOp, UOp]:
    """(U, singular values in descending order, Vᵀ)."""
    level, power = _levelled(a.detach())
    if a.shape[1] < a.shape[2]:
        u, s, v = _tall(turned(level), full)
        u, v = turned(v), turned(u)
    else:
        u, s, v = _tall(level, full)
    s = s * power.reshape((a.shape[0], 1)).expand(s.shape)
    made = function("svd", [u, s, v], a)
    return made[0], made[1], made[2]


def _tall(a: UOp, full: bool) -> tuple[UOp, UOp, UOp]:
    """Of matrices with no fewer rows than columns.

    The turned columns are U times the singular values; a QR of them gives a U that is orthogonal
    where singular values are 0 as well.
    """
    _, m, n = a.shape
    w, v = jacobi.columns(turned(a))
    sizes = UOp.alu(Ops.SQRT, (w * w).reduce(Ops.ADD, (2,)))
    order = argsorted(sizes, descending=True)
    w, v = rows_of(w, order), rows_of(v, order)
    lined, vectors, taus = factors.householder(w)
    signs = diagonal(lined)
    signs = (signs < 0.0).where(signs._with(-1.0), 1.0)
    if full and m > n:
        signs = (signs - 1.0).pad([(0, 0, 0), (0, m - n, 0)]) + 1.0
    q = turned(factors.reflected(vectors, taus, m if full else n))
    return _scaled(q, signs), picked(sizes, order), v


@_rule("svd")
def _svd(node: UOp, g: UOp) -> Sequence[UOp | None]:
    u, s, vt = _values(node)
    which, k = node.arg[1], s.shape[1]
    if which == 1:
        return (matmul(_scaled(_part(u, 0, k), g), _top(vt, k)),)
    if max(u.shape[2], vt.shape[1]) > k:
        raise GradientError("svd with full_matrices has no gradient for U and V; set it to False.")
    if which == 2:  # the same of the transposed
        found = _left(turned(vt), s, turned(u), turned(g))
        return (turned(found),)
    return (_left(u, s, vt, g),)


def _top(u: UOp, count: int) -> UOp:
    return turned(_part(turned(u), 0, count))


def _left(u: UOp, s: UOp, vt: UOp, g: UOp) -> UOp:
    """What flows into a from U."""
    inner = matmul(turned(u), g)
    core = _apart(s * s) * (inner - turned(inner))
    flow = _scaled(matmul(u, core), s)
    if u.shape[1] > u.shape[2]:
        flow = flow + _scaled(g - matmul(u, inner), 1.0 / s)
    return matmul(flow, vt)


def pseudoinverse(a: UOp, rcond: float | None = None) -> UOp:
    """Singular values up to rcond times the largest count as 0."""
    _, m, n = a.shape
    least = rcond
    if least is None:
        least = max(m, n) * 2.0 ** (-52 if a.dtype is dtypes.float64 else -23)
    u, s, vt = svd(a.detach())
    limit = (s.reduce(Ops.MAXIMUM, (1,)) * least).reshape((s.shape[0], 1)).expand(s.shape)
    small = s <= limit
    turned_s = small.where(s._with(0.0), 1.0 / small.where(s._with(1.0), s))
    return function("pinv", [matmul(_scaled(turned(vt), turned_s), turned(u))], a)[0]


@_rule("pinv")
def _pseudoinverse(node: UOp, g: UOp) -> Sequence[UOp | None]:
    a, x, gt = node.src[1], node, turned(g)
    xt = turned(x)
    flow = -matmul(matmul(xt, g), xt)
    left = matmul(matmul(gt, x), xt)
    right = matmul(matmul(xt, x), gt)
    flow = flow + left - matmul(a, matmul(x, left))
    return (flow + right - matmul(matmul(right, x), a),)


def size_of(shape: Sequence[int]) -> int:
    return math.prod(shape)
