"""Chains in blocks of rows: what each machine makes of one, looked at without running it, and the
limits of rows against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from polygrad import Tensor
from polygrad import device as devices
from polygrad.codegen import compile_kernel
from polygrad.codegen.chain import blocks_of, columns_of, limits_of
from polygrad.codegen.chain_stages import is_chain, reductions_of, rows_of, stages_of
from polygrad.codegen.kernel import substitute
from polygrad.codegen.limits import bounded
from polygrad.codegen.recipes.contraction import product_of
from polygrad.contract import LinearProgram
from polygrad.dtype import dtypes
from polygrad.schedule import schedule
from polygrad.target import Target
from polygrad.uop.ops import Ops, UOp
from polygrad.uop.spec import verify_program

NARROW = replace(devices.get("cpu").target, vector_bytes=32, registers=16)
WIDE = replace(NARROW, vector_bytes=64, registers=32)
TARGETS = (NARROW, WIDE, devices.get("interp").target)


def chain_of(m: int, t: int, d: int = 4, **options: bool) -> UOp:
    q, k, v = (Tensor.empty(2, n, d) for n in (m, t, t))
    out = q.scaled_dot_product_attention(k, v, **options)
    (sink,) = (i.sink for i in schedule([out.uop], "cpu").items if is_chain(i.sink))
    return sink


def chains_of_gradient(heads: int, length: int, lanes: int) -> list[UOp]:
    q, k, v = (Tensor.empty(heads, length, 8) for _ in range(3))
    out = q.scaled_dot_product_attention(k, v, is_causal=True)
    wanted = [out.uop, *(g.uop for g in out.square().sum().gradient(q, k, v))]
    items = schedule(wanted, "cpu", lanes=lambda device: lanes).items
    return [i.sink for i in items if is_chain(i.sink)]


def scratch(program: LinearProgram) -> int:
    return sum(
        o.arg[0] * o.dtype.itemsize
        for o in program.ops
        if o.op is Ops.LOCAL and o.arg[1] == "scratch"
    )


@pytest.mark.parametrize("target", TARGETS, ids=["narrow", "wide", "interp"])
@pytest.mark.parametrize("sizes", [(64, 64), (37, 101), (101, 37), (7, 67), (200, 512)])
@pytest.mark.parametrize("causal", [False, True])
def test_a_chain_is_legal_for_every_machine(
    target: Target, sizes: tuple[int, int], causal: bool
) -> None:
    verify_program(compile_kernel(chain_of(*sizes, is_causal=causal), target, "k"), target)


@pytest.mark.parametrize("target", TARGETS, ids=["narrow", "wide", "interp"])
def test_the_chains_of_a_gradient_are_legal_for_every_machine(target: Target) -> None:
    """Products of which a factor lies in scratch, in vectors along the columns."""
    chains = chains_of_gradient(2, 128, lanes=0)
    assert len(chains) > 1
    for sink in chains:
        verify_program(compile_kernel(sink, target, "k"), target)


@pytest.mark.parametrize("target", TARGETS, ids=["narrow", "wide", "interp"])
@pytest.mark.parametrize("length", [37, 64, 128, 260, 1024])
def test_sums_over_rows_are_legal_for_every_machine(target: Target, length: int) -> None:
    for sink in chains_of_gradient(32, length, lanes=8):
        verify_program(compile_kernel(sink, target, "k"), target)


def test_limits_are_rounded_to_a_tile_or_to_what_a_reduction_of_rows_takes() -> None:
    forward, keys = chains_of_gradient(32, 260, lanes=8)
    for sink, columns in ((forward, 64), (keys, 32)):
        stages = stages_of(sink)
        assert limits_of(stages, blocks_of(stages, rows_of(sink), WIDE), WIDE).step == columns


@pytest.mark.parametrize(("length", "width"), [(1024, 256), (960, 192), (37, 0), (1009, 0)])
def test_long_rows_that_are_summed_over_are_cut_where_they_come_out_even(
    length: int, width: int
) -> None:
    """8 numbers a place in five buffers, two numbers, and rows of scratch for 24 places."""
    small = replace(NARROW, cache_bytes=(32 << 10, (5 * 8 + 2 + 2 * 24) * 4 * 256 * 4 // 3))
    sink = chains_of_gradient(32, length, lanes=8)[-1]
    columns = columns_of(stages_of(sink), rows_of(sink), small)
    assert (0 if columns is None else columns.width) == width
    verify_program(compile_kernel(sink, small, "k"), small)


def test_rows_that_are_reduced_are_never_cut() -> None:
    forward, _ = chains_of_gradient(32, 1024, lanes=8)
    small = replace(NARROW, cache_bytes=(32 << 10, 64 << 10))
    assert columns_of(stages_of(forward), rows_of(forward), small) is None


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(768, 512), (512, 772), (509, 256)])
def test_gradients_in_blocks_of_columns(causal: bool, queries: int, keys: int) -> None:
    """Against float64: wide heads, of which few columns fit any second cache."""
    rng = np.random.default_rng(3)
    shapes = [(8, n, 256) for n in (queries, keys, keys, queries)]
    q, k, v, g = (rng.standard_normal(s, dtype=np.float32) for s in shapes)
    tensors = [Tensor(a, device="cpu") for a in (q, k, v)]
    out = tensors[0].scaled_dot_product_attention(*tensors[1:], is_causal=causal)
    got = (out * Tensor(g, device="cpu")).sum().gradient(*tensors)
    got[0].realize(*got[1:])
    q, k, v, g = (a.astype(np.float64) for a in (q, k, v, g))
    scores = q @ k.swapaxes(1, 2) / 16
    if causal:
        scores[:, ~np.tri(queries, keys, dtype=bool)] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    slope = p * (g @ v.swapaxes(1, 2) - (p @ v * g).sum(-1, keepdims=True)) / 16
    wanted = slope @ k, slope.swapaxes(1, 2) @ q, p.swapaxes(1, 2) @ g
    for ours, exact in zip(got, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), exact, atol=4e-6 * np.abs(exact).max())


def test_what_a_mask_hides_is_not_summed_over() -> None:
    sink = chains_of_gradient(32, 260, lanes=8)[-1]
    stages, rows = stages_of(sink), rows_of(sink)
    limits = limits_of(stages, blocks_of(stages, rows, NARROW), NARROW)
    (summing,) = (s for s in stages if s.sums is not None)
    assert summing.sums is rows[-1]
    assert summing.column in limits.first
    assert summing.column not in limits.end


def test_what_stages_leave_fits_the_second_cache() -> None:
    for t in (64, 1000, 4096):
        program = compile_kernel(chain_of(2048, t), NARROW, "k")
        assert scratch(program) < NARROW.cache_bytes[1]


@pytest.mark.parametrize("target", TARGETS[:2], ids=["narrow", "wide"])
@pytest.mark.parametrize("length", [128, 255, 256, 512, 1000, 1024, 4099])
def test_few_rows_are_taken_by_two_blocks(target: Target, length: int) -> None:
    sink = chain_of(length, 512)
    blocks = blocks_of(stages_of(sink), rows_of(sink), target)
    count = int(blocks.counters[-1].arg[2]) + 1
    assert (count - 1) * blocks.rows < length <= count * blocks.rows <= length * 1.06


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("columns", "lanes"), [(512, 16), (264, 8), (101, 8)])
def test_exponentials_are_computed_two_vectors_abreast_where_these_come_out_even(
    columns: int, lanes: int, causal: bool
) -> None:
    program = compile_kernel(chain_of(512, columns, is_causal=causal), NARROW, "k")
    widest = max(o.dtype.lanes for o in program.ops if o.op is Ops.FMA)
    assert widest == lanes


def test_scores_and_their_exponentials_share_their_memory() -> None:
    stages = stages_of(chain_of(200, 512))
    blocks = blocks_of(stages, rows_of(chain_of(200, 512)), NARROW)
    wide = [s.local for s in stages if s.local is not None and s.column is not None]
    assert len(wide) == 2
    assert len({blocks.scratch[u] for u in wide}) == 1


def test_what_a_row_is_reduced_to_is_computed_once() -> None:
    """The sum of a row's exponentials, which is kept for the products and is in a result."""
    stages = stages_of(chains_of_gradient(2, 128, lanes=0)[0])
    found = [n for s in stages for n in reductions_of(s.stores) if product_of(n) is None]
    assert [n.arg for n in found] == [Ops.MAXIMUM, Ops.ADD]


def test_only_a_mask_limits_rows() -> None:
    for causal in (False, True):
        stages = stages_of(chain_of(200, 512, is_causal=causal))
        blocks = blocks_of(stages, rows_of(chain_of(200, 512, is_causal=causal)), NARROW)
        limits = limits_of(stages, blocks, NARROW)
        assert bool(limits.end) is causal
        assert not limits.first


# ---- limits


def effects(keep: UOp, column: UOp, turned: bool) -> tuple[list[UOp], UOp, UOp]:
    """Scores hidden by a condition on (row, column), and the sum of their exponentials."""
    score = UOp(Ops.PARAM, dtypes.float32, (), (0, 400))
    total = UOp(Ops.PARAM, dtypes.float32, (), (1, 20))
    local = UOp(Ops.LOCAL, dtypes.float32, (), (20, "scratch", 0))
    again, row = UOp.range(0, 20, 7, "reduce"), UOp.range(0, 20, 0)
    value = UOp(Ops.INDEX, dtypes.float32, (score, row * 20 + column)).load()
    hidden = UOp.const(dtypes.float32, -np.inf)
    masked = keep.where(hidden, value) if turned else keep.where(value, hidden)
    first = UOp(Ops.INDEX, dtypes.float32, (local, column)).store(masked)
    read = UOp(Ops.INDEX, dtypes.float32, (local, again)).load()
    summed = UOp(Ops.REDUCE, dtypes.float32, (UOp.alu(Ops.EXP, read), again), Ops.ADD)
    return [first, UOp(Ops.INDEX, dtypes.float32, (total, row)).store(summed)], first, again


@given(
    factor=st.sampled_from([1, -1]),
    slope=st.integers(-2, 2),
    offset=st.integers(-25, 25),
    op=st.sampled_from([Ops.CMPLT, Ops.CMPLE]),
    swapped=st.booleans(),
    turned=st.booleans(),
    behind=st.booleans(),
)
def test_a_limit_is_where_the_hidden_columns_begin_or_end(
    factor: int, slope: int, offset: int, op: Ops, swapped: bool, turned: bool, behind: bool
) -> None:
    row, column = UOp.range(0, 20, 0), UOp.range(0, 20, 3)
    sides = (column * factor, row * slope + offset)
    keep = UOp.alu(op, *(sides[::-1] if swapped else sides))
    assume(keep.op is not Ops.CONST)
    stores, first, again = effects(keep, column, turned)
    found = bounded(stores, {first: column}, behind)
    compare = np.less if op is Ops.CMPLT else np.less_equal
    for r in range(20):
        places = np.arange(-80, 80)
        a, b = factor * places, np.full(160, slope * r + offset)
        hidden = (compare(b, a) if swapped else compare(a, b)) == turned
        limited = hidden[-1] if behind else hidden[0]
        assert (again in found) == limited
        assert found.get(column) is found.get(again)
        if limited:
            (limit,) = substitute((found[again],), {row: UOp.index(r)})
            assert hidden.tolist() == [(p >= limit.arg) == behind for p in places]


def test_no_limit_where_a_sum_gets_more_than_its_identity() -> None:
    """exp(0) of what is set to 0 counts."""
    row, column = UOp.range(0, 20, 0), UOp.range(0, 20, 3)
    stores, *_ = effects(column <= row, column, turned=False)
    hidden = UOp.const(dtypes.float32, -np.inf)
    zeros = tuple(substitute(stores, {hidden: UOp.const(dtypes.float32, 0.0)}))
    assert bounded(zeros, {zeros[0]: column}, True) == {}


def test_values_kept_by_a_reduction_take_no_row_that_a_later_stage_reads(device: str) -> None:
    """Five stages: the third keeps a row of its own while the last still waits for the second's."""

    def norm(x):
        less = x - x.mean(1, keepdim=True)
        return less * ((less * less).mean(1, keepdim=True) + 1e-3).rsqrt()

    def network(a, b, c, d):
        x = norm(a + b)
        x = x + norm(x)
        x = x + norm(c)
        return x + norm(x + d)

    class Numbers(np.ndarray):
        def rsqrt(self):
            return 1 / np.sqrt(self)

        def mean(self, axis, keepdim):
            return np.ndarray.mean(self, axis, keepdims=keepdim)

    values = np.random.default_rng(4).integers(-4, 5, (4, 2, 2)).astype("float64")
    expected = network(*(v.view(Numbers) for v in values))
    got = network(*(Tensor(v, dtype="float32", device=device) for v in values)).numpy()
    np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-3)
