"""A file as readers see it: a name for messages, a size, and bytes by range.

A path is opened once and its size taken from the open descriptor, so what is checked is what is
read. Ranges are read, not mapped: a file that shrinks under a map kills the process.
"""

from __future__ import annotations

import os
import threading
from typing import IO, Any, NoReturn

from ..errors import (
    ArgumentError,
    FileDenied,
    FileError,
    FileMissing,
    FormatError,
    did_you_mean,
    shown,
)

Readable = Any  # str, os.PathLike, bytes-like, or a FileSource


class FileSource:
    """Bytes by range, from a path or from memory. A context manager."""

    __slots__ = ("_data", "_file", "_lock", "name", "size")

    def __init__(
        self, name: str, size: int, data: memoryview | None, file: IO[bytes] | None
    ) -> None:
        self.name, self.size, self._data, self._file = name, size, data, file
        self._lock = threading.Lock()

    @classmethod
    def open(cls, source: Readable) -> FileSource:
        """The `FileSource` over a path, a bytes-like object, or itself."""
        if isinstance(source, FileSource):
            return source
        if isinstance(source, (bytes, bytearray, memoryview)):
            view = memoryview(source).cast("B") if memoryview(source).nbytes else memoryview(b"")
            return cls("<bytes>", view.nbytes, view, None)
        if not isinstance(source, (str, os.PathLike)):
            raise ArgumentError(f"a file is a path or bytes, not {type(source).__name__}.")
        path = os.fspath(source)
        name = path if isinstance(path, str) else os.fsdecode(path)
        if os.path.isdir(path):
            raise FormatError(f"{name}: is a folder, not a file.")
        file = _opened(path, name)
        return cls(name, os.fstat(file.fileno()).st_size, None, file)

    def read(self, offset: int, length: int) -> memoryview:
        """`length` bytes from `offset`; `FormatError` when the file is shorter."""
        if offset < 0 or length < 0 or offset + length > self.size:
            self.fail(
                offset, f"needs {length} bytes here, but the file has only {self.size}: truncated"
            )
        if self._data is not None:
            return self._data[offset : offset + length]
        if self._file is None:
            raise ArgumentError(f"{self.name} is closed")
        with self._lock:
            self._file.seek(offset)
            data = self._file.read(length)
        if len(data) != length:
            self.fail(offset + len(data), "the file became shorter while it was read")
        return memoryview(data)

    def fail(self, offset: int, reason: str, error: type[FormatError] = FormatError) -> NoReturn:
        """Raise `error` with the file's name and the place."""
        raise error(f"{self.name}: {reason} (offset {offset})")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> FileSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(path: str | bytes, name: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise FileMissing(f"there is no file {name!r}.{_neighbour(name)}") from None
    except PermissionError:
        raise FileDenied(f"{name}: we may not read it.") from None
    except OSError as error:
        raise FileError(f"{name}: cannot be opened: {error.strerror}.") from None
    except ValueError as error:
        raise no_path(path, error) from None


def no_path(path: str | bytes, error: ValueError) -> ArgumentError:
    """The error of a text that the system takes for no path: it holds a NUL, or half a pair of
    UTF-16."""
    reason = "it cannot be encoded" if isinstance(error, UnicodeError) else str(error)
    return ArgumentError(f"{shown(path)} is no path: {reason}.")


def _neighbour(name: str) -> str:
    """A hint at a file of a similar name in the same folder."""
    folder, wanted = os.path.split(name)
    try:
        return did_you_mean(wanted, os.listdir(folder or "."), fold=str)
    except OSError:
        return " There is no such folder."
