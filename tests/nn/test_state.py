"""State by name: what is found, under which name, and how it is loaded (F052)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from polygrad import Tensor, jit, nn
from polygrad.errors import ArgumentError, FormatError, ShapeError


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


class Slotted:
    __slots__ = ("weight",)

    def __init__(self) -> None:
        self.weight = Tensor([1.0])


class Net:
    def __init__(self) -> None:
        self.math = math  # a module: not walked
        self.layers = [nn.Linear(2, 3), nn.Linear(3, 1, bias=False)]
        self.heads = {"a": Tensor([1.0]), "b": (Tensor([2.0]),)}
        self.pair = Pair(Tensor([3.0]), Tensor([4.0]))
        self.slotted = Slotted()
        self.mean = Tensor([0.0], requires_grad=False)
        self.count = Tensor([0])
        self.parent = self  # a cycle: not walked again


NAMES = [
    "layers.0.weight", "layers.0.bias", "layers.1.weight", "heads.a", "heads.b.0", "pair.left",
    "pair.right", "slotted.weight", "mean", "count",
]  # fmt: skip


def test_names_are_paths_of_attributes_keys_and_numbers() -> None:
    assert list(nn.get_state_dict(Net())) == NAMES


def test_a_sequential_names_its_layers_by_number() -> None:
    net = nn.Sequential(nn.Linear(2, 3), Tensor.relu, nn.Linear(3, 1))
    assert list(nn.get_state_dict(net)) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_parameters_are_floats_that_take_gradients_each_once() -> None:
    net = Net()
    net.tied = net.layers[0].weight  # type: ignore[attr-defined]
    parameters = nn.get_parameters(net)
    assert len(parameters) == len(NAMES) - 2
    assert all(p is not net.mean and p is not net.count for p in parameters)


def test_loading_sets_values_of_the_same_name(device: str) -> None:
    net = nn.Linear(2, 3)
    values = {"weight": np.arange(6.0).reshape(3, 2), "bias": Tensor([1.0, 2.0, 3.0])}
    nn.load_state_dict(net, values)
    np.testing.assert_array_equal(net.weight.numpy(), values["weight"])
    assert net.bias is not None and net.bias.tolist() == [1.0, 2.0, 3.0]
    assert net.weight.dtype.name == "float32"


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "missing": ({"weight": np.zeros((3, 2))}, ArgumentError, "no value for 'bias'. strict=False"),
    "unknown": (
        {"weight": np.zeros((3, 2)), "bais": np.zeros(3)},
        ArgumentError,
        "no tensor of the model is named 'bais'. Did you mean 'bias'",
    ),
    "shape": (
        {"weight": np.ones((3, 2)), "bias": np.zeros(4)},
        ShapeError,
        r"'bias' has shape \(3,\), the value \(4,\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_changes_nothing(case: str) -> None:
    given, error, text = BAD[case]
    net = nn.Linear(2, 3)
    before = net.weight.tolist()
    with pytest.raises(error, match=text):
        nn.load_state_dict(net, given)
    assert net.weight.tolist() == before


def test_not_strict_loads_what_there_is() -> None:
    net = nn.Linear(2, 3)
    nn.load_state_dict(net, {"bias": np.ones(3), "other": np.ones(1)}, strict=False)
    assert net.bias is not None and net.bias.tolist() == [1.0, 1.0, 1.0]


def test_safetensors_files_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    net = Net()
    nn.safe_save(nn.get_state_dict(net), path, {"made": "here"})
    loaded = nn.safe_load(path)
    assert sorted(loaded) == sorted(NAMES)
    for name, tensor in nn.get_state_dict(net).items():
        assert loaded[name].dtype is tensor.dtype
        assert loaded[name].tolist() == tensor.tolist()


def test_a_file_that_is_none_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    with pytest.raises(FormatError, match="net.safetensors: is a Git LFS pointer"):
        nn.safe_load(path)


def test_a_compiled_method_is_no_state() -> None:
    class Net:
        def __init__(self) -> None:
            self.w = Tensor([1.0])
            self.step = jit(lambda x: x * 2)
            self.step(Tensor([1.0]))

    assert list(nn.get_state_dict(Net())) == ["w"]
