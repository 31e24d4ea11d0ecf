"""Losses against their formulas in float64 (F132 takes both kinds of targets)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from polygrad import Tensor
from polygrad.errors import ArgumentError, ShapeError

Rng = np.random.Generator
REDUCTIONS = ["mean", "sum", "none"]


def reduced(loss: Any, reduction: str, weight: Any = None) -> Any:
    if reduction == "none":
        return loss
    total = loss.sum()
    return total if reduction == "sum" else total / (loss.size if weight is None else weight.sum())


def close(got: Tensor, wanted: Any) -> None:
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=2e-5, atol=1e-6)


def class_loss(scores: Any, y: Any, w: Any, ignore: int, smoothing: float) -> tuple[Any, Any]:
    """Loss of each row and the weight it has in a mean."""
    logs = special.log_softmax(scores.astype(np.float64), 1)
    rows = np.arange(len(y))
    counted = y != ignore
    safe = np.where(counted, y, 0)
    hard = -(w[safe] * logs[rows, safe])
    even = -(w * logs).sum(1) / scores.shape[1]
    return counted * ((1 - smoothing) * hard + smoothing * even), counted * w[safe]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_class_numbers(
    device: str, reduction: str, smoothing: float, rng: Rng
) -> None:
    scores = (rng.standard_normal((6, 5)) * 20).astype(np.float32)
    y, w = np.array([0, 4, 2, 1, 1, 3], np.int32), np.abs(rng.standard_normal(5)).astype(np.float32)
    loss, share = class_loss(scores, y, np.ones(5), -100, smoothing)
    x = Tensor(scores)
    close(x.cross_entropy(Tensor(y), reduction, smoothing), reduced(loss, reduction, share))
    loss, share = class_loss(scores, y, w.astype(np.float64), 1, smoothing)
    got = x.cross_entropy(Tensor(y), reduction, smoothing, ignore_index=1, weight=Tensor(w))
    close(got, reduced(loss, reduction, share))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy_of_probabilities(device: str, reduction: str, rng: Rng) -> None:
    scores = rng.standard_normal((6, 5)).astype(np.float32)
    p = special.softmax(rng.standard_normal((6, 5)), 1).astype(np.float32)
    loss = -(p * special.log_softmax(scores.astype(np.float64), 1)).sum(1)
    close(Tensor(scores).cross_entropy(Tensor(p), reduction), reduced(loss, reduction))


def test_cross_entropy_has_classes_in_axis_1(device: str, rng: Rng) -> None:
    scores, y = rng.standard_normal((2, 5, 3, 4)).astype(np.float32), rng.integers(0, 5, (2, 3, 4))
    logs = special.log_softmax(scores.astype(np.float64), 1)
    wanted = -np.take_along_axis(logs, y[:, None], 1).mean()
    close(Tensor(scores).cross_entropy(Tensor(y)), wanted)
    last = np.moveaxis(scores, 1, -1).copy()
    close(Tensor(last).cross_entropy(Tensor(y), axis=-1), wanted)
    close(Tensor(last).sparse_categorical_crossentropy(Tensor(y)), wanted)
    close(Tensor(scores[0, :, 0, 0].copy()).cross_entropy(Tensor(2)), -logs[0, 2, 0, 0])


def test_cross_entropy_of_certain_scores_is_finite(device: str) -> None:
    x = Tensor([[1000.0, -1000.0]])
    assert x.cross_entropy(Tensor([0])).item() == 0.0
    assert x.cross_entropy(Tensor([1])).item() == 2000.0


def test_nll_loss(device: str, rng: Rng) -> None:
    logs, y = rng.standard_normal((4, 3)), np.array([2, 0, 1, 1])
    x = Tensor(logs.astype(np.float32))
    close(x.nll_loss(Tensor(y)), -logs[np.arange(4), y].mean())
    close(x.nll_loss(Tensor(y), ignore_index=1, reduction="sum"), -logs[0, 2] - logs[1, 0])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropies(device: str, reduction: str, rng: Rng) -> None:
    scores = (rng.standard_normal((3, 4)) * 40).astype(np.float32)
    y, w = rng.uniform(size=(3, 4)).astype(np.float32), np.array([1, 2, 0.5, 3], np.float32)
    wide = scores.astype(np.float64)
    loss = -(w * y * special.log_expit(wide) + (1 - y) * special.log_expit(-wide))
    got = Tensor(scores).binary_crossentropy_logits(Tensor(y), reduction, Tensor(w))
    close(got, reduced(loss, reduction))
    p = np.array([0.0, 1.0, 0.25, 0.5], np.float32)
    t = np.array([0.0, 0.5, 1.0, 0.0], np.float32)
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(p), -100), np.maximum(np.log(1 - p), -100)
    loss = -(t * logs[0] + (1 - t) * logs[1])
    close(Tensor(p).binary_crossentropy(Tensor(t), reduction), reduced(loss, reduction))


def test_a_sure_prediction_that_is_right_has_no_slope_and_a_wrong_one_a_number(device: str) -> None:
    p = Tensor([0.0, 1.0, 0.0, 1.0, 0.5])
    (g,) = p.binary_crossentropy(Tensor([0.0, 1.0, 1.0, 0.0, 1.0]), "sum").gradient(p)
    np.testing.assert_allclose(g.numpy(), [0, 0, -1e12, 1e12, -2], rtol=1e-6)
    scores = Tensor([20.0, 200.0, -200.0])  # their sigmoids are 1, 1 and 0 in float32
    (g,) = scores.sigmoid().binary_crossentropy(Tensor([1.0, 1.0, 0.0]), "sum").gradient(scores)
    assert g.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_distances(device: str, reduction: str, rng: Rng) -> None:
    a, b = rng.standard_normal((2, 3, 4)).astype(np.float32)
    x, y, d = Tensor(a), Tensor(b), np.abs(a.astype(np.float64) - b)
    close(x.mse_loss(y, reduction), reduced(d**2, reduction))
    close(x.l1_loss(y, reduction), reduced(d, reduction))
    huber = np.where(d <= 0.7, d**2 / 2, 0.7 * (d - 0.35))
    close(x.huber_loss(y, 0.7, reduction), reduced(huber, reduction))
    close(x.smooth_l1_loss(y, 0.7, reduction), reduced(huber / 0.7, reduction))
    p = special.softmax(b, 1)
    p[0, 0] = 0
    close(x.kl_div(Tensor(p), reduction), reduced(special.xlogy(p, p) - p * a, reduction))


def test_loss_of_integers_is_float(device: str) -> None:
    got = Tensor([1, 3]).mse_loss(Tensor([2, 5]))
    assert (got.dtype.name, got.item()) == ("float32", 2.5)


def test_mistakes_are_named() -> None:
    x = Tensor.zeros(4, 3)
    with pytest.raises(ShapeError) as error:
        x.cross_entropy(Tensor([[0, 1, 2, 0]]))
    assert str(error.value) == (
        "cross_entropy: scores (4, 3) with classes in axis 1 take class numbers of shape (4,),"
        " got int32 (1, 4)."
    )
    with pytest.raises(ShapeError, match=r"mse_loss: shapes \(4, 3\) and \(3,\) differ."):
        x.mse_loss(Tensor.zeros(3))
    with pytest.raises(ArgumentError, match="mse_loss: no reduction named 'avg'"):
        x.mse_loss(x, "avg")
    with pytest.raises(ArgumentError, match=r"label_smoothing lies in \[0, 1\], not 2.0"):
        x.cross_entropy(Tensor([0, 1, 2, 0]), label_smoothing=2.0)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_pinball(device: str, reduction: str, rng: Rng) -> None:
    a, b = rng.standard_normal((2, 3, 4)).astype(np.float32)
    gap = b.astype(np.float64) - a
    wanted = reduced(np.maximum(0.9 * gap, -0.1 * gap), reduction)
    close(Tensor(a).pinball_loss(Tensor(b), 0.9, reduction), wanted)
    with pytest.raises(ArgumentError, match=r"pinball_loss: quantile lies in \[0, 1\], not 2."):
        Tensor(a).pinball_loss(Tensor(b), 2)
