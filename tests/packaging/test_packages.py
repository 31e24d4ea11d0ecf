"""The packages agree with each other: one version, one Python, the agreed fields."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import polygrad

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[2]
DISTS = sorted(path.parent.name for path in ROOT.glob("polygrad-*/pyproject.toml"))


def project(folder: str) -> dict:
    with (ROOT / folder / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


@pytest.mark.parametrize("folder", [".", *DISTS])
def test_every_package_has_the_agreed_fields(folder: str) -> None:
    found = project(folder)
    assert found["name"] == ("polygrad" if folder == "." else folder)
    assert found["version"] == polygrad.__version__
    assert found["requires-python"] == ">=3.10"
    assert found["license"] == "MIT"
    assert found["readme"] == "README.md"
    assert "Typing :: Typed" in found["classifiers"]


@pytest.mark.parametrize("folder", DISTS)
def test_every_package_is_typed_and_licensed(folder: str) -> None:
    (import_name,) = (path.name for path in (ROOT / folder / "src").iterdir() if path.is_dir())
    assert (ROOT / folder / "src" / import_name / "py.typed").is_file()
    assert (ROOT / folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_metapackage_pins_every_package_of_ours() -> None:
    pinned = {dependency.split(";")[0].strip() for dependency in project(".")["dependencies"]}
    assert pinned == {f"{name}=={polygrad.__version__}" for name in DISTS}


@pytest.mark.parametrize("folder", [name for name in DISTS if name != "polygrad-core"])
def test_a_backend_follows_the_cores_minor(folder: str) -> None:
    assert f"polygrad-core~={polygrad.__version__}" in project(folder)["dependencies"]
