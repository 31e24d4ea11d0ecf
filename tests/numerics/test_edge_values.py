"""Right at the edges of values: what an operation gives where its formula ends.

One test for each, on every device, with numpy as the oracle. Slopes at such points are in
`tests/gradient/test_points.py`, all special values of elementwise operations in
`test_special_values.py`, integer arithmetic in `test_integers.py`; shapes and positions at their
edges in `test_edge_shapes.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INF, NAN = math.inf, math.nan

# ---- NaN wherever there is one


NAN_ROWS = np.array([[1.0, NAN, 3.0], [NAN, 2.0, NAN], [-INF, INF, 0.0]], np.float32)
WITH_NAN: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Any], Any]]] = {
    "max": (lambda x: x.max(1), lambda a: a.max(1)),
    "min": (lambda x: x.min(1), lambda a: a.min(1)),
    "argmax": (lambda x: x.argmax(1), lambda a: a.argmax(1)),
    "argmin": (lambda x: x.argmin(1), lambda a: a.argmin(1)),
    "sort": (lambda x: x.sort(1)[0], lambda a: np.sort(a, 1)),
    "argsort": (lambda x: x.argsort(1), lambda a: np.argsort(a, 1, kind="stable")),
    "median": (lambda x: x.median(1), lambda a: np.median(a, 1)),
    "quantile": (lambda x: x.quantile(0.25, 0), lambda a: np.quantile(a, 0.25, 0)),
    "clip": (lambda x: x.clip(0, 2), lambda a: np.clip(a, 0, 2)),
    "relu": (lambda x: x.relu(), lambda a: np.maximum(a, 0)),
    "maximum": (lambda x: x.maximum(0), lambda a: np.maximum(a, 0)),
    "minimum": (lambda x: x.minimum(x.flip(0)), lambda a: np.minimum(a, a[::-1])),
    "cummax": (lambda x: x.cummax(1)[0], lambda a: np.maximum.accumulate(a, 1)),
    "cummin": (lambda x: x.cummin(1)[0], lambda a: np.minimum.accumulate(a, 1)),
    "sum": (lambda x: x.sum(1), lambda a: a.sum(1)),
    "prod": (lambda x: x.prod(0), lambda a: a.prod(0)),
    "mean": (lambda x: x.mean(0), lambda a: a.mean(0)),
    "std": (lambda x: x.std(0), lambda a: a.std(0, ddof=1)),
    "norm": (lambda x: x.norm(2, 1), lambda a: np.linalg.norm(a, axis=1)),
    "norm inf": (lambda x: x.norm(INF, 1), lambda a: np.linalg.norm(a, INF, axis=1)),
    "logsumexp": (lambda x: x.logsumexp(1), lambda a: np.logaddexp.reduce(a, 1)),
    "round": (lambda x: x.round(), np.rint),
    "sign": (lambda x: x.sign(), np.sign),
    "matmul": (lambda x: x @ x, lambda a: a @ a),
    "max_pool": (
        lambda x: x.reshape(1, 1, 3, 3).max_pool2d(2, stride=1),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 2)).max((2, 3))[None, None],
    ),
}


@pytest.mark.parametrize("name", WITH_NAN)
def test_nan_propagates_as_numpys(device: str, name: str) -> None:
    ours, numpys = WITH_NAN[name]
    np.testing.assert_allclose(ours(Tensor(NAN_ROWS)).numpy(), numpys(NAN_ROWS), rtol=1e-6)


# ---- creation


@pytest.mark.parametrize(
    "args",
    [
        (0, 1, 0.1),
        (1, 2.2, 0.3),
        (1, -1, -0.3),
        (5, 0),
        (0, 5, -1),
        (0.5,),
        (-3, 3, 2),
        (3, -4, -3),
        (0, 1, 2.5),
        (1e6, 1e6 + 2, 0.25),
        (0,),
        (2, 2),
    ],
    ids=str,
)
def test_arange_counts_as_numpys(device: str, args: tuple[Any, ...]) -> None:
    got, want = Tensor.arange(*args).numpy(), np.arange(*args)
    assert got.shape == want.shape and (got.dtype.kind == want.dtype.kind)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("low", "high"), [(-3, 4), (-7, -2), (0, 5), (-(2**31), 2**31 - 1)])
def test_randint_is_uniform(device: str, low: int, high: int) -> None:
    Tensor.manual_seed(11)
    n = 70_000
    drawn = Tensor.randint(n, low=low, high=high).numpy()
    assert drawn.min() >= low and drawn.max() < high
    parts = min(high - low, 7)
    counts = np.bincount(((drawn.astype(np.int64) - low) * parts // (high - low)), minlength=parts)
    chi = ((counts - n / parts) ** 2 / (n / parts)).sum()
    assert chi < 35  # of 6 degrees of freedom: one in 100 000 would exceed it


def test_randint_has_no_bias_where_a_remainder_would(device: str) -> None:
    """3 * 2^30 does not divide 2^32: taking the remainder would draw the lower third twice."""
    Tensor.manual_seed(12)
    high = 3 << 29
    drawn = Tensor.randint(60_000, low=0, high=high, dtype="int64").numpy()
    assert abs((drawn < high // 3).mean() - 1 / 3) < 0.012


# ---- numbers


def test_int8_products_accumulate_in_int32(device: str) -> None:
    a, b = np.full((2, 300), 100, np.int8), np.full((300, 2), -100, np.int8)
    got = (Tensor(a) @ Tensor(b)).numpy()
    assert got.dtype == np.int32 and (got == -3_000_000).all()
    got = Tensor.einsum("ij,jk->ik", Tensor(a), Tensor(b)).numpy()
    assert got.dtype == np.int32 and (got == -3_000_000).all()
    got = (Tensor(np.full((2, 300), 200, np.uint8)) @ Tensor(b)).numpy()
    assert got.dtype == np.int32 and (got == -6_000_000).all()


def test_rounding_keeps_the_sign_of_zero(device: str) -> None:
    x = np.array([-0.5, -0.2, -0.0, 0.5, 1.5, 2.5, -1.5], np.float32)
    for name, f in (("round", np.rint), ("ceil", np.ceil), ("trunc", np.trunc)):
        got = getattr(Tensor(x), name)().numpy()
        np.testing.assert_array_equal(got, f(x))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(f(x)))


@pytest.mark.parametrize("stored", [True, False])
def test_zero_times_infinity_is_nan(device: str, stored: bool) -> None:
    """Nothing folds what only looks like zero or one."""
    x = Tensor([INF, NAN, -1.0])
    x = x.realize() if stored else x * 1.0
    for made in (x * 0, 0 * x, x - x, x / x * 0, Tensor.zeros(3) * x):
        got = made.numpy()
        assert np.isnan(got[:2]).all() and got[2] == 0
    assert np.isnan((Tensor.zeros(2) * INF).numpy()).all()


SIGNS = [(a, b) for a in (-7, -6, -1, 0, 1, 6, 7) for b in (-3, -2, -1, 1, 2, 3)]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("constant", [True, False])
def test_integer_division_of_every_sign(device: str, dtype: Any, constant: bool) -> None:
    a, b = np.array(SIGNS, dtype).T.copy()
    for divisor in np.unique(b) if constant else [None]:
        some = slice(None) if divisor is None else b == divisor
        x = Tensor(a[some].copy())
        y = Tensor(b[some].copy()) if divisor is None else int(divisor)
        np.testing.assert_array_equal((x // y).numpy(), (a // b)[some])
        np.testing.assert_array_equal((x % y).numpy(), (a % b)[some])
        np.testing.assert_array_equal(x.fmod(y).numpy(), np.fmod(a, b)[some])
        trunc = np.trunc(a / b).astype(dtype)[some]
        np.testing.assert_array_equal(x.div(y, rounding_mode="trunc").numpy(), trunc)


def test_unsigned_and_signed_of_one_width_meet_in_the_next(device: str) -> None:
    for u, i, wide in (("uint8", "int8", "int16"), ("uint16", "int16", "int32")):
        a, b = np.array([np.iinfo(u).max, 0], u), np.array([np.iinfo(i).min] * 2, i)
        got = (Tensor(a) + Tensor(b)).numpy()
        assert got.dtype.name == wide
        np.testing.assert_array_equal(got, a + b)


def test_powers_of_negative_and_zero_bases(device: str) -> None:
    bases = [-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, -INF, INF]
    exponents = [-INF, -3.0, -2.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, INF, NAN]
    a, b = (m.ravel().astype(np.float32) for m in np.meshgrid(bases, exponents))
    got, want = (Tensor(a) ** Tensor(b)).numpy(), a**b
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    for e in (-3, -2, 0, 2, 3):
        np.testing.assert_allclose((Tensor(a) ** e).numpy(), a.astype(float) ** e, rtol=1e-6)
    np.testing.assert_allclose((Tensor(a) ** 0.5).numpy(), np.sqrt(a), rtol=1e-6)  # as numpy's
    np.testing.assert_allclose((Tensor(a) ** -0.5).numpy(), 1 / np.sqrt(a), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sines_of_large_arguments(device: str, dtype: Any) -> None:
    """By the argument's own bits, up to the largest float."""
    top = float(np.finfo(dtype).max)
    x = np.array([1e5, -1e7, 1e10, 1e20, 3e30, top, -top, 355.0, 103993.0], dtype)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
    for name, f in (("sin", np.sin), ("cos", np.cos), ("tan", np.tan)):
        got = getattr(Tensor(x), name)().numpy()
        np.testing.assert_allclose(got, f(wide), rtol=8 * np.finfo(dtype).eps)
