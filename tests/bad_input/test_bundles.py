"""Damaged bundles: each truncation at a boundary and each flipped byte is a BundleError that names
the file and a byte of it, at the user's line, and leaves nothing open and nothing allocated."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from polygrad import Model, Tensor, nn
from polygrad.errors import BundleError, PolygradError
from polygrad.files import Archive, ArchiveWriter, FileSource

from .mistake import FILE, Chapter, Mistake, check_told, run, world

CHAPTER = Chapter("Bundles", "", ())


@pytest.fixture(scope="module")
def bundle() -> bytes:
    Tensor.manual_seed(0)
    data = Model(nn.Linear(2, 1), inputs={"x": (1, 2)}).save()
    assert data is not None
    return data


def loading(path: Path, text: str = "") -> Any:
    """The outcome of loading a file, as a mistake of the table."""
    mistake = Mistake("load", "Model.load(path)", BundleError, text)
    outcome = run(CHAPTER, mistake, {"path": path})
    assert outcome.after == outcome.before
    return mistake, outcome


def boundaries(data: bytes) -> dict[str, int]:
    """Where each part of the file starts or ends."""
    found = {"nothing": 0, "the signature": 4}
    members = Archive(FileSource.open(data)).members
    for name, entry in members.items():
        found |= {f"header of {name}": entry.header, f"data of {name}": entry.start}
        found |= {f"end of {name}": entry.end}
    found |= {"end record": len(data) - 86, "comment": len(data) - 64, "last byte": len(data) - 1}
    return found


def told_of_a_cut(at: int, size: int) -> str:
    if at == 0:
        return (
            "is empty. Expected a polygrad bundle (.pgb); it was probably cut short while being"
            " written or downloaded (offset 0)"
        )
    if at < 86:
        return f"the file ends inside its first member: truncated (offset {at})"
    if at <= size - 86:
        return f"the file ends before its directory does: truncated (offset {at})"
    return f"the file ends inside its end record: truncated (offset {at})"


def test_a_cut_at_every_boundary_is_told(bundle: bytes, tmp_path: Path) -> None:
    for part, at in boundaries(bundle).items():
        path = tmp_path / f"cut at {part}.pgb"
        path.write_bytes(bundle[:at])
        mistake, outcome = loading(path, f"{path}: {told_of_a_cut(at, len(bundle))}")
        check_told(mistake, outcome)


def test_every_flipped_byte_is_told(bundle: bytes, tmp_path: Path) -> None:
    path = tmp_path / "flipped.pgb"
    told = re.compile(re.escape(str(path)) + r": .+ \(offset (\d+)\)")
    before = world(), files_open()
    for at in range(len(bundle)):
        damaged = bytearray(bundle)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        error = raised_by(path)
        assert type(error) is BundleError, at
        match = told.fullmatch(str(error))
        assert match, error
        assert int(match[1]) <= len(bundle)
        del error
    assert (world(), files_open()) == before


def raised_by(path: Path) -> PolygradError:
    with pytest.raises(PolygradError) as caught:
        Model.load(path)
    frames = caught.traceback
    assert str(frames[0].path) == __file__
    assert len(frames) == (1 if sys.version_info >= (3, 11) else 2)
    return caught.value


def files_open() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_the_file_is_left_as_it_was_and_loads_when_mended(bundle: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pgb"
    damaged = bundle[:500] + b"!" + bundle[501:]
    path.write_bytes(damaged)
    raised_by(path)
    assert path.read_bytes() == damaged
    assert os.listdir(tmp_path) == ["model.pgb"]
    path.write_bytes(bundle)
    assert Model.load(path).save() == bundle


# ---- versions


def rewritten(bundle: bytes, **fields: Any) -> bytes:
    """The bundle with other fields in its manifest, written as polygrad writes."""
    import io

    archive = Archive(FileSource.open(bundle))
    memory = io.BytesIO()
    writer = ArchiveWriter(memory)
    for entry in archive.members.values():
        content = bytes(archive.source.read(entry.start, entry.size))
        if entry.name == "manifest.json":
            manifest = json.loads(content) | fields
            content = json.dumps(manifest, separators=(",", ":")).encode()
        writer.add(entry.name, len(content), [content])
    writer.finish()
    return memory.getvalue()


VERSIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a later major": (
        {"version": [2, 0]},
        "manifest.json has the format version 2.0; this polygrad reads 1.x. Model format mismatch:"
        " use the release that wrote it, or a newer one (offset {manifest})",
    ),
    "a version that is none": (
        {"version": "1.0"},
        "manifest.json has no version (offset {manifest})",
    ),
    "another format": (
        {"format": "somebody.else"},
        "manifest.json is not of the format 'polygrad.bundle' (offset {manifest})",
    ),
    "a feature of a later release": (
        {"requires": ["quantum"]},
        "manifest.json asks for 'quantum', which this polygrad does not know; a newer release may"
        " read it (offset {manifest})",
    ),
}


@pytest.mark.parametrize("case", VERSIONS)
def test_another_version_is_told(case: str, bundle: bytes, tmp_path: Path) -> None:
    fields, text = VERSIONS[case]
    path = tmp_path / "later.pgb"
    path.write_bytes(rewritten(bundle, **fields))
    manifest = Archive(FileSource.open(bundle)).members["manifest.json"].start
    mistake, outcome = loading(path, f"{path}: " + text.replace("{manifest}", str(manifest)))
    check_told(mistake, outcome)
    assert outcome.files[0] == FILE


def test_the_same_version_rewritten_is_read(bundle: bytes) -> None:
    assert rewritten(bundle) == bundle


# ---- files that were never bundles, by their names


def test_a_missing_file_offers_its_neighbour(bundle: bytes, tmp_path: Path) -> None:
    (tmp_path / "digits.pgb").write_bytes(bundle)
    path = tmp_path / "digist.pgb"
    with pytest.raises(FileNotFoundError) as caught:
        Model.load(path)
    assert str(caught.value) == f"there is no file {str(path)!r}. Did you mean 'digits.pgb'?"
    assert isinstance(caught.value, PolygradError)


def test_a_missing_folder_is_named() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Model.load("/no/such/folder/model.pgb")
    assert str(caught.value) == (
        "there is no file '/no/such/folder/model.pgb'. There is no such folder."
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_that_we_may_not_read(bundle: bytes, tmp_path: Path) -> None:
    path = tmp_path / "closed.pgb"
    path.write_bytes(bundle)
    path.chmod(0)
    with pytest.raises(PermissionError) as caught:
        Model.load(path)
    assert str(caught.value) == f"{path}: we may not read it."
