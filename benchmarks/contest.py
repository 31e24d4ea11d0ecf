"""Contestants at one workload, each in a process of its own, turn by turn.

All are started first, one after the other, and then wait on a pipe, which costs nothing, while one
of them has its turn.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, NamedTuple

from .errors import BenchmarkError
from .frameworks import FRAMEWORKS, framework_of
from .measure import ROUNDS, Seconds, Timing, alternate


class Result(NamedTuple):
    """One contestant at one workload; `made` is its peak of memory before the first call."""

    timing: Timing
    first: Seconds
    made_bytes: int
    peak_bytes: int


def contest(
    workload: str,
    contestants: Iterable[str],
    threads: int,
    patience: float,
    rounds: int = ROUNDS,
) -> tuple[dict[str, Result], dict[str, str]]:
    """Results, and what went wrong with those that have none."""
    workers: dict[str, Worker] = {}
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        for name in contestants:
            worker = Worker(workload, name, threads, patience)
            stack.callback(worker.close)
            try:
                worker.start()
                workers[name] = worker
            except BenchmarkError as error:
                worker.close()
                failed[name] = str(error)
        timings = alternate({name: worker.turn for name, worker in workers.items()}, rounds)
        results = {name: worker.result(timings[name]) for name, worker in workers.items()}
    return results, failed


class Worker:
    """The process of one contestant: the other end of `worker`. Every answer must come within
    `patience` seconds."""

    def __init__(self, workload: str, contestant: str, threads: int, patience: float) -> None:
        self.name, self.patience = contestant, patience
        self._cache = tempfile.TemporaryDirectory()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `close`
        count = str(threads)
        names = ("POLY_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {
            **os.environ,
            **FRAMEWORKS[framework_of(contestant)].environment,
            **dict.fromkeys(names, count),
            "POLY_CACHE_DIR": self._cache.name,  # empty: the first call compiles
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", workload, contestant, count],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # `select` sees no line that was read ahead
            stderr=self._errors,
            env=environment,
        )
        self._last: dict[str, Any] = {}

    def start(self) -> None:
        """Make the inputs, call once, and get ready."""
        self._made = self._answer("made")
        self._first = self._answer("first")
        self._answer("ready")

    def turn(self) -> Seconds:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._last = self._answer("turn")
        return Seconds(self._last["wall"], self._last["cpu"])

    def result(self, timing: Timing) -> Result:
        first = Seconds(self._first["wall"], self._first["cpu"])
        return Result(timing, first, self._made["peak"], self._last["peak"])

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()
        self._cache.cleanup()

    def _answer(self, stage: str) -> dict[str, Any]:
        pipe = self._process.stdout
        assert pipe is not None
        if not select.select([pipe], [], [], self.patience)[0]:
            raise BenchmarkError(f"not {stage} within {self.patience:g} s")
        line = pipe.readline()
        if not line:
            self._process.wait()
            raise BenchmarkError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        """The last line on its standard error; how it ended if there is none."""
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        return lines[-1] if lines else f"ended with status {self._process.returncode}"
