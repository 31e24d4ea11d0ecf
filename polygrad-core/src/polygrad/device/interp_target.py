"""What the reference device can do: the least that is left when everything is decomposed.

Halves are storage here as on cpu: arithmetic on them becomes float32's. EXP2, LOG2 and SIN are
missing on purpose, so that every device computes them by the same polynomials.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..dtype import DType, dtypes
from ..target import Target
from ..uop.ops import Ops

_INTS = frozenset({
    dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32,
    dtypes.int64, dtypes.uint64, dtypes.index,
})  # fmt: skip
_FLOATS = frozenset({dtypes.float32, dtypes.float64})
_NUMBERS = _INTS | _FLOATS
_HALVES = frozenset({dtypes.float16, dtypes.bfloat16})
_BITS = _INTS | {dtypes.bool}
_ALL = _NUMBERS | _HALVES | {dtypes.bool}


def _table(*rows: tuple[frozenset[DType], str]) -> Mapping[Ops, frozenset[DType]]:
    return MappingProxyType({Ops[name]: kinds for kinds, names in rows for name in names.split()})


OPS = _table(
    (_NUMBERS, "ADD SUB MUL NEG MIN MAX"),
    (_FLOATS, "DIV SQRT FMA FLOOR CEIL TRUNC ROUND"),
    (_INTS, "IDIV IMOD SHL SHR"),
    (_BITS, "AND OR XOR NOT"),
    (_NUMBERS | {dtypes.bool}, "CMPLT CMPLE CMPEQ CMPNE"),
    (_ALL, "WHERE CAST BITCAST CONST"),
    (_ALL - {dtypes.bool}, "LOAD STORE"),
)

TARGET = Target(
    name="interp",
    arch="python",
    ops=OPS,
    max_grid=(1 << 62, 1 << 62, 1 << 62),
    peer_copy=True,
    grid_only=True,
)
