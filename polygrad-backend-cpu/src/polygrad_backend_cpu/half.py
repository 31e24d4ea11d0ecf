"""float16 and bfloat16 as the 16 bits they have in memory, converted by integer arithmetic.

A compiler would call a library for these conversions on machines without the instructions, and the
JIT does not find it; so bfloat16 is always integer arithmetic and float16 is wherever F16C (or its
like) is missing or the language has no vectors of it. Everything here is written in operations of
the contract, which the renderer prints in its own language. Rounding is to nearest even; NaN stays
NaN.
"""

from __future__ import annotations

from polygrad.dtype import DType, dtypes
from polygrad.uop.ops import Ops

from .lines import Emit, Value

HALVES = ("float16", "bfloat16")


def is_half(dtype: DType) -> bool:
    return dtype.scalar.name in HALVES


def cast_half(emit: Emit, value: Value, dtype: DType) -> Value:
    """CAST from or to a half: through float32. A float64 is made odd there, and so rounds once."""
    source, single = value.dtype, dtypes.float32.vec(dtype.lanes)
    if is_half(source):
        if dtype is single:
            return _WIDEN[source.scalar.name](emit, value)
        return emit(Ops.CAST, dtype, emit(Ops.CAST, single, value))
    if source is single:
        return _NARROW[dtype.scalar.name](emit, value)
    wide = source.scalar is dtypes.float64
    between = _float64_to_odd_float32(emit, value) if wide else emit(Ops.CAST, single, value)
    return emit(Ops.CAST, dtype, between)


class _Words:
    """Arithmetic on unsigned words of one width, with constants given as numbers."""

    def __init__(self, emit: Emit, word: DType, lanes: int) -> None:
        self.emit, self.dtype, self.mask = emit, word.vec(lanes), dtypes.bool.vec(lanes)

    def of(self, value: Value | int) -> Value:
        if isinstance(value, Value):
            return value
        return self.emit(Ops.CONST, self.dtype, arg=value % (1 << self.dtype.bits))

    def op(self, op: Ops, a: Value | int, b: Value | int) -> Value:
        return self.emit(op, self.dtype, self.of(a), self.of(b))

    def less(self, a: Value | int, b: Value | int) -> Value:
        return self.emit(Ops.CMPLT, self.mask, self.of(a), self.of(b))

    def select(self, mask: Value, a: Value | int, b: Value | int) -> Value:
        return self.emit(Ops.WHERE, self.dtype, mask, self.of(a), self.of(b))

    def cast(self, value: Value) -> Value:
        return self.emit(Ops.CAST, self.dtype, value)

    def bits(self, value: Value) -> Value:
        return self.emit(Ops.BITCAST, self.dtype, value)

    def real(self, value: Value | int) -> Value:
        """The float32 of these bits."""
        return self.emit(Ops.BITCAST, dtypes.float32.vec(self.dtype.lanes), self.of(value))


def _widened(emit: Emit, value: Value) -> tuple[_Words, Value]:
    """(32-bit words, the bits of a half as one of them)."""
    lanes = value.dtype.lanes
    words = _Words(emit, dtypes.uint32, lanes)
    return words, words.cast(_Words(emit, dtypes.uint16, lanes).bits(value))


def _narrowed(emit: Emit, value: Value, dtype: DType) -> Value:
    """The half whose bits are the low 16 of a 32-bit word."""
    return emit(Ops.BITCAST, dtype, _Words(emit, dtypes.uint16, dtype.lanes).cast(value))


def _bfloat16_to_float32(emit: Emit, value: Value) -> Value:
    w, wide = _widened(emit, value)
    return w.real(w.op(Ops.SHL, wide, 16))


def _float32_to_bfloat16(emit: Emit, value: Value) -> Value:
    w = _Words(emit, dtypes.uint32, value.dtype.lanes)
    bits = w.bits(value)
    odd = w.op(Ops.AND, w.op(Ops.SHR, bits, 16), 1)
    rounded = w.op(Ops.ADD, bits, w.op(Ops.ADD, odd, 0x7FFF))
    is_nan = w.less(0x7F800000, w.op(Ops.AND, bits, 0x7FFFFFFF))
    chosen = w.select(is_nan, w.op(Ops.OR, bits, 0x400000), rounded)
    return _narrowed(emit, w.op(Ops.SHR, chosen, 16), dtypes.bfloat16.vec(value.dtype.lanes))


def _float16_to_float32(emit: Emit, value: Value) -> Value:
    """Shift exponent and mantissa into place, then scale by 2**112: exact, subnormals included."""
    w, wide = _widened(emit, value)
    magnitude = w.op(Ops.AND, wide, 0x7FFF)
    shifted, scale = w.real(w.op(Ops.SHL, magnitude, 13)), w.real((112 + 127) << 23)
    scaled = w.bits(emit(Ops.MUL, shifted.dtype, shifted, scale))
    special = w.less(0x7BFF, magnitude)  # infinity or NaN
    finite = w.select(special, w.op(Ops.OR, scaled, 0x7F800000), scaled)
    sign = w.op(Ops.SHL, w.op(Ops.AND, wide, 0x8000), 16)
    return w.real(w.op(Ops.OR, finite, sign))


def _float32_to_float16(emit: Emit, value: Value) -> Value:
    """Normal halves round in the integer; subnormal ones by adding 0.5, whose ulp is a half's."""
    w = _Words(emit, dtypes.uint32, value.dtype.lanes)
    bits = w.bits(value)
    magnitude = w.op(Ops.AND, bits, 0x7FFFFFFF)
    odd = w.op(Ops.AND, w.op(Ops.SHR, magnitude, 13), 1)
    bias = w.op(Ops.ADD, odd, 0xFFF - ((127 - 15) << 23))
    normal = w.op(Ops.SHR, w.op(Ops.ADD, magnitude, bias), 13)
    tiny = emit(Ops.ADD, value.dtype, w.real(magnitude), w.real(0x3F000000))
    subnormal = w.op(Ops.SUB, w.bits(tiny), 0x3F000000)
    finite = w.select(w.less(magnitude, 113 << 23), subnormal, normal)
    overflow = w.less(0x477FEFFF, magnitude)  # from 65520 on: rounds to infinity
    number = w.select(overflow, 0x7C00, finite)
    result = w.select(w.less(0x7F800000, magnitude), 0x7E00, number)
    sign = w.op(Ops.AND, w.op(Ops.SHR, bits, 16), 0x8000)
    return _narrowed(emit, w.op(Ops.OR, result, sign), dtypes.float16.vec(value.dtype.lanes))


def _float64_to_odd_float32(emit: Emit, value: Value) -> Value:
    """float64 to float32, an inexact result made odd: rounding that again to a half rounds once.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008: round to odd.
    """
    lanes = value.dtype.lanes
    w, long = _Words(emit, dtypes.uint32, lanes), _Words(emit, dtypes.uint64, lanes)
    near = emit(Ops.CAST, dtypes.float32.vec(lanes), value)
    back = emit(Ops.CAST, value.dtype, near)
    size, near_size = (long.op(Ops.AND, long.bits(v), (1 << 63) - 1) for v in (value, back))
    bits = w.bits(near)
    below = w.op(Ops.SUB, bits, w.cast(long.less(size, near_size)))
    less, more = (emit(Ops.CMPLT, w.mask, a, b) for a, b in ((back, value), (value, back)))
    inexact = emit(Ops.OR, w.mask, less, more)  # false of NaN
    return w.real(w.select(inexact, w.op(Ops.OR, below, 1), bits))


_WIDEN = {"float16": _float16_to_float32, "bfloat16": _bfloat16_to_float32}
_NARROW = {"float16": _float32_to_float16, "bfloat16": _float32_to_bfloat16}
