"""Arithmetic on constants, exactly as a kernel would do it: the value rounds or wraps to its dtype.

Floor: uop. In: an op and Python values that are canonical in their dtypes. Out: the canonical
value of the result, or None for an op that is not folded. Integers wrap like numpy's, `x // 0` and
`x % 0` are 0, shifts by the width or more (or by a negative count) give 0 or the sign, and floats
are computed in float64 and rounded once, which is right for float32 and narrower (53 >= 2 * 24 + 2
bits: Figueroa, "When is double rounding innocuous?", 1995).

Transcendental functions are not folded: a device's own polynomial decides their last bit, and a
number must not depend on whether the compiler happened to know it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..dtype import DType, canonical, pack, unpack
from .ops import Ops

Value = bool | int | float


def fold(op: Ops, dtype: DType, values: Sequence[Value]) -> Value | None:
    """`op` of constants, canonical in `dtype` (the result's), or None where it is not folded."""
    table = _FLOAT if dtype.is_float else _COMPARE if op in _COMPARE else _INT
    rule = table.get(op)
    if rule is None:
        return None
    if op in (Ops.SHL, Ops.SHR) or (op is Ops.NOT and dtype.kind == "bool"):
        return canonical(dtype, rule(*values, dtype.bits) if op is not Ops.NOT else not values[0])
    return canonical(dtype, rule(*values))


def fold_cast(value: Value, source: DType, target: DType) -> Value:
    """`value` of `source` as `target`: floats truncate and saturate to integers, NaN is 0."""
    if target.kind == "bool":
        return value != 0
    if target.is_float:
        return canonical(target, value)
    if isinstance(value, float):
        return _saturate(value, target)
    return canonical(target, value)


def fold_bitcast(value: Value, source: DType, target: DType) -> Value | None:
    """The same bits read as `target`; None where Python's numbers cannot hold them, as a NaN of
    less than 32 bits."""
    if target.kind in ("bool", "index") or source.kind == "index":
        return None
    if source.itemsize != target.itemsize:
        return None
    result: Value = unpack(target, pack(source, (value,)))[0]
    return None if result != result and target.is_narrow else result


def _saturate(value: float, target: DType) -> int:
    if value != value:
        return 0
    if math.isinf(value):
        return int(target.max if value > 0 else target.min)
    return max(int(target.min), min(int(target.max), int(value)))


# ---- the tables


def _divide(a: float, b: float) -> float:
    if b == 0:
        sign = math.copysign(1.0, a) * math.copysign(1.0, b)
        return math.nan if a == 0 or a != a else sign * math.inf
    return a / b


def _floor_divide(a: int, b: int) -> int:
    return a // b if b else 0


def _floor_modulo(a: int, b: int) -> int:
    return a % b if b else 0


def _remainder(a: float, b: float) -> float:
    return math.fmod(a, b) if math.isfinite(a) and b else math.nan


def _maximum(a: Any, b: Any) -> Any:
    return a if a != a or a > b else b


def _minimum(a: Any, b: Any) -> Any:
    return a if a != a or a < b else b


def _shift_left(a: int, count: int, width: int) -> int:
    return a << count if 0 <= count < width else 0


def _shift_right(a: int, count: int, width: int) -> int:
    return a >> count if 0 <= count < width else -(a < 0)


def _where(condition: bool, then: Any, other: Any) -> Any:
    return then if condition else other


def _rounding(f: Callable[[float], int]) -> Callable[[float], float]:
    """`f` on floats: what has no fraction (large, inf, NaN) stays, and so does the sign of 0."""
    return lambda x: math.copysign(float(f(x)), x) if abs(x) < 1 << 53 else x


_COMPARE: Final[dict[Ops, Callable[..., Any]]] = {
    Ops.CMPLT: operator.lt,
    Ops.CMPLE: operator.le,
    Ops.CMPEQ: operator.eq,
    Ops.CMPNE: operator.ne,
}
_BOTH: Final[dict[Ops, Callable[..., Any]]] = {
    Ops.ADD: operator.add,
    Ops.SUB: operator.sub,
    Ops.MUL: operator.mul,
    Ops.NEG: operator.neg,
    Ops.MAXIMUM: _maximum,
    Ops.MINIMUM: _minimum,
    Ops.WHERE: _where,
}
_FLOAT: Final[dict[Ops, Callable[..., Any]]] = {
    **_BOTH,
    Ops.DIV: _divide,
    Ops.FMOD: _remainder,
    Ops.RECIP: lambda x: _divide(1.0, x),
    Ops.SQRT: lambda x: math.sqrt(x) if x >= 0 else math.nan,
    Ops.FLOOR: _rounding(math.floor),
    Ops.CEIL: _rounding(math.ceil),
    Ops.TRUNC: _rounding(math.trunc),
    Ops.ROUND: _rounding(round),
}
_INT: Final[dict[Ops, Callable[..., Any]]] = {
    **_BOTH,
    Ops.FLOORDIV: _floor_divide,
    Ops.FLOORMOD: _floor_modulo,
    Ops.NOT: operator.invert,
    Ops.AND: operator.and_,
    Ops.OR: operator.or_,
    Ops.XOR: operator.xor,
    Ops.SHL: _shift_left,
    Ops.SHR: _shift_right,
    Ops.FLOOR: int,
    Ops.CEIL: int,
    Ops.TRUNC: int,
    Ops.ROUND: int,
}
