"""Compute the coefficient tables of `polygrad/codegen/polynomials.py`.

Each table is a minimax polynomial: the one whose largest weighted error over an interval is
smallest, found by the Remez exchange (Remez, 1934) on a grid of Chebyshev points, in 200-bit
arithmetic, then rounded coefficient by coefficient to the format that evaluates it. The weight
makes the error relative to the *result* of the function, so it reads directly in bits.

Run it to print the tables again (needs mpmath; a few seconds):

    python tests/numerics/fit_polynomials.py > tables.txt
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import mpmath
from mpmath import mp, mpf

Function = Callable[[mpf], mpf]
mp.prec = 200
LN2 = mpmath.log(2)
ROOT2 = mpmath.sqrt(2)
TINY = mpf(10) ** -20  # where a quotient of two small numbers is replaced by its limit


class Fit(NamedTuple):
    """`value(x)` is approximated for lo <= x <= hi; `weight(x)` times its error is the result's
    error."""

    name: str
    value: Function
    weight: Function
    lo: mpf
    hi: mpf
    degree: tuple[int, int]  # for float32 and for float64
    hi64: mpf | None = None


def _limit(f: Function, at_zero: mpf) -> Function:
    return lambda x: at_zero if abs(x) < TINY else f(x)


# ---- what is approximated. `elementary.py` and `trigonometric.py` say how each is used.


def _exp_tail(r: mpf) -> mpf:
    return (mpmath.expm1(r) - r) / r**2


def _erf_exponent(x: mpf) -> mpf:
    return -mpmath.log(mpmath.erfc(x)) / x - 1


def _erf_weight(x: mpf) -> mpf:
    rest = mpmath.erfc(max(x, TINY))
    return max(x, TINY) * rest / (1 - rest)


def _sin_tail(z: mpf) -> mpf:
    r = mpmath.sqrt(z)
    return (mpmath.sin(r) / r - 1) / z


def _sin_weight(z: mpf) -> mpf:
    r = mpmath.sqrt(max(z, TINY))
    return z * r / mpmath.sin(r)


def _tanh_tail(z: mpf) -> mpf:
    x = mpmath.sqrt(z)
    return (mpmath.tanh(x) / x - 1) / z


def _atanh_tail(z: mpf) -> mpf:
    s = mpmath.sqrt(z)
    return 2 * (mpmath.atanh(s) / s - 1) / z


def _power_tail(z: mpf) -> mpf:
    s = mpmath.sqrt(z)
    return ((mpmath.atanh(s) / s - 1) / z - mpf(1) / 3) / z


_S = (ROOT2 - 1) / (ROOT2 + 1)  # the largest s = (m - 1) / (m + 1) for m in [sqrt(1/2), sqrt(2)]
_HALF_PI = mp.pi / 2
_MARGIN = 1 + mpf(2) ** -12  # the reduced argument may be a little outside

FITS = (
    Fit(
        "EXP2",
        _limit(lambda r: (2**r - 1) / r, LN2),
        lambda r: abs(r) / 2**r,
        mpf(-1),
        mpf(1),
        (6, 12),
    ),
    Fit("EXPM1", _limit(_exp_tail, mpf(1) / 2), abs, -LN2 / 2, LN2 / 2, (4, 9)),
    Fit("TANH", _limit(_tanh_tail, -mpf(1) / 3), lambda z: z, mpf(0), mpf("0.0901"), (2, 6)),
    Fit(
        "LOG",
        _limit(lambda f: (mpmath.log1p(f) - f + f**2 / 2) / f**3, mpf(1) / 3),
        lambda f: f**2,
        1 / ROOT2 - 1,
        ROOT2 - 1,
        (7, 0),
    ),
    Fit(
        "LOG2",
        _limit(lambda f: (mpmath.log1p(f) / LN2 - f) / f, 1 / LN2 - 1),
        _limit(lambda f: f / mpmath.log1p(f) * LN2, LN2),
        1 / ROOT2 - 1,
        ROOT2 - 1,
        (9, 0),
    ),
    Fit("ATANH", _limit(_atanh_tail, mpf(2) / 3), lambda z: z, mpf(0), _S**2, (0, 6)),
    Fit("SIN", _limit(_sin_tail, -mpf(1) / 6), _sin_weight, mpf(0), _HALF_PI**2, (3, 7)),
    Fit(
        "ERF",
        _limit(_erf_exponent, 2 / mpmath.sqrt(mp.pi) - 1),
        _erf_weight,
        mpf(0),
        mpf("3.92"),
        (8, 23),
        mpf("5.95"),
    ),
    Fit("POWER", _limit(_power_tail, mpf(1) / 5), lambda z: z**2, mpf(0), _S**2, (2, 7)),
)


# ---- Remez exchange


def _evaluate(coefficients: list[mpf], x: mpf) -> mpf:
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _solve(points: list[int], xs: list[mpf], values: list[mpf], weights: list[mpf]) -> list[mpf]:
    """The polynomial whose weighted errors at the points are equal with alternating signs; last:
    the error."""
    n = len(points)
    a, b = mpmath.matrix(n, n), mpmath.matrix(n, 1)
    for i, k in enumerate(points):
        power = weights[k]
        for j in range(n - 1):
            a[i, j] = power
            power *= xs[k]
        a[i, n - 1] = (-1) ** i
        b[i] = weights[k] * values[k]
    return list(mpmath.lu_solve(a, b))


def _extrema(errors: list[mpf], wanted: int) -> list[int]:
    """One index per run of equal sign, where the error is largest; the smallest runs are
    dropped."""
    found = [0]
    for i in range(1, len(errors)):
        if (errors[i] > 0) != (errors[found[-1]] > 0):
            found.append(i)
        elif abs(errors[i]) > abs(errors[found[-1]]):
            found[-1] = i
    while len(found) > wanted:
        weakest = min(range(len(found)), key=lambda k: abs(errors[found[k]]))
        inner = 0 < weakest < len(found) - 1
        if not inner or len(found) == wanted + 1:
            del found[0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1]
        else:  # drop it with its weaker neighbour, so that signs still alternate
            other = min((weakest - 1, weakest + 1), key=lambda k: abs(errors[found[k]]))
            for k in sorted((weakest, other), reverse=True):
                del found[k]
    return found


def remez(
    value: Function, weight: Function, lo: mpf, hi: mpf, degree: int
) -> tuple[list[mpf], mpf]:
    """Coefficients, lowest first, and the largest weighted error."""
    grid = max(300, 40 * degree)
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * mpmath.cos(mp.pi * i / grid) for i in range(grid + 1)]
    values, weights = [value(x) for x in xs], [weight(x) for x in xs]
    best: tuple[list[mpf], mpf] = ([], mpf("inf"))
    for start in (0.93, 0.6, 1.0, 0.4, 0.77):  # one start may find too few extrema, another not
        points = [round(grid * (2 * i + start) / (2 * (degree + 2))) for i in range(degree + 2)]
        for _ in range(25):
            *coefficients, level = _solve(points, xs, values, weights)
            samples = zip(xs, values, weights, strict=True)
            errors = [w * (_evaluate(coefficients, x) - v) for x, v, w in samples]
            largest = max(abs(e) for e in errors)
            if largest < best[1]:
                best = coefficients, largest
            if largest < abs(level) * mpf("1.03"):
                return best
            points = _extrema(errors, degree + 2)
            if len(points) < degree + 2:
                break
    return best


def rounded(x: mpf, bits: int) -> float:
    mantissa, exponent = mpmath.frexp(x)
    return float(mpmath.ldexp(mpmath.nint(mpmath.ldexp(mantissa, bits)), exponent - bits))


# ---- constants in two pieces, and the bits of 1 / (2 pi)

# name, value, digits of the head for float32 and float64 (0: as many as the format has)
PAIRS = (
    ("LN2", LN2, (16, 40)),  # n * head is exact for every exponent n
    ("HALF_PI", mp.pi / 2, (0, 0)),
    ("TWO_LOG2_E", 2 / LN2, (0, 0)),
    ("THIRD", mpf(1) / 3, (0, 0)),
    ("TURN", 2 * mp.pi, (12, 26)),
)


def pair(value: mpf, digits: int, bits: int) -> tuple[float, float]:
    head = rounded(value, digits or bits)
    return head, rounded(value - head, bits)


def inverse_turn(words: int) -> list[int]:
    """The first bits of 1 / (2 pi) after the point, 32 a word."""
    with mpmath.workprec(32 * words + 64):
        scaled = int(mpmath.floor(mpmath.ldexp(1 / (2 * mp.pi), 32 * words)))
    return [scaled >> (32 * (words - 1 - i)) & 0xFFFFFFFF for i in range(words)]


def table(bits: int) -> dict[str, tuple[tuple[float, ...], float]]:
    """name -> (numbers, error of the result) for a format of `bits` digits."""
    column = 0 if bits == 24 else 1
    made = {name: (pair(value, digits[column], bits), 0.0) for name, value, digits in PAIRS}
    for fit in FITS:
        degree = fit.degree[column]
        if degree:
            hi = fit.hi64 if fit.hi64 is not None and bits == 53 else fit.hi * _MARGIN
            found, error = remez(fit.value, fit.weight, fit.lo * _MARGIN, hi, degree)
            made[fit.name] = tuple(rounded(c, bits) for c in found), float(error)
    return made


def print_table(bits: int) -> None:
    print(f"FLOAT{32 if bits == 24 else 64}: Final[dict[str, tuple[float, ...]]] = {{")
    for name, (numbers, error) in table(bits).items():
        if not error:
            print(f'    "{name}": {numbers!r},')
            continue
        print(f'    "{name}": (  # error 2^{math.log2(error):.1f}')
        for c in numbers:
            print(f"        {c!r},")
        print("    ),")
    print("}\n")


def main() -> None:
    print_table(24)
    print_table(53)
    words = inverse_turn(40)
    print("# The bits of 1 / (2 pi) after the point, 32 a word: enough for every float64.")
    print("INVERSE_TURN: Final = (")
    for i in range(0, len(words), 4):
        print("    " + " ".join(f"0x{w:08X}," for w in words[i : i + 4]))
    print(")  # fmt: skip")


if __name__ == "__main__":
    main()
