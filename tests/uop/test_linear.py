"""Index expressions in linear form: normal forms, rules of // and %, questions."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from polygrad.dtype import dtypes
from polygrad.uop.ops import Ops, UOp
from polygrad.uop.symbolic import (
    coefficient,
    depends_on,
    divides,
    gcd_factor,
    linear,
    ranges_of,
)

i, j, k = UOp.range(0, 6, 0), UOp.range(0, 4, 1), UOp.range(0, 8, 2)
n = UOp.variable("n", 1, 9)


def test_equal_sums_are_one_node() -> None:
    parts = [i * 12, j * 3, k, UOp.index(5)]
    sums = set()
    for order in itertools.permutations(parts):
        total = UOp.index(0)
        for p in order:
            total = total + p
        sums.add(total)
    assert len(sums) == 1
    assert linear(sums.pop()) == (5, ((i, 12), (j, 3), (k, 1)))


def test_terms_cancel() -> None:
    assert (i * 3 + j) - i * 3 is j
    assert (i + j) - (j + i) is UOp.index(0)
    assert (i * 2 + 1) * 3 is i * 6 + 3
    assert (i + 1) * (n + 2) is n * i + i * 2 + n + 2
    assert -(i - j) is j - i


def test_an_atom_of_one_value_is_that_value() -> None:
    assert UOp.variable("one", 3, 3) * 2 + i is i + 6


def test_a_loop_of_one_step_stays_a_loop() -> None:
    """Else an ordered kernel would not know what stands in it."""
    one = UOp.range(3, 4, 7)
    assert ranges_of(one * 2 + i) == {one, i}


def test_division_and_modulo_by_what_divides() -> None:
    assert (i * 4 + j) // 4 is i
    assert (i * 4 + j) % 4 is j
    assert (i * 8 + k + 16) // 8 is i + 2
    assert (i * 4 + j) // 8 is i // 2
    assert (i * 4 + j) % 8 is (i % 2) * 4 + j
    assert (j + 3) // 8 is UOp.index(0)
    assert (j - 4) // 4 is UOp.index(-1)
    assert (i * -4 + j) // -4 is i + (j * -1) // 4


def test_nested_division_and_modulo() -> None:
    u = i * 8 + k
    assert (u // 3) // 5 is u // 15
    assert ((u // 3) + j) // 5 is (u + j * 3) // 15
    assert (u % 12) % 4 is u % 4
    assert (u % 12) // 4 is (u // 4) % 3
    assert (u * 6) // 9 is (u * 2) // 3
    assert (u * 6) % 9 is (u * 2) % 3 * 3


def test_division_by_zero_gives_zero() -> None:
    assert i // 0 is UOp.index(0)
    assert i % 0 is UOp.index(0)


def test_quotient_and_remainder_are_put_together() -> None:
    u = i * 8 + k
    assert u // 5 * 5 + u % 5 is u
    assert u - u // 5 * 5 is u % 5
    assert u // 15 * 3 + u // 5 % 3 is u // 5
    assert u // 5 % 3 * 5 + u % 5 is u % 15
    assert u // 24 * 24 + u // 6 % 4 * 6 + u % 6 is u


def test_division_by_a_variable() -> None:
    r = UOp.range(0, n, 5)
    assert (i * n + r) // n is i
    assert (i * n + r) % n is r
    assert (i * n + j) // n is i + j // n
    zero_possible = UOp.variable("z", 0, 3)
    assert ((i * zero_possible) // zero_possible).op is Ops.FLOORDIV


def flat(index, shape) -> UOp:
    out, stride = UOp.index(0), 1
    for a, size in zip(reversed(index), reversed(shape), strict=True):
        out, stride = out + a * stride, stride * size
    return out


def unflat(u: UOp, shape) -> list[UOp]:
    out = []
    for axis, size in enumerate(shape):
        below = 1
        for s in shape[axis + 1 :]:
            below *= s
        out.append(u // below % size)
    return out


def shapes_of(size: int, rank: int):
    if rank == 1:
        yield (size,)
        return
    for d in range(2, size):
        if size % d == 0:
            for rest in shapes_of(size // d, rank - 1):
                yield (d, *rest)


@pytest.mark.parametrize("size", [24, 36, 30])
def test_reshaping_there_and_back_is_nothing(size: int) -> None:
    """Also through shapes that share no factor, such as (6, 4) -> (3, 8) -> (6, 4)."""
    shapes = [s for rank in (1, 2, 3) for s in shapes_of(size, rank)]
    for first in shapes:
        u = flat([UOp.range(0, d, a) for a, d in enumerate(first)], first)
        for second in shapes:
            assert flat(unflat(u, second), second) is u
            assert unflat(flat(unflat(u, second), second), first) == unflat(u, first)


def test_a_reshape_that_splits_axes() -> None:
    u = flat((i, j), (6, 4))
    assert unflat(u, (3, 8)) == [i // 2, i % 2 * 4 + j]
    assert unflat(u, (2, 3, 2, 2)) == [i // 3, i % 3, j // 2, j % 2]


# ---- questions


def test_coefficient() -> None:
    u = i * 12 - j * 3 + 5
    assert coefficient(u, i) == 12
    assert coefficient(u, j) == -3
    assert coefficient(u, k) == 0
    assert coefficient(u + i // 4, i) is None
    assert coefficient(u + k // 3, i) == 12
    assert coefficient(u * n, i) is None
    assert coefficient((i * 5 + k) // 5 + k // 5 * -1, i) == 1


def test_divides() -> None:
    u = i * 12 + j * 8 + 4
    assert gcd_factor(u) == 4
    assert divides(u, 2)
    assert not divides(u, 8)
    assert gcd_factor(UOp.index(0)) == 0
    assert divides(UOp.index(0), 7)


def test_ranges_of() -> None:
    assert ranges_of(i * 4 + j // 2) == {i, j}
    assert ranges_of(i) == {i}
    assert ranges_of(UOp.index(3)) == set()
    inner = UOp.range(0, i + 1, 9)
    assert ranges_of(inner * 2) == {inner, i}


def test_a_reduction_binds_its_counters() -> None:
    value = (i * 4 + k).cast(dtypes.float32)
    total = UOp(Ops.REDUCE, dtypes.float32, (value, k), Ops.ADD)
    assert ranges_of(total) == {i}
    assert depends_on(total, i)
    assert not depends_on(total, k)


def test_nodes_made_without_the_constructor_have_a_form_too() -> None:
    u = UOp.index(1)
    for step in range(3000):
        u = UOp(Ops.ADD, dtypes.index, (u, i if step % 2 else j))
    assert linear(u) == (1, ((i, 1500), (j, 1500)))
    assert u // 1500 is i + j


def test_the_order_of_terms_is_the_same_in_every_process() -> None:
    """And whatever was made before: nothing may come from addresses or from a counter of nodes."""
    program = (
        "import sys\n"
        "from polygrad.dtype import dtypes\n"
        "from polygrad.uop.ops import Ops, UOp\n"
        "def load(slot, at):\n"
        "    p = UOp(Ops.PARAM, dtypes.int32, (), (slot, 8))\n"
        "    return UOp(Ops.LOAD, dtypes.int32, (UOp(Ops.INDEX, dtypes.int32, (p, at)),))\n"
        "i = UOp.range(0, 7, 0)\n"
        "atoms = [load(s, i).cast(dtypes.index) for s in range(4)] + [i, i // 3, i % 5]\n"
        "if sys.argv[1] == '1': atoms.reverse()\n"
        "u = UOp.index(0)\n"
        "for a in atoms: u = u + a * 3\n"
        "print(u, (u // 7) % 5, u.maximum(i))\n"
    )
    texts = set()
    for order, hashing in (("0", "1"), ("1", "2"), ("0", "77")):
        done = subprocess.run(
            [sys.executable, "-c", program, order],
            capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": hashing},
        )  # fmt: skip
        texts.add(done.stdout)
    assert len(texts) == 1
