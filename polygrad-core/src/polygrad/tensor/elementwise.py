"""Elementwise operations: one result element from one element of each operand.

Operands broadcast by numpy's rule and promote by the lattice of `dtype.py`. `/` of integers gives
floats; `//` and `%` round towards minus infinity as Python's do, and give 0 for a zero divisor.
Comparisons give bool. NaN passes through everything that selects (`maximum`, `clip`, `sign`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dtype import DType, dtypes
from ..errors import ArgumentError, DTypeError, no_such
from ..uop.ops import Ops, UOp
from . import formulas, quotients
from .axes import either
from .base import (
    Base,
    Flag,
    Number,
    Operand,
    Real,
    beside,
    broadcast_shape,
    common_dtype,
    joined,
    operand,
    result,
    scalar,
    tensor_of,
)
from .casting import Casting
from .naming import also

if TYPE_CHECKING:
    from .tensor import Tensor

# What an op of two bools is: numpy's logic.
_ON_BOOL = {Ops.ADD: Ops.OR, Ops.MUL: Ops.AND, Ops.MAXIMUM: Ops.OR, Ops.MINIMUM: Ops.AND}
_OF_BOOLS = {Ops.ADD: Ops.MAXIMUM, Ops.MUL: Ops.MINIMUM}  # and what one of many is


def of_many(op: Ops, dtype: DType) -> Ops:
    """The op that reduces many of `dtype`, where `op` reduces many numbers."""
    return _OF_BOOLS.get(op, op) if dtype.kind == "bool" else op


def binary(name: str, op: Ops, x: Operand, y: Operand) -> Tensor:
    """`op` of two operands, joined; where there is nothing to join, at once."""
    if isinstance(x, Base):
        a = x.uop
        if isinstance(y, Base):
            b = y.uop
            if a.dtype is b.dtype and a.shape == b.shape and a.dtype.kind != "bool":
                return result(UOp.alu(op, a, b), x, y)
        elif (number := beside(a, y)) is not None:
            return result(UOp.alu(op, a, number), x)
    elif isinstance(y, Base) and (number := beside(y.uop, x)) is not None:
        return result(UOp.alu(op, number, y.uop), y)
    nodes, tensors = joined(name, x, y)
    if nodes[0].dtype.kind == "bool":
        if op is Ops.SUB:
            raise DTypeError("sub: bool tensors have no difference; use ^ for exclusive or.")
        op = _ON_BOOL.get(op, op)
    return result(UOp.alu(op, *nodes), *tensors)


def joined_floats(name: str, *given: Operand) -> tuple[list[UOp], list[Base]]:
    operands = [operand(x, name, *given) for x in given]
    dtype = common_dtype(operands)
    return joined(name, *operands, dtype=dtype if dtype.is_float else dtypes.default_float)


def floating(name: str, op: Ops, x: Operand, y: Operand) -> Tensor:
    """`op` of two operands as floats."""
    nodes, tensors = joined_floats(name, x, y)
    return result(UOp.alu(op, *nodes), *tensors)


def bitwise(name: str, op: Ops, x: Operand, y: Operand) -> Tensor:
    """`op` of two operands that must be integers, or bools where that has a meaning."""
    nodes, tensors = joined(name, x, y)
    dtype = nodes[0].dtype
    if dtype.is_float or (dtype.kind == "bool" and op in (Ops.SHL, Ops.SHR)):
        raise DTypeError(f"{name} takes integers, not {dtype.name}.")
    return result(UOp.alu(op, *nodes), *tensors)


def rational(name: str, formula: Callable[[UOp, UOp], UOp], x: Operand, y: Operand) -> Tensor:
    """A formula of two operands in their common dtype; bools count as integers."""
    operands = operand(x, name, y), operand(y, name, x)
    dtype = common_dtype(operands)
    dtype = dtypes.default_int if dtype.kind == "bool" else dtype
    nodes, tensors = joined(name, *operands, dtype=dtype)
    made = formulas.half_wide(formula, *nodes) if dtype.is_float else formula(*nodes)
    return result(made, *tensors)


_PRODUCTS: dict[float, Callable[[UOp], UOp]] = {
    1: lambda x: x,
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    4: lambda x: (x * x) * (x * x),
}
_INTEGER_POWERS = {0: lambda x: x._with(1), **_PRODUCTS}
_FLOAT_POWERS: dict[float, Callable[[UOp], UOp]] = {  # x ** 0.0 stays an op: its slope is 0
    **_PRODUCTS,
    0.5: formulas.sqrt,
    -0.5: lambda x: formulas.recip(formulas.sqrt(x)),
    -1: formulas.recip,
    -2: formulas.inverse_square,
}


def power(x: Operand, y: Operand) -> Tensor:
    """x ** y. Small constant exponents are products; integers stay integers."""
    x, y = operand(x, "pow", y), operand(y, "pow", x)
    dtype = common_dtype((x, y))
    if isinstance(x, Base) and isinstance(y, Number):
        u = x.uop.cast(dtype) if dtype.kind != "bool" else x.uop.cast(dtypes.default_int)
        rule = (_FLOAT_POWERS if u.dtype.is_float else _INTEGER_POWERS).get(y)
        if rule is not None:
            return result(rule(u), x)
        if y < 0 and not u.dtype.is_float:
            raise ArgumentError(
                f"pow: integers to the power {y} are no integers; cast the tensor to a float first."
            )
    if dtype.is_float:
        nodes, tensors = joined("pow", x, y)
        return result(UOp.alu(Ops.POW, *nodes), *tensors)
    return rational("pow", _integer_power, x, y)


def _integer_power(x: UOp, y: UOp) -> UOp:
    """By squaring, wrapping; a negative exponent gives what rounding 1 / x**-y to an integer gives.

    Of the exponent `low` bits are taken one by one, which leaves s = x**(2**low) to the power h.
    For an even x that is 0. For an odd one s - 1 is a multiple of 2**(low + 2), so that its third
    power wraps to 0 and s**h = 1 + h (s - 1) + h (h - 1) / 2 (s - 1)**2."""
    low = _LOW_BITS[x.dtype.itemsize]
    out, square = x._with(1), x
    for bit in range(low):
        odd = (y & (1 << bit)).ne(0)
        out = odd.where(out * square, out)
        square = square * square
    h, step = y >> low, square - 1
    pairs = (h & 1).eq(0).where((h >> 1) * (h - 1), h * ((h - 1) >> 1))
    high = (x & 1).ne(0).where(1 + h * step + pairs * (step * step), h.eq(0).where(x._with(1), 0))
    out = out * high
    return out if x.dtype.is_unsigned else (y < 0).where(_inverse_power(x, y), out)


# item size -> bits: x**(2**bits) is 0 for every even x, and 3 (bits + 2) no less than the width
_LOW_BITS = {1: 3, 2: 4, 4: 9, 8: 20}


def _inverse_power(x: UOp, y: UOp) -> UOp:
    one, odd = x._with(1), (y & 1).ne(0)
    return x.eq(1).where(one, x.eq(-1).where(odd.where(x._with(-1), one), 0))


class Elementwise(Casting):
    """Arithmetic, comparisons, bits and selection."""

    __slots__ = ()

    # ---- arithmetic

    def add(self, other: Operand) -> Tensor:
        """self + other. Operands broadcast and promote.

        >>> Tensor([1, 2]).add(0.5).tolist()
        [1.5, 2.5]
        """
        return binary("add", Ops.ADD, self, other)

    def sub(self, other: Operand, reverse: Flag = False) -> Tensor:
        """self - other, or other - self. Operands broadcast and promote.

        >>> Tensor([5, 7]).sub(2).tolist(), Tensor([5]).sub(2, reverse=True).tolist()
        ([3, 5], [-3])
        """
        return binary("sub", Ops.SUB, *((other, self) if reverse else (self, other)))

    def mul(self, other: Operand) -> Tensor:
        """self * other. Operands broadcast and promote.

        >>> Tensor([[1], [2]]).mul(Tensor([10, 20])).tolist()
        [[10, 20], [20, 40]]
        """
        return binary("mul", Ops.MUL, self, other)

    def div(
        self, other: Operand, reverse: Flag = False, rounding_mode: str | None = None
    ) -> Tensor:
        """self / other as floats; `rounding_mode` "floor" or "trunc" keeps integers integers.

        >>> Tensor([7, -7]).div(2).tolist()
        [3.5, -3.5]
        >>> Tensor([7, -7]).div(2, rounding_mode="trunc").tolist()
        [3, -3]
        """
        x, y = (other, self) if reverse else (self, other)
        if rounding_mode is None:
            return floating("div", Ops.DIV, x, y)
        rounding = {"floor": quotients.floor_quotient, "trunc": quotients.trunc_quotient}
        if rounding_mode not in rounding:
            raise ArgumentError(f"div: {no_such('rounding_mode', rounding_mode, rounding)}")
        return rational("div", rounding[rounding_mode], x, y)

    def idiv(self, other: Operand) -> Tensor:
        """The quotient rounded down, as `//`.

        >>> Tensor([7, -7]).idiv(2).tolist(), Tensor([1]).idiv(0).tolist()
        ([3, -4], [0])
        """
        return rational("floor_divide", quotients.floor_quotient, self, other)

    floor_divide = also("floor_divide", idiv)

    def mod(self, other: Operand, reverse: Flag = False) -> Tensor:
        """The remainder of `//`: it has the sign of the divisor.

        >>> Tensor([7, -7]).mod(3).tolist()
        [1, 2]
        """
        return rational("mod", quotients.remainder, *((other, self) if reverse else (self, other)))

    remainder = also("remainder", mod)

    def fmod(self, other: Operand) -> Tensor:
        """The remainder of a quotient rounded towards zero: it has the sign of self.

        >>> Tensor([7, -7]).fmod(3).tolist()
        [1, -1]
        """
        return rational("fmod", quotients.fmod, self, other)

    def pow(self, other: Operand, reverse: Flag = False) -> Tensor:
        """self ** other.

        >>> Tensor([1.0, 2.0, 3.0]).pow(2).tolist()
        [1.0, 4.0, 9.0]
        """
        return power(*((other, self) if reverse else (self, other)))

    def maximum(self, other: Operand) -> Tensor:
        """The larger of each pair; NaN if one is NaN. Operands broadcast and promote.

        >>> Tensor([1, 5]).maximum(3).tolist()
        [3, 5]
        """
        return binary("maximum", Ops.MAXIMUM, self, other)

    def minimum(self, other: Operand) -> Tensor:
        """The smaller of each pair; NaN if one is NaN. Operands broadcast and promote.

        >>> Tensor([1, 5]).minimum(3).tolist()
        [1, 3]
        """
        return binary("minimum", Ops.MINIMUM, self, other)

    def copysign(self, other: Operand) -> Tensor:
        """|self| with the sign of `other`, -0.0 included.

        >>> Tensor([1.0, 2.0]).copysign(Tensor([-0.0, 3.0])).tolist()
        [-1.0, 2.0]
        """
        nodes, tensors = joined_floats("copysign", self, other)
        value = formulas.copysign(*nodes)
        return result(formulas.sloped("copysign", value, *nodes), *tensors)

    def logaddexp(self, other: Operand) -> Tensor:
        """log(exp(self) + exp(other)) without overflow.

        >>> round(Tensor([1000.0]).logaddexp(1000.0).item(), 3)
        1000.693
        """
        nodes, tensors = joined_floats("logaddexp", self, other)
        return result(formulas.half_wide(formulas.logaddexp, *nodes), *tensors)

    def lerp(self, end: Operand, weight: Operand) -> Tensor:
        """self + (end - self) * weight, exactly self at weight 0 and `end` at 1.

        >>> Tensor([0.0, 10.0]).lerp(20.0, 0.5).tolist()
        [10.0, 15.0]
        """
        (a, b, w), tensors = joined_floats("lerp", self, end, weight)
        gap = b - a
        return result((w < 0.5).where(a + gap * w, b - gap * (1.0 - w)), *tensors)

    # ---- comparisons

    def lt(self, other: Operand) -> Tensor:
        """self < other. Gives bools.

        >>> Tensor([1, 2, 3]).lt(2).tolist()
        [True, False, False]
        """
        return binary("lt", Ops.CMPLT, self, other)

    def le(self, other: Operand) -> Tensor:
        """self <= other. Gives bools.

        >>> Tensor([1, 2, 3]).le(2).tolist()
        [True, True, False]
        """
        return binary("le", Ops.CMPLE, self, other)

    def gt(self, other: Operand) -> Tensor:
        """self > other. Gives bools.

        >>> Tensor([1, 2, 3]).gt(2).tolist()
        [False, False, True]
        """
        return binary("gt", Ops.CMPLT, other, self)

    def ge(self, other: Operand) -> Tensor:
        """self >= other. Gives bools.

        >>> Tensor([1, 2, 3]).ge(2).tolist()
        [False, True, True]
        """
        return binary("ge", Ops.CMPLE, other, self)

    def eq(self, other: Operand) -> Tensor:
        """self == other. Gives bools.

        >>> Tensor([1, 2, 3]).eq(2).tolist()
        [False, True, False]
        """
        return binary("eq", Ops.CMPEQ, self, other)

    def ne(self, other: Operand) -> Tensor:
        """self != other. Gives bools.

        >>> Tensor([1, 2, 3]).ne(2).tolist()
        [True, False, True]
        """
        return binary("ne", Ops.CMPNE, self, other)

    def isclose(
        self, other: Operand, rtol: Real = 1e-5, atol: Real = 1e-8, equal_nan: Flag = False
    ) -> Tensor:
        """|self - other| <= atol + rtol * |other|; equal infinities are close. Gives bools.

        >>> Tensor([1.0, float("inf")]).isclose(Tensor([1.0000001, float("inf")])).tolist()
        [True, True]
        """
        (a, b), tensors = joined_floats("isclose", self, other)
        near = formulas.absolute(a - b) <= formulas.absolute(b) * rtol + atol
        close = a.eq(b) | (near & formulas.isfinite(a) & formulas.isfinite(b))
        if equal_nan:
            close = close | (formulas.isnan(a) & formulas.isnan(b))
        return result(close, *tensors)

    # ---- bits and logic

    def bitwise_and(self, other: Operand) -> Tensor:
        """self & other of integers or bools. Raises DTypeError for floats.

        >>> Tensor([6]).bitwise_and(3).tolist()
        [2]
        """
        return bitwise("bitwise_and", Ops.AND, self, other)

    def bitwise_or(self, other: Operand) -> Tensor:
        """self | other of integers or bools. Raises DTypeError for floats.

        >>> Tensor([6]).bitwise_or(3).tolist()
        [7]
        """
        return bitwise("bitwise_or", Ops.OR, self, other)

    def bitwise_xor(self, other: Operand) -> Tensor:
        """self ^ other of integers or bools. Raises DTypeError for floats.

        >>> Tensor([6]).bitwise_xor(3).tolist()
        [5]
        """
        return bitwise("bitwise_xor", Ops.XOR, self, other)

    def bitwise_not(self) -> Tensor:
        """~self of integers or bools. Raises DTypeError for floats.

        >>> Tensor([0, -1]).bitwise_not().tolist(), Tensor([True]).bitwise_not().tolist()
        ([-1, 0], [False])
        """
        if self.uop.dtype.is_float:
            raise DTypeError(f"bitwise_not takes integers or bools, not {self.uop.dtype.name}.")
        return self._unary(Ops.NOT)

    def lshift(self, other: Operand) -> Tensor:
        """self << other of integers; shifting by the width or more gives 0. Raises DTypeError for
        floats.

        >>> Tensor([1, 3]).lshift(2).tolist()
        [4, 12]
        """
        return bitwise("lshift", Ops.SHL, self, other)

    def rshift(self, other: Operand) -> Tensor:
        """self >> other of integers; the sign is kept. Raises DTypeError for floats.

        >>> Tensor([-8, 8]).rshift(2).tolist()
        [-2, 2]
        """
        return bitwise("rshift", Ops.SHR, self, other)

    def logical_not(self) -> Tensor:
        """Whether an element is 0. Gives bools.

        >>> Tensor([0, 3]).logical_not().tolist()
        [True, False]
        """
        return result(self.uop.cast(dtypes.bool).eq(False), self)

    def logical_and(self, other: Operand) -> Tensor:
        """Whether both are not 0. Gives bools.

        >>> Tensor([0, 3]).logical_and(1).tolist()
        [False, True]
        """
        return self._logical("logical_and", Ops.AND, other)

    def logical_or(self, other: Operand) -> Tensor:
        """Whether one is not 0. Gives bools.

        >>> Tensor([0, 3]).logical_or(0).tolist()
        [False, True]
        """
        return self._logical("logical_or", Ops.OR, other)

    def logical_xor(self, other: Operand) -> Tensor:
        """Whether exactly one is not 0. Gives bools.

        >>> Tensor([0, 3]).logical_xor(1).tolist()
        [True, False]
        """
        return self._logical("logical_xor", Ops.XOR, other)

    def _logical(self, name: str, op: Ops, other: Operand) -> Tensor:
        (a, b), tensors = joined(name, self, other)
        return result(UOp.alu(op, a.cast(dtypes.bool), b.cast(dtypes.bool)), *tensors)

    # ---- selection

    def where(self, x: Operand, y: Operand) -> Tensor:
        """x where self is not 0, else y; the three broadcast together.

        >>> Tensor([True, False]).where(Tensor([1.0, 2.0]), 0).tolist()
        [1.0, 0.0]
        """
        x, y = operand(x, "where", y, self), operand(y, "where", x, self)
        (a, b), tensors = joined("where", x, y)
        shape = broadcast_shape("where", [self.shape, *(t.shape for t in tensors)])
        nodes = [u.broadcast_to(shape) for u in (self.uop.cast(dtypes.bool), a, b)]
        return result(UOp.alu(Ops.WHERE, *nodes), self, *tensors)

    def masked_fill(self, mask: Operand, value: Operand) -> Tensor:
        """`value` where `mask` is true, else self.

        >>> Tensor([1, 2, 3]).masked_fill(Tensor([True, False, True]), 0).tolist()
        [0, 2, 0]
        """
        where = tensor_of(mask, "masked_fill", self)
        (a, b), tensors = joined("masked_fill", self, value, dtype=self.uop.dtype)
        shape = broadcast_shape("masked_fill", [a.shape, where.shape])
        nodes = [u.broadcast_to(shape) for u in (where.uop.cast(dtypes.bool), b, a)]
        return result(UOp.alu(Ops.WHERE, *nodes), where, *tensors)

    def clamp(
        self,
        min_: Operand = None,
        max_: Operand = None,
        *,
        min: Operand = None,  # torch's spelling
        max: Operand = None,
    ) -> Tensor:
        """max(low, min(high, self)); NaN stays NaN. At a bound the slope is 1.

        >>> Tensor([-2, 0, 5]).clamp(-1, 3).tolist()
        [-1, 0, 3]
        """
        name = "clamp"
        low, high = either(name, min_, min, "min"), either(name, max_, max, "max")
        if low is None and high is None:
            raise ArgumentError("clamp: give min, max or both.")
        numbers = [x for x in (low, high) if x is not None]
        if not any(isinstance(operand(x, name), Base) for x in numbers):
            dtype = common_dtype((self, *numbers))
            bounds = [x if x is None else scalar(name, x, dtype, self.shape) for x in (low, high)]
            return result(formulas.clip(self.uop.cast(dtype), *bounds), self)
        out: Any = self if low is None else binary(name, Ops.MAXIMUM, self, low)
        return out if high is None else binary(name, Ops.MINIMUM, out, high)

    clip = also("clip", clamp)
