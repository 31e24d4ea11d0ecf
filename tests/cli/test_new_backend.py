"""`polygrad new-backend`: what it writes, and what it refuses. That the package builds, installs
and conforms is shown by tests/packaging/test_backends.py."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from polygrad.cli.command import main
from polygrad.cli.new_backend import TEMPLATE


def test_the_package_is_the_template_under_another_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "here"
    assert main(["new-backend", "my_npu", "--dir", str(folder), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    written = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert written == set(data["files"]) and data["device"] == "my_npu"
    sources = {p.relative_to(TEMPLATE).as_posix() for p in TEMPLATE.rglob("*") if p.is_file()}
    kept = {s for s in sources if not s.endswith(".pyc")}
    assert written == {s.replace("newdevice", "my_npu") for s in kept}
    for path in written:
        text = (folder / path).read_text()
        assert "newdevice" not in text.lower(), path
        if path.endswith(".py"):
            ast.parse(text)
    assert (
        "class MyNpuDevice(Device)"
        in (folder / "src/polygrad_backend_my_npu/device.py").read_text()
    )
    assert 'name = "polygrad-backend-my-npu"' in (folder / "pyproject.toml").read_text()


def test_a_folder_is_made_beside_if_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-backend", "acme"]) == 0
    assert (tmp_path / "polygrad-backend-acme" / "pyproject.toml").is_file()
    assert 'pip install -e "polygrad-backend-acme[test]"' in capsys.readouterr().out


@pytest.mark.parametrize(
    "name,said",
    [
        ("Acme", "'Acme' cannot be a device's name: lower-case letters, digits and '_', a letter"),
        ("auto", "'auto' cannot be a device's name"),
        ("1st", "cannot be a device's name"),
        ("a-b", "cannot be a device's name"),
        ("class", "cannot be a device's name"),
        ("../evil", "cannot be a device's name"),
        ("cpu", "the name 'cpu' belongs to polygrad-backend-cpu. Choose another."),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new-backend", name, "--dir", str(tmp_path / "x")]) == 1
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_anything_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["new-backend", "acme", "--dir", str(tmp_path)]) == 1
    assert "exists already. Give another place with --dir." in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    for verb in ("new-backend", "new-format"):
        assert main([verb, "acme", "--dir", str(tmp_path / "file" / "sub")]) == 1
        assert "cannot be made a folder: Not a directory. Give" in capsys.readouterr().err
