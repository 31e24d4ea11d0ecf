"""A layer that is called with a wrong shape says its own name and what would fit."""

from __future__ import annotations

from typing import Any

import pytest

from polygrad import Tensor, nn
from polygrad.errors import ShapeError
from polygrad.nn.wrong import fits


class Net:
    def __init__(self) -> None:
        self.fc1 = nn.Linear(784, 10)
        self.blocks = [nn.BatchNorm2d(3), nn.Sequential(nn.Linear(4, 5), nn.Linear(4, 5))]
        self.heads = {"a": nn.LayerNorm(3)}

    def run(self, layer: str, x: Any) -> Any:
        if layer == "loop":
            for block in self.blocks:
                x = block(x)
            return x
        return {"fc1": self.fc1, "second": self.blocks[1], "head": self.heads["a"]}[layer](x)


@pytest.mark.parametrize(
    ("layer", "shape", "text"),
    [
        ("fc1", (2, 28, 28), 'Linear "fc1" takes (..., 784), got (2, 28, 28).'),
        ("loop", (2, 4, 8, 8), 'BatchNorm2d "blocks.0" takes (N, 3, ...), got (2, 4, 8, 8).'),
        ("second", (1, 4), 'Linear "blocks.1.1" takes (..., 4), got (1, 5).'),
        ("head", (2, 4), 'LayerNorm "heads.a" takes (..., 3), got (2, 4).'),
    ],
)
def test_a_layer_is_called_by_its_path_in_the_model(
    layer: str, shape: tuple[int, ...], text: str
) -> None:
    with pytest.raises(ShapeError) as error:
        Net().run(layer, Tensor.zeros(*shape))
    assert str(error.value).startswith(text)


def test_a_layer_without_a_name_shows_its_arguments() -> None:
    with pytest.raises(ShapeError) as error:
        nn.Linear(3, 4)(Tensor.zeros(2))
    assert str(error.value) == "Linear(3, 4) takes (..., 3), got (2,)."


def test_a_name_of_the_caller_counts() -> None:
    first = nn.Linear(3, 4)
    with pytest.raises(ShapeError, match='Linear "first" takes'):
        first(Tensor.zeros(2))


@pytest.mark.parametrize(
    ("layer", "shape", "remedy"),
    [
        (lambda: nn.Linear(784, 10), (2, 28, 28), "x.flatten(1) is (2, 784)."),
        (lambda: nn.Linear(16, 10), (2, 5, 4, 4), "x.flatten(2) is (2, 5, 16)."),
        (lambda: nn.Linear(3, 1), (3, 5), "x.transpose(-2, -1) is (5, 3)."),
        (lambda: nn.Conv2d(3, 1, 3), (2, 8, 8, 3), "x.movedim(-1, 1) is (2, 3, 8, 8)."),
        (lambda: nn.Conv2d(3, 1, 3), (3, 8, 8), "x.unsqueeze(0) is (1, 3, 8, 8)."),
        (lambda: nn.Conv2d(1, 1, 3), (2, 8, 8), "x.unsqueeze(1) is (2, 1, 8, 8)."),
        (lambda: nn.BatchNorm1d(4), (2, 1, 4, 3), "x.squeeze(1) is (2, 4, 3)."),
    ],
)
def test_the_remedy_fits(layer: Any, shape: tuple[int, ...], remedy: str) -> None:
    made, x = layer(), Tensor.ones(*shape)
    with pytest.raises(ShapeError) as error:
        made(x)
    assert str(error.value).endswith(remedy)
    call, _, new = remedy.rstrip(".").partition(" is ")
    fitting = eval(call, {"x": x})
    assert str(fitting.shape) == new
    assert made(fitting).numel()


@pytest.mark.parametrize(
    ("expected", "shape", "yes"),
    [
        ("(..., 4)", (4,), True),
        ("(..., 4)", (2, 3, 4), True),
        ("(..., 4)", (), False),
        ("(N, 3, ...)", (2, 3), True),
        ("(N, 3, ...)", (2, 4, 5), False),
        ("(N, 3) or (N, 3, L)", (9, 3, 1), True),
        ("(N, 3, H, W)", (2, 3, 4), False),
    ],
)
def test_a_text_of_a_shape_is_a_pattern(expected: str, shape: tuple[int, ...], yes: bool) -> None:
    assert fits(expected, shape) is yes
