"""`polygrad compile`: code for machines that are not here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polygrad import Model, Tensor, nn, registry
from polygrad.cli.command import main


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = nn.Sequential(nn.Linear(16, 32), Tensor.relu, nn.Dropout(0.1), nn.Linear(32, 3))
    model = Model(
        net,
        inputs={"x": Tensor.empty(8, 16)},
        targets={"y": Tensor.empty(8, dtype="int32")},
        loss=lambda outputs, y: outputs["output"].cross_entropy(y),
    )
    path = tmp_path_factory.mktemp("compile") / "net.pgb"
    model.save(path)
    return path


# target -> (what its source says, the first bytes of its code, the machine field of an ELF header)
TARGETS = {
    "cpu:x86_64": ("<4 x float>", b"\x7fELF", 62),
    "cpu:x86_64-v3": ("<8 x float>", b"\x7fELF", 62),
    "cpu:x86_64-v4": ("<16 x float>", b"\x7fELF", 62),
    "cpu:aarch64": ("<4 x float>", b"\x7fELF", 183),
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_bundle_is_compiled_for_another_machine(bundle, tmp_path, capsys, target) -> None:
    assert main(["compile", "--target", target, str(bundle), "-o", str(tmp_path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    text, magic, machine = TARGETS[target]
    source = (tmp_path / "kernels.source").read_text()
    code = (tmp_path / "kernels.code").read_bytes()
    assert text in source and code.startswith(magic)
    assert int.from_bytes(code[18:20], "little") == machine
    assert data["code_bytes"] == len(code) and f"cpu:{data['arch']}" == target
    assert {e for p in data["programs"] for e in p["entrypoints"]} == {"forward", "loss", "train"}
    for program in data["programs"]:
        assert program["entry"] in source


def test_the_machine_we_are_on_needs_no_name(bundle, capsys) -> None:
    assert main(["compile", "--target", "cpu", str(bundle)]) == 0
    out = capsys.readouterr().out
    assert "forward loss" in out and "bytes of code" in out


def test_the_programs_are_those_that_run_here(bundle, capsys) -> None:
    """What `compile` makes for interp is what interp launches for the loaded bundle."""
    import numpy as np

    from polygrad import Context

    main(["compile", "--target", "interp", str(bundle), "--json"])
    programs = json.loads(capsys.readouterr().out)["programs"]
    with Context(POLY_DEV="interp"):
        model = Model.load(bundle)
        model.forward(x=np.zeros((8, 16), dtype="float32"))
        plans = model._plans["forward"].plans
    launched = {name for plan in plans for name in plan.programs}
    assert launched <= {p["name"] for p in programs if "forward" in p["entrypoints"]}


def test_wrong_targets_are_told(bundle, capsys, install) -> None:
    assert main(["compile", "--target", "cpu:x86_64-v9", str(bundle)]) == 1
    assert "no machine of the cpu device named 'x86_64-v9'. Did you mean" in capsys.readouterr().err
    assert main(["compile", "--target", "cuda:sm_90", str(bundle)]) == 1
    assert "device 'cuda' is not installed." in capsys.readouterr().err
    install("acme-npu", "1.2.0", code="")
    assert main(["compile", "--target", "acme", str(bundle)]) == 1
    assert capsys.readouterr().err == (
        "polygrad: device 'acme' (acme-npu 1.2.0) does not compile without its machine: its"
        " descriptor has no `cross`.\n"
    )
    assert registry.find(registry.DEVICES, "acme") is not None


def test_a_place_that_cannot_be_written_is_told(bundle, tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("")
    output = tmp_path / "file"
    assert main(["compile", "--target", "interp", str(bundle), "-o", str(output)]) == 1
    assert capsys.readouterr().err == (
        f"polygrad: {output} cannot be made a folder: File exists. Give another place with"
        " --output.\n"
    )
