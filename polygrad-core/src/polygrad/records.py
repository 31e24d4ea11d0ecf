"""Records, in classes that cost little to make: `Frozen` as a dataclass, `NamedTuple` as of typing.

`dataclasses` writes, compiles and runs source text for each class, 1 ms of it, and imports
`inspect`, another 10; `typing` compiles each annotation of a NamedTuple, 0.2 ms a class. That was
a third of what a process takes which finds all its code on disk. So what is imported on that path
takes its records from here: annotations stay texts, and one constructor reads those of a `Frozen`.
What is made by the thousand is no `Frozen`: a dataclass or a tuple is made sooner.

To others a `Frozen` is a dataclass: `dataclasses.replace`, `fields` and `asdict` take it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

__all__ = ["Frozen", "NamedTuple", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import Field
    from typing import NamedTuple

    from typing_extensions import dataclass_transform
else:
    from collections import namedtuple

    class _OfTuples(type):
        """Gives what `namedtuple` makes of the annotations, with all else of the class."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            names = body.pop("__annotations__")
            defaults = [body.pop(n) for n in names if n in body]
            made = namedtuple(name, names, defaults=defaults, module=body.pop("__module__"))
            made.__annotations__ = names
            for key, value in body.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_OfTuples):
        pass

    def dataclass_transform(**_: Any) -> Callable[[type], type]:
        return lambda kind: kind


class _Fields:
    """`__dataclass_fields__`, made by `dataclasses` when it is first asked for."""

    def __get__(self, data: Any, kind: type[Frozen]) -> Mapping[str, Any]:
        from dataclasses import field, make_dataclass

        def described(name: str) -> Any:
            usual = partial(getattr, kind, name)
            return field(default_factory=usual) if hasattr(kind, name) else field()

        some = [(name, said, described(name)) for name, said in kind._names.items()]
        twin: Any = make_dataclass(kind.__name__, some, kw_only=kind._by_name)
        kind.__dataclass_fields__ = twin.__dataclass_fields__
        return kind.__dataclass_fields__


@dataclass_transform(frozen_default=True)
class Frozen:
    """Annotations of a class are its fields, what they are set to there their defaults. With
    `kw_only` they are given by name, without `eq` each object equals itself alone."""

    _names: ClassVar[Mapping[str, Any]] = {}  # field -> annotation, inherited ones first
    _by_name: ClassVar[bool] = False
    _in_order: ClassVar[int]  # how many may be given without a name
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    else:
        __dataclass_fields__ = _Fields()

    def __init_subclass__(cls, *, kw_only: bool = False, eq: bool = True) -> None:
        cls._names = {**cls._names, **cls.__annotations__}
        cls._by_name = cls._by_name or kw_only
        cls._in_order = 0 if cls._by_name else len(cls._names)
        cls.__dataclass_fields__ = _Fields()  # type: ignore[assignment]
        if not eq:
            cls.__eq__, cls.__hash__ = object.__eq__, object.__hash__  # type: ignore[method-assign]

    def __init__(self, *values: Any, **given: Any) -> None:
        kind = type(self)
        if len(values) > kind._in_order:
            raise TypeError(f"{kind.__name__} takes {kind._in_order} arguments without a name")
        for name, value in zip(kind._names, values):  # noqa: B905 - the rest has names or defaults
            if name in given:
                raise TypeError(f"{kind.__name__} got {name} twice")
            given[name] = value
        for name in given:
            if name not in kind._names:
                raise TypeError(f"{kind.__name__} has no field {name!r}")
        for name in kind._names:
            if name not in given and not hasattr(kind, name):
                raise TypeError(f"{kind.__name__} needs {name}")
        self.__dict__.update(given)
        self.__post_init__()

    def __post_init__(self) -> None:
        """What a class checks of its fields."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._names])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        told = [f"{n}={v!r}" for n, v in zip(self._names, self._values(), strict=True)]
        return f"{type(self).__name__}({', '.join(told)})"


Some = TypeVar("Some", bound=Frozen)


def replace(data: Some, **changes: Any) -> Some:
    """The same data but for `changes`."""
    return type(data)(**{name: getattr(data, name) for name in data._names} | changes)


def fields(data: Frozen) -> tuple[str, ...]:
    """The names of its fields."""
    return tuple(data._names)
