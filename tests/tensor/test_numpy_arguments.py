"""Arguments that numpy's functions have, with numpy as the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ArgumentError, PolygradError, ShapeError

A = np.array([[1.0, 4.0, 9.0], [2.0, 3.0, 5.0]])
ENDS: list[dict[str, Any]] = [
    {"prepend": 0.0},
    {"append": 7.0},
    {"prepend": 1.0, "append": 2.0},
    {"prepend": A},
    {"prepend": A, "append": A},
]


@pytest.mark.parametrize("ends", ENDS, ids=range(len(ENDS)))
@pytest.mark.parametrize(("axis", "n"), [(0, 1), (1, 1), (-1, 2)])
def test_differences_with_something_beside(device: str, ends: Any, axis: int, n: int) -> None:
    given = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in ends.items()}
    wanted = np.diff(A, n, axis=axis, **ends)
    assert Tensor(A).diff(n, axis=axis, **given).tolist() == wanted.tolist()


def test_a_side_of_searchsorted(device: str) -> None:
    table, values = np.array([1, 2, 2, 3]), np.array([2, 0, 9])
    for side in ("left", "right"):
        got = Tensor(table).searchsorted(Tensor(values), side=side)
        assert got.tolist() == np.searchsorted(table, values, side=side).tolist()
    with pytest.raises(ArgumentError, match=r"no side named 'rigth'\. Did you mean 'right'\?"):
        Tensor(table).searchsorted(Tensor(values), side="rigth")


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (4,), (1, 2, 2)])
def test_nonzero_as_a_tuple_is_an_index(device: str, shape: tuple[int, ...]) -> None:
    a = np.arange(np.prod(shape)).reshape(shape) % 2
    got, wanted = Tensor(a).nonzero(as_tuple=True), np.nonzero(a)
    assert [t.tolist() for t in got] == [t.tolist() for t in wanted]
    assert Tensor(a)[got].tolist() == a[wanted].tolist()


def test_what_is_not_among_elements(device: str) -> None:
    a = np.array([[1, 2], [3, 1]])
    assert Tensor(a).isin([1, 7], invert=True).tolist() == np.isin(a, [1, 7], invert=True).tolist()


@pytest.mark.parametrize("repeats", [[1, 0, 2], [0, 0, 0], [3]])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_each_element_repeated_as_its_own_number_says(
    device: str, repeats: list[int], axis: int | None
) -> None:
    a = np.arange(9.0).reshape(3, 3) if axis is not None else np.arange(3.0)
    wanted = np.repeat(a, repeats, axis).tolist()
    for given in (repeats, np.array(repeats), Tensor(repeats)):
        assert Tensor(a).repeat_interleave(given, axis).tolist() == wanted
    x = Tensor(a)
    (slope,) = x.repeat_interleave(repeats, axis).sum().gradient(x)
    counts = np.broadcast_to(repeats, 3)
    assert (
        slope.tolist() == (np.zeros_like(a) + (counts[:, None] if axis == 0 else counts)).tolist()
    )


@pytest.mark.parametrize(
    ("repeats", "error", "text"),
    [
        ([1, 2], ShapeError, "repeats int32 (2,) are no integers for the 3 elements of axis 0"),
        ([1.0, 2, 1], ShapeError, "repeats float32 (3,) are no integers for the 3 elements"),
        ([1, 2, -1], ArgumentError, "repeat_interleave: repeats has -1, which is less than 0."),
    ],
)
def test_wrong_repeats(device: str, repeats: Any, error: type[PolygradError], text: str) -> None:
    with pytest.raises(error) as told:
        Tensor([1, 2, 3]).repeat_interleave(repeats)
    assert text in str(told.value)


# ---- numpy's names

SPECIAL = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan])
PAIRS = [v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL)]


@pytest.mark.parametrize(
    "name",
    ["arccos", "arcsin", "arctan", "arcsinh", "fix", "negative", "deg2rad", "rad2deg"]
    + ["isposinf", "isneginf"],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_name_of_numpy_at_special_values(device: str, name: str) -> None:
    got, wanted = getattr(Tensor(SPECIAL), name)().numpy(), getattr(np, name)(SPECIAL)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-14)


@pytest.mark.parametrize("name", ["fmax", "fmin", "arctan2", "subtract", "multiply", "divide"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_name_of_numpy_of_two_at_special_values(device: str, name: str) -> None:
    a, b = PAIRS
    got, wanted = getattr(Tensor(a), name)(Tensor(b)).numpy(), getattr(np, name)(a, b)
    np.testing.assert_allclose(got, wanted, rtol=1e-14)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sums_and_means_of_what_is_a_number(device: str, axis: Any, keepdim: bool) -> None:
    a = np.array([[1.0, np.nan, 3.0], [np.nan] * 3, [np.inf, 2.0, 0.0]])
    for name in ("nansum", "nanmean"):
        got = getattr(Tensor(a), name)(axis, keepdim).numpy()
        wanted = getattr(np, name)(a, axis, keepdims=keepdim)
        np.testing.assert_allclose(got, wanted, rtol=1e-14)
    assert Tensor([1, 2]).nansum().dtype.name == "int64"


def test_xlogy_is_0_at_0_whatever_the_other_is_and_so_is_its_slope(device: str) -> None:
    x, y = Tensor([0.0, 0.0, 0.0, 2.0]), Tensor([0.0, -1.0, np.inf, 1.0])
    got = x.xlogy(y)
    assert got.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert [g.tolist() for g in x.xlogy(y).sum().gradient(x, y)] == [
        [0.0] * 4,
        [0.0, 0.0, 0.0, 2.0],
    ]
    assert np.isnan(Tensor([0.0]).xlogy(Tensor([np.nan])).item())


def test_tensor_split_is_array_split(device: str) -> None:
    a = np.arange(10.0).reshape(5, 2)
    for cut in (1, 3, 5, 7, [2], [1, 4], [4, 1], [0, 9], []):
        got, wanted = Tensor(a).tensor_split(cut), np.array_split(a, cut)
        assert [t.tolist() for t in got] == [w.tolist() for w in wanted]
