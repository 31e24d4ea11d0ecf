"""Whatever the kernel cache on disk looks like, a program gives its result, says nothing, and the
log tells why: the cache is corrupted, read-only, or fought over by several processes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from polygrad.files import diskcache

pytest.importorskip("polygrad_backend_cpu")

PROGRAM = """
import logging, sys, warnings
warnings.simplefilter("error")
if sys.argv[1:] == ["log"]:
    logging.basicConfig(stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
    logging.getLogger("polygrad.cache").setLevel(logging.INFO)
from polygrad import Tensor
from polygrad.engine.counters import counters
x = Tensor([[1.0, 2.0], [3.0, 4.0]])
assert (x @ x + 1).tolist() == [[8.0, 11.0], [16.0, 23.0]]
assert (x // 0.5).sum().item() == 20.0
print("compiled", counters.kernels_compiled, "found", counters.disk_hits)
"""


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "POLY_DEV": "cpu", "POLY_CACHE_DIR": str(folder)}


def ran(folder: Path, *arguments: str) -> list[str]:
    """The lines that the program prints; it must succeed, and keep its error stream empty."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, env=environment(folder), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a warm cache."""
    folder = tmp_path_factory.mktemp("warm") / "cache"
    assert ran(folder) == ["compiled 2 found 0"]
    (path,) = folder.glob("*.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    db.close()
    return path.read_bytes()


@pytest.fixture
def warm(kernels: bytes, tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    file_of(folder).write_bytes(kernels)
    assert ran(folder) == ["compiled 0 found 2"]
    return folder


def file_of(folder: Path) -> Path:
    return folder / f"kernels-{diskcache.VERSION}.sqlite"


def damage_the_file(path: Path) -> None:
    path.write_bytes(b"this is no database, whatever its name says")


def damage_the_header(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes(100) + data[100:])


def damage_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


def cut_the_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def empty_the_file(path: Path) -> None:
    path.write_bytes(b"")


def damage_the_code(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("update entries set code = zeroblob(length(code))")
    db.close()


def damage_the_hashes(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("update entries set sha = zeroblob(32)")
    db.close()


DAMAGES: dict[Callable[[Path], None], str] = {
    damage_the_file: "WARNING the kernel cache {path} was damaged (file is not a database);"
    " it starts anew",
    damage_the_header: "WARNING the kernel cache {path} was damaged (file is not a database);"
    " it starts anew",
    damage_the_middle: "WARNING the kernel cache {path} was damaged (database disk image is"
    " malformed); it starts anew",
    cut_the_file: "WARNING the kernel cache {path} was damaged (database disk image is malformed);"
    " it starts anew",
    empty_the_file: "",
    damage_the_code: "WARNING an entry of the kernel cache {path} was damaged; it is dropped",
    damage_the_hashes: "WARNING an entry of the kernel cache {path} was damaged; it is dropped",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_corrupted_cache_is_compiled_around_and_told_in_the_log(
    damage: Callable[[Path], None], warm: Path
) -> None:
    damage(file_of(warm))
    *log, counted = ran(warm, "log")
    assert counted == "compiled 2 found 0"
    text = DAMAGES[damage].replace("{path}", str(file_of(warm)))
    assert sorted(set(log)) == ([f"polygrad.cache {text}"] if text else [])


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_corrupted_cache_is_silent_and_mended_by_the_next_run(
    damage: Callable[[Path], None], warm: Path
) -> None:
    damage(file_of(warm))
    assert ran(warm) == ["compiled 2 found 0"]
    assert ran(warm) == ["compiled 0 found 2"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "cache"
    *log, counted = ran(folder, "log")
    assert counted == "compiled 2 found 0"
    (told,) = log
    assert told.startswith("polygrad.cache INFO no cache on disk: ")
    assert str(folder.parent) in told


# Root may write everywhere, so it becomes nobody, once everything is imported that nobody cannot.
ROOT = os.name == "posix" and os.geteuid() == 0
BECOME_NOBODY = """
import logging, os
from polygrad import Context, Tensor
with Context(POLY_CACHE_DIR=os.environ["OTHER_CACHE"]):
    y = Tensor([[1.0, 2.0, 3.0]] * 3)
    (y @ y + 1).tolist(), (y // 0.5).sum().item()
os.setgid(65534), os.setuid(65534)
from polygrad.engine.counters import counters
counters.reset()
"""


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
@pytest.mark.parametrize("what", ["file and folder", "file"])
def test_a_read_only_cache_is_no_error(what: str, warm: Path) -> None:
    """What is there serves, what is new is not kept."""
    path = file_of(warm)
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    if ROOT:
        os.chown(warm, 65534, 65534)
        os.chown(path, 65534, 65534)
        let_nobody_pass(warm.parent)
    path.chmod(0o400)
    if what == "file and folder":
        warm.chmod(0o500)
    before = path.read_bytes()
    try:
        done = subprocess.run(
            [sys.executable, "-c", BECOME_NOBODY * ROOT + PROGRAM],
            env=environment(warm) | {"OTHER_CACHE": str(warm.parent / "other")},
            capture_output=True,
            text=True,
        )
    finally:
        warm.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in ("compiled 0 found 2\n", "compiled 2 found 0\n")
    assert path.read_bytes() == before


def let_nobody_pass(folder: Path) -> None:
    """Open the folders that pytest made for us alone."""
    while "pytest" in str(folder):
        folder.chmod(folder.stat().st_mode | 0o055)
        folder = folder.parent


# ---- several processes at once

RACER = "import os, sys, time\nwhile not os.path.exists(sys.argv[-1]): time.sleep(0.001)\n"


def raced(folder: Path, gun: Path, count: int) -> list[str]:
    """What `count` processes print that start together."""
    command = [sys.executable, "-c", RACER + PROGRAM.replace('["log"]', "[]"), str(gun)]
    racers = [
        subprocess.Popen(
            command,
            env=environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    time.sleep(0.3)  # all of them wait now; a late one only makes the race easier
    gun.touch()
    said = [racer.communicate(timeout=120) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * count, said
    assert [err for _, err in said] == [""] * count
    return [out for out, _ in said]


def test_processes_that_race_for_an_empty_cache_all_succeed(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert len(raced(folder, tmp_path / "gun", 3)) == 3
    assert ran(folder) == ["compiled 0 found 2"]


def test_processes_that_race_for_a_corrupted_cache_all_succeed(warm: Path, tmp_path: Path) -> None:
    damage_the_file(file_of(warm))
    assert len(raced(warm, tmp_path / "gun", 3)) == 3
    ran(warm)  # whoever lost the race may have removed what another had kept
    assert ran(warm) == ["compiled 0 found 2"]
    with sqlite3.connect(file_of(warm)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    db.close()
