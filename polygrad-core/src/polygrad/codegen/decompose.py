"""Decompose: from the elementwise ops that users write to the closed set of the contract.

Floor: codegen. In: kernel-floor expressions of scalar dtype (a value, a STORE, a whole SINK). Out:
the same with every operation in the table of `contract.py` that the Target has. Every expansion is
plain lane-wise arithmetic without branches, so the linearizer may widen it to lanes. Exponentials
use fused multiply-adds where the Target has them, in half of the steps and with the same bounds on
the error; all else rounds after every operation, so that each device gives the same bits.

One table, op -> rules, in these files:

==================  ===============================================================================
`narrow`            arithmetic of narrow floats in float32
`stored`            dtypes that memory lacks: narrow floats as unsigned words
`integers`          bools, floor division and modulo, shifts, threefry
`rounding`          float extremes, reciprocals, FLOOR CEIL TRUNC ROUND
`elementary`        EXP EXP2 LOG LOG2 TANH SIGMOID ERF
`trigonometric`     SIN COS
`power`             POW
`remainders`        FMOD
==================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..dtype import DType
from ..target import Target
from ..uop.ops import COMPARISONS, ELEMENTWISE, Ops, UOp
from ..uop.rewrite import rewrite
from . import elementary, integers, narrow, power, remainders, rounding, stored, trigonometric

RULES: Final = (
    narrow.RULES
    + stored.RULES
    + integers.RULES
    + rounding.RULES
    + elementary.RULES
    + trigonometric.RULES
    + power.RULES
    + remainders.RULES
)
_EXTRA: Final = frozenset({Ops.MAX, Ops.MIN, Ops.IDIV, Ops.IMOD, Ops.FMA, Ops.RSQRT})


def decompose(u: UOp, target: Target) -> UOp:
    """`u` in operations that `target` has."""
    return rewrite(u, RULES, target)


def missing(u: UOp, target: Target) -> Iterator[tuple[Ops, DType]]:
    """Operations in `u`, with the dtype they work on, that `target` lacks; none after
    `decompose`."""
    for node in u.toposort():
        if node.op not in ELEMENTWISE and node.op not in _EXTRA:
            continue
        dtype = node.src[0].dtype if node.op in COMPARISONS else node.dtype
        known = dtype if dtype.kind != "index" else _index(target)
        if not target.supports(node.op, known):
            yield node.op, dtype


def _index(target: Target) -> DType:
    """The integer type that offsets become."""
    from .lower import index_dtype

    return index_dtype(target)
