"""Faults planted in the executor's text, one at a time: the stand must report every one.

Each is a small slip in what orders the threads' accesses. Most of them never show in a result on
x86, so that only the stand can find them.
"""

from __future__ import annotations

from typing import NamedTuple

from polygrad_backend_cpu.executor_text import executor_text


class Fault(NamedTuple):
    """`old` stands exactly once in the text; `new` takes its place."""

    name: str
    old: str
    new: str
    test: str  # one of tests/cpu/test_executor.py that meets it

    def text(self) -> str:
        text = executor_text()
        assert text.count(self.old) == 1, f"{self.name}: not one place, {text.count(self.old)}"
        return text.replace(self.old, self.new)


STEPS = "test_each_step_sees_the_one_before"
DROPS = "test_plans_may_be_dropped_while_workers_are_busy"
FAULTS = (
    Fault(
        "what a ticket's holder wrote is not released",
        "atomicrmw add ptr %done.p, i64 1 acq_rel",
        "atomicrmw add ptr %done.p, i64 1 monotonic",
        STEPS,
    ),
    Fault(
        "the end of a phase is not acquired",
        "%done.now = load atomic i64, ptr %done.p acquire",
        "%done.now = load atomic i64, ptr %done.p monotonic",
        STEPS,
    ),
    Fault(
        "no barrier between phases",
        "br i1 %complete, label %phase.done, label %check.epoch",
        "br label %phase.done",
        STEPS,
    ),
    Fault(
        "threads share scratch memory",
        "%skip = mul i64 %stride, %thread",
        "%skip = mul i64 %stride, 0",
        "test_each_thread_has_its_own_scratch",
    ),
    Fault(
        "a late thread reads the total while the next run writes it",
        "%total.now = load atomic i64, ptr %total.p monotonic, align 8",
        "%total.now = load i64, ptr %total.p",
        STEPS,
    ),
    Fault(
        "a worker leaves a plan without releasing it",
        "store atomic ptr null, ptr %slot seq_cst",
        "store atomic ptr null, ptr %slot monotonic",
        DROPS,
    ),
)
