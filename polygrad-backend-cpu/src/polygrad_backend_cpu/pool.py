"""The worker threads of this process: Python threads that stay inside the native `work`.

One run uses them at a time. A second Python thread that runs a Plan meanwhile does it alone, so
two runs never wait for each other, and two training loops on two cores have one core each.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading

from . import executor_text, layout
from .compile import toolchain
from .tables import ALIGN, aligned
from .target import usable_cores

MAX_THREADS = 1024
# Rounds that a thread spins before it sleeps, each a `pause`: 20 to 60 ns, so about 200 us. A call
# from Python comes that much after the one before, its code out of the caches; to wake a thread
# costs whoever calls 20 us and the thread as much (matmul of 512: 0.92 of the time to 60 us).
SPINS = 4000
CROWDED = 100  # where threads are more than cores: somebody may be waiting for this one


class Pool:
    """Workers and the executor's machine code. There is one: `pool()`."""

    def __init__(self) -> None:
        compiler, linker = toolchain()
        entries = {name: name for name in executor_text.FUNCTIONS}
        # Its instructions are few and far between: compiling it well would cost 20 ms for nothing.
        self._code = linker.link(compiler.quickly(executor_text.executor_text()), entries)
        at = self._code.addresses
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.copy, self.alone = at["copy"], at["run_alone"]
        self.run_alone = ctypes.CFUNCTYPE(None, pointer)(at["run_alone"])
        self._share = ctypes.CFUNCTYPE(None, pointer, pointer, number)(at["run_shared"])
        self._work = ctypes.CFUNCTYPE(None, pointer, number)(at["work"])
        self._retire = ctypes.CFUNCTYPE(None, pointer, pointer)(at["retire"])
        self._stop = ctypes.CFUNCTYPE(None, pointer, number)(at["stop"])
        size = layout.POOL["walks"] + layout.WALK_BYTES * MAX_THREADS + ALIGN
        self._memory = ctypes.create_string_buffer(size)
        self._address = aligned(self._memory)
        self._spins = ctypes.c_int64.from_address(self._address + layout.POOL["spins"])
        self._cores = usable_cores()
        self._lock = threading.Lock()  # held by the run that uses the workers
        self._threads: list[threading.Thread] = []
        self._process, self._closed = os.getpid(), False
        atexit.register(self._at_exit)

    def run(self, plan: int, threads: int, rouse: bool) -> None:
        """Run the tables at `plan` on `threads` threads, or alone while others use the workers.

        `rouse`: the work is worth waking workers that sleep.
        """
        if self._forked() or not self._lock.acquire(blocking=False):
            self.run_alone(plan)
            return
        try:
            if len(self._threads) + 1 < threads:
                self._start(threads)
            self._share(plan, self._address, rouse)
        finally:
            self._lock.release()

    def _forked(self) -> bool:
        """Is this a forked child? It has none of the threads, only what they had written down:
        waiting for one that was at work would never end."""
        return os.getpid() != self._process

    def retire(self, plan: int) -> None:
        """Return when no worker looks at the tables at `plan`, which nobody runs any more."""
        if not self._forked():
            self._retire(self._address, plan)

    def stop(self) -> None:
        """End the workers; a later run starts new ones."""
        if self._forked():
            return
        with self._lock:
            self._stop(self._address, 1)
            for thread in self._threads:
                thread.join()
            self._threads.clear()
            self._stop(self._address, 0)

    def _start(self, threads: int) -> None:
        self._spins.value = SPINS if threads <= self._cores else CROWDED
        while not self._closed and len(self._threads) + 1 < min(threads, MAX_THREADS):
            number = len(self._threads) + 1
            # A daemon, for Python joins all others before it calls atexit.
            thread = threading.Thread(
                target=self._work,
                args=(self._address, number),
                name=f"polygrad-cpu-{number}",
                daemon=True,
            )
            self._threads.append(thread)  # first: a Ctrl-C during its start leaves it known
            try:
                thread.start()
            except (RuntimeError, MemoryError):  # the system has no more: none to wait for
                self._threads.pop()
                raise

    def _at_exit(self) -> None:
        self._closed = True  # the interpreter must not go while threads are in machine code
        self.stop()


_made: list[Pool] = []
_making = threading.Lock()


def pool() -> Pool:
    """The pool of this process, made at first use."""
    if not _made:
        with _making:
            if not _made:
                _made.append(Pool())
    return _made[0]


def pool_is_made() -> bool:
    return bool(_made)


def stop_pool() -> None:
    """End the workers, if there are any."""
    for made in _made:
        made.stop()
