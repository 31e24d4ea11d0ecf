"""Does memory grow over many training steps? Resident bytes after warm-up against the end."""

from __future__ import annotations

import gc
import os


def resident() -> int:
    """Resident bytes of this process (Linux)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(steps: int = 10_000) -> dict[str, float]:
    """Train the small perceptron for `steps` steps and an eager loop beside it."""
    from polygrad import Tensor

    from .frameworks import FRAMEWORKS, OURS
    from .measure import usable_cores
    from .workloads import WORKLOADS

    step = WORKLOADS["tinymlp_b32"]().steps[OURS](FRAMEWORKS[OURS](usable_cores()))
    x = Tensor([1.0, 2.0, 3.0]).realize()
    growth: dict[str, float] = {}
    for name, once in (("train_step", step), ("eager", lambda: (x * 2 + 1).realize())):
        for _ in range(1000):
            once()
        gc.collect()
        before = resident()
        for _ in range(steps):
            once()
        gc.collect()
        growth[name] = (resident() - before) / 1e6
        print(f"{name}: {steps} steps grew {growth[name]:.2f} MB")
    return growth
