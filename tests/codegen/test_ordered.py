"""Ordered kernels: which loops go to the grid, and orders that contradict themselves."""

from __future__ import annotations

import pytest

from polygrad import dtypes
from polygrad.codegen import compile_kernel
from polygrad.contract import LinearProgram
from polygrad.device.interp_target import TARGET
from polygrad.errors import SpecError
from polygrad.uop.kernel import Placeholder, finished
from polygrad.uop.ops import Ops, UOp


def param(slot: int, *shape: int) -> Placeholder:
    return Placeholder.param(slot, dtypes.float32, shape)


def compiled(sink: UOp) -> LinearProgram:
    return compile_kernel(finished(sink), TARGET, "k_test")


def running(out: Placeholder, a: Placeholder, kind: str = "loop") -> UOp:
    rows, n = a.shape
    r, i = UOp.range(0, rows, 0, kind), UOp.range(1, n, 1)
    first = out[r, 0].store(a[r, 0])
    before = out.after(first, i)
    rest = before[r, i].store(before[r, i - 1] + a[r, i]).end(i)
    return first.group(rest).end(r).sink()


def test_rows_that_touch_memory_of_their_own_are_blocks() -> None:
    assert compiled(running(param(0, 3, 7), param(1, 3, 7))).grid == ((3,),)


def test_rows_that_share_memory_stay_in_order() -> None:
    out = param(0, 3, 7)
    r, i = UOp.range(1, 3, 0), UOp.range(7, 1)
    before = out.after(r, i)
    sink = before[r, i].store(before[r - 1, i] + 1.0).end(r, i).sink()
    assert compiled(sink).grid == ()


def test_an_author_may_promise_independence() -> None:
    out, at = param(0, 8), Placeholder.param(1, dtypes.int32, (8,))
    i = UOp.range(0, 8, 0, "grid")
    before = out.after(i)
    sink = before[at[i]].store(before[at[i]] + 1.0).end(i).sink()
    assert compiled(sink).grid == ((8,),)


def test_a_plain_kernel_goes_through_the_recipes() -> None:
    i = UOp.range(8, 0)
    sink = finished(param(0, 8)[i].store(param(1, 8)[i]).end(i).sink())
    assert all(n.op is not Ops.END for n in sink.toposort())


def test_effects_that_wait_for_each_other_are_refused() -> None:
    a, b, c = param(0, 4), param(1, 4), param(2, 4)
    one, two = a[0].store(1.0), b[0].store(1.0)
    three = c[0].store(a.after(two)[0] + 0.0)  # before one, after two
    four = c[1].store(b.after(one)[0] + 0.0)  # before two, after one
    with pytest.raises(SpecError, match="wait for each other"):
        finished(one.sink(two, three, four))


def test_a_loop_used_outside_itself_is_refused() -> None:
    i, j = UOp.range(4, 0), UOp.range(4, 1)
    a = param(0, 4)
    inner = a[i].store(1.0).end(i)
    with pytest.raises(SpecError, match="range"):
        finished(a.after(inner)[j].store(a[i] + 0.0).end(j).sink())
