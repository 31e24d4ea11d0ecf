"""The kernel cache on disk: never in the way, never trusted further than its hash."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from polygrad import Context
from polygrad.files import diskcache
from polygrad.files.diskcache import DiskCache

KEY, OTHER = b"k" * 32, b"o" * 32
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="ownership is POSIX's")


@pytest.fixture
def cache(tmp_path: Path):
    made = DiskCache(str(tmp_path / "kernels.sqlite"), 1 << 20)
    yield made
    made.close()


def test_what_was_put_is_found_again(cache: DiskCache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"
    assert DiskCache(cache.path, cache.limit).get(KEY) == b"code"


def test_the_file_is_ours_alone(cache: DiskCache) -> None:
    cache.put(KEY, b"code")
    assert stat.S_IMODE(os.stat(cache.path).st_mode) == 0o600


def test_the_longest_unused_go_first(tmp_path: Path, monkeypatch) -> None:
    cache = DiskCache(str(tmp_path / "kernels.sqlite"), 10_000)
    clock = [1_000_000.0]
    monkeypatch.setattr(diskcache.time, "time", lambda: clock[0])
    keys = [bytes([n]) * 32 for n in range(10)]
    for key in keys:
        clock[0] += 10_000
        cache.put(key, os.urandom(1000))
    clock[0] += 10_000
    assert cache.get(keys[0]) is not None  # used now: it stays
    cache.put(OTHER, os.urandom(1000))
    assert cache.get(keys[0]) is not None
    assert cache.get(keys[1]) is None
    assert cache.get(OTHER) is not None
    total = sqlite3.connect(cache.path).execute("select sum(size) from entries").fetchone()[0]
    assert total <= 10_000


def test_an_entry_larger_than_the_cap_is_not_kept(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path / "kernels.sqlite"), 100)
    cache.put(KEY, bytes(101))
    assert cache.get(KEY) is None


DAMAGE = {
    "other code": "update entries set code=x'00'",
    "text": "update entries set code='text'",
    "the key of another": f"update entries set key=x'{KEY.hex()}'",
    "no time of use": "update entries set used='never'",
    "no size": "update entries set size='large'",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_dropped(cache: DiskCache, damage: str) -> None:
    cache.put(OTHER if "key=" in damage else KEY, b"code")
    with sqlite3.connect(cache.path) as db:
        db.execute(damage)
    assert cache.get(KEY) == (b"code" if "size" in damage else None)
    cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"


def test_sizes_that_are_none_do_not_stop_the_cap(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path / "kernels.sqlite"), 1000)
    cache.put(OTHER, bytes(600))
    with sqlite3.connect(cache.path) as db:
        db.execute("update entries set size='600 bytes'")
    cache.put(KEY, bytes(900))
    assert cache.get(KEY) == bytes(900)


def test_names_that_are_no_text_start_anew(cache: DiskCache) -> None:
    cache.put(KEY, b"code")
    cache.close()
    path = Path(cache.path)
    whole = path.read_bytes()
    assert whole.count(b"sqlite_autoindex_entries_1") == 1
    path.write_bytes(whole.replace(b"sqlite_autoindex", b"sqlit\xe5_autoindex"))
    assert cache.get(KEY) is None
    cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"


JUNK = {"nothing": b"", "text": b"no database at all" * 100, "noise": os.urandom(5000)}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
def test_a_damaged_file_starts_anew(cache: DiskCache, junk: bytes) -> None:
    Path(cache.path).write_bytes(junk)
    assert cache.get(KEY) is None
    cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"


def test_pages_damaged_in_the_middle(cache: DiskCache) -> None:
    for n in range(40):
        cache.put(bytes([n]) * 32, os.urandom(3000))
    cache.close()
    path = Path(cache.path)
    data = bytearray(path.read_bytes())
    data[4096 : len(data) - 4096] = os.urandom(len(data) - 8192)
    path.write_bytes(data)
    for n in range(40):
        cache.get(bytes([n]) * 32)
    cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"


def test_a_file_deleted_under_us_is_no_error(cache: DiskCache) -> None:
    cache.put(KEY, b"code")
    for path in Path(cache.path).parent.iterdir():
        path.unlink()
    cache.get(KEY)
    cache.put(OTHER, b"code")


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with Context(POLY_CACHE_DIR=str(tmp_path / "cache")):
        assert diskcache.default() is None


def test_the_cache_may_be_switched_off(tmp_path: Path) -> None:
    with Context(POLY_CACHE=0, POLY_CACHE_DIR=str(tmp_path)):
        assert diskcache.default() is None


def test_the_folder_has_a_tag_and_is_private(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "cache"
    with Context(POLY_CACHE_DIR=str(home)):
        assert diskcache.default() is not None
    assert (home / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f0688")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@posix
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    home = tmp_path / "shared"
    home.mkdir()
    home.chmod(0o777)
    with Context(POLY_CACHE_DIR=str(home)):
        with pytest.warns(RuntimeWarning, match="others may write") as caught:
            assert diskcache.default() is None
        assert caught[0].filename == __file__  # the user's line, not one of ours
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once is enough
            assert diskcache.default() is None


@posix
def test_a_folder_below_one_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "open" / "mine").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    assert "others may write" in diskcache.trusted(str(tmp_path / "open" / "mine"))
    (tmp_path / "open").chmod(0o1777)  # sticky: nobody can rename what is ours
    (tmp_path / "open" / "mine").chmod(0o700)
    assert diskcache.trusted(str(tmp_path / "open" / "mine")) == ""


@posix
def test_a_read_only_file_still_serves(cache: DiskCache) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes to read-only files")
    cache.put(KEY, b"code")
    cache.close()
    os.chmod(cache.path, 0o400)
    os.chmod(Path(cache.path).parent, 0o500)
    try:
        again = DiskCache(cache.path, cache.limit)
        assert again.get(KEY) in (b"code", None)
        again.put(OTHER, b"code")
    finally:
        os.chmod(Path(cache.path).parent, 0o700)


def test_a_locked_file_is_waited_for_and_then_left(cache: DiskCache, monkeypatch) -> None:
    cache.put(KEY, b"code")
    monkeypatch.setattr(diskcache, "WAIT", 0.05)
    cache.close()
    other = sqlite3.connect(cache.path, isolation_level=None)
    other.execute("begin exclusive")
    cache.put(OTHER, b"code")
    other.execute("rollback")
    other.close()
    assert cache.get(KEY) == b"code"


_WRITER = """
import sys, os
from polygrad.files.diskcache import DiskCache
cache = DiskCache(sys.argv[1], 1 << 20)
for n in range(60):
    key = bytes([n]) * 32
    found = cache.get(key)
    assert found in (None, key * 50), found
    cache.put(key, key * 50)
"""


def test_several_processes_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "kernels.sqlite")
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, path]) for _ in range(3)]
    assert [w.wait() for w in writers] == [0, 0, 0]
    cache = DiskCache(path, 1 << 20)
    assert all(cache.get(bytes([n]) * 32) == bytes([n]) * 32 * 50 for n in range(60))


_RUN = """
from polygrad import Tensor
from polygrad.engine.counters import counters
assert (Tensor([1.0, 2.0]) * 3 + 1).tolist() == [4.0, 7.0]
print(counters.kernels_compiled, counters.disk_hits)
"""


def _run(folder: Path, **settings: str) -> list[int]:
    env = {**os.environ, "POLY_DEV": "cpu", "POLY_CACHE_DIR": str(folder), **settings}
    out = subprocess.run([sys.executable, "-c", _RUN], env=env, check=True, capture_output=True)
    return [int(n) for n in out.stdout.split()]


def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    pytest.importorskip("polygrad_backend_cpu")
    assert _run(tmp_path / "c") == [1, 0]
    assert _run(tmp_path / "c") == [0, 1]
    assert _run(tmp_path / "c", POLY_CACHE="0") == [1, 0]


def test_two_processes_race_for_an_empty_cache(tmp_path: Path) -> None:
    pytest.importorskip("polygrad_backend_cpu")
    env = {**os.environ, "POLY_DEV": "cpu", "POLY_CACHE_DIR": str(tmp_path / "c")}
    racers = [subprocess.Popen([sys.executable, "-c", _RUN], env=env) for _ in range(2)]
    assert [r.wait() for r in racers] == [0, 0]
    assert _run(tmp_path / "c") == [0, 1]


def test_a_generated_kernel_is_not_generated_again(tmp_path: Path) -> None:
    pytest.importorskip("polygrad_backend_cpu")
    code = _RUN.replace("counters.kernels_compiled", "counters.kernels_lowered")
    env = {**os.environ, "POLY_DEV": "cpu", "POLY_CACHE_DIR": str(tmp_path / "c")}
    for want in (b"1 0", b"0 1"):
        out = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True)
        assert out.stdout.strip() == want
