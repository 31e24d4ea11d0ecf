"""CTC loss against the sum over every alignment, and its gradient against differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from polygrad import Tensor
from polygrad.errors import PolygradError

Rng = np.random.Generator


def collapsed(path: tuple[int, ...], blank: int) -> list[int]:
    return [c for c, _ in itertools.groupby(path) if c != blank]


def ctc(logs: Any, y: Any, steps: Any, labels: Any, blank: int = 0) -> Any:
    """By listing all paths."""
    out = []
    for n in range(logs.shape[1]):
        wanted = list(y[n, : labels[n]])
        paths = itertools.product(range(logs.shape[2]), repeat=int(steps[n]))
        fitting = [p for p in paths if collapsed(p, blank) == wanted]
        scores = [sum(logs[t, n, c] for t, c in enumerate(p)) for p in fitting]
        out.append(-logsumexp(scores) if scores else np.inf)
    return np.array(out)


Y = np.array([[1, 2, 0], [2, 2, 1], [1, 0, 0], [1, 1, 2]], np.int32)
STEPS, LABELS = np.array([4, 5, 3, 3]), np.array([2, 2, 0, 3])  # the last fits nowhere


@pytest.mark.parametrize("blank", [0, 3])
def test_ctc_sums_over_alignments(device: str, blank: int, rng: Rng) -> None:
    logs = log_softmax(rng.standard_normal((5, 4, 4)), -1)
    wanted = ctc(logs, Y, STEPS, LABELS, blank)
    assert np.isinf(wanted[3])
    args = (Tensor(Y), Tensor(STEPS), LABELS.tolist(), blank)
    x = Tensor(logs.astype(np.float32))
    np.testing.assert_allclose(x.ctc_loss(*args, "none").numpy(), wanted, rtol=1e-5)
    finite = np.where(np.isinf(wanted), 0, wanted)
    mean = (finite / np.maximum(LABELS, 1)).mean()
    assert x.ctc_loss(*args, zero_infinity=True).item() == pytest.approx(mean, rel=1e-5)
    total = x.ctc_loss(*args, "sum", zero_infinity=True)
    assert total.item() == pytest.approx(finite.sum(), rel=1e-5)


def test_gradient_of_ctc(device: str, rng: Rng) -> None:
    logs = log_softmax(rng.standard_normal((5, 4, 4)), -1)
    x = Tensor(logs.astype(np.float32))
    loss = x.ctc_loss(Tensor(Y), STEPS, LABELS, reduction="sum", zero_infinity=True)
    (g,) = loss.gradient(x)
    for at in [(0, 0, 1), (3, 0, 2), (2, 1, 2), (1, 2, 0), (4, 0, 1), (1, 3, 1)]:
        values = []
        for step in (1e-6, -1e-6):
            moved = logs.copy()
            moved[at] += step
            every = ctc(moved, Y, STEPS, LABELS)
            values.append(every[np.isfinite(every)].sum())
        assert g.numpy()[at] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-4)


def test_ctc_names_what_does_not_fit() -> None:
    x = Tensor.zeros(5, 2, 3)
    with pytest.raises(PolygradError, match=r"takes log-probabilities \(T, N, classes\)"):
        x.ctc_loss(Tensor([1, 2]), [5, 5], [1, 1])
    with pytest.raises(PolygradError, match="blank 3 is no class below 3"):
        x.ctc_loss(Tensor([[1], [2]]), [5, 5], [1, 1], blank=3)
    with pytest.raises(PolygradError, match="lengths are 2 integers"):
        x.ctc_loss(Tensor([[1], [2]]), [5], [1, 1])
