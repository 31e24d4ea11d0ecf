"""What the machine can do. What is not listed here never reaches its renderer."""

from __future__ import annotations

from polygrad.dtype import dtypes
from polygrad.target import Target
from polygrad.uop.ops import Ops

INTS = frozenset(
    {dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32}
)
FLOATS = frozenset({dtypes.float32})
BOOL = frozenset({dtypes.bool})
NUMBERS = INTS | FLOATS

_ROWS = (
    (NUMBERS, "LOAD STORE ADD SUB MUL NEG MIN MAX"),
    (FLOATS, "DIV SQRT"),
    (INTS, "IDIV IMOD SHL SHR"),
    (INTS | BOOL, "AND OR XOR NOT"),
    (NUMBERS | BOOL, "CMPLT CMPLE CMPEQ CMPNE WHERE CAST"),
    (NUMBERS, "BITCAST"),
    (NUMBERS | BOOL, "CONST BROADCAST VECTOR EXTRACT SHUFFLE LANES"),
)

TARGET = Target(
    name="sample",
    arch="sample1",
    ops={Ops[name]: kinds for kinds, names in _ROWS for name in names.split()},
    vector_bytes=16,
    memory_bytes=(1, 2, 4, 8, 16),
    lane_gates=False,
    align=16,
    registers=8,
    cache_bytes=(4 << 10,),
    cores=1,
    max_grid=(1 << 31, 1 << 31, 1 << 31),
    max_buffers=4,
    max_buffer_bytes=32 << 20,
    host_visible=False,
)
