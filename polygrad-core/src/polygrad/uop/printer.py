"""Nodes as text a person can read: `short` for a message, `show` for a whole graph.

Floor: uop. `short(u)` prints a bounded expression (it never goes deeper than a few levels, so it
is safe in an error about a graph of any size); `show(u)` lists every node once, sources first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .ops import Ops, UOp, toposort

_INFIX: Final = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.DIV: "/", Ops.FLOORDIV: "//", Ops.FLOORMOD: "%",
    Ops.AND: "&", Ops.OR: "|", Ops.XOR: "^", Ops.SHL: "<<", Ops.SHR: ">>",
    Ops.CMPLT: "<", Ops.CMPLE: "<=", Ops.CMPEQ: "==", Ops.CMPNE: "!=",
}  # fmt: skip
DEPTH: Final = 6
LENGTH: Final = 240


def short(u: UOp, depth: int = DEPTH) -> str:
    """One line: an expression of at most `depth` levels and about 240 characters."""
    text = _expression(u, depth)
    text = text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"
    shape = f" {u.shape}" if u.shape else ""
    return f"<{text}: {u.dtype.name}{shape}>"


def _expression(u: UOp, depth: int) -> str:
    leaf = _leaf(u)
    if leaf is not None:
        return leaf
    if depth == 0:
        return "…"
    parts = [_expression(s, depth - 1) for s in u.src[:4]] + (["…"] if len(u.src) > 4 else [])
    if u.op in _INFIX and len(parts) == 2:
        return f"({parts[0]} {_INFIX[u.op]} {parts[1]})"
    if u.op in (Ops.CAST, Ops.BITCAST):
        return f"{u.op.name.lower()}({parts[0]}, {u.dtype.name})"
    argument = _argument(u)
    return f"{u.op.name.lower()}({', '.join([*parts, *([argument] if argument else [])])})"


def _leaf(u: UOp) -> str | None:
    if u.op is Ops.CONST:
        return repr(u.arg) if not u.src else f"const#{u.src[0].arg}({u.arg!r})"
    if u.op is Ops.VARIABLE:
        return str(u.arg[0])
    if u.op is Ops.RANGE and isinstance(u.arg, tuple):
        return f"r{u.arg[0]}"
    if u.op is Ops.BUFFER and isinstance(u.arg, tuple):
        return f"buffer{u.arg[0]}"
    if u.op is Ops.PARAM and isinstance(u.arg, tuple):
        return f"p{u.arg[0]}"
    return None


def _argument(u: UOp) -> str:
    if u.arg is None or u.op is Ops.CONST:
        return ""
    text = repr(u.arg)
    return text if len(text) <= 80 else text[:79] + "…"


def show(roots: UOp | Sequence[UOp]) -> str:
    """Every node on a line: its number, op, dtype, shape or interval, argument, sources, place."""
    from .provenance import describe

    nodes = toposort((roots,) if isinstance(roots, UOp) else roots)
    number = {u: i for i, u in enumerate(nodes)}
    lines = []
    for i, u in enumerate(nodes):
        what = f"{u.op.name.lower():10} {u.dtype.name:8} {_extent(u):16}"
        sources = " ".join(f"%{number[s]}" for s in u.src)
        place = describe(u)
        line = f"%{i:<4} {what} {sources} {_value(u)}".rstrip()
        lines.append(f"{line}  # {place}" if place else line)
    return "\n".join(lines)


def _extent(u: UOp) -> str:
    if u.shape:
        return str(u.shape)
    return f"[{u.lo}, {u.hi}]" if u.lo is not None else ""


def _value(u: UOp) -> Any:
    return repr(u.arg) if u.op is Ops.CONST else _argument(u)
