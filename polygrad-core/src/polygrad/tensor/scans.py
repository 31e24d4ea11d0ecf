"""Scans: running sums, products and extremes along one axis, each element included.

The work is linear in the length; a long scan of few rows runs in parts on every core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dtype import dtypes, sum_dtype, to_dtype
from ..uop.ops import Ops, UOp
from .base import Integer, axis_of, either, result
from .special import Special

if TYPE_CHECKING:
    from .tensor import Tensor


def running(u: UOp, axis: int, op: Ops) -> UOp:
    """A scan in u's dtype, 16-bit floats through float32."""
    if not u.shape:
        return u
    if u.dtype.is_float and u.dtype.itemsize == 2:
        return u.cast(dtypes.float32).scan(op, axis).cast(u.dtype)
    return u.scan(op, axis)


class Scans(Special):
    """Running reductions."""

    __slots__ = ()

    def _running(self, name: str, op: Ops, axis: Integer | None, dtype: Any) -> Tensor:
        along = axis_of(name, 0 if axis is None else axis, self.ndim)
        return result(running(self.uop.cast(to_dtype(dtype)), along, op), self)

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
        """The running product along `axis` (the first by default), in the dtype of `prod`. It has
        no gradient yet: asking for one is a GradientError."""
        wanted = sum_dtype(self.uop.dtype) if dtype is None else dtype
        return self._running("cumprod", Ops.MUL, either("cumprod", axis, dim), wanted)
