"""Arithmetic on 64-bit integers that are two words of 32 bits.

Floor: codegen, called by `words.py`. In and out: scalar UOps of uint32, a pair for each number.
Everything is plain arithmetic without branches. Shifts here are those users write: by 32 and more
they leave nothing, so a count that is too large needs no case of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ..dtype import DType, dtypes
from ..uop.ops import Ops, UOp

U32: Final = dtypes.uint32
I32: Final = dtypes.int32
TWO32: Final = 4294967296.0


class Words(NamedTuple):
    """A number: low + 2^32 high."""

    low: UOp
    high: UOp


def number(value: int) -> Words:
    return Words(*(UOp.const(U32, value >> at) for at in (0, 32)))


def from_word(word: UOp) -> Words:
    """A word as a number."""
    return Words(word, UOp.const(U32, 0))


# ---- + - * & | ^ ~


def add(a: Words, b: Words) -> Words:
    low = a.low + b.low
    return Words(low, a.high + b.high + (low < a.low).cast(U32))


def subtract(a: Words, b: Words) -> Words:
    return Words(a.low - b.low, a.high - b.high - (a.low < b.low).cast(U32))


def negate(a: Words) -> Words:
    return subtract(number(0), a)


def multiply(a: Words, b: Words) -> Words:
    low, high = product(a.low, b.low)
    return Words(low, high + a.low * b.high + a.high * b.low)


def product(a: UOp, b: UOp) -> Words:
    """The 64 bits of a product of two words, by halves of 16 bits."""
    (a0, a1), (b0, b1) = ((x & 0xFFFF, x >> 16) for x in (a, b))
    middle = a1 * b0 + ((a0 * b0) >> 16)  # below 2^32: (2^16 - 1)^2 + 2^16
    other = a0 * b1 + (middle & 0xFFFF)
    return Words(a * b, a1 * b1 + (middle >> 16) + (other >> 16))


def _each(op: Ops) -> Callable[..., Words]:
    """An operation on bits, word by word."""

    def apply(*numbers: Words) -> Words:
        return Words(*(UOp.alu(op, *words) for words in zip(*numbers, strict=True)))

    return apply


BINARY: Final[dict[Ops, Callable[..., Words]]] = {
    Ops.ADD: add,
    Ops.SUB: subtract,
    Ops.MUL: multiply,
    Ops.NEG: negate,
    **{op: _each(op) for op in (Ops.AND, Ops.OR, Ops.XOR, Ops.NOT)},
}


# ---- shifts and order


def shifted(op: Ops, x: Words, count: Words, *, signed: bool) -> Words:
    """Left, or right with zeros or the sign coming in; by 64 and more all bits are gone."""
    n = count.high.eq(0).where(count.low, 64)
    far, rest = n - 32, UOp.const(U32, 32) - n  # one of them wraps, and shifts everything out
    if op is Ops.SHL:
        return Words(x.low << n, (x.high << n) | (x.low >> rest) | (x.low << far))
    near = (x.low >> n) | (x.high << rest)
    if not signed:
        return Words(near | (x.high >> far), x.high >> n)
    high, steps = x.high.bitcast(I32), n.minimum(64).cast(I32)
    beyond = UOp.alu(Ops.SHR, high, (steps - 32).maximum(0)).bitcast(U32)
    return Words((n < 32).where(near, beyond), UOp.alu(Ops.SHR, high, steps).bitcast(U32))


def less(a: Words, b: Words, *, signed: bool) -> UOp:
    """a < b."""
    high = (a.high.bitcast(I32), b.high.bitcast(I32)) if signed else (a.high, b.high)
    return (high[0] < high[1]) | (a.high.eq(b.high) & (a.low < b.low))


# ---- conversions


def extended(x: UOp, dtype: DType) -> Words:
    """A narrower number as a 64-bit one; floats saturate."""
    if x.dtype.is_float:
        return _from_float(x, signed=dtype is dtypes.int64)
    if x.dtype.kind in ("bool", "uint"):
        return from_word(x.cast(U32))
    whole = x.cast(I32)
    return Words(whole.bitcast(U32), UOp.alu(Ops.SHR, whole, UOp.const(I32, 31)).bitcast(U32))


def _from_float(x: UOp, *, signed: bool) -> Words:
    x = x.cast(dtypes.float32) if x.dtype.is_narrow else x
    negative = x < 0.0
    size = UOp.alu(Ops.TRUNC, negative.where(-x, x))
    high = UOp.alu(Ops.TRUNC, size * (1.0 / TWO32))
    words = Words((size - high * TWO32).cast(U32), high.cast(U32))
    most = number((1 << 63) - 1 if signed else (1 << 64) - 1)
    words = select(size < (2.0**63 if signed else 2.0**64), words, most)
    if not signed:
        return select(negative | x.ne(x), number(0), words)
    least = number(1 << 63)
    below = select(size < 2.0**63, negate(words), least)
    return select(x.ne(x), number(0), select(negative, below, words))


def select(condition: UOp, a: Words, b: Words) -> Words:
    """`a` where the condition holds, else `b`."""
    return Words(*(condition.where(x, y) for x, y in zip(a, b, strict=True)))


def casts(x: Words, source: DType, dtype: DType) -> UOp:
    """A 64-bit number as one of a narrower type; a position (index) saturates."""
    signed = source is dtypes.int64
    if dtype.kind == "bool":
        return (x.low | x.high).ne(0)
    if dtype.is_float:
        return _to_float(x, signed, dtype)
    if dtype.kind != "index":
        return x.low.cast(dtype)
    low, high = x.low.bitcast(I32), x.high.bitcast(I32)
    fits = UOp.alu(Ops.SHR, low, UOp.const(I32, 31)).eq(high)
    beyond = UOp.const(I32, I32.max)
    if signed:
        beyond = (high < 0).where(UOp.const(I32, I32.min), beyond)
    return fits.where(low, beyond).cast(dtypes.index)


def _to_float(x: Words, signed: bool, dtype: DType) -> UOp:
    """Rounded once to float32 (no such machine has float64): the 29 or more leading bits go into
    one word, whose last one also says whether anything was left behind."""
    negative = (x.high.bitcast(I32) < 0) if signed else UOp.const(dtypes.bool, False)
    size = select(negative, negate(x), x)
    scale: Any = UOp.const(dtypes.float32, TWO32)
    short = size.high.eq(0)
    size = select(short, Words(UOp.const(U32, 0), size.low), size)
    scale = short.where(UOp.const(dtypes.float32, 1.0), scale)
    for step in (16, 8, 4):
        small = size.high < (1 << (32 - step))
        moved = Words(size.low << step, (size.high << step) | (size.low >> (32 - step)))
        size = select(small, moved, size)
        scale = small.where(scale * 2.0**-step, scale)
    leading = size.high | size.low.ne(0).cast(U32)
    value = leading.cast(dtypes.float32) * scale
    return negative.where(-value, value).cast(dtype)


# ---- division


def divided(a: Words, b: Words, *, signed: bool) -> tuple[Words, Words]:
    """The quotient rounded down and the remainder that belongs to it; 0 and 0 for a divisor 0."""
    top = UOp.const(U32, 31)
    zero = UOp.const(dtypes.bool, False)
    minus_a, minus_b = ((x.high >> top).ne(0) if signed else zero for x in (a, b))
    size_a, size_b = select(minus_a, negate(a), a), select(minus_b, negate(b), b)
    quotient, rest = _of_sizes(size_a, size_b)
    differ = minus_a ^ minus_b
    down = differ & (rest.low | rest.high).ne(0)
    quotient = select(down, add(quotient, number(1)), quotient)
    rest = select(down, subtract(size_b, rest), rest)
    quotient = select(differ, negate(quotient), quotient)
    rest = select(minus_b, negate(rest), rest)
    nothing = (b.low | b.high).eq(0)
    return select(nothing, number(0), quotient), select(nothing, number(0), rest)


def _of_sizes(a: Words, b: Words) -> tuple[Words, Words]:
    """Of unsigned numbers, by float32: each step takes off a quotient that is never too large, as
    it is made smaller by more than three roundings err, and leaves less than 2^-20 of it and one
    divisor. Four steps leave a quotient of 1 at most."""
    quotient, rest = number(0), a
    divisor = _to_float(b, False, dtypes.float32)
    for _ in range(4):
        guess = _to_float(rest, False, dtypes.float32) / divisor * (1.0 - 2.0**-21)
        part = _from_float(guess, signed=False)
        quotient, rest = add(quotient, part), subtract(rest, multiply(part, b))
    more = ~less(rest, b, signed=False)
    return select(more, add(quotient, number(1)), quotient), select(more, subtract(rest, b), rest)
