"""LLVM text of the executor: how a thread waits, and its way through a plan."""

from __future__ import annotations

from typing import Final

WALK: Final = """
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
  %spins.p = getelementptr i8, ptr %pool, i64 {pool.spins}
  %spins = load atomic i64, ptr %spins.p monotonic, align 8
  br label %spin
spin:
  %k = phi i64 [ 0, %entry ], [ %k.next, %again ]
  %now = load atomic i32, ptr %pool acquire, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %again, label %done
again:
  {spin}
  %k.next = add i64 %k, 1
  %patient = icmp ult i64 %k.next, %spins
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

; ---- shares

define internal i64 @item_bytes(ptr %plan) nounwind {{
  %threads.p = getelementptr i8, ptr %plan, i64 {plan.threads}
  %threads = load i64, ptr %threads.p
  %few = icmp slt i64 %threads, {limit.shares}
  %most = select i1 %few, i64 %threads, i64 {limit.shares}
  %lines = add i64 %most, 1
  %bytes = mul i64 %lines, {limit.line}
  ret i64 %bytes
}}

define internal ptr @share_next(ptr %item, i64 %share) nounwind {{
  %lines = mul i64 %share, {limit.line}
  %offset = add i64 %lines, {item.next}
  %next = getelementptr i8, ptr %item, i64 %offset
  ret ptr %next
}}

; the first ticket of a share, rounded up: a single ticket is in the first one
define internal i64 @share_start(i64 %share, i64 %tickets, i64 %shares) nounwind {{
  %product = mul i64 %share, %tickets
  %less = add i64 %shares, -1
  %up = add i64 %product, %less
  %start = udiv i64 %up, %shares
  ret i64 %start
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
  %threads.p = getelementptr i8, ptr %plan, i64 {plan.threads}
  %threads = load i64, ptr %threads.p
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
  %item.at = mul i64 %j, %item.bytes
  %item.p = getelementptr i8, ptr %items, i64 %item.at
  %tickets.p = getelementptr i8, ptr %item.p, i64 {item.tickets}
  %steps.p = getelementptr i8, ptr %item.p, i64 {item.steps}
  %row.count.p = getelementptr i8, ptr %item.p, i64 {item.step_count}
  %shares.p = getelementptr i8, ptr %item.p, i64 {item.shares}
  %shares = load i64, ptr %shares.p
  %scaled = mul i64 %thread, %shares
  %home = udiv i64 %scaled, %threads
  br label %share.test
share.test: ; the thread's own share first, then the others in a circle
  %turn = phi i64 [ 0, %item ], [ %turn.next, %share.done ]
  %turn.more = icmp slt i64 %turn, %shares
  br i1 %turn.more, label %share, label %item.done
share:
  %far = add i64 %home, %turn
  %share.at = urem i64 %far, %shares
  %next.p = call ptr @share_next(ptr %item.p, i64 %share.at)
  %share.after = add i64 %share.at, 1
  br label %take
take:
  %ticket = load atomic i64, ptr %next.p acquire, align 8
  %of = lshr i64 %ticket, 32
  %mine = icmp eq i64 %of, %epoch
  br i1 %mine, label %look, label %out
look:
  %number = and i64 %ticket, 4294967295
  %tickets = load atomic i64, ptr %tickets.p acquire, align 8
  %stop = call i64 @share_start(i64 %share.after, i64 %tickets, i64 %shares)
  %left = icmp slt i64 %number, %stop
  br i1 %left, label %grab, label %share.done
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
share.done:
  %turn.next = add i64 %turn, 1
  br label %share.test
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
"""
