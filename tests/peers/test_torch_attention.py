"""Attention against torch in float64: values and gradients, where the whole of it is one kernel.

The sizes have more keys than features, so that the scores are wider than what they are made of, and
are odd: primes, one, less and more than a vector, a tile, a block of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from polygrad import Tensor
from polygrad.dtype import dtypes

RNG = np.random.default_rng(5)
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def inputs(heads: tuple[int, int], m: int, t: int, d: int, n: int) -> list[np.ndarray]:
    """Queries, keys and values, of some heads each."""
    return [normal(2, heads[0], m, d), normal(2, heads[1], t, d), normal(2, heads[1], t, n)]


def compare(
    arrays: list[np.ndarray], dtype: str = "float32", tensors: bool = False, **options: Any
) -> None:
    """Output and gradients of a random sum of it."""
    held = [Tensor(a).cast(dtype).realize() for a in arrays]
    exact = [torch.tensor(h.cast("float64").numpy(), requires_grad=True) for h in held]
    ours = [h.requires_grad_(True) for h in held]
    mask = options.pop("attn_mask", None)
    out = ours[0].scaled_dot_product_attention(
        *ours[1:], attn_mask=None if mask is None else Tensor(mask), **options
    )
    want = F.scaled_dot_product_attention(
        *exact, attn_mask=None if mask is None else torch.tensor(mask), **options
    )
    flow = normal(*want.shape)
    out.backward(Tensor(flow).cast(dtype))
    want.backward(torch.tensor(flow))
    limit = TOLERANCE[dtype]
    assert out.dtype is getattr(dtypes, dtype)
    close(out, want.detach().numpy(), limit)
    for mine, other in zip(ours, exact, strict=True):
        close(mine.grad, other.grad.numpy(), 4 * limit)


def close(got: Tensor, want: np.ndarray, limit: float) -> None:
    scale = max(1.0, float(np.nan_to_num(np.abs(want)).max(initial=0.0)))
    np.testing.assert_allclose(got.cast("float64").numpy(), want, rtol=0, atol=limit * scale)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("m", "t", "d", "n"),
    [
        (64, 64, 8, 8),
        (37, 101, 7, 5),
        (101, 37, 3, 9),
        (1, 67, 4, 4),
        (53, 53, 16, 1),
        (2, 13, 1, 3),
        (96, 96, 12, 12),
    ],
)
def test_attention_is_torchs(m: int, t: int, d: int, n: int, causal: bool, device: str) -> None:
    compare(inputs((2, 2), m, t, d, n), is_causal=causal)


MANY = (16, 16)  # heads: their keys are taken in order, in one part if there are 32, or in 2 or 4


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [(4, 4), (8, 8), (16, 16)])
@pytest.mark.parametrize(
    ("m", "t", "d", "n"), [(64, 64, 8, 8), (37, 104, 7, 5), (104, 36, 3, 9), (1, 68, 4, 4)]
)
def test_attention_of_many_heads_is_torchs(
    heads: tuple[int, int], m: int, t: int, d: int, n: int, causal: bool, device: str
) -> None:
    compare(inputs(heads, m, t, d, n), is_causal=causal)


@pytest.mark.parametrize("t", [1, 53, 67, 131])
def test_odd_numbers_of_keys_of_many_heads(t: int, device: str) -> None:
    compare(inputs(MANY, 61, t, 5, 5), is_causal=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats_of_many_heads(dtype: str, device: str) -> None:
    compare(inputs(MANY, 33, 41, 8, 8), dtype, is_causal=True)


def test_many_heads_that_share_keys(device: str) -> None:
    compare(inputs((16, 4), 19, 43, 6, 5), enable_gqa=True)
    compare(inputs((48, 16), 43, 43, 6, 5), enable_gqa=True, is_causal=True)


@pytest.mark.parametrize("offset", [-3, 0, 5])
@pytest.mark.parametrize("turned", [False, True])
def test_masks_of_many_heads(offset: int, turned: bool, device: str) -> None:
    """Also where the first keys are hidden and the last are not."""
    seen = np.tril(np.ones((37, 67), bool), offset)
    compare(inputs(MANY, 37, 67, 5, 5), attn_mask=seen[::-1, ::-1].copy() if turned else seen)


@pytest.mark.parametrize("wanted", ["q", "k", "v", "qk", "qv"])
def test_some_gradients_of_many_heads(wanted: str, device: str) -> None:
    arrays = dict(zip("qkv", inputs(MANY, 41, 43, 6, 7), strict=True))
    ours = {n: Tensor(a, requires_grad=n in wanted) for n, a in arrays.items()}
    exact = {n: torch.tensor(a, requires_grad=n in wanted) for n, a in arrays.items()}
    Tensor.scaled_dot_product_attention(*ours.values()).square().sum().backward()
    F.scaled_dot_product_attention(*exact.values()).square().sum().backward()
    for name in wanted:
        grad = exact[name].grad
        assert grad is not None
        close(ours[name].grad, grad.numpy(), 1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats(dtype: str, device: str) -> None:
    compare(inputs((1, 1), 33, 41, 8, 8), dtype, is_causal=True)


def test_heads_that_share_keys(device: str) -> None:
    compare(inputs((4, 2), 19, 43, 6, 5), enable_gqa=True)
    compare(inputs((3, 1), 43, 43, 6, 5), enable_gqa=True, is_causal=True)


@pytest.mark.parametrize("shape", [(29, 47), (2, 1, 29, 47), (2, 2, 29, 47), (1, 47)])
def test_masks(shape: tuple[int, ...], device: str) -> None:
    seen = RNG.random(shape) < 0.6
    seen[..., 0] = True
    compare(inputs((2, 2), 29, 47, 5, 5), attn_mask=seen)
    compare(inputs((2, 2), 29, 47, 5, 5), attn_mask=np.where(seen, normal(*shape), -np.inf))


def test_rows_of_which_all_is_hidden_are_torchs(device: str) -> None:
    seen = np.tril(np.ones((29, 47), bool), -3)  # the first rows see nothing
    compare(inputs((2, 2), 29, 47, 5, 5), attn_mask=seen)


def test_the_gradient_of_an_added_mask(device: str) -> None:
    q, k, v = inputs((2, 2), 23, 31, 4, 4)
    bias, flow = normal(23, 31), normal(2, 2, 23, 4)
    mine, other = Tensor(bias, requires_grad=True), torch.tensor(bias, requires_grad=True)
    out = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), mine)
    out.backward(Tensor(flow))
    F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), other).backward(
        torch.tensor(flow)
    )
    close(mine.grad, other.grad.numpy(), 1e-5)


@pytest.mark.parametrize("heads", [1, 32])
def test_a_second_derivative(heads: int, device: str) -> None:
    q, k, v = (a[:1] for a in inputs((heads, heads), 7, 11, 3, 3))

    def twice(x: Any, y: Any, z: Any, attention: Any, gradient: Any) -> Any:
        slopes = gradient((attention(x, y, z) ** 2).sum(), (x, y, z))
        return gradient(sum((s * s).sum() for s in slopes), (x, y, z))

    ours = [Tensor(a, requires_grad=True) for a in (q, k, v)]
    exact = [torch.tensor(a, requires_grad=True) for a in (q, k, v)]
    got = twice(*ours, Tensor.scaled_dot_product_attention, lambda s, x: s.gradient(*x))
    want = twice(
        *exact,
        lambda *x: (x[0] @ x[1].mT / 3**0.5).softmax(-1) @ x[2],
        lambda s, x: torch.autograd.grad(s, x, create_graph=True),
    )
    for a, b in zip(got, want, strict=True):
        close(a, b.detach().numpy(), 1e-4)


def test_nothing_to_see_and_nobody_to_look(device: str) -> None:
    q, k, v = inputs((2, 2), 5, 0, 4, 3)
    got = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v))
    assert got.tolist() == np.zeros((2, 2, 5, 3)).tolist()
    q, k, v = inputs((2, 2), 0, 9, 4, 3)
    assert Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v)).shape == (2, 2, 0, 3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_queries_that_are_not_finite_spoil_their_own_rows(
    bad: float, causal: bool, device: str
) -> None:
    q, k, v = (a.astype(np.float32) for a in inputs((1, 1), 40, 40, 4, 4))
    q[0, 0, 17, 2] = bad
    got = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), is_causal=causal).numpy()
    wrong = np.isnan(got).any(-1)
    assert wrong[0, 0].tolist() == [i == 17 for i in range(40)]
    assert not wrong[1].any()


SIZES = st.integers(1, 40)


@settings(max_examples=12, deadline=None)
@given(data=st.data(), m=SIZES, t=SIZES, d=st.integers(1, 9), n=st.integers(1, 9))
def test_any_size_on_both_devices(data: Any, m: int, t: int, d: int, n: int) -> None:
    """Bits may differ, as sums are cut otherwise; numbers may not."""
    q, k, v = (normal(3, length, width) for length, width in ((m, d), (t, d), (t, n)))
    flow = normal(3, m, n)
    kind = data.draw(st.sampled_from(["none", "causal", "band", "added"]))
    offset = data.draw(st.integers(-3, 3))
    results = []
    for name in ("cpu", "interp"):
        x = [Tensor(a, device=name, requires_grad=True) for a in (q, k, v)]
        mask = None
        if kind == "band":
            mask = Tensor.ones(m, t, dtype="bool", device=name).tril(offset)
        if kind == "added":
            mask = Tensor(np.tril(np.ones((m, t)), offset), device=name)
        out = x[0].scaled_dot_product_attention(x[1], x[2], mask, is_causal=kind == "causal")
        out.backward(Tensor(flow, device=name))
        results.append([out.numpy(), *(leaf.grad.numpy() for leaf in x)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 160, 16), (1, 400, 2), (40, 8)], ids=str)
@pytest.mark.parametrize("same", ["", "q", "k", "v", "a row of q"])
def test_the_gradient_of_a_plain_sum_where_factors_are_constants(
    device: str, same: str, shape: tuple[int, ...], causal: bool
) -> None:
    """What flows in is a constant then, and so may be a factor: sums need fewer loops."""
    arrays = {name: normal(*shape).astype(np.float32) for name in "qkv"}
    if same == "a row of q":
        arrays["q"] = arrays["q"][..., :1, :]
    elif same:
        arrays[same] = np.full(shape, 0.5, np.float32)
    ours: dict[str, Tensor] = {}
    for name, array in arrays.items():
        constant = name == same
        ours[name] = Tensor.full(shape, 0.5) if constant else Tensor(array, requires_grad=True)
    exact = {n: torch.tensor(a, dtype=torch.float64, requires_grad=True) for n, a in arrays.items()}
    mine, others = list(ours.values()), list(exact.values())
    if same == "a row of q":
        mine[0], others[0] = mine[0].expand(*shape), others[0].expand(*shape)
    mine[0].scaled_dot_product_attention(*mine[1:], is_causal=causal).sum().backward()
    F.scaled_dot_product_attention(*others, is_causal=causal).sum().backward()
    for name in ours:
        if name != same:
            grad = exact[name].grad
            assert grad is not None
            close(ours[name].grad, grad.numpy(), 1e-4)  # type: ignore[arg-type]
