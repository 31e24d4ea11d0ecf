"""The hooks themselves: their names, their arguments, and the data that is handed to them.

Arguments are given by keyword, so an implementation takes only those it needs, in any order. A
later release may add arguments; one that is to go is warned of for a minor before. No wrappers: an
implementation gives its own answer and sees nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from ..contract import LinearProgram
    from ..plugin import Device, Program
    from ..target import Target
    from ..uop.ops import UOp
    from ..uop.rewrite import Rules
    from .matmul import Matmul

PROJECT = "polygrad"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True)
class Config:
    """Whom a plugin has to do with."""

    version: str  # of polygrad-core
    api: tuple[int, int]  # the newest plugin API it offers


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device that works here, as `polygrad_select_device` sees it."""

    name: str
    arch: str
    count: int  # 0: as many as are asked for
    package: str  # distribution and version


@dataclass(frozen=True, slots=True)
class CompileEvent:
    """Kernels that became programs: generated and compiled, or found on disk."""

    device: str
    programs: tuple[str, ...]  # names
    notes: tuple[str, ...]  # for people: shape, recipe, transforms; one per program
    source: str  # "compiled" or "disk"
    start: float  # time.perf_counter()
    seconds: float


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One launch of a program, or a copy of the device's own."""

    device: str
    program: str  # its name, "copy" for a copy
    note: str
    start: float  # time.perf_counter()
    seconds: float  # until the device had finished
    flops: int  # arithmetic, an estimate
    bytes: int  # distinct bytes touched, an estimate


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """A kernel that a provider may have a better program for.

    `program` is the compiler's own; its `ops` are empty where the program came from disk. `sink` is
    the kernel as an expression.
    """

    device: Device
    sink: UOp
    program: LinearProgram

    @property
    def matmul(self) -> Matmul | None:
        """The product of matrices that it is; None if it is anything else."""
        from .matmul import matmul_of

        return matmul_of(self.sink, self.program.params)


@dataclass(frozen=True, slots=True)
class Check:
    """One question of `polygrad doctor`. `run` gives what is wrong, an empty text if nothing is."""

    name: str
    run: Callable[[], str]
    fix: str = ""  # what to do about it


@dataclass(slots=True)
class Commands:
    """Where a plugin puts verbs of its own for the command line.

    `run` takes the parsed arguments and gives (data for --json, text for people, whether all is
    well). `arguments` are (flags, options) for `argparse.ArgumentParser.add_argument`.
    """

    found: dict[str, tuple[Callable[[Any], tuple[Any, str, bool]], str, Sequence[Any]]] = field(
        default_factory=dict
    )

    def add(
        self,
        name: str,
        run: Callable[[Any], tuple[Any, str, bool]],
        help: str,
        arguments: Sequence[tuple[Sequence[str], Mapping[str, Any]]] = (),
    ) -> None:
        if not (isinstance(name, str) and callable(run)):
            raise TypeError(f"a verb has a name and something to call, not {name!r} and {run!r}")
        self.found.setdefault(name, (run, help, arguments))


@hookspec(historic=True)
def polygrad_configure(config: Config) -> None:
    """Called once for each plugin, before any other hook of it."""


@hookspec(firstresult=True)
def polygrad_select_device(requested: str | None, candidates: Sequence[DeviceInfo]) -> str | None:
    """Choose among the devices that `POLY_DEV=auto` found to work, best first; None: no opinion.
    `requested` is the text of POLY_DEV, None if unset. Never called for an explicit POLY_DEV."""


@hookspec
def polygrad_rewrite_rules(stage: str, target: Target) -> Rules | None:
    """Rules for the graphs of a stage. There is one stage, "kernel": each kernel's expression
    before it is named, optimized and lowered. Asked once per stage and target."""


@hookspec(firstresult=True)
def polygrad_resolve_source(uri: str) -> Path | None:
    """The local file behind `Model.load("hf:…")` and the like; None: not mine."""


@hookspec
def polygrad_provide_kernel(kernel: KernelRequest) -> LinearProgram | Program | None:
    """Another program for a kernel: a LinearProgram of the same params, or something to launch.
    Asked only with POLY_KERNELS=provider, and used if its results agree with those of the
    compiler's own and it is faster."""


@hookspec
def polygrad_kernel_compiled(event: CompileEvent) -> None:
    """Observes: kernels became programs."""


@hookspec
def polygrad_program_ran(event: RunEvent) -> None:
    """Observes: a program ran. While anybody implements it, each step of a Plan is run by itself
    and waited for."""


@hookspec
def polygrad_checks() -> Iterable[Check]:
    """More questions for `polygrad doctor`."""
    raise NotImplementedError


@hookspec
def polygrad_commands(commands: Commands) -> None:
    """More verbs for the command line."""


@hookspec
def polygrad_report() -> Mapping[str, str]:
    """More lines for `polygrad env`."""
    raise NotImplementedError
