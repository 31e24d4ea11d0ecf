"""A row for each workload: what is kept as JSON, and the line that is printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contest import Result
from .frameworks import OURS
from .workloads.common import Goal

MB = 1e6
KEYS = {"wall": "median_ms", "cpu": "cpu_ms"}  # of a contestant's figures, by the clock
Row = dict[str, Any]


def row(
    results: Mapping[str, Result],
    failed: Mapping[str, str],
    limit: float,
    goal: Goal | None,
    clock: str = "wall",
) -> Row:
    """Of one workload. `limit` is in seconds, 0 where there is none to speak of; ratios are a
    peer's time / ours, by the median turn, and `fraction` is limit / ours."""
    made: Row = {name: _figures(result) for name, result in results.items()}
    if failed:
        made["failed"] = dict(failed)
    if OURS not in results:
        return made
    times = {name: seconds(result, clock) for name, result in results.items()}
    ours = times.pop(OURS)
    made["ratio"] = {name: theirs / ours for name, theirs in times.items()}
    if times:
        made["best_peer"] = min(times, key=lambda name: times[name])
    if limit:
        made["limit_ms"], made["fraction"] = limit * 1e3, limit / ours
    if goal:
        made["goal"] = {"ratio": goal.ratio, "fraction": goal.fraction, "met": met(made, goal)}
    return made


def seconds(result: Result, clock: str) -> float:
    return result.timing.cpu if clock == "cpu" else result.timing.median


def met(made: Row, goal: Goal) -> bool | None:
    """Whether both marks are reached; None where there is no peer to say so."""
    if "best_peer" not in made:
        return None
    ratio: float = made["ratio"][made["best_peer"]]
    enough = goal.fraction is None or made.get("fraction", 0.0) >= goal.fraction
    return ratio >= goal.ratio and enough


def _figures(result: Result) -> Row:
    timing = result.timing
    return {
        "best_ms": timing.best * 1e3,
        "median_ms": timing.median * 1e3,
        "cpu_ms": timing.cpu * 1e3,
        "first_s": result.first.wall,
        "first_cpu_s": result.first.cpu,
        "made_mb": result.made_bytes / MB,
        "peak_mb": result.peak_bytes / MB,
    }


# ---- text

HEAD = (
    f"{'workload':20}{'ours ms':>10}{'limit':>7}{'first s':>9}{'peak MB':>9}  "
    "peers: ms (their time / ours), the best one's with a *"
)


def line(name: str, made: Row, clock: str = "wall") -> str:
    """One line of the table. `first s` is CPU seconds of the first call, code generation included,
    with an empty cache."""
    failures = "".join(f"  {c}: {why}" for c, why in made.get("failed", {}).items())
    if OURS not in made:
        return f"{name:20} no time of ours{failures}"
    key = KEYS[clock]
    ours = made[OURS]
    share = f"{made['fraction']:.0%}" if "fraction" in made else "-"
    text = f"{name:20}{ours[key]:10.3f}{share:>7}{ours['first_cpu_s']:9.2f}{ours['peak_mb']:9.0f}  "
    text += "  ".join(
        f"{c} {made[c][key]:.3f} ({r:.2f}x){'*' if c == made['best_peer'] else ''}"
        for c, r in made["ratio"].items()
    )
    return text + _verdict(made) + failures


def _verdict(made: Row) -> str:
    goal = made.get("goal")
    if not goal or goal["met"] is None:
        return ""
    share = f" and {goal['fraction']:.0%}" if goal["fraction"] else ""
    return f"  >= {goal['ratio']}x{share}: {'met' if goal['met'] else 'NOT MET'}"
