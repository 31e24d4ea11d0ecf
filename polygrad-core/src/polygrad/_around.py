"""What a captured function reads from around it: closure, globals, and attributes of its object.

A capture holds for the values that it was made with. Numbers, strings and flags compare by value,
everything else (tensors, layers, lists) by identity: another object under the same name is another
capture. The names are found in the function's code, `scale`, `self.rate`, `config.model.width` or
`config["width"]`, and in functions of the user's that it names; where the code itself assigns a
name, that is its own business. What lies behind an index that is computed, or in a called object,
is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import is_ours

if TYPE_CHECKING:
    from dis import Instruction

_SCALARS = frozenset({bool, int, float, str, bytes, complex, type(None)})
_CODE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)  # held to be fixed
_MISSING = object()


class Same:
    """An object that counts as equal to itself alone."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.it is self.it

    def __hash__(self) -> int:
        return id(self.it)


class Item(NamedTuple):
    """An index written in the code: a key of a dict, or a place in a list or tuple."""

    key: Any

    def of(self, holder: Any) -> Any:
        if isinstance(holder, dict):
            return dict.get(holder, self.key, _MISSING)
        if isinstance(holder, (list, tuple)) and isinstance(self.key, int):
            inside = -len(holder) <= self.key < len(holder)
            return holder[self.key] if inside else _MISSING
        return _MISSING


Step = str | Item  # an attribute or an index


class Place(NamedTuple):
    """Where something is read: a name in a closure or in globals (None: the function's object), and
    the attributes and indices after it."""

    holder: CellType | dict[str, Any] | None
    name: str
    path: tuple[Step, ...]

    def find(self, receiver: Any) -> Any:
        """What is there: the last thing on the path that an object or container itself holds."""
        if self.holder is None:
            found = receiver
        elif isinstance(self.holder, dict):
            found = self.holder.get(self.name, _MISSING)
        else:
            try:
                found = self.holder.cell_contents
            except ValueError:  # nothing yet
                return _MISSING
        for step in self.path:
            if isinstance(step, Item):
                inner = step.of(found)
            else:
                inner = (getattr(found, "__dict__", None) or {}).get(step, _MISSING)
            if inner is _MISSING:
                break
            found = inner
        return found

    def value(self, receiver: Any) -> Any:
        """What is there, to be compared."""
        found = self.find(receiver)
        kind = type(found)
        if kind is float and (not found or found != found):
            return (kind, repr(found))  # 0.0 and -0.0 are equal, and a NaN equals nothing
        return (kind, found) if kind in _SCALARS else Same(found)


def places(function: Callable[..., Any], receiver: Any) -> tuple[Place, ...]:
    """Where `function`, called with its object if it is a method, reads what may change."""
    plain = _plain(function)
    if plain is None:
        return ()
    found: dict[Any, Place] = {}
    seen = {plain.__code__}
    waiting = [plain]
    while waiting:
        own = waiting.pop()
        for place in _read(own, with_receiver=own is plain and receiver is not None):
            thing = place.find(receiver)
            if isinstance(thing, FunctionType) and not is_ours(thing.__module__):
                if thing.__code__ not in seen:
                    seen.add(thing.__code__)
                    waiting.append(thing)
            elif not isinstance(thing, _CODE) and thing is not _MISSING:
                found[id(place.holder), place.name, place.path] = place
    return tuple(found.values())


def receiver_of(function: Callable[..., Any]) -> Any:
    """The object that a callable brings along, None for a plain function."""
    if isinstance(function, MethodType):
        return function.__self__
    return None if isinstance(function, _CODE) else function


def _plain(function: Any) -> FunctionType | None:
    if isinstance(function, FunctionType):
        return function
    found = function.__func__ if isinstance(function, MethodType) else type(function).__call__
    return found if isinstance(found, FunctionType) and not is_ours(found.__module__) else None


def _read(function: FunctionType, with_receiver: bool) -> Iterator[Place]:
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    reads, writes = _chains(code)
    if _ANY_ITEM in writes:  # an index is assigned to, and the code does not say which
        reads = [(kind, name, _attributes(path)) for kind, name, path in reads]
    own = code.co_varnames[0] if with_receiver and code.co_argcount else None
    for kind, name, path in reads:
        if name in writes or any(p in writes for p in path):
            continue
        if kind == "DEREF" and name in cells:
            yield Place(cells[name], name, path)
        elif kind != "GLOBAL" and name == own and path:
            yield Place(None, name, path)
        elif kind == "GLOBAL" and name in function.__globals__:
            yield Place(function.__globals__, name, path)


_ANY_ITEM = Item(_MISSING)


def _attributes(path: tuple[Step, ...]) -> tuple[Step, ...]:
    """A path up to its first index."""
    first = next((i for i, step in enumerate(path) if isinstance(step, Item)), len(path))
    return path[:first]


def _chains(code: CodeType) -> tuple[list[tuple[str, str, tuple[Step, ...]]], set[Step]]:
    """Names that code loads, with the attributes and indices taken from them at once, and names and
    indices it stores to."""
    import dis

    reads: list[tuple[str, str, tuple[Step, ...]]] = []
    writes: set[Step] = set()
    codes = [code]
    while codes:
        one = codes.pop()
        codes += [c for c in one.co_consts if isinstance(c, CodeType)]
        open_ = False
        index: Item | None = None  # the constant loaded just before
        for step in dis.get_instructions(one):
            name, last_index, index = step.opname, index, _index(step)
            taken = _taken(step, last_index)
            if taken is not None and open_:
                kind, root, path = reads[-1]
                reads[-1] = (kind, root, (*path, taken))
                continue
            if name in ("STORE_SUBSCR", "DELETE_SUBSCR"):
                writes.add(last_index or _ANY_ITEM)
            open_ = open_ and index is not None and last_index is None
            if index is not None:
                continue
            for kind in ("FAST", "DEREF", "GLOBAL"):
                if f"LOAD_{kind}" in name and (kind != "FAST" or one is code):
                    # Of two in one instruction the last is what an attribute is taken from.
                    last = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
                    reads.append((kind, str(last), ()))
                    open_ = True
            if name in ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF"):
                writes.add(str(step.argval))
    return reads, writes


def _index(step: Instruction) -> Item | None:
    """The index that a constant may be."""
    loads = step.opname in ("LOAD_CONST", "LOAD_SMALL_INT")
    return Item(step.argval) if loads and isinstance(step.argval, (str, int)) else None


def _taken(step: Instruction, index: Item | None) -> Step | None:
    """What an instruction takes from the thing before it: an attribute, or `index`, where that was
    loaded last."""
    if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        return None if index else str(step.argval)
    if step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]"):
        return index
    return None
