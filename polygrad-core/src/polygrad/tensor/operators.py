"""Python's operators on tensors. Each leaves the word to the other side where it is no operand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..uop.ops import Ops
from . import quotients
from .base import Operand, is_operand
from .elementwise import Elementwise, binary, bitwise, floating, power, rational

if TYPE_CHECKING:
    from .tensor import Tensor


class Operators(Elementwise):
    """`+ - * / // % ** & | ^ ~ << >>` and comparisons."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Tensor:
        return binary("add", Ops.ADD, self, other) if is_operand(other) else NotImplemented

    def __radd__(self, other: Operand) -> Tensor:
        return binary("add", Ops.ADD, other, self) if is_operand(other) else NotImplemented

    def __sub__(self, other: Operand) -> Tensor:
        return binary("sub", Ops.SUB, self, other) if is_operand(other) else NotImplemented

    def __rsub__(self, other: Operand) -> Tensor:
        return binary("sub", Ops.SUB, other, self) if is_operand(other) else NotImplemented

    def __mul__(self, other: Operand) -> Tensor:
        return binary("mul", Ops.MUL, self, other) if is_operand(other) else NotImplemented

    def __rmul__(self, other: Operand) -> Tensor:
        return binary("mul", Ops.MUL, other, self) if is_operand(other) else NotImplemented

    def __truediv__(self, other: Operand) -> Tensor:
        return floating("div", Ops.DIV, self, other) if is_operand(other) else NotImplemented

    def __rtruediv__(self, other: Operand) -> Tensor:
        return floating("div", Ops.DIV, other, self) if is_operand(other) else NotImplemented

    def __floordiv__(self, other: Operand) -> Tensor:
        return self.idiv(other) if is_operand(other) else NotImplemented

    def __rfloordiv__(self, other: Operand) -> Tensor:
        quotient = quotients.floor_quotient
        return (
            rational("floor_divide", quotient, other, self) if is_operand(other) else NotImplemented
        )

    def __mod__(self, other: Operand) -> Tensor:
        return self.mod(other) if is_operand(other) else NotImplemented

    def __rmod__(self, other: Operand) -> Tensor:
        return self.mod(other, True) if is_operand(other) else NotImplemented

    def __divmod__(self, other: Operand) -> tuple[Tensor, Tensor]:
        return (self // other, self % other) if is_operand(other) else NotImplemented

    def __rdivmod__(self, other: Operand) -> tuple[Tensor, Tensor]:
        return (other // self, other % self) if is_operand(other) else NotImplemented

    def __pow__(self, other: Operand) -> Tensor:
        return power(self, other) if is_operand(other) else NotImplemented

    def __rpow__(self, other: Operand) -> Tensor:
        return power(other, self) if is_operand(other) else NotImplemented

    def __and__(self, other: Operand) -> Tensor:
        return self.bitwise_and(other) if is_operand(other) else NotImplemented

    def __or__(self, other: Operand) -> Tensor:
        return self.bitwise_or(other) if is_operand(other) else NotImplemented

    def __xor__(self, other: Operand) -> Tensor:
        return self.bitwise_xor(other) if is_operand(other) else NotImplemented

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Operand) -> Tensor:
        return self.lshift(other) if is_operand(other) else NotImplemented

    def __rlshift__(self, other: Operand) -> Tensor:
        return bitwise("lshift", Ops.SHL, other, self) if is_operand(other) else NotImplemented

    def __rshift__(self, other: Operand) -> Tensor:
        return self.rshift(other) if is_operand(other) else NotImplemented

    def __rrshift__(self, other: Operand) -> Tensor:
        return bitwise("rshift", Ops.SHR, other, self) if is_operand(other) else NotImplemented

    def __invert__(self) -> Tensor:
        return self.bitwise_not()

    def __lt__(self, other: Operand) -> Tensor:
        return self.lt(other) if is_operand(other) else NotImplemented

    def __le__(self, other: Operand) -> Tensor:
        return self.le(other) if is_operand(other) else NotImplemented

    def __gt__(self, other: Operand) -> Tensor:
        return self.gt(other) if is_operand(other) else NotImplemented

    def __ge__(self, other: Operand) -> Tensor:
        return self.ge(other) if is_operand(other) else NotImplemented

    def __eq__(self, other: Operand) -> Tensor:  # type: ignore[override]
        return self.eq(other) if is_operand(other) else NotImplemented

    def __ne__(self, other: Operand) -> Tensor:  # type: ignore[override]
        return self.ne(other) if is_operand(other) else NotImplemented

    __hash__ = object.__hash__
