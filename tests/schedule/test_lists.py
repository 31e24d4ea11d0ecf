"""Transform lists as data: what is stored and read again makes the same kernel, and nothing that a
stranger writes makes an illegal one."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad import device as devices
from polygrad.codegen import transform as verbs
from polygrad.codegen.kernel import Kernel, canonical
from polygrad.codegen.lists import LONGEST, Choice, finished, illegal, read, replay, written
from polygrad.codegen.recipes import RECIPES, choose, propose
from polygrad.schedule import KernelItem, schedule
from polygrad.target import Target
from polygrad.testing.fuzz_transforms import random_list

TARGET = devices.get("cpu").target
WIDE = replace(TARGET, vector_bytes=64, registers=32)


def kernels(*tensors: Tensor) -> list[Kernel]:
    items = schedule([t.uop for t in tensors], "cpu").items
    return [canonical(i.sink) for i in items if isinstance(i, KernelItem)]


def several() -> dict[str, list[Kernel]]:
    x, y = Tensor.empty(33, 48), Tensor.empty(48, 20)
    image, weight = Tensor.empty(2, 3, 12, 12), Tensor.empty(5, 3, 3, 3)
    slopes = (image.conv2d(weight, padding=1).square()).sum().gradient(image, weight)
    return {
        "elementwise": kernels(x * 2 + x.exp()),
        "large": kernels(Tensor.empty(4000, 4000) + 1),
        "softmax": kernels(x.softmax(1)),
        "large rows": kernels(Tensor.empty(5000, 2048).softmax(1), Tensor.empty(5000, 999).std(1)),
        "sum": kernels(Tensor.empty(1000, 1000).sum()),
        "columns": kernels(x.max(0)),
        "matmul": kernels(x @ y),
        "turned": kernels(x @ Tensor.empty(20, 48).T),
        "cumsum": kernels(x.cumsum(1)),
        "gradients": kernels(*slopes),
        "depthwise": kernels(image.conv2d(Tensor.empty(3, 1, 3, 3), groups=3)),
    }


@pytest.mark.parametrize("target", [TARGET, WIDE], ids=["here", "wide"])
@pytest.mark.parametrize("name", list(several()))
def test_a_recipes_list_gives_its_kernel_again(name: str, target: Target) -> None:
    for kernel in several()[name]:
        own = propose(kernel, target)
        text = json.dumps(written(Choice(own.recipe, own.log)))
        made, wanted = replay(kernel, read(json.loads(text))), choose(kernel, target)
        assert made.stores == wanted.stores
        assert made.order == wanted.order
        assert [made.kind(r) for r in made.order] == [wanted.kind(r) for r in wanted.order]
        assert made.log == wanted.log


def test_random_lists_are_given_again() -> None:
    for name, found in several().items():
        for kernel in found:
            for seed in range(10):
                own = random_list(kernel, random.Random(f"{name}{seed}"), 6)
                made = finished(own)
                again = replay(kernel, Choice("", own.log))
                assert (again.stores, again.order) == (made.stores, made.order), own.log


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"recipe": "contraction"},
        {"recipe": "made up", "verbs": []},
        {"recipe": "reduction", "verbs": [["explode", 1]]},
        {"recipe": "reduction", "verbs": [["split", "0", 4]]},
        {"recipe": "reduction", "verbs": [["split", 0, -4]]},
        {"recipe": "reduction", "verbs": [["split", 0, True]]},
        {"recipe": "reduction", "verbs": [["split", 0, 1 << 40]]},
        {"recipe": "reduction", "verbs": [[]]},
        {"recipe": "reduction", "verbs": [["unroll", 0]] * (LONGEST + 1)},
    ],
    ids=str,
)
def test_what_is_no_list_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"recipe|verbs"):
        read(value)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([("split", 7, 2)], "split: there is no range 7"),
        ([("split", 0, 2, 2)], "split: 2 numbers are expected, got 3"),
        ([("split", 0, 7)], "split: 7 does not divide the length 33"),
        ([("block", 0, 0)], "block: 0 is no number of steps"),
        ([("pad", 0, 0)], "pad: 0 is no number of steps"),
        ([("cover", 0, 0)], "cover: 0 is no number of steps"),
        ([("grid", 100)], "bind: range 100 is reduced"),
        ([("vector", 0)], "power of two"),
        ([("stage", 100, 0)], "stage: no reduction over range 100"),
        ([("stream", 3)], "stream: store 3"),
        ([("prefetch", 2, 0, 1)], "prefetch: there is no load 2"),
        ([("prefetch", 1, 0, 1)], "prefetch: load 1 does not move along range 0"),
        ([("prefetch", 0, 0, 0)], "prefetch: 0 is no number of steps"),
        ([("prefetch", 0, 0, 1), ("prefetch", 0, 0, 1)], "prefetch: there is no load 0"),
        ([("ask", 2, 0, 1)], "ask: there is no load 2"),
        ([("ask", 0, 0, 1)], "ask: load 0 reads no strip"),
        ([("ask", 1, 0)], "ask: 3 numbers or more are expected, got 2"),
        ([("delay", 0, 100, 1)], "delay: range 100 does not walk rows"),
        ([("delay", 0, 1)], "delay: 3 numbers are expected, got 2"),
        ([("ungate",)], "ungate: no factor"),
        ([("reorder", 0, 100)], "not a permutation"),
        ([("unroll", 0), ("split", 0, 3)], "split: range 0 is of kind unroll already"),
        ([("split", 100, 16), ("vector", 102), ("vector", 101)], "power of two"),
        ([("split", 1, 4), ("vector", 102), ("split", 100, 8), ("vector", 104)], "two vector"),
        ([("unroll", 0), ("unroll", 1)], "steps are printed out"),
    ],
    ids=str,
)
def test_an_illegal_list_is_a_schedule_error(entries: list[Any], why: str) -> None:
    """Of a product 33 x 48 by 48 x 20."""
    (kernel,) = kernels(Tensor.empty(33, 48) @ Tensor.empty(48, 20))
    with pytest.raises(verbs.ScheduleError, match=why):
        replay(kernel, Choice("contraction", tuple(map(tuple, entries))))


def test_a_long_sum_is_never_printed_out_whole() -> None:
    """Its steps could not be cut into blocks, and a running sum of many numbers is not exact."""
    (kernel,) = kernels(Tensor.empty(33, 48).sum(1))
    with pytest.raises(verbs.ScheduleError, match="a long sum is printed out whole"):
        replay(kernel, Choice("reduction", (("unroll", 100),)))
    assert replay(kernel, Choice("reduction", (("split", 100, 4), ("unroll", 102))))


def test_only_whole_aligned_vectors_pass_by_the_caches() -> None:
    for shape, entries in (
        ((16, 24), [("stream", 0)]),  # no vectors at all
        ((16, 13), [("peel", 1, 12), ("split", 2, 4), ("vector", 5), ("stream", 0)]),  # rows askew
    ):
        (kernel,) = kernels(Tensor.empty(*shape) + Tensor.empty(shape[1]))
        with pytest.raises(verbs.ScheduleError, match="stream: store 0"):
            replay(kernel, Choice("elementwise", tuple(entries)))
    (kernel,) = kernels(Tensor.empty(16, 24) + Tensor.empty(24))
    entries = (("split", 1, 4), ("vector", 3), ("stream", 0))
    made = replay(kernel, Choice("elementwise", entries))
    assert made.stores[0].arg == "nt"
    assert not illegal(made)


def test_hostile_lists_change_no_result(run_kernels, rng: np.random.Generator) -> None:
    """Entries of legal lists, cut, doubled, exchanged and with other numbers: refused or right."""
    x = Tensor.empty(13, 24)
    w = Tensor.empty(24, 19)
    root = (x @ w).uop
    leaves = [n for n in root.toposort() if n.op.name == "BUFFER"]
    data = {leaf: rng.standard_normal(leaf.shape).astype(np.float32) for leaf in leaves}
    (expected,) = run_kernels([root], data, "interp")
    draw = random.Random(3)
    legal = 0
    for _ in range(150):

        def optimize(kernel: Kernel, target: Target) -> Kernel:
            nonlocal legal
            entries = list(propose(kernel, target).log)
            for _ in range(draw.randint(1, 3)):
                at = draw.randrange(len(entries))
                name, *numbers = entries[at]
                change = draw.randrange(4)
                if change == 0:
                    del entries[at]
                elif change == 1:
                    entries.insert(draw.randrange(len(entries)), entries[at])
                elif change == 2 and numbers:
                    numbers[draw.randrange(len(numbers))] = draw.choice((0, 1, 2, 8, 100, 103))
                    entries[at] = (name, *numbers)
                else:
                    other = draw.randrange(len(entries))
                    entries[at], entries[other] = entries[other], entries[at]
            try:
                made = replay(kernel, Choice("contraction", tuple(entries)))
            except verbs.ScheduleError:
                return choose(kernel, target)
            legal += 1
            return made

        (got,) = run_kernels([root], data, "cpu", optimize)
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-4)
    assert legal > 20


def test_every_recipe_can_be_left_out() -> None:
    (kernel,) = kernels(Tensor.empty(33, 48) @ Tensor.empty(48, 20))
    assert propose(kernel, TARGET).recipe == "contraction"
    assert propose(kernel, TARGET, ["contraction"]).recipe == "reduction"
    assert propose(kernel, TARGET, list(RECIPES)).log == ()
