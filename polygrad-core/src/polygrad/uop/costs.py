"""What an elementwise operation costs, to choose between storing a value and repeating it."""

from __future__ import annotations

from typing import Final

from .ops import Ops

# Weighted cost of one elementwise op, in plain vector instructions after decomposition.
COSTS: Final = {
    Ops.CAST: 0, Ops.BITCAST: 0, Ops.EXP: 14, Ops.EXP2: 12, Ops.LOG: 18, Ops.LOG2: 18, Ops.SIN: 40,
    Ops.COS: 40, Ops.TANH: 24, Ops.ERF: 24, Ops.POW: 40, Ops.DIV: 4, Ops.SQRT: 6, Ops.RECIP: 4,
    Ops.FLOORDIV: 8, Ops.FLOORMOD: 8, Ops.THREEFRY: 90,
}  # fmt: skip
