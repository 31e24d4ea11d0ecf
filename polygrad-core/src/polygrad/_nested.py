"""Nested arguments and results as flat lists, for `jit`: lists, tuples, dicts and dataclasses.

`flatten` collects tensors and numbers and describes everything else by a hashable structure;
`rebuilt` puts others in their places, in the same order. `taken` and `filled` do it for results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ._around import Same
from .dtype import DType
from .engine.capture import active
from .engine.number import Number, evaluator
from .errors import ArgumentError
from .tensor import Tensor
from .tensor.host import is_array
from .uop.ops import UOp
from .uop.sizes import Size, unbound

STATIC = (str, bool, bytes, type(None), complex, DType, type, range)


# ---- arguments


class _Bounded:
    """A size: equal whatever the values of its variables are."""

    __slots__ = ("key", "size")

    def __init__(self, size: Size) -> None:
        self.size, self.key = size, unbound(size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bounded) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


def sizes_in(structure: Any) -> Iterator[Size]:
    """The sizes among arguments, from what `flatten` gave."""
    if isinstance(structure, _Bounded):
        yield structure.size
    elif type(structure) is tuple:
        for part in structure:
            yield from sizes_in(part)


def sizes_of(tensors: Sequence[Tensor], structure: Any) -> Iterator[int]:
    """The sizes of a call: those in the shapes of its tensors, and those among its arguments."""
    for t in tensors:
        yield from t.uop.shape
    yield from sizes_in(structure)


def parts_of(x: Any) -> Mapping[Any, Any] | None:
    """The named parts of a container that arguments are looked for in, None for anything else."""
    kind = type(x)
    if kind is dict:
        return x  # type: ignore[no-any-return]
    if isinstance(x, (list, tuple)):
        return dict(enumerate(x))
    fields = getattr(kind, "__dataclass_fields__", None)
    return None if fields is None else {name: getattr(x, name) for name in fields}


def flatten(x: Any, tensors: list[Tensor], numbers: list[int | float]) -> Any:
    """Collect tensors and numbers; what is given back describes everything else."""
    kind = type(x)
    if kind is Tensor or isinstance(x, Tensor):
        tensors.append(x)
        return Tensor
    if kind is float or kind is int:
        numbers.append(x)
        return kind
    if isinstance(x, STATIC):
        return (kind, x)
    if isinstance(x, Size):
        return _Bounded(x)
    if issubclass(kind, Number):  # of a capture around this one
        numbers.append(x)
        return type(x.value)
    parts = parts_of(x)
    if parts is not None:
        return (kind, tuple([(k, flatten(v, tensors, numbers)) for k, v in parts.items()]))
    if is_array(x):  # an array is an input as well
        if x.shape == ():
            return flatten(x.item(), tensors, numbers)
        tensors.append(Tensor(x))
        return Tensor
    return Same(x)


def tensors_of(x: Any) -> Iterator[Tensor]:
    """The tensors that `flatten` would collect, without arrays."""
    if isinstance(x, Tensor):
        yield x
    for part in (parts_of(x) or {}).values():
        yield from tensors_of(part)


def rebuilt(
    x: Any,
    tensors: Iterator[Tensor],
    numbers: Iterator[Number],
    size: Callable[[int], int] = lambda n: n,
) -> Any:
    """`x` with its tensors and numbers exchanged, in the order of `flatten`, and its sizes by
    `size`."""
    kind = type(x)
    if isinstance(x, Tensor):
        return next(tensors)
    if kind is float or kind is int or issubclass(kind, Number):
        return next(numbers)
    if isinstance(x, STATIC):
        return x
    if isinstance(x, Size):
        return size(x)
    parts = parts_of(x)
    if parts is not None:
        return _with_parts(x, {k: rebuilt(v, tensors, numbers, size) for k, v in parts.items()})
    if not is_array(x):
        return x
    # A number of numpy's counts as Python's, as it does in every operation.
    return next(tensors) if x.shape else rebuilt(x.item(), tensors, numbers)


def _with_parts(x: Any, parts: Mapping[Any, Any]) -> Any:
    """A container like `x` with other parts."""
    kind = type(x)
    if kind is dict:
        return dict(parts)
    if isinstance(x, (list, tuple)):
        return kind(*parts.values()) if hasattr(x, "_fields") else kind(parts.values())
    import copy

    new = copy.copy(x)  # a dataclass; frozen ones too
    for name, value in parts.items():
        object.__setattr__(new, name, value)
    return new


# ---- results


def taken(x: Any, roots: dict[UOp, int]) -> Any:
    """The structure of what the function returned; its tensors' nodes go to `roots`, each once."""
    if isinstance(x, Tensor):
        capture = active.get()
        if capture is not None:
            capture.see(x)  # it may be from outside, and met no operation
        return ("tensor", roots.setdefault(x.uop, len(roots)))
    if isinstance(x, Number):
        return ("number", evaluator(x.expression))
    parts = None if isinstance(x, STATIC) else parts_of(x)
    if hasattr(x, "__next__"):
        raise ArgumentError(
            f"a captured function returned a {type(x).__name__}, which computes later; return a"
            " list."
        )
    if parts is None:
        return ("static", x)
    return ("parts", x, {k: taken(v, roots) for k, v in parts.items()})


def filled(structure: Any, made: Sequence[Tensor], numbers: Sequence[int | float]) -> Any:
    kind = structure[0]
    if kind == "tensor":
        return made[structure[1]]
    if kind == "number":
        return structure[1](numbers)
    if kind == "static":
        return structure[1]
    _, like, parts = structure
    return _with_parts(like, {k: filled(v, made, numbers) for k, v in parts.items()})


# ---- names, for messages


def names_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[str]:
    """The name of each tensor argument, in the order of `flatten`: 'x', batch['image'], batch.y."""
    import inspect

    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    found: list[str] = []

    def walk(x: Any, path: str) -> None:
        if isinstance(x, Tensor) or (is_array(x) and x.shape):
            found.append(path)
            return
        parts = None if isinstance(x, STATIC) else parts_of(x)
        for key, value in (parts or {}).items():
            walk(
                value, f"{path}[{key!r}]" if isinstance(x, (dict, list, tuple)) else f"{path}.{key}"
            )

    for i, x in enumerate(args):
        walk(x, names[i] if i < len(names) else f"number {i}")
    for key in sorted(kwargs):
        walk(kwargs[key], key)
    return [repr(path) if path.isidentifier() else path for path in found]
