"""Index tensors outside their axes: a defined meaning by default, an IndexError under
POLY_CHECK=1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor, nn
from polygrad.errors import IndexError_

X = np.arange(1.0, 13.0, dtype=np.float32).reshape(3, 4)


def set_rows(index: Tensor) -> Tensor:
    x = Tensor(X)
    x[index] = 9.0
    return x


def embedded(index: Tensor) -> Tensor:
    layer = nn.Embedding(3, 4)
    layer.weight = Tensor(X)
    return layer(index)


# name in the error -> (operation of an index of shape (2,), the size of its axis, its legal part)
VECTORS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray], Any]]] = {
    "getitem": (lambda i: Tensor(X)[i], lambda i: X[i]),
    "getitem of the second axis": (lambda i: Tensor(X)[:, i], lambda i: X[:, i]),
    "getitem beside an index": (lambda i: Tensor(X)[i, [0, 1]], lambda i: X[i, [0, 1]]),
    "take": (lambda i: Tensor(X).take(i, 0), lambda i: X.take(i, 0)),
    "index_select": (lambda i: Tensor(X).index_select(0, i), lambda i: X[i]),
    "Embedding": (embedded, lambda i: X[i]),
    "setitem": (set_rows, lambda i: _put(i, lambda x, r: x.__setitem__(r, 9.0))),
    "index_put": (
        lambda i: Tensor(X).index_put((i,), 9.0),
        lambda i: _put(i, lambda x, r: x.__setitem__(r, 9.0)),
    ),
    "index_add": (
        lambda i: Tensor(X).index_add(0, i, Tensor.ones(2, 4)),
        lambda i: _put(i, lambda x, r: np.add.at(x, r, 1.0)),
    ),
    "gather": (
        lambda i: Tensor(X).gather(0, i.reshape(2, 1).expand(2, 4)),
        lambda i: X[i],
    ),
    "scatter": (
        lambda i: Tensor(X).scatter(0, i.reshape(2, 1).expand(2, 4), 9.0),
        lambda i: _put(i, lambda x, r: x.__setitem__(r, 9.0)),
    ),
    "scatter_add": (
        lambda i: Tensor(X).scatter_add(0, i.reshape(2, 1).expand(2, 4), 1.0),
        lambda i: _put(i, lambda x, r: np.add.at(x, r, 1.0)),
    ),
    "scatter_reduce": (
        lambda i: Tensor(X).scatter_reduce(0, i.reshape(2, 1).expand(2, 4), 100.0, "amax"),
        lambda i: _put(i, lambda x, r: x.__setitem__(r, 100.0)),
    ),
}


def _put(index: np.ndarray, write: Callable[[np.ndarray, np.ndarray], Any]) -> np.ndarray:
    x = X.copy()
    write(x, index[(index >= -3) & (index < 3)])
    return x


@pytest.mark.parametrize("name", VECTORS)
def test_legal_indices_pass(device: str, name: str) -> None:
    ours, theirs = VECTORS[name]
    for values in ([0, 2], [1, 1], [-1, -3]):
        index = np.array(values)
        with Context(POLY_CHECK=1):
            np.testing.assert_array_equal(ours(Tensor(index)).numpy(), theirs(index))


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("wrong", [3, 2**31 - 1, -5, -(2**31)])
def test_one_outside_is_named(device: str, name: str, wrong: int) -> None:
    """The operation, the position, the value and the size; nothing is half written."""
    wrong = wrong + 1 if wrong == 3 and "second" in name else wrong
    call = VECTORS[name][0]
    index = Tensor([1, wrong])
    with Context(POLY_CHECK=1), pytest.raises(IndexError_) as error:
        call(index)
    place = "1, 0" if "gather" in name or "scatter" in name else "1,"
    axis = 1 if "second" in name else 0
    assert str(error.value) == (
        f"{name.split()[0]}: element ({place}) of the index is {wrong}, outside axis {axis} of"
        " shape (3, 4)."
    )
    assert isinstance(error.value, IndexError)


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("wrong", [4, -5, 2**31 - 1, -(2**31)])
def test_without_the_setting_it_reads_zero_and_writes_nothing(
    device: str, name: str, wrong: int
) -> None:
    """Deterministic, and within the tensor's own memory (interp checks every address)."""
    ours, theirs = VECTORS[name]
    got = ours(Tensor([1, wrong]).realize()).numpy()
    if "getitem" in name or name in ("gather", "take", "index_select", "Embedding"):
        expected = np.asarray(theirs(np.array([1, 1]))).copy()
        expected[..., 1:2] = 0.0 if "second" in name else expected[..., 1:2]
        if "second" not in name:
            expected[1] = 0.0
    else:
        expected = theirs(np.array([1, wrong]))
    np.testing.assert_array_equal(got, expected)


def test_setitem_leaves_the_tensor_alone(device: str) -> None:
    x = Tensor(X)
    with Context(POLY_CHECK=1), pytest.raises(IndexError_, match="setitem"):
        x[Tensor([0, 7])] = 1.0
    np.testing.assert_array_equal(x.numpy(), X)


def test_labels_are_checked(device: str) -> None:
    scores = Tensor(X)
    good, bad = Tensor([0, 3, -100]), Tensor([0, 3, 4])
    with Context(POLY_CHECK=1):
        scores.cross_entropy(good, ignore_index=-100).item()
        with pytest.raises(IndexError_, match=r"element \(2,\) of the index is 4.* 4 classes"):
            scores.cross_entropy(bad)
        with pytest.raises(IndexError_, match=r"element \(1,\) of the index is -1"):
            scores.cross_entropy(Tensor([0, -1, 2]))


def test_class_numbers_are_checked(device: str) -> None:
    """one_hot; max_unpool2d; ctc_loss, whose padding may be anything."""
    x, places = Tensor(X.reshape(1, 1, 3, 4)).max_pool2d(2, 1, return_indices=True)
    logs = Tensor(np.zeros((4, 2, 3), np.float32)).log_softmax(2)
    steps, lengths = Tensor([4, 4]), Tensor([2, 1])

    def ctc(labels: list[list[int]]) -> Tensor:
        return logs.ctc_loss(Tensor(labels), steps, lengths)

    assert Tensor([3, -1]).one_hot(3).tolist() == [[0, 0, 0]] * 2
    with Context(POLY_CHECK=1):
        assert Tensor([2, 0]).one_hot(3).tolist() == [[0, 0, 1], [1, 0, 0]]
        assert x.max_unpool2d(places, 2, 1).shape == (1, 1, 3, 4)
        assert np.isfinite(ctc([[1, 2], [1, -1]]).item())
        for call, text in (
            (lambda: Tensor([2, 3]).one_hot(3), r"one_hot: element \(1,\) .* 3, .*the 3 classes"),
            (lambda: Tensor([-1, 3]).one_hot(3), r"one_hot: element \(0,\) of the index is -1"),
            (lambda: x.max_unpool2d(places + 12, 2, 1), r"max_unpool2d: element \(0, 0, 0, 0\)"),
            (lambda: ctc([[1, 3], [1, 9]]), r"ctc_loss: element \(0, 1\) of the index is 3"),
        ):
            with pytest.raises(IndexError_, match=text):
                call()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_every_integer_type_is_an_index(device: str, dtype: str) -> None:
    top = np.iinfo(dtype).max
    with Context(POLY_CHECK=1):
        assert Tensor(X)[Tensor([2], dtype=dtype)].tolist() == X[[2]].tolist()
        with pytest.raises(IndexError_, match=f"is {top}, outside"):
            Tensor(X)[Tensor([top], dtype=dtype)]
    assert Tensor(X)[Tensor([top], dtype=dtype)].tolist() == [[0.0] * 4]


def test_nothing_is_computed_without_the_setting(device: str) -> None:
    index = Tensor([0, 1]) + 1
    _ = Tensor(X)[index]
    assert "lazy" in repr(index)
    with Context(POLY_CHECK=1):
        _ = Tensor(X)[index]
    assert "lazy" not in repr(index)
