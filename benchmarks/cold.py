"""Time to the first result in fresh processes: CPU and wall seconds of the whole process."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = {
    "bare interpreter": "pass",
    "import polygrad": "import polygrad",
    "first x + 1": "from polygrad import Tensor\n(Tensor([1.0, 2.0]) + 1).tolist()",
    "first MLP training step": """
import numpy as np
from benchmarks.workloads import training
training((784, 512, 512, 10), 32, True, 1.0).makers["ours"]()()
""",
}


def run(program: str, cache: str) -> tuple[float, float]:
    """CPU and wall seconds of one process, its packages compiled to bytecode as pip leaves them."""
    env = {**os.environ, "POLY_CACHE_DIR": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, env=env)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main(rounds: int = 5) -> dict[str, dict[str, float]]:
    """Median over `rounds`, with an empty and with a warm disk cache."""
    results: dict[str, dict[str, float]] = {}
    for name, program in PROGRAMS.items():
        cold, warm = [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(run(program, cache))
                warm.append(run(program, cache))
        median = [statistics.median(t[i] for t in kind) for kind in (cold, warm) for i in (0, 1)]
        results[name] = dict(
            zip(("cold_cpu", "cold_wall", "warm_cpu", "warm_wall"), median, strict=True)
        )
        shown = "  ".join(f"{key} {value:6.3f} s" for key, value in results[name].items())
        print(f"{name:26} {shown}", flush=True)
    return results
