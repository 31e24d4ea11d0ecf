"""Activations: the curves between layers. Integers become floats; 16-bit floats go through
float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dtype import promote_scalar
from ..errors import ArgumentError, ShapeError, no_such
from ..uop.ops import Ops, UOp
from . import formulas
from .axes import own_axis
from .base import Real, result
from .naming import also
from .reduce import Reduce

if TYPE_CHECKING:
    from .tensor import Tensor


class Activation(Reduce):
    """relu and its many relatives."""

    __slots__ = ()

    def relu(self) -> Tensor:
        """max(self, 0); NaN stays NaN, the slope at 0 is 0. Bools give int32, as beside any 0.

        >>> Tensor([-1.5, 2.0]).relu().tolist()
        [0.0, 2.0]
        """
        u = self.uop
        return result(formulas.relu(u.cast(promote_scalar(u.dtype, 0))), self)

    def relu6(self) -> Tensor:
        """min(max(self, 0), 6); the slope is 0 at both ends. Integers stay integers.

        >>> Tensor([-1.0, 3.0, 9.0]).relu6().tolist()
        [0.0, 3.0, 6.0]
        """
        if not self.uop.dtype.is_float:
            return self.relu().clip(max=6)
        return self.hardtanh(0.0, 6.0)

    def hardtanh(self, min_val: Real = -1.0, max_val: Real = 1.0) -> Tensor:
        """self cut to [min_val, max_val]; the slope is 0 at the ends. Floats keep their dtype,
        integers become float32.

        >>> Tensor([-3.0, 0.5]).hardtanh().tolist()
        [-1.0, 0.5]
        """
        return self._formula(lambda x: _cut(x, min_val, max_val))

    def leaky_relu(self, neg_slope: Real = 0.01, *, negative_slope: Real | None = None) -> Tensor:
        """self above 0, neg_slope * self below. Floats keep their dtype, integers become float32.
        torch says `negative_slope`.

        >>> Tensor([-100.0, 2.0]).leaky_relu().tolist()
        [-1.0, 2.0]
        """
        slope = neg_slope if negative_slope is None else negative_slope
        return self._formula(lambda x: (x <= 0.0).where(x * slope, x))

    def elu(self, alpha: Real = 1.0) -> Tensor:
        """self above 0, alpha (exp(self) - 1) below. Floats keep their dtype, integers become
        float32.

        >>> round(Tensor([-1.0]).elu().item(), 4)
        -0.6321
        """
        return self._formula(lambda x: formulas.exponential_below(x, alpha))

    def celu(self, alpha: Real = 1.0) -> Tensor:
        """self above 0, alpha (exp(self / alpha) - 1) below. Floats keep their dtype, integers
        become float32.

        >>> round(Tensor([-1.0]).celu(2.0).item(), 4)
        -0.7869
        """
        return self._formula(lambda x: formulas.exponential_below(x, alpha, alpha))

    def selu(self, alpha: Real = 1.6732632423543772, gamma: Real = 1.0507009873554805) -> Tensor:
        """gamma elu(self, alpha) (Klambauer et al. 2017). Floats keep their dtype, integers become
        float32.

        >>> round(Tensor([-1.0]).selu().item(), 4)
        -1.1113
        """
        return self._formula(lambda x: formulas.exponential_below(x, alpha) * gamma)

    def gelu(self, approximate: str = "tanh") -> Tensor:
        """self times the normal distribution function at self; "none" takes erf instead of tanh.
        Floats keep their dtype, integers become float32.

        >>> round(Tensor([1.0]).gelu().item(), 3), round(Tensor([1.0]).gelu("none").item(), 3)
        (0.841, 0.841)
        """
        if approximate not in _GELU:
            raise ArgumentError(f"gelu: {no_such('approximate', approximate, _GELU)}")
        return self._formula(_GELU[approximate])

    def quick_gelu(self) -> Tensor:
        """self * sigmoid(1.702 self). Floats keep their dtype, integers become float32.

        >>> round(Tensor([1.0]).quick_gelu().item(), 4)
        0.8458
        """
        return self._formula(lambda x: x * formulas.sigmoid(x * 1.702))

    def silu(self) -> Tensor:
        """self * sigmoid(self). Floats keep their dtype, integers become float32.

        >>> round(Tensor([1.0]).silu().item(), 4)
        0.7311
        """
        return self._formula(lambda x: x * formulas.sigmoid(x))

    swish = also("swish", silu)

    def mish(self) -> Tensor:
        """self * tanh(softplus(self)). Floats keep their dtype, integers become float32.

        >>> round(Tensor([1.0]).mish().item(), 4)
        0.8651
        """
        return self._formula(lambda x: x * formulas.tanh(formulas.softplus(x)))

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-self)). Floats keep their dtype, integers become float32.

        >>> Tensor([0.0, float("inf")]).sigmoid().tolist()
        [0.5, 1.0]
        """
        return self._formula(formulas.sigmoid)

    def logsigmoid(self) -> Tensor:
        """log(sigmoid(self)). Floats keep their dtype, integers become float32.

        >>> round(Tensor([0.0]).logsigmoid().item(), 4)
        -0.6931
        """
        return self._formula(lambda x: -formulas.softplus(-x))

    def hardsigmoid(self, alpha: Real = 1 / 6, beta: Real = 0.5) -> Tensor:
        """alpha self + beta cut to [0, 1]. Floats keep their dtype, integers become float32.

        >>> Tensor([-4.0, 0.0, 4.0]).hardsigmoid().tolist()
        [0.0, 0.5, 1.0]
        """
        return self._formula(lambda x: _cut(x * alpha + beta, 0.0, 1.0))

    def hardswish(self) -> Tensor:
        """self * min(max(self + 3, 0), 6) / 6. Floats keep their dtype, integers become float32.

        >>> Tensor([-4.0, 3.0]).hardswish().tolist()
        [-0.0, 3.0]
        """
        return self._formula(lambda x: x * _cut(x + 3.0, 0.0, 6.0) * (1 / 6))

    def softplus(self, beta: Real = 1.0) -> Tensor:
        """log(1 + exp(beta self)) / beta. Floats keep their dtype, integers become float32.

        >>> round(Tensor([0.0]).softplus().item(), 4)
        0.6931
        """
        if beta == 1.0:
            return self._formula(formulas.softplus)
        if beta == 0.0:
            raise ArgumentError("softplus: beta is a number other than 0.")
        return self._formula(lambda x: formulas.softplus(x * beta) * (1.0 / beta))

    def softsign(self) -> Tensor:
        """self / (1 + |self|). Floats keep their dtype, integers become float32.

        >>> Tensor([-1.0, 3.0]).softsign().tolist()
        [-0.5, 0.75]
        """
        return self._formula(formulas.softsign)

    def tanhshrink(self) -> Tensor:
        """self - tanh(self). Floats keep their dtype, integers become float32.

        >>> round(Tensor([1.0]).tanhshrink().item(), 4)
        0.2384
        """
        return self._formula(lambda x: x - UOp.alu(Ops.TANH, x))

    def glu(self, axis: int = -1) -> Tensor:
        """The first half along an axis times the sigmoid of the second.

        >>> Tensor([3.0, 5.0, 0.0, 0.0]).glu().tolist()
        [1.5, 2.5]
        """
        at = own_axis("glu", axis, self.ndim)
        if self.shape[at] % 2:
            raise ShapeError(f"glu: axis {at} of shape {self.shape} does not split into halves.")
        a, b = self.split([self.shape[at] // 2] * 2, at)
        return a * b.sigmoid()


_GELU = {"tanh": formulas.gelu_tanh, "none": formulas.gelu_erf}


def _cut(x: UOp, low: float, high: float) -> UOp:
    """x cut to [low, high], with slope 0 at both ends."""
    x = (x <= low).where(x._with(low), x)
    return (x >= high).where(x._with(high), x)
