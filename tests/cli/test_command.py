"""The command line: exit status, JSON, and rows that a misbehaving probe cannot spoil."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from polygrad import registry
from polygrad.cli import child
from polygrad.cli.command import main, say
from polygrad.cli.table import table


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, dict]:
    main(["devices", "--json"])
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)["devices"]}


def test_devices_lists_what_is_installed(capsys) -> None:
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert "interp" in out
    assert "polygrad-core 0.1.0" in out


def test_letters_that_the_reader_lacks_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr("sys.stdout", out)
    say("caf\xe9 \udcff")
    assert out.buffer.getvalue() == b"caf\\xe9 \\udcff\n"  # type: ignore[attr-defined]


def test_a_reader_that_closes_early_is_no_error() -> None:
    """`polygrad devices | head -1`"""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "polygrad", "devices"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_default_has_the_star(capsys, monkeypatch) -> None:
    monkeypatch.setenv("POLY_DEV", "interp")
    found = rows(capsys)
    assert found["interp"]["default"] is True
    assert found["cpu"]["default"] is False


def test_a_choice_that_cannot_be_made_is_a_problem(capsys, monkeypatch) -> None:
    monkeypatch.setenv("POLY_DEV", "cuda")
    assert main(["devices"]) == 1
    assert "device 'cuda' is not installed." in capsys.readouterr().out


def test_plugins_none_switches_all_but_the_core_off(capsys) -> None:
    assert main(["--plugins", "none", "devices", "--json"]) == 0
    found = {r["name"]: r["state"] for r in json.loads(capsys.readouterr().out)["devices"]}
    assert found == {"cpu": "off", "interp": "ok"}


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A package `acme-npu` whose probe runs the given statement."""

    def make(statement: str) -> None:
        info = tmp_path / "acme_npu-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-npu\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[polygrad.devices]\nacme = acme_npu:plugin\n")
        (tmp_path / "acme_npu.py").write_text(
            "import os, signal, sys, time\n"
            "from polygrad.plugin import DevicePlugin\n"
            "plugin = DevicePlugin(name='acme', api=(1, 0), device='acme_npu:D',"
            " probe='acme_npu:probe')\n"
            f"def probe(): {statement}\n"
        )
        registry.refresh()

    # The child process finds the package through PYTHONPATH, this one through sys.path.
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    yield make
    monkeypatch.undo()
    registry.refresh()


@pytest.mark.parametrize(
    ("statement", "state", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "its probe was ended by SIGSEGV"),
        ("os._exit(3)", "crashed", "its probe ended the process with status 3"),
        ("raise SystemExit(1)", "unavailable", "its probe raised SystemExit: 1"),
        ("print('noise'); 1 / 0", "unavailable", "its probe raised ZeroDivisionError"),
        ("raise OSError('two\\nlines')", "unavailable", "its probe raised OSError: two lines"),
        ("time.sleep(60)", "no answer", "its probe gave none in 4 s"),
    ],
)
def test_a_misbehaving_probe_is_a_row(
    capsys, monkeypatch, stranger, statement, state, reason
) -> None:
    monkeypatch.setattr(child, "SECONDS", 4 if state == "no answer" else 30)
    stranger(statement)
    found = rows(capsys)
    assert found["acme"]["state"] == state
    assert found["acme"]["reason"].startswith(reason)
    assert found["interp"]["state"] == "ok"


def test_wrong_usage_is_status_two(capsys) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["devises"])
    assert exit.value.code == 2


def test_a_file_that_is_not_there_is_a_problem(capsys) -> None:
    assert main(["inspect", "nowhere.pgb"]) == 1
    assert "nowhere.pgb" in capsys.readouterr().err


def test_an_error_in_json_is_json(capsys) -> None:
    assert main(["inspect", "nowhere.pgb", "--json"]) == 1
    assert set(json.loads(capsys.readouterr().out)) == {"error", "message"}


def test_a_row_of_a_table_is_one_line() -> None:
    assert table(("a", "b"), [("x", "1\n2")]) == "a  b\nx  1 2"


def test_a_table_leaves_out_empty_columns() -> None:
    assert table(("a", "", "c"), [("x", "", "1"), ("yy", "", "2")]) == "a   c\nx   1\nyy  2"
