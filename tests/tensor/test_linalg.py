"""Products against numpy in float64 (F024, F043)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ArgumentError, PolygradError, ShapeError

Rng = np.random.Generator
SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 1, 3, 4), (5, 4, 6)),
    ((4,), (5, 4, 6)),
    ((2, 3, 4), (4,)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_matmul_takes_vectors_matrices_and_batches(device: str, a: Any, b: Any, rng: Rng) -> None:
    x, y = rng.standard_normal(a).astype(np.float32), rng.standard_normal(b).astype(np.float32)
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    got = (Tensor(x) @ Tensor(y)).numpy()
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_matmul_sizes_around_tiles(device: str, rng: Rng) -> None:
    for m, k, n in [(17, 33, 9), (64, 65, 31), (8, 128, 32)]:
        x, y = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        got = (Tensor(x.astype(np.float32)) @ Tensor(y.astype(np.float32))).numpy()
        np.testing.assert_allclose(got, x @ y, rtol=2e-4, atol=2e-4)


def test_int8_products_accumulate_in_int32(device: str) -> None:
    a = np.full((1, 300), 100, np.int8)
    got = Tensor(a) @ Tensor(a).T
    assert (got.dtype.name, got.item()) == ("int32", 3_000_000)


def test_half_products_accumulate_in_float32(device: str) -> None:
    a = Tensor(np.full((1, 4096), 0.25, np.float16))
    got = a @ Tensor(np.ones((4096, 1), np.float16))
    assert (got.dtype.name, got.item()) == ("float16", 1024.0)
    assert a.matmul(a.T, dtype="float32").dtype.name == "float32"


def test_mixed_dtypes_promote(device: str) -> None:
    got = Tensor([[1, 2]]) @ Tensor([[0.5], [0.25]])
    assert (got.dtype.name, got.tolist()) == ("float32", [[1.0]])


def test_outer_dot_and_linear(device: str) -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    assert x.outer(y).tolist() == [[3.0, 4.0], [6.0, 8.0]]
    assert x.dot(y).item() == 11.0
    assert x.linear(Tensor([[1.0], [2.0]]), Tensor([0.5])).tolist() == [5.5]
    assert (np.array([[1.0, 2.0]], np.float32) @ x).tolist() == [5.0]


EINSUM = [
    ("ij,jk->ik", ((3, 4), (4, 5))),
    ("ij->ji", ((3, 4),)),
    ("ij", ((3, 4),)),
    ("ba", ((3, 4),)),
    ("ii->i", ((4, 4),)),
    ("ii", ((4, 4),)),
    ("iii->", ((3, 3, 3),)),
    ("iij->ij", ((3, 3, 2),)),
    ("ij,ij->", ((3, 4), (3, 4))),
    ("bij,bjk", ((2, 3, 4), (2, 4, 5))),
    ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 6))),
    ("i...->...", ((2, 3, 4),)),
    ("i...,i", ((2, 3, 4), (2,))),
    ("i,j->ij", ((3,), (4,))),
    ("ijk,jk,i->k", ((3, 4, 5), (4, 5), (3,))),
    ("ij,j", ((3, 4), (4,))),
    ("ij,j->ij", ((3, 4), (1,))),
    ("ii,ij->j", ((4, 4), (4, 5))),
    (" i j , k j -> i k ", ((3, 4), (2, 4))),
    ("ij->", ((0, 3),)),
]


@pytest.mark.parametrize(("formula", "shapes"), EINSUM)
def test_einsum_matches_numpy(device: str, formula: str, shapes: Any, rng: Rng) -> None:
    arrays = [rng.standard_normal(s) for s in shapes]
    wanted = np.einsum(formula, *arrays)
    got = Tensor.einsum(formula, *(Tensor(a.astype(np.float32)) for a in arrays)).numpy()
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


Z = Tensor.zeros
MISTAKES: list[tuple[Callable[[], Any], type[PolygradError], str]] = [
    (
        lambda: Z(2, 3) @ Z(2, 3),
        ShapeError,
        "matmul: shapes (2, 3) and (2, 3) do not match: the last axis is 3, the second last one"
        " of the other 2. other.T would fit.",
    ),
    (
        lambda: Z(2, 3) @ Z(4, 5),
        ShapeError,
        "matmul: shapes (2, 3) and (4, 5) do not match: the last axis is 3, the second last one"
        " of the other 4.",
    ),
    (
        lambda: Z(2, 3) @ Z(2),
        ShapeError,
        "matmul: shapes (2, 3) and (2,) do not match: the last axis is 3, the only one of the"
        " other 2.",
    ),
    (
        lambda: Tensor(1.0) @ Z(2),
        ShapeError,
        "matmul: shapes () and (2,) do not match: a 0-d tensor has no axis to sum over; use *.",
    ),
    (
        lambda: Z(2, 2, 3) @ Z(3, 3, 4),
        ShapeError,
        "matmul: shapes (2, 2, 3) and (3, 3, 4): their batches (2,) and (3,) do not broadcast.",
    ),
    (
        lambda: Z(2, 3).outer(Z(3)),
        ShapeError,
        "outer takes two vectors, not shapes (2, 3) and (3,).",
    ),
    (
        lambda: Tensor.einsum("ij,jk", Z(2, 3)),
        ArgumentError,
        "einsum: 'ij,jk' names 2 operands, 1 were given.",
    ),
    (
        lambda: Tensor.einsum("ij,jk", Z(2, 3), Z(4, 5)),
        ShapeError,
        "einsum: 'ij,jk' with shapes (2, 3), (4, 5): label 'j' is 3 and 4.",
    ),
    (
        lambda: Tensor.einsum("ij->k", Z(2, 3)),
        ArgumentError,
        "einsum: 'k' of 'ij->k' repeats a label or names a new one.",
    ),
    (
        lambda: Tensor.einsum("i1", Z(2, 3)),
        ArgumentError,
        "einsum: 'i1' has labels that are no letters.",
    ),
    (
        lambda: Tensor.einsum("ijk", Z(2, 3)),
        ShapeError,
        "einsum: 'ijk' of 'ijk' does not fit shape (2, 3).",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES, ids=[t[:40] for _, _, t in MISTAKES])
def test_mistake_is_named(call: Callable[[], Any], kind: type[PolygradError], text: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == text
