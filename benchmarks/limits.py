"""What this machine can do at best, measured by small loops of our own (limits_text.py).

Three kinds of loops say all that the table needs: multiply-adds in registers (the arithmetic peak),
reading an array, at one place or at several in turn, and copying one, with plain stores or with
stores past the caches. Each thread has its own pinned core and its own part of the array, in huge
pages where the system has them. The lanes and the number of accumulators come from the `Target`, as
those of generated kernels do.

Arrays of several sizes are measured, for caches are faster than memory: see `Limits.seconds`.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from .limits_text import FUNCTIONS, PLACES, RUN, UNROLL, module_text

Clock = Callable[[], float]
HUGE = 2 << 20  # bytes of a huge page
PAGE = 4096
BLOCK = PLACES * RUN
ROUNDS = 15
SECONDS = 0.02  # of one round: long beside the start of a thread
PER_CORE = 256 << 10  # bytes within a core's own cache
SHARED = (8 << 20, 32 << 20, 64 << 20, 256 << 20)  # within the last cache to far beyond it


class Limits(NamedTuple):
    """Operations on floats and bytes a second. Bandwidths are by footprint, the bytes that they
    were measured over; those of a copy count what it reads and what it writes."""

    flops: float
    read: dict[int, float]
    copy: dict[int, float]

    def __str__(self) -> str:
        parts = [f"{self.flops / 1e9:.0f} GFLOP/s"]
        for name, rates in (("read", self.read), ("copy", self.copy)):
            shown = ", ".join(f"{r / 1e9:.0f} in {n / 2**20:g} MB" for n, r in rates.items())
            parts.append(f"{name} GB/s {shown}")
        return "; ".join(parts)

    def seconds(self, flops: float, read: float, written: float) -> float:
        """The least time of work that does `flops` operations and reads and writes so many bytes.

        Traffic is a copy of what is both read and written, then a read (or half a copy) of the
        rest. Arithmetic and traffic overlap, so the slower of them counts.
        """
        footprint = read + written
        copied = 2 * min(read, written)
        rest = self.read if read > written else self.copy
        traffic = copied / at(self.copy, footprint) + (footprint - copied) / at(rest, footprint)
        return max(flops / self.flops, traffic)


def at(rates: dict[int, float], footprint: float) -> float:
    """The rate of the largest footprint that is not larger than this one, or of the smallest."""
    fitting = [size for size in rates if size <= footprint]
    return rates[max(fitting) if fitting else min(rates)]


def measure(threads: int, clock: str = "wall") -> Limits:
    """All of it on `threads` threads; a few seconds. By the clock on the wall, or by each thread's
    own CPU time ("cpu"), for a machine that others use too."""
    from polygrad_backend_cpu.target import host_target

    target = host_target()
    # Three quarters of the registers hold sums: enough to hide the latency of an addition.
    loops = compiled(target.vector_bytes // 4, target.registers * 3 // 4)
    rate = partial(_rate, threads, time.thread_time if clock == "cpu" else time.perf_counter)
    sizes = (threads * PER_CORE, *SHARED)
    pages, base = _pages(max(sizes))

    def reading(size: int, loop: Any) -> float:
        part = max(size // threads // BLOCK, 1) * BLOCK
        steps = part // loops.step
        return rate(lambda thread, n: loop(base + thread * part, steps, n), threads * part)

    def copying(size: int, loop: Any) -> float:
        half = size // threads // 2 // PAGE * PAGE

        def work(thread: int, n: int) -> None:
            source = base + 2 * thread * half
            loop(source, source + half, half // loops.step, n)

        return rate(work, threads * 2 * half)

    flops = rate(lambda thread, n: loops.fma(n), loops.flops * threads)
    reads, copies = (loops.read, loops.read_apart), (loops.copy, loops.copy_past)
    read = {size: max(reading(size, loop) for loop in reads) for size in sizes}
    copy = {size: max(copying(size, loop) for loop in copies) for size in sizes}
    del pages
    return Limits(flops, read, copy)


def _pages(size: int) -> tuple[mmap.mmap, int]:
    """`size` bytes that the system has given already, and their address."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
    pages = mmap.mmap(-1, size + HUGE, **private)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    skip = -start % HUGE
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE, skip, size)
    ctypes.memset(start + skip, 0, size)
    return pages, start + skip


def _rate(threads: int, clock: Clock, work: Callable[[int, int], object], amount: float) -> float:
    """`amount` times repetitions, a second. The best round: what disturbs only slows."""
    count = 1
    while (took := _round(threads, clock, work, count)) < SECONDS:
        count = int(count * max(2.0, min(100.0, 1.2 * SECONDS / max(took, 1e-6))))
    return amount * count / min(_round(threads, clock, work, count) for _ in range(ROUNDS))


def _round(threads: int, clock: Clock, work: Callable[[int, int], object], count: int) -> float:
    """Seconds that the slowest thread took; all start together."""
    gate = threading.Barrier(threads)
    times: list[float] = []
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def one(thread: int) -> None:
        if cores:
            os.sched_setaffinity(0, {cores[thread % len(cores)]})  # of this thread alone
        gate.wait()
        start = clock()
        work(thread, count)
        times.append(clock() - start)

    workers = [threading.Thread(target=one, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(times)


class Loops(NamedTuple):
    """Machine code. `flops` are those of one repetition of `fma`, `step` the bytes of one step of
    the others; `code` is the memory that they are in."""

    flops: int
    step: int
    code: object
    fma: Any
    read: Any
    read_apart: Any
    copy: Any
    copy_past: Any


@cache
def compiled(lanes: int, accumulators: int) -> Loops:
    """The loops for vectors of so many floats."""
    from polygrad.contract import Source
    from polygrad_backend_cpu.compile import toolchain

    compiler, linker = toolchain()
    entries = {name: name for name in FUNCTIONS}
    binary = compiler(Source(module_text(lanes, accumulators), entries))
    linked = linker.link(binary.code, entries)
    word, pointer = ctypes.c_int64, ctypes.c_void_p
    takes = ((word,), *((pointer, word, word),) * 2, *((pointer, pointer, word, word),) * 2)
    code = [
        ctypes.CFUNCTYPE(ctypes.c_float, *kinds)(linked.addresses[name])
        for name, kinds in zip(FUNCTIONS, takes, strict=True)
    ]
    return Loops(accumulators * lanes * 2, UNROLL * lanes * 4, linked, *code)
