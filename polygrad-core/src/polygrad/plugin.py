"""What an author of a device, a format or a model family imports: descriptors and base classes.

This file is the whole contract between the core and a package that adds a machine. It stands below
the registry, imports nothing but the standard library, and knows no device by name.

A package has a *descriptor* behind an entry point (group `polygrad.devices`), a *probe* that says
whether the machine can be used here, and a `Device` that is opened only when its name is asked
for::

    [project.entry-points."polygrad.devices"]
    acme = "polygrad_backend_acme.plugin:plugin"

    plugin = DevicePlugin(name="acme", api=(1, 0), device="polygrad_backend_acme.device:AcmeDevice",
                          probe="polygrad_backend_acme.probe:probe", summary="Acme NPUs")

The descriptor names things by string, so that importing its module costs nothing. The device then
gives an `Allocator` (memory), a `Renderer` (LinearProgram -> text), a `Compiler` (text -> bytes)
and `load` (bytes -> programs that can be launched). What the machine can do is declared in its
`Target`, never sniffed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from .contract import Binary, LinearProgram, Plan, Source
    from .target import Target

API: tuple[int, int] = (1, 0)  # the newest plugin API this core offers
SUPPORTED: Mapping[int, int] = {1: 0}  # major -> newest minor of it

H = TypeVar("H")  # a backend's opaque handle of one piece of memory

# ---- descriptors: eq=False, because a plugin manager refuses a plugin that equals another


class _Checked:
    """A dataclass whose fields are what `_FIELDS` says of their names. Raises TypeError."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for field, (expected, fits) in _FIELDS.items():
            value = getattr(self, field, None)
            if hasattr(self, field) and not fits(value):
                raise TypeError(f"{type(self).__name__}.{field} is {value!r}, expected {expected}")


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and all(value.partition(":"))


def _is_magic(value: Any) -> bool:
    return isinstance(value, tuple) and tuple(map(type, value)) == (int, bytes)


_REFERENCE = ("text of the form 'package.module:attribute'", _is_reference)
_TEXT = ("text", lambda v: isinstance(v, str))
_TEXTS = ("a tuple of texts", lambda v: type(v) is tuple and all(type(x) is str for x in v))
_FIELDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("device", "probe", "reader", "build"), _REFERENCE),
    **dict.fromkeys(("writer", "cross"), (_REFERENCE[0], lambda v: not v or _is_reference(v))),
    **dict.fromkeys(("name", "summary", "homepage", "arch", "detail", "hint"), _TEXT),
    **dict.fromkeys(("aliases", "suffixes", "architectures"), _TEXTS),
    "magic": ("a tuple of (offset, bytes)", lambda v: type(v) is tuple and all(map(_is_magic, v))),
    **dict.fromkeys(("ok", "hardware"), ("True or False", lambda v: isinstance(v, bool))),
    "count": ("a number from 0 on", lambda v: type(v) is int and v >= 0),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DevicePlugin(_Checked):
    """A kind of device. `api` is the least plugin API the package needs."""

    name: str  # equals the entry point's name
    api: tuple[int, int]
    device: str  # "package.module:Class", a Device
    probe: str  # "package.module:function", () -> Probe
    summary: str = ""  # one line for `polygrad devices`
    aliases: tuple[str, ...] = ()
    homepage: str = ""
    cross: str = ""  # "package.module:function", (arch: str) -> CrossTools: with no machine here


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FormatPlugin(_Checked):
    """A file format: how to know it, and where its reader and writer are."""

    name: str
    api: tuple[int, int]
    reader: str
    writer: str | None = None
    suffixes: tuple[str, ...] = ()
    magic: tuple[tuple[int, bytes], ...] = ()  # (offset, bytes) that must all match
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelPlugin(_Checked):
    """A family of models, by the architecture names that checkpoints carry."""

    name: str
    api: tuple[int, int]
    build: str
    architectures: tuple[str, ...] = ()
    summary: str = ""


Descriptor = DevicePlugin | FormatPlugin | ModelPlugin


@dataclass(frozen=True, slots=True)
class Probe(_Checked):
    """What a probe returns; it never raises. Without `hardware` there is nothing to drive here."""

    ok: bool
    count: int = 0  # how many there are, numbered from 0; 0: as many as are asked for
    arch: str = ""
    detail: str = ""  # why not, in one clause: "libcuda.so.1 not found"
    hint: str = ""  # what to do: "install the NVIDIA driver"
    hardware: bool = True


@dataclass(frozen=True, slots=True)
class CrossTools:
    """What compiles for a machine that is not here (`polygrad compile`)."""

    target: Target
    renderer: Renderer
    compiler: Compiler


_static: list[Descriptor] = []


def register(descriptor: Descriptor) -> None:
    """Offer `descriptor` without an entry point: tests, and applications frozen into one file."""
    if not isinstance(descriptor, DevicePlugin | FormatPlugin | ModelPlugin):
        raise TypeError(f"register() takes a descriptor, not {type(descriptor).__name__}")
    _static.append(descriptor)


def registered() -> tuple[Descriptor, ...]:
    """The descriptors given to `register`, in order; the registry reads them."""
    return tuple(_static)


# ---- the machine


class Device(ABC):
    """One opened device, such as "cuda:1". The core makes one per name and index and keeps it."""

    name: str  # "cuda", or "cuda:1" for another than the first
    target: Target
    allocator: Allocator[Any]
    renderer: Renderer
    compiler: Compiler

    forked: int = 0  # in a fork: the process that opened this device, which only that one may use

    @classmethod
    @abstractmethod
    def open(cls, index: int, options: Mapping[str, str]) -> Device:
        """Make device number `index`. Whatever it raises is reported as DeviceUnavailable."""

    @abstractmethod
    def load(self, binary: Binary) -> Mapping[str, Program]:
        """Make the programs of `binary` ready to launch, by program name."""

    def prepare(
        self, plan: Plan, programs: Mapping[str, Program], arena: Any | None
    ) -> Executable[Any]:
        """Make `plan` callable. The default is a Python loop over the steps."""
        return StepLoop(self, plan, programs, arena)

    def synchronize(self) -> None:
        """Wait until everything launched so far has finished."""

    def close(self) -> None:
        """Give everything back. May be called twice; at exit the last opened goes first."""


class Allocator(ABC, Generic[H]):
    """Raw memory of one device. The core owns caching, so `free` really frees."""

    @abstractmethod
    def alloc(self, nbytes: int, *, zeroed: bool = False) -> H:
        """`nbytes` > 0 bytes at `target.align`. Raises MemoryError; never returns None."""

    @abstractmethod
    def free(self, handle: H) -> None:
        """Called exactly once per `alloc`, never for a `view`."""

    @abstractmethod
    def write(self, dst: H, src: memoryview, offset: int = 0) -> None:
        """Copy all of `src` (contiguous bytes) to `dst` at byte `offset`, after everything launched
        before: a launch still to run does not see it."""

    @abstractmethod
    def read(self, dst: memoryview, src: H, offset: int = 0) -> None:
        """Fill all of `dst` from `src` at byte `offset`, after everything launched before."""

    def view(self, base: H, offset: int, nbytes: int) -> H:
        """A handle that aliases a part of `base`. Called only if `target.views`."""
        raise NotImplementedError(f"{type(self).__name__} declares target.views but lacks view()")

    def copy(self, dst: H, src: H, nbytes: int, peer: Device) -> None:
        """Copy from a handle of `peer`, perhaps this device; the default goes by the host."""
        staging = bytearray(nbytes)
        peer.allocator.read(memoryview(staging), src)
        self.write(dst, memoryview(staging))


class Renderer(ABC):
    """LinearPrograms to source. Pure: importable and usable where there is no driver."""

    key: str  # stable; part of the kernel cache key

    def __init__(self, target: Target) -> None:
        self.target = target

    @abstractmethod
    def render(self, programs: Sequence[LinearProgram]) -> Source:
        """Print `programs` as one unit. Raises UnsupportedOp; same programs, same bytes."""


class Compiler(Protocol):
    """Source to binary."""

    @property
    def key(self) -> str:
        """Tool, version and flags; part of the kernel cache key. Empty: not worth caching."""

    def __call__(self, source: Source) -> Binary:
        """May be called from several threads. Raises CompileError with the tool's log."""


class Program(Protocol):
    """One kernel that can be launched."""

    def __call__(
        self,
        *handles: Any,
        grid: tuple[int, ...] = (),
        scalars: tuple[int | float, ...] = (),
        wait: bool = False,
    ) -> float | None:
        """Launch on `handles` (one per param). With `wait`, return the seconds it took."""


H_contra = TypeVar("H_contra", contravariant=True)


class Executable(Protocol[H_contra]):
    """A prepared Plan."""

    def __call__(self, handles: Sequence[H_contra], variables: Sequence[int | float] = ()) -> None:
        """Run one step: `handles` by external slot, `variables` in the order of Plan.variables.

        Called from any thread, never twice at once with the same Plan or arena: the engine holds
        the lock of the runtime that has them."""


class StepLoop:
    """The default Executable: a Python loop over the steps. Arena views are made once."""

    def __init__(
        self, device: Device, plan: Plan, programs: Mapping[str, Program], arena: Any | None
    ) -> None:
        self.device, self.plan, self.programs = device, plan, programs
        self.names = tuple(v.name for v in plan.variables)
        view = device.allocator.view
        self.views = [
            view(arena, b.offset, b.nbytes) if b.kind == "arena" else None for b in plan.buffers
        ]
        self.slots = [b.slot if b.kind == "external" else -1 for b in plan.buffers]
        self.fresh = bool(plan.setup)  # `setup` runs before the first step only

    def __call__(self, handles: Sequence[Any], variables: Sequence[int | float] = ()) -> None:
        at = [self.views[i] if slot < 0 else handles[slot] for i, slot in enumerate(self.slots)]
        values = dict(zip(self.names, variables, strict=True))
        if self.fresh:
            self._run(self.plan.setup, at, values)
            self.fresh = False
        self._run(self.plan.steps, at, values)

    def _run(self, steps: Sequence[Any], at: list[Any], values: Mapping[str, Any]) -> None:
        from .contract import CopyStep, evaluate

        for step in steps:
            if isinstance(step, CopyStep):
                self.device.allocator.copy(at[step.dst], at[step.src], step.nbytes, self.device)
                continue
            self.programs[step.program](
                *[at[i] for i in step.buffers],
                grid=tuple(evaluate(g, values) for g in step.grid),
                scalars=tuple(evaluate(s, values) for s in step.scalars),
            )
