"""Learning-rate schedules (F226-F228)."""

from __future__ import annotations

import math

import pytest

from polygrad.errors import ArgumentError, UnknownName
from polygrad.nn import lr


def test_a_number_is_a_constant_schedule() -> None:
    assert lr.resolve(0.1, 1) == lr.resolve(lr.constant(0.1), 1000) == 0.1


def test_linear_decay_reaches_its_end_and_stays() -> None:
    schedule = lr.linear_decay(1.0, 0.2, 4)
    assert [lr.resolve(schedule, s) for s in (1, 2, 4, 9)] == pytest.approx([0.8, 0.6, 0.2, 0.2])


def test_cosine_decay_is_half_a_cosine() -> None:
    schedule = lr.cosine_decay(1.0, 0.0, 4)
    wanted = [(1 + math.cos(math.pi * s / 4)) / 2 for s in (1, 2, 4)]
    assert [lr.resolve(schedule, s) for s in (1, 2, 4)] == pytest.approx(wanted)
    assert lr.resolve(schedule, 100) == 0.0


def test_warmup_hands_over_with_step_one_of_the_next() -> None:
    schedule = lr.warmup(1.0, 4, lr.linear_decay(1.0, 0.0, 10))
    assert [lr.resolve(schedule, s) for s in (1, 4, 5)] == pytest.approx([0.25, 1.0, 0.9])


def test_steps_multiply_the_rate() -> None:
    assert [lr.resolve(lr.step(1.0, 2, 0.5), s) for s in (1, 2, 3, 5)] == [1, 1, 0.5, 0.25]
    assert [lr.resolve(lr.multi_step(1.0, [2, 4], 0.5), s) for s in (2, 3, 5)] == [1, 0.5, 0.25]


def test_one_cycle_rises_and_falls() -> None:
    schedule = lr.one_cycle(1.0, 10)
    assert lr.resolve(schedule, 3) == pytest.approx(1.0)
    assert lr.resolve(schedule, 10) == pytest.approx(1 / 25 / 1e4)


def test_an_unknown_kind_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'constant'"):
        lr.resolve({"kind": "constnat"}, 1)


def test_a_function_is_no_schedule() -> None:
    with pytest.raises(ArgumentError, match="a number or a schedule"):
        lr.resolve(lambda step: 0.1, 1)  # type: ignore[arg-type]
