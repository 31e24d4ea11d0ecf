"""Verbs that ask for memory before it is read: hints, for what comes late.

`prefetch` asks for what the same load reads some steps later, `ask` for all that it reads in the
next step of a range far outside. Neither reads anything, and neither may hold up a step: a line or
two each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..uop.linear import coefficient, ranges_of
from ..uop.ops import Ops, UOp, size, toposort
from .kernel import Kernel, length, static, substitute
from .transform import ScheduleError, positive

LINE = 64  # bytes of a cache line
MOST = 3  # lines that one step asks for


def prefetch(kernel: Kernel, number: int, loop: UOp, steps: int) -> Kernel:
    """Have load `number`, counted in the order of `toposort`, ask for what it will read so many
    steps of a range later: a hint, for memory that comes late and in pieces too short for the
    machine to see where it goes on."""
    positive("prefetch", steps)
    read = [n for n in kernel.nodes if n.op is Ops.LOAD]
    load = read[number] if 0 <= number < len(read) else None
    if load is None or load.arg is not None or loop not in kernel.order:
        raise ScheduleError(f"prefetch: there is no load {number} that could ask ahead")
    distance = coefficient(load.src[0].src[1], loop)
    if not distance:
        raise ScheduleError(
            f"prefetch: load {number} does not move along range {loop.arg[0]} by a constant"
        )
    made = UOp(Ops.LOAD, load.dtype, load.src, distance * steps)
    stores = tuple(substitute(kernel.stores, {load: made}))
    return replace(kernel, stores=stores).logged("prefetch", number, loop.arg[0], steps)


def ask(kernel: Kernel, number: int, strip: UOp, *tiles: UOp) -> Kernel:
    """Have load `number` ask for what it will read in the next step of range `strip`, part by part:
    each step of its reduction in each step of `tiles` asks for another one. For strips or matrices
    that come from beyond the cache in which the tiles find them then.

    `number` counts as in `prefetch`; what is asked for is an address within the buffer.
    """
    read = [n for n in kernel.nodes if n.op is Ops.LOAD]
    load = read[number] if 0 <= number < len(read) else None
    if load is None or len(load.src) > 1 or load.dtype.is_narrow:
        raise ScheduleError(f"ask: there is no load {number} that could ask for more")
    index = load.src[0].src[1]
    inside = [r for r in kernel.order if r in ranges_of(index)]
    steps = next((r for r in inside if kernel.kind(r) == "loop" and r in kernel.reduced), None)
    walked = [r for r in (*tiles, steps) if r is not None]
    if steps is None or not tiles or any(r.src[0].arg or not static(r) for r in (strip, *walked)):
        raise ScheduleError(f"ask: load {number} is not read by steps of range {strip.arg[0]}")
    own = [r for r in inside if r in tiles or kernel.kind(r) != "grid"]
    whole, parts = _region(load, strip, own), size([length(r) for r in walked])
    lines = -(-whole * load.dtype.itemsize // (parts * LINE))
    if not whole or lines > MOST:
        raise ScheduleError(f"ask: load {number} reads no strip that comes in {parts} parts")
    next_one = {r: UOp.index(r.src[0].arg) for r in own}
    next_one[strip] = (strip + 1) % length(strip)
    hints = [
        _hint(load, substitute((index,), next_one)[0] + place)
        for place in _parts(walked, whole, lines, LINE // load.dtype.itemsize)
    ]
    # Not elsewhere: what is left over of the rows would run in every step of the tiles.
    tiled = [n for n in kernel.reductions if ranges_of(n).issuperset(tiles)]
    if not any(load in toposort((n,)) for n in tiled):
        raise ScheduleError(f"ask: the tiles do not read load {number}")
    asking = substitute(tiled, {load: load.after(*hints)})
    stores = tuple(substitute(kernel.stores, dict(zip(tiled, asking, strict=True))))
    logged = ("ask", number, strip.arg[0], *(r.arg[0] for r in tiles))
    return replace(kernel, stores=stores).logged(*logged)


def _region(load: UOp, strip: UOp, own: Sequence[UOp]) -> int:
    """How many neighbours a load reads in a step of `strip`; 0 where they lie apart. What the tiles
    leave over of a matrix belongs to it, if the next one follows."""
    param, index = load.src[0].src
    reached, step = _dense(index, own), coefficient(index, strip) or 0
    follows = index.lo == 0 and length(strip) * step == param.arg[1]
    if follows and reached <= step < 2 * reached:
        return step
    return reached if reached <= step else 0


def _parts(walked: Sequence[UOp], whole: int, lines: int, line: int) -> list[UOp]:
    """Where the lines lie that one step of these ranges asks for, of `whole` elements."""
    at, parts = UOp.index(0), size([length(r) for r in walked])
    for loop in walked:
        at = at * length(loop) + loop
    each = lines * line if lines > 1 else -(-whole // parts)
    places = [at * each + i * line for i in range(lines)]
    return [p if (p.hi or 0) < whole else p % whole for p in places]


def _hint(load: UOp, place: UOp) -> UOp:
    """A LOAD of this place that is only asked for."""
    param = load.src[0].src[0]
    return UOp(Ops.LOAD, load.dtype, (UOp(Ops.INDEX, param.dtype, (param, place)),), 0)


def _dense(index: UOp, loops: Sequence[UOp]) -> int:
    """How many neighbours an index reaches through these ranges; 0 where it leaves some out."""
    reached = 1
    for step, n in sorted((coefficient(index, r) or 0, length(r)) for r in loops):
        if step != reached:
            return 0
        reached *= n
    return reached
