"""Kernels from elsewhere: what a plugin offers in place of a program, tried before it is trusted.

With POLY_KERNELS=provider each new kernel is shown to the hook `polygrad_provide_kernel`. An offer
is a LinearProgram for the same params, or something to launch. It is run beside the compiler's own
program on the same random data: integers must be equal, floats nearly so, inputs untouched. Then
both are timed in turn, each as a Plan would run it, and the faster one is kept. Whatever goes wrong
is a warning that names the package, and the compiler's own program stays.

Kernels with variables are not offered (one size shows nothing about the others), nor those in an
author's own order of steps.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from ..codegen.ordered import is_ordered
from ..contract import Launch, LinearProgram, Param, Plan, PlanBuffer
from ..device.buffer import Buffer
from ..dtype import DType, dtypes, pack, unpack
from ..errors import PluginWarning, PolygradError, told, user_level
from ..hooks import installed as hooks
from ..logs import logger
from ..plugin import Device, StepLoop
from ..registry import Record
from ..uop.ops import UOp
from ..uop.spec_program import verify_program
from .pieces import Foreign

PATTERN = 4099  # random numbers of a buffer, repeated; a prime, so rows of a matrix differ
TOLERANCE = 256  # spacings of the dtype at the largest value of a result
ROUNDS = 7  # the least of so many times

Built = Callable[[LinearProgram], Any]  # a LinearProgram of the device's -> its loaded program
Run = Callable[[Sequence[Any]], None]


class Refused(Exception):
    """Why an offer is not used."""


Pair = tuple[LinearProgram, Any]  # a program for people and for the machine


def best(device: Device, sink: UOp, linear: LinearProgram, program: Any, build: Built) -> Pair:
    """The fastest right program of a kernel: the compiler's own, or one that a plugin offers."""
    own = chosen = (linear, program)
    if linear.variables or is_ordered(sink):
        return own
    for record, offer in hooks.offers(device, sink, linear):
        made = _tried(device, own, record, offer, build)
        if made is not None:
            trial = Trial(device, linear)
            faster = trial.is_faster(made, chosen)
            chosen = made if faster else chosen
            verdict = "is used" if faster else "is slower and not used"
            logger("compile").info("%s: the program of %s %s", linear.name, record.name, verdict)
    return chosen


def _tried(device: Device, own: Pair, record: Record, offer: Any, build: Built) -> Pair | None:
    """An offer that computes what the compiler's own program does; None, and a warning, if not."""
    try:
        made = _made(device, own[0], offer, build)
        Trial(device, own[0]).check(made, own)
    except (Refused, PolygradError) as error:
        reason = str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is a stranger's code
        reason = f"it raised {told(error)}"
    else:
        return made
    _warn(record, own[0], reason)
    return None


def _warn(record: Record, linear: LinearProgram, reason: str) -> None:
    warnings.warn(
        f"the program that {record.name!r} ({record.package}) offers for {linear.name} is not used:"
        f" {reason}. Disable: POLY_PLUGINS=-{record.name}",
        PluginWarning,
        stacklevel=user_level(),
    )


def _made(device: Device, own: LinearProgram, offer: Any, build: Built) -> Pair:
    """The offer ready to launch, under the name of the program whose place it takes."""
    if not isinstance(offer, LinearProgram):
        if not callable(offer):
            raise Refused(f"it is {type(offer).__name__}, neither a LinearProgram nor callable")
        return own, Foreign(offer)
    if offer.params != own.params or offer.variables:
        raise Refused("its params are not those of the kernel")
    verify_program(offer, device.target)
    # Another name: both may be in one process.
    made = replace(offer, name=f"{own.name}_provided")
    return made, build(made)


class Trial:
    """Random data for one kernel, and what runs a program on it."""

    def __init__(self, device: Device, linear: LinearProgram) -> None:
        self.device, self.params = device, linear.params
        source = random.Random(linear.name)
        self.data = [_bytes(p, source) for p in self.params]
        self.buffers = [Buffer(device.name, max(1, len(d))) for d in self.data]
        self.handles = [b.handle for b in self.buffers]

    def check(self, offer: Pair, own: Pair) -> None:
        """Raise Refused unless `offer` computes what `own` does."""
        right, found = self._results(self._runner(*own)), self._results(self._runner(*offer))
        for place, (p, a, b) in enumerate(zip(self.params, right, found, strict=True)):
            _agree(place, p, a, b)

    def is_faster(self, offer: Pair, other: Pair) -> bool:
        """Whether `offer` takes less time, the least of several turns."""
        runs = [self._runner(*offer), self._runner(*other)]
        for run in runs:
            self._results(run)
        times = [[self._seconds(run) for run in runs] for _ in range(ROUNDS)]
        its, others = map(min, zip(*times, strict=True))
        return bool(its < others)

    def _results(self, run: Run) -> list[memoryview]:
        for buffer, data in zip(self.buffers, self.data, strict=True):
            buffer.write(memoryview(data))
        self._seconds(run)
        return [
            buffer.read(len(data)) for buffer, data in zip(self.buffers, self.data, strict=True)
        ]

    def _seconds(self, run: Run) -> float:
        start = perf_counter()
        run(self.handles)
        self.device.synchronize()
        return perf_counter() - start

    def _runner(self, linear: LinearProgram, program: Any) -> Run:
        """A Plan of this one program, prepared as any Plan is."""
        plan = Plan(
            buffers=tuple(
                PlanBuffer("external", max(1, len(d)), slot=i) for i, d in enumerate(self.data)
            ),
            steps=(Launch(linear.name, tuple(range(len(self.data))), (), linear.grid),),
            programs={linear.name: linear},
        )
        programs: Mapping[str, Any] = {linear.name: program}
        if isinstance(program, Foreign):
            return StepLoop(self.device, plan, programs, None)
        return self.device.prepare(plan, programs, None)


def _bytes(param: Param, source: random.Random) -> bytes:
    """Random numbers of a param's dtype; results start as what nobody can mistake for one."""
    size = param.size * param.dtype.itemsize
    if param.access == "w":
        return b"\xff" * size
    some = [_number(param.dtype, source) for _ in range(min(PATTERN, param.size))]
    pattern = pack(param.dtype, some)
    return (pattern * -(-size // max(1, len(pattern))))[:size]


def _number(dtype: DType, source: random.Random) -> int | float:
    if dtype.is_float:
        return source.uniform(-2.0, 2.0)
    if dtype is dtypes.uint8:
        return source.randrange(2)  # perhaps a bool, which is 0 or 1
    return source.randrange(0 if dtype.is_unsigned else -8, 9)


def _agree(place: int, param: Param, right: memoryview, found: memoryview) -> None:
    if right == found:
        return
    if "w" not in param.access:
        raise Refused(f"it writes to param {place}, which is an input")
    a, b = unpack(param.dtype, right), unpack(param.dtype, found)
    if not param.dtype.is_float:
        at = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
        raise Refused(_differ(place, at, b[at], a[at]))
    largest = max((abs(x) for x in a if math.isfinite(x)), default=0.0)
    allowed = _spacing(param.dtype) * largest
    for at, (x, y) in enumerate(zip(a, b, strict=True)):
        near = x == y or abs(x - y) <= allowed or (x != x and y != y)
        if not near:
            raise Refused(_differ(place, at, y, x))


def _spacing(dtype: DType) -> float:
    """What results may differ by, relative to the largest: of a narrow type, which is rounded to
    once, two spacings."""
    assert dtype.layout is not None
    return math.ldexp(2.0 if dtype.is_narrow else TOLERANCE, -dtype.layout.mantissa)


def _differ(place: int, at: int, found: int | float, right: int | float) -> str:
    return f"on random data it gives {found} at element {at} of param {place}, not {right}"
