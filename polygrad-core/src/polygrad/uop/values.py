"""Constants among tensors: reading the number a node is everywhere, and making such a node.

Floor: uop. A tensor of one repeated constant is a CONST below RESHAPE and EXPAND.
"""

from __future__ import annotations

from typing import Any, Final

from ..dtype import DType, canonical
from .folding import Value
from .ops import Ops, UOp

_CONST: Final = Ops.CONST  # older Pythons take 0.1 us to read a member of an enum
_SPREAD: Final = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP})
MAYBE_CONST: Final = _SPREAD | {Ops.CONST}
_IDENTITY: Final = {Ops.ADD: 0, Ops.MUL: 1}


def const_value(u: UOp, through_unique: bool = False) -> Value | None:
    """The number `u` is everywhere, or None; `through_unique`: also that of `zeros` and `full`."""
    while u.op in _SPREAD:
        u = u.src[0]
    if u.op is not _CONST or (u.src and not through_unique):
        return None
    value: Value = u.arg
    return value


def constant(dtype: DType, value: Any, like: UOp) -> UOp:
    """`value` everywhere, with the shape of `like`."""
    made = UOp.const(dtype, value)
    return made.broadcast_to(like.shape) if like.shape else made


def identity(op: Ops, dtype: DType) -> int | float | bool:
    """The value that a reduction starts from; what an empty one gives."""
    if op in _IDENTITY:
        return canonical(dtype, _IDENTITY[op])
    return canonical(dtype, dtype.min if op is Ops.MAXIMUM else dtype.max)
