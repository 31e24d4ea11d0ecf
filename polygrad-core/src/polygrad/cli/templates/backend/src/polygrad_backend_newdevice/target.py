"""What the machine can do. Scheduler and code generation read every number from here, and none of
your programs contains what is not listed: it is composed of what is."""

from __future__ import annotations

from polygrad.dtype import dtypes
from polygrad.target import Target
from polygrad.uop.ops import Ops

INTS = frozenset(
    {
        dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32,
        # Without these two, polygrad makes 64-bit integers of pairs of words.
        dtypes.int64, dtypes.uint64,
    }
)  # fmt: skip
# float16, bfloat16 and the 8-bit floats are not here, so they are unsigned words in your programs.
FLOATS = frozenset({dtypes.float32, dtypes.float64})
BOOL = frozenset({dtypes.bool})  # in registers; in memory a bool is a byte
NUMBERS = INTS | FLOATS

OPS = {
    # The least that a machine must have, for float32 and int32:
    **dict.fromkeys((Ops.LOAD, Ops.STORE, Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG), NUMBERS),
    **dict.fromkeys((Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE), NUMBERS | BOOL),
    **dict.fromkeys((Ops.CAST, Ops.CONST), NUMBERS | BOOL),
    **dict.fromkeys((Ops.AND, Ops.OR, Ops.XOR, Ops.NOT), INTS | BOOL),
    **dict.fromkeys((Ops.MIN, Ops.MAX, Ops.BITCAST), NUMBERS),
    **dict.fromkeys((Ops.SHL, Ops.SHR, Ops.IDIV, Ops.IMOD), INTS),
    **dict.fromkeys((Ops.DIV, Ops.SQRT), FLOATS),
    # What a machine may have, and this one lacks: FMA, FLOOR, CEIL, TRUNC, ROUND, EXP2, LOG2, SIN,
    # RECIP, RSQRT. Functions with an error of their own state it in Target.ulp.
}

TARGET = Target(
    name="newdevice",
    arch="python",
    ops=OPS,
    vector_bytes=0,  # no vectors: every value is a scalar. 16 would give you float32x4
    memory_bytes=(),  # the widths in bytes of one LOAD or STORE; with vectors, up to vector_bytes
    lane_gates=False,  # may one bit per lane switch an access off?
    align=64,  # of every buffer, and of every offset in one
    registers=16,
    cache_bytes=(32 << 10, 1 << 20),
    cores=1,
    max_grid=(1 << 31, 1 << 31, 1 << 31),
    max_buffers=32,  # of one kernel; at least 4
)
