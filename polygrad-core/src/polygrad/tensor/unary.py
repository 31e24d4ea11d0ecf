"""Functions of one variable. Integers become the default float where the result is no integer.

Narrow floats are computed in float32 and rounded once where a function takes several steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..dtype import dtypes
from ..errors import ArgumentError, DTypeError, shown
from ..uop.ops import Ops, UOp
from . import formulas
from .axes import integer
from .base import Flag, Integer, Real, result
from .operators import Operators

if TYPE_CHECKING:
    from .tensor import Tensor


class Unary(Operators):
    """Signs, roots, exponentials, trigonometry, rounding and tests."""

    __slots__ = ()

    def _function(self, op: Ops) -> Tensor:
        return result(UOp.alu(op, self._float()), self)

    def _formula(self, formula: Callable[[UOp], UOp]) -> Tensor:
        return result(formulas.half_wide(formula, self._float()), self)

    # ---- signs

    def neg(self) -> Tensor:
        """-self; unsigned integers wrap.

        >>> Tensor([1.5, -2.0]).neg().tolist()
        [-1.5, 2.0]
        """
        if self.uop.dtype.kind == "bool":
            raise DTypeError("neg: bool tensors have no negative; use ~ for not.")
        return self._unary(Ops.NEG)

    def __neg__(self) -> Tensor:
        return self.neg()

    def __pos__(self) -> Tensor:
        return result(self.uop, self)

    def abs(self) -> Tensor:
        """|self|; the slope at 0 is 0.

        >>> Tensor([1.5, -2.0]).abs().tolist()
        [1.5, 2.0]
        """
        return result(formulas.absolute(self.uop), self)

    __abs__ = absolute = abs

    def sign(self) -> Tensor:
        """-1, 0 or 1; NaN for NaN.

        >>> Tensor([-3.0, 0.0, 2.0]).sign().tolist()
        [-1.0, 0.0, 1.0]
        """
        return result(formulas.sign(self.uop), self)

    def signbit(self) -> Tensor:
        """Whether the sign is minus, of -0.0 too. Gives bools.

        >>> Tensor([-0.0, 0.0, -2.0]).signbit().tolist()
        [True, False, True]
        """
        return result(formulas.signbit(self.uop), self)

    # ---- powers and roots

    def square(self) -> Tensor:
        """self * self.

        >>> Tensor([3, -4]).square().tolist()
        [9, 16]
        """
        u = self.uop
        return result(u & u if u.dtype.kind == "bool" else u * u, self)

    def sqrt(self) -> Tensor:
        """The square root; NaN below 0. Floats keep their dtype, integers become float32.

        >>> Tensor([4, 9]).sqrt().tolist()
        [2.0, 3.0]
        """
        return self._function(Ops.SQRT)

    def rsqrt(self) -> Tensor:
        """1 / sqrt(self). Floats keep their dtype, integers become float32.

        >>> Tensor([4.0]).rsqrt().tolist()
        [0.5]
        """
        return self._formula(lambda x: formulas.recip(formulas.sqrt(x)))

    def reciprocal(self) -> Tensor:
        """1 / self. Floats keep their dtype, integers become float32.

        >>> Tensor([4.0, 0.0]).reciprocal().tolist()
        [0.25, inf]
        """
        return self._function(Ops.RECIP)

    # ---- exponentials and logarithms

    def exp(self) -> Tensor:
        """e ** self. Floats keep their dtype, integers become float32.

        >>> Tensor([0.0, 1.0]).exp().tolist()[0]
        1.0
        """
        return self._function(Ops.EXP)

    def exp2(self) -> Tensor:
        """2 ** self. Floats keep their dtype, integers become float32.

        >>> Tensor([3.0, -1.0]).exp2().tolist()
        [8.0, 0.5]
        """
        return self._function(Ops.EXP2)

    def expm1(self) -> Tensor:
        """e ** self - 1, exact near 0 too. Floats keep their dtype, integers become float32.

        >>> Tensor([0.0]).expm1().tolist()
        [0.0]
        """
        return self._formula(formulas.expm1)

    def log(self) -> Tensor:
        """The natural logarithm. Floats keep their dtype, integers become float32.

        >>> Tensor([1.0, 0.0]).log().tolist()
        [0.0, -inf]
        """
        return self._function(Ops.LOG)

    def log2(self) -> Tensor:
        """The logarithm to base 2. Floats keep their dtype, integers become float32.

        >>> Tensor([8, 0.5]).log2().tolist()
        [3.0, -1.0]
        """
        return self._function(Ops.LOG2)

    def log10(self) -> Tensor:
        """The logarithm to base 10. Floats keep their dtype, integers become float32.

        >>> round(Tensor([100.0]).log10().item(), 6)
        2.0
        """
        return self._formula(lambda x: formulas.log(x) * (1.0 / math.log(10.0)))

    def log1p(self) -> Tensor:
        """log(1 + self), exact near 0 too. Floats keep their dtype, integers become float32.

        >>> Tensor([0.0, -1.0]).log1p().tolist()
        [0.0, -inf]
        """
        return self._formula(formulas.log1p)

    # ---- trigonometric and hyperbolic

    def sin(self) -> Tensor:
        """The sine of radians, right for large arguments. Floats keep their dtype, integers become
        float32.

        >>> Tensor([0.0]).sin().tolist()
        [0.0]
        """
        return self._function(Ops.SIN)

    def cos(self) -> Tensor:
        """The cosine of radians, right for large arguments. Floats keep their dtype, integers
        become float32.

        >>> Tensor([0.0]).cos().tolist()
        [1.0]
        """
        return self._function(Ops.COS)

    def tan(self) -> Tensor:
        """sin / cos. Floats keep their dtype, integers become float32.

        >>> Tensor([0.0]).tan().tolist()
        [0.0]
        """
        return self._formula(lambda x: UOp.alu(Ops.SIN, x) / UOp.alu(Ops.COS, x))

    def asin(self) -> Tensor:
        """The inverse of sin, in [-pi/2, pi/2]; NaN outside [-1, 1]. Floats keep their dtype,
        integers become float32.

        >>> round(Tensor([1.0]).asin().item(), 4)
        1.5708
        """
        return self._formula(formulas.asin)

    def acos(self) -> Tensor:
        """The inverse of cos, in [0, pi]; NaN outside [-1, 1]. Floats keep their dtype, integers
        become float32.

        >>> round(Tensor([0.0]).acos().item(), 4)
        1.5708
        """
        return self._formula(formulas.acos)

    def atan(self) -> Tensor:
        """The inverse of tan, in [-pi/2, pi/2]. Floats keep their dtype, integers become float32.

        >>> round(Tensor([1.0]).atan().item(), 4)
        0.7854
        """
        return self._formula(formulas.atan)

    def sinh(self) -> Tensor:
        """The hyperbolic sine. Floats keep their dtype, integers become float32.

        >>> round(Tensor([1.0]).sinh().item(), 4)
        1.1752
        """
        return self._formula(formulas.sinh)

    def cosh(self) -> Tensor:
        """The hyperbolic cosine. Floats keep their dtype, integers become float32.

        >>> Tensor([0.0]).cosh().tolist()
        [1.0]
        """
        return self._formula(formulas.cosh)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent. Floats keep their dtype, integers become float32.

        >>> Tensor([0.0, float("inf")]).tanh().tolist()
        [0.0, 1.0]
        """
        return self._function(Ops.TANH)

    def asinh(self) -> Tensor:
        """The inverse of sinh. Floats keep their dtype, integers become float32.

        >>> round(Tensor([1.0]).asinh().item(), 4)
        0.8814
        """
        return self._formula(formulas.asinh)

    def acosh(self) -> Tensor:
        """The inverse of cosh; NaN below 1. Floats keep their dtype, integers become float32.

        >>> Tensor([1.0]).acosh().tolist()
        [0.0]
        """
        return self._formula(formulas.acosh)

    def atanh(self) -> Tensor:
        """The inverse of tanh; NaN outside [-1, 1]. Floats keep their dtype, integers become
        float32.

        >>> Tensor([0.0, 1.0]).atanh().tolist()
        [0.0, inf]
        """
        return self._formula(formulas.atanh)

    # ---- rounding: integers stay as they are

    def _round(self, op: Ops) -> Tensor:
        return self._unary(op) if self.uop.dtype.is_float else result(self.uop, self)

    def floor(self) -> Tensor:
        """Rounded towards minus infinity. Integers stay as they are.

        >>> Tensor([1.5, -1.5]).floor().tolist()
        [1.0, -2.0]
        """
        return self._round(Ops.FLOOR)

    def ceil(self) -> Tensor:
        """Rounded towards infinity. Integers stay as they are.

        >>> Tensor([1.5, -1.5]).ceil().tolist()
        [2.0, -1.0]
        """
        return self._round(Ops.CEIL)

    def trunc(self) -> Tensor:
        """Rounded towards zero. Integers stay as they are.

        >>> Tensor([1.5, -1.5]).trunc().tolist()
        [1.0, -1.0]
        """
        return self._round(Ops.TRUNC)

    def round(self, decimals: Integer = 0) -> Tensor:
        """Rounded to the nearest integer, or to multiples of 10^-decimals; halves to even.

        numpy's and torch's formula, round(x * 10^decimals) / 10^decimals, so 2.675 to two decimals
        may go either way. From -30 to 30; integers take no decimals below 0.

        >>> round(Tensor([1.25, -0.5]), 1).tolist()
        [1.2000000476837158, -0.5]
        """
        decimals = integer("round", "decimals", decimals)
        if abs(decimals) > 30:
            raise ArgumentError(f"round: decimals are from -30 to 30, not {shown(decimals)}.")
        if decimals < 0 and not self.uop.dtype.is_float:
            raise DTypeError(
                f"round takes no decimals below 0 of {self.uop.dtype.name}; cast to a float first."
            )
        if not decimals or not self.uop.dtype.is_float:
            return self._round(Ops.ROUND)
        return result(formulas.half_wide(lambda x: _to_decimals(x, decimals), self.uop), self)

    def __round__(self, ndigits: Integer | None = None) -> Tensor:
        return self.round(ndigits or 0)

    # ---- tests

    def isnan(self) -> Tensor:
        """Whether an element is NaN. Gives bools.

        >>> Tensor([1.0, float("nan")]).isnan().tolist()
        [False, True]
        """
        return result(formulas.isnan(self.uop), self)

    def isinf(self, detect_positive: Flag = True, detect_negative: Flag = True) -> Tensor:
        """Whether an element is infinite. Gives bools.

        >>> Tensor([1.0, float("-inf")]).isinf().tolist()
        [False, True]
        """
        x, no = _arithmetic(self._float()), UOp.const(dtypes.bool, False).broadcast_to(self.shape)
        positive = x.eq(math.inf) if detect_positive else no
        return result(positive | (x.eq(-math.inf) if detect_negative else no), self)

    def isfinite(self) -> Tensor:
        """Whether an element is neither NaN nor infinite. Gives bools.

        >>> Tensor([1.0, float("inf")]).isfinite().tolist()
        [True, False]
        """
        return result(formulas.isfinite(_arithmetic(self._float())), self)

    def nan_to_num(
        self, nan: Real = 0.0, posinf: Real | None = None, neginf: Real | None = None
    ) -> Tensor:
        """NaN and infinities replaced; None is the largest and smallest finite number.

        >>> Tensor([float("nan"), float("inf")]).nan_to_num(0.0, posinf=9.0).tolist()
        [0.0, 9.0]
        """
        x = self.uop
        layout = x.dtype.layout
        if layout is None:
            return result(x, self)
        big = layout.maximum
        high, low = big if posinf is None else posinf, -big if neginf is None else neginf
        x = x.eq(math.inf).where(x._with(high), x)
        x = x.eq(-math.inf).where(x._with(low), x)
        return result(formulas.isnan(x).where(x._with(nan), x), self)


def _to_decimals(x: UOp, decimals: int) -> UOp:
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return UOp.alu(Ops.ROUND, x * scale) / scale
    return UOp.alu(Ops.ROUND, x / scale) * scale


def _arithmetic(x: UOp) -> UOp:
    """In float32 if `x` is narrower: its own dtype may lack inf."""
    return x.cast(x.dtype.arithmetic)
