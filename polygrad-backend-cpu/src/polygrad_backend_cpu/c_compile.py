"""C text to machine code by a compiler of this machine: gcc, clang, or zig's clang.

The compiler is run as it is, without a shell, in a private folder that goes when it is done; where
it refuses a text, the folder stays and the error names it. What it makes is a shared library that
needs no other, whose bytes go into the disk cache as they are. Loading writes them to a private
file and maps it; the file goes at once, the code with the last program that holds it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from polygrad import settings
from polygrad.contract import Binary, Source
from polygrad.errors import CompileError

from .compile import Linked
from .target import host

# No -ffast-math or part of it that changes a value: neither errno nor traps can be seen from here.
_FLAGS = (
    "-std=gnu11", "-O2", "-g0", "-w", "-fPIC", "-shared", "-nostdlib", "-fvisibility=hidden",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
    "-fno-strict-aliasing", "-fno-stack-protector",
)  # fmt: skip
_OWN: Mapping[str, tuple[str, ...]] = {
    # A function of each lane becomes one instruction in gcc's vectorizer, if that may do it.
    "gcc": ("-fvect-cost-model=dynamic",),
    "clang": (),
    "zig": ("-fno-sanitize=undefined",),  # zig's default
}
# Where gcc does not schedule before it allocates registers, it reads a vector again for each use:
# measured, a convolution takes 1.3 times as long. But the time for that grows faster than the text
# (100 kB: 0.6 -> 1.0 s; 400 kB: 3 -> more than 15 s).
_SCHEDULED: Mapping[str, tuple[str, ...]] = {"gcc": ("-fschedule-insns", "-fsched-pressure")}
_LONG = 100_000  # characters of one kernel
_SHOWN = 4000  # characters of a compiler's messages in an error


def flags(name: str, vector_bytes: int) -> tuple[str, ...]:
    """What the compiler `name` is called with on this machine."""
    if platform.machine() in ("aarch64", "arm64"):
        machine: tuple[str, ...] = ("-mcpu=native",)
    else:
        machine = ("-march=native", f"-mprefer-vector-width={8 * vector_bytes}")
    apple = ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ()
    return (*_FLAGS, *machine, *apple, *_OWN[name])


class CSourceCompiler:
    """See `polygrad.plugin.Compiler`. Thread-safe: every call is a process of its own."""

    def __init__(self, name: str, command: Sequence[str], vector_bytes: int) -> None:
        self.name, self.command = name, tuple(command)
        self.flags, self.scheduled = flags(name, vector_bytes), _SCHEDULED.get(name, ())
        arch, features = host()
        said, flagged = _version(self.command), " ".join((*self.flags, *self.scheduled))
        self.key = f"{name}-{said}-{flagged}-{_LONG}-{arch}-{','.join(sorted(features))}"

    def __call__(self, source: Source) -> Binary:
        text = source.code if isinstance(source.code, str) else source.code.decode()
        with _private_folder() as folder:
            path, made = os.path.join(folder, "kernels.c"), os.path.join(folder, "kernels.so")
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            long = max(map(len, text.split("\n\n"))) > _LONG  # a blank line ends a kernel
            more = () if long else self.scheduled
            done = _run([*self.command, *self.flags, *more, "-o", made, path], folder)
            if done.returncode == 0:
                with open(made, "rb") as library:
                    return Binary(library.read(), source.entries)
        kept = _keep(text)
        raise CompileError(
            f"{self.name} refused a generated program (status {done.returncode}); its text is"
            f" kept in {kept}. {self.name} said:\n{(done.stderr or done.stdout)[:_SHOWN]}"
        )


def _run(command: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a compiler; its messages are in English, wherever the user is."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env={**settings.for_child(), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise CompileError(f"{command[0]} cannot be run: {error}.") from error


@cache
def _version(command: tuple[str, ...]) -> str:
    """What the compiler says of itself: zig's clang names its own build after the first line."""
    done = _run([*command, "--version"])
    said = " ".join(done.stdout.split())
    if done.returncode != 0 or not said:
        told = (done.stderr or done.stdout)[:_SHOWN]
        raise CompileError(f"{' '.join(command)} --version failed: {told or 'it said nothing'}")
    return said


@contextmanager
def _private_folder() -> Iterator[str]:
    """A new folder that is ours alone, and gone afterwards."""
    try:
        folder = tempfile.mkdtemp(prefix="polygrad-")
    except OSError as error:
        raise CompileError(
            f"a C toolchain needs a folder for temporary files: {error}."
            " Set TMPDIR to one, or POLY_CPU_TOOLCHAIN=llvm."
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(text: str) -> str:
    """Write a refused text where it stays; its path."""
    handle, path = tempfile.mkstemp(prefix="polygrad-refused-", suffix=".c")
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    return path


# ---- loading


@cache
def _loader() -> tuple[Any, Any]:
    """(cffi's FFI, the system's loader). Its own functions serve better than `FFI.dlopen`, which
    keeps a record of every library for ever."""
    from cffi import FFI

    ffi = FFI()
    ffi.cdef("""
        void *dlopen(const char *path, int flags);
        void *dlsym(void *library, const char *symbol);
        int dlclose(void *library);
        char *dlerror(void);
    """)
    return ffi, ffi.dlopen(None)


class CLinker:
    """Shared libraries in memory, ready to call; a library leaves memory with its `Linked`."""

    def link(self, code: bytes, symbols: Mapping[str, str]) -> Linked:
        """`symbols`: any name -> symbol. Their addresses come back under the names."""
        library = _Library(code)
        return Linked({name: library.address(s) for name, s in symbols.items()}, library)


class _Library:
    def __init__(self, code: bytes) -> None:
        self._handle = None
        self._ffi, self._system = _loader()
        self._close = self._system.dlclose
        with _private_folder() as folder:
            path = os.path.join(folder, "kernels.so")
            with open(path, "wb") as file:
                file.write(code)
            flags = self._ffi.RTLD_NOW | self._ffi.RTLD_LOCAL
            handle = self._system.dlopen(os.fsencode(path), flags)
        if handle == self._ffi.NULL:
            raise self._error("cannot load a program")
        self._handle = handle

    def address(self, symbol: str) -> int:
        found = self._system.dlsym(self._handle, symbol.encode())
        if found == self._ffi.NULL:
            raise self._error("cannot find a program")
        return int(self._ffi.cast("uintptr_t", found))

    def _error(self, what: str) -> CompileError:
        told = self._system.dlerror()
        reason = self._ffi.string(told).decode(errors="replace") if told != self._ffi.NULL else ""
        return CompileError(
            f"{what}: {reason or 'the system says nothing'}. If files in {tempfile.gettempdir()}"
            " may not be run, set TMPDIR to a folder where they may."
        )

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of the interpreter cffi's modules may be gone, and the code goes anyway.
        if self._handle is not None and not ending():
            self._close(self._handle)
