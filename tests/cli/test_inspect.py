"""`polygrad inspect`: what is in a bundle, told without its weights."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from polygrad import Model, Tensor, nn
from polygrad.cli.command import main
from polygrad.errors import BundleError


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = nn.Sequential(nn.Linear(4, 8), Tensor.relu, nn.Linear(8, 3))
    model = Model(
        net,
        inputs={"x": Tensor.empty(5, 4)},
        targets={"y": Tensor.empty(5, dtype="int32")},
        loss=lambda outputs, y: outputs["output"].cross_entropy(y),
    )
    path = tmp_path_factory.mktemp("inspect") / "net.pgb"
    model.save(path)
    return path


def test_it_prints_entrypoints_state_and_sizes(bundle: Path, capsys) -> None:
    assert main(["inspect", str(bundle)]) == 0
    out = capsys.readouterr().out
    assert "forward     x: float32[5, 4]" in out
    assert "0.weight  param  float32[8, 4]  128 B" in out
    assert "67 parameters" in out


def test_it_gives_all_of_it_as_json(bundle: Path, capsys) -> None:
    assert main(["inspect", str(bundle), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["bytes"] == bundle.stat().st_size
    assert data["parameters"] == 4 * 8 + 8 + 8 * 3 + 3
    assert data["entrypoints"]["loss"]["targets"] == ["y"]
    assert data["state"]["2.bias"] == {"role": "param", "dtype": "float32", "shape": [3]}


def test_it_reads_no_weights(bundle: Path, tmp_path: Path, capsys) -> None:
    """A changed weight is found by loading the bundle, not by looking into it."""
    raw = bytearray(bundle.read_bytes())
    with zipfile.ZipFile(bundle) as archive:
        weights = archive.getinfo("weights.safetensors")
    name = len(weights.filename)
    extra = int.from_bytes(raw[weights.header_offset + 28 : weights.header_offset + 30], "little")
    raw[weights.header_offset + 30 + name + extra + weights.file_size - 1] ^= 1
    damaged = tmp_path / "damaged.pgb"
    damaged.write_bytes(raw)
    assert main(["inspect", str(damaged)]) == 0
    with pytest.raises(BundleError):
        Model.load(damaged)


def test_a_file_that_is_no_bundle_is_a_problem(tmp_path: Path, capsys) -> None:
    page = tmp_path / "page.pgb"
    page.write_text("<!DOCTYPE html><html></html>")
    assert main(["inspect", str(page)]) == 1
    assert "page.pgb" in capsys.readouterr().err
