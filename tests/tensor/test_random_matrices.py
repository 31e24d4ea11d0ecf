"""Linear algebra on random stacks of any shape and conditioning: what numpy's would satisfy.

A factorization is right if its product is the matrix up to rounding (a backward error), whatever
the condition; values are compared with numpy's in float64 within that error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ArgumentError, ShapeError

DTYPES = [np.float32, np.float64]
BATCHES = [(), (1,), (3,), (2, 2)]
SIZES = [(1, 1), (2, 2), (5, 5), (9, 9), (1, 4), (7, 3), (3, 7), (6, 1)]
CONDITIONS = [1.0, 1e3, 1e12, np.inf]
Rng = np.random.Generator


def orthogonal(rng: Rng, batch: tuple[int, ...], n: int) -> Any:
    return np.linalg.qr(rng.standard_normal((*batch, n, n)))[0]


def conditioned(rng: Rng, batch: tuple[int, ...], size: tuple[int, int], condition: float) -> Any:
    """Singular values from 1 down to 1 / condition; with an infinite one the rank is deficient."""
    k = min(size)
    s = np.zeros(k)
    s[:] = np.linspace(0, -np.log10(min(condition, 1e3)), k)
    s = 10.0**s
    if k > 1:
        s[-1] = 1 / condition
    u, v = orthogonal(rng, batch, size[0])[..., :k], orthogonal(rng, batch, size[1])[..., :k]
    return (u * s) @ np.swapaxes(v, -1, -2)


def cases(rng: Rng, square: bool) -> list[Any]:
    """Each size once, with a batch and a condition of each kind among them."""
    sizes = [s for s in SIZES if s[0] == s[1]] if square else SIZES
    batches, conditions = (rng.permutation(4) for _ in "ab")
    return [
        conditioned(rng, BATCHES[batches[i % 4]], size, CONDITIONS[conditions[i % 4]])
        for i, size in enumerate(sizes)
    ]


def turned(a: Any) -> Any:
    return np.swapaxes(a, -1, -2)


def largest(a: Any) -> Any:
    return np.abs(a).max(initial=0)


def wide(*tensors: Tensor) -> list[Any]:
    return [t.astype(np.float64) for t in Tensor.numpy_many(*tensors)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions_have_small_residuals(device: str, dtype: Any, rng: Rng) -> None:
    room = 60 * np.finfo(dtype).eps
    for a in cases(rng, square=True):
        b = rng.standard_normal((*a.shape[:-1], 2))
        a, b = a.astype(dtype), b.astype(dtype)
        (x,) = wide(Tensor(a).solve(Tensor(b)))
        if not np.isfinite(x).all():
            assert np.linalg.cond(a.astype(np.float64)).max() > 1 / room
            continue
        scale = largest(a) * largest(x) + largest(b)
        assert largest(a.astype(np.float64) @ x - b) <= room * scale * a.shape[-1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_multiply_to_the_matrix(device: str, dtype: Any, rng: Rng) -> None:
    room = 60 * np.finfo(dtype).eps
    for a in cases(rng, square=False):
        a = a.astype(dtype)
        x, exact = Tensor(a), a.astype(np.float64)
        p, low, up = wide(*x.lu())
        np.testing.assert_allclose(p @ low @ up, exact, atol=room)
        q, r = wide(*x.qr())
        np.testing.assert_allclose(q @ r, exact, atol=room)
        both, one = turned(q) @ q, np.eye(q.shape[-1])
        np.testing.assert_allclose(both, np.broadcast_to(one, both.shape), atol=room)
        u, s, vt = wide(*x.svd(full_matrices=False))
        np.testing.assert_allclose((u * s[..., None, :]) @ vt, exact, atol=room)
        np.testing.assert_allclose(s, np.linalg.svd(exact)[1], atol=room)
        assert (np.diff(s) <= 0).all() and (s >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetric_matrices(device: str, dtype: Any, rng: Rng) -> None:
    room = 60 * np.finfo(dtype).eps
    for a in cases(rng, square=True):
        s = ((a + turned(a)) / 2).astype(dtype)
        exact = s.astype(np.float64)
        values, vectors = wide(*Tensor(s).eigh())
        np.testing.assert_allclose(exact @ vectors, vectors * values[..., None, :], atol=room)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(exact), atol=room)
        positive = (exact @ exact + np.eye(exact.shape[-1]) / 8).astype(dtype)
        (low,) = wide(Tensor(positive).cholesky())
        np.testing.assert_allclose(low @ turned(low), positive, atol=room)


@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_of_any_shape_and_rank(device: str, dtype: Any, rng: Rng) -> None:
    """The residual is orthogonal to the columns, and the solution to what they do not see."""
    room = 600 * np.finfo(dtype).eps
    for a in cases(rng, square=False):
        a = a.astype(dtype)
        b = rng.standard_normal((*a.shape[:-1], 2)).astype(dtype)
        exact = a.astype(np.float64)
        (x,) = wide(Tensor(a).lstsq(Tensor(b), rcond=1e-4))
        want = np.linalg.pinv(exact, rcond=1e-4) @ b
        np.testing.assert_allclose(x, want, atol=room * 1e3 * max(1.0, largest(want)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants(device: str, dtype: Any, rng: Rng) -> None:
    room = 60 * np.finfo(dtype).eps
    for a in cases(rng, square=True):
        a = a.astype(dtype)
        (d,) = wide(Tensor(a).det())
        np.testing.assert_allclose(d, np.linalg.det(a.astype(np.float64)), atol=room)
        sign, log = wide(*Tensor(a).slogdet())
        np.testing.assert_allclose(sign * np.exp(log), d, rtol=1e-3, atol=room)


# ---- norms of matrices


ORDERS = ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]


@pytest.mark.parametrize("ord", ORDERS)
@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (-1, -2)])
def test_matrix_norm_is_numpys(device: str, ord: Any, axis: tuple[int, int], rng: Rng) -> None:
    a = rng.standard_normal((3, 4, 5))
    for keep in (False, True):
        got = Tensor(a).matrix_norm(ord, axis, keepdim=keep).numpy()
        want = np.linalg.norm(a, ord, axis, keepdims=keep)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, 2, np.inf])
def test_matrix_norms_have_slopes(device: str, ord: Any, rng: Rng) -> None:
    a, d = rng.standard_normal((2, 4, 3))
    x = Tensor(a)
    (g,) = x.matrix_norm(ord).gradient(x)
    step = 1e-6
    ends = [np.linalg.norm(a + s * d, ord) for s in (step, -step)]
    assert (g.numpy() * d).sum() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_matrix_norms_that_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"matrix_norm: no norm 3. Valid: 'fro', 'nuc', 1, -1"):
        Tensor(np.eye(2)).matrix_norm(3)
    with pytest.raises(ShapeError, match=r"matrix_norm takes two axes, not \(-2, -1\) of shape"):
        Tensor([1.0]).matrix_norm()
    with pytest.raises(ArgumentError, match="name one axis twice"):
        Tensor(np.eye(2)).matrix_norm(axis=(0, -2))
