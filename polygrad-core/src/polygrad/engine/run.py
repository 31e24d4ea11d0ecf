"""Realising: from nodes to leaves whose Buffers hold their values.

A graph's fingerprint finds its `Routine`; on a miss the graph is scheduled, its kernels compiled
and its memory laid out. Then the routine runs: outputs come from the cache of freed buffers, one
native call per Plan, and every root is settled on the leaf that holds its value. Numbers that
differ from the known ones turn into variables of a second routine, which serves all values from
then on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from .. import _collector, settings
from .. import device as devices
from ..device.buffer import Buffer, exchange
from ..hooks import installed as hooks
from ..schedule import schedule
from ..schedule.cache import Fingerprint, fingerprint, instance
from ..uop.ops import Ops, UOp
from .runtime import Runtime, current, install_fork_hook
from .stages import CopyStage, PlanStage, Routine, assemble, float_lanes, most_buffers, ready
from .versions import passing, with_readers

_AFTER: Final = Ops.AFTER  # older Pythons take 0.1 us to read a member of an enum
CAPACITY = 1024  # graphs whose routines are kept; the least recently used goes first
CODE_SETTINGS = (
    "POLY_FUSION",
    "POLY_KERNELS",
    "TIMING",
    "BEAM",
    "POLY_TUNED",
)  # what changes generated code, or how it is run
Values = tuple[int | float, ...]


def realize(roots: Sequence[UOp], kept: Collection[UOp] = ()) -> list[UOp]:
    """The leaf that holds the value of each root, computed now if it was not before.

    Every root, and every assignment below, is settled: to later graphs it is its leaf. `kept` are
    roots whose graph stays in use all the same (a gradient goes through it), so old versions below
    them are kept. Raises CaptureError for what depends on a capture's arguments.
    """
    runtime = current()
    found = [runtime.leaf_of(r) for r in roots]
    if None not in found and all(runtime.find(leaf) for leaf in found if leaf is not None):
        return [leaf for leaf in found if leaf is not None]
    capture = runtime.capturing
    if capture is not None:
        capture.check(roots)
    with runtime.lock:
        return _Realization(runtime, list(roots), kept).run()


class Entry:
    """The routines of one skeleton: one for the values first seen, one for all others."""

    __slots__ = ("after", "constant", "exact", "general", "passing", "values", "varying")

    def __init__(
        self,
        values: Values,
        exact: Routine,
        after: tuple[int, ...],
        passing: tuple[int, ...],
        constant: frozenset[int],
    ) -> None:
        self.values, self.exact, self.after = values, exact, after
        self.passing = passing  # places of assignments that are not carried out
        self.constant = constant  # places of nodes that no storage lies below
        self.general: Routine | None = None
        self.varying: tuple[int, ...] = ()  # holes that are variables of `general`

    def find(self, values: Values) -> tuple[Routine, Values] | None:
        """A routine for these hole values, and its variables."""
        if values == self.values:
            return self.exact, ()
        if self.general is not None:
            mine = self.values
            fixed = (i for i in range(len(values)) if i not in self.varying)
            if all(values[i] == mine[i] for i in fixed):
                return self.general, tuple([values[i] for i in self.varying])
        return None

    def differing(self, values: Values) -> tuple[int, ...]:
        """The holes that must be variables to serve these values as well."""
        new = {i for i, (a, b) in enumerate(zip(values, self.values, strict=True)) if a != b}
        return tuple(sorted(new.union(self.varying)))


def _constant(print_: Fingerprint) -> frozenset[int]:
    """Places in `nodes` of what is made of shared constants alone, and is on no device."""
    settled = {node for node, _ in print_.settled}
    found: dict[UOp, int] = {}
    for i, node in enumerate(print_.nodes):
        own = node.op in (Ops.BUFFER, Ops.UNIQUE, Ops.COPY) or node in settled
        if not own and all(s in found for s in node.src):
            found[node] = i
    return frozenset(found.values())


class GraphCache:
    """Skeleton -> Entry, least recently used first. Used under its runtime's lock."""

    def __init__(self) -> None:
        self.entries: OrderedDict[Any, Entry] = OrderedDict()

    def get(self, key: Any) -> Entry | None:
        found = self.entries.get(key)
        if found is not None:
            self.entries.move_to_end(key)
        return found

    def __len__(self) -> int:
        return len(self.entries)

    def put(self, key: Any, entry: Entry) -> None:
        self.entries[key] = entry
        while len(self.entries) > CAPACITY:
            self.entries.popitem(last=False)


def cache_of(runtime: Runtime) -> GraphCache:
    if runtime.plans is None:
        if runtime.disposed:
            raise runtime.gone()
        install_fork_hook()
        runtime.plans = GraphCache()
    found: GraphCache = runtime.plans
    return found


class _Realization:
    """One call of `realize`, under the runtime's lock."""

    def __init__(self, runtime: Runtime, roots: list[UOp], kept: Collection[UOp]) -> None:
        self.runtime, self.roots, self.kept = runtime, roots, kept

    def run(self) -> list[UOp]:
        runtime = self.runtime
        cache = cache_of(runtime)
        print_ = fingerprint(self.roots, runtime.settled, self._alias)
        bound = tuple([runtime.value_of(v) for v in print_.variables])
        skipped: tuple[int, ...] = ()
        if any(n.op is _AFTER and n.src[0].op is _AFTER for n in print_.nodes):
            skipped = passing(print_.nodes, *self._outside(print_))
        made_by = (hooks.epoch, *map(settings.get, CODE_SETTINGS))
        key = (print_.skeleton, skipped, devices.default(), *made_by)
        entry = cache.get(key)
        if entry is None or not entry.exact.usable:
            with _collector.paused():
                entry = self._first(print_, skipped)
            cache.put(key, entry)
        else:
            runtime.counters.plan_hits += 1
        routine, values = entry.find(print_.values) or self._general(entry, print_)
        roots = [*self.roots, *[print_.nodes[i] for i in entry.after]]
        loose = frozenset([print_.nodes[i] for i in entry.constant])
        return self._execute(routine, print_, roots, bound + values, loose)[: len(self.roots)]

    def _outside(
        self, print_: Fingerprint, roots: Sequence[UOp] = ()
    ) -> tuple[dict[UOp, UOp], set[UOp], tuple[Iterable[UOp], ...]]:
        """What the count of references has to know (see `with_readers`); `roots`: all of them."""
        ending = set(roots or self.roots).difference(self.kept)
        holes = (hole.node for hole in print_.holes)  # a list would hold them too
        return dict(print_.settled), ending, (print_.leaves, holes, *print_.settled)

    def _alias(self, leaf: UOp) -> int:
        return id(self.runtime.buffer_of(leaf))

    # ---- making routines

    def _first(self, print_: Fingerprint, skipped: tuple[int, ...]) -> Entry:
        known = {*self.roots, *[print_.nodes[i] for i in skipped]}
        after = tuple(
            i for i, n in enumerate(print_.nodes) if n.op is Ops.AFTER and n not in known
            and self.runtime.leaf_of(n) is None
        )  # fmt: skip
        constant = _constant(print_)
        routine = self._build(print_, after, (), skipped)
        return Entry(print_.values, routine, after, skipped, constant)

    def _general(self, entry: Entry, print_: Fingerprint) -> tuple[Routine, Values]:
        varying = entry.differing(print_.values)
        with _collector.paused():
            routine = self._build(print_, entry.after, varying, entry.passing)
        entry.general, entry.varying = routine, varying
        return routine, tuple([print_.values[i] for i in varying])

    def _build(
        self,
        print_: Fingerprint,
        after: Sequence[int],
        varying: Sequence[int],
        skipped: Sequence[int],
    ) -> Routine:
        roots = [*self.roots, *[print_.nodes[i] for i in after]]
        graph = instance(print_, roots, varying, skipped)
        planned = schedule(graph.roots, devices.default(), most_buffers, float_lanes)
        slots = slots_of(self.runtime, print_.leaves)
        mine = {new: slots[leaf] for new, leaf in zip(graph.leaves, print_.leaves, strict=True)}
        self.runtime.counters.plans_made += 1
        return assemble(planned, mine, len(set(slots.values())), graph.variables)

    # ---- running

    def _execute(
        self,
        routine: Routine,
        print_: Fingerprint,
        roots: list[UOp],
        values: Values,
        loose: frozenset[UOp],
    ) -> list[UOp]:
        runtime = self.runtime
        slots = slots_of(runtime, print_.leaves)
        leaf_at = {slot: leaf for leaf, slot in slots.items()}
        buffers = [runtime.buffer_of(leaf_at[i]) for i in range(routine.inputs)]
        buffers += [Buffer(f.device, f.nbytes) for f in routine.fresh]
        saved: dict[int, Buffer] = {}
        if routine.in_place:
            del slots
            saved = self._save(routine, print_, roots, leaf_at, buffers)
        run(routine, runtime, buffers, values)
        self._new_versions(routine, leaf_at, buffers, saved)
        for slot, root in zip(routine.results, roots, strict=True):
            leaf = leaf_at.get(slot)
            if leaf is None:
                buffer = buffers[slot]
                leaf = runtime.leaf(root.dtype, root.shape, buffer.device, buffer)
                leaf_at[slot] = leaf
            if root not in loose:  # equal constants are one node, at home on every device
                runtime.settle(root, leaf)
        return [leaf_at[slot] for slot in routine.results]

    def _save(
        self,
        routine: Routine,
        print_: Fingerprint,
        roots: list[UOp],
        leaf_at: Mapping[int, UOp],
        buffers: Sequence[Buffer],
    ) -> dict[int, Buffer]:
        """Copies of the old bytes, by slot, where something outside the graph still reads them."""
        written = [leaf_at[slot] for slot in routine.in_place]
        settled, ending, holders = self._outside(print_, roots)
        read = with_readers(written, print_.nodes, settled, ending, (*holders, leaf_at.values()))
        saved = {}
        for slot in routine.in_place:
            if leaf_at[slot] in read:
                saved[slot] = copy_of(buffers[slot])
        return saved

    def _new_versions(
        self,
        routine: Routine,
        leaf_at: dict[int, UOp],
        buffers: list[Buffer],
        saved: Mapping[int, Buffer],
    ) -> None:
        """After a write the address is a new leaf's; the old one keeps the old bytes or none."""
        runtime = self.runtime
        for old, new in routine.writes:
            leaf, buffer = leaf_at[old], buffers[old]
            fresh = runtime.leaf(leaf.dtype, leaf.arg[1], leaf.arg[2], buffer)
            if old != new:  # the new value lies elsewhere: the two Buffers trade their memory
                exchange(buffer, buffers[new])
                runtime.rebind(leaf, buffers[new])
            elif old in saved:
                runtime.rebind(leaf, saved[old])
            else:
                runtime.unbind(leaf)
            leaf_at[new] = fresh


def slots_of(runtime: Runtime, leaves: Sequence[UOp]) -> dict[UOp, int]:
    """The input slot of each leaf; leaves that share a Buffer share a slot."""
    by_buffer: dict[int, int] = {}
    return {
        leaf: by_buffer.setdefault(id(runtime.buffer_of(leaf)), len(by_buffer)) for leaf in leaves
    }


def copy_of(buffer: Buffer) -> Buffer:
    """A new Buffer on the same device with the same bytes."""
    saved = Buffer(buffer.device, buffer.nbytes)
    where = devices.get(buffer.device)
    where.allocator.copy(saved.handle, buffer.handle, buffer.nbytes, where)
    current().counters.saved_versions += 1
    return saved


def run(
    routine: Routine, runtime: Runtime, buffers: Sequence[Buffer], values: Sequence[int | float]
) -> None:
    """Run the stages of `routine` over the Buffers of its slots.

    Whatever may fail for want of memory comes before the first stage runs.
    """
    for stage in routine.stages:
        if isinstance(stage, PlanStage):
            runtime.arena(stage.device).reserve(stage.plan.arena_bytes)
    calls = [_call(stage, runtime, buffers, values) for stage in routine.stages]
    for call, arguments in calls:
        call(*arguments)
    routine.count(runtime.counters)


def _call(
    stage: PlanStage | CopyStage,
    runtime: Runtime,
    buffers: Sequence[Buffer],
    values: Sequence[int | float],
) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """What runs one stage, and its arguments."""
    if isinstance(stage, PlanStage):
        handles = [buffers[s].handle for s in stage.externals]
        return ready(stage, runtime), (handles, [values[v] for v in stage.variables])
    dst, src = buffers[stage.dst], buffers[stage.src]
    if not stage.nbytes:
        return _nothing, ()
    to, peer = devices.get(dst.device), devices.get(src.device)
    return to.allocator.copy, (dst.handle, src.handle, stage.nbytes, peer)


def _nothing() -> None:
    """A copy of no bytes."""
