"""The fingerprint of a graph: what two graphs share when one Plan serves both.

A graph is written down in post-order, each node as (op, dtype, arg, numbers of its sources). Leaves
count by first sight: which buffer it is plays no part, its dtype, shape, device and alias pattern
do. Numbers the user varies play no part either: a constant, the start of a slice and the place of a
padded part are *holes* in the skeleton, their values stand beside it. (Not 0, ±1, ±inf and NaN:
those fold.) The engine keeps one Plan per skeleton, and when a skeleton comes back with other
values, `instance` writes the graph with variables where they differ. The values of bound variables
play no part from the start: a size is written down as its expression, over variables by number.

Keys are compared, never only hashed, so a collision cannot run the wrong Plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..dtype import TENSOR_DTYPES, DType, dtypes
from ..errors import ArgumentError
from ..uop.ops import MOVEMENT, Ops, UOp
from ..uop.provenance import hand_on
from ..uop.rewrite import rebuild, substitute
from ..uop.sizes import exchanged, mapped, sized, sizes_of, two_values
from .moving import both, covered, put, taken, uniform

Number = int | float
_BUFFER: Final = Ops.BUFFER  # older Pythons take 0.1 us to read a member of an enum
CONSTANT = -1  # in place of an axis


class Hole(NamedTuple):
    """A number that may vary: the value of a CONST, or a place along `axis` of a SHRINK or PAD."""

    node: UOp
    axis: int


class Fingerprint(NamedTuple):
    """A graph without what varies, and what varies."""

    skeleton: tuple[Any, ...]
    holes: tuple[Hole, ...]
    values: tuple[Number, ...]  # of the holes
    leaves: tuple[UOp, ...]  # BUFFER leaves in order of first sight
    settled: tuple[tuple[UOp, UOp], ...]  # (node, leaf) where a realised node stands for its leaf
    variables: tuple[UOp, ...]  # VARIABLE nodes in order of first sight
    nodes: list[UOp]  # all of them, sources first


def fingerprint(
    roots: Sequence[UOp],
    settled: Mapping[int, tuple[UOp, Any]],
    alias_of: Callable[[UOp], int],
) -> Fingerprint:
    """Write down the graph under `roots`.

    `settled` has (leaf, …) of realised nodes by their id; `alias_of(leaf)` is equal for leaves that
    share memory.
    """
    found = _Found(settled)
    numbers, tokens = found.numbers, found.tokens
    stack = list(reversed(roots))
    while stack:  # once per node of every graph that is realised: written for speed
        node = stack[-1]
        if node in numbers:
            stack.pop()
            continue
        op, src = node.op, node.src
        entry = settled.get(id(node)) if src else None
        if entry is not None or op is _BUFFER:
            leaf = node if entry is None else entry[0]
            varying = [n.node for n in sizes_of(leaf) if n.node not in numbers]
            if varying:
                stack.extend(varying)
                continue
            if entry is not None:
                found.settled.append((node, leaf))
            tokens.append(_leaf(leaf, found, alias_of))
        else:
            waiting = len(stack)
            for s in src[::-1]:
                if s not in numbers:
                    stack.append(s)  # noqa: PERF401 (a comprehension is a call)
            sizes = sizes_of(node) if op in _SIZED else ()
            if sizes:
                stack.extend([n.node for n in sizes if n.node not in numbers])
            if len(stack) != waiting:
                continue
            special = _SPECIAL.get(op) or (_sized if sizes else None)
            if special is not None:
                tokens.append(special(node, found))
            elif len(src) == 2:
                tokens.append((op, node.dtype, node.arg, numbers[src[0]], numbers[src[1]]))
            elif len(src) == 1:
                tokens.append((op, node.dtype, node.arg, numbers[src[0]]))
            else:
                tokens.append((op, node.dtype, node.arg, *[numbers[s] for s in src]))
        stack.pop()
        numbers[node] = len(numbers)
    tokens.append(tuple([numbers[r] for r in roots]))
    return Fingerprint(
        tuple(tokens),
        tuple(found.holes),
        tuple(found.values),
        tuple(found.leaves),
        tuple(found.settled),
        tuple(found.variables),
        list(numbers),
    )


class _Found:
    """What is collected on the way."""

    def __init__(self, known: Mapping[int, tuple[UOp, Any]]) -> None:
        self.known = known
        self.numbers: dict[UOp, int] = {}
        self.tokens: list[Any] = []
        self.leaves: dict[UOp, int] = {}
        self.aliases: dict[int, int] = {}
        self.variables: dict[UOp, int] = {}
        self.bound: dict[str, UOp] = {}  # variables with values, by name
        self.settled: list[tuple[UOp, UOp]] = []
        self.holes: list[Hole] = []
        self.values: list[Number] = []
        self.places: dict[Any, int] = {}  # place that something is put to -> the first PAD there

    def hole(self, node: UOp, axis: int, value: Number) -> None:
        self.holes.append(Hole(node, axis))
        self.values.append(value)

    def sizes(self, arg: Any) -> Any:
        """An argument with its sizes written down."""
        return mapped(arg, lambda n: ("size", self.numbers[n.node]))


def _leaf(leaf: UOp, found: _Found, alias_of: Callable[[UOp], int]) -> Any:
    number = found.leaves.setdefault(leaf, len(found.leaves))
    alias = found.aliases.setdefault(alias_of(leaf), number)
    shape = found.sizes(leaf.arg[1]) if sizes_of(leaf) else leaf.arg[1]
    return (Ops.BUFFER, leaf.dtype, shape, leaf.arg[2], number, alias)


def _constant(node: UOp, found: _Found) -> Any:
    sources = [found.numbers[s] for s in node.src]
    if is_hole(node):
        found.hole(node, CONSTANT, node.arg)
        return (Ops.CONST, node.dtype, *sources)
    # repr tells -0.0 from 0.0 and finds NaN again; the dtype tells True from 1.
    return (Ops.CONST, node.dtype, repr(node.arg), *sources)


def _variable(node: UOp, found: _Found) -> Any:
    number = found.variables.setdefault(node, len(found.variables))
    name, lo, hi, *value = node.arg
    if value and found.bound.setdefault(name, node) is not node:
        raise _two_values(name, found.bound[name], node)
    return (Ops.VARIABLE, node.dtype, lo, hi, number)


def _two_values(name: str, one: UOp, other: UOp) -> ArgumentError:
    if one.arg[:3] != other.arg[:3]:
        return ArgumentError(f"two variables of one graph are named {name!r}; rename one.")
    return two_values(name, one.arg[3], other.arg[3])


def _sized(node: UOp, found: _Found) -> Any:
    arg = found.sizes(node.arg)
    return (node.op, node.dtype, arg, *[found.numbers[s] for s in node.src])


def _unique(node: UOp, found: _Found) -> Any:
    return (Ops.UNIQUE, len(found.numbers))  # told apart by its place alone


def _shrink(node: UOp, found: _Found) -> Any:
    """The start of a slice of stored memory is a hole: a loop over batches has one Plan."""
    x = node.src[0]
    number = found.numbers[x]
    base = x
    while base.op in MOVEMENT and id(base) not in found.known:
        base = base.src[0]
    if base.op not in _STORED and id(base) not in found.known:
        return (Ops.SHRINK, found.sizes(node.arg), number)
    what: list[Any] = []
    for axis, (start, stop, step) in enumerate(node.arg):
        count = node.shape[axis]
        if not type(start) is type(stop) is type(x.shape[axis]) is int:
            what.append(found.sizes((start, stop, step)))
            continue
        what.append((count, step))
        if count and room(x.shape[axis], count, step):
            found.hole(node, axis, start)
    return (Ops.SHRINK, tuple(what), number)


def _pad(node: UOp, found: _Found) -> Any:
    """Where a part is put into a whole (`x[i] = v`) is a hole, one for all that is put there: then
    a mask and the value under it are known to lie in one place."""
    first = found.places.get(_place_of(node))
    if first is not None:
        return (Ops.PAD, "at", first, found.numbers[node.src[0]])
    found.places[_place_of(node)] = len(found.numbers)
    what: list[Any] = []
    for axis, (before, after, interior) in enumerate(node.arg):
        if not type(before) is type(after) is type(node.src[0].shape[axis]) is int:
            what.append(found.sizes((before, after, interior)))
            continue
        free = not interior and before + after
        what.append((before + after, interior) if free else (before, after, interior))
        if free:
            found.hole(node, axis, before)
    return (Ops.PAD, tuple(what), found.numbers[node.src[0]])


def _place_of(node: UOp) -> Any:
    """What two PADs share that put parts of one shape to one place."""
    return node if sizes_of(node) else (node.arg, node.shape)


def _call(node: UOp, found: _Found) -> Any:
    """A gradient of its own plays no part: it may be new at each call, and hold tensors."""
    numbers = [found.numbers[s] for s in node.src]
    return (node.op, node.dtype, node.arg._replace(gradient=None), *numbers)


_SPECIAL: Mapping[Ops, Callable[[UOp, _Found], Any]] = {
    Ops.CONST: _constant,
    Ops.VARIABLE: _variable,
    Ops.UNIQUE: _unique,
    Ops.SHRINK: _shrink,
    Ops.PAD: _pad,
    Ops.KERNEL: _call,
    Ops.FUNCTION: _call,
}
_SIZED = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.IOTA, Ops.SHRINK, Ops.PAD})
_FOLDING = frozenset({0.0, 1.0, -1.0, float("inf"), float("-inf")})


def is_hole(node: UOp) -> bool:
    """Whether a CONST is a number that may vary from run to run."""
    dtype, value = node.dtype, node.arg
    if dtype.kind == "float":
        return value == value and value not in _FOLDING
    return dtype.kind in ("int", "uint") and not -1 <= value <= 1


def room(n: int, count: int, step: int) -> int:
    """The last start of a slice of `count` elements of an axis of `n`."""
    return n - (count - 1) * step - 1


# ---- the graph of a fingerprint, with variables


class Instance(NamedTuple):
    """A graph over leaves, and the variables it takes: those it had, then one per varying hole.
    `leaves` are those of the fingerprint, their sizes over the new variables."""

    roots: list[UOp]
    variables: list[UOp]
    leaves: list[UOp]


def instance(
    print_: Fingerprint,
    roots: Sequence[UOp],
    varying: Sequence[int] = (),
    passing: Sequence[int] = (),
) -> Instance:
    """The graph under `roots` (nodes of `print_`) with leaves in place of realised nodes, variables
    renamed by number, and the holes numbered `varying` as further variables. The assignments at the
    places `passing` in `nodes` are not carried out: they are the values assigned."""
    given = [_renamed(v, f"given{i}") for i, v in enumerate(print_.variables)]
    table = dict(zip(print_.variables, given, strict=True))
    leaves, renewed = exchanged(print_.leaves, table)
    new = table | {node: renewed[leaf] for node, leaf in print_.settled}
    new |= dict(zip(print_.leaves, leaves, strict=True))
    made: list[UOp] = []
    open_: dict[Any, list[tuple[int, str]]] = {}
    for i in varying:
        hole = print_.holes[i]
        open_.setdefault(_key(hole.node), []).append((hole.axis, f"hole{i}"))
    names: dict[str, UOp] = {}
    skipped = {print_.nodes[i] for i in passing}
    storage: dict[UOp, UOp] = {}  # of assignments that are not carried out: what the next writes
    for node in print_.nodes:
        if node in new:
            continue
        src = tuple([new[s] for s in node.src])
        if node.op in _WRITES and node.src[0] in storage:
            src = (storage[node.src[0]], *src[1:])
        if node in skipped:
            storage[node], new[node] = src[0], src[1].src[1]
            continue
        varies = open_.get(_key(node))
        arg = node.arg
        if node.op in _SIZED:
            arg = mapped(arg, lambda n: sized(new[n.node]))
        if varies is not None:
            plain = UOp(node.op, node.dtype, src, arg)
            new[node] = _FILLED[node.op](plain, src, varies, names)
        elif node.dtype is dtypes.index and not node.shape:
            new[node] = rebuild(node, src)
        elif arg is node.arg and src == node.src:
            new[node] = node
        else:
            new[node] = UOp(node.op, node.dtype, src, arg)
        hand_on(node, new[node])
    made = [names[f"hole{i}"] for i in varying]
    return Instance([new[r] for r in roots], [*given, *made], leaves)


def _key(node: UOp) -> Any:
    return _place_of(node) if node.op is Ops.PAD else node


_WRITES = (Ops.STORE, Ops.AFTER)
_STORED = (Ops.BUFFER, Ops.AFTER)


def _renamed(variable: UOp, name: str) -> UOp:
    return UOp(Ops.VARIABLE, variable.dtype, (), (name, *variable.arg[1:3]))


Open = Sequence[tuple[int, str]]  # (axis, name) of the holes of one node


def _filled_constant(node: UOp, src: tuple[UOp, ...], open_: Open, names: dict[str, UOp]) -> UOp:
    names[open_[0][1]], value = scalar_variable(open_[0][1], node.dtype)
    return value


def _filled_shrink(node: UOp, src: tuple[UOp, ...], open_: Open, names: dict[str, UOp]) -> UOp:
    x = src[0]
    varying = {axis for axis, _ in open_}
    whole = [(0, n, 1) for n in x.shape]
    x = x.shrink([whole[a] if a in varying else b for a, b in enumerate(node.arg)])
    for axis, name in open_:
        count, step = node.shape[axis], node.arg[axis][2]
        start = UOp.variable(name, 0, room(node.src[0].shape[axis], count, step))
        names[name] = start
        x = taken(x, axis, start, count, step)
    return x


def _filled_pad(node: UOp, src: tuple[UOp, ...], open_: Open, names: dict[str, UOp]) -> UOp:
    """A part that is put there; a constant needs no memory: a choice."""
    x = src[0]
    varying = {axis for axis, _ in open_}
    same = uniform(x)
    if same is not None:
        x = same.broadcast_to([n if a in varying else m for a, (n, m) in _sides(node)])
    x = x.pad([(0, 0, 0) if a in varying else p for a, p in enumerate(node.arg)])
    inside: UOp | None = None
    for axis, name in open_:
        n, total = node.src[0].shape[axis], node.shape[axis]
        before = names.setdefault(name, UOp.variable(name, 0, total - n))
        if same is None:
            x = put(x, axis, before, total)
        else:
            inside = both(inside, covered(node.shape, axis, before, n))
    if inside is None:
        return x
    if node.dtype is dtypes.bool:
        return both(inside, x)
    nothing = UOp.const(node.dtype, 0).broadcast_to(node.shape)
    return UOp(Ops.WHERE, node.dtype, (inside, x, nothing))


def _sides(node: UOp) -> Iterable[tuple[int, tuple[int, int]]]:
    """(axis, (length, length of the source))"""
    return enumerate(zip(node.shape, node.src[0].shape, strict=True))


_FILLED: Mapping[Ops, Callable[[UOp, tuple[UOp, ...], Open, dict[str, UOp]], UOp]] = {
    Ops.CONST: _filled_constant,
    Ops.SHRINK: _filled_shrink,
    Ops.PAD: _filled_pad,
}

_CARRIERS: Mapping[DType, DType] = {  # narrow scalars travel in a type that every machine passes
    **{d: d.arithmetic for d in TENSOR_DTYPES.values() if d.is_narrow},
    dtypes.int8: dtypes.int32,
    dtypes.int16: dtypes.int32,
    dtypes.uint8: dtypes.int32,
    dtypes.uint16: dtypes.int32,
}


def scalar_variable(name: str, dtype: DType) -> tuple[UOp, UOp]:
    """A VARIABLE for any value of `dtype`, and the node of `dtype` that it becomes."""
    carrier = _CARRIERS.get(dtype, dtype)
    variable = UOp.variable(name, dtype.min, dtype.max, carrier)  # type: ignore[arg-type]
    node = variable if carrier is dtype else UOp(Ops.CAST, dtype, (variable,))
    return variable, node


def substitute_all(roots: Sequence[UOp], replace: Mapping[UOp, UOp]) -> list[UOp]:
    """Several roots with nodes exchanged, over one memo."""
    if not replace:
        return list(roots)
    return list(substitute(UOp(Ops.SINK, dtypes.void, tuple(roots)), replace).src)
