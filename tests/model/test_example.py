"""The main job: examples/digits.py learns, saves, and its file runs without the author's class."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


def test_the_digits_example_reaches_its_accuracy_and_reloads_bit_by_bit(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    environment = {k: v for k, v in os.environ.items() if k not in ("POLY_DEV", "DEV")}
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    accuracy = re.search(r"held-out accuracy +([\d.]+)%", done.stdout)
    assert accuracy and float(accuracy[1]) >= 97
    assert "in a new process    bit-identical" in done.stdout
    assert (tmp_path / "digits.pgb").stat().st_size < 200_000
