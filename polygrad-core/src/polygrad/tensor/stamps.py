"""Long formulas built once: a stamp is the list of a formula's nodes, which another x is put under.

Floor: tensor. A special function has some hundred nodes, each of which tries every simplification
when it is made; none of them depends on the x it is for. So the formula is built for one x of each
dtype, and its nodes are copied for every other, without trying anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtype import DType
from ..uop.ops import Ops, UOp, toposort

Formula = Callable[[UOp], UOp]
# For each node: op, dtype, numbers of its sources, argument. CONST stands for one in x's shape.
_Stamp = list[tuple[Ops, DType, tuple[int, ...], Any]]
_stamps: dict[tuple[Formula, DType], _Stamp] = {}


def stamped(formula: Formula, x: UOp) -> UOp:
    """`formula(x)`, for an elementwise formula that does nothing but with x and numbers."""
    key = formula, x.dtype
    found = _stamps.get(key)
    if found is None:
        found = _stamps[key] = _stamp(formula, x.dtype)
    made = [x]
    for op, dtype, src, arg in found:
        if op is Ops.CONST:
            made.append(UOp.everywhere(dtype, arg, x.shape))
        else:
            made.append(UOp(op, dtype, tuple([made[i] for i in src]), arg))
    return made[-1]


def _stamp(formula: Formula, dtype: DType) -> _Stamp:
    x = UOp.buffer(dtype, (2,), "a stamp")
    places = {x: 0}
    out: _Stamp = []
    for node in toposort((formula(x),)):
        if node is x or node.shape != x.shape:
            continue  # inside a constant
        base = node.base
        if base.op is Ops.CONST:
            out.append((Ops.CONST, node.dtype, (), base.arg))
        else:
            out.append((node.op, node.dtype, tuple(places[s] for s in node.src), node.arg))
        places[node] = len(out)
    return out
