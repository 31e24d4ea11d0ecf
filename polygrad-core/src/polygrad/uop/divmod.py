"""Sums, `//` and `%` of linear forms, in the shape that says most about them.

Floor: uop. All rules are exact for every integer, negative ones included, with Python's rounding;
the fuzzer (`python -m polygrad.testing.fuzz symbolic`) tries them at every point of small boxes.

For a positive constant c a form is first split, form = c * quotient + rest, coefficients of the
rest smaller than c. Then

* rest inside one bucket [k*c, (k+1)*c):    rest // c = k,  rest % c = rest - k*c
* rest = g*X + Y, g divides c, Y inside bucket q of g:
                                            rest // c = (X + q) // (c/g)
                                            rest % c = g * ((X + q) % (c/g)) + Y - g*q
* rest = z // a + R:                        rest // c = (z + a*R) // (a*c)
* rest = z % m, c divides m:                rest // c = (z // c) % (m/c)
* rest has a term k * (z % m), c divides k*m:  rest % c may use k * z instead

and a sum puts together what belongs together:

    g*(y % c) + g*c*(y // c) = g*y      g*z - g*c*(z // c) = g*(z % c)
    g*(y % c) + g*c*((y // c + w) % b) = g*((y + c*w) % (c*b))
"""

from __future__ import annotations

import math
from itertools import product as choices
from typing import Final

from .linear import (
    CONST,
    INDEX,
    Linear,
    Terms,
    below_zero,
    bounds,
    factors,
    linear,
    node,
    plus,
    product,
    times,
)
from .ops import Ops, UOp

FLOORDIV: Final = Ops.FLOORDIV
FLOORMOD: Final = Ops.FLOORMOD
_DIVMOD: Final = frozenset({FLOORDIV, FLOORMOD})
_MOST_RESIDUES: Final = 4  # terms for which both residues, r and r - c, are tried


def floordiv(u: UOp, c: int) -> UOp:
    """u // c for a constant c; 0 where c is 0."""
    return total(_floordiv(linear(u), c))


def floormod(u: UOp, c: int) -> UOp:
    """u % c for a constant c, with the sign of c; 0 where c is 0."""
    return total(_floormod(linear(u), c))


# ---- division


def _floordiv(form: Linear, c: int) -> Linear:
    if c <= 0:
        return _floordiv(times(form, -1), -c) if c else (0, ())
    quotient, rest = _split(form, c)
    bucket = _bucket(rest[0], rest[1], c)
    if bucket is not None:
        return quotient[0] + bucket, quotient[1]
    residue = _other_residue(rest, c)
    if residue is not None:
        extra, rest = residue
        return plus(plus(quotient, extra), (bounds(*rest)[0] // c, ()))
    parts = _small_part(rest, c)
    if parts is not None:
        g, big, _ = parts
        return plus(quotient, _floordiv(big, c // g))
    return plus(quotient, _nested_division(rest, c) or _atom(FLOORDIV, rest, c))


def _nested_division(rest: Linear, c: int) -> Linear | None:
    const, terms = rest
    for atom, k in terms:
        if k != 1 or atom.op not in _DIVMOD or atom.src[1].op is not CONST:
            continue
        a = atom.src[1].arg
        if atom.op is FLOORDIV and a > 0:
            others = (const, tuple([t for t in terms if t[0] is not atom]))
            return _floordiv(plus(linear(atom.src[0]), others, a), a * c)
        if len(terms) == 1 and const == 0 and a > 0 and a % c == 0:
            return _floormod(_floordiv(linear(atom.src[0]), c), a // c)
    return None


# ---- remainder


def _floormod(form: Linear, c: int) -> Linear:
    if c <= 0:
        return times(_floormod(times(form, -1), -c), -1) if c else (0, ())
    _, rest = _split(_without_inner_mod(form, c), c)
    bucket = _bucket(rest[0], rest[1], c)
    if bucket is not None:
        return rest[0] - bucket * c, rest[1]
    residue = _other_residue(rest, c)
    if residue is not None:
        rest = residue[1]
        return rest[0] - bounds(*rest)[0] // c * c, rest[1]
    parts = _small_part(rest, c)
    if parts is not None:
        g, big, small = parts
        return plus(small, _floormod(big, c // g), g)
    return _atom(FLOORMOD, rest, c)


def _without_inner_mod(form: Linear, c: int) -> Linear:
    """k * (z % m) is k * z modulo c where c divides k * m."""
    for atom, k in form[1]:
        if atom.op is FLOORMOD and atom.src[1].op is CONST and k * atom.src[1].arg % c == 0:
            rest = (form[0], tuple([t for t in form[1] if t[0] is not atom]))
            return _without_inner_mod(plus(rest, linear(atom.src[0]), k), c)
    return form


# ---- what both use


def _split(form: Linear, c: int) -> tuple[Linear, Linear]:
    """(quotient, rest) with form = c * quotient + rest; a rest's coefficient keeps its sign."""
    const, terms = form
    out: list[tuple[UOp, int]] = []
    rest: list[tuple[UOp, int]] = []
    for atom, k in terms:
        r = k % c if k > 0 else -(-k % c)
        if r:
            rest.append((atom, r))
        if r != k:
            out.append((atom, (k - r) // c))
    return (const // c, tuple(out)), (const % c, tuple(rest))


def _bucket(const: int, terms: Terms, c: int) -> int | None:
    """k where the sum is always in [k*c, (k+1)*c)."""
    lo, hi = bounds(const, terms)
    return lo // c if lo // c == hi // c else None


def _other_residue(rest: Linear, c: int) -> tuple[Linear, Linear] | None:
    """(extra, rest2) with rest = c * extra + rest2 and rest2 inside one bucket.

    A coefficient r may as well be r - c. The narrowest choice of each is enough to know that no
    choice fits, which is the usual end of it.
    """
    const, terms = rest
    narrowest = 0
    for atom, k in terms:
        narrowest += min(abs(k), c - abs(k)) * (atom.hi - atom.lo)  # type: ignore[operator]
    if narrowest >= c or len(terms) > _MOST_RESIDUES:
        return None
    for flips in choices((0, 1), repeat=len(terms)):
        signs = [flip if k > 0 else -flip for flip, (_, k) in zip(flips, terms, strict=True)]
        other = tuple([(atom, k - c * s) for s, (atom, k) in zip(signs, terms, strict=True)])
        if any(flips) and _bucket(const, other, c) is not None:
            extra = [(atom, s) for s, (atom, _) in zip(signs, terms, strict=True) if s]
            return (0, tuple(extra)), (const, other)
    return None


def _small_part(rest: Linear, c: int) -> tuple[int, Linear, Linear] | None:
    """(g, big, small) with rest = g * big + small and 0 <= small < g, g > 1 a divisor of c."""
    for g in common_factors([k for _, k in rest[1]], c):
        parts = split_small(rest, g)
        if parts is not None:
            return g, *parts
    return None


def split_small(form: Linear, g: int) -> tuple[Linear, Linear] | None:
    """(big, small) with form = g * big + small and 0 <= small < g for certain."""
    const, terms = form
    small = tuple([t for t in terms if t[1] % g])
    q = _bucket(const, small, g)
    if q is None:
        return None
    big = tuple([(atom, k // g) for atom, k in terms if k % g == 0])
    return (q, big), (const - q * g, small)


def common_factors(numbers: list[int], c: int) -> list[int]:
    """Numbers > 1 that divide some of `numbers` (and c, unless that is 0), smallest first."""
    if not numbers or (max(numbers) <= 1 and min(numbers) >= -1):
        return []
    seen: set[int] = set()
    g = c
    for k in sorted(map(abs, numbers), reverse=True):
        g = math.gcd(g, k)
        seen.add(g)
        seen.add(math.gcd(c, k))
    return sorted(seen - {0, 1, c})


def _atom(op: Ops, form: Linear, c: int) -> Linear:
    again = settled(form)
    if again is not form:  # putting // and % together gave new coefficients
        return _floordiv(again, c) if op is FLOORDIV else _floormod(again, c)
    return 0, ((UOp(op, INDEX, (node(form), UOp(CONST, INDEX, (), c))), 1),)


# ---- sums


def total(form: Linear) -> UOp:
    """The node of a form, with pairs of // and % put together."""
    return node(settled(form))


def settled(form: Linear) -> Linear:
    """The form with pairs of // and % put together."""
    better: Linear | None = form
    while better is not None:
        form = better
        better = _pair(form) if len(form[1]) > 1 else None
    return form


def _pair(form: Linear) -> Linear | None:
    """One step of putting together, None when there is nothing to do."""
    for atom, k in form[1]:
        if atom.op not in _DIVMOD or atom.src[1].op is not CONST:
            continue
        rule = _mod_with_others if atom.op is FLOORMOD else _division_with_others
        better = rule(form, atom, k, atom.src[1].arg)
        if better is not None:
            return better
    return None


def _mod_with_others(form: Linear, mod: UOp, g: int, c: int) -> Linear | None:
    """g*(y % c) with g*c*(y // c) or g*c*((y // c) % b)."""
    candidates = [atom for atom, k in form[1] if k == g * c and atom.op in _DIVMOD]
    if not candidates:
        return None
    y = linear(mod.src[0])
    quotient = _floordiv(y, c)
    for atom in candidates:
        if quotient == (0, ((atom, 1),)):
            return plus(_less(form, mod, atom), y, g)
        divisor = atom.src[1]
        if atom.op is FLOORMOD and divisor.op is CONST and divisor.arg > 0:
            # With z = y // c + w, the numbers c * z + y % c and y + c * w are the same.
            w = plus(linear(atom.src[0]), quotient, -1)
            if all(part not in dict(w[1]) for part, _ in quotient[1]):
                whole = _floormod(plus(y, w, c), c * divisor.arg)
                return plus(_less(form, mod, atom), whole, g)
    return None


def _division_with_others(form: Linear, division: UOp, k: int, c: int) -> Linear | None:
    """k*(z // c) with k/c*(z % c), or with -k/c*z."""
    if c <= 0 or k % c:
        return None
    g, z = k // c, linear(division.src[0])
    table = dict(form[1])
    if all(table.get(atom) == -g * t for atom, t in z[1]):
        taken = plus(_less(form, division), z, g)
        return plus(taken, _floormod(z, c), -g)
    remainder = _floormod(z, c)
    if len(remainder[1]) == 1 and remainder[1][0][0].op is FLOORMOD:
        atom, times_atom = remainder[1][0]
        if table.get(atom) == g * times_atom:
            left = _less(form, division, atom)
            return plus(plus(left, z, g), (g * remainder[0], ()), -1)
    return None


def _less(form: Linear, *atoms: UOp) -> Linear:
    return form[0], tuple([t for t in form[1] if t[0] not in atoms])


# ---- divisors that are no constants


def floordiv_by(u: UOp, divisor: UOp) -> UOp:
    """u // divisor"""
    quotient, rest = _split_by(linear(u), divisor)
    if _is_below(rest, divisor):
        return total(quotient)
    inner = UOp(FLOORDIV, INDEX, (total(rest), divisor))
    return total(plus(quotient, (0, ((inner, 1),))))


def floormod_by(u: UOp, divisor: UOp) -> UOp:
    """u % divisor"""
    rest = _split_by(linear(u), divisor)[1]
    inside = _is_below(rest, divisor)
    return total(rest) if inside else UOp(FLOORMOD, INDEX, (total(rest), divisor))


def _split_by(form: Linear, divisor: UOp) -> tuple[Linear, Linear]:
    """(quotient, rest) with form = divisor * quotient + rest; what may be 0 takes nothing out."""
    if divisor.lo is None or divisor.lo <= 0:
        return (0, ()), form
    by = linear(divisor)
    if by[0] or len(by[1]) != 1:  # a sum: only a multiple of all of it is taken out
        k = form[1][0][1] // by[1][0][1] if form[1] else 0
        whole = times(by, k) == form
        return ((k, ()), (0, ())) if whole else ((0, ()), form)
    ((atom, c),) = by[1]
    quotient: Linear = (0, ())
    rest: list[tuple[UOp, int]] = []
    for term, k in form[1]:
        others = None if k % c else _without(factors(term), factors(atom))
        if others is None:
            rest.append((term, k))
            continue
        part: Linear = (k // c, ())
        for p in others:
            part = product(part, linear(p))
        quotient = plus(quotient, part)
    return quotient, (form[0], tuple(rest))


def _without(parts: list[UOp], some: list[UOp]) -> list[UOp] | None:
    """`parts` less `some`, None where they are not all there."""
    for p in some:
        if p not in parts:
            return None
        parts.remove(p)
    return parts


def _is_below(rest: Linear, divisor: UOp) -> bool:
    """Whether 0 <= rest < divisor for certain."""
    if divisor.lo is None or divisor.lo <= 0 or not below_zero(plus((-1, ()), rest, -1)):
        return False
    return below_zero(plus(rest, linear(divisor), -1))
