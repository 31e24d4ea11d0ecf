"""graph.json: captured graphs as one table of nodes, and back, believing nothing.

    {"nodes": [[op, dtype, [source, …], argument], …],
     "entrypoints": {name: {"inputs": [name, …], "outputs": {name: node}, "writes": {state: node}}}}

Sources come before their users. The graphs stand on the tensor floor and name no device. Leaves are
inputs and state by name. Assignment is a function of values here: what an entrypoint leaves in a
state is listed under "writes". Floats are written in hexadecimal, so they come back bit by bit.
Sizes that vary are written as expressions (sizes.py); an entrypoint has those of its inputs alone.
An entrypoint that takes indices has "checks" too (checks.py).

Reading is the door for strangers' programs: each op has one line in the table below that says how
many sources it takes and what its argument must be; then `uop.spec` checks the whole graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from ..dtype import TENSOR_DTYPES, DType, canonical, dtypes
from ..engine.capture import Check
from ..errors import PolygradError, SpecError, StateError
from ..files.limits import DEFAULT, Limits
from ..gradient_rules import FUNCTIONS, Function
from ..uop import spec
from ..uop.kernel import LIBRARY, KernelCall, Output
from ..uop.ops import BINARY, REDUCERS, UNARY, Ops, UOp, toposort
from ..uop.provenance import describe
from ..uop.sizes import capacity, mapped, sized, sizes_of, variables_of
from . import checks, sizes

Leaves = Mapping[str, UOp]
# what a kernel of the library raises for numbers that it cannot take
_CANNOT: Final = (SpecError, TypeError, ValueError, LookupError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class Entrypoint:
    """One captured graph: which inputs it takes, what it returns, what it leaves in the state.

    `draws` counts the random elements that one call takes from the model's generator. `checks` is
    what a call asks of its indices under POLY_CHECK=1.
    """

    inputs: tuple[str, ...]
    outputs: Mapping[str, UOp]
    writes: Mapping[str, UOp]
    draws: int = 0
    checks: tuple[Check, ...] = ()

    @property
    def roots(self) -> list[UOp]:
        return [*self.outputs.values(), *self.writes.values()]


# ---- arguments: how one is written, and how what was read is checked


class _Bad(Exception):
    """An argument that is not what its op takes; `read` turns it into a BundleError."""


def _natural(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value < 1 << 62:
        raise _Bad
    return value


def _naturals(value: Any, count: int | None = None) -> tuple[int, ...]:
    if not isinstance(value, list) or (count is not None and len(value) != count):
        raise _Bad
    return tuple(_natural(v) for v in value)


def _axis(value: Any, rank: int) -> int:
    if _natural(value) >= rank:
        raise _Bad
    return int(value)


def _axes(value: Any, rank: int) -> tuple[int, ...]:
    axes = _naturals(value)
    if sorted(set(axes)) != list(axes) or any(a >= rank for a in axes):
        raise _Bad
    return axes


def _size(value: Any) -> int:
    found = sizes.read(value)
    if found is None:
        raise _Bad
    return found


def _sizes(value: Any, count: int | None = None) -> tuple[int, ...]:
    if not isinstance(value, list) or (count is not None and len(value) != count):
        raise _Bad
    return tuple(_size(v) for v in value)


def _triples(value: Any, rank: int) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or len(value) != rank:
        raise _Bad
    return tuple(_sizes(v, 3) for v in value)


def _window(value: Any, rank: int) -> tuple[int, ...]:
    axis, *rest = _naturals(value, 4)
    if min(rest) < 1:  # size, stride, dilation
        raise _Bad
    return (_axis(axis, rank), *rest)


def _reduction(value: Any, rank: int) -> tuple[Ops, tuple[int, ...]]:
    if not isinstance(value, list) or len(value) != 2 or value[0] not in list(_REDUCERS):
        raise _Bad  # a list, for what was read may not be hashable
    return _REDUCERS[value[0]], _axes(value[1], rank)


def _scatter(value: Any, rank: int) -> tuple[int, str]:
    if not isinstance(value, list) or len(value) != 2 or value[1] not in _MODES:
        raise _Bad
    return _axis(value[0], rank), value[1]


def _scan(value: Any, rank: int) -> tuple[Ops, int]:
    if not isinstance(value, list) or len(value) != 2 or value[0] not in list(_REDUCERS):
        raise _Bad
    return _REDUCERS[value[0]], _axis(value[1], rank)


def _nothing(value: Any, rank: int) -> None:
    if value is not None:
        raise _Bad


def _decay(value: Any, rank: int) -> str | None:
    if value not in (None, "decay"):
        raise _Bad
    return value  # type: ignore[no-any-return]


def _value_of(value: Any, rank: int) -> Function:
    if not isinstance(value, list) or len(value) != 3 or value[0] not in list(FUNCTIONS):
        raise _Bad
    which, total = _naturals(value[1:], 2)
    return Function(value[0], which, total)


def _kernel(value: Any, rank: int) -> KernelCall:
    """One of the library's kernels: [[name, numbers], slots, outputs, which, values]."""
    if not isinstance(value, list) or len(value) != 5 or not isinstance(value[0], list):
        raise _Bad
    made, slots, outputs, which, values = value
    if len(made) != 2 or made[0] not in list(LIBRARY) or not isinstance(made[1], list):
        raise _Bad
    if not isinstance(outputs, list) or not isinstance(values, list):
        raise _Bad
    try:
        sink = LIBRARY[made[0]](*map(_plain, made[1]))
    except _CANNOT:  # these numbers
        raise _Bad from None
    written = tuple(_output(o) for o in outputs)
    if _natural(which) >= len(written):
        raise _Bad
    return KernelCall(sink, _naturals(slots), written, which, tuple(map(_fixed, values)))


def _plain(value: Any) -> Any:
    if isinstance(value, str) and value in _DTYPES:
        return _DTYPES[value]
    return value if isinstance(value, bool) else _natural(value)


def _output(value: Any) -> Output:
    if not isinstance(value, list) or len(value) != 3 or value[1] not in list(_DTYPES):
        raise _Bad
    return Output(_natural(value[0]), _DTYPES[value[1]], _naturals(value[2]))


def _fixed(value: Any) -> tuple[str, int]:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        raise _Bad
    return value[0], _natural(value[1])


def _kernel_text(u: UOp, where: str) -> list[Any]:
    call: KernelCall = u.arg
    recipe = call.sink.arg.recipe if call.sink.arg else None
    if recipe is None or call.gradient is not None:
        raise StateError(f"a bundle cannot hold a kernel of your own{where}.")
    outputs = [[o.slot, o.dtype.name, list(o.shape)] for o in call.outputs]
    values = [list(v) for v in call.values]
    return [[recipe[0], list(recipe[1])], list(call.slots), outputs, call.which, values]


_REDUCERS = {op.name: op for op in sorted(REDUCERS)}
_MODES = ("set", "add", "max", "min", "mul")


ANY = -1  # number of sources


class _Rule(NamedTuple):
    sources: int
    argument: Callable[[Any, int], Any]  # (what was read, rank of the first source)


_RULES: dict[Ops, _Rule] = {
    Ops.IOTA: _Rule(0, lambda v, _: _size(v)),
    Ops.RESHAPE: _Rule(1, lambda v, _: _sizes(v)),
    Ops.EXPAND: _Rule(1, lambda v, _: _sizes(v)),
    Ops.PERMUTE: _Rule(1, lambda v, rank: _naturals(v, rank)),
    Ops.SHRINK: _Rule(1, _triples),
    Ops.PAD: _Rule(1, _triples),
    Ops.FLIP: _Rule(1, _axes),
    Ops.WINDOW: _Rule(1, _window),
    Ops.REDUCE: _Rule(1, _reduction),
    Ops.SCAN: _Rule(1, _scan),
    Ops.GATHER: _Rule(2, _axis),
    Ops.SCATTER: _Rule(3, _scatter),
    Ops.CONTIGUOUS: _Rule(1, _nothing),
    Ops.DETACH: _Rule(1, _nothing),
    Ops.FUNCTION: _Rule(ANY, _value_of),
    Ops.KERNEL: _Rule(ANY, _kernel),
    **{op: _Rule(1, _nothing) for op in sorted(UNARY)},
    Ops.EXP: _Rule(1, _decay),
    **{op: _Rule(2, _nothing) for op in sorted(BINARY)},
    Ops.WHERE: _Rule(3, _nothing),
    Ops.THREEFRY: _Rule(3, _nothing),
}


def _number(dtype: DType, value: Any) -> Any:
    """A constant as JSON: exact, and never beyond what other languages read exactly."""
    if dtype.is_float:
        return value.hex() if math.isfinite(value) else str(value)
    return value if dtype.kind == "bool" or abs(value) < 1 << 53 else str(value)


def _constant(dtype: DType, value: Any) -> bool | int | float:
    """The constant that `_number` wrote; only its own spelling is taken."""
    try:
        if dtype.is_float:
            number: Any = float(value) if value in ("nan", "inf", "-inf") else float.fromhex(value)
        else:
            number = int(value) if isinstance(value, str) else value
    except (TypeError, ValueError, OverflowError):
        raise _Bad from None
    right = bool if dtype.kind == "bool" else float if dtype.is_float else int
    if type(number) is not right or _number(dtype, canonical(dtype, number)) != value:
        raise _Bad
    return number


# ---- writing


def write(entrypoints: Mapping[str, Entrypoint], names: Mapping[UOp, list[Any]]) -> dict[str, Any]:
    """The JSON value of `entrypoints`; `names` says what each leaf is, as ["state", name]."""
    roots = [r for e in entrypoints.values() for r in e.roots]
    order = toposort(roots, lambda n: n.dtype is not dtypes.index)
    number = {node: i for i, node in enumerate(order)}
    entries = {
        name: {
            "inputs": list(e.inputs),
            "outputs": {k: number[v] for k, v in e.outputs.items()},
            "writes": {k: number[v] for k, v in e.writes.items()},
            "draws": e.draws,
            **checks.write(e.checks, number),
        }
        for name, e in entrypoints.items()
    }
    return {"nodes": [_encode(u, number, names) for u in order], "entrypoints": entries}


def _encode(u: UOp, number: Mapping[UOp, int], names: Mapping[UOp, list[Any]]) -> list[Any]:
    if u in names:
        return ["LEAF", u.dtype.name, [], [*names[u], *map(sizes.write, u.shape)]]
    if u.dtype is dtypes.index and not u.shape:
        return ["SIZE", u.dtype.name, [], sizes.write(sized(u))]
    argument = mapped(u.arg, sizes.write) if sizes_of(u) else u.arg
    where = f", made at {describe(u)}" if u.provenance else ""
    if u.op is Ops.UNIQUE:
        argument = number[u]
    elif u.op is Ops.CONST:
        argument = _number(u.dtype, u.arg)
    elif u.op in (Ops.REDUCE, Ops.SCAN):
        argument = [u.arg[0].name, u.arg[1]]
    elif u.op is Ops.KERNEL:
        argument = _kernel_text(u, where)
    elif u.op is Ops.FUNCTION:
        argument = u.arg[:3]
    elif u.op not in _RULES:
        raise StateError(f"a bundle cannot hold the operation {u.op.name}{where}.")
    node = [u.op.name, u.dtype.name, [number[s] for s in u.src]]
    return node if argument is None else [*node, argument]


# ---- reading


class Reader:
    """Makes the nodes of a graph.json. `fail(reason)` makes errors, `leaf(kind, name)` leaves."""

    def __init__(
        self,
        fail: Callable[[str], Exception],
        leaf: Callable[[str, str], UOp | None],
        limits: Limits = DEFAULT,
    ) -> None:
        self.fail, self.leaf, self.limits = fail, leaf, limits
        self.nodes: list[UOp] = []
        self.inputs: set[UOp] = set()  # leaves of inputs that a node names

    def read(self, value: Any) -> dict[str, Entrypoint]:
        """The entrypoints of a graph, whose every node was checked."""
        if not isinstance(value, dict) or set(value) != {"nodes", "entrypoints"}:
            raise self.fail("is no table of nodes and entrypoints")
        nodes, entrypoints = value["nodes"], value["entrypoints"]
        if not isinstance(nodes, list) or not isinstance(entrypoints, dict):
            raise self.fail("is no table of nodes and entrypoints")
        if len(nodes) > self.limits.nodes:
            raise self.fail(f"has {len(nodes)} nodes; the limit is {self.limits.nodes}")
        for i, node in enumerate(nodes):
            self.nodes.append(self._checked(i, node))
        try:
            spec.verify_tensor(self.nodes)
        except PolygradError as e:
            raise self.fail(f"is not legal: {e}") from None
        return {name: self._entrypoint(name, e) for name, e in entrypoints.items()}

    def _checked(self, i: int, node: Any) -> UOp:
        try:
            made = self._node(node)
        except _Bad:
            raise self.fail(f"node {i} is not well formed: {str(node)[:100]}") from None
        except PolygradError as e:
            raise self.fail(f"node {i} is not legal: {e}") from None
        shapes = [made.shape]
        if made.op is Ops.KERNEL:
            shapes += [o.shape for o in made.arg.outputs]
        if any(len(s) > self.limits.rank or capacity(s) > self.limits.elements for s in shapes):
            raise self.fail(f"node {i} has the shape {made.shape}, beyond the limits")
        return made

    def _node(self, node: Any) -> UOp:
        if not isinstance(node, list) or len(node) not in (3, 4):
            raise _Bad
        name, dtype_name, sources = node[:3]
        argument = node[3] if len(node) == 4 else None
        if not isinstance(name, str) or not isinstance(dtype_name, str):
            raise _Bad
        dtype = _DTYPES.get(dtype_name)
        if dtype is None or not isinstance(sources, list):
            raise _Bad
        if any(type(s) is not int or not 0 <= s < len(self.nodes) for s in sources):
            raise _Bad
        src = tuple(self.nodes[s] for s in sources)
        if (dtype is dtypes.index) != (name == "SIZE"):
            raise _Bad
        if name in _LEAVES:
            return _LEAVES[name](self, dtype, src, argument)
        op = _OPS.get(name)
        if op is None or _RULES[op].sources not in (len(src), ANY) or dtype is dtypes.void:
            raise _Bad
        rank = len(src[0].shape) if src else 0
        return UOp(op, dtype, src, _RULES[op].argument(argument, rank))

    def _leaf(self, dtype: DType, src: tuple[UOp, ...], argument: Any) -> UOp:
        if src or not isinstance(argument, list) or len(argument) < 2:
            raise _Bad
        kind, name, *shape = argument
        found = self.leaf(kind, name) if isinstance(kind, str) and isinstance(name, str) else None
        if found is None or found.dtype is not dtype or [*map(sizes.write, found.shape)] != shape:
            raise _Bad
        if kind == "input":
            self.inputs.add(found)
        return found

    def _varying(self, dtype: DType, src: tuple[UOp, ...], argument: Any) -> UOp:
        if src:
            raise _Bad
        return UOp.index(_size(argument))

    def _unique(self, dtype: DType, src: tuple[UOp, ...], argument: Any) -> UOp:
        if src or dtype is not dtypes.void or argument != len(self.nodes):
            raise _Bad
        return UOp.const(dtypes.int32, 0, unique=True).src[0]  # a new one: its number is local

    def _const(self, dtype: DType, src: tuple[UOp, ...], argument: Any) -> UOp:
        if dtype is dtypes.void or len(src) > 1 or any(s.op is not Ops.UNIQUE for s in src):
            raise _Bad
        return UOp(Ops.CONST, dtype, src, _constant(dtype, argument))

    def _entrypoint(self, name: str, e: Any) -> Entrypoint:
        fields = {"inputs", "outputs", "writes", "draws"}
        if not isinstance(e, dict) or set(e) - {"checks"} != fields:
            raise self.fail(f"entrypoint {name!r} is not well formed")
        inputs, draws = e["inputs"], e["draws"]
        if not isinstance(inputs, list) or type(draws) is not int or not 0 <= draws < 1 << 62:
            raise self.fail(f"entrypoint {name!r} is not well formed")
        if any(not isinstance(i, str) or self.leaf("input", i) is None for i in inputs):
            raise self.fail(f"entrypoint {name!r} has an input that the manifest does not know")
        writes = self._roots(name, e["writes"])
        for state, value in writes.items():
            leaf = self.leaf("state", state)
            if leaf is None or leaf.shape != value.shape or leaf.dtype is not value.dtype:
                raise self.fail(f"entrypoint {name!r} writes {state!r} with another type")
        made = Entrypoint(tuple(inputs), self._roots(name, e["outputs"]), writes, draws)
        given = {self.leaf("input", i) for i in inputs}
        for node in toposort(made.roots):
            if node.op is Ops.BUFFER and node in self.inputs and node not in given:
                raise self.fail(f"entrypoint {name!r} reads an input that it does not take")
        known = set(variables_of([u for u in given if u is not None]))
        for v in variables_of(made.roots):
            if v.dtype is dtypes.index and v not in known:
                raise self.fail(f"entrypoint {name!r} has a size {v.arg[0]!r} that no input has")
        asked = checks.read(e.get("checks", []), self.nodes, made.roots)
        if asked is None:
            raise self.fail(f"entrypoint {name!r} has a check that is not well formed")
        return replace(made, checks=asked)

    def _roots(self, name: str, table: Any) -> dict[str, UOp]:
        if not isinstance(table, dict) or not all(
            type(i) is int and 0 <= i < len(self.nodes) for i in table.values()
        ):
            raise self.fail(f"entrypoint {name!r} is not well formed")
        return {k: self.nodes[i] for k, i in table.items()}


_DTYPES = {**TENSOR_DTYPES, "void": dtypes.void, "index": dtypes.index}
_OPS = {op.name: op for op in _RULES}
_LEAVES: dict[str, Callable[[Reader, DType, tuple[UOp, ...], Any], UOp]] = {
    "LEAF": Reader._leaf,
    "UNIQUE": Reader._unique,
    "CONST": Reader._const,
    "SIZE": Reader._varying,
}
