"""What the engine has done in this process, for tests and reports.

Plain integers that only grow (`live_bytes` is asked of the device floor). Each is written under
the lock of one runtime; two runtimes that count at the same instant may lose one, which statistics
can bear.
"""

from __future__ import annotations


class Counters:
    """What has been counted since the start or the last `reset`."""

    __slots__ = (
        "copies",
        "disk_hits",
        "kernels_compiled",
        "kernels_lowered",
        "launches",
        "plan_hits",
        "plans_made",
        "runs",
        "saved_versions",
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    def snapshot(self) -> dict[str, int]:
        """All counters by name, as they are now."""
        return {name: getattr(self, name) for name in self.__slots__}

    copies: int  # whole-buffer copies between devices
    disk_hits: int  # modules found in the disk cache
    kernels_compiled: int  # kernels given to a toolchain
    kernels_lowered: int  # canonical kernels turned into LinearPrograms
    launches: int  # kernel launches, counted per run of a Plan
    plan_hits: int  # realised graphs whose Plan was known
    plans_made: int  # schedules turned into Plans
    runs: int  # executable calls
    saved_versions: int  # old versions copied because a reader of them lives


counters = Counters()
