"""Chains of movements, drawn by hypothesis, give numpy's elements in numpy's places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygrad import Tensor

Array = Any
Draw = st.DataObject
Step = tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]


def _axis(draw: Draw, x: Array) -> int:
    return draw.draw(st.integers(-x.ndim, x.ndim - 1), "axis")


def reshape(draw: Draw, x: Array) -> Step:
    sizes, left = [], x.size
    while left > 1 and draw.draw(st.booleans(), "split"):
        n = draw.draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]), "size")
        sizes.append(n)
        left //= n
    shape = (*sizes, left) if x.size else x.shape
    return lambda t: t.reshape(shape), lambda a: a.reshape(shape)


def permute(draw: Draw, x: Array) -> Step:
    order = draw.draw(st.permutations(range(x.ndim)), "order")
    return lambda t: t.permute(*order) if order else t, lambda a: a.transpose(order)


def flip(draw: Draw, x: Array) -> Step:
    axis = _axis(draw, x)
    return lambda t: t.flip(axis), lambda a: np.flip(a, axis)


def cut(draw: Draw, x: Array) -> Step:
    axis = _axis(draw, x) % x.ndim
    ends = st.none() | st.integers(-x.shape[axis] - 2, x.shape[axis] + 2)
    step = draw.draw(st.sampled_from([None, 1, 2, 3, -1, -2]), "step")
    part = slice(draw.draw(ends, "start"), draw.draw(ends, "stop"), step)
    index = (slice(None),) * axis + (part,)
    return lambda t: t[index], lambda a: a[index]


def pad(draw: Draw, x: Array) -> Step:
    before, after = draw.draw(st.tuples(st.integers(0, 2), st.integers(0, 2)), "around")
    around = [(0, 0)] * (x.ndim - 1) + [(before, after)]
    return (
        lambda t: t.pad((before, after), value=-7),
        lambda a: np.pad(a, around, constant_values=-7),
    )


def roll(draw: Draw, x: Array) -> Step:
    axis, shift = _axis(draw, x), draw.draw(st.integers(-5, 5), "shift")
    return lambda t: t.roll(shift, axis), lambda a: np.roll(a, shift, axis)


def repeat(draw: Draw, x: Array) -> Step:
    axis, times = _axis(draw, x), draw.draw(st.integers(0, 3), "times")
    return lambda t: t.repeat_interleave(times, axis), lambda a: np.repeat(a, times, axis)


def unsqueeze(draw: Draw, x: Array) -> Step:
    axis = draw.draw(st.integers(-x.ndim - 1, x.ndim), "axis")
    return lambda t: t.unsqueeze(axis), lambda a: np.expand_dims(a, axis)


def expand(draw: Draw, x: Array) -> Step:
    n = draw.draw(st.integers(1, 3), "size")
    return lambda t: t.expand(n, *t.shape), lambda a: np.broadcast_to(a, (n, *a.shape))


def windows(draw: Draw, x: Array) -> Step:
    axis = _axis(draw, x) % x.ndim
    n = x.shape[axis]
    if not n:
        return permute(draw, x)
    size, step = draw.draw(st.tuples(st.integers(1, n), st.integers(1, 3)), "window")
    every = (slice(None),) * axis + (slice(None, None, step),)
    view = np.lib.stride_tricks.sliding_window_view
    return lambda t: t.unfold(axis, size, step), lambda a: view(a, size, axis)[every]


def joined(draw: Draw, x: Array) -> Step:
    axis = _axis(draw, x)
    return (
        lambda t: t.cat(t.flip(axis), axis=axis),
        lambda a: np.concatenate([a, np.flip(a, axis)], axis),
    )


MOVES = (
    reshape, permute, flip, cut, pad, roll, repeat, unsqueeze, expand, windows, joined
)  # fmt: skip


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(draw=st.data())
def test_a_chain_of_movements_is_numpys(device: str, draw: Draw) -> None:
    shape = draw.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3), "shape")
    x: Array = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    t = Tensor(x)
    for _ in range(draw.draw(st.integers(1, 5), "length")):
        if x.size > 500 or x.ndim > 6:
            break
        ours, numpys = draw.draw(st.sampled_from(MOVES), "move")(draw, x)
        t, x = ours(t), numpys(x)
    np.testing.assert_array_equal(t.numpy(), x, strict=True)
