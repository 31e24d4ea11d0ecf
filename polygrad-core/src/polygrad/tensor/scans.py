"""Scans: running sums, products and logarithms of sums along one axis, each element included.

The work is linear in the length and the graph does not depend on it; a long scan of few rows runs
in parts on every core. Sums and products are SCAN nodes. A logarithm of a running sum is made
of the running maximum and a linear recurrence (`recurrence.py`) whose terms are scaled by that
maximum: nothing overflows. The gradients of products and logarithms are recurrences from
the far end, without a division or a difference of large numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import sum_dtype, to_dtype
from ..uop.ops import Ops, UOp
from . import formulas
from .axes import axis_of, either
from .base import Integer, result
from .elementwise import of_many
from .recurrence import along, backward, earlier, put_rule, recurrence
from .reduce import narrow, wide
from .special import Special

if TYPE_CHECKING:
    from .tensor import Tensor


def running(u: UOp, axis: int, op: Ops) -> UOp:
    """A scan in u's dtype, narrow floats through float32; a number is its own."""
    if not u.shape:
        return u
    if not u.dtype.is_float:
        return u.scan(op, axis)
    x = wide(u)
    made = x.scan(op, axis)
    if op is Ops.MUL and 0 not in x.shape:
        made = along("cumprod", axis, made, x)
    return narrow(made, u.dtype)


def _product(node: UOp, g: UOp, axis: int) -> Sequence[UOp | None]:
    """With s[t] = g[t] + x[t+1] s[t+1], the slope at t is s[t] times the product of all before."""
    x = node.src[1]
    before = earlier(node, axis) + _at_first(x, axis)
    return (before * backward(x, g, axis),)


def _at_first(u: UOp, axis: int) -> UOp:
    """1 at the first place of an axis, 0 elsewhere."""
    shape = [1 if d == axis else n for d, n in enumerate(u.shape)]
    rest = u.shape[axis] - 1
    one = UOp.const(u.dtype, 1.0).broadcast_to(shape)
    return one.pad([(0, rest if d == axis else 0, 0) for d in range(len(shape))])


def log_sums(x: UOp, axis: int) -> UOp:
    """log(cumsum(exp(x))) = c + log1p(s), with c the running maximum and s the sum of exp(x - c)
    beside the 1 of the maximum itself: s[t] = a s[t-1] + exp(x[t] - c[t]) with a = exp(c[t-1] -
    c[t]), or + a where x[t] is the new maximum. c where that is no number."""
    if not x.shape or 0 in x.shape:
        return x
    u = x.detach()
    best = u.scan(Ops.MAXIMUM, axis)
    number = formulas.isfinite(best)
    level, before = formulas.finite_or_zero(best), earlier(best, axis)
    some = earlier(best.ne(-math.inf), axis)
    fade = some.where(formulas.exp(earlier(level, axis) - level), 0.0)
    new = (some.eq(False)) | (before < u)
    sums = recurrence(fade, new.where(fade, formulas.exp(u - level)), axis)
    value = number.where(level + formulas.log1p(sums), best)
    return along("logcumsumexp", axis, value, x)


def _log_sums(node: UOp, g: UOp, axis: int) -> Sequence[UOp | None]:
    """exp(x[t] - y[t]) r[t], where r[t] = g[t] + exp(y[t] - y[t+1]) r[t+1]: no factor exceeds 1."""
    x, y = node.src[1], node
    fade = _share(earlier(y, axis), y)
    return (_share(x, y) * backward(fade, g, axis),)


def _share(part: UOp, whole: UOp) -> UOp:
    """exp(part - whole), 0 for -inf whatever the whole is, 1 for two that are inf."""
    none, all_ = part.eq(-math.inf), part.eq(math.inf) & whole.eq(math.inf)
    gap = (none | all_).where(part._with(0.0), part - whole)
    return none.where(part._with(0.0), formulas.exp(gap))


put_rule("cumprod", _product)
put_rule("logcumsumexp", _log_sums)


class Scans(Special):
    """Running reductions."""

    __slots__ = ()

    def _running(self, name: str, op: Ops, axis: Integer | None, dtype: Any) -> Tensor:
        along = axis_of(name, 0 if axis is None else axis, self.ndim)
        u = self.uop.cast(to_dtype(dtype))
        return result(running(u, along, of_many(op, u.dtype)), self)

    def cumsum(
        self, axis: Integer | None = None, dtype: Any = None, *, dim: Integer | None = None
    ) -> Tensor:
        """The running sum along `axis` (the first by default), in the dtype of `sum`.

        >>> Tensor([1, 2, 3]).cumsum().tolist()
        [1, 3, 6]
        """
        wanted = sum_dtype(self.uop.dtype) if dtype is None else dtype
        return self._running("cumsum", Ops.ADD, either("cumsum", axis, dim), wanted)

    def cumprod(
        self, axis: Integer | None = None, dtype: Any = None, *, dim: Integer | None = None
    ) -> Tensor:
        """The running product along `axis` (the first by default), in the dtype of `prod`. Its
        gradient divides by nothing, so it is right where elements are 0.

        >>> from polygrad import Tensor
        >>> Tensor([2.0, 0.5, 3.0]).cumprod().tolist()
        [2.0, 1.0, 3.0]
        """
        wanted = sum_dtype(self.uop.dtype) if dtype is None else dtype
        return self._running("cumprod", Ops.MUL, either("cumprod", axis, dim), wanted)

    def logcumsumexp(self, axis: Integer | None = None, *, dim: Integer | None = None) -> Tensor:
        """log(cumsum(exp(self))) along `axis` (the first by default), in a float dtype, without
        overflow; -inf for a sum of nothing but -inf.

        >>> from polygrad import Tensor
        >>> Tensor([1000.0, 1000.0, -float("inf")]).logcumsumexp().tolist()
        [1000.0, 1000.6931762695312, 1000.6931762695312]
        """
        axis = either("logcumsumexp", axis, dim)
        a, u = axis_of("logcumsumexp", 0 if axis is None else axis, self.ndim), self._float()
        return result(narrow(log_sums(wide(u), a), u.dtype), self)
