"""The error function, the normal distribution's tails and quantiles, and the gamma function.

Floats keep their dtype, integers become the default float. In float32 results are within 1e-6 of
their own size (mostly 4 ulp) over the whole domain, in float64 within 1e-13; beside zeros of
`lgamma` and `digamma` at negative self the bound is beside 1. Slopes have formulas of their own, so
they are as good in the tails. Outside the domain the result is NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..uop.ops import Ops
from . import gamma, probability
from .stamps import Formula, stamped
from .unary import Unary

if TYPE_CHECKING:
    from .tensor import Tensor


class Distribution(Unary):
    """erf and its family, lgamma and digamma."""

    __slots__ = ()

    def _stamped(self, formula: Formula) -> Tensor:
        return self._formula(lambda x: stamped(formula, x))

    def erf(self) -> Tensor:
        """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to self. Floats
        keep their dtype, integers become float32.

        >>> Tensor([0.0, float("inf")]).erf().tolist()
        [0.0, 1.0]
        """
        return self._function(Ops.ERF)

    def erfc(self) -> Tensor:
        """1 - erf(self), without the loss of the difference: erfc(10) is 2.1e-45.

        >>> Tensor([0.0, 5.0]).erfc().tolist()[0]
        1.0
        """
        return self._stamped(probability.erfc)

    def erfinv(self) -> Tensor:
        """y with erf(y) = self, for self in [-1, 1]; infinite at the ends.

        >>> Tensor([0.0, 1.0]).erfinv().tolist()
        [0.0, inf]
        """
        return self._stamped(probability.erfinv)

    def log_erfcx(self) -> Tensor:
        """log(exp(self^2) erfc(self)), without forming the exponential.

        >>> round(Tensor([1e4]).log_erfcx().item(), 4)
        -9.7827
        """
        return self._stamped(probability.log_erfcx)

    def ndtri(self) -> Tensor:
        """The standard normal's quantile: x with Phi(x) = self, for self in [0, 1].

        >>> Tensor([0.5, 0.0]).ndtri().tolist()
        [0.0, -inf]
        """
        return self._stamped(probability.ndtri)

    def log_ndtr(self) -> Tensor:
        """log Phi(self) of the standard normal distribution function Phi, stable in both tails. The
        log of the survival function is `(-x).log_ndtr()`.

        >>> round(Tensor([-100.0]).log_ndtr().item(), 2)
        -5005.52
        """
        return self._stamped(probability.log_ndtr)

    def ndtri_exp(self) -> Tensor:
        """The standard normal's quantile at exp(self), for self <= 0, without the exponential: the
        inverse of `log_ndtr`.

        >>> round(Tensor([-5005.52]).ndtri_exp().item(), 2)
        -100.0
        """
        return self._stamped(probability.ndtri_exp)

    def lgamma(self) -> Tensor:
        """log |Gamma(self)|; inf at the poles 0, -1, -2, …

        >>> Tensor([1.0, 0.0]).lgamma().tolist()
        [0.0, inf]
        """
        return self._stamped(gamma.lgamma)

    def digamma(self) -> Tensor:
        """Gamma'(self) / Gamma(self), the slope of `lgamma`; NaN at the poles, -inf at 0.

        >>> round(Tensor([1.0]).digamma().item(), 4)
        -0.5772
        """
        return self._stamped(gamma.digamma)
