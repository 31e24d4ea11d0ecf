"""The workloads: for each contestant a function that sets up and gives a callable for one step.

A step leaves its result in the contestant's own memory; nothing crosses to numpy. Ours are compiled
functions and `Model.train_step`, as a user would write them; the peers run eagerly, as theirs do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

Step = Callable[[], object]
Maker = Callable[[], Step]


class Workload(NamedTuple):
    """Makers by contestant, and the least ratio (peer's time / ours) that the project promises."""

    makers: dict[str, Maker]
    promise: tuple[str, float] | None = None


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ours(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Maker:
    def make() -> Step:
        from polygrad import Tensor, jit

        inputs = [Tensor(array(*s, seed=i)).realize() for i, s in enumerate(shapes)]
        compiled = jit(function)
        return lambda: compiled(*inputs)

    return make


def torch_step(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Maker:
    def make() -> Step:
        import torch

        inputs = [torch.from_numpy(array(*s, seed=i)) for i, s in enumerate(shapes)]

        def step() -> object:
            with torch.inference_mode():
                return function(torch, *inputs)

        return step

    return make


def numpy_step(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Maker:
    def make() -> Step:
        inputs = [array(*s, seed=i) for i, s in enumerate(shapes)]
        return lambda: function(*inputs)

    return make


def matmul(n: int) -> Workload:
    shapes = ((n, n), (n, n))
    return Workload(
        {
            "ours": ours(lambda a, b: a @ b, *shapes),
            "torch": torch_step(lambda torch, a, b: a @ b, *shapes),
            "numpy": numpy_step(lambda a, b: a @ b, *shapes),
        },
        ("numpy", 0.9),
    )


def gelu_chain() -> Workload:
    shapes = ((4096, 4096),) * 3

    def peer(torch: Any, x: Any, y: Any, z: Any) -> Any:
        return torch.nn.functional.gelu(x, approximate="tanh") * y + z

    return Workload(
        {
            "ours": ours(lambda x, y, z: x.gelu() * y + z, *shapes),
            "torch": torch_step(peer, *shapes),
        },
        ("torch", 3.0),
    )


def softmax() -> Workload:
    shape = (4096, 4096)
    return Workload(
        {
            "ours": ours(lambda x: x.softmax(-1), shape),
            "torch": torch_step(lambda torch, x: torch.softmax(x, -1), shape),
        },
        ("torch", 2.0),
    )


def layer_norm() -> Workload:
    shape = (4096, 1024)

    def peer(torch: Any, x: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (1024,))

    return Workload(
        {"ours": ours(lambda x: x.layernorm(), shape), "torch": torch_step(peer, shape)}
    )


def total(axis: int | None) -> Workload:
    shape = (4096, 4096)
    return Workload(
        {
            "ours": ours(lambda x: x.sum(axis), shape),
            "torch": torch_step(lambda torch, x: x.sum() if axis is None else x.sum(axis), shape),
            "numpy": numpy_step(lambda x: x.sum(axis), shape),
        },
        ("torch", 0.8),
    )


def convolution() -> Workload:
    shapes = ((8, 64, 56, 56), (64, 64, 3, 3))

    def peer(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, padding=1)

    return Workload(
        {
            "ours": ours(lambda x, w: x.conv2d(w, padding=1), *shapes),
            "torch": torch_step(peer, *shapes),
        }
    )


class Mlp:
    """The network of the training workloads, ours."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        from polygrad import nn

        self.layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


def training(sizes: tuple[int, ...], batch: int, classes: bool, promise: float) -> Workload:
    """One Adam step of a perceptron on a fixed batch: forward, backward and update."""
    rng = np.random.default_rng(1)
    x = array(batch, sizes[0])
    labels = rng.integers(0, sizes[-1], batch).astype(np.int32)
    values = array(batch, sizes[-1], seed=2)

    def make_ours() -> Step:
        from polygrad import Model, Tensor

        target = Tensor.empty(batch, dtype="int32") if classes else Tensor.empty(batch, sizes[-1])

        def loss(outputs: Any, y: Any) -> Any:
            out = next(iter(outputs.values())) if isinstance(outputs, dict) else outputs
            return out.cross_entropy(y) if classes else (out - y).square().mean()

        model = Model(
            Mlp(sizes),
            inputs={"x": Tensor.empty(batch, sizes[0])},
            targets={"y": target},
            loss=loss,
        )
        model.set_optimizer("adam", lr=0.001)
        data = {"x": x, "y": labels if classes else values}
        return lambda: model.train_step(data)

    def make_torch() -> Step:
        import torch

        layers: list[Any] = []
        for a, b in pairwise(sizes):
            layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
        net = torch.nn.Sequential(*layers[:-1])
        optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
        inputs = torch.from_numpy(x)
        target = torch.from_numpy(labels).long() if classes else torch.from_numpy(values)
        criterion = torch.nn.CrossEntropyLoss() if classes else torch.nn.MSELoss()

        def step() -> object:
            optimizer.zero_grad()
            loss = criterion(net(inputs), target)
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    return Workload({"ours": make_ours, "torch": make_torch}, ("torch", promise))


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "matmul256": lambda: matmul(256),
    "matmul512": lambda: matmul(512),
    "geluchain16M": gelu_chain,
    "softmax4096": softmax,
    "layernorm4096x1024": layer_norm,
    "sum_full": lambda: total(None),
    "sum_ax0": lambda: total(0),
    "sum_ax1": lambda: total(1),
    "conv2d": convolution,
    "mlp_b32": lambda: training((784, 512, 512, 10), 32, True, 1.0),
    "tinymlp_b32": lambda: training((10, 32, 1), 32, False, 5.0),
}
