"""A question asked in a child process: whatever a stranger's code does there is an answer.

`ask("devices", "acme")` runs `python -m polygrad.cli.ask devices acme`, which prints one line of
JSON, and gives it ten seconds.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any, NamedTuple

from .. import settings

SECONDS = 10


class Answer(NamedTuple):
    data: Any  # what the child printed; None where it did not come to that
    state: str = ""  # "crashed" or "no answer"
    reason: str = ""


def ask(question: str, *arguments: str, what: str, seconds: float | None = None) -> Answer:
    """The answer of a child process; `what` names in a reason what was asked ("its probe")."""
    seconds = SECONDS if seconds is None else seconds
    try:
        done = subprocess.run(
            [sys.executable, "-m", "polygrad.cli.ask", question, *arguments],
            # A timeline is of the process that was asked for one.
            env={**settings.for_child(), "POLY_TRACE": ""},
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "no answer", f"{what} gave none in {seconds:g} s")
    if done.returncode != 0:
        return Answer(None, "crashed", _how_it_ended(done, what))
    return Answer(json.loads(done.stdout.splitlines()[-1]))


def _how_it_ended(done: subprocess.CompletedProcess[str], what: str) -> str:
    if done.returncode < 0:
        return f"{what} was ended by {signal.Signals(-done.returncode).name}"
    last = done.stderr.strip().splitlines()
    return last[-1] if last else f"{what} ended the process with status {done.returncode}"
