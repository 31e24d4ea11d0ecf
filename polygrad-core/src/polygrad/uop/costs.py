"""What an elementwise operation costs, to choose between storing a value and repeating it."""

from __future__ import annotations

from typing import Final

from .ops import Ops

# Plain vector instructions of one operation after decomposition, as counted; 1 where not listed.
COSTS: Final = {
    Ops.CAST: 0, Ops.BITCAST: 0, Ops.EXP: 26, Ops.EXP2: 22, Ops.LOG: 40, Ops.LOG2: 38, Ops.SIN: 90,
    Ops.COS: 90, Ops.TANH: 40, Ops.SIGMOID: 26, Ops.ERF: 48, Ops.POW: 190, Ops.FMOD: 83, Ops.DIV: 4,
    Ops.SQRT: 6, Ops.RECIP: 4, Ops.FLOORDIV: 8, Ops.FLOORMOD: 8, Ops.THREEFRY: 90,
}  # fmt: skip
