"""Memory: one heap of bytes; a handle is an address in it, a plain number.

Blocks start at multiples of 16 and have a gap of at least 16 bytes between them, filled with a
pattern, so that a kernel that writes past its end is found when the block is freed.
"""

from __future__ import annotations

import threading

from polygrad.plugin import Allocator

ALIGN, GAP = 16, 16
BASE = 0x40  # address 0 is nobody's
SIZE = 64 << 20
PATTERN = b"\xa5" * GAP


class Heap(Allocator[int]):
    """First fit over a list of free ranges."""

    def __init__(self) -> None:
        self.bytes = bytearray(SIZE)
        self._lock = threading.Lock()
        self._used: dict[int, int] = {}  # address -> bytes asked for
        self._free: list[tuple[int, int]] = [(BASE, SIZE - BASE)]  # (start, length), by start

    def alloc(self, nbytes: int, *, zeroed: bool = False) -> int:
        room = -(-nbytes // ALIGN) * ALIGN + GAP
        with self._lock:
            for i, (start, length) in enumerate(self._free):
                if length >= room:
                    rest = (start + room, length - room)
                    self._free[i : i + 1] = [rest] if rest[1] else []
                    self._used[start] = nbytes
                    break
            else:
                raise MemoryError(f"the heap of {SIZE} bytes has no {nbytes} in one piece")
            end = start + nbytes
            self.bytes[end : end + GAP] = PATTERN
            if zeroed:
                self.bytes[start:end] = bytes(nbytes)
        return start

    def free(self, handle: int) -> None:
        with self._lock:
            nbytes = self._used.pop(handle, None)
            if nbytes is None:
                raise ValueError(f"there is no block at address {handle:#x}")
            end = handle + nbytes
            if self.bytes[end : end + GAP] != PATTERN:
                raise ValueError(f"somebody wrote past the end of the block at {handle:#x}")
            room = -(-nbytes // ALIGN) * ALIGN + GAP
            self._free = _joined(sorted([*self._free, (handle, room)]))

    def write(self, dst: int, src: memoryview, offset: int = 0) -> None:
        start = dst + offset
        self.bytes[start : start + src.nbytes] = src.cast("B")

    def read(self, dst: memoryview, src: int, offset: int = 0) -> None:
        start = src + offset
        dst.cast("B")[:] = self.bytes[start : start + dst.nbytes]

    def view(self, base: int, offset: int, nbytes: int) -> int:
        return base + offset


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Free ranges, neighbours made one."""
    out: list[tuple[int, int]] = []
    for start, length in ranges:
        if out and sum(out[-1]) == start:
            out[-1] = (out[-1][0], out[-1][1] + length)
        else:
            out.append((start, length))
    return out
