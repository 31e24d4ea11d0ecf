"""Numbers that find mistakes: the edges of each dtype, and how two results are compared."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

from ...dtype import DType, canonical, dtypes, pack, unpack
from ...target import Target
from ...uop.ops import Ops
from .check import ConformanceError

Number = Any  # bool, int or float
MANY = 12  # edges of one dtype that meet each other in pairs


def edges(dtype: DType) -> list[Number]:
    """Special numbers of a scalar dtype, and some at random, the same on every run."""
    chance = random.Random(dtype.name)
    found: list[Number]
    if dtype.kind == "bool":
        return [False, True]
    if dtype.is_int:
        top, low = int(dtype.max), int(dtype.min)
        bits = [chance.randrange(low, top + 1) >> chance.randrange(dtype.bits) for _ in range(8)]
        found = [0, 1, -1, 2, 3, -3, 7, 100, top, low, top - 1, low + 1, top >> 1, *bits]
    else:
        layout = dtype.layout
        assert layout is not None
        most, tiny = float(layout.maximum), math.ldexp(1.0, 1 - layout.bias)
        some = [chance.uniform(-4, 4) * 10 ** chance.uniform(-3, 3) for _ in range(8)]
        found = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -2.5, 1.5, most, -most]
        found += [tiny, tiny / 2, -tiny / 4, 3e9, -7e18, 255.5, -0.75, 8388609.0, *some]
    unique = {repr(v): v for v in (canonical(dtype, x) for x in found)}
    return list(unique.values())


def tuples(kinds: Sequence[DType]) -> list[tuple[Number, ...]]:
    """Arguments for an operation: all pairs of the first edges, and the rest beside each other."""
    columns = [edges(kind) for kind in kinds]
    if len(columns) == 1:
        return [(x,) for x in columns[0]]
    few = [column[: MANY if len(columns) == 2 else 6] for column in columns]
    longest = max(map(len, columns))
    rest = [tuple(c[(i * (k + 1)) % len(c)] for k, c in enumerate(columns)) for i in range(longest)]
    return [*itertools.product(*few), *rest]


def compare(
    got: bytes, wanted: bytes, dtype: DType, rows: Sequence[tuple[Number, ...]], *, ulp: float
) -> None:
    """Raise ConformanceError with the first element that is further off than `ulp`; a NaN equals
    a NaN."""
    pairs = zip(unpack(dtype, got), unpack(dtype, wanted), rows, strict=True)
    for i, (a, b, row) in enumerate(pairs):
        if not close(dtype, a, b, ulp):
            given = ", ".join(map(repr, row))
            off = f" ({distance(dtype, a, b):g} ulp)" if dtype.is_float else ""
            raise ConformanceError(f"element {i}: of ({given}) got {a!r}, expected {b!r}{off}")


def close(dtype: DType, a: Number, b: Number, ulp: float) -> bool:
    if not dtype.is_float:
        return bool(a == b)
    if a != a or b != b:
        return bool(a != a and b != b)
    if a == b:
        return ulp > 0 or math.copysign(1.0, a) == math.copysign(1.0, b)
    return ulp > 0 and distance(dtype, a, b) <= ulp


def distance(dtype: DType, a: float, b: float) -> float:
    """How far `a` is from `b`, in units of b's last place."""
    layout = dtype.layout
    if layout is None or not (math.isfinite(a) and math.isfinite(b)):
        return 0.0 if a == b else math.inf
    exponent = max(math.frexp(b)[1], 2 - layout.bias) if b else 2 - layout.bias
    return abs(a - b) / math.ldexp(1.0, exponent - 1 - layout.mantissa)


def leaves_out(target: Target, dtype: DType, values: Sequence[Number]) -> bool:
    """Whether the target is free to treat these numbers of a float dtype as it likes."""
    if not dtype.is_float:
        return False
    layout = dtype.layout
    assert layout is not None
    tiny = math.ldexp(1.0, 1 - layout.bias)
    small = "subnormal" not in target.exact and any(0 < abs(v) < tiny for v in values)
    unknown = "nan" not in target.exact and any(v != v for v in values)
    return small or unknown


def legal(op: Ops, dtype: DType, row: Sequence[Number]) -> bool:
    """Whether the contract defines the result: divisors are not 0, counts less than the width."""
    if op in (Ops.IDIV, Ops.IMOD):
        return bool(row[1] != 0 and not (row[1] == -1 and row[0] == dtype.min))
    if op in (Ops.SHL, Ops.SHR):
        return bool(0 <= row[1] < dtype.bits)
    return True


def counts(dtype: DType) -> list[Number]:
    """Shift counts of a dtype."""
    return [0, 1, 2, dtype.bits // 2, dtype.bits - 1]


def memory_dtype(dtype: DType) -> DType:
    """What a value of the dtype is in memory: a bool is a byte."""
    return dtypes.uint8 if dtype.kind == "bool" else dtype


def to_bytes(dtype: DType, values: Sequence[Number]) -> bytes:
    return pack(memory_dtype(dtype), [canonical(memory_dtype(dtype), v) for v in values])
