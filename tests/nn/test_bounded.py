"""F096: layers over bounded batches and sequences give what they give for the fixed size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor, Variable, nn
from polygrad.engine.counters import counters

n, t = Variable("n", 1, 12), Variable("t", 1, 9)
_rng = np.random.default_rng(0)
IMAGES = _rng.standard_normal((12, 6, 8, 8)).astype(np.float32)
ROWS = _rng.standard_normal((12, 9, 16)).astype(np.float32)
IDS = _rng.integers(0, 20, (12, 9)).astype(np.int32)
SIZES = ((5, 3), (12, 9), (1, 1))

Layer = Callable[[], Any]
CASES: dict[str, tuple[Layer, str, Callable[[Any, Tensor], Tensor]]] = {
    "Conv2d": (lambda: nn.Conv2d(6, 4, 3, padding=1), "images", lambda m, x: m(x)),
    "BatchNorm": (lambda: nn.BatchNorm(6), "images", lambda m, x: m(x)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 6), "images", lambda m, x: m(x)),
    "LayerNorm": (lambda: nn.LayerNorm(16), "rows", lambda m, x: m(x)),
    "RMSNorm": (lambda: nn.RMSNorm(16), "rows", lambda m, x: m(x)),
    "Linear": (lambda: nn.Linear(16, 5), "rows", lambda m, x: m(x)),
    "Embedding": (lambda: nn.Embedding(20, 4), "ids", lambda m, x: m(x)),
    "attention": (lambda: nn.MultiheadAttention(16, 4), "rows", lambda m, x: m(x, x, x)[0]),
    "LSTM": (lambda: nn.LSTM(16, 3), "batch", lambda m, x: m(x.transpose(0, 1))[0]),
    "GRU": (lambda: nn.GRU(16, 3), "batch", lambda m, x: m(x.transpose(0, 1))[0]),
    "pooling": (object, "images", lambda m, x: x.max_pool2d(2)),
    "classification": (
        object,
        "rows",
        lambda m, x: x.reshape(-1, 16).cross_entropy(x.argmax(-1).flatten()),
    ),
}


def part(kind: str, k: Any, length: Any) -> Tensor:
    whole = {"images": IMAGES, "ids": IDS}.get(kind, ROWS)
    x = Tensor(whole).realize()
    return x[:k, :length] if kind in ("rows", "ids") else x[:k]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_layer_over_bounded_axes(name: str, training: bool, device: str) -> None:
    make, kind, call = CASES[name]
    made = []
    for k, length in SIZES:
        one, other = make(), make()
        if kept := nn.get_state_dict(one):
            nn.load_state_dict(other, kept)
        with Context(TRAINING=training):
            before = counters.plans_made
            found = call(one, part(kind, n.bind(k), t.bind(length))).numpy()
            made.append(counters.plans_made - before)
            wanted = call(other, part(kind, k, length)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
        for key, value in nn.get_state_dict(one).items():
            same = nn.get_state_dict(other)[key]
            np.testing.assert_allclose(value.numpy(), same.numpy(), rtol=2e-4, atol=2e-5)
    assert not any(made[1:])
