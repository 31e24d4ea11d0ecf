"""Signatures: what an entrypoint takes by name, and host data checked against it.

A signature is given as a Tensor (`Tensor.empty(32, 10)`), as a shape, or as (shape, dtype). Data
may be numpy arrays, Tensors, buffers or nested lists; they must have the declared shape, and a
dtype of the same kind or a lesser one (an int array may feed a float input, never the other way
round).

A size may be a Variable, or (name, min, max), which is one: axes of one name have one size in a
call, any within the bounds.
"""

from __future__ import annotations

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
from ..tensor.host import is_array
from ..tensor.store import read
from ..uop.ops import UOp
from ..uop.sizes import Size, Variable, actual, capacity, opened, unbound, variables_in


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
        return cls(opened(tensor.shape), tensor.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the largest."""
        return capacity(self.shape) * self.dtype.itemsize

    @property
    def variables(self) -> list[UOp]:
        """What its sizes depend on."""
        return variables_in(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


def specs(given: Mapping[str, Any] | None, what: str) -> dict[str, Spec]:
    """The named signatures of a Model's `inputs=` or `targets=`."""
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError(
            f"{what}= maps names to Tensors or shapes, as {{'x': Tensor.empty(5)}}."
        )
    made = {str(name): _spec(f"{what} {name!r}", value) for name, value in (given or {}).items()}
    check_variables(made)
    return made


def _spec(what: str, value: Any) -> Spec:
    if isinstance(value, Spec):
        return value
    shape, dtype = value, dtypes.default_float
    if isinstance(value, Tensor):
        shape, dtype = value.shape, value.dtype
    elif isinstance(value, tuple) and len(value) == 2 and _is_shape(value[0]):
        shape, dtype = value[0], _dtype(what, value[1])
    if not _is_shape(shape):
        raise ArgumentError(f"{what} is a Tensor, a shape or (shape, dtype), not {shown(value)}.")
    sizes = tuple([Variable(*n) if isinstance(n, tuple) else unbound(n) for n in shape])
    for n in sizes:
        if isinstance(n, Size) and not isinstance(n, Variable):
            raise ArgumentError(f"{what}: a size is a number or a Variable, not {n}.")
    return Spec(sizes, dtype)


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and not _is_bounded(value) and all(map(_is_size, value))


def _is_size(n: Any) -> bool:
    return isinstance(n, Size) or _is_bounded(n) or (type(n) is int and n >= 0)


def _is_bounded(n: Any) -> bool:
    """Whether this is a variable as (name, min, max)."""
    return isinstance(n, tuple) and len(n) == 3 and isinstance(n[0], str)


def check_variables(given: Mapping[str, Spec]) -> None:
    """Raise ArgumentError for one name with two pairs of bounds."""
    known: dict[str, UOp] = {}
    for spec in given.values():
        for v in spec.variables:
            if known.setdefault(v.arg[0], v) is not v:
                name, *bounds = known[v.arg[0]].arg
                raise ArgumentError(
                    f"the variable {name!r} is declared between {bounds[0]} and {bounds[1]}, and"
                    f" between {v.arg[1]} and {v.arg[2]}; one name has one pair of bounds."
                )


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


Values = dict[UOp, int]  # of the variables of a call


def check_shape(
    what: str, found: tuple[int, ...], spec: Spec, values: Values | None = None
) -> None:
    """Raise ShapeError unless the shape is the declared one; note in `values` what varies."""
    shape = actual(found)
    if shape == spec.shape:
        return
    known = {} if values is None else values
    if not fits(shape, spec.shape):
        raise ShapeError(f"{what} is declared {spec}, got shape {shape}.")
    for n, wanted in zip(shape, spec.shape, strict=True):
        if isinstance(wanted, Variable) and known.setdefault(wanted.node, n) != n:
            raise ShapeError(
                f"{what} is declared {spec}, got shape {shape}: {wanted.name!r} is"
                f" {known[wanted.node]} elsewhere in this call."
            )


def fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a shape in numbers is the declared one, each variable within its bounds."""
    pairs = zip(shape, wanted, strict=False)
    return len(shape) == len(wanted) and all(
        m.min <= n <= m.max if isinstance(m, Variable) else n == m for n, m in pairs
    )


def check_dtype(what: str, found: DType, spec: Spec) -> None:
    """A dtype feeds another unless that would lose its kind."""
    if _KINDS[found.kind] > _KINDS[spec.dtype.kind]:
        raise DTypeError(f"{what} is declared {spec.dtype.name}, got {found.name}; cast it first.")


def host_array(what: str, value: Any, dtype: DType) -> tuple[memoryview, tuple[int, ...]]:
    """The row-major bytes of host data as `dtype`, and its shape."""
    if isinstance(value, Tensor):
        check_dtype(what, value.dtype, Spec((), dtype))
        return bytes_of(value.cast(dtype)), tuple(value.shape)
    if is_array(value) and (dtype.format or not dtype.is_float):
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
    if not ready.size:  # a view with a 0 in its shape cannot be cast
        return memoryview(b""), array.shape
    words: Any = ready.view(np.uint16) if dtype is dtypes.float16 else ready  # see `formatted`
    return memoryview(words).cast("B"), array.shape


def bytes_of(tensor: Tensor) -> memoryview:
    """The row-major bytes of a Tensor, computed if need be."""
    return read(tensor)
