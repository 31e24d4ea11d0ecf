"""Expansions of integer and bool operations: floor division, shifts, arithmetic of bools, threefry.

Floor: codegen, called by `decompose.py`. IDIV and IMOD of the contract truncate and must never see
a zero divisor; FLOORDIV and FLOORMOD round down, are 0 for a zero divisor, and wrap for the
smallest integer over -1 (which traps on some machines, so -1 never reaches IDIV unless it is known
to be harmless). Index arithmetic comes through here too: its intervals usually leave one
instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..dtype import DType, dtypes
from ..target import Target
from ..uop.ops import Ops, UOp
from ..uop.rewrite import Rules

RULES: Final = Rules()


def _constant(u: UOp) -> int | None:
    return int(u.arg) if u.op is Ops.CONST else None


def _at_least(u: UOp, bound: int) -> bool:
    return u.lo is not None and u.lo >= bound


# ---- bool: arithmetic modulo "any number but 0 is true"


def _never(a: UOp, b: UOp) -> UOp:
    return UOp.const(dtypes.bool, False)


_BOOL: Final[dict[Ops, Callable[[UOp, UOp], UOp]]] = {
    Ops.ADD: lambda a, b: a | b,
    Ops.SUB: lambda a, b: a ^ b,
    Ops.MUL: lambda a, b: a & b,
    Ops.MAXIMUM: lambda a, b: a | b,
    Ops.MINIMUM: lambda a, b: a & b,
    Ops.FLOORDIV: lambda a, b: a & b,  # x // 0 is 0
    Ops.FLOORMOD: _never,
    Ops.POW: lambda a, b: a | ~b,
    Ops.SHL: lambda a, b: a & ~b,
    Ops.SHR: lambda a, b: a & ~b,
    Ops.CMPLT: lambda a, b: ~a & b,
    Ops.CMPLE: lambda a, b: ~a | b,
    Ops.CMPEQ: lambda a, b: ~(a ^ b),
    Ops.CMPNE: lambda a, b: a ^ b,
}


@RULES.on(*_BOOL)
def bool_arithmetic(u: UOp) -> UOp | None:
    return _BOOL[u.op](*u.src) if u.src[0].dtype.kind == "bool" else None


@RULES.on(Ops.NEG, Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND)
def whole_already(u: UOp) -> UOp | None:
    """Rounding an integer, and the negative of a bool, change nothing."""
    same = u.dtype.kind == "bool" or (u.dtype.is_int and u.op is not Ops.NEG)
    return u.src[0] if same else None


@RULES.on(Ops.CAST)
def cast_to_bool(u: UOp) -> UOp | None:
    (x,) = u.src
    if u.dtype.kind != "bool" or x.dtype.kind == "bool":
        return None
    return x.ne(0)


@RULES.on(Ops.MAXIMUM, Ops.MINIMUM)
def integer_extreme(u: UOp) -> UOp | None:
    if not u.dtype.is_int:
        return None
    return UOp(Ops.MAX if u.op is Ops.MAXIMUM else Ops.MIN, u.dtype, u.src)


# ---- division and modulo


@RULES.on(Ops.FLOORDIV, Ops.FLOORMOD)
def floor_division(u: UOp, target: Target) -> UOp | None:
    if not u.dtype.is_int:
        return None
    a, b = u.src
    by_shift = _by_power_of_two(u.op, a, b)
    if by_shift is not None:
        return by_shift
    if u.dtype.is_unsigned or (_at_least(a, 0) and _at_least(b, 0)):
        return _unsigned(u.op, a, b)
    if _at_least(b, 1):
        return _by_positive(u.op, a, b, _bits(a.dtype, target))
    return _signed(u.op, a, b)


def _by_power_of_two(op: Ops, a: UOp, b: UOp) -> UOp | None:
    """Arithmetic shifts and masks round down for every sign of `a`."""
    c = _constant(b)
    if c is None or c <= 0 or c & (c - 1):
        return None
    if op is Ops.FLOORMOD:
        return UOp(Ops.AND, a.dtype, (a, UOp.const(a.dtype, c - 1)))
    return UOp(Ops.SHR, a.dtype, (a, UOp.const(a.dtype, c.bit_length() - 1)))


def _truncating(op: Ops, a: UOp, b: UOp) -> UOp:
    return UOp(Ops.IDIV if op is Ops.FLOORDIV else Ops.IMOD, a.dtype, (a, b))


def _unsigned(op: Ops, a: UOp, b: UOp) -> UOp:
    if _at_least(b, 1):
        return _truncating(op, a, b)
    zero = b.eq(0)
    safe = zero.where(UOp.const(a.dtype, 1), b)
    made = _truncating(op, a, safe)
    return made if op is Ops.FLOORMOD else zero.where(UOp.const(a.dtype, 0), made)  # x % 1 is 0


def _bits(dtype: DType, target: Target) -> int:
    """The width of an integer type; of an offset, what the target computes those in."""
    narrow = dtype.kind == "index" and not target.supports(Ops.ADD, dtypes.int64)
    return 32 if narrow else dtype.bits


def _by_positive(op: Ops, a: UOp, b: UOp, bits: int) -> UOp:
    """The remainder is negative where truncation rounded up; its sign bits are then all ones."""
    last = UOp.const(a.dtype, bits - 1)
    if op is Ops.FLOORMOD:
        remainder = _truncating(op, a, b)
        return remainder + (UOp(Ops.SHR, a.dtype, (remainder, last)) & b)
    quotient = _truncating(op, a, b)
    return quotient + UOp(Ops.SHR, a.dtype, (a - quotient * b, last))


def _signed(op: Ops, a: UOp, b: UOp) -> UOp:
    zero, one = UOp.const(a.dtype, 0), UOp.const(a.dtype, 1)
    c = _constant(b)
    if c == -1:
        return -a if op is Ops.FLOORDIV else zero
    is_zero, is_minus = b.eq(0), b.eq(-1)
    safe = (is_zero | is_minus).where(one, b)
    if op is Ops.FLOORMOD:
        remainder = _truncating(op, a, safe)  # 0 for both
        differs = remainder.ne(0) & ((remainder ^ b) < zero)
        return remainder + differs.where(b, zero)
    quotient = _truncating(op, a, safe)
    remainder = a - quotient * safe
    rounds_up = remainder.ne(0) & ((remainder ^ b) < zero)
    floor = quotient - rounds_up.where(one, zero)
    return is_zero.where(zero, is_minus.where(-a, floor))


# ---- shifts


@RULES.on(Ops.SHL, Ops.SHR)
def shift(u: UOp, target: Target) -> UOp | None:
    """A count outside [0, width) leaves nothing, or the sign: the bits of a count as unsigned say
    so."""
    value, count = u.src
    width = _bits(u.dtype, target)
    if count.lo is not None and count.lo >= 0 and count.hi is not None and count.hi < width:
        return None
    unsigned = dtypes.uint32 if _bits(count.dtype, target) == 32 else _UNSIGNED[count.dtype]
    bits = count.bitcast(unsigned)
    if u.op is Ops.SHR and not u.dtype.is_unsigned:
        last = UOp(Ops.MIN, unsigned, (bits, UOp.const(unsigned, width - 1)))
        return UOp(Ops.SHR, u.dtype, (value, last.cast(count.dtype)))
    within = bits < width
    masked = UOp(u.op, u.dtype, (value, count & (width - 1)))
    return within.where(masked, 0)


_UNSIGNED: Final = {
    dtypes.int8: dtypes.uint8,
    dtypes.int16: dtypes.uint16,
    dtypes.int32: dtypes.uint32,
    dtypes.int64: dtypes.uint64,
    dtypes.index: dtypes.uint64,
    **{d: d for d in (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)},
}


# ---- random numbers

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = 0x1BD11BDA


def threefry_words(low: UOp, high: UOp, key0: UOp, key1: UOp) -> tuple[UOp, UOp]:
    """Both words of threefry2x32-20 at the 64-bit counter (low, high) (Salmon et al., 2011)."""
    keys = (key0, key1, key0 ^ key1 ^ _PARITY)
    x0, x1 = low + key0, high + key1
    for group in range(5):
        for turn in _ROTATIONS[group & 1]:
            x0 = x0 + x1
            x1 = ((x1 << turn) | (x1 >> (32 - turn))) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + (group + 1)
    return x0, x1


@RULES.on(Ops.THREEFRY)
def threefry(u: UOp) -> UOp:
    """Word `element & 1` of the block at counter `element >> 1`."""
    element, key0, key1 = u.src
    counter = element >> 1
    low, high = (w.cast(dtypes.uint32) for w in (counter, counter >> 32))
    x0, x1 = threefry_words(low, high, key0, key1)
    return (element.cast(dtypes.uint32) & 1).ne(0).where(x1, x0)
