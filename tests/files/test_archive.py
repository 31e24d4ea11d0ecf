"""The canonical ZIP: any tool reads it, and no byte of it can change unnoticed."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
from typing import Any

import pytest

from polygrad.errors import BundleError
from polygrad.files.archive import (
    ALIGN,
    Archive,
    ArchiveWriter,
    directory,
    legal_name,
    local_header,
    place,
)
from polygrad.files.limits import Limits
from polygrad.files.source import FileSource

CONTENT = {
    "graph.json": b'{"nodes":[]}',
    "weights.safetensors": bytes(range(200)),
    "manifest.json": b"{}",
}


def write(content: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    for name, data in content.items():
        writer.add(name, len(data), [data])
    writer.finish()
    return file.getvalue()


def check(data: bytes) -> None:
    """Open, and read each member against what was written: what a bundle's manifest does."""
    archive = Archive(FileSource.open(data))
    if list(archive.members) != list(CONTENT):
        raise BundleError("other members")
    if archive.comment != hashlib.sha256(CONTENT["manifest.json"]).hexdigest():
        raise BundleError("other manifest")
    for name, content in CONTENT.items():
        archive.read(name, hashlib.sha256(content).hexdigest(), len(content))


SMALL = write(CONTENT)


def test_zipfile_reads_it() -> None:
    with zipfile.ZipFile(io.BytesIO(SMALL)) as z:
        assert z.testzip() is None
        assert {n: z.read(n) for n in z.namelist()} == CONTENT


def test_members_start_at_multiples_of_64() -> None:
    members = Archive(FileSource.open(SMALL)).members.values()
    assert [e.start % ALIGN for e in members] == [0, 0, 0]
    assert all(SMALL[e.start : e.end] == CONTENT[e.name] for e in members)


def test_equal_content_gives_equal_bytes() -> None:
    assert write(CONTENT) == SMALL


def test_every_flipped_bit_is_refused() -> None:
    check(SMALL)
    accepted = []
    for bit in range(len(SMALL) * 8):
        data = bytearray(SMALL)
        data[bit >> 3] ^= 1 << (bit & 7)
        try:
            check(bytes(data))
        except BundleError:
            continue
        accepted.append(bit)
    assert accepted == []


def test_every_truncation_is_refused() -> None:
    for length in range(len(SMALL)):
        with pytest.raises(BundleError):
            check(SMALL[:length])


def test_truncation_says_so_and_where() -> None:
    members = Archive(FileSource.open(SMALL)).members.values()
    for boundary in (e.end for e in members):
        with pytest.raises(BundleError, match=r"^<bytes>: .*truncated.* \(offset \d+\)$"):
            Archive(FileSource.open(SMALL[:boundary]))


def test_appended_and_inserted_bytes_are_refused() -> None:
    for at in (0, len(SMALL) // 2, len(SMALL)):
        with pytest.raises(BundleError):
            check(SMALL[:at] + b"\0" + SMALL[at:])


def test_an_ordinary_zip_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as z:
        z.comment = hashlib.sha256(b"{}").hexdigest().encode()
        z.writestr("manifest.json", b"{}")
    with pytest.raises(BundleError, match="not as polygrad writes it"):
        Archive(FileSource.open(file.getvalue()))


@pytest.mark.parametrize(
    "name", ["../a", "/a", "a//b", "a/../b", "a\\b", "C:a", ".hidden", "a\0", "", "a..b", "é"]
)
def test_path_tricks_are_illegal_names(name: str) -> None:
    assert not legal_name(name)
    with pytest.raises(BundleError):
        ArchiveWriter(io.BytesIO()).add(name, 0, [])


def test_two_members_of_one_name_are_refused() -> None:
    first = place("a", 0, 1, 0xE8B7BE43)
    second = place("a", first.end, 1, 0xE8B7BE43)
    data = b"".join(local_header(e) + b"a" for e in (first, second)) + directory(
        [first, second], "0" * 64
    )
    with pytest.raises(BundleError, match="two members of one name"):
        Archive(FileSource.open(data))


def test_more_members_than_the_limit_are_refused() -> None:
    with pytest.raises(BundleError, match="the limit is 2"):
        Archive(FileSource.open(SMALL), Limits(members=2))


def test_a_member_of_another_length_than_announced_is_not_written() -> None:
    with pytest.raises(BundleError, match="announced with 3 bytes and has 2"):
        ArchiveWriter(io.BytesIO()).add("a", 3, [b"12"])


# ---- ZIP64, over files with holes: no data is written or read


def sparse(tmp_path: Any, sizes: list[int]) -> Any:
    path = tmp_path / "big.zip"
    entries: list[Any] = []
    with open(path, "wb") as f:
        for i, size in enumerate(sizes):
            entries.append(place(f"m{i}", entries[-1].end if entries else 0, size))
            f.seek(entries[-1].header)
            f.write(local_header(entries[-1]))
        f.seek(entries[-1].end)
        f.write(directory(entries, "0" * 64))
    return path, entries


@pytest.mark.parametrize(
    "sizes", [[5 << 30, 10], [10, 5 << 30, 7, 8], [0xFFFFFFFF], [0xFFFFFFFE, 1]]
)
def test_above_4_gib_zip64_fields_appear(tmp_path: Any, sizes: list[int]) -> None:
    path, entries = sparse(tmp_path, sizes)
    with zipfile.ZipFile(path) as z:
        assert [(i.file_size, i.header_offset) for i in z.infolist()] == [
            (e.size, e.header) for e in entries
        ]
    with FileSource.open(path) as source:
        assert list(Archive(source).members.values()) == entries


def test_below_4_gib_there_are_none(tmp_path: Any) -> None:
    path, _ = sparse(tmp_path, [0xFFFF0000])
    with open(path, "rb") as f:
        f.seek(-86 - 20, 2)
        assert f.read(4) != b"PK\6\7"


def test_a_needless_zip64_record_is_refused() -> None:
    with_marker = bytearray(SMALL)
    struct.pack_into("<I", with_marker, len(SMALL) - 86 + 16, 0xFFFFFFFF)
    with pytest.raises(BundleError):
        Archive(FileSource.open(bytes(with_marker)))
