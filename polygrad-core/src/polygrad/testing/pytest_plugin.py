"""What pytest needs to run `polygrad.testing.suite`. A conftest switches it on by name:

    pytest_plugins = ["polygrad.testing.pytest_plugin"]

A `conformance.toml` beside the test file may hold tables `[xfail]` and `[skip]`, each of
`"check id" = "reason"`. A check that is expected to fail and passes is a failure, and so is an id
that the kit does not have.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from .conformance import Check, ConformanceError, Subject, checks
from .conformance.limits import OPENS

SUITE = "test_conformance"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of each check for the device of the module."""
    if metafunc.function.__name__ != SUITE or "conformance_check" not in metafunc.fixturenames:
        return
    name = getattr(metafunc.module, "DEVICE", None)
    if not isinstance(name, str):
        raise pytest.UsageError(f'{metafunc.module.__file__} needs a line DEVICE = "your device"')
    found = list(checks(name))
    folder = Path(metafunc.module.__file__ or ".").parent
    marks = {} if found == [OPENS] else _marks(folder, {c.id for c in found})
    parameters = [
        pytest.param(Subject(name), check, id=check.id, marks=marks.get(check.id, ()))
        for check in found
    ]
    metafunc.parametrize(("conformance_subject", "conformance_check"), parameters)


def _marks(folder: Path, known: set[str]) -> dict[str, pytest.MarkDecorator]:
    """The marks that the folder's conformance.toml gives, by check id."""
    file = folder / "conformance.toml"
    if not file.exists():
        return {}
    tables = _read(file)
    unknown = sorted({*tables} - {"xfail", "skip"})
    named = {id for table in ("xfail", "skip") for id in tables.get(table, {})}
    if unknown or named - known:
        wrong = ", ".join([*(f"[{t}]" for t in unknown), *sorted(named - known)])
        raise pytest.UsageError(f"{file}: the kit has no {wrong}")
    skips = {i: pytest.mark.skip(reason=why) for i, why in tables.get("skip", {}).items()}
    fails = {
        i: pytest.mark.xfail(reason=why, strict=True) for i, why in tables.get("xfail", {}).items()
    }
    return {**skips, **fails}


def _read(file: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with file.open("rb") as stream:
        tables: dict[str, Any] = tomllib.load(stream)
    return tables


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Of a failed check only its own report: the kit's frames say nothing about the device."""
    outcome = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, ConformanceError):
        outcome.longrepr = str(error)
    return outcome


__all__ = ["Check", "pytest_generate_tests", "pytest_runtest_makereport"]
