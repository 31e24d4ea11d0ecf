"""What runtimes count and hold, rows F202 to F205, and what gives it back."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import polygrad
from polygrad import Context, GlobalCounters, Tensor
from polygrad.device.buffer import pool
from polygrad.engine.counters import counters


@pytest.fixture
def rt(device: str) -> Iterator[polygrad.Runtime]:
    with Context(POLY_DEV="interp"):  # what a runtime says goes before
        made = polygrad.create(device, name="lab")
    yield made
    made.dispose()


# ---- memory at rest


def test_collect_and_clear_leave_what_lives(rt: polygrad.Runtime, device: str) -> None:
    """F202."""
    r = np.random.default_rng(0)
    a = rt.Tensor(r.standard_normal((40, 40), np.float32))
    f = rt.jit(lambda x: (x @ x).softmax(-1).sum(0))
    first, eager = f(a).numpy(), ((a + 1) @ a).softmax(-1).numpy()
    assert rt.stats()["plans"] > 0
    rt.clear_schedule_cache()
    rt.collect()
    assert rt.stats()["plans"] == 0 and pool(device).usage().cached == 0
    np.testing.assert_array_equal(f(a).numpy(), first)
    np.testing.assert_array_equal(((a + 1) @ a).softmax(-1).numpy(), eager)
    polygrad.clear_schedule_cache()
    polygrad.collect()
    np.testing.assert_array_equal(((a + 1) @ a).softmax(-1).numpy(), eager)


# ---- counters


def test_each_runtime_counts_for_itself(rt: polygrad.Runtime, device: str) -> None:
    """F203, F205."""
    x = rt.Tensor([1.0, 2.0, 3.0])
    total = polygrad.stats()["launches"]
    for _ in range(3):
        (x * 2 + 1).realize()
    done = rt.stats()
    assert (done["launches"], done["plans_made"], done["plan_hits"]) == (3, 1, 2)
    assert done["ops"] > 0 and done["bytes_moved"] > 0 and done["seconds"] == 0
    assert polygrad.stats()["launches"] == total + 3
    (Tensor([1.0]) + 1).realize()
    assert rt.stats()["launches"] == 3
    rt.reset_counters()
    assert rt.stats()["launches"] == 0 and rt.stats()["mem_used"] >= 12


def test_what_an_ended_runtime_did_stays_counted(device: str) -> None:
    before = counters.launches
    with polygrad.create(device) as rt:
        (rt.Tensor([1.0]) + 1).realize()
    del rt
    gc.collect()
    assert counters.launches == before + 1


def test_seconds_are_counted_where_timing_is_on(device: str) -> None:
    with polygrad.create(device, env={"TIMING": 1}) as rt:
        x = rt.Tensor(np.ones((64, 64), np.float32))
        (x @ x).realize()
        first = rt.stats()["seconds"]
        assert first > 0
        rt.jit(lambda x: x + 1)(x)
        assert rt.stats()["seconds"] > first
        with Context(TIMING=0):
            (x @ x + 1).realize()
        assert rt.stats()["launches"] == 3


def test_global_counters(device: str) -> None:
    """F204: reset keeps live bytes."""
    x = Tensor(np.ones(1000, np.float32))
    GlobalCounters.reset()
    used = GlobalCounters.mem_used
    assert used >= 4000
    y = (x + 1).realize()
    assert GlobalCounters.kernel_count == 1 and GlobalCounters.global_ops >= 1000
    assert 7000 < GlobalCounters.global_mem < 9000 and GlobalCounters.time_sum_s == 0.0
    assert GlobalCounters.mem_used_per_device[device] > 0
    GlobalCounters.reset()
    assert GlobalCounters.kernel_count == 0 and GlobalCounters.mem_used > used
    del y
    assert GlobalCounters.mem_used == used
