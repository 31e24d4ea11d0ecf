"""The members of ZIP and tar archives that others wrote, as bytes in memory, within limits.

Floor: files. Nothing is written to disk, no link is followed, and no more is decompressed than the
limit says, whatever the archive announces. Names must be plain relative paths, each once.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, Final

from ..errors import FormatError
from .limits import DEFAULT, Limits
from .source import FileSource, Readable

BYTES: Final = 4 << 30  # of all members together, unless the caller says otherwise
_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    NotImplementedError, RuntimeError,
)  # fmt: skip
_PIECE = 1 << 20


def unzipped(
    source: Readable, limit: int = BYTES, limits: Limits = DEFAULT
) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of each file of a ZIP archive."""
    with FileSource.open(source) as file:
        stream = io.BytesIO(file.read(0, file.size))
        names = _Names(file.name, limit, limits)
        try:
            with zipfile.ZipFile(stream) as archive:
                for info in archive.infolist():
                    if info.is_dir():
                        continue
                    names.take(info.filename, info.file_size)
                    if info.flag_bits & 1:
                        raise FormatError(f"{file.name}: {info.filename!r} is encrypted.")
                    with archive.open(info) as member:
                        yield info.filename, _all_of(member, info.file_size, names, info.filename)
        except _BROKEN as error:
            raise _format_error(file.name, "ZIP", error) from None


def untarred(
    source: Readable, limit: int = BYTES, limits: Limits = DEFAULT
) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of each regular file of a tar archive, packed by gzip, bzip2, xz or not."""
    with FileSource.open(source) as file:
        stream = io.BytesIO(file.read(0, file.size))
        names = _Names(file.name, limit, limits)
        bounded: Any = _Bounded(_unpacked(stream), names)
        try:
            with tarfile.open(fileobj=bounded, mode="r|") as archive:
                for info in archive:
                    if info.isdir():
                        continue
                    names.take(info.name, info.size)
                    if not info.isreg():
                        raise FormatError(f"{file.name}: {info.name!r} is no regular file.")
                    member: Any = archive.extractfile(info)
                    yield info.name, _all_of(member, info.size, names, info.name)
            while bounded.read(_PIECE):  # up to the checksum of what it is packed in
                pass
        except _BROKEN as error:
            raise _format_error(file.name, "tar", error) from None


def _format_error(name: str, kind: str, error: Exception) -> FormatError:
    if isinstance(error, FormatError):
        return error
    return FormatError(f"{name}: is no readable {kind} archive: {error or type(error).__name__}.")


class _Names:
    """What was promised so far, held against the limits."""

    def __init__(self, archive: str, limit: int, limits: Limits) -> None:
        self.archive, self.limit, self.limits = archive, limit, limits
        self.total, self.seen = 0, set[str]()

    def take(self, name: str, length: int) -> None:
        parts = name.replace("\\", "/").split("/")
        if len(name.encode()) > self.limits.name_bytes or ".." in parts or parts[0] in ("", "~"):
            raise FormatError(f"{self.archive}: {name[:80]!r} is no plain relative path.")
        if name in self.seen:
            raise FormatError(f"{self.archive}: has two files named {name!r}.")
        self.seen.add(name)
        if len(self.seen) > self.limits.members:
            raise FormatError(f"{self.archive}: has more than {self.limits.members} files.")
        self.total += length
        if length < 0 or self.total > self.limit:
            raise self.too_large()

    def too_large(self) -> FormatError:
        return FormatError(f"{self.archive}: unpacks to more than limit={self.limit} bytes.")


def _all_of(member: Any, length: int, names: _Names, name: str) -> bytes:
    """All of a member, read piecewise, so that memory follows what is there, not what it says."""
    pieces, left = [], length
    while left and (piece := member.read(min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    if left or member.read(1):
        raise FormatError(f"{names.archive}: {name!r} has not the {length} bytes that it says.")
    return b"".join(pieces)


def _unpacked(stream: io.BytesIO) -> Any:
    magic = stream.getvalue()[:6]
    if magic[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=stream)
    if magic[:3] == b"BZh":
        return bz2.BZ2File(stream)
    return lzma.LZMAFile(stream) if magic == b"\xfd7zXZ\x00" else stream


class _Bounded:
    """A stream that ends with an error where more comes than the limit, headers and all."""

    def __init__(self, stream: Any, names: _Names) -> None:
        self.stream, self.names = stream, names
        self.left = names.limit + (names.limits.members + 2) * 2048  # members have headers

    def read(self, count: int) -> bytes:
        data: bytes = self.stream.read(min(count, self.left + 1))
        self.left -= len(data)
        if self.left < 0:
            raise self.names.too_large()
        return data


def gunzipped(source: Readable, limit: int = BYTES) -> bytes:
    """The bytes of a gzip file."""
    with FileSource.open(source) as file:
        names = _Names(file.name, limit, DEFAULT)
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(file.read(0, file.size))) as stream:
                data = stream.read(limit + 1)
        except _BROKEN as error:
            raise _format_error(file.name, "gzip", error) from None
    if len(data) > limit:
        raise names.too_large()
    return data
