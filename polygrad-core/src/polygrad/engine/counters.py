"""What the engine has done: one `Counters` per runtime, and the sums of all in this process.

Plain integers that only grow. A runtime's are written under its lock, so they are exact; reading
takes none, so a sum may be of two instants. What can be looked up (bytes in use) is not counted.

| name | counts |
|---|---|
| `launches` | kernels started, once for each run of a Plan that has them |
| `ops` | their arithmetic: adds, multiplications and the like of all elements, an estimate |
| `bytes_moved` | the bytes of memory they touch, each byte once per kernel, an estimate |
| `seconds` | what they took, in a Context(TIMING=1) only |
| `runs` | calls into a device, each of one Plan, and copies between devices |
| `copies` | whole-buffer copies between devices |
| `plans_made` | schedules turned into Plans |
| `plan_hits` | realised graphs whose Plan was known |
| `kernels_lowered` | kernels that code was generated for |
| `kernels_compiled` | kernels given to a toolchain |
| `kernels_tuned` | kernels whose transform list was searched for (`BEAM`) |
| `disk_hits` | modules found in the disk cache |
| `saved_versions` | old versions copied because a reader of them lives |
"""

from __future__ import annotations

import threading
import weakref
from typing import Any


class Counters:
    """What one runtime has counted since it was made, or since the last `reset`."""

    __slots__ = (
        "bytes_moved",
        "copies",
        "disk_hits",
        "kernels_compiled",
        "kernels_lowered",
        "kernels_tuned",
        "launches",
        "ops",
        "plan_hits",
        "plans_made",
        "runs",
        "saved_versions",
        "seconds",
    )

    bytes_moved: int
    copies: int
    disk_hits: int
    kernels_compiled: int
    kernels_lowered: int
    kernels_tuned: int
    launches: int
    ops: int
    plan_hits: int
    plans_made: int
    runs: int
    saved_versions: int
    seconds: float

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    def snapshot(self) -> dict[str, Any]:
        """All counters by name, as they are now."""
        return {name: getattr(self, name) for name in self.__slots__}


_all: list[Counters] = []  # of runtimes that live
_ended = Counters()  # sums of those that do not
_lock = threading.RLock()  # a collection may end a runtime while we are in here


def after_fork() -> None:
    """Another thread may have held the lock while forking."""
    global _lock
    _lock = threading.RLock()


def made_for(runtime: Any) -> Counters:
    """New counters for `runtime`. When it goes, what they say stays part of the sums."""
    counters = Counters()
    with _lock:
        _all.append(counters)
    weakref.finalize(runtime, _end, counters).atexit = False
    return counters


def _end(counters: Counters) -> None:
    with _lock:
        _all.remove(counters)
        for name, value in counters.snapshot().items():
            setattr(_ended, name, getattr(_ended, name) + value)


class Totals:
    """The sums over all runtimes of this process, the ended ones too, by the same names."""

    def __getattr__(self, name: str) -> Any:
        with _lock:
            return sum(getattr(c, name) for c in (_ended, *_all))

    def reset(self) -> None:
        """Count from 0 again, in every runtime."""
        with _lock:
            for counters in (_ended, *_all):
                counters.reset()

    def snapshot(self) -> dict[str, Any]:
        """All sums by name."""
        return {name: getattr(self, name) for name in Counters.__slots__}


counters = Totals()
