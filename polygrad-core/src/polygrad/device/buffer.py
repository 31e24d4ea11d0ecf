"""Buffer: a piece of one device's memory with an owner, and the cache that freed ones wait in.

A `Buffer` asks for memory when it is first touched, not when it is made, so a result that is
planned away costs nothing. When the last reference goes, its handle is put into the device's `Pool`
under a size class; the next Buffer of that class takes it, pages already mapped. Collection may run
in any thread, and inside the pool's own critical section, so a dying Buffer only appends to a
deque; whoever allocates next sorts it in.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final, NamedTuple

from ..errors import DeviceContractError, DeviceMemoryError, StateError
from ..plugin import Device
from . import get, opened

__all__ = ["Buffer", "Pool", "Usage", "exchange", "pool", "pools", "size_class"]

_new: Final = object.__new__
_SMALLEST = 256
_LARGE = 1 << 20
_KEEP = 256 << 20  # bytes of freed memory that a device may keep beside what is live


def size_class(nbytes: int) -> int:
    """What is really allocated: four steps per power of two, so at most a quarter is unused;
    sixteen from 1 MB on, where a quarter is much and sizes that nearly agree are rare."""
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = 1 << ((nbytes - 1).bit_length() - (3 if nbytes < _LARGE else 5))
    return -(-nbytes // step) * step


class Usage(NamedTuple):
    """Bytes of one device: held by living Buffers, and kept for the next ones."""

    live: int
    cached: int


class Pool:
    """The allocations of one opened device."""

    def __init__(self, device: Device) -> None:
        self.device, self.name = device, device.name
        self.checked = -1  # what `opened.changes` was when its device was known to be open
        self._most = device.target.max_buffer_bytes
        self._lock = threading.Lock()
        self._free: dict[int, list[Any]] = {}
        self._returned: deque[tuple[int, Any]] = deque()  # from collected Buffers; append is atomic
        self._live = self._cached = 0

    def take(self, nbytes: int) -> Any:
        """A handle of at least `nbytes` bytes, with anything in it."""
        if self._returned:  # a loop frees what it will take
            try:
                freed = self._returned.popleft()
            except IndexError:  # another thread was faster
                pass
            else:
                if freed[0] == nbytes:
                    return freed[1]
                self._returned.appendleft(freed)
        with self._lock:
            size = self._class(nbytes)
            self._sort_in()
            stack = self._free.get(size)
            if stack:
                self._cached -= size
                handle = stack.pop()
            else:
                handle = self._allocate(size)
            self._live += size
            return handle

    def give(self, nbytes: int, handle: Any) -> None:
        """Take back the handle of a `take(nbytes)`.

        Runs in collections and while the interpreter ends: no lock, and no name of this module,
        for those are gone by then.
        """
        self._returned.append((nbytes, handle))

    def trim(self, keep: int = 0) -> None:
        """Really free what is cached, largest first, until `keep` bytes are left."""
        with self._lock:
            self._sort_in()
            self._trim(keep)

    def usage(self) -> Usage:
        with self._lock:
            self._sort_in()
            return Usage(self._live, self._cached)

    def _sort_in(self) -> None:
        while self._returned:
            try:
                nbytes, handle = self._returned.popleft()
            except IndexError:  # `take` in another thread was faster
                break
            size = self._class(nbytes)
            self._live -= size
            self._cached += size
            self._free.setdefault(size, []).append(handle)
        if self._cached > _KEEP:
            self._trim(max(_KEEP, self._live))

    def _trim(self, keep: int) -> None:
        for size in sorted(self._free, reverse=True):
            stack = self._free[size]
            while stack and self._cached > keep:
                self._cached -= size
                self.device.allocator.free(stack.pop())

    def _class(self, nbytes: int) -> int:
        """The size class, which no more than the device allows is allocated of."""
        if nbytes > self._most:
            raise DeviceMemoryError(
                f"device {self.device.name!r} holds at most {self._most} bytes in one buffer, and"
                f" {nbytes} are needed, for one tensor or for all that a step keeps between its"
                " kernels. Use smaller tensors, realize() some of them before, or another device."
            )
        return min(size_class(nbytes), self._most)

    def _allocate(self, size: int) -> Any:
        size = min(size, self._most)
        try:
            return self._new(size)
        except MemoryError:
            self._trim(0)
        try:
            return self._new(size)
        except MemoryError as error:
            raise DeviceMemoryError(
                f"device {self.device.name!r} cannot give {size} bytes;"
                f" {self._live} bytes are in use and nothing is cached."
            ) from error

    def _new(self, size: int) -> Any:
        handle = self.device.allocator.alloc(size)
        if handle is None:
            raise DeviceContractError(
                f"device {self.device.name!r}: alloc({size}) gave None, expected a handle; where"
                " there is no memory it raises MemoryError."
            )
        return handle


_pools: dict[str, Pool] = {}
_pools_lock = threading.Lock()
_first_use = threading.Lock()


def pool(device: str) -> Pool:
    """The pool of a device; a new one when the device was closed and opened again. Raises
    DeviceForked."""
    found = _pools.get(device)
    if found is None or found.checked != opened.changes:
        seen, machine = opened.changes, get(device)
        with _pools_lock:
            found = _pools.get(machine.name)
            if found is None or found.device is not machine:
                found = _pools[machine.name] = Pool(machine)
        found.checked = seen
    return found


def pools() -> list[Pool]:
    """The pools of all open devices that have any."""
    usable = opened.usable()
    return [p for p in list(_pools.values()) if p.device in usable]


class _Released:
    """In place of the pool of a Buffer whose memory was given back: nobody gets it again."""

    @property
    def device(self) -> Device:
        raise StateError("this memory was given back: its tensor or its runtime was disposed.")


_RELEASED: Any = _Released()


class Buffer:
    """`nbytes` bytes on the device named `device`, undefined until they are written."""

    __slots__ = ("__weakref__", "_handle", "_pool", "device", "nbytes")

    def __init__(self, device: str, nbytes: int) -> None:
        self.device, self.nbytes = device, nbytes
        self._pool: Pool | None = None
        self._handle: Any = None

    @property
    def handle(self) -> Any:
        """The device's handle; allocated at the first use, which may raise DeviceMemoryError."""
        owner = self._pool
        if owner is None or owner.device.forked:
            return self._first_handle()
        return self._handle

    def _first_handle(self) -> Any:
        owner = pool(self.device)  # refuses a device that belongs to the parent of this fork
        with _first_use:
            if self._pool is None:
                self._handle = owner.take(self.nbytes)
                self._pool = owner
        return self._handle

    @classmethod
    def of_pool(cls, owner: Pool, nbytes: int) -> Buffer:
        """A Buffer that has its memory already. Raises DeviceMemoryError."""
        handle = owner.take(nbytes)
        made: Buffer = _new(cls)
        made._handle, made._pool = handle, owner
        made.device, made.nbytes = owner.name, nbytes
        return made

    def release(self) -> None:
        """Give the memory back before the last reference goes. Whoever still asks for it gets a
        StateError."""
        handle, owner = self._handle, self._pool
        self._handle, self._pool = None, _RELEASED
        if handle is not None and owner is not None:
            owner.give(self.nbytes, handle)

    @property
    def allocated(self) -> bool:
        return self._handle is not None

    def write(self, data: memoryview, offset: int = 0) -> None:
        """Copy all of `data` to byte `offset`."""
        data = _bytes(data)
        self._check(data.nbytes, offset)
        if data.nbytes:
            handle = self.handle  # first: it finds the pool
            self._pool.device.allocator.write(handle, data, offset)  # type: ignore[union-attr]

    def read_into(self, data: memoryview, offset: int = 0) -> None:
        """Fill all of `data` from byte `offset`, after everything launched before."""
        data = _bytes(data)
        self._check(data.nbytes, offset)
        if data.nbytes:
            handle = self.handle
            self._pool.device.allocator.read(data, handle, offset)  # type: ignore[union-attr]

    def read(self, nbytes: int | None = None) -> memoryview:
        """A copy of the contents, or of the first `nbytes`, which the caller owns."""
        data = memoryview(bytearray(self.nbytes if nbytes is None else nbytes))
        self.read_into(data)
        return data

    def _check(self, nbytes: int, offset: int) -> None:
        if offset < 0 or offset + nbytes > self.nbytes:
            raise ValueError(f"{nbytes} bytes at {offset} do not fit {self.nbytes} bytes")

    def __del__(self) -> None:
        if self._handle is not None and self._pool is not None:
            self._pool._returned.append((self.nbytes, self._handle))  # as `give`

    def __repr__(self) -> str:
        state = "" if self.allocated else ", not allocated"
        return f"Buffer({self.device!r}, {self.nbytes}{state})"


def _bytes(data: memoryview) -> memoryview:
    return data if data.format == "B" and data.ndim == 1 else data.cast("B")


def with_room(buffer: Buffer, nbytes: int) -> Buffer:
    """The Buffer, or a copy at the start of one with room for `nbytes`."""
    if buffer.nbytes >= nbytes:
        return buffer
    roomy, where = Buffer(buffer.device, nbytes), get(buffer.device)
    if buffer.nbytes:
        where.allocator.copy(roomy.handle, buffer.handle, buffer.nbytes, where)
    return roomy


def exchange(a: Buffer, b: Buffer) -> None:
    """Let two Buffers of one device and size trade their memory: what holds one sees the other's
    bytes.
    """
    if (a.device, a.nbytes) != (b.device, b.nbytes):
        raise ValueError(f"{a!r} and {b!r} cannot trade their memory")
    a._handle, b._handle = b._handle, a._handle
    a._pool, b._pool = b._pool, a._pool
