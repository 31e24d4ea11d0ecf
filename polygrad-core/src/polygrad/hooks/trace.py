"""A timeline of compilations and runs, in the JSON that chrome://tracing and Perfetto read.

`POLY_TRACE=out.json` records a whole process, `timeline` a block. It is an observer like anybody's:
two functions marked `hookimpl`. Events are written as they come, so a run of hours needs no memory
and a process that is killed leaves all but the last few; the format allows a list that is never
closed. A worker of multiprocessing writes `out.PID.json` beside it. Times are microseconds since
the start of the recording.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from .. import settings
from ..errors import FileError, public
from .installed import register, unregister
from .specs import CompileEvent, RunEvent, hookimpl


class Timeline:
    """The observer: one file, open until `close`. Raises FileError if it cannot be written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.process = os.fspath(path), os.getpid()
        self._lock = threading.Lock()
        self._start = perf_counter()
        self._first = True
        try:
            # Open while it records, across calls.
            self._file = open(self.path, "w", encoding="ascii")  # noqa: SIM115
        except OSError as error:
            raise FileError(
                f"the timeline {self.path} cannot be written: {error.strerror}."
            ) from None
        self._file.write("[")

    @hookimpl
    def polygrad_kernel_compiled(self, event: CompileEvent) -> None:
        details = {"programs": list(event.programs), "notes": list(event.notes)}
        self._add(f"{event.source}: {len(event.programs)} kernels", "compile", event, details)

    @hookimpl
    def polygrad_program_ran(self, event: RunEvent) -> None:
        details = {"note": event.note, "flops": event.flops, "bytes": event.bytes}
        self._add(event.program, "run", event, details)

    def _add(self, name: str, kind: str, event: CompileEvent | RunEvent, details: Any) -> None:
        entry = {
            "name": name,
            "cat": kind,
            "ph": "X",  # an event with a beginning and a length
            "ts": round((event.start - self._start) * 1e6, 3),
            "dur": round(event.seconds * 1e6, 3),
            "pid": self.process,
            "tid": threading.get_ident(),
            "args": {"device": event.device, **details},
        }
        if os.getpid() != self.process:
            return  # a fork: the file is its parent's
        with self._lock:
            if not self._file.closed:
                self._file.write(("\n" if self._first else ",\n") + json.dumps(entry))
                self._first = False

    def close(self) -> None:
        """End the list. May be called twice."""
        with self._lock:
            if not self._file.closed and os.getpid() == self.process:
                self._file.write("\n]\n")
                self._file.close()


@contextmanager
@public
def timeline(path: str | os.PathLike[str]) -> Iterator[Timeline]:
    """Record what is compiled and run inside the block. Raises FileError.

    >>> import json, pathlib, tempfile
    >>> from polygrad import Tensor
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "timeline.json"
    >>> with timeline(path):
    ...     (Tensor([1.0, 2.0]) * 3).tolist()
    [3.0, 6.0]
    >>> [event["cat"] for event in json.loads(path.read_text()) if event["cat"] == "run"]
    ['run']
    """
    recording = Timeline(path)
    name = f"timeline{id(recording)}"
    register(recording, name)
    try:
        yield recording
    finally:
        unregister(name)
        recording.close()


def _is_worker() -> bool:
    """Whether multiprocessing started this process."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.parent_process() is not None


_recordings: dict[str, Timeline] = {}


def from_settings() -> Timeline:
    """The Timeline that POLY_TRACE asks for: one for the process, closed at its end."""
    path: str = settings.get("POLY_TRACE")
    if _is_worker():  # with a file of its own: its parent writes to the other
        stem, suffix = os.path.splitext(path)
        path = f"{stem}.{os.getpid()}{suffix}"
    if path not in _recordings:
        _recordings[path] = Timeline(path)
        atexit.register(_recordings[path].close)
    return _recordings[path]
