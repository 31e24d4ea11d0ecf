"""numpy's functions called with Tensors: each runs on the values as arrays and gives arrays.

Floor: tensor. numpy asks a Tensor (`__array_function__`) before it runs one of its functions, so
`np.sum(x)` need not guess from a method of the same name with other arguments. Nothing here imports
numpy: its function is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ArgumentError
from . import host
from .base import Base

# Functions that look at shapes and dtypes alone: nothing is computed for them.
_ABOUT_SHAPE = {"shape", "ndim", "size", "empty_like", "zeros_like", "ones_like"}
_ABOUT_SHAPE |= {"result_type", "common_type", "can_cast", "iscomplexobj", "isrealobj"}
# Functions that write to their first argument, and give nothing.
_WRITING = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """`function(*args, **kwargs)` with an array for each Tensor, in lists and tuples too.

    Raises ArgumentError where the function would write to a Tensor, and so to a copy."""
    name = function.__name__
    written = args[:1] if name in _WRITING else (kwargs.get("out"),)
    if any(isinstance(x, Base) for x in written):
        raise ArgumentError(
            f"numpy.{name} writes to arrays, not to a tensor; give it a = x.numpy(), then"
            " x.assign(a)."
        )
    change = _outline if name in _ABOUT_SHAPE else _values
    return function(*_changed(args, change), **_changed(dict(kwargs), change))


def _changed(x: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(x, Base):
        return change(x)
    if type(x) in (list, tuple):
        return type(x)(_changed(each, change) for each in x)
    if type(x) is dict:
        return {key: _changed(each, change) for key, each in x.items()}
    return x


def _values(x: Any) -> Any:
    return x.numpy()


def _outline(x: Any) -> Any:
    """An array of the same shape and dtype, and of no memory."""
    import numpy as np

    one = host.array_of(memoryview(bytes(x.element_size())), x.dtype, ())
    return np.broadcast_to(one, x.shape)
