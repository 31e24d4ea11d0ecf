"""The timeline: an observer of ours, in the format that trace viewers read."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import pytest

from polygrad import Tensor, errors
from polygrad.hooks.trace import Timeline, timeline


def test_a_block_is_recorded(device, tmp_path) -> None:
    path = tmp_path / "out.json"
    with timeline(path):
        x = Tensor.rand(19, 23)
        (x @ x.T).sum().item()
    (Tensor([1.0]) + 1).item()  # after the block: not recorded
    events = json.loads(path.read_text())
    assert {e["ph"] for e in events} == {"X"}
    assert {e["args"]["device"] for e in events} == {device}
    runs = [e for e in events if e["cat"] == "run"]
    compiled = {n for e in events if e["cat"] == "compile" for n in e["args"]["programs"]}
    assert runs and {e["name"] for e in runs} <= compiled
    assert any(e["args"]["flops"] >= 19 * 19 * 23 for e in runs)
    for before, after in itertools.pairwise(runs):  # one after the other, none inside
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-3


def test_a_process_is_recorded_by_a_setting(tmp_path) -> None:
    path = tmp_path / "out.json"
    code = "from polygrad import Tensor\nprint((Tensor([1.0, 2.0]) * 3).tolist())"
    environment = {**os.environ, "POLY_TRACE": str(path), "POLY_DEV": "interp"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[3.0, 6.0]\n", "")
    assert [e["cat"] for e in json.loads(path.read_text())] == ["compile", "run"]


def test_a_process_that_is_killed_leaves_what_it_wrote(tmp_path) -> None:
    """The list is not closed then, which viewers allow."""
    path = tmp_path / "out.json"
    code = (
        "import os, signal\nfrom polygrad import Tensor\n"
        "for i in range(40): (Tensor([1.0] * 3) * 3).tolist()\n"
        "os._exit(9)"
    )
    environment = {**os.environ, "POLY_TRACE": str(path), "POLY_DEV": "interp"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    lines = path.read_text().splitlines()[1:-1]
    assert lines and all(json.loads(line.rstrip(","))["ph"] == "X" for line in lines)


def test_a_worker_has_a_file_of_its_own(tmp_path) -> None:
    script = tmp_path / "work.py"
    script.write_text(
        "import multiprocessing\nfrom polygrad import Tensor\n"
        "def work(n): return (Tensor([1.0, 2.0]) * n).tolist()\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        assert work(3) == pool.apply(work, (3,))\n"
        "        pool.close(); pool.join()\n"
    )
    environment = {**os.environ, "POLY_TRACE": str(tmp_path / "out.json"), "POLY_DEV": "interp"}
    subprocess.run([sys.executable, str(script)], env=environment, check=True)
    found = sorted(tmp_path.glob("out*.json"))
    assert len(found) == 2
    for path in found:
        assert "run" in path.read_text()
    assert json.loads((tmp_path / "out.json").read_text())


def test_a_file_that_cannot_be_written_is_told(tmp_path) -> None:
    wrong = tmp_path / "no" / "out.json"
    with pytest.raises(errors.FileError) as error:
        Timeline(wrong)
    assert str(error.value) == (
        f"the timeline {wrong} cannot be written: No such file or directory."
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_writes_nothing_into_its_parents_file(tmp_path) -> None:
    path = tmp_path / "out.json"
    recording = Timeline(path)
    child = os.fork()
    if child == 0:
        recording.close()
        os._exit(0)
    os.waitpid(child, 0)
    recording.close()
    assert json.loads(path.read_text()) == []
