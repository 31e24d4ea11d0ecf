"""Convolution over the last axes: (batch, channels, *places).

A convolution is windows of the padded input times the weight, one multiplication of two expanded
views and one sum over channels and window, exactly the shape of a matrix product; nothing is copied
into columns. Padding is an integer, one for each place axis, twice as
many (left, right, top, bottom, … from the last axis, as torch's pad), pairs, or "same" / "valid".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import promote
from ..errors import ArgumentError, ShapeError, no_such, shown
from ..uop.ops import Ops, Shape, UOp
from .axes import extent
from .base import Base, Integer, result
from .linalg import product_dtypes
from .scans import Scans

if TYPE_CHECKING:
    from .tensor import Tensor

Pair = tuple[int, int]


class Convolution(Scans):
    """conv1d to conv3d and their transposes."""

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
        of place axes; the result is (N, out, *places).

        >>> Tensor.ones(1, 1, 3, 3).conv2d(Tensor.ones(1, 1, 2, 2)).tolist()
        [[[[4.0, 4.0], [4.0, 4.0]]]]
        """
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
        """`conv2d` for one place axis.

        >>> Tensor([[[1.0, 2.0, 3.0]]]).conv1d(Tensor([[[1.0, 1.0]]])).tolist()
        [[[3.0, 5.0]]]
        """
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
        """`conv2d` for three place axes.

        >>> Tensor.ones(1, 1, 2, 2, 2).conv3d(Tensor.ones(1, 1, 2, 2, 2)).tolist()
        [[[[[8.0]]]]]
        """
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
        axes.

        >>> Tensor.ones(1, 1, 2, 2).conv_transpose2d(Tensor.ones(1, 1, 2, 2), stride=2).shape
        (1, 1, 4, 4)
        """
        name = "conv_transpose2d"
        return self._spread(name, weight, bias, groups, stride, dilation, padding, output_padding)

    def conv_transpose1d(
        self,
        weight: Base,
        bias: Base | None = None,
        groups: Integer = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
    ) -> Tensor:
        """`conv_transpose2d` for one place axis.

        >>> Tensor([[[1.0, 2.0]]]).conv_transpose1d(Tensor([[[1.0, 1.0]]])).tolist()
        [[[1.0, 3.0, 2.0]]]
        """
        name = "conv_transpose1d"
        _expect_axes(name, self, weight, 3)
        return self._spread(name, weight, bias, groups, stride, dilation, padding, output_padding)

    def conv_transpose3d(
        self,
        weight: Base,
        bias: Base | None = None,
        groups: Integer = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
    ) -> Tensor:
        """`conv_transpose2d` for three place axes.

        >>> Tensor.ones(1, 1, 2, 2, 2).conv_transpose3d(Tensor.ones(1, 1, 2, 2, 2), stride=2).shape
        (1, 1, 4, 4, 4)
        """
        name = "conv_transpose3d"
        _expect_axes(name, self, weight, 5)
        return self._spread(name, weight, bias, groups, stride, dilation, padding, output_padding)

    def _spread(
        self,
        name: str,
        weight: Base,
        bias: Base | None,
        groups: int,
        stride: Any,
        dilation: Any,
        padding: Any,
        output_padding: Any,
    ) -> Tensor:
        places = self.ndim - 2
        window = _check_weight(name, self, weight, groups, channels_axis=0)
        strides, dilations, extra = (
            per_axis(name, what, x, places, least)
            for what, x, least in (
                ("stride", stride, 1),
                ("dilation", dilation, 1),
                ("output_padding", output_padding, 0),
            )
        )
        pads = padding_of(name, padding, places, window, dilations)
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

    def _convolve(
        self, name: str, weight: Base, groups: int, stride: Any, dilation: Any, padding: Any
    ) -> Tensor:
        places = self.ndim - 2
        window = _check_weight(name, self, weight, groups, channels_axis=1)
        strides = per_axis(name, "stride", stride, places, 1)
        dilations = per_axis(name, "dilation", dilation, places, 1)
        pads = padding_of(name, padding, places, window, dilations)
        inner, outer = product_dtypes(promote(self.uop.dtype, weight.uop.dtype))
        x = _padded(name, self.uop.cast(inner), pads, window, dilations)
        out = correlate(x, weight.uop.cast(inner), groups, strides, dilations)
        return result(out.cast(outer), self, weight)


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


def per_axis(name: str, what: str, x: Any, axes: int, least: int) -> tuple[int, ...]:
    values = tuple(x) if isinstance(x, (tuple, list)) else (x,) * axes
    if len(values) == 1:
        values = values * axes
    whole = all(isinstance(v, int) and v >= least for v in values)
    if len(values) != axes or not whole:
        raise ArgumentError(
            f"{name}: {what} is an integer of at least {least}, or {axes} of them, not {shown(x)}."
        )
    return tuple([extent(name, what, v) for v in values])


def padding_of(
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
    values = [extent(name, "padding", v) for v in values]
    if len(values) == 2 * axes and axes:
        return [(values[i], values[i + 1]) for i in range(0, 2 * axes, 2)][::-1]
    return [(p, p) for p in (values * axes if len(values) == 1 else values)]
