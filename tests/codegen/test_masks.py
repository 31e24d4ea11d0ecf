"""Masks of vectors compare lane numbers in 32 bits, whatever the positions are."""

from __future__ import annotations

import random

import pytest

from polygrad.codegen.kernel import Kernel, substitute
from polygrad.codegen.masks import narrow_masks
from polygrad.dtype import dtypes
from polygrad.uop.ops import Ops, UOp

LANES = 8
LANE = UOp.range(0, LANES, 0, "vector")
BASE = UOp.variable("base", -(1 << 40), 1 << 40)
OTHER = UOp.variable("other", 0, 1)
ZERO = UOp.index(0)


def compare(op: Ops, a: UOp, b: UOp) -> UOp:
    return UOp(op, dtypes.bool, (a, b))


def narrowed(condition: UOp) -> UOp:
    """The condition of a stored value, as `narrow_masks` writes it."""
    one, zero = (UOp.const(dtypes.float32, v) for v in (1.0, 0.0))
    place = UOp(Ops.INDEX, dtypes.float32, (UOp(Ops.PARAM, dtypes.float32, (), (0, 64)), LANE))
    value = UOp(Ops.WHERE, dtypes.float32, (condition, one, zero))
    store = UOp(Ops.STORE, dtypes.void, (place, value))
    (made,) = narrow_masks(Kernel((store,), (LANE,), {LANE: "vector"}))
    return made.src[1].src[0]


def holds(condition: UOp, values: dict[UOp, int]) -> bool:
    (made,) = substitute([condition], {u: UOp.index(v) for u, v in values.items()})
    assert made.op is Ops.CONST, made
    return bool(made.arg)


CONDITIONS = {
    f"{op.name} {step}": compare(op, BASE, UOp(Ops.MUL, dtypes.index, (LANE, UOp.index(step))))
    for op in (Ops.CMPLT, Ops.CMPLE)
    for step in (-3, -1, 1, 2)
}
CONDITIONS |= {
    f"{name} and another": UOp(Ops.AND, dtypes.bool, (compare(Ops.CMPLT, ZERO, OTHER), condition))
    for name, condition in CONDITIONS.items()
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_lane_decides_as_before_however_far_away_the_limit_is(name: str) -> None:
    wide, narrow = CONDITIONS[name], narrowed(CONDITIONS[name])
    assert narrow.src[0].dtype is dtypes.int32
    assert not any(n.op is Ops.AND for n in narrow.toposort())  # all lanes share that condition
    rng = random.Random(name)
    near = range(-3 * LANES - 2, 3 * LANES + 3)
    far = [rng.choice((-1, 1)) * rng.randrange(1 << 30, 1 << 40) for _ in range(20)]
    for number in (*near, *far):
        for lane in range(LANES):
            for other in (0, 1):
                values = {LANE: lane, BASE: number, OTHER: other}
                assert holds(narrow, values) == holds(wide, values), values


def test_what_is_no_position_of_one_lane_stays() -> None:
    square = UOp(Ops.MUL, dtypes.index, (LANE, LANE))
    for condition in (compare(Ops.CMPLT, square, BASE), compare(Ops.CMPLT, OTHER, BASE)):
        assert narrowed(condition) is condition
