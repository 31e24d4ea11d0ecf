"""A size as people write it."""

from __future__ import annotations

from typing import Final

from .linear import linear
from .ops import Ops, UOp

_INFIX: Final = {Ops.MUL: "*", Ops.FLOORDIV: "//", Ops.FLOORMOD: "%"}


def text(u: UOp) -> str:
    """A form with what it takes away behind what it adds: `32 - n`."""
    const, terms = linear(u)
    parts = [_term(atom, k) for atom, k in sorted(terms, key=lambda t: t[1] < 0)]
    if const or not parts:
        first = const > 0 and bool(parts) and parts[0].startswith("-")
        parts.insert(0 if first else len(parts), str(const))
    return " + ".join(parts).replace("+ -", "- ")


def _term(atom: UOp, k: int) -> str:
    inner = [text(s) if s is not atom else "" for s in atom.src]
    if atom.op is Ops.VARIABLE:
        made = str(atom.arg[0])
    elif atom.op in _INFIX:
        made = f" {_INFIX[atom.op]} ".join(f"({p})" if " " in p else p for p in inner)
        made = f"({made})" if k != 1 else made
    else:
        made = f"{atom.op.name.lower().removesuffix('imum')}({', '.join(inner)})"
    return made if k == 1 else f"-{made}" if k == -1 else f"{k}*{made}"
