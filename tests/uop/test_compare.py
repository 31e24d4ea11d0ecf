"""Comparisons of index expressions keep only what matters."""

from __future__ import annotations

from polygrad.uop.ops import Ops, UOp

i, j, k = UOp.range(0, 6, 0), UOp.range(0, 4, 1), UOp.range(0, 8, 2)
n = UOp.variable("n", 1, 9)


def true(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg is True


def false(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg is False


def test_intervals_decide() -> None:
    assert true(i < 6)
    assert false(i < 0)
    assert true(i * 4 + j < 24)
    assert true((i - 9) < j)
    assert false(i.eq(7))
    assert true(i.ne(-1))


def test_parts_that_cannot_matter_are_dropped() -> None:
    assert ((k + i * 8) < n * 8) is (i < n)
    assert (i * 4 + j < 12) is (i < 3)
    assert (i * 4 + j < 13).src[0] is i * 4 + j
    assert (i * 2 < 5) is (i < 3)
    assert ((i * 8 + j * 2) < (k * 2 + 4)) is ((i * 4 + j) < (k + 2))


def test_one_kind_of_ordering_remains() -> None:
    assert (i <= 3) is (i < 4)
    assert (i > 2) is (UOp.index(2) < i)
    assert ~(i < j) is (j <= i)
    assert (i + 1 <= j) is (i < j)
    assert (i - j < 0) is (i < j)


def test_division_disappears() -> None:
    u = i * 8 + k
    assert (u // 3 < 5) is (u < 15)
    assert (u // 3 > 5) is (u > 17)
    assert (u // 3 <= j) is (u < j * 3 + 3)


def test_equality() -> None:
    assert (i * 2).eq(j * 2) is i.eq(j)
    assert false((i * 2).eq(j * 2 + 1))
    assert false((i * 4 + j).eq(k * 4 + 5 + j * 0 - 6) & UOp.const(i.eq(j).dtype, False))
    assert i.eq(j) is j.eq(i)
    assert (i + 3).eq(5) is i.eq(2)


def test_conditions_that_others_imply_go() -> None:
    assert (i < 5) & (i < 3) is (i < 3)
    assert (i < 3) & (i < 5) is (i < 3)
    assert false((i < 3) & (UOp.index(3) < i))
    both = (i < 5) & (j < 3)
    assert both & (j < 9) is both
    assert both & (i < 2) is ((j < 3) & (i < 2))


def test_extremes() -> None:
    assert i.maximum(i + 1) is i + 1
    assert i.minimum(6) is i
    assert i.maximum(j) is j.maximum(i)
    assert i.minimum(4).minimum(3) is i.minimum(3)
    assert (i.maximum(j).lo, i.maximum(j).hi) == (0, 5)


def test_where_joins_intervals() -> None:
    u = (i < 3).where(i + 10, j - 2)
    assert (u.lo, u.hi) == (-2, 15)
