"""Bounds that are expressions: counters below a variable, min and max of them."""

from __future__ import annotations

import pytest

from polygrad.uop.ops import UOp
from polygrad.uop.sizes import Variable, clamp, larger, sized

n, m = Variable("n", 1, 32), Variable("m", 0, 8)
i = UOp.range(0, n.node, 0)
j = UOp.range(0, (n * 8).node, 1)


@pytest.mark.parametrize(
    ("smaller", "greater"),
    [
        (i, n.node),
        (i * 8 + 7, (n * 8).node),
        (UOp.index(clamp(n, 0, 4)), (n + 1).node),
        (UOp.index(clamp(n, 0, 24)), UOp.index(larger(clamp(n, 0, 28), clamp(n, 0, 24))) + 1),
        (UOp.index(clamp(n - 3, 0, n)), (n + 1).node),
        (j // 8, n.node),
    ],
)
def test_what_is_smaller_for_certain(smaller: UOp, greater: UOp) -> None:
    assert (smaller < greater).lo == 1
    assert (greater <= smaller).hi == 0


def test_what_is_not_decided_stays_a_comparison() -> None:
    for condition in (i < m.node, UOp.index(clamp(n, 0, 8)) < m.node, n.node <= i + 1):
        assert (condition.lo, condition.hi) == (0, 1)


def test_a_counter_splits_by_the_size_it_runs_to() -> None:
    k = UOp.range(0, m.node, 2)
    flat = k * n.node + i
    assert flat // n.node is k and flat % n.node is i
    assert (k * (n * 4).node + i * 4 + 3) // (n * 4).node is k
    assert (i * 8 + UOp.range(0, 8, 3)) // (n * 8).node is UOp.index(0)


def test_multiples_divide() -> None:
    assert (42 * n) // (6 * n) == 7
    assert (2 * n + 2) // (n + 1) == 2
    assert (6 * n * m) // (3 * n) == 2 * m
    assert sized((2 * n + 1).node // (n + 1).node) != 2
