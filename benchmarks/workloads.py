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


def function(
    shapes: tuple[tuple[int, ...], ...],
    ours: Callable[..., Any],
    torch: Callable[..., Any],
    numpy: Callable[..., Any] | None = None,
    promise: tuple[str, float] | None = None,
) -> Workload:
    """One function of arrays of these shapes; torch's takes the module first."""
    makers = {"ours": _compiled(ours, shapes), "torch": _eager_torch(torch, shapes)}
    if numpy is not None:
        inputs = [array(*s, seed=i) for i, s in enumerate(shapes)]
        makers["numpy"] = lambda: lambda: numpy(*inputs)
    return Workload(makers, promise)


def _compiled(body: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> Maker:
    def make() -> Step:
        from polygrad import Tensor, jit

        inputs = [Tensor(array(*s, seed=i)).realize() for i, s in enumerate(shapes)]
        compiled = jit(body)
        return lambda: compiled(*inputs)

    return make


def _eager_torch(body: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> Maker:
    def make() -> Step:
        import torch

        inputs = [torch.from_numpy(array(*s, seed=i)) for i, s in enumerate(shapes)]

        def step() -> object:
            with torch.inference_mode():
                return body(torch, *inputs)

        return step

    return make


def matmul(n: int) -> Workload:
    return function(
        ((n, n), (n, n)),
        ours=lambda a, b: a @ b,
        torch=lambda torch, a, b: a @ b,
        numpy=lambda a, b: a @ b,
        promise=("numpy", 0.9),
    )


def batched() -> Workload:
    return function(
        ((256, 64, 64), (256, 64, 64)),
        ours=lambda a, b: a @ b,
        torch=lambda torch, a, b: a @ b,
        numpy=lambda a, b: a @ b,
    )


def gelu_chain() -> Workload:
    gelu = "tanh"
    return function(
        ((4096, 4096),) * 3,
        ours=lambda x, y, z: x.gelu(gelu) * y + z,
        torch=lambda torch, x, y, z: torch.nn.functional.gelu(x, approximate=gelu) * y + z,
        promise=("torch", 3.0),
    )


def softmax() -> Workload:
    return function(
        ((4096, 4096),),
        ours=lambda x: x.softmax(-1),
        torch=lambda torch, x: torch.softmax(x, -1),
        promise=("torch", 2.0),
    )


def layer_norm() -> Workload:
    return function(
        ((4096, 1024),),
        ours=lambda x: x.layernorm(),
        torch=lambda torch, x: torch.nn.functional.layer_norm(x, (1024,)),
    )


def total(axis: int | None) -> Workload:
    return function(
        ((4096, 4096),),
        ours=lambda x: x.sum(axis),
        torch=lambda torch, x: x.sum() if axis is None else x.sum(axis),
        numpy=lambda x: x.sum(axis),
        promise=("torch", 0.8),
    )


def running_total() -> Workload:
    return function(
        ((1000, 4096),),
        ours=lambda x: x.cumsum(1),
        torch=lambda torch, x: x.cumsum(1),
        numpy=lambda x: x.cumsum(1),
    )


def ordering() -> Workload:
    return function(
        ((64, 4096),),
        ours=lambda x: x.sort(1)[0],
        torch=lambda torch, x: x.sort(1)[0],
        numpy=lambda x: np.sort(x, 1),
    )


IMAGES, FILTERS = (8, 64, 56, 56), (64, 64, 3, 3)


def convolution() -> Workload:
    return function(
        (IMAGES, FILTERS),
        ours=lambda x, w: x.conv2d(w, padding=1),
        torch=lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1),
    )


def depthwise() -> Workload:
    return function(
        (IMAGES, (64, 1, 3, 3)),
        ours=lambda x, w: x.conv2d(w, padding=1, groups=64),
        torch=lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1, groups=64),
    )


def convolution_gradient(to: int) -> Workload:
    """Of a convolution's result, to its images (0) or its filters (1)."""

    def ours(*parts: Any) -> Any:
        x, w, g = parts
        return (x.conv2d(w, padding=1) * g).sum().gradient(parts[to])[0]

    def torch(torch: Any, x: Any, w: Any, g: Any) -> Any:
        wanted = [to == 0, to == 1, False]
        backward = torch.ops.aten.convolution_backward
        return backward(g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted)[to]

    return function((IMAGES, FILTERS, IMAGES), ours=ours, torch=torch)


def attention() -> Workload:
    def torch(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return function(
        ((4, 8, 512, 64),) * 3,
        ours=lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        torch=torch,
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
    "matmul1024": lambda: matmul(1024),
    "matmul2048": lambda: matmul(2048),
    "bmm256x64": batched,
    "geluchain16M": gelu_chain,
    "softmax4096": softmax,
    "layernorm4096x1024": layer_norm,
    "sum_full": lambda: total(None),
    "sum_ax0": lambda: total(0),
    "sum_ax1": lambda: total(1),
    "cumsum1000x4096": running_total,
    "sort64x4096": ordering,
    "conv2d": convolution,
    "conv2d_to_images": lambda: convolution_gradient(0),
    "conv2d_to_filters": lambda: convolution_gradient(1),
    "conv2d_depthwise": depthwise,
    "attention": attention,
    "mlp_b32": lambda: training((784, 512, 512, 10), 32, True, 1.0),
    "mlp_b256": lambda: training((784, 512, 512, 10), 256, True, 1.0),
    "tinymlp_b32": lambda: training((10, 32, 1), 32, False, 5.0),
}
