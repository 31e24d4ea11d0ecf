"""Item assignment, scatter and in-place operators, against numpy (F042)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ArgumentError, DTypeError, IndexError_, ShapeError

Rng = np.random.Generator
A = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
I0 = np.array([0, -1, 2])
I1 = np.array([[1, 0, -2], [3, 3, 2]])
MASK = np.arange(120).reshape(4, 5, 6) % 7 == 3

INDICES = [
    np.s_[0],
    np.s_[-1],
    np.s_[1:3],
    np.s_[::-1],
    np.s_[::2, ::-2],
    np.s_[..., 0],
    np.s_[...],
    np.s_[None, 1, :, None, 2:],
    np.s_[3:1],
    np.s_[:, 4:0:-2, ...],
    np.s_[0, 0, 0],
    np.s_[I0],
    np.s_[:, I0],
    np.s_[I1, I0],
    np.s_[I0, :, I0],
    np.s_[0, :, I0],
    np.s_[[], :],
    np.s_[1:, I0, ::-1],
    np.s_[::-1, I0],
    np.s_[[True, False, True, True]],
    np.s_[MASK],
    np.s_[:, MASK[0]],
]


@pytest.mark.parametrize("index", INDICES, ids=lambda i: str(i)[:40].replace("\n", ""))
def test_write_matches_numpy(device: str, index: Any, rng: Rng) -> None:
    for value in (7.0, rng.standard_normal(A[index].shape).astype(np.float32)):
        wanted = A.copy()
        wanted[index] = value
        x = Tensor(A)
        x[index] = Tensor(value)
        np.testing.assert_array_equal(x.numpy(), wanted)


def test_values_broadcast_and_take_the_dtype_of_the_tensor(device: str) -> None:
    x = Tensor([[1, 2, 3], [4, 5, 6]])
    x[:, 1:] = [7.9, 8]
    assert (x.tolist(), x.dtype.name) == ([[1, 7, 8], [4, 7, 8]], "int32")
    x[1] = np.array([[0, 0, 0]])
    assert x.tolist() == [[1, 7, 8], [0, 0, 0]]


def test_a_mask_tensor_writes_without_being_computed(device: str) -> None:
    x = Tensor(A)
    x[x > 50] = 0
    np.testing.assert_array_equal(x.numpy(), np.where(A > 50, 0, A))
    x[Tensor([True, False, False, True])] = Tensor([1.0, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(x.numpy()[0, 0], [1, 2, 3, 4, 5, 6])


def test_the_last_of_several_writes_to_one_place_stays(device: str) -> None:
    x = Tensor([0.0, 0.0])
    x[Tensor([1, 1, 1])] = Tensor([1.0, 2.0, 3.0])
    assert x.tolist() == [0.0, 3.0]


def test_overlapping_slices_read_the_old_value(device: str) -> None:
    x, wanted = Tensor(A), A.copy()
    x[1:] = x[:-1]
    wanted[1:] = A[:-1]
    np.testing.assert_array_equal(x.numpy(), wanted)


def test_a_lazy_reader_keeps_the_old_value(device: str) -> None:
    x = Tensor([1.0, 2.0]).realize()
    before = x * 10
    x[0] = 5
    assert x.tolist() == [5.0, 2.0]
    assert before.tolist() == [10.0, 20.0]
    assert x.tolist() == [5.0, 2.0]


def test_in_place_operators_on_slices(device: str) -> None:
    x, wanted = Tensor(A), A.copy()
    x[1:3] *= 2
    x[0] += 1
    x[:, 0] -= x[:, 1]
    wanted[1:3] *= 2
    wanted[0] += 1
    wanted[:, 0] -= wanted[:, 1]
    np.testing.assert_array_equal(x.numpy(), wanted)


def test_in_place_operators_change_the_object(device: str) -> None:
    x = Tensor([1, 2]).realize()
    same = x
    x += 1
    x *= 3
    assert same is x
    assert x.tolist() == [6, 9]
    with pytest.raises(DTypeError, match=r"/=: a result of float32 does not fit int32"):
        x /= 2
    with pytest.raises(ShapeError, match="=: the result"):
        x += Tensor([[1, 2], [3, 4]])
    assert x.tolist() == [6, 9]


# ---- scatter


def _scattered(base: Any, index: Any, source: Any, axis: int, combine: Any) -> Any:
    out = base.astype(np.float64)
    for place in np.ndindex(index.shape):
        target = list(place)
        target[axis] = index[place]
        out[tuple(target)] = combine(out[tuple(target)], source[place])
    return out


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter_writes_and_adds(device: str, axis: int, rng: Rng) -> None:
    index = rng.integers(0, A.shape[axis], (3, 4, 5))
    source = rng.standard_normal((3, 4, 6)).astype(np.float32)
    given = (axis, Tensor(index), Tensor(source))
    np.testing.assert_allclose(
        Tensor(A).scatter(*given).numpy(),
        _scattered(A, index, source, axis, lambda o, n: n),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        Tensor(A).scatter_add(*given).numpy(), _scattered(A, index, source, axis, np.add), rtol=1e-5
    )
    np.testing.assert_allclose(
        Tensor(A).scatter(axis, Tensor(index), 2.5, reduce="add").numpy(),
        _scattered(A, index, np.full(index.shape, 2.5), axis, np.add),
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    ("reduce", "combine"),
    [("sum", np.add), ("prod", np.multiply)] + [("amax", np.maximum), ("amin", np.minimum)],
)
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(
    device: str, reduce: str, combine: Any, include_self: bool, rng: Rng
) -> None:
    base = rng.standard_normal((4, 3)).astype(np.float32)
    index, source = rng.integers(0, 4, (6, 3)), rng.standard_normal((6, 3)).astype(np.float32)
    start = base.astype(np.float64)
    if not include_self:
        identity = {"sum": 0, "prod": 1, "amax": -np.inf, "amin": np.inf}[reduce]
        start = _scattered(base, index, np.full(index.shape, identity), 0, lambda o, n: n)
    wanted = _scattered(start, index, source, 0, combine)
    got = Tensor(base).scatter_reduce(0, Tensor(index), Tensor(source), reduce, include_self)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_scatter_reduce_by_mean(device: str) -> None:
    x = Tensor([10.0, 20.0, 30.0])
    index, source = Tensor([0, 0, 2]), Tensor([1.0, 4.0, 6.0])
    assert x.scatter_reduce(0, index, source, "mean").tolist() == [5.0, 20.0, 18.0]
    assert x.scatter_reduce(0, index, source, "mean", False).tolist() == [2.5, 20.0, 6.0]


def test_scatter_ignores_places_outside(device: str) -> None:
    got = Tensor([1.0, 2.0]).scatter(0, Tensor([5, -1]), Tensor([8.0, 9.0]))
    assert got.tolist() == [1.0, 9.0]


def test_mistakes_change_nothing(device: str) -> None:
    x = Tensor([[1.0, 2.0, 3.0]]).realize()
    for index, value, kind in [
        (np.s_[0, 3], 1.0, IndexError_),
        (np.s_[:, 1:], [1.0, 2.0, 3.0], ShapeError),
        (np.s_["a"], 1.0, ArgumentError),
    ]:
        with pytest.raises(kind):
            x[index] = value
    with pytest.raises(ShapeError) as error:
        x[:, 1:] = Tensor([1.0, 2.0, 3.0])
    assert str(error.value) == "setitem: a value of shape (3,) does not fit (1, 2)."
    with pytest.raises(ArgumentError) as wrong:
        x.scatter(0, Tensor([[0]]), 1.0, reduce="or")
    assert str(wrong.value) == (
        "scatter: no reduce named 'or'. Valid: add, sum, multiply, prod, amax, amin."
    )
    with pytest.raises(ShapeError, match="scatter: values"):
        x.scatter(0, Tensor([[0, 0]]), Tensor([[1.0]]))
    assert x.tolist() == [[1.0, 2.0, 3.0]]
