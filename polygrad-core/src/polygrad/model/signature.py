"""Signatures: what an entrypoint takes by name, and host data checked against it.

A signature is given as a Tensor (`Tensor.empty(32, 10)`), as a shape, or as (shape, dtype). Data
may be numpy arrays, Tensors, buffers or nested lists; they must have the declared shape, and a
dtype of the same kind or a lesser one (an int array may feed a float input, never the other way
round).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..dtype import DType, dtypes, to_dtype
from ..errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    UnknownName,
    did_you_mean,
    no_such,
    public,
    shown,
)
from ..tensor import Tensor
from ..tensor.store import read


class Outputs(dict[str, Any]):
    """What an entrypoint returns, by name."""

    @public
    def __missing__(self, name: object) -> Any:
        raise UnknownName(no_such("output", name, self))


_KINDS = {"bool": 0, "uint": 1, "int": 1, "float": 2}


class Spec(NamedTuple):
    """The shape and dtype of a named array."""

    shape: tuple[int, ...]
    dtype: DType

    @classmethod
    def of(cls, tensor: Tensor) -> Spec:
        return cls(tuple(tensor.shape), tensor.dtype)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


def specs(given: Mapping[str, Any] | None, what: str) -> dict[str, Spec]:
    """The named signatures of a Model's `inputs=` or `targets=`."""
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError(
            f"{what}= maps names to Tensors or shapes, as {{'x': Tensor.empty(5)}}."
        )
    return {str(name): _spec(f"{what} {name!r}", value) for name, value in (given or {}).items()}


def _spec(what: str, value: Any) -> Spec:
    if isinstance(value, (Tensor, Spec)):
        return Spec(tuple(value.shape), value.dtype)
    shape, dtype = value, dtypes.default_float
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (tuple, list)):
        shape, dtype = value[0], _dtype(what, value[1])
    if not isinstance(shape, (tuple, list)) or any(type(n) is not int or n < 0 for n in shape):
        raise ArgumentError(f"{what} is a Tensor, a shape or (shape, dtype), not {shown(value)}.")
    return Spec(tuple(shape), dtype)


def _dtype(what: str, given: Any) -> DType:
    try:
        return to_dtype(given)
    except DTypeError as error:
        raise DTypeError(f"{what}: {error}") from None


def check_names(given: Mapping[str, Any], wanted: Mapping[str, Any], what: str) -> None:
    """Raise unless exactly the wanted names were given."""
    for name in given:
        if name not in wanted:
            hint = did_you_mean(str(name), wanted)
            known = ", ".join(wanted) or "nothing"
            raise ArgumentError(f"{what} has no input {name!r}.{hint} It takes: {known}.")
    missing = [name for name in wanted if name not in given]
    if missing:
        raise ArgumentError(f"{what} needs {', '.join(map(repr, missing))} too.")


def check_shape(what: str, found: tuple[int, ...], spec: Spec) -> None:
    if tuple(found) != spec.shape:
        raise ShapeError(f"{what} is declared {spec}, got shape {tuple(found)}.")


def check_dtype(what: str, found: DType, spec: Spec) -> None:
    """A dtype feeds another unless that would lose its kind."""
    if _KINDS[found.kind] > _KINDS[spec.dtype.kind]:
        raise DTypeError(f"{what} is declared {spec.dtype.name}, got {found.name}; cast it first.")


def host_array(what: str, value: Any, dtype: DType) -> tuple[memoryview, tuple[int, ...]]:
    """The row-major bytes of host data as `dtype`, and its shape."""
    if isinstance(value, Tensor):
        check_dtype(what, value.dtype, Spec((), dtype))
        return bytes_of(value.cast(dtype)), tuple(value.shape)
    if hasattr(value, "__array_interface__") and (dtype.format or not dtype.is_float):
        return _numpy_array(what, value, dtype)
    try:
        tensor = Tensor(value)
    except (TypeError, ValueError) as e:
        raise type(e)(f"{what}: {e}") from None
    check_dtype(what, tensor.dtype, Spec((), dtype))
    if tensor.dtype.is_int and tensor.numel():
        flat = tensor.data().cast("B").cast(tensor.dtype.format)  # type: ignore[call-overload]
        _check_range(what, min(flat), max(flat), dtype)
    return bytes_of(tensor.cast(dtype)), tuple(tensor.shape)


def _check_range(what: str, low: int, high: int, dtype: DType) -> None:
    """Host integers must fit: a label that wraps is another label."""
    if dtype.is_int and not dtype.min <= low <= high <= dtype.max:
        wrong = low if low < dtype.min else high
        raise ArgumentError(f"{what}: {wrong} does not fit {dtype.name}.")


_KNOWN: dict[Any, DType] = {}  # by numpy's dtype


def _numpy_array(what: str, value: Any, dtype: DType) -> tuple[memoryview, tuple[int, ...]]:
    import numpy as np

    array = np.asarray(value)
    found = _KNOWN.get(array.dtype)
    if found is None:  # numpy takes its time to name a dtype
        found = _KNOWN[array.dtype] = _dtype(what, array.dtype)
    if found is not dtype:
        check_dtype(what, found, Spec((), dtype))
        if found.is_int and array.size:
            _check_range(what, int(array.min()), int(array.max()), dtype)
    as_it_is = found is dtype and array.flags.c_contiguous and array.dtype.isnative
    ready = array if as_it_is else np.ascontiguousarray(array, dtype=dtype.name)
    return memoryview(
        ready.reshape(-1).view(np.uint8).data
    ), array.shape  # 0-d arrays become 1-d there


def bytes_of(tensor: Tensor) -> memoryview:
    """The row-major bytes of a Tensor, computed if need be."""
    return read(tensor)
