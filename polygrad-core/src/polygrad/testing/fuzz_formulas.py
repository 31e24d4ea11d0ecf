"""The judge's formulas of single operations, made of what `fuzz_judge` knows of each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import fuzz_judge as judge
from . import fuzz_judge_axes as axes
from .fuzz_judge import Known

Judge = Callable[..., Known]


def constant(c: float, like: Known) -> Known:
    """A Python number beside a tensor: it never widens the tensor's kind."""
    dtype = like.dtype
    if isinstance(c, float) and not like.is_float:
        dtype = "float32"
    elif dtype == "bool" and not isinstance(c, bool):
        dtype = "int32"
    if dtype in judge.FLOATS:
        return judge.exact(judge.narrow(np.array(float(c)), dtype), dtype)
    return judge.exact(np.array(c, dtype), dtype)


def with_constant(fn: Judge, swapped: bool = False) -> Judge:
    def apply(x: Known, c: float) -> Known:
        k = constant(c, x)
        return fn(k, x) if swapped else fn(x, k)

    return apply


def negative(x: Known) -> Known:
    if x.dtype == "bool":
        raise ValueError("a bool has no negative")
    return x._replace(value=np.negative(x.value))


def absolute(x: Known) -> Known:
    return x._replace(value=np.abs(x.value))


def square(x: Known) -> Known:
    return judge.multiply(x, x)


def bits(fn: Callable[..., Any]) -> Judge:
    def apply(*sources: Known) -> Known:
        if len(sources) == 2:
            a, b, dtype = judge.both(*sources)
            return judge.whole(fn, dtype, a, b)
        return judge.whole(fn, sources[0].dtype, *sources)

    return apply


def shift(fn: Callable[..., Any]) -> Judge:
    return lambda x, c: judge.whole(lambda v: fn(v, v.dtype.type(c)), x.dtype, x)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


erf = np.vectorize(math.erf, otypes=["float64"])


def turning(fn: Callable[..., Any], slope: float) -> Judge:
    """gelu, silu: an error of a few ulps of x itself is honest where the result is near 0."""

    def apply(x: Known) -> Known:
        x = judge.floated(x)
        slack = 4 * judge.EPSILON[x.dtype] * np.abs(x.value)
        out = judge.lipschitz(fn, slope, 6)(x)
        return out._replace(error=out.error + np.where(np.isfinite(slack), slack, 0.0))

    return apply


def logical_not(x: Known) -> Known:
    zero = judge.exact(np.zeros((), x.value.dtype), x.dtype)
    return judge.compare(np.equal)(x, zero)


def clip(x: Known, low: float, high: float) -> Known:
    low_k, high_k = constant(low, x), constant(high, x)
    return judge.minimum(judge.maximum(x, low_k), high_k)


def slices(index: Sequence[Any]) -> tuple[Any, ...]:
    """JSON's index -> Python's: [start, stop, step] is a slice, null a new axis."""
    return tuple(slice(*i) if isinstance(i, list | tuple) else i for i in index)


def padded(x: Any, pads: Sequence[Sequence[int]], value: float) -> Any:
    return np.pad(x, [tuple(p) for p in pads], constant_values=value)


def pad(x: Known, pads: Sequence[Sequence[int]], value: float) -> Known:
    filled = float(constant(value, x).value) if x.is_float else value
    return Known(padded(x.value, pads, filled), padded(x.error, pads, 0.0), x.dtype)


def joined(fn: Callable[..., Any]) -> Judge:
    def apply(*sources: Known, axis: int) -> Known:
        dtype = sources[0].dtype
        for s in sources[1:]:
            dtype = judge.promote(dtype, s.dtype)
        parts = [judge.cast(s, dtype) for s in sources]
        return judge.moved(lambda *v: fn(v, axis=axis))(*parts)

    return apply


def square_windows(x: Any, size: int, stride: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(-2, -1))[
        ..., ::stride, ::stride, :, :
    ]


def pool(reduce: Judge) -> Judge:
    def apply(x: Known, size: int, stride: int) -> Known:
        windows = judge.moved(lambda v: square_windows(v, size, stride))(x)
        return reduce(windows, (-2, -1))

    return apply


def convolution(x: Known, w: Known, stride: int) -> Known:
    """(n, c, h, w) by (o, c, k, k): windows flattened, then a matrix product."""
    n, c = x.shape[:2]
    o, _, k, _ = w.shape
    windows = judge.moved(lambda v: np.moveaxis(square_windows(v, k, stride), 1, 3))(x)
    height, width = windows.shape[1:3]
    rows = judge.moved(lambda v: v.reshape(n * height * width, c * k * k))(windows)
    columns = judge.moved(lambda v: v.reshape(o, c * k * k).T)(w)
    out = axes.matmul(rows, columns)
    return judge.moved(lambda v: v.reshape(n, height, width, o).transpose(0, 3, 1, 2))(out)


def put(x: Known, v: Known, index: Sequence[Any]) -> Known:
    v = judge.cast(v, x.dtype)

    def written(old: Any, new: Any) -> Any:
        out = np.array(old)
        out[slices(index)] = new
        return out

    return Known(written(x.value, v.value), written(x.error, v.error), x.dtype)


def root(x: Known) -> Known:
    return judge.unary(np.sqrt)(x)


def deviation(x: Known, axis: Any, keepdim: bool, correction: int) -> Known:
    return root(axes.variance(x, axis, keepdim, correction))


def truth(fn: Callable[..., Any]) -> Judge:
    def apply(x: Known, axis: Any, keepdim: bool) -> Known:
        truth = judge.cast(x, "bool")
        lost = np.isinf(truth.error).any(axis=axis, keepdims=keepdim)
        value = fn(truth.value, axis=axis, keepdims=keepdim)
        return Known(value, np.where(lost, np.inf, 0.0), "bool")

    return apply


def inverse_root(x: Known) -> Known:
    one = judge.exact(np.array(1.0), judge.floated(x).dtype)
    return judge.divide(one, root(x))


def reciprocal(x: Known) -> Known:
    return judge.divide(judge.exact(np.array(1.0), judge.floated(x).dtype), x)


def layer_norm(x: Known, axis: int) -> Known:
    centred = judge.subtract(x, axes.mean(x, (axis,), True))
    spread = axes.mean(square(centred), (axis,), True)
    return judge.multiply(centred, inverse_root(judge.add(spread, constant(1e-3, spread))))


# ---- orders and scans


def in_order(x: Known, axis: int, descending: bool = False) -> Known:
    """Sorted values: none moves farther than the largest error."""
    if x.is_float and np.isnan(x.value).any():
        raise ValueError("where NaN stands in an order is tested elsewhere")
    error = np.broadcast_to(x.error.max(axis=axis, keepdims=True, initial=0.0), x.shape)
    value = np.sort(x.value, axis, kind="stable")
    return Known(np.flip(value, axis) if descending else value, error, x.dtype)


def topmost(x: Known, axis: int, k: int) -> Known:
    cut = tuple(slice(k) if a == axis else slice(None) for a in range(len(x.shape)))
    return judge.moved(lambda v: v[cut])(in_order(x, axis, descending=True))


def largest_so_far(x: Known, axis: int) -> Known:
    def run(v: Any) -> Any:
        return np.maximum.accumulate(v, axis)

    value = run(x.value)
    lost = np.where(np.isinf(x.error), np.inf, 0.0)
    if not x.is_float:
        return Known(value, run(lost), x.dtype)
    ends = [run(x.value - x.error), run(x.value + x.error)]
    return Known(value, np.maximum(judge.spread(value, ends, []), run(lost)), x.dtype)


def index_add(x: Known, index: Known, updates: Known, axis: int) -> Known:
    """updates[i] added to the slice that index[i] numbers, repeated numbers included."""
    if updates.dtype != x.dtype or x.dtype in ("float16", "bfloat16", "bool"):
        raise ValueError("sums in place are of one dtype with room")
    at = (*[slice(None)] * axis, index.value)

    def added(base: Any, part: Any) -> Any:
        out = np.array(base)
        np.add.at(out, at, part)
        return out

    value = added(x.value, updates.value)
    error = added(x.error, updates.error)
    if not x.is_float:
        return Known(value, error, x.dtype)
    size = added(np.abs(x.value), np.abs(updates.value))
    count = index.value.size + 1
    error = np.where(
        size == np.abs(x.value), error, axes.sum_error(value, size, error, count, x.dtype)
    )
    return judge.rounded(value, error, x.dtype)


def unfolded(v: Any, axis: int, size: int, step: int) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(v, size, axis)
    cut = tuple(slice(None, None, step) if a == axis else slice(None) for a in range(v.ndim))
    return windows[cut]
