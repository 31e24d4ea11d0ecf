"""Linear systems and decompositions against numpy in float64: values, edges, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from polygrad import Context, Tensor, dtypes
from polygrad.errors import ArgumentError, GradientError, ShapeError
from polygrad.uop.ops import Ops

SHAPES = [(1, 1), (4, 4), (6, 3), (3, 6), (5, 1), (1, 5)]


def definite(rng: np.random.Generator, *shape: int) -> np.ndarray:
    a = rng.normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])


def numbers(*tensors: Tensor) -> list[np.ndarray]:
    return [t.numpy() for t in tensors]


# ---- systems


@pytest.mark.parametrize("n", [1, 2, 7])
def test_solve(device: str, n: int, rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(3, n, n)), rng.normal(size=(3, n, 2))
    np.testing.assert_allclose(Tensor(a).solve(Tensor(b)).numpy(), np.linalg.solve(a, b), 1e-8)


def test_solve_for_a_vector_and_with_batches_that_broadcast(
    device: str, rng: np.random.Generator
) -> None:
    a, b, c = rng.normal(size=(2, 1, 4, 4)), rng.normal(size=4), rng.normal(size=(3, 4, 2))
    got = Tensor(a).solve(Tensor(b)).numpy()
    np.testing.assert_allclose(got, np.linalg.solve(a, b[:, None])[..., 0], 1e-9)
    np.testing.assert_allclose(Tensor(a).solve(Tensor(c)).numpy(), np.linalg.solve(a, c), 1e-9)


def test_a_pivot_of_zero_needs_an_exchange(device: str) -> None:
    a = Tensor([[0.0, 1.0], [1.0, 0.0]])
    assert a.solve(Tensor([2.0, 3.0])).tolist() == [3.0, 2.0]
    assert a.det().item() == -1.0


def test_float32_and_half(device: str, rng: np.random.Generator) -> None:
    a, b = definite(rng, 5, 5).astype(np.float32), rng.normal(size=5).astype(np.float32)
    x = Tensor(a).solve(Tensor(b))
    assert x.dtype is dtypes.float32
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(a.astype(float), b), rtol=1e-4)
    half = Tensor(a).cast("float16").solve(Tensor(b).cast("float16"))
    assert half.dtype is dtypes.float16
    np.testing.assert_allclose(
        half.numpy(), np.linalg.solve(a.astype(float), b), rtol=0.05, atol=0.01
    )


def test_an_ill_conditioned_system_has_a_small_residual(device: str) -> None:
    a = scipy.linalg.hilbert(8)
    b = a @ np.ones(8)
    x = Tensor(a).solve(Tensor(b)).numpy()
    assert np.abs(a @ x - b).max() < 1e-14


def test_a_singular_system_gives_no_number(device: str) -> None:
    x = Tensor([[1.0, 2.0], [2.0, 4.0]]).solve(Tensor([1.0, 1.0])).numpy()
    assert not np.isfinite(x).all()
    assert not np.isfinite(Tensor(np.zeros((2, 2))).inv().numpy()).any()


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_solve(
    device: str, upper: bool, turned: bool, unit: bool, rng: np.random.Generator
) -> None:
    a, b = rng.normal(size=(5, 5)) + 3 * np.eye(5), rng.normal(size=(5, 3))
    got = Tensor(a).triangular_solve(Tensor(b), upper, turned, unit).numpy()
    want = scipy.linalg.solve_triangular(
        a, b, trans=int(turned), lower=not upper, unit_diagonal=unit
    )
    np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_solve(device: str, upper: bool, rng: np.random.Generator) -> None:
    a, b = definite(rng, 2, 4, 4), rng.normal(size=(2, 4, 3))
    got = Tensor(b).cholesky_solve(Tensor(a).cholesky(upper), upper=upper)
    np.testing.assert_allclose(got.numpy(), np.linalg.solve(a, b), rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_lstsq(device: str, shape: tuple[int, int], rng: np.random.Generator) -> None:
    a, b = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    want = np.linalg.lstsq(a, b, rcond=None)[0]
    np.testing.assert_allclose(Tensor(a).lstsq(Tensor(b)).numpy(), want, rtol=1e-8, atol=1e-10)


def test_lstsq_of_deficient_rank_is_the_smallest(device: str, rng: np.random.Generator) -> None:
    a = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 4))
    b = rng.normal(size=6)
    want = np.linalg.lstsq(a, b, rcond=None)[0]
    np.testing.assert_allclose(Tensor(a).lstsq(Tensor(b)).numpy(), want, rtol=1e-8)


# ---- inverses and determinants


def test_inv_and_det(device: str, rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, 3, 4, 4))
    np.testing.assert_allclose(Tensor(a).inv().numpy(), np.linalg.inv(a), rtol=1e-8)
    np.testing.assert_allclose(Tensor(a).det().numpy(), np.linalg.det(a), rtol=1e-10)
    sign, size = numbers(*Tensor(a).slogdet())
    want = np.linalg.slogdet(a)
    np.testing.assert_array_equal(sign, want[0])
    np.testing.assert_allclose(size, want[1], rtol=1e-8)


def test_the_determinant_of_a_singular_matrix_is_zero(device: str) -> None:
    a = Tensor([[1.0, 2.0], [2.0, 4.0]])
    assert a.det().item() == 0.0
    assert [t.item() for t in a.slogdet()] == [0.0, float("-inf")]


def test_nothing_at_all(device: str) -> None:
    none = Tensor(np.zeros((2, 0, 0)))
    assert none.det().tolist() == [1.0, 1.0]
    assert none.inv().shape == (2, 0, 0)
    assert none.solve(Tensor(np.zeros((2, 0, 3)))).shape == (2, 0, 3)
    assert Tensor(np.zeros((0, 3, 3))).solve(Tensor(np.zeros((0, 3, 1)))).shape == (0, 3, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_pinv(device: str, shape: tuple[int, int], rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, *shape))
    a[1] = np.outer(a[1, :, 0], a[1, 0])  # of rank 1
    np.testing.assert_allclose(Tensor(a).pinv().numpy(), np.linalg.pinv(a), rtol=1e-7, atol=1e-10)


# ---- factors


@pytest.mark.parametrize("n", [1, 5])
def test_cholesky(device: str, n: int, rng: np.random.Generator) -> None:
    a = definite(rng, 2, n, n)
    want = np.linalg.cholesky(a)
    np.testing.assert_allclose(Tensor(a).cholesky().numpy(), want, rtol=1e-10, atol=1e-14)
    up = Tensor(a).cholesky(upper=True).numpy()
    np.testing.assert_allclose(up, np.swapaxes(want, 1, 2), rtol=1e-10, atol=1e-14)


def test_cholesky_of_an_indefinite_matrix_is_nan(device: str) -> None:
    assert np.isnan(Tensor([[1.0, 2.0], [2.0, 1.0]]).cholesky().numpy()[1, 1])


@pytest.mark.parametrize("shape", SHAPES)
def test_lu(device: str, shape: tuple[int, int], rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, *shape))
    p, low, up = numbers(*Tensor(a).lu())
    for i in range(2):
        for got, want in zip((p[i], low[i], up[i]), scipy.linalg.lu(a[i]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(device: str, shape: tuple[int, int], mode: Any, rng: np.random.Generator) -> None:
    a = rng.normal(size=shape)
    q, up = numbers(*Tensor(a).qr(mode))
    want = np.linalg.qr(a, mode)
    np.testing.assert_allclose(up, want[1], rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(q @ up, a, atol=1e-13)
    np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-13)


def test_qr_of_deficient_rank_is_orthonormal(device: str) -> None:
    a = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    q, up = numbers(*Tensor(a).qr())
    np.testing.assert_allclose(q @ up, a, atol=1e-14)
    np.testing.assert_allclose(q.T @ q, np.eye(3), atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 8])
def test_eigh(device: str, n: int, rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, n, n))
    a = a + np.swapaxes(a, 1, 2)
    values, vectors = numbers(*Tensor(np.tril(a)).eigh())
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(a @ vectors, vectors * values[:, None], atol=1e-12)
    np.testing.assert_allclose(np.swapaxes(vectors, 1, 2) @ vectors, [np.eye(n)] * 2, atol=1e-13)


def test_eigh_of_equal_eigenvalues_and_zeros(device: str) -> None:
    for a in (np.zeros((3, 3)), np.eye(3) * 2, np.ones((3, 3))):
        values, vectors = numbers(*Tensor(a).eigh())
        np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=1e-14)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-14)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_svd(device: str, shape: tuple[int, int], full: bool, rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, *shape))
    a[1, :, -1] = a[1, :, 0]  # of deficient rank, where it is wide enough
    u, s, vt = numbers(*Tensor(a).svd(full_matrices=full))
    want = np.linalg.svd(a, full_matrices=full)
    np.testing.assert_allclose(s, want[1], rtol=1e-9, atol=1e-13)
    assert u.shape == want[0].shape and vt.shape == want[2].shape
    k = s.shape[1]
    np.testing.assert_allclose((u[:, :, :k] * s[:, None]) @ vt[:, :k], a, atol=1e-13)
    np.testing.assert_allclose(np.swapaxes(u, 1, 2) @ u, [np.eye(u.shape[2])] * 2, atol=1e-13)
    np.testing.assert_allclose(vt @ np.swapaxes(vt, 1, 2), [np.eye(vt.shape[1])] * 2, atol=1e-13)


def test_small_singular_values_keep_their_digits(device: str) -> None:
    """One-sided rotations are right relative to each singular value (Demmel and Veselic 1992)."""
    a = np.array([[1.0, 0.0, 0.0], [0.0, 1e-9, 0.0], [0.0, 0.0, 1e-18]]) @ (np.eye(3) + 0.1)
    s = Tensor(a).svdvals().numpy()
    assert np.prod(s) == pytest.approx(1e-27 * 1.3, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-310, 1e-160, 1e150, 1e306])
def test_squares_neither_overflow_nor_vanish(
    device: str, scale: float, rng: np.random.Generator
) -> None:
    a = rng.integers(-9, 9, (4, 4)) * scale
    s = a + a.T
    np.testing.assert_allclose(Tensor(a).svdvals().numpy(), np.linalg.svd(a)[1], rtol=1e-12)
    got, want = Tensor(s).eigvalsh().numpy(), np.linalg.eigvalsh(s)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=0)
    q, up = numbers(*Tensor(a).qr())
    np.testing.assert_allclose(up, np.linalg.qr(a)[1], rtol=1e-9, atol=1e-14 * scale)
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-14)


def test_large_numbers_in_float32(device: str, rng: np.random.Generator) -> None:
    a = (rng.normal(size=(5, 5)) * 1e30).astype(np.float32)
    np.testing.assert_allclose(Tensor(a).svdvals().numpy(), np.linalg.svd(a)[1], rtol=1e-4)


def test_the_graph_does_not_grow_with_n() -> None:
    for method in ("inv", "cholesky", "qr", "svd", "eigh"):
        counts = []
        for n in (4, 64):
            made = getattr(Tensor(np.eye(n)), method)()
            made = made[0] if isinstance(made, tuple) else made
            counts.append(len(made.uop.toposort(lambda u: u.op is not Ops.SINK)))
        assert counts[1] <= counts[0] + 10, method


# ---- gradients, against central differences


def gradient_check(f: Callable[[Tensor], Tensor], a: np.ndarray, tolerance: float = 1e-6) -> None:
    x = Tensor(a, requires_grad=True)
    f(x).backward()
    assert x.grad is not None
    step = 1e-6
    moves = step * np.eye(a.size).reshape(a.size, *a.shape)
    values = [(f(Tensor(a + m)).item() - f(Tensor(a - m)).item()) / (2 * step) for m in moves]
    want = np.reshape(values, a.shape)
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=tolerance, atol=tolerance)


W = np.random.default_rng(11).normal(size=(8, 8))


def weighted(t: Tensor) -> Tensor:
    rows, columns = t.shape[-2:] if t.ndim > 1 else (1, t.shape[0])
    return (t.reshape(rows, columns) * Tensor(W[:rows, :columns].copy())).sum()


SQUARE: dict[str, Callable[[Tensor], Tensor]] = {
    "solve": lambda x: weighted(x.solve(Tensor(W[:3, :2].copy()))),
    "solve for": lambda x: weighted(Tensor(W[:3, :3] + np.eye(3) * 3).solve(x)),
    "inv": lambda x: weighted(x.inv()),
    "det": lambda x: x.det(),
    "slogdet": lambda x: x.slogdet()[1],
    "triangular": lambda x: weighted(x.triangular_solve(Tensor(W[:3, :2].copy()))),
    "triangular unit": lambda x: weighted(
        x.triangular_solve(Tensor(W[:3, :2].copy()), upper=True, unit_diagonal=True)
    ),
    "cholesky": lambda x: weighted((x @ x.T + Tensor(np.eye(3))).cholesky()),
    "lu": lambda x: weighted(x.lu()[1]) + weighted(x.lu()[2]) * 2,
    "eigh": lambda x: weighted((x + x.T).eigh()[0]),
    "eigh vectors": lambda x: weighted((x + x.T).eigh()[1].square()),
}
ANY: dict[str, Callable[[Tensor], Tensor]] = {
    "qr": lambda x: weighted(x.qr()[0]) + weighted(x.qr()[1]) * 2,
    "singular values": lambda x: weighted(x.svdvals()),
    "svd": lambda x: weighted(x.svd(False)[0].square()) + weighted(x.svd(False)[2].square()),
    "pinv": lambda x: weighted(x.pinv()),
    "lstsq": lambda x: weighted(x.lstsq(Tensor(W[: x.shape[0], :2].copy()))),
}


@pytest.mark.parametrize("name", SQUARE)
def test_gradient_of_square(name: str, rng: np.random.Generator) -> None:
    gradient_check(SQUARE[name], rng.normal(size=(3, 3)) + np.diag([4.0, -3.0, 5.0]))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("name", ANY)
def test_gradient(name: str, shape: tuple[int, int], rng: np.random.Generator) -> None:
    gradient_check(ANY[name], rng.normal(size=shape) + 2 * np.eye(*shape))


def test_a_second_derivative(rng: np.random.Generator) -> None:
    def slope(x: Tensor) -> Tensor:
        return weighted(weighted(x.inv()).gradient(x)[0])

    a = rng.normal(size=(3, 3)) + 3 * np.eye(3)
    x = Tensor(a, requires_grad=True)
    slope(x).backward()
    assert x.grad is not None
    step, at = 1e-6, (1, 2)
    move = np.zeros((3, 3))
    move[at] = step
    ends = [slope(Tensor(a + d, requires_grad=True)).item() for d in (move, -move)]
    assert x.grad.numpy()[at] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


# ---- what is refused


def test_refused() -> None:
    a = Tensor(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"inv takes square matrices .* not shape \(2, 3\)"):
        a.inv()
    with pytest.raises(ShapeError, match="2 rows are expected"):
        Tensor(np.eye(2)).solve(Tensor([1.0, 2.0, 3.0]))
    with pytest.raises(ArgumentError, match="no mode named 'half'"):
        a.qr("half")
    x = Tensor(np.ones((3, 2)), requires_grad=True)
    with pytest.raises(GradientError, match="full_matrices"):
        x.svd()[0].sum().backward()


# ---- sizes at which inner loops run in vectors


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [33, 70])
def test_larger_matrices(n: int, dtype: Any, rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, n, n)).astype(dtype)
    s = definite(rng, n, n).astype(dtype)
    close = 5000 * np.finfo(dtype).eps
    with Context(POLY_DEV="cpu", POLY_SPEC=1):
        x = Tensor(a)
        low = Tensor(s).cholesky().numpy()
        np.testing.assert_allclose(low @ low.T, s, atol=close * n)
        p, lower, up = numbers(*x.lu())
        np.testing.assert_allclose(p @ lower @ up, a, atol=close)
        q, up = numbers(*x.qr())
        np.testing.assert_allclose(q @ up, a, atol=close)
        values, vectors = numbers(*Tensor(s).eigh())
        np.testing.assert_allclose((vectors * values) @ vectors.T, s, atol=close * n)
        u, sizes, vt = numbers(*x.svd())
        np.testing.assert_allclose((u * sizes[:, None]) @ vt, a, atol=close)
        np.testing.assert_allclose(x.inv().numpy() @ a, [np.eye(n)] * 2, atol=close * n)


FACTORS: dict[str, Callable[[Any], Any]] = {
    "eigh": np.linalg.eigh,
    "eigvalsh": np.linalg.eigvalsh,
    "qr": np.linalg.qr,
    "svd": np.linalg.svd,
    "cholesky": np.linalg.cholesky,
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": np.linalg.slogdet,
    "pinv": np.linalg.pinv,
}
OF_ANY_SHAPE = ("qr", "svd", "pinv")
NOTHING = [(0, 3, 3), (2, 0, 0), (0, 0), (0, 2, 3), (2, 0, 3), (2, 3, 0)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [(n, s) for n in FACTORS for s in NOTHING if s[-1] == s[-2] or n in OF_ANY_SHAPE],
)
def test_factors_of_nothing_are_as_numpys(
    device: str, name: str, shape: tuple[int, ...], dtype: str
) -> None:
    """Empty batches and matrices without rows or columns: values, dtypes, shapes and slopes."""
    a = np.zeros(shape, dtype)
    exact = FACTORS[name](a)
    exact = exact if isinstance(exact, tuple) else (exact,)
    x = Tensor(a, requires_grad=True)
    got = getattr(x, name)()
    got = got if isinstance(got, tuple) else (got,)
    for u, v in zip(got, exact, strict=True):
        assert u.dtype.name == dtype
        np.testing.assert_array_equal(u.numpy(), v)
    if name == "svd":  # those of full matrices have none
        got = x.svd(full_matrices=False)
    for u in got:
        x.grad = None
        u.sum().backward()
        assert x.grad is not None and x.grad.shape == shape


@pytest.mark.parametrize("shape", NOTHING)
def test_lu_of_nothing(device: str, shape: tuple[int, ...]) -> None:
    *lead, m, n = shape
    p, low, up = Tensor(np.zeros(shape), requires_grad=True).lu()
    assert p.shape == (*lead, m, m)
    assert (low.shape, up.shape) == ((*lead, m, min(m, n)), (*lead, min(m, n), n))
    np.testing.assert_array_equal((p @ low @ up).numpy(), np.zeros(shape))
    np.testing.assert_array_equal(p.numpy(), np.broadcast_to(np.eye(m), p.shape))


@pytest.mark.parametrize(
    "shapes",
    [((0, 3, 3), (0, 3, 2)), ((2, 0, 0), (2, 0, 2)), ((3, 3), (3, 0)), ((0, 3, 3), (3, 2))],
)
@pytest.mark.parametrize("name", ["solve", "lstsq", "triangular_solve", "cholesky_solve"])
def test_systems_of_nothing(
    device: str, name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    a, b = (Tensor(np.zeros(s, np.float32), requires_grad=True) for s in shapes)
    x = b.cholesky_solve(a) if name == "cholesky_solve" else getattr(a, name)(b)
    assert x.dtype.name == "float32" and x.shape == (a @ b).shape
    assert x.numpy().size == 0
    x.sum().backward()
    for t in (a, b):
        assert t.grad is not None
        np.testing.assert_array_equal(t.grad.numpy(), np.zeros(t.shape))
