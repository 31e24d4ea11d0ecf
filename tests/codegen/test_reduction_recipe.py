"""How sums of what lies in memory are read, looked at without running them."""

from __future__ import annotations

from dataclasses import replace

from polygrad import Tensor
from polygrad import device as devices
from polygrad.codegen.kernel import Kernel, canonical, length, nodes_of
from polygrad.codegen.recipes import choose
from polygrad.dtype import dtypes
from polygrad.schedule import schedule
from polygrad.target import Target
from polygrad.uop.linear import coefficient
from polygrad.uop.ops import Ops, UOp

CACHES = (32 << 10, 512 << 10)
MOVED = tuple(1 << i for i in range(7))
SHORT = replace(
    devices.get("cpu").target, vector_bytes=32, memory_bytes=MOVED, registers=16,
    cache_bytes=CACHES, cores=2,
)  # fmt: skip
WIDE = replace(SHORT, vector_bytes=64, registers=32)


def chosen(x: UOp, target: Target) -> Kernel:
    return choose(canonical(schedule([x], "cpu").items[-1].sink), target)


def summed(shape: tuple[int, ...], axis: int, target: Target) -> Kernel:
    x = UOp.buffer(dtypes.float32, shape, "cpu").reduce(Ops.ADD, (axis,))
    return chosen(x, target)


def test_rows_from_memory_are_read_four_at_a_time_where_vectors_are_short() -> None:
    def strands(n: int, k: int, target: Target = SHORT) -> list[int]:
        made = summed((n, k), 1, target)
        (load,) = (u for u in nodes_of(made.stores) if u.op is Ops.LOAD)
        apart = [coefficient(load.src[0].src[1], r) for r in made.of_kind("unroll")]
        return [*map(length, made.of_kind("unroll")), *(a or 0 for a in apart)]

    assert strands(4096, 4096) == [4, 4 * 4096]
    assert strands(64, 1 << 18) == [4, 1 << 18]
    assert strands(50257, 768) == [4, 0]  # what is left over is covered: no constant step
    assert strands(4096, 4096, WIDE) == strands(32, 4096) == strands(64, 1024) == []


def test_rows_are_added_to_a_strip_of_columns_eight_at_a_time_where_vectors_are_short() -> None:
    def abreast(n: int, target: Target = SHORT) -> list[int]:
        return [length(r) for r in summed((n, 4096), 0, target).of_kind("unroll")]

    assert abreast(4096) == [8]
    assert abreast(4100) == abreast(4096, WIDE) == [4]
    assert abreast(4099) == []
    for target in (SHORT, WIDE):  # a strip of 8 KB
        made = summed((4096, 4096), 0, target)
        strip = [length(r) for r in made.of_kind("loop") if r not in made.reduced]
        assert strip == [8192 // target.vector_bytes]


def test_exponentials_of_a_row_are_summed_two_vectors_abreast_where_these_are_a_line() -> None:
    def widths(columns: int, target: Target) -> list[int]:
        made = chosen(Tensor.empty(4096, columns).softmax(1).uop, target)
        return sorted(length(r) for r in made.of_kind("vector"))

    assert widths(4096, SHORT) == [8, 8, 16]
    assert widths(4096 + 8, SHORT) == widths(40, SHORT) == [8, 8, 8]
    assert widths(4096, replace(SHORT, memory_bytes=MOVED[:-1])) == [8, 8, 8]
    assert widths(4096, WIDE) == [16, 16, 16]
