"""Every gradient rule against central differences in float64, at random and at boundary points.

The graphs are evaluated by the numpy judge, so a failure here is one of a rule, not of a device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.gradient_rules import RULES
from polygrad.testing.evaluate import judged
from polygrad.uop.ops import Ops

Rng = np.random.Generator
Function = Callable[..., Tensor]
STEP = 1e-6


def differences(f: Function, arrays: Sequence[Any], which: int) -> Any:
    """d sum(f) / d arrays[which], one element at a time."""
    out = np.zeros_like(arrays[which])
    for place in np.ndindex(out.shape):
        sides = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[which][place] += sign * STEP
            sides.append(judged(f(*map(Tensor, moved)).sum()))
        out[place] = (sides[0] - sides[1]) / (2 * STEP)
    return out


def check(f: Function, *arrays: Any, tolerance: float = 2e-7) -> None:
    """First derivatives of sum(f), and second ones through the sum of squares of the first."""
    tensors = [Tensor(a) for a in arrays]
    first = f(*tensors).sum().gradient(*tensors, allow_unused=True)
    for i, g in enumerate(first):
        assert g.shape == tensors[i].shape and g.dtype.name == "float64"
        np.testing.assert_allclose(
            judged(g), differences(f, arrays, i), rtol=tolerance, atol=tolerance
        )

    def squared(*ts: Tensor) -> Tensor:
        gs = f(*ts).sum().gradient(*ts, allow_unused=True)
        return sum(((g * g).sum() for g in gs), Tensor(0.0, dtype="float64"))

    for i, g in enumerate(squared(*tensors).gradient(*tensors, allow_unused=True)):
        wanted = differences(squared, arrays, i)
        np.testing.assert_allclose(judged(g), wanted, rtol=2e-5, atol=2e-5)


X = np.random.default_rng(1).standard_normal((2, 3))
Y = np.random.default_rng(2).standard_normal((2, 3))
P = np.abs(X) + 0.3
SMALL = np.tanh(X) * 0.9
ROWS = np.array([1, 0, 1, 1])

ONE: dict[str, tuple[Function, Any]] = {
    "neg": (lambda x: -x, X),
    "abs": (lambda x: x.abs(), X),
    "square": (lambda x: x.square(), X),
    "sqrt": (lambda x: x.sqrt(), P),
    "rsqrt": (lambda x: x.rsqrt(), P),
    "reciprocal": (lambda x: x.reciprocal(), P),
    "exp": (lambda x: x.exp(), X),
    "exp2": (lambda x: x.exp2(), X),
    "expm1": (lambda x: x.expm1(), X),
    "log": (lambda x: x.log(), P),
    "log2": (lambda x: x.log2(), P),
    "log10": (lambda x: x.log10(), P),
    "log1p": (lambda x: x.log1p(), P),
    "sin": (lambda x: x.sin(), X),
    "cos": (lambda x: x.cos(), X),
    "tan": (lambda x: x.tan(), SMALL),
    "asin": (lambda x: x.asin(), SMALL),
    "acos": (lambda x: x.acos(), SMALL),
    "atan": (lambda x: x.atan(), X),
    "sinh": (lambda x: x.sinh(), X),
    "cosh": (lambda x: x.cosh(), X),
    "tanh": (lambda x: x.tanh(), X),
    "asinh": (lambda x: x.asinh(), X),
    "acosh": (lambda x: x.acosh(), P + 1),
    "atanh": (lambda x: x.atanh(), SMALL),
    "erf": (lambda x: x.erf(), X),
    "sigmoid": (lambda x: x.sigmoid(), X),
    "silu": (lambda x: x.silu(), X),
    "gelu": (lambda x: x.gelu(), X),
    "gelu erf": (lambda x: x.gelu("none"), X),
    "mish": (lambda x: x.mish(), X),
    "softplus": (lambda x: x.softplus(), X),
    "logsigmoid": (lambda x: x.logsigmoid(), X),
    "relu": (lambda x: x.relu() * x, X),
    "leaky_relu": (lambda x: x.leaky_relu() * x, X),
    "elu": (lambda x: x.elu(), X),
    "selu": (lambda x: x.selu(), X),
    "hardswish": (lambda x: x.hardswish(), X),
    "softsign": (lambda x: x.softsign(), X),
    "clamp": (lambda x: x.clamp(-0.5, 0.5) * x, X),
    "pow": (lambda x: x**3 + x**-2 + x**0.5 + x**2.5 + 1.7**x, P),
    "mod": (lambda x: (x % 0.7) * x, P),
    "floor": (lambda x: x.floor() * x, X),
    "sum": (lambda x: x.sum(0) ** 2, X),
    "mean": (lambda x: x.mean(1) ** 3, X),
    "prod": (lambda x: x.prod(1), X),
    "prod all": (lambda x: x.prod(), X),
    "max": (lambda x: x.max(1) ** 2, X),
    "min": (lambda x: x.min() ** 3, X),
    "var": (lambda x: x.var(1), X),
    "std": (lambda x: x.std(0), X),
    "norm": (lambda x: x.norm(axis=1), X),
    "norm 3": (lambda x: x.norm(3, 1), X),
    "normalize": (lambda x: x.normalize() ** 3, X),
    "logsumexp": (lambda x: x.logsumexp(1), X),
    "softmax": (lambda x: x.softmax(1) ** 2, X),
    "log_softmax": (lambda x: x.log_softmax(0) * x, X),
    "layernorm": (lambda x: x.layernorm() ** 3, X),
    "rms_norm": (lambda x: x.rms_norm() ** 3, X),
    "reshape permute": (lambda x: x.reshape(3, 2).T.reshape(6) ** 2, X),
    "expand": (lambda x: x.unsqueeze(1).expand(2, 4, 3) ** 3, X),
    "shrink": (lambda x: x[:, 1:] ** 3, X),
    "steps": (lambda x: x[::-1, ::2] ** 3, X),
    "pad": (lambda x: (x.pad((1, 2, 0, 1)) + 1) ** 3, X),
    "pad reflect": (lambda x: x.pad((2, 1), "reflect") ** 3, X),
    "flip roll": (lambda x: x.flip(0).roll(1, 1) ** 3 * x, X),
    "unfold": (lambda x: x.reshape(6).unfold(0, 3, 1) ** 3, X),
    "unfold gaps": (lambda x: x.reshape(6).unfold(0, 2, 3) ** 3, X),
    "unfold twice": (lambda x: x.unfold(1, 2, 1).unfold(0, 2, 1) ** 3, X),
    "unfold of sums": (lambda x: (x * x).sum(0).unfold(0, 2, 1) ** 2, X),
    "diagonal": (lambda x: x.diagonal(1) ** 3, X),
    "tril": (lambda x: x.tril() ** 3, X),
    "repeat": (lambda x: x.repeat(2, 1).repeat_interleave(2, 1) ** 3, X),
    "contiguous": (lambda x: x.contiguous() ** 3, X),
    "gather": (lambda x: x[Tensor(ROWS)] ** 3, X),
    "gather two": (lambda x: x[Tensor([0, 1]), Tensor([2, 2])] ** 3, X),
    "take_along": (lambda x: x.gather(1, Tensor([[2, 2], [0, 1]])) ** 3, X),
    "einsum": (lambda x: Tensor.einsum("ij,kj,ij->k", x, x, x), X),
    "einsum diagonal": (lambda x: Tensor.einsum("ii->i", x[:, :2]) ** 3, X),
    "avg_pool2d": (
        lambda x: x.avg_pool2d((1, 2), 1, padding=(0, 1), count_include_pad=False) ** 3,
        X,
    ),
    "max_pool2d": (lambda x: x.max_pool2d((2, 2), 1) ** 3, X),
    "cross_entropy": (lambda x: x.cross_entropy(Tensor([2, 0]), label_smoothing=0.1), X),
}


@pytest.mark.parametrize("name", ONE)
def test_derivatives_of_one_tensor(name: str) -> None:
    f, x = ONE[name]
    check(f, x)


def _assigned(x: Tensor, y: Tensor) -> Tensor:
    z = x * 1
    z[0] = y[1]
    z[:, Tensor([2, 2])] = y[:, :2]
    return z**3


TWO: dict[str, tuple[Function, Any, Any]] = {
    "add": (lambda x, y: (x + y) ** 3, X, Y[0]),
    "sub": (lambda x, y: (x - y) ** 3, X, Y[0]),
    "mul": (lambda x, y: x * y, X, Y),
    "div": (lambda x, y: x / y, X, P),
    "maximum": (lambda x, y: x.maximum(y) ** 3, X, Y),
    "minimum": (lambda x, y: x.minimum(y) ** 3, X, Y),
    "pow": (lambda x, y: x**y, P, Y),
    "where": (lambda x, y: (x > 0).where(x * x, y**3), X, Y),
    "logaddexp": (lambda x, y: x.logaddexp(y), X, Y),
    "lerp": (lambda x, y: x.lerp(y, x * y), X, Y),
    "matmul": (lambda x, y: (x @ y.T) ** 2, X, Y),
    "cat": (lambda x, y: x.cat(y, x * y, axis=1) ** 3, X, Y),
    "stack": (lambda x, y: Tensor.stack([x, y], axis=1) ** 3, X, Y),
    "assigned": (_assigned, X, Y),
    "scatter": (lambda x, y: x.scatter(1, Tensor([[2, 2, 0], [1, 2, 1]]), y) ** 3, X, Y),
    "scatter_add": (lambda x, y: x.scatter_add(1, Tensor([[2, 2, 0], [1, 2, 1]]), y) ** 3, X, Y),
    "bce": (lambda x, y: x.binary_crossentropy_logits(y), X, SMALL**2),
    "attention": (lambda x, y: x.scaled_dot_product_attention(y, x * y, is_causal=True), X, Y),
}


@pytest.mark.parametrize("name", TWO)
def test_derivatives_of_two_tensors(name: str) -> None:
    f, x, y = TWO[name]
    check(f, x, y)


@pytest.mark.parametrize(
    ("groups", "stride", "dilation", "padding"),
    [(1, 1, 1, 0), (2, 2, 1, 1), (1, (1, 2), (2, 1), (2, 0)), (1, 3, 1, 1)],
)
def test_derivatives_of_convolutions(
    groups: int, stride: Any, dilation: Any, padding: Any, rng: Rng
) -> None:
    x, w = rng.standard_normal((1, 2, 4, 5)), rng.standard_normal((2, 2 // groups, 2, 2))

    def f(a: Tensor, b: Tensor) -> Tensor:
        return a.conv2d(b, None, groups, stride, dilation, padding) ** 2

    def t(a: Tensor, b: Tensor) -> Tensor:
        return a[:, :, :2, :2].conv_transpose2d(b, None, groups, stride, dilation) ** 2

    for g in (f, t):
        tensors = Tensor(x), Tensor(w)
        for i, found in enumerate(g(*tensors).sum().gradient(*tensors)):
            np.testing.assert_allclose(
                judged(found), differences(g, (x, w), i), rtol=1e-6, atol=1e-6
            )


def test_the_gradient_of_a_convolution_is_one_sum_of_products() -> None:
    x, w = Tensor.zeros(2, 3, 6, 6).contiguous(), Tensor.zeros(4, 3, 3, 3).contiguous()
    gx, gw = x.conv2d(w, padding=1).gradient(x, w, gradient=Tensor.ones(2, 4, 6, 6).contiguous())
    for g in (gx, gw):
        sums = [n for n in g.uop.toposort() if n.op is Ops.REDUCE]
        assert len(sums) == 1
        assert sums[0].src[0].base.op is Ops.MUL


def test_only_what_is_asked_for_is_built() -> None:
    x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    (g,) = (x * w).sum().gradient(x)
    assert x.uop not in g.uop.toposort()


def test_ops_without_a_rule_are_flat() -> None:
    flat = {Ops.CMPLT, Ops.DETACH, Ops.THREEFRY, Ops.IOTA}
    assert not flat & set(RULES)
