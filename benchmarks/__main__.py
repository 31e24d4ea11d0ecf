"""`python -m benchmarks …`; see the package's docstring."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from .measure import alternate, machine


def compare(peers: list[str], only: list[str]) -> dict[str, Any]:
    """Run the workloads, ours and the peers turn by turn; print a row each."""
    from .workloads import WORKLOADS  # numpy reads its number of threads when it is imported

    results: dict[str, Any] = {}
    for name, make in WORKLOADS.items():
        if only and name not in only:
            continue
        workload = make()
        contestants = {c: m() for c, m in workload.makers.items() if c == "ours" or c in peers}
        timings = alternate(contestants)
        mine = timings["ours"]
        row: dict[str, Any] = {
            c: {"best_ms": t.best * 1e3, "median_ms": t.median * 1e3} for c, t in timings.items()
        }
        ratios = {c: t.median / mine.median for c, t in timings.items() if c != "ours"}
        row["ratio"] = ratios
        text = "  ".join(
            f"{c} {timings[c].median * 1e3:9.3f} ms ({r:5.2f}x)" for c, r in ratios.items()
        )
        promised = ""
        if workload.promise and workload.promise[0] in ratios:
            peer, least = workload.promise
            met = ratios[peer] >= least
            row["promise"] = {"peer": peer, "least": least, "met": met}
            promised = f"  >= {least} of {peer}: {'met' if met else 'NOT MET'}"
        print(f"{name:20} ours {mine.median * 1e3:9.3f} ms  {text}{promised}", flush=True)
        results[name] = row
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("suite", choices=["cpu", "calls", "cold", "growth"])
    parser.add_argument(
        "--peers", default="torch,numpy", help="comma separated; absent ones are left out"
    )
    parser.add_argument("--only", nargs="*", default=[], help="names of workloads")
    parser.add_argument("--threads", type=int, help="of every contestant; all cores by default")
    parser.add_argument("--steps", type=int, default=10_000, help="steps of `growth`")
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers")
    options = parser.parse_args()
    if options.threads:  # before any contestant is imported
        for name in ("POLY_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(options.threads)
    if options.suite in ("cpu", "calls"):
        wanted = [p for p in options.peers.split(",") if p]
        peers = [p for p in wanted if importlib.util.find_spec(p)]
        for missing in set(wanted) - set(peers):
            print(f"{missing} is not installed here and left out")
        if options.suite == "cpu":
            results: Any = compare(peers, options.only)
        else:
            from .calls import main as calls

            results = calls(peers, options.only)
    elif options.suite == "cold":
        from .cold import main as cold

        results = cold()
    else:
        from .growth import main as growth

        results = growth(options.steps)
    if options.out:
        stamp = datetime.date.today().isoformat()
        command = "python -m benchmarks " + " ".join(sys.argv[1:])
        about = {"date": stamp, "command": command, "machine": machine()}
        record = {**about, "suite": options.suite, "results": results}
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
