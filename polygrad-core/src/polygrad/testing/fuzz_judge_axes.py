"""The judge's reductions, matrix products and the composites made of them.

Rounding errors of a sum are mostly independent, so their bound grows with the square root of its
length; sums of small multiples of 1/4 are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .fuzz_judge import (
    EPSILON,
    LARGEST,
    Known,
    add,
    both,
    divide,
    exact,
    floated,
    moved,
    multiply,
    rounded,
    spread,
    subtract,
    unary,
)

Array = Any
Function = Callable[..., Array]
Axes = tuple[int, ...]


def _accumulates(dtype: str) -> str:
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def sum_error(value: Array, size: Array, error: Array, count: int, dtype: str) -> Array:
    """`size` is the sum of magnitudes. Rounding errors of a sum are as good as independent, so
    they grow with the square root of the count: 2 sqrt(n) + 4 is seven standard deviations. Equal
    summands round alike, each partial sum by half an ulp at most: n / 2 of the sum itself."""
    apart = (2 * count**0.5 + 4) * size
    alike = count / 2 * np.abs(value)
    grown = EPSILON[_accumulates(dtype)] * (apart + alike)
    return np.where(np.isfinite(size), error + grown, error)


def _counts_whole(value: Array, error: Array, size: Array, dtype: str) -> Array:
    """Sums of small multiples of 1/4 are exact in any order."""
    quarters = np.all((value * 4 == np.rint(value * 4)) & (error == 0))
    return quarters & (size * 4 <= 1 / EPSILON[_accumulates(dtype)])


def total(x: Known, axis: Axes, keepdim: bool = False) -> Known:
    if not x.is_float:
        wide = _sum_dtype(x.dtype)
        return Known(
            x.value.astype(wide).sum(axis=axis, keepdims=keepdim, dtype=wide),
            x.error.sum(axis=axis, keepdims=keepdim),
            wide,
        )
    value = x.value.sum(axis=axis, keepdims=keepdim)
    size = np.abs(x.value).sum(axis=axis, keepdims=keepdim)
    error = x.error.sum(axis=axis, keepdims=keepdim)
    count = int(np.prod([x.shape[a] for a in axis], dtype="int64"))
    if not _counts_whole(x.value, x.error, np.max(size, initial=0), x.dtype):
        error = sum_error(value, size, error, count, x.dtype)
    # Partial sums may overflow where the whole does not.
    risky = np.isfinite(value) & (size > LARGEST[_accumulates(x.dtype)] * 0.99)
    return rounded(value, np.where(risky, np.inf, error), x.dtype)


def _sum_dtype(dtype: str) -> str:
    return "uint64" if dtype[0] == "u" else "int64"


def mean(x: Known, axis: Axes, keepdim: bool = False) -> Known:
    x = floated(x)
    count = int(np.prod([x.shape[a] for a in axis], dtype="int64"))
    return divide(total(x, axis, keepdim), exact(np.array(float(count)), x.dtype))


def extreme(fn: Function) -> Callable[..., Known]:
    """max and min along axes: monotone in every element."""

    def apply(x: Known, axis: Axes, keepdim: bool = False) -> Known:
        value = fn(x.value, axis=axis, keepdims=keepdim)
        if not x.is_float:
            lost = np.isinf(x.error).any(axis=axis, keepdims=keepdim)
            return Known(value, np.where(lost, np.inf, 0.0), x.dtype)
        ends = [fn(x.value + s * x.error, axis=axis, keepdims=keepdim) for s in (-1, 1)]
        error = spread(value, ends, [])
        lost = np.isinf(x.error).any(axis=axis, keepdims=keepdim)
        return Known(value, np.where(lost, np.inf, error), x.dtype)

    return apply


def product(x: Known, axis: Axes, keepdim: bool = False) -> Known:
    if not x.is_float:
        wide = _sum_dtype(x.dtype)
        lost = np.isinf(x.error).any(axis=axis, keepdims=keepdim)
        value = x.value.astype(wide).prod(axis=axis, keepdims=keepdim, dtype=wide)
        return Known(value, np.where(lost, np.inf, 0.0), wide)
    value = x.value.prod(axis=axis, keepdims=keepdim)
    count = int(np.prod([x.shape[a] for a in axis], dtype="int64"))
    size = np.abs(x.value).prod(axis=axis, keepdims=keepdim)
    most = (np.abs(x.value) + x.error).prod(axis=axis, keepdims=keepdim)
    error = most * (1 + EPSILON[_accumulates(x.dtype)]) ** count - size
    # Partial products may overflow or underflow where the whole does not.
    ends = np.cumprod(np.maximum(np.abs(x.value), 1).reshape(-1))[-1:]
    tiny = np.cumprod(np.where(x.value == 0, 1, np.minimum(np.abs(x.value), 1)).reshape(-1))[-1:]
    limit = LARGEST[_accumulates(x.dtype)]
    risky = bool((ends > limit).any() or (tiny < 1e-30).any())
    error = np.where(np.isnan(error) | risky, np.inf, error)
    return rounded(value, error, x.dtype)


def argument(pick: Function, best: Function, sign: float) -> Callable[..., Known]:
    """argmax and argmin, the first of equals; unknown where a rival comes within the errors."""

    def apply(x: Known, axis: int, keepdim: bool = False) -> Known:
        at = pick(x.value, axis=axis, keepdims=True)
        lost = np.zeros(at.shape, bool)
        if x.is_float:
            top = np.take_along_axis(x.value, at, axis)
            slack = np.take_along_axis(x.error, at, axis) + x.error
            close = (sign * (top - x.value) <= slack) & (slack > 0)
            place = np.arange(x.shape[axis]).reshape(
                [-1 if a == axis % len(x.shape) else 1 for a in range(len(x.shape))]
            )
            lost = (close & (place != at)).any(axis=axis, keepdims=True)
            lost |= np.isnan(x.value).any(axis=axis, keepdims=True)
        lost |= np.isinf(x.error).any(axis=axis, keepdims=True)
        out = Known(at.astype("int32"), np.where(lost, np.inf, 0.0), "int32")
        return out if keepdim else moved(np.squeeze)(out, axis=axis)

    return apply


largest = extreme(np.max)
smallest = extreme(np.min)


def running_total(x: Known, axis: int) -> Known:
    if not x.is_float:
        wide = _sum_dtype(x.dtype)
        value = x.value.astype(wide).cumsum(axis=axis, dtype=wide)
        return Known(value, x.error.cumsum(axis=axis), wide)
    value = x.value.cumsum(axis=axis)
    size = np.abs(x.value).cumsum(axis=axis)
    error = x.error.cumsum(axis=axis)
    if not _counts_whole(x.value, x.error, np.max(size, initial=0), x.dtype):
        error = sum_error(value, size, error, x.shape[axis], x.dtype)
    return rounded(value, error, x.dtype)


def matmul(a: Known, b: Known) -> Known:
    a, b, dtype = both(a, b)
    if not a.is_float:
        lost = (np.isinf(a.error).astype(float) @ np.ones(b.shape)) + (
            np.ones(a.shape) @ np.isinf(b.error).astype(float)
        )
        return Known(np.matmul(a.value, b.value), np.where(lost > 0, np.inf, 0.0), dtype)
    value = a.value @ b.value
    size = np.abs(a.value) @ np.abs(b.value)
    error = np.abs(a.value) @ b.error + a.error @ np.abs(b.value) + a.error @ b.error
    exact_products = [_counts_whole(s.value, s.error, 0.0, "float64") for s in (a, b)]
    small = np.max(size, initial=0) * 16 <= 1 / EPSILON[dtype]
    if not (all(exact_products) and small):
        error = sum_error(value, size, error, a.shape[-1], dtype) + EPSILON[dtype] * size
    error = np.where(np.isnan(error) | ~np.isfinite(size), np.inf, error)
    risky = size > LARGEST[_accumulates(dtype)] * 0.99
    return rounded(value, np.where(risky, np.inf, error), dtype)


# ---- composites, by their textbook formulas


def softmax(x: Known, axis: int) -> Known:
    powers = unary(np.exp, 4)(_shifted(x, axis))
    return divide(powers, total(powers, (axis,), True))


def log_softmax(x: Known, axis: int) -> Known:
    shifted = _shifted(x, axis)
    return subtract(shifted, unary(np.log, 4)(total(unary(np.exp, 4)(shifted), (axis,), True)))


def logsumexp(x: Known, axis: int) -> Known:
    """As torch and scipy have it: of infinities it is the infinity, not inf - inf."""
    x = floated(x)
    top = largest(x, (axis,), True)
    finite = np.isfinite(top.value)
    top = top._replace(value=np.where(finite, top.value, 0), error=np.where(finite, top.error, 0))
    summed = total(unary(np.exp, 4)(subtract(x, top)), (axis,), True)
    return moved(np.squeeze)(add(unary(np.log, 4)(summed), top), axis=axis)


def _shifted(x: Known, axis: int) -> Known:
    """x - max(x), whose maximum any machine subtracts exactly as it rounded it."""
    x = floated(x)
    return subtract(x, largest(x, (axis,), True))


def variance(x: Known, axis: Axes, keepdim: bool = False, correction: int = 1) -> Known:
    x = floated(x)
    centred = subtract(x, mean(x, axis, True))
    count = int(np.prod([x.shape[a] for a in axis], dtype="int64"))
    squares = total(multiply(centred, centred), axis, keepdim)
    return divide(squares, exact(np.array(float(max(count - correction, 0))), x.dtype))
