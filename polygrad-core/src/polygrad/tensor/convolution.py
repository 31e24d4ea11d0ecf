"""Convolution and pooling over the last axes: (batch, channels, *places).

A convolution is windows of the padded input times the weight, one multiplication of two expanded
views and one sum over channels and window, exactly the shape of a matrix product; nothing is copied
into columns. Pooling reduces the windows. Padding is an integer, one for each place axis, twice as
many (left, right, top, bottom, … from the last axis, as torch's pad), pairs, or "same" / "valid".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import promote
from ..errors import ArgumentError, ShapeError, no_such, shown
from ..uop.ops import Ops, Shape, UOp, size
from .base import Base, Flag, Integer, result
from .linalg import product_dtypes
from .movement import pad_with
from .reduce import narrow, wide
from .scans import Scans

if TYPE_CHECKING:
    from .tensor import Tensor

Pair = tuple[int, int]


class Convolution(Scans):
    """conv1d to conv3d, their transposes, average and maximum pooling."""

    __slots__ = ()

    def conv2d(
        self,
        weight: Base,
        bias: Base | None = None,
        groups: Integer = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
        dtype: Any = None,
    ) -> Tensor:
        """Cross-correlation of (N, C, *places) with a weight (out, C / groups, *window), any number
        of place axes; the result is (N, out, *places)."""
        out = self._convolve("conv2d", weight, groups, stride, dilation, padding)
        out = _biased("conv2d", out, bias)
        return out if dtype is None else out.cast(dtype)

    def conv1d(
        self,
        weight: Base,
        bias: Base | None = None,
        groups: Integer = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
    ) -> Tensor:
        """`conv2d` for one place axis."""
        _expect_axes("conv1d", self, weight, 3)
        out = self._convolve("conv1d", weight, groups, stride, dilation, padding)
        return _biased("conv1d", out, bias)

    def conv3d(
        self,
        weight: Base,
        bias: Base | None = None,
        groups: Integer = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
    ) -> Tensor:
        """`conv2d` for three place axes."""
        _expect_axes("conv3d", self, weight, 5)
        out = self._convolve("conv3d", weight, groups, stride, dilation, padding)
        return _biased("conv3d", out, bias)

    def conv_transpose2d(
        self,
        weight: Base,
        bias: Base | None = None,
        groups: Integer = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
    ) -> Tensor:
        """The transpose of `conv2d` in its input: weight (C, out / groups, *window); any place
        axes."""
        name = "conv_transpose2d"
        places = self.ndim - 2
        window = _check_weight(name, self, weight, groups, channels_axis=0)
        strides, dilations, extra = (
            _per_axis(name, what, x, places, least)
            for what, x, least in (
                ("stride", stride, 1),
                ("dilation", dilation, 1),
                ("output_padding", output_padding, 0),
            )
        )
        pads = _padding(name, padding, places, window, dilations)
        # Each element spreads over a window: the input with gaps, correlated with the window
        # flipped.
        around = [
            (d * (k - 1) - b, d * (k - 1) - a + e)
            for (b, a), k, d, e in zip(pads, window, dilations, extra, strict=True)
        ]
        spread = [(0, 0, 0), (0, 0, 0), *((0, 0, s - 1) for s in strides)]
        gaps = result(self.uop.pad(spread), self)
        flipped = _transposed_weight(weight.uop, groups)
        kernel = result(flipped.flip(range(2, 2 + places)), weight)
        out = gaps._convolve(name, kernel, groups, 1, dilations, around)
        return _biased(name, out, bias)

    conv_transpose1d = conv_transpose3d = conv_transpose2d

    def _convolve(
        self, name: str, weight: Base, groups: int, stride: Any, dilation: Any, padding: Any
    ) -> Tensor:
        places = self.ndim - 2
        window = _check_weight(name, self, weight, groups, channels_axis=1)
        strides = _per_axis(name, "stride", stride, places, 1)
        dilations = _per_axis(name, "dilation", dilation, places, 1)
        pads = _padding(name, padding, places, window, dilations)
        inner, outer = product_dtypes(promote(self.uop.dtype, weight.uop.dtype))
        x = _padded(name, self.uop.cast(inner), pads, window, dilations)
        out = correlate(x, weight.uop.cast(inner), groups, strides, dilations)
        return result(out.cast(outer), self, weight)

    # ---- pooling

    def avg_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: Flag = False,
        count_include_pad: Flag = True,
    ) -> Tensor:
        """The mean of each window of the last axes; padding counts unless `count_include_pad` is
        False."""
        plan = _Pool("avg_pool2d", self.shape, kernel_size, stride, dilation, padding, ceil_mode)
        x = wide(self.uop)
        total = plan.reduce(Ops.ADD, x.pad(plan.padded(plan.pads, plan.extra)))
        if plan.even(count_include_pad):
            out = total / float(size(plan.window))
        else:
            out = total / plan.counts(self.shape, count_include_pad, x.dtype)
        return result(narrow(out, self.uop.dtype), self)

    avg_pool1d = avg_pool3d = avg_pool2d

    def max_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: Flag = False,
        return_indices: Flag = False,
    ) -> Any:
        """The largest element of each window of the last axes; padding never wins. With
        `return_indices` also the int32 number, within its plane, of the first largest."""
        plan = _Pool("max_pool2d", self.shape, kernel_size, stride, dilation, padding, ceil_mode)
        lowest = self.uop.dtype.min
        pads = plan.padded(plan.pads, plan.extra)
        x = pad_with(self.uop, pads, lowest)
        out = result(plan.reduce(Ops.MAXIMUM, x), self)
        return (out, result(plan.positions(x, self.shape), self)) if return_indices else out

    max_pool1d = max_pool3d = max_pool2d

    def adaptive_avg_pool2d(self, output_size: Any) -> Tensor:
        """Means of equal parts; the last two axes must be multiples of `output_size`."""
        wanted = _per_axis("adaptive_avg_pool2d", "output_size", output_size, 2, 1)
        last = self.shape[-2:]
        if len(last) < 2:
            raise ShapeError(f"adaptive_avg_pool2d takes two axes or more, not {self.shape}.")
        if any(n % k for n, k in zip(last, wanted, strict=True)):
            raise ShapeError(f"adaptive_avg_pool2d: {last} is no multiple of {tuple(wanted)}.")
        return self.avg_pool2d(tuple(n // k for n, k in zip(last, wanted, strict=True)))


# ---- convolution on nodes


def windows(x: UOp, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> UOp:
    """The last axes become counts of windows; one more axis for each holds the places in it."""
    first = len(x.shape) - len(window)
    for i, (k, s, d) in enumerate(zip(window, strides, dilations, strict=True)):
        x = x.window(first + i, k, s, d)
    return x


def correlate(
    x: UOp, weight: UOp, groups: int, strides: Sequence[int], dilations: Sequence[int]
) -> UOp:
    """(N, C, *places) with (out, C / groups, *window), no padding: one product, one sum."""
    batch, channels = x.shape[:2]
    window = weight.shape[2:]
    x = windows(x, window, strides, dilations)
    count = x.shape[2 : 2 + len(window)]
    outs, each = weight.shape[0] // groups, channels // groups
    shape = (batch, groups, outs, each, *count, *window)
    ones = (1,) * len(window)
    left = x.reshape((batch, groups, 1, each, *count, *window)).expand(shape)
    right = weight.reshape((1, groups, outs, each, *ones, *window)).expand(shape)
    axes = (3, *range(4 + len(window), 4 + 2 * len(window)))
    return (left * right).reduce(Ops.ADD, axes).reshape((batch, groups * outs, *count))


def _transposed_weight(weight: UOp, groups: int) -> UOp:
    """(C, out / groups, *window) as (out, C / groups, *window)."""
    channels, outs, *window = weight.shape
    split = weight.reshape((groups, channels // groups, outs, *window))
    order = (0, 2, 1, *range(3, len(split.shape)))
    return split.permute(order).reshape((groups * outs, channels // groups, *window))


def _padded(
    name: str, x: UOp, pads: Sequence[Pair], window: Sequence[int], dilations: Sequence[int]
) -> UOp:
    grown = []
    for n, (b, a), k, d in zip(x.shape[2:], pads, window, dilations, strict=True):
        grown.append(n + b + a)
        if n + b + a < (k - 1) * d + 1:
            raise ShapeError(
                f"{name}: a window of {(k - 1) * d + 1} does not fit an axis of {n} padded by"
                f" {(b, a)} (input {x.shape})."
            )
    cut = [(0, n, 1) for n in x.shape[:2]]
    cut += [(max(-b, 0), n - max(-a, 0), 1) for n, (b, a) in zip(x.shape[2:], pads, strict=True)]
    around = [(0, 0, 0), (0, 0, 0), *((max(b, 0), max(a, 0), 0) for b, a in pads)]
    return x.shrink(cut).pad(around)


def _biased(name: str, out: Tensor, bias: Base | None) -> Tensor:
    if bias is None:
        return out
    channels = out.shape[1]
    if bias.shape != (channels,):
        raise ShapeError(f"{name}: bias has shape {bias.shape}, the result {channels} channels.")
    return out + result(bias.uop.reshape((1, channels, *(1,) * (out.ndim - 2))), bias)


# ---- arguments


def _expect_axes(name: str, x: Base, weight: Base, ndim: int) -> None:
    if x.ndim != ndim or weight.ndim != ndim:
        raise ShapeError(f"{name} takes {ndim} axes: input {x.shape}, weight {weight.shape}.")


def _check_weight(name: str, x: Base, weight: Base, groups: int, channels_axis: int) -> Shape:
    if x.ndim < 3 or weight.ndim != x.ndim:
        raise ShapeError(
            f"{name}: input {x.shape} and weight {weight.shape} must have the same number of axes,"
            " at least 3."
        )
    channels = weight.shape[channels_axis] * (groups if channels_axis == 1 else 1)
    if groups < 1 or channels != x.shape[1] or weight.shape[0] % groups:
        shown = f" in {groups} groups" if groups != 1 else ""
        raise ShapeError(
            f"{name}: input {x.shape} has {x.shape[1]} channels, weight {weight.shape} takes"
            f" {channels}{shown}."
        )
    return weight.shape[2:]


def _per_axis(name: str, what: str, x: Any, axes: int, least: int) -> tuple[int, ...]:
    values = tuple(x) if isinstance(x, (tuple, list)) else (x,) * axes
    if len(values) == 1:
        values = values * axes
    whole = all(isinstance(v, int) and v >= least for v in values)
    if len(values) != axes or not whole:
        raise ArgumentError(
            f"{name}: {what} is an integer of at least {least}, or {axes} of them, not {shown(x)}."
        )
    return values


def _padding(
    name: str, padding: Any, axes: int, window: Sequence[int], dilations: Sequence[int]
) -> list[Pair]:
    """(before, after) for each place axis, in their order."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ArgumentError(f"{name}: {no_such('padding', padding, ('same', 'valid'))}")
        whole = [
            (k - 1) * d if padding == "same" else 0 for k, d in zip(window, dilations, strict=True)
        ]
        return [(n // 2, n - n // 2) for n in whole]
    values = list(padding) if isinstance(padding, (tuple, list)) else [padding] * axes
    if len(values) == axes and all(isinstance(p, (tuple, list)) and len(p) == 2 for p in values):
        return [(int(b), int(a)) for b, a in values]
    if any(not isinstance(p, int) for p in values) or len(values) not in (1, axes, 2 * axes):
        raise ArgumentError(
            f"{name}: padding is an integer, {axes} or {2 * axes} of them, or {axes} pairs,"
            f" not {shown(padding)}."
        )
    if len(values) == 2 * axes and axes:
        return [(values[i], values[i + 1]) for i in range(0, 2 * axes, 2)][::-1]
    return [(p, p) for p in (values * axes if len(values) == 1 else values)]


class _Pool:
    """The numbers of one pooling call."""

    def __init__(
        self,
        name: str,
        shape: Shape,
        kernel: Any,
        stride: Any,
        dilation: Any,
        padding: Any,
        ceil: bool,
    ) -> None:
        self.axes = len(kernel) if isinstance(kernel, (tuple, list)) else 2
        if len(shape) < self.axes:
            given = shown(kernel)
            raise ShapeError(f"{name}: shape {shape} has fewer axes than the window {given}.")
        self.window = _per_axis(name, "kernel_size", kernel, self.axes, 1)
        self.strides = _per_axis(
            name, "stride", self.window if stride is None else stride, self.axes, 1
        )
        self.dilations = _per_axis(name, "dilation", dilation, self.axes, 1)
        self.pads = _padding(name, padding, self.axes, self.window, self.dilations)
        self.lead = len(shape) - self.axes
        sizes = shape[self.lead :]
        self.extra = []  # beyond the padding, for the last window of ceil_mode
        for n, (b, a), k, s, d in zip(
            sizes, self.pads, self.window, self.strides, self.dilations, strict=True
        ):
            reach = (k - 1) * d + 1
            if n + b + a < reach or b < 0 or a < 0:
                raise ShapeError(
                    f"{name}: a window of {reach} does not fit an axis of {n} padded by {(b, a)}"
                    f" (input {shape})."
                )
            self.extra.append(_beyond(n, b, a, reach, s) if ceil else 0)

    def padded(self, pads: Sequence[Pair], extra: Sequence[int]) -> list[tuple[int, int, int]]:
        around = [(b, a + e, 0) for (b, a), e in zip(pads, extra, strict=True)]
        return [(0, 0, 0)] * self.lead + around

    def reduce(self, op: Ops, padded: UOp) -> UOp:
        x = windows(padded, self.window, self.strides, self.dilations)
        first = self.lead + self.axes
        return x.reduce(op, range(first, first + self.axes))

    def even(self, count_pad: bool) -> bool:
        """Whether every window counts all of its places."""
        unpadded = all(p == (0, 0) for p in self.pads)
        return (count_pad or unpadded) and not any(self.extra)

    def counts(self, shape: Shape, count_pad: bool, dtype: Any) -> UOp:
        """How many places count in each window: a constant of the shape, computed from ones."""
        places = shape[self.lead :]
        ones = UOp.const(dtype, 1)
        if count_pad:
            grown = [n + b + a for n, (b, a) in zip(places, self.pads, strict=True)]
            around = [(0, e, 0) for e in self.extra]
            x = ones.broadcast_to(grown).pad(around)
        else:
            x = ones.broadcast_to(places).pad(self.padded(self.pads, self.extra)[self.lead :])
        x = windows(x, self.window, self.strides, self.dilations)
        counted = x.reduce(Ops.ADD, range(self.axes, 2 * self.axes))
        out = (*shape[: self.lead], *counted.shape)
        return counted.broadcast_to(out)

    def positions(self, padded: UOp, shape: Shape) -> UOp:
        """The number within its plane of the first largest element of each window."""
        from .reduce import position

        places = shape[self.lead :]
        x = windows(padded, self.window, self.strides, self.dilations)
        flat = (*x.shape[: self.lead + self.axes], size(self.window))
        numbers = UOp.iota(size(places)).reshape(places)
        numbers = numbers.pad(self.padded(self.pads, self.extra)[self.lead :])
        numbers = windows(numbers, self.window, self.strides, self.dilations)
        numbers = numbers.reshape((*numbers.shape[: self.axes], size(self.window))).broadcast_to(
            flat
        )
        best = position(x.reshape(flat), Ops.MAXIMUM, len(flat) - 1)
        at = UOp.iota(size(self.window)).broadcast_to(flat)
        chosen = at.eq(best.reshape((*best.shape, 1)).expand(flat))
        return chosen.where(numbers, 0).reduce(Ops.ADD, (len(flat) - 1,))


def _beyond(n: int, before: int, after: int, reach: int, stride: int) -> int:
    """What ceil_mode adds behind: the last window may hang over, but must start inside (torch)."""
    count = -(-(n + before + after - reach) // stride) + 1
    if (count - 1) * stride >= n + before:
        count -= 1
    return max(0, (count - 1) * stride + reach - (n + before + after))
