"""Says whether the cpu device can be used, without starting LLVM."""

from __future__ import annotations

import os

from polygrad import settings
from polygrad.plugin import Probe

from .toolchain import described, missing


def machine() -> str:
    """The kind of processor, as `platform.machine` names it, which takes 2 ms to import."""
    if hasattr(os, "uname"):
        return os.uname().machine
    import platform

    return platform.machine()


def probe() -> Probe:
    """The only thing that can be missing is the compiler."""
    name = settings.get("POLY_CPU_TOOLCHAIN")
    lacks = missing(name)
    if lacks is not None:
        return Probe(ok=False, detail=lacks.detail, hint=lacks.hint)
    return Probe(ok=True, count=1, arch=machine(), detail=described(name))
