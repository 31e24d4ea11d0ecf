"""backward, gradient, requires_grad, no_grad (F047, F048, F049, F022)."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.engine.counters import counters
from polygrad.errors import ArgumentError, DTypeError, GradientError, ShapeError
from polygrad.uop.ops import Ops


def grad(x: Tensor) -> Any:
    assert x.grad is not None
    return x.grad.tolist()


@pytest.mark.parametrize("wrong", ["yes", 2, 0.5, [True]])
def test_requires_grad_is_true_false_or_none(device: str, wrong: Any) -> None:
    """Whoever takes it, and nothing has changed after the error."""
    t = Tensor([1.0])
    makers: list[Callable[[], Any]] = [
        lambda: Tensor([1.0], requires_grad=wrong),
        lambda: Tensor(t, requires_grad=wrong),
        lambda: Tensor.zeros(2, requires_grad=wrong),
        lambda: Tensor.empty(2, requires_grad=wrong),
        lambda: Tensor.rand(2, requires_grad=wrong),
        lambda: t.requires_grad_(wrong),
        lambda: setattr(t, "requires_grad", wrong),
    ]
    for make in makers:
        with pytest.raises(ArgumentError, match="requires_grad is True, False or None, not"):
            make()
    with pytest.raises(ArgumentError, match="is_param is True, False or None, not"):
        t.is_param_(wrong)
    assert t.requires_grad is None and t.is_param is None
    assert Tensor([1.0], requires_grad=np.True_).requires_grad is True  # type: ignore[arg-type]
    assert Tensor([1.0], requires_grad=0).requires_grad is False


def test_backward_of_a_square_sum(device: str) -> None:
    """F047, with a leaf that says nothing about gradients and with one that asks."""
    for asked in (None, True):
        x = Tensor([1.0, 2.0, 3.0], requires_grad=asked)
        assert (x * x).sum().backward().shape == ()
        assert grad(x) == [2.0, 4.0, 6.0]


def test_gradients_accumulate_until_zero_grad(device: str) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        (x * 3).sum().backward()
    assert grad(x) == [6.0, 6.0]
    x.zero_grad()
    assert x.grad is None


def test_leaves_that_ask_are_the_only_ones_served(device: str) -> None:
    w, x = Tensor([2.0], requires_grad=True), Tensor([3.0])
    (w * x).sum().backward()
    assert grad(w) == [3.0]
    assert x.grad is None


def test_leaves_that_refuse_are_left_alone(device: str) -> None:
    a, b = Tensor([2.0], requires_grad=False), Tensor([3.0])
    (a * b).sum().backward()
    assert a.grad is None
    assert grad(b) == [2.0]


def test_is_param_false_means_no_gradient() -> None:
    x = Tensor([1.0]).is_param_(False)
    assert (x.is_param, x.requires_grad) == (False, False)
    assert Tensor([1.0]).is_param_().is_param is True


def test_reading_the_loss_first_changes_nothing(device: str) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    loss = (x * x).sum()
    assert loss.item() == 5.0
    loss.backward()
    assert grad(x) == [2.0, 4.0]


def test_a_loop_without_gradients_does_not_grow(device: str) -> None:
    x = Tensor([1.0])
    for _ in range(5):
        x = (x + 1).realize()
    assert x.uop.op is Ops.BUFFER
    assert x.item() == 6.0


def test_a_random_weight_is_a_leaf(device: str) -> None:
    w = Tensor.rand(3)
    (w * 2).sum().backward()
    assert grad(w) == [2.0, 2.0, 2.0]


def test_a_realised_result_is_a_leaf(device: str) -> None:
    y = (Tensor([1.0, 2.0]) + 1).realize()
    (y * y).sum().backward()
    assert grad(y) == [4.0, 6.0]


def test_detach_stops_the_gradient(device: str) -> None:
    x = Tensor([3.0], requires_grad=True)
    (x * x.detach()).sum().backward()
    assert grad(x) == [3.0]
    assert x.detach().requires_grad is False


def test_no_grad_stops_the_gradient(device: str) -> None:
    x = Tensor([3.0], requires_grad=True)
    with Tensor.no_grad():
        y = x * 5
        z = y + 1
    assert (y.requires_grad, z.requires_grad) == (False, False)
    (x * z).sum().backward()
    assert grad(x) == [16.0]


def test_requires_grad_follows_from_operands() -> None:
    x = Tensor([1.0], requires_grad=True)
    assert (x + 1).requires_grad is True and not (x + 1).is_leaf
    assert (Tensor([1.0]) + 1).requires_grad is None
    assert Tensor([1.0]).requires_grad_().requires_grad is True
    y = Tensor([1.0])
    y.requires_grad = True
    assert y.is_leaf and y.requires_grad is True


def test_a_tensor_made_of_another_is_a_leaf_of_its_own(device: str) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = Tensor(x, requires_grad=True)
    alias = x.reshape(2).requires_grad_()
    x.detach().realize()  # stands on the same storage, yet x stays the leaf
    (x * 2 + y * 3 + alias * 4).sum().backward()
    assert (grad(x), grad(y), grad(alias)) == ([2.0, 2.0], [3.0, 3.0], [4.0, 4.0])
    y.assign(y + 1).realize()
    assert (x.tolist(), y.tolist()) == ([1.0, 2.0], [2.0, 3.0])


def test_gradient_gives_lists_and_leaves_grad_alone(device: str) -> None:
    x, y = Tensor([2.0]), Tensor([3.0])
    gx, gy = (x * x * y).sum().gradient(x, y)
    assert (gx.tolist(), gy.tolist()) == ([12.0], [4.0])
    assert x.grad is None


def test_gradient_with_respect_to_an_intermediate(device: str) -> None:
    x = Tensor([2.0])
    y = x * x
    (g,) = (y * 3).sum().gradient(y)
    assert g.tolist() == [3.0]


def test_gradient_takes_what_flows_in(device: str) -> None:
    x = Tensor([[1.0, 2.0]])
    (g,) = (x * x).gradient(x, gradient=Tensor([[1.0, 10.0]]))
    assert g.tolist() == [[2.0, 40.0]]
    (x * x).backward(gradient=[[1, 10]])
    assert grad(x) == [[2.0, 40.0]]


def test_second_derivative(device: str) -> None:
    x = Tensor([2.0], requires_grad=True)
    (first,) = (x**3).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    assert (first.tolist(), second.tolist()) == ([12.0], [12.0])


def test_assigning_to_a_leaf_keeps_it_a_leaf(device: str) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True).realize()
    for _ in range(2):
        w.zero_grad()
        (w * w).sum().backward()
        assert w.grad is not None
        w.assign(w - w.grad * 0.25)
    assert w.is_leaf
    assert w.tolist() == [0.25, 0.5]


def _step() -> tuple[Tensor, Tensor]:
    w = Tensor([1.0, 2.0], requires_grad=True).realize()
    loss = (w * w).sum().backward()
    assert w.grad is not None
    w.assign(w - w.grad * 0.25).realize()
    return loss, w


def test_a_step_computes_loss_and_gradient_too_and_saves_no_old_version(device: str) -> None:
    before = counters.saved_versions
    loss, w = _step()
    runs = counters.runs
    assert (loss.item(), w.tolist(), grad(w)) == (5.0, [0.5, 1.0], [2.0, 4.0])
    assert (counters.runs, counters.saved_versions) == (runs, before)


@pytest.mark.parametrize("retain", [False, True])
def test_an_assignment_lets_the_graph_of_the_loss_go_unless_asked(
    device: str, retain: bool
) -> None:
    w, count = Tensor([1.0, 2.0], requires_grad=True), Tensor([0.0]).realize()
    loss = (w * w).sum().backward(retain_graph=retain)
    count.assign(count + 1).realize()
    if retain:
        loss.backward()
        assert grad(w) == [4.0, 8.0]
    else:
        with pytest.raises(GradientError, match="It was computed before and forgot how"):
            loss.backward()


def test_dead_tensors_are_forgotten() -> None:
    from polygrad.tensor.base import _leaves

    gc.collect()
    before = len(_leaves)
    xs = [Tensor([float(i)]) for i in range(20)]
    assert len(_leaves) == before + 20
    del xs
    gc.collect()
    assert len(_leaves) == before


X = Tensor([1.0, 2.0])
MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: (X * 2).backward(),
        GradientError,
        "backward starts from one number, not shape (2,); use .sum().backward() or pass gradient=.",
    ),
    (
        lambda: Tensor([1, 2]).sum().backward(),
        GradientError,
        "backward: int64 has no gradient; only floats do.",
    ),
    (
        lambda: (Tensor([1, 2]).float() * 2).sum().backward(),
        GradientError,
        "backward: no leaf tensors require grad: none is a float, or all are detached or were"
        " assigned to since.",
    ),
    (lambda: X.detach().sum().backward(), GradientError, "backward: nothing flows to any leaf."),
    (
        lambda: (X * 2).sum().gradient(Tensor([1.0])),
        GradientError,
        "gradient: the tensor does not depend on target 0 (shape (1,)).",
    ),
    (
        lambda: (X * 2).sum().realize().gradient(X),
        GradientError,
        "gradient: the tensor does not depend on target 0 (shape (2,)). It was computed before and"
        " forgot how: mark the inputs with requires_grad=True, or take the gradient first.",
    ),
    (
        lambda: X.sum().gradient(Tensor([1])),
        GradientError,
        "gradient: a target of int32 has none; only floats do.",
    ),
    (
        lambda: X.gradient(X, gradient=Tensor([1.0])),
        ShapeError,
        "gradient: gradient has shape (1,), the tensor (2,).",
    ),
    (
        lambda: Tensor([1]).requires_grad_(),
        DTypeError,
        "only float tensors take gradients, not int32.",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES, ids=[t[:50] for _, _, t in MISTAKES])
def test_mistake_is_named(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == text


def test_unused_targets_get_zeros_on_request(device: str) -> None:
    (g,) = Tensor([3.0]).sum().gradient(Tensor([1.0, 5.0]), allow_unused=True)
    assert g.tolist() == [0.0, 0.0]


def test_a_chain_of_twenty_thousand(device: str) -> None:
    x = Tensor([1.0], requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + x
    (g,) = y.sum().gradient(x)
    assert g.tolist() == [20_001.0]


def written(how: str, t: Tensor, w: Tensor) -> None:
    if how == "assign":
        t.assign(t * w)
    elif how == "*=":
        t *= w
    elif how == "[...] =":
        t[...] = t * w
    else:
        t[Tensor([True, True], device=t.device)] = t * w


@pytest.mark.parametrize("read", ["nothing", "the tensor", "the loss"])
@pytest.mark.parametrize("how", ["assign", "*=", "[...] =", "mask"])
@pytest.mark.parametrize("stored", [True, False])
def test_gradients_go_through_writes_whatever_was_read(
    device: str, how: str, read: str, stored: bool
) -> None:
    """As in torch: d/dw sum((t w w)^2) = 4 t^2 w^3."""
    w = Tensor([3.0, 4.0], requires_grad=True)
    t = Tensor([1.0, 2.0])
    t = t.realize() if stored else t
    before = t * 1
    for _ in range(2):
        written(how, t, w)
        if read == "the tensor":
            t.realize()
    loss = (t * t).sum()
    if read == "the loss":
        assert loss.item() == 9.0**2 + 32.0**2
    loss.backward()
    assert w.grad is not None and t.grad is None
    assert w.grad.tolist() == [4 * 27.0, 4 * 4 * 64.0]
    assert t.requires_grad and not t.is_leaf
    assert (t.tolist(), before.tolist()) == ([9.0, 32.0], [1.0, 2.0])


def test_writes_that_no_gradient_is_to_go_through(device: str) -> None:
    w, t, state = (Tensor([2.0], requires_grad=r) for r in (True, None, False))
    with Tensor.no_grad():
        t.assign(t * w)
    state.assign(state * w)
    assert (t.tolist(), state.tolist()) == ([4.0], [4.0])
    assert not t.requires_grad and state.requires_grad is False
    w.assign(w * w)  # a step: the parameter stays a leaf
    (w * 3.0).sum().backward()
    assert w.is_leaf and w.grad is not None and (w.tolist(), w.grad.tolist()) == ([4.0], [3.0])
