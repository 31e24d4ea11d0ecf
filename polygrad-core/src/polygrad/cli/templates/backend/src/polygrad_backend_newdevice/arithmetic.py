"""What the printed programs call. On a real machine these are instructions.

The rules that the kit checks: integers wrap, floats are rounded to their type after every
operation, a float becomes an integer by saturating (NaN gives 0), and IDIV and IMOD truncate.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from polygrad.dtype import canonical, to_dtype


def fit(name: str, value: Any) -> Any:
    """A result as its type holds it."""
    return canonical(to_dtype(name), value)


def div(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a != a or not a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def sqrt(a: float) -> float:
    return math.nan if a < 0 else math.sqrt(a)


def idiv(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def imod(a: int, b: int) -> int:
    return a - idiv(a, b) * b


def saturate(name: str, x: float) -> int:
    dtype = to_dtype(name)
    return 0 if x != x else int(max(dtype.min, min(dtype.max, x)))


def bitcast(source: str, target: str, x: Any) -> Any:
    code = (to_dtype(source).format, to_dtype(target).format)
    return struct.unpack("<" + code[1], struct.pack("<" + code[0], x))[0]
