"""The tensor floor. `Tensor` is all that other rooms need."""

from .tensor import Tensor

__all__ = ["Tensor"]
