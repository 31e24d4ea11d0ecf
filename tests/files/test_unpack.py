"""ZIP and tar archives of others: their files in memory, and no further than the limits."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from polygrad import Tensor
from polygrad.errors import FormatError
from polygrad.files.unpack import gunzipped
from polygrad.nn.state import tar_extract, zip_extract

FILES = {"a.bin": b"\x00\x01\xff", "folder/b.txt": b"text" * 5000, "empty": b""}


def zipped(files: Any = FILES, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.mkdir("folder") if hasattr(archive, "mkdir") else None
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(files: Any = FILES, change: Callable[[tarfile.TarInfo], None] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if change is not None:
                change(info)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def values(found: dict[str, Tensor]) -> dict[str, bytes]:
    assert all(t.dtype.name == "uint8" and t.ndim == 1 for t in found.values())
    return {name: bytes(t.data()) for name, t in found.items()}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_zip(method: int) -> None:
    assert values(zip_extract(zipped(method=method))) == FILES


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_tar(pack: Callable[[bytes], bytes]) -> None:
    assert values(tar_extract(pack(tarred()))) == FILES


def test_an_archive_in_a_tensor_or_a_file(tmp_path: Any) -> None:
    data = zipped()
    (tmp_path / "x.zip").write_bytes(data)
    held = Tensor(list(data), dtype="uint8")
    assert values(zip_extract(tmp_path / "x.zip")) == values(zip_extract(held)) == FILES


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "~/x", "a\\..\\x"])
def test_a_name_that_leads_out_is_refused(name: str) -> None:
    for extract, data in ((zip_extract, zipped({name: b""})), (tar_extract, tarred({name: b""}))):
        with pytest.raises(FormatError, match="is no plain relative path"):
            extract(data)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind: bytes) -> None:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname, info.size = kind, "other", 0

    with pytest.raises(FormatError, match="is no regular file"):
        tar_extract(tarred({"x": b""}, change))


def test_more_than_the_limit_is_not_unpacked() -> None:
    large = {"zeros": bytes(10_000_000)}
    for extract, data in (
        (zip_extract, zipped(large)),
        (tar_extract, gzip.compress(tarred(large))),
        (gunzipped, gzip.compress(bytes(10_000_000))),
    ):
        with pytest.raises(FormatError, match="unpacks to more than limit=1000 bytes"):
            extract(data, 1000)  # type: ignore[operator]


def test_a_header_may_not_promise_more_memory_than_the_limit() -> None:
    head = tarfile.TarInfo("pax")
    head.type, head.size = tarfile.XHDTYPE, 1 << 33
    with pytest.raises(FormatError):
        tar_extract(gzip.compress(head.tobuf() + bytes(50_000_000)), 1000)


def test_two_files_of_one_name_are_refused() -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("x"), io.BytesIO())
    with pytest.raises(FormatError, match="has two files named 'x'"):
        tar_extract(data.getvalue())


def test_an_encrypted_file_is_refused() -> None:
    data = bytearray(zipped({"x": b"abc"}, zipfile.ZIP_STORED))
    at = data.rindex(b"PK\x01\x02")
    data[at + 8] |= 1
    with pytest.raises(FormatError, match="is encrypted"):
        zip_extract(bytes(data))


@pytest.mark.parametrize("extract", [zip_extract, tar_extract, gunzipped])
def test_every_truncation_is_a_format_error(extract: Any) -> None:
    small = {"a": b"12345", "b": b"6" * 100}
    whole = {
        zip_extract: zipped(small),
        tar_extract: gzip.compress(tarred(small)),
        gunzipped: gzip.compress(b"x" * 100),
    }[extract]
    for length in range(1, len(whole), 7):
        with pytest.raises(FormatError):
            extract(whole[:length])
