"""What looking for plugins costs where many distributions are installed: `nox -s discovery`.

The distributions are folders of metadata like real ones: a METADATA of a few kilobytes, a RECORD,
and in about one of three an entry_points.txt with groups of others. Seven have a device.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

IMPORT = "import polygrad.device"
LOOK = IMPORT + "; polygrad.device.names()"
CHOOSE = IMPORT + "; polygrad.device.default()"
DESCRIPTION = "A sentence about what this distribution is for, as long as they are. " * 60
# Distributions -> seconds of CPU. Measured: 4 and 13 ms to look, 16 and 24 with the choice of cpu.
BUDGETS = {300: 0.1, 1000: 0.1}


@pytest.fixture(scope="module", params=BUDGETS)
def many(request, tmp_path_factory) -> tuple[int, Path]:
    count: int = request.param
    site = tmp_path_factory.mktemp(f"site{count}")
    for i in range(count):
        info = site / f"some_package_{i}-1.{i}.0.dist-info"
        info.mkdir()
        classifiers = "".join(f"Classifier: Topic :: Number {n}\n" for n in range(12))
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: some-package-{i}\nVersion: 1.{i}.0\n"
            f"{classifiers}\n{DESCRIPTION}\n"
        )
        (info / "RECORD").write_text("".join(f"some_package_{i}/m{n}.py,,\n" for n in range(60)))
        if i % 140 == 3:
            (info / "entry_points.txt").write_text(f"[polygrad.devices]\nd{i} = some_{i}:plugin\n")
        elif i % 3 == 0:
            (info / "entry_points.txt").write_text(
                f"[console_scripts]\nrun{i} = some_{i}:main\n\n[pytest11]\np{i} = some_{i}:p\n"
            )
    return count, site


def seconds(code: str, site: Path | None = None) -> float:
    """CPU time of a new process, the least of nine."""
    given = (str(site) if site else "", os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, given))}
    environment |= {"POLY_DEV": "cpu", "PYTHONDONTWRITEBYTECODE": ""}
    times = []
    for _ in range(9):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_they_are_seen(many) -> None:
    count, site = many
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", LOOK + "; print(*polygrad.device.names())"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = {f"d{i}" for i in range(3, count, 140)} | {"cpu", "interp"}
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("code", [LOOK, CHOOSE])
def test_looking_costs_what_it_may(many, code) -> None:
    count, site = many
    assert seconds(code, site) - seconds(IMPORT) < BUDGETS[count]


def test_importing_looks_for_nothing(many) -> None:
    _, site = many
    assert seconds("import polygrad", site) - seconds("pass") < 0.08


def test_looking_needs_no_importlib_metadata(many) -> None:
    """Importing it costs more than all the rest: it is for what lies in no folder on sys.path."""
    _, site = many
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", LOOK + "; import sys; print('importlib.metadata' in sys.modules)"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"
