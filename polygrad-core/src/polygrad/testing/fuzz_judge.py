"""The fuzzer's judge: what a tensor program must give, with a bound on the rounding it may show.

No code of ours takes part. A value is computed in float64 (integers in their own dtype, wrapping as
numpy's do) and travels with `error`, a bound on how far an honest machine may be from it:
running error analysis (Higham, "Accuracy and Stability of Numerical Algorithms", 3.3). Where a
result depends on a decision that rounding may turn (a comparison of two nearly equal numbers, a
floor at an integer, an overflow), the bound is infinite: that element is counted, not judged. So an
ill-conditioned sample widens itself, and exact data (small integers in floats) stays exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .narrow_floats import LACKING, nearest

Array = Any
Function = Callable[..., Array]

BYTES = tuple(name for name in LACKING if name != "bfloat16")  # only ever cast to and from
FLOATS = ("float16", "bfloat16", "float32", "float64")
EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-52}
LARGEST = {
    "float16": 65504.0,
    "bfloat16": float(np.array([0x7F7F << 16], "uint32").view("float32")[0]),
    "float32": float(np.finfo("float32").max),
    "float64": float(np.finfo("float64").max),
}
SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 5e-324}
WIDTHS = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8}
WIDTHS["uint64"] = 8


class Known(NamedTuple):
    """What is known of a tensor: its values, how far off they may be, and its dtype's name."""

    value: Array
    error: Array
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


def exact(value: Array, dtype: str) -> Known:
    return Known(value, np.zeros(value.shape), dtype)


def promote(a: str, b: str) -> str:
    """The lattice as documented: bool < ints < floats; signed and unsigned meet one size up."""
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if a in FLOATS or b in FLOATS:
        if a not in FLOATS or b not in FLOATS:
            return a if a in FLOATS else b
        if {a, b} == {"float16", "bfloat16"}:
            return "float32"
        return max(a, b, key=FLOATS.index)
    if a[0] == b[0]:
        return max(a, b, key=WIDTHS.__getitem__)
    signed, unsigned = (a, b) if a[0] == "i" else (b, a)
    if WIDTHS[signed] > WIDTHS[unsigned]:
        return signed
    return {1: "int16", 2: "int32", 4: "int64", 8: "float32"}[WIDTHS[unsigned]]


# ---- rounding


def narrow(value: Array, dtype: str) -> Array:
    """float64 rounded to `dtype`, as float64."""
    if dtype in LACKING:
        return np.asarray(nearest(value, dtype), "float64")
    return value.astype(dtype).astype("float64")


def rounded(value: Array, error: Array, dtype: str, ulps: float = 1.0) -> Known:
    """A result stored in `dtype`: exact results that fit stay exact, others get `ulps` more."""
    value = np.asarray(value, "float64")
    fits = (error == 0) & ((narrow(value, dtype) == value) | np.isnan(value))
    if ulps > 1:  # a function that is not correctly rounded
        fits = fits & ~np.isfinite(value)
    grown = error + ulps * EPSILON[dtype] * np.abs(value) + SMALLEST[dtype]
    error = np.where(fits, 0.0, np.where(np.isfinite(value), grown, error))
    return overflowed(value, error, dtype)


def overflowed(value: Array, error: Array, dtype: str) -> Known:
    """Beyond the largest number is infinity; near it nobody knows."""
    size, top = np.abs(value), LARGEST[dtype] * (1 + EPSILON[dtype])
    certain = (size - error > top) & np.isfinite(value)
    near = (size + error > LARGEST[dtype] * (1 - EPSILON[dtype])) & np.isfinite(value) & ~certain
    value = np.where(certain, np.copysign(np.inf, value), value)
    return Known(value, np.where(certain, 0.0, np.where(near, np.inf, error)), dtype)


def spread(value: Array, corners: Sequence[Array], sources: Sequence[Known]) -> Array:
    """The farthest corner from `value`. Unknown sources, or NaN in some corners only: unknown."""
    far = np.zeros(value.shape)
    for c in corners:
        same = (c == value) | (np.isnan(c) & np.isnan(value))
        far = np.maximum(far, np.where(same, 0.0, np.abs(c - value)))
    far = np.where(np.isnan(far), np.inf, far)
    return np.where(unknown(*sources), np.inf, far)


def unknown(*sources: Known) -> Array:
    out: Array = np.zeros((), bool)
    for s in sources:
        out = out | np.isinf(s.error)
    return out


# ---- elementwise


def floated(x: Known) -> Known:
    return x if x.is_float else cast(x, "float32")


def unary(fn: Function, ulps: float = 1.0) -> Callable[[Known], Known]:
    """A monotone function of floats: the ends of the interval bound the result."""

    def apply(x: Known) -> Known:
        x = floated(x)
        value = fn(x.value)
        corners = [fn(x.value - x.error), fn(x.value + x.error)]
        return rounded(value, spread(value, corners, [x]), x.dtype, ulps)

    return apply


def lipschitz(fn: Function, slope: float, ulps: float) -> Callable[[Known], Known]:
    """A function whose slope is at most `slope` and which turns: sin, cos, gelu, silu."""

    def apply(x: Known) -> Known:
        x = floated(x)
        return rounded(fn(x.value), x.error * slope, x.dtype, ulps)

    return apply


def integral(fn: Function) -> Callable[[Known], Known]:
    """floor, ceil, round, trunc, sign: of integers nothing to do."""
    monotone = unary(fn)
    return lambda x: monotone(x) if x.is_float else x


def both(a: Known, b: Known) -> tuple[Known, Known, str]:
    """Two operands of one dtype."""
    dtype = promote(a.dtype, b.dtype)
    return cast(a, dtype), cast(b, dtype), dtype


def whole(fn: Function, dtype: str, *sources: Known) -> Known:
    """An operation on integers or bools: exact, or unknown where a source is."""
    if any(s.is_float for s in sources):
        raise ValueError("integers that meet as floats have no bits and no remainder here")
    value = np.asarray(fn(*[s.value for s in sources]))
    return Known(value, np.where(unknown(*sources), np.inf, np.zeros(value.shape)), dtype)


def times(size: Array, error: Array) -> Array:
    """size * error where no error is no error, even of an infinity."""
    return np.where(error == 0, 0.0, np.abs(size) * error)


def _add_error(a: Known, b: Known) -> Array:
    return a.error + b.error


def _mul_error(a: Known, b: Known) -> Array:
    return times(a.value, b.error) + times(b.value, a.error) + a.error * b.error


def binary(fn: Function, error: Callable[[Known, Known], Array]) -> Callable[..., Known]:
    def apply(a: Known, b: Known) -> Known:
        a, b, dtype = both(a, b)
        if not a.is_float:
            return whole(fn, dtype, a, b)
        value = fn(a.value, b.value)
        bound = np.where(unknown(a, b), np.inf, np.zeros(value.shape) + error(a, b))
        return rounded(value, np.where(np.isnan(bound), np.inf, bound), dtype)

    return apply


def corners(fn: Function, a: Known, b: Known) -> list[Array]:
    ends = [(s.value - s.error, s.value + s.error) for s in (a, b)]
    return [fn(x, y) for x in ends[0] for y in ends[1]]


def cornered(fn: Function) -> Callable[..., Known]:
    """maximum and minimum: monotone in both operands."""

    def apply(a: Known, b: Known) -> Known:
        a, b, dtype = both(a, b)
        if not a.is_float:
            return whole(fn, dtype, a, b)
        value = fn(a.value, b.value)
        return rounded(value, spread(value, corners(fn, a, b), [a, b]), dtype)

    return apply


def divide(a: Known, b: Known) -> Known:
    dtype = promote(a.dtype, b.dtype)
    dtype = dtype if dtype in FLOATS else "float32"
    a, b = cast(a, dtype), cast(b, dtype)
    value = a.value / b.value
    # The sign of a zero is not judged, so neither is what is divided by one.
    at_zero = np.abs(b.value) <= b.error
    error = np.where(at_zero, np.inf, spread(value, corners(np.divide, a, b), [a, b]))
    return rounded(value, error, dtype, 1.5)


def floor_divide(a: Known, b: Known) -> Known:
    a, b, dtype = both(a, b)
    if not a.is_float:
        return whole(np.floor_divide, dtype, a, b)
    quotient = divide(a, b)
    near = np.floor(quotient.value - quotient.error) != np.floor(quotient.value + quotient.error)
    return rounded(np.floor(quotient.value), np.where(near, np.inf, 0.0), dtype)


def modulo(a: Known, b: Known) -> Known:
    a, b, dtype = both(a, b)
    return whole(np.mod, dtype, a, b)


def compare(fn: Function) -> Callable[..., Known]:
    def apply(a: Known, b: Known) -> Known:
        a, b, _ = both(a, b)
        value = fn(a.value, b.value)
        if not a.is_float:
            return whole(fn, "bool", a, b)
        distance = np.where(a.value == b.value, 0.0, np.abs(a.value - b.value))
        error = a.error + b.error
        turns = (distance <= error) & (error > 0)
        return Known(value, np.where(turns | unknown(a, b), np.inf, 0.0), "bool")

    return apply


def where(condition: Known, a: Known, b: Known) -> Known:
    a, b, dtype = both(a, b)
    value = np.where(condition.value, a.value, b.value)
    chosen = np.where(condition.value, a.error, b.error)
    if a.is_float:
        either = np.where(a.value == b.value, 0.0, np.abs(a.value - b.value)) + a.error + b.error
        either = np.where(np.isnan(either), np.inf, either)
    else:
        either = np.where((a.value == b.value) & ~unknown(a, b), 0.0, np.inf)
    return Known(value, np.where(np.isinf(condition.error), either, chosen), dtype)


def cast(x: Known, dtype: str) -> Known:
    if dtype == x.dtype:
        return x
    if dtype == "bool":
        zero = exact(np.zeros((), x.value.dtype), x.dtype)
        return compare(np.not_equal)(x, zero)
    if dtype in FLOATS:
        value = x.value.astype("float64")
        if x.is_float:
            return rounded(value, x.error, dtype)
        lost = value.astype("float64").astype(object) != x.value.astype(object)
        error = np.where(lost, EPSILON["float64"] * np.abs(value), x.error)
        return rounded(value, error, dtype)
    if not x.is_float:
        return whole(lambda v: v.astype(dtype), dtype, x)
    ends = [saturate(v, dtype) for v in (x.value - x.error, x.value, x.value + x.error)]
    turns = (ends[0] != ends[1]) | (ends[1] != ends[2]) | unknown(x)
    return Known(ends[1], np.where(turns, np.inf, 0.0), dtype)


def through(x: Known, via: str, dtype: str) -> Known:
    """Rounded to an 8-bit float and cast on: known where all that x may be rounds alike."""
    value = x.value.astype("float64")
    low, middle, high = (nearest(v, via) for v in (value - x.error, value, value + x.error))
    alike = ((low == middle) & (middle == high)) | ((x.error == 0) & np.isnan(middle))
    wide = Known(middle.astype("float64"), np.where(alike, 0.0, np.inf), "float32")
    return cast(wide, dtype)


def saturate(value: Array, dtype: str) -> Array:
    """Towards zero, clipped to the range; NaN is 0."""
    info = np.iinfo(dtype)
    cut = np.trunc(np.where(np.isnan(value), 0.0, value))
    inside = (cut >= float(info.min)) & (cut < float(info.max) + 1)
    out = np.where(inside, cut, 0.0).astype(dtype)
    out = np.where(cut >= float(info.max) + 1, np.array(info.max, dtype), out)
    return np.where(cut < float(info.min), np.array(info.min, dtype), out)


add = binary(np.add, _add_error)


def subtract(a: Known, b: Known) -> Known:
    if promote(a.dtype, b.dtype) == "bool":
        raise ValueError("bools have no difference")
    return _subtract(a, b)


_subtract = binary(np.subtract, _add_error)
multiply = binary(np.multiply, _mul_error)
maximum = cornered(np.maximum)
minimum = cornered(np.minimum)

# ---- movement: what happens to the values happens to the errors


def moved(fn: Function) -> Callable[..., Known]:
    def apply(*sources: Known, **arguments: Any) -> Known:
        values = [s.value for s in sources]
        errors = [s.error for s in sources]
        return Known(fn(*values, **arguments), fn(*errors, **arguments), sources[0].dtype)

    return apply


def take(x: Known, index: Known, axis: int) -> Known:
    """numpy.take with indices in range; an unknown index gives unknown elements."""
    at = np.where(np.isinf(index.error), 0, index.value).astype("int64")
    lost = np.isinf(index.error).reshape(
        (1,) * axis + index.shape + (1,) * (len(x.shape) - axis - 1)
    )
    value = np.take(x.value, at, axis)
    error = np.take(x.error, at, axis)
    return Known(value, np.where(lost, np.inf, error), x.dtype)


def take_along(x: Known, index: Known, axis: int) -> Known:
    """torch.gather: the output has the index's shape."""
    at = np.where(np.isinf(index.error), 0, index.value).astype("int64")
    cut = tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(index.shape))
    value = np.take_along_axis(x.value[cut], at, axis)
    error = np.take_along_axis(x.error[cut], at, axis)
    return Known(value, np.where(np.isinf(index.error), np.inf, error), x.dtype)


# ---- the verdict


def differences(known: Known, got: Array) -> Array:
    """Which elements of `got` (a plain array; halves as float32) are wrong beyond doubt."""
    got = np.asarray(got)
    if got.shape != known.shape:
        raise ValueError(f"shape {got.shape}, expected {known.shape}")
    judged = ~np.isinf(known.error)
    if not known.is_float:
        return judged & (got != known.value)
    got = got.astype("float64")
    with np.errstate(all="ignore"):
        off = np.abs(got - known.value)
    near = off <= known.error * 1.25 + SMALLEST[known.dtype]
    same = (got == known.value) | (np.isnan(got) & np.isnan(known.value))
    return judged & ~(near | same)
