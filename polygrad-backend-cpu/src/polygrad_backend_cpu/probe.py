"""Says whether the cpu device can be used, without starting LLVM."""

from __future__ import annotations

import platform

from polygrad import settings
from polygrad.plugin import Probe

from .toolchain import described, missing


def probe() -> Probe:
    """The only thing that can be missing is the compiler."""
    name = settings.get("POLY_CPU_TOOLCHAIN")
    lacks = missing(name)
    if lacks is not None:
        return Probe(ok=False, detail=lacks.detail, hint=lacks.hint)
    return Probe(ok=True, count=1, arch=platform.machine(), detail=described(name))
