"""One tensor that reaches a compiled function in two ways is one tensor inside (F067, F072)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polygrad
from polygrad import Tensor, compile, jit, nn
from polygrad.nn.optim import SGD

OUTSIDE = SimpleNamespace(c=None)  # what the functions meet without an argument


def first_then_second(a: Any, b: Any) -> Any:
    a.assign(a + 1)
    return b * 1


def both_written(a: Any, b: Any) -> Any:
    a.assign(a + 1)
    b.assign(b * 10)
    return a * 1, b * 1, a + b


def places(a: Any, b: Any) -> Any:
    a[0] = 7.0
    b[1:] = a[:1] * 2
    return a + b


def swapped(a: Any, b: Any) -> Any:
    old = a * 1
    a.assign(b + 3)
    b.assign(old * 2)
    return a - b


def outside_read(a: Any, b: Any) -> Any:
    a.assign(a + 1)
    return OUTSIDE.c * 1 + b


def outside_written(a: Any, b: Any) -> Any:
    c = OUTSIDE.c
    c.assign(c * 3)
    a.assign(a + 1)
    return a * 1, b * 1, c * 1


def slope(a: Any, b: Any) -> Any:
    return (a * a * b).sum().gradient(a)[0]


def unchanged(a: Any, b: Any) -> Any:
    return a * b


FUNCTIONS = (
    first_then_second, both_written, places, swapped, outside_read, outside_written, slope,
    unchanged,
)  # fmt: skip
# Given t, u and c, tensors that stand on memory: two arguments.
WAYS: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {
    "two": lambda t, u, c: (t, u),
    "one": lambda t, u, c: (t, t),
    "one node": lambda t, u, c: (t, t.cast(t.dtype)),
    "its node first": lambda t, u, c: (t.cast(t.dtype), t),
    "two on one node": lambda t, u, c: (t.cast(t.dtype), t.cast(t.dtype)),
    "outside first": lambda t, u, c: (c, t),
    "outside second": lambda t, u, c: (t, c),
    "outside twice": lambda t, u, c: (c, c),
    "on the node of outside": lambda t, u, c: (c.cast(c.dtype), c),
}


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    made = [Tensor([1.0, 2.0, 4.0]), Tensor([5.0, 6.0, 8.0]), Tensor([0.5, 0.25, 3.0])]
    t, u, c = [x.realize() for x in made]
    return t, u, c


def outcome(f: Callable[..., Any], way: str) -> Any:
    """Results of two calls and the tensors after them."""
    t, u, c = tensors()
    OUTSIDE.c = c
    found = []
    for _ in range(2):
        given = WAYS[way](t, u, c)
        results = f(*given)
        found += [r.tolist() for r in (results if isinstance(results, tuple) else (results,))]
        found += [x.tolist() for x in (*given, t, u, c)]
    return found


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_eager_whichever_arguments_are_one(device: str, function: Any) -> None:
    """One compiled function serves all ways, in any order."""
    compiled = jit(function)
    for way in (*WAYS, *reversed(WAYS)):
        assert outcome(compiled, way) == outcome(function, way), way


def test_the_object_outside_may_change(device: str) -> None:
    """The same function, with c an argument or not, for the c of now."""
    c = Tensor([1.0])

    def f(a: Tensor) -> Tensor:
        a.assign(a + 1)
        return c * 1

    compiled = jit(f)
    other = Tensor([10.0])
    assert compiled(c).item() == 2.0
    assert compiled(other).item() == 2.0 and other.item() == 11.0
    assert compiled(c).item() == 3.0
    c = Tensor([100.0])
    assert compiled(c).item() == 101.0
    assert compiled(other).item() == 101.0


@dataclass
class Pair:
    left: Any
    right: Any


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "list": lambda t: [t, t],
    "tuple": lambda t: (t, [t]),
    "dict": lambda t: {"a": t, "b": {"c": t}},
    "dataclass": lambda t: Pair(t, (t,)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_in_containers(device: str, name: str) -> None:
    def ends(x: Any) -> list[Any]:
        if isinstance(x, Tensor):
            return [x]
        if isinstance(x, Pair):
            x = [x.left, x.right]
        return [y for part in (x.values() if isinstance(x, dict) else x) for y in ends(part)]

    def f(held: Any, *, last: Any) -> Any:
        a, b = ends(held)
        a.assign(a + 1)
        last.assign(last * b)
        return b * 1

    compiled = jit(f)
    results = []
    for function in (f, compiled, f, compiled):
        t = Tensor([3.0])
        results.append((function(CONTAINERS[name](t), last=t).tolist(), t.tolist()))
    assert results == [([16.0], [16.0])] * 4


def test_a_view_and_its_tensor_are_two_values(device: str) -> None:
    """As eager: a lazy expression is a value of its own, and writing to it makes a copy."""
    calls = []
    for make in (lambda f: f, jit, compile):
        for order in (lambda t: (t[0:2], t), lambda t: (t, t[0:2]), lambda t: (t[:2], t[:2])):

            def f(a: Tensor, b: Tensor) -> Tensor:
                a.assign(a + 1)
                b[0] = 9.0
                return a.sum() * 100 + b.sum()

            t = Tensor([1.0, 2.0, 3.0])
            a, b = order(t)
            calls.append((make(f)(a, b).item(), a.tolist(), b.tolist(), t.tolist()))
    assert calls[:3] == calls[3:6] == calls[6:]


def test_a_gradient_flows_once_into_one_tensor_of_two_arguments(device: str) -> None:
    def f(a: Tensor, b: Tensor) -> Tensor:
        return (a * a * b).sum()

    forms = [f, jit(f), polygrad.function(f), polygrad.function(f, precompile=True)]
    forms += [polygrad.function(f, precompile=True, precompile_backward=True)]
    forms += [polygrad.function(f, grad_fxn=lambda g, a, b: (2 * g * a * b, g * a * a))]
    for form in forms:
        x = Tensor([1.0, 2.0], requires_grad=True)
        y = x.cast(x.dtype)
        for pair in ((x, x), (x, y)):
            (got,) = form(*pair).gradient(x)
            np.testing.assert_allclose(got.numpy(), [3.0, 12.0])


def test_grad_of_the_argument_that_is_the_leaf(device: str) -> None:
    def f(a: Tensor, b: Tensor) -> Any:
        (a * b).sum().backward()
        return [None if t.grad is None else t.grad * 1 for t in (a, b)]

    for make in (lambda f: f, jit):
        for swap in (False, True):
            x = Tensor([1.0, 2.0], requires_grad=True)
            y = x.cast(x.dtype)
            found = make(f)(*((y, x) if swap else (x, y)))
            x.grad = None
            given = [None if g is None else g.tolist() for g in found]
            assert given == ([None, [2.0, 4.0]] if swap else [[2.0, 4.0], None])


def test_a_weight_of_the_optimizer_as_argument(device: str) -> None:
    """It is state: each call reads what the step before it wrote."""

    def train(make: Callable[[Any], Any]) -> list[float]:
        layer = nn.Linear(2, 1, bias=False)
        layer.weight.assign(Tensor([[1.0, 2.0]]))
        optimizer = SGD([layer.weight], lr=0.125)

        def step(x: Tensor, w: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = layer(x).square().sum() + w.square().sum()
            loss.backward()
            optimizer.step()
            return w.sum()

        compiled = make(step)
        x = Tensor([[1.0, 1.0]])
        with Tensor.train():
            return [float(compiled(x, layer.weight).item()) for _ in range(3)]

    assert train(jit) == train(lambda f: f)


def test_a_models_input_may_be_its_parameter(device: str) -> None:
    w = Tensor([[2.0, 0.5]])
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.assign(w)
    model = polygrad.Model(layer, inputs={"x": (1, 2)})
    want = (layer.weight * layer.weight).sum().item()
    assert model(x=layer.weight)["output"].item() == want
