"""The allocator: what is written comes back, at every size and offset, and views alias."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from ...target import Target
from .check import Check, Subject, expect, expect_equal, expect_raises

SIZES = (1, 3, 4, 63, 64, 255, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1)
HUGE = 1 << 56  # bytes that no machine has


def noise(nbytes: int) -> bytes:
    return random.Random(nbytes).randbytes(nbytes)


def fetch(subject: Subject, handle: object, nbytes: int, offset: int = 0) -> bytes:
    room = bytearray(nbytes)
    subject.device.allocator.read(memoryview(room), handle, offset)
    return bytes(room)


def round_trip(nbytes: int) -> Callable[[Subject], None]:
    def run(subject: Subject) -> None:
        allocator, data = subject.device.allocator, noise(nbytes)
        handle = allocator.alloc(nbytes)
        allocator.write(handle, memoryview(data))
        expect(fetch(subject, handle, nbytes) == data, f"{nbytes} bytes come back changed")
        allocator.free(handle)

    return run


def offsets(subject: Subject) -> None:
    allocator = subject.device.allocator
    handle, wanted = allocator.alloc(256), bytearray(noise(256))
    allocator.write(handle, memoryview(bytes(wanted)))
    for offset, nbytes in ((0, 1), (1, 3), (13, 64), (255, 1), (128, 128)):
        piece = noise(nbytes + 7)[:nbytes]
        wanted[offset : offset + nbytes] = piece
        allocator.write(handle, memoryview(piece), offset)
        got = fetch(subject, handle, nbytes, offset)
        expect_equal(got, piece, f"{nbytes} bytes at offset {offset}")
    expect(fetch(subject, handle, 256) == wanted, "a write at an offset touched its neighbours")
    allocator.free(handle)


def typed_views(subject: Subject) -> None:
    """`write` and `read` take memory of any item type: what counts is the bytes."""
    import array

    numbers = array.array("f", [1.0, -2.0, 0.5])
    allocator = subject.device.allocator
    handle = allocator.alloc(12)
    allocator.write(handle, memoryview(numbers).cast("B"))
    room = array.array("f", [0.0] * 3)
    allocator.read(memoryview(room).cast("B"), handle)
    expect_equal(room, numbers, "three floats")
    allocator.free(handle)


def zeroed(subject: Subject) -> None:
    allocator = subject.device.allocator
    for nbytes in (1, 100, 4096):
        used = allocator.alloc(nbytes)
        allocator.write(used, memoryview(b"\xff" * nbytes))
        allocator.free(used)
        handle = allocator.alloc(nbytes, zeroed=True)
        expect(not any(fetch(subject, handle, nbytes)), f"{nbytes} zeroed bytes are not all zero")
        allocator.free(handle)


def apart(subject: Subject) -> None:
    """Living allocations never share a byte."""
    allocator = subject.device.allocator
    held = [(allocator.alloc(n), noise(n)) for n in (1, 7, 64, 65, 300, 1000) * 4]
    for handle, data in held:
        allocator.write(handle, memoryview(data))
    for handle, data in held[::2]:
        expect(fetch(subject, handle, len(data)) == data, "two allocations overlap")
        allocator.free(handle)
    again = [allocator.alloc(n) for n in (64, 300)]
    for handle in again:
        allocator.write(handle, memoryview(bytes(64)))
    for handle, data in held[1::2]:
        expect(fetch(subject, handle, len(data)) == data, "reused memory overlaps what lives")
        allocator.free(handle)
    for handle in again:
        allocator.free(handle)


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
    base, data = allocator.alloc(4 * align), noise(4 * align)
    allocator.write(base, memoryview(data))
    part = allocator.view(base, align, 2 * align)
    expect_equal(fetch(subject, part, 2 * align), data[align : 3 * align], "a view's bytes")
    inner = allocator.view(part, align, align)
    allocator.write(inner, memoryview(b"\x55" * align))
    wanted = data[: 2 * align] + b"\x55" * align + data[3 * align :]
    expect_equal(fetch(subject, base, 4 * align), wanted, "a write through a view of a view")
    allocator.free(base)


def copies(subject: Subject) -> None:
    device = subject.device
    allocator, data = device.allocator, noise(1000)
    source, target = allocator.alloc(1000), allocator.alloc(1000)
    allocator.write(source, memoryview(data))
    allocator.write(target, memoryview(bytes(1000)))
    allocator.copy(target, source, 900, device)
    expect_equal(fetch(subject, target, 1000), data[:900] + bytes(100), "a copy of 900 bytes")
    allocator.free(source)
    allocator.free(target)


def from_reference(subject: Subject) -> None:
    """A copy from the reference device, and one to it."""
    from ...device import get

    other = get("interp" if subject.name != "interp" else "interp:1")
    data = noise(500)
    theirs, ours = other.allocator.alloc(500), subject.device.allocator.alloc(500)
    other.allocator.write(theirs, memoryview(data))
    subject.device.allocator.copy(ours, theirs, 500, other)
    expect_equal(fetch(subject, ours, 500), data, f"a copy from {other.name}")
    subject.device.allocator.write(ours, memoryview(data[::-1]))
    other.allocator.copy(theirs, ours, 500, subject.device)
    room = bytearray(500)
    other.allocator.read(memoryview(room), theirs)
    expect_equal(bytes(room), data[::-1], f"a copy to {other.name}")
    subject.device.allocator.free(ours)
    other.allocator.free(theirs)


def checks(target: Target) -> Iterator[Check]:
    yield from (Check(f"memory/round_trip-{n}", round_trip(n)) for n in SIZES)
    for function in (offsets, typed_views, zeroed, apart, absurd_size, many_times, copies):
        yield Check(f"memory/{function.__name__}", function)
    yield Check("memory/from_reference", from_reference)
    if target.views:
        yield Check("memory/views", views)
