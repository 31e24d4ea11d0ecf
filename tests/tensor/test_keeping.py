"""Graphs that outlive their computation (row F195), and tensors that are disposed of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import polygrad
from polygrad import Context, Tensor, jit
from polygrad.device.buffer import pool
from polygrad.errors import ArgumentError, StateError
from polygrad.tensor.base import result


@pytest.fixture
def rt(device: str) -> Iterator[polygrad.Runtime]:
    with Context(POLY_DEV="interp"):  # what a runtime says goes before
        made = polygrad.create(device, name="lab")
    yield made
    made.dispose()


def test_a_graph_is_kept_or_goes(device: str) -> None:
    """F195."""
    x = Tensor([1.0, 2.0])
    with Context(LOGICAL="always"):
        assert polygrad.LOGICAL.value == "always"
        y = x + 1
        assert y.logical_state == "lazy" and y.uop_physical is None
        y.realize()
        z = (y * 2).realize()
    assert z.logical_state == "kept" and z.uop_logical is ((x + 1) * 2).uop
    assert z.uop_physical is z.uop and z.logical_policy == "until_realize"
    w = (z + 1).realize()
    assert w.logical_state == "stored" and w.uop_logical is w.uop
    assert (z + 1).uop_logical is ((x + 1) * 2 + 1).uop
    v = (x * 5).preserve_logical().realize()
    assert v.logical_policy == "always" and v.logical_state == "kept"


def test_a_kept_graph_is_the_values_and_not_their_changes(device: str) -> None:
    x = Tensor([1.0, 2.0])
    y = (x * 10).preserve_logical().realize()
    x.assign(x + 1).realize()
    assert x.tolist() == [2.0, 3.0]
    assert result(y.uop_logical, y).tolist() == [10.0, 20.0]


def test_an_assignment_is_kept_as_its_value(device: str) -> None:
    with Context(LOGICAL="always"):
        x = (Tensor([1.0, 2.0]) * 3).realize()
        old = x.uop_logical
        x.assign(x + 1).realize()
        x[0] = 9.0
        x.realize()
    assert old in x.uop_logical.toposort()
    assert result(x.uop_logical, x).tolist() == x.tolist() == [9.0, 7.0]


def test_a_kept_graph_keeps_no_memory_between(rt: polygrad.Runtime, device: str) -> None:
    with rt.context(LOGICAL="always"):
        x = y = Tensor(np.ones(1000, np.float32))
        for _ in range(5):
            y = (y * 2).realize()
    assert rt.stats()["mem_used"] == 8000  # x, and the last y
    assert y.uop_logical is (x * 2 * 2 * 2 * 2 * 2).uop and y.numpy()[0] == 32


def test_kept_graphs_go_with_their_memory(rt: polygrad.Runtime, device: str) -> None:
    x = rt.Tensor([1.0, 2.0])
    y = (x + 1).preserve_logical().realize()
    assert len(rt.graphs) == 1
    del y
    assert len(rt.graphs) == 0


def test_other_policies_are_refused() -> None:
    x = Tensor([1.0])
    with pytest.raises(ArgumentError, match="there is no policy 'never'"):
        x.set_logical_policy("never")
    with pytest.raises(ArgumentError, match="Did you mean 'always'"):
        x.set_logical_policy("alway")


# ---- dispose


def test_a_disposed_tensor_says_so_and_its_readers_live(device: str) -> None:
    x = Tensor([1.0, 2.0])
    y = x * 2
    x.dispose()
    x.dispose()
    for use in (lambda: x + 1, lambda: x.tolist(), lambda: x.shape, lambda: y + x):
        with pytest.raises(StateError, match="this tensor was disposed"):
            use()
    assert y.tolist() == [2.0, 4.0]


def test_state_of_a_jit_function_that_was_disposed(device: str) -> None:
    w = Tensor([1.0])
    step = jit(lambda x: w.assign(w + x))
    assert step(Tensor([1.0])).tolist() == [2.0]
    w.dispose()
    with pytest.raises(StateError, match="this tensor was disposed"):
        step(Tensor([1.0]))


def test_dispose_of_a_tensor_gives_its_memory_back(device: str) -> None:
    before = pool(device).usage().live
    x = Tensor(np.ones(10_000, np.float32))
    assert pool(device).usage().live > before
    x.dispose()
    assert pool(device).usage().live == before
