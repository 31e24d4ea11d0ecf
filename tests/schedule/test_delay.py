"""Row programs that write a row while they compute the next one."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad import device as devices
from polygrad.codegen import row_programs
from polygrad.codegen import transform as verbs
from polygrad.codegen.kernel import Kernel, canonical, waiting
from polygrad.codegen.lists import Choice, replay
from polygrad.codegen.recipes import choose
from polygrad.schedule import schedule
from polygrad.target import Target
from polygrad.testing.fuzz_transforms import random_list
from polygrad.uop.ops import Ops, UOp

ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    "kept": lambda x: x.softmax(-1),
    "two sums": lambda x: x.log_softmax(-1),
    "sums of sums": lambda x: x.layernorm(),
    "products": lambda x: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt(),
}


def wide(target: Target, cache: int) -> Target:
    """A machine with vectors of 64 bytes, one core, and a cache of so many bytes."""
    return replace(
        target, vector_bytes=64, grid_only=False, registers=32, cache_bytes=(cache,), cores=1
    )


def kernel_of(x: Tensor) -> Kernel:
    return canonical(schedule([x.uop], "cpu").items[-1].sink)


def delays(kernel: Kernel) -> bool:
    return any(entry[0] == "delay" for entry in kernel.log)


@pytest.mark.parametrize("where", ["cpu", "interp"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((33, 128), "float32"), ((70, 192), "float16"), ((2, 3, 37, 80), "float32")],
)
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_the_same_when_they_are_written_later(
    run_kernels: Any, name: str, shape: tuple[int, ...], dtype: str, where: str
) -> None:
    """Also where the last block of rows is a short one, or a single row."""
    x = Tensor.empty(*shape, dtype=dtype)
    values = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    values.reshape(-1, shape[-1])[5, 7] = np.nan
    chosen = []

    def with_cache(cache: int) -> Any:
        def optimize(kernel: Kernel, target: Target) -> Kernel:
            chosen.append(choose(kernel, wide(target, cache)))
            return chosen[-1]

        (out,) = run_kernels([ROWS[name](x).uop], {x.uop: values}, where, optimize)
        return out

    want, got = with_cache(1 << 30), with_cache(1 << 10)
    assert list(map(delays, chosen)) == [False, True]
    np.testing.assert_array_equal(got, want)


def test_large_rows_go_past_the_caches_while_the_next_are_computed() -> None:
    target = wide(devices.get("cpu").target, 32 << 20)
    kernel = choose(kernel_of(Tensor.empty(4096, 4096).softmax(-1)), target)
    (late,) = waiting(kernel)
    (last,) = (s for s in kernel.stores if s.src[0].src[0].op is Ops.PARAM)
    assert late.arg == last.arg == "nt"
    assert not delays(choose(kernel_of(Tensor.empty(256, 4096).softmax(-1)), target))  # near
    assert not delays(choose(kernel_of(Tensor.empty(4096, 4090).softmax(-1)), target))
    assert not delays(choose(kernel_of(Tensor.empty(64, 1 << 19).softmax(-1)), target))  # few rows


def delayed(kernel: Kernel) -> tuple[Kernel, UOp]:
    """A kernel of rows whose writing is delayed in blocks of 3, and the loop over a block."""
    rows, loop = kernel.outputs
    (walked,) = kernel.reduced
    made = verbs.block(kernel, rows, 3)
    _, inner = verbs.parts_of(kernel, made)
    late = row_programs.delay(made, inner, walked, loop)
    return late, verbs.parts_of(made, late)[0]


def test_no_verb_parts_a_row_from_the_one_before() -> None:
    """What a step of the loop over rows leaves in scratch is for the next step."""
    kernel, later = delayed(kernel_of(ROWS["products"](Tensor.empty(8, 128))))
    outer, *_, loop = (r for r in kernel.order if r in kernel.outputs)
    for range_ in (later, loop):
        assert not verbs.bindable(kernel, range_)
        with pytest.raises(verbs.ScheduleError, match="writes what the one before left"):
            verbs.bind(kernel, range_)
    assert verbs.bindable(kernel, outer)
    with pytest.raises(verbs.ScheduleError, match="writes what the one before left"):
        verbs.cover(kernel, later, 2)
    inside = [r for r in kernel.order if r not in (later, outer)]
    with pytest.raises(verbs.ScheduleError):
        verbs.reorder(kernel, [outer, *inside, later])
    turned = kernel_of(ROWS["products"](Tensor.empty(24, 128)))
    rows, loop = turned.outputs
    halves = verbs.split(turned, rows, 6)
    first, second = verbs.parts_of(turned, halves)
    late = row_programs.delay(halves, second, next(iter(halves.reduced)), loop)
    (later,) = verbs.parts_of(halves, late)
    with pytest.raises(verbs.ScheduleError, match="peel, then stage"):
        verbs.peel(late, first, 2)
    with pytest.raises(verbs.ScheduleError, match="a loop would stand around"):
        verbs.reorder(late, [later, first, *(r for r in late.order if r not in (later, first))])


@pytest.mark.parametrize("seed", range(24))
def test_rows_are_the_same_by_any_list_of_verbs(run_kernels: Any, seed: int) -> None:
    name = list(ROWS)[seed % len(ROWS)]
    x = Tensor.empty(11, 96)
    values = np.random.default_rng(seed).standard_normal(x.shape).astype("f")

    def optimize(kernel: Kernel, target: Target) -> Kernel:
        rng = random.Random(seed)
        rows, loop = kernel.outputs
        for node in kernel.reductions:
            with suppress(verbs.ScheduleError):
                kernel = row_programs.stage(kernel, node, loop)
        made = verbs.block(kernel, rows, rng.randint(2, 11))
        inner = verbs.parts_of(kernel, made)[-1] if made is not kernel else rows
        for walked in rng.sample(sorted(made.reduced, key=lambda r: r.arg[0]), len(made.reduced)):
            with suppress(verbs.ScheduleError):
                made = row_programs.delay(made, inner, walked, loop)
        assert waiting(made)
        return random_list(made, rng, 6)

    (want,) = run_kernels([ROWS[name](x).uop], {x.uop: values}, "interp")
    (got,) = run_kernels([ROWS[name](x).uop], {x.uop: values}, "cpu", optimize)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


def test_what_cannot_wait_is_not_delayed() -> None:
    def refused(x: Tensor, why: str) -> None:
        kernel = kernel_of(x)
        rows, *_, loop = kernel.outputs
        with pytest.raises(verbs.ScheduleError, match=why):
            row_programs.delay(kernel, rows, next(iter(kernel.reduced)), loop)

    x = Tensor.empty(8, 128)
    refused(ROWS["products"](Tensor.empty(8, 64)), "does not walk rows")  # may be one vector
    refused(x[:, :100] * x.sum(1, keepdim=True), "does not walk rows")
    refused(x * x[0].sum(), "is not one of each step")


def test_a_stored_list_delays_as_its_recipe_did() -> None:
    target = wide(devices.get("cpu").target, 1 << 10)
    kernel = kernel_of(Tensor.empty(70, 128).softmax(-1))
    made = choose(kernel, target)
    again = replay(kernel, Choice(made.recipe, made.log))
    assert delays(again)
    assert again.stores == made.stores
