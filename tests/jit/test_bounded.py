"""F096, F067: a jit function of bounded shapes and of bound Variables is compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor, Variable, compile, function, jit
from polygrad.contract import Launch, evaluate
from polygrad.engine.counters import counters
from polygrad.errors import ArgumentError, CaptureError, StateError

Array = Any
n, at = Variable("n", 1, 32), Variable("at", 0, 28)
A = np.random.default_rng(3).standard_normal((32, 8)).astype(np.float32)
W = np.random.default_rng(4).standard_normal((8, 6)).astype(np.float32)


def close(got: Tensor, wanted: Array) -> None:
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_one_capture_runs_every_size(device: str) -> None:
    """F096"""
    x, w, b = Tensor(A).realize(), Tensor(W).realize(), Tensor(W[0]).realize()
    f = jit(lambda x: (x @ w + b).relu().sum(0))
    for k in range(1, 33):
        close(f(x[: n.bind(k)]), np.maximum(A[:k] @ W + W[0], 0).sum(0))
    assert f.stats()["captures"] == 1


def test_results_have_the_bound_size(device: str) -> None:
    x, w = Tensor(A).realize(), Tensor(W).realize()
    f = jit(lambda x: x @ w)
    first, second = f(x[: n.bind(3)]), f(x[: n.bind(20)])
    assert str(first.shape) == "(n[1..32]=3, 6)"
    close(first, A[:3] @ W)
    close(second.sum(0), (A[:20] @ W).sum(0))


def test_a_variable_is_an_argument(device: str) -> None:
    x = Tensor(A).realize()
    part = jit(lambda x, i: x[i : i + 4] * 2)
    head = compile(lambda x, some: (x[: some["n"]].mean(0), x[: some["n"]] * some["scale"]))
    for k in (1, 7, 28):
        close(part(x, at.bind(k)), A[k : k + 4] * 2)
        mean, scaled = head(x, {"n": n.bind(k), "scale": 0.5 * k})
        close(mean, A[:k].mean(0))
        close(scaled, A[:k] * 0.5 * k)
    assert part.stats()["captures"] == 1 and head.stats()["captures"] == 1


def test_state_and_draws_beside_sizes(device: str) -> None:
    x, total = Tensor(A).realize(), Tensor.zeros(8).contiguous().realize()

    @jit
    def step(x: Tensor) -> Tensor:
        total.assign(total + x.sum(0))
        return x + Tensor.rand(*x.shape)

    for k in (4, 9):
        drawn = step(x[: n.bind(k)]).numpy() - A[:k]
        assert drawn.shape == (k, 8) and (drawn >= -1e-6).all() and (drawn < 1.001).all()
    close(total, A[:4].sum(0) + A[:9].sum(0))


def test_gradients_inside(device: str) -> None:
    x = Tensor(A).realize()

    @jit
    def slope(x: Tensor, w: Tensor) -> Tensor:
        w = w.detach().requires_grad_(True)
        (x @ w).square().sum().backward()
        assert w.grad is not None
        return w.grad

    for k in (2, 31):
        close(slope(x[: n.bind(k)], Tensor(W)), 2 * A[:k].T @ (A[:k] @ W))
    assert slope.stats()["captures"] == 1


def test_a_second_size_compiles_nothing(device: str) -> None:
    x = Tensor(A).realize()
    f = jit(lambda x: x.softmax(0))
    f(x[: n.bind(5)])
    before = counters.kernels_lowered, counters.plans_made
    f(x[: n.bind(25)]).numpy()
    assert (counters.kernels_lowered, counters.plans_made) == before


def test_work_follows_the_size() -> None:
    """Grids and loops run to the value, not to the bound."""
    with Context(POLY_DEV="interp"):
        f = jit(lambda x: (x * 2).contiguous().sum(1))
        f(Tensor(A)[: n.bind(5)])
        (captures,) = f._captures.values()
        steps = captures[0].recorded.plans[0].steps
        grids = [step.grid for step in steps if isinstance(step, Launch)]
    (name,) = {part for grid in grids for size in grid for part in size if isinstance(part, str)}
    for k in (1, 5, 32):
        blocks = [[evaluate(size, {name: k}) for size in grid] for grid in grids]
        assert all(k in grid for grid in blocks)


def test_two_values_of_one_variable_are_refused(device: str) -> None:
    x = Tensor(A).realize()
    f = jit(lambda x, y: x.sum(0) + y.sum(0))
    f(x[: n.bind(3)], x[: n.bind(3)])
    with pytest.raises(ArgumentError, match="'n' is bound to 3 and to 4"):
        f(x[: n.bind(3)], x[: n.bind(4)])


def test_a_variable_without_value_is_refused(device: str) -> None:
    x = Tensor(A).realize()
    f = jit(lambda x, k: x[:k].sum(0))
    with pytest.raises(StateError, match="'n' has no value"):
        f(x, n)
    with pytest.raises(StateError, match="'n' has no value"):
        jit(lambda x: x.sum(0))(x[:n])


def test_other_shapes_are_named_by_their_variables(device: str) -> None:
    x = Tensor(A).realize()
    f = jit(lambda x: x.sum(0))
    f(x[: n.bind(3)])
    with pytest.raises(ArgumentError, match=r"captured as float32 \(n\[1..32\], 8\)"):
        f(x)


def test_results_have_gradients_at_every_size(device: str) -> None:
    x = Tensor(A).realize()
    f = jit(lambda x, w, k: (x @ w).square().sum() + w.sum() * x.shape[0] + x[:k].sum())
    for k in (2, 31, 9):
        w, y = Tensor(W, requires_grad=True), Tensor(A, requires_grad=True)
        f(x[: n.bind(k)], w, n.bind(k)).backward()
        assert w.grad is not None
        close(w.grad, 2 * A[:k].T @ (A[:k] @ W) + k)
        f(y[: n.bind(k)] * 2, w, n.bind(k)).backward()
        assert y.grad is not None
        wanted = np.zeros((32, 8))
        wanted[:k] = 8 * A[:k] @ W @ W.T + 2
        close(y.grad, wanted)
    assert f.stats()["captures"] <= 2  # with and without a gradient of x


@pytest.mark.parametrize("precompile", [False, True])
def test_a_function_takes_bounded_arguments(precompile: bool, device: str) -> None:
    x = Tensor(A).realize()
    f = function(lambda x, k: (x[:k] * 2).mean(0), precompile=precompile)
    g = jit(lambda x, k: f(x, k) + 1)
    for k in (3, 17, 3):
        close(f(x[: n.bind(k)], n.bind(k)), 2 * A[:k].mean(0))
        close(g(x[: n.bind(k)], n.bind(k)), 2 * A[:k].mean(0) + 1)
        y = Tensor(A, requires_grad=True)
        f(y[: n.bind(k)], n.bind(k)).sum().backward()
        assert y.grad is not None
        close(y.grad, np.where(np.arange(32)[:, None] < k, 2 / k, 0) + np.zeros((32, 8)))
    assert g.stats()["captures"] == 1


READS: dict[str, Any] = {
    "int": lambda x: x.sum() * int(x.shape[0]),
    "len": lambda x: x.sum() * len(x),
    "int of a variable in an expression": lambda x: x.sum() * int(x.shape[0] * 2 + 1),
}


@pytest.mark.parametrize("name", READS)
def test_reading_a_size_in_a_capture_is_an_error_of_the_capture(device: str, name: str) -> None:
    """F067. And leaves nothing behind: outside, sizes are read as before."""
    x = Tensor(A).realize()
    f = jit(READS[name])
    for k in (3, 4):
        with pytest.raises(CaptureError, match=r"variable 'n' is read .*inside the jit of"):
            f(x[: n.bind(k)])
    assert int(x[: n.bind(5)].shape[0]) == len(x[: n.bind(5)]) == 5
    with pytest.raises(StateError, match="has no value: bind one"):
        int(n)
    kept = jit(lambda x: x.sum() * x.shape[0])
    close(kept(x[: n.bind(6)]), A[:6].sum() * 6)
