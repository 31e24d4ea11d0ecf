"""`import polygrad` is cheap and runs nothing of a plugin's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import pytest

import polygrad

HEAVY = ("numpy", "pluggy", "importlib.metadata", "importlib_metadata", "argparse", "difflib",
         "llvmlite", "logging", "dataclasses", "asyncio", "json", "sqlite3")  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """The modules that a new process has loaded after `code`."""
    script = f"import sys; before = set(sys.modules)\n{code}\n"
    script += "import json; print(json.dumps(sorted(set(sys.modules) - before - {'json'})))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_import_loads_nothing_heavy() -> None:
    loaded = loaded_after("import polygrad")
    assert not loaded & set(HEAVY)
    assert not {name for name in loaded if name.startswith("polygrad_")}


def test_the_usual_names_load_no_numpy_and_no_plugin() -> None:
    loaded = loaded_after("from polygrad import Tensor, UOp, dtypes, Context")
    assert not loaded & {"numpy", "pluggy", "importlib.metadata", "argparse", "llvmlite"}
    assert not {name for name in loaded if name.startswith("polygrad_")}


def test_choosing_a_device_imports_only_what_was_asked_for() -> None:
    loaded = loaded_after(
        "import os; os.environ['POLY_DEV'] = 'interp'; import polygrad.device as d; d.default()"
    )
    assert not {name for name in loaded if name.startswith("polygrad_")}
    # A tenth of what the first result takes is theirs.
    assert not loaded & {"importlib.metadata", "email", "socket", "logging", "pathlib", "difflib"}


def cpu_seconds(code: str) -> float:
    """CPU time of a new process that runs `code`, the least of nine. The first of them writes
    bytecode, as an installation does; an environment that forbids that would count compiling."""
    import resource

    times = []
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {
            **os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": "",
        }  # fmt: skip
        for _ in range(9):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


# What a process may cost over a bare interpreter, in seconds of CPU; twice that here, for a busy
# machine.
BUDGETS = {
    "from polygrad import Tensor, UOp, dtypes, Context": 0.1,
    "import polygrad.device as d; d.default()": 0.15,
    "import sys; sys.argv = ['polygrad']; from polygrad.cli.command import parser; parser()": 0.12,
}


@pytest.mark.skipif(sys.platform == "win32", reason="no CPU time of children there")
@pytest.mark.parametrize("code", BUDGETS)
def test_import_stays_within_its_budget(code: str) -> None:
    assert cpu_seconds(code) - cpu_seconds("pass") < 2 * BUDGETS[code]


@pytest.mark.parametrize("name", polygrad.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(polygrad, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'polygrad' has no attribute 'Tensr'"):
        polygrad.Tensr  # noqa: B018


def test_dir_lists_the_public_names() -> None:
    assert set(polygrad.__all__) <= set(dir(polygrad))
