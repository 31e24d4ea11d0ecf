"""A bench for one kernel: candidates run on scratch buffers, are validated, then timed.

The buffers have the kernel's real sizes and hold halves of small whole numbers (0.5, 1, 1.5, 2),
integers 0 to 3, and both truth values: sums of products of those are exact in any order, so most
candidates must give the bits of the recipe's kernel. A float sum or product of inexact values may
change its order: then every element must be within 16 eps sqrt(n) of the recipe's, relative, n
being the steps of the longest reduction. Bytes after the end of each buffer must stay what they
were. Sizes and numbers that vary take their largest value, and are validated at a middle one too.

A time is the least of several runs, each long enough to be seen by the clock. A candidate that is
clearly slower than the best one is given up early.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import sqrt
from time import perf_counter
from typing import Any, Final, NamedTuple

from ..codegen import compile_kernel, lowered
from ..codegen.kernel import Kernel, extent
from ..contract import Launch, LinearProgram, Plan, PlanBuffer
from ..device import loading
from ..device.buffer import Buffer
from ..dtype import DType, dtypes
from ..errors import DeviceMemoryError
from ..logs import logger
from ..plugin import Device
from ..uop.linear import ranges_of
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.spec_program import verify_program
from . import pieces

log = logger("tune")

PERIOD: Final = 4093  # elements after which the data repeats: a prime, so that no stride meets it
GUARD: Final = 256  # bytes after each buffer that nobody may write
ROUNDS: Final = 12
ENOUGH: Final = 0.06  # seconds of timing for one candidate
WINDOW: Final = 200e-6  # seconds of one timed call, at least
MOST_LAUNCHES: Final = 64  # in one timed call
HOPELESS: Final = 2.0  # times the best: not looked at again
COLD: Final = 1e-3  # seconds of a first run that may be slow for other reasons
SLOWER: Final = 1.3  # times the best after a third of the rounds: given up

Call = Any  # runs a candidate `launches` times


class Made(NamedTuple):
    """A compiled candidate."""

    program: LinearProgram
    loaded: Any


class Bench:
    """Buffers and the right results of one kernel. Raises DeviceMemoryError."""

    def __init__(
        self,
        device: Device,
        canonical: Kernel,
        own: Kernel,
        name: str,
        compiled: Made | None = None,
    ) -> None:
        """`own` is the canonical kernel as its recipe has it; `compiled`, if it is there, its
        program."""
        self.device, self.name = device, name
        self.params = _params(canonical)
        self.inexact = _inexact(canonical)
        self.data = [_pattern(p) for p in self.params]
        self.buffers = [
            Buffer(device.name, p.arg[1] * p.dtype.itemsize + GUARD) for p in self.params
        ]
        self.made: dict[tuple[Any, ...], Made] = {}  # by transform list
        self.counting: dict[int, Made] = {}  # by parameter
        made = self._made(own) if compiled is None else compiled
        written = {p.slot for p in made.program.params if "w" in p.access}
        self.written = [i for i, p in enumerate(self.params) if p.arg[0] in written]
        self.values = _values(made.program)
        self.fill()
        self.expected = [self._results(made, values)[0] for values in self.values]

    # ---- what the search asks

    def measure(self, kernel: Kernel, best: float) -> float | None:
        """See `codegen.search.Bench`."""
        try:
            made = self._made(kernel)
        except (DeviceMemoryError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - a fault of the compiler: reported, not chosen
            log.warning("%s cannot be compiled as %s: %s", self.name, _shown(kernel), error)
            return None
        wrong, took = self.check(made)
        if wrong:
            log.warning("%s gives %s as %s", self.name, wrong, _shown(kernel))
            return None
        if took > max(HOPELESS * best, COLD):
            return took
        return self._timed(made, best)

    def duel(self, first: Kernel, second: Kernel) -> tuple[float, float]:
        """Seconds of both, measured in turns."""
        return self.race(self._made(first), self._made(second))

    # ---- what providers ask (and the search through the above)

    def check(self, made: Made) -> tuple[str, float]:
        """What is wrong with the results of a program, an empty string when nothing is; and the
        seconds of its slowest run."""
        took = 0.0
        for values, expected in zip(self.values, self.expected, strict=True):
            results, seconds = self._results(made, values)
            wrong = self._wrong(results, expected)
            if wrong:
                return wrong, took
            took = max(took, seconds)
        return "", took

    def fill(self) -> None:
        """Put the data into every buffer anew."""
        self._fill(range(len(self.params)))

    def spares_inputs(self) -> bool:
        """Whether every buffer that the kernel does not write still holds what was put there."""
        others = [i for i in range(len(self.buffers)) if i not in self.written]
        return all(self.buffers[i].read() == self.data[i] for i in others)

    def race(self, first: Made, second: Made) -> tuple[float, float]:
        """Seconds of both, measured in turns."""
        calls = [self._call(made, WINDOW) for made in (first, second)]
        least = [float("inf")] * 2
        for _ in range(2 * ROUNDS):
            for i, (call, launches) in enumerate(calls):
                least[i] = min(least[i], self._once(call) / launches)
        return least[0], least[1]

    # ---- running

    def _made(self, kernel: Kernel) -> Made:
        found = self.made.get(kernel.log)
        if found is None:
            program = lowered(kernel, self.device.target, self.name)
            verify_program(program, self.device.target)
            found = self.made[kernel.log] = Made(program, _loaded(self.device, program))
        return found

    def _fill(self, which: Sequence[int]) -> None:
        for i in which:
            self.buffers[i].write(memoryview(self.data[i]))

    def _results(
        self, made: Made, values: tuple[int | float, ...]
    ) -> tuple[list[bytearray], float]:
        """The bytes of what the program writes, from the same data each time, and its time."""
        self._fill(self.written)
        seconds = self._once(self._prepared(made, 1), values)
        out = []
        for i in self.written:
            data = bytearray(self.buffers[i].nbytes)
            self.buffers[i].read_into(memoryview(data))
            out.append(data)
        return out, seconds

    def _handles(self) -> list[Any]:
        return [b.handle for b in self.buffers]

    def _prepared(self, made: Made, launches: int) -> Any:
        program = made.program
        place = {p.arg[0]: i for i, p in enumerate(self.params)}
        launch = Launch(
            program.name,
            tuple(place[p.slot] for p in program.params),
            tuple((v.name,) for v in program.variables),
            program.grid,
        )
        plan = Plan(
            buffers=tuple(
                PlanBuffer("external", b.nbytes, slot=i) for i, b in enumerate(self.buffers)
            ),
            steps=(launch,) * launches,
            programs={program.name: program},
            variables=program.variables,
            edges=tuple((i, i + 1) for i in range(launches - 1)),
        )
        return pieces.alone(self.device, plan, {program.name: made.loaded}, None)

    # ---- timing

    def _timed(self, made: Made, best: float) -> float:
        call, launches = self._call(made, HOPELESS * best)
        spent = 0.0
        least = float("inf")
        for done in range(ROUNDS):
            took = self._once(call)
            spent += took
            least = min(least, took / launches)
            slower = least > SLOWER * best and done >= ROUNDS // 3
            if spent > ENOUGH or slower or least > HOPELESS * best:
                break
        return least

    def _call(self, made: Made, hopeless: float) -> tuple[Call, int]:
        """A prepared Plan of as many launches as the clock needs."""
        single = self._prepared(made, 1)
        took = min(self._once(single) for _ in range(2))
        launches = max(1, min(MOST_LAUNCHES, int(WINDOW / max(took, 1e-7))))
        if launches == 1 or took > max(hopeless, WINDOW):
            return single, 1
        many = self._prepared(made, launches)
        self._once(many)
        return many, launches

    def _once(self, call: Call, values: tuple[int | float, ...] | None = None) -> float:
        handles, numbers = self._handles(), self.values[0] if values is None else values
        start = perf_counter()
        call(handles, numbers)
        self.device.synchronize()
        return perf_counter() - start

    # ---- validating

    def _wrong(self, got: Sequence[bytearray], expected: Sequence[bytearray]) -> str:
        """What is wrong with the results, an empty string when nothing is."""
        for i, mine, theirs in zip(self.written, got, expected, strict=True):
            if mine == theirs:
                continue
            if mine[-GUARD:] != theirs[-GUARD:]:
                return "bytes after the end of a buffer"
            if not (self.inexact and self.params[i].dtype.is_float):
                return "other bits"
            count = self._far(i, theirs)
            if count:
                return f"{count} elements that are too far from the recipe's"
        return ""

    def _far(self, which: int, expected: bytearray) -> int:
        """How many elements of a written buffer are too far from `expected`: counted by a kernel
        on the device, so that no array library is needed and nothing is slow."""
        param, device = self.params[which], self.device
        wanted = Buffer(device.name, len(expected))
        wanted.write(memoryview(expected))
        count = Buffer(device.name, dtypes.int32.itemsize)
        if which not in self.counting:
            tolerance = _tolerance(param.dtype, self.inexact)
            sink = _counting(param.dtype, param.arg[1], tolerance)
            program = compile_kernel(sink, device.target, "far")
            self.counting[which] = Made(program, _loaded(device, program))
        program, loaded = self.counting[which]
        handles = [self.buffers[which].handle, wanted.handle, count.handle]
        sizes = (self.buffers[which].nbytes, wanted.nbytes, count.nbytes)
        plan = Plan(
            tuple(PlanBuffer("external", b, slot=i) for i, b in enumerate(sizes)),
            (Launch("far", tuple(p.slot for p in program.params), (), program.grid),),
            {"far": program},
        )
        device.prepare(plan, {"far": loaded}, None)(handles, ())
        device.synchronize()
        return count.read().cast("i")[0]


def _loaded(device: Device, program: LinearProgram) -> Any:
    return loading.made(device, [program])[program.name]


def _shown(kernel: Kernel) -> str:
    return "; ".join(" ".join(map(str, entry)) for entry in kernel.log)


# ---- the kernel's memory and numbers


def addresses_are_known(kernel: Kernel) -> bool:
    """Whether no unguarded address comes from data: scratch data would lead anywhere."""
    for node in toposort(kernel.stores):
        gated = len(node.src) > (1 if node.op is Ops.LOAD else 2)
        if node.op in (Ops.LOAD, Ops.STORE) and not gated:
            if any(n.op is Ops.LOAD for n in node.src[0].src[1].toposort()):
                return False
    return True


def _params(kernel: Kernel) -> list[UOp]:
    found = {n for n in toposort(kernel.stores) if n.op is Ops.PARAM}
    return sorted(found, key=lambda p: int(p.arg[0]))


def _pattern(param: UOp) -> bytes:
    """The first bytes of a buffer, repeated to its end, and a guard of other bytes."""
    dtype, n = param.dtype, param.arg[1]
    draws = b"".join(hashlib.sha512(b"%d %d" % (param.arg[0], i)).digest() for i in range(64))
    codes = [_element(dtype, code) for code in range(4)]
    once = b"".join(codes[draws[i] & 3] for i in range(PERIOD))
    nbytes = int(n * dtype.itemsize)
    return (once * (nbytes // len(once) + 1))[:nbytes] + b"\xa5" * GUARD


def _element(dtype: DType, code: int) -> bytes:
    value = code & 1 if dtype.kind == "bool" else code
    if dtype.layout is not None:
        value = dtype.layout.encode((code + 1) / 2)
    return int(value).to_bytes(dtype.itemsize, "little")


def _values(program: LinearProgram) -> list[tuple[int | float, ...]]:
    """The largest values of the variables, and values in the middle if there are any."""
    specs = program.variables
    if not specs:
        return [()]
    largest = tuple(1.5 if v.dtype.is_float else v.hi for v in specs)
    middle = tuple(0.5 if v.dtype.is_float else int(v.lo + v.hi) // 2 for v in specs)
    return [largest, middle]


# ---- the tolerance


def _inexact(kernel: Kernel) -> int:
    """Steps of the longest float sum or product, or of those inside one another; 0: there is none,
    so that every candidate must give the same bits."""
    most = 0
    for node in toposort(kernel.stores):
        if node.op in (Ops.REDUCE, Ops.SCAN) and node.arg in (Ops.ADD, Ops.MUL):
            if node.dtype.is_float:
                inside = {*node.src[1:], *ranges_of(node.src[0])}
                loops = [r for r in inside if r in kernel.reduced or r in node.src[1:]]
                most = max(most, size([extent(r) for r in loops]))
    return most


def _tolerance(dtype: DType, steps: int) -> float:
    assert dtype.layout is not None
    return float(16 * sqrt(steps) * 2.0**-dtype.layout.mantissa)


def _counting(dtype: DType, n: int, tolerance: float) -> UOp:
    """A kernel: of how many elements is buffer 0 too far from buffer 1? NaN is near NaN only."""
    loop = UOp.range(0, n, 0, "reduce") if n > 1 else UOp.index(0)
    wide = dtypes.float64 if dtype.itemsize == 8 else dtypes.float32

    def element(slot: int) -> UOp:
        param = UOp(Ops.PARAM, dtype, (), (slot, n))
        return UOp(Ops.LOAD, dtype, (UOp(Ops.INDEX, dtype, (param, loop)),)).cast(wide)

    got, want = element(0), element(1)
    size_ = want.maximum(UOp.const(wide, 0.0) - want)
    distance = (got - want).maximum(want - got)
    near = (distance <= size_ * UOp.const(wide, tolerance)) | got.eq(want)
    both = UOp.alu(Ops.CMPNE, got, got) & UOp.alu(Ops.CMPNE, want, want)
    one, zero = UOp.const(dtypes.int32, 1), UOp.const(dtypes.int32, 0)
    wrong = UOp.alu(Ops.WHERE, near | both, zero, one)
    total = UOp(Ops.REDUCE, dtypes.int32, (wrong, loop), Ops.ADD) if n > 1 else wrong
    out = UOp(Ops.PARAM, dtypes.int32, (), (2, 1))
    store = UOp(Ops.STORE, dtypes.void, (UOp(Ops.INDEX, dtypes.int32, (out, UOp.index(0))), total))
    return UOp(Ops.SINK, dtypes.void, (store,))
