"""What installed distributions say of themselves, held against importlib.metadata."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from pathlib import Path

import pytest

from polygrad import metadata, registry


def told(groups: tuple[str, ...]) -> set[tuple[str, ...]]:
    return {tuple(entry) for entry in metadata.entry_points(groups)}


def test_it_says_what_the_standard_library_says() -> None:
    dists = list(importlib.metadata.distributions())
    every = {entry.group for dist in dists for entry in dist.entry_points}
    assert {"polygrad.devices", "console_scripts", "pytest11"} <= every
    expected = set()
    seen: set[str] = set()
    for dist in dists:
        name = dist.name.lower().replace("_", "-")
        if name not in seen and dist.entry_points:
            seen.add(name)
            for e in dist.entry_points:
                expected.add((e.group, e.name, e.value, dist.name, dist.version))
    assert told(tuple(every)) == expected


def test_a_value_is_loaded_as_the_standard_library_loads_it() -> None:
    for value in ("os.path:join", "os.path", "os : path.join", "json:dumps [fast]"):
        mine = metadata.EntryPoint("g", "n", value, "d", "1").load()
        assert mine is importlib.metadata.EntryPoint("n", value, "g").load()


INFO = {
    "acme_npu-1.2.dist-info/METADATA": "NAME: Acme.NPU\nversion:1.2\n\nName: no",
    "acme_npu-1.2.dist-info/entry_points.txt": (
        "# a comment\n\n[polygrad.devices]\nacme = acme_npu:plugin\n[other]\nx = y:z\n"
    ),
}
ENTRY = ("polygrad.devices", "acme", "acme_npu:plugin", "Acme.NPU", "1.2")


def test_the_folder_of_a_distribution_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in INFO.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "nowhere"), tmp_path])
    assert told(registry.GROUPS) == {ENTRY}


def test_one_in_a_zip_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        for name, text in INFO.items():
            archive.writestr(name, text)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "app.zip")])
    assert told(registry.GROUPS) == {ENTRY}


def test_one_in_an_egg_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    egg = tmp_path / "acme_npu-1.2-py3.11.egg"
    (egg / "EGG-INFO").mkdir(parents=True)
    for name, text in INFO.items():
        part = name.rpartition("/")[2].replace("METADATA", "PKG-INFO")
        (egg / "EGG-INFO" / part).write_text(text)
    monkeypatch.setattr(sys, "path", [str(egg)])
    assert told(registry.GROUPS) == {ENTRY}


def test_a_finder_of_another_making_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Known(importlib.metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            return INFO.get(f"acme_npu-1.2.dist-info/{filename}")

        def locate_file(self, path: object) -> Path:
            raise NotImplementedError

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            return None

        @staticmethod
        def find_distributions(context: object) -> list[Known]:
            return [Known()]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert ENTRY in told(registry.GROUPS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[polygrad.devices]\nalone\n", "ValueError: the line 'alone' has no ="),
        (b"[polygrad.devices]\n\xff = a:b\n", "UnicodeDecodeError"),
    ],
)
def test_one_that_cannot_be_read_is_passed_over_and_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, why: str
) -> None:
    for name, data in (("acme", INFO["acme_npu-1.2.dist-info/entry_points.txt"].encode()),
                       ("bad", text)):  # fmt: skip
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info" / "entry_points.txt").write_bytes(data)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert told(registry.GROUPS) == {("polygrad.devices", "acme", "acme_npu:plugin", "acme", "1")}
    (reason,) = metadata.unreadable.values()
    assert reason.startswith(why)
