"""Fingerprints: equal for graphs that one Plan serves, different for all others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from polygrad.dtype import dtypes
from polygrad.schedule.cache import Fingerprint, fingerprint, is_hole
from polygrad.uop.ops import Ops, UOp


def leaf(n: int = 3, dtype=dtypes.float32, device: str = "interp") -> UOp:
    return UOp.buffer(dtype, (n,), device)


def constant(value: float, n: int = 3, dtype=dtypes.float32) -> UOp:
    return UOp.const(dtype, value).broadcast_to((n,))


def of(*roots: UOp, aliases: Sequence[UOp] = ()) -> Fingerprint:
    same = {a: id(aliases[0]) for a in aliases}
    return fingerprint(roots, {}, lambda u: same.get(u, id(u)))


def test_buffers_count_by_first_sight() -> None:
    a, b, c, d = leaf(), leaf(), leaf(), leaf()
    assert of(a + b).skeleton == of(c + d).skeleton
    assert of((a + b) * a).skeleton != of((a + b) * b).skeleton


@pytest.mark.parametrize(
    "other",
    [leaf(4), leaf(dtype=dtypes.float64), leaf(device="cpu")],
    ids=["shape", "dtype", "device"],
)
def test_what_a_leaf_is_counts(other: UOp) -> None:
    assert of(UOp.alu(Ops.NEG, leaf())).skeleton != of(UOp.alu(Ops.NEG, other)).skeleton


def test_shared_memory_counts() -> None:
    a, b = leaf(), leaf()
    assert of(a + b).skeleton != of(a + b, aliases=(a, b)).skeleton


def test_numbers_are_holes() -> None:
    a = leaf()
    one, two = of(a * constant(2.5)), of(a * constant(3.5))
    assert one.skeleton == two.skeleton
    assert (one.values, two.values) == ((2.5,), (3.5,))


def test_one_constant_in_two_places_is_one_hole() -> None:
    a = leaf()
    same = of(a * constant(2.5) + constant(2.5))
    different = of(a * constant(2.5) + constant(3.5))
    assert len(same.holes) == 1
    assert same.skeleton != different.skeleton


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan")])
def test_numbers_that_fold_are_part_of_the_skeleton(value: float) -> None:
    assert not is_hole(UOp.const(dtypes.float32, value))
    node = UOp(Ops.MAXIMUM, dtypes.float32, (leaf(), constant(value)))
    again = UOp(Ops.MAXIMUM, dtypes.float32, (leaf(), constant(value)))
    assert of(node).skeleton == of(again).skeleton


def test_signed_zeros_are_told_apart() -> None:
    a = leaf()
    plus = UOp(Ops.MAXIMUM, dtypes.float32, (a, constant(0.0)))
    minus = UOp(Ops.MAXIMUM, dtypes.float32, (a, constant(-0.0)))
    assert of(plus).skeleton != of(minus).skeleton


def test_leaves_of_their_own_are_told_apart_by_place() -> None:
    def pair() -> tuple[UOp, UOp]:
        return (
            UOp.const(dtypes.float32, 2.5, unique=True),
            UOp.const(dtypes.float32, 2.5, unique=True),
        )

    (a, b), (c, d) = pair(), pair()
    add = Ops.ADD
    assert (
        of(UOp(add, dtypes.float32, (a, b))).skeleton
        == of(UOp(add, dtypes.float32, (c, d))).skeleton
    )
    assert (
        of(UOp(add, dtypes.float32, (a, a))).skeleton
        != of(UOp(add, dtypes.float32, (a, b))).skeleton
    )


def test_variables_count_by_bounds_not_by_name() -> None:
    def graph(name: str, hi: int) -> UOp:
        return leaf().cast(dtypes.int32) * UOp.variable(name, 0, hi, dtypes.int32).broadcast_to(
            (3,)
        )

    assert of(graph("n", 5)).skeleton == of(graph("m", 5)).skeleton
    assert of(graph("n", 5)).skeleton != of(graph("n", 6)).skeleton


def test_a_deep_graph_needs_no_recursion() -> None:
    """F-row 20: chains of 20 000 operations."""
    a = node = leaf()
    for _ in range(20_000):
        node = UOp(Ops.ADD, dtypes.float32, (node, a))
    assert len(of(node).nodes) == 20_001
