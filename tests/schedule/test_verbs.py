"""`pad`, `accumulate` and sums in two levels, with every argument on every kind of range, against
the reference device (reliability row 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygrad import Tensor
from polygrad import device as devices
from polygrad.codegen import row_programs
from polygrad.codegen import transform as verbs
from polygrad.codegen.kernel import FEW_BLOCKS, Kernel, canonical, keeps, length, misplaced, static
from polygrad.codegen.lower import lower
from polygrad.codegen.recipes import choose, reference
from polygrad.codegen.recipes.blocks import in_blocks
from polygrad.dtype import dtypes
from polygrad.schedule import schedule
from polygrad.target import Target
from polygrad.uop.ops import Ops, UOp
from polygrad.uop.sizes import Variable, actual

KINDS = ("float32", "float64", "int32", "uint8", "int64")
OPS = (Ops.ADD, Ops.MUL, Ops.MAXIMUM, Ops.MINIMUM)


def leaf(*shape: Any, dtype: str = "float32") -> UOp:
    return UOp.buffer(getattr(dtypes, dtype), shape, "cpu")


def roots(x: UOp, op: Ops) -> dict[str, UOp]:
    """One kernel of each place that a range can have around a reduction."""
    rows = x.reduce(op, (1,)).reshape((x.shape[0], 1)).expand(x.shape)
    return {
        "rows": x.reduce(op, (1,)),
        "columns": x.reduce(op, (0,)),
        "everything": x.reduce(op, (0, 1)),
        "row program": UOp.alu(Ops.SUB, x, rows) if x.dtype.kind != "bool" else rows,
        "scan": x.scan(op, 1),
        "elementwise": UOp.alu(Ops.ADD, x, x),
    }


def filled(x: UOp, seed: int) -> dict[UOp, np.ndarray]:
    draw = np.random.default_rng(seed)
    data = draw.integers(1, 3, actual(x.shape))  # products stay exact
    return {x: data.astype(x.dtype.name)}


def same(
    root: UOp, data: dict[UOp, np.ndarray], verb: Callable[[Kernel], Kernel], run: Any
) -> None:
    (want,) = run([root], data, "interp", lambda k, t: reference(k))

    def optimize(kernel: Kernel, target: Target) -> Kernel:
        made = verb(kernel)
        assert misplaced(made) is None
        return made

    (got,) = run([root], data, "cpu", optimize)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-5)
    else:
        np.testing.assert_array_equal(got, want)


# The fixture is a function that keeps nothing.
EVERY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SHAPES = st.tuples(st.integers(1, 9), st.integers(2, 19))
PLACES = st.sampled_from(list(roots(leaf(2, 3), Ops.ADD)))


@settings(EVERY, max_examples=60)
@given(SHAPES, PLACES, st.sampled_from(OPS), st.sampled_from(KINDS), st.integers(1, 24), st.data())
def test_pad(
    run_kernels, shape: Any, place: str, op: Ops, dtype: str, multiple: int, data: Any
) -> None:
    x = leaf(*shape, dtype=dtype)
    root = roots(x, op)[place]
    which, steps = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 8))

    def padded(kernel: Kernel) -> Kernel:
        """Of a range, or of a part of one: the steps after a part are others' steps."""
        if kernel.order and steps > 1:
            kernel = verbs.block(kernel, kernel.order[-1], steps)
        loop = kernel.order[which % len(kernel.order)] if kernel.order else None
        return kernel if loop is None else verbs.pad(kernel, loop, multiple)

    same(root, filled(x, multiple), padded, run_kernels)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("steps", "multiple"), [(2, 6), (5, 4), (7, 8)])
def test_pad_of_a_part_of_a_scan(run_kernels, op: Ops, steps: int, multiple: int) -> None:
    """Steps after the end of a part add nothing to what the next part goes on with."""
    x = leaf(3, 14)

    def padded(kernel: Kernel) -> Kernel:
        made = verbs.block(kernel, kernel.order[-1], steps)
        return verbs.pad(made, made.order[-1], multiple)

    same(x.scan(op, 1), filled(x, 0), padded, run_kernels)


@settings(EVERY, max_examples=20)
@given(st.integers(1, 27), PLACES, st.sampled_from(OPS), st.integers(2, 9), st.booleans())
def test_pad_of_a_length_that_varies(
    run_kernels, size: int, place: str, op: Ops, multiple: int, along: bool
) -> None:
    n = Variable("n", 1, 27).bind(size)
    x = leaf(5, n) if along else leaf(n, 5)

    def padded(kernel: Kernel) -> Kernel:
        for loop in kernel.order:
            if not static(loop):
                kernel = verbs.pad(kernel, loop, multiple)
        return kernel

    same(roots(x, op)[place], filled(x, size), padded, run_kernels)


@settings(EVERY, max_examples=60)
@given(SHAPES, PLACES, st.sampled_from(OPS), st.sampled_from(KINDS), st.integers(2, 8))
def test_accumulate(run_kernels, shape: Any, place: str, op: Ops, dtype: str, count: int) -> None:
    """`count` accumulators for what they divide, one for the rest; or one for each step."""
    x = leaf(*shape, dtype=dtype)

    def several(kernel: Kernel) -> Kernel:
        for loop in [r for r in kernel.order if r in kernel.reduced and length(r) > 1]:
            n = length(loop)
            main = loop
            if n % count and n > count:
                made = verbs.peel(kernel, loop, n - n % count)
                kernel, main = made, verbs.parts_of(kernel, made)[0]
            if length(main) > count:
                made = verbs.split(kernel, main, count)
                kernel, main = made, verbs.parts_of(kernel, made)[1]
            kernel = verbs.accumulate(kernel, main)
        return kernel

    same(roots(x, op)[place], filled(x, count), several, run_kernels)


@settings(EVERY, max_examples=40)
@given(SHAPES, PLACES, st.sampled_from(OPS), st.sampled_from(KINDS), st.integers(1, 20))
def test_two_levels(run_kernels, shape: Any, place: str, op: Ops, dtype: str, steps: int) -> None:
    """A block of `steps`, and the total over the blocks."""
    x = leaf(*shape, dtype=dtype)

    def blocked(kernel: Kernel) -> Kernel:
        for loop in kernel.order:
            if loop in kernel.reduced or loop.arg[1] == "seq":
                made = verbs.block(kernel, loop, steps)
                parts = verbs.parts_of(kernel, made) or (loop,)
                kernel = verbs.subtotals(made, parts[0])
        return kernel

    same(roots(x, op)[place], filled(x, steps), blocked, run_kernels)


# ---- what they refuse


def one(root: UOp) -> Kernel:
    return canonical(schedule([root], "cpu").items[0].sink)


def test_accumulate_is_for_reductions_of_constant_length() -> None:
    kernel = one(leaf(4, 10).reduce(Ops.ADD, (1,)))
    with pytest.raises(verbs.ScheduleError, match="range 0 is not a reduction"):
        verbs.accumulate(kernel, kernel.order[0])
    n = Variable("n", 1, 20).bind(7)
    kernel = one(leaf(4, n).reduce(Ops.ADD, (1,)))
    with pytest.raises(verbs.ScheduleError, match="not a reduction of constant length"):
        verbs.accumulate(kernel, kernel.order[1])


def test_lengths_of_bound_ranges_stay() -> None:
    """Lanes and printed-out steps depend on them."""
    kernel = one(leaf(4, 8) + leaf(4, 8))
    kernel = verbs.vectorize(kernel, kernel.order[0])
    for verb in (verbs.split, verbs.pad, verbs.cover, verbs.peel):
        with pytest.raises(verbs.ScheduleError, match="is of kind vector already"):
            verb(kernel, kernel.order[0], 3 if verb is not verbs.split else 2)


def test_sums_of_blocks_follow_pad() -> None:
    """A padded sum is cut in blocks like any other."""
    root = leaf(3, 1000).reduce(Ops.ADD, (1,))
    made = in_blocks(verbs.pad(one(root), one(root).order[1], 64))
    assert made.of_kind("subtotal")


@pytest.mark.parametrize(("blocks", "places"), [(FEW_BLOCKS, 2), (FEW_BLOCKS + 1, 4)])
def test_totals_of_many_blocks_keep_what_their_roundings_lose(blocks: int, places: int) -> None:
    """Beside the sum of a block and the total: what is lost, and in the end both together."""
    kernel = one(leaf(2, 32 * blocks).reduce(Ops.ADD, (1,)))
    made = verbs.split(kernel, kernel.order[-1], 32)
    made = verbs.subtotals(made, verbs.parts_of(kernel, made)[0])
    ops = lower(made, devices.get("cpu").target, "k").ops
    assert sum(o.op is Ops.LOCAL for o in ops) == places


def softmax() -> Kernel:
    return one(Tensor.empty(6, 16).softmax(1).uop)


def staged(kernel: Kernel) -> Kernel:
    for node in kernel.reductions:
        for loop in kernel.outputs:
            try:
                return row_programs.stage(kernel, node, loop)
            except verbs.ScheduleError:
                continue
    raise AssertionError("nothing can be staged")


def test_scratch_has_room_for_one_row() -> None:
    """No loop over rows inside of a row's own, no lanes across rows, no second part of the rows."""
    kernel = staged(softmax())
    row = kernel.order[0]
    with pytest.raises(verbs.ScheduleError, match="a loop would stand around"):
        verbs.reorder(kernel, [*kernel.order[1:], row])
    with pytest.raises(verbs.ScheduleError, match="peel, then stage"):
        verbs.peel(kernel, row, 4)
    halves = verbs.split(kernel, row, 2)
    assert misplaced(halves) is None
    assert misplaced(verbs.vectorize(halves, halves.order[1])) is not None


def test_scratch_has_room_for_one_row_when_that_is_padded() -> None:
    kernel = staged(softmax())
    row = kernel.order[0]
    (kept,) = [n for n in kernel.reductions if keeps(n)]
    padded = verbs.pad(kernel, kept.src[1], 6)
    assert [keeps(n) for n in padded.reductions].count(True) == 1
    with pytest.raises(verbs.ScheduleError, match="a loop would stand around"):
        verbs.reorder(padded, [*(r for r in padded.order if r is not row), row])
    with pytest.raises(verbs.ScheduleError, match="peel, then stage"):
        verbs.peel(padded, row, 4)


@pytest.mark.parametrize("where", ["cpu", "interp"])
def test_staged_rows_may_be_padded(run_kernels, where: str) -> None:
    """The scratch is written where the row has an element, and nowhere else."""
    x = leaf(6, 13)
    top = x.reduce(Ops.MAXIMUM, (1,)).reshape((6, 1)).expand(x.shape)
    shifted = UOp.alu(Ops.EXP, UOp.alu(Ops.SUB, x, top))
    root = UOp.alu(Ops.DIV, shifted, shifted.reduce(Ops.ADD, (1,)).reshape((6, 1)).expand(x.shape))
    data = {x: np.random.default_rng(0).standard_normal((6, 13)).astype("f")}

    def padded(kernel: Kernel) -> Kernel:
        kernel = staged(kernel)
        for loop in kernel.order:
            kernel = verbs.pad(kernel, loop, 8)
        return kernel

    (want,) = run_kernels([root], data, "interp")
    (got,) = run_kernels([root], data, where, lambda k, t: padded(k))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    np.testing.assert_allclose(got.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("where", ["cpu", "interp"])
@pytest.mark.parametrize("shape", [(8, 21, 20, 32), (8, 16, 16, 48), (9, 21, 33, 16)])
def test_matrices_that_ask_for_the_next_are_multiplied(
    run_kernels, shape: tuple[int, ...], where: str
) -> None:
    batch, m, k, n = shape
    a, b = Tensor.empty(batch, m, k), Tensor.empty(batch, k, n)
    rng = np.random.default_rng(0)
    data = {t.uop: rng.standard_normal(t.shape).astype("f") for t in (a, b)}
    logs: list[Any] = []

    def optimize(kernel: Kernel, target: Target) -> Kernel:
        small = replace(target, vector_bytes=64, grid_only=False, registers=32)
        made = choose(kernel, replace(small, cache_bytes=(1 << 10, 16 * (m + n) * k)))
        logs.extend(made.log)
        return made

    (got,) = run_kernels([(a @ b).uop], data, where, optimize)
    assert "ask" in [entry[0] for entry in logs]
    want = np.matmul(*(data[t.uop].astype("d") for t in (a, b)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("columns", [192, 256, 640])
def test_columns_add_up_alike_for_any_number_of_cores(run_kernels, columns: int) -> None:
    x = leaf(2003, columns)
    data = np.random.default_rng(0).standard_normal((2003, columns)).astype("f")

    def total(cores: int) -> np.ndarray:
        def optimize(kernel: Kernel, target: Target) -> Kernel:
            return choose(kernel, replace(target, vector_bytes=64, registers=32, cores=cores))

        (out,) = run_kernels([x.reduce(Ops.ADD, (0,))], {x: data}, "cpu", optimize)
        return out

    one = total(1)
    np.testing.assert_allclose(one, data.sum(0, dtype="d"), rtol=1e-6, atol=3e-4)
    for cores in (2, 3, 4, 8):
        np.testing.assert_array_equal(total(cores), one)
