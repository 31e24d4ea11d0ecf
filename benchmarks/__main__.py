"""`python -m benchmarks …`; see the package's docstring."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import BenchmarkError
from .frameworks import OURS, framework_of, peers
from .measure import machine, usable_cores

RESULTS = Path(__file__).parent / "results"


def compare(options: argparse.Namespace, some: Sequence[str]) -> dict[str, Any]:
    """The whole table: the machine's limits, then a row for each workload."""
    from .contest import contest
    from .limits import measure
    from .table import HEAD, line, row
    from .workloads import WORKLOADS

    names = [n for n in WORKLOADS if not options.only or options.only.match(n)]
    if not names:
        raise BenchmarkError(f"--only: no workload's name starts so; there are {[*WORKLOADS]}")
    limits = measure(options.threads, options.clock)
    print(f"limits, {options.threads} threads: {limits}\n{HEAD}", flush=True)
    rows: dict[str, Any] = {}
    for name in names:
        workload = WORKLOADS[name]()
        wanted = [c for c in workload.steps if framework_of(c) in (OURS, *some)]
        results, failed = contest(name, wanted, options.threads, options.patience)
        limit = limits.seconds(*workload.work)
        rows[name] = row(results, failed, limit, workload.goal, options.clock)
        print(line(name, rows[name], options.clock), flush=True)
    return {"limits": limits._asdict(), "rows": rows}


def tiny_calls(options: argparse.Namespace, some: Sequence[str]) -> Any:
    from .calls import main

    return main(some, options.only)


def cold(options: argparse.Namespace, some: Sequence[str]) -> Any:
    from .cold import main

    return main(options.only)


def growth(options: argparse.Namespace, some: Sequence[str]) -> Any:
    from .growth import main

    return main(options.steps)


def scaling(options: argparse.Namespace, some: Sequence[str]) -> Any:
    from .scaling import main

    return main(options.only)


SUITES = {
    "cpu": compare,
    "calls": tiny_calls,
    "cold": cold,
    "growth": growth,
    "scaling": scaling,
}
WITH_PEERS = ("cpu", "calls")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks")
    add = made.add_argument
    add("suite", choices=SUITES)
    add("--peers", help="names with commas between; by default those that are installed")
    add("--only", type=pattern, help="a regular expression that names of workloads start with")
    add("--threads", type=count, default=usable_cores(), help="of everybody; default: all cores")
    add(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: for a busy machine, one thread",
    )
    add("--patience", type=float, default=300.0, help="seconds that one contestant may take")
    add("--steps", type=count, default=10_000, help="steps of `growth`")
    add("--out", type=Path, help="a JSON file; by default one in benchmarks/results/")
    return made


def pattern(text: str) -> Any:
    import re

    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def out_of(options: argparse.Namespace, today: str) -> Path | None:
    """Where the numbers go: part of a suite is kept only if asked for."""
    if options.out or options.only:
        return options.out  # type: ignore[no-any-return]
    return RESULTS / f"{today}-{options.suite}-{options.threads}-threads.json"


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser()
    options = given.parse_args(arguments)
    if options.clock == "cpu" and options.threads != 1:
        given.error("--clock cpu adds up what all threads took: give --threads 1 as well")
    some: list[str] = []
    if options.suite in WITH_PEERS:
        try:
            some, absent = peers(options.peers)
        except BenchmarkError as error:
            given.error(str(error))
        for why in absent:
            print(why)
    # Before any contestant is imported: they read their number of threads then.
    for name in ("POLY_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    today = datetime.date.today().isoformat()
    try:
        results = SUITES[options.suite](options, some)
    except BenchmarkError as error:
        given.error(str(error))
    if (out := out_of(options, today)) is not None:
        command = "python -m benchmarks " + " ".join(arguments or sys.argv[1:])
        about = {"date": today, "command": command, "machine": machine()}
        out.write_text(
            json.dumps({**about, "suite": options.suite, "results": results}, indent=1) + "\n"
        )
        print(f"wrote {out}")
        if options.suite == "cpu":
            from .picture import picture

            count = f"{options.threads} thread{'s' if options.threads > 1 else ''}"
            title = f"{today}, {count}: speed as a part of the machine's limit (*: of the best)"
            drawn = out.with_suffix(".svg")
            drawn.write_text(picture(results["rows"], title, options.clock))
            print(f"wrote {drawn}")


if __name__ == "__main__":
    main()
