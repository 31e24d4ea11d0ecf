"""Places of a tensor below its movements are the places on top of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polygrad
from polygrad import Tensor
from polygrad.schedule.sampling import Places, sampled
from polygrad.tensor.base import result
from polygrad.uop.ops import Ops, UOp

MOVED: dict[str, Callable[[UOp], UOp]] = {
    "a permutation": lambda u: u.permute((1, 0, 2)),
    "an expansion": lambda u: u.reshape((1, 6, 8, 5)).expand((3, 6, 8, 5)),
    "a flip": lambda u: u.flip((0, 2)),
    "a part": lambda u: u.shrink([(1, 6, 2), (0, 8, 1), (1, 5, 1)]),
    "padding": lambda u: u.pad([(2, 1, 0), (0, 3, 0), (1, 0, 0)]),
    "gaps": lambda u: u.pad([(1, 2, 1), (0, 0, 2), (0, 0, 0)]),
    "axes of length 1": lambda u: u.reshape((6, 1, 8, 1, 5)),
    "axes made one": lambda u: u.reshape((48, 5)),
    "windows": lambda u: u.window(1, 3, 2, 1),
    "dilated windows": lambda u: u.pad([(0, 0, 0), (1, 1, 0), (0, 0, 0)]).window(1, 3, 1, 2),
    "windows of gaps": lambda u: u.pad([(0, 0, 0), (2, 2, 1), (0, 0, 0)]).window(1, 3, 1, 1),
}


@pytest.mark.parametrize("name", MOVED)
def test_places_below_a_movement_are_those_on_top(name: str) -> None:
    values = np.arange(1, 241, dtype=np.float32).reshape(6, 8, 5)
    moved = MOVED[name](Tensor(values).uop)
    rng = np.random.default_rng(len(name))
    for _ in range(20):
        places: Places = []
        for n in moved.shape:
            step = int(rng.integers(1, 4))
            first = int(rng.integers(0, n))
            places.append((first, int(rng.integers(1, (n - 1 - first) // step + 2)), step))
        here = tuple(slice(f, f + (c - 1) * s + 1, s) for f, c, s in places)
        wanted = result(moved).numpy()[here]
        np.testing.assert_array_equal(result(sampled(moved, places)).numpy(), wanted)


def test_what_lies_outside_may_be_asked_for() -> None:
    made = sampled(Tensor(np.arange(1.0, 5.0)).uop, [(-2, 4, 2)])
    assert result(made).tolist() == [0, 1, 3, 0]


def test_elements_that_were_spread_lose_their_zeros() -> None:
    u = Tensor.empty(9).uop.pad([(2, 2, 1)]).window(0, 3, 1, 1)
    made = sampled(u, [(0, 9, 2), (0, 2, 2)])
    pads = [n.arg for n in made.toposort() if n.op is Ops.PAD]
    assert pads == [((1, 0, 0),)]


def test_parts_that_begin_anywhere_stay_as_they_are() -> None:
    """Where a part of what is padded begins may be known at each run alone."""
    x, w = np.arange(12, dtype=np.float32), np.ones((2, 4), np.float32)

    @polygrad.jit
    def product(a: Tensor, b: Tensor, start: int) -> Tensor:
        return b @ a.pad((1, 1))[start : start + 4]

    padded = np.pad(x, 1)
    for start in (0, 3, 9):
        found = product(Tensor(x), Tensor(w), start)
        np.testing.assert_array_equal(found.numpy(), w @ padded[start : start + 4])
