"""`polygrad conformance NAME`: the kit on one device, without pytest.

The report, failures and all, is what the verb is for: it goes to standard output. What keeps it
from running (no such device, no such check) is an error like any verb's.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from ..errors import FileError, UnknownName
from ..testing.conformance import Outcome, checks, run_checks
from .command import Result, say


def report(name: str, *, pattern: str, file: str | None, quiet: bool, each: bool) -> Result:
    """Run the checks of `name` whose id contains `pattern`; failures are told as they come, and
    with `each` the name of every check before it runs."""
    last = ""

    def starts(check: str) -> None:
        nonlocal last
        last = check
        if each and not quiet:
            say(check)

    def seen(outcome: Outcome) -> None:
        if not outcome.ok and not quiet:
            say(f"FAILED {outcome.id}\n{_indented(outcome.report)}\n")

    if file is not None:  # before minutes go by
        _write(file, "")
    try:
        outcomes = run_checks(name, pattern, seen, starts)
    except KeyboardInterrupt:
        print(f"polygrad: interrupted in {last}", file=sys.stderr)
        raise
    if not outcomes:
        rooms = ", ".join(dict.fromkeys(check.id.partition("/")[0] for check in checks(name)))
        raise UnknownName(
            f"no check of {name!r} has {pattern!r} in its name. The checks begin with: {rooms}."
        )
    data = {
        "device": name,
        "passed": sum(o.ok for o in outcomes),
        "failed": sum(not o.ok for o in outcomes),
        "checks": [asdict(o) for o in outcomes],
    }
    if file is not None:
        _write(file, json.dumps(data, indent=2))
    return Result(data, _text(name, outcomes), ok=not data["failed"])


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"the report {file} cannot be written: {error.strerror}.") from error


def _text(name: str, outcomes: list[Outcome]) -> str:
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
