"""Backends of strangers, installed as their users would: the sample, and one that the docs make.

Each gets a virtual environment of its own that sees this one's packages. No index is asked.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

import polygrad

pytest.importorskip("hatchling")
pytest.importorskip("editables")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="writes shell scripts")

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "sample-backend"
TOOLS = {"polygrad": "polygrad", "pip": "pip", "pytest": "pytest"}  # command -> module
Run = Callable[..., str]


@pytest.fixture
def shell(tmp_path: Path) -> Run:
    """`shell("pip install x")` in an empty folder, in an environment of its own."""
    venv, folder = tmp_path / "venv", tmp_path / "work"
    folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "parent.pth").write_text(
        f"{Path(polygrad.__file__).parents[1]}\n"
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    )
    for name, module in TOOLS.items():
        script = venv / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{venv}/bin/python" -m {module} "$@"\n')
        script.chmod(0o755)
    env = {
        **{k: v for k, v in os.environ.items() if k not in ("POLY_DEV", "PYTEST_ADDOPTS")},
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this as: no isolation
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }

    def run(command: str) -> str:
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def test_the_sample_backend_installed_editable_passes_its_own_tests(shell: Run) -> None:
    shell(f"pip install -q -e {SAMPLE}")
    out = shell(f"pytest -q -p no:cacheprovider -c {SAMPLE}/pyproject.toml {SAMPLE}/tests")
    (passed,) = re.findall(r"(\d+) passed", out)
    assert int(passed) > 500 and "failed" not in out


def test_the_sample_backend_installed_as_a_wheel_conforms(shell: Run) -> None:
    shell(f"pip wheel -q -w wheels {SAMPLE}")
    shell("pip install -q wheels/polygrad_backend_sample-1.0-py3-none-any.whl")
    rows = shell("polygrad devices")
    assert re.search(r"sample +ok +1 +sample1 +polygrad-backend-sample 1\.0", rows)
    assert "sample: it conforms" in shell("polygrad conformance sample")


def test_the_sample_backend_is_told_what_it_lacks(shell: Run) -> None:
    """Each refusal names the device, the type and a way out; what is not refused works after it."""
    shell(f"pip install -q {SAMPLE}")
    program = (
        "from polygrad import Tensor, errors\n"
        "def told(make):\n"
        "    try: make().tolist()\n"
        "    except errors.UnsupportedOp as error: print(error)\n"
        "told(lambda: Tensor([1.0, 2.0], dtype='float64') * 2)\n"
        "x = Tensor([1 << 40, 5], dtype='int64')\n"
        "print(x.sum().tolist(), x.prod().tolist(), x.cumprod(0).tolist())\n"
        "print((Tensor([2.0**100, -7.5]) % 9090).tolist())\n"
    )
    lines = shell(f'POLY_DEV=sample python -c "{program}"').splitlines()
    assert "device 'sample' has no float64" in lines[0] and "Cast to float32" in lines[0]
    assert lines[1] == f"{(1 << 40) + 5} {5 << 40} {[1 << 40, 5 << 40]}"
    assert lines[2] == str([float(2**100 % 9090), 9082.5])


def commands(page: str) -> list[str]:
    """The command lines of a page of the docs."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


def test_the_page_about_backends_does_what_it_says(shell: Run) -> None:
    lines = commands("new-backend.md")
    assert lines[0] == "polygrad new-backend acme"
    out = {line: shell(line) for line in lines}
    assert "wrote 13 files to polygrad-backend-acme" in out["polygrad new-backend acme"]
    assert re.search(r"acme +ok +1 +python +polygrad-backend-acme 0\.1\.0", out["polygrad devices"])
    assert "acme: it conforms" in out["polygrad conformance acme"]
    assert "failed" not in out[lines[-1]] and "passed" in out[lines[-1]]
