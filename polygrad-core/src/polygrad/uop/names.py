"""Operations by name, for expressions of kernels: `a[i].sqrt()`, `a[i].add(b[j])`, `x.sum(k)`.

Floor: uop. Operators and what the compiler itself uses are methods of `UOp`; these are for people.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .opcodes import Ops


def _unary(op: Ops) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return type(self).alu(op, self)

    return method


def _binary(op: Ops) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return type(self).alu(op, self, self._with(other))

    return method


def _over(op: Ops) -> Callable[..., Any]:
    def method(self: Any, *loops: Any) -> Any:
        return self.reduce(op, loops)

    return method


class Names:
    """What `UOp` inherits."""

    __slots__ = ()

    neg, sqrt, reciprocal = _unary(Ops.NEG), _unary(Ops.SQRT), _unary(Ops.RECIP)
    exp, exp2, log, log2 = _unary(Ops.EXP), _unary(Ops.EXP2), _unary(Ops.LOG), _unary(Ops.LOG2)
    sin, cos, tanh, erf = _unary(Ops.SIN), _unary(Ops.COS), _unary(Ops.TANH), _unary(Ops.ERF)
    sigmoid = _unary(Ops.SIGMOID)
    floor, ceil, trunc, round = (
        _unary(Ops.FLOOR),
        _unary(Ops.CEIL),
        _unary(Ops.TRUNC),
        _unary(Ops.ROUND),
    )
    add, sub, mul, div = _binary(Ops.ADD), _binary(Ops.SUB), _binary(Ops.MUL), _binary(Ops.DIV)
    floordiv, floormod, pow = _binary(Ops.FLOORDIV), _binary(Ops.FLOORMOD), _binary(Ops.POW)
    fmod = _binary(Ops.FMOD)
    bitwise_and, bitwise_or, bitwise_xor = _binary(Ops.AND), _binary(Ops.OR), _binary(Ops.XOR)
    shl, shr = _binary(Ops.SHL), _binary(Ops.SHR)
    cmplt, cmpeq, cmpne = _binary(Ops.CMPLT), _binary(Ops.CMPEQ), _binary(Ops.CMPNE)
    sum, max_reduce = _over(Ops.ADD), _over(Ops.MAXIMUM)  # over loops
