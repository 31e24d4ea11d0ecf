"""Timing that a shared machine does not spoil easily: every contestant takes a turn a round."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

TURN = 0.05  # seconds of one contestant's turn
REST = 0.2  # seconds between turns: the threads of a BLAS spin that long for more work
ROUNDS = 9
FEW, LONG = 3, 5.0  # after so many turns and seconds a slow contestant has had enough of them
WARM = 3  # calls before a turn's length is chosen; some frameworks compile at the second

Turn = Callable[[], "Seconds"]


class Seconds(NamedTuple):
    """Of one call: by the clock, and of the process on all its cores."""

    wall: float
    cpu: float


class Timing(NamedTuple):
    """Seconds per call: the best and the median turn, and the median of CPU time."""

    best: float
    median: float
    cpu: float


def timed(call: Callable[[], object], count: int) -> Seconds:
    """The mean of `count` calls."""
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(count):
        call()
    wall = time.perf_counter() - start
    return Seconds(wall / count, (time.process_time() - cpu) / count)


def calls_a_turn(call: Callable[[], object]) -> int:
    """How many calls last for a turn, once it is warm."""
    for _ in range(WARM):
        once = timed(call, 1).wall
    return max(1, int(TURN / max(once, 1e-7)))


def alternate(turns: Mapping[str, Turn], rounds: int = ROUNDS) -> dict[str, Timing]:
    """Everybody's turn, `rounds` times over, each on a machine that is at rest."""
    taken: dict[str, list[Seconds]] = {name: [] for name in turns}
    spent = dict.fromkeys(turns, 0.0)
    for _ in range(rounds):
        for name, turn in turns.items():
            if len(taken[name]) < FEW or spent[name] < LONG:
                time.sleep(REST)
                start = time.perf_counter()
                taken[name].append(turn())
                spent[name] += time.perf_counter() - start
    return {name: summary(some) for name, some in taken.items()}


def summary(turns: list[Seconds]) -> Timing:
    walls = [t.wall for t in turns]
    return Timing(min(walls), statistics.median(walls), statistics.median(t.cpu for t in turns))


def local(call: Callable[[], object]) -> Turn:
    """Turns of a function of this process. A turn's first calls are not counted: they wake its
    threads."""
    count = calls_a_turn(call)

    def turn() -> Seconds:
        for _ in range(1 + count // 10):
            call()
        return timed(call, count)

    return turn


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next(
                line.split(":")[1].strip() for line in file if line.startswith("model name")
            )
    except (OSError, StopIteration):
        pass  # another system than Linux: the platform's word stands
    return {
        "cpu": model,
        "cores": usable_cores(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
