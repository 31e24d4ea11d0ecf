"""Time to the first result in fresh processes, with an empty and with a warm disk cache.

What counts is the CPU time of the process, start and imports included, without that of making the
weights: each program is a part that sets up, and a part whose first result is wanted. A decoder of
four times the layers should cost less than twice as much, for equal layers are compiled once.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

ROUNDS = 5


class Program(NamedTuple):
    """Lines that set up, and lines whose first result is wanted."""

    before: str
    first: str
    goal: float | None = None  # seconds, with an empty cache


SETUP = "from benchmarks.cold_networks import {0}\nstep = {0}({1})"
STEP = "step()"
PROGRAMS = {
    "bare interpreter": Program("", "pass"),
    "import polygrad": Program("", "import polygrad"),
    "first x + 1": Program(
        "", "from polygrad import Tensor\n(Tensor([1.0, 2.0]) + 1).tolist()", 0.3
    ),
    "MLP training step": Program(SETUP.format("perceptron", ""), STEP, 1.0),
    "GPT-2 decode": Program(SETUP.format("decode", ""), STEP, 2.5),
    "ResNet-18 training step": Program(SETUP.format("resnet", ""), STEP, 6.0),
    "12 narrow layers": Program(SETUP.format("decode", "12, 64"), STEP),
    "48 narrow layers": Program(SETUP.format("decode", "48, 64"), STEP),
}
# What making the weights takes is measured in the process and told, for it cannot be seen from
# outside. Imports and the opening of the device are no part of it: everybody waits for them.
OPENING = "import numpy\nfrom polygrad import Tensor\nTensor([0.0]).realize()"
FRAME = """
import time
{opening}
start = time.process_time()
{before}
made = time.process_time()
{first}
print(made - start, time.process_time() - made)
"""


class Cost(NamedTuple):
    """Seconds: CPU of the process without the set-up, CPU of the first result alone, and the wall
    time of everything."""

    cpu: float
    first: float
    wall: float


def run(program: Program, cache: str) -> Cost:
    """One process, its packages compiled to bytecode as pip leaves them."""
    env = {**os.environ, "POLY_CACHE_DIR": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    opening = OPENING if program.before else ""
    text = FRAME.format(opening=opening, before=program.before, first=program.first)
    done = subprocess.run([sys.executable, "-c", text], check=True, env=env, stdout=subprocess.PIPE)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    setup, first = map(float, done.stdout.split()[-2:])
    return Cost(whole - setup, first, wall)


def median(costs: list[Cost]) -> Cost:
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


def main(only: Any = None, rounds: int = ROUNDS) -> dict[str, dict[str, Any]]:
    """Medians over `rounds`, with an empty and with a warm disk cache."""
    results: dict[str, dict[str, Any]] = {}
    for name, program in PROGRAMS.items():
        if only and not only.match(name):
            continue
        kinds: dict[str, list[Cost]] = {"cold": [], "warm": []}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                for costs in kinds.values():
                    costs.append(run(program, cache))
        row = {kind: median(costs)._asdict() for kind, costs in kinds.items()}
        results[name], text = {**row}, shown(row)
        if program.goal is not None:
            late = missed(row, program.goal)
            results[name] |= {"goal": program.goal, "missed": late}
            verdict = f"NOT MET {', '.join(late)}" if late else "met"
            text += f"  < {program.goal} s, a third of it warm: {verdict}"
        print(f"{name:26}{text}", flush=True)
    if {"12 narrow layers", "48 narrow layers"} <= results.keys():
        few, many = (results[f"{n} narrow layers"]["cold"]["first"] for n in (12, 48))
        verdict = "met" if many < 2 * few else "NOT MET"
        print(f"48 layers cost {many / few:.2f}x the 12 (< 2: {verdict})")
    return results


def shown(row: Mapping[str, Mapping[str, float]]) -> str:
    return "  ".join(
        f"{kind}: CPU {cost['cpu']:6.3f} s (first result {cost['first']:6.3f}), "
        f"wall {cost['wall']:6.3f} s"
        for kind, cost in row.items()
    )


def missed(row: Mapping[str, Mapping[str, float]], goal: float) -> list[str]:
    """Which of the two take longer than they may: with a warm cache a third of the goal."""
    allowed = {"cold": goal, "warm": goal / 3}
    return [kind for kind, seconds in allowed.items() if row[kind]["cpu"] >= seconds]
