"""Which kernel is to blame for a check of the whole library that failed.

The check runs once more, its kernels launched one by one from Python. What each gives is compared
with what the reference engine makes of the same program and the same bytes; the first that differs
is shown as an author wants to see it: where, by how much, the LinearProgram and the rendered text.
"""

from __future__ import annotations

import math
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

from ... import settings
from ..._memory import clear_schedule_cache
from ...contract import LinearProgram, Param
from ...device import loading
from ...dtype import unpack
from ...engine import witness
from ...errors import PolygradError, pass_on, told
from ...plugin import Device
from ...uop.ops import Ops
from ..assembler import launch
from . import values
from .check import ConformanceError, Subject, memory_of, raised, reference, report, said
from .memory import noise

MOST = 3  # programs shown where none is to blame
FAR = 16.0  # units in the last place of a result's largest number, where a device is not exact
UNKEPT = (
    "What is written to memory of as many bytes does not come back: look at the allocator, whether"
    " handles overlap."
)
LATER = 0.05  # seconds after which a result is read
LATE = f"Read {LATER} s later it is right: synchronize() or read() does not wait for the launch."
INVERTED = bytes(range(255, -1, -1))
FLIPPED = "on memory whose bytes were others before"
ALONE = (
    "Launched by itself, on memory of its own, it gives what the reference makes: look at what a"
    " program keeps from an earlier launch, what read() does, and at memory that overlaps."
)
ANEW = (
    "Made anew, alone in its module, it gives what the reference makes: look at how load() tells"
    " the programs of a module apart, and at what a program keeps from an earlier launch."
)
ROUND = (
    "Its kernels launched one by one, the check passes: look at prepare(), at what synchronize()"
    " and read() wait for, and at launches that overlap."
)
UNSTEADY = (
    "Run a second time, the check passed: the device does not always give the same. Look at what"
    " synchronize() and read() wait for, at launches that overlap, and at what is kept of them."
)
QUIET = {Ops.PARAM, Ops.CONST, Ops.INDEX, Ops.GRID, Ops.RANGE, Ops.END, Ops.IF, Ops.ENDIF,
         Ops.LOCAL, Ops.VARIABLE, Ops.STORE}  # fmt: skip

Run = Callable[[Subject], None]


def explained(run: Run) -> Run:
    """`run`, its failure followed by the kernel to blame for it."""

    def check(subject: Subject) -> None:
        error = raised(lambda: run(subject))
        if error is not None:
            raise ConformanceError(f"{said(error)}\n\n{_blamed(subject, run)}") from error

    return check


def _blamed(subject: Subject, run: Run) -> str:
    """What the check shows when it runs again: as it was, which must come first since right results
    may lie in memory afterwards, then launch by launch."""
    again = _again(subject, run)
    looking = Comparison(subject.device)
    with witness.looks_on(looking):
        error = _again(subject, run)
    blame = looking.blame(error) or Blame(ROUND + _where(again), looking.shown)
    texts = [blame.text, UNSTEADY if again is None else ""]
    texts.append(report(subject.device, blame.programs[:MOST]))
    return "\n\n".join(filter(None, texts))


def _again(subject: Subject, run: Run) -> BaseException | None:
    """What `run` raises with all kernels made anew, after all that is still running; what is made
    here is used by nobody else."""
    raised(subject.device.synchronize)
    clear_schedule_cache()
    try:
        with settings.Context(POLY_SPEC=1, POLY_TRACEBACK="full"):
            return raised(lambda: run(subject))
    finally:
        clear_schedule_cache()


class Blame(NamedTuple):
    """What was found, and the programs to show."""

    text: str
    programs: tuple[LinearProgram, ...]


class Comparison:
    """The witness: compares each launch on a device with the reference engine."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.making: Sequence[LinearProgram] = ()  # that are being made
        self.ready: dict[str, LinearProgram] = {}  # that were made
        self.launched: dict[str, LinearProgram] = {}
        self.launches = 0
        self.found: Blame | None = None

    def makes(self, device: Device, programs: Sequence[LinearProgram]) -> None:
        if device is self.device:
            self.making = programs

    def made(self, device: Device, programs: Sequence[LinearProgram]) -> None:
        if device is self.device:
            self.making = ()
            self.ready |= {p.name: p for p in programs}

    def launcher(self, device: Device, program: LinearProgram, loaded: Any) -> Any:
        return Launcher(self, program, loaded) if device is self.device else loaded

    @property
    def shown(self) -> tuple[LinearProgram, ...]:
        """The programs to show where none is to blame."""
        return tuple((self.launched or self.ready).values())

    def blame(self, error: BaseException | None) -> Blame | None:
        """What to say after the check ran again and gave `error`; None where it passed."""
        if self.found is not None or error is None:
            return self.found
        if self.making:
            return self._unmade(error)
        text = (
            f"Each of its {self.launches} launches gives what the reference makes of the same"
            " bytes: look at the allocator (alloc, write, read, copy, view)."
        )
        if not self.launches:
            made = f"of {len(self.ready)} that were made" if self.ready else "none was made yet"
            text = f"No kernel was launched ({made}): look at the allocator (alloc, write, view)."
        return Blame(text + _where(error), self.shown)

    def _unmade(self, error: BaseException) -> Blame:
        """The first program that cannot be made by itself, else all that were made at once."""
        for program in self.making:
            own = raised(partial(loading.made, self.device, [program]))
            if own is not None:
                text = f"Kernel {program.name} ({_uses(program)}) cannot be made: {told(own)}"
                return Blame(text + _where(own), (program,))
        text = f"{len(self.making)} kernels made at once: {told(error)}{_where(error)}"
        return Blame(text, tuple(self.making))


class Launcher:
    """A program of the device that is compared at each launch until a difference is found."""

    def __init__(self, comparison: Comparison, program: LinearProgram, loaded: Any) -> None:
        self.comparison, self.program, self.loaded = comparison, program, loaded

    def __call__(self, *handles: Any, scalars: tuple[Any, ...] = (), **options: Any) -> Any:
        comparison, program = self.comparison, self.program
        comparison.launched[program.name] = program
        comparison.launches += 1
        if comparison.found is not None:
            return self.loaded(*handles, scalars=scalars, **options)
        place = f"Launch {comparison.launches}, kernel {program.name} ({_uses(program)})"
        with self._blamed(f"{place}, its buffers read before"):
            before = self._contents(handles)
        with self._blamed(place):
            took = self.loaded(*handles, scalars=scalars, **options)
        with self._blamed(f"{place}, synchronize() after it"):
            comparison.device.synchronize()
        with self._blamed(f"{place}, its buffers read after"):
            after = self._contents(handles)
        with self._blamed(f"{place}, its bytes are none that the reference can run on"):
            wanted = reference(program, *before, scalars=scalars)
        difference = self._difference(after, wanted)
        if difference:
            text = f"{place} is the first to differ from the reference:\n{difference}"
            text += self._aside(before, wanted, scalars)
            comparison.found = Blame(text, (program,))
        else:
            self._compare_alone(place, before, scalars)
        return took

    def _compare_alone(self, place: str, before: Sequence[bytes], scalars: tuple[Any, ...]) -> None:
        """The same launch on memory of its own, where a result that was never written cannot be
        right by chance, and bytes behind each buffer are watched."""
        params = self.program.params
        given = [
            data.translate(INVERTED) if param.access == "w" else data
            for param, data in zip(params, before, strict=True)
        ]
        got, error = self._launched(given, scalars, self.loaded)
        wanted = reference(self.program, *given, scalars=scalars)
        difference = told(error) if error else self._difference(got, wanted)
        if difference and self._keeps():
            text = f"{place} is the first to differ from the reference, {FLIPPED}:\n{difference}"
            text += self._aside(given, wanted, scalars)
            self.comparison.found = Blame(text, (self.program,))

    def _keeps(self) -> bool:
        """Whether what is written to memory of the buffers' sizes, one after another, comes back.
        Each is given other bytes: those of overlapping buffers are the same already."""
        sizes = [n for n in (p.size * p.dtype.itemsize for p in self.program.params) if n]
        given = [noise(nbytes, place) for place, nbytes in enumerate(sizes)]
        allocator, rooms = self.comparison.device.allocator, [bytearray(n) for n in sizes]

        def trip() -> None:
            with memory_of(self.comparison.device) as alloc:
                handles = [alloc(nbytes) for nbytes in sizes]
                for handle, data in zip(handles, given, strict=True):
                    allocator.write(handle, memoryview(data))
                for handle, room in zip(handles, rooms, strict=True):
                    allocator.read(memoryview(room), handle)

        return raised(trip) is None and rooms == given

    def _launched(
        self, given: Sequence[bytes], scalars: tuple[Any, ...], loaded: Any
    ) -> tuple[list[bytes], BaseException | None]:
        """What a launch on memory of its own gives, or raises."""
        out: list[bytes] = []
        device, program = self.comparison.device, self.program
        error = raised(
            lambda: out.extend(launch(device, program, *given, scalars=scalars, loaded=loaded))
        )
        return out, error

    @contextmanager
    def _blamed(self, place: str) -> Iterator[None]:
        """What is raised inside is found."""
        try:
            yield
        except BaseException as error:
            pass_on(error)
            text = f"{place}: {told(error)}{_where(error)}"
            self.comparison.found = Blame(text, (self.program,))
            raise

    def _aside(
        self, given: Sequence[bytes], wanted: Sequence[bytes], scalars: tuple[Any, ...]
    ) -> str:
        """What to look at if it is not the kernel that is wrong."""
        if not self._keeps():
            return f"\n{UNKEPT}"
        for loaded, text in ((self.loaded, ALONE), (self._patient, LATE), (None, ANEW)):
            got, error = self._launched(given, scalars, loaded)
            if error is not None:
                return f"\nLaunched by itself, on memory of its own: {told(error)}"
            if not self._difference(got, wanted):
                return f"\n{text}"
        return ""

    def _patient(self, *handles: Any, **options: Any) -> None:
        self.loaded(*handles, **options)
        time.sleep(LATER)

    def _contents(self, handles: Sequence[Any]) -> list[bytes]:
        out = []
        for param, handle in zip(self.program.params, handles, strict=True):
            room = bytearray(param.size * param.dtype.itemsize)
            if room:
                self.comparison.device.allocator.read(memoryview(room), handle)
            out.append(bytes(room))
        return out

    def _difference(self, got: Sequence[bytes], wanted: Sequence[bytes]) -> str:
        """The first element of each buffer that differs."""
        exact, found = _is_exact(self.program, self.comparison.device), []
        for i, param in enumerate(self.program.params):
            for at, a, b in self._unequal(param, got[i], wanted[i], exact):
                kind = f"{param.dtype.name}, {param.size} elements"
                kind += ", only read" if param.access == "r" else ""
                found.append(f"buffer {i} ({kind}), element {at}: got {a!r}, expected {b!r}")
                break
        return "\n".join(found)

    def _unequal(
        self, param: Param, got: bytes, wanted: bytes, exact: bool
    ) -> Iterator[tuple[int, Any, Any]]:
        if got == wanted:
            return
        dtype, target = values.memory_dtype(param.dtype), self.comparison.device.target
        theirs = unpack(dtype, wanted)
        largest = max((abs(x) for x in theirs if math.isfinite(x)), default=0)
        for at, (a, b) in enumerate(zip(unpack(dtype, got), theirs, strict=True)):
            if values.leaves_out(target, dtype, (b,)) or values.close(dtype, a, b, 0.0):
                continue
            near = dtype.is_float and not exact and math.isfinite(a) and math.isfinite(b)
            if not near or values.distance(dtype, largest + abs(a - b), largest) > FAR:
                yield at, a, b


def _is_exact(program: LinearProgram, device: Device) -> bool:
    """Whether the contract asks for the reference's bits."""
    rough = {Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.FMA}.intersection(device.target.ops)
    return "no_contract" in device.target.exact and not any(i.op in rough for i in program.ops)


def _uses(program: LinearProgram) -> str:
    """`LOAD float32, ADD float32`: what a program computes with."""
    found = {f"{i.op.name} {i.dtype.name}": None for i in program.ops if i.op not in QUIET}
    return ", ".join(found)


def _where(error: BaseException | None) -> str:
    """The lines of an author's files that raised, the last two, each on a line of its own; of an
    error that was told in another's words, of the first."""
    if error is None or isinstance(error, ConformanceError):
        return ""
    frames: list[tuple[FrameType, int]] = []
    while error is not None:
        own = list(traceback.walk_tb(error.__traceback__))
        theirs = [(f, at) for f, at in own if not _is_library(f.f_globals.get("__name__"))]
        known = [] if isinstance(error, PolygradError) else own[-1:]  # its text says who it was
        frames = theirs[-2:] or frames or known
        error = error.__cause__
    return "".join(f"\n{f.f_code.co_filename}:{at}" for f, at in frames)


def _is_library(module: object) -> bool:
    """Whether a module is the core's or of the standard library; generated code has no name."""
    package = str(module).partition(".")[0]
    return package == "polygrad" or package in sys.stdlib_module_names
