"""Atomic writing: after a crash at any point the file is the old one or the new one, never between.

Written to a temporary file beside the target (same file system), synchronised, renamed over it, and
the folder synchronised. On an error the temporary file is removed and the target stays. A process
that is killed leaves its temporary file behind; the next write of the same target removes it. A
living writer holds a lock on its temporary file, which is how the two are told apart.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO

from ..errors import ArgumentError, FileDenied, FileError, FileMissing, PolygradError
from .source import no_path

try:
    import fcntl
except ImportError:  # Windows refuses to remove an open file, which does the same job
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".polygrad-tmp"


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write; it takes the place of `path` when the block ends without an error."""
    target = _resolved(os.fsdecode(path))
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileMissing(f"there is no such folder: {folder!r}.")
    if os.path.exists(target) and not os.path.isfile(target):
        raise ArgumentError(f"{target}: cannot be replaced by a file, it is no regular file.")
    try:
        with _replacing(target) as file:
            yield file
        _sync_folder(folder)
    except OSError as error:
        if isinstance(error, PolygradError):
            raise
        raise FileError(
            f"{target}: cannot be written: {error.strerror or error}. Save it to another place."
        ) from None


def _resolved(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError as error:
        raise no_path(path, error) from None


@contextlib.contextmanager
def _replacing(target: str) -> Iterator[IO[bytes]]:
    sweep(target)
    temporary, file = _create(target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                os.replace(
                    temporary, target
                )  # still locked, so that no other writer sweeps it before
        if fcntl is None:
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def sweep(target: str) -> None:
    """Remove temporary files of `target` whose writer is gone."""
    folder, prefix = _place(target)
    for left in glob.glob(os.path.join(glob.escape(folder), f"{glob.escape(prefix)}*{_SUFFIX}")):
        # Not ours to report: another process may have removed it, or may own it
        with contextlib.suppress(OSError):
            _remove_if_stale(left)


def _remove_if_stale(path: str) -> None:
    if fcntl is None:
        os.unlink(path)
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(fd)


def _place(target: str) -> tuple[str, str]:
    folder, name = os.path.split(target)
    return folder, f".{name[:40]}."  # cut: a file system takes 255 bytes


def _create(target: str) -> tuple[str, IO[bytes]]:
    folder, prefix = _place(target)
    while True:
        try:
            fd, temporary = tempfile.mkstemp(prefix=prefix, suffix=_SUFFIX, dir=folder)
        except PermissionError:
            raise FileDenied(f"{target}: we may not write to the folder.") from None
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.path.exists(temporary):  # else swept between the two calls: make another
            file = os.fdopen(fd, "w+b")
            try:
                _set_mode(fd, target)
            except OSError:  # a name too long for the system
                file.close()
                os.unlink(temporary)
                raise
            return temporary, file
        os.close(fd)


def _set_mode(fd: int, target: str) -> None:
    """The mode of the file replaced, or what the umask gives a new one (mkstemp says 0600)."""
    if not hasattr(os, "fchmod"):
        return
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        mode = 0o666 & ~_umask()
    os.fchmod(fd, mode)


def _umask() -> int:
    """From /proc where there is one: os.umask sets it for a moment, in every thread."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as f:
        for line in f:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_folder(folder: str) -> None:
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
