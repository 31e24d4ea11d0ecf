"""Compute the coefficient tables of `polygrad/tensor/coefficients.py`.

The same minimax fits as in `fit_polynomials.py`, of what the special functions of
`polygrad/tensor/probability.py` and `gamma.py` are made of; that file says how each is used. Run it
to print the module again (needs mpmath; half a minute):

    python tests/numerics/fit_special.py > polygrad-core/src/polygrad/tensor/coefficients.py
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import mpmath
from mpmath import mp, mpf


def _script() -> ModuleType:
    path = Path(__file__).with_name("fit_polynomials.py")
    spec = importlib.util.spec_from_file_location("fit_polynomials", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fits = _script()
ROOT_PI = mpmath.sqrt(mp.pi)
TINY = mpf(10) ** -30


class Fit(NamedTuple):
    """`value(x)` for lo <= x <= hi; `weight(x)` times its error is the result's relative error."""

    name: str
    value: fits.Function
    weight: fits.Function
    lo: mpf
    hi: mpf
    degree: tuple[int, int]  # for float32 and for float64; 0: not needed


# ---- what is approximated


def erfcx(x: mpf) -> mpf:
    if x > 1e5:
        return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * ROOT_PI)
    return mpmath.exp(x * x) * mpmath.erfc(x)


def _half_line(u: mpf) -> tuple[mpf, mpf]:
    """(x, t) with t = 3 / (3 + x) = (1 + u) / 2: all x >= 0 as u in (-1, 1]."""
    t = max((1 + u) / 2, TINY)
    return 3 / t - 3, t


def _erfcx(u: mpf) -> mpf:
    x, t = _half_line(u)
    return erfcx(x) / t


def _log_erfcx_slope(u: mpf) -> mpf:
    """(2 / (sqrt(pi) erfcx(x)) - 2 x) / t, all of whose digits cancel for large x."""
    x, t = _half_line(u)
    if x > 1e5:
        return (1 / x - 1 / x**3) / t
    return (2 / (ROOT_PI * erfcx(x)) - 2 * x) / t


def _log_erfcx(x: mpf) -> mpf:
    return -2 / ROOT_PI if abs(x) < TINY else mpmath.log(erfcx(x)) / x


def _erfinv(z: mpf) -> mpf:
    y = mpmath.sqrt(z)
    return ROOT_PI / 2 if y < TINY else mpmath.erfinv(y) / y


def upper_quantile(log_q: mpf) -> mpf:
    """x with log(1 - Phi(x)) = log_q, by Newton's method."""
    x = mpmath.sqrt(max(-2 * log_q - mpmath.log(max(-4 * mp.pi * log_q, 1)), mpf("0.5")))
    for _ in range(60):
        q = mpmath.erfc(x / mpmath.sqrt(2)) / 2
        step = (mpmath.log(q) - log_q) * q / (mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mp.pi))
        x += step
        if abs(step) < mpf(10) ** -40:
            break
    return x


R_LOW, R_HIGH = mpf("1.26"), mpf("10.3")  # sqrt(-log 0.2), and beyond sqrt(-log 2^-149)


def _tail(u: mpf) -> mpf:
    """T(r) / r in u, which is linear in 1 / r."""
    s = ((1 - u) / R_HIGH + (1 + u) / R_LOW) / 2
    return upper_quantile(-1 / s**2) * s


def _lgamma1(w: mpf) -> mpf:
    return -mp.euler if abs(w) < TINY else mpmath.loggamma(1 + w).real / w


def _lgamma2(w: mpf) -> mpf:
    return 1 - mp.euler if abs(w) < TINY else mpmath.loggamma(2 + w).real / w


ROOT = mpmath.findroot(mpmath.digamma, 1.4616)


def _digamma(w: mpf) -> mpf:
    away = w + 1 - ROOT
    return mpmath.psi(1, ROOT) if abs(away) < TINY else mpmath.digamma(1 + w) / away


def _relative(value: fits.Function) -> fits.Function:
    return lambda x: 1 / abs(value(x))


FITS = tuple(
    Fit(name, value, _relative(value), mpf(lo), mpf(hi), degree)
    for name, value, lo, hi, degree in (
        ("ERFCX", _erfcx, -1, 1, (12, 27)),
        ("LOG_ERFCX", _log_erfcx, -1, 1, (9, 21)),
        ("LOG_ERFCX_SLOPE", _log_erfcx_slope, -1, 1, (13, 26)),
        ("ERFINV", _erfinv, 0, "0.361", (7, 7)),
        ("QUANTILE", _tail, -1, 1, (12, 12)),
        ("LGAMMA1", _lgamma1, "-0.5", "0.5", (12, 27)),
        ("LGAMMA2", _lgamma2, "-0.5", "0.5", (8, 18)),
        ("DIGAMMA", _digamma, 0, 1, (10, 21)),
    )
)


def _reciprocal_gamma(r: mpf) -> mpf:
    return mpmath.rgamma(1 - r)


def _cotangent(z: mpf) -> mpf:
    """(1 / r - pi cot(pi r)) / r in z = r^2."""
    r = mpmath.sqrt(z)
    return mp.pi**2 / 3 if r < TINY else (1 / r - mp.pi * mpmath.cot(mp.pi * r)) / r


def _log_ratio(w: mpf) -> mpf:
    """(2 atanh(s) - 2 s) / s^3 in w = s^2."""
    s = mpmath.sqrt(w)
    return mpf(2) / 3 if s < TINY else 2 * (mpmath.atanh(s) / s - 1) / w


def _digamma_rest(w: mpf) -> mpf:
    """(log z + 1 / (2 z) - digamma(1 + z)) z^2 in w = 1 / z^2."""
    if w < TINY:
        return mpf(1) / 12
    z = 1 / mpmath.sqrt(w)
    return (mpmath.log(z) + 1 / (2 * z) - mpmath.digamma(1 + z)) / w


# What is evaluated in pairs of float32 (`pairs.py`): function, interval, degree, and how many of
# the coefficients have a second part.
PAIRED = (
    ("RECIPROCAL_GAMMA", _reciprocal_gamma, "-0.5", "0.5", 13, 10),
    ("COTANGENT", _cotangent, 0, "0.25", 13, 12),
    ("LOG_RATIO", _log_ratio, 0, "0.02945", 6, 4),
    ("DIGAMMA_REST", _digamma_rest, 0, "0.02778", 7, 3),
)


def paired_table() -> dict[str, tuple[tuple[float, ...], float]]:
    """name -> (heads, error), and with _LOW the second parts of the first of them."""
    made = {}
    for name, value, lo, hi, degree, count in PAIRED:
        found, error = fits.remez(value, _relative(value), mpf(lo), mpf(hi), degree)
        parts = [fits.pair(c, 0, 24) for c in found]
        made[name] = tuple(head for head, _ in parts), float(error)
        made[name + "_LOW"] = tuple(low for _, low in parts[:count]), 0.0
    return made


def table(bits: int) -> dict[str, tuple[tuple[float, ...], float]]:
    """name -> (coefficients, lowest power first, and their error) for a format of `bits` digits."""
    head = fits.pair(ROOT - 1, 0, bits)
    made = {"DIGAMMA_ROOT": (head, 0.0)}
    for fit in FITS:
        degree = fit.degree[0 if bits == 24 else 1]
        found, error = fits.remez(fit.value, fit.weight, fit.lo, fit.hi, degree)
        made[fit.name] = tuple(fits.rounded(c, bits) for c in found), float(error)
    return made


HEAD = '''"""Coefficients of the minimax polynomials that `probability.py` and `gamma.py` evaluate.

Floor: tensor, data only. Lowest power first, already rounded to the format that evaluates them; the
error beside each name is relative to what it approximates. Made by
`tests/numerics/fit_special.py`, which also says what each polynomial approximates.
"""

from __future__ import annotations

from typing import Final
'''


def print_table(bits: int) -> None:
    print_named(f"FLOAT{32 if bits == 24 else 64}", table(bits))


def print_named(table_name: str, made: dict[str, tuple[tuple[float, ...], float]]) -> None:
    print(f"\n{table_name}: Final[dict[str, tuple[float, ...]]] = {{")
    for name, (numbers, error) in made.items():
        if len(numbers) == 2:
            print(f'    "{name}": {numbers!r},')
            continue
        print(f'    "{name}": (' + (f"  # error 2^{math.log2(error):.1f}" if error else ""))
        for c in numbers:
            print(f"        {c!r},")
        print("    ),")
    print("}")


if __name__ == "__main__":
    print(HEAD, end="")
    print_table(24)
    print_table(53)
    print(
        "\n# For float32 in pairs: heads, and under _LOW the second parts of the first of them.",
        end="",
    )
    print_named("PAIRED", paired_table())
