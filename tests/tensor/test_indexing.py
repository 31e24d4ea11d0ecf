"""Reading with an index, gather and take, against numpy (F041, F042)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ArgumentError, DTypeError, IndexError_, PolygradError, ShapeError

Rng = np.random.Generator
A = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
I0 = np.array([0, -1, 2])
I1 = np.array([[1, 0, -2], [3, 3, 2]])
MASK = np.arange(120).reshape(4, 5, 6) % 7 == 3
ROWS = np.array([True, False, True, True])

BASIC = [
    np.s_[0],
    np.s_[-1],
    np.s_[1:3],
    np.s_[::-1],
    np.s_[::2, ::-2],
    np.s_[..., 0],
    np.s_[...],
    np.s_[()],
    np.s_[None, 1, :, None, 2:],
    np.s_[3:1],
    np.s_[:, 4:0:-2, ...],
    np.s_[0, 0, 0],
    np.s_[10:, -100:2],
    np.s_[np.int64(2), np.uint8(1)],
    np.s_[:, 2::-1],
    np.s_[-1:-5:-3],
]
ADVANCED = [
    np.s_[I0],
    np.s_[:, I0],
    np.s_[I0, I0],
    np.s_[I1, I0],
    np.s_[I0, :, I0],
    np.s_[0, :, I0],
    np.s_[:, 0, I0],
    np.s_[I0, 0],
    np.s_[:, I1],
    np.s_[I0, None, I0],
    np.s_[None, I0, :, 2],
    np.s_[[0, 1], [1, 2]],
    np.s_[:, :, I1],
    np.s_[1:, I0, ::-1],
    np.s_[[], :],
    np.s_[:, None, I1, 1],
    np.s_[..., I0, :],
    np.s_[:, I0, ..., I0],
    np.s_[[]],
    np.s_[range(1, 3), range(2)],
    np.s_[[[0], [1]]],
    np.s_[I0.astype(np.uint8) % 4],
    np.s_[ROWS],
    np.s_[[True, False, True, True]],
    np.s_[MASK],
    np.s_[ROWS, :, [0, 1, 2]],
    np.s_[:, MASK[0]],
    np.s_[MASK[:, :, 0]],
    np.s_[np.zeros(4, bool)],
]


@pytest.mark.parametrize("index", BASIC + ADVANCED, ids=lambda i: str(i)[:40].replace("\n", ""))
def test_read_matches_numpy(device: str, index: Any) -> None:
    wanted = A[index]
    got = Tensor(A)[index].numpy()
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


def test_tensors_as_indices(device: str) -> None:
    x = Tensor(A)
    np.testing.assert_array_equal(x[Tensor(I0)].numpy(), A[I0])
    np.testing.assert_array_equal(x[Tensor(2)].numpy(), A[2])
    np.testing.assert_array_equal(x[Tensor(I1), :, Tensor(I0)].numpy(), A[I1, :, I0])
    np.testing.assert_array_equal(x[x > 100].numpy(), A[A > 100])
    np.testing.assert_array_equal(x[:, Tensor([3]).sum()].numpy(), A[:, 3])


def test_an_index_tensor_outside_its_axis_reads_0(device: str) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x[Tensor([0, 2, -3])].tolist() == [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    assert x[Tensor([0, 1, 2]), Tensor([2, 1, 0])].tolist() == [0.0, 4.0, 0.0]


def test_gather_reads_along_an_axis(device: str, rng: Rng) -> None:
    x = Tensor(A)
    for axis, n in enumerate(A.shape):
        shape = [2, 3, 4]
        shape[axis] = 7
        index = rng.integers(0, n, shape)
        cut = tuple(slice(0, m) if a != axis else slice(None) for a, m in enumerate(shape))
        wanted = np.take_along_axis(A[cut], index, axis)
        np.testing.assert_array_equal(x.gather(axis, Tensor(index)).numpy(), wanted)


def test_take_along_axis_broadcasts(device: str) -> None:
    index = np.argsort(-A, axis=1)[:, :2]
    np.testing.assert_array_equal(
        Tensor(A).take_along_axis(index, 1).numpy(), np.take_along_axis(A, index, 1)
    )
    one = np.array([[[3]], [[1]], [[0]], [[4]]])
    wanted = np.take_along_axis(A, np.broadcast_to(one, (4, 1, 6)), 1)
    np.testing.assert_array_equal(Tensor(A).take_along_axis(one, 1).numpy(), wanted)


def test_take_and_selections(device: str) -> None:
    x = Tensor(A)
    np.testing.assert_array_equal(x.take([1, 3], 1).numpy(), A.take([1, 3], 1))
    np.testing.assert_array_equal(x.take([1, 50]).numpy(), A.take([1, 50]))
    np.testing.assert_array_equal(x.index_select(2, [5, 0]).numpy(), A[:, :, [5, 0]])
    np.testing.assert_array_equal(x.masked_select(x > 100).numpy(), A[A > 100])
    np.testing.assert_array_equal(x.nonzero().numpy(), np.argwhere(A))


TRUTHS: list[Any] = [
    True,
    False,
    np.True_,
    np.array(False),
    (0, True),
    (slice(None), True),
    (True, slice(None), 0),
    (..., True),
    (None, True),
    ([0, 1], True),
    ([1], False),
    (0, False, slice(None)),
    (True, False),
    ([0, 1], slice(None), True),
]


@pytest.mark.parametrize("index", TRUTHS, ids=str)
def test_a_mask_without_axes_is_a_new_axis_of_one_element_or_none(device: str, index: Any) -> None:
    """As numpy has it, reading and writing."""
    want, x = A[index], Tensor(A).realize()
    got = x[index].numpy()
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    changed, more = A.copy(), np.arange(want.size, dtype=np.float32).reshape(want.shape)
    changed[index] = more
    x[index] = Tensor(more)
    np.testing.assert_array_equal(x.numpy(), changed)


def test_a_condition_that_is_a_tensor_without_axes(device: str) -> None:
    x = Tensor([3.0, 4.0]).realize()
    assert x[x.sum() > 5].tolist() == [[3.0, 4.0]]
    assert x[x.sum() > 9].shape == (0, 2)
    x[x.sum() > 5] = 1.0
    assert x.tolist() == [1.0, 1.0]


def test_embedding_lookup_is_a_gather(device: str) -> None:
    table = Tensor(np.arange(12.0, dtype=np.float32).reshape(4, 3))
    assert table[Tensor([[3, 0]])].tolist() == [[[9.0, 10.0, 11.0], [0.0, 1.0, 2.0]]]


X = Tensor.zeros(4, 5, 6)
MISTAKES: list[tuple[Callable[[], Any], type[PolygradError], str]] = [
    (lambda: X[4], IndexError_, "index 4 is outside axis 0 of shape (4, 5, 6)."),
    (lambda: X[0, -6], IndexError_, "index -6 is outside axis 1 of shape (4, 5, 6)."),
    (lambda: X[[0, 4]], IndexError_, "index 4 is outside axis 0 of shape (4, 5, 6)."),
    (lambda: X[:, np.array([-7])], IndexError_, "index -7 is outside axis 1 of shape (4, 5, 6)."),
    (lambda: X[0, 0, 0, 0], IndexError_, "4 indices are too many for shape (4, 5, 6)."),
    (lambda: X[..., ...], IndexError_, "an index has one Ellipsis at most."),
    (lambda: X[1.5], ArgumentError, "an index is made of integers, slices and arrays, not 1.5."),
    (lambda: X[np.array(1.5)], DTypeError, "an index holds integers or bools, not float32."),
    (lambda: X["a"], ArgumentError, "an index is made of integers, slices and arrays, not 'a'."),
    (lambda: X[Tensor([0.5])], DTypeError, "an index holds integers or bools, not float32."),
    (
        lambda: X[[True, False]],
        IndexError_,
        "a mask of size 2 does not fit axis 0 of shape (4, 5, 6).",
    ),
    (lambda: X[::0], ArgumentError, "an index slice(None, None, 0): slice step cannot be zero."),
    (
        lambda: X[Tensor([0, 1]), Tensor([0, 1, 2])],
        ShapeError,
        "index: shapes (2,) and (3,) do not broadcast: axis -1 is 2 and 3.",
    ),
    (
        lambda: X.gather(0, Tensor([[[0] * 7]])),
        ShapeError,
        "gather: index (1, 1, 7) must be no larger than (4, 5, 6) beside axis 0.",
    ),
    (
        lambda: X.gather(0, Tensor([[[0.5]]])),
        DTypeError,
        "gather: an index holds integers, not float32.",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES, ids=[t[:40] for _, _, t in MISTAKES])
def test_mistake_is_named(call: Callable[[], Any], kind: type[PolygradError], text: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == text
