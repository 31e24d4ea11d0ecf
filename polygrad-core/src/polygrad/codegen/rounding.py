"""Expansions on floats that are exact: extremes, reciprocals and rounding.

Floor: codegen, called by `decompose.py`.
"""

from __future__ import annotations

from typing import Final

from ..target import Target
from ..uop.ops import Ops, UOp
from ..uop.rewrite import Rules
from .elementary import is_native
from .floats import FORMATS, Format, is_nan, magnitude, with_sign_of

RULES: Final = Rules()


@RULES.on(Ops.MAXIMUM, Ops.MINIMUM)
def extreme(u: UOp) -> UOp | None:
    """`a > b ? a : b` gives b when either is NaN, so only a NaN in `a` needs a test of its own."""
    if u.dtype not in FORMATS:
        return None
    a, b = u.src
    op = Ops.MAX if u.op is Ops.MAXIMUM else Ops.MIN
    if _never_nan(a):
        return UOp(op, u.dtype, (a, b))
    if _never_nan(b):  # the same for NaN; of two zeros numpy keeps the first, and so does this
        return UOp(op, u.dtype, (b, a))
    return is_nan(a).where(a, UOp(op, u.dtype, (a, b)))


def _never_nan(u: UOp) -> bool:
    if u.op is Ops.CONST:
        return bool(u.arg == u.arg)
    return u.op is Ops.CAST and not u.src[0].dtype.is_float


@RULES.on(Ops.RECIP)
def reciprocal(u: UOp, target: Target) -> UOp | None:
    if u.dtype not in FORMATS or is_native(Ops.RECIP, u.dtype, target):
        return None
    return UOp.const(u.dtype, 1.0) / u.src[0]


# ---- rounding where the target has no instruction: 2^shift + |x| has no fraction left


@RULES.on(Ops.ROUND, Ops.TRUNC, Ops.FLOOR, Ops.CEIL)
def round_to_whole(u: UOp, target: Target) -> UOp | None:
    f = FORMATS.get(u.dtype)
    if f is None or target.supports(u.op, u.dtype):
        return None
    return _ROUNDING[u.op](u.src[0], f)


def _nearest_magnitude(a: UOp, f: Format) -> UOp:
    """|x| rounded to the nearest whole number, halves to even; `a` = |x|."""
    step = 2.0**f.shift
    return (a < step).where((a + step) - step, a)


def _round(x: UOp, f: Format) -> UOp:
    return with_sign_of(_nearest_magnitude(magnitude(x, f), f), x, f)


def _trunc(x: UOp, f: Format) -> UOp:
    a = magnitude(x, f)
    nearest = _nearest_magnitude(a, f)
    return with_sign_of((a < nearest).where(nearest - 1.0, nearest), x, f)


def _floor(x: UOp, f: Format) -> UOp:
    nearest = _round(x, f)
    return (x < nearest).where(nearest - 1.0, nearest)


def _ceil(x: UOp, f: Format) -> UOp:
    return -_floor(-x, f)  # so that -0.5 gives -0.0


_ROUNDING: Final = {Ops.ROUND: _round, Ops.TRUNC: _trunc, Ops.FLOOR: _floor, Ops.CEIL: _ceil}
