"""Atomic writing: the old file or the new one, never between, and nothing left behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from polygrad.errors import ArgumentError, FileError, FormatError
from polygrad.files import FileSource, atomic


def test_the_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic(path) as f:
        f.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_an_error_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic(path) as f:
        f.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


KILLED = """
import os, signal, sys
from polygrad.files import atomic
with atomic(sys.argv[1]) as f:
    f.write(b"half")
    f.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_killed_writer_keeps_the_old_file_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert path.read_bytes() == b"old"
    assert len(os.listdir(tmp_path)) == 2
    with atomic(path) as f:
        f.write(b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_two_writers_at_once_do_not_remove_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic(path) as first:
        first.write(b"first")
        with atomic(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_the_mode_is_that_of_the_old_file_or_of_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a"
    old = os.umask(0o027)
    try:
        with atomic(path) as f:
            f.write(b"1")
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o604)
    with atomic(path) as f:
        f.write(b"2")
    assert path.stat().st_mode & 0o777 == 0o604


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with atomic(tmp_path / "link") as f:
        f.write(b"new")
    assert (tmp_path / "real").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()


def test_a_long_name_and_glob_characters_work(tmp_path: Path) -> None:
    for name in ("x" * 250, "[a]*?"):
        for _ in range(2):
            with atomic(tmp_path / name) as f:
                f.write(b"1")
    assert len(os.listdir(tmp_path)) == 2


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder: '.*absent'"):
        with atomic(tmp_path / "absent" / "file"):
            pass


def test_what_the_system_refuses_is_told_with_the_path(tmp_path: Path) -> None:
    """A name that is too long here; a full disk, or a file system of no files such as /proc."""
    path = tmp_path / ("a" * 300)
    with pytest.raises(FileError, match="a: cannot be written: .* Save it to another place"):
        with atomic(path):
            pass
    with pytest.raises(FileError, match="x: cannot be written: No space left on device"):
        with atomic(tmp_path / "x"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_no_path_is_told(name: str) -> None:
    with pytest.raises(ArgumentError, match="is no path: .*(null|encoded)"), atomic(name):
        pass
    with pytest.raises(ArgumentError, match="is no path: .*(null|encoded)"):
        FileSource.open(name)


def test_a_folder_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no regular file"), atomic(tmp_path):
        pass


def test_reading_past_the_end_names_file_and_place(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"123")
    with (
        FileSource.open(path) as source,
        pytest.raises(FormatError, match=r"short: .*truncated \(offset 2\)"),
    ):
        source.read(2, 5)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is a folder"):
        FileSource.open(tmp_path)
