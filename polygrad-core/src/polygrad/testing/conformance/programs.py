"""Control flow and memory of a LinearProgram: loops, branches, gates, locals, grids, variables.

Each program is compared with the reference engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from ...contract import LinearProgram
from ...device import loading
from ...dtype import dtypes, pack, unpack
from ...target import Target
from ...uop.ops import Ops
from ..assembler import Assembler, launch
from .check import Check, ConformanceError, Subject, expect, expect_equal, reference

I32, F32, BOOL = dtypes.int32, dtypes.float32, dtypes.bool


class Sample(NamedTuple):
    program: LinearProgram
    contents: tuple[bytes, ...]
    scalars: tuple[int | float, ...] = ()


def floats(n: int) -> bytes:
    return pack(F32, [((i * 37) % 101 - 50) / 8 for i in range(n)])


def integers(n: int) -> bytes:
    return pack(I32, [(i * 7919) % 1009 - 500 for i in range(n)])


def row_sums(rows: int = 5, columns: int = 17) -> Sample:
    """A register carries a sum through a loop, once for each block."""
    a = Assembler("k_rows")
    x, y = a.param(F32, rows * columns), a.param(F32, rows, "w")
    row, zero = a.grid(rows), a.number(0)
    total = a.local(F32, 1)
    a.store(total, zero, a.const(F32, 0.0))
    k = a.range(zero, a.number(columns))
    at = a(Ops.ADD, a(Ops.MUL, row, a.number(columns)), k)
    a.store(total, zero, a(Ops.ADD, a.load(total, zero), a.load(x, at)))
    a.end(k)
    a.store(y, row, a.load(total, zero))
    return Sample(a.build(), (floats(rows * columns), bytes(4 * rows)))


def loop_without_steps() -> Sample:
    """The bound is a variable, which may be 0."""
    a = Assembler("k_steps")
    y, zero = a.param(I32, 1, "w"), a.number(0)
    total = a.local(I32, 1)
    a.store(total, zero, a.number(5))
    k = a.range(zero, a.variable("n", 0, 10))
    a.store(total, zero, a(Ops.ADD, a.load(total, zero), a.number(1)))
    a.end(k)
    a.store(y, zero, a.load(total, zero))
    return Sample(a.build(), (bytes(4),), (0,))


def triangle(kind: str) -> Sample:
    """An inner loop's bound is the outer counter; the outer one is a loop or printed out."""
    a = Assembler("k_triangle_" + kind)
    y, zero = a.param(I32, 6, "w"), a.number(0)
    total = a.local(I32, 1)
    i = a.range(zero, a.number(6), kind)
    a.store(total, zero, zero)
    k = a.range(zero, i)
    a.store(total, zero, a(Ops.ADD, a.load(total, zero), k))
    a.end(k)
    a.store(y, i, a.load(total, zero))
    a.end(i)
    return Sample(a.build(), (bytes(24),))


def branch() -> Sample:
    """Only blocks whose condition holds write."""
    a = Assembler("k_branch")
    x, y = a.param(F32, 10), a.param(F32, 10, "rw")
    i = a.grid(10)
    value = a.load(x, i)
    taken = a.branch(a(Ops.CMPLT, a.const(F32, 0.0), value))
    a.store(y, i, a(Ops.MUL, value, value))
    a.endif(taken)
    return Sample(a.build(), (floats(10), pack(F32, [7.0] * 10)))


def gated_load() -> Sample:
    """Where the gate is false nothing is read: those addresses lie far outside."""
    a = Assembler("k_gated")
    x, y = a.param(F32, 4), a.param(F32, 8, "w")
    i = a.grid(8)
    inside = a(Ops.CMPLT, i, a.number(4))
    offset = a(Ops.WHERE, inside, i, a.number(1 << 28))
    a.store(y, i, a.load(x, offset, inside, a.const(F32, 2.5)))
    return Sample(a.build(), (floats(4), bytes(32)))


def load_that_asks_ahead() -> Sample:
    """The distance is a hint: nothing is read there, be it far outside."""
    a = Assembler("k_ahead")
    x, y = a.param(F32, 8), a.param(F32, 16, "w")
    i = a.grid(8)
    for n, distance in enumerate((3, -(1 << 20))):
        value = a.emit(Ops.LOAD, F32, (a.index(x, i),), distance)
        a.store(y, a(Ops.ADD, i, a.number(8 * n)), value)
    return Sample(a.build(), (floats(8), bytes(64)))


def gated_store() -> Sample:
    """Where the gate is false nothing is written."""
    a = Assembler("k_tail")
    y = a.param(I32, 4, "rw")
    i = a.grid(64)
    a.store(y, i, a(Ops.ADD, i, a.number(10)), a(Ops.CMPLT, i, a.number(3)))
    return Sample(a.build(), (pack(I32, [-1] * 4),))


def grid_order() -> Sample:
    """Three axes; the last one is the fastest."""
    a = Assembler("k_grid")
    y = a.param(I32, 24, "w")
    i, j, k = a.grid(2), a.grid(3), a.grid(4)
    place = a(Ops.ADD, a(Ops.MUL, i, a.number(12)), a(Ops.ADD, a(Ops.MUL, j, a.number(4)), k))
    code = a(Ops.ADD, a(Ops.MUL, i, a.number(100)), a(Ops.ADD, a(Ops.MUL, j, a.number(10)), k))
    a.store(y, place, code)
    return Sample(a.build(), (bytes(96),))


def varying_grid() -> Sample:
    """The launch computes the grid from a variable."""
    a = Assembler("k_varying")
    y = a.param(I32, 20, "rw")
    n = a.variable("n", 1, 9)
    i = a.grid(("n", 2, "*"))
    a.store(y, i, a(Ops.ADD, i, n))
    return Sample(a.build(), (pack(I32, [-1] * 20),), (7,))


def constants() -> Sample:
    """Numbers that are easily lost on the way through a text."""
    a = Assembler("k_constants")
    values = (
        -0.0,
        0.0,
        float("inf"),
        float("-inf"),
        2.0**-149,
        1.0 - 2.0**-24,
        3.4028234663852886e38,
    )
    y, z = a.param(F32, len(values), "w"), a.param(I32, 2, "w")
    for i, value in enumerate(values):
        a.store(y, a.number(i), a.const(F32, value))
    for i, number in enumerate((-(2**31), 2**31 - 1)):
        a.store(z, a.number(i), a.const(I32, number))
    return Sample(a.build(), (bytes(4 * len(values)), bytes(8)))


def scalars() -> Sample:
    """Variables arrive in their dtype."""
    a = Assembler("k_scalars")
    y, z = a.param(I32, 1, "w"), a.param(F32, 1, "w")
    zero = a.number(0)
    a.store(y, zero, a.variable("a", -100, 100))
    a.store(z, zero, a.variable("b", -1, 1, F32))
    return Sample(a.build(), (bytes(4), bytes(4)), (-7, 0.1))


def local_array(space: str) -> Sample:
    """The block reverses a row through memory of its own, with another beside it."""
    n = 21
    a = Assembler("k_reverse_" + space)
    x, y = a.param(F32, n), a.param(F32, n, "w")
    zero, size = a.number(0), a.number(n)
    held, other = a.local(F32, n, space), a.local(F32, n, space)
    i = a.range(zero, size)
    a.store(held, i, a.load(x, i))
    a.store(other, i, a.const(F32, -1.0))
    a.end(i)
    j = a.range(zero, size)
    a.store(y, j, a.load(held, a(Ops.SUB, a.number(n - 1), j)))
    a.end(j)
    return Sample(a.build(), (floats(n), bytes(4 * n)))


def bool_local() -> Sample:
    """A bool in a register: is any number below 0?"""
    a = Assembler("k_any")
    x, y, zero = a.param(F32, 6), a.param(dtypes.uint8, 1, "w"), a.number(0)
    found = a.local(BOOL, 1)
    a.store(found, zero, a.const(BOOL, False))
    i = a.range(zero, a.number(6))
    negative = a(Ops.CMPLT, a.load(x, i), a.const(F32, 0.0))
    a.store(found, zero, a(Ops.OR, a.load(found, zero), negative))
    a.end(i)
    a.store(y, zero, a(Ops.CAST, a.load(found, zero), dtype=dtypes.uint8))
    return Sample(a.build(), (floats(6), bytes(1)))


def in_place() -> Sample:
    """One param that is read and written."""
    a = Assembler("k_in_place")
    x = a.param(I32, 9, "rw")
    i = a.grid(9)
    a.store(x, i, a(Ops.MUL, a.load(x, i), a.number(3)))
    return Sample(a.build(), (integers(9),))


def range_from(kind: str) -> Sample:
    """A loop counts from its first source, here -2 and 3."""
    a = Assembler("k_from_" + kind)
    y = a.param(I32, 10, "rw")
    for lo, hi in ((-2, 2), (3, 8)):
        k = a.range(a.number(lo), a.number(hi), kind)
        place = a(Ops.ADD, k, a.number(2))
        a.store(y, place, a(Ops.ADD, a(Ops.MUL, k, a.number(10)), a.load(y, place)))
        a.end(k)
    return Sample(a.build(), (integers(10),))


def range_between() -> Sample:
    """Both bounds of a loop are values: a variable and an outer counter."""
    a = Assembler("k_between_values")
    y, zero = a.param(I32, 6, "w"), a.number(0)
    total = a.local(I32, 1)
    lo = a.variable("lo", 0, 5)
    i = a.range(zero, a.number(6))
    a.store(total, zero, zero)
    k = a.range(lo, i)
    a.store(total, zero, a(Ops.ADD, a.load(total, zero), k))
    a.end(k)
    a.store(y, i, a.load(total, zero))
    a.end(i)
    return Sample(a.build(), (bytes(24),), (2,))


def long_counters() -> Sample:
    """Blocks and loops are counted in 64 bits where the machine computes in them."""
    a = Assembler("k_long")
    I64 = dtypes.int64
    y = a.param(I64, 15, "w")
    a.sizes.append((3,))
    row = a.emit(Ops.GRID, I64, (), 0)
    lo, hi = (a.const(I64, n) for n in (1, 6))
    k = a.emit(Ops.RANGE, I64, (lo, hi), "loop")
    place = a(Ops.ADD, a(Ops.MUL, row, a.const(I64, 5)), a(Ops.SUB, k, lo))
    a.store(y, place, a(Ops.SHL, a(Ops.ADD, row, k), a.const(I64, 40)))
    a.end(k)
    return Sample(a.build(), (bytes(8 * 15),))


# ---- checks


def same_as_reference(make: Callable[[], Sample]) -> Callable[[Subject], None]:
    def run(subject: Subject) -> None:
        sample = make()
        got = subject.run(sample.program, *sample.contents, scalars=sample.scalars)
        wanted = reference(sample.program, *sample.contents, scalars=sample.scalars)
        with subject.explained(sample.program):
            for i, (param, a, b) in enumerate(zip(sample.program.params, got, wanted, strict=True)):
                mine, theirs = unpack(param.dtype, a), unpack(param.dtype, b)
                same = [*map(repr, mine)] == [*map(repr, theirs)]  # -0.0 is not 0.0, NaN is NaN
                expect(same, f"param {i} after: got {mine!r}, expected {theirs!r}")

    return run


def deterministic(subject: Subject) -> None:
    """The same programs give the same source, whoever prints it."""
    renderer = subject.device.renderer
    programs = [row_sums().program, branch().program]
    with subject.explained(*programs):
        first = renderer.render(programs)
        again = type(renderer)(subject.target).render(programs)
        if again.code != first.code:
            raise ConformanceError(_first_difference(again.code, first.code))
        expect_equal(set(first.entries), {p.name for p in programs}, "the entries of a source")


def _first_difference(again: Any, first: Any) -> str:
    """Where two sources of the same programs differ."""
    at = next(i for i, (a, b) in enumerate(zip_longest(again, first)) if a != b)
    near = slice(max(0, at - 20), at + 20)
    return (
        f"the source of the same programs differs from place {at} on:"
        f" got {again[near]!r}, expected {first[near]!r}"
    )


def several_in_one(subject: Subject) -> None:
    """Programs compiled as one module are told apart by name: each gives its own results."""
    device = subject.device
    samples = [row_sums(2, 3), branch(), in_place()]
    programs = [s.program for s in samples]
    with subject.explained(*programs):
        loaded = loading.made(device, programs)
        expect_equal(set(loaded), {p.name for p in programs}, "the loaded programs")
        for program, contents, _ in samples:
            got = launch(device, program, *contents, loaded=loaded[program.name])
            same = got == reference(program, *contents)
            expect(same, f"of {len(samples)} programs {program.name} gives something else")


def seconds(subject: Subject) -> None:
    """With `wait` a launch says how long it took."""
    device, sample = subject.device, in_place()
    with subject.explained(sample.program), subject.memory() as alloc:
        loaded = loading.made(device, [sample.program])
        handle = alloc(len(sample.contents[0]))
        device.allocator.write(handle, memoryview(sample.contents[0]))
        took = loaded[sample.program.name](handle, grid=(9,), wait=True)
        expect(isinstance(took, float) and took >= 0, f"a launch with wait=True returned {took!r}")


def checks(target: Target) -> Iterator[Check]:
    plain = (
        row_sums, loop_without_steps, branch, gated_load, load_that_asks_ahead, gated_store,
        grid_order, varying_grid, scalars, constants, bool_local, in_place, range_between,
        *([long_counters] * target.supports(Ops.ADD, dtypes.int64)),
    )  # fmt: skip
    for make in plain:
        yield Check(f"programs/{make.__name__}", same_as_reference(make))
    for kind in ("loop", "unroll"):
        yield Check(f"programs/triangle-{kind}", same_as_reference(partial(triangle, kind)))
        yield Check(f"programs/range_from-{kind}", same_as_reference(partial(range_from, kind)))
    for space in ("register", "stack", "scratch"):
        made = partial(local_array, space)
        yield Check(f"programs/local_array-{space}", same_as_reference(made))
    for function in (deterministic, several_in_one, seconds):
        yield Check(f"programs/{function.__name__}", function)
