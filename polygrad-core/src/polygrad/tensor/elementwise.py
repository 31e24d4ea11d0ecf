"""Elementwise operations: one result element from one element of each operand.

Operands broadcast by numpy's rule and promote by the lattice of `dtype.py`. `/` of integers gives
floats; `//` and `%` round towards minus infinity as Python's do, and give 0 for a zero divisor.
Comparisons give bool. NaN passes through everything that selects (`maximum`, `clip`, `sign`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dtype import dtypes, to_dtype
from ..errors import ArgumentError, DTypeError, no_such
from ..uop.ops import Ops, UOp
from . import formulas, quotients
from .base import (
    Base,
    Flag,
    Number,
    Operand,
    Real,
    broadcast_shape,
    common_dtype,
    either,
    is_operand,
    joined,
    operand,
    result,
    scalar,
    tensor_of,
)

if TYPE_CHECKING:
    from .tensor import Tensor

# What an op of two bools is: numpy's logic.
_ON_BOOL = {Ops.ADD: Ops.OR, Ops.MUL: Ops.AND, Ops.MAXIMUM: Ops.OR, Ops.MINIMUM: Ops.AND}


def binary(name: str, op: Ops, x: Operand, y: Operand) -> Tensor:
    """`op` of two operands, joined."""
    if isinstance(x, Base) and isinstance(y, Base):
        a, b = x.uop, y.uop
        if a.dtype is b.dtype and a.shape == b.shape and a.dtype.kind != "bool":
            return result(UOp.alu(op, a, b), x, y)  # nothing to join: the common case, and fast
    nodes, tensors = joined(name, x, y)
    if nodes[0].dtype.kind == "bool":
        if op is Ops.SUB:
            raise DTypeError("sub: bool tensors have no difference; use ^ for exclusive or.")
        op = _ON_BOOL.get(op, op)
    return result(UOp.alu(op, *nodes), *tensors)


def joined_floats(name: str, *given: Operand) -> tuple[list[UOp], list[Base]]:
    operands = [operand(x, name) for x in given]
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
    operands = operand(x, name), operand(y, name)
    dtype = common_dtype(operands)
    dtype = dtypes.default_int if dtype.kind == "bool" else dtype
    nodes, tensors = joined(name, *operands, dtype=dtype)
    return result(half_wide(formula, *nodes) if dtype.is_float else formula(*nodes), *tensors)


def half_wide(formula: Callable[..., UOp], *nodes: UOp) -> UOp:
    """`formula` of floats; narrow ones are computed in float32 and rounded once."""
    dtype = nodes[0].dtype
    if not dtype.is_narrow:
        return formula(*nodes)
    return formula(*(u.cast(dtypes.float32) for u in nodes)).cast(dtype)


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
    -2: lambda x: formulas.recip(x * x),
}


def power(x: Operand, y: Operand) -> Tensor:
    """x ** y. Small constant exponents are products; integers stay integers."""
    x, y = operand(x, "pow"), operand(y, "pow")
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


class Elementwise(Base):
    """Casts, arithmetic, comparisons, bits and selection."""

    __slots__ = ()

    # ---- casts

    def cast(self, dtype: Any) -> Tensor:
        """Elements converted to `dtype`: floats to integers truncate and saturate, NaN becomes
        0."""
        return result(self.uop.cast(to_dtype(dtype)), self)

    def astype(self, dtype: Any) -> Tensor:
        """numpy's name for `cast`."""
        return self.cast(dtype)

    def bitcast(self, dtype: Any) -> Tensor:
        """The same bits read as another dtype of the same width."""
        old, new = self.uop.dtype, to_dtype(dtype)
        if new.itemsize != old.itemsize or (new is not old and "bool" in (new.kind, old.kind)):
            raise DTypeError(f"bitcast: the bits of {old.name} are no {new.name}.")
        return result(self.uop.bitcast(new), self)

    def type_as(self, other: Base) -> Tensor:
        """Cast to the dtype of `other`."""
        return self.cast(other.dtype)

    def bool(self) -> Tensor:
        """Cast to bool: whether an element is not 0."""
        return self.cast(dtypes.bool)

    def short(self) -> Tensor:
        """Cast to int16."""
        return self.cast(dtypes.int16)

    def int(self) -> Tensor:
        """Cast to int32."""
        return self.cast(dtypes.int32)

    def long(self) -> Tensor:
        """Cast to int64."""
        return self.cast(dtypes.int64)

    def half(self) -> Tensor:
        """Cast to float16."""
        return self.cast(dtypes.float16)

    def bfloat16(self) -> Tensor:
        """Cast to bfloat16."""
        return self.cast(dtypes.bfloat16)

    def float(self) -> Tensor:
        """Cast to float32."""
        return self.cast(dtypes.float32)

    def double(self) -> Tensor:
        """Cast to float64."""
        return self.cast(dtypes.float64)

    # ---- arithmetic

    def add(self, other: Operand) -> Tensor:
        """self + other."""
        return binary("add", Ops.ADD, self, other)

    def sub(self, other: Operand, reverse: Flag = False) -> Tensor:
        """self - other, or other - self."""
        return binary("sub", Ops.SUB, *((other, self) if reverse else (self, other)))

    def mul(self, other: Operand) -> Tensor:
        """self * other."""
        return binary("mul", Ops.MUL, self, other)

    def div(
        self, other: Operand, reverse: Flag = False, rounding_mode: str | None = None
    ) -> Tensor:
        """self / other as floats; `rounding_mode` "floor" or "trunc" keeps integers integers."""
        x, y = (other, self) if reverse else (self, other)
        if rounding_mode is None:
            return floating("div", Ops.DIV, x, y)
        rounding = {"floor": quotients.floor_quotient, "trunc": quotients.trunc_quotient}
        if rounding_mode not in rounding:
            raise ArgumentError(f"div: {no_such('rounding_mode', rounding_mode, rounding)}")
        return rational("div", rounding[rounding_mode], x, y)

    def idiv(self, other: Operand) -> Tensor:
        """The quotient rounded down, as `//`."""
        return rational("floor_divide", quotients.floor_quotient, self, other)

    floor_divide = idiv

    def mod(self, other: Operand, reverse: Flag = False) -> Tensor:
        """The remainder of `//`: it has the sign of the divisor."""
        return rational("mod", quotients.remainder, *((other, self) if reverse else (self, other)))

    remainder = mod

    def fmod(self, other: Operand) -> Tensor:
        """The remainder of a quotient rounded towards zero: it has the sign of self."""
        return rational("fmod", quotients.fmod, self, other)

    def pow(self, other: Operand, reverse: Flag = False) -> Tensor:
        """self ** other."""
        return power(*((other, self) if reverse else (self, other)))

    def maximum(self, other: Operand) -> Tensor:
        """The larger of each pair; NaN if one is NaN."""
        return binary("maximum", Ops.MAXIMUM, self, other)

    def minimum(self, other: Operand) -> Tensor:
        """The smaller of each pair; NaN if one is NaN."""
        return binary("minimum", Ops.MINIMUM, self, other)

    def copysign(self, other: Operand) -> Tensor:
        """|self| with the sign of `other`, -0.0 included."""
        nodes, tensors = joined_floats("copysign", self, other)
        return result(formulas.copysign(*nodes), *tensors)

    def logaddexp(self, other: Operand) -> Tensor:
        """log(exp(self) + exp(other)) without overflow."""
        nodes, tensors = joined_floats("logaddexp", self, other)
        return result(half_wide(formulas.logaddexp, *nodes), *tensors)

    def lerp(self, end: Operand, weight: Operand) -> Tensor:
        """self + (end - self) * weight."""
        (a, b, w), tensors = joined_floats("lerp", self, end, weight)
        return result(a + (b - a) * w, *tensors)

    # ---- comparisons

    def lt(self, other: Operand) -> Tensor:
        """self < other."""
        return binary("lt", Ops.CMPLT, self, other)

    def le(self, other: Operand) -> Tensor:
        """self <= other."""
        return binary("le", Ops.CMPLE, self, other)

    def gt(self, other: Operand) -> Tensor:
        """self > other."""
        return binary("gt", Ops.CMPLT, other, self)

    def ge(self, other: Operand) -> Tensor:
        """self >= other."""
        return binary("ge", Ops.CMPLE, other, self)

    def eq(self, other: Operand) -> Tensor:
        """self == other."""
        return binary("eq", Ops.CMPEQ, self, other)

    def ne(self, other: Operand) -> Tensor:
        """self != other."""
        return binary("ne", Ops.CMPNE, self, other)

    def isclose(
        self, other: Operand, rtol: Real = 1e-5, atol: Real = 1e-8, equal_nan: Flag = False
    ) -> Tensor:
        """|self - other| <= atol + rtol * |other|; equal infinities are close."""
        (a, b), tensors = joined_floats("isclose", self, other)
        near = formulas.absolute(a - b) <= formulas.absolute(b) * rtol + atol
        close = a.eq(b) | (near & formulas.isfinite(a) & formulas.isfinite(b))
        if equal_nan:
            close = close | (formulas.isnan(a) & formulas.isnan(b))
        return result(close, *tensors)

    # ---- bits and logic

    def bitwise_and(self, other: Operand) -> Tensor:
        """self & other of integers or bools."""
        return bitwise("bitwise_and", Ops.AND, self, other)

    def bitwise_or(self, other: Operand) -> Tensor:
        """self | other of integers or bools."""
        return bitwise("bitwise_or", Ops.OR, self, other)

    def bitwise_xor(self, other: Operand) -> Tensor:
        """self ^ other of integers or bools."""
        return bitwise("bitwise_xor", Ops.XOR, self, other)

    def bitwise_not(self) -> Tensor:
        """~self of integers or bools."""
        if self.uop.dtype.is_float:
            raise DTypeError(f"bitwise_not takes integers or bools, not {self.uop.dtype.name}.")
        return self._unary(Ops.NOT)

    def lshift(self, other: Operand) -> Tensor:
        """self << other of integers; shifting by the width or more gives 0."""
        return bitwise("lshift", Ops.SHL, self, other)

    def rshift(self, other: Operand) -> Tensor:
        """self >> other of integers; the sign is kept."""
        return bitwise("rshift", Ops.SHR, self, other)

    def logical_not(self) -> Tensor:
        """Whether an element is 0."""
        return result(self.uop.cast(dtypes.bool).eq(False), self)

    def logical_and(self, other: Operand) -> Tensor:
        """Whether both are not 0."""
        return self._logical("logical_and", Ops.AND, other)

    def logical_or(self, other: Operand) -> Tensor:
        """Whether one is not 0."""
        return self._logical("logical_or", Ops.OR, other)

    def logical_xor(self, other: Operand) -> Tensor:
        """Whether exactly one is not 0."""
        return self._logical("logical_xor", Ops.XOR, other)

    def _logical(self, name: str, op: Ops, other: Operand) -> Tensor:
        (a, b), tensors = joined(name, self, other)
        return result(UOp.alu(op, a.cast(dtypes.bool), b.cast(dtypes.bool)), *tensors)

    # ---- selection

    def where(self, x: Operand, y: Operand) -> Tensor:
        """x where self is not 0, else y; the three broadcast together."""
        (a, b), tensors = joined("where", x, y)
        shape = broadcast_shape("where", [self.shape, *(t.shape for t in tensors)])
        nodes = [u.broadcast_to(shape) for u in (self.uop.cast(dtypes.bool), a, b)]
        return result(UOp.alu(Ops.WHERE, *nodes), self, *tensors)

    def masked_fill(self, mask: Operand, value: Operand) -> Tensor:
        """`value` where `mask` is true, else self."""
        where = tensor_of(mask, "masked_fill")
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
        """max(low, min(high, self)); NaN stays NaN. At a bound the slope is 1."""
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

    clip = clamp

    # ---- operators

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
