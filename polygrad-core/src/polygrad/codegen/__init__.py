"""From a kernel in expression form to a LinearProgram: optimize and lower, the third floor."""

from __future__ import annotations

from .. import settings
from ..contract import LinearProgram
from ..dtype import dtypes
from ..errors import UnsupportedOp
from ..target import Target
from ..uop.ops import Ops, UOp
from ..uop.spec_program import lacking
from . import chain, ordered
from .accumulators import with_accumulators
from .chain_stages import is_chain
from .kernel import Kernel, canonical, nodes_of
from .lists import Choice, replay
from .lower import lower
from .ordered import is_ordered
from .recipes import choose
from .words import in_words, lacks, needs_both

__all__ = ["compile_kernel", "lowered", "optimize", "prepared"]


def optimize(sink: UOp, target: Target) -> Kernel:
    """The transformed kernel of a SINK for this target."""
    return choose(canonical(sink), target)


def compile_kernel(
    sink: UOp, target: Target, name: str, choice: Choice | None = None
) -> LinearProgram:
    """The program of a SINK. Buffer identity plays no part: equal kernels give equal programs.

    `choice`: a transform list in place of the recipe's. Raises ScheduleError if it is not legal.
    """
    whole = prepared(sink, target)
    if choice is not None:
        program = lowered(replay(canonical(whole), choice), target, name)
    elif is_ordered(whole):
        program = ordered.program(whole, target, name)
    elif is_chain(whole):
        program = chain.program(whole, target, name)
    else:
        program = lowered(optimize(whole, target), target, name)
    nodes_of.cache_clear()  # a kernel's nodes do not outlive it
    _refuse_what_is_missing(program, target)
    if settings.get("POLY_SPEC"):
        from ..uop.spec import verify_kernel, verify_program

        verify_kernel(sink)
        verify_program(program, target)
    return program


def lowered(kernel: Kernel, target: Target, name: str) -> LinearProgram:
    """The program of a transformed kernel."""
    return lower(kernel, target, name, _note(kernel))


def prepared(sink: UOp, target: Target) -> UOp:
    """A SINK in types that the target has: 64-bit integers as words where it lacks them, in an
    ordered kernel where words alone do not do. Raises UnsupportedOp for what cannot be."""
    if not target.supports(Ops.ADD, dtypes.float64):
        _refuse_float64(sink, target)
    if lacks(target) and any(map(needs_both, sink.toposort())):
        sink = with_accumulators(sink)
    return UOp(Ops.SINK, sink.dtype, tuple(in_words(sink.src, target)), sink.arg)


def _refuse_float64(sink: UOp, target: Target) -> None:
    """Raise UnsupportedOp for the one type that nothing is composed to stand for."""
    if any(n.dtype is dtypes.float64 for n in sink.toposort()):
        raise UnsupportedOp(
            f"device {target.name!r} has no float64, and nothing is composed to stand for it."
            " Cast to float32, or compute on another device."
        )


def _refuse_what_is_missing(program: LinearProgram, target: Target) -> None:
    """Raise UnsupportedOp for what no decomposition gives a machine."""
    if len(program.params) > target.max_buffers:
        raise UnsupportedOp(
            f"device {target.name!r} takes {target.max_buffers} buffers a kernel, and"
            f" {program.name} has {len(program.params)}."
        )
    found = lacking(program, target)
    if found is not None:
        op, dtype = found
        what = "hold" if op is Ops.PARAM else f"compute {op.name} of"
        raise UnsupportedOp(
            f"device {target.name!r} cannot {what} {dtype.name}, and nothing is composed to stand"
            " for it. Cast to another type, or compute on another device."
        )


def _note(kernel: Kernel) -> str:
    verbs = "; ".join(" ".join(map(str, entry)) for entry in kernel.log)
    shape = "x".join(_shown(r.src[1]) for r in kernel.order if not r.src[1].src)
    return f"{kernel.recipe or 'elementwise'} over {shape or '1'}: {verbs}"


def _shown(bound: UOp) -> str:
    return str(bound.arg if bound.op is Ops.CONST else bound.arg[0])
