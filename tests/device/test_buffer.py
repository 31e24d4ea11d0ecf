"""Buffer: lazy memory with an owner, and the cache that freed memory waits in."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace

import pytest

from polygrad.device import buffer
from polygrad.device.buffer import Buffer, Pool, pool, size_class
from polygrad.errors import DeviceMemoryError


class CountingAllocator:
    """Hands out numbers; refuses when more than `room` bytes are out."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.room, self.out, self.calls = room, {}, 0

    def alloc(self, nbytes: int, *, zeroed: bool = False) -> int:
        if sum(self.out.values()) + nbytes > self.room:
            raise MemoryError
        self.calls += 1
        self.out[self.calls] = nbytes
        return self.calls

    def free(self, handle: int) -> None:
        del self.out[handle]


class FakeDevice:
    name = "fake"

    def __init__(self, room: int = 1 << 40, most: int = 1 << 40) -> None:
        self.allocator = CountingAllocator(room)
        self.target = SimpleNamespace(max_buffer_bytes=most)


def test_no_buffer_is_larger_than_the_device_allows() -> None:
    """Nor is its size class, whose handles are then for what fits them."""
    cache = Pool(FakeDevice(most=1000))
    assert size_class(900) == size_class(1010) > 1000
    for _ in range(2):  # with nothing cached, and with a handle of that class
        cache.give(900, cache.take(900))
        assert cache.device.allocator.out == {1: 1000}
        with pytest.raises(DeviceMemoryError, match="at most 1000 bytes in one buffer, and 1010"):
            cache.take(1010)


def test_size_classes_waste_at_most_a_quarter() -> None:
    for n in range(257, 70_000, 7):
        assert n <= size_class(n) <= n * 1.25 + 1
        assert size_class(size_class(n)) == size_class(n)
    assert size_class(0) == size_class(1) == size_class(256)


def test_large_size_classes_waste_at_most_a_sixteenth() -> None:
    for nbytes in (1 << 20, 2_359_296, 7_077_888, 9_437_184, 154_389_504, (1 << 30) + 1):
        assert nbytes <= size_class(nbytes) <= nbytes + nbytes // 16 + 1


def test_memory_is_asked_for_at_the_first_use() -> None:
    buffer = Buffer("interp", 1000)
    assert not buffer.allocated
    buffer.write(memoryview(b"ab"), offset=3)
    assert buffer.allocated
    assert bytes(buffer.read()[3:5]) == b"ab"


def test_an_access_outside_is_refused_and_allocates_nothing() -> None:
    buffer = Buffer("interp", 4)
    with pytest.raises(ValueError, match="3 bytes at 2 do not fit 4 bytes"):
        buffer.write(memoryview(b"abc"), offset=2)
    assert not buffer.allocated


def test_a_collected_buffer_gives_its_memory_to_the_next_of_its_class() -> None:
    memory = pool("interp")
    memory.trim()
    before = memory.usage()
    first = Buffer("interp", 5000)
    handle = first.handle
    assert memory.usage().live == before.live + size_class(5000)
    del first
    gc.collect()
    assert memory.usage() == (before.live, before.cached + size_class(5000))
    assert Buffer("interp", 4900).handle is handle


def test_an_empty_buffer_reads_nothing() -> None:
    buffer = Buffer("interp", 0)
    buffer.write(memoryview(b""))
    assert bytes(buffer.read()) == b""
    assert buffer.handle is not None


def test_a_full_device_frees_its_cache_and_tries_again() -> None:
    device = FakeDevice(room=1 << 20)
    memory = Pool(device)
    big = memory.take(1 << 20)
    memory.give(1 << 20, big)
    assert memory.take(1 << 19) != big
    assert memory.usage() == (1 << 19, 0)


def test_a_device_with_no_memory_left_says_how_much_is_in_use() -> None:
    memory = Pool(FakeDevice(room=1 << 20))
    memory.take(1 << 20)
    with pytest.raises(
        DeviceMemoryError, match="'fake' cannot give 512 bytes; 1048576 bytes are in"
    ):
        memory.take(512)
    assert memory.usage() == (1 << 20, 0)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from polygrad.device import buffer

    monkeypatch.setattr(buffer, "_KEEP", 4096)
    device = FakeDevice()
    memory = Pool(device)
    for handle in [memory.take(1024) for _ in range(64)]:
        memory.give(1024, handle)
    assert memory.usage() == (0, 4096)
    assert sum(device.allocator.out.values()) == 4096


def test_buffers_may_die_in_any_thread() -> None:
    memory = pool("interp")
    gc.collect()
    before = memory.usage().live

    def churn() -> None:
        for n in range(300):
            Buffer("interp", 256 * (1 + n % 7)).handle  # noqa: B018

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert memory.usage().live == before


def test_two_threads_that_touch_one_buffer_first_get_one_handle() -> None:
    for _ in range(50):
        buffer = Buffer("interp", 64)
        barrier, seen = threading.Barrier(2), []

        def touch(buffer=buffer, barrier=barrier, seen=seen) -> None:
            barrier.wait()
            seen.append(buffer.handle)

        threads = [threading.Thread(target=touch) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert seen[0] is seen[1]


def test_a_buffer_may_die_after_the_names_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while the interpreter ends: Python then sets a module's names to None."""
    made = buffer.Buffer("interp", 8)
    assert made.handle is not None
    returned = made._pool._returned
    with monkeypatch.context() as ending:
        for name in vars(buffer):
            if not name.startswith("__"):
                ending.setattr(buffer, name, None)
        before = len(returned)
        made.__del__()
        assert len(returned) == before + 1
    made._handle = None
