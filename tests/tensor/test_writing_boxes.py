"""Assignments to a part of a tensor against numpy: any boxes, in any number and order, over values
that are read from the very tensor, with readers of the old values in between (F041, F067).

A write in place stores its box only (tests/schedule/test_boxes.py), so what this is about is what
it must leave alone: elements beside the box, old values that somebody still reads, and the order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygrad import Context, Tensor, Variable, jit

CHECKED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
DTYPES = (np.float32, np.int32, np.bool_, np.int8, np.float64)


class Place(NamedTuple):
    """An item of an index at p: an integer, or a slice of `length`, from `start` on."""

    start: int
    length: int | None
    moves: bool

    def at(self, p: Any) -> Any:
        first = p + self.start if self.moves else self.start
        return first if self.length is None else slice(first, first + self.length)


class Write(NamedTuple):
    index: tuple[Any, ...]  # slices, integers and Places
    kind: str  # of the value: number, array, row (broadcast), itself, shifted, doubled
    seed: int
    read: bool  # whether the old value is read before
    realized: bool  # whether it is carried out at once


def draw_item(draw: Any, n: int, most: int) -> Any:
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return slice(None)
    if kind == 1:
        return draw(st.integers(-n, n - 1))
    if kind <= 3:
        ends = st.none() | st.integers(-n - 1, n + 1)
        return slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))
    length = draw(st.none() | st.integers(1, 3))
    start = draw(st.integers(0, max(n - most - (length or 1), 0)))
    return Place(start, length, start + most + (length or 1) <= n)


@st.composite
def programs(draw: Any) -> tuple[tuple[int, ...], type, list[Write]]:
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 5, 8, 9, 17]), min_size=1, max_size=3)))
    writes = []
    for _ in range(draw(st.integers(1, 5))):
        index = tuple(draw_item(draw, n, 3) for n in shape[: draw(st.integers(1, len(shape)))])
        kind = draw(st.sampled_from(["number", "array", "row", "itself", "shifted", "doubled"]))
        flags = draw(st.booleans()), draw(st.integers(0, 3)) == 0
        writes.append(Write(index, kind, draw(st.integers(0, 99)), *flags))
    return shape, draw(st.sampled_from(DTYPES)), writes


def index_of(write: Write, p: Any) -> Any:
    return tuple(i.at(p) if isinstance(i, Place) else i for i in write.index)


def apply(x: Any, write: Write, p: Any, number: Any, wrap: Any) -> None:
    """One write, to an array of numpy's or a tensor of ours."""
    index = index_of(write, p)
    shape = np.empty(tuple(x.shape))[index_of(write, 0)].shape
    kept = np.dtype(str(x.dtype).removeprefix("dtypes."))
    random = np.random.default_rng(write.seed)
    if write.kind == "number":
        x[index] = bool(number) if kept == np.bool_ else number
    elif write.kind == "array":
        x[index] = wrap(random.integers(0, 9, shape).astype(kept))
    elif write.kind == "row":
        x[index] = wrap(random.integers(0, 9, shape[-1:]).astype(kept))
    elif write.kind == "doubled":
        x[index] = x[index] | True if kept == np.bool_ else x[index] * 2
    elif write.kind == "itself":
        turned = x[index][::-1] if shape else x[index]
        x[index] = turned if wrap is Tensor else turned.copy()
    else:  # what stands one place before, around the end
        other = wrap(np.roll(x, 1, 0)) if wrap is not Tensor else rolled(x)
        x[index] = other[index]


def rolled(x: Tensor) -> Tensor:
    return Tensor.cat(x[-1:], x[:-1]) if x.shape[0] > 1 else x * 1


def started(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 9, shape).astype(dtype)


@pytest.mark.parametrize("fused", [1, 0])
@given(program=programs())
@CHECKED
def test_eager(device: str, fused: int, program: Any) -> None:
    """The second and third round write elsewhere: by then a place is a variable of the Plan."""
    shape, dtype, writes = program
    want = started(shape, dtype)
    with Context(POLY_FUSION=fused):
        x = Tensor(want).realize()
        for p in (0, 1, 3):
            readers = []
            for write in writes:
                if write.read:
                    readers.append((x.cast("float32") * 2 + 1, want.astype(np.float32) * 2 + 1))
                number = write.seed % 7 + p
                apply(want, write, p, number, np.asarray)
                apply(x, write, p, number, Tensor)
                if write.realized:
                    x.realize()
            np.testing.assert_array_equal(x.numpy(), want)
            for got, old in reversed(readers):
                np.testing.assert_array_equal(got.numpy(), old)


@given(program=programs())
@CHECKED
def test_captured(device: str, program: Any) -> None:
    """State across calls, places that each call gives; what is returned was read on the way."""
    shape, dtype, writes = program
    want = started(shape, dtype)
    x = Tensor(want).realize()

    def ours(p: int) -> list[Tensor]:
        out = []
        for write in writes:
            if write.read:
                out.append(x.cast("float32").sum(0))
            apply(x, write, p, write.seed % 7, Tensor)
        return [*out, x.cast("float32") + 1]

    compiled = jit(ours)
    for p in (0, 1, 3, 2, 1):
        held = (x + x, want + want) if p == 3 else None
        wanted = []
        for write in writes:
            if write.read:
                wanted.append(want.astype(np.float32).sum(0))
            apply(want, write, p, write.seed % 7, np.asarray)
        wanted.append(want.astype(np.float32) + 1)
        for got, one in zip(compiled(p), wanted, strict=True):
            np.testing.assert_array_equal(got.numpy(), one)
        np.testing.assert_array_equal(x.numpy(), want)
        if held is not None:
            np.testing.assert_array_equal(held[0].numpy(), held[1])
    assert compiled.stats()["captures"] == 1


@pytest.mark.parametrize("step", [None, 2])
def test_a_place_that_is_a_bound_variable(device: str, step: int | None) -> None:
    place = Variable("place", 0, 5)
    want = started((3, 9), np.float32)
    x = Tensor(want).realize()
    for p in (0, 2, 5, 3):
        x[:, place.bind(p)] = Tensor([1.0, 2.0, 3.0]) * p
        want[:, p] = np.array([1, 2, 3], np.float32) * p
        x[1:, place.bind(p) : place.bind(p) + 4 : step] = p + 0.5
        want[1:, p : p + 4 : step] = p + 0.5
        np.testing.assert_array_equal(x.numpy(), want)
