"""The linear recurrence y[t] = a[t] y[t-1] + b[t] along one axis: a kernel, and its gradient.

Running products and logarithms of running sums are differentiated by it (`scans.py`). The work is
linear in the length and the graph does not depend on it. A block of the grid takes a strip of
columns, which stand next to each other in memory, through a part of the axis. A long axis of few
columns falls into parts: the first kernel composes the steps of each part into one, these few are
run through, and the second kernel starts every part where the one before it ended (Blelloch, Prefix
sums and their applications, 1990, section 1.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ..dtype import DType
from ..gradient_rules import FUNCTIONS
from ..uop.kernel import Placeholder, call, finished, library, local
from ..uop.ops import KernelInfo, UOp
from .formulas import function

STRIP: Final = 64  # columns that one block takes
PART: Final = 1 << 13  # steps of a part
FEW: Final = 8  # fewer columns than that do not occupy a machine


def recurrence(a: UOp, b: UOp, axis: int) -> UOp:
    """y with y[t] = a[t] y[t-1] + b[t] and 0 before the first; `a` is finite at its first place."""
    if not b.shape or 0 in b.shape:
        return b
    n = b.shape[axis]
    shape = (math.prod(b.shape[:axis]), n, math.prod(b.shape[axis + 1 :]))
    value = _values(a.reshape(shape), b.reshape(shape)).reshape(b.shape)
    return along("recurrence", axis, value, a, b)


def _values(a: UOp, b: UOp) -> UOp:
    rows, n, columns = b.shape
    part = PART if rows * columns < FEW and n > PART else n
    parts = -(-n // part)
    numbers = (rows, n, columns, part, b.dtype)
    if parts == 1:
        start = UOp.const(b.dtype, 0.0).broadcast_to((rows, 1, columns))
    else:
        ends = [(slot, b.dtype, (rows, parts, columns)) for slot in (2, 3)]
        start = earlier(_values(*call(_compose(*numbers), [(0, a), (1, b)], ends)), 1)
    sources = [(0, a), (1, b), (2, start)]
    return call(_recur(*numbers), sources, [(3, b.dtype, b.shape)])[0]


def earlier(u: UOp, axis: int) -> UOp:
    """u[t-1] at t, and 0 at the first place."""
    return _moved(u, axis, (0, u.shape[axis] - 1, 1), (1, 0, 0))


def later(u: UOp, axis: int) -> UOp:
    """u[t+1] at t, and 0 at the last place."""
    return _moved(u, axis, (1, u.shape[axis], 1), (0, 1, 0))


def _moved(u: UOp, axis: int, kept: tuple[int, int, int], pad: tuple[int, int, int]) -> UOp:
    cut = [(0, n, 1) for n in u.shape]
    pads = [(0, 0, 0) for _ in u.shape]
    cut[axis], pads[axis] = kept, pad
    return u.shrink(cut).pad(pads)


def backward(a: UOp, b: UOp, axis: int) -> UOp:
    """y with y[t] = a[t+1] y[t+1] + b[t] and 0 after the last."""
    turned = later(a, axis).flip((axis,))
    return recurrence(turned, b.flip((axis,)), axis).flip((axis,))


# ---- functions along an axis, whose gradients are recurrences along it

Rule = Callable[[UOp, UOp, int], "Sequence[UOp | None]"]  # the node, what flows into it, the axis
MOST_AXES: Final = 64


def along(name: str, axis: int, value: UOp, *inputs: UOp) -> UOp:
    """The value as a function of the inputs, differentiated by the rule of that name."""
    return function(f"{name}.{axis}", [value], *inputs)[0]


def put_rule(name: str, rule: Rule) -> None:
    for axis in range(MOST_AXES):
        FUNCTIONS[f"{name}.{axis}"] = partial(_at, rule, axis)


def _at(rule: Rule, axis: int, node: UOp, g: UOp) -> Sequence[UOp | None]:
    return rule(node, g, axis)


def _recurrence(node: UOp, g: UOp, axis: int) -> Sequence[UOp | None]:
    flow = backward(node.src[1], g, axis)
    return flow * earlier(node, axis), flow


put_rule("recurrence", _recurrence)


# ---- kernels


class _Part:
    """The loops of both kernels: rows, parts and strips on the grid, then steps, then columns."""

    def __init__(self, rows: int, n: int, columns: int, part: int) -> None:
        strip, parts = min(columns, STRIP), -(-n // part)
        self.r, self.p = UOp.range(0, rows, 0, "grid"), UOp.range(0, parts, 1, "grid")
        self.strip = UOp.range(0, -(-columns // strip), 2, "grid")
        self.width, self.k = strip, UOp.range(0, part, 3)
        self.t = self.p * part + self.k
        self.even = n % part == 0 and columns % strip == 0
        self.n, self.columns = n, columns

    def column(self, ident: int) -> tuple[UOp, UOp]:
        """(a loop over the strip's columns, the number of the column)."""
        j = UOp.range(0, self.width, ident)
        return j, self.strip * self.width + j

    def inside(self, column: UOp) -> UOp | None:
        return None if self.even else (column < self.columns) & (self.t < self.n)

    def blocks(self) -> tuple[UOp, UOp, UOp]:
        return self.r, self.p, self.strip


def _read(memory: Placeholder, at: Sequence[UOp], inside: UOp | None, other: float) -> UOp:
    if inside is None:
        return memory[tuple(at)].load()
    value = memory[tuple(at)].load(inside)
    return inside.where(value, other) if other else value


@library
def _recur(rows: int, n: int, columns: int, part: int, dtype: DType) -> UOp:
    a, b, out = (Placeholder.param(s, dtype, (rows, n, columns)) for s in (0, 1, 3))
    start = Placeholder.param(2, dtype, (rows, -(-n // part), columns))
    loops = _Part(rows, n, columns, part)
    state = local(dtype, loops.width, 0)
    j, c = loops.column(4)
    within = None if loops.even else c < columns
    first = _read(start, (loops.r, loops.p, c), within, 0.0)
    begun = state.after(*loops.blocks())[j].store(first).end(j)
    j, c = loops.column(5)
    inside, at = loops.inside(c), (loops.r, loops.t, c)
    place = state.after(begun, loops.k)[j]
    value = _read(a, at, inside, 1.0) * place.load() + _read(b, at, inside, 0.0)
    kept = out[at].store(value) if inside is None else out[at].store(value, gate=inside)
    done = place.store(value).group(kept).end(j).end(loops.k)
    return finished(done.end(*loops.blocks()).sink(arg=KernelInfo("recur")))


@library
def _compose(rows: int, n: int, columns: int, part: int, dtype: DType) -> UOp:
    """The steps of each part as one: the product of its a, and where it ends from 0."""
    a, b = (Placeholder.param(s, dtype, (rows, n, columns)) for s in (0, 1))
    ends = [Placeholder.param(s, dtype, (rows, -(-n // part), columns)) for s in (2, 3)]
    loops = _Part(rows, n, columns, part)
    factor, state = local(dtype, loops.width, 0), local(dtype, loops.width, 1)
    j, _ = loops.column(4)
    fresh = loops.blocks()
    begun = factor.after(*fresh)[j].store(1.0).group(state.after(*fresh)[j].store(0.0)).end(j)
    j, c = loops.column(5)
    inside, at = loops.inside(c), (loops.r, loops.t, c)
    one = _read(a, at, inside, 1.0)
    whole, place = factor.after(begun, loops.k)[j], state.after(begun, loops.k)[j]
    value = one * place.load() + _read(b, at, inside, 0.0)
    done = place.store(value).group(whole.store(one * whole.load())).end(j).end(loops.k)
    j, c = loops.column(6)
    at = (loops.r, loops.p, c)
    stores = [
        end[at].store(memory.after(done)[j].load(), gate=None if loops.even else c < columns)
        for end, memory in zip(ends, (factor, state), strict=True)
    ]
    last = stores[0].group(stores[1]).end(j)
    return finished(last.end(*loops.blocks()).sink(arg=KernelInfo("compose_steps")))
