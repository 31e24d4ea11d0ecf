"""function: a computation over tensors as a node of the graph (F072, F073)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import polygrad
from polygrad import Context, Model, Ops, Tensor, jit, nn
from polygrad.errors import ArgumentError, CaptureError, GradientError


@polygrad.function
def affine(x: Tensor, w: Tensor) -> Tensor:
    return x * w + 1


def test_it_is_a_node_that_computes_what_the_function_does(device: str) -> None:
    """F072."""
    x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    y = affine(x, w)
    assert y.uop.op is Ops.FUNCTION
    assert y.tolist() == [4.0, 9.0]
    assert (affine(y, w) * 2).tolist() == [26.0, 74.0]


@dataclass
class Batch:
    image: Tensor
    scale: float


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def test_nested_arguments_and_several_results(device: str) -> None:
    """F072."""

    @polygrad.function
    def f(batch: Batch, more: dict[str, list[Tensor]], *, pair: Pair, mode: str) -> Any:
        total = batch.image * batch.scale + more["a"][0] + pair.first * pair.second
        return Pair(total, total * 2) if mode == "pair" else [total]

    def call(mode: str) -> Any:
        one = Tensor([1.0, 2.0])
        return f(Batch(one, 10.0), {"a": [one]}, pair=Pair(one, one), mode=mode)

    out = call("pair")
    assert isinstance(out, Pair)
    assert (out.first.tolist(), out.second.tolist()) == ([12.0, 26.0], [24.0, 52.0])
    (alone,) = call("list")
    assert alone.tolist() == [12.0, 26.0]


@pytest.mark.parametrize("precompile", [False, True])
@pytest.mark.parametrize("precompile_backward", [False, True])
def test_its_gradients(device: str, precompile: bool, precompile_backward: bool) -> None:
    """F072: first and second derivatives are those of the operations, whatever the options."""

    @polygrad.function(precompile=precompile, precompile_backward=precompile_backward)
    def f(x: Tensor, y: Tensor, n: float) -> tuple[Tensor, Tensor]:
        return (x.sin() * y).sum(), x * x * x * n

    r = np.random.default_rng(4)
    for n in (2.0, 3.0):
        a, b = r.random(4, np.float32), r.random(4, np.float32)
        x, y = Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)
        one, cube = f(x, y, n)
        (one * 5 + cube.sum()).backward()
        assert x.grad is not None and y.grad is not None
        np.testing.assert_allclose(
            x.grad.numpy(), 5 * np.cos(a) * b + 3 * n * a * a, rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(y.grad.numpy(), 5 * np.sin(a), rtol=1e-5, atol=1e-6)
        (slope,) = f(x, y, n)[1].sum().gradient(x)
        np.testing.assert_allclose(slope.sum().gradient(x)[0].numpy(), 6 * n * a, rtol=1e-5)
        (only,) = f(x, y, n)[0].gradient(y)
        np.testing.assert_allclose(only.numpy(), np.sin(a), rtol=1e-5)


# ---- a gradient of its own


def test_a_gradient_of_its_own(device: str) -> None:
    """F073: grad_fxn takes the gradients of the results, then the tensors."""
    seen = []

    def straight(g: Tensor, x: Tensor, low: Tensor) -> tuple[Tensor, None]:
        seen.append((g.shape, x.shape, low.shape))
        return g * x, None

    @polygrad.function(grad_fxn=straight)
    def quantized(x: Tensor, low: Tensor) -> Tensor:
        return x.round().maximum(low)

    x, low = Tensor([0.4, 1.7], requires_grad=True), Tensor(0.0, requires_grad=True)
    y = quantized(x, low)
    assert y.tolist() == [0.0, 2.0]
    (y * Tensor([10.0, 100.0])).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [4.0, 170.0], rtol=1e-6)
    assert low.grad is None or low.grad.tolist() == 0.0
    assert seen == [((2,), (2,), ())]


@pytest.mark.parametrize("precompile_backward", [False, True])
def test_a_second_derivative_of_a_gradient_of_its_own(
    device: str, precompile_backward: bool
) -> None:
    """F073: what grad_fxn computes is differentiated in its turn."""
    calls = []

    def slope(g: Tensor, x: Tensor) -> Tensor:
        calls.append(1)
        return g * x * x * 3

    cube = polygrad.function(
        lambda x: x * x * x, grad_fxn=slope, precompile_backward=precompile_backward
    )
    for value in (2.0, 5.0):
        x = Tensor([value], requires_grad=True)
        (first,) = cube(x).sum().gradient(x)
        assert first.tolist() == [3 * value**2]
        assert first.sum().gradient(x)[0].tolist() == [6 * value]
    assert len(calls) == (1 if precompile_backward else 2)


def test_a_gradient_of_several_results_is_asked_for_once(device: str) -> None:
    """F073: with None where nothing flows."""
    seen = []

    def back(g: Tensor | None, h: Tensor | None, x: Tensor) -> Tensor:
        seen.append((g is not None, h is not None))
        return (x * 0 if g is None else g) + (x * 0 if h is None else h * 10)

    f = polygrad.function(lambda x: (x + 1, x * 10), grad_fxn=back)
    x = Tensor([1.0, 2.0])
    one, two = f(x)
    assert (one.sum() + two.sum() * 2).gradient(x)[0].tolist() == [21.0, 21.0]
    assert f(x)[1].sum().gradient(x)[0].tolist() == [10.0, 10.0]
    assert seen == [(True, True), (False, True)]


# ---- methods and tensors from outside


class Layer:
    def __init__(self) -> None:
        self.weight = Tensor([2.0, 3.0], requires_grad=True)

    @polygrad.function(precompile=True)
    def __call__(self, x: Tensor) -> Tensor:
        return x * self.weight

    def doubled(self, x: Tensor) -> Tensor:
        return x * self.weight * 2


def test_a_method_includes_the_state_of_its_object(device: str) -> None:
    """F072: and its gradient; another value of the state is seen."""
    layer, other = Layer(), Layer()
    other.weight = Tensor([5.0, 5.0])
    x = Tensor([1.0, 10.0])
    assert layer(x).tolist() == [2.0, 30.0]
    assert other(x).tolist() == [5.0, 50.0]
    layer(x).sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [1.0, 10.0]
    layer.weight.assign(Tensor([7.0, 7.0]))
    assert layer(x).tolist() == [7.0, 70.0]
    bound = polygrad.function(layer.doubled)
    assert bound(x).tolist() == [14.0, 140.0]
    linear = nn.Linear(2, 3)
    whole = polygrad.function(linear)
    np.testing.assert_allclose(whole(x).numpy(), linear(x).numpy(), rtol=1e-6)


def test_a_gradient_of_its_own_for_a_method(device: str) -> None:
    """F073: the tensors of the object come after those of the arguments."""

    class Scaled:
        def __init__(self) -> None:
            self.by = Tensor([2.0, 3.0], requires_grad=True)

        @polygrad.function(grad_fxn=lambda g, x, by: (g * by, g * x * 100))
        def __call__(self, x: Tensor) -> Tensor:
            return x * self.by

    scaled, x = Scaled(), Tensor([5.0, 7.0], requires_grad=True)
    scaled(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 3.0]
    assert scaled.by.grad is not None and scaled.by.grad.tolist() == [500.0, 700.0]


def test_a_tensor_from_outside_must_be_allowed(device: str) -> None:
    """F072: the error says which, and where it was made."""
    w = Tensor([[1.0, 2.0]], requires_grad=True)

    def f(x: Tensor) -> Tensor:
        return x * w

    with pytest.raises(CaptureError) as error:
        polygrad.function(f)(Tensor([1.0, 2.0]))
    text = str(error.value)
    for part in ("float32 (1, 2)", "test_function.py:", "allow_implicit=True", "function"):
        assert part in text
    allowed = polygrad.function(f, allow_implicit=True)
    allowed(Tensor([3.0, 4.0])).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [[3.0, 4.0]]


def test_a_gradient_of_its_own_is_of_arguments_alone(device: str) -> None:
    w = Tensor([1.0], requires_grad=True)
    f = polygrad.function(lambda x: x * w, allow_implicit=True, grad_fxn=lambda g, x: (g,))
    with pytest.raises(GradientError, match="pass it as an argument"):
        f(Tensor([1.0]))


# ---- precompile


def test_a_precompiled_function_runs_once_in_python(device: str) -> None:
    """F072: for each set of shapes and options; numbers stay variable."""
    calls = []

    @polygrad.function(precompile=True)
    def f(x: Tensor, rate: float, mode: str = "up") -> Tensor:
        calls.append(mode)
        return x + rate if mode == "up" else x - rate

    for rate in (1.0, 2.0, 4.0):
        assert f(Tensor([1.0, 2.0]), rate).tolist() == [1 + rate, 2 + rate]
    assert f(Tensor([1.0]), 0.5).tolist() == [1.5]
    assert f(Tensor([1.0]), 0.5, mode="down").tolist() == [0.5]
    assert calls == ["up", "up", "down"]
    assert f.stats() == {"calls": 5, "captures": 3, "kept": 3}


def test_a_number_that_python_looks_at_is_never_stale(device: str) -> None:
    f = polygrad.function(lambda x, n: x + 1 if n > 2 else x - 1, precompile=True)
    x = Tensor([5.0])
    assert [f(x, n).item() for n in (3, 1, 4, 2)] == [6.0, 4.0, 6.0, 4.0]


def test_without_precompile_it_runs_at_each_call(device: str) -> None:
    calls = []
    f = polygrad.function(lambda x: (calls.append(1), x + 1)[1])
    f(Tensor([1.0]))
    f(Tensor([1.0]))
    assert len(calls) == 2


@pytest.mark.parametrize("precompile", [False, True])
def test_random_draws_differ_per_call(device: str, precompile: bool) -> None:
    """F072: and are those that the operations would have made."""
    f = polygrad.function(lambda x: x + Tensor.rand(3), precompile=precompile)
    x = Tensor.zeros(3)
    Tensor.manual_seed(3)
    got = [f(x).tolist() for _ in range(3)]
    Tensor.manual_seed(3)
    assert got == [(x + Tensor.rand(3)).tolist() for _ in range(3)]


def test_a_state_that_is_lazily_zero_is_not_folded(device: str) -> None:
    bias = Tensor.zeros(2)
    f = polygrad.function(lambda x: x + bias, precompile=True, allow_implicit=True)
    x = Tensor([1.0, 2.0])
    assert f(x).tolist() == [1.0, 2.0]
    bias.assign(Tensor([10.0, 20.0]))
    assert f(x).tolist() == [11.0, 22.0]


def test_inputs_are_taken_before_the_body_runs(device: str) -> None:
    """F072: what is assigned to an argument later does not change the result."""
    x = Tensor([1.0, 2.0])
    y = polygrad.function(lambda x: x * 10)(x)
    x.assign(Tensor([5.0, 5.0]))
    assert (y.tolist(), x.tolist()) == ([10.0, 20.0], [5.0, 5.0])


# ---- inside of captures


@pytest.mark.parametrize("precompile", [False, True])
def test_inside_of_jit(device: str, precompile: bool) -> None:
    w = Tensor([2.0, 3.0])

    @polygrad.function(precompile=precompile, allow_implicit=True)
    def inner(x: Tensor, rate: float) -> Tensor:
        return x * w * rate + Tensor.rand(2) * 0

    @jit
    def outer(x: Tensor, rate: float) -> Tensor:
        return inner(x + 1, rate) + inner(x, 2 * rate)

    for rate in (1.0, 2.0):
        got = outer(Tensor([1.0, 1.0]), rate).tolist()
        assert got == [2 * (2 * rate + 2 * rate), 3 * (2 * rate + 2 * rate)]
    assert outer.stats()["captures"] == 1
    w.assign(Tensor([1.0, 1.0]))
    assert outer(Tensor([1.0, 1.0]), 1.0).tolist() == [4.0, 4.0]


def test_what_changes_inside_of_jit_is_not_stale(device: str) -> None:
    @jit
    def outer(x: Tensor) -> Tensor:
        w = Tensor.zeros(2)
        inner = polygrad.function(lambda x: x + w, precompile=True, allow_implicit=True)
        first = inner(x)
        w += 1
        return first + inner(x) * 100

    assert outer(Tensor([1.0, 2.0])).tolist() == [201.0, 302.0]


def test_one_function_inside_another(device: str) -> None:
    inner = polygrad.function(lambda x: x * x, grad_fxn=lambda g, x: (g * x * 20,))
    outer = polygrad.function(lambda x: inner(x) + x, precompile=True, precompile_backward=True)
    for v in (3.0, 4.0):
        x = Tensor([v])
        assert outer(x).tolist() == [v * v + v]
        assert outer(x).sum().gradient(x)[0].tolist() == [20 * v + 1]


def test_inside_of_a_model(device: str, tmp_path: Any) -> None:
    """A bundle holds its values; the gradient of its own is Python and is told to be missing."""

    class Net:
        def __init__(self) -> None:
            self.w = Tensor([2.0, 3.0])

        @polygrad.function(grad_fxn=lambda g, x, w: (None, g * x * 10))
        def scaled(self, x: Tensor) -> Tensor:
            return x * self.w

        def __call__(self, x: Tensor) -> Tensor:
            return self.scaled(x)

    net = Net()
    spec = {"x": Tensor.empty(2)}
    model = Model(
        net, inputs=spec, targets={"y": Tensor.empty(2)}, loss=lambda out, y: _loss(out, y)
    )
    model.set_optimizer("sgd", lr=1.0)
    x = np.array([1.0, 1.0], np.float32)
    model.train_step({"x": x, "y": np.array([1.0, 3.0], np.float32)})
    assert net.w.tolist() == [-8.0, -7.0]
    model.save(tmp_path / "net.pgb")
    loaded = Model.load(tmp_path / "net.pgb")
    assert loaded.forward({"x": x})["output"].tolist() == [-8.0, -7.0]
    with pytest.raises(GradientError, match="grad_fxn"):
        loaded.set_optimizer("sgd", lr=1.0)
        loaded.train_step({"x": x, "y": x})


def _loss(out: Any, y: Tensor) -> Tensor:
    value = out["output"] if isinstance(out, dict) else out
    return (value - y * 0).sum()


# ---- what is refused


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda x, w: x.assign(x + 1), r"assigns to a tensor of float32 \(2,\) at .*test_func"),
        (lambda x, w: w.assign(x), r"assigns to a tensor of float32 \(2,\)"),
        (lambda x, w: x.__setitem__(0, 1.0) or x, "assigns to"),
        (lambda x, w: Tensor(x).assign(x + 1), "assigns to"),
        (lambda x, w: w.replace(x), "replaces a tensor"),
        (lambda x, w: x * x.sum().item(), "a tensor's value is read"),
        (lambda x, w: x if (x > 0).all() else -x, "a tensor's value is read"),
    ],
    ids=["argument", "outside", "item", "alias", "replace", "read", "condition"],
)
def test_a_function_only_computes(device: str, body: Any, text: str) -> None:
    """F072: and after an error all is as before."""
    x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    f = polygrad.function(lambda x: body(x, w), allow_implicit=True)
    with pytest.raises(CaptureError, match=text):
        f(x)
    assert (x.tolist(), w.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    assert (x + 1).tolist() == [2.0, 3.0]


def test_what_it_made_itself_may_be_assigned_to(device: str) -> None:
    @polygrad.function(precompile=True)
    def f(x: Tensor) -> Tensor:
        out = Tensor.zeros(3)
        out[0] = x.sum()
        kept = Tensor([5.0, 5.0, 5.0])
        kept += out
        return kept

    for v in (1.0, 2.0):
        x = Tensor([v, v])
        assert f(x).tolist() == [5 + 2 * v, 5.0, 5.0]
        assert f(x).sum().gradient(x)[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("returned", [None, 3, (), [], {}, {"a": 1}, "x"])
def test_what_it_returns_is_checked(device: str, returned: Any) -> None:
    with pytest.raises(ArgumentError, match="returns a Tensor, or a tuple or list"):
        polygrad.function(lambda x: returned)(Tensor([1.0]))


def test_wrong_arguments(device: str) -> None:
    with pytest.raises(ArgumentError, match=r"function .*lambda.*: missing a required arg.*'y'"):
        polygrad.function(lambda x, y: x)(Tensor([1.0]))
    with pytest.raises(ArgumentError, match="function takes a function, not 3"):
        polygrad.function(3)
    with pytest.raises(ArgumentError, match="grad_fxn is a function, not 3"):
        polygrad.function(lambda x: x, grad_fxn=3)
    f = polygrad.function(lambda x: x * 1, grad_fxn=lambda g, x: (g, g))
    x = Tensor([1.0])
    with pytest.raises(GradientError, match="returns a tuple of 1 gradients"):
        f(x).sum().gradient(x)


def test_modes_choose_a_graph(device: str) -> None:
    """Training and no_grad are part of what a graph was made for."""
    f = polygrad.function(lambda x: x.dropout(0.5) * 1, precompile=True)
    x = Tensor.ones(64)
    assert f(x).tolist() == [1.0] * 64
    with Context(TRAINING=1):
        assert 0.0 in f(x).tolist()
    g = polygrad.function(lambda x: x * 2, precompile=True)
    y = Tensor([1.0], requires_grad=True)
    with Tensor.no_grad():
        assert not g(y).requires_grad
    g(y).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [2.0]
