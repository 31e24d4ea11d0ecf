"""How a Plan is made callable: in one piece by its device, or in several.

The usual way is `device.prepare(plan)`: one call per run, and nothing of this file is on its path.
In several pieces a Plan runs where somebody observes `polygrad_program_ran` (each step by itself,
waited for, so that its time is its own) and where some programs are not the device's own (what a
provider gave is called from Python between native pieces; so is all while a `witness` looks on).
Which it is, is decided when the Plan is prepared; when plugins come or go, whatever is prepared is
let go of and prepared anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..contract import CopyStep, Launch, Plan
from ..device.buffer import Buffer, pool
from ..hooks import installed as hooks
from ..plugin import Device, StepLoop
from . import witness

if TYPE_CHECKING:
    from .stages import PlanStage

Step = Launch | CopyStep
_prepared: weakref.WeakSet[PlanStage] = weakref.WeakSet()


class Foreign:
    """A program that the device did not load: launched from Python, a `polygrad.plugin.Program`."""

    __slots__ = ("launch",)

    def __init__(self, launch: Any) -> None:
        self.launch = launch

    def __call__(self, *handles: Any, **options: Any) -> Any:
        return self.launch(*handles, **options)


def prepare(stage: PlanStage, arena: Any) -> Any:
    """The executable of a stage, as those who are there now want it."""
    device, plan, programs = stage.device, stage.plan, stage.programs
    _prepared.add(stage)
    if witness.present is not None:
        look = witness.present.launcher
        programs = {n: Foreign(look(device, plan.programs[n], p)) for n, p in programs.items()}
        if not device.target.views:
            return Apart(device, plan, programs)
        return alone(device, plan, programs, arena)
    ran = hooks.observer("polygrad_program_ran")
    if ran is not None:
        return Observed(device, plan, programs, arena, ran)
    if any(isinstance(p, Foreign) for p in programs.values()):
        return Mixed(device, plan, programs, arena)
    return device.prepare(plan, programs, arena)


def _forget() -> None:
    for stage in list(_prepared):
        stage.executable = None


hooks.listen(_forget)


def _piece(
    device: Device, plan: Plan, steps: Sequence[Step], programs: Mapping[str, Any], arena: Any
) -> Any:
    """An executable of some steps in order, each seeing the one before."""
    edges = tuple((i, i + 1) for i in range(len(steps) - 1))
    return alone(device, replace(plan, steps=tuple(steps), setup=(), edges=edges), programs, arena)


def alone(device: Device, plan: Plan, programs: Mapping[str, Any], arena: Any) -> Any:
    """An executable that nobody observes; from Python where any step is foreign."""
    if any(_is_foreign(step, programs) for step in plan.steps):
        return StepLoop(device, plan, programs, arena)
    return device.prepare(plan, programs, arena)


def _is_foreign(step: Step, programs: Mapping[str, Any]) -> bool:
    return isinstance(step, Launch) and isinstance(programs[step.program], Foreign)


class Apart(StepLoop):
    """A Plan from Python where memory has no views: what lay in the arena has memory of its own."""

    def __init__(self, device: Device, plan: Plan, programs: Mapping[str, Any]) -> None:
        own = [i for i, b in enumerate(plan.buffers) if b.kind == "arena"]
        buffers = [b._replace(kind="own") if b.kind == "arena" else b for b in plan.buffers]
        super().__init__(device, replace(plan, buffers=tuple(buffers)), programs, None)
        self.memory = {i: Buffer.of_pool(pool(device.name), plan.buffers[i].nbytes) for i in own}
        for i, buffer in self.memory.items():
            self.views[i] = buffer.handle


class Mixed:
    """A Plan with programs that are not its device's own: pieces in order."""

    def __init__(self, device: Device, plan: Plan, programs: Mapping[str, Any], arena: Any) -> None:
        self.setup = [_piece(device, plan, plan.setup, programs, arena)] if plan.setup else []
        runs = _runs(plan.steps, programs)
        self.pieces = [_piece(device, plan, steps, programs, arena) for steps in runs]

    def __call__(self, handles: Sequence[Any], variables: Sequence[int | float] = ()) -> None:
        for piece in (*self.setup, *self.pieces):
            piece(handles, variables)
        self.setup = []


def _runs(steps: Sequence[Step], programs: Mapping[str, Any]) -> Iterator[list[Step]]:
    """Neighbours that are all the device's own, and each foreign step alone."""
    run: list[Step] = []
    for step in steps:
        if _is_foreign(step, programs):
            if run:
                yield run
            yield [step]
            run = []
        else:
            run.append(step)
    if run:
        yield run


class Observed:
    """A Plan whose steps are run one by one and told of."""

    def __init__(
        self,
        device: Device,
        plan: Plan,
        programs: Mapping[str, Any],
        arena: Any,
        notify: Callable[..., None],
    ) -> None:
        self.device, self.notify = device, notify
        self.setup = [_piece(device, plan, plan.setup, programs, arena)] if plan.setup else []
        self.steps = [
            (_about(plan, step), _piece(device, plan, [step], programs, arena))
            for step in plan.steps
        ]

    def __call__(self, handles: Sequence[Any], variables: Sequence[int | float] = ()) -> None:
        from ..hooks.specs import RunEvent

        for piece in self.setup:
            piece(handles, variables)
        self.setup = []
        events = []
        for (name, note, flops, moved), piece in self.steps:
            start = perf_counter()
            piece(handles, variables)
            self.device.synchronize()
            seconds = perf_counter() - start
            events.append(RunEvent(self.device.name, name, note, start, seconds, flops, moved))
        for event in events:  # after the Plan: what an observer does, it does between whole runs
            self.notify(event=event)


def _about(plan: Plan, step: Step) -> tuple[str, str, int, int]:
    if isinstance(step, CopyStep):
        return "copy", "", 0, 2 * step.nbytes
    program = plan.programs[step.program]
    return step.program, program.note, program.flops, program.bytes
