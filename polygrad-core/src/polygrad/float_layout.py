"""How floating-point numbers lie in bits: one table, and rounding to it in exact arithmetic.

The lowest floor, below `dtype.py`. A layout says how many bits exponent and mantissa have, and what
is left to say: which bits are the largest number, what a number that is too large becomes, and
which bits are NaN. `encode` and `decode` are the definition of every cast to and from a float type;
machines and code generation must give the same bits.

===============  ========  ====  ===============  ==============================================
type             exponent  bias  too large        NaN
===============  ========  ====  ===============  ==============================================
IEEE (f16-f64)   5, 8, 11  2^e   inf              above inf; also float8_e5m2 and bfloat16
float8_e4m3fn    4         7     largest, as in   the one pattern above the largest, no inf
                                 torch
…fnuz            4, 5      8,16  NaN              the bits of -0, of which there is none, no inf
===============  ========  ====  ===============  ==============================================

Sources: IEEE 754-2019; Micikevicius et al., "FP8 formats for deep learning", 2022 (e4m3fn, e5m2);
Noune et al., "8-bit numerical formats for deep neural networks", 2022 (fnuz).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple


class FloatLayout(NamedTuple):
    """Magnitudes (bits below the sign) of what is special; `nan` of a fnuz type is its sign bit."""

    exponent: int  # bits
    mantissa: int  # stored bits
    bias: int
    largest: int
    overflow: int  # what a number above the largest becomes
    nan: int

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def has_infinity(self) -> bool:
        return self.largest < self.overflow < self.sign

    @property
    def has_negative_zero(self) -> bool:
        return self.nan != self.sign

    @property
    def maximum(self) -> float:
        """The largest finite number."""
        return self.decode(self.largest)

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return math.ldexp(1.0, 1 - self.bias)

    def encode(self, value: float) -> int:
        """The bits of the nearest number, ties to even; a NaN keeps its sign."""
        sign = self.sign if math.copysign(1.0, value) < 0 else 0
        if value != value:
            return self.nan | sign
        magnitude = self._magnitude(abs(value))
        return magnitude | sign if magnitude or self.has_negative_zero else 0

    def _magnitude(self, size: float) -> int:
        if not size or math.isinf(size):
            return self.overflow if size else 0
        field = max(math.frexp(size)[1] - 1 + self.bias, 1)  # of the exponent; 1 if subnormal
        steps = round(math.ldexp(size, self.mantissa + self.bias - field))
        magnitude = ((field - 1) << self.mantissa) + steps  # a carry goes to the exponent
        return magnitude if magnitude <= self.largest else self.overflow

    def decode(self, bits: int) -> float:
        """The number that bits are."""
        sign = -1.0 if bits & self.sign else 1.0
        magnitude = bits & (self.sign - 1)
        if bits == self.nan:
            return math.nan
        if magnitude > self.largest:
            infinite = self.has_infinity and magnitude == self.overflow
            return math.copysign(math.inf if infinite else math.nan, sign)
        field = magnitude >> self.mantissa
        steps = magnitude - (max(field - 1, 0) << self.mantissa)
        return sign * math.ldexp(steps, max(field, 1) - self.bias - self.mantissa)

    def round(self, value: float) -> float:
        """The nearest number of this layout; a NaN stays as it is."""
        return value if value != value else self.decode(self.encode(value))


def _ieee(exponent: int, mantissa: int) -> FloatLayout:
    """Infinity is the exponent of ones without a mantissa; NaN has the mantissa's first bit."""
    infinity = ((1 << exponent) - 1) << mantissa
    nan = infinity | 1 << (mantissa - 1)
    return FloatLayout(exponent, mantissa, (1 << (exponent - 1)) - 1, infinity - 1, infinity, nan)


LAYOUTS: Final[dict[str, FloatLayout]] = {
    "float8_e4m3fn": FloatLayout(4, 3, 7, 0x7E, 0x7E, 0x7F),
    "float8_e5m2": _ieee(5, 2)._replace(nan=0x7F),  # torch's NaN
    "float8_e4m3fnuz": FloatLayout(4, 3, 8, 0x7F, 0x80, 0x80),
    "float8_e5m2fnuz": FloatLayout(5, 2, 16, 0x7F, 0x80, 0x80),
    "float16": _ieee(5, 10),
    "bfloat16": _ieee(8, 7),
    "float32": _ieee(8, 23),
    "float64": _ieee(11, 52),
}
