"""Gradients through compiled functions: inside of them, and through their results."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import polygrad
from polygrad import Tensor, jit, nn
from polygrad.engine.counters import counters
from polygrad.errors import GradientError


def test_the_result_of_a_call_has_a_gradient(device: str) -> None:
    """F067: that of the operations, for every call."""
    f = jit(lambda x, w, rate: ((x * w).sin() * rate).sum())
    r = np.random.default_rng(1)
    for rate in (2.0, 3.0):
        a, b = r.random(4, np.float32), r.random(4, np.float32)
        x, w = Tensor(a), Tensor(b, requires_grad=True)
        y = f(x, w, rate)
        np.testing.assert_allclose(y.item(), (np.sin(a * b) * rate).sum(), rtol=1e-5)
        y.backward()
        assert w.grad is not None and x.grad is None
        np.testing.assert_allclose(w.grad.numpy(), np.cos(a * b) * a * rate, rtol=1e-5)
    assert f.stats()["captures"] == 1


def test_a_gradient_goes_on_through_what_lies_around(device: str) -> None:
    """Never a part of it alone."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    square = jit(lambda x: x * x)
    y = square(square(w * 3)) + w
    y.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [4 * 81 * 1.0 + 1, 4 * 81 * 8.0 + 1]


def test_second_derivatives(device: str) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    (slope,) = jit(lambda x: (x**3).sum())(x).gradient(x)
    np.testing.assert_allclose(slope.numpy(), [3.0, 12.0], rtol=1e-6)
    np.testing.assert_allclose(slope.sum().gradient(x)[0].numpy(), [6.0, 12.0], rtol=1e-6)


def test_several_results(device: str) -> None:
    f = jit(lambda x: {"sum": x.sum(), "both": [x * 2, x.detach(), x]})
    x = Tensor([1.0, 2.0], requires_grad=True)
    out = f(x)
    (out["sum"] * 10 + (out["both"][0] * out["both"][1]).sum() + out["both"][2].sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [10 + 2 * 1 + 1, 10 + 2 * 2 + 1]
    assert not out["both"][1].requires_grad


def test_the_gradient_of_weights_from_outside(device: str) -> None:
    """With the values that they had at the call."""
    net = nn.Linear(3, 2)
    x = np.random.default_rng(2).random((4, 3), np.float32)
    forward = polygrad.compile(net)
    for _ in range(2):
        y = forward(Tensor(x))
        want = net(Tensor(x)).square().sum().gradient(net.weight)[0].numpy()
        old = y.square().sum()
        net.weight.assign(net.weight + 1)
        net.weight.realize()
        (got,) = old.gradient(net.weight, allow_unused=True)
        assert got.tolist() == [[0.0] * 3] * 2  # of the new value it does not depend
        net.weight.assign(net.weight - 1)
        y = forward(Tensor(x))
        np.testing.assert_allclose(
            y.square().sum().gradient(net.weight)[0].numpy(), want, rtol=1e-4, atol=1e-5
        )


def test_a_loss_that_is_compiled_trains(device: str) -> None:
    """The forward pass in jit, backward and step outside."""
    r = np.random.default_rng(3)
    x, y = Tensor(r.random((8, 4), np.float32)), Tensor(r.random((8, 2), np.float32))

    def losses(wrap) -> list[float]:
        Tensor.manual_seed(1)
        net = nn.Linear(4, 2)
        optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.1)
        loss_of = wrap(lambda x, y: ((net(x) - y) ** 2).mean())
        out = []
        with Tensor.train():
            for _ in range(5):
                optimizer.zero_grad()
                loss = loss_of(x, y)
                loss.backward()
                optimizer.step()
                out.append(loss.item())
        return out

    got = losses(jit)
    np.testing.assert_allclose(got, losses(lambda f: f), rtol=1e-5)
    assert got[-1] < got[0]


def test_random_draws_are_those_of_the_call(device: str) -> None:
    f = jit(
        lambda x: (x * Tensor.rand(3)).sum(),
    )
    x = Tensor([1.0, 1.0, 1.0], requires_grad=True)
    for _ in range(2):
        y = f(x)
        (slope,) = y.gradient(x)
        assert slope.sum().item() == pytest.approx(y.item(), rel=1e-6)


def test_backward_inside(device: str) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)

    @jit
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        w.zero_grad()
        loss = (x * w * w).sum()
        loss.backward()
        assert w.grad is not None
        return loss, w.grad

    for v in (1.0, 3.0):
        loss, grad = f(Tensor([v, v]))
        assert (loss.item(), grad.tolist()) == (5 * v, [2 * v, 4 * v])
    assert w.grad is None


def test_no_gradient_is_told(device: str) -> None:
    """Where none asks for one, under no_grad, and of what the function writes over."""
    double = jit(lambda x: (x * 2).sum())
    with pytest.raises(GradientError, match="requires_grad=True"):
        double(Tensor([1.0, 2.0])).backward()
    w = Tensor([1.0, 2.0], requires_grad=True)
    with Tensor.no_grad():
        assert not double(w).requires_grad
    assert double(w).requires_grad

    @jit
    def step(x: Tensor) -> Tensor:
        loss = (w * x).sum()
        w.assign(w - x)
        return loss

    loss = step(Tensor([1.0, 1.0]))
    assert not loss.requires_grad
    with pytest.raises(GradientError):
        loss.backward()


def test_a_training_step_keeps_no_old_weights(device: str) -> None:
    """Its loss has no gradient left to give, so nothing is copied."""
    net = nn.Linear(4, 2)
    optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.1)

    @jit
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    with Tensor.train():
        x = Tensor(np.ones((3, 4), np.float32))
        kept = [step(x), step(x)]
        before = counters.saved_versions
        kept += [step(x) for _ in range(3)]
        assert counters.saved_versions == before
    assert kept[-1].item() < kept[0].item()


def test_a_capture_holds_no_old_weights(device: str) -> None:
    """The graph that is kept for gradients is over symbols."""
    w = Tensor([1.0, 2.0], requires_grad=True).realize()
    f = jit(lambda x: (x * w).sum())
    f(Tensor([1.0, 1.0]))
    old = weakref.ref(w.uop)
    before = counters.saved_versions
    w.assign(w + 1)
    w.realize()
    gc.collect()
    assert counters.saved_versions == before and old() is None
    assert f(Tensor([1.0, 1.0])).item() == 5.0


@pytest.mark.parametrize("wrap", [jit, polygrad.function], ids=["jit", "function"])
def test_a_result_on_another_device(wrap) -> None:
    """It says where it is, and the gradient comes home."""
    f = wrap(lambda x, y: x.to("interp") * y)
    x = Tensor([3.0], device="cpu", requires_grad=True)
    y = Tensor([2.0], device="interp", requires_grad=True)
    z = f(x, y)
    assert (z.device, z.tolist()) == ("interp", [6.0])
    (z + y).sum().backward()
    assert x.grad is not None and (x.grad.device, x.grad.tolist()) == ("cpu", [2.0])
    assert y.grad is not None and (y.grad.device, y.grad.tolist()) == ("interp", [4.0])


def test_what_was_assigned_to_since_is_told(device: str) -> None:
    """As for any operation."""
    x = Tensor([3.0], requires_grad=True)
    y = jit(lambda x: x * x)(x)
    x.assign(Tensor([5.0]))
    x.realize()
    assert y.item() == 9.0
    with pytest.raises(GradientError, match="assigned to since"):
        y.sum().backward()


def test_a_result_may_be_used_like_any_tensor(device: str) -> None:
    """It is read, assigned to, copied and met by other compiled functions."""
    import copy

    x = Tensor([3.0], requires_grad=True)
    y = jit(lambda x: x * x)(x)
    other = jit(lambda a: a * y)
    assert other(Tensor([2.0])).item() == 18.0
    assert other(Tensor([2.0])).sum().gradient(x)[0].tolist() == [12.0]
    assert copy.deepcopy(y).tolist() == y.detach().tolist() == [9.0]
    y.assign(y + 1)
    assert (y.tolist(), x.tolist()) == ([10.0], [3.0])


@pytest.mark.parametrize("wrap", [jit, lambda f: f], ids=["jit", "eager"])
def test_a_loss_that_was_read_costs_no_copies(device: str, wrap) -> None:
    """Its graph ends with the step, whether its value was known before or not."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = nn.optim.Adam([w], lr=0.1)
    loss_of = wrap(lambda x: (x * w).square().sum())
    read = []
    with Tensor.train():
        for n in range(5):
            optimizer.zero_grad()
            loss = loss_of(Tensor([2.0, 1.0]))
            read.append(loss.item())
            loss.backward()
            optimizer.step()
            if n == 1:
                before = counters.saved_versions
    assert counters.saved_versions == before
    assert read == sorted(read, reverse=True)
