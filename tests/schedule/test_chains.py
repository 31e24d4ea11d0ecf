"""Chains of products over rows: how many kernels there are, and what stays apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.schedule import KernelItem, Schedule, chains, schedule
from polygrad.uop.ops import Ops

RNG = np.random.default_rng(17)


def data(*shape: int) -> Tensor:
    return Tensor.zeros(*shape).contiguous().realize()


def planned(*tensors: Tensor, lanes: int = 0) -> Schedule:
    return schedule([t.uop for t in tensors], "cpu", lanes=lambda device: lanes)


def kept(schedule_: Schedule) -> list[int]:
    """Rows' values that stay inside, by kernel."""
    return [
        len({n for n in item.sink.toposort() if n.op is Ops.LOCAL})
        for item in schedule_.items
        if isinstance(item, KernelItem)
    ]


def largest(schedule_: Schedule) -> int:
    """Elements of the largest buffer that any kernel writes or reads."""
    return max(
        int(np.prod(b.shape))
        for i in schedule_.items
        if isinstance(i, KernelItem)
        for b in i.buffers
    )


def attention(m: int, t: int, d: int, **options: bool) -> Tensor:
    q, k, v = data(2, 3, m, d), data(2, 3, t, d), data(2, 3, t, d)
    return q.scaled_dot_product_attention(k, v, **options)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_one_kernel_after_its_factors_are_laid_out(causal: bool) -> None:
    plan = planned(attention(160, 160, 16, is_causal=causal))
    assert len(plan.items) == 2  # the keys scaled and turned, attention
    assert kept(plan)[-1] > 0
    assert largest(plan) == 2 * 3 * 160 * 16


def test_attention_under_a_mask_is_one_kernel() -> None:
    q, k, v, mask = data(4, 50, 8), data(4, 60, 8), data(4, 60, 8), data(50, 60)
    assert sum(n > 0 for n in kept(planned(q.scaled_dot_product_attention(k, v, mask)))) == 1


def test_the_gradient_of_attention_is_a_kernel_over_queries_and_one_over_keys() -> None:
    x = [data(2, 96, 8).requires_grad_(True) for _ in range(3)]
    out = x[0].scaled_dot_product_attention(x[1], x[2], is_causal=True)
    plan = planned(out, *out.gradient(*x, gradient=data(2, 96, 8)))
    assert sum(n > 0 for n in kept(plan)) == 3
    assert largest(plan) == 2 * 96 * 8


@pytest.mark.parametrize("heads", [8, 16, 32])
def test_the_gradient_of_many_heads_is_one_kernel_over_keys(heads: int) -> None:
    """Sums over its rows: what is kept are the gradients of queries of each part of the keys."""
    x = [data(heads, 96, 8).requires_grad_(True) for _ in range(3)]
    out = x[0].scaled_dot_product_attention(x[1], x[2], is_causal=True)
    plan = planned(out, *out.gradient(*x, gradient=data(heads, 96, 8)), lanes=8)
    assert sum(n > 0 for n in kept(plan)) == 2
    assert largest(plan) == 32 * 96 * 8


def sums_of_rows(a: Tensor, b: Tensor, c: Tensor, e: Tensor) -> list[Tensor]:
    """One product that takes rows of a wide value as they are, and one that sums over them."""
    wide = (a @ b).relu().contiguous()
    return [wide @ c, wide.mT @ e]


def test_rows_are_summed_over_where_they_are_taken_in_order_and_others_keep_cores_busy() -> None:
    for batch, lanes, merged in ((32, 8, 1), (31, 8, 0), (32, 0, 0)):
        shapes = ((batch, 70, 5), (batch, 5, 90), (batch, 90, 7), (batch, 70, 6))
        plan = planned(*sums_of_rows(*(data(*s) for s in shapes)), lanes=lanes)
        assert sum(n > 0 for n in kept(plan)) == merged


@pytest.mark.parametrize("rows", [1, 3, 31, 64, 70, 257])
def test_a_chain_of_any_functions_with_sums_over_its_rows(device: str, rows: int) -> None:
    shapes = ((32, rows, 5), (32, 5, 90), (32, 90, 7), (32, rows, 6))
    a, b, c, e = (RNG.standard_normal(s).astype(np.float32) for s in shapes)
    got = sums_of_rows(*map(Tensor, (a, b, c, e)))
    wide = np.maximum(a.astype(np.float64) @ b, 0)
    for mine, want in zip(got, (wide @ c, wide.swapaxes(1, 2) @ e), strict=True):
        np.testing.assert_allclose(mine.numpy(), want, rtol=1e-4, atol=1e-4)


def test_a_few_keys_are_not_worth_a_chain() -> None:
    """Scores that are no larger than what they are made of stay near the core anyway."""
    assert not any(kept(planned(attention(16, 16, 64))))


def test_scores_that_somebody_wants_are_stored() -> None:
    q, k, v = data(96, 8), data(8, 96), data(96, 8)
    scores = q @ k
    plan = planned(scores.softmax(-1) @ v, scores)
    assert not any(kept(plan))


def test_a_reader_of_other_rows_breaks_a_chain() -> None:
    q, k, v = data(96, 8), data(8, 96), data(96, 8)
    scores = q @ k
    assert not any(kept(planned((scores + scores.flip(0)).exp().contiguous() @ v)))


def test_products_of_equal_width_are_no_chain() -> None:
    x, w, v = data(128, 32), data(32, 32), data(32, 32)
    assert not any(kept(planned((x @ w).relu() @ v)))


def test_scores_as_many_as_a_head_is_wide_are_not_stored() -> None:
    q, k, v = data(64, 64), data(64, 64), data(64, 64)
    scores = q @ k
    assert any(kept(planned(scores.softmax(-1) @ v)))


def test_a_chain_of_any_functions_of_rows(device: str) -> None:
    """Nothing in it is about attention."""
    a, b, c = (RNG.standard_normal(s).astype(np.float32) for s in ((70, 5), (5, 90), (90, 7)))
    wide = Tensor(a) @ Tensor(b)
    rows = (wide - wide.mean(-1, keepdim=True)).relu().contiguous()
    got = (rows @ Tensor(c)) / (1 + rows.sum(-1, keepdim=True))
    want = a.astype(np.float64) @ b
    want = np.maximum(want - want.mean(-1, keepdims=True), 0)
    want = want @ c / (1 + want.sum(-1, keepdims=True))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5)


def test_what_a_chain_reads_may_be_written_afterwards(device: str) -> None:
    q, k, v = (Tensor(RNG.standard_normal((50, 4))).realize() for _ in range(3))
    before = q.numpy()
    out = q.scaled_dot_product_attention(k, v)
    q.assign(out).realize()
    scores = before @ k.numpy().T / 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(q.numpy(), weights @ v.numpy(), rtol=1e-12)


def test_twice_the_layers_with_gradients_are_twice_the_search(
    lines_run: Callable[..., int],
) -> None:
    """All values are of one size, so that each is a neighbour of the next."""

    def plan(layers: int) -> None:
        x = Tensor.empty(40, 40)
        weights = [Tensor.empty(40, 40, requires_grad=True) for _ in range(layers)]
        for i, w in enumerate(weights):
            x = x + (x @ w * (i + 2)).tanh()
            x = x / x.square().mean(-1, keepdim=True)
        planned(*x.sum().gradient(*weights), lanes=8)

    few, many = (lines_run(lambda n=n: plan(n), chains) for n in (12, 24))
    assert many < 2.1 * few
