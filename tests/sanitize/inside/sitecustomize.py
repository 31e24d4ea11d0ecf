"""Python runs this first in a process of the stand: the device gets the executor made there, its
kernels are watched, and if the stand says so every step is split."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

from polygrad_backend_cpu import c_compile, executor, pool
from polygrad_backend_cpu.compile import Linked


class Watched:
    """In place of the compiler and the linker of the executor: the shared library of the stand."""

    def quickly(self, text: str) -> bytes:
        return b""

    def link(self, code: bytes, symbols: Mapping[str, str]) -> Linked:
        # Not from memory, as programs are: ThreadSanitizer reads the file for names and lines.
        library = ctypes.CDLL(os.environ["SANITIZED_EXECUTOR"])
        address = {n: ctypes.cast(library[s], ctypes.c_void_p).value for n, s in symbols.items()}
        return Linked({name: at or 0 for name, at in address.items()}, library)


plain = c_compile.flags


def flags(name: str, vector_bytes: int) -> tuple[str, ...]:
    return (*plain(name, vector_bytes), "-fsanitize=thread")


pool.toolchain = lambda: (Watched(), Watched())  # type: ignore[assignment, return-value]
c_compile.flags = flags
if os.environ["SANITIZED_SPLIT"]:
    executor.SMALL_US = executor.ROUSE_US = 0.0
    executor.TICKET_US = 0.01
