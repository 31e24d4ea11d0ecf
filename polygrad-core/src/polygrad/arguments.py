"""Which argument of a failed call was wrong, told from the signature of what was called.

Public functions check what their annotations cannot say: shapes, ranges, names. That `axis` is an
integer and `weight` a tensor the annotations do say, and checking it at each call would cost more
than the call. So nobody checks until Python itself stumbles (a TypeError or its like, inside our
code): then `errors.public` asks here, and the user reads `conv2d: weight is a tensor, not None.`
instead of an AttributeError from somewhere below. A call that fits its signature and fails all the
same is a fault of ours, and its error stays as it is.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .errors import ArgumentError, did_you_mean, is_ours, one, shown, whose


def blame(
    entry: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception
) -> str:
    """What is wrong with the arguments of `entry(*args, **kwargs)`; an empty string if nothing."""
    name = name_of(entry, args)
    if text := _unbound(name, entry, args, kwargs):
        return text
    if not _raised_by_us(error):
        return ""
    signature = inspect.signature(entry)
    for parameter, value in signature.bind(*args, **kwargs).arguments.items():
        kind = _annotation(entry, signature.parameters[parameter])
        if kind is not Any and not _fits(value, kind):
            return f"{name}: {parameter} is {_described(kind)}, not {shown(value)}."
        if isinstance(error, OverflowError) and _beyond_floats(value):
            return f"{name}: {parameter} holds an integer that no float can hold."
    return ""


def call_back(what: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the user's, which `what` names.

    Raises ArgumentError for arguments that it does not take.
    """
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        traceback = error.__traceback__
        if traceback is not None and traceback.tb_next is not None:
            raise  # from inside the function: it was entered
        text = _unbound(what, function, args, kwargs) or f"{what}: {error}."
    raise ArgumentError(text)


def name_of(entry: Callable[..., Any], args: Sequence[Any] = ()) -> str:
    """`add`, or the class for what makes its objects: of ours the nearest to that of the first
    argument, which may inherit the method."""
    *outer, name = entry.__qualname__.split(".")
    if name not in ("__init__", "__call__") or not outer:
        return name.strip("_")
    classes = type(args[0]).__mro__ if args else ()
    found = (c.__name__ for c in classes if is_ours(c.__module__) and c.__name__[0] != "_")
    return next(found, outer[-1])


def _unbound(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str:
    """The error of arguments that do not fit the parameters at all; an empty string if they do."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function in C that tells nothing
        return ""
    try:
        signature.bind(*args, **kwargs)
        return ""
    except TypeError as error:
        reason = str(error)
    some = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    takes = ", ".join(str(p.replace(annotation=p.empty)) for p in some) or "nothing"
    named = [p.name for p in some if p.kind not in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
    unknown = next((k for k in kwargs if k not in named), None)
    if unknown is not None:
        reason = f"no argument {unknown!r}"
    hint = did_you_mean(unknown, named) if unknown is not None else ""
    return f"{name}: {reason}.{hint} It takes: {takes}."


def _raised_by_us(error: Exception) -> bool:
    """Whether the error comes from our code, not from a function of the user's that we called."""
    *_, (_, ours) = whose(error.__traceback__)
    return ours


# ---- annotations


def _annotation(entry: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """What a parameter is annotated with; Any where that names what only type checkers import."""
    kind = parameter.annotation
    if kind is parameter.empty:
        return Any
    if not isinstance(kind, str):
        return kind
    try:
        return eval(kind, inspect.unwrap(entry).__globals__)  # our own source text
    except NameError:
        return Any


def _choices(kind: Any) -> tuple[Any, ...]:
    """The parts of a union, else the one kind."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)


def _fits(value: Any, kind: Any) -> bool:
    return any(_fits_one(value, k) for k in _choices(kind))


def _fits_one(value: Any, kind: Any) -> bool:
    if kind is Any or isinstance(kind, typing.TypeVar):
        return True
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return any(type(value) is type(k) and value == k for k in inner)
    if origin is None:
        check = _NUMBERS.get(kind)
        return check(value) if check else not isinstance(kind, type) or isinstance(value, kind)
    if not isinstance(value, origin) or isinstance(value, (str, bytes)):
        return False
    if issubclass(origin, Sequence) and isinstance(value, Sequence):
        return all(_fits(v, inner[0]) for v in value) if inner else True
    return True


def converts(value: Any, method: str) -> bool:
    """Whether Python can make a number of `value` by `__index__`, `__float__` or `__bool__`: it is
    one, of numpy's too, or an array or tensor of no axes. A class has the methods of its objects,
    but is no number."""
    return hasattr(type(value), method) and getattr(value, "shape", ()) == ()


def _beyond_floats(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_beyond_floats, value))
    return isinstance(value, int) and value.bit_length() > 1023


_NUMBERS: dict[Any, Callable[[Any], bool]] = {
    bool: lambda v: converts(v, "__bool__"),
    int: lambda v: converts(v, "__index__"),
    float: lambda v: converts(v, "__float__"),
    type(None): lambda v: v is None,
    None: lambda v: v is None,
}


_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    str: "a text",
    type(None): "None",
    None: "None",
    Sequence: "a sequence",
    tuple: "a tuple",
    list: "a list",
    Mapping: "a mapping",
    Iterable: "an iterable",
    Callable: "a callable",
}


def _described(kind: Any) -> str:
    """`an integer, a sequence or None`."""
    words = list(dict.fromkeys(_word(k) for k in _choices(kind)))
    if "a number" in words:
        words = [w for w in words if w not in ("an integer", "True or False")]
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _word(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    word = _WORDS.get(origin or kind)
    if word and inner and origin in (Sequence, list, tuple):
        plural = {"an integer": "integers", "a number": "numbers"}.get(_described(inner[0]))
        return f"{word} of {plural}" if plural else word
    return word or _CLASS_WORDS.get(kind.__name__, one(kind.__name__))


# Classes that users know by another word.
_CLASS_WORDS = {"Base": "a tensor", "Tensor": "a tensor", "PathLike": "a path"}
