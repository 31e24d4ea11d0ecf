"""Pooling: means and extremes of windows of the last axes, however many lie before them.

A window given as one integer is that for each axis: one for the methods called 1d, two for 2d,
three for 3d; 2d takes any other number of axes from the length of a tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ShapeError, shown
from ..uop.ops import Ops, Shape, UOp, size
from .base import Flag, Integer, result
from .convolution import Convolution, Pair, padding_of, per_axis, windows
from .movement import pad_with, unsqueeze
from .reduce import narrow, wide

if TYPE_CHECKING:
    from .tensor import Tensor

_Given = tuple[Any, Any, Any, Any, bool]  # kernel_size, stride, dilation, padding, ceil_mode


class Pooling(Convolution):
    """Averages and maxima of windows."""

    __slots__ = ()

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
        False.

        >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).avg_pool2d().tolist()
        [[2.5]]
        """
        given = kernel_size, stride, dilation, padding, ceil_mode
        return self._averaged("avg_pool2d", given, count_include_pad)

    def avg_pool1d(
        self,
        kernel_size: Any = 2,
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: Flag = False,
        count_include_pad: Flag = True,
    ) -> Tensor:
        """`avg_pool2d` over the last axis.

        >>> Tensor([1.0, 3.0, 5.0, 7.0]).avg_pool1d(2).tolist()
        [2.0, 6.0]
        """
        given = kernel_size, stride, dilation, padding, ceil_mode
        return self._averaged("avg_pool1d", given, count_include_pad, 1)

    def avg_pool3d(
        self,
        kernel_size: Any = 2,
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: Flag = False,
        count_include_pad: Flag = True,
    ) -> Tensor:
        """`avg_pool2d` over the last three axes.

        >>> Tensor.ones(1, 4, 4, 4).avg_pool3d(2).shape
        (1, 2, 2, 2)
        """
        given = kernel_size, stride, dilation, padding, ceil_mode
        return self._averaged("avg_pool3d", given, count_include_pad, 3)

    def _averaged(
        self,
        name: str,
        given: _Given,
        count_include_pad: Flag,
        axes: Integer | None = None,
    ) -> Tensor:
        plan = _Pool(name, self.shape, *given, axes)
        x = wide(self.uop)
        total = plan.reduce(Ops.ADD, x.pad(plan.padded(plan.pads, plan.extra)))
        if plan.even(count_include_pad):
            out = total / float(size(plan.window))
        else:
            out = total / plan.counts(self.shape, count_include_pad, x.dtype)
        return result(narrow(out, self.uop.dtype), self)

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
        `return_indices` also the int32 number, within its plane, of the first largest.

        >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).max_pool2d(return_indices=True)[1].tolist()
        [[3]]
        """
        given = kernel_size, stride, dilation, padding, ceil_mode
        return self._highest("max_pool2d", given, return_indices)

    def max_pool1d(
        self,
        kernel_size: Any = 2,
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: Flag = False,
        return_indices: Flag = False,
    ) -> Any:
        """`max_pool2d` over the last axis.

        >>> Tensor([1.0, 3.0, 5.0, 7.0]).max_pool1d(2).tolist()
        [3.0, 7.0]
        """
        given = kernel_size, stride, dilation, padding, ceil_mode
        return self._highest("max_pool1d", given, return_indices, 1)

    def max_pool3d(
        self,
        kernel_size: Any = 2,
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: Flag = False,
        return_indices: Flag = False,
    ) -> Any:
        """`max_pool2d` over the last three axes.

        >>> Tensor.ones(1, 4, 4, 4).max_pool3d(2).shape
        (1, 2, 2, 2)
        """
        given = kernel_size, stride, dilation, padding, ceil_mode
        return self._highest("max_pool3d", given, return_indices, 3)

    def _highest(
        self, name: str, given: _Given, return_indices: Flag, axes: Integer | None = None
    ) -> Any:
        plan = _Pool(name, self.shape, *given, axes)
        lowest = self.uop.dtype.min
        pads = plan.padded(plan.pads, plan.extra)
        x = pad_with(self.uop, pads, lowest)
        out = result(plan.reduce(Ops.MAXIMUM, x), self)
        return (out, result(plan.positions(x, self.shape), self)) if return_indices else out

    def adaptive_avg_pool2d(self, output_size: Any) -> Tensor:
        """Means of `output_size` parts of each of the last two axes, as equal as they can be: part
        i of k goes from floor(i n / k) to ceil((i + 1) n / k), so parts may share an element.

        >>> Tensor([[1.0, 2.0, 3.0]]).adaptive_avg_pool2d((1, 2)).tolist()
        [[1.5, 2.5]]
        """
        wanted = per_axis("adaptive_avg_pool2d", "output_size", output_size, 2, 1)
        last = self.shape[-2:]
        if len(last) < 2 or 0 in last:
            raise ShapeError(f"adaptive_avg_pool2d has nothing to divide in shape {self.shape}.")
        if all(n % k == 0 for n, k in zip(last, wanted, strict=True)):
            return self.avg_pool2d(tuple(n // k for n, k in zip(last, wanted, strict=True)))
        u = wide(self.uop)
        for axis, k in enumerate(wanted, self.ndim - 2):
            u = _parts(u, axis, k)
        return result(narrow(u, self.uop.dtype), self)


def _parts(u: UOp, axis: int, k: int) -> UOp:
    """An axis of n as the means of its k parts."""
    n = u.shape[axis]
    first = UOp.iota(k) * n // k
    last = ((UOp.iota(k) + 1) * n + (k - 1)) // k
    low, high = (x.reshape((k, 1)).expand((k, n)) for x in (first, last))
    place = UOp.iota(n).reshape((1, n)).expand((k, n))
    shape = (*u.shape[:axis], k, *u.shape[axis:])
    tail = (1,) * (len(u.shape) - axis - 1)
    inside = ((place >= low) & (place < high)).reshape((*(1,) * axis, k, n, *tail)).expand(shape)
    sums = inside.where(unsqueeze(u, axis).expand(shape), 0.0).reduce(Ops.ADD, (axis + 1,))
    width = (last - first).cast(u.dtype).reshape((*(1,) * axis, k, *tail))
    return sums / width.expand(sums.shape)


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
        axes: int | None = None,
    ) -> None:
        self.axes = axes or (len(kernel) if isinstance(kernel, (tuple, list)) else 2)
        if len(shape) < self.axes:
            given = shown(kernel)
            raise ShapeError(f"{name}: shape {shape} has fewer axes than the window {given}.")
        self.window = per_axis(name, "kernel_size", kernel, self.axes, 1)
        self.strides = per_axis(
            name, "stride", self.window if stride is None else stride, self.axes, 1
        )
        self.dilations = per_axis(name, "dilation", dilation, self.axes, 1)
        self.pads = padding_of(name, padding, self.axes, self.window, self.dilations)
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
