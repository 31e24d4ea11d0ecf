"""Renderers that change instructions on their way: faults that a backend's own may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from polygrad.contract import Instr
from polygrad.device.interp import InterpRenderer
from polygrad.dtype import dtypes
from polygrad.uop.ops import Ops


class Rewritten(InterpRenderer):
    """Prints other instructions than it was given."""

    change: ClassVar[Callable[[Sequence[Instr]], Sequence[Instr]]]

    def render(self, programs: Any) -> Any:
        change = type(self).change
        return super().render([replace(p, ops=tuple(change(p.expanded()))) for p in programs])


def each(change: Callable[[Instr], Instr]) -> Callable[[Any], Rewritten]:
    return rewritten(lambda ops: list(map(change, ops)))


def rewritten(change: Callable[[Sequence[Instr]], Sequence[Instr]]) -> Callable[[Any], Rewritten]:
    return type("Rewritten", (Rewritten,), {"change": staticmethod(change), "key": str(change)})


def loops_from_zero(ops: Sequence[Instr]) -> Sequence[Instr]:
    """`for (i = 0; i < hi; i++)`, whatever the loop's first source says."""
    zeros = [dtypes.int32, dtypes.int64]
    moved = [i._replace(src=tuple(s + len(zeros) for s in i.src)) for i in ops]
    return [
        *(Instr(Ops.CONST, kind, (), 0) for kind in zeros),
        *(
            i._replace(src=(zeros.index(i.dtype), i.src[1])) if i.op is Ops.RANGE else i
            for i in moved
        ),
    ]


def identity_shuffle(i: Instr) -> Instr:
    return i._replace(arg=tuple(range(len(i.arg)))) if i.op is Ops.SHUFFLE else i


def one_source(i: Instr) -> Instr:
    return i._replace(src=(i.src[0],) * 2) if i.op is Ops.SHUFFLE and len(i.src) > 1 else i


def first_lane(i: Instr) -> Instr:
    return i._replace(arg=0) if i.op is Ops.EXTRACT else i


def sorted_parts(i: Instr) -> Instr:
    return i._replace(src=tuple(sorted(i.src))) if i.op is Ops.VECTOR else i


def adds_lanes(i: Instr) -> Instr:
    return i._replace(arg=Ops.ADD) if i.op is Ops.LANES and i.dtype.kind != "bool" else i


def lanes_in_pairs(ops: Sequence[Instr]) -> Sequence[Instr]:
    """LANES adds neighbours first, which rounds in another order."""
    out: list[Instr] = []
    place: list[int] = []
    for op, dtype, src, arg in ops:
        at = tuple(place[s] for s in src)
        if op is Ops.LANES:
            wide, n = out[at[0]].dtype, out[at[0]].dtype.lanes
            order = (*range(0, n, 2), *range(1, n, 2))  # then halving meets neighbours
            out.append(Instr(Ops.SHUFFLE, wide, at, order))
            at = (len(out) - 1,)
        out.append(Instr(op, dtype, at, arg))
        place.append(len(out) - 1)
    return out


def positive_zero(i: Instr) -> Instr:
    zero = i.op is Ops.CONST and i.dtype.is_float and i.arg == 0
    return i._replace(arg=0.0) if zero else i


def without_lane_gates(i: Instr) -> Instr:
    return i._replace(src=i.src[:1]) if i.op is Ops.LOAD and i.dtype.lanes > 1 else i
