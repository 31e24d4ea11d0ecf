"""The operations: one enum for every floor, and the sets that rules are written for.

Floor: uop. `spec.py` says which of them are legal where, `contract.py` which a backend sees.
"""

from __future__ import annotations

import enum
from typing import Final


class Ops(enum.IntEnum):
    """Every operation of every floor. Sources and argument are listed beside each name."""

    # ---- leaves
    BUFFER = enum.auto()  # arg (uid, shape, device): storage; its bytes are in the engine's table
    CONST = enum.auto()  # [UNIQUE]; arg value: a scalar; with a source it is a leaf of its own
    UNIQUE = enum.auto()  # arg uid: keeps two equal leaves apart
    VARIABLE = enum.auto()  # arg (name, lo, hi [, value]): a scalar given at each run
    IOTA = enum.auto()  # arg n: 0, 1, …, n-1, shape (n,)
    # ---- movement (tensor floor)
    RESHAPE = enum.auto()  # x; arg new shape
    PERMUTE = enum.auto()  # x; arg axes
    EXPAND = enum.auto()  # x; arg new shape, same rank, only axes of size 1 grow
    SHRINK = enum.auto()  # x; arg ((start, stop, step), …) with 0 <= start <= stop <= n, step >= 1
    PAD = enum.auto()  # x; arg ((before, after, interior), …) zeros around and between elements
    FLIP = enum.auto()  # x; arg axes
    WINDOW = enum.auto()  # x; arg (axis, size, stride, dilation): windows in a new last axis
    # ---- other tensor nodes
    GATHER = enum.auto()  # x, index; arg axis: numpy.take; out-of-range reads give 0
    SCATTER = enum.auto()  # base, index, updates; arg (axis, mode): mode set add max min mul
    SCAN = enum.auto()  # x; arg (op, axis): running; kernel floor (value, *ranges; arg op)
    CONTIGUOUS = enum.auto()  # x: stored in row-major order
    DETACH = enum.auto()  # x: no gradient passes
    COPY = enum.auto()  # x; arg device name
    KERNEL = enum.auto()  # inputs …; arg KernelCall: one output of a kernel as it was written
    # values …, inputs …; arg Function (gradient_rules.py): value number `which`, whose gradient in
    # the inputs is a rule of its own or of its name over all of them
    FUNCTION = enum.auto()
    # ---- elementwise: both floors, one source
    NEG = enum.auto()
    NOT = enum.auto()  # bitwise; logical on bool
    SQRT = enum.auto()
    RECIP = enum.auto()
    EXP = enum.auto()  # arg "decay": x is at most 0, but for what rounding may have added
    EXP2 = enum.auto()
    LOG = enum.auto()
    LOG2 = enum.auto()
    SIN = enum.auto()
    COS = enum.auto()
    TANH = enum.auto()
    SIGMOID = enum.auto()  # 1 / (1 + exp(-x))
    ERF = enum.auto()
    FLOOR = enum.auto()
    CEIL = enum.auto()
    TRUNC = enum.auto()
    ROUND = enum.auto()  # half to even
    CAST = enum.auto()
    BITCAST = enum.auto()
    # ---- elementwise, two sources
    ADD = enum.auto()
    SUB = enum.auto()
    MUL = enum.auto()
    DIV = enum.auto()  # floats
    FLOORDIV = enum.auto()  # integers, Python's rounding; x // 0 is 0
    FLOORMOD = enum.auto()  # integers, sign of the divisor; x % 0 is 0
    MAXIMUM = enum.auto()  # NaN of either source wins
    MINIMUM = enum.auto()
    POW = enum.auto()  # floats
    FMOD = enum.auto()  # floats: the exact remainder, sign of the dividend
    AND = enum.auto()
    OR = enum.auto()
    XOR = enum.auto()
    SHL = enum.auto()  # by >= width: 0
    SHR = enum.auto()  # arithmetic on signed; by >= width: 0 or -1
    CMPLT = enum.auto()
    CMPLE = enum.auto()
    CMPEQ = enum.auto()
    CMPNE = enum.auto()
    # ---- elementwise, three sources
    WHERE = enum.auto()  # condition, then, else
    THREEFRY = enum.auto()  # element number (uint64), key0 (uint32), key1 (uint32) -> uint32
    # ---- reductions: tensor floor: x; arg (op, axes), axes removed. Kernel: value, *ranges; arg op
    REDUCE = enum.auto()  # op is ADD MUL MAXIMUM MINIMUM
    # ---- effects
    STORE = enum.auto()  # buffer's view, value; kernel: INDEX, value [, gate]; arg combine or None
    AFTER = enum.auto()  # buffer, *effects: the buffer as those left it
    SINK = enum.auto()  # *effects; arg KernelInfo
    # ---- kernel floor
    PARAM = enum.auto()  # arg (slot, size): base of a buffer
    RANGE = enum.auto()  # lo, hi; arg (id, kind): a loop counter
    INDEX = enum.auto()  # PARAM or LOCAL, offset: an address
    LOAD = enum.auto()  # INDEX [, gate]: 0 where the gate is false; arg: elements to fetch ahead
    END = enum.auto()  # closes a RANGE
    # ---- LinearProgram only
    LOCAL = enum.auto()  # arg (count, space)
    GRID = enum.auto()  # arg axis
    BLOCK = enum.auto()
    LANE = enum.auto()
    IF = enum.auto()
    ENDIF = enum.auto()
    MAX = enum.auto()  # a > b ? a : b exactly
    MIN = enum.auto()  # a < b ? a : b exactly
    IDIV = enum.auto()  # truncating, divisor not zero
    IMOD = enum.auto()
    FMA = enum.auto()
    RSQRT = enum.auto()
    BROADCAST = enum.auto()  # scalar to all lanes of dtype
    VECTOR = enum.auto()  # scalars to one vector
    EXTRACT = enum.auto()  # vector; arg lane
    SHUFFLE = enum.auto()  # vector; arg lanes
    LANES = enum.auto()  # vector; arg op: horizontal reduction by halving
    ATOMIC = enum.auto()
    SHARE = enum.auto()
    BARRIER = enum.auto()
    SIGNAL = enum.auto()
    WAIT = enum.auto()
    MATMUL = enum.auto()
    CUSTOM = enum.auto()

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


UNARY: Final = frozenset(Ops(i) for i in range(Ops.NEG, Ops.BITCAST + 1))
BINARY: Final = frozenset(Ops(i) for i in range(Ops.ADD, Ops.CMPNE + 1))
TERNARY: Final = frozenset({Ops.WHERE, Ops.THREEFRY})
ELEMENTWISE: Final = UNARY | BINARY | TERNARY
COMPARISONS: Final = frozenset({Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE})
MOVEMENT: Final = frozenset(Ops(i) for i in range(Ops.RESHAPE, Ops.WINDOW + 1))
REDUCERS: Final = frozenset({Ops.ADD, Ops.MUL, Ops.MAXIMUM, Ops.MINIMUM})
