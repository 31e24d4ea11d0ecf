"""Recording: a graph with inputs and state becomes a callable that runs it for ever.

`make_plan` takes output nodes, placeholder leaves for the inputs, and updates (state leaf -> node
of its new value). What it gives, a `Recorded`, takes the inputs' Buffers and returns new Buffers
with the outputs: no node is made and nothing is looked up again, so a call costs a few
microseconds beside its kernels. Outputs are taken from the cache of freed buffers, so no result is
overwritten by a later call.

State is written at its own address. A *holder* (a Tensor) has the current version of a state leaf
in `uop`: if the user has put another there, its Buffer is taken from now on; if a reader of the
old version lives, the version's bytes are copied before they are written over, and the holder gets
a new leaf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _collector
from .. import device as devices
from ..contract import Plan
from ..device import opened
from ..device.buffer import Buffer
from ..errors import StateError
from ..schedule import CopyItem, Schedule, schedule
from ..uop.ops import Ops, UOp
from ..uop.sizes import exchanged, variables_among
from .functional import Resolved, assigned, resolved, versions
from .run import copy_of, realize, run
from .runtime import Runtime, current
from .stages import CopyStage, PlanStage, Routine, assemble, float_lanes, most_buffers
from .stages import ready as ready_stage
from .versions import Holder, have_readers

_UNSEEN = object()  # no version yet; None would equal the arg of a pending assignment


class State:
    """A leaf that a recorded graph keeps: a constant, or state if `written`.

    A holder's leaf is not held: `leaf` is the arg of its node, which tells it as well. A constant
    without holder is a reader of its leaf like any other, so it holds it (`constant`).
    """

    __slots__ = ("buffer", "constant", "holder", "leaf", "slot", "written")

    def __init__(
        self, slot: int, written: bool, buffer: Buffer, holder: Holder | None, constant: UOp | None
    ) -> None:
        self.slot, self.written, self.buffer, self.holder = slot, written, buffer, holder
        self.constant = constant
        self.leaf: Any = _UNSEEN


def make_plan(
    roots: Sequence[UOp],
    inputs: Sequence[UOp] = (),
    variables: Sequence[UOp] = (),
    updates: Mapping[UOp, UOp] | None = None,
    holders: Mapping[UOp, Holder] | None = None,
) -> Recorded:
    """Compile a graph once.

    `inputs` are BUFFER leaves and `variables` VARIABLE nodes, given at each call in this order.
    Every other leaf keeps the Buffer that it, or its holder's leaf, is bound to. `updates` maps
    state leaves to the nodes of their new values; all of them are read before any is written.
    """
    runtime = current()
    if runtime.disposed:
        raise runtime.gone()
    updates = {leaf: value for leaf, value in (updates or {}).items() if value is not leaf}
    with runtime.lock, _collector.paused():
        plain = resolved([*roots, *updates.values()], runtime.leaf_of, gradients=False)
        fixed = _fixed_variables(runtime, [*plain.order, *updates], variables)
        renamed = _names([*variables, *fixed])
        planned, new = _planned(plain, len(roots), tuple(updates), renamed)
        held = _held_leaves([*plain.order, *updates], inputs)
        # A leaf of a size that varies has another shape in the graph that is planned.
        slots = {new.get(leaf, leaf): i for i, leaf in enumerate([*inputs, *held])}
        routine = assemble(
            _at_fixed_addresses(planned, len(roots), slots),
            slots,
            len(slots),
            list(renamed.values()),
        )
        runtime.counters.plans_made += 1
        states = [
            _state(runtime, v, slots[new.get(v, v)], v in updates, (holders or {}).get(v))
            for v in held
        ]
        made = Recorded(runtime, routine, len(inputs), states, tuple(fixed.values()))
        runtime.recordings.add(made)
        return made


def _planned(
    plain: Resolved, count: int, leaves: Sequence[UOp], renamed: Mapping[UOp, UOp]
) -> tuple[Schedule, dict[UOp, UOp]]:
    """The schedule of `count` results and of the new values of `leaves`, and what each node of
    their graph became when variables were renamed, where any was."""
    values = zip(leaves, plain.roots[count:], strict=True)
    apart = {leaf for leaf, value in values if not versions(value, leaf, plain.ends)}
    other = any(old is not name for old, name in renamed.items())
    while True:
        graph = assigned(plain, count, leaves, apart)
        instance, new = exchanged(graph, renamed) if other else (graph, {})
        planned = schedule(instance, devices.default(), most_buffers, float_lanes)
        now = dict(planned.writes)
        mine = {v: new.get(v, v) for v in leaves}
        moved = {v for v, leaf in mine.items() if now.get(leaf, leaf) is not leaf}
        if moved <= apart:
            return planned, new
        apart |= moved


def _names(variables: Sequence[UOp]) -> dict[UOp, UOp]:
    """Each variable under a name that is its alone, and without its value: as it is if that is so,
    for a graph over other variables is another graph."""
    if len({v.arg[0] for v in variables}) == len(variables):
        if all(len(v.arg) == 3 for v in variables):
            return {v: v for v in variables}
    return {
        v: UOp(Ops.VARIABLE, v.dtype, (), (f"given{i}", *v.arg[1:3]))
        for i, v in enumerate(variables)
    }


def _held_leaves(nodes: Sequence[UOp], inputs: Sequence[UOp]) -> list[UOp]:
    given, buffer = set(inputs), Ops.BUFFER
    return list(dict.fromkeys([n for n in nodes if n.op is buffer and n not in given]))


def _fixed_variables(
    runtime: Runtime, nodes: Sequence[UOp], variables: Sequence[UOp]
) -> dict[UOp, int | float]:
    """Scalars that have a value of their own, such as those of a draw made before."""
    given = set(variables)
    return {v: runtime.value_of(v) for v in variables_among(nodes) if v not in given}


def _state(runtime: Runtime, leaf: UOp, slot: int, written: bool, holder: Holder | None) -> State:
    if holder is None:
        return State(slot, written, runtime.buffer_of(leaf), None, None if written else leaf)
    unbound = Buffer(leaf.arg[2], 0)  # the first call takes the holder's
    return State(slot, written, runtime.find(leaf) or unbound, holder, None)


def _at_fixed_addresses(planned: Schedule, count: int, slots: Mapping[UOp, int]) -> Schedule:
    """Results in Buffers of their own, and new state copied to its address where it was made
    elsewhere.

    Copies to results come first: one may hold the old value of what the later copies write.
    """
    taken: set[UOp] = set()
    results: list[UOp] = []
    out: list[CopyItem] = []
    for leaf in planned.results[:count]:
        if leaf in slots or leaf in taken:
            copy = UOp.buffer(leaf.dtype, leaf.arg[1], leaf.arg[2])
            out.append(CopyItem(copy, leaf))
            leaf = copy
        taken.add(leaf)
        results.append(leaf)
    out += [CopyItem(old, new) for old, new in dict(planned.writes).items() if old is not new]
    return Schedule((*planned.items, *out), tuple(results), ())


class Recorded:
    """A compiled graph. Call it with the inputs' Buffers and the values of the variables."""

    def __init__(
        self,
        runtime: Runtime,
        routine: Routine,
        inputs: int,
        states: Sequence[State],
        fixed: tuple[int | float, ...],
    ) -> None:
        self.runtime, self.routine, self.fixed = runtime, routine, fixed
        self.states = list(states)
        self._inputs = inputs
        self._watched = [s for s in states if s.holder is not None]
        self._written = [s for s in self._watched if s.written]
        self._writers = [s.holder for s in self._written if s.holder is not None]
        self._constants = [s for s in states if s.constant is not None]
        self._own: set[int] = set()  # ids of the Buffers that a call writes
        self._epoch, self._gathered = -1, False
        self._single = len(routine.stages) == 1 and isinstance(routine.stages[0], PlanStage)
        if self._single:
            self._lay_out(routine.stages[0])

    def __call__(
        self, inputs: Sequence[Buffer], variables: Sequence[int | float] = ()
    ) -> list[Buffer]:
        """Run once. Raises DeviceMemoryError, DeviceForked; the state is as before then."""
        if len(inputs) != self._inputs:
            raise StateError(f"{self._inputs} inputs are expected, got {len(inputs)}.")
        with self.runtime.lock:
            if self._watched or self._epoch != self.runtime.epoch:
                self._follow()
            return self._run(inputs, variables)

    def with_leaves(
        self, inputs: Sequence[UOp], variables: Sequence[int | float] = ()
    ) -> list[Buffer]:
        """The same for inputs that are leaves: finding the state may move one of them."""
        runtime = self.runtime
        with runtime.lock:
            if self._watched or self._epoch != runtime.epoch:
                self._follow()
            return self._run(runtime.buffers_of(inputs), variables)

    def close(self) -> None:
        """Let go of everything compiled; its runtime is at its end, which frees the memory."""
        for stage in self.routine.stages:
            if isinstance(stage, PlanStage):
                stage.executable, stage.programs = None, {}

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The Plans of its stages, in order."""
        return tuple(s.plan for s in self.routine.stages if not isinstance(s, CopyStage))

    # ---- state

    def rebind(self, index: int, buffer: Buffer) -> None:
        """Let state number `index` (in `states`) live in another Buffer from now on."""
        self.states[index].buffer = buffer
        self._own = {id(s.buffer) for s in self.states if s.written}
        self._gathered = False

    def _follow(self) -> None:
        """Find where each state is now, and let readers of what is written keep the old bytes."""
        moved = self._epoch != self.runtime.epoch
        for s in self._watched:
            if s.holder.uop.arg is not s.leaf:  # type: ignore[union-attr]
                moved = True
                break
        if moved:
            self._find_states()
        if not self._written:
            return
        read = have_readers(self._writers)
        renewed = [s for s, r in zip(self._written, read, strict=True) if r] if any(read) else ()
        if renewed:
            for state in renewed:
                self._renew(state)
            self._find_states()  # another holder may stand on a leaf that has moved

    def _find_states(self) -> None:
        """Holders may have other versions than the last call left, and leaves other memory."""
        runtime = self.runtime
        if runtime.disposed:
            raise runtime.gone()
        holders = [s.holder for s in self._watched if s.holder is not None]
        pending = [h for h in holders if h.uop.op is not Ops.BUFFER]
        for holder, leaf in zip(pending, realize([h.uop for h in pending]), strict=True):
            holder._replace(leaf)
        seen: set[UOp] = set()
        for state, holder in zip(self._watched, holders, strict=True):
            if holder.uop in seen:
                self._part(holder)
            seen.add(holder.uop)
            state.leaf, state.buffer = holder.uop.arg, runtime.buffer_of(holder.uop)
        for state in self._constants:
            state.buffer = runtime.buffer_of(state.constant)  # type: ignore[arg-type]
        self._own = {id(s.buffer) for s in self.states if s.written}
        self._epoch, self._gathered = runtime.epoch, False

    def _part(self, holder: Holder) -> None:
        """Two holders stand on one leaf: this one gets memory of its own."""
        old = holder.uop
        copy = copy_of(self.runtime.buffer_of(old))
        holder._replace(self.runtime.leaf(old.dtype, old.arg[1], old.arg[2], copy))

    def _renew(self, state: State) -> None:
        """Somebody may read the version in `state.buffer`: the old leaf keeps its bytes."""
        holder, runtime = state.holder, self.runtime
        assert holder is not None
        old = holder.uop
        runtime.rebind(old, copy_of(state.buffer))
        holder._replace(runtime.leaf(old.dtype, old.arg[1], old.arg[2], state.buffer))

    # ---- running

    def _run_several(self, inputs: Sequence[Buffer], values: Sequence[int | float]) -> list[Buffer]:
        """Several stages: gather everything by slot."""
        routine = self.routine
        buffers = [*inputs, *[s.buffer for s in self.states]]
        buffers += [Buffer(f.device, f.nbytes) for f in routine.fresh]
        run(routine, self.runtime, buffers, values)
        return [buffers[slot] for slot in routine.results]

    def _lay_out(self, stage: Any) -> None:
        """Where each input, state and output stands among the one Plan's handles."""
        at: dict[int, int] = {slot: i for i, slot in enumerate(stage.externals)}
        first = self._inputs
        kept = [(at[s.slot], s) for s in self.states if s.slot in at]
        self._template: list[Any] = [None] * len(stage.externals)
        self._kept = kept
        self._given = [(at[i], i) for i in range(first) if i in at]
        count = self.routine.inputs
        self._outputs = []
        for slot in self.routine.results:
            fresh = self.routine.fresh[slot - count]
            self._outputs.append((at.get(slot, -1), fresh.device, fresh.nbytes))
        self._stage, self._variables = stage, stage.variables

    def _run(self, inputs: Sequence[Buffer], values: Sequence[int | float]) -> list[Buffer]:
        """Run with the state found and the lock held; a single Plan here, so that a call of
        something tiny gets there at once."""
        own = self._own
        if own:  # this call writes over those while they are read
            inputs = [copy_of(b) if id(b) in own else b for b in inputs]
        if self.fixed:
            values = (*values, *self.fixed)
        if not self._single:
            return self._run_several(inputs, values)
        stage, runtime = self._stage, self.runtime
        execute, pool = stage.executable, stage.pool
        if execute is None or pool.checked != opened.changes or stage.plan.arena_bytes:
            execute = ready_stage(stage, runtime)
            pool = stage.pool
        template = self._template
        if not self._gathered:
            for i, state in self._kept:
                template[i] = state.buffer.handle
            self._gathered = True
        handles = template.copy()
        for i, number in self._given:
            handle = inputs[number]._handle  # its device was found to be usable
            handles[i] = inputs[number].handle if handle is None else handle
        outputs = []
        for i, device, nbytes in self._outputs:
            if i >= 0:
                buffer = Buffer.of_pool(pool, nbytes)
                handles[i] = buffer._handle
            else:
                buffer = Buffer(device, nbytes)
            outputs.append(buffer)
        execute(handles, [values[v] for v in self._variables] if self._variables else ())
        self.routine.count(runtime.counters)
        return outputs
