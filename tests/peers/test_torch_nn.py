"""Layers and optimizers with torch's weights do what torch's do: values, gradients, steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from polygrad import Context, Tensor, nn

# name -> (ours, theirs, shape of the input)
LAYERS: dict[str, tuple[Callable[[], Any], Callable[[], Any], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(5, 3), lambda: torch.nn.Linear(5, 3), (4, 5)),
    "Conv1d": (
        lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1),
        lambda: torch.nn.Conv1d(3, 4, 3, stride=2, padding=1),
        (2, 3, 9),
    ),
    "Conv2d": (
        lambda: nn.Conv2d(3, 4, 3, padding=1),
        lambda: torch.nn.Conv2d(3, 4, 3, padding=1),
        (2, 3, 6, 5),
    ),
    "Conv2d, strided": (
        lambda: nn.Conv2d(2, 4, (3, 2), stride=2),
        lambda: torch.nn.Conv2d(2, 4, (3, 2), stride=2),
        (2, 2, 7, 8),
    ),
    "Conv2d, grouped and dilated": (
        lambda: nn.Conv2d(4, 6, 3, groups=2, dilation=2),
        lambda: torch.nn.Conv2d(4, 6, 3, groups=2, dilation=2),
        (1, 4, 8, 8),
    ),
    "LayerNorm": (lambda: nn.LayerNorm(6), lambda: torch.nn.LayerNorm(6), (4, 6)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), lambda: torch.nn.GroupNorm(2, 4), (3, 4, 5)),
    "RMSNorm": (lambda: nn.RMSNorm(6, eps=1e-6), lambda: torch.nn.RMSNorm(6, eps=1e-6), (4, 6)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), lambda: torch.nn.BatchNorm1d(3), (4, 3, 5)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), lambda: torch.nn.BatchNorm2d(3), (4, 3, 5, 5)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(3), lambda: torch.nn.BatchNorm3d(3), (4, 3, 2, 5, 5)),
    "Conv3d": (
        lambda: nn.Conv3d(2, 3, (2, 3, 3), stride=(1, 2, 1), padding=1),
        lambda: torch.nn.Conv3d(2, 3, (2, 3, 3), stride=(1, 2, 1), padding=1),
        (1, 2, 4, 5, 6),
    ),
    "ConvTranspose3d": (
        lambda: nn.ConvTranspose3d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        lambda: torch.nn.ConvTranspose3d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        (1, 2, 3, 4, 2),
    ),
    "LSTM": (
        lambda: nn.LSTM(3, 4, 2, bidirectional=True),
        lambda: torch.nn.LSTM(3, 4, 2, bidirectional=True),
        (5, 2, 3),
    ),
    "GRU": (
        lambda: nn.GRU(3, 4, 2, batch_first=True),
        lambda: torch.nn.GRU(3, 4, 2, batch_first=True),
        (2, 5, 3),
    ),
    "GRUCell": (lambda: nn.GRUCell(3, 4), lambda: torch.nn.GRUCell(3, 4), (2, 3)),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(6, 3),
        lambda: torch.nn.MultiheadAttention(6, 3),
        (4, 2, 6),
    ),
}


def outputs(layer: Any, x: Any) -> Any:
    """What a layer gives, without its last state or weights."""
    given = layer(x, x, x) if isinstance(layer, torch.nn.MultiheadAttention) else layer(x)
    return given[0] if isinstance(given, tuple) else given


def copy_state(theirs: Any, ours: Any, rng: np.random.Generator) -> dict[str, Tensor]:
    """Random values for every parameter, the same in both."""
    state = nn.get_state_dict(ours)
    for name, parameter in theirs.named_parameters():
        value = rng.normal(size=tuple(parameter.shape)).astype(np.float32)
        parameter.data = torch.tensor(value)
        state[name].assign(Tensor(value))
    return state


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_and_its_gradients_are_torchs(
    name: str, device: str, rng: np.random.Generator
) -> None:
    make, peer, shape = LAYERS[name]
    ours, theirs = make(), peer()
    state = copy_state(theirs, ours, rng)
    data = rng.normal(size=shape).astype(np.float32)
    x, other = Tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    with Context(TRAINING=1):
        mine, result = outputs(ours, x), outputs(theirs, other)
        np.testing.assert_allclose(mine.numpy(), result.detach().numpy(), rtol=2e-4, atol=2e-5)
        weight = rng.normal(size=mine.shape).astype(np.float32)
        (mine * Tensor(weight)).sum().backward()
    (result * torch.tensor(weight)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy(), rtol=2e-3, atol=2e-4)
    for key, parameter in theirs.named_parameters():
        np.testing.assert_allclose(
            state[key].grad.numpy(), parameter.grad.numpy(), rtol=2e-3, atol=5e-4, err_msg=key
        )


OPTIMIZERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "SGD": (lambda p: nn.optim.SGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "SGD, momentum": (
        lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    ),
    "SGD, nesterov": (
        lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    ),
    "Adam": (lambda p: nn.optim.Adam(p, lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
    "AdamW": (
        lambda p: nn.optim.AdamW(p, lr=0.01, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_follows_torchs_losses(name: str, device: str, rng: np.random.Generator) -> None:
    make, peer = OPTIMIZERS[name]
    ours = nn.Sequential(nn.Linear(6, 8), lambda h: h.tanh(), nn.Linear(8, 3))
    theirs = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    state = copy_state(theirs, ours, rng)
    data = rng.normal(size=(16, 6)).astype(np.float32)
    labels = rng.integers(0, 3, size=16).astype(np.int64)
    optimizer, other = make(nn.get_parameters(ours)), peer(theirs.parameters())
    with Context(TRAINING=1):
        for _ in range(6):
            optimizer.zero_grad()
            mine = ours(Tensor(data)).cross_entropy(Tensor(labels.astype(np.int32)))
            mine.backward()
            optimizer.step()
            other.zero_grad()
            result = torch.nn.functional.cross_entropy(
                theirs(torch.tensor(data)), torch.tensor(labels)
            )
            result.backward()
            other.step()
            np.testing.assert_allclose(mine.item(), result.item(), rtol=1e-4)
    for key, parameter in theirs.named_parameters():
        np.testing.assert_allclose(
            state[key].numpy(), parameter.detach().numpy(), rtol=1e-3, atol=1e-4, err_msg=key
        )
