"""The runtime: what is bound to which memory, and whose turn it is.

A `Runtime` owns one lock, a weak side table from nodes to memory, scratch arenas, the Plans it has
made, a generator of random numbers and what it counts. Most programs use the process's default one;
`use(runtime)` puts another in its place for the current thread or task, with its settings. Devices
and compiled kernels are shared by all.

The side table has two parts. A BUFFER leaf is bound to a `Buffer`; any other node that was
realised is bound to the leaf that holds its value, and to the scheduler it is that leaf from then
on. Both entries go when their node goes: nobody but the user's tensors keeps memory alive.

`dispose` frees all of it at once. What is left refuses: the tables are empty then, so only lookups
that fail have to ask why.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from .. import settings
from ..device.buffer import Buffer, pools
from ..dtype import DType, canonical, dtypes
from ..errors import CaptureError, StateError, public
from ..plugin import Device
from ..schedule.cache import scalar_variable
from ..uop.ops import Ops, UOp
from ..uop.sizes import captured
from .capture import Capture, active
from .counters import after_fork, made_for
from .owner import explicit, mixed
from .random import Draws
from .weak import WeakTable

Parts = tuple[Ops, DType, tuple[UOp, ...], Any]  # what a node is made of


class Closable(Protocol):
    """Something compiled that can let go of what it holds."""

    def close(self) -> None: ...


class Arena:
    """Scratch memory of one device: nothing in it outlives a call, so all Plans share it.

    It only grows. `generation` changes when its address does; who was prepared for the old one
    prepares anew.
    """

    __slots__ = ("buffer", "device", "generation")

    def __init__(self, device: Device) -> None:
        self.device, self.generation = device, 0
        self.buffer: Buffer | None = None

    def reserve(self, nbytes: int) -> None:
        """Make room for `nbytes`. Raises DeviceMemoryError, and is empty then."""
        if nbytes and (self.buffer is None or self.buffer.nbytes < nbytes):
            self.buffer = None  # given back first, so that both never stand side by side
            self.generation += 1
            grown = Buffer(self.device.name, nbytes)
            grown.handle  # noqa: B018  (allocates now)
            self.buffer = grown

    def release(self) -> None:
        """Give the memory back; the next call takes new."""
        self.buffer = None
        self.generation += 1

    @property
    def handle(self) -> Any:
        return None if self.buffer is None else self.buffer.handle


class Runtime:
    """One owner of tensors. All methods may be called from any thread."""

    def __init__(self, name: str = "default", values: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.owner: Runtime | None = self  # as tensors name it: None for the default one
        self.settings = dict(values or {})  # what `use` sets beside
        self.lock = threading.RLock()
        self.epoch = 0  # changes whenever a living leaf may have got other memory
        self.draws = Draws()
        self.counters = made_for(self)
        self.disposed = False
        self.plans: Any = None  # the graph cache, made by run.py at first use
        self.recordings: weakref.WeakSet[Closable] = weakref.WeakSet()  # what make_plan made
        self._buffers: WeakTable[Buffer] = WeakTable()
        self._realized: WeakTable[UOp] = WeakTable()
        self._scalars: WeakTable[int | float] = WeakTable()
        # Leaf -> the parts of the node that computed it, if that is kept. Not the node: while it
        # lives it holds its leaf.
        self.graphs: WeakTable[Parts] = WeakTable()
        self._arenas: dict[str, Arena] = {}
        _living.add(self)

    def __repr__(self) -> str:
        return f"Runtime({self.name!r})"

    # ---- the side table

    def leaf(self, dtype: DType, shape: tuple[int, ...], device: str, buffer: Buffer) -> UOp:
        """A new leaf that stands for the bytes of `buffer`."""
        if self.disposed:
            raise self.gone()
        made = UOp.buffer(dtype, shape, device)
        self._buffers.set(made, buffer)
        return made

    def bind(self, leaf: UOp, buffer: Buffer) -> None:
        """From now on `leaf` (a BUFFER) stands for the bytes of `buffer`."""
        if self.disposed:
            raise self.gone()
        self._buffers.set(leaf, buffer)

    def rebind(self, leaf: UOp, buffer: Buffer) -> None:
        """Move a leaf that may have readers to other memory with the same bytes."""
        self._buffers.set(leaf, buffer)
        self.epoch += 1

    def unbind(self, leaf: UOp) -> Buffer | None:
        return self._buffers.pop(leaf)

    def find(self, leaf: UOp) -> Buffer | None:
        """The Buffer of a leaf, None if it has none."""
        return self._buffers.get(leaf)

    def buffer_of(self, leaf: UOp) -> Buffer:
        """The Buffer of a leaf; StateError if it has none, CaptureError for a placeholder."""
        found = self._buffers.get(leaf)
        if found is not None:
            return found
        capture = self.capturing
        if capture is not None and leaf in capture.placeholders:
            raise capture.refusal("its value is needed")
        self._refuse_others(self._buffers, leaf)
        raise StateError(
            f"a tensor of shape {leaf.shape} on {leaf.arg[2]!r} has no memory in the runtime"
            f" {self.name!r}: it was disposed, or belongs to a capture that has ended."
        )

    def buffers_of(self, leaves: Iterable[UOp]) -> list[Buffer]:
        """The Buffer of each leaf, as `buffer_of` says."""
        known, found = self._buffers.items, []
        for leaf in leaves:  # a call of something tiny waits for this
            entry = known.get(id(leaf))
            found.append(self.buffer_of(leaf) if entry is None else entry[0])
        return found

    def read_into(self, leaf: UOp, data: memoryview, offset: int = 0) -> None:
        """Fill `data` with the bytes of a leaf from `offset` on; StateError if it has none."""
        if self is _default:
            self.buffer_of(leaf).read_into(data, offset)
            return
        with self.lock:  # `dispose`, of which the default runtime knows nothing, waits
            self.buffer_of(leaf).read_into(data, offset)

    def _refuse_others(self, table: WeakTable[Any], node: UOp) -> None:
        """Raise what explains that a node is not in `table`, if another runtime or the end of this
        one does."""
        if self.disposed:
            raise self.gone()
        others = [r for r in list(_living) if r is not self]
        for other in others:
            if node in (other._buffers if table is self._buffers else other._scalars):
                raise mixed(self.owner, other.owner)

    def settle(self, node: UOp, leaf: UOp) -> None:
        """Note that `leaf` holds the value of `node`."""
        if node is not leaf:
            self._realized.set(node, leaf)

    @property
    def settled(self) -> Mapping[int, tuple[UOp, Any]]:
        """(leaf, …) of every realised node by its id."""
        return self._realized.items

    def leaf_of(self, node: UOp) -> UOp | None:
        """The leaf that holds the value of a realised node, None if it was not realised."""
        if node.op is Ops.BUFFER:
            return node
        return self._realized.get(node)

    def scalar(self, dtype: DType, value: int | float) -> UOp:
        """A scalar node with a value that no Plan depends on: a number that will vary."""
        variable, node = scalar_variable(f"scalar{next(_serials)}", dtype)
        self._scalars.set(variable, canonical(dtype, value))
        return node

    def value_of(self, variable: UOp) -> int | float:
        """The value of a VARIABLE that `scalar` made, or that is bound. Raises StateError for any
        other."""
        found = self._scalars.get(variable) if len(variable.arg) == 3 else variable.arg[3]
        if found is None:
            self._refuse_others(self._scalars, variable)
            name = variable.arg[0]
            raise StateError(f"the variable {name!r} has no value: bind one, as {name}.bind(5).")
        return found

    def draw(self, count: int) -> tuple[UOp, UOp, UOp]:
        """The words of the key (uint32) and the number of the first element (uint64) of a random
        draw of `count` elements, as scalar nodes. While capturing they are given anew at each
        call."""
        capture = self.capturing
        if capture is not None:
            return capture.draw(count)
        draw = self.draws.take(count)
        return (
            self.scalar(dtypes.uint32, draw.key0),
            self.scalar(dtypes.uint32, draw.key1),
            self.scalar(dtypes.uint64, draw.base),
        )

    # ---- scratch memory

    def arena(self, device: Device) -> Arena:
        """The scratch memory of an opened device."""
        found = self._arenas.get(device.name)
        if found is None or found.device is not device:
            if self.disposed:
                raise self.gone()
            found = self._arenas[device.name] = Arena(device)
        return found

    # ---- what it holds, and its end

    def gone(self) -> StateError:
        """The error of whatever is used after `dispose`."""
        return StateError(
            f"the runtime {self.name!r} was disposed, and with it every tensor, Model and compiled"
            " function of it. Make another with polygrad.create()."
        )

    def buffers(self) -> list[Buffer]:
        """Every Buffer that has memory now: of tensors, and scratch."""
        bound = [buffer for buffer, _ in list(self._buffers.items.values())]
        scratch = [arena.buffer for arena in list(self._arenas.values())]
        unique = {id(b): b for b in (*bound, *scratch) if b is not None and b.allocated}
        return list(unique.values())

    @public
    def stats(self) -> dict[str, int | float]:
        """What this runtime has done since it was made, or `reset_counters`, and what it holds.

        The counts are those of `polygrad.stats()`; `mem_used` are bytes of its tensors and scratch
        memory, `plans` the graphs whose Plans it keeps, `tensors` the arrays that have memory.

        >>> with polygrad.create("interp") as rt:
        ...     rt.Tensor([1.0]).add(1).item(), rt.stats()["launches"]
        (2.0, 1)
        """
        held = self.buffers()
        return {
            **self.counters.snapshot(),
            "mem_used": sum(b.nbytes for b in held),
            "plans": 0 if self.plans is None else len(self.plans),
            "tensors": len(self._buffers),
        }

    @public
    def reset_counters(self) -> None:
        """Count from 0 again. What is held (`mem_used`, `plans`, `tensors`) is not counted but
        looked up, so it stays.

        >>> with polygrad.create("interp") as rt:
        ...     _ = rt.Tensor([1.0]).add(1).item()
        ...     rt.reset_counters()
        ...     rt.stats()["launches"]
        0
        """
        self.counters.reset()

    @public
    def clear_schedule_cache(self) -> None:
        """Forget the Plans of realised graphs; they are made again when they are met again.

        Compiled functions and Models keep theirs. Not for every step: a Plan costs milliseconds.

        >>> with polygrad.create("interp") as rt:
        ...     _ = rt.Tensor([1.0]).add(1).item()
        ...     rt.clear_schedule_cache()
        ...     rt.Tensor([1.0]).add(1).item()
        2.0
        """
        with self.lock:
            self.plans = None

    @public
    def collect(self) -> None:
        """Give back what nobody uses: garbage of Python's, scratch memory, and freed memory that
        devices keep for the next tensors. For moments of rest; living tensors keep theirs.

        >>> with polygrad.create("interp") as rt:
        ...     rt.collect()
        ...     rt.Tensor([1.0]).add(1).item()
        2.0
        """
        import gc

        gc.collect()
        with self.lock:
            for arena in self._arenas.values():
                arena.release()
        for pool in pools():
            pool.trim()

    @public
    def dispose(self) -> None:
        """Free all memory and everything compiled. Whatever of it is used later raises StateError;
        a second call does nothing.

        >>> rt = polygrad.create("interp")
        >>> x = rt.Tensor([1.0])
        >>> rt.dispose()
        >>> rt.disposed
        True
        """
        if self is _default:
            raise StateError(
                "the default runtime lasts as long as the process; collect() gives back what is"
                " not in use."
            )
        with self.lock:
            if self.disposed:
                return
            self.disposed = True
            self._close(self.buffers())

    def _close(self, held: Iterable[Buffer]) -> None:
        for recording in list(self.recordings):
            recording.close()
        self.plans = None
        self._arenas, self._buffers, self._realized = {}, WeakTable(), WeakTable()
        self._scalars, self.graphs = WeakTable(), WeakTable()
        self.epoch += 1  # compiled functions look for their state again, and do not find it
        for buffer in held:
            buffer.release()

    # ---- captures

    @property
    def capturing(self) -> Capture | None:
        """The capture that the current thread or task is in on this runtime."""
        capture = active.get()
        return capture if capture is not None and capture.runtime is self else None

    @contextmanager
    def capture(self, capture: Capture) -> Iterator[Capture]:
        """Make `capture` the current one. Inside of another only a pure one may start."""
        if active.get() is not None and not capture.pure:
            raise CaptureError("a capture cannot start inside another capture.")
        token, sizes = active.set(capture), captured.set(capture.size_refusal)
        try:
            yield capture
        finally:
            captured.reset(sizes)
            active.reset(token)


_serials = itertools.count()  # scalars are told apart by name
_living: weakref.WeakSet[Runtime] = weakref.WeakSet()
_default = Runtime()
_default.owner = None


def current() -> Runtime:
    """The runtime of this thread or task: the innermost `use`, else the process's."""
    return explicit.get() or _default


def owned_by(owner: Runtime | None) -> Runtime:
    """The runtime that a tensor's `_owner` stands for."""
    return owner or _default


class use:
    """`with use(runtime):` makes it the current one inside the block, with its settings.

    A Context inside the block has the last word. Raises StateError if `runtime` was disposed.
    """

    __slots__ = ("_before", "_overrides", "runtime")

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def __enter__(self) -> Runtime:
        runtime, left = self.runtime, current()
        if runtime.disposed:
            raise runtime.gone()
        self._overrides: Any = None
        if runtime is not left and (runtime.settings or left.settings):
            self._overrides = settings.exchange(runtime.settings)
        self._before = explicit.set(runtime.owner)
        return runtime

    def __exit__(self, *_: object) -> None:
        explicit.reset(self._before)
        if self._overrides is not None:
            settings.restore(self._overrides)


def bind(leaf: UOp, buffer: Buffer) -> None:
    current().bind(leaf, buffer)


def buffer_of(leaf: UOp) -> Buffer:
    return current().buffer_of(leaf)


def install_fork_hook() -> None:
    """At the first run only, so that importing changes nothing in the process."""
    global _hooked
    if not _hooked and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    _hooked = True


_hooked = False


def _after_fork() -> None:
    """Another thread may have held a lock while forking: nobody would release it in the child."""
    after_fork()
    for runtime in list(_living):
        runtime.lock = threading.RLock()
        runtime.epoch += 1
