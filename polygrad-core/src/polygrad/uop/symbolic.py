"""The smart constructor's knowledge: what an op of these sources simplifies to, exactly.

Floor: uop, used by both floors above. `UOp.alu` and `UOp.cast` ask here before they make a node, so no
graph holds an expression that these rules shorten, and nobody rewrites to a fixed point afterwards.

Three kinds of rules, tried in this order:

1. constants fold in their dtype (`folding.py`), and a scalar whose interval is one number is that number;
2. dtype `index` is exact and kept in linear form (`linear.py`, `divmod.py`, `compare.py`);
3. identities that hold for every value: `x + 0`, `x * 1`, `x * 0` for integers, and for floats only what
   is true of -0.0, NaN and infinities too (`x * 1`, `x / 1`, `x - 0.0`).

A tensor of one repeated constant (RESHAPE, EXPAND of a CONST) counts as that constant. A leaf that has
an identity of its own (a CONST with a UNIQUE source: `zeros`, `full`) does not: `x + bias` must not lose
its bias, whose gradient somebody may ask for. The scheduler, below gradients, sees through those too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..dtype import DType, dtypes
from .folding import Value, fold, fold_bitcast, fold_cast
from .intervals import interval
from .ops import COMPARISONS, Ops, UOp

__all__ = ["const_value", "interval", "simplify", "simplify_bitcast", "simplify_cast"]

Sources = tuple[UOp, ...]
_SPREAD: Final = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP})
_COMMUTATIVE: Final = frozenset({Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE})


def const_value(u: UOp, through_unique: bool = False) -> Value | None:
    """The number that `u` is everywhere, None if it is none; `through_unique` also for `zeros` and `full`."""
    while u.op in _SPREAD:
        u = u.src[0]
    if u.op is not Ops.CONST or (u.src and not through_unique):
        return None
    value: Value = u.arg
    return value


def simplify(op: Ops, dtype: DType, src: Sources) -> UOp | None:
    """What `op` of `src` is equal to, bit for bit, or None."""
    values = [const_value(s) for s in src]
    if None not in values:
        folded = fold(op, dtype, values)  # type: ignore[arg-type]
        if folded is not None:
            return _constant(dtype, folded, src[0])
    if not src[0].shape and not dtype.is_float:
        lo, hi = interval(op, dtype, src, None)
        if lo is not None and lo == hi:
            return UOp.const(dtype, lo)
    if values[0] is not None and values[-1] is None and _moves_constant_right(op, dtype):
        return UOp.alu(op, src[1], src[0])
    rule = _RULES.get(op)
    return rule(dtype, src, values) if rule is not None else None


def simplify_cast(u: UOp, dtype: DType) -> UOp | None:
    """What `u` cast to `dtype` is equal to, or None."""
    value = const_value(u)
    if value is not None:
        return _constant(dtype, fold_cast(value, u.dtype, dtype), u)
    if u.lo is not None and u.lo == u.hi:
        return UOp.const(dtype, fold_cast(u.lo, u.dtype, dtype))
    if u.op is Ops.CAST and _first_cast_is_needless(u.src[0], u.dtype, dtype):
        return u.src[0].cast(dtype)
    return None


def simplify_bitcast(u: UOp, dtype: DType) -> UOp | None:
    """What the bits of `u` read as `dtype` are equal to, or None."""
    if u.op is Ops.BITCAST:
        return u.src[0].bitcast(dtype)
    value = const_value(u)
    folded = None if value is None else fold_bitcast(value, u.dtype, dtype)
    return None if folded is None else _constant(dtype, folded, u)


def _constant(dtype: DType, value: Any, like: UOp) -> UOp:
    """`value` with the shape of `like`."""
    made = UOp.const(dtype, value)
    return made.broadcast_to(like.shape) if like.shape else made


def _moves_constant_right(op: Ops, dtype: DType) -> bool:
    exact = op in (Ops.MAXIMUM, Ops.MINIMUM) and not dtype.is_float  # with floats, max(-0.0, 0.0) differs
    return op in _COMMUTATIVE or exact


def _first_cast_is_needless(x: UOp, middle: DType, last: DType) -> bool:
    """Whether x -> middle -> last is x -> last."""
    first = x.dtype
    if first.kind == "bool":
        return middle.kind != "bool"
    if first.is_float and middle.is_float:  # widening is exact
        return middle.itemsize > first.itemsize and middle is not dtypes.bfloat16
    if not (first.is_int and middle.is_int):
        return False
    if x.lo is not None and middle.min <= x.lo and x.hi <= middle.max:  # type: ignore[operator]
        return True
    if first.min >= middle.min and first.max <= middle.max:
        return True
    return last.is_int and last is not dtypes.index and last.itemsize <= middle.itemsize


# ---- identities. Each takes the result's dtype, the sources and their constant values (None: not one).


def _add(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if c is None or dtype.is_float:
        return None
    if c == 0:
        return a
    return _reassociate(Ops.ADD, a, b)


def _sub(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if c is not None and c == 0 and (not dtype.is_float or str(c) == "0.0"):
        return a
    if dtype.is_float or dtype.kind == "bool":
        return None
    if a is b:
        return _constant(dtype, 0, a)
    if values[0] == 0 and values[0] is not None:
        return -b
    return a + _constant(dtype, -c, b) if c is not None else None


def _mul(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if c is None:
        return None
    if c == 1:
        return a
    if dtype.is_float:
        return None
    return _constant(dtype, 0, b) if c == 0 else _reassociate(Ops.MUL, a, b)


def _div(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    return src[0] if values[1] is not None and values[1] == 1 else None


def _floordiv(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if values[0] is not None and values[0] == 0:
        return a
    if c is None:
        return None
    return _constant(dtype, 0, b) if c == 0 else a if c == 1 else None


def _floormod(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if values[0] is not None and values[0] == 0:
        return a
    if c is None:
        return None
    if c in (0, 1, -1):
        return _constant(dtype, 0, b)
    inside = a.lo is not None and c > 0 and a.lo >= 0 and a.hi < c  # type: ignore[operator]
    return a if inside else None


def _neg(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    return src[0].src[0] if src[0].op is Ops.NEG and dtype.kind != "bool" else None


_OPPOSITE: Final = {Ops.CMPEQ: Ops.CMPNE, Ops.CMPNE: Ops.CMPEQ}


def _not(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    x = src[0]
    if x.op is Ops.NOT:
        return x.src[0]
    if x.op in _OPPOSITE:
        return UOp.alu(_OPPOSITE[x.op], *x.src)
    if x.op in COMPARISONS and not x.src[0].dtype.is_float:  # NaN: not (a < b) is no b <= a
        a, b = x.src
        return b <= a if x.op is Ops.CMPLT else b < a
    return None


def _extreme(op: Ops) -> Callable[[DType, Sources, list[Any]], UOp | None]:
    def rule(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
        a, b = src
        if a is b:
            return a
        if a.lo is not None and b.lo is not None:
            big, small = (a, b) if op is Ops.MAXIMUM else (b, a)
            if big.lo >= small.hi:  # type: ignore[operator]
                return a
            if small.lo >= big.hi:  # type: ignore[operator]
                return b
        return None if dtype.is_float or values[1] is None else _reassociate(op, a, b)

    return rule


def _and(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if a is b or _is_factor(Ops.AND, a, b):
        return a
    if c is not None:
        return b if c == 0 else a if c == _ones(dtype) else _reassociate(Ops.AND, a, b)
    return _constant(dtype, 0, a) if _opposite(a, b) else None


def _or(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if a is b or _is_factor(Ops.OR, a, b):
        return a
    if c is not None:
        return a if c == 0 else b if c == _ones(dtype) else _reassociate(Ops.OR, a, b)
    return _constant(dtype, _ones(dtype), a) if _opposite(a, b) else None


def _xor(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if a is b:
        return _constant(dtype, 0, a)
    if c is None:
        return None
    return a if c == 0 else ~a if c == _ones(dtype) else _reassociate(Ops.XOR, a, b)


def _ones(dtype: DType) -> int:
    return -1 if dtype.kind == "int" else int(dtype.max)


def _opposite(a: UOp, b: UOp) -> bool:
    return (a.op is Ops.NOT and a.src[0] is b) or (b.op is Ops.NOT and b.src[0] is a)


def _is_factor(op: Ops, chain: UOp, x: UOp) -> bool:
    """Whether `x` is one of the terms of `chain`, a left-leaning tree of `op`."""
    while chain.op is op:
        if chain.src[1] is x or chain.src[0] is x:
            return True
        chain = chain.src[0]
    return False


def _shift(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    a, c = src[0], values[1]
    return a if c is not None and c == 0 else None


def _where(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    condition, then, other = src
    if then is other:
        return then
    if values[0] is not None:
        return then if values[0] else other
    if condition.lo is not None and condition.lo == condition.hi:
        return then if condition.lo else other
    if dtype.kind == "bool" and values[1] is not None and values[2] is not None:
        return condition if values[1] else ~condition
    if condition.op is Ops.NOT:
        return condition.src[0].where(other, then)
    return None


def _ordered(equal: bool) -> Callable[[DType, Sources, list[Any]], UOp | None]:
    def rule(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
        a, b = src
        if a is not b or (equal and a.dtype.is_float):  # NaN <= NaN is false
            return None
        return _constant(dtypes.bool, equal, a)

    return rule


def _equality(equal: bool) -> Callable[[DType, Sources, list[Any]], UOp | None]:
    def rule(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
        (a, b), c = src, values[1]
        if a is b and not a.dtype.is_float:
            return _constant(dtypes.bool, equal, a)
        if a.dtype.kind == "bool" and c is not None:
            return a if c == equal else ~a
        return None

    return rule


def _reassociate(op: Ops, a: UOp, b: UOp) -> UOp | None:
    """(x op c1) op c2 -> x op (c1 op c2), exact for wrapping integers."""
    if a.op is not op or const_value(a.src[1]) is None:
        return None
    return UOp.alu(op, a.src[0], UOp.alu(op, a.src[1], b))


_RULES: Final[dict[Ops, Callable[[DType, Sources, list[Any]], UOp | None]]] = {
    Ops.ADD: _add,
    Ops.SUB: _sub,
    Ops.MUL: _mul,
    Ops.DIV: _div,
    Ops.FLOORDIV: _floordiv,
    Ops.FLOORMOD: _floormod,
    Ops.NEG: _neg,
    Ops.NOT: _not,
    Ops.MAXIMUM: _extreme(Ops.MAXIMUM),
    Ops.MINIMUM: _extreme(Ops.MINIMUM),
    Ops.AND: _and,
    Ops.OR: _or,
    Ops.XOR: _xor,
    Ops.SHL: _shift,
    Ops.SHR: _shift,
    Ops.WHERE: _where,
    Ops.CMPLT: _ordered(equal=False),
    Ops.CMPLE: _ordered(equal=True),
    Ops.CMPEQ: _equality(equal=True),
    Ops.CMPNE: _equality(equal=False),
}
