"""POLY_DUMP_KERNELS=1 prints what was generated (F189)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from polygrad import Context, Tensor


def test_a_kernel_is_printed_with_its_shape_recipe_and_transforms(device, capsys) -> None:
    with Context(POLY_DUMP_KERNELS=1):
        (Tensor([[1.0, 2.0, 7.0]]) + 1234.5).exp().sum(1).realize()
    shown = capsys.readouterr().err
    (line,) = [s for s in shown.splitlines() if s.startswith("# kernel")]
    name = line.split()[2].rstrip(":")
    assert "over" in line and "grid" in line and "flops" in line
    assert shown.count(name) >= 2  # in the text as well


def test_a_kernel_that_is_on_disk_is_printed_too(tmp_path: Path) -> None:
    program = "from polygrad import Tensor\nprint((Tensor([1.0, 2.0]) * 17.5).tolist())"
    env = {**os.environ, "POLY_DEV": "cpu", "POLY_CACHE_DIR": str(tmp_path)}

    def run(**settings: str) -> str:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=env | settings, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout == "[17.5, 35.0]\n", done.stderr
        return done.stderr

    assert run() == ""
    shown = run(POLY_DUMP_KERNELS="1")
    assert "# kernel" in shown
    assert any(text in shown for text in ("define void", "static void", "void k_"))  # LLVM IR or C
