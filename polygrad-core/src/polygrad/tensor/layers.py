"""What layers are made of: normalisations, attention, a chain of functions. Statistics are float32
or wider; sums over rows and what follows them are one kernel each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import dtypes
from ..errors import ArgumentError, ShapeError, no_such
from ..settings import get
from ..uop.ops import Ops, UOp, size
from . import formulas
from .attention import Inputs, attend
from .axes import axes_of, integer
from .base import Base, Flag, Integer, Real, broadcast_shape, common_dtype, result
from .movement import spread
from .random import Random
from .reduce import mean, narrow, variance, wide

if TYPE_CHECKING:
    from .tensor import Tensor


class Layers(Random):
    """Normalisations and attention."""

    __slots__ = ()

    def layernorm(self, axis: Any = -1, eps: Real = 1e-5) -> Tensor:
        """(self - mean) / sqrt(variance + eps) over axes, without scale and shift.

        >>> Tensor([1.0, 3.0]).layernorm(eps=0).tolist()
        [-1.0, 1.0]
        """
        axes = axes_of("layernorm", axis, self.ndim)
        u = wide(self.uop)
        centred = u - spread(mean(u, axes), u.shape, axes)
        scale = formulas.recip(formulas.sqrt(variance(u, axes, 0) + eps))
        return result(narrow(centred * spread(scale, u.shape, axes), self.uop.dtype), self)

    def rms_norm(self, axis: Any = -1, eps: Real = 1e-6) -> Tensor:
        """self / sqrt(mean(self^2) + eps) over axes.

        >>> Tensor([1.0, -1.0]).rms_norm(eps=0).tolist()
        [1.0, -1.0]
        """
        axes = axes_of("rms_norm", axis, self.ndim)
        u = wide(self.uop)
        scale = formulas.recip(formulas.sqrt(mean(u * u, axes) + eps))
        return result(narrow(u * spread(scale, u.shape, axes), self.uop.dtype), self)

    def group_norm(self, num_groups: Integer, eps: Real = 1e-5) -> Tensor:
        """Each of `num_groups` groups of channels (axis 1) normalised over its channels and all
        places, without scale and shift.

        >>> Tensor([[1.0, 3.0, 5.0, 9.0]]).group_norm(2, eps=0).tolist()
        [[-1.0, 1.0, -1.0, 1.0]]
        """
        num_groups = integer("group_norm", "num_groups", num_groups, 1)
        if self.ndim < 2 or self.shape[1] % num_groups:
            raise ShapeError(
                f"group_norm: shape {self.shape} does not fall into {num_groups} groups."
            )
        inner = size(self.shape[1:]) // num_groups
        groups = self.reshape(self.shape[0], num_groups, inner)
        return groups.layernorm(-1, eps).reshape(self.shape)

    def instance_norm(self, eps: Real = 1e-5) -> Tensor:
        """Each channel (axis 1) of each sample normalised over its places.

        >>> Tensor([[[1.0, 3.0]]]).instance_norm(eps=0).tolist()
        [[[-1.0, 1.0]]]
        """
        return self.group_norm(self.shape[1] if self.ndim > 1 else 1, eps)

    def interpolate(
        self,
        size: Integer | Sequence[Integer],
        mode: str = "linear",
        align_corners: Flag = False,
    ) -> Tensor:
        """The last axes resampled to `size`, one after the other: "linear" (or "bilinear" and
        "trilinear", as torch says of two and of three), "bicubic", "nearest" or "nearest-exact", as
        torch's. One number is the size of every axis after the first two.

        >>> Tensor([0.0, 4.0]).interpolate((4,)).tolist()
        [0.0, 1.0, 3.0, 4.0]
        >>> Tensor([0.0, 4.0]).interpolate((4,), "nearest").tolist()
        [0.0, 0.0, 4.0, 4.0]
        """
        if mode not in _RESAMPLE:
            raise ArgumentError(f"interpolate: {no_such('mode', mode, _RESAMPLE)}")
        if not isinstance(size, (tuple, list)):
            size = (integer("interpolate", "size", size, 1),) * max(self.ndim - 2, 1)
        if not 0 < len(size) <= self.ndim or any(n < 1 for n in size):
            raise ShapeError(f"interpolate: {tuple(size)} does not fit shape {self.shape}.")
        if 0 in self.shape[self.ndim - len(size) :]:
            raise ShapeError(f"interpolate: an axis of shape {self.shape} has nothing to resample.")
        u = self.uop if mode.startswith("nearest") else wide(self._float())
        for axis, n in enumerate(size, self.ndim - len(size)):
            if n != u.shape[axis] or align_corners:
                u = _RESAMPLE[mode](u, axis, n, align_corners)
        return result(narrow(u, self.uop.dtype), self)

    def batchnorm(
        self,
        weight: Base | None,
        bias: Base | None,
        mean: Base,
        invstd: Base,
        axis: Integer = 1,
    ) -> Tensor:
        """(self - mean) * invstd * weight + bias, all four vectors over `axis`.

        >>> mean, invstd = Tensor([1.0, 0.0]), Tensor([1.0, 2.0])
        >>> Tensor([[1.0, 2.0]]).batchnorm(None, None, mean, invstd).tolist()
        [[0.0, 4.0]]
        """
        (at,) = axes_of("batchnorm", axis, self.ndim)
        shape = tuple(n if a == at else 1 for a, n in enumerate(self.shape))
        rows: list[Any] = []
        for t in (mean, invstd, weight, bias):
            if t is not None and t.shape != (self.shape[at],):
                raise ShapeError(
                    f"batchnorm: a vector of shape {t.shape} does not fit axis {at} of"
                    f" {self.shape}."
                )
            rows.append(None if t is None else result(t.uop.reshape(shape), t))
        out: Tensor = (self - rows[0]) * rows[1]
        out = out if rows[2] is None else out * rows[2]
        return out if rows[3] is None else out + rows[3]

    def scaled_dot_product_attention(
        self,
        key: Base,
        value: Base,
        attn_mask: Base | None = None,
        dropout_p: Real = 0.0,
        is_causal: Flag = False,
        enable_gqa: Flag = False,
        scale: Real | None = None,
    ) -> Tensor:
        """softmax(self @ key.T * scale) @ value over the last two axes (positions, width); `scale`
        is 1 / sqrt(width) if not given.

        A bool mask keeps where it is true, another one is added to the scores; `is_causal` lets
        position i see positions up to i; one that sees none gives zeros; `enable_gqa` repeats the
        heads (third axis from the end) of key and value to those of self.

        >>> keys, values = Tensor([[1.0], [1.0]]), Tensor([[2.0], [4.0]])
        >>> Tensor([[0.0]]).scaled_dot_product_attention(keys, values).tolist()
        [[3.0]]
        """
        keys: Any = key
        values: Any = value
        if self.ndim < 2 or key.ndim < 2 or self.shape[-1] != key.shape[-1]:
            raise ShapeError(
                f"scaled_dot_product_attention: queries {self.shape} and keys {key.shape} differ in"
                " their last axis."
            )
        if key.shape[-2:-1] != value.shape[-2:-1]:
            raise ShapeError(
                f"scaled_dot_product_attention: keys {key.shape} and values {value.shape} differ in"
                " their positions (the second last axis)."
            )
        if enable_gqa:
            heads, kept = self.shape[-3:-2], key.shape[-3:-2]
            if not heads or not kept or not kept[0] or heads[0] % kept[0]:
                raise ShapeError(
                    f"scaled_dot_product_attention: the heads of queries {self.shape} are no"
                    f" multiple of those of keys {key.shape}."
                )
            keys, values = (_shared(t, heads[0] // kept[0]) for t in (key, value))
        if is_causal and attn_mask is not None:
            raise ArgumentError(
                "scaled_dot_product_attention: give attn_mask or is_causal, not both."
            )
        given = [self, keys, values, *([] if attn_mask is None else [attn_mask])]
        return _attended(given, bool(is_causal), dropout_p, scale)

    def sequential(self, functions: Sequence[Callable[[Any], Any]]) -> Any:
        """Each function applied to what the one before gave.

        >>> Tensor([-1.0, 4.0]).sequential([Tensor.relu, Tensor.sqrt]).tolist()
        [0.0, 2.0]
        """
        out: Any = self
        for function in functions:
            out = function(out)
        return out


def _places(n: int, times: int, plus: int) -> UOp:
    """times * i + plus for i below n, wide enough."""
    dtype = dtypes.int64 if n * times >= 1 << 31 else dtypes.int32
    return UOp.iota(n, dtype) * times + plus


def _nearest(u: UOp, axis: int, n: int, align_corners: bool) -> UOp:
    return u.gather(_places(n, u.shape[axis], 0) // n, axis)


def _nearest_exact(u: UOp, axis: int, n: int, align_corners: bool) -> UOp:
    old = u.shape[axis]
    return u.gather(_places(n, 2 * old, old) // (2 * n), axis)


def _sources(old: int, n: int, align_corners: bool) -> tuple[UOp, int]:
    """Where place i reads, as a numerator and its denominator."""
    if align_corners:
        return _places(n, old - 1, 0), max(n - 1, 1)
    return _places(n, 2 * old, old - n), 2 * n


def _cubic(u: UOp, axis: int, n: int, align_corners: bool) -> UOp:
    """Four neighbours weighted by Keys' kernel (1981) with a = -3/4; beyond the ends the last
    element is repeated."""
    old, a = u.shape[axis], -0.75
    at, below = _sources(old, n, align_corners)
    low = at // below
    t = (at % below).cast(u.dtype) / float(below)
    shape = tuple(n if i == axis else 1 for i in range(len(u.shape)))
    total: UOp | None = None
    for step, distance in ((-1, t + 1.0), (0, t), (1, 1.0 - t), (2, 2.0 - t)):
        if step in (0, 1):
            weight = ((distance * (a + 2)) - (a + 3)) * distance * distance + 1.0
        else:
            weight = ((distance * a - 5 * a) * distance + 8 * a) * distance - 4 * a
        part = u.gather((low + step).maximum(0).minimum(old - 1), axis)
        part = part * weight.reshape(shape).expand(part.shape)
        total = part if total is None else total + part
    assert total is not None
    return total


def _linear(u: UOp, axis: int, n: int, align_corners: bool) -> UOp:
    """Place i reads at (i + 1/2) old / n - 1/2, cut to the axis; all in exact fractions."""
    old = u.shape[axis]
    at, below = _sources(old, n, align_corners)
    at = at.maximum(0).minimum((old - 1) * below)
    low = at // below
    weight = (at % below).cast(u.dtype) / float(below)
    shape = tuple(n if a == axis else 1 for a in range(len(u.shape)))
    first = u.gather(low, axis)
    second = u.gather((low + 1).minimum(old - 1), axis)
    return first + (second - first) * weight.reshape(shape).expand(first.shape)


_RESAMPLE: dict[str, Callable[[UOp, int, int, bool], UOp]] = {
    **dict.fromkeys(("linear", "bilinear", "trilinear"), _linear),
    "bicubic": _cubic,
    "nearest": _nearest,
    "nearest-exact": _nearest_exact,
}


def _shared(t: Any, times: int) -> Any:
    """Each head (third axis from the end) `times` times, one after another."""
    shape = t.shape
    wide_ = t.unsqueeze(-3).expand(*shape[:-2], times, *shape[-2:])
    return wide_.reshape(*shape[:-3], shape[-3] * times, *shape[-2:])


def _attended(given: Sequence[Any], is_causal: bool, dropout_p: Real, scale: Real | None) -> Tensor:
    """Attention of queries, keys, values and perhaps a mask."""
    name = "scaled_dot_product_attention"
    query, keys, values, *masks = given
    dtype = common_dtype((query, keys, values))
    batch = broadcast_shape(name, [t.shape[:-2] for t in given])
    q, k, v = (
        t.uop.cast(dtype.arithmetic).broadcast_to((*batch, *t.shape[-2:]))
        for t in (query, keys, values)
    )
    if scale is not None:  # beside the one that attention has
        q = q * (float(scale) * max(q.shape[-1], 1) ** 0.5)
    shape = (*batch, q.shape[-2], k.shape[-2])
    bias = hidden = factor = None
    if is_causal:
        hidden = _future(*shape[-2:]).broadcast_to(shape)
    for mask in masks:
        if mask.dtype is dtypes.bool:
            hidden = mask.logical_not().uop.broadcast_to(shape)
        else:
            bias = mask.uop.cast(dtype.arithmetic).broadcast_to(shape)
    if dropout_p and get("TRAINING"):
        ones = result(UOp.everywhere(dtype.arithmetic, 1.0, shape), *given)
        factor = ones.dropout(dropout_p).uop
    return result(attend(Inputs(q, k, v, bias, hidden, factor)).cast(dtype), *given)


def _future(rows: int, columns: int) -> UOp:
    """True where the column lies behind the row."""
    i = UOp.iota(rows).reshape((rows, 1)).expand((rows, columns))
    return UOp.alu(Ops.CMPLT, i, UOp.iota(columns).broadcast_to((rows, columns)))
