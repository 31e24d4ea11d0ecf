"""Learning-rate schedules (F226-F228)."""

from __future__ import annotations

import math

import pytest

from polygrad import Tensor, nn
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


# ---- by hand


def optimizer() -> nn.optim.SGD:
    return nn.optim.SGD([Tensor([1.0], requires_grad=True)])


def test_a_scheduler_sets_the_rate_of_the_next_step() -> None:
    sgd = optimizer()
    scheduler = lr.LR_Scheduler(sgd, lr.linear_decay(1.0, 0.0, 4))
    rates = []
    for _ in range(5):
        rates.append(sgd.lr.item())
        scheduler.step()
    assert rates == [0.75, 0.5, 0.25, 0.0, 0.0]


def test_a_group_goes_on_together() -> None:
    a, b = optimizer(), optimizer()
    group = lr.LRSchedulerGroup(lr.LR_Scheduler(a, lr.step(1.0, 1, 0.5)), lr.LR_Scheduler(b, 0.25))
    group.step()
    assert (a.lr.item(), b.lr.item()) == (0.5, 0.25)
    with pytest.raises(ArgumentError, match="at least one scheduler"):
        lr.LRSchedulerGroup()


def test_one_cycle_by_hand_starts_low_and_ends_lowest() -> None:
    sgd = optimizer()
    scheduler = lr.OneCycleLR(sgd, 1.0, 10, 0.3, 10.0, 100.0)
    rates = []
    for _ in range(10):
        rates.append(scheduler.get_lr())
        scheduler.step()
    assert rates[0] == pytest.approx(0.1)
    assert rates[2] == max(rates) == pytest.approx(1.0)
    assert rates[-1] == pytest.approx(0.001)
    with pytest.raises(ArgumentError, match="leaves no rise or no fall"):
        lr.OneCycleLR(sgd, 1.0, 3, 0.1)
