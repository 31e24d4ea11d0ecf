"""The fingerprint of a graph: what two graphs share when one Plan serves both.

A graph is written down in post-order, each node as (op, dtype, arg, numbers of its sources).
Leaves count by first sight: which buffer it is plays no part, its dtype, shape, device and alias
pattern do. Numbers the user varies play no part either: a constant is a *hole* in the skeleton,
and its value stands beside it. (Not 0, ±1, ±inf and NaN: those fold.) The engine keeps one Plan
per skeleton, and when a skeleton comes back with other values it turns the holes that differ into
variables: `with_variables`.

Keys are compared, never only hashed, so a collision cannot run the wrong Plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..dtype import DType, dtypes
from ..uop.ops import Ops, UOp
from ..uop.rewrite import substitute

Number = int | float


class Fingerprint(NamedTuple):
    """A graph without what varies, and what varies."""

    skeleton: tuple[Any, ...]
    holes: tuple[UOp, ...]  # CONST nodes in order of first sight
    values: tuple[Number, ...]  # of the holes
    leaves: tuple[UOp, ...]  # BUFFER leaves in order of first sight
    settled: tuple[tuple[UOp, UOp], ...]  # (node, leaf) where a realised node stands for its leaf
    variables: tuple[UOp, ...]  # VARIABLE nodes in order of first sight
    nodes: list[UOp]  # all of them, sources first


def fingerprint(
    roots: Sequence[UOp],
    leaf_of: Callable[[UOp], UOp | None],
    alias_of: Callable[[UOp], int],
    holes: bool = True,
) -> Fingerprint:
    """Write down the graph under `roots`.

    `leaf_of(node)` gives the leaf of a realised node, None for others; `alias_of(leaf)` is equal
    for leaves that share memory. With `holes=False` constants are part of the skeleton.
    """
    numbers: dict[UOp, int] = {}
    tokens: list[Any] = []
    found = _Found({}, {}, {}, {}, [])
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in numbers:
            stack.pop()
            continue
        leaf = node if node.op is Ops.BUFFER else leaf_of(node)
        if leaf is not None:
            tokens.append(_leaf(leaf, found, alias_of))
            if leaf is not node:
                found.settled.append((node, leaf))
        else:
            src = node.src
            missing = [s for s in src if s not in numbers]
            if missing:
                missing.reverse()
                stack.extend(missing)
                continue
            special = _SPECIAL.get(node.op)
            if special is not None:
                tokens.append(special(node, found, holes, numbers))
            else:
                tokens.append((node.op, node.dtype, node.arg, *[numbers[s] for s in src]))
        stack.pop()
        numbers[node] = len(numbers)
    tokens.append(tuple([numbers[r] for r in roots]))
    return Fingerprint(
        tuple(tokens),
        tuple(found.holes),
        tuple([h.arg for h in found.holes]),
        tuple(found.leaves),
        tuple(found.settled),
        tuple(found.variables),
        list(numbers),
    )


class _Found(NamedTuple):
    leaves: dict[UOp, int]
    aliases: dict[int, int]
    variables: dict[UOp, int]
    holes: dict[UOp, int]
    settled: list[tuple[UOp, UOp]]


def _leaf(leaf: UOp, found: _Found, alias_of: Callable[[UOp], int]) -> Any:
    number = found.leaves.setdefault(leaf, len(found.leaves))
    alias = found.aliases.setdefault(alias_of(leaf), number)
    return (Ops.BUFFER, leaf.dtype, leaf.arg[1], leaf.arg[2], number, alias)


def _constant(node: UOp, found: _Found, holes: bool, numbers: Mapping[UOp, int]) -> Any:
    sources = [numbers[s] for s in node.src]
    if holes and is_hole(node):
        return (Ops.CONST, node.dtype, found.holes.setdefault(node, len(found.holes)), *sources)
    # repr tells -0.0 from 0.0 and finds NaN again; the dtype tells True from 1.
    return (Ops.CONST, node.dtype, repr(node.arg), *sources)


def _variable(node: UOp, found: _Found, holes: bool, numbers: Mapping[UOp, int]) -> Any:
    number = found.variables.setdefault(node, len(found.variables))
    return (Ops.VARIABLE, node.dtype, *node.arg[1:], number)


def _unique(node: UOp, found: _Found, holes: bool, numbers: Mapping[UOp, int]) -> Any:
    return (Ops.UNIQUE, len(numbers))  # told apart by its place alone


_SPECIAL: Mapping[Ops, Callable[[UOp, _Found, bool, Mapping[UOp, int]], Any]] = {
    Ops.CONST: _constant,
    Ops.VARIABLE: _variable,
    Ops.UNIQUE: _unique,
}
_FOLDING = frozenset({0.0, 1.0, -1.0, float("inf"), float("-inf")})


def is_hole(node: UOp) -> bool:
    """Whether a CONST is a number that may vary from run to run."""
    dtype, value = node.dtype, node.arg
    if dtype.kind == "float":
        return value == value and value not in _FOLDING
    return dtype.kind in ("int", "uint") and not -1 <= value <= 1


# ---- holes to variables

_CARRIERS: Mapping[DType, DType] = {  # narrow scalars travel in a type that every machine passes
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
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


def with_variables(holes: Iterable[UOp], prefix: str = "hole") -> tuple[dict[UOp, UOp], list[UOp]]:
    """For each hole the node to put in its place, and the variables in the same order."""
    replace: dict[UOp, UOp] = {}
    variables = []
    for number, hole in enumerate(holes):
        variable, replace[hole] = scalar_variable(f"{prefix}{number}", hole.dtype)
        variables.append(variable)
    return replace, variables


def substitute_all(roots: Sequence[UOp], replace: Mapping[UOp, UOp]) -> list[UOp]:
    """Several roots with nodes exchanged, over one memo."""
    if not replace:
        return list(roots)
    return list(substitute(UOp(Ops.SINK, dtypes.void, tuple(roots)), replace).src)
