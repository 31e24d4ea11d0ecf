"""The executor as a shared library that ThreadSanitizer watches, and Python processes that use it.

The library is made of the text that the device compiles, each function marked `sanitize_thread`,
each instruction with its line. Kernels are watched too: they come through the C toolchain gcc with
`-fsanitize=thread`. The runtime, gcc's libtsan, is loaded before Python itself, so that it sees
every thread, lock and allocation of CPython. What CPython and numpy read and write themselves it
does not see: reports are about our code.

`inside/sitecustomize.py` gives the library to the device, in the process that is started here and
in every Python that this one starts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from polygrad_backend_cpu.executor_text import executor_text

INSIDE = Path(__file__).with_name("inside")
ROOT = Path(__file__).parents[2]
# Opaque pointers are the text's; clang 14 can read them, but must be asked to.
OPAQUE_BY_DEFAULT = 15


class Tools(NamedTuple):
    clang: list[str]  # its command, for LLVM text
    runtime: Path


class Missing(Exception):
    """What the stand needs and this machine lacks."""


def tools() -> Tools:
    """Raises Missing."""
    for name in ("clang", "gcc"):
        if shutil.which(name) is None:
            raise Missing(f"the session tsan needs {name}, which is not on PATH: install it.")
    version = re.search(r"version (\d+)", _output("clang", "--version"))
    if version is None or int(version[1]) < 14:
        raise Missing("the session tsan needs clang 14 or newer: older ones cannot read the text.")
    opaque = [] if int(version[1]) >= OPAQUE_BY_DEFAULT else ["-mllvm", "-opaque-pointers"]
    runtime = Path(_output("gcc", "-print-file-name=libtsan.so").strip())
    if not runtime.is_absolute():
        raise Missing("gcc has no libtsan.so here: install libtsan, of the same version as gcc.")
    return Tools(["clang", *opaque], runtime)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# ---- the library


def compile_watched(clang: list[str], source: Path, library: Path) -> None:
    flags = ("-O1", "-g", "-fPIC", "-shared", "-fsanitize=thread", "-Wno-override-module")
    done = subprocess.run([*clang, *flags, "-o", library, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def watched(text: str, path: Path) -> str:
    """`text` with every function marked, and every instruction with its line in the file `path`."""
    lines, scopes = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("define "):
            name = line.split("@")[1].split("(")[0]
            scopes.append(f'distinct !DISubprogram(name: "{name}", file: !1, line: {number}, '
                          "unit: !0, type: !4, spFlags: DISPFlagDefinition)")  # fmt: skip
            line = line.replace(" nounwind ", f" nounwind sanitize_thread !dbg !{4 + len(scopes)} ")
        elif line.startswith("  ") and line.strip():
            line += f", !dbg !DILocation(line: {number}, scope: !{4 + len(scopes)})"
        lines.append(line)
    nodes = [
        "distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: LineTablesOnly)",
        f'!DIFile(filename: "{path.name}", directory: "{path.parent}")',
        '!{i32 2, !"Debug Info Version", i32 3}',
        '!{i32 2, !"Dwarf Version", i32 4}',
        "!DISubroutineType(types: !{null})",
        *scopes,
    ]
    lines += [f"!{number} = {node}" for number, node in enumerate(nodes)]
    return "\n".join([*lines, "!llvm.dbg.cu = !{!0}", "!llvm.module.flags = !{!2, !3}", ""])


# ---- processes that use it


class Ended(NamedTuple):
    status: int
    said: str  # what it wrote
    reports: str  # ThreadSanitizer's


class Stand:
    """Runs Python with the executor of this `text` in the device. `folder` is its own."""

    def __init__(self, folder: Path, text: str | None = None) -> None:
        found = tools()
        self.folder, self.runtime = folder, found.runtime
        self.source, self.library = folder / "executor.ll", folder / "executor.so"
        text = executor_text() if text is None else text
        self.source.write_text(watched(text, self.source))
        compile_watched(found.clang, self.source, self.library)

    def pytest(self, *arguments: str, threads: int, first: bool = False) -> Ended:
        """pytest in the project's root. It goes on after a report, or ends with the `first`."""
        options = ("-q", "-p", "no:cacheprovider", *arguments)
        return self.module("pytest", *options, threads=threads, first=first)

    def module(
        self, *arguments: str, threads: int, first: bool = False, split: bool = False
    ) -> Ended:
        """`python -m` with these arguments. `split`: each step over all threads, however small."""
        logs = self.folder / f"reports-{len(list(self.folder.glob('reports-*')))}"
        logs.mkdir()
        path = filter(None, (str(INSIDE), os.environ.get("PYTHONPATH")))
        # A thread's last accesses are remembered as long as may be: both stacks of a report.
        # A daemon that Python leaves behind, and a thread that a fork lacks, are no races.
        options = "exitcode=66 history_size=7 atexit_sleep_ms=0 report_thread_leaks=0"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "LD_PRELOAD": str(self.runtime),
            "TSAN_OPTIONS": f"{options} halt_on_error={int(first)} log_path={logs}/of",
            "PYTHONMALLOC": "malloc",  # of each object, so that it sees what is freed too early
            "OPENBLAS_NUM_THREADS": "1",  # the oracle needs no threads of its own
            "SANITIZED_EXECUTOR": str(self.library),
            "SANITIZED_SPLIT": "1" if split else "",
            "POLY_CPU_TOOLCHAIN": "gcc",
            "POLY_CACHE_DIR": str(self.folder / "cache"),
            "POLY_THREADS": str(threads),
        }
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
        reports = "\n".join(log.read_text() for log in sorted(logs.iterdir()))
        return Ended(done.returncode, done.stdout + done.stderr, reports)
