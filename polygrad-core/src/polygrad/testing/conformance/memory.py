"""The allocator: what is written comes back, at every size and offset, and views alias."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

from ...target import Target
from .check import Check, Subject, expect, expect_equal, expect_raises

SIZES = (1, 3, 4, 63, 64, 255, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1)
HUGE = 1 << 56  # bytes that no machine has


def noise(nbytes: int, place: int = 0) -> bytes:
    """Bytes at random, other ones at each place: equal ones would hide that they overlap."""
    return random.Random(nbytes + (place << 32)).randbytes(nbytes)


def fetch(subject: Subject, handle: object, nbytes: int, offset: int = 0) -> bytes:
    room = bytearray(nbytes)
    subject.device.allocator.read(memoryview(room), handle, offset)
    return bytes(room)


def round_trip(nbytes: int) -> Callable[[Subject], None]:
    def run(subject: Subject) -> None:
        allocator, data = subject.device.allocator, noise(nbytes)
        with subject.memory() as alloc:
            handle = alloc(nbytes)
            allocator.write(handle, memoryview(data))
            expect(fetch(subject, handle, nbytes) == data, f"{nbytes} bytes come back changed")

    return run


def offsets(subject: Subject) -> None:
    allocator, wanted = subject.device.allocator, bytearray(noise(256))
    with subject.memory() as alloc:
        handle = alloc(256)
        allocator.write(handle, memoryview(bytes(wanted)))
        for offset, nbytes in ((0, 1), (1, 3), (13, 64), (255, 1), (128, 128)):
            piece = noise(nbytes + 7)[:nbytes]
            wanted[offset : offset + nbytes] = piece
            allocator.write(handle, memoryview(piece), offset)
            got = fetch(subject, handle, nbytes, offset)
            expect_equal(got, piece, f"{nbytes} bytes at offset {offset}")
        same = fetch(subject, handle, 256) == wanted
        expect(same, "a write at an offset touched its neighbours")


def typed_views(subject: Subject) -> None:
    """`write` and `read` take memory of any item type: what counts is the bytes."""
    import array

    numbers = array.array("f", [1.0, -2.0, 0.5])
    allocator, room = subject.device.allocator, array.array("f", [0.0] * 3)
    with subject.memory() as alloc:
        handle = alloc(12)
        allocator.write(handle, memoryview(numbers).cast("B"))
        allocator.read(memoryview(room).cast("B"), handle)
    expect_equal(room, numbers, "three floats")


def zeroed(subject: Subject) -> None:
    allocator = subject.device.allocator
    for nbytes in (1, 100, 4096):
        with subject.memory() as alloc:
            allocator.write(alloc(nbytes), memoryview(b"\xff" * nbytes))
        with subject.memory() as alloc:
            clean = not any(fetch(subject, alloc(nbytes, zeroed=True), nbytes))
            expect(clean, f"{nbytes} zeroed bytes are not all zero")


def apart(subject: Subject) -> None:
    """Living allocations never share a byte."""
    allocator, sizes = subject.device.allocator, (1, 7, 64, 65, 300, 1000, 2000, 4096, 100_000) * 4
    with subject.memory() as alloc:
        with subject.memory() as passing:
            some = enumerate(zip(sizes, itertools.cycle((passing, alloc))))
            held = [(take(n), noise(n, place)) for place, (n, take) in some]
            for handle, data in held:
                allocator.write(handle, memoryview(data))
            for handle, data in held[::2]:
                expect(fetch(subject, handle, len(data)) == data, "two allocations overlap")
        for n in (64, 300):
            allocator.write(alloc(n), memoryview(bytes(64)))
        for handle, data in held[1::2]:
            same = fetch(subject, handle, len(data)) == data
            expect(same, "reused memory overlaps what lives")


def absurd_size(subject: Subject) -> None:
    with expect_raises(MemoryError, what=f"alloc({HUGE})"):
        subject.device.allocator.alloc(HUGE)


def many_times(subject: Subject) -> None:
    """A thousand allocations of a megabyte, each freed: what is freed can be had again."""
    allocator = subject.device.allocator
    for _ in range(1000):
        allocator.free(allocator.alloc(1 << 20))


def views(subject: Subject) -> None:
    allocator, align = subject.device.allocator, subject.target.align
    data = noise(4 * align)
    with subject.memory() as alloc:
        base = alloc(4 * align)
        allocator.write(base, memoryview(data))
        part = allocator.view(base, align, 2 * align)
        expect_equal(fetch(subject, part, 2 * align), data[align : 3 * align], "a view's bytes")
        inner = allocator.view(part, align, align)
        allocator.write(inner, memoryview(b"\x55" * align))
        wanted = data[: 2 * align] + b"\x55" * align + data[3 * align :]
        expect_equal(fetch(subject, base, 4 * align), wanted, "a write through a view of a view")


def copies(subject: Subject) -> None:
    device, data = subject.device, noise(1000)
    allocator = device.allocator
    with subject.memory() as alloc:
        source, target = alloc(1000), alloc(1000)
        allocator.write(source, memoryview(data))
        allocator.write(target, memoryview(bytes(1000)))
        allocator.copy(target, source, 900, device)
        wanted = data[:900] + bytes(100)
        expect_equal(fetch(subject, target, 1000), wanted, "a copy of 900 bytes")


def from_reference(subject: Subject) -> None:
    """A copy from the reference device, and one to it."""
    from ...device import get

    device, other = subject.device, get("interp" if subject.name != "interp" else "interp:1")
    data, room = noise(500), bytearray(500)
    theirs = other.allocator.alloc(500)  # of Python's, which collects it
    with subject.memory() as alloc:
        ours = alloc(500)
        other.allocator.write(theirs, memoryview(data))
        device.allocator.copy(ours, theirs, 500, other)
        expect_equal(fetch(subject, ours, 500), data, f"a copy from {other.name}")
        device.allocator.write(ours, memoryview(data[::-1]))
        other.allocator.copy(theirs, ours, 500, device)
        other.allocator.read(memoryview(room), theirs)
        expect_equal(bytes(room), data[::-1], f"a copy to {other.name}")


def checks(target: Target) -> Iterator[Check]:
    yield from (Check(f"memory/round_trip-{n}", round_trip(n)) for n in SIZES)
    for function in (offsets, typed_views, zeroed, apart, absurd_size, many_times, copies):
        yield Check(f"memory/{function.__name__}", function)
    yield Check("memory/from_reference", from_reference)
    if target.views:
        yield Check("memory/views", views)
