"""float16 and bfloat16 as the 16 bits they have in memory, converted by integer arithmetic.

LLVM would call a library for these conversions on machines without the instructions, and the JIT
does not find it; so bfloat16 is always integer arithmetic and float16 is wherever F16C (or its
like) is missing. Every function takes and gives the name of a value of `lanes` lanes. Rounding is
to nearest even; NaN stays NaN.
"""

from __future__ import annotations

from .body import Body, vector


class Words:
    """Arithmetic on vectors of one integer width, with constants given as numbers."""

    def __init__(self, body: Body, bits: int, lanes: int) -> None:
        self.body, self.bits, self.lanes = body, bits, lanes
        self.type = vector(f"i{bits}", lanes)

    def const(self, value: int) -> str:
        if self.lanes == 1:
            return str(value)
        return "<" + ", ".join([f"i{self.bits} {value}"] * self.lanes) + ">"

    def _both(self, b: str | int) -> str:
        return self.const(b) if isinstance(b, int) else b

    def op(self, name: str, a: str | int, b: str | int) -> str:
        return self.body.op(f"{name} {self.type} {self._both(a)}, {self._both(b)}")

    def compare(self, how: str, a: str, b: str | int) -> str:
        return self.op(f"icmp {how}", a, b)

    def select(self, mask: str, a: str | int, b: str | int) -> str:
        t = self.type
        bits = vector("i1", self.lanes)
        return self.body.op(f"select {bits} {mask}, {t} {self._both(a)}, {t} {self._both(b)}")

    def cast(self, how: str, value: str, to: str) -> str:
        return self.body.op(f"{how} {self.type} {value} to {to}")


def bfloat16_to_float32(body: Body, value: str, lanes: int) -> str:
    words = Words(body, 32, lanes)
    wide = Words(body, 16, lanes).cast("zext", value, words.type)
    return words.cast("bitcast", words.op("shl", wide, 16), vector("float", lanes))


def float32_to_bfloat16(body: Body, value: str, lanes: int) -> str:
    w = Words(body, 32, lanes)
    bits = body.op(f"bitcast {vector('float', lanes)} {value} to {w.type}")
    odd = w.op("and", w.op("lshr", bits, 16), 1)
    rounded = w.op("add", bits, w.op("add", odd, 0x7FFF))
    magnitude = w.op("and", bits, 0x7FFFFFFF)
    is_nan = w.compare("ugt", magnitude, 0x7F800000)
    chosen = w.select(is_nan, w.op("or", bits, 0x400000), rounded)
    return w.cast("trunc", w.op("lshr", chosen, 16), vector("i16", lanes))


def float16_to_float32(body: Body, value: str, lanes: int, native: bool) -> str:
    """Shift exponent and mantissa into place, then scale by 2**112: exact, subnormals included."""
    real = vector("float", lanes)
    if native:
        half = body.op(f"bitcast {vector('i16', lanes)} {value} to {vector('half', lanes)}")
        return body.op(f"fpext {vector('half', lanes)} {half} to {real}")
    w = Words(body, 32, lanes)
    wide = Words(body, 16, lanes).cast("zext", value, w.type)
    magnitude = w.op("and", wide, 0x7FFF)
    shifted = w.cast("bitcast", w.op("shl", magnitude, 13), real)
    scale = w.body.op(f"bitcast {w.type} {w.const((112 + 127) << 23)} to {real}")
    scaled = body.op(f"bitcast {real} {body.op(f'fmul {real} {shifted}, {scale}')} to {w.type}")
    special = w.compare("uge", magnitude, 0x7C00)  # infinity or NaN
    finite = w.select(special, w.op("or", scaled, 0x7F800000), scaled)
    sign = w.op("shl", w.op("and", wide, 0x8000), 16)
    return w.cast("bitcast", w.op("or", finite, sign), real)


def float32_to_float16(body: Body, value: str, lanes: int, native: bool) -> str:
    """Normal halves round in the integer; subnormal ones by adding 0.5, whose ulp is a half's."""
    real, short = vector("float", lanes), vector("i16", lanes)
    if native:
        half = body.op(f"fptrunc {real} {value} to {vector('half', lanes)}")
        return body.op(f"bitcast {vector('half', lanes)} {half} to {short}")
    w = Words(body, 32, lanes)
    bits = body.op(f"bitcast {real} {value} to {w.type}")
    magnitude = w.op("and", bits, 0x7FFFFFFF)
    odd = w.op("and", w.op("lshr", magnitude, 13), 1)
    bias = w.op("add", odd, 0xFFF - ((127 - 15) << 23))
    normal = w.op("lshr", w.op("add", magnitude, bias), 13)
    half = body.op(f"bitcast {w.type} {w.const(0x3F000000)} to {real}")
    tiny = body.op(f"fadd {real} {w.cast('bitcast', magnitude, real)}, {half}")
    subnormal = w.op("sub", body.op(f"bitcast {real} {tiny} to {w.type}"), 0x3F000000)
    finite = w.select(w.compare("ult", magnitude, 113 << 23), subnormal, normal)
    overflow = w.compare("uge", magnitude, 0x477FF000)  # 65520: rounds to infinity
    number = w.select(overflow, 0x7C00, finite)
    result = w.select(w.compare("ugt", magnitude, 0x7F800000), 0x7E00, number)
    sign = w.op("and", w.op("lshr", bits, 16), 0x8000)
    return w.cast("trunc", w.op("or", result, sign), short)


def float64_to_odd_float32(body: Body, value: str, lanes: int) -> str:
    """float64 to float32, an inexact result made odd: rounding that again to a half rounds once.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008: round to odd.
    """
    real, double = vector("float", lanes), vector("double", lanes)
    w = Words(body, 32, lanes)
    near = body.op(f"fptrunc {double} {value} to {real}")
    back = body.op(f"fpext {real} {near} to {double}")
    size = body.call(f"llvm.fabs.{_suffix(lanes)}", double, (double, value))
    near_size = body.call(f"llvm.fabs.{_suffix(lanes)}", double, (double, back))
    bits = body.op(f"bitcast {real} {near} to {w.type}")
    too_large = body.op(f"fcmp ogt {double} {near_size}, {size}")
    below = w.op("sub", bits, body.op(f"zext {vector('i1', lanes)} {too_large} to {w.type}"))
    inexact = body.op(f"fcmp one {double} {back}, {value}")
    odd = w.select(inexact, w.op("or", below, 1), bits)
    return w.cast("bitcast", odd, real)


def _suffix(lanes: int) -> str:
    return f"v{lanes}f64" if lanes > 1 else "f64"
