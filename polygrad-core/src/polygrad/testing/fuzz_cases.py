"""Cases of the algebra fuzzer: expressions as plain data, what is smaller than one, its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ..dtype import DType, dtypes
from ..uop.ops import Ops

Expr = tuple[Any, ...]  # (Ops, DType, *sources); ("range", i); ("const", DType, value)
Bounds = tuple[tuple[int, int], ...]  # (lo, hi) of each counter, hi excluded

INDEX: Final = dtypes.index
BOOL: Final = dtypes.bool


class Case(NamedTuple):
    """An expression and the counters it runs over. If `below` is not 0, counter 0 is a variable
    and counter 1 runs from 0 to `below` times it."""

    bounds: Bounds
    expr: Expr
    below: int = 0


def dtype_of(expr: Expr) -> DType:
    return INDEX if expr[0] == "range" else expr[1]


def smaller(expr: Expr) -> Iterator[Expr]:
    """Expressions with something taken away, the boldest first."""
    if expr[0] == "range":
        return
    if expr[0] == "const":
        value = expr[2]
        for v in (0, 1, value // 2, value - 1 if value > 0 else value + 1):
            if type(value) is not bool and abs(v) < abs(value):
                yield "const", expr[1], v
        return
    for e in expr[2:]:
        if dtype_of(e) is expr[1]:
            yield e
    yield "const", expr[1], 1 if expr[1] is not BOOL else True
    for i in range(2, len(expr)):
        for e in smaller(expr[i]):
            yield (*expr[:i], e, *expr[i + 1 :])


def smaller_cases(case: Case) -> Iterator[Case]:
    for e in smaller(case.expr):
        yield case._replace(expr=e)
    if case.below:
        yield case._replace(below=0)
        return
    for i, (lo, hi) in enumerate(case.bounds):
        for box in ((lo, lo + 1), (lo, hi - 1), (lo + 1, hi), (0, hi - lo)):
            if box[1] > box[0] and box != (lo, hi):
                yield Case((*case.bounds[:i], box, *case.bounds[i + 1 :]), case.expr)


def text(expr: Expr) -> str:
    """An expression as Python that builds it from counters r0, r1, r2."""
    if expr[0] == "range":
        return f"r{expr[1]}"
    if expr[0] == "const":
        return f"UOp.const({expr[1]!r}, {expr[2]!r})"
    parts = ", ".join(text(e) for e in expr[2:])
    return (
        f"{parts}.cast({expr[1]!r})" if expr[0] is Ops.CAST else f"UOp.alu(Ops.{expr[0]}, {parts})"
    )
