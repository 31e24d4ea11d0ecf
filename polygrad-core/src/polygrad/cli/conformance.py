"""`polygrad conformance NAME`: the kit on one device, without pytest."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from ..testing.conformance import Outcome, run_checks
from .command import Result


def report(name: str, *, pattern: str, file: str | None, quiet: bool) -> Result:
    """Run the checks of `name` whose id contains `pattern`; failures are told as they come."""

    def seen(outcome: Outcome) -> None:
        if not outcome.ok and not quiet:
            print(f"FAILED {outcome.id}\n{_indented(outcome.report)}\n", file=sys.stderr)

    outcomes = run_checks(name, pattern, seen)
    data = {
        "device": name,
        "passed": sum(o.ok for o in outcomes),
        "failed": sum(not o.ok for o in outcomes),
        "checks": [asdict(o) for o in outcomes],
    }
    if file is not None:
        Path(file).write_text(json.dumps(data, indent=2), encoding="utf-8")
    return Result(data, _text(name, pattern, outcomes), ok=bool(outcomes) and not data["failed"])


def _text(name: str, pattern: str, outcomes: list[Outcome]) -> str:
    if not outcomes:
        return f"no check of {name!r} has {pattern!r} in its name"
    total, bad = Counter[str](), Counter[str]()
    for outcome in outcomes:
        room = outcome.id.partition("/")[0]
        total[room] += 1
        bad[room] += not outcome.ok
    lines = [f"{room:<10} {total[room] - bad[room]} of {total[room]} passed" for room in total]
    seconds = sum(o.seconds for o in outcomes)
    failed = sum(bad.values())
    verdict = f"{failed} of {len(outcomes)} checks failed" if failed else "it conforms"
    return "\n".join([*lines, f"{name}: {verdict} ({seconds:.0f} s)"])


def _indented(text: str) -> str:
    return "\n".join("    " + line if line else "" for line in text.splitlines())
