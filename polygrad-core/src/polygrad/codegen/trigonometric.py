"""Expansions of SIN and COS for float32 and float64, right for every argument.

Floor: codegen, called by `decompose.py`. There are no branches in a kernel's lanes, so a cheap
reduction for small arguments would be paid for on top of the one for large arguments: there is one,
in integers, that holds from 1 to the largest float (Payne and Hanek, 1983; see Muller, Elementary
Functions, chapter 9):

1. |x| = M 2^(k - p + 1) with a p-bit integer M. In M 2^(k - p + 1) / (2 pi) the bits of 1 / (2 pi)
   above 2^(p - k - 1) give whole turns, so a window of that binary fraction, chosen by k, is
   multiplied by M and only the fraction of a turn is kept: 64 bits for float32, 128 for float64, of
   which cancellation eats at most 32 and 62.
2. The nearest half turn is taken off, which leaves |r| <= pi / 2 and a sign, and
   sin r = r + r^3 P(r^2). A cosine is a sine a quarter of a turn later.

Below 1, r is x itself, or pi / 2 - |x| for the cosine. The window is picked by a tree of selects
over the five (two for float32) upper bits of k, and by a shift. Cost: about 90 operations for
float32 and 210 for float64.
"""

from __future__ import annotations

from typing import Final

from ..dtype import dtypes
from ..target import Target
from ..uop.ops import Ops, UOp
from ..uop.rewrite import Rules
from .elementary import is_native
from .floats import FORMATS, INFINITY, NAN, Format, high_part, horner, magnitude, two_sum
from .polynomials import INVERSE_TURN

RULES: Final = Rules()
Words = list[UOp]


@RULES.on(Ops.SIN, Ops.COS)
def sine(u: UOp, target: Target) -> UOp | None:
    f = FORMATS.get(u.dtype)
    if f is None or is_native(u.op, u.dtype, target):
        return None
    (x,) = u.src
    cosine = u.op is Ops.COS
    a = magnitude(x, f)
    near = a < 1.0
    r, sign = _nearest_half_turn(*_TURN[u.dtype](a, f), cosine, f)
    sign = near.where(UOp.const(f.unsigned, 0), sign)
    if cosine:
        head, rest = f.coefficients["HALF_PI"]
        r = near.where((UOp.const(f.dtype, head) - a) + rest, r)
    else:
        r = near.where(a, r)
        sign = sign ^ (x.bitcast(f.unsigned) & f.sign)
    z = r * r
    value = r + z * (r * horner(z, f.coefficients["SIN"], f))
    signed = (value.bitcast(f.unsigned) ^ sign).bitcast(f.dtype)
    return (a < INFINITY).where(signed, NAN)


def _nearest_half_turn(high: UOp, low: UOp, cosine: bool, f: Format) -> tuple[UOp, UOp]:
    """(r, sign bit) with sin = (-1)^sign sin r; the fraction of a turn comes in two words."""
    width = f.unsigned.bits
    quarter = 1 << (width - 2)
    high = high + (2 * quarter if cosine else quarter)
    below = high & (2 * quarter - 1)
    # The value is whole + low / 2^width in units of 2^-width turns, with a signed low, so that near
    # 0 all of it is in `low`. Three floats hold all its bits.
    whole = (below + (low >> (width - 1))).bitcast(f.signed) - quarter
    step = 1 << (width - 1 - f.digits)
    upper = (whole + step // 2) & -step
    head, rest = upper.cast(f.dtype), (whole - upper).cast(f.dtype)
    tail = low.bitcast(f.signed).cast(f.dtype) * 2.0**-width
    head, rest = two_sum(head, rest + tail)
    turn, turn_rest = (c * 2.0**-width for c in f.coefficients["TURN"])
    top = high_part(head, f)
    r = top * turn + ((head - top) * turn + (head * turn_rest + rest * (turn + turn_rest)))
    return r, high & f.sign


# ---- the fraction of a turn that |x| >= 1 is


def _window(k: UOp, leading_zeros: int, words: int, levels: int) -> Words:
    """`words` 32-bit words of the bits of 1 / (2 pi) after `leading_zeros` zeros, from bit k on.

    `k` < 32 * 2^levels. One more word is selected than wanted, since the last is made of two.
    """
    total = 0
    for w in INVERSE_TURN:
        total = total << 32 | w
    bits = 32 * len(INVERSE_TURN) + leading_zeros
    selected = [
        UOp.const(k.dtype, total >> (bits - 32 * (i + 1)) & 0xFFFFFFFF)
        for i in range(words + (1 << levels))
    ]
    for level in reversed(range(levels)):
        step = 1 << level
        further = (k & (32 * step)).ne(0)
        count = words + step
        selected = [further.where(selected[i + step], selected[i]) for i in range(count)]
    shift = k & 31
    opposite = shift ^ 31
    made = [(selected[i] << shift) | ((selected[i + 1] >> 1) >> opposite) for i in range(words)]
    return made if k.dtype.bits == 32 else [w & 0xFFFFFFFF for w in made]


def _mantissa_and_exponent(a: UOp, f: Format) -> tuple[UOp, UOp]:
    bits = a.bitcast(f.unsigned)
    mantissa = (bits & ((1 << f.shift) - 1)) | (1 << f.shift)
    return mantissa, (bits >> f.shift) - f.bias


def _turn32(a: UOp, f: Format) -> tuple[UOp, UOp]:
    mantissa, k = _mantissa_and_exponent(a, f)
    first, *others = _window(k, f.shift, 3, 2)
    wide = dtypes.uint64
    m = mantissa.cast(wide)
    middle, last = (m * w.cast(wide) for w in others)
    fraction = ((mantissa * first).cast(wide) << 32) + middle + (last >> 32)
    return (fraction >> 32).cast(f.unsigned), fraction.cast(f.unsigned)


def _turn64(a: UOp, f: Format) -> tuple[UOp, UOp]:
    """Schoolbook product of two words by six, of which the lowest column and all above the point
    go."""
    mantissa, k = _mantissa_and_exponent(a, f)
    window = _window(k, f.shift, 6, 5)
    mask = 0xFFFFFFFF
    zero = UOp.const(f.unsigned, 0)
    columns = [zero] * 7  # column c weighs 2^(32 c) / 2^192; 6 and more are whole turns
    for part, m in enumerate((mantissa & mask, mantissa >> 32)):
        for j, w in enumerate(window):
            c = 5 - j + part
            if 1 <= c <= 5:
                product = m * w
                columns[c] = columns[c] + (product & mask)
                columns[c + 1] = columns[c + 1] + (product >> 32)
    third = columns[3] + (columns[2] >> 32)
    high = (columns[5] << 32) + columns[4] + (third >> 32)
    return high, (third << 32) | (columns[2] & mask)


_TURN: Final = {dtypes.float32: _turn32, dtypes.float64: _turn64}
