"""Object code on disk, so that the second process compiles nothing.

One SQLite file in the user's cache folder, key = hash of everything that decides the code (what
that is, `engine/keys.py` and the backends know), value = object code with the sha256 of both. What
is read from disk will be run, so a folder that somebody else could write to is not used; an entry
whose hash does not fit is dropped. Nothing here may stop a program: whatever goes wrong is logged,
and the kernel is compiled.

Several processes may use one file at once (write-ahead log). It keeps below POLY_CACHE_MB by
dropping what was used longest ago. On a network file system, where that log cannot be shared, each
host has its own file.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import stat
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from .. import settings
from ..errors import user_level
from ..logs import logger

if TYPE_CHECKING:
    import sqlite3

log = logger("cache")

VERSION = 2  # of the file's layout; part of its name
TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder holds compiled kernels of polygrad; it may be deleted at any time.\n"
)
WAIT = 2.0  # seconds for another process to let go of the file
_STALE = 3600  # seconds after which a hit refreshes an entry's time of use
_FULL = 0.8  # how far the oldest entries are dropped once the cap is reached
_SCHEMA = """
create table if not exists entries (
    key blob primary key, code blob not null, sha blob not null,
    size integer not null, used integer not null
)"""


# ---- where


def trusted(path: str) -> str:
    """Why `path` may not be used, an empty string when it may.

    It must be ours alone to write, and so must everything above it: who can rename a parent can
    put another folder in its place. Root owns the upper ones; a sticky folder lets nobody rename
    what is not his.
    """
    if not hasattr(os, "geteuid"):
        return ""
    ours = (os.geteuid(), 0)
    here = os.path.realpath(path)
    while True:
        info = os.stat(here)
        if info.st_uid not in (ours[:1] if here == os.path.realpath(path) else ours):
            return f"{here} belongs to user {info.st_uid}"
        writable = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if writable and (here == os.path.realpath(path) or not info.st_mode & stat.S_ISVTX):
            return f"others may write to {here}"
        above = os.path.dirname(here)
        if above == here:
            return ""
        here = above


def _prepared(path: str) -> bool:
    """Make the folder and its tag. False when it cannot be used."""
    try:
        if not os.path.isdir(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.makedirs(path, mode=0o700, exist_ok=True)
        refused = trusted(path)
        if not refused:
            tag = os.path.join(path, "CACHEDIR.TAG")
            if not os.path.exists(tag):
                with open(tag, "w", encoding="ascii") as file:
                    file.write(TAG)
    except OSError as error:  # a read-only home is no error
        log.info("no cache on disk: %s", error)
        return os.path.isdir(path) and not _refused_quietly(path)
    if refused:
        warnings.warn(
            f"compiled kernels are not kept on disk: {refused}. Set POLY_CACHE_DIR to a folder of"
            " your own, or POLY_CACHE=0.",
            RuntimeWarning,
            stacklevel=user_level(),
        )
    return not refused


def _refused_quietly(path: str) -> bool:
    try:
        return bool(trusted(path))
    except OSError:
        return True


def _file_name(path: str) -> str:
    name = f"kernels-{VERSION}"
    if on_network(path):
        import platform

        host = hashlib.sha256(platform.node().encode()).hexdigest()[:12]
        name += f"-{host}"
    return os.path.join(path, name + ".sqlite")


_NETWORK = ("nfs", "cifs", "smb", "afs", "lustre", "gpfs", "beegfs", "fuse.sshfs", "9p", "ceph")


def on_network(path: str) -> bool:
    """Whether the folder lies on a network file system; where nobody says, it is local."""
    try:
        with open("/proc/mounts", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" ")[1:3] for line in file]
    except OSError:
        return False
    real = os.path.realpath(path)
    over = [(m, kind) for m, kind in mounts if real == m or real.startswith(m.rstrip("/") + "/")]
    return bool(over) and max(over, key=lambda o: len(o[0]))[1].startswith(_NETWORK)


# ---- the cache


class DiskCache:
    """One SQLite file. Methods may be called from any thread; none of them raises."""

    def __init__(self, path: str, limit: int) -> None:
        self.path, self.limit = path, limit
        self.lock = threading.Lock()
        self.connection: sqlite3.Connection | None = None
        self.process = 0  # that opened the connection: a fork must not share it
        self.broken = False

    def get(self, key: bytes) -> bytes | None:
        """The code of `key`, None when it is not there or was damaged."""
        code: bytes | None = self._try(self._get, key)
        return code

    def put(self, key: bytes, code: bytes) -> None:
        """Keep `code`; the least recently used entries go when the cap is reached."""
        if len(code) <= self.limit:
            self._try(self._put, key, code)

    def close(self) -> None:
        with self.lock:
            self._close()

    # ---- inside the lock

    def _try(self, action: Any, *arguments: Any) -> Any:
        import sqlite3

        with self.lock:
            if self.broken:
                return None
            try:
                return action(self._open(), *arguments)
            except sqlite3.OperationalError as error:  # busy, read-only, disk full
                log.info("the kernel cache %s is of no help now: %s", self.path, error)
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # names are text
                log.warning(
                    "the kernel cache %s was damaged (%s); it starts anew", self.path, error
                )
                self._start_anew()
            except OSError as error:
                log.info("no kernel cache: %s", error)
                self.broken = True
            return None

    def _open(self) -> sqlite3.Connection:
        if self.connection is not None and self.process == os.getpid():
            return self.connection
        import sqlite3

        if not os.path.exists(self.path):
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self.path, timeout=WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            _set_up(connection)
        except (sqlite3.Error, UnicodeDecodeError):
            connection.close()
            raise
        self.connection, self.process = connection, os.getpid()
        return connection

    def _close(self) -> None:
        if self.connection is not None and self.process == os.getpid():
            self.connection.close()
        self.connection = None

    def _start_anew(self) -> None:
        self._close()
        try:
            for ending in ("", "-wal", "-shm"):
                if os.path.exists(self.path + ending):
                    os.unlink(self.path + ending)
        except OSError as error:
            log.info("no kernel cache: %s", error)
            self.broken = True

    def _get(self, db: sqlite3.Connection, key: bytes) -> bytes | None:
        row = db.execute("select code, sha, used from entries where key=?", (key,)).fetchone()
        if row is None:
            return None
        code, sha, used = row
        if not isinstance(code, bytes) or not isinstance(used, int) or _hash_of(key, code) != sha:
            log.warning("an entry of the kernel cache %s was damaged; it is dropped", self.path)
            db.execute("delete from entries where key=?", (key,))
            return None
        now = int(time.time())
        if abs(now - used) > _STALE:
            self._refresh(db, key, now)
        return code

    def _refresh(self, db: sqlite3.Connection, key: bytes, now: int) -> None:
        import sqlite3

        try:
            db.execute("update entries set used=? where key=?", (now, key))
        except sqlite3.OperationalError as error:  # the code itself was read well
            log.debug("cannot note a use in %s: %s", self.path, error)

    def _put(self, db: sqlite3.Connection, key: bytes, code: bytes) -> None:
        row = (key, code, _hash_of(key, code), len(code), int(time.time()))
        db.execute("insert or replace into entries values (?, ?, ?, ?, ?)", row)
        (total,) = db.execute("select total(size) from entries").fetchone()
        if total > self.limit:
            self._drop(db, total - self.limit * _FULL)

    def _drop(self, db: sqlite3.Connection, excess: float) -> None:
        rows = db.execute(
            "select key, cast(size as integer) from entries order by used, rowid"
        ).fetchall()
        dropped = 0
        for key, size in rows[:-1]:  # never the newest
            if dropped >= excess:
                break
            db.execute("delete from entries where key=?", (key,))
            dropped += size
        db.execute("pragma incremental_vacuum")


def _hash_of(key: bytes, code: bytes) -> bytes:
    """Of an entry: a damaged index may find one by the key of another."""
    return hashlib.sha256(key + code).digest()


def _set_up(db: sqlite3.Connection) -> None:
    import sqlite3

    try:
        db.execute("pragma auto_vacuum=incremental")
        db.execute("pragma journal_mode=wal")
        db.execute("pragma synchronous=normal")
        db.execute(_SCHEMA)
    except sqlite3.OperationalError:
        # Read-only: what is there can still be used, if it has the table.
        db.execute("select 1 from entries limit 1")


_caches: dict[tuple[str, int], DiskCache | None] = {}
_lock = threading.Lock()


def default() -> DiskCache | None:
    """The cache that the settings ask for, None when there is none to use."""
    if not settings.get("POLY_CACHE"):
        return None
    key = (settings.cache_folder(), settings.get("POLY_CACHE_MB") << 20)
    with _lock:
        if key not in _caches:
            if not _caches:
                atexit.register(_close_all)
            path, limit = key
            _caches[key] = DiskCache(_file_name(path), limit) if _prepared(path) else None
        return _caches[key]


def _close_all() -> None:
    """At exit: a connection that is left open is a ResourceWarning from Python 3.13 on."""
    for cache in _caches.values():
        if cache is not None:
            cache.close()
