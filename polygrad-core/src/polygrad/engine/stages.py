"""From a schedule to stages: each a Plan of one device, or a copy between two.

A schedule is an ordered list of kernels and copies over leaves. Here leaves become *slots* of a
routine (its inputs first, then everything that needs a Buffer of its own: results, and values that
cross stages) or ranges of the device's arena. Neighbouring items of one device make one Plan,
which runs by one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from .. import device as devices
from .. import settings
from ..contract import CopyStep, Launch, LinearProgram, Plan, PlanBuffer, Postfix, VariableSpec
from ..device import opened
from ..device.buffer import Pool, pool
from ..dtype import DType, dtypes
from ..errors import DeviceMemoryError, StateError
from ..plugin import Device
from ..schedule import CopyItem, KernelItem, Schedule
from ..uop.ops import UOp
from ..uop.sizes import capacity
from . import kernels, pieces
from .counters import Counters
from .memory import Access, Lifetime, dependencies, place
from .runtime import Runtime

Item = KernelItem | CopyItem


def most_buffers(device: str) -> int:
    """How many buffers one kernel of a device may have."""
    return devices.get(device).target.max_buffers


def float_lanes(device: str) -> int:
    """How many float32 a vector of a device has."""
    return devices.get(device).target.float_lanes


def nbytes(leaf: UOp) -> int:
    """Bytes that a leaf's Buffer has: those of its largest size."""
    return capacity(leaf.shape) * leaf.dtype.itemsize


class Fresh(NamedTuple):
    """A slot that needs a new Buffer at each run."""

    device: str
    nbytes: int


class PlanStage:
    """One call of one device. `externals[i]` is the routine's slot behind external slot i,
    `variables` are positions in the routine's variables."""

    __slots__ = (
        "__weakref__",
        "device",
        "executable",
        "externals",
        "generation",
        "plan",
        "pool",
        "programs",
        "timed",
        "variables",
    )

    def __init__(
        self,
        device: Device,
        plan: Plan,
        programs: Mapping[str, Any],
        externals: tuple[int, ...],
        variables: tuple[int, ...],
    ) -> None:
        self.device, self.plan, self.programs = device, plan, programs
        self.externals, self.variables = externals, variables
        self.timed = bool(settings.get("TIMING"))
        self.executable: Any = None
        self.generation = -1  # of the arena that `executable` was prepared for
        self.pool: Pool | None = None  # that of the device, once it is `ready`


class CopyStage(NamedTuple):
    """A whole buffer from one device to another, between slots of the routine."""

    dst: int
    src: int
    nbytes: int


class Routine:
    """What a graph became: slots, stages in order, and where results and new versions are.

    Slots below `inputs` are given at each run, the others are `fresh`. `writes` are (input slot,
    slot of the new value), equal where the kernel writes in place.
    """

    __slots__ = (
        "bytes_moved",
        "calls",
        "copies",
        "fresh",
        "in_place",
        "inputs",
        "launches",
        "ops",
        "results",
        "stages",
        "variables",
        "writes",
    )

    def __init__(
        self,
        inputs: int,
        fresh: tuple[Fresh, ...],
        stages: tuple[PlanStage | CopyStage, ...],
        results: tuple[int, ...],
        writes: tuple[tuple[int, int], ...],
        variables: tuple[str, ...],
    ) -> None:
        self.inputs, self.fresh, self.stages = inputs, fresh, stages
        self.results, self.writes, self.variables = results, writes, variables
        self.in_place = frozenset(old for old, new in writes if old == new)
        plans = [s.plan for s in stages if isinstance(s, PlanStage)]
        launched = [p.programs[s.program] for p in plans for s in p.steps if isinstance(s, Launch)]
        self.launches = len(launched)
        self.ops = sum(program.flops for program in launched)
        self.bytes_moved = sum(program.bytes for program in launched)
        self.calls, self.copies = len(stages), len(stages) - len(plans)

    def count(self, counters: Counters) -> None:
        """Note one run."""
        counters.runs += self.calls
        counters.launches += self.launches
        counters.ops += self.ops
        counters.bytes_moved += self.bytes_moved
        counters.copies += self.copies

    @property
    def usable(self) -> bool:
        """Whether its devices are still open (closed and opened again is another device)."""
        stages = [s for s in self.stages if isinstance(s, PlanStage)]
        return all(devices.get(s.device.name) is s.device for s in stages)


def assemble(
    schedule: Schedule,
    inputs: Mapping[UOp, int],
    count: int,
    variables: Sequence[UOp],
) -> Routine:
    """Compile the kernels of `schedule` and lay out its memory.

    `inputs` gives the slot of each leaf that has memory already, `count` how many there are
    (leaves may share one). `variables` are those of the routine, in order. `ending` adds copies
    (dst, src) after the last item.
    """
    groups = _grouped(schedule.items)
    slots, fresh = _slots(schedule, groups, inputs, count)
    compiled = _compile(schedule.items)
    names = {v: i for i, v in enumerate(v.arg[0] for v in variables)}
    stages: list[PlanStage | CopyStage] = []
    for where, group in groups:
        if where is None:
            item = group[0]
            assert isinstance(item, CopyItem)
            stages.append(CopyStage(slots[item.dst], slots[item.src], nbytes(item.src)))
        else:
            stages.append(_Planner(where, slots, compiled, names).plan(group))
    return Routine(
        count,
        tuple(fresh),
        tuple(stages),
        tuple(slots[r] for r in schedule.results),
        tuple((slots[old], slots[new]) for old, new in dict(schedule.writes).items()),
        tuple(names),
    )


def _grouped(items: Sequence[Item]) -> list[tuple[str | None, list[Item]]]:
    """Runs of one device, and crossings (None) alone."""
    groups: list[tuple[str | None, list[Item]]] = []
    for item in items:
        if isinstance(item, CopyItem):
            same = item.dst.arg[2] == item.src.arg[2]
            where = item.dst.arg[2] if same else None
        else:
            where = item.device
        if where is not None and groups and groups[-1][0] == where:
            groups[-1][1].append(item)
        else:
            groups.append((where, [item]))
    return groups


def _leaves(item: Item) -> tuple[UOp, ...]:
    return (item.dst, item.src) if isinstance(item, CopyItem) else item.buffers


def _slots(
    schedule: Schedule,
    groups: Sequence[tuple[str | None, list[Item]]],
    inputs: Mapping[UOp, int],
    count: int,
) -> tuple[dict[UOp, int], list[Fresh]]:
    """Slots of inputs, of results and of what crosses stages; other leaves live in an arena."""
    slots = dict(inputs)
    fresh: list[Fresh] = []

    def add(leaf: UOp) -> None:
        if leaf not in slots:
            slots[leaf] = count + len(fresh)
            fresh.append(Fresh(leaf.arg[2], nbytes(leaf)))

    for leaf in (*schedule.results, *(new for _, new in schedule.writes)):
        add(leaf)
    home: dict[UOp, int] = {}
    for number, (where, group) in enumerate(groups):
        for leaf in (leaf for item in group for leaf in _leaves(item)):
            if where is None or home.setdefault(leaf, number) != number:
                add(leaf)
    return slots, fresh


def _compile(items: Sequence[Item]) -> dict[int, kernels.Kernel]:
    """The kernel of each KernelItem by id; the new ones of a device are compiled together."""
    by_device: dict[str, list[KernelItem]] = {}
    for item in items:
        if isinstance(item, KernelItem):
            by_device.setdefault(item.device, []).append(item)
    found: dict[int, kernels.Kernel] = {}
    for name, some in by_device.items():
        named = {k: kernels.canonical(*k) for k in {(i.sink, i.variables): None for i in some}}
        sinks = [named[i.sink, i.variables] for i in some]
        ready = kernels.of(devices.get(name)).get(sinks)
        found.update({id(i): k for i, k in zip(some, ready, strict=True)})
    return found


class _Planner:
    """One Plan in the making."""

    def __init__(
        self,
        where: str,
        slots: Mapping[UOp, int],
        compiled: Mapping[int, kernels.Kernel],
        names: Mapping[str, int],
    ) -> None:
        self.device = devices.get(where)
        self.slots, self.compiled, self.names = slots, compiled, names
        self.index: dict[UOp | int, int] = {}  # slot of the routine, or arena leaf -> Plan buffer
        self.sizes: list[int] = []
        self.uses: list[list[tuple[int, bool]]] = []  # by step: (Plan buffer, writes)
        self.variables: dict[str, VariableSpec] = {}

    def plan(self, items: Sequence[Item]) -> PlanStage:
        steps = tuple(self._step(item) for item in items)
        buffers, arena = self._place()
        edges = dependencies([[self._access(buffers, b, w) for b, w in use] for use in self.uses])
        ready = {
            k.linear.name: k
            for k in (self.compiled[id(i)] for i in items if id(i) in self.compiled)
        }
        plan = Plan(
            buffers=buffers,
            steps=steps,
            programs={name: k.linear for name, k in ready.items()},
            arena_bytes=arena,
            variables=tuple(self.variables.values()),
            edges=edges,
        )
        return PlanStage(
            self.device,
            plan,
            {name: k.program for name, k in ready.items()},
            tuple(key for key in self.index if isinstance(key, int)),
            tuple(self.names[name] for name in self.variables),
        )

    # ---- steps

    def _step(self, item: Item) -> Launch | CopyStep:
        if isinstance(item, CopyItem):
            dst, src = self._buffer(item.dst), self._buffer(item.src)
            self.uses.append([(src, False), (dst, True)])
            return CopyStep(dst, src, nbytes(item.src))
        linear = self.compiled[id(item)].linear
        at, use = [], []
        for p in linear.params:
            b = self._buffer(item.buffers[p.slot])
            at.append(b)
            if p.access != "w":
                use.append((b, False))
            if p.access != "r":
                use.append((b, True))
        self.uses.append(use)
        if not item.variables:
            return Launch(linear.name, tuple(at), (), linear.grid)
        return self._varying(item, linear, tuple(at))

    def _varying(self, item: KernelItem, linear: LinearProgram, at: tuple[int, ...]) -> Launch:
        """The launch of a kernel with variables, which it numbers in the order of the item's."""
        renamed = {f"v{i}": v.arg[0] for i, v in enumerate(item.variables)}
        fixed = {f"v{i}": n for i, n in enumerate(item.values) if n is not None}
        own = {f"v{i}": v for i, v in enumerate(item.variables)}
        for spec in linear.variables:
            name, _, word = spec.name.partition(".")
            if word:  # half of a number that the machine has no type for
                spec = VariableSpec(name, own[name].dtype, *own[name].arg[1:3])
            if name not in fixed:
                self._variable(renamed[name], spec)
        return Launch(
            linear.name,
            at,
            tuple(_scalar(v.name, fixed, renamed) for v in linear.variables),
            tuple(_renamed(g, renamed) for g in linear.grid),
        )

    def _variable(self, name: str, spec: VariableSpec) -> None:
        known = self.variables.get(name)
        wide = max((known.dtype, spec.dtype), key=_width) if known else spec.dtype
        self.variables[name] = VariableSpec(name, wide, spec.lo, spec.hi)

    def _buffer(self, leaf: UOp) -> int:
        key: UOp | int = self.slots.get(leaf, leaf)
        found = self.index.get(key)
        if found is None:
            found = self.index[key] = len(self.index)
            self.sizes.append(nbytes(leaf))
        return found

    # ---- memory

    def _place(self) -> tuple[tuple[PlanBuffer, ...], int]:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for step, use in enumerate(self.uses):
            for b, _ in use:
                first.setdefault(b, step)
                last[b] = step
        inner = [b for key, b in self.index.items() if not isinstance(key, int)]
        lives = [Lifetime(self.sizes[b], first[b], last[b]) for b in inner]
        offsets, arena = place(lives, self.device.target.align)
        at = dict(zip(inner, offsets, strict=True))
        buffers = []
        external = 0
        for b, nbytes_ in enumerate(self.sizes):
            if b in at:
                buffers.append(PlanBuffer("arena", nbytes_, offset=at[b]))
            else:
                buffers.append(PlanBuffer("external", nbytes_, slot=external))
                external += 1
        return tuple(buffers), arena

    def _access(self, buffers: Sequence[PlanBuffer], b: int, writes: bool) -> Access:
        buffer = buffers[b]
        if buffer.kind == "arena":
            return Access(0, buffer.offset, buffer.offset + buffer.nbytes, writes)
        return Access(1 + buffer.slot, 0, buffer.nbytes, writes)


def _scalar(name: str, fixed: Mapping[str, int], renamed: Mapping[str, str]) -> Postfix:
    """What a launch gives for a variable of a kernel: a number, a variable, or a word of one."""
    name, _, word = name.partition(".")
    value = fixed.get(name, renamed[name])
    return {"": (value,), "low": (value, _WORD, "%"), "high": (value, _WORD, "//", _WORD, "%")}[
        word
    ]


_WORD = 1 << 32


def _renamed(expr: Postfix, names: Mapping[str, str]) -> Postfix:
    return tuple(names.get(item, item) if isinstance(item, str) else item for item in expr)


def _width(dtype: DType) -> int:
    return dtypes.int64.itemsize if dtype.kind == "index" else dtype.itemsize


def ready(stage: PlanStage, runtime: Runtime) -> Any:
    """The stage's executable, prepared for the arena as it is now. Raises DeviceForked."""
    device, plan = stage.device, stage.plan
    if stage.pool is None or stage.pool.checked != opened.changes:
        now = pool(device.name)
        if now.device is not device:
            raise StateError(
                f"device {device.name!r} was closed after this graph had been compiled."
            )
        stage.pool = now
    made = stage.executable  # read once: plugins that come or go take it away
    if made is not None and not plan.arena_bytes:
        return made
    arena = runtime.arena(device)
    arena.reserve(plan.arena_bytes)
    if made is None or (plan.arena_bytes and stage.generation != arena.generation):
        made = _prepared(stage, arena.handle if plan.arena_bytes else None)
        made = _timed(made, device, runtime.counters) if stage.timed else made
        stage.executable, stage.generation = made, arena.generation
    return made


def _timed(executable: Any, device: Device, counters: Counters) -> Any:
    """`executable`, with its time counted."""

    def call(handles: Sequence[Any], variables: Sequence[int | float]) -> None:
        start = perf_counter()
        executable(handles, variables)
        device.synchronize()
        counters.seconds += perf_counter() - start

    return call


def _prepared(stage: PlanStage, arena: Any) -> Any:
    device = stage.device
    try:
        return pieces.prepare(stage, arena)
    except DeviceMemoryError:
        raise
    except MemoryError:
        pool(device.name).trim()
    try:
        return pieces.prepare(stage, arena)
    except MemoryError as error:
        raise DeviceMemoryError(
            f"device {device.name!r} has no memory left for {len(stage.plan.steps)} steps."
        ) from error
