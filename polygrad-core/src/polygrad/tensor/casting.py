"""Casts: elements as another dtype, by value or by bits.

Floats round to the nearest, ties to even, and overflow to infinity; to integers they truncate and
saturate, NaN becoming 0. Integers wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dtype import dtypes, to_dtype
from ..errors import DTypeError
from .base import Base, result

if TYPE_CHECKING:
    from .tensor import Tensor


class Casting(Base):
    """cast, bitcast, and a method for each common dtype."""

    __slots__ = ()

    def cast(self, dtype: Any) -> Tensor:
        """Elements converted to `dtype`: floats to integers truncate and saturate, NaN becomes
        0.

        >>> Tensor([1.7, -2.5, float("nan")]).cast("int32").tolist()
        [1, -2, 0]
        """
        return result(self.uop.cast(to_dtype(dtype)), self)

    def astype(self, dtype: Any) -> Tensor:
        """numpy's name for `cast`.

        >>> Tensor([1, 2]).astype("float32").tolist()
        [1.0, 2.0]
        """
        return self.cast(dtype)

    def bitcast(self, dtype: Any) -> Tensor:
        """The same bits read as another dtype of the same width.

        >>> hex(Tensor([1.0]).bitcast("int32").item())
        '0x3f800000'
        """
        old, new = self.uop.dtype, to_dtype(dtype)
        if new.itemsize != old.itemsize or (new is not old and "bool" in (new.kind, old.kind)):
            raise DTypeError(f"bitcast: the bits of {old.name} are no {new.name}.")
        return result(self.uop.bitcast(new), self)

    def type_as(self, other: Base) -> Tensor:
        """Cast to the dtype of `other`.

        >>> Tensor([1]).type_as(Tensor([1.0])).dtype
        dtypes.float32
        """
        return self.cast(other.dtype)

    def bool(self) -> Tensor:
        """Cast to bool: whether an element is not 0.

        >>> Tensor([0.0, 2.0]).bool().tolist()
        [False, True]
        """
        return self.cast(dtypes.bool)

    def short(self) -> Tensor:
        """Cast to int16.

        >>> Tensor([1.9]).short().dtype
        dtypes.int16
        """
        return self.cast(dtypes.int16)

    def int(self) -> Tensor:
        """Cast to int32.

        >>> Tensor([1.9, -1.9]).int().tolist()
        [1, -1]
        """
        return self.cast(dtypes.int32)

    def long(self) -> Tensor:
        """Cast to int64.

        >>> Tensor([3]).long().dtype
        dtypes.int64
        """
        return self.cast(dtypes.int64)

    def half(self) -> Tensor:
        """Cast to float16.

        >>> Tensor([0.1]).half().tolist()
        [0.0999755859375]
        """
        return self.cast(dtypes.float16)

    def bfloat16(self) -> Tensor:
        """Cast to bfloat16.

        >>> Tensor([1.01]).bfloat16().tolist()
        [1.0078125]
        """
        return self.cast(dtypes.bfloat16)

    def float(self) -> Tensor:
        """Cast to float32.

        >>> Tensor([1, 2]).float().tolist()
        [1.0, 2.0]
        """
        return self.cast(dtypes.float32)

    def double(self) -> Tensor:
        """Cast to float64.

        >>> Tensor([0.5]).double().dtype
        dtypes.float64
        """
        return self.cast(dtypes.float64)
