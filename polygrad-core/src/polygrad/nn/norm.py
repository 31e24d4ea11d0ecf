"""Normalisations: the same formula over different axes.

    y = (x - mean) / sqrt(variance + eps) * weight + bias

with biased variance, as in the papers (Ioffe and Szegedy 2015; Ba et al. 2016; Wu and He 2018);
RMSNorm leaves the mean out (Zhang and Sennrich 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import settings
from ..dtype import dtypes
from ..errors import ArgumentError, public, shown
from ..tensor import Tensor
from ..uop.sizes import is_fixed, larger
from . import init
from .wrong import wrong_input


def _normalized(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    return centred * (centred.square().mean(axes, keepdim=True) + eps).rsqrt()


@public
class BatchNorm:
    """Normalise each channel of (N, C, …) over everything else.

    While TRAINING by the statistics of the batch, which also move `running_mean` and `running_var`
    by `momentum`, or with None so that they are the means of those of all batches; else by those
    two.

    >>> nn.BatchNorm(3)(Tensor.ones(2, 3, 4)).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        size: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float | None = 0.1,
    ) -> None:
        self.size, self.eps, self.momentum = size, eps, momentum
        self.track_running_stats = track_running_stats
        self.weight = init.ones()((size,)) if affine else None
        self.bias = init.zeros()((size,)) if affine else None
        if track_running_stats:
            self.num_batches_tracked = _auxiliary(Tensor.zeros(dtype=dtypes.int64))
            self.running_mean = _auxiliary(Tensor.zeros(size))
            self.running_var = _auxiliary(Tensor.ones(size))

    def __call__(self, x: Tensor) -> Tensor:
        if len(x.shape) < 2 or x.shape[1] != self.size:
            raise wrong_input(self, f"(N, {self.size}, ...)", x)
        mean, variance = self._statistics(x)
        shape = (1, self.size) + (1,) * (len(x.shape) - 2)
        scale = (variance + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight
        y = (x - mean.reshape(shape)) * scale.reshape(shape)
        return y if self.bias is None else y + self.bias.reshape(shape)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        training = settings.get("TRAINING")
        if self.track_running_stats and not training:
            return self.running_mean, self.running_var
        axes = (0, *range(2, len(x.shape)))
        mean = x.mean(axes)
        centred = x - mean.reshape(1, self.size, *(1,) * (len(x.shape) - 2))
        variance = centred.square().mean(axes)
        if self.track_running_stats:
            self._track(mean.detach(), variance.detach(), x.numel() // self.size)
        return mean, variance

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        if is_fixed((count,)) and not count:
            return  # a batch of nothing has no statistics
        seen = self.num_batches_tracked + 1
        take: Any = 1.0 / seen if self.momentum is None else self.momentum
        keep, rest = 1 - take, larger(count - 1, 1)
        if is_fixed((count,)):
            unbiased = variance * (take * count / rest)
        else:
            unbiased = variance * take * count / rest
        self.running_mean.assign(self.running_mean * keep + mean * take)
        self.running_var.assign(self.running_var * keep + unbiased)
        self.num_batches_tracked.assign(seen)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size})"


@public
class BatchNorm1d(BatchNorm):
    """BatchNorm for (N, C) or (N, C, L).

    >>> nn.BatchNorm1d(3)(Tensor.ones(2, 3)).shape
    (2, 3)
    """

    def __call__(self, x: Tensor) -> Tensor:
        if len(x.shape) not in (2, 3):
            raise wrong_input(self, f"(N, {self.size}) or (N, {self.size}, L)", x)
        return super().__call__(x)


@public
class BatchNorm2d(BatchNorm):
    """BatchNorm for (N, C, H, W).

    >>> nn.BatchNorm2d(3)(Tensor.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    def __call__(self, x: Tensor) -> Tensor:
        if len(x.shape) != 4:
            raise wrong_input(self, f"(N, {self.size}, H, W)", x)
        return super().__call__(x)


@public
class BatchNorm3d(BatchNorm):
    """BatchNorm for (N, C, D, H, W).

    >>> nn.BatchNorm3d(3)(Tensor.ones(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    def __call__(self, x: Tensor) -> Tensor:
        if len(x.shape) != 5:
            raise wrong_input(self, f"(N, {self.size}, D, H, W)", x)
        return super().__call__(x)


def _auxiliary(tensor: Tensor) -> Tensor:
    return tensor.requires_grad_(False)


@public
class LayerNorm:
    """Normalise over the last axes, whose sizes are `normalized_shape`.

    >>> nn.LayerNorm(2, eps=0)(Tensor([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape, self.eps = tuple(shape), eps
        self.weight = init.ones()(self.normalized_shape) if elementwise_affine else None
        self.bias = init.zeros()(self.normalized_shape) if elementwise_affine and bias else None

    def __call__(self, x: Tensor) -> Tensor:
        rank = len(self.normalized_shape)
        if x.shape[-rank:] != self.normalized_shape:
            raise wrong_input(self, f"(..., {', '.join(map(str, self.normalized_shape))})", x)
        y = _normalized(x, tuple(range(-rank, 0)), self.eps)
        y = y if self.weight is None else y * self.weight
        return y if self.bias is None else y + self.bias

    def __repr__(self) -> str:
        shape = self.normalized_shape
        return f"{type(self).__name__}({shape[0] if len(shape) == 1 else shape})"


@public
class LayerNorm2d(LayerNorm):
    """LayerNorm over the channels of (N, C, H, W).

    >>> nn.LayerNorm2d(3)(Tensor.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    def __init__(self, channels: int, eps: float = 1e-5, elementwise_affine: bool = True) -> None:
        super().__init__(channels, eps, elementwise_affine)

    def __call__(self, x: Tensor) -> Tensor:
        if len(x.shape) != 4 or x.shape[1:2] != self.normalized_shape:
            raise wrong_input(self, f"(N, {self.normalized_shape[0]}, H, W)", x)
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@public
class RMSNorm:
    """``x / sqrt(mean(x²) + eps) * weight`` over the last axis, or over as many as `dim` has sizes;
    the mean in at least float32.

    >>> nn.RMSNorm(2, eps=0)(Tensor([1.0, -1.0])).tolist()
    [1.0, -1.0]
    """

    def __init__(
        self, dim: int | Sequence[int], eps: float = 1e-6, elementwise_affine: bool = True
    ) -> None:
        self.dim, self.eps = dim if isinstance(dim, int) else tuple(dim), eps
        self.weight = init.ones()(self._shape()) if elementwise_affine else None

    def _shape(self) -> tuple[int, ...]:
        return (self.dim,) if isinstance(self.dim, int) else self.dim

    def __call__(self, x: Tensor) -> Tensor:
        shape = self._shape()
        if x.shape[-len(shape) :] != shape:
            raise wrong_input(self, f"(..., {', '.join(map(str, shape))})", x)
        axes = tuple(range(-len(shape), 0))
        wide = x.cast(dtypes.float32) if x.dtype.itemsize < 4 else x
        y = (wide * (wide.square().mean(axes, keepdim=True) + self.eps).rsqrt()).cast(x.dtype)
        return y if self.weight is None else y * self.weight

    def __repr__(self) -> str:
        return f"RMSNorm({self.dim})"


@public
class GroupNorm:
    """Split the channels of (N, C, …) into groups and normalise each group of each row.

    >>> nn.GroupNorm(2, 4)(Tensor.ones(1, 4, 5)).shape
    (1, 4, 5)
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm: num_groups={shown(num_groups)} must divide"
                f" num_channels={shown(num_channels)}."
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = init.ones()((num_channels,)) if affine else None
        self.bias = init.zeros()((num_channels,)) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        if len(x.shape) < 2 or x.shape[1] != self.num_channels:
            raise wrong_input(self, f"(N, {self.num_channels}, ...)", x)
        rows = x.reshape(x.shape[0], self.num_groups, math.prod(x.shape[1:]) // self.num_groups)
        y = _normalized(rows, (-1,), self.eps).reshape(x.shape)
        shape = (1, self.num_channels) + (1,) * (len(x.shape) - 2)
        y = y if self.weight is None else y * self.weight.reshape(shape)
        return y if self.bias is None else y + self.bias.reshape(shape)

    def __repr__(self) -> str:
        return f"GroupNorm({self.num_groups}, {self.num_channels})"


@public
class InstanceNorm(GroupNorm):
    """Normalise each channel of each row of (N, C, …): a group per channel.

    >>> nn.InstanceNorm(3)(Tensor.ones(1, 3, 4, 4)).shape
    (1, 3, 4, 4)
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(num_features, num_features, eps, affine)

    def __repr__(self) -> str:
        return f"InstanceNorm({self.num_channels})"
