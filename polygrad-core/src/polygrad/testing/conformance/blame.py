"""Which kernel is to blame for a check of the whole library that failed.

The check runs once more, its kernels launched one by one from Python. What each gives is compared
with what the reference engine makes of the same program and the same bytes; the first that differs
is shown as an author wants to see it: where, by how much, the LinearProgram and the rendered text.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ... import settings
from ..._memory import clear_schedule_cache
from ...contract import LinearProgram, Param
from ...device import loading
from ...dtype import unpack
from ...engine import witness
from ...errors import told
from ...plugin import Device
from ...uop.ops import Ops
from . import values
from .check import ConformanceError, Subject, reference, report

MOST = 3  # programs shown where none is to blame
FAR = 16.0  # units in the last place of a result's largest number, where a device is not exact
QUIET = {Ops.PARAM, Ops.CONST, Ops.INDEX, Ops.GRID, Ops.RANGE, Ops.END, Ops.IF, Ops.ENDIF,
         Ops.LOCAL, Ops.VARIABLE, Ops.STORE}  # fmt: skip

Run = Callable[[Subject], None]


def explained(run: Run) -> Run:
    """`run`, its failure followed by the kernel to blame for it."""

    def check(subject: Subject) -> None:
        try:
            run(subject)
        except Exception as error:
            text = str(error) if isinstance(error, ConformanceError) else told(error)
            raise ConformanceError(f"{text}\n\n{_blamed(subject, run)}") from error

    return check


def _blamed(subject: Subject, run: Run) -> str:
    """What the check shows when it runs again."""
    looking = Comparison(subject.device)
    clear_schedule_cache()
    with settings.Context(POLY_SPEC=1), witness.looks_on(looking):
        error = _raised(lambda: run(subject))
    clear_schedule_cache()
    blame = looking.blame(error)
    programs = blame.programs[:MOST]
    return f"{blame.text}\n\n{report(subject.device, programs)}" if programs else blame.text


def _raised(run: Callable[[], Any]) -> Exception | None:
    """What `run` raises, a stranger's code."""
    try:
        run()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        return error
    return None


class Blame(NamedTuple):
    """What was found, and the programs to show."""

    text: str
    programs: tuple[LinearProgram, ...]


class Comparison:
    """The witness: compares each launch on a device with the reference engine."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.making: Sequence[LinearProgram] = ()  # that nothing was launched of yet
        self.launched: dict[str, LinearProgram] = {}
        self.launches = 0
        self.found: Blame | None = None

    def makes(self, device: Device, programs: Sequence[LinearProgram]) -> None:
        if device is self.device:
            self.making = programs

    def launcher(self, device: Device, program: LinearProgram, loaded: Any) -> Any:
        if device is not self.device:
            return loaded
        self.making = ()
        return Launcher(self, program, loaded)

    def blame(self, error: Exception | None) -> Blame:
        """What to say after the check ran again and gave `error`."""
        if self.found is not None:
            return self.found
        if error is not None and self.making:
            return self._unmade(error)
        if error is None:
            text = (
                "Its kernels launched one by one, the check passes: look at prepare(), at what"
                " synchronize() waits for, and at launches that overlap."
            )
        else:
            text = (
                f"Each of its {self.launches} launches gives what the reference makes of the same"
                " bytes: look at the allocator (alloc, write, read, copy, view)."
            )
        return Blame(text, tuple(self.launched.values()))

    def _unmade(self, error: Exception) -> Blame:
        """The first program that cannot be made by itself, else all that were made at once."""
        for program in self.making:
            own = _raised(partial(loading.made, self.device, [program]))
            if own is not None:
                text = f"Kernel {program.name} ({_uses(program)}) cannot be made: {told(own)}"
                return Blame(text + _where(own), (program,))
        text = f"{len(self.making)} kernels made at once: {told(error)}{_where(error)}"
        return Blame(text, tuple(self.making))


class Launcher:
    """A program of the device that is compared at each launch until a difference is found."""

    def __init__(self, comparison: Comparison, program: LinearProgram, loaded: Any) -> None:
        self.comparison, self.program, self.loaded = comparison, program, loaded

    def __call__(self, *handles: Any, scalars: tuple[Any, ...] = (), **options: Any) -> None:
        comparison, program = self.comparison, self.program
        comparison.launched[program.name] = program
        comparison.launches += 1
        if comparison.found is not None:
            self.loaded(*handles, scalars=scalars, **options)
            return
        place = f"Launch {comparison.launches}, kernel {program.name} ({_uses(program)})"
        before = self._contents(handles)
        try:
            self.loaded(*handles, scalars=scalars, **options)
            comparison.device.synchronize()
        except Exception as error:
            comparison.found = Blame(f"{place}: {told(error)}{_where(error)}", (program,))
            raise
        wanted = reference(program, *before, scalars=scalars)
        for difference in self._differences(self._contents(handles), wanted):
            text = f"{place} is the first to differ from the reference:\n{difference}"
            comparison.found = Blame(text, (program,))
            return

    def _contents(self, handles: Sequence[Any]) -> list[bytes]:
        out = []
        for param, handle in zip(self.program.params, handles, strict=True):
            room = bytearray(param.size * param.dtype.itemsize)
            if room:
                self.comparison.device.allocator.read(memoryview(room), handle)
            out.append(bytes(room))
        return out

    def _differences(self, got: Sequence[bytes], wanted: Sequence[bytes]) -> Iterator[str]:
        """The first element of each buffer that differs."""
        exact = _is_exact(self.program, self.comparison.device)
        for i, param in enumerate(self.program.params):
            for at, a, b in self._unequal(param, got[i], wanted[i], exact):
                kind = f"{param.dtype.name}, {param.size} elements"
                yield f"buffer {i} ({kind}), element {at}: got {a!r}, expected {b!r}"
                break

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
    rough = {Ops.EXP2, Ops.LOG2, Ops.SIN}.intersection(device.target.ops)
    return "no_contract" in device.target.exact and not any(i.op in rough for i in program.ops)


def _uses(program: LinearProgram) -> str:
    """`LOAD float32, ADD float32`: what a program computes with."""
    found = {f"{i.op.name} {i.dtype.name}": None for i in program.ops if i.op not in QUIET}
    return ", ".join(found)


def _where(error: BaseException) -> str:
    """The line of an author's file that raised, on a line of its own."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"\n{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
