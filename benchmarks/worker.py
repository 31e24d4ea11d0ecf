"""One contestant at one workload, in a process of its own.

    python -m benchmarks.worker WORKLOAD CONTESTANT THREADS

A process of its own makes the first call a first one and the peak of memory its own, and keeps the
thread pools of frameworks apart. It answers one line of JSON at each stage: "made" when the inputs
are there, "first" after the first call, "ready" when it knows how many calls make a turn; then one
for each line that it reads: a turn. `contest.Worker` is the other end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from .frameworks import FRAMEWORKS, framework_of
from .measure import calls_a_turn, timed


def peak_bytes() -> int:
    """Of this process's resident memory, so far."""
    try:
        with open("/proc/self/status") as file:  # what getrusage says includes the parent's
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass  # another system than Linux
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    name, contestant, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints is no answer

    def say(**answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    framework = FRAMEWORKS[framework_of(contestant)](threads)
    from .workloads import WORKLOADS

    step: Callable[[], object] = WORKLOADS[name]().steps[contestant](framework)
    say(stage="made", peak=peak_bytes())
    first = timed(step, 1)
    say(stage="first", wall=first.wall, cpu=first.cpu, peak=peak_bytes())
    count = calls_a_turn(step)
    say(stage="ready", calls=count)
    for _ in sys.stdin:
        for _ in range(1 + count // 10):  # wakes the threads
            step()
        turn = timed(step, count)
        say(stage="turn", wall=turn.wall, cpu=turn.cpu, peak=peak_bytes())


if __name__ == "__main__":
    main()
