"""Layers against their formulas in numpy float64 (F051, F054)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import signal

from polygrad import Context, Tensor, nn
from polygrad.errors import ArgumentError, DTypeError, ShapeError

Rng = np.random.Generator


def close(got: Tensor, wanted: Any, tolerance: float = 2e-5) -> None:
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.numpy(), wanted, rtol=tolerance, atol=tolerance)


def wide(t: Tensor | None) -> Any:
    assert t is not None
    return t.numpy().astype(np.float64)


def test_linear(device: str, rng: Rng) -> None:
    layer = nn.Linear(4, 3)
    x = rng.standard_normal((2, 5, 4), np.float32)
    close(layer(Tensor(x)), x @ wide(layer.weight).T + wide(layer.bias))


def test_initial_values_are_torchs() -> None:
    """Uniform in ±1/sqrt(fan_in): kaiming_uniform with a = sqrt(5)."""
    Tensor.manual_seed(0)
    for layer, bound in ((nn.Linear(100, 200), 0.1), (nn.Conv2d(4, 50, 5), 0.1)):
        for values in (wide(layer.weight), wide(layer.bias)):
            assert abs(values).max() <= bound
            assert abs(values).max() > 0.8 * bound
        assert wide(layer.weight).std() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_the_seed_fixes_initial_values() -> None:
    """F023, F087."""
    made = []
    for _ in range(2):
        Tensor.manual_seed(42)
        made.append(nn.Linear(3, 4).weight.tolist())
    assert made[0] == made[1]


def convolved(x: Any, w: Any, b: Any, stride: int, padding: int, dilation: int, groups: int) -> Any:
    """Direct correlation over the two last axes, group by group."""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    n = x.shape[0]
    out, per, kh, kw = w.shape
    spread = np.zeros((out, per, (kh - 1) * dilation + 1, (kw - 1) * dilation + 1))
    spread[:, :, ::dilation, ::dilation] = w
    result = []
    for o in range(out):
        first = o // (out // groups) * per
        planes = [
            sum(signal.correlate(x[i, first + c], spread[o, c], "valid") for c in range(per))
            for i in range(n)
        ]
        result.append(np.stack(planes)[:, ::stride, ::stride] + b[o])
    return np.stack(result, 1)


@pytest.mark.parametrize(
    "stride, padding, dilation, groups", [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2)]
)
def test_conv2d(
    device: str, rng: Rng, stride: int, padding: int, dilation: int, groups: int
) -> None:
    layer = nn.Conv2d(4, 6, 3, stride, padding, dilation, groups)
    x = rng.standard_normal((2, 4, 8, 7), np.float32)
    args = (stride, padding, dilation, groups)
    close(layer(Tensor(x)), convolved(x, wide(layer.weight), wide(layer.bias), *args))


def test_conv1d(device: str, rng: Rng) -> None:
    layer = nn.Conv1d(2, 3, 3, padding="same")
    x = rng.standard_normal((2, 2, 6), np.float32)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2)
    wanted = np.einsum("ncli,oci->nol", windows, wide(layer.weight)) + wide(layer.bias)[:, None]
    close(layer(Tensor(x)), wanted)


def test_conv_transpose_spreads_each_element_over_a_window(device: str, rng: Rng) -> None:
    layer = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
    x = rng.standard_normal((2, 4, 3, 4), np.float32)
    w = wide(layer.weight)
    full = np.zeros((2, 6, 3 * 2 + 2, 4 * 2 + 2))
    for c in range(4):
        outs = slice(c // 2 * 3, c // 2 * 3 + 3)
        for i in range(3):
            for j in range(4):
                spread = x[:, c, i, j][:, None, None, None] * w[c]
                full[:, outs, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += spread
    wanted = full[:, :, 1 : 1 + 6, 1 : 1 + 8] + wide(layer.bias)[:, None, None]
    close(layer(Tensor(x)), wanted)


def test_lstm_cell(device: str, rng: Rng) -> None:
    cell = nn.LSTMCell(3, 5)
    x = rng.standard_normal((4, 3), np.float32)

    def sigmoid(z: Any) -> Any:
        return 1 / (1 + np.exp(-z))

    def step(x: Any, h: Any, c: Any) -> Any:
        gates = x @ wide(cell.weight_ih).T + h @ wide(cell.weight_hh).T
        i, f, g, o = np.split(gates + wide(cell.bias_ih) + wide(cell.bias_hh), 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    wanted = step(x, *step(x, np.zeros((4, 5)), np.zeros((4, 5))))
    got = cell(Tensor(x), cell(Tensor(x)))
    for a, b in zip(got, wanted, strict=True):
        close(a, b)


def normalized(x: Any, axes: Any, eps: float = 1e-5) -> Any:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_layer_norm(device: str, rng: Rng) -> None:
    x = rng.standard_normal((3, 4, 5), np.float32)
    close(nn.LayerNorm(5)(Tensor(x)), normalized(x, -1))
    close(nn.LayerNorm((4, 5))(Tensor(x)), normalized(x, (1, 2)))


def test_layer_norm_2d(device: str, rng: Rng) -> None:
    x = rng.standard_normal((2, 3, 4, 5), np.float32)
    close(nn.LayerNorm2d(3)(Tensor(x)), normalized(x, 1))


def test_group_norm(device: str, rng: Rng) -> None:
    x = rng.standard_normal((2, 6, 4), np.float32)
    close(nn.GroupNorm(3, 6)(Tensor(x)), normalized(x.reshape(2, 3, 8), -1).reshape(x.shape))


def test_instance_norm(device: str, rng: Rng) -> None:
    x = rng.standard_normal((2, 3, 4, 5), np.float32)
    close(nn.InstanceNorm(3)(Tensor(x)), normalized(x, (2, 3)))


def test_rms_norm(device: str, rng: Rng) -> None:
    x = rng.standard_normal((2, 8), np.float32)
    wanted = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)
    close(nn.RMSNorm(8)(Tensor(x)), wanted)


def test_affine_layers_scale_and_shift(device: str, rng: Rng) -> None:
    layer = nn.LayerNorm(4)
    nn.load_state_dict(layer, {"weight": [1.0, 2.0, 3.0, 4.0], "bias": [0.0, 1.0, 0.0, -1.0]})
    x = rng.standard_normal((2, 4), np.float32)
    close(layer(Tensor(x)), normalized(x, -1) * [1, 2, 3, 4] + [0, 1, 0, -1])


def test_batch_norm_trains_by_the_batch_and_remembers(device: str, rng: Rng) -> None:
    layer = nn.BatchNorm(3)
    x = rng.standard_normal((8, 3, 2), np.float32) * 2 + 1
    with Context(TRAINING=1):
        close(layer(Tensor(x)), normalized(x, (0, 2)))
    mean, var = x.mean((0, 2), dtype=np.float64), x.var((0, 2), ddof=1, dtype=np.float64)
    close(layer.running_mean, 0.1 * mean)
    close(layer.running_var, 0.9 + 0.1 * var)
    assert layer.num_batches_tracked.item() == 1
    used = (x - 0.1 * mean[:, None]) / np.sqrt(0.9 + 0.1 * var[:, None] + 1e-5)
    close(layer(Tensor(x)), used)


def test_embedding_takes_rows(device: str) -> None:
    layer = nn.Embedding(10, 4)
    index = np.array([[0, 9], [3, 3]], np.int32)
    close(layer(Tensor(index)), layer.weight.numpy()[index])
    with pytest.raises(DTypeError, match='Embedding "layer" takes integer indices, got float32'):
        layer(Tensor([1.0]))


def test_dropout_only_while_training(device: str) -> None:
    x = Tensor.ones(1000)
    layer = nn.Dropout(0.25)
    assert layer(x).numpy().sum() == 1000
    with Context(TRAINING=1):
        y = layer(x).numpy()
    assert set(np.round(y, 5)) == {0.0, np.float32(1.33333)}
    assert abs((y == 0).mean() - 0.25) < 0.06


def test_sequential_is_a_list_of_callables(device: str, rng: Rng) -> None:
    net = nn.Sequential(nn.Linear(4, 3), Tensor.relu)
    x = rng.standard_normal((2, 4), np.float32)
    first = net[0]
    close(net(Tensor(x)), np.maximum(x @ wide(first.weight).T + wide(first.bias), 0))
    assert repr(net) == "Sequential(Linear(4, 3), Tensor.relu)" or "relu" in repr(net)


WRONG = [
    (lambda: nn.Linear(4, 3), (2, 5), r"Linear\(4, 3\) takes \(\.\.\., 4\), got"),
    (lambda: nn.Conv2d(4, 3, 3), (2, 5, 8, 8), r"Conv2d\(4, 3, 3\) takes \(N, 4, H, W\), got"),
    (lambda: nn.Conv1d(4, 3, 3), (4, 8), r"Conv1d\(4, 3, 3\) takes \(N, 4, L\), got"),
    (lambda: nn.ConvTranspose1d(4, 3, 3), (2, 5, 8), r"ConvTranspose1d\(4, 3, 3\) takes"),
    (lambda: nn.LSTMCell(4, 3), (2, 5), r"LSTMCell\(4, 3\) takes \(N, 4\), got"),
    (lambda: nn.BatchNorm(4), (2, 5), r"BatchNorm\(4\) takes \(N, 4, \.\.\.\), got"),
    (lambda: nn.BatchNorm2d(4), (2, 4), r"BatchNorm2d\(4\) takes \(N, 4, H, W\), got"),
    (lambda: nn.BatchNorm1d(4), (4,), r"BatchNorm1d\(4\) takes \(N, 4\) or \(N, 4, L\), got"),
    (lambda: nn.BatchNorm3d(4), (2, 4), r"BatchNorm3d\(4\) takes \(N, 4, D, H, W\), got"),
    (lambda: nn.Conv3d(4, 3, 3), (2, 4), r"Conv3d\(4, 3, 3\) takes \(N, 4, D, H, W\), got"),
    (
        lambda: nn.MultiheadAttention(4, 2),
        (2, 5),
        r"MultiheadAttention\(4, 2\) takes",
    ),
    (lambda: nn.LayerNorm(4), (2, 5), r"LayerNorm\(4\) takes \(\.\.\., 4\), got"),
    (lambda: nn.LayerNorm2d(4), (2, 5), r"LayerNorm2d\(4\) takes \(N, 4, H, W\), got"),
    (lambda: nn.RMSNorm(4), (2, 5), r"RMSNorm\(4\) takes \(\.\.\., 4\), got"),
    (lambda: nn.GroupNorm(2, 4), (2, 5), r"GroupNorm\(2, 4\) takes \(N, 4, \.\.\.\), got"),
]


@pytest.mark.parametrize("make, shape, text", WRONG)
def test_a_wrong_shape_is_an_error_that_names_the_layer(make: Any, shape: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        make()(Tensor.zeros(*shape))


def test_wrong_options_are_errors_at_construction() -> None:
    for make, text in (
        (lambda: nn.Conv2d(4, 3, 3, groups=2), "groups=2 must divide in_channels=4"),
        (lambda: nn.Conv2d(4, 3, (3, 3, 3)), "kernel_size is"),
        (lambda: nn.Conv2d(4, 3, 3, stride=0), "stride is a whole number of 1 or more"),
        (lambda: nn.GroupNorm(3, 4), "num_groups=3 must divide"),
        (lambda: nn.Dropout(1.5), "from 0 to 1"),
    ):
        with pytest.raises(ArgumentError, match=text):
            make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Conv2d(3), "Conv2d: missing a required argument: 'out_channels'."),
        (lambda: nn.ConvTranspose1d(3, 4, 2, foo=1), "ConvTranspose1d: no argument 'foo'."),
        (lambda: nn.LSTM("a", 3), "LSTM: input_size is an integer, not 'a'."),
        (lambda: nn.GRUCell(3), "GRUCell: missing a required argument: 'hidden_size'."),
        (lambda: nn.BatchNorm2d(), "BatchNorm2d: missing a required argument: 'size'."),
        (lambda: nn.Conv1d(1, 1, 1)(1, 2), "Conv1d: too many positional arguments."),
        (
            lambda: nn.Conv1d(1, 1, 3, padding_mode="reflec"),
            "Conv1d: no padding_mode named 'reflec'. Did you mean 'reflect'?",
        ),
        (
            lambda: nn.Embedding(3, 4, padding_idx=3),
            "Embedding: padding_idx=3 is none of the 3 rows.",
        ),
        (
            lambda: nn.Conv1d(1, 1, 3, stride=2, padding="same"),
            "Conv1d: 'same' needs stride 1.",
        ),
    ],
)
def test_a_mistake_names_the_layer_that_was_made(make: Any, text: str) -> None:
    with pytest.raises(ArgumentError) as told:
        make()
    assert str(told.value).startswith(text)
