"""The search for transform lists, with a bench that makes times up: what it finds, and what not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from polygrad import Tensor
from polygrad import device as devices
from polygrad.codegen import search as room
from polygrad.codegen.kernel import Kernel, canonical, extent
from polygrad.codegen.lists import Choice, replay
from polygrad.codegen.recipes import choose, propose
from polygrad.codegen.recipes.blocks import BLOCK
from polygrad.codegen.search import Found, neighbours, search
from polygrad.codegen.transform import ScheduleError
from polygrad.schedule import schedule
from polygrad.uop.ops import size

TARGET = devices.get("cpu").target
Time = Callable[[Kernel], "float | None"]


def matmul() -> Kernel:
    root = (Tensor.empty(32, 64) @ Tensor.empty(64, 48)).uop
    return canonical(schedule([root], "cpu").items[-1].sink)


class MadeUp:
    """A bench whose times are a function of the kernel."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.measured: list[Kernel] = []

    def measure(self, kernel: Kernel, best: float) -> float | None:
        self.measured.append(kernel)
        return self.time(kernel)

    def duel(self, first: Kernel, second: Kernel) -> tuple[float, float]:
        times = self.time(first), self.time(second)
        assert None not in times
        return times  # type: ignore[return-value]


def found(time: Time, width: int = 4, seconds: float = 60) -> tuple[Found, MadeUp]:
    bench = MadeUp(time)
    return search(matmul(), TARGET, width, bench, seconds), bench


def test_it_walks_to_the_fastest_list() -> None:
    """Several steps away: each loop that is printed out makes it a little faster."""

    def time(kernel: Kernel) -> float:
        return 100.0 / (1 + len(kernel.of_kind("unroll")) + 2 * len(kernel.of_kind("partial")))

    result, bench = found(time)
    assert result.choice is not None
    made = replay(matmul(), result.choice)
    assert time(made) == result.after == min(time(k) for k in bench.measured)
    assert result.before == time(choose(matmul(), TARGET))
    assert len(made.of_kind("partial")) > 1
    assert result.tried == len(bench.measured)


def test_no_list_is_measured_twice() -> None:
    _, bench = found(lambda kernel: 1.0 / (1 + len(kernel.of_kind("partial"))))
    logs = [k.log for k in bench.measured]
    assert len(set(logs)) == len(logs)


def test_the_recipes_list_stays_where_nothing_is_clearly_faster() -> None:
    own = choose(matmul(), TARGET).log
    result, _ = found(lambda kernel: 1.0 if kernel.log == own else 0.99)
    assert result.choice is None
    assert result.before == result.after


def test_a_time_that_does_not_hold_is_not_believed() -> None:
    """A fluke of the first measurement: the duel decides."""
    own = choose(matmul(), TARGET).log
    bench = MadeUp(lambda kernel: 1.0 if kernel.log == own else 0.1)
    bench.duel = lambda first, second: (1.0, 1.0)  # type: ignore[method-assign]
    assert search(matmul(), TARGET, 2, bench, 60).choice is None


def test_what_is_refused_is_never_chosen() -> None:
    own = choose(matmul(), TARGET).log
    result, bench = found(lambda kernel: 1.0 if kernel.log == own else None)
    assert result.choice is None
    assert result.refused == len(bench.measured) - 1 > 10


def test_it_ends_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock says, the recipe's list is measured."""
    clock = iter(range(1000))
    monkeypatch.setattr(room.time, "monotonic", lambda: next(clock))
    result, bench = found(lambda kernel: 1.0 / (1 + len(kernel.log)), seconds=5)
    assert 1 <= len(bench.measured) <= 5
    assert result.tried == len(bench.measured)


def test_a_recipe_that_does_not_run_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="own list did not run"):
        found(lambda kernel: None)


def test_other_machines_give_other_lists_to_begin_with() -> None:
    """Half a vector, fewer registers, and the recipe that would have come next."""
    _, bench = found(lambda kernel: 1.0)
    recipes = {k.recipe for k in bench.measured}
    assert {"contraction", "reduction"} <= recipes
    assert len({r.src[1].arg for k in bench.measured for r in k.of_kind("vector")}) > 1


def test_neighbours_differ_and_most_are_legal() -> None:
    kernel = matmul()
    own = propose(kernel, TARGET)
    near = list(neighbours(own, own.log))
    assert len(set(near)) == len(near) > 15
    legal = 0
    for verbs in near:
        assert verbs != own.log
        try:
            replay(kernel, Choice(own.recipe, verbs))
            legal += 1
        except ScheduleError:
            continue
    assert legal > len(near) // 3


def test_every_list_keeps_long_sums_in_blocks() -> None:
    """The accuracy of a sum is not for sale."""
    root = Tensor.empty(64, 4096).sum(1).uop
    kernel = canonical(schedule([root], "cpu").items[-1].sink)
    bench = MadeUp(lambda kernel: 1.0 / (1 + len(kernel.log)))
    search(kernel, TARGET, 4, bench, 60)
    assert len(bench.measured) > 20
    for made in bench.measured:
        steps = [r for r in made.order if made.kind(r) in ("loop", "unroll") and r in made.reduced]
        count = size([extent(r) for r in steps])
        assert made.of_kind("subtotal") or count <= BLOCK, made.log
