"""Comparisons of index expressions: decided by intervals, else reduced to what matters.

Floor: uop. `a < b` is `d < 0` for the linear form d = a - b, and `a <= b` is `a < b + 1`, so there
is one kind of ordering here. `d < 0` is `d // g < 0` for every g > 0, hence `8*x + r < 8*n` with 0
<= r < 8 is `x < n`. The result has positive terms on the left and the rest on the right.
"""

from __future__ import annotations

import math
from typing import Final

from ..dtype import dtypes
from .divmod import common_factors, settled, split_small
from .linear import Linear, below_zero, bounds, linear, node, plus, times
from .ops import Ops, UOp

_MOST_TERMS: Final = 16  # of a conjunction that are compared with a new one


def less(a: UOp, b: UOp) -> UOp:
    """a < b"""
    return _negative(plus(linear(a), linear(b), -1))


def less_equal(a: UOp, b: UOp) -> UOp:
    """a <= b"""
    difference = plus(linear(a), linear(b), -1)
    return _negative((difference[0] - 1, difference[1]))


def equal(a: UOp, b: UOp, same: bool = True) -> UOp:
    """a == b, or a != b"""
    form = settled(plus(linear(a), linear(b), -1))
    lo, hi = bounds(*form)
    if lo > 0 or hi < 0 or _never_zero(form):
        return UOp.const(dtypes.bool, not same)
    if not form[1]:
        return UOp.const(dtypes.bool, same)
    g = math.gcd(*(k for _, k in form[1]))
    g = -g if form[1][0][1] < 0 else g
    form = (form[0] // g, tuple([(atom, k // g) for atom, k in form[1]]))
    return UOp(Ops.CMPEQ if same else Ops.CMPNE, dtypes.bool, _sides(form))


def _never_zero(form: Linear) -> bool:
    """Whether form = g*X + Y where Y is never a multiple of g."""
    const, terms = form
    for g in common_factors([k for _, k in terms], 0):
        lo, hi = bounds(const, [t for t in terms if t[1] % g])
        if hi // g * g < lo:
            return True
    return False


def _negative(form: Linear) -> UOp:
    """form < 0"""
    shorter: Linear | None = settled(form)
    while shorter is not None:
        form = shorter
        lo, hi = bounds(*form)
        if hi < 0 or lo >= 0:
            return UOp.const(dtypes.bool, hi < 0)
        shorter = _without_small(form) or _without_division(form)
        shorter = shorter and settled(shorter)
    if below_zero(form):
        return UOp.const(dtypes.bool, True)
    if below_zero(plus((-1, ()), form, -1)):
        return UOp.const(dtypes.bool, False)
    return UOp(Ops.CMPLT, dtypes.bool, _sides(form))


def _without_small(form: Linear) -> Linear | None:
    """form // g where that loses terms or a common factor."""
    for g in common_factors([k for _, k in form[1]], 0):
        parts = split_small(form, g)
        if parts is not None:
            return parts[0]
    return None


def _without_division(form: Linear) -> Linear | None:
    """z // c + R < 0 is z + c*R < 0, and R - z // c < 0 is c*R + c - 1 - z < 0."""
    for atom, k in form[1]:
        if atom.op is not Ops.FLOORDIV or k not in (1, -1) or atom.src[1].op is not Ops.CONST:
            continue
        c = atom.src[1].arg
        if c > 0:
            others = times((form[0], tuple([t for t in form[1] if t[0] is not atom])), c)
            others = others if k == 1 else (others[0] + c - 1, others[1])
            return plus(others, linear(atom.src[0]), k)
    return None


def _sides(form: Linear) -> tuple[UOp, UOp]:
    """(left, right) with form = left - right and positive coefficients on both sides."""
    const, terms = form
    left = tuple([t for t in terms if t[1] > 0])
    right = tuple([(atom, -k) for atom, k in terms if k < 0])
    if not left:
        return node((const, ())), node((0, right))
    return node((0, left)), node((-const, right))


# ---- conditions that hold together


def conjunction(a: UOp, b: UOp) -> UOp | None:
    """a and b, where one of them says nothing new or they exclude each other; else None."""
    new = _as_negative(b)
    if new is None:
        return None
    parts = _conjuncts(a)
    forms = [_as_negative(p) for p in parts]
    for form in forms:
        if form is not None and _implies(form, new):
            return a
        if form is not None and bounds(*plus(form, new))[0] >= -1:  # both < 0 make it -2 or less
            return UOp.const(dtypes.bool, False)
    kept = [p for p, f in zip(parts, forms, strict=True) if f is None or not _implies(new, f)]
    if len(kept) == len(parts):
        return None
    chain: UOp | None = None
    for part in kept:
        chain = part if chain is None else UOp(Ops.AND, dtypes.bool, (chain, part))
    return b if chain is None else UOp.alu(Ops.AND, chain, b)


def _conjuncts(condition: UOp) -> list[UOp]:
    """The terms of a chain of ANDs; a long chain's beginning stays one term."""
    out: list[UOp] = []
    while condition.op is Ops.AND and len(out) < _MOST_TERMS:
        out.append(condition.src[1])
        condition = condition.src[0]
    return [condition, *reversed(out)]


def _as_negative(condition: UOp) -> Linear | None:
    """The form that is negative exactly where a `<` of index expressions holds."""
    if condition.op is not Ops.CMPLT or condition.src[0].dtype is not dtypes.index:
        return None
    return plus(linear(condition.src[0]), linear(condition.src[1]), -1)


def _implies(a: Linear, b: Linear) -> bool:
    """Whether a < 0 makes b < 0 certain: b is never above a."""
    return bounds(*plus(b, a, -1))[1] <= 0
