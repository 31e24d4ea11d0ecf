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
MANY = 50  # launches, of which some may still run when the last was asked for


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
    """slot 1 = 3 * v * slot 0 and slot 2 = 5 * slot 0, by way of two places in the arena."""
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
            Launch(program.name, (0, 3), (count, (5,)), grid),
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
            wanted = [[factor * n for n in x] for factor in (1, 3 * (shift - 1), 5)]
            expect_equal(got, wanted, f"run {shift} of a Plan")


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


def setup(subject: Subject) -> None:
    """Steps of `setup` run before the first call only."""
    device, program = subject.device, scaled()
    with subject.explained(program), subject.memory() as alloc:
        first, step = (
            Launch(program.name, buffers, ((N,), (factor,)), ((N,),))
            for buffers, factor in (((0, 1), 2), ((1, 2), 3))
        )
        buffers = tuple(PlanBuffer("external", BYTES, i) for i in range(3))
        made = Plan(buffers, (step,), {program.name: program}, setup=(first,))
        run = device.prepare(made, loading.made(device, [program]), None)
        handles = [alloc(BYTES) for _ in range(3)]
        for call in range(2):  # what setup made of the first call's numbers stays
            data = pack(dtypes.int32, [i + call for i in range(N)])
            device.allocator.write(handles[0], memoryview(data))
            run(handles, [])
            device.synchronize()
            got = [_numbers(subject, h) for h in handles[1:]]
            wanted = [[factor * i for i in range(N)] for factor in (2, 6)]
            expect_equal(got, wanted, f"call {call} of a Plan with a setup")


def memory_in_order(subject: Subject) -> None:
    """A write, and a copy to and from, come after what was launched before."""
    device, program = subject.device, counting()
    allocator = device.allocator
    with subject.explained(program), subject.memory() as alloc:
        loaded = loading.made(device, [program])[program.name]
        x, y = alloc(4), alloc(4)
        for handle in (x, y):
            allocator.write(handle, memoryview(bytes(4)))
        for _ in range(MANY):
            loaded(x)
        allocator.copy(y, x, 4, device)
        for _ in range(MANY):
            loaded(x)
        allocator.write(x, memoryview(pack(dtypes.int32, [7])))
        loaded(x)
        expect_equal(_numbers(subject, y, 1), [MANY], f"a copy after {MANY} launches that add 1")
        expect_equal(_numbers(subject, x, 1), [8], "7 written after launches, and 1 added")


def counting() -> LinearProgram:
    """`x = x + 1`."""
    a = Assembler("k_counting")
    x, zero = a.param(dtypes.int32, 1, "rw"), a.number(0)
    a.store(x, zero, a(Ops.ADD, a.load(x, zero), a.number(1)))
    return a.build()


def _numbers(subject: Subject, handle: object, count: int = N) -> list[int]:
    room = bytearray(4 * count)
    subject.device.allocator.read(memoryview(room), handle)
    return unpack(dtypes.int32, bytes(room))


def checks(target: Target) -> Iterator[Check]:
    table: tuple[tuple[str, Callable[[Subject], None]], ...] = (
        ("other_handles", other_handles),
        ("many_launches", many_launches),
        ("setup", setup),
        ("memory_in_order", memory_in_order),
    )
    if target.views:
        table = (("arena", run_plan), *table)
    yield from (Check(f"plans/{name}", function) for name, function in table)
