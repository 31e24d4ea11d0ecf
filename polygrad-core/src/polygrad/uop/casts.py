"""Casts: which are needless, and integer arithmetic that is really index arithmetic.

Floor: uop. A value computed from loop counters (`arange`, a one-hot's comparison) is a CAST of an
index expression. Where its interval proves that nothing wraps, arithmetic moves inside the cast,
so that the linear forms see it: `cast(i, int32) * 2 == cast(j, int32)` is `i * 2 == j`.
"""

from __future__ import annotations

from typing import Final

from ..dtype import DType, dtypes
from .folding import fold_bitcast, fold_cast
from .intervals import FULL
from .ops import COMPARISONS, Ops, UOp
from .values import const_value, constant

_MOVED_IN: Final = frozenset(
    {Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.FLOORDIV, Ops.FLOORMOD, Ops.MAXIMUM, Ops.MINIMUM}
)


def simplify_cast(u: UOp, dtype: DType) -> UOp | None:
    """What `u` cast to `dtype` is equal to, or None."""
    value = const_value(u)
    if value is not None:
        return constant(dtype, fold_cast(value, u.dtype, dtype), u)
    if u.lo is not None and u.lo == u.hi:
        return UOp.const(dtype, fold_cast(u.lo, u.dtype, dtype))
    if u.op is Ops.CAST and _first_is_needless(u.src[0], u.dtype, dtype):
        return u.src[0].cast(dtype)
    return None


def simplify_bitcast(u: UOp, dtype: DType) -> UOp | None:
    """What the bits of `u` read as `dtype` are equal to, or None."""
    if u.op is Ops.BITCAST:
        return u.src[0].bitcast(dtype)
    value = const_value(u)
    folded = None if value is None else fold_bitcast(value, u.dtype, dtype)
    return None if folded is None else constant(dtype, folded, u)


def _first_is_needless(x: UOp, middle: DType, last: DType) -> bool:
    """Whether x -> middle -> last is x -> last."""
    first = x.dtype
    if first.kind == "bool":
        return middle.kind != "bool"
    if first.is_float and middle.is_float:  # exact, if it widens
        return middle.itemsize > first.itemsize and last.kind != "bool"
    if not (first.is_int and middle.is_int):
        return False
    if _fits(x, middle):
        return True
    return last.is_int and last is not dtypes.index and last.itemsize <= middle.itemsize


def _fits(x: UOp, dtype: DType) -> bool:
    """Whether each value of `x` is one of `dtype`."""
    lo, hi = FULL[dtype]
    if x.lo is not None and x.hi is not None:
        return bool(lo <= x.lo and x.hi <= hi)
    return bool(lo <= x.dtype.min and x.dtype.max <= hi)


def through_index(op: Ops, dtype: DType, src: tuple[UOp, ...]) -> UOp | None:
    """`op` of integers computed from loop counters, as arithmetic on the counters."""
    if op not in _MOVED_IN and op not in COMPARISONS:
        return None
    inner = [_as_index(s) for s in src]
    if any(s is None for s in inner) or all(s.op is Ops.CONST for s in src):
        return None
    made = UOp.alu(op, *inner)  # type: ignore[arg-type]
    if op in COMPARISONS:
        return made
    return made.cast(dtype) if _fits(made, dtype) else None


def _as_index(u: UOp) -> UOp | None:
    if u.op is Ops.CONST and not u.src:
        return UOp.index(int(u.arg))
    if u.op is Ops.CAST and u.src[0].dtype is dtypes.index and _fits(u.src[0], u.dtype):
        return u.src[0]
    return None
