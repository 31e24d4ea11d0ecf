"""Bounded sizes: the length of an axis, or a position, that is known only when a graph runs.

Floor: uop. A shape holds integers and *sizes*. A `Size` is a linear form over variables, a node of
dtype `index` with an interval: `n`, `2*n + 1`, `min(n, 4)`. Arithmetic with it gives a Size again,
or an integer where nothing varies any more, so the formulas that compute shapes know of neither.
Two sizes are equal if they are one expression. A comparison that the intervals decide is a bool;
any other raises VaryingSize, so an operation that must know the number refuses and never guesses.

    n = Variable("n", 1, 32)     # a name and its bounds, both included
    x[: n.bind(5)]               # shape (n[1..32]=5, 8)

A *bound* variable carries its value (the fourth part of a VARIABLE's argument). Nothing that is
compiled depends on it: Plans are made for the variable, and each run reads the value.

Memory of a bounded shape is reserved for the largest size (`most`), and its elements lie row-major
by their actual sizes at the start of it: what is read back, copied or saved is compact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from ..dtype import dtypes
from ..errors import ArgumentError, PolygradError, StateError, VaryingSize, public, shown
from .ops import Ops, UOp, size, toposort
from .provenance import hand_on
from .rewrite import rebuild, substitute
from .size_text import text as written

if TYPE_CHECKING:
    _Integer = int  # for checkers: a Size stands wherever an integer size does
else:
    _Integer = object

_new: Final = object.__new__


def _node(x: Any) -> UOp | None:
    """The node of a number that sizes are computed with; None for anything else."""
    if isinstance(x, Size):
        return x.node
    return UOp.index(x) if type(x) is int else None


def sized(node: UOp) -> int:
    """A node of dtype index as a size: an integer where it is one."""
    if node.lo == node.hi and node.lo is not None:
        return node.lo
    made: Size = _new(_CLASSES.get(len(node.arg), Size) if node.op is Ops.VARIABLE else Size)
    made.node = node
    return made


def _arithmetic(op: Ops, swap: bool = False) -> Any:
    def asked(self: Size, other: Any) -> Any:
        node = _node(other)
        if node is None:
            return _constant_needed(self) if isinstance(other, float) else NotImplemented
        pair = (node, self.node) if swap else (self.node, node)
        return sized(UOp.alu(op, *pair))

    return _remembered(asked)


def _order(op: Ops, swap: bool = False) -> Any:
    def asked(self: Size, other: Any) -> Any:
        node = _node(other)
        if node is None:
            return NotImplemented
        answer = UOp.alu(op, *((node, self.node) if swap else (self.node, node)))
        if answer.lo != answer.hi:
            sign = _SIGNS[op, swap]
            raise VaryingSize(f"whether {self!r} is {sign} {other!r} is not known before it runs")
        return bool(answer.lo)

    return _remembered(asked)


# What two sizes came to: every layer of a network asks the same of its shapes.
_answers: dict[Any, Any] = {}
MAX_ANSWERS: Final = 1024


def _remembered(asked: Callable[[Size, Any], Any]) -> Callable[[Size, Any], Any]:
    def method(self: Size, other: Any) -> Any:
        plain = type(other) is int
        if not plain and not isinstance(other, Size):
            return asked(self, other)
        key = (asked, self.node, other if plain else other.node)
        found = _answers.get(key)
        if found is None:
            found = asked(self, other)
            if len(_answers) >= MAX_ANSWERS:
                _answers.clear()
            _answers[key] = found
        return found

    return method


_SIGNS: Final = {
    (Ops.CMPLT, False): "less than",
    (Ops.CMPLT, True): "greater than",
    (Ops.CMPLE, False): "at most",
    (Ops.CMPLE, True): "at least",
}


def _constant_needed(self: Any, *_: Any) -> Any:
    raise VaryingSize(f"a constant is needed, not {self!r}")


_CALLED: Final = frozenset({Ops.MINIMUM, Ops.MAXIMUM})  # whose text needs no parentheses


class Size(_Integer):
    """An axis' length that varies between bounds. Raises VaryingSize where a number is needed."""

    __slots__ = ("node",)

    node: UOp

    if not TYPE_CHECKING:
        __add__, __radd__ = _arithmetic(Ops.ADD), _arithmetic(Ops.ADD, swap=True)
        __sub__, __rsub__ = _arithmetic(Ops.SUB), _arithmetic(Ops.SUB, swap=True)
        __mul__, __rmul__ = _arithmetic(Ops.MUL), _arithmetic(Ops.MUL, swap=True)
        __floordiv__, __rfloordiv__ = (_arithmetic(Ops.FLOORDIV, s) for s in (False, True))
        __mod__, __rmod__ = (_arithmetic(Ops.FLOORMOD, s) for s in (False, True))
        __lt__, __gt__ = _order(Ops.CMPLT), _order(Ops.CMPLT, swap=True)
        __le__, __ge__ = _order(Ops.CMPLE), _order(Ops.CMPLE, swap=True)
        __index__ = __float__ = __pow__ = __rpow__ = _constant_needed
        __truediv__ = __rtruediv__ = __divmod__ = __rdivmod__ = _constant_needed
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _constant_needed
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _constant_needed
        __abs__ = __invert__ = __round__ = __trunc__ = bit_length = _constant_needed

        def __neg__(self):
            return sized(-self.node)

        def __int__(self):
            """The value of a bound size. Raises StateError for one that is not bound."""
            return value_of(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and other.node is self.node

    def __hash__(self) -> int:
        return hash(self.node)

    def __bool__(self) -> bool:
        return True  # not known to be 0: that would be the integer

    def __repr__(self) -> str:
        value = _value(self.node)
        known = "" if value is None else f"={value}"
        text = written(self.node)
        text = f"({text})" if " " in text and self.node.op not in _CALLED else text
        return f"{text}[{self.node.lo}..{self.node.hi}]{known}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce__(self) -> Any:
        return sized, (self.node,)

    @property
    def min(self) -> int:
        """The least value it can have."""
        return cast(int, self.node.lo)

    @property
    def max(self) -> int:
        """The largest value it can have."""
        return cast(int, self.node.hi)


@public
class Variable(Size):
    """A size or position that is given at each run, `min <= value <= max`.

    >>> from polygrad import Tensor, Variable
    >>> n = Variable("n", 1, 32)
    >>> x = Tensor.ones(32, 2)
    >>> x[: n.bind(3)].sum(0).tolist(), x[: n.bind(5)].sum(0).tolist()  # compiled once
    ([3.0, 3.0], [5.0, 5.0])
    """

    __slots__ = ()

    if TYPE_CHECKING:  # where it is an int

        def __new__(cls, name: str, min: int, max: int) -> Variable: ...

    def __init__(self, name: str, min: int, max: int) -> None:
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"Variable: a name is a text, not {shown(name)}.")
        if type(min) is not int or type(max) is not int or not 0 <= min <= max < 1 << 31:
            raise ArgumentError(
                f"Variable {name!r}: bounds are integers 0 <= min <= max < 2**31, not"
                f" {shown(min)} and {shown(max)}."
            )
        self.node = UOp.variable(name, min, max)

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.node.arg[0])

    def bind(self, value: int) -> BoundVariable:
        """This variable with a value. Raises ArgumentError for one outside the bounds."""
        name, lo, hi = self.node.arg[:3]
        if isinstance(value, (bool, Size)) or not hasattr(value, "__index__"):
            raise ArgumentError(f"Variable {name!r}: a value is an integer, not {shown(value)}.")
        number = int(value.__index__())
        if not lo <= number <= hi:
            raise ArgumentError(f"Variable {name!r} is between {lo} and {hi}, not {number}.")
        made: BoundVariable = _new(BoundVariable)
        made.node = UOp(Ops.VARIABLE, dtypes.index, (), (name, lo, hi, number))
        return made

    def __int__(self) -> int:
        return value_of(self)


class BoundVariable(Variable):
    """A variable with a value, which each run reads anew."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __new__(cls, variable: Variable, value: int) -> BoundVariable: ...

    def __init__(self, variable: Variable, value: int) -> None:
        self.node = variable.bind(value).node

    @property
    def variable(self) -> Variable:
        """The variable without the value."""
        return cast(Variable, unbound(self))

    @property
    def value(self) -> int:
        """Its value."""
        return int(self.node.arg[3])

    def unbind(self) -> tuple[Variable, int]:
        """The variable and the value."""
        return self.variable, self.value


_CLASSES: Final = {3: Variable, 4: BoundVariable}


# ---- values


def _value(node: UOp) -> int | None:
    """The value of an expression over bound variables, None where one is not bound."""
    table = {v: UOp.index(v.arg[3]) for v in _variables(node) if len(v.arg) == 4}
    found = substitute(node, table)
    return found.lo if found.op is Ops.CONST else None


def value_of(n: int) -> int:
    """A size as a number. Raises StateError where one of its variables has no value, CaptureError
    inside of what is being captured."""
    if not isinstance(n, Size):
        return n
    value = _value(n.node)
    if value is None:
        raise _no_value(next(v for v in _variables(n.node) if len(v.arg) == 3))
    return value


def actual(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape in numbers: each size at its value. Raises StateError where one has none."""
    return tuple([n if type(n) is int else value_of(n) for n in shape])


def most(n: int) -> int:
    """The largest a size can be."""
    return n.node.hi if isinstance(n, Size) else n  # type: ignore[return-value]


def largest(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with each size at its largest."""
    return tuple([n if type(n) is int else most(n) for n in shape])


def capacity(shape: Sequence[int]) -> int:
    """The most elements that a shape can have."""
    return most(size(shape))


def is_fixed(shape: Sequence[int]) -> bool:
    """Whether no size of it varies."""
    return not any(isinstance(n, Size) for n in shape)


def larger(a: int, b: int) -> int:
    """max(a, b), also where it varies which it is."""
    if type(a) is int and type(b) is int:
        return max(a, b)
    return sized(UOp.index(a).maximum(UOp.index(b)))


def clamp(n: int, low: int, high: int) -> int:
    """min(max(n, low), high), also where it varies which it is."""
    node = UOp.index(n).maximum(UOp.index(low)).minimum(UOp.index(high))
    return sized(node)


# ---- sizes in the arguments of nodes


def _variables(node: UOp) -> list[UOp]:
    return [v for v in toposort((node,)) if v.op is Ops.VARIABLE]


# op whose argument may hold sizes -> all of its numbers
_FLAT: Final[dict[Ops, Callable[[Any], Iterable[Any]]]] = {
    Ops.RESHAPE: lambda arg: arg,
    Ops.EXPAND: lambda arg: arg,
    Ops.SHRINK: chain.from_iterable,
    Ops.PAD: chain.from_iterable,
    Ops.BUFFER: lambda arg: arg[1],
    Ops.IOTA: lambda arg: (arg,),
}


def sizes_of(node: UOp) -> tuple[Size, ...]:
    """The sizes in a node's argument."""
    flat = _FLAT.get(node.op)
    if flat is None:
        return ()
    for n in flat(node.arg):  # every graph that is realised comes through here
        if type(n) is not int:
            return tuple(_inside(node.arg))
    return ()


def _inside(arg: Any) -> Iterator[Size]:
    if isinstance(arg, Size):
        yield arg
    elif type(arg) is tuple:
        for part in arg:
            if type(part) is not int:
                yield from _inside(part)


def mapped(arg: Any, new: Callable[[Size], Any]) -> Any:
    """An argument with each of its sizes replaced; itself if it has none."""
    if isinstance(arg, Size):
        return new(arg)
    if type(arg) is not tuple or next(_inside(arg), None) is None:
        return arg
    return tuple([mapped(part, new) for part in arg])


def variables_of(roots: Sequence[UOp]) -> list[UOp]:
    """The variables that a graph depends on, by values and by sizes, in the order of its nodes."""
    return variables_among(toposort(roots))


def variables_among(nodes: Iterable[UOp]) -> list[UOp]:
    """The same of all nodes of a graph."""
    found: dict[UOp, None] = {}  # variables and sizes
    variable = Ops.VARIABLE
    for node in nodes:
        op = node.op
        if op is variable:
            found[node] = None
        elif op in _FLAT:
            for n in sizes_of(node):
                found[n.node] = None
    return [v for v in toposort(list(found)) if v.op is variable]


def exchanged(roots: Sequence[UOp], table: Mapping[UOp, UOp]) -> tuple[list[UOp], dict[UOp, UOp]]:
    """A graph with its variables, or other nodes, replaced, in values and in sizes; and what each
    node became. A BUFFER keeps its number under another shape."""
    new: dict[UOp, UOp] = dict(table)

    def other(n: Size) -> Any:
        return sized(substitute(n.node, table))

    for node in toposort(roots, lambda n: n not in table):
        if node in new:
            continue
        arg = mapped(node.arg, other) if sizes_of(node) else node.arg
        src = tuple([new[s] for s in node.src])
        if arg is not node.arg:
            new[node] = UOp(node.op, node.dtype, src, arg)
        else:
            new[node] = rebuild(node, src)
        hand_on(node, new[node])
    return [new[r] for r in roots], new


def bound_in(n: int) -> list[BoundVariable]:
    """The variables of a size that have values."""
    if not isinstance(n, Size):
        return []
    return [cast(BoundVariable, sized(v)) for v in _variables(n.node) if len(v.arg) == 4]


def opened(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape over variables without their values."""
    for n in shape:
        if type(n) is not int:
            return tuple(map(unbound, shape))
    return shape if type(shape) is tuple else tuple(shape)


def variables_in(sizes: Iterable[int]) -> list[UOp]:
    """The variables of sizes, without their values."""
    some = [n.node for n in sizes if isinstance(n, Size)]
    return list(dict.fromkeys(_opened(v) for node in some for v in _variables(node)))


def values_in(sizes: Iterable[int]) -> dict[UOp, int]:
    """The values of the variables of sizes, by the variable without its value.

    Raises ArgumentError if one has two values, StateError if it has none.
    """
    found: dict[UOp, int] = {}
    for n in sizes:
        for v in _variables(n.node) if isinstance(n, Size) else ():
            if len(v.arg) == 3:
                raise _no_value(v)
            value, node = v.arg[3], _opened(v)
            if found.setdefault(node, value) != value:
                raise two_values(v.arg[0], found[node], value)
    return found


def _opened(variable: UOp) -> UOp:
    return UOp(Ops.VARIABLE, variable.dtype, (), variable.arg[:3])


# From the name of a variable to the error of reading it, while a function is captured: there it has
# no value because every call gives another. Floors above put it in.
captured: ContextVar[Callable[[str], PolygradError] | None] = ContextVar(
    "polygrad_captured_sizes", default=None
)


def _no_value(variable: UOp) -> PolygradError:
    name = variable.arg[0]
    refusal = captured.get()
    if refusal is not None:
        return refusal(name)
    return StateError(f"the variable {name!r} has no value: bind one, as {name}.bind(5).")


def two_values(name: str, one: int, other: int) -> ArgumentError:
    """The error of a variable that is bound twice."""
    return ArgumentError(
        f"the variable {name!r} is bound to {one} and to {other} in one graph;"
        " use another variable for one of them, or realize() it before."
    )


def unbound(n: int) -> int:
    """A size over variables without their values."""
    if not isinstance(n, Size):
        return n
    table = {v: _opened(v) for v in _variables(n.node)}
    return sized(substitute(n.node, table))


def rebound(n: int, values: Mapping[UOp, int]) -> int:
    """A size whose variables get the values given for them."""
    if not isinstance(n, Size):
        return n
    return sized(substitute(n.node, with_values(values)))


def with_values(values: Mapping[UOp, int]) -> dict[UOp, UOp]:
    """Variables -> the same with their values."""
    return {v: UOp(v.op, v.dtype, (), (*v.arg[:3], n)) for v, n in values.items()}
