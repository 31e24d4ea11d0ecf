"""Every verb of the schedule language changes how a kernel runs and never what it computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from polygrad.codegen import transform as verbs
from polygrad.codegen.kernel import Kernel, canonical
from polygrad.codegen.recipes import reference
from polygrad.dtype import dtypes
from polygrad.schedule import schedule
from polygrad.target import Target
from polygrad.testing.fuzz_transforms import random_list
from polygrad.uop.ops import Ops, UOp
from polygrad.uop.sizes import Variable, actual

F32 = dtypes.float32


def leaf(*shape: int, dtype=F32) -> UOp:
    return UOp.buffer(dtype, shape, "cpu")


def matmul(a: UOp, b: UOp) -> UOp:
    (m, k), n = a.shape, b.shape[1]
    left = a.reshape((m, 1, k)).expand((m, n, k))
    right = b.permute((1, 0)).reshape((1, n, k)).expand((m, n, k))
    return (left * right).reduce(Ops.ADD, (2,))


def row(x: UOp, op: Ops) -> UOp:
    return x.reduce(op, (1,)).reshape((x.shape[0], 1)).expand(x.shape)


def graphs() -> dict[str, tuple[list[UOp], list[UOp]]]:
    """name -> (roots, leaves): one kernel of each loop shape, odd sizes throughout."""
    a, b, w = leaf(13, 24), leaf(13, 24), leaf(24, 19)
    wide, turned = leaf(24, 28), leaf(19, 24)
    i = leaf(9, 16, dtype=dtypes.int32)
    centred = a - row(a, Ops.MAXIMUM)
    n = Variable("n", 1, 27).bind(21)
    v, u = leaf(n, 24), leaf(13, n)
    middle = u - row(u, Ops.MAXIMUM)
    old, grad = leaf(13, 24), leaf(13, 24)
    moment = old.after(old.store(old + grad))
    return {
        "elementwise": ([a * b + a], [a, b]),
        "transposed": ([a.permute((1, 0)).contiguous()], [a]),
        "padded": ([a.pad(((1, 2, 0), (3, 0, 1)))], [a]),
        "rows": ([a.reduce(Ops.ADD, (1,))], [a]),
        "columns": ([a.reduce(Ops.MAXIMUM, (0,))], [a]),
        "everything": ([a.reduce(Ops.ADD, (0, 1))], [a]),
        "row program": ([centred * row(centred, Ops.ADD)], [a]),
        "matmul": ([matmul(a, w)], [a, w]),
        "matmul, columns left over": ([matmul(a, wide)], [a, wide]),
        "matmul along rows": ([matmul(a, turned.permute((1, 0)))], [a, turned]),
        "windows": ([a.window(1, 5, 2, 3).reduce(Ops.ADD, (2,))], [a]),
        "two stores": ([moment, (b + moment).contiguous()], [old, grad, b]),
        "bounded elementwise": ([v * v + v], [v]),
        "bounded rows": ([v.reduce(Ops.ADD, (1,))], [v]),
        "bounded columns": ([v.reduce(Ops.MAXIMUM, (0,))], [v]),
        "bounded row program": ([middle * row(middle, Ops.ADD)], [u]),
        "bounded matmul": ([matmul(v, w)], [v, w]),
        "bounded matmul, k": ([matmul(u, u.permute((1, 0)))], [u]),
        "integers": ([i.reduce(Ops.ADD, (1,)), i.reduce(Ops.MINIMUM, (0,))], [i]),
    }


def filled(leaves: list[UOp]) -> dict[UOp, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        x: (rng.standard_normal(actual(x.shape)) * 8).round(2).astype(x.dtype.name) for x in leaves
    }


@pytest.mark.parametrize("name", list(graphs()))
def test_random_transform_lists_change_nothing(name: str, run_kernels) -> None:
    """Reliability row 2: random legal lists on the cpu against the reference device."""
    roots, leaves = graphs()[name]
    data = filled(leaves)
    expected = run_kernels(roots, data, "interp", lambda k, t: reference(k))
    for seed in range(12):
        rng = random.Random(f"{name}{seed}")
        logs = []

        def optimize(kernel: Kernel, target: Target) -> Kernel:
            made = random_list(kernel, rng, 6)
            logs.append(made.log)
            return made

        for got, want in zip(run_kernels(roots, data, "cpu", optimize), expected, strict=True):
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-4, err_msg=str(logs))
            else:
                np.testing.assert_array_equal(got, want, err_msg=str(logs))


@pytest.mark.parametrize("name", list(graphs()))
def test_recipes_change_nothing(name: str, run_kernels) -> None:
    """What a recipe chooses for the cpu gives the reference device's numbers."""
    roots, leaves = graphs()[name]
    data = filled(leaves)
    expected = run_kernels(roots, data, "interp")
    for got, want in zip(run_kernels(roots, data, "cpu"), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-4)


def one_kernel(root: UOp) -> Kernel:
    (item,) = schedule([root], "cpu").items
    return canonical(item.sink)


def test_split_needs_a_divisor() -> None:
    kernel = one_kernel(leaf(10) + leaf(10))
    with pytest.raises(
        verbs.ScheduleError, match="split: 3 does not divide the length 10 of range 0"
    ):
        verbs.split(kernel, kernel.order[0], 3)


def test_reduced_ranges_are_not_bound_to_the_grid() -> None:
    kernel = one_kernel(leaf(4, 10).reduce(Ops.ADD, (1,)))
    with pytest.raises(verbs.ScheduleError, match="bind: range 100 is reduced"):
        verbs.bind(kernel, kernel.order[1])


def test_fuse_refuses_ranges_that_are_walked_apart() -> None:
    kernel = one_kernel(leaf(4, 10) + leaf(10).broadcast_to((4, 10)))
    with pytest.raises(verbs.ScheduleError, match="fuse: ranges 0 and 1 are not walked as one"):
        verbs.fuse(kernel, *kernel.order)


def test_fuse_refuses_a_range_and_itself() -> None:
    """No index walks the range, so any two walks agree; its steps would be taken n times each."""
    kernel = one_kernel(leaf(1).broadcast_to((3,)).reduce(Ops.ADD, (0,)))
    (only,) = kernel.order
    with pytest.raises(verbs.ScheduleError, match="fuse: ranges"):
        verbs.fuse(kernel, only, only)


def test_vectorize_needs_a_power_of_two() -> None:
    kernel = one_kernel(leaf(10) + leaf(10))
    with pytest.raises(verbs.ScheduleError, match="power of two"):
        verbs.vectorize(kernel, kernel.order[0])


def test_a_list_of_verbs_is_recorded() -> None:
    kernel = one_kernel(leaf(12) + leaf(12))
    kernel = verbs.split(kernel, kernel.order[0], 4)
    kernel = verbs.unroll(kernel, kernel.order[1])
    assert kernel.log == (("split", 0, 4), ("unroll", 2))
