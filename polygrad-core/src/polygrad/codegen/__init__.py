"""From a kernel in expression form to a LinearProgram: optimize and lower, the third floor."""

from __future__ import annotations

from ..contract import LinearProgram
from ..target import Target
from ..uop.ops import UOp
from .kernel import Kernel, canonical
from .lower import lower
from .recipes import choose

__all__ = ["compile_kernel", "optimize"]


def optimize(sink: UOp, target: Target) -> Kernel:
    """The transformed kernel of a SINK for this target."""
    return choose(canonical(sink), target)


def compile_kernel(sink: UOp, target: Target, name: str) -> LinearProgram:
    """The program of a SINK. Buffer identity plays no part: equal kernels give equal programs."""
    kernel = optimize(sink, target)
    return lower(kernel, target, name, _note(kernel))


def _note(kernel: Kernel) -> str:
    verbs = "; ".join(" ".join(map(str, entry)) for entry in kernel.log)
    shape = "x".join(f"{r.src[1].arg}" for r in kernel.order if not r.src[1].src)
    return f"{kernel.recipe or 'elementwise'} over {shape or '1'}: {verbs}"
