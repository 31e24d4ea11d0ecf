"""The runtime: what is bound to which memory, and whose turn it is.

A `Runtime` owns one lock, a weak side table from nodes to memory, scratch arenas and the Plans it
has made. Most programs use the process's default one; `use(runtime)` puts another in its place for
the current thread or task.

The side table has two parts. A BUFFER leaf is bound to a `Buffer`; any other node that was
realised is bound to the leaf that holds its value, and to the scheduler it is that leaf from then
on. Both entries go when their node goes: nobody but the user's tensors keeps memory alive.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from ..device.buffer import Buffer
from ..dtype import DType, canonical, dtypes
from ..errors import CaptureError, StateError
from ..plugin import Device
from ..schedule.cache import scalar_variable
from ..uop.ops import Ops, UOp
from .capture import Capture, active
from .random import Draws

V = TypeVar("V")


class WeakTable(Generic[V]):
    """Node -> value, held while the node lives. Keyed by address: a lookup is on the hot path."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: dict[int, tuple[V, weakref.ref[UOp]]] = {}

    def get(self, node: UOp) -> V | None:
        found = self.items.get(id(node))
        return None if found is None else found[0]

    def set(self, node: UOp, value: V) -> None:
        key, items = id(node), self.items
        # The callback runs before the address can be used again.
        items[key] = (value, weakref.ref(node, lambda _: items.pop(key, None)))

    def pop(self, node: UOp) -> V | None:
        found = self.items.pop(id(node), None)
        return None if found is None else found[0]

    def __len__(self) -> int:
        return len(self.items)


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

    @property
    def handle(self) -> Any:
        return None if self.buffer is None else self.buffer.handle


class Runtime:
    """One owner of tensors. All methods may be called from any thread."""

    def __init__(self, name: str = "default") -> None:
        self.name = name
        self.lock = threading.RLock()
        self.epoch = 0  # changes whenever a living leaf may have got other memory
        self.draws = Draws()
        self.plans: Any = None  # the graph cache, made by run.py at first use
        self._buffers: WeakTable[Buffer] = WeakTable()
        self._realized: WeakTable[UOp] = WeakTable()
        self._scalars: WeakTable[int | float] = WeakTable()
        self._arenas: dict[str, Arena] = {}
        _living.add(self)

    # ---- the side table

    def bind(self, leaf: UOp, buffer: Buffer) -> None:
        """From now on `leaf` (a BUFFER) stands for the bytes of `buffer`."""
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
        raise StateError(
            f"a tensor of shape {leaf.shape} on {leaf.arg[2]!r} has no memory in the runtime"
            f" {self.name!r}: it belongs to another runtime, or to a capture that has ended."
        )

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
            found = self._arenas[device.name] = Arena(device)
        return found

    # ---- captures

    @property
    def capturing(self) -> Capture | None:
        """The capture that the current thread or task is in on this runtime."""
        capture = active.get()
        return capture if capture is not None and capture.runtime is self else None

    @contextmanager
    def capture(self, capture: Capture) -> Iterator[Capture]:
        """Make `capture` the current one. A capture inside a capture is refused."""
        if active.get() is not None:
            raise CaptureError("a capture cannot start inside another capture.")
        token = active.set(capture)
        try:
            yield capture
        finally:
            active.reset(token)


_serials = itertools.count()  # scalars are told apart by name
_current: ContextVar[Runtime | None] = ContextVar("polygrad_runtime", default=None)
_living: weakref.WeakSet[Runtime] = weakref.WeakSet()
_default = Runtime()


def current() -> Runtime:
    """The runtime of this thread or task: the innermost `use`, else the process's."""
    return _current.get() or _default


@contextmanager
def use(runtime: Runtime) -> Iterator[Runtime]:
    """Make `runtime` the current one inside a `with` block."""
    token = _current.set(runtime)
    try:
        yield runtime
    finally:
        _current.reset(token)


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
    for runtime in list(_living):
        runtime.lock = threading.RLock()
        runtime.epoch += 1
