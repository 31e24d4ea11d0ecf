"""Loops of people's kernels: which may run in vectors and which may not, and their own memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.uop.kernel import local
from polygrad.uop.ops import KernelInfo, Ops, UOp

NAMED = KernelInfo(name="test")


def shifted(step: int) -> Callable[[Any, Any], UOp]:
    """out[i] = out[i - step] + a[i], in place and in order."""

    def write(out: Any, a: Any) -> UOp:
        n = a.shape[0]
        lo, hi = (step, n) if step > 0 else (0, n + step)
        i = UOp.range(lo, hi, 0)
        return out[i].store(out[i - step] + a[i]).end(i).sink(arg=NAMED)

    return write


@pytest.mark.parametrize("step", [1, 2, 7, 8, 64, -1, -8, -64])
def test_steps_that_reach_back_or_ahead(device: str, step: int, rng: np.random.Generator) -> None:
    a, start = rng.normal(size=(2, 201)).astype(np.float32)
    want = start.copy()
    for i in range(step, 201) if step > 0 else range(201 + step):
        want[i] = want[i - step] + a[i]
    made = Tensor(start).custom_kernel(Tensor(a), fxn=shifted(step))[0]
    np.testing.assert_array_equal(made.numpy(), want)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 100])
def test_an_ordered_sum_of_any_length(device: str, n: int, rng: np.random.Generator) -> None:
    """Each row less its mean, in place: two passes that follow each other."""

    def centre(x: Any) -> UOp:
        r, i, j = UOp.range(3, 0), UOp.range(n, 1), UOp.range(n, 2)
        mean = x[r, i].reduce(Ops.ADD, (i,)) * (1.0 / n)
        return x[r, j].store(x[r, j] - mean).end(r, j).sink(arg=NAMED)

    a = rng.normal(size=(3, n))
    made = Tensor(a).custom_kernel(fxn=centre)[0]
    np.testing.assert_allclose(made.numpy(), a - a.mean(1, keepdims=True), atol=1e-14)


# ---- many kernels at random, against what they say


def step_by_step(
    a: np.ndarray, b: np.ndarray, plan: list[tuple[int, list[tuple[int, int]]]], n: int
) -> None:
    """Each step reads everything, then stores in order."""
    memory = (a, b)
    for i in range(n):
        values = [sum(memory[m][64 + i + d] for m, d in reads) for _, reads in plan]
        for (target, _), value in zip(plan, values, strict=True):
            memory[target][64 + i] = value * np.float32(0.5)


def kept(memory: Any, ident: int) -> tuple[Any, UOp]:
    """A LOCAL that holds a copy of memory, and the effect that fills it."""
    place = local(memory.dtype, memory.numel(), ident)
    i = UOp.range(memory.numel(), 10 + ident)
    return place, place[i].store(memory[i]).end(i)


@pytest.mark.parametrize("where", ["given", "local"])
@pytest.mark.parametrize("n", [48, 50])
@pytest.mark.parametrize("seed", range(12))
def test_any_loop_of_two_stores(device: str, seed: int, n: int, where: str) -> None:
    rng = np.random.default_rng(seed)
    distances = [-40, -16, -9, -1, 0, 0, 1, 7, 8, 33]
    plan = [
        (target, [(int(rng.integers(2)), int(rng.choice(distances))) for _ in range(2)])
        for target in (0, 1)
    ]

    def write(a: Any, b: Any) -> UOp:
        i = UOp.range(n, 0)
        places = memory = (a, b)
        if where == "local":
            places, filled = zip(*(kept(m, k) for k, m in enumerate(memory)), strict=True)
            memory = tuple(m.after(*filled, i) for m in places)
        stores = [
            memory[target][i + 64].store((memory[x][i + (64 + d)] + memory[y][i + (64 + e)]) * 0.5)
            for target, ((x, d), (y, e)) in plan
        ]
        done = stores[0].group(stores[1]).end(i)
        if where == "given":
            return done.sink(arg=NAMED)
        loops = [UOp.range(m.numel(), 20 + k) for k, m in enumerate((a, b))]
        back = [
            m[j].store(place.after(done)[j]).end(j)
            for m, place, j in zip((a, b), places, loops, strict=True)
        ]
        return back[0].sink(back[1], arg=NAMED)

    a, b = rng.normal(size=(2, 180)).astype(np.float32)
    made = Tensor(a).custom_kernel(Tensor(b), fxn=write)
    step_by_step(a, b, plan, n)
    np.testing.assert_array_equal(made[0].numpy(), a)
    np.testing.assert_array_equal(made[1].numpy(), b)


def test_a_local_larger_than_any_stack(device: str) -> None:
    """32 MB, turned round."""
    n = 8 << 20 if device == "cpu" else 1 << 14

    def turned(out: Any, a: Any) -> UOp:
        place, filled = kept(a, 0)
        i = UOp.range(n, 1)
        return out[i].store(place.after(filled)[UOp.index(n - 1) - i].load()).end(i).sink(arg=NAMED)

    a = np.arange(n, dtype=np.float32)
    made = Tensor.empty(n).custom_kernel(Tensor(a), fxn=turned)[0]
    np.testing.assert_array_equal(made.numpy(), a[::-1])
