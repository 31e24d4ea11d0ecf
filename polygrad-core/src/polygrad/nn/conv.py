"""Convolutions over (batch, channels, *places), as torch defines them (a correlation, no flip)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..dtype import DType, dtypes
from ..errors import ArgumentError, no_such, public, shown
from ..tensor import Tensor
from . import init
from .wrong import wrong_input

Sizes = int | tuple[int, ...]
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_PLACES = {1: "L", 2: "H, W", 3: "D, H, W"}


@public
class _Conv:
    """What all share. `rank` is the number of place axes; kernels are given as one size or one per
    axis, and so are stride, padding and dilation. `padding` may be "same" or "valid"; what it is
    filled with, `padding_mode`, is "zeros" or what `Tensor.pad` calls "reflect", "replicate" and
    "circular"."""

    rank: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: DType = dtypes.float32,
        padding_mode: str = "zeros",
    ) -> None:
        if padding_mode not in _PADDING_MODES:
            name = type(self).__name__
            raise ArgumentError(f"{name}: {no_such('padding_mode', padding_mode, _PADDING_MODES)}")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{type(self).__name__}: groups={shown(groups)} must divide"
                f" in_channels={shown(in_channels)} and out_channels={shown(out_channels)}."
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = self._sizes("kernel_size", kernel_size)
        self.stride = self._sizes("stride", stride)
        self.dilation = self._sizes("dilation", dilation)
        self.padding, self.padding_mode = self._padding(padding), padding_mode
        shape = self._weight_shape()
        self.weight = init.kaiming_uniform()(shape, dtype)
        bound = max(init.fan_in(shape), 1) ** -0.5
        self.bias = init.uniform(bound)((out_channels,), dtype) if bias else None

    def _weight_shape(self) -> tuple[int, ...]:
        return (self.out_channels, self.in_channels // self.groups, *self.kernel_size)

    def _sizes(self, what: str, value: Sizes, least: int = 1) -> tuple[int, ...]:
        sizes = (value,) * self.rank if isinstance(value, int) else tuple(value)
        if len(sizes) != self.rank or any(type(n) is not int or n < least for n in sizes):
            raise ArgumentError(
                f"{type(self).__name__}: {what} is a whole number of {least} or more,"
                f" or {self.rank} of them, not {shown(value)}."
            )
        return sizes

    def _padding(self, padding: Sizes | str) -> tuple[int, ...]:
        """One number for both sides of each place axis; "same" keeps the size at stride 1. Where
        that takes one more after than before, two numbers for each axis, from the last on."""
        if padding == "valid":
            return (0,) * self.rank
        if padding != "same":
            return self._sizes("padding", padding, 0)  # type: ignore[arg-type]
        spans = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        if any(s != 1 for s in self.stride):
            raise ArgumentError(f"{type(self).__name__}: 'same' needs stride 1.")
        if any(s % 2 for s in spans):
            return tuple(n for s in reversed(spans) for n in (s // 2, s - s // 2))
        return tuple(s // 2 for s in spans)

    def __call__(self, x: Tensor) -> Tensor:
        if len(x.shape) != self.rank + 2 or x.shape[1] != self.in_channels:
            raise wrong_input(self, f"(N, {self.in_channels}, {_PLACES[self.rank]})", x)
        return self._apply(x)

    def _apply(self, x: Tensor) -> Tensor:
        padding: Sizes = self.padding
        if self.padding_mode != "zeros":
            both = [n for p in reversed(self.padding) for n in (p, p)]
            sides = self.padding if len(self.padding) > self.rank else both
            x, padding = x.pad(tuple(sides), mode=self.padding_mode), 0
        return x.conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, padding)

    def __repr__(self) -> str:
        shown = [str(self.in_channels), str(self.out_channels), _short(self.kernel_size)]
        for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1)):
            value: Sequence[int] = getattr(self, name)
            if any(n != usual for n in value):
                shown.append(f"{name}={_short(value)}")
        if self.groups != 1:
            shown.append(f"groups={self.groups}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else str(tuple(sizes))


class Conv1d(_Conv):
    """(N, in, L) -> (N, out, L'). Weight is (out, in / groups, k).

    >>> nn.Conv1d(2, 3, 3, padding=1)(Tensor.ones(1, 2, 8)).shape
    (1, 3, 8)
    """

    rank = 1


class Conv2d(_Conv):
    """(N, in, H, W) -> (N, out, H', W'). Weight is (out, in / groups, kh, kw).

    >>> nn.Conv2d(2, 3, 3, stride=2)(Tensor.ones(1, 2, 8, 8)).shape
    (1, 3, 3, 3)
    """

    rank = 2


class Conv3d(_Conv):
    """(N, in, D, H, W) -> (N, out, D', H', W'). Weight is (out, in / groups, kd, kh, kw).

    >>> nn.Conv3d(1, 2, 2)(Tensor.ones(1, 1, 4, 4, 4)).shape
    (1, 2, 3, 3, 3)
    """

    rank = 3


@public
class _ConvTranspose(_Conv):
    """The transpose of a convolution in its input; weight is (in, out / groups, *kernel)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        dtype: DType = dtypes.float32,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype
        )
        self.output_padding = self._sizes("output_padding", output_padding, 0)

    def _weight_shape(self) -> tuple[int, ...]:
        return (self.in_channels, self.out_channels // self.groups, *self.kernel_size)

    def _apply(self, x: Tensor) -> Tensor:
        return x.conv_transpose2d(
            self.weight,
            self.bias,
            self.groups,
            self.stride,
            self.dilation,
            self.padding,
            self.output_padding,
        )


class ConvTranspose1d(_ConvTranspose):
    """(N, in, L) -> (N, out, L'). Weight is (in, out / groups, k).

    >>> nn.ConvTranspose1d(2, 3, 2, stride=2)(Tensor.ones(1, 2, 4)).shape
    (1, 3, 8)
    """

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """(N, in, H, W) -> (N, out, H', W'). Weight is (in, out / groups, kh, kw).

    >>> nn.ConvTranspose2d(2, 3, 2, stride=2)(Tensor.ones(1, 2, 4, 4)).shape
    (1, 3, 8, 8)
    """

    rank = 2


class ConvTranspose3d(_ConvTranspose):
    """(N, in, D, H, W) -> (N, out, D', H', W'). Weight is (in, out / groups, kd, kh, kw).

    >>> nn.ConvTranspose3d(1, 1, 2)(Tensor.ones(1, 1, 2, 2, 2)).shape
    (1, 1, 3, 3, 3)
    """

    rank = 3
