"""Movement, joining and padding against numpy (F039, F040)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ArgumentError, PolygradError, ShapeError

A = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
M = np.arange(20, dtype=np.float32).reshape(4, 5)

CASES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Any], Any]]] = {
    "reshape": (lambda x: x.reshape(-1, 10), lambda a: a.reshape(-1, 10)),
    "reshape list": (lambda x: x.reshape([6, 10]), lambda a: a.reshape(6, 10)),
    "view": (lambda x: x.view(60), lambda a: a.reshape(60)),
    "flatten": (lambda x: x.flatten(1), lambda a: a.reshape(3, 20)),
    "ravel": (lambda x: x.ravel(), np.ravel),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)), lambda a: a.reshape(3, 2, 2, 5)),
    "squeeze": (lambda x: x.reshape(3, 1, 20, 1).squeeze(), lambda a: a.reshape(3, 20)),
    "squeeze one": (lambda x: x.reshape(3, 1, 20, 1).squeeze(1), lambda a: a.reshape(3, 20, 1)),
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda x: x.transpose(), lambda a: a.swapaxes(-2, -1)),
    "T": (lambda x: x.T, lambda a: a.T),
    "movedim": (lambda x: x.movedim(0, 2), lambda a: np.moveaxis(a, 0, 2)),
    "movedim two": (
        lambda x: x.movedim((0, 1), (-1, 0)),
        lambda a: np.moveaxis(a, (0, 1), (-1, 0)),
    ),
    "expand": (
        lambda x: x.reshape(3, 1, 20).expand(2, -1, 4, 20),
        lambda a: np.broadcast_to(a.reshape(3, 1, 20), (2, 3, 4, 20)),
    ),
    "shrink": (lambda x: x.shrink([(1, 3), None, (0, 2)]), lambda a: a[1:3, :, :2]),
    "flip": (lambda x: x.flip(0, -1), lambda a: np.flip(a, (0, 2))),
    "roll": (lambda x: x.roll(2, 1), lambda a: np.roll(a, 2, 1)),
    "roll all": (lambda x: x.roll(-7), lambda a: np.roll(a, -7)),
    "roll two": (lambda x: x.roll((1, -2), (0, 2)), lambda a: np.roll(a, (1, -2), (0, 2))),
    "repeat": (lambda x: x.repeat(2, 1, 1, 3), lambda a: np.tile(a, (2, 1, 1, 3))),
    "tile": (lambda x: x.tile(2), lambda a: np.tile(a, 2)),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), lambda a: np.repeat(a, 3, 1)),
    "unfold": (
        lambda x: x.unfold(2, 3, 2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 2)[:, :, ::2],
    ),
    "split": (lambda x: x.split((1, 3), 1)[1], lambda a: a[:, 1:]),
    "chunk": (lambda x: x.chunk(2, 2)[1], lambda a: a[:, :, 3:]),
    "unbind": (lambda x: x.unbind(1)[2], lambda a: a[:, 2]),
    "narrow": (lambda x: x.narrow(1, 1, 2), lambda a: a[:, 1:3]),
    "cat": (lambda x: x.cat(x, axis=1), lambda a: np.concatenate([a, a], 1)),
    "cat list": (lambda x: Tensor.cat([x, x, x], -1), lambda a: np.concatenate([a, a, a], -1)),
    "cat many": (lambda x: Tensor.cat([x] * 35, axis=2), lambda a: np.concatenate([a] * 35, 2)),
    "stack": (lambda x: Tensor.stack([x, x], axis=1), lambda a: np.stack([a, a], 1)),
    "pad torch": (lambda x: x.pad((1, 2, 0, 1)), lambda a: np.pad(a, ((0, 0), (0, 1), (1, 2)))),
    "pad pairs": (
        lambda x: x.pad(((1, 0), None, (0, 2)), value=7),
        lambda a: np.pad(a, ((1, 0), (0, 0), (0, 2)), constant_values=7),
    ),
    "pad negative": (
        lambda x: x.pad((-1, 2)),
        lambda a: np.pad(a[..., 1:], ((0, 0), (0, 0), (0, 2))),
    ),
    "pad reflect": (
        lambda x: x.pad((2, 3, 1, 0), "reflect"),
        lambda a: np.pad(a, ((0, 0), (1, 0), (2, 3)), "reflect"),
    ),
    "pad replicate": (
        lambda x: x.pad((2, 9), "replicate"),
        lambda a: np.pad(a, ((0, 0), (0, 0), (2, 9)), "edge"),
    ),
    "pad circular": (
        lambda x: x.pad((2, 5), "circular"),
        lambda a: np.pad(a, ((0, 0), (0, 0), (2, 5)), "wrap"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_movement_matches_numpy(device: str, name: str) -> None:
    ours, theirs = CASES[name]
    wanted = theirs(A)
    got = ours(Tensor(A)).numpy()
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("offset", [-5, -4, -2, 0, 1, 3, 7])
def test_diagonals_and_triangles(device: str, offset: int) -> None:
    np.testing.assert_array_equal(Tensor(M).diagonal(offset).numpy(), np.diagonal(M, offset))
    np.testing.assert_array_equal(Tensor(M[0]).diag(offset).numpy(), np.diag(M[0], offset))
    np.testing.assert_array_equal(Tensor(A).tril(offset).numpy(), np.tril(A, offset))
    np.testing.assert_array_equal(Tensor(A).triu(offset).numpy(), np.triu(A, offset))


def test_diagonal_of_other_axes(device: str) -> None:
    np.testing.assert_array_equal(Tensor(A).diagonal(1, 2, 0).numpy(), np.diagonal(A, 1, 2, 0))


def test_cat_promotes_and_skips_nothing(device: str) -> None:
    got = Tensor.cat([Tensor([1, 2]), Tensor([0.5])])
    assert (got.dtype.name, got.tolist()) == ("float32", [1.0, 2.0, 0.5])
    empty = Tensor(np.zeros((0, 2), np.float32))
    assert empty.cat(Tensor([[1.0, 2.0]])).tolist() == [[1.0, 2.0]]
    assert empty.cat(empty).shape == (0, 2)


def test_cat_and_pad_keep_nan_and_minus_zero_apart(device: str) -> None:
    got = Tensor.cat([Tensor([float("nan"), -0.0]), Tensor([float("inf"), 1.0])]).numpy()
    np.testing.assert_array_equal(got, [np.nan, -0.0, np.inf, 1.0])
    assert np.signbit(got[1])


def test_seventeen_axes(device: str) -> None:
    x = Tensor(np.arange(8.0, dtype=np.float32)).reshape((2, 2, 2) + (1,) * 14)
    wanted = x.numpy().sum(axis=1)
    np.testing.assert_array_equal(
        (x.permute(tuple(reversed(range(17)))) + 0).T.sum(1).numpy(), wanted
    )


def test_shape_queries() -> None:
    x = Tensor.zeros(2, 3)
    assert (x.shape, x.ndim, x.numel(), x.nbytes, x.element_size()) == ((2, 3), 2, 6, 24, 4)
    assert (x.size(), x.size(1), x.size(-2), x.dim()) == ((2, 3), 3, 2, 2)


Z = Tensor.zeros
MISTAKES: list[tuple[Callable[[], Any], type[PolygradError], str]] = [
    (
        lambda: Z(2, 3).reshape(4, 2),
        ShapeError,
        "reshape: (2, 3) has 6 elements, which do not make (4, 2) (8 elements).",
    ),
    (
        lambda: Z(2, 3).reshape(-1, 4),
        ShapeError,
        "reshape: (2, 3) has 6 elements, which do not make (-1, 4).",
    ),
    (
        lambda: Z(0, 3).reshape(0, -1),
        ShapeError,
        "reshape: (0, 3) to (0, -1): -1 could be any size.",
    ),
    (
        lambda: Z(2, 3).permute(0, 0),
        ArgumentError,
        "permute: (0, 0) does not name each axis of shape (2, 3) once.",
    ),
    (
        lambda: Z(2, 3).expand(4, 3),
        ShapeError,
        "expand: (2, 3) does not expand to (4, 3): only axes of size 1 grow.",
    ),
    (
        lambda: Z(2, 3).shrink([(0, 3), None]),
        ShapeError,
        "shrink: ((0, 3), (0, 3)) lies outside shape (2, 3).",
    ),
    (
        lambda: Z(2, 3).cat(Z(2, 4)),
        ShapeError,
        "cat: shapes (2, 3) and (2, 4) differ beyond axis 0.",
    ),
    (lambda: Tensor.stack([Z(2), Z(3)]), ShapeError, "stack: shapes (2,) and (3,) differ."),
    (lambda: Tensor.cat([]), ArgumentError, "cat takes at least one tensor."),
    (
        lambda: Z(2, 3).split((1, 1), 1),
        ShapeError,
        "split: sizes (1, 1) do not add up to axis 1 of (2, 3).",
    ),
    (
        lambda: Z(2, 3).pad((1, 1), "mirror"),
        ArgumentError,
        "pad: no mode named 'mirror'. Valid: constant, reflect, replicate, circular.",
    ),
    (
        lambda: Z(2, 3).pad((3, 0), "reflect"),
        ShapeError,
        "pad: reflecting (3, 0) needs more than 3 elements on axis 1.",
    ),
    (
        lambda: Z(2, 3).pad((1, 2, 3)),
        ShapeError,
        "pad: padding is a pair of integers for each of at most 2 axes, not (1, 2, 3).",
    ),
    (lambda: Z(3).tril(), ShapeError, "tril takes at least two axes, not shape (3,)."),
    (
        lambda: Z(2, 3).unfold(1, 4, 1),
        ShapeError,
        "unfold: size 4, step 1 do not fit axis 1 of (2, 3).",
    ),
    (
        lambda: Z(2, 3).reshape(2.0, 3),
        ArgumentError,
        "reshape: a size is an integer, not 2.0.",
    ),
    (lambda: Z(2, -3), ShapeError, "zeros: shape (2, -3) has a negative size."),
    (
        lambda: Z(6).unflatten(0, (4, -1)),
        ShapeError,
        "unflatten: an axis of size 6 does not split into (4, -1).",
    ),
    (
        lambda: Z(2, 3).narrow(1, 2, 2),
        ShapeError,
        "narrow: 2 elements from 2 leave axis 1 of (2, 3).",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES, ids=[t[:30] for _, _, t in MISTAKES])
def test_mistake_is_named(call: Callable[[], Any], kind: type[PolygradError], text: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == text
