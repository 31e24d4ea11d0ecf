"""The core's wheel by itself, in an environment without numpy: `nox -s core`."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import polygrad
from polygrad import Tensor, device, nn


def test_the_environment_is_what_this_is_about() -> None:
    assert importlib.util.find_spec("numpy") is None
    assert "site-packages" in polygrad.__file__


def test_only_the_reference_device_is_there() -> None:
    assert device.names() == ("interp",)
    assert device.default() == "interp"


def test_a_result_needs_nothing_else() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert ((x * 2 + 1) @ x).sum(axis=0).tolist() == [52.0, 76.0]


def test_a_gradient_needs_nothing_else() -> None:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_narrow_floats_and_files_need_nothing_else(tmp_path: Path) -> None:
    """Numbers of every width are rounded, stored and read back, tensors of nothing too."""
    t = Tensor([1.1, -2.7, 500.0], dtype="float8_e4m3fn")
    assert t.tolist() == [1.125, -2.75, 448.0] and (t * t).tolist() == [1.25, 7.5, 448.0]
    given = {"bytes": t, "half": t.half(), "nothing": Tensor.zeros(0, 3)}
    nn.safe_save(given, tmp_path / "weights.safetensors")
    back = nn.safe_load(tmp_path / "weights.safetensors")
    assert {n: (v.shape, v.tolist()) for n, v in back.items()} == {
        n: (v.shape, v.tolist()) for n, v in given.items()
    }


def test_a_conversion_to_numpy_says_what_is_missing() -> None:
    with pytest.raises(ImportError, match="numpy"):
        Tensor([1.0]).numpy()


def test_the_command_line_lists_it() -> None:
    command = [sys.executable, "-m", "polygrad", "devices", "--json"]
    listing = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert [row["name"] for row in listing["devices"]] == ["interp"]
