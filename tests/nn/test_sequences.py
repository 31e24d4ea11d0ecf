"""Recurrent layers, attention and the gated delta rule against their formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from polygrad import Tensor, jit, nn
from polygrad.errors import ArgumentError, ShapeError

Rng = np.random.Generator


def close(got: Tensor, wanted: Any, tolerance: float = 2e-5) -> None:
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.numpy(), wanted, rtol=tolerance, atol=tolerance)


def weights(layer: Any, suffix: str) -> list[Any]:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(layer, n + suffix).numpy().astype(np.float64) for n in names]


def lstm_step(x: Any, h: Any, c: Any, w: list[Any]) -> tuple[Any, Any]:
    i, f, g, o = np.split(x @ w[0].T + w[2] + h @ w[1].T + w[3], 4, -1)
    c = expit(f) * c + expit(i) * np.tanh(g)
    return expit(o) * np.tanh(c), c


def gru_step(x: Any, h: Any, w: list[Any]) -> Any:
    (xr, xz, xn), (hr, hz, hn) = (
        np.split(x @ w[0].T + w[2], 3, -1),
        np.split(h @ w[1].T + w[3], 3, -1),
    )
    z = expit(xz + hz)
    return (1 - z) * np.tanh(xn + expit(xr + hr) * hn) + z * h


def test_gru_cell(device: str, rng: Rng) -> None:
    cell = nn.GRUCell(3, 4)
    x, h = rng.standard_normal((2, 3), np.float32), rng.standard_normal((2, 4), np.float32)
    close(cell(Tensor(x), Tensor(h)), gru_step(x, h, weights(cell, "")))
    close(cell(Tensor(x)), gru_step(x, 0 * h, weights(cell, "")))


def test_lstm_runs_its_cell_over_time(device: str, rng: Rng) -> None:
    layer = nn.LSTM(3, 4, num_layers=2)
    x = rng.standard_normal((5, 2, 3), np.float32)
    h, c = rng.standard_normal((2, 2, 2, 4), np.float32)
    outputs, (last_h, last_c) = layer(Tensor(x), (Tensor(h), Tensor(c)))
    y = x.astype(np.float64)
    for k in range(2):
        state, ys = (h[k], c[k]), []
        for step in y:
            state = lstm_step(step, *state, weights(layer, f"_l{k}"))
            ys.append(state[0])
        y = np.stack(ys)
        close(last_h[k], state[0])
        close(last_c[k], state[1])
    close(outputs, y)


def test_gru_in_both_directions_with_the_batch_first(device: str, rng: Rng) -> None:
    layer = nn.GRU(3, 4, batch_first=True, bidirectional=True)
    x = rng.standard_normal((2, 5, 3), np.float32)
    outputs, last = layer(Tensor(x))
    wanted = np.zeros((2, 5, 8))
    for side, suffix, order in ((0, "_l0", range(5)), (1, "_l0_reverse", range(4, -1, -1))):
        h = np.zeros((2, 4))
        for t in order:
            h = gru_step(x[:, t].astype(np.float64), h, weights(layer, suffix))
            wanted[:, t, 4 * side : 4 * side + 4] = h
        close(last[side], h)
    close(outputs, wanted)


def test_a_sequence_without_batch_and_under_jit(device: str, rng: Rng) -> None:
    layer = nn.LSTM(3, 4)
    x = rng.standard_normal((4, 3), np.float32)
    alone, (h, _) = layer(Tensor(x))
    batch, _ = layer(Tensor(x[:, None]))
    close(alone, batch.numpy()[:, 0])
    assert h.shape == (1, 4)
    run = jit(lambda t: layer(t)[0])
    for k in range(3):
        close(run(Tensor(x + k)), layer(Tensor(x + k))[0].numpy())


def test_every_weight_of_a_sequence_is_a_parameter_with_torchs_name() -> None:
    names = nn.get_state_dict(nn.LSTM(3, 4, 2, bidirectional=True))
    assert len(names) == 16
    assert names["weight_ih_l1_reverse"].shape == (16, 8)


def attend(layer: Any, q: Any, k: Any, hidden: Any = None) -> tuple[Any, Any]:
    """(N, L, E) and (N, S, E), and which scores do not count."""
    w, b = (t.numpy().astype(np.float64) for t in (layer.in_proj_weight, layer.in_proj_bias))
    e, heads = layer.embed_dim, layer.num_heads
    parts = []
    for i, x in enumerate((q, k, k)):
        y = x @ w[i * e : (i + 1) * e].T + b[i * e : (i + 1) * e]
        parts.append(y.reshape(*y.shape[:2], heads, -1).transpose(0, 2, 1, 3))
    scores = parts[0] @ parts[1].swapaxes(-1, -2) / np.sqrt(e // heads)
    scores = scores if hidden is None else np.where(hidden, -np.inf, scores)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    out = (p @ parts[2]).transpose(0, 2, 1, 3).reshape(*q.shape)
    out = out @ layer.out_proj.weight.numpy().astype(np.float64).T
    return out + layer.out_proj.bias.numpy(), p


def test_multihead_attention(device: str, rng: Rng) -> None:
    layer = nn.MultiheadAttention(6, 2, batch_first=True)
    q, k = rng.standard_normal((2, 3, 6), np.float32), rng.standard_normal((2, 5, 6), np.float32)
    out, p = layer(Tensor(q), Tensor(k))
    wanted, every = attend(layer, q, k)
    close(out, wanted)
    close(p, every.mean(1))
    hidden = np.zeros((2, 5), bool)
    hidden[:, 3:] = True
    out, p = layer(Tensor(q), Tensor(k), key_padding_mask=Tensor(hidden))
    close(out, attend(layer, q, k, hidden[:, None, None])[0])
    assert p is not None and (p.numpy()[:, :, 3:] == 0).all()
    causal = np.triu(np.ones((3, 3), bool), 1)
    for options in ({"is_causal": True}, {"attn_mask": Tensor(causal)}):
        out, p = layer(Tensor(q), average_attn_weights=False, **options)
        close(out, attend(layer, q, q, causal)[0])
        close(p, attend(layer, q, q, causal)[1])


def test_multihead_attention_with_time_first_and_without_batch(device: str, rng: Rng) -> None:
    layer = nn.MultiheadAttention(4, 2)
    q = rng.standard_normal((3, 2, 4), np.float32)
    out, _ = layer(Tensor(q))
    close(out, attend(layer, q.swapaxes(0, 1), q.swapaxes(0, 1))[0].swapaxes(0, 1))
    alone, p = layer(Tensor(q[:, 0]))
    close(alone, out.numpy()[:, 0])
    assert p is not None and p.shape == (3, 3)


def delta_rule(q: Any, k: Any, v: Any, g: Any, b: Any, s: Any) -> tuple[Any, Any]:
    """Step by step."""
    outs, s = [], s.astype(np.float64)
    for t in range(q.shape[2]):
        s = s * np.exp(g[:, :, t, None, None])
        seen = np.einsum("nhk,nhkv->nhv", k[:, :, t], s)
        u = b[:, :, t, None] * (v[:, :, t] - seen)
        s = s + k[:, :, t, :, None] * u[:, :, None]
        outs.append(np.einsum("nhk,nhkv->nhv", q[:, :, t], s))
    return np.stack(outs, 2), s


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_gated_delta_rule_is_its_recurrence(device: str, chunk: int, rng: Rng) -> None:
    """F058."""
    q, k = rng.standard_normal((2, 2, 3, 9, 4)).astype(np.float32) * 0.5
    v = rng.standard_normal((2, 3, 9, 5)).astype(np.float32)
    g, b = -rng.random((2, 3, 9)).astype(np.float32), rng.random((2, 3, 9)).astype(np.float32)
    s = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    state = Tensor(s)
    out, end = nn.gated_delta_rule(*map(Tensor, (q, k, v, g, b)), state, chunk_size=chunk)
    wanted, last = delta_rule(q, k, v, g, b, s)
    close(out, wanted, 1e-4)
    close(end, last, 1e-4)
    np.testing.assert_array_equal(state.numpy(), s)


def test_gated_delta_rule_has_gradients(device: str, rng: Rng) -> None:
    arrays = [rng.standard_normal((1, 1, 4, 2)) * 0.5 for _ in range(3)]
    arrays += [-rng.random((1, 1, 4)), rng.random((1, 1, 4))]
    tensors = [Tensor(a.astype(np.float32)) for a in arrays]
    out, _ = nn.gated_delta_rule(*tensors, chunk_size=2)
    found = out.square().sum().gradient(*tensors)

    def loss() -> Any:
        return np.square(delta_rule(*arrays, np.zeros((1, 1, 2, 2)))[0]).sum()

    for a, g in zip(arrays, found, strict=True):
        at, step = tuple(0 for _ in a.shape[:-1]) + (-1,), 1e-6
        a[at] += step
        up = loss()
        a[at] -= 2 * step
        slope = (up - loss()) / (2 * step)
        a[at] += step
        assert g.numpy()[at] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_mistakes_name_the_layer() -> None:
    with pytest.raises(ShapeError, match=r"LSTM\(3, 4\) takes \(T, N, 3\), got \(5, 2, 4\)"):
        nn.LSTM(3, 4)(Tensor.zeros(5, 2, 4))
    with pytest.raises(ShapeError, match=r"GRUCell\(3, 4\) takes a state of \(2, 4\)"):
        nn.GRUCell(3, 4)(Tensor.zeros(2, 3), Tensor.zeros(2, 5))
    with pytest.raises(ArgumentError, match="num_heads=4 must divide embed_dim=6"):
        nn.MultiheadAttention(6, 4)
    with pytest.raises(ShapeError, match="gated_delta_rule takes q and k of"):
        nn.gated_delta_rule(*[Tensor.zeros(2, 3, 4)] * 5)
