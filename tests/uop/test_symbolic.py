"""What the smart constructor simplifies, and what it must leave alone."""

from __future__ import annotations

import pytest

from polygrad.dtype import dtypes
from polygrad.uop.ops import Ops, UOp
from polygrad.uop.symbolic import const_value

f32, i32, u8 = dtypes.float32, dtypes.int32, dtypes.uint8


def x(dtype=i32, name: str = "x") -> UOp:
    """A scalar of which nothing is known."""
    address = UOp(Ops.INDEX, dtype, (UOp(Ops.PARAM, dtype, (), (0, 4)), UOp.variable(name, 0, 3)))
    return UOp(Ops.LOAD, dtype, (address,))


def c(value: float, dtype=i32) -> UOp:
    return UOp.const(dtype, value)


def tensor(dtype=f32) -> UOp:
    return UOp.buffer(dtype, (2, 3), "cpu")


def spread(value: float, dtype=f32) -> UOp:
    return c(value, dtype).broadcast_to((2, 3))


@pytest.mark.parametrize("dtype", [i32, u8, dtypes.int64], ids=str)
def test_identities_of_integers(dtype) -> None:
    a = x(dtype)
    zero, one = c(0, dtype), c(1, dtype)
    assert a + 0 is a
    assert zero + a is a
    assert a - 0 is a
    assert a * 1 is a
    assert a * 0 is zero
    assert a - a is zero
    assert a // 1 is a
    assert a // 0 is zero
    assert a % 1 is zero
    assert a & 0 is zero
    assert a & int(dtype.max if dtype.is_unsigned else -1) is a
    assert a | 0 is a
    assert a ^ a is zero
    assert a << 0 is a
    assert a.maximum(a) is a
    assert (a + 3) + 4 is a + 7
    assert (a * 3) * 4 is a * 12
    negative = -a
    assert -negative is a
    assert ~~a is a
    assert one + a is a + 1


def test_constants_of_a_sum_wrap() -> None:
    assert (x(u8) + 200) + 100 is x(u8) + 44


def test_identities_of_floats_are_exact() -> None:
    a = x(f32)
    assert a * 1 is a
    assert a / 1 is a
    assert a - 0.0 is a
    negative = -a
    assert -negative is a
    assert a.maximum(a) is a


def test_what_is_not_exact_for_floats_stays() -> None:
    """x + 0.0 changes -0.0; x * 0 keeps NaN; x - x and x == x know NaN and inf."""
    a = x(f32)
    for u, op in [
        (a + 0.0, Ops.ADD), (a - (-0.0), Ops.SUB), (a * 0.0, Ops.MUL), (a - a, Ops.SUB),
        (a.eq(a), Ops.CMPEQ), (a <= a, Ops.CMPLE), (a / a, Ops.DIV), ((a + 1) + 1, Ops.ADD),
        (~(a < 1), Ops.NOT), (a.maximum(c(0, f32)), Ops.MAXIMUM),
    ]:  # fmt: skip
        assert u.op is op
    assert (a < a).arg is False


def test_where() -> None:
    p = x(name="p").ne(0) & x(name="q").ne(0)
    a, b = x(f32, "a"), x(f32, "b")
    assert p.where(a, a) is a
    assert c(True, dtypes.bool).where(a, b) is a
    assert (~p).where(a, b) is p.where(b, a)
    yes, no = c(True, dtypes.bool), c(False, dtypes.bool)
    assert p.where(yes, no) is p
    assert p.where(no, yes) is ~p


def test_where_with_equal_constants_of_different_making() -> None:
    p = tensor().ne(spread(0.0))
    other = c(2.0, f32).reshape((1, 1)).expand((1, 3)).expand((2, 3))
    assert spread(2.0) is not other
    assert const_value(p.where(spread(2.0), other)) == 2.0
    assert p.where(spread(0.0), spread(-0.0)).op is Ops.WHERE


def test_booleans() -> None:
    p, q = x(name="p").ne(0), x(name="q").ne(0)
    yes, no = c(True, dtypes.bool), c(False, dtypes.bool)
    assert p & p is p
    assert (p & q) & p is p & q
    assert p & yes is p
    assert p & no is no
    assert p | yes is yes
    assert p & ~p is no
    assert p | ~p is yes
    assert p ^ yes is ~p
    assert p.eq(yes) is p
    assert p.ne(yes) is ~p
    assert ~(x() < 3) is (c(3) <= x())


def test_intervals_decide_comparisons_of_data() -> None:
    a = x(u8).cast(i32)
    assert (a < 256).arg is True
    assert (a < 0).arg is False
    assert a.eq(300).arg is False
    assert (a + 1).maximum(0) is a + 1


def test_an_interval_gives_up_where_an_integer_may_wrap() -> None:
    a = x(u8)
    assert ((a + 1) < 1).op is Ops.CMPLT
    assert (a + 1).lo == 0


def test_casts() -> None:
    a, h = x(i32), x(dtypes.float16)
    assert a.cast(dtypes.int64).cast(i32) is a
    assert h.cast(f32).cast(dtypes.float16) is h
    assert x(u8).cast(i32).cast(f32) is x(u8).cast(f32)
    assert a.cast(u8).cast(i32).op is Ops.CAST
    assert a.cast(u8).cast(i32).src[0].op is Ops.CAST
    assert a.cast(f32).cast(i32).src[0].op is Ops.CAST  # float32 does not hold every int32
    p = a.ne(0)
    assert p.cast(i32).cast(f32) is p.cast(f32)
    assert p.cast(i32).cast(dtypes.bool) is p


def test_arithmetic_on_loop_counters_moves_inside_its_cast() -> None:
    i, j = UOp.range(0, 9, 0), UOp.range(0, 5, 1)
    a, b = i.cast(i32), j.cast(i32)
    assert a * 2 + 1 is (i * 2 + 1).cast(i32)
    assert (a // 2).eq(b) is (i // 2).eq(j)
    assert (a < 100).arg is True
    narrow = i.cast(dtypes.int8)
    assert (narrow * 50).op is Ops.MUL  # 8 * 50 wraps


def test_tensors_of_one_constant_fold() -> None:
    t = tensor()
    assert t * spread(1.0) is t
    assert t - spread(0.0) is t
    two = spread(1.0) + spread(1.0)
    assert const_value(two) == 2.0
    assert two.shape == (2, 3)
    n = tensor(i32)
    assert n + spread(0, i32) is n
    assert const_value(n * spread(0, i32)) == 0


def test_a_leaf_of_its_own_is_not_folded_away() -> None:
    """A bias of zeros has a gradient: `y + bias` must keep it."""
    bias = UOp.const(f32, 0.0, unique=True).broadcast_to((2, 3))
    scale = UOp.const(f32, 1.0, unique=True).broadcast_to((2, 3))
    t = tensor()
    assert (t - bias).op is Ops.SUB
    assert (t * scale).op is Ops.MUL
    assert (scale * spread(2.0)).op is Ops.MUL
    assert const_value(bias) is None
    assert const_value(bias, through_unique=True) == 0.0
