"""Timing that a shared machine does not spoil easily: every contestant takes a turn a round."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

TURN = 0.05  # seconds of one contestant's turn
REST = 0.2  # seconds between turns: the threads of a BLAS spin that long for more work


class Timing(NamedTuple):
    """Seconds per call: the best and the median turn."""

    best: float
    median: float


def alternate(
    contestants: Mapping[str, Callable[[], object]], rounds: int = 9
) -> dict[str, Timing]:
    """Time each contestant `rounds` times, turn by turn, each on a machine that is at rest.

    The first calls of a turn are not counted: they wake the contestant's threads.
    """
    counts: dict[str, int] = {}
    for name, call in contestants.items():
        call()
        start = time.perf_counter()
        call()
        once = max(time.perf_counter() - start, 1e-7)
        counts[name] = max(1, int(TURN / once))
    turns: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            time.sleep(REST)
            for _ in range(1 + counts[name] // 10):
                call()
            start = time.perf_counter()
            for _ in range(counts[name]):
                call()
            turns[name].append((time.perf_counter() - start) / counts[name])
    return {name: Timing(min(t), statistics.median(t)) for name, t in turns.items()}


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    import os

    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next(
                line.split(":")[1].strip() for line in file if line.startswith("model name")
            )
    except (OSError, StopIteration):
        pass  # another system than Linux: the platform's word stands
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": model,
        "cores": cores,
        "python": platform.python_version(),
        "system": platform.system(),
    }
