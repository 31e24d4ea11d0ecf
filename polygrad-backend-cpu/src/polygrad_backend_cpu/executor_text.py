"""The executor: LLVM text that runs the steps of a Plan on several threads, by one call.

Memory it walks (built by `tables.py`; a bar marks the next cache line, offsets stand below):

    Plan   its phases; all its steps in order; scratch: base, bytes per thread; how many threads
    Phase  its items; how many tickets they have; whether others wait for its end | tickets done
    Item   its steps; how many (0: one step, split into tiles); its tickets | next ticket
    Step   function, params, variables, extent (tiles, tiles per ticket)
    Pool   signal | sleepers | plan, epoch, stop, how many workers there ever were
           | what each worker walks, to free plans safely

A phase is a set of items that share no data, so a barrier stands only between phases. A ticket is
one piece of an item: a range of tiles, or the whole of a row of small steps that one thread runs
in order. Threads take tickets until there are none, then wait until all are *done*. Nobody waits
for a thread to arrive, so one that was descheduled holds up nothing but the ticket it holds; when
it comes back it finds no tickets and catches up. The number of the run (epoch) is the upper half
of every ticket counter: a thread that is late by a whole run fails its compare-and-swap and
leaves. The order of blocks never shows in results (contract).

Waiting is a bounded spin (about 20 us), then a futex on Linux, elsewhere a yield. `signal` moves
when a run begins and when a phase ends that others may wait for; whoever moves it wakes the
sleepers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

PLAN = {"phases": 0, "phase_count": 8, "steps": 16, "step_count": 24, "scratch": 32, "stride": 40,
        "threads": 48}  # fmt: skip
PLAN_BYTES = 64
PHASE = {"items": 0, "item_count": 8, "total": 16, "wake": 24, "done": 64}
PHASE_BYTES = 128
ITEM = {"steps": 0, "step_count": 8, "tickets": 16, "next": 64}
ITEM_BYTES = 128
STEP = {"function": 0, "params": 8, "variables": 16, "extent": 24}
STEP_BYTES = 32
POOL = {"signal": 0, "sleepers": 64, "plan": 128, "epoch": 136, "stop": 144, "workers": 152,
        "walks": 192}  # fmt: skip
WALK_BYTES = 64
EPOCH_BITS = 0x7FFFFFFF
SPINS = 1000

FUNCTIONS = ("run_alone", "run_shared", "work", "retire", "stop", "copy")

_PAUSE = {"x86_64": "pause", "aarch64": "isb", "arm64": "isb"}
_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE, private to the process


def executor_text() -> str:
    """The module for this machine."""
    machine = os.uname().machine if hasattr(os, "uname") else "x86_64"
    pause = _PAUSE.get(machine)
    spin = f'call void asm sideeffect "{pause}", "~{{memory}}"()' if pause else ""
    return _TEXT.format_map(_Fields({"spin": spin, **_sleeping(machine)}))


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
    "item": _Table(ITEM | {"bytes": ITEM_BYTES}),
    "step": _Table(STEP | {"bytes": STEP_BYTES}),
    "pool": _Table(POOL | {"walk_bytes": WALK_BYTES}),
    "limit": _Table({"spins": SPINS, "epoch": EPOCH_BITS}),
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


_TEXT = """
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

; ---- waiting

define internal void @notify(ptr %pool, i1 %rouse) nounwind {{
entry:
  %old = atomicrmw add ptr %pool, i32 1 seq_cst
  %sleepers.p = getelementptr i8, ptr %pool, i64 {pool.sleepers}
  %sleepers = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %some = icmp ne i32 %sleepers, 0
  %must = and i1 %some, %rouse
  br i1 %must, label %wake, label %done
wake:
  %woken = {wake}
  br label %done
done:
  ret void
}}

; until the signal differs from `seen`: spin, then sleep
define internal void @await(ptr %pool, i32 %seen) nounwind {{
entry:
  br label %spin
spin:
  %k = phi i64 [ 0, %entry ], [ %k.next, %again ]
  %now = load atomic i32, ptr %pool acquire, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %again, label %done
again:
  {spin}
  %k.next = add i64 %k, 1
  %patient = icmp ult i64 %k.next, {limit.spins}
  br i1 %patient, label %spin, label %tired
tired:
  %sleepers.p = getelementptr i8, ptr %pool, i64 {pool.sleepers}
  %one = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  br label %test
test:
  %then = load atomic i32, ptr %pool seq_cst, align 4
  %still = icmp eq i32 %then, %seen
  br i1 %still, label %sleep, label %awake
sleep:
  %value = zext i32 %seen to i64
  %slept = {sleep}
  br label %test
awake:
  %less = atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  br label %done
done:
  ret void
}}

; ---- one thread's way through a plan

define internal void @walk(ptr %plan, ptr %pool, i64 %epoch, i64 %thread) nounwind {{
entry:
  %phases.p = getelementptr i8, ptr %plan, i64 {plan.phases}
  %phase.count.p = getelementptr i8, ptr %plan, i64 {plan.phase_count}
  %scratch.p = getelementptr i8, ptr %plan, i64 {plan.scratch}
  %stride.p = getelementptr i8, ptr %plan, i64 {plan.stride}
  %epoch.p = getelementptr i8, ptr %pool, i64 {pool.epoch}
  %phases = load ptr, ptr %phases.p
  %phase.count = load i64, ptr %phase.count.p
  %scratch.base = load ptr, ptr %scratch.p
  %stride = load i64, ptr %stride.p
  %skip = mul i64 %stride, %thread
  %scratch = getelementptr i8, ptr %scratch.base, i64 %skip
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
  %wake.p = getelementptr i8, ptr %phase.p, i64 {phase.wake}
  %done.p = getelementptr i8, ptr %phase.p, i64 {phase.done}
  %items = load ptr, ptr %items.p
  %item.count = load i64, ptr %item.count.p
  br label %item.test
item.test:
  %j = phi i64 [ 0, %phase ], [ %j.next, %item.done ]
  %j.more = icmp slt i64 %j, %item.count
  br i1 %j.more, label %item, label %check
item:
  %item.at = mul i64 %j, {item.bytes}
  %item.p = getelementptr i8, ptr %items, i64 %item.at
  %next.p = getelementptr i8, ptr %item.p, i64 {item.next}
  %tickets.p = getelementptr i8, ptr %item.p, i64 {item.tickets}
  %steps.p = getelementptr i8, ptr %item.p, i64 {item.steps}
  %row.count.p = getelementptr i8, ptr %item.p, i64 {item.step_count}
  br label %take
take:
  %ticket = load atomic i64, ptr %next.p acquire, align 8
  %of = lshr i64 %ticket, 32
  %mine = icmp eq i64 %of, %epoch
  br i1 %mine, label %look, label %out
look:
  %number = and i64 %ticket, 4294967295
  %tickets = load atomic i64, ptr %tickets.p acquire, align 8
  %left = icmp slt i64 %number, %tickets
  br i1 %left, label %grab, label %item.done
grab:
  %after = add i64 %ticket, 1
  %swap = cmpxchg ptr %next.p, i64 %ticket, i64 %after acq_rel acquire
  %won = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %won, label %have, label %take
have:
  %step = load ptr, ptr %steps.p
  %row.count = load i64, ptr %row.count.p
  %split = icmp eq i64 %row.count, 0
  br i1 %split, label %tiles, label %row
tiles:
  %extent.p = getelementptr i8, ptr %step, i64 {step.extent}
  %extent = load ptr, ptr %extent.p
  %tile.count = load i64, ptr %extent
  %chunk.p = getelementptr i8, ptr %extent, i64 8
  %chunk = load i64, ptr %chunk.p
  %lo = mul i64 %number, %chunk
  %hi.full = add i64 %lo, %chunk
  %hi.fits = icmp slt i64 %hi.full, %tile.count
  %hi = select i1 %hi.fits, i64 %hi.full, i64 %tile.count
  call void @launch(ptr %step, ptr %scratch, i64 %lo, i64 %hi)
  br label %finished
row:
  call void @row(ptr %step, i64 %row.count, ptr %scratch)
  br label %finished
finished: ; no run ends, and no total changes, before its last ticket is done: read it before that
  %total = load i64, ptr %total.p
  %before = atomicrmw add ptr %done.p, i64 1 acq_rel
  %now = add i64 %before, 1
  %last = icmp eq i64 %now, %total
  br i1 %last, label %end, label %take
end:
  %wake = load i64, ptr %wake.p
  %waiting = icmp ne i64 %wake, 0
  br i1 %waiting, label %tell, label %take
tell:
  call void @notify(ptr %pool, i1 true)
  br label %take
item.done:
  %j.next = add i64 %j, 1
  br label %item.test
check: ; a thread that is late may read another run's numbers: it finds no tickets, or leaves
  %seen = load atomic i32, ptr %pool acquire, align 4
  %done.now = load atomic i64, ptr %done.p acquire, align 8
  %total.now = load atomic i64, ptr %total.p monotonic, align 8
  %complete = icmp eq i64 %done.now, %total.now
  br i1 %complete, label %phase.done, label %check.epoch
check.epoch:
  %epoch.now = load atomic i64, ptr %epoch.p acquire, align 8
  %current = icmp eq i64 %epoch.now, %epoch
  br i1 %current, label %wait, label %out
wait:
  call void @await(ptr %pool, i32 %seen)
  br label %check
phase.done:
  %i.next = add i64 %i, 1
  br label %phase.test
out:
  ret void
}}

; ---- what the host calls

; set every counter for a new run: tickets first, so that a late thread finds none of its own
define internal void @reset(ptr %plan, i64 %epoch) nounwind {{
entry:
  %phases.p = getelementptr i8, ptr %plan, i64 {plan.phases}
  %phase.count.p = getelementptr i8, ptr %plan, i64 {plan.phase_count}
  %phases = load ptr, ptr %phases.p
  %phase.count = load i64, ptr %phase.count.p
  %fresh = shl i64 %epoch, 32
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
  %item.at = mul i64 %j, {item.bytes}
  %item.p = getelementptr i8, ptr %items, i64 %item.at
  %next.p = getelementptr i8, ptr %item.p, i64 {item.next}
  %tickets.p = getelementptr i8, ptr %item.p, i64 {item.tickets}
  %steps.p = getelementptr i8, ptr %item.p, i64 {item.steps}
  %row.count.p = getelementptr i8, ptr %item.p, i64 {item.step_count}
  store atomic i64 %fresh, ptr %next.p release, align 8
  %row.count = load i64, ptr %row.count.p
  %split = icmp eq i64 %row.count, 0
  br i1 %split, label %tiles, label %item.done
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
  br label %item.done
item.done:
  %tickets = phi i64 [ 1, %item ], [ %pieces, %tiles ]
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
