"""The executor: LLVM text that runs the steps of a Plan on several threads, by one call.

Memory it walks (built by `tables.py`; a bar marks the next cache line, offsets stand below):

    Plan   its phases; all its steps in order; scratch: base, bytes per thread; how many threads
    Phase  its items; how many tickets they have; whether others wait for its end | tickets done
    Item   its steps; how many (0: one step, split into tiles); its tickets; how many shares of them
           | next ticket of each share
    Step   function, params, variables, extent (tiles, tiles per ticket)
    Pool   signal | sleepers | plan, epoch, stop, how many workers there ever were, spins
           | what each worker walks, to free plans safely

A phase is a set of items that share no data, so a barrier stands only between phases. A ticket is
one piece of an item: a range of tiles, or the whole of a row of small steps that one thread runs
in order. The tickets of an item lie in *shares*, a thread's own from first to last: it walks its
part of the arrays in order, and in every step the same part, which its caches have. Out of its
own, it takes those of others, until there are none, and then waits until all are *done*. Nobody
waits for a thread to arrive, so one that was descheduled holds up nothing but the ticket it holds;
when it comes back it finds no tickets and catches up. The number of the run (epoch) is the upper
half of every ticket counter: a thread that is late by a whole run fails its compare-and-swap and
leaves. The order of blocks never shows in results (contract).

Waiting is a bounded spin (`pool.py` says how long), then a futex on Linux, elsewhere a yield.
`signal` moves when a run begins and when a phase ends that others may wait for; whoever moves it
wakes the sleepers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from .executor_walk import WALK
from .layout import (
    ITEM,
    LINE,
    MOST_SHARES,
    PHASE,
    PHASE_BYTES,
    PLAN,
    POOL,
    STEP,
    STEP_BYTES,
    WALK_BYTES,
)

EPOCH_BITS = 0x7FFFFFFF

FUNCTIONS = ("run_alone", "run_shared", "work", "retire", "stop", "copy")

_PAUSE = {"x86_64": "pause", "aarch64": "isb", "arm64": "isb"}
_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE, private to the process


def executor_text() -> str:
    """The module for this machine."""
    machine = os.uname().machine if hasattr(os, "uname") else "x86_64"
    pause = _PAUSE.get(machine)
    spin = f'call void asm sideeffect "{pause}", "~{{memory}}"()' if pause else ""
    return (_STEPS + WALK + _RUNS).format_map(_Fields({"spin": spin, **_sleeping(machine)}))


class _Fields(dict[str, str]):
    """`{plan.steps}` in the text below is a field's offset."""

    def __missing__(self, key: str) -> object:
        return _TABLES[key]


class _Table:
    def __init__(self, offsets: Mapping[str, int]) -> None:
        self.__dict__.update(offsets)


_TABLES = {
    "plan": _Table(PLAN),
    "phase": _Table(PHASE | {"bytes": PHASE_BYTES}),
    "item": _Table(ITEM),
    "step": _Table(STEP | {"bytes": STEP_BYTES}),
    "pool": _Table(POOL | {"walk_bytes": WALK_BYTES}),
    "limit": _Table({"epoch": EPOCH_BITS, "line": LINE, "shares": MOST_SHARES}),
}


def _sleeping(machine: str) -> dict[str, str]:
    """How to yield, how to sleep until the signal moves, how to wake sleepers, on this system."""
    yielding = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
    relax = f"call i32 @{yielding}()"
    text = {"declare": f"declare i32 @{yielding}()", "relax": relax, "sleep": relax,
            "wake": "add i32 0, 0"}  # fmt: skip
    if sys.platform == "linux" and machine in _FUTEX:
        call = f"call i64 (i64, ...) @syscall(i64 {_FUTEX[machine]}, ptr %pool"
        text["declare"] += "\ndeclare i64 @syscall(i64, ...)"
        text["sleep"] = f"{call}, i64 {_WAIT}, i64 %value, ptr null, ptr null, i64 0)"
        text["wake"] = f"{call}, i64 {_WAKE}, i64 2147483647, ptr null, ptr null, i64 0)"
    return text


_STEPS = """
{declare}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; a Copy step, with the signature of a kernel: one tile is 64 KB
define void @copy(ptr %params, ptr %variables, ptr %scratch, i64 %lo, i64 %hi) nounwind {{
  %to.p = getelementptr i8, ptr %params, i64 8
  %to = load ptr, ptr %params
  %from = load ptr, ptr %to.p
  %bytes = load i64, ptr %variables
  %start = shl i64 %lo, 16
  %stop = shl i64 %hi, 16
  %short = icmp slt i64 %stop, %bytes
  %end = select i1 %short, i64 %stop, i64 %bytes
  %count = sub i64 %end, %start
  %to.at = getelementptr i8, ptr %to, i64 %start
  %from.at = getelementptr i8, ptr %from, i64 %start
  call void @llvm.memcpy.p0.p0.i64(ptr %to.at, ptr %from.at, i64 %count, i1 false)
  ret void
}}

; one step, tiles lo .. hi-1
define internal void @launch(ptr %step, ptr %scratch, i64 %lo, i64 %hi) nounwind {{
  %function.p = getelementptr i8, ptr %step, i64 {step.function}
  %params.p = getelementptr i8, ptr %step, i64 {step.params}
  %variables.p = getelementptr i8, ptr %step, i64 {step.variables}
  %function = load ptr, ptr %function.p
  %params = load ptr, ptr %params.p
  %variables = load ptr, ptr %variables.p
  call void %function(ptr %params, ptr %variables, ptr %scratch, i64 %lo, i64 %hi)
  ret void
}}

; `count` whole steps in order
define internal void @row(ptr %first, i64 %count, ptr %scratch) nounwind {{
entry:
  %bytes = mul i64 %count, {step.bytes}
  %end = getelementptr i8, ptr %first, i64 %bytes
  br label %test
test:
  %step = phi ptr [ %first, %entry ], [ %next, %body ]
  %more = icmp ne ptr %step, %end
  br i1 %more, label %body, label %done
body:
  %extent.p = getelementptr i8, ptr %step, i64 {step.extent}
  %extent = load ptr, ptr %extent.p
  %tiles = load i64, ptr %extent
  call void @launch(ptr %step, ptr %scratch, i64 0, i64 %tiles)
  %next = getelementptr i8, ptr %step, i64 {step.bytes}
  br label %test
done:
  ret void
}}

define void @run_alone(ptr %plan) nounwind {{
  %steps.p = getelementptr i8, ptr %plan, i64 {plan.steps}
  %count.p = getelementptr i8, ptr %plan, i64 {plan.step_count}
  %scratch.p = getelementptr i8, ptr %plan, i64 {plan.scratch}
  %steps = load ptr, ptr %steps.p
  %count = load i64, ptr %count.p
  %scratch = load ptr, ptr %scratch.p
  call void @row(ptr %steps, i64 %count, ptr %scratch)
  ret void
}}

"""

_RUNS = """
; ---- what the host calls

; set every counter for a new run: tickets first, so that a late thread finds none of its own
define internal void @reset(ptr %plan, i64 %epoch) nounwind {{
entry:
  %phases.p = getelementptr i8, ptr %plan, i64 {plan.phases}
  %phase.count.p = getelementptr i8, ptr %plan, i64 {plan.phase_count}
  %phases = load ptr, ptr %phases.p
  %phase.count = load i64, ptr %phase.count.p
  %fresh = shl i64 %epoch, 32
  %item.bytes = call i64 @item_bytes(ptr %plan)
  br label %phase.test
phase.test:
  %i = phi i64 [ 0, %entry ], [ %i.next, %phase.done ]
  %i.more = icmp slt i64 %i, %phase.count
  br i1 %i.more, label %phase, label %out
phase:
  %phase.at = mul i64 %i, {phase.bytes}
  %phase.p = getelementptr i8, ptr %phases, i64 %phase.at
  %items.p = getelementptr i8, ptr %phase.p, i64 {phase.items}
  %item.count.p = getelementptr i8, ptr %phase.p, i64 {phase.item_count}
  %total.p = getelementptr i8, ptr %phase.p, i64 {phase.total}
  %done.p = getelementptr i8, ptr %phase.p, i64 {phase.done}
  %items = load ptr, ptr %items.p
  %item.count = load i64, ptr %item.count.p
  br label %item.test
item.test:
  %j = phi i64 [ 0, %phase ], [ %j.next, %item.done ]
  %sum = phi i64 [ 0, %phase ], [ %sum.next, %item.done ]
  %j.more = icmp slt i64 %j, %item.count
  br i1 %j.more, label %item, label %phase.done
item:
  %item.at = mul i64 %j, %item.bytes
  %item.p = getelementptr i8, ptr %items, i64 %item.at
  %tickets.p = getelementptr i8, ptr %item.p, i64 {item.tickets}
  %steps.p = getelementptr i8, ptr %item.p, i64 {item.steps}
  %row.count.p = getelementptr i8, ptr %item.p, i64 {item.step_count}
  %shares.p = getelementptr i8, ptr %item.p, i64 {item.shares}
  %row.count = load i64, ptr %row.count.p
  %shares = load i64, ptr %shares.p
  %split = icmp eq i64 %row.count, 0
  br i1 %split, label %tiles, label %share.test
tiles:
  %step = load ptr, ptr %steps.p
  %extent.p = getelementptr i8, ptr %step, i64 {step.extent}
  %extent = load ptr, ptr %extent.p
  %tile.count = load i64, ptr %extent
  %chunk.p = getelementptr i8, ptr %extent, i64 8
  %chunk = load i64, ptr %chunk.p
  %less = add i64 %chunk, -1
  %up = add i64 %tile.count, %less
  %pieces = udiv i64 %up, %chunk
  br label %share.test
share.test:
  %tickets = phi i64 [ 1, %item ], [ %pieces, %tiles ], [ %tickets, %share ]
  %k = phi i64 [ 0, %item ], [ 0, %tiles ], [ %k.next, %share ]
  %k.more = icmp slt i64 %k, %shares
  br i1 %k.more, label %share, label %item.done
share:
  %next.p = call ptr @share_next(ptr %item.p, i64 %k)
  %start = call i64 @share_start(i64 %k, i64 %tickets, i64 %shares)
  %first = or i64 %fresh, %start
  store atomic i64 %first, ptr %next.p release, align 8
  %k.next = add i64 %k, 1
  br label %share.test
item.done:
  store atomic i64 %tickets, ptr %tickets.p release, align 8
  %sum.next = add i64 %sum, %tickets
  %j.next = add i64 %j, 1
  br label %item.test
phase.done:
  store atomic i64 %sum, ptr %total.p monotonic, align 8
  store atomic i64 0, ptr %done.p release, align 8
  %i.next = add i64 %i, 1
  br label %phase.test
out:
  ret void
}}

define void @run_shared(ptr %plan, ptr %pool, i64 %rouse) nounwind {{
  %plan.p = getelementptr i8, ptr %pool, i64 {pool.plan}
  %epoch.p = getelementptr i8, ptr %pool, i64 {pool.epoch}
  %old = load i64, ptr %epoch.p
  %more = add i64 %old, 1
  %epoch = and i64 %more, {limit.epoch}
  call void @reset(ptr %plan, i64 %epoch)
  store atomic ptr %plan, ptr %plan.p seq_cst, align 8
  store atomic i64 %epoch, ptr %epoch.p seq_cst, align 8
  %wake = icmp ne i64 %rouse, 0
  call void @notify(ptr %pool, i1 %wake)
  call void @walk(ptr %plan, ptr %pool, i64 %epoch, i64 0)
  ret void
}}

; the life of worker `thread` (1, 2, ...); the plan it walks stands in its slot, for `retire`
define void @work(ptr %pool, i64 %thread) nounwind {{
entry:
  %plan.p = getelementptr i8, ptr %pool, i64 {pool.plan}
  %epoch.p = getelementptr i8, ptr %pool, i64 {pool.epoch}
  %stop.p = getelementptr i8, ptr %pool, i64 {pool.stop}
  %workers.p = getelementptr i8, ptr %pool, i64 {pool.workers}
  %most = atomicrmw max ptr %workers.p, i64 %thread seq_cst
  %slot.at = mul i64 %thread, {pool.walk_bytes}
  %slot.off = add i64 %slot.at, {pool.walks}
  %slot = getelementptr i8, ptr %pool, i64 %slot.off
  br label %look
look:
  %known = phi i64 [ 0, %entry ], [ %epoch, %idle ], [ %epoch, %leave ]
  %seen = load atomic i32, ptr %pool seq_cst, align 4
  %stop = load atomic i64, ptr %stop.p seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %out, label %news
news:
  %epoch = load atomic i64, ptr %epoch.p seq_cst, align 8
  %old = icmp eq i64 %epoch, %known
  br i1 %old, label %idle, label %enter
idle:
  call void @await(ptr %pool, i32 %seen)
  br label %look
enter:
  %plan = load atomic ptr, ptr %plan.p seq_cst, align 8
  store atomic ptr %plan, ptr %slot seq_cst, align 8
  %again = load atomic ptr, ptr %plan.p seq_cst, align 8
  %steady = icmp eq ptr %plan, %again
  br i1 %steady, label %test, label %enter
test:
  %gone = icmp eq ptr %plan, null
  br i1 %gone, label %leave, label %count
count:
  %threads.p = getelementptr i8, ptr %plan, i64 {plan.threads}
  %threads = load i64, ptr %threads.p
  %wanted = icmp slt i64 %thread, %threads
  br i1 %wanted, label %go, label %leave
go:
  call void @walk(ptr %plan, ptr %pool, i64 %epoch, i64 %thread)
  br label %leave
leave:
  store atomic ptr null, ptr %slot seq_cst, align 8
  br label %look
out:
  ret void
}}

; Return once no worker looks at `plan`, which nobody runs any more. The workers are counted after
; `plan` is taken away: one that starts later finds it gone.
define void @retire(ptr %pool, ptr %plan) nounwind {{
entry:
  %plan.p = getelementptr i8, ptr %pool, i64 {pool.plan}
  %workers.p = getelementptr i8, ptr %pool, i64 {pool.workers}
  %swap = cmpxchg ptr %plan.p, ptr %plan, ptr null seq_cst seq_cst
  %workers = load atomic i64, ptr %workers.p seq_cst, align 8
  call void @notify(ptr %pool, i1 true)
  br label %test
test:
  %i = phi i64 [ 1, %entry ], [ %i.next, %free ]
  %more = icmp sle i64 %i, %workers
  br i1 %more, label %look, label %done
look:
  %slot.at = mul i64 %i, {pool.walk_bytes}
  %slot.off = add i64 %slot.at, {pool.walks}
  %slot = getelementptr i8, ptr %pool, i64 %slot.off
  br label %poll
poll:
  %at = load atomic ptr, ptr %slot seq_cst, align 8
  %busy = icmp eq ptr %at, %plan
  br i1 %busy, label %spin, label %free
spin:
  %yielded = {relax}
  br label %poll
free:
  %i.next = add i64 %i, 1
  br label %test
done:
  ret void
}}

; with `how` 1 every worker leaves `work`
define void @stop(ptr %pool, i64 %how) nounwind {{
  %stop.p = getelementptr i8, ptr %pool, i64 {pool.stop}
  store atomic i64 %how, ptr %stop.p seq_cst, align 8
  call void @notify(ptr %pool, i1 true)
  ret void
}}
"""
