"""What the machine can do. Scheduler and code generation read every number from here, and none of
your programs contains what is not listed: it is composed of what is.

polygrad/target.py says what each field means. What every machine must have stands in the docs,
"Write a backend"; with less the device is not opened, and you are told what is lacking."""

from __future__ import annotations

from polygrad.dtype import dtypes
from polygrad.target import Target
from polygrad.uop.ops import Ops

INTS = frozenset(
    {
        dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32,
        # Without these two (and float64) polygrad makes 64-bit integers of pairs of words.
        dtypes.int64, dtypes.uint64,
    }
)  # fmt: skip
# float16, bfloat16 and the 8-bit floats are not here, so they are unsigned words in your programs.
FLOATS = frozenset({dtypes.float32, dtypes.float64})
BOOL = frozenset({dtypes.bool})  # in registers; in memory a bool is a byte
NUMBERS = INTS | FLOATS

OPS = {
    # The least that a machine must have, for float32 and all integers up to 32 bits. What lists one
    # of int64, uint64 and float64 under ADD lists them everywhere.
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
    # No vectors: every value is a scalar. vector_bytes=16 gives you float32x4 and int8x16. It asks
    # for Ops.LANES of NUMBERS in OPS (all lanes made one by halves), memory_bytes=(1, 2, 4, 8, 16),
    # and a renderer that prints BROADCAST, VECTOR, EXTRACT, SHUFFLE, and the others lane by lane.
    vector_bytes=0,
    memory_bytes=(),  # sizes in bytes of one LOAD or STORE: powers of two up to vector_bytes
    lane_gates=False,  # may a gate have one bit per lane? If not, such an access comes as scalars
    shuffle_sources=1,  # vectors that one SHUFFLE takes lanes from; with 2 transposes are fast
    align=64,  # bytes; of every buffer, and of every offset in one
    registers=16,  # how large a register tile may be
    cache_bytes=(32 << 10, 1 << 20),  # bytes, nearest first: how large blocks are
    cores=1,  # blocks of a grid that run at once; only your own Device.prepare looks at it
    max_buffers=32,  # of one kernel; at least 4. Larger kernels are split
    # Of a tensor, and of the scratch memory of a step; more is an error before you are asked.
    max_buffer_bytes=1 << 34,
)
