"""erf's family, normal tails and quantiles, gamma functions (F029-F035) against mpmath."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from polygrad import Model, Tensor

mpmath.mp.prec = 200
ROOT_HALF = mpmath.sqrt(mpf(1) / 2)
# tails, a threshold on each side, the middle, next to 0
REAL = [-1e30, -1e9, -40.0, -9.3, -3.0, -1.01, -0.99, -0.51, -1e-3, -1e-20, 0.0]
REAL += [-x for x in REAL] + [0.5, 1.5, 2.5, 4.5, 13.1, 1e4]
UNIT = [1e-38, 1e-20, 1e-5, 0.19, 0.21, 0.3, 0.5, 0.50001, 0.79, 0.81, 0.97, 0.99999]
POSITIVE = [1e-30, 1e-3, 0.3, 0.499, 0.5, 0.9999, 1.0, 1.0001, 1.4616, 1.5, 1.99, 2.0, 2.01, 2.5]
POSITIVE += [3.3, 3.99, 4.0, 7.5, 8.0, 9.99, 10.5, 1e3, 1e10, 1e30]


def erfcx(x: mpf) -> mpf:
    if abs(x) > 50:  # the asymptotic series
        terms = [(-1) ** k * mpmath.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(20)]
        return mpf("inf") if x < 0 else sum(terms) / (x * mpmath.sqrt(mpmath.pi))
    return mpmath.exp(x * x) * mpmath.erfc(x)


def log_erfcx(x: mpf) -> mpf:
    return x * x + mpmath.log(2) if x < -50 else mpmath.log(erfcx(x))


def log_ndtr(x: mpf) -> mpf:
    if x > 40:
        return mpf(0)
    return mpmath.log(erfcx(-x * ROOT_HALF) / 2) - x * x / 2


def hazard(x: mpf) -> mpf:
    return mpf(0) if x > 40 else mpmath.sqrt(2 / mpmath.pi) / erfcx(-x * ROOT_HALF)


@cache
def ndtri_exp(log_p: mpf) -> mpf:
    """By Newton's method on log_ndtr."""
    if log_p > mpmath.log(mpf(1) / 2):
        return -ndtri_exp(mpmath.log(-mpmath.expm1(log_p)))
    x = -mpmath.sqrt(-2 * log_p)
    for _ in range(80):
        step = (log_ndtr(x) - log_p) / hazard(x)
        x -= step
        if abs(step) < abs(x) * mpf(10) ** -30:
            break
    return x


def ndtri(p: mpf) -> mpf:
    return ndtri_exp(mpmath.log(p))


def erfinv(y: mpf) -> mpf:
    return mpmath.sign(y) * -ndtri((1 - abs(y)) / 2) * ROOT_HALF if y else mpf(0)


def density(x: mpf) -> mpf:
    return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


Function = Callable[[mpf], mpf]


# name: points, value, slope
def trigamma(x: mpf) -> mpf:
    """By reflection below 0, where mpmath itself takes a step for each unit."""
    if x > 0:
        return mpmath.psi(1, x)
    return (mpmath.pi / mpmath.sinpi(x)) ** 2 - mpmath.psi(1, 1 - x)


CASES: dict[str, tuple[list[float], Function, Function]] = {
    "erfc": (REAL, mpmath.erfc, lambda x: -2 * mpmath.exp(-x * x) / mpmath.sqrt(mpmath.pi)),
    "log_erfcx": (
        REAL,
        log_erfcx,
        lambda x: -1 / x if x > 1e4 else 2 * x - 2 / (mpmath.sqrt(mpmath.pi) * erfcx(x)),
    ),
    "log_ndtr": (REAL, log_ndtr, hazard),
    "erfinv": (
        [s * x for x in UNIT for s in (1, -1)],
        erfinv,
        lambda y: mpmath.exp(erfinv(y) ** 2) * mpmath.sqrt(mpmath.pi) / 2,
    ),
    "ndtri": (UNIT, ndtri, lambda p: 1 / density(ndtri(p))),
    "ndtri_exp": (
        [-1e30, -1e6, -300.0, -107.0, -105.0, -2.0, -1.62, -1.6, -0.7, -0.6, -0.23, -0.2, -1e-6],
        ndtri_exp,
        lambda log_p: 1 / hazard(ndtri_exp(log_p)),
    ),
    "lgamma": (POSITIVE, mpmath.loggamma, mpmath.digamma),
    "digamma": (POSITIVE, mpmath.digamma, trigamma),
}
TOLERANCE = {"float32": 1e-6, "float64": 2e-13}


def wanted(f: Function, points: Any) -> Any:
    """f at the numbers that a dtype has for the points, in that dtype."""
    values = [float(mpmath.re(f(mpf(float(x))))) for x in points]
    with np.errstate(over="ignore"):
        return np.array(values).astype(points.dtype)


def compare(got: Any, exact: Any, dtype: str, room: float = 1.0) -> None:
    np.testing.assert_allclose(got, exact, rtol=TOLERANCE[dtype] * room, atol=4 * 1.5e-45)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_value_and_slope_over_the_domain(device: str, name: str, dtype: str) -> None:
    points, value, slope = CASES[name]
    a = np.array(points, dtype)
    x = Tensor(a, requires_grad=True)
    y = getattr(x, name)()
    y.sum().backward()
    assert y.dtype.name == dtype and x.grad is not None
    compare(y.numpy(), wanted(value, a), dtype)
    compare(x.grad.numpy(), wanted(slope, a), dtype, 4.0)


nan = np.nan
SPECIAL: dict[str, tuple[list[float], list[float]]] = {
    "erfc": ([np.inf, -np.inf, np.nan], [0, 2, np.nan]),
    "log_erfcx": ([np.inf, -np.inf, np.nan], [-np.inf, np.inf, np.nan]),
    "log_ndtr": ([np.inf, -np.inf, np.nan], [-0.0, -np.inf, np.nan]),
    "erfinv": ([1, -1, 1.5, -2, np.nan, -0.0], [np.inf, -np.inf, np.nan, np.nan, np.nan, -0.0]),
    "ndtri": ([0, 1, -0.5, 1.5, np.nan], [-np.inf, np.inf, np.nan, np.nan, np.nan]),
    "ndtri_exp": ([0, -np.inf, 0.5, np.nan], [np.inf, -np.inf, np.nan, np.nan]),
    "lgamma": ([0, -0.0, -1, -7, -(2.0**24), np.inf, -np.inf, nan], [np.inf] * 7 + [nan]),
    "digamma": (
        [0, -0.0, -1, -7, -(2.0**24), np.inf, -np.inf, np.nan],
        [-np.inf, np.inf, nan, nan, nan, np.inf, nan, nan],
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", SPECIAL)
def test_ends_and_outside_of_the_domain(device: str, name: str, dtype: str) -> None:
    points, exact = SPECIAL[name]
    got = getattr(Tensor(points, dtype=dtype), name)().numpy()
    np.testing.assert_array_equal(got, np.array(exact, dtype))
    known = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(exact)[known])


def neighbours(points: Any, count: int) -> Any:
    """The float32 numbers next to each point, `count` on either side, but no whole ones."""
    up = down = np.array(points, np.float32)
    found = [up]
    for _ in range(count):
        up, down = np.nextafter(up, np.float32(np.inf)), np.nextafter(down, np.float32(-np.inf))
        found += [up, down]
    every = np.unique(np.concatenate(found))
    return every[every != np.rint(every)]


def lgamma_zeros() -> list[float]:
    """Two between -n - 1 and -n, for n from 2 on; from 11 on they round to whole numbers."""

    def log_size(t: Any) -> Any:
        return mpmath.log(abs(mpmath.gamma(t)))

    found = []
    for n in range(2, 11):
        middle = mpmath.findroot(mpmath.digamma, (-n - 0.7, -n - 0.3))
        for end in (-n, -n - 1):
            near = end + (middle - end) * mpf(10) ** -9
            if log_size(middle) < 0:
                found.append(mpmath.findroot(log_size, (near, middle), solver="anderson"))
    return [float(z) for z in found]


# The float32 numbers where digamma below 0 is smallest, of all next to its 2^23 zeros; then those
# next to some more.
SMALLEST = [-66.795906, -2.6107209, -95.80822, -1.5734985, -0.50408304, -85156.914, -5.6671624]
BELOW_ZERO = {
    "lgamma": lambda: neighbours([*lgamma_zeros(), *(-n for n in range(30)), -1000.0], 40),
    "digamma": lambda: neighbours(
        [
            *SMALLEST,
            *(float(mpmath.findroot(mpmath.digamma, (-n - 0.9, -n - 0.1), solver="anderson"))
              for n in range(40)),
            *(-n for n in range(20)),
            *(-1e3, -65535.2, -1e6, -4194303.75, -8388606.5, -1e-44, -1e-38, -1e-6, -0.01),
        ],
        20,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BELOW_ZERO)
def test_gamma_functions_below_zero_are_right_next_to_their_zeros(device: str, name: str) -> None:
    """F031. Relative to the value, however small it is; their slopes too."""
    a = BELOW_ZERO[name]()
    _, value, slope = CASES[name]
    x = Tensor(a, requires_grad=True)
    y = getattr(x, name)()
    y.sum().backward()
    assert x.grad is not None
    for got, f in ((y.numpy(), value), (x.grad.numpy(), slope)):
        exact = wanted(f, a)
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(got[~finite], exact[~finite])
        gap = np.abs(got[finite].astype(np.float64) - exact[finite])
        close = gap <= 4 * np.spacing(np.abs(exact[finite]))
        assert np.all(close | (gap <= 1e-6 * np.abs(exact[finite])))


def test_doubles_below_zero_have_errors_small_beside_one(device: str) -> None:
    """F031."""
    a = np.array([-1e-3, -0.3, -0.5, -1.01, -2.457, -3.5, -9.7, -50.25, -1e6 - 0.25])
    for name in BELOW_ZERO:
        _, value, slope = CASES[name]
        x = Tensor(a, requires_grad=True)
        y = getattr(x, name)()
        y.sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(y.numpy(), wanted(value, a), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(x.grad.numpy(), wanted(slope, a), rtol=1e-9, atol=1e-13)


def test_curvature_follows_from_the_slope(device: str) -> None:
    a = np.array([-3.0, 0.4, 2.0])
    x = Tensor(a)
    (first,) = x.log_ndtr().gradient(x, gradient=np.ones(3))
    (second,) = first.gradient(x, gradient=np.ones(3))
    m = np.array([float(hazard(mpf(v))) for v in a])
    np.testing.assert_allclose(second.numpy(), -m * (m + a), rtol=1e-5)


@pytest.mark.parametrize(("name", "order"), [("digamma", 2), ("lgamma", 3)])
def test_higher_slopes_of_gamma_functions(device: str, name: str, order: int) -> None:
    """At whole numbers too, where the reflection for what is below 0 has a pole."""
    a = np.array([0.3, 1.0, 2.0, 11.0, 30.0, -1.3, -7.6])
    x = Tensor(a)
    slope = getattr(x, name)()
    for _ in range(order):
        (slope,) = slope.sum().gradient(x)
    exact = [float(mpmath.psi(2, mpf(v))) for v in a]
    np.testing.assert_allclose(slope.numpy(), exact, rtol=1e-10)


def test_16_bit_floats_are_rounded_once(device: str) -> None:
    a = np.array([0.5, 3.0, -2.0], np.float16)
    got = Tensor(a).erfc()
    assert got.dtype.name == "float16"
    np.testing.assert_array_equal(got.numpy(), wanted(mpmath.erfc, a))


def test_integers_become_floats_and_nothing_stays_nothing(device: str) -> None:
    assert Tensor([1, 2, 5]).lgamma().dtype.name == "float32"
    assert Tensor(np.zeros((0, 3), np.float32)).erfinv().shape == (0, 3)
    assert Tensor(0.5).ndtri().item() == 0.0


def test_a_saved_model_keeps_special_functions_and_their_slopes(device: str, tmp_path: Any) -> None:
    """F029: usable in Model capture."""
    x = Tensor(np.array([0.3, 1.0, 2.5], np.float32), is_param=True)
    author = {"w": x}

    def outputs(t: Tensor) -> Tensor:
        return (author["w"] * t).log_ndtr() + author["w"].lgamma()

    model = Model(outputs, inputs={"t": Tensor.empty(3)}, params=author)
    t = np.array([-1.0, 2.0, -30.0], np.float32)
    before = model.forward(t=t)["output"]
    model.save(tmp_path / "special.pgb")
    after = Model.load(tmp_path / "special.pgb").forward(t=t)["output"]
    np.testing.assert_array_equal(before, after)
    exact = outputs(Tensor(t)).numpy()
    np.testing.assert_allclose(before, exact, rtol=1e-6)
