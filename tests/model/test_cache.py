"""A decoder with its cache as auxiliary state: each call writes one place, reads all (F090)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from polygrad import Model, Tensor

POSITIONS, WIDTH = 48, 8


class Decoder:
    """One head of attention over what it has seen; the keys before the values in one tensor."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.w = Tensor(rng.normal(size=(WIDTH, 3 * WIDTH)).astype(np.float32), requires_grad=True)
        self.cache = Tensor(np.zeros((2, POSITIONS, WIDTH), np.float32), requires_grad=False)

    def __call__(self, x: Tensor, place: Tensor) -> Tensor:
        q, k, v = (x @ self.w).chunk(3)
        self.cache[0, place] = k
        self.cache[1, place] = v
        seen = Tensor.arange(POSITIONS) <= place
        scores = seen.where(self.cache[0] @ q, float("-inf"))
        return scores.softmax(-1) @ self.cache[1]


def attention(w: np.ndarray, xs: list[np.ndarray]) -> np.ndarray:
    q, k, v = np.split(np.stack(xs).astype(np.float64) @ w, 3, 1)
    scores = k @ q[-1]
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ v


def test_a_cache_that_a_model_keeps(device: str, tmp_path: Path) -> None:
    author = Decoder()
    model = Model(author, inputs={"x": (WIDTH,), "place": ((), "int32")})
    rng = np.random.default_rng(6)
    xs: list[np.ndarray] = []
    w = author.w.numpy().astype(np.float64)
    for place in range(6):
        xs.append(rng.normal(size=WIDTH).astype(np.float32))
        if place == 4:  # goes on from a file
            model.save(tmp_path / "decoder.pgb")
            model = Model.load(tmp_path / "decoder.pgb")
        reader = author.cache * 2 if place == 2 else None
        got = model.forward(x=xs[-1], place=np.int32(place))["output"]
        np.testing.assert_allclose(got, attention(w, xs), rtol=2e-5, atol=1e-6)
        if reader is not None:
            assert not reader.numpy()[:, place].any()
            assert reader.numpy()[:, place - 1].any()
