"""The smart constructor's knowledge: what an op of these sources simplifies to, exactly.

Floor: uop, used by both floors above. `UOp.alu` and `UOp.cast` ask here before they make a node,
so no graph holds an expression that these rules shorten, and nobody rewrites to a fixed point
afterwards.

Three kinds of rules, tried in this order:

1. constants fold in their dtype (`folding.py`); a scalar whose interval is one number is it;
2. dtype `index` is exact and kept in linear form (`linear.py`, `divmod.py`, `compare.py`);
3. identities that hold for every value: `x + 0`, `x * 1`, `x * 0` for integers, and for floats only
   what is true of -0.0, NaN and infinities too (`x * 1`, `x / 1`, `x - 0.0`).

A tensor of one repeated constant (RESHAPE, EXPAND of a CONST) counts as that constant. A leaf that
has an identity of its own (a CONST with a UNIQUE source: `zeros`, `full`) does not: `x + bias`
must not lose its bias, whose gradient somebody may ask for. The scheduler, below gradients, sees
through those too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..dtype import DType, dtypes
from . import compare, divmod
from .casts import simplify_bitcast, simplify_cast, through_index
from .folding import fold
from .intervals import FULL, interval
from .linear import (
    INDEX,
    bounds,
    coefficient,
    depends_on,
    divides,
    gcd_factor,
    linear,
    order,
    plus,
    product,
    ranges_of,
    times,
)
from .ops import COMPARISONS, Ops, UOp
from .values import MAYBE_CONST, const_value, constant

__all__ = [
    "coefficient",
    "const_value",
    "depends_on",
    "divides",
    "gcd_factor",
    "interval",
    "linear",
    "ranges_of",
    "simplify",
    "simplify_bitcast",
    "simplify_cast",
]

Sources = tuple[UOp, ...]
_COMMUTATIVE: Final = frozenset({Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE})
_INTEGERS: Final = frozenset({"int", "uint"})
_NEAR: Final = 16  # terms of a chain that are looked at: long chains must not cost their square


def simplify(op: Ops, dtype: DType, src: Sources) -> UOp | None:
    """What `op` of `src` is equal to, bit for bit, or None."""
    first = src[0]
    if first.dtype is INDEX and (index_rule := _INDEX_RULES.get(op)) is not None:
        return index_rule(src)
    values = [const_value(s) if s.op in MAYBE_CONST else None for s in src]
    if None not in values:
        folded = fold(op, dtype, values)  # type: ignore[arg-type]
        if folded is not None:
            return constant(dtype, folded, first)
    if not first.shape and dtype in FULL:
        lo, hi = interval(op, dtype, src, None)
        if lo is not None and lo == hi:
            return UOp.const(dtype, lo)
        if first.op is Ops.CAST or src[-1].op is Ops.CAST:
            moved = through_index(op, dtype, src) if first.dtype.kind in _INTEGERS else None
            if moved is not None:
                return moved
    if values[0] is not None and values[-1] is None and _moves_constant_right(op, dtype):
        return UOp.alu(op, src[1], src[0])
    rule = _RULES.get(op)
    return rule(dtype, src, values) if rule is not None else None


def _moves_constant_right(op: Ops, dtype: DType) -> bool:
    # with floats, max(-0.0, 0.0) differs
    exact = op in (Ops.MAXIMUM, Ops.MINIMUM) and not dtype.is_float
    return op in _COMMUTATIVE or exact


# ---- identities. Each takes the result's dtype, the sources and their constant values (None: not
# one).


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
        return constant(dtype, 0, a)
    if values[0] == 0 and values[0] is not None:
        return -b
    # Unsigned, x - 1 would become x + 4294967295, of which no interval knows that it does not wrap.
    return a + constant(dtype, -c, b) if c is not None and dtype.kind == "int" else None


def _mul(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if c is None:
        return None
    if c == 1:
        return a
    if dtype.is_float:
        return None
    return constant(dtype, 0, b) if c == 0 else _reassociate(Ops.MUL, a, b)


def _div(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    return src[0] if values[1] is not None and values[1] == 1 else None


def _floordiv(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if values[0] is not None and values[0] == 0:
        return a
    if c is None:
        return None
    return constant(dtype, 0, b) if c == 0 else a if c == 1 else None


def _floormod(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if values[0] is not None and values[0] == 0:
        return a
    if c is None:
        return None
    if c in (0, 1, -1):
        return constant(dtype, 0, b)
    if a.lo is None or a.hi is None:
        return None
    return a if a.lo >= 0 and a.hi < c else None


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
        if None not in (a.lo, a.hi, b.lo, b.hi):
            decided = _dominant(op, a, b, a.lo - b.hi, a.hi - b.lo)  # type: ignore[operator]
            if decided is not None:
                return decided
        return None if dtype.is_float or values[1] is None else _reassociate(op, a, b)

    return rule


def _dominant(op: Ops, a: UOp, b: UOp, lo: int, hi: int) -> UOp | None:
    """The larger (MAXIMUM) or smaller of `a` and `b`, where lo <= a - b <= hi decides it."""
    if lo >= 0:
        return a if op is Ops.MAXIMUM else b
    if hi <= 0:
        return b if op is Ops.MAXIMUM else a
    return None


def _and(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if a is b or _is_factor(Ops.AND, a, b):
        return a
    if c is not None:
        return b if c == 0 else a if c == _ones(dtype) else _reassociate(Ops.AND, a, b)
    if _opposite(a, b):
        return constant(dtype, 0, a)
    return compare.conjunction(a, b) if dtype.kind == "bool" and not a.shape else None


def _or(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if a is b or _is_factor(Ops.OR, a, b):
        return a
    if c is not None:
        return a if c == 0 else b if c == _ones(dtype) else _reassociate(Ops.OR, a, b)
    return constant(dtype, _ones(dtype), a) if _opposite(a, b) else None


def _xor(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    (a, b), c = src, values[1]
    if a is b:
        return constant(dtype, 0, a)
    if c is None:
        return None
    return a if c == 0 else ~a if c == _ones(dtype) else _reassociate(Ops.XOR, a, b)


def _ones(dtype: DType) -> int:
    return -1 if dtype.kind == "int" else int(dtype.max)


def _opposite(a: UOp, b: UOp) -> bool:
    if a.op in _OPPOSITE:
        return b.op is _OPPOSITE[a.op] and a.src == b.src
    return (a.op is Ops.NOT and a.src[0] is b) or (b.op is Ops.NOT and b.src[0] is a)


def _is_factor(op: Ops, chain: UOp, x: UOp) -> bool:
    """Whether `x` is one of the last terms of `chain`, a left-leaning tree of `op`."""
    for _ in range(_NEAR):
        if chain.op is not op:
            break
        if chain.src[1] is x or chain.src[0] is x:
            return True
        chain = chain.src[0]
    return False


def _shift(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    a, c = src[0], values[1]
    return a if c is not None and c == 0 else None


def _where(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
    condition, then, other = src
    if then is other or _identical(values[1], values[2]):
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


def _identical(a: Any, b: Any) -> bool:
    """Whether two constants are the same bits; a NaN is like none."""
    return a is not None and a == b and str(a) == str(b)


def _ordered(equal: bool) -> Callable[[DType, Sources, list[Any]], UOp | None]:
    def rule(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
        a, b = src
        if a is not b or (equal and a.dtype.is_float):  # NaN <= NaN is false
            return None
        return constant(dtypes.bool, equal, a)

    return rule


def _equality(equal: bool) -> Callable[[DType, Sources, list[Any]], UOp | None]:
    def rule(dtype: DType, src: Sources, values: list[Any]) -> UOp | None:
        (a, b), c = src, values[1]
        if a is b and not a.dtype.is_float:
            return constant(dtypes.bool, equal, a)
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


# ---- dtype index: everything is a linear form. Each rule takes the sources.


def _index_floordiv(src: Sources) -> UOp:
    a, b = src
    return divmod.floordiv(a, b.arg) if b.op is Ops.CONST else divmod.floordiv_by(a, b)


def _index_floormod(src: Sources) -> UOp:
    a, b = src
    return divmod.floormod(a, b.arg) if b.op is Ops.CONST else divmod.floormod_by(a, b)


def _index_shift(op: Ops) -> Callable[[Sources], UOp | None]:
    def rule(src: Sources) -> UOp | None:
        a, count = src
        if count.op is not Ops.CONST or not 0 <= count.arg < 64:
            return None
        power = UOp.index(1 << count.arg)
        return UOp.alu(Ops.MUL if op is Ops.SHL else Ops.FLOORDIV, a, power)

    return rule


def _index_extreme(op: Ops) -> Callable[[Sources], UOp | None]:
    def rule(src: Sources) -> UOp | None:
        a, b = src
        decided = _dominant(op, a, b, *bounds(*plus(linear(a), linear(b), -1)))
        if decided is not None:
            return decided
        swap = b.op is not Ops.CONST and (a.op is Ops.CONST or order(b) < order(a))
        if swap:
            a, b = b, a
        shorter = _reassociate(op, a, b) if b.op is Ops.CONST else None
        return UOp(op, INDEX, (a, b)) if shorter is None else shorter

    return rule


_INDEX_RULES: Final[dict[Ops, Callable[[Sources], UOp | None]]] = {
    Ops.ADD: lambda src: divmod.total(plus(linear(src[0]), linear(src[1]))),
    Ops.SUB: lambda src: divmod.total(plus(linear(src[0]), linear(src[1]), -1)),
    Ops.MUL: lambda src: divmod.total(product(linear(src[0]), linear(src[1]))),
    Ops.NEG: lambda src: divmod.total(times(linear(src[0]), -1)),
    Ops.FLOORDIV: _index_floordiv,
    Ops.FLOORMOD: _index_floormod,
    Ops.MAXIMUM: _index_extreme(Ops.MAXIMUM),
    Ops.MINIMUM: _index_extreme(Ops.MINIMUM),
    Ops.SHL: _index_shift(Ops.SHL),
    Ops.SHR: _index_shift(Ops.SHR),
    Ops.CMPLT: lambda src: compare.less(src[0], src[1]),
    Ops.CMPLE: lambda src: compare.less_equal(src[0], src[1]),
    Ops.CMPEQ: lambda src: compare.equal(src[0], src[1]),
    Ops.CMPNE: lambda src: compare.equal(src[0], src[1], same=False),
}
