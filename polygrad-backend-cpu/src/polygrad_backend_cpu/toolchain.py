"""What makes machine code: LLVM in process, or a C compiler of this machine.

POLY_CPU_TOOLCHAIN chooses when a device is opened. All of them get the same programs, and what the
text means is IEEE's, so they give the same bits. The executor is LLVM's whichever is chosen.
Importing this module loads neither LLVM nor cffi: the probe asks it what is missing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from polygrad.errors import DeviceUnavailable
from polygrad.plugin import Compiler, Renderer
from polygrad.target import Target

if TYPE_CHECKING:
    from .c_compile import CLinker
    from .compile import Linker

C_COMPILERS = {
    "clang": "install clang",
    "gcc": "install gcc 12 or newer",
    "zig": 'pip install "polygrad-backend-cpu[zig]"',
}  # name -> how to get it


class Toolchain(NamedTuple):
    renderer: Renderer
    compiler: Compiler
    linker: Linker | CLinker


class Missing(NamedTuple):
    detail: str
    hint: str


def command(name: str) -> list[str] | None:
    """How to run the C compiler `name`, None where it is not to be found."""
    if name == "zig" and sys.executable and importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    import shutil  # 2 ms that a process with LLVM alone need not pay

    path = shutil.which(name)
    if path is None:
        return None
    return [path, "cc"] if name == "zig" else [path]


def missing(name: str) -> Missing | None:
    """What the toolchain `name` lacks here."""
    if importlib.util.find_spec("llvmlite") is None:
        return Missing("llvmlite is not installed", "pip install llvmlite")
    if name == "llvm":
        return None
    instead = ", or leave POLY_CPU_TOOLCHAIN unset"
    if sys.platform == "win32":
        return Missing(f"the toolchain {name} needs dlopen", "leave POLY_CPU_TOOLCHAIN unset")
    if importlib.util.find_spec("cffi") is None:
        hint = 'pip install "polygrad-backend-cpu[c]"'
        return Missing(f"the toolchain {name} needs cffi, which is not installed", hint + instead)
    if command(name) is None:
        looked = f"PATH ({os.pathsep.join(os.get_exec_path())})"
        looked = f"the package ziglang and {looked}" if name == "zig" else looked
        detail = f"POLY_CPU_TOOLCHAIN={name}, and {looked} has no {name}"
        return Missing(detail, C_COMPILERS[name] + instead)
    return None


def described(name: str) -> str:
    """The toolchain, for people."""
    return " ".join(["toolchain", name, *(() if name == "llvm" else command(name) or ())])


def toolchain_of(name: str, target: Target) -> Toolchain:
    """The toolchain `name` for this machine. Raises DeviceUnavailable."""
    lacks = missing(name)
    if lacks is not None:
        raise DeviceUnavailable(f"device 'cpu' cannot be used: {lacks.detail}. Hint: {lacks.hint}.")
    if name == "llvm":
        from .compile import toolchain
        from .render import host_renderer

        return Toolchain(host_renderer(target), *toolchain())
    from .c_compile import CLinker, CSourceCompiler
    from .c_render import CRenderer

    compiler = CSourceCompiler(name, command(name) or (), target.vector_bytes)
    return Toolchain(CRenderer(target), compiler, CLinker())
