"""The conformance kit: everything the contract asks of a device, as a list of checks.

`checks("acme")` are those that apply to a device, by what its Target lists; `run_checks` runs them
without pytest, and `polygrad.testing.suite` gives them to pytest. The oracle is the reference
engine in plain Python, so nothing but the core is needed.

>>> outcomes = run_checks("interp", "ops/ADD-int32")
>>> [(o.id, o.ok) for o in outcomes]
[('ops/ADD-int32-scalar', True)]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...errors import DeviceContractError
from ...plugin import SUPPORTED
from . import lanes, lifecycle, limits, memory, ops, package, plans, programs, tensors
from .check import Check, ConformanceError, Subject, raised, said

__all__ = ["Check", "ConformanceError", "Outcome", "Subject", "checks", "run_checks"]

ROOMS = (package, limits, memory, ops, lanes, programs, plans, tensors, lifecycle)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one check ended; `report` says why it failed."""

    id: str
    ok: bool
    seconds: float
    report: str = ""


def checks(name: str) -> Iterator[Check]:
    """The checks for the device `name`, which is opened for its Target; where it is too little of a
    device to be opened, the one that says so."""
    try:
        target = Subject(name).target
    except DeviceContractError:
        yield limits.OPENS
        return
    for room in ROOMS:
        for check in room.checks(target):
            major, minor = check.since
            if minor <= SUPPORTED.get(major, -1):
                yield check


def run_checks(
    name: str,
    pattern: str = "",
    seen: Callable[[Outcome], None] = lambda outcome: None,
    starts: Callable[[str], None] = lambda check: None,
) -> list[Outcome]:
    """Run the checks whose id contains `pattern`. `starts` is told the id of each before it runs,
    `seen` of how it ended."""
    subject = Subject(name)
    found = list(checks(name))
    if found != [limits.OPENS]:  # which is told whatever was asked for
        found = [check for check in found if pattern in check.id]
    outcomes = []
    for check in found:
        starts(check.id)
        outcomes.append(_outcome(check, subject))
        seen(outcomes[-1])
    return outcomes


def _outcome(check: Check, subject: Subject) -> Outcome:
    start = time.perf_counter()
    error = raised(lambda: check.run(subject))
    text = "" if error is None else said(error)
    return Outcome(check.id, error is None, time.perf_counter() - start, text)
