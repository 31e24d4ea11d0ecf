"""Memory. A handle is whatever you like (a pointer, a number, an object): polygrad never looks
into it, it only hands it back. polygrad keeps freed memory for the next tensor, so `free` frees."""

from __future__ import annotations

from polygrad.plugin import Allocator

LARGEST = 1 << 34  # bytes that this machine gives at once


class Memory(Allocator[memoryview]):
    def alloc(self, nbytes: int, *, zeroed: bool = False) -> memoryview:
        if nbytes > LARGEST:
            raise MemoryError(f"{nbytes} bytes are more than {LARGEST}")  # never return None
        return memoryview(bytearray(nbytes))  # a bytearray is all zeros anyway

    def free(self, handle: memoryview) -> None:
        """Nothing to do here: Python collects the bytes when the last view of them goes."""

    def write(self, dst: memoryview, src: memoryview, offset: int = 0) -> None:
        dst[offset : offset + src.nbytes] = src.cast("B")

    def read(self, dst: memoryview, src: memoryview, offset: int = 0) -> None:
        # If launches run on their own, wait for them first.
        dst.cast("B")[:] = src[offset : offset + dst.nbytes]

    def view(self, base: memoryview, offset: int, nbytes: int) -> memoryview:
        """A handle of a part. Needed while Target.views is true, which it is unless you say no."""
        return base[offset : offset + nbytes]
