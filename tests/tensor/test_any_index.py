"""Any index that numpy takes: reads, writes, in-place operators and gradients, drawn at random
(F041, F042)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygrad import Tensor

CHECKED = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
DRAWN = st.randoms(use_true_random=False)


class Case(NamedTuple):
    base: np.ndarray
    index: tuple[Any, ...]


def draw_slice(draw: Any, n: int) -> slice:
    ends = st.none() | st.integers(-n - 2, n + 2)
    step = draw(st.sampled_from([None, 1, 2, 3, -1, -2, -3]))
    return slice(draw(ends), draw(ends), step)


def draw_array(draw: Any, n: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of an axis, negative ones too, in a shape that broadcasts to `shape`."""
    own = tuple(m if draw(st.booleans()) else 1 for m in shape)[draw(st.integers(0, len(shape))) :]
    count = int(np.prod(own))
    flat = draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count))
    kind = draw(st.sampled_from([np.int64, np.int32, np.int8]))
    return np.array(flat, kind).reshape(own)


@st.composite
def cases(draw: Any) -> Case:
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 0, 3, 2]), max_size=4)))
    base = (np.arange(np.prod(shape)) + 1.0).astype(np.float32).reshape(shape)
    common = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
    index: list[Any] = []
    axis = 0
    masked = False
    while axis < len(shape):
        n, kind = shape[axis], draw(st.integers(0, 10))
        if kind <= 1 and sum(i is None for i in index) < 3:
            index.append(None)
            continue
        if kind == 10 and not any(map(is_truth, index)):
            index.append(draw_truth(draw))
            continue
        if kind == 2 and n:
            index.append(draw(st.integers(-n, n - 1)))
        elif kind <= 4 and n:
            index.append(draw_array(draw, n, common))
        elif kind == 5 and not masked and len(common) == 1:
            wide = draw(st.integers(1, len(shape) - axis))
            sizes = shape[axis : axis + wide]
            if 0 in sizes:
                index.append(slice(None))
            else:
                index.append(draw_mask(draw, sizes, common[0]))
                axis += wide - 1
                masked = True
        elif kind == 6 and not any(i is Ellipsis for i in index):
            index.append(Ellipsis)
            axis = draw(st.integers(axis, len(shape)))
            continue
        elif kind == 7 and not any(i is Ellipsis for i in index):
            break
        else:
            index.append(draw_slice(draw, n))
        axis += 1
    if not any(i is Ellipsis for i in index) and axis < len(shape) and draw(st.booleans()):
        index.append(Ellipsis)
    return Case(base, tuple(index))


def draw_truth(draw: Any) -> Any:
    """A mask without axes. A false one goes with arrays of one element only: numpy refuses it with
    others, which the drawn index may hold."""
    return draw(st.sampled_from([True, np.True_, np.array(True)]))


def is_truth(item: Any) -> bool:
    return np.asarray(item).dtype == bool and np.ndim(item) == 0 if item is not None else False


def draw_mask(draw: Any, sizes: tuple[int, ...], count: int) -> np.ndarray:
    """With `count` true elements, or one, so that it broadcasts with the other index arrays."""
    total = int(np.prod(sizes))
    some = min(count, total) if count <= total else 1
    places = draw(st.permutations(range(total)))[:some]
    mask = np.zeros(total, bool)
    mask[places] = True
    return mask.reshape(sizes)


def ours(index: tuple[Any, ...], tensors: bool) -> Any:
    """The index as a user writes it: arrays of numpy or of ours, one item without a tuple."""
    items = [Tensor(i) if tensors and isinstance(i, np.ndarray) else i for i in index]
    return items[0] if len(items) == 1 else tuple(items)


def wanted(case: Case) -> np.ndarray:
    return case.base[case.index]


def values(shape: tuple[int, ...], random: Any) -> np.ndarray:
    """Of a shape that broadcasts to `shape`."""
    own = tuple(n if random.random() < 0.7 else 1 for n in shape)
    own = own[random.randint(0, len(own)) :] if random.random() < 0.4 else own
    return -(np.arange(np.prod(own)) + 1.0).astype(np.float32).reshape(own)


@given(case=cases(), tensors=st.booleans())
@CHECKED
def test_reads(device: str, case: Case, tensors: bool) -> None:
    want = wanted(case)
    got = Tensor(case.base)[ours(case.index, tensors)].numpy()
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@given(case=cases(), tensors=st.booleans(), random=DRAWN)
@CHECKED
def test_writes(device: str, case: Case, tensors: bool, random: Any) -> None:
    """Of several writes to one place the last stays; who read before has the old value."""
    given_ = values(wanted(case).shape, random)
    want = case.base.copy()
    want[case.index] = given_
    x = Tensor(case.base).realize() if random.random() < 0.5 else Tensor(case.base) * 1
    reader = x + 0.0
    x[ours(case.index, tensors)] = Tensor(given_)
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(reader.numpy(), case.base)


def add(x: Any, index: Any, value: Any) -> None:
    x[index] += value


def multiply(x: Any, index: Any, value: Any) -> None:
    x[index] *= value


def take_away(x: Any, index: Any, value: Any) -> None:
    x[index] -= value


@given(case=cases(), random=DRAWN, update=st.sampled_from([add, multiply, take_away]))
@CHECKED
def test_in_place_operators(
    device: str, case: Case, random: Any, update: Callable[[Any, Any, Any], None]
) -> None:
    """Repeated places are read before any is written, as numpy's."""
    given_ = values(wanted(case).shape, random)
    want = case.base.copy()
    update(want, case.index, given_)
    x = Tensor(case.base).realize()
    update(x, ours(case.index, False), Tensor(given_))
    np.testing.assert_array_equal(x.numpy(), want)


@given(case=cases(), random=DRAWN)
@CHECKED
def test_gradients(device: str, case: Case, random: Any) -> None:
    """What flows into a read adds up where it came from; into a write, it goes to the value that
    stayed, and past it to the base."""
    part = wanted(case)
    flow = np.array([random.randint(-9, 9) for _ in range(part.size)], np.float32)
    flow = flow.reshape(part.shape)
    want = np.zeros_like(case.base)
    np.add.at(want, case.index, flow)
    x = Tensor(case.base)
    index = ours(case.index, False)
    (got,) = x[index].gradient(x, gradient=Tensor(flow))
    np.testing.assert_array_equal(got.numpy(), want)

    numbers = np.arange(part.size).reshape(part.shape)
    stayed = np.full(case.base.shape, -1)
    stayed[case.index] = numbers
    weight = np.array([random.randint(-9, 9) for _ in range(case.base.size)], np.float32)
    weight = weight.reshape(case.base.shape)
    of_value = np.zeros(part.size, np.float32)
    np.add.at(of_value, stayed[stayed >= 0], weight[stayed >= 0])
    base, value = Tensor(case.base), Tensor(part * 0 - 1)
    whole = base * 1
    whole[index] = value
    got = whole.gradient(base, value, gradient=Tensor(weight), allow_unused=True)
    np.testing.assert_array_equal(got[0].numpy(), np.where(stayed < 0, weight, 0))
    np.testing.assert_array_equal(got[1].numpy(), of_value.reshape(part.shape))


@pytest.mark.parametrize(
    ("to", "source"),
    [
        (np.s_[1:], np.s_[:-1]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[::-1], np.s_[:]),
        (np.s_[::2], np.s_[1::2]),
        (np.s_[:, 1:], np.s_[:, :-1]),
        (np.s_[[0, 2, 1]], np.s_[[1, 0, 0]]),
        (np.s_[[3, 3], :2], np.s_[:2, 2:4]),
    ],
    ids=str,
)
@pytest.mark.parametrize("stored", [True, False])
def test_what_overlaps_itself_is_read_before_it_is_written(
    device: str, to: Any, source: Any, stored: bool
) -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    want = a.copy()
    want[to] = a[source].copy()
    x = Tensor(a).realize() if stored else Tensor(a) * 1
    before = x[source]
    x[to] = x[source]
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(before.numpy(), a[source])


def test_readers_of_each_old_value_see_it(device: str) -> None:
    """Three writes, a lazy reader between each, in whatever order they are computed."""
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):
        x, a = Tensor(np.arange(6, dtype=np.float32)).realize(), np.arange(6, dtype=np.float32)
        readers, want = [], []
        for index in (np.s_[::2], np.s_[[1, 1, 4]], np.s_[a > 2]):
            readers.append(x * 2)
            want.append(a * 2)
            x[index] += 10
            a = a.copy()
            a[index] += 10
        readers.append(x * 2)
        want.append(a * 2)
        for k in order:
            np.testing.assert_array_equal(readers[k].numpy(), want[k])
        np.testing.assert_array_equal(x.numpy(), a)
