"""Random draws: counter-based, so the same seed gives the same bits on every device.

Element i of a draw is threefry of the runtime's key at place base + i (Salmon et al. 2011); the key
comes from `manual_seed`, the base moves on by what was drawn before, both at the moment of the
call. Real numbers take the top bits of a word, integers a product of 64 random bits, so every value
of a range is equally likely.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..dtype import DType, dtypes, to_dtype
from ..errors import ArgumentError, DTypeError, shown
from ..float_layout import LAYOUTS
from ..uop.ops import Ops, Shape, UOp, size
from ..uop.sizes import most
from . import formulas
from .axes import sizes
from .base import Flag, Integer, Real, result
from .creation import Creation, made

if TYPE_CHECKING:
    from .tensor import Tensor


def words(count: int, pieces: int = 1) -> list[UOp]:
    """`pieces` independent vectors of `count` random uint32 words."""
    from ..engine import current

    drawn = most(count)  # the numbers of a draw do not depend on how many are used
    key0, key1, base = current().draw(drawn * pieces)
    first = UOp.iota(count, dtypes.uint64) + base.broadcast_to((count,))
    keys = key0.broadcast_to((count,)), key1.broadcast_to((count,))
    return [UOp.alu(Ops.THREEFRY, first + i * drawn if i else first, *keys) for i in range(pieces)]


def unit(shape: Shape, dtype: DType) -> UOp:
    """Uniform in [0, 1): the top bits of a word, as many as the type holds exactly."""
    n = size(shape)
    if dtype is dtypes.float64:
        high, low = words(n, 2)
        whole = (high >> 5).cast(dtype) * 67108864.0 + (low >> 6).cast(dtype)  # 27 and 26 bits
        return (whole * 2.0**-53).reshape(shape)
    bits = LAYOUTS[dtype.name].mantissa + 1
    (word,) = words(n)
    wide = (word >> (32 - bits)).cast(dtypes.float32) * 2.0**-bits
    return wide.cast(dtype).reshape(shape)


def normal(shape: Shape, dtype: DType) -> UOp:
    """Standard normal by Box and Muller (1958), from two words for each number."""
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    u = unit((2, *shape), wide)
    cut = [[(i, i + 1, 1), *((0, n, 1) for n in shape)] for i in range(2)]
    angle, radius = (u.shrink(c).reshape(shape) for c in cut)
    radius = formulas.sqrt(formulas.log(1.0 - radius) * -2.0)
    return (radius * UOp.alu(Ops.COS, angle * (2.0 * math.pi))).cast(dtype)


def integers(shape: Shape, low: int, high: int, dtype: DType) -> UOp:
    """Uniform in [low, high): floor(r * span / 2^64) of 64 random bits r."""
    span = high - low
    upper, lower = (w.cast(dtypes.uint64) for w in words(size(shape), 2))
    if span <= 1 << 32:
        scaled = (upper * span + (lower * span >> 32)) >> 32
    else:
        scaled = (upper << 32 | lower) % span if span < 1 << 64 else upper << 32 | lower
    wide = dtypes.uint64 if dtype is dtypes.uint64 else dtypes.int64
    return (scaled.cast(wide) + low).cast(dtype).reshape(shape)


def _float_dtype(name: str, dtype: Any) -> DType:
    d = dtypes.default_float if dtype is None else to_dtype(dtype)
    if not d.is_float:
        raise DTypeError(f"{name} draws floats, not {d.name}.")
    return d


class Random(Creation):
    """Draws; each call takes new numbers."""

    __slots__ = ()

    @staticmethod
    def manual_seed(seed: Integer = 0) -> None:
        """Start the random numbers of the current runtime anew from `seed`.

        >>> Tensor.manual_seed(42)
        """
        from ..engine import current

        current().draws.seed(seed)

    @staticmethod
    def rand(
        *shape: Any, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """Uniform in [0, 1).

        >>> Tensor.rand(2, 3).shape
        (2, 3)
        """
        return made(unit(sizes("rand", shape), _float_dtype("rand", dtype)), device, requires_grad)

    @staticmethod
    def randn(
        *shape: Any, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """Normal with mean 0 and standard deviation 1.

        >>> Tensor.randn(2, 3).shape
        (2, 3)
        """
        return made(
            normal(sizes("randn", shape), _float_dtype("randn", dtype)), device, requires_grad
        )

    @staticmethod
    def randint(
        *shape: Any, low: Integer = 0, high: Integer = 10, dtype: Any = None, device: Any = None
    ) -> Tensor:
        """Integers, each of low … high - 1 equally likely.

        >>> Tensor.randint(100, low=-3, high=4).min().item() >= -3
        True
        """
        d = dtypes.default_int if dtype is None else to_dtype(dtype)
        if not d.is_int:
            raise DTypeError(f"randint draws integers, not {d.name}.")
        if not (isinstance(low, int) and isinstance(high, int) and low < high):
            raise ArgumentError(
                f"randint: low and high are integers, low < high, not {shown(low)} and"
                f" {shown(high)}."
            )
        if low < d.min or high - 1 > d.max:
            raise ArgumentError(f"randint: {low} to {high - 1} does not fit {d.name}.")
        return made(integers(sizes("randint", shape), low, high, d), device, None)

    @staticmethod
    def uniform(
        *shape: Any,
        low: Real = 0.0,
        high: Real = 1.0,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
    ) -> Tensor:
        """Uniform in [low, high).

        >>> Tensor.uniform(100, low=2.0, high=3.0).min().item() >= 2.0
        True
        """
        d = _float_dtype("uniform", dtype)
        return made(_between(sizes("uniform", shape), low, high, d), device, requires_grad)

    @staticmethod
    def normal(
        *shape: Any,
        mean: Real = 0.0,
        std: Real = 1.0,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
    ) -> Tensor:
        """Normal with a mean and a standard deviation.

        >>> Tensor.normal(3, mean=5.0, std=0.0).tolist()
        [5.0, 5.0, 5.0]
        """
        d = _float_dtype("normal", dtype)
        return made(_scaled_normal(sizes("normal", shape), mean, std, d), device, requires_grad)

    @staticmethod
    def scaled_uniform(
        *shape: Any, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """Uniform in [-b, b), b = 1 / sqrt(number of elements).

        >>> Tensor.scaled_uniform(4, 4).abs().max().item() <= 0.25
        True
        """
        s, d = sizes("scaled_uniform", shape), _float_dtype("scaled_uniform", dtype)
        bound = max(1, size(s)) ** -0.5
        return made(_between(s, -bound, bound, d), device, requires_grad)

    @staticmethod
    def glorot_uniform(
        *shape: Any, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """Uniform in [-b, b), b = sqrt(6 / (fan in + fan out)) (Glorot, Bengio 2010).

        >>> Tensor.glorot_uniform(3, 3).abs().max().item() <= 1.0
        True
        """
        s, d = sizes("glorot_uniform", shape), _float_dtype("glorot_uniform", dtype)
        bound = (6 / max(1, s[0] + size(s[1:]))) ** 0.5 if s else 1.0
        return made(_between(s, -bound, bound, d), device, requires_grad)

    @staticmethod
    def kaiming_uniform(
        *shape: Any,
        a: Real = 0.01,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
    ) -> Tensor:
        """Uniform in [-b, b), b = sqrt(6 / ((1 + a^2) fan in)) (He et al. 2015).

        >>> Tensor.kaiming_uniform(3, 4).shape
        (3, 4)
        """
        s, d = sizes("kaiming_uniform", shape), _float_dtype("kaiming_uniform", dtype)
        bound = math.sqrt(6.0 / (1 + a * a) / max(1, size(s[1:])))
        return made(_between(s, -bound, bound, d), device, requires_grad)

    @staticmethod
    def kaiming_normal(
        *shape: Any,
        a: Real = 0.01,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
    ) -> Tensor:
        """Normal with variance 2 / ((1 + a^2) fan in) (He et al. 2015).

        >>> Tensor.kaiming_normal(3, 4).shape
        (3, 4)
        """
        s, d = sizes("kaiming_normal", shape), _float_dtype("kaiming_normal", dtype)
        std = math.sqrt(2.0 / (1 + a * a) / max(1, size(s[1:])))
        return made(_scaled_normal(s, 0.0, std, d), device, requires_grad)

    def rand_like(self, dtype: Any = None, device: Any = None) -> Tensor:
        """Uniform in [0, 1) in the shape, dtype and place of self.

        >>> Tensor.ones(2, 3).rand_like().shape
        (2, 3)
        """
        return self.rand(self.shape, **self._own(dtype, device))

    def randn_like(self, dtype: Any = None, device: Any = None) -> Tensor:
        """Standard normal in the shape, dtype and place of self.

        >>> Tensor.ones(2, 3).randn_like().shape
        (2, 3)
        """
        return self.randn(self.shape, **self._own(dtype, device))

    def dropout(self, p: Real = 0.5) -> Tensor:
        """While training, elements set to 0 with probability p and the rest divided by 1 - p.

        >>> Tensor.ones(3).dropout(0.5).tolist()  # not training
        [1.0, 1.0, 1.0]
        """
        from ..settings import get

        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"dropout: a probability lies in [0, 1], not {p}.")
        if not get("TRAINING") or p == 0.0:
            return result(self.uop, self)
        if p == 1.0:
            return self.zeros_like()
        x = self._float()
        kept = unit(self.shape, dtypes.float32) >= p
        return result(kept.where(x * (1.0 / (1.0 - p)), 0.0), self)

    def bernoulli(self) -> Tensor:
        """1 with the probability that each element gives, else 0.

        >>> Tensor([0.0, 1.0]).bernoulli().tolist()
        [0.0, 1.0]
        """
        x = self._float()
        wide = x if x.dtype.itemsize > 2 else x.cast(dtypes.float32)
        return result((unit(self.shape, wide.dtype) < wide).cast(x.dtype), self)


def _between(shape: Shape, low: float, high: float, dtype: DType) -> UOp:
    """Uniform in [low, high); where rounding reaches `high` the draw counts as `low`."""
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    u = (unit(shape, dtype).cast(wide) * (high - low) + low).cast(dtype)
    return (u < high).where(u, u._with(low)) if (low, high) != (0.0, 1.0) else u


def _scaled_normal(shape: Shape, mean: float, std: float, dtype: DType) -> UOp:
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    return (normal(shape, wide) * std + mean).cast(dtype)
