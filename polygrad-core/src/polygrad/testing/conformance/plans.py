"""Plans: several launches and copies behind one call, buffers in an arena, variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...contract import CopyStep, Launch, LinearProgram, Plan, PlanBuffer
from ...device import loading
from ...dtype import dtypes, pack, unpack
from ...target import Target
from ...uop.ops import Ops
from ..assembler import Assembler
from .check import Check, Subject, expect_equal

N = 100
BYTES = 4 * N


def scaled() -> LinearProgram:
    """`y = x * v` for the first n elements, v and n variables."""
    a = Assembler("k_scaled")
    x, y = a.param(dtypes.int32, N), a.param(dtypes.int32, N, "w")
    a.variable("n", 0, N)
    v = a.variable("v", -9, 9)
    i = a.grid(("n",))
    a.store(y, i, a(Ops.MUL, a.load(x, i), v))
    return a.build()


def plan(align: int) -> Plan:
    """slot 1 = 3 * v * slot 0, by way of the arena; slot 2 a copy of what lies there."""
    program, room = scaled(), -(-BYTES // align) * align
    buffers = (
        PlanBuffer("external", BYTES, 0),
        PlanBuffer("external", BYTES, 1),
        PlanBuffer("external", BYTES, 2),
        PlanBuffer("arena", BYTES, offset=0),
        PlanBuffer("arena", BYTES, offset=room),
    )
    grid, count = ((N,),), (N,)
    return Plan(
        buffers,
        (
            Launch(program.name, (0, 3), (count, ("v",)), grid),
            CopyStep(4, 3, BYTES),
            Launch(program.name, (4, 1), (count, (3,)), grid),
            CopyStep(2, 3, BYTES),
        ),
        {program.name: program},
        arena_bytes=2 * room,
        variables=(program.variables[1],),
    )


def run_plan(subject: Subject) -> None:
    device, made = subject.device, plan(subject.target.align)
    programs = list(made.programs.values())
    with subject.explained(*programs), subject.memory() as alloc:
        loaded = loading.made(device, programs)
        run = device.prepare(made, loaded, alloc(made.arena_bytes))
        handles = [alloc(BYTES) for _ in range(3)]
        for shift in range(3):
            x = [i + shift for i in range(N)]
            device.allocator.write(handles[0], memoryview(pack(dtypes.int32, x)))
            run(handles, [shift - 1])
            device.synchronize()
            got = [_numbers(subject, h) for h in handles]
            middle = [(shift - 1) * n for n in x]
            expect_equal(got, [x, [3 * n for n in middle], middle], f"run {shift} of a Plan")


def other_handles(subject: Subject) -> None:
    """The same Executable on other handles at each call: nothing of an earlier call is kept."""
    device, program = subject.device, scaled()
    with subject.explained(program), subject.memory() as alloc:
        step = Launch(program.name, (0, 1), (("n",), ("v",)), (("n",),))
        buffers = tuple(PlanBuffer("external", BYTES, i) for i in range(2))
        made = Plan(buffers, (step,), {program.name: program}, variables=program.variables)
        loaded = loading.made(device, [program])
        run = device.prepare(made, loaded, None)
        held = []
        for count in (N, 1, 0, 50):
            x, y = alloc(BYTES), alloc(BYTES)
            device.allocator.write(x, memoryview(pack(dtypes.int32, list(range(N)))))
            device.allocator.write(y, memoryview(pack(dtypes.int32, [-1] * N)))
            run([x, y], [count, 2])
            held.append((count, y))
        device.synchronize()
        for count, y in held:
            wanted = [2 * i if i < count else -1 for i in range(N)]
            expect_equal(_numbers(subject, y), wanted, f"a grid of {count} blocks")


def many_launches(subject: Subject) -> None:
    """A thousand launches in order, each reading what the one before wrote."""
    device = subject.device
    a = Assembler("k_next")
    x = a.param(dtypes.int32, 1, "rw")
    zero = a.number(0)
    value = a.load(x, zero)
    a.store(x, zero, a(Ops.ADD, a(Ops.MUL, value, a.number(3)), a.number(1)))
    program = a.build()
    with subject.explained(program), subject.memory() as alloc:
        loaded = loading.made(device, [program])[program.name]
        handle = alloc(4)
        device.allocator.write(handle, memoryview(bytes(4)))
        wanted = 0
        for _ in range(1000):
            loaded(handle)
            wanted = (wanted * 3 + 1) & 0xFFFFFFFF
        device.synchronize()
        (got,) = _numbers(subject, handle, 1)
        expect_equal(got & 0xFFFFFFFF, wanted, "after a thousand launches")


def _numbers(subject: Subject, handle: object, count: int = N) -> list[int]:
    room = bytearray(4 * count)
    subject.device.allocator.read(memoryview(room), handle)
    return unpack(dtypes.int32, bytes(room))


def checks(target: Target) -> Iterator[Check]:
    table: tuple[tuple[str, Callable[[Subject], None]], ...] = (
        ("other_handles", other_handles),
        ("many_launches", many_launches),
    )
    if target.views:
        table = (("arena", run_plan), *table)
    yield from (Check(f"plans/{name}", function) for name, function in table)
