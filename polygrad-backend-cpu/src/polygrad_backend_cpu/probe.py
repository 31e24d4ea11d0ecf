"""Says whether the cpu device can be used, without starting LLVM."""

from __future__ import annotations

import importlib.util
import platform

from polygrad.plugin import Probe


def probe() -> Probe:
    """The only thing that can be missing is the compiler."""
    if importlib.util.find_spec("llvmlite") is None:
        return Probe(ok=False, detail="llvmlite is not installed", hint="pip install llvmlite")
    return Probe(ok=True, count=1, arch=platform.machine())
