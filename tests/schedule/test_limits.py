"""Kernels of machines that take few buffers: cut where they must be, right whatever is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygrad import Context, Tensor, nn
from polygrad.errors import UnsupportedOp
from polygrad.testing.lesser import lesser


def on(buffers: int, device: str = "few"):  # type: ignore[no-untyped-def]
    """A device whose kernels have at most so many buffers, each of them checked for it."""
    return lesser(device, max_buffers=buffers)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(4, 7),
    st.lists(
        st.tuples(st.integers(0, 99), st.integers(0, 99), st.sampled_from("+-*m|")),
        min_size=4,
        max_size=30,
    ),
    st.integers(0, 1 << 32),
)
def test_random_expressions(buffers: int, steps: list[tuple[int, int, str]], seed: int) -> None:
    """Each step joins two earlier values; the last ones are all results of one call."""
    chance = np.random.default_rng(seed)
    arrays = [chance.integers(-9, 9, (4, 5)).astype(np.float64) for _ in range(9)]
    apply = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * 0.5 + b * 0.25,
        "m": lambda a, b: a - b.max(1)[:, None],
        "|": lambda a, b: a + b.sum(0)[None] * 0.125,
    }
    with on(buffers) as name, Context(POLY_DEV=name, POLY_SPEC=1):
        tensors = [Tensor(a) for a in arrays]
        for i, j, op in steps:
            i, j = i % len(arrays), j % len(arrays)
            arrays.append(apply[op](arrays[i], arrays[j]))
            tensors.append(apply[op](tensors[i], tensors[j]))
        results = tensors[-5:]
        Tensor.realize(*results)
        for got, wanted in zip(results, arrays[-5:], strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9, atol=1e-9)


def test_a_step_of_training_with_many_parameters() -> None:
    """Several results of one kernel (a parameter and its moments) are taken apart."""

    def losses() -> list[float]:
        Tensor.manual_seed(1)
        layers = [nn.Linear(6, 6) for _ in range(3)]
        optimizer = nn.optim.AdamW(nn.state.get_parameters(layers), lr=0.01)
        x = Tensor.arange(24).float().reshape(4, 6) / 24
        out = []
        with Context(TRAINING=1):
            for _ in range(4):
                optimizer.zero_grad()
                y = x
                for layer in layers:
                    y = layer(y).tanh()
                loss = ((y - 0.5) ** 2).mean()
                loss.backward()
                optimizer.step()
                out.append(loss.item())
        return out

    with Context(POLY_DEV="interp"):
        wanted = losses()
    with on(4) as name, Context(POLY_DEV=name, POLY_SPEC=1):
        np.testing.assert_allclose(losses(), wanted, rtol=1e-5)


def test_what_needs_more_at_once_is_refused_by_name() -> None:
    """A kernel of the user's is as it is."""
    from polygrad import UOp  # the language of kernels

    def body(out: UOp, *sources: UOp) -> UOp:
        i = UOp.range(4, 0)
        total = sources[0][i]
        for s in sources[1:]:
            total = total + s[i]
        return out[i].store(total).end(i).sink()

    with on(4) as name, Context(POLY_DEV=name):
        given = [Tensor([1.0, 2.0, 3.0, 4.0]).contiguous() for _ in range(5)]
        with pytest.raises(UnsupportedOp, match="'few' takes 4 buffers"):
            Tensor.empty(4).custom_kernel(*given, fxn=body)[0].realize()
        assert (given[0] + given[1]).tolist() == [2.0, 4.0, 6.0, 8.0]
