"""Networks whose first result `cold` waits for: weights made, nothing compiled for the step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .frameworks import FRAMEWORKS, OURS
from .measure import usable_cores
from .workloads import WORKLOADS, transformer

Step = Callable[[], object]


def _ours() -> Any:
    return FRAMEWORKS[OURS](usable_cores())


def perceptron() -> Step:
    return WORKLOADS["mlp_b32"]().steps[OURS](_ours())


def decode(layers: int = 12, width: int = 768) -> Step:
    """One token of a decoder; a narrow one has a small vocabulary too."""
    vocabulary = transformer.SMALL.vocabulary if width == transformer.SMALL.width else 1000
    shape = transformer.Shape(layers, width, max(1, width // 64), vocabulary)
    return transformer.decoder(shape, 1).steps[OURS](_ours())


class Residual:
    """Two 3x3 convolutions beside a way around them (He et al. 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        from polygrad import nn

        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norms = [nn.BatchNorm2d(outputs) for _ in range(2)]
        self.around: Any = None
        if stride != 1 or inputs != outputs:
            self.around = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.norms.append(nn.BatchNorm2d(outputs))

    def __call__(self, x: Any) -> Any:
        out = self.norms[0](self.first(x)).relu()
        out = self.norms[1](self.second(out))
        return (out + (self.norms[2](self.around(x)) if self.around else x)).relu()


class ResNet18:
    """Images (n, 3, h, w) -> scores of 1000 classes."""

    def __init__(self) -> None:
        from polygrad import nn

        self.stem = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(64)
        wide = (64, 64, 128, 256, 512)
        self.blocks = [
            block
            for i, (a, b) in enumerate(pairwise(wide))
            for block in (Residual(a, b, 1 if i == 0 else 2), Residual(b, b, 1))
        ]
        self.head = nn.Linear(512, 1000)

    def __call__(self, x: Any) -> Any:
        x = self.norm(self.stem(x)).relu().max_pool2d(3, stride=2, padding=1)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def resnet(batch: int = 1, side: int = 64) -> Step:
    """A training step on small images: what is compiled is that of any, and little is computed."""
    from polygrad import Model, Tensor

    model = Model(
        ResNet18(),
        inputs={"x": Tensor.empty(batch, 3, side, side)},
        targets={"y": Tensor.empty(batch, dtype="int32")},
        loss=lambda outputs, y: _one(outputs).cross_entropy(y),
    )
    model.set_optimizer("sgd", lr=0.01, momentum=0.9)
    x = np.random.default_rng(0).standard_normal((batch, 3, side, side), np.float32)
    data = {"x": x, "y": np.zeros(batch, np.int32)}
    return lambda: model.train_step(data)


def _one(outputs: Any) -> Any:
    (out,) = outputs.values() if isinstance(outputs, dict) else (outputs,)
    return out
