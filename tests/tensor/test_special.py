"""Functions of several variables, small conveniences, resampling and pickles."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ArgumentError, PolygradError, ShapeError

Rng = np.random.Generator
SPECIAL = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3.7, -2.5, 1e30, -1e-30], np.float32)
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(10, dtype=np.float32).reshape(2, 5) - 4
C = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
D = np.arange(60, dtype=np.float32).reshape(3, 4, 5) / 10
V = np.array([[1, 2, 3], [4, 0, -1]], np.float32)


@pytest.mark.parametrize(("name", "wanted"), [("atan2", np.arctan2), ("hypot", np.hypot)])
def test_function_of_two_at_special_values(device: str, name: str, wanted: Any) -> None:
    a, b = (m.ravel() for m in np.meshgrid(SPECIAL, SPECIAL))
    got = getattr(Tensor(a), name)(Tensor(b)).numpy()
    with np.errstate(all="ignore"):
        exact = wanted(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(got, exact, rtol=1e-6)
    np.testing.assert_array_equal(
        np.signbit(got), np.signbit(exact) | (np.isnan(got) & np.signbit(got))
    )


CASES: dict[str, tuple[Callable[[], Tensor], Any]] = {
    "kron": (lambda: Tensor(A).kron(Tensor(B)), np.kron(A, B)),
    "kron of a vector": (lambda: Tensor(A).kron(Tensor(B[0])), np.kron(A, B[0])),
    "tensordot": (lambda: Tensor(C).tensordot(Tensor(D)), np.tensordot(C, D)),
    "tensordot axes": (
        lambda: Tensor(C).tensordot(Tensor(D), ([2, 1], [1, 0])),
        np.tensordot(C, D, ([2, 1], [1, 0])),
    ),
    "tensordot none": (lambda: Tensor(A).tensordot(Tensor(B), 0), np.tensordot(A, B, 0)),
    "addmm": (lambda: Tensor(A @ A.T).addmm(Tensor(A), Tensor(A).T, 2, 3), 5 * A @ A.T),
    "cross": (lambda: Tensor(V).cross(Tensor(V[::-1].copy())), np.cross(V, V[::-1])),
    "trace": (lambda: Tensor(A).trace(1), np.trace(A, 1)),
    "vstack": (lambda: Tensor.vstack(Tensor(A[0]), Tensor(A)), np.vstack([A[0], A])),
    "hstack": (lambda: Tensor.hstack([Tensor(A), Tensor(A)]), np.hstack([A, A])),
    "hstack of vectors": (
        lambda: Tensor.hstack(Tensor(A[0]), Tensor(B[0])),
        np.hstack([A[0], B[0]]),
    ),
    "diff": (lambda: Tensor(D).diff(2, 1), np.diff(D, 2, 1)),
    "diff to nothing": (lambda: Tensor(A).diff(9), np.diff(A, 9)),
    "rot90": (lambda: Tensor(C).rot90(1, (0, 2)), np.rot90(C, 1, (0, 2))),
    "rot90 back": (lambda: Tensor(C).rot90(-5, (2, 1)), np.rot90(C, -5, (2, 1))),
    "rearrange": (
        lambda: Tensor(C).rearrange("a b (c d) -> (b a) d 1 c", d=2),
        C.reshape(2, 3, 2, 2).transpose(1, 0, 3, 2).reshape(6, 2, 1, 2),
    ),
    "isin": (lambda: Tensor([1, 2, 3]).isin([2, 5]), np.array([False, True, False])),
    "index_add": (
        lambda: Tensor(A).index_add(0, Tensor([0, -1, 0]), Tensor(A), 2),
        A + 2 * np.stack([A[0] + A[2], 0 * A[0], A[1]]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_convenience_matches_numpy(device: str, name: str) -> None:
    ours, wanted = CASES[name]
    got = ours().numpy()
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_norms_over_groups(device: str, rng: Rng) -> None:
    a = rng.standard_normal((2, 6, 4, 5)).astype(np.float32)
    groups = a.reshape(2, 3, -1).astype(np.float64)
    wanted = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(
        groups.var(-1, keepdims=True) + 1e-5
    )
    x = Tensor(a)
    np.testing.assert_allclose(
        x.group_norm(3).numpy(), wanted.reshape(a.shape), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(x.instance_norm().numpy(), x.group_norm(6).numpy())
    mean_square = np.mean(a.astype(np.float64) ** 2, -1, keepdims=True)
    np.testing.assert_allclose(x.rms_norm().numpy(), a / np.sqrt(mean_square + 1e-6), rtol=1e-5)


def _resampled(a: Any, n: int, mode: str, corners: bool) -> Any:
    """Of the last axis, in float64."""
    old = a.shape[-1]
    i = np.arange(n)
    if mode == "bicubic":
        at = i * (old - 1) / max(n - 1, 1) if corners else (i + 0.5) * old / n - 0.5
        out = 0
        for step in range(-1, 3):
            place = np.floor(at) + step
            d = abs(at - place)
            near = 1.25 * d**3 - 2.25 * d**2 + 1
            weight = np.where(d <= 1, near, -0.75 * (d**3 - 5 * d**2 + 8 * d - 4))
            out = out + a[..., np.clip(place, 0, old - 1).astype(int)] * weight
        return out
    if mode == "nearest":
        return a[..., i * old // n]
    if mode == "nearest-exact":
        return a[..., np.floor((i + 0.5) * old / n).astype(int)]
    at = (
        i * (old - 1) / max(n - 1, 1) if corners else np.clip((i + 0.5) * old / n - 0.5, 0, old - 1)
    )
    low = np.floor(at).astype(int)
    return a[..., low] + (a[..., np.minimum(low + 1, old - 1)] - a[..., low]) * (at - low)


@pytest.mark.parametrize("size", [(8, 10), (2, 3), (7, 5), (1, 1)])
@pytest.mark.parametrize(
    ("mode", "corners"),
    [
        ("bicubic", False),
        ("bicubic", True),
        ("linear", False),
        ("linear", True),
        ("nearest", False),
        ("nearest-exact", False),
    ],
)
def test_interpolate(device: str, size: Any, mode: str, corners: bool, rng: Rng) -> None:
    a = rng.standard_normal((2, 4, 5)).astype(np.float32)
    wanted = _resampled(a.swapaxes(1, 2), size[0], mode, corners).swapaxes(1, 2)
    wanted = _resampled(wanted, size[1], mode, corners)
    got = Tensor(a).interpolate(size, mode, corners).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_attention_matches_its_formula(device: str, rng: Rng) -> None:
    q, k, v = rng.standard_normal((3, 2, 4, 5)).astype(np.float32)
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(5)

    def attend(s: Any) -> Any:
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    x = Tensor(q), Tensor(k), Tensor(v)
    causal = np.tril(np.ones((4, 4), bool))
    attention = Tensor.scaled_dot_product_attention
    cases = [
        (attention(*x), scores),
        (attention(*x, is_causal=True), np.where(causal, scores, -np.inf)),
        (attention(*x, attn_mask=Tensor(causal)), np.where(causal, scores, -np.inf)),
        (attention(*x, attn_mask=Tensor(causal.astype(np.float32))), scores + causal),
    ]
    for got, wanted in cases:
        np.testing.assert_allclose(got.numpy(), attend(wanted), rtol=1e-4, atol=1e-5)
    grouped = attention(x[0], x[1][:1], x[2][:1], enable_gqa=True)
    full = attention(x[0], x[1][:1].expand(2, 4, 5), x[2][:1].expand(2, 4, 5))
    np.testing.assert_allclose(grouped.numpy(), full.numpy(), rtol=1e-6)


def test_pickle_and_deepcopy_carry_values_and_marks(device: str) -> None:
    x = Tensor([1.5, 2.5], requires_grad=True).is_param_()
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert (y.tolist(), y.requires_grad, y.is_param, y.device) == (
            [1.5, 2.5],
            True,
            True,
            device,
        )
        y.assign(y + 1).realize()
    assert x.tolist() == [1.5, 2.5]
    assert pickle.loads(pickle.dumps(Tensor([1], dtype="bfloat16") + 1)).tolist() == [2.0]


MISTAKES: list[tuple[Callable[[], Any], type[PolygradError], str]] = [
    (
        lambda: Tensor(A).tensordot(Tensor(B)),
        ShapeError,
        "tensordot: axes [0, 1] of (3, 4) and [0, 1] of (2, 5) differ.",
    ),
    (
        lambda: Tensor(A).cross(Tensor(A)),
        ShapeError,
        "cross takes vectors of three, not (3, 4) and (3, 4).",
    ),
    (
        lambda: Tensor(A).rearrange("a b -> a c"),
        ArgumentError,
        "rearrange: 'a b -> a c' must name each axis once on both sides.",
    ),
    (
        lambda: Tensor(A).rearrange("(a b -> a b"),
        ArgumentError,
        "rearrange: '(a b -> a b' has an open bracket.",
    ),
    (
        lambda: Tensor(A).interpolate((2,), "area"),
        ArgumentError,
        "interpolate: no mode named 'area'. Valid: linear, bilinear, trilinear, bicubic, nearest,"
        " nearest-exact.",
    ),
    (
        lambda: Tensor(A).group_norm(3),
        ShapeError,
        "group_norm: shape (3, 4) does not fall into 3 groups.",
    ),
    (
        lambda: Tensor(A).scaled_dot_product_attention(Tensor(B), Tensor(B)),
        ShapeError,
        "scaled_dot_product_attention: queries (3, 4) and keys (2, 5) differ in their last axis.",
    ),
    (lambda: Tensor.vstack(), ArgumentError, "a stack takes at least one tensor."),
]


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES, ids=[t[:40] for _, _, t in MISTAKES])
def test_mistake_is_named(call: Callable[[], Any], kind: type[PolygradError], text: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == text
