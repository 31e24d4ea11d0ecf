"""Convolutions over (batch, channels, *space), as torch defines them (a correlation, no flip)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..dtype import DType, dtypes
from ..errors import ArgumentError, public
from ..tensor import Tensor
from . import init
from .layers import wrong_input

Sizes = int | tuple[int, ...]


@public
class _Conv:
    """What Conv1d and Conv2d share; `rank` is the number of spatial axes."""

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
    ) -> None:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{type(self).__name__}: groups={groups} must divide in_channels={in_channels}"
                f" and out_channels={out_channels}."
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = self._sizes("kernel_size", kernel_size)
        self.stride = self._sizes("stride", stride)
        self.dilation = self._sizes("dilation", dilation)
        self.padding = self._padding(padding)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = init.kaiming_uniform()(shape, dtype)
        bound = max(init.fan_in(shape), 1) ** -0.5
        self.bias = init.uniform(bound)((out_channels,), dtype) if bias else None

    def _sizes(self, what: str, value: Sizes) -> tuple[int, ...]:
        sizes = (value,) * self.rank if isinstance(value, int) else tuple(value)
        least = 0 if what == "padding" else 1
        if len(sizes) != self.rank or any(type(n) is not int or n < least for n in sizes):
            raise ArgumentError(
                f"{type(self).__name__}: {what}={value!r} is no whole number"
                f" or {self.rank} of them, {least} or more."
            )
        return sizes

    def _padding(self, padding: Sizes | str) -> tuple[int, ...]:
        """Zeros on both sides of each spatial axis; "same" keeps the size at stride 1."""
        if padding == "valid":
            return (0,) * self.rank
        if padding != "same":
            return self._sizes("padding", padding)  # type: ignore[arg-type]
        spans = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        if any(s % 2 for s in spans) or any(s != 1 for s in self.stride):
            raise ArgumentError(f"{type(self).__name__}: 'same' needs odd kernels and stride 1.")
        return tuple(s // 2 for s in spans)

    def __call__(self, x: Tensor) -> Tensor:
        if len(x.shape) != self.rank + 2 or x.shape[1] != self.in_channels:
            space = ", ".join("HW"[-self.rank :]) if self.rank > 1 else "L"
            raise wrong_input(self, f"(N, {self.in_channels}, {space})", x)
        return self._apply(x)

    def _apply(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def __repr__(self) -> str:
        extras = {"stride": (1,), "padding": (0,), "dilation": (1,)}
        shown = [str(self.in_channels), str(self.out_channels), _short(self.kernel_size)]
        for name, (usual,) in extras.items():
            value: Sequence[int] = getattr(self, name)
            if any(n != usual for n in value):
                shown.append(f"{name}={_short(value)}")
        if self.groups != 1:
            shown.append(f"groups={self.groups}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else str(tuple(sizes))


@public
class Conv1d(_Conv):
    """(N, in, L) -> (N, out, L'). Weight is (out, in / groups, k)."""

    rank = 1

    def _apply(self, x: Tensor) -> Tensor:
        n, c, length = x.shape
        flat = x.reshape(n, c, 1, length)
        weight = self.weight.reshape(*self.weight.shape[:2], 1, *self.kernel_size)
        y = flat.conv2d(
            weight,
            self.bias,
            groups=self.groups,
            stride=(1, *self.stride),
            dilation=(1, *self.dilation),
            padding=(0, *self.padding),
        )
        return y.reshape(n, self.out_channels, y.shape[-1])


@public
class Conv2d(_Conv):
    """(N, in, H, W) -> (N, out, H', W'). Weight is (out, in / groups, kh, kw)."""

    rank = 2

    def _apply(self, x: Tensor) -> Tensor:
        return x.conv2d(
            self.weight,
            self.bias,
            groups=self.groups,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
        )
