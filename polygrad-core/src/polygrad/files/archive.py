"""The canonical ZIP: one directory for one content, so that no byte of it can change unnoticed.

An ordinary ZIP that any tool opens, of stored members only. A ZIP does not cover its own bytes:
dates, flags, versions, extra fields and lengths may be anything, and `zipfile` accepts one flipped
bit in twenty. So there is exactly one legal way to write it, and the reader's whole check is:
parse, write the headers again with the writer's functions, compare bytes.

* fixed date (1980-01-01), flags (UTF-8 names), versions; local header and central header say the
  same;
* data at multiples of 64 bytes, by one extra field of zeros (id 0xD935, as Android's zipalign
  uses);
* nothing between the members or after them;
* the last member is a manifest, and the end record's comment is its sha256 in hex;
* ZIP64 fields only in what lies above 4 GiB.

What the members' own bytes must be is the manifest's business: it lists the sha256 of each.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import IO, NamedTuple, NoReturn

from ..errors import BundleError
from .limits import DEFAULT, Limits
from .sniff import describe
from .source import FileSource

ALIGN = 64
COMMENT = 64  # a sha256 in hex
_BIG = 0xFFFFFFFF
_MANY = 0xFFFF
_DATE, _TIME, _FLAGS = 0x0021, 0, 0x0800
_PLAIN, _ZIP64 = 10, 45  # version needed
_PAD_ID = 0xD935

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR = struct.Struct("<4sIQI")
_NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*(/[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*)*"
)


class Entry(NamedTuple):
    """One member: where its local header and its data start, how long it is, its CRC-32."""

    name: str
    header: int
    start: int
    size: int
    crc: int

    @property
    def end(self) -> int:
        return self.start + self.size


def legal_name(name: str) -> bool:
    """Relative, made of plain names: no "..", no backslash, no drive, nothing hidden."""
    return _NAME.fullmatch(name) is not None


# ---- the one way to write headers


def place(name: str, header: int, size: int, crc: int = 0) -> Entry:
    """The entry of a member whose local header is at `header`."""
    bare = header + _LOCAL.size + len(name) + 4 + (20 if size >= _BIG else 0)
    return Entry(name, header, bare + -bare % ALIGN, size, crc)


def local_header(e: Entry) -> bytes:
    big = e.size >= _BIG
    sizes = struct.pack("<HHQQ", 1, 16, e.size, e.size) if big else b""
    extra = sizes + _padding(e, len(sizes))
    shown = _BIG if big else e.size
    version = _ZIP64 if big else _PLAIN
    head = (version, _FLAGS, 0, _TIME, _DATE, e.crc, shown, shown, len(e.name), len(extra))
    return _LOCAL.pack(b"PK\3\4", *head) + e.name.encode() + extra


def central_header(e: Entry) -> bytes:
    large = [e.size, e.size] if e.size >= _BIG else []
    far = [e.header] if e.header >= _BIG else []
    wide = [*large, *far]
    extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    extra += _padding(e, 20 if large else 0)
    shown, version = _BIG if large else e.size, _ZIP64 if wide else _PLAIN
    head = (version, version, _FLAGS, 0, _TIME, _DATE, e.crc, shown, shown, len(e.name), len(extra))
    tail = (0, 0, 0, 0, min(e.header, _BIG))
    return _CENTRAL.pack(b"PK\1\2", *head, *tail) + e.name.encode() + extra


def _padding(e: Entry, before: int) -> bytes:
    zeros = e.start - e.header - _LOCAL.size - len(e.name) - before - 4
    return struct.pack("<HH", _PAD_ID, zeros) + bytes(zeros)


def directory(entries: Iterable[Entry], comment: str) -> bytes:
    """The central directory and the end record that belong to `entries`."""
    entries = list(entries)
    body = b"".join(map(central_header, entries))
    start, count = (entries[-1].end if entries else 0), len(entries)
    wide = b""
    if start >= _BIG or len(body) >= _BIG or count >= _MANY:
        place64 = (count, count, len(body), start)
        wide = _END64.pack(b"PK\6\6", _END64.size - 12, _ZIP64, _ZIP64, 0, 0, *place64)
        wide += _LOCATOR.pack(b"PK\6\7", 0, start + len(body), 1)
    n = min(count, _MANY)
    end = _END.pack(b"PK\5\6", 0, 0, n, n, min(len(body), _BIG), min(start, _BIG), len(comment))
    return body + wide + end + comment.encode("ascii")


# ---- writing


class ArchiveWriter:
    """Writes members in order to a seekable file; `finish` after the last, the manifest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._entries = file, list[Entry]()
        self._digest = ""

    def add(self, name: str, size: int, chunks: Iterable[bytes | memoryview]) -> str:
        """Write one member of `size` bytes; returns its sha256 in hex."""
        if not legal_name(name) or any(e.name == name for e in self._entries):
            raise BundleError(f"{name!r} is no legal or no new member name")
        entry = place(name, self._entries[-1].end if self._entries else 0, size)
        self._file.write(local_header(entry))
        digest, crc, written = hashlib.sha256(), 0, 0
        for chunk in chunks:
            self._file.write(chunk)
            digest.update(chunk)
            crc = zlib.crc32(chunk, crc)
            written += len(chunk)
        if written != size:
            raise BundleError(f"member {name!r} was announced with {size} bytes and has {written}")
        entry = entry._replace(crc=crc)
        self._file.seek(entry.header)
        self._file.write(local_header(entry))  # again, now that the CRC is known
        self._file.seek(entry.end)
        self._entries.append(entry)
        self._digest = digest.hexdigest()
        return self._digest

    def finish(self) -> None:
        """Write the directory; the last member's sha256 becomes the comment."""
        self._file.write(directory(self._entries, self._digest))


# ---- reading


class Archive:
    """The members of a canonical ZIP. Opening reads headers only, and refuses all others."""

    def __init__(self, source: FileSource, limits: Limits = DEFAULT) -> None:
        self.source, self.limits = source, limits
        self.comment = ""
        self.members: Mapping[str, Entry] = {}
        self._check_start()
        entries = self._parse()
        self._compare(entries)
        self.members = {e.name: e for e in entries}

    def read(self, name: str, sha256: str, size: int) -> bytes:
        """A whole member, checked."""
        member = self.stream(name)
        data = bytes(member.read(size)) if size == member.entry.size else b""
        member.check(sha256)
        return data

    def stream(self, name: str) -> MemberReader:
        """A reader of one member, front to back."""
        if name not in self.members:
            self._fail(0, f"has no member {name!r}")
        return MemberReader(self.source, self.members[name])

    def _fail(self, offset: int, reason: str) -> NoReturn:
        self.source.fail(offset, reason, BundleError)

    def _check_start(self) -> None:
        head = bytes(self.source.read(0, min(512, self.source.size)))
        if head[:4] != b"PK\3\4":
            self._fail(0, describe(head, "a polygrad bundle (.pgb)"))

    def _parse(self) -> list[Entry]:
        """What the directory says; afterwards it is compared with what the writer would say."""
        size = self.source.size
        at = size - _END.size - COMMENT
        if at < 0:
            self._fail(size, "the file ends inside its first member: truncated")
        tail = bytes(self.source.read(at, _END.size + COMMENT))
        if tail[:4] != b"PK\5\6":
            self._no_end_record()
        try:
            self.comment = tail[_END.size :].decode("ascii")
        except UnicodeDecodeError:
            self._fail(at + _END.size, "the comment is no sha256")
        count, length, start = (_END.unpack(tail[: _END.size])[i] for i in (4, 5, 6))
        if count == _MANY or _BIG in (length, start):
            at, count, length, start = self._wide(at)
        if start + length != at:
            self._fail(at, "the central directory does not end where the end record starts")
        if count > self.limits.members:
            self._fail(at, f"has {count} members; the limit is {self.limits.members}")
        if length > self.limits.header_bytes:
            self._fail(
                at, f"has a directory of {length} bytes; the limit is {self.limits.header_bytes}"
            )
        return self._entries(bytes(self.source.read(start, length)), start, count)

    def _no_end_record(self) -> NoReturn:
        """The end record is not where ours stands: the file is cut, longer, or a foreign one."""
        size = self.source.size
        start = max(0, size - _END.size - _MANY)  # a ZIP's comment has 16 bits of length
        found = bytes(self.source.read(start, size - start)).rfind(b"PK\5\6")
        if found < 0:
            self._fail(size, "the file ends before its directory does: truncated")
        at = start + found
        record = bytes(self.source.read(at, min(_END.size, size - at)))
        end = at + _END.size + COMMENT
        whole = len(record) == _END.size
        if whole and _END.unpack(record)[7] != COMMENT:
            self._fail(at, "is a ZIP archive that polygrad did not write")
        if not whole or end > size:
            self._fail(size, "the file ends inside its end record: truncated")
        self._fail(end, f"{size - end} bytes stand behind the end of the bundle")

    def _wide(self, at: int) -> tuple[int, int, int, int]:
        at -= _LOCATOR.size + _END64.size
        if at < 0:
            self._fail(0, "the ZIP64 end record is missing")
        fields = _END64.unpack(self.source.read(at, _END64.size))
        return (at, *fields[7:10])

    def _entries(self, body: bytes, start: int, count: int) -> list[Entry]:
        entries: list[Entry] = []
        at = header = 0
        for _ in range(count):
            if at + _CENTRAL.size > len(body):
                self._fail(start + min(at, len(body)), "the central directory is cut short")
            fields = _CENTRAL.unpack_from(body, at)
            crc, size, names, extras = fields[7], fields[8], fields[10], fields[11]
            name = body[at + _CENTRAL.size : at + _CENTRAL.size + names].decode("ascii", "replace")
            if size == _BIG:
                wide = at + _CENTRAL.size + names + 4
                size = int.from_bytes(body[wide : wide + 8], "little")
            if not legal_name(name) or len(name) > self.limits.name_bytes:
                self._fail(start + at, f"has a member with the illegal name {name[:80]!r}")
            entries.append(place(name, header, size, crc))
            header = entries[-1].end
            if header > start:
                self._fail(
                    start + at,
                    f"member {name!r} reaches into the directory, not as polygrad writes it",
                )
            at += _CENTRAL.size + names + extras
        if len({e.name for e in entries}) != len(entries):
            self._fail(start, "has two members of one name")
        return entries

    def _compare(self, entries: list[Entry]) -> None:
        """Write every header again and compare: the whole check of the archive's own bytes."""
        for e in entries:
            self._same(local_header(e), e.header, f"the header of member {e.name!r}")
        end = entries[-1].end if entries else 0
        self._same(directory(entries, self.comment), end, "the directory", self.source.size - end)

    def _same(self, expected: bytes, offset: int, what: str, length: int | None = None) -> None:
        found = bytes(self.source.read(offset, len(expected) if length is None else length))
        if found == expected:
            return
        pairs = zip(found, expected, strict=False)
        where = next(
            (i for i, (a, b) in enumerate(pairs) if a != b), min(len(found), len(expected))
        )
        self._fail(
            offset + where, f"{what} is not as polygrad writes it: the file was changed or damaged"
        )


class MemberReader:
    """Reads a member front to back and hashes what passes: no second pass over big ones."""

    def __init__(self, source: FileSource, entry: Entry) -> None:
        self.source, self.entry = source, entry
        self.position = entry.start
        self._digest, self._crc = hashlib.sha256(), 0

    def read(self, length: int) -> memoryview:
        if self.position + length > self.entry.end:
            self._fail(f"member {self.entry.name!r} ends inside a value")
        data = self.source.read(self.position, length)
        self.position += length
        self._digest.update(data)
        self._crc = zlib.crc32(data, self._crc)
        return data

    def check(self, sha256: str) -> None:
        """Raise unless the whole member was read and its bytes are those that were written."""
        while self.position < self.entry.end:
            self.read(min(1 << 20, self.entry.end - self.position))
        if self._digest.hexdigest() != sha256 or self._crc != self.entry.crc:
            self.position = self.entry.start
            self._fail(f"the content of member {self.entry.name!r} was changed or damaged (sha256)")

    def _fail(self, reason: str) -> NoReturn:
        self.source.fail(self.position, reason, BundleError)
