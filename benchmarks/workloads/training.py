"""Whole training steps on a fixed batch: forward, backward and Adam's update.

Networks are given as their weights by name and one loss in terms of a handful of operations that
each framework spells its own way; ours is a `Model` with `train_step`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ..frameworks import Framework
from .common import FLOAT, Goal, Step, Work, Workload, array

RATE = 0.001
Weights = dict[str, Any]
Loss = Callable[[Weights, Any, Any], Any]  # weights, inputs, targets -> a number


class Mlp:
    """The network of the perceptrons, ours."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        from polygrad import nn

        self.layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


def perceptron(sizes: tuple[int, ...], batch: int, classes: bool, goal: Goal) -> Workload:
    """A perceptron with cross-entropy over classes, or squares of differences."""
    x = array(batch, sizes[0])
    labels = np.random.default_rng(1).integers(0, sizes[-1], batch).astype(np.int32)
    y = labels if classes else array(batch, sizes[-1], seed=2)
    weights = {}
    for i, (a, b) in enumerate(pairwise(sizes)):
        weights[f"w{i}"] = array(b, a, seed=i) * a**-0.5
        weights[f"b{i}"] = np.zeros(b, np.float32)

    def outputs(relu: Any, w: Weights, h: Any) -> Any:
        for i in range(len(sizes) - 1):
            h = h @ w[f"w{i}"].T + w[f"b{i}"]
            h = relu(h) if i < len(sizes) - 2 else h
        return h

    def loss(ops: Any, w: Weights, x: Any, y: Any) -> Any:
        out = outputs(ops.relu, w, x)
        return ops.cross_entropy(out, y) if classes else ((out - y) ** 2).mean()

    def ours(framework: Framework) -> Step:
        return _model(Mlp(sizes), x, y, classes)

    matrices = sum(a * b for a, b in pairwise(sizes))
    # Adam reads and writes weights and both moments.
    everything = FLOAT * sum(w.size for w in weights.values())
    work = Work(6.0 * batch * matrices, 3 * everything, 3 * everything)
    small = matrices < 10_000  # a step of such a one is all calls and no work
    return Workload(_steps(ours, weights, loss, x, y), Work() if small else work, goal)


class TabmNet:
    """TabM's batch ensemble (Gorishniy et al. 2024): one set of matrices, and for each of `members`
    its own scales before and after them, biases and head."""

    def __init__(self, members: int, inputs: int, width: int, layers: int) -> None:
        from polygrad import Tensor

        self.layers = []
        for i in range(layers):
            n = inputs if i == 0 else width
            scales = (Tensor.randn(members, n), Tensor.randn(members, width))
            weight = Tensor.randn(width, n) * n**-0.5
            self.layers.append([weight, *scales, Tensor.zeros(members, width)])
        self.head = Tensor.randn(members, width) * width**-0.5
        self.bias = Tensor.zeros(members)

    def __call__(self, x: Any) -> Any:
        h = x.unsqueeze(1)
        for weight, before, after, bias in self.layers:
            h = ((h * before) @ weight.transpose(0, 1) * after + bias).relu()
        return (h * self.head).sum(-1) + self.bias


def tabm(members: int = 32, inputs: int = 64, width: int = 256, layers: int = 3) -> Workload:
    batch = 256
    x, y = array(batch, inputs), array(batch, 1, seed=2)
    weights: Weights = {"head": array(members, width), "head_bias": np.zeros(members, np.float32)}
    for i in range(layers):
        n = inputs if i == 0 else width
        weights[f"w{i}"] = array(width, n, seed=i) * n**-0.5
        weights[f"r{i}"] = array(members, n, seed=i)
        weights[f"s{i}"] = array(members, width, seed=i)
        weights[f"b{i}"] = np.zeros((members, width), np.float32)

    def loss(ops: Any, w: Weights, x: Any, y: Any) -> Any:
        h = x.reshape(batch, 1, inputs)
        for i in range(layers):
            h = ops.relu((h * w[f"r{i}"]) @ w[f"w{i}"].T * w[f"s{i}"] + w[f"b{i}"])
        return (((h * w["head"]).sum(-1) + w["head_bias"] - y) ** 2).mean()

    def ours(framework: Framework) -> Step:
        return _model(TabmNet(members, inputs, width, layers), x, y, classes=False)

    matrices = inputs * width + (layers - 1) * width * width
    work = Work(6.0 * batch * members * matrices)
    return Workload(_steps(ours, weights, loss, x, y), work, Goal(1.3, 0.4))


# ---- a step, by framework


def _steps(ours: Any, weights: Weights, loss: Any, x: Any, y: Any) -> dict[str, Any]:
    makers = {"torch": _torch, "jax": _jax, "tinygrad": _tinygrad}
    peers = {name: partial(make, weights, loss, x, y) for name, make in makers.items()}
    return {"ours": ours, **peers}


def _model(net: Any, x: Any, y: Any, classes: bool) -> Step:
    from polygrad import Model, Tensor

    def loss(outputs: Any, y: Any) -> Any:
        (out,) = outputs.values() if isinstance(outputs, dict) else (outputs,)
        return out.cross_entropy(y) if classes else (out - y).square().mean()

    kind = "int32" if classes else "float32"
    model = Model(
        net,
        inputs={"x": Tensor.empty(*x.shape)},
        targets={"y": Tensor.empty(*y.shape, dtype=kind)},
        loss=loss,
    )
    model.set_optimizer("adam", lr=RATE)
    data = {"x": Tensor(x).realize(), "y": Tensor(y).realize()}  # where the peers' arrays are
    return lambda: model.train_step(data)


class _TorchOps:
    @staticmethod
    def relu(x: Any) -> Any:
        return x.relu()

    @staticmethod
    def cross_entropy(x: Any, labels: Any) -> Any:
        from torch.nn.functional import cross_entropy

        return cross_entropy(x, labels)


def _torch(weights: Weights, loss: Any, x: Any, y: Any, framework: Framework) -> Step:
    torch = framework.module
    parameters = {k: torch.nn.Parameter(torch.from_numpy(w.copy())) for k, w in weights.items()}
    optimizer = torch.optim.Adam(parameters.values(), lr=RATE)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    targets = targets.long() if y.dtype == np.int32 else targets

    def step() -> float:
        optimizer.zero_grad()
        value = loss(_TorchOps, parameters, inputs, targets)
        value.backward()
        optimizer.step()
        number: float = value.item()
        return number

    return step


class _JaxOps:
    @staticmethod
    def relu(x: Any) -> Any:
        from jax.nn import relu

        return relu(x)

    @staticmethod
    def cross_entropy(x: Any, labels: Any) -> Any:
        from jax.nn import log_softmax, one_hot

        return -(log_softmax(x) * one_hot(labels, x.shape[-1])).sum(-1).mean()


def _jax(weights: Weights, loss: Any, x: Any, y: Any, framework: Framework) -> Step:
    jax = framework.module
    jnp = jax.numpy

    def update(p: Weights, m: Weights, v: Weights, t: Any, x: Any, y: Any) -> Any:
        value, g = jax.value_and_grad(partial(loss, _JaxOps))(p, x, y)
        t = t + 1
        m = {k: 0.9 * m[k] + 0.1 * g[k] for k in p}
        v = {k: 0.999 * v[k] + 0.001 * g[k] ** 2 for k in p}
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        p = {k: p[k] - RATE * (m[k] / c1) / (jnp.sqrt(v[k] / c2) + 1e-8) for k in p}
        return value, p, m, v, t

    def zeros() -> Weights:
        return {k: jnp.zeros(w.shape) for k, w in weights.items()}

    compiled = jax.jit(update, donate_argnums=(0, 1, 2))
    state = [{k: jnp.asarray(w) for k, w in weights.items()}, zeros(), zeros(), jnp.float32(0)]
    inputs, targets = jnp.asarray(x), jnp.asarray(y)

    def step() -> float:
        value, *state[:] = compiled(*state, inputs, targets)
        return float(value)

    return step


class _TinygradOps:
    @staticmethod
    def relu(x: Any) -> Any:
        return x.relu()

    @staticmethod
    def cross_entropy(x: Any, labels: Any) -> Any:
        return x.sparse_categorical_crossentropy(labels)


def _tinygrad(weights: Weights, loss: Any, x: Any, y: Any, framework: Framework) -> Step:
    from tinygrad import Context, Tensor, TinyJit
    from tinygrad.nn.optim import Adam

    parameters = {k: Tensor(w) for k, w in weights.items()}
    for parameter in parameters.values():
        parameter.requires_grad = True
        parameter.realize()
    optimizer = Adam(list(parameters.values()), lr=RATE)

    def update(x: Any, y: Any) -> Any:
        with Context(TRAINING=1):
            optimizer.zero_grad()
            value = loss(_TinygradOps, parameters, x, y)
            value.backward()
            return value.realize(*optimizer.schedule_step())

    compiled = TinyJit(update)
    inputs, targets = Tensor(x).realize(), Tensor(y).realize()
    return lambda: compiled(inputs, targets).item()
