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
    "MultiheadAttention, batch first, no bias": (
        lambda: nn.MultiheadAttention(6, 2, bias=False, batch_first=True),
        lambda: torch.nn.MultiheadAttention(6, 2, bias=False, batch_first=True),
        (2, 4, 6),
    ),
    "MultiheadAttention without batch": (
        lambda: nn.MultiheadAttention(6, 2),
        lambda: torch.nn.MultiheadAttention(6, 2),
        (4, 6),
    ),
    "Linear without bias": (
        lambda: nn.Linear(5, 3, bias=False),
        lambda: torch.nn.Linear(5, 3, bias=False),
        (2, 4, 5),
    ),
    "ConvTranspose1d": (
        lambda: nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1),
        lambda: torch.nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1),
        (2, 3, 5),
    ),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(4, 6, (3, 2), stride=2, groups=2, dilation=2, bias=False),
        lambda: torch.nn.ConvTranspose2d(4, 6, (3, 2), stride=2, groups=2, dilation=2, bias=False),
        (2, 4, 3, 4),
    ),
    "LayerNorm of two axes, no bias": (
        lambda: nn.LayerNorm((3, 4), bias=False),
        lambda: torch.nn.LayerNorm((3, 4), bias=False),
        (2, 3, 4),
    ),
    "InstanceNorm": (
        lambda: nn.InstanceNorm(3),
        lambda: torch.nn.InstanceNorm2d(3, affine=True),
        (2, 3, 4, 5),
    ),
    "BatchNorm without statistics": (
        lambda: nn.BatchNorm(3, track_running_stats=False),
        lambda: torch.nn.BatchNorm2d(3, track_running_stats=False),
        (4, 3, 5, 5),
    ),
    "Conv2d, circular": (
        lambda: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="circular"),
        lambda: torch.nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="circular"),
        (2, 2, 5, 6),
    ),
    "Conv1d, reflected": (
        lambda: nn.Conv1d(2, 3, 3, stride=2, padding=2, padding_mode="reflect"),
        lambda: torch.nn.Conv1d(2, 3, 3, stride=2, padding=2, padding_mode="reflect"),
        (2, 2, 7),
    ),
    "Conv2d, same size by an even kernel": (
        lambda: nn.Conv2d(2, 3, (4, 3), padding="same"),
        lambda: torch.nn.Conv2d(2, 3, (4, 3), padding="same"),
        (2, 2, 5, 6),
    ),
    "Conv2d, same size by an even kernel, replicated": (
        lambda: nn.Conv2d(2, 3, (2, 4), padding="same", padding_mode="replicate"),
        lambda: torch.nn.Conv2d(2, 3, (2, 4), padding="same", padding_mode="replicate"),
        (2, 2, 5, 6),
    ),
    "RMSNorm of two axes": (
        lambda: nn.RMSNorm((3, 4), eps=1e-6),
        lambda: torch.nn.RMSNorm((3, 4), eps=1e-6),
        (2, 3, 4),
    ),
    "LSTM, batch first, no bias": (
        lambda: nn.LSTM(3, 4, bias=False, batch_first=True),
        lambda: torch.nn.LSTM(3, 4, bias=False, batch_first=True),
        (2, 5, 3),
    ),
    "LSTM without batch": (lambda: nn.LSTM(3, 4), lambda: torch.nn.LSTM(3, 4), (5, 3)),
    "GRU, two layers, both directions": (
        lambda: nn.GRU(3, 4, 2, bidirectional=True),
        lambda: torch.nn.GRU(3, 4, 2, bidirectional=True),
        (5, 2, 3),
    ),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), lambda: torch.nn.LSTMCell(3, 4), (2, 3)),
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


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # torch's, of the copy that it makes
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


# ---- what the table above does not say: states, indices, masks, running statistics


def test_the_last_states_of_a_sequence_are_torchs(device: str, rng: np.random.Generator) -> None:
    ours, theirs = nn.LSTM(3, 4, 2, bidirectional=True), torch.nn.LSTM(3, 4, 2, bidirectional=True)
    copy_state(theirs, ours, rng)
    x, h, c = (rng.normal(size=s).astype(np.float32) for s in ((5, 2, 3), (4, 2, 4), (4, 2, 4)))
    mine = ours(Tensor(x), (Tensor(h), Tensor(c)))
    other = theirs(torch.tensor(x), (torch.tensor(h), torch.tensor(c)))
    for got, wanted in zip((mine[0], *mine[1]), (other[0], *other[1]), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_embedding_and_its_gradient_are_torchs(device: str, rng: np.random.Generator) -> None:
    ours, theirs = nn.Embedding(7, 3), torch.nn.Embedding(7, 3)
    state = copy_state(theirs, ours, rng)
    index = np.array([[0, 6, 6], [2, 6, 0]])
    weight = rng.normal(size=(2, 3, 3)).astype(np.float32)
    mine, other = ours(Tensor(index)), theirs(torch.tensor(index))
    np.testing.assert_array_equal(mine.numpy(), other.detach().numpy())
    (mine * Tensor(weight)).sum().backward()
    (other * torch.tensor(weight)).sum().backward()
    got = state["weight"].grad.numpy()
    np.testing.assert_allclose(got, theirs.weight.grad.numpy(), rtol=1e-5)


def test_a_row_for_padding_is_zero_and_stays(device: str, rng: np.random.Generator) -> None:
    ours, theirs = nn.Embedding(5, 3, padding_idx=-2), torch.nn.Embedding(5, 3, padding_idx=-2)
    assert ours.weight[3].tolist() == [0.0] * 3 and ours.weight.is_leaf
    ours.weight.assign(Tensor(theirs.weight.detach().numpy()))
    index = np.array([[0, 3], [3, 4], [0, 0]])
    weight = rng.normal(size=(3, 2, 3)).astype(np.float32)
    (ours(Tensor(index)) * Tensor(weight)).sum().backward()
    (theirs(torch.tensor(index)) * torch.tensor(weight)).sum().backward()
    np.testing.assert_allclose(ours.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("momentum", [None, 0.3])
def test_statistics_of_batches_of_all_sizes(
    momentum: float | None, device: str, rng: np.random.Generator
) -> None:
    """A batch of nothing changes none of them; without momentum they are means."""
    ours, theirs = nn.BatchNorm2d(3, momentum=momentum), torch.nn.BatchNorm2d(3, momentum=momentum)
    for count in (4, 2, 0, 3):
        x = rng.normal(size=(count, 3, 2, 2)).astype(np.float32)
        with Context(TRAINING=1):
            ours(Tensor(x)).realize()
        if count:
            theirs(torch.tensor(x))
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        got, wanted = getattr(ours, name).numpy(), getattr(theirs, name).numpy()
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["bool mask", "added mask", "mask of each head", "padding"])
def test_masks_of_attention_are_torchs(kind: str, device: str, rng: np.random.Generator) -> None:
    ours, theirs = nn.MultiheadAttention(6, 3), torch.nn.MultiheadAttention(6, 3)
    copy_state(theirs, ours, rng)
    x = rng.normal(size=(4, 2, 6)).astype(np.float32)
    hidden = np.triu(np.ones((4, 4), bool), 1)
    name, mask = {
        "bool mask": ("attn_mask", hidden),
        "added mask": ("attn_mask", rng.normal(size=(4, 4)).astype(np.float32)),
        "mask of each head": ("attn_mask", rng.normal(size=(6, 4, 4)).astype(np.float32)),
        "padding": ("key_padding_mask", np.array([[0, 0, 0, 1], [0, 1, 0, 0]], bool)),
    }[kind]
    mine = ours(Tensor(x), **{name: Tensor(mask)}, average_attn_weights=False)
    y = torch.tensor(x)
    other = theirs(y, y, y, **{name: torch.tensor(mask)}, average_attn_weights=False)
    for got, wanted in zip(mine, other, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_running_statistics_are_torchs(device: str, rng: np.random.Generator) -> None:
    ours, theirs = nn.BatchNorm2d(3, momentum=0.3), torch.nn.BatchNorm2d(3, momentum=0.3)
    for _ in range(3):
        x = rng.normal(2.0, 3.0, (4, 3, 2, 2)).astype(np.float32)
        with Context(TRAINING=1):
            ours(Tensor(x)).realize()
        theirs(torch.tensor(x))
    theirs.eval()
    for name, buffer in theirs.named_buffers():
        np.testing.assert_allclose(getattr(ours, name).numpy(), buffer.numpy(), rtol=1e-5)
    wanted = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(Tensor(x)).numpy(), wanted, rtol=1e-4, atol=1e-5)


# ---- optimizers: ten steps with every argument

ARGUMENTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 0.1}, {"lr": 0.1}),
    "SGD, weight_decay": ("SGD", *[{"lr": 0.1, "weight_decay": 0.05}] * 2),
    "SGD, momentum": ("SGD", *[{"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}] * 2),
    "SGD, nesterov": ("SGD", *[{"lr": 0.05, "momentum": 0.8, "nesterov": True}] * 2),
    "SGD, classic": (  # a constant rate inside of the momentum is the same as outside
        "SGD",
        {"lr": 0.05, "momentum": 0.9, "classic": True},
        {"lr": 0.05, "momentum": 0.9},
    ),
    "SGD, classic and nesterov": (
        "SGD",
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "classic": True, "weight_decay": 0.1},
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ),
    "Adam": ("Adam", {"lr": 0.01}, {"lr": 0.01}),
    "Adam, every argument": (
        "Adam",
        {"lr": 0.02, "b1": 0.8, "b2": 0.95, "eps": 1e-3, "weight_decay": 0.1},
        {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1},
    ),
    "Adam, amsgrad": ("Adam", *[{"lr": 0.3, "eps": 1e-3, "amsgrad": True}] * 2),
    "AdamW": ("AdamW", {"lr": 0.01}, {"lr": 0.01}),
    "AdamW, amsgrad": ("AdamW", *[{"lr": 0.3, "weight_decay": 0.1, "amsgrad": True}] * 2),
    "AdamW, every argument": (
        "AdamW",
        {"lr": 0.02, "b1": 0.8, "b2": 0.95, "eps": 1e-3, "weight_decay": 0.3},
        {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.3},
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_ten_steps_are_torchs(name: str, device: str, rng: np.random.Generator) -> None:
    kind, mine, other = ARGUMENTS[name]
    start, scale = rng.normal(size=(2, 3, 4)).astype(np.float32)
    p, q = Tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    ours, theirs = getattr(nn.optim, kind)([p], **mine), getattr(torch.optim, kind)([q], **other)
    with Context(TRAINING=1):
        for _ in range(10):
            ours.zero_grad()
            (p * p * Tensor(scale)).sin().sum().backward()
            ours.step()
            theirs.zero_grad()
            (q * q * torch.tensor(scale)).sin().sum().backward()
            theirs.step()
    np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_muon_is_near_torchs_which_rounds_to_bfloat16(
    device: str, rng: np.random.Generator
) -> None:
    start, slope = rng.normal(size=(2, 4, 4)).astype(np.float32)
    p, q = Tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    ours, theirs = nn.optim.Muon([p], lr=0.1), torch.optim.Muon([q], lr=0.1)
    with Context(TRAINING=1):
        for _ in range(3):
            ours.zero_grad()
            (p * Tensor(slope)).sum().backward()
            ours.step()
            theirs.zero_grad()
            (q * torch.tensor(slope)).sum().backward()
            theirs.step()
    np.testing.assert_allclose(p.numpy(), q.detach().numpy(), atol=0.02)


def test_one_cycle_is_torchs() -> None:
    p, q = Tensor([1.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
    ours, theirs = nn.optim.SGD([p]), torch.optim.SGD([q])
    mine = nn.lr.OneCycleLR(ours, 0.5, 20, 0.25, 10.0, 100.0)
    other = torch.optim.lr_scheduler.OneCycleLR(
        theirs, 0.5, 20, pct_start=0.25, div_factor=10.0, final_div_factor=100.0
    )
    for _ in range(19):
        assert mine.get_lr() == pytest.approx(theirs.param_groups[0]["lr"])
        theirs.step()
        mine.step()
        other.step()


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
