"""Optimizers against their formulas in numpy float64 (F053, F055)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor, nn
from polygrad.engine.counters import counters
from polygrad.errors import ArgumentError, GradientError, StateError, UnknownName
from polygrad.nn import optim

START, TARGET = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.5, -1.0])


def train(make: Callable[[list[Tensor]], optim.Optimizer], steps: int = 5) -> Any:
    """Minimise sum((p - target)²), whose gradient is 2 (p - target)."""
    p = Tensor(START.astype(np.float32), requires_grad=True)
    optimizer = make([p])
    with Context(TRAINING=1):
        for _ in range(steps):
            optimizer.zero_grad()
            (p - Tensor(TARGET.astype(np.float32))).square().sum().backward()
            optimizer.step()
    return p.numpy()


def sgd(
    lr: float, momentum: float = 0.0, decay: float = 0.0, nesterov: bool = False, steps: int = 5
) -> Any:
    p, v = START.copy(), np.zeros(3)
    for _ in range(steps):
        g = 2 * (p - TARGET) + decay * p
        v = momentum * v + g
        p = p - lr * (g + momentum * v if nesterov else v if momentum else g)
    return p


def adam(lr: float, decay: float = 0.0, decoupled: bool = False, steps: int = 5) -> Any:
    p, m, v = START.copy(), np.zeros(3), np.zeros(3)
    for t in range(1, steps + 1):
        g = 2 * (p - TARGET) + (0 if decoupled else decay * p)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        move = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        p = p - lr * (move + (decay * p if decoupled else 0))
    return p


def lamb(lr: float, decay: float, steps: int = 5) -> Any:
    p, m, v = START.copy(), np.zeros(3), np.zeros(3)
    for t in range(1, steps + 1):
        g = 2 * (p - TARGET)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        r = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + decay * p
        p = p - lr * np.linalg.norm(p) / np.linalg.norm(r) * r
    return p


def lars(lr: float, classic: bool, nesterov: bool = False, steps: int = 5) -> Any:
    p, v, decay, momentum = START.copy(), np.zeros(3), 0.01, 0.9
    for _ in range(steps):
        g = 2 * (p - TARGET)
        size = np.linalg.norm(p)
        g = (g + decay * p) * (0.1 * size / (np.linalg.norm(g) + decay * size))
        g = g * lr if classic else g
        v = momentum * v + g
        move = g + momentum * v if nesterov else v
        p = p - (move if classic else move * lr)
    return p


CASES: dict[str, tuple[Callable[[list[Tensor]], optim.Optimizer], Any]] = {
    "sgd": (lambda p: optim.SGD(p, lr=0.1), sgd(0.1)),
    "momentum": (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), sgd(0.1, 0.9)),
    "nesterov": (
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        sgd(0.1, 0.9, nesterov=True),
    ),
    "classic": (lambda p: optim.SGD(p, lr=0.1, momentum=0.9, classic=True), sgd(0.1, 0.9)),
    "weight decay": (lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1), sgd(0.1, decay=0.1)),
    "adam": (lambda p: optim.Adam(p, lr=0.1), adam(0.1)),
    "adam, weight decay": (lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1), adam(0.1, 0.1)),
    "adamw": (lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.1), adam(0.1, 0.1, True)),
    "lamb": (lambda p: optim.LAMB(p, lr=0.1, weight_decay=0.01), lamb(0.1, 0.01)),
    "lars": (lambda p: optim.LARS(p, lr=0.5, weight_decay=0.01, tcoef=0.1), lars(0.5, True)),
    "lars, rate outside": (
        lambda p: optim.LARS(p, 0.5, 0.9, 0.01, nesterov=True, classic=False, tcoef=0.1),
        lars(0.5, False, True),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_five_steps_are_those_of_the_formula(case: str, device: str) -> None:
    make, wanted = CASES[case]
    np.testing.assert_allclose(train(make), wanted, rtol=2e-5, atol=1e-6)


# ---- LARS and LAMB, every argument varied

PULLS = np.random.default_rng(5).normal(size=(10, 2, 3))  # a gradient for each step


def lars_of_paper(p: Any, **o: Any) -> Any:
    """You et al. 2017, algorithm 1, in float64; `classic` False leaves the rate out of v."""
    lr, v = o["lr"], np.zeros_like(p)
    for g in PULLS:
        size, pull = np.linalg.norm(p), np.linalg.norm(g)
        local = o["tcoef"] * size / (pull + o["weight_decay"] * size) if size and pull else 1.0
        step = local * (g + o["weight_decay"] * p) * (lr if o["classic"] else 1.0)
        v = o["momentum"] * v + step
        move = step + o["momentum"] * v if o["nesterov"] else v
        p = p - move * (1.0 if o["classic"] else lr)
    return p


def lamb_of_paper(p: Any, **o: Any) -> Any:
    """You et al. 2020, algorithm 2 with phi(z) = z, in float64."""
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(PULLS, 1):
        m = o["b1"] * m + (1 - o["b1"]) * g
        v = o["b2"] * v + (1 - o["b2"]) * g**2
        r = (m / (1 - o["b1"] ** t)) / (np.sqrt(v / (1 - o["b2"] ** t)) + o["eps"])
        r = r + o["weight_decay"] * p
        size, length = np.linalg.norm(p), np.linalg.norm(r)
        p = p - o["lr"] * (size / length if size and length else 1.0) * r
    return p


LAYERWISE: dict[str, tuple[type[optim.Optimizer], Any, dict[str, Any], dict[str, list[Any]]]] = {
    "lars": (
        optim.LARS,
        lars_of_paper,
        {
            "lr": 0.001,
            "momentum": 0.9,
            "weight_decay": 1e-4,
            "nesterov": False,
            "classic": True,
            "tcoef": 0.001,
        },
        {
            "lr": [1.0],
            "momentum": [0.0, 0.5],
            "weight_decay": [0.0, 0.3],
            "nesterov": [True],
            "classic": [False],
            "tcoef": [0.1, 1.0],
        },
    ),
    "lamb": (
        optim.LAMB,
        lamb_of_paper,
        {"lr": 0.001, "b1": 0.9, "b2": 0.999, "eps": 1e-6, "weight_decay": 0.0},
        {
            "lr": [0.01],
            "b1": [0.0, 0.5],
            "b2": [0.0, 0.9],
            "eps": [1e-2, 1.0],
            "weight_decay": [0.01, 1.0],
        },
    ),
}


def variations() -> list[tuple[str, dict[str, Any]]]:
    """The defaults, each argument varied alone, and all of them at once."""
    found = []
    for name, (_, _, defaults, others) in LAYERWISE.items():
        found += [(name, {}), (name, {k: values[-1] for k, values in others.items()})]
        found += [(name, {k: v}) for k, values in others.items() for v in values]
        found += [(name, {"nesterov": True, "classic": False})] * ("nesterov" in defaults)
    return found


@pytest.mark.parametrize("start", ["some", "zero"])
@pytest.mark.parametrize(("name", "options"), variations(), ids=str)
def test_ten_steps_by_layer_are_those_of_the_paper(
    device: str, name: str, options: dict[str, Any], start: str
) -> None:
    """F055. A parameter that is 0 has no size to follow: it takes the plain step."""
    make, paper, defaults, _ = LAYERWISE[name]
    first = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.5]]) * (start == "some")
    p = Tensor(first, requires_grad=True)
    optimizer = make([p], **options)
    for pull in PULLS:
        optimizer.zero_grad()
        (p * Tensor(pull)).sum().backward()
        with Context(TRAINING=1):
            optimizer.step()
    exact = paper(first, **{**defaults, **options})
    np.testing.assert_allclose(p.numpy() - first, exact - first, rtol=2e-5, atol=1e-9)


def test_scalars_and_matrices_train_together(device: str) -> None:
    a = Tensor(2.0, requires_grad=True)
    b = Tensor([[1.0, 2.0]], requires_grad=True)
    optimizer = optim.Adam([a, b], lr=0.5)
    with Context(TRAINING=1):
        (a * b.sum()).backward()
        optimizer.step()
    assert a.item() == pytest.approx(1.5, rel=1e-5)
    assert b.tolist() == [[pytest.approx(0.5), pytest.approx(1.5)]]


def test_a_step_outside_training_is_an_error() -> None:
    """F055."""
    p = Tensor([1.0], requires_grad=True)
    p.square().sum().backward()
    with pytest.raises(StateError, match=r"sgd.step\(\): TRAINING must be enabled"):
        optim.SGD([p], lr=0.1).step()
    assert p.tolist() == [1.0]


def test_a_step_without_gradient_is_an_error() -> None:
    with (
        Context(TRAINING=1),
        pytest.raises(GradientError, match="no parameter has a gradient; call backward"),
    ):
        optim.SGD([Tensor([1.0], requires_grad=True)]).step()


def test_another_rate_compiles_nothing(device: str) -> None:
    p = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=nn.lr.step(0.1, 1, 0.5))
    rates = []
    with Context(TRAINING=1):
        for _ in range(4):
            optimizer.zero_grad()
            p.square().sum().backward()
            optimizer.step()
            rates.append(optimizer.lr.item())
            if len(rates) == 2:
                before = counters.kernels_compiled
    assert rates == pytest.approx([0.1, 0.05, 0.025, 0.0125])
    assert counters.kernels_compiled == before


def test_zero_grad_forgets() -> None:
    p = Tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([p])
    p.square().sum().backward()
    assert p.grad is not None
    optimizer.zero_grad()
    assert p.grad is None


def test_wrong_arguments_are_errors() -> None:
    p = [Tensor([1.0], requires_grad=True)]
    for make, text in (
        (lambda: optim.SGD(p, nesterov=True), "nesterov needs a momentum"),
        (lambda: optim.SGD(p, momentum=-1), "momentum=-1"),
        (lambda: optim.Adam(p, b1=1.0), "must be below 1"),
        (lambda: optim.SGD([]), "no parameter that takes a gradient"),
        (lambda: optim.SGD([1.0]), "takes Tensors"),  # type: ignore[list-item]
        (lambda: optim.SGD([Tensor([1])]), "cannot train a tensor of int32"),
        (lambda: optim.make("adam", beta=1), "adam: no option named 'beta'. Valid: lr, b1"),
    ):
        with pytest.raises(ArgumentError, match=text):
            make()  # type: ignore[no-untyped-call]
    with pytest.raises(UnknownName, match="no optimizer named 'adamm'. Did you mean 'adam'"):
        optim.make("adamm")


def test_lamb_moves_a_parameter_of_zeros(device: str) -> None:
    p = Tensor([0.0, 0.0], requires_grad=True)
    (p * Tensor([1.0, -1.0])).sum().backward()
    with Context(TRAINING=1):
        optim.LAMB([p], lr=0.1).step()
    np.testing.assert_allclose(p.numpy(), [-0.1, 0.1], rtol=1e-4)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (3, 2, 2)])
def test_a_step_of_muon_is_orthogonal(
    device: str, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    start, g = rng.standard_normal((2, *shape)).astype(np.float32)
    p = Tensor(start, requires_grad=True)
    (p * Tensor(g)).sum().backward()
    with Context(TRAINING=1):
        optim.Muon([p], lr=0.5, weight_decay=0.1).step()
    move = (start * (1 - 0.05) - p.numpy()) / 0.5
    values = np.linalg.svd(move.reshape(shape[0], -1), compute_uv=False)
    assert (values > 0.6).all() and (values < 1.25).all()
    u, _, vt = np.linalg.svd(g.reshape(shape[0], -1), full_matrices=False)
    assert np.sum(move.reshape(shape[0], -1) * (u @ vt)) > 0.8 * len(values)


def muon(start: Any, slopes: Any, lr: float, decay: float, steps: int, nesterov: bool) -> Any:
    """Jordan et al. 2024: momentum, then Newton and Schulz's iteration on the whole direction."""
    p, v = start.astype(np.float64), np.zeros_like(start, np.float64)
    for g in slopes.astype(np.float64):
        v = 0.95 * v + g
        d = g + 0.95 * v if nesterov else v
        x = d.T if d.shape[0] > d.shape[1] else d
        x = x / (np.linalg.norm(x) + 1e-7)
        for _ in range(steps):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        x = x.T if d.shape[0] > d.shape[1] else x
        p = p * (1 - lr * decay) - lr * x
    return p


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize(("shape", "steps"), [((3, 5), 5), ((5, 3), 3)])
def test_muon_is_its_formula(
    device: str, shape: tuple[int, int], steps: int, nesterov: bool, rng: np.random.Generator
) -> None:
    start, slopes = rng.normal(size=shape), rng.normal(size=(4, *shape))
    p = Tensor(start, dtype="float64", requires_grad=True)
    optimizer = optim.Muon([p], 0.1, weight_decay=0.2, ns_steps=steps, nesterov=nesterov)
    with Context(TRAINING=1):
        for slope in slopes:
            optimizer.zero_grad()
            (p * Tensor(slope)).sum().backward()
            optimizer.step()
    wanted = muon(start, slopes, 0.1, 0.2, steps, nesterov)
    np.testing.assert_allclose(p.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_muon_refuses_vectors() -> None:
    with pytest.raises(ArgumentError, match=r"muon trains matrices, not a parameter of shape"):
        optim.Muon([Tensor([1.0], requires_grad=True)])


def test_a_group_steps_as_its_optimizers_would(device: str) -> None:
    def both(group: bool) -> list[Any]:
        a, b = (Tensor(START.astype(np.float32) + i, requires_grad=True) for i in range(2))
        parts = [optim.SGD([a], lr=0.1, momentum=0.9), optim.Adam([b], lr=0.1)]
        steppers: list[Any] = [optim.OptimizerGroup(*parts)] if group else parts
        with Context(TRAINING=1):
            for _ in range(3):
                for s in steppers:
                    s.zero_grad()
                (a * a * b).sum().backward()
                for s in steppers:
                    s.step()
        return [a.tolist(), b.tolist()]

    assert both(True) == both(False)


def test_a_group_trains_each_parameter_once() -> None:
    p = Tensor([1.0], requires_grad=True)
    with pytest.raises(ArgumentError, match="each parameter by one optimizer only"):
        optim.OptimizerGroup(optim.SGD([p]), optim.Adam([p]))
    with Context(TRAINING=1), pytest.raises(GradientError, match="no parameter has a gradient"):
        optim.OptimizerGroup(optim.SGD([p])).step()


@pytest.mark.parametrize("kind", [1.0, 2.0, float("inf")])
def test_gradients_are_clipped_by_their_common_norm(device: str, kind: float) -> None:
    a, b = Tensor([3.0, 0.0], requires_grad=True), Tensor([[4.0]], requires_grad=True)
    (a.square().sum() + b.square().sum()).backward()
    every = np.array([6.0, 0.0, 8.0])
    norm = np.linalg.norm(every, kind)
    total = nn.clip_grad_norm_([a, b], 1.0, kind)
    assert total.item() == pytest.approx(norm)
    assert a.grad is not None and b.grad is not None
    got = [*a.grad.tolist(), b.grad.item()]
    np.testing.assert_allclose(got, every / norm, rtol=1e-5)
    nn.clip_grad_norm_([a, b], 100.0, kind)
    np.testing.assert_allclose(a.grad.tolist(), got[:2], rtol=1e-6)
