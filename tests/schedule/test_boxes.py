"""An assignment to a part of a buffer walks the elements of that part only (F041, F067)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor, Variable, jit
from polygrad import device as devices
from polygrad.codegen.kernel import canonical
from polygrad.codegen.recipes import choose
from polygrad.engine import record, run
from polygrad.engine.counters import counters
from polygrad.schedule import KernelItem, Schedule, schedule
from polygrad.schedule.boxes import LAUNCH
from polygrad.uop.ops import Ops


def data(*shape: int, dtype: type = np.float32) -> Tensor:
    return Tensor(np.ones(shape, dtype)).realize()


def walked(item: Any) -> int:
    """Steps of all loops of a kernel."""
    assert isinstance(item, KernelItem)
    loops = [n for n in item.sink.toposort() if n.op is Ops.RANGE]
    return math.prod(int(r.src[1].arg) - int(r.src[0].arg) for r in loops)


def gated(item: Any) -> bool:
    nodes = item.sink.toposort()
    return any(len(n.src) > {Ops.LOAD: 1, Ops.STORE: 2}.get(n.op, 9) for n in nodes)


def read_buffers(item: Any) -> set[int]:
    return {n.src[0].src[0].arg[0] for n in item.sink.toposort() if n.op is Ops.LOAD}


def written(x: Tensor) -> Schedule:
    planned = schedule([x.uop], "cpu")
    assert all(old is new for old, new in planned.writes)
    return planned


PLACES: dict[str, tuple[Any, int]] = {
    "one axis": ((slice(None), 5), 4 * 6),
    "element": ((1, 2, 3), 1),
    "slice": ((slice(1, 3), slice(2, 7)), 2 * 5 * 6),
    "backwards": ((slice(None, None, -1), 5), 4 * 6),
    "steps": ((slice(None, None, 2), slice(7, 0, -3)), 2 * 3 * 6),
    "tail": ((..., slice(4, None)), 4 * 8 * 2),
}


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
@pytest.mark.parametrize("name", PLACES)
def test_one_kernel_over_the_box(name: str, dtype: type) -> None:
    index, elements = PLACES[name]
    x = data(4, 8, 6, dtype=dtype)
    shape = np.empty((4, 8, 6))[index].shape
    x[index] = data(*shape, dtype=dtype)
    (item,) = written(x).items
    assert walked(item) == elements
    assert not gated(item)
    assert len(read_buffers(item)) == 1  # the value, and not what lay there


def test_a_number_is_stored_over_the_box() -> None:
    x = data(4, 8, 6)
    x[1:3, 5] = 2.0
    (item,) = written(x).items
    assert (walked(item), gated(item), read_buffers(item)) == (2 * 6, False, set())


def test_an_empty_box_has_no_kernel() -> None:
    x = data(4, 8)
    x[2:2] = 1.0
    assert written(x).items == ()


def test_the_box_itself_may_be_read() -> None:
    x = data(4, 8, 6)
    x[1:3] = x[1:3] * 2
    (item,) = written(x).items
    assert walked(item) == 2 * 8 * 6


def test_what_overlaps_itself_is_no_store_in_place() -> None:
    x = data(4, 8)
    x[1:] = x[:-1]
    ((old, new),) = schedule([x.uop], "cpu").writes
    assert old is not new


def test_a_place_that_is_a_variable() -> None:
    x, place = data(4, 8, 6), Variable("place", 0, 7)
    x[:, place.bind(3)] = data(4, 6)
    (item,) = written(x).items
    assert (walked(item), gated(item)) == (4 * 6, False)


def test_a_condition_that_bounds_no_loop_gates_the_box() -> None:
    x, place = data(4, 9), Variable("place", 0, 5)
    x[1:, place.bind(2) : place.bind(2) + 4 : 2] = 7.0
    (item,) = written(x).items
    assert walked(item) == 3 * 3
    x.realize()
    want = np.ones((4, 9))
    want[1:, 2:6:2] = 7.0
    np.testing.assert_array_equal(x.numpy(), want)


def test_a_small_part_of_a_large_buffer_stays_in_the_caches() -> None:
    target = replace(devices.get("cpu").target, cache_bytes=(1 << 10, 1 << 12), vector_bytes=16)
    for rows, log in ((slice(3, 4), 0), (slice(0, 63), 1)):
        x = data(64, 64)
        x[rows] = data(*np.empty((64, 64))[rows].shape)
        (item,) = written(x).items
        assert isinstance(item, KernelItem)
        made = choose(canonical(item.sink), target)
        assert [entry[0] for entry in made.log].count("stream") == log


# ---- several writes, and readers of what was written


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Schedule]:
    """The schedules that are made."""
    made: list[Schedule] = []

    def noting(*arguments: Any) -> Schedule:
        made.append(schedule(*arguments))
        return made[-1]

    for module in (record, run):
        monkeypatch.setattr(module, "schedule", noting)
    return made


def captured(f: Callable[..., Any], recorded: list[Schedule], *arguments: Any) -> Schedule:
    compiled = jit(f)
    for _ in range(2):
        compiled(*arguments)
    return recorded[-1]


@pytest.mark.parametrize(("side", "kernels"), [(4, 1), (64, 3)])
def test_writes_in_a_row_are_a_kernel_each_unless_one_pass_is_less_work(
    recorded: list[Schedule], side: int, kernels: int
) -> None:
    assert 4 * 4 < LAUNCH < 64 * 64  # elements
    x = data(side, side)

    def f(v: Tensor) -> None:
        for row in (0, 2, 3):
            x[row, 1:3] = v + row

    items = captured(f, recorded, data(2)).items
    assert len(items) == kernels
    assert sum(map(walked, items)) == (3 * 2 if kernels == 3 else side * side)
    want = np.ones((side, side))
    want[[0, 2, 3], 1:3] = np.array([[1], [3], [4]])
    np.testing.assert_array_equal(x.numpy(), want)


def test_writes_to_what_was_written_are_stored_in_order(recorded: list[Schedule]) -> None:
    x = data(64, 64)

    def f(v: Tensor) -> None:
        x[1] = v
        x[0:2] += 1

    items = captured(f, recorded, (data(64) * 5).realize()).items
    assert list(map(walked, items)) == [64, 2 * 64]
    np.testing.assert_array_equal(x.numpy()[:3, 0], [3, 6, 1])  # two calls


def test_a_box_that_reads_an_earlier_one_is_in_one_pass_with_it(recorded: list[Schedule]) -> None:
    """Not captured: nobody asks for the version between, so it is never in memory."""
    x, v = data(64, 64), data(64)
    x[1] = v * 5
    x[0:2] += 1
    x.realize()
    (item,) = recorded[-1].items
    assert walked(item) == 64 * 64
    np.testing.assert_array_equal(x.numpy()[:3, 0], [2, 6, 1])


def test_who_reads_the_new_value_reads_it_in_memory(recorded: list[Schedule]) -> None:
    """A cache is written at one place, then read as a whole without a choice at each element."""
    cache = data(4, 64, 8)

    def f(k: Tensor, p: int) -> Tensor:
        cache[:, p] = k
        return cache.sum(1)

    write, read = captured(f, recorded, (data(4, 8) * 3).realize(), 5).items
    assert (walked(write), walked(read)) == (4 * 8, 4 * 8 * 64)
    assert not gated(read) and Ops.WHERE not in {n.op for n in read.sink.toposort()}
    assert jit(f)(data(4, 8) * 3, 5).tolist() == [[66.0] * 8] * 4


def test_one_tensor_for_all_layers(recorded: list[Schedule]) -> None:
    """Each version is read before the next is written: all of them in place."""
    cache = data(3, 64, 8)
    start = data(8)

    def f(x: Tensor, p: int) -> Tensor:
        for layer in range(3):
            cache[layer, p] = x
            x = x + cache[layer].sum(0)
        return x

    planned = captured(f, recorded, start, 5)
    assert all(old is new for old, new in planned.writes)
    assert sorted(map(walked, planned.items)) == [8] * 3 + [8 * 64] * 3
    want, x = np.ones((3, 64, 8)), np.ones(8)
    for layer in range(3):
        want[layer, 5] = x
        x = x + want[layer].sum(0)
    np.testing.assert_array_equal(jit(f)(start, 5).numpy(), x)
    np.testing.assert_array_equal(cache.numpy(), want)


def test_who_needs_both_values_still_chooses(recorded: list[Schedule]) -> None:
    cache = data(4, 64, 8)

    def f(p: int) -> Tensor:
        before = cache.sum(1)
        cache[:, p] = 3.0
        return cache.sum(1) - before

    planned = captured(f, recorded, 5)
    assert all(old is new for old, new in planned.writes)
    assert jit(f)(7).tolist() == [[2.0] * 8] * 4
    assert jit(f)(7).tolist() == [[0.0] * 8] * 4


def test_old_readers_keep_their_values(device: str) -> None:
    x = data(64, 64)
    reader = x * 2
    before = counters.saved_versions
    x[3] = 7.0
    x.realize()
    assert counters.saved_versions == before + 1
    assert (x.numpy()[3] == 7).all() and (x.numpy()[4] == 1).all()
    assert (reader.numpy() == 2).all()


# ---- places in a tensor


def test_a_place_in_a_tensor_is_written_alone(recorded: list[Schedule]) -> None:
    cache = data(4, 64, 8)

    def f(place: Tensor, v: Tensor) -> Tensor:
        cache[:, place] = v
        return cache.sum(1)

    value = (data(4, 8) * 3).realize()
    items = captured(f, recorded, Tensor(5).realize(), value).items
    assert (
        sum(map(walked, items)) <= 4 * 8 + 4 * 8 * 64 + 1
    )  # the place itself, from the end or not
    assert jit(f)(Tensor(-2), value).tolist() == [[68.0] * 8] * 4
    assert np.flatnonzero(cache.numpy()[0, :, 0] == 3).tolist() == [5, 62]


@pytest.mark.parametrize("mode", ["set", "add"])
def test_scatters_beside_readers_of_the_old_value(device: str, mode: str) -> None:
    base = np.arange(24, dtype=np.float32).reshape(6, 4)
    places, want = np.array([1, 4, 1]), base.copy()
    updates = np.arange(12, dtype=np.float32).reshape(3, 4) + 50
    x = Tensor(base).realize()
    for _ in range(2):
        old, reader = want.copy(), x * 2
        new = x.uop.scatter(Tensor(places).realize().uop, Tensor(updates).realize().uop, 0, mode)
        x._assign(new)
        both = x + reader
        for place, row in zip(places, updates, strict=True):
            want[place] = row + (want[place] if mode == "add" else 0)
        np.testing.assert_array_equal(both.numpy(), want + old * 2)
        np.testing.assert_array_equal(x.numpy(), want)
        np.testing.assert_array_equal(reader.numpy(), old * 2)


@pytest.mark.parametrize("what", ["values", "places"])
def test_a_scatter_that_reads_what_it_writes(device: str, what: str) -> None:
    want = np.array([2, 0, 3, 1, 4], np.int32)
    x = Tensor(want).realize()
    for _ in range(2):
        if what == "values":
            x[Tensor([1, 2, 3, 4, 0])] = x
            want = np.roll(want, 1)
        else:
            x[x] = Tensor([7, 8, 9, 10, 11]).cast("int32") % 5
            want[want.copy()] = np.array([7, 8, 9, 10, 11]) % 5
        np.testing.assert_array_equal(x.numpy(), want)


def test_two_writes_at_places_in_a_tensor_in_one_graph(device: str) -> None:
    """The first one's reshapes met the second one's: an IndexError of ours."""
    want = np.zeros((2, 6, 3), np.float32)
    x, place = Tensor(want).realize(), Tensor(4)
    for i in range(2):
        x[i, place] = Tensor([1.0, 2.0, 3.0]) + i
        want[i, 4] = np.array([1, 2, 3]) + i
    np.testing.assert_array_equal(x.numpy(), want)
