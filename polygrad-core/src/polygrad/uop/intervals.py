"""Intervals: what `[lo, hi]` a scalar integer or bool can take, from the intervals of its sources.

Floor: uop. Called once per node, at construction (`UOp.lo`, `UOp.hi`), so it never walks the
graph. The answer contains every value the node can have; it is exact for one op of independent
sources, and the whole range of the dtype where the op could wrap. Dtype `index` never wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..dtype import TENSOR_DTYPES, DType, dtypes
from .ops import Ops

Interval = tuple[Any, Any]  # two ints; two Nones where nothing is known
Sources = tuple[Any, ...]  # of UOps whose interval is known, so `lo` and `hi` are ints

NOTHING: Final[Interval] = (None, None)
FULL: Final[dict[DType, Interval]] = {
    d: (int(d.min), int(d.max)) for d in (*TENSOR_DTYPES.values(), dtypes.index) if not d.is_float
}


def interval(op: Ops, dtype: DType, src: Sources, arg: Any) -> Interval:
    """`(lo, hi)` of a node without a shape; Nones for floats, vectors, addresses and effects."""
    full = FULL.get(dtype)
    if full is None or op in _NO_VALUE:
        return NOTHING
    rule = _RULES.get(op)
    if rule is None:
        return full
    for s in src:
        if s.lo is None:
            return rule(dtype, src, arg, full) if op in _ANY_SOURCE else full
    lo, hi = rule(dtype, src, arg, full)
    return (lo, hi) if dtype is dtypes.index or (lo >= full[0] and hi <= full[1]) else full


def _add(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    return a.lo + b.lo, a.hi + b.hi


def _sub(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    return a.lo - b.hi, a.hi - b.lo


def _mul(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    corners = (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)
    return min(corners), max(corners)


def _neg(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    return -src[0].hi, -src[0].lo


def _floordiv(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    ends = [0] if b.lo <= 0 <= b.hi else []  # x // 0 is 0
    # For divisors of one sign the quotient is monotone in both, so the corners bound it.
    for lo, hi in ((max(b.lo, 1), b.hi), (b.lo, min(b.hi, -1))):
        if lo <= hi:
            ends += [a.lo // lo, a.lo // hi, a.hi // lo, a.hi // hi]
    return min(ends), max(ends)


def _floormod(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    if b.lo == b.hi and b.lo != 0 and a.lo // b.lo == a.hi // b.lo:
        return a.lo % b.lo, a.hi % b.lo
    lo, hi = min(b.lo + 1, 0), max(b.hi - 1, 0)
    if b.lo >= 0 and a.lo >= 0:
        hi = min(hi, a.hi)
    return lo, hi


def _idiv(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    if a.lo >= 0 and b.lo >= 1:
        return a.lo // b.hi, a.hi // b.lo
    most = max(abs(a.lo), abs(a.hi))
    return -most, most


def _imod(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    most = max(abs(b.lo), abs(b.hi), 1) - 1
    return max(a.lo, -most) if a.lo < 0 else 0, min(a.hi, most) if a.hi > 0 else 0


def _maximum(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    return max(a.lo, b.lo), max(a.hi, b.hi)


def _minimum(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    return min(a.lo, b.lo), min(a.hi, b.hi)


def _where(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    c, a, b = src
    if c.lo == 1:
        return a.lo, a.hi
    if c.hi == 0:
        return b.lo, b.hi
    return min(a.lo, b.lo), max(a.hi, b.hi)


def _not(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    x = src[0]
    if dtype.kind in ("bool", "uint"):
        return full[1] - x.hi, full[1] - x.lo
    return ~x.hi, ~x.lo


def _and(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    if dtype.kind == "bool":
        return a.lo & b.lo, a.hi & b.hi
    if a.lo < 0 and b.lo < 0:
        return full
    return 0, min(x.hi for x in src if x.lo >= 0)


def _or(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    if a.lo < 0 or b.lo < 0:
        return full
    return max(a.lo, b.lo), (1 << max(a.hi, b.hi).bit_length()) - 1


def _xor(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    if a.lo < 0 or b.lo < 0:
        return full
    return 0, (1 << max(a.hi, b.hi).bit_length()) - 1


def _shl(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, count = src
    if count.lo != count.hi or not 0 <= count.lo < dtype.bits:
        return full
    return a.lo << count.lo, a.hi << count.lo


def _shr(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, count = src
    if count.lo != count.hi or not 0 <= count.lo < dtype.bits:
        return min(a.lo, -(a.lo < 0)), max(a.hi, 0)
    return a.lo >> count.lo, a.hi >> count.lo


def _cmplt(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    return int(a.hi < b.lo), int(a.lo < b.hi)


def _cmple(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    return int(a.hi <= b.lo), int(a.lo <= b.hi)


def _cmpeq(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    a, b = src
    return int(a.lo == a.hi == b.lo == b.hi), int(a.lo <= b.hi and b.lo <= a.hi)


def _cmpne(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    lo, hi = _cmpeq(dtype, src, arg, full)
    return 1 - hi, 1 - lo


def _cast(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    x = src[0]
    if dtype.kind == "bool":
        return int(x.lo > 0 or x.hi < 0), int(x.lo != 0 or x.hi != 0)
    if x.hi > full[1]:  # of uint64: even an index wraps then, to a negative number
        return full
    return x.lo, x.hi


def _const(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    return int(arg), int(arg)


def _variable(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    return int(arg[1]), int(arg[2])


def _range(dtype: DType, src: Sources, arg: Any, full: Interval) -> Interval:
    # Never one value: it would be folded, and an ordered kernel forget what stands in the loop.
    # Nothing runs in an empty range: any answer is true of it.
    lo, hi = src
    return lo.lo, max(lo.lo + 1, hi.hi - 1)


_NO_VALUE: Final = frozenset({Ops.PARAM, Ops.INDEX, Ops.LOCAL, Ops.UNIQUE, Ops.STORE, Ops.END})
_ANY_SOURCE: Final = frozenset({Ops.CONST})  # its UNIQUE source has no interval
_RULES: Final[dict[Ops, Callable[[DType, Sources, Any, Interval], Interval]]] = {
    Ops.CONST: _const,
    Ops.VARIABLE: _variable,
    Ops.RANGE: _range,
    Ops.CAST: _cast,
    Ops.ADD: _add,
    Ops.SUB: _sub,
    Ops.MUL: _mul,
    Ops.NEG: _neg,
    Ops.FLOORDIV: _floordiv,
    Ops.FLOORMOD: _floormod,
    Ops.IDIV: _idiv,
    Ops.IMOD: _imod,
    Ops.MAXIMUM: _maximum,
    Ops.MINIMUM: _minimum,
    Ops.MAX: _maximum,
    Ops.MIN: _minimum,
    Ops.WHERE: _where,
    Ops.NOT: _not,
    Ops.AND: _and,
    Ops.OR: _or,
    Ops.XOR: _xor,
    Ops.SHL: _shl,
    Ops.SHR: _shr,
    Ops.CMPLT: _cmplt,
    Ops.CMPLE: _cmple,
    Ops.CMPEQ: _cmpeq,
    Ops.CMPNE: _cmpne,
}
