"""`polygrad new-format`: what it writes builds, installs, is found, and passes its own tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from polygrad.cli.command import main


def run(*command: str, cwd: Path, path: Path | None = None) -> str:
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(path), environment.get("PYTHONPATH")))
        )
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_it_writes_builds_installs_is_found_and_passes_its_tests(tmp_path, capsys) -> None:
    assert main(["new-format", "zzz", "--dir", str(tmp_path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    root = Path(data["folder"])
    assert root == tmp_path / "polygrad-format-zzz"
    assert all(Path(path).is_file() for path in data["files"])
    run("hatchling", "build", "-t", "wheel", cwd=root)
    (wheel,) = (root / "dist").glob("*.whl")
    site = tmp_path / "site"
    run("pip", "install", "-q", "--no-index", "--no-deps", "--target", str(site), str(wheel),
        cwd=tmp_path)  # fmt: skip
    listed = json.loads(run("polygrad", "formats", "--json", cwd=tmp_path, path=site))["formats"]
    assert [(f["name"], f["state"], f["suffixes"], f["dist"]) for f in listed] == [
        ("zzz", "loaded", [".zzz"], "polygrad-format-zzz")
    ]
    report = run("pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=root, path=site)
    assert "5 passed" in report


def test_what_it_writes_has_no_place_left_open(tmp_path) -> None:
    assert main(["new-format", "my_format2", "--dir", str(tmp_path)]) == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if re.search("@[A-Z]+@", path.name + path.read_text())]
    for path in files:
        if path.suffix == ".py":
            compile(path.read_text(), str(path), "exec")


def test_a_folder_that_is_there_is_left_alone(tmp_path, capsys) -> None:
    assert main(["new-format", "zzz", "--dir", str(tmp_path)]) == 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    capsys.readouterr()
    assert main(["new-format", "zzz", "--dir", str(tmp_path)]) == 1
    assert "is there already; nothing was written" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Acme",
            "'Acme' cannot be a format's name: lower-case letters, digits and '_', a",
        ),
        ("none", "'none' cannot be a format's name"),
        ("../x", "cannot be a format's name"),
        ("class", "cannot be a format's name"),
        ("gguf", "the format 'gguf' belongs to polygrad-formats; choose another name."),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(tmp_path, capsys, name, message) -> None:
    assert main(["new-format", name, "--dir", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
