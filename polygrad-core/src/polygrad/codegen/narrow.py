"""Narrow floats (16 bits and 8): every operation is one in float32, rounded back.

Floor: codegen, called by `decompose.py`, before all other rules. Conversions and selects stay as
they are; a target that holds these types converts them by CAST, rounding to nearest even, and for
the others `stored.py` does. For + - * / and the square root this is correctly rounded (24 >= 2 * 11
+ 2 bits: Figueroa, 1995), for the rest to about half an ulp.
"""

from __future__ import annotations

from typing import Final

from ..dtype import dtypes
from ..uop.ops import COMPARISONS, ELEMENTWISE, Ops, UOp
from ..uop.rewrite import Rules

RULES: Final = Rules()
_MOVED: Final = frozenset({Ops.CAST, Ops.BITCAST, Ops.WHERE, Ops.THREEFRY})


@RULES.on(*sorted(ELEMENTWISE - _MOVED))
def through_float32(u: UOp) -> UOp | None:
    if not u.src[0].dtype.is_narrow:
        return None
    wide = UOp.alu(u.op, *(s.cast(dtypes.float32) for s in u.src), arg=u.arg)
    return wide if u.op in COMPARISONS else wide.cast(u.dtype)


@RULES.on(Ops.REDUCE, Ops.SCAN)
def accumulate_in_float32(u: UOp) -> UOp | None:
    if not u.dtype.is_narrow:
        return None
    value, *ranges = u.src
    wide = UOp(u.op, dtypes.float32, (value.cast(dtypes.float32), *ranges), u.arg)
    return wide.cast(u.dtype)
