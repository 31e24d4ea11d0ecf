"""Keys: unsigned words that order as the elements of a dtype do, and back.

NaN is the greatest value, 0.0 and -0.0 are equal, and descending order is that of the complement.
A key has no more bits than its dtype needs, so fewer digits are looked at: a float narrower than
float32 is exact in it, and the bits of its mantissa that are always 0 are left out.
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from ..uop.ops import UOp

WORD = 32  # bits of the smaller of two words, uint32 and uint64


def word_of(bits: int) -> DType:
    """The unsigned type of keys that have so many bits."""
    return dtypes.uint32 if bits <= WORD else dtypes.uint64


def key_bits(dtype: DType) -> int:
    """How many bits the keys of a dtype have."""
    if dtype.kind == "bool":
        return 1
    return dtype.bits if not dtype.is_narrow else WORD - _dropped(dtype)


def _dropped(dtype: DType) -> int:
    """The bits of a float32 that are 0 for each number of a narrower float."""
    assert dtype.layout is not None and dtypes.float32.layout is not None
    return dtypes.float32.layout.mantissa - dtype.layout.mantissa


def keys(x: UOp, descending: bool = False) -> UOp:
    """The keys of x, in uint32 or uint64."""
    key = _float_key(x) if x.dtype.is_float else _whole_key(x)
    return key ^ _ones(key_bits(x.dtype)) if descending else key


def _ones(bits: int) -> int:
    return (1 << bits) - 1


def _float_key(x: UOp) -> UOp:
    wide = x if x.dtype is dtypes.float64 else x.cast(dtypes.float32)
    word = word_of(wide.dtype.bits)
    sign = 1 << (word.bits - 1)
    bits = wide.eq(0.0).where(wide._with(0.0), wide).bitcast(word)
    ordered = (bits < sign).where(bits | sign, ~bits)
    key = wide.ne(wide).where(bits._with(_ones(word.bits)), ordered)
    return key >> _dropped(x.dtype) if x.dtype.is_narrow else key


def _whole_key(x: UOp) -> UOp:
    word, bits = word_of(x.dtype.bits), x.dtype.bits
    if x.dtype.kind != "int":
        return x.cast(word)
    if bits == word.bits:
        return x.bitcast(word) ^ (1 << (bits - 1))
    return (x.cast(dtypes.int32) + (1 << (bits - 1))).cast(word)


def elements(key: UOp, dtype: DType, descending: bool = False) -> UOp:
    """What has these keys: of zeros 0.0, of the NaN one of them."""
    if descending:
        key = key ^ _ones(key_bits(dtype))
    return _float_of(key, dtype) if dtype.is_float else _whole_of(key, dtype)


def _float_of(key: UOp, dtype: DType) -> UOp:
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    low = _dropped(dtype) if dtype.is_narrow else 0
    key, sign = key << low, 1 << (wide.bits - 1)
    bits = (key < sign).where(~(key | _ones(low)), key ^ sign)
    return bits.bitcast(wide).cast(dtype)


def _whole_of(key: UOp, dtype: DType) -> UOp:
    if dtype.kind != "int":
        return key.cast(dtype)
    if dtype.bits == key.dtype.bits:
        return (key ^ (1 << (dtype.bits - 1))).bitcast(dtype)
    return (key.cast(dtypes.int32) - (1 << (dtype.bits - 1))).cast(dtype)
