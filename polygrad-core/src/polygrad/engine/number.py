"""Python numbers that a captured function is given, and arithmetic with them.

A `Number` stands for an int or a float of the call. Arithmetic keeps it open: an expression that
Python computes anew at each call, and that becomes a variable of the graph where it meets a tensor.
Everything else that a number can do needs its value: it gets that of the call being captured and
*pins* it, so that a call with another value is captured anew. What is pinned is as good as its
value: what is computed from it is a plain number.

`isinstance` takes a Number for the int or float that it is. Code in C that insists on the very type
does not; then it raises TypeError, and the function is captured with plain numbers (_trace.py).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import DType, canonical, misfit
from ..errors import ArgumentError
from ..uop.ops import UOp

if TYPE_CHECKING:
    from .capture import Capture

MOST = 256  # terms of an expression that stays open; evaluating more at each call takes long

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "abs": abs}
_NUMBERS = (int, float, complex)  # for isinstance


def plain(number: Any) -> Any:
    """The value of this call."""
    return number.value if isinstance(number, Number) else number


def pinned(number: Any) -> Any:
    """The value, for Python itself."""
    return number.pin() if isinstance(number, Number) else number


def as_scalar(value: int | float, dtype: DType) -> int | float:
    """`value` as a variable of `dtype` carries it. Raises ArgumentError where it does not fit."""
    if why := misfit(dtype, value):
        raise ArgumentError(f"{why}.")
    return canonical(dtype, value)


# ---- expressions


def _constant(value: Any) -> Any:
    return ("constant", value, repr(value))  # 1, 1.0 and True are equal, and so are 0.0 and -0.0


def _part(side: Any) -> Any:
    return side.expression if isinstance(side, Number) else _constant(side)


def evaluator(expression: Any) -> Callable[[Sequence[Any]], Any]:
    """A function from the number arguments of a call to the value of `expression`."""
    kind = expression[0]
    if kind == "argument":
        return operator.itemgetter(expression[1])
    if kind == "constant":
        value = expression[1]
        return lambda arguments: value
    parts = [evaluator(e) for e in expression[1:]]
    if kind in _UNARY:
        one, inner = _UNARY[kind], parts[0]
        return lambda arguments: one(inner(arguments))
    two, left, right = _BINARY[kind], *parts
    return lambda arguments: two(left(arguments), right(arguments))


def _terms(expression: Any) -> dict[Any, int]:
    """An integer expression as a sum: factor by term, that of None being the constant."""
    kind = expression[0]
    if kind == "constant":
        return {None: expression[1]}
    if kind == "neg":
        return _scaled(_terms(expression[1]), -1)
    if kind in ("+", "-"):
        total = dict(_terms(expression[1]))
        for term, factor in _scaled(_terms(expression[2]), 1 if kind == "+" else -1).items():
            total[term] = total.get(term, 0) + factor
        return total
    if kind == "*":
        for one, other in (expression[1:], expression[:0:-1]):
            if one[0] == "constant":
                return _scaled(_terms(other), one[1])
    return {expression: 1}


def _scaled(terms: dict[Any, int], by: int) -> dict[Any, int]:
    return {term: factor * by for term, factor in terms.items()}


def distance(start: Any, stop: Any) -> int | None:
    """stop - start, if it is the same for all values of the number arguments."""
    terms = _terms(("-", _part(stop), _part(start)))
    constant = terms.pop(None, 0)
    return None if any(terms.values()) else constant


def _keeps_kind(sign: str, left: Any, right: Any) -> bool:
    """Whether a result is an int, or a float, for all values: not so 2**n (a negative n gives a
    float) nor n**0.5 (a negative n gives a complex number)."""
    if sign != "**":
        return True
    if isinstance(right, Number):
        return type(left) is float and left > 0
    return type(right) is int and right >= 0


# ---- numbers


class Number:
    """A float that a captured function was given; an int is a `Whole`."""

    __slots__ = ("arguments", "capture", "expression", "size", "value")

    def __init__(
        self,
        capture: Capture,
        expression: Any,
        value: int | float,
        arguments: frozenset[int],
        size: int = 1,
    ) -> None:
        self.capture, self.expression, self.value = capture, expression, value
        self.arguments, self.size = arguments, size

    @staticmethod
    def given(capture: Capture, index: int, value: int | float) -> Number:
        """Number argument `index` of the captured function."""
        return _made(capture, ("argument", index), value, frozenset((index,)), 1)

    # ---- in the graph

    def node(self, dtype: DType) -> UOp:
        """The scalar node of `dtype` for this number. Raises ArgumentError if it does not fit."""
        value = as_scalar(self.value, dtype)
        return UOp.const(dtype, value) if self.fixed else self.capture.variable(self, dtype)

    def place(self, n: int) -> UOp | None:
        """The node of this index of an axis of `n`, from its end if negative; None if outside."""
        if not isinstance(self, Whole) or self.fixed or not -n <= self.value < n:
            return None
        from_start = self._binary("+", self, n) if self.value < 0 else self
        return self.capture.position(from_start, n - 1)

    def start(self, most: int) -> UOp:
        """The node of the start of a slice, between 0 and `most`."""
        if self.fixed:
            return UOp.index(int(self.value))
        return self.capture.position(self, most)

    # ---- for Python

    @property
    def fixed(self) -> bool:
        """Whether the capture is for this value alone."""
        return self.arguments <= self.capture.pinned

    def pin(self) -> int | float:
        """The value of this call, for Python itself."""
        self.capture.pinned |= self.arguments
        return self.value

    def _binary(self, sign: str, left: Any, right: Any) -> Any:
        if not (isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)):
            arrays = any(type(s).__module__ == "numpy" for s in (left, right))
            return _BINARY[sign](pinned(left), pinned(right)) if arrays else NotImplemented
        given: tuple[Any, ...] = (left, right)
        sides = [s for s in given if isinstance(s, Number)]
        if any(s.capture is not self.capture for s in sides):
            for s in sides:
                s.capture.check_kept(s)
            return _BINARY[sign](pinned(left), pinned(right))
        value = _BINARY[sign](plain(left), plain(right))
        new = self._then(value, (sign, _part(left), _part(right)), sides)
        return new.open_or_value(_keeps_kind(sign, left, right))

    def _then(self, value: Any, expression: Any, sides: Sequence[Number]) -> Number:
        arguments = frozenset().union(*[s.arguments for s in sides])
        size = sum(s.size for s in sides) + 1
        return _made(self.capture, expression, value, arguments, size)

    def open_or_value(self, keeps_kind: bool = True) -> Any:
        """The number itself, or its value where it is pinned or has to be."""
        real = isinstance(self.value, (int, float))
        return self if keeps_kind and real and not self.fixed and self.size <= MOST else self.pin()

    def _unary(self, name: str) -> Any:
        value = _UNARY[name](self.value)
        return self._then(value, (name, self.expression), [self]).open_or_value()

    def __neg__(self) -> Any:
        return self._unary("neg")

    def __abs__(self) -> Any:
        return self._unary("abs")

    def __pos__(self) -> Number:
        return self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.value, name)  # the error of a plain number, if it has none
        self.pin()
        return found

    def __dir__(self) -> list[str]:
        return dir(self.value)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self.value), (self.pin(),)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.array(self.pin(), dtype)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(function, method)(*map(pinned, inputs), **options)


class Whole(Number):
    """An int that a captured function was given."""

    __slots__ = ()


def _made(
    capture: Capture, expression: Any, value: Any, arguments: frozenset[int], size: int
) -> Number:
    kind = Whole if isinstance(value, int) else Number
    return kind(capture, expression, value, arguments, size)


def _install() -> None:
    """The operators and methods that only differ in their names."""
    signs = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
    for sign, name in zip(_BINARY, signs, strict=True):
        setattr(Number, f"__{name}__", _arithmetic(sign))
        setattr(Number, f"__r{name}__", _arithmetic(sign, back=True))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Number, f"__{name}__", _by_value(getattr(operator, name)))
    for name in ("and_", "or_", "xor", "lshift", "rshift"):
        sign = name.strip("_")
        setattr(Whole, f"__{sign}__", _by_value(getattr(operator, name)))
        setattr(Whole, f"__r{sign}__", _by_value(getattr(operator, name), back=True))
    alone: dict[Callable[..., Any], str] = {
        **{f: f.__name__ for f in (bool, float, int, hash, repr, str, format, round)},
        **{f: f.__name__ for f in (math.trunc, math.floor, math.ceil)},
    }
    for function, name in alone.items():
        setattr(Number, f"__{name}__", _of_value(function))
    for function in (operator.index, operator.invert):
        setattr(Whole, f"__{function.__name__}__", _of_value(function))


def _arithmetic(sign: str, back: bool = False) -> Callable[..., Any]:
    if back:
        return lambda self, other: self._binary(sign, other, self)
    return lambda self, other: self._binary(sign, self, other)


def _by_value(function: Callable[[Any, Any], Any], back: bool = False) -> Callable[..., Any]:
    """An operator of two numbers that needs their values; a tensor does it by itself."""

    def method(self: Number, other: Any) -> Any:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        values = (pinned(other), self.pin()) if back else (self.pin(), pinned(other))
        return function(*values)

    return method


def _of_value(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *arguments: function(self.pin(), *map(pinned, arguments))


_install()
