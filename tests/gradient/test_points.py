"""Gradients where a derivative is a choice or a formula could overflow: ties, zeros, tails."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor

INF = math.inf


def slope(f: Callable[[Tensor], Tensor], points: Any) -> Any:
    x = Tensor(np.array(points, np.float64))
    (g,) = f(x).sum().gradient(x)
    return g.numpy()


POINTS: list[tuple[str, Callable[[Tensor], Tensor], list[float], list[float]]] = [
    ("abs", lambda x: x.abs(), [0.0, -0.0, -2.0], [0, 0, -1]),
    ("relu", lambda x: x.relu(), [0.0, -0.0, 1.0], [0, 0, 1]),
    ("sqrt", lambda x: x.sqrt(), [0.0, 4.0], [INF, 0.25]),
    ("norm at 0", lambda x: x.norm(), [0.0, 0.0], [0, 0]),
    ("norm 3 at 0", lambda x: x.norm(3), [0.0, 0.0], [0, 0]),
    ("norm 3 beside 0", lambda x: x.norm(3), [0.0, -2.0], [0, -1]),
    ("norm 1/2 beside 0", lambda x: x.norm(0.5), [0.0, 4.0], [0, 1]),
    ("norm -1 beside 0", lambda x: x.norm(-1), [0.0, 4.0], [0, 0]),
    ("norm -inf at 0", lambda x: x.norm(-INF), [0.0, 4.0], [0, 0]),
    ("square", lambda x: x.square(), [0.0], [0]),
    ("clamp at the bounds", lambda x: x.clamp(-1, 1), [-1.0, 1.0, 2.0], [1, 1, 0]),
    ("hardtanh at the bounds", lambda x: x.hardtanh(), [-1.0, 1.0], [0, 0]),
    ("x ** 0", lambda x: x**0.0, [0.0, 2.0], [0, 0]),
    ("x ** -2 at 0", lambda x: x**-2, [0.0, -0.0, 2.0, -2.0], [-INF, INF, -0.25, 0.25]),
    ("x ** -2 far out", lambda x: x**-2, [1e-90, 1e90, INF, -INF], [-2e270, -2e-270, 0, 0]),
    ("x ** 2.5 at 0", lambda x: x**2.5, [0.0], [0]),
    ("2 ** x far below", lambda x: 2.0**x, [-2000.0], [0]),
    ("sigmoid tails", lambda x: x.sigmoid(), [-1000.0, 0.0, 1000.0], [0, 0.25, 0]),
    ("softplus tails", lambda x: x.softplus(), [-1000.0, 0.0, 1000.0], [0, 0.5, 1]),
    ("logsigmoid tails", lambda x: x.logsigmoid(), [-1000.0, 0.0, 1000.0], [1, 0.5, 0]),
    ("silu tails", lambda x: x.silu(), [-1000.0, 0.0, 1000.0], [0, 0.5, 1]),
    ("mish tails", lambda x: x.mish(), [-1000.0, 0.0, 1000.0], [0, 0.6, 1]),
    ("tanh tails", lambda x: x.tanh(), [-1000.0, 0.0], [0, 1]),
    ("gelu tails", lambda x: x.gelu(), [-1000.0, 0.0, 1000.0], [0, 0.5, 1]),
    ("elu", lambda x: x.elu(), [-1000.0, 0.0, 3.0], [0, 1, 1]),
    ("log1p", lambda x: x.log1p(), [0.0, 1e-20, 1e20], [1, 1, 1e-20]),
    ("log1p where 1 + x rounds", lambda x: x.log1p(), [1.5e-16, -0.8e-16], [1, 1]),
    ("softplus where 1 + z rounds", lambda x: x.softplus(), [-36.0], [1 / (1 + math.exp(36))]),
    ("expm1", lambda x: x.expm1(), [0.0, 1e-20, -1000.0], [1, 1, 0]),
    ("sinh cosh", lambda x: x.sinh() + x.cosh(), [0.0], [1]),
    ("asinh", lambda x: x.asinh(), [0.0, 1e15, -1e15], [1, 1e-15, 1e-15]),
    ("asinh where x * x is inf", lambda x: x.asinh(), [1e200, -1e200, INF], [1e-200, 1e-200, 0]),
    ("softsign", lambda x: x.softsign(), [0.0, -0.0, -1.0], [1, 1, 0.25]),
    ("softsign far out", lambda x: x.softsign(), [1e100, -1e100, INF], [1e-200, 1e-200, 0]),
    ("max at ties", lambda x: x.max(), [1.0, 3, 3, 3], [0, 1 / 3, 1 / 3, 1 / 3]),
    ("min at ties", lambda x: x.min(), [1.0, 1, 2], [0.5, 0.5, 0]),
    ("max of one", lambda x: x.max(), [5.0], [1]),
    ("maximum of equals", lambda x: x.maximum(0.0), [0.0, 1.0], [0.5, 1]),
    ("prod, no zero", lambda x: x.prod(), [2.0, 3, 4], [12, 8, 6]),
    ("prod, one zero", lambda x: x.prod(), [2.0, 0, 4], [0, 8, 0]),
    ("prod, two zeros", lambda x: x.prod(), [0.0, 0, 4], [0, 0, 0]),
    ("prod of infinity", lambda x: x.prod(), [2.0, INF], [INF, 2]),
    ("atan2 at 0", lambda x: x.atan2(2.0), [0.0, -0.0], [0.5, 0.5]),
    ("atan2 at the origin", lambda x: x.atan2(x), [0.0, -0.0], [0, 0]),
    ("atan2 above the origin", lambda x: x.atan2(0.0), [0.0, -0.0, 1.0], [0, 0, 0]),
    ("hypot at 0", lambda x: x.hypot(0.0), [3.0, -3.0], [1, -1]),
    ("sign", lambda x: x.sign() * 2 + x, [0.0, -3.0], [1, 1]),
    ("round", lambda x: x.round() + x, [0.5], [1]),
    ("logsumexp at -inf", lambda x: x.logsumexp(), [-INF, 0.0], [0, 1]),
    ("softmax far apart", lambda x: x.softmax()[0], [1000.0, -1000.0], [0, 0]),
    ("median of where", lambda x: (x > 1).where(x.log(), 0.0), [0.0, 2.0], [math.nan, 0.5]),
]


@pytest.mark.parametrize(
    ("f", "points", "wanted"), [c[1:] for c in POINTS], ids=[c[0] for c in POINTS]
)
def test_slope_at_a_point(
    device: str, f: Callable[[Tensor], Tensor], points: list[float], wanted: list[float]
) -> None:
    np.testing.assert_allclose(slope(f, points), wanted, rtol=1e-12, atol=1e-300)


def test_half_max_over_seventy_thousand_ties(device: str) -> None:
    x = Tensor(np.ones(70_000, np.float16))
    (g,) = x.max().gradient(x, gradient=Tensor(1000.0).half())
    assert g.dtype.name == "float16"
    np.testing.assert_allclose(g.numpy().astype(np.float64), 1000 / 70_000, rtol=1e-3)


def test_half_gradients_of_broadcasts_accumulate_in_float32(device: str) -> None:
    bias = Tensor(np.zeros(1, np.float16))
    (g,) = bias.expand(4096).gradient(bias, gradient=Tensor(np.full(4096, 0.25, np.float16)))
    assert g.tolist() == [1024.0]


def test_expm1_next_to_zero_bends_as_exp_does(device: str) -> None:
    x = Tensor([0.0, -0.0, 1e-30, -1e-21, 1e-10])
    value = x.expm1()
    (slope,) = value.sum().gradient(x)
    (bend,) = slope.sum().gradient(x)
    assert str(value.tolist()) == str(x.tolist())
    assert (slope.tolist(), bend.tolist()) == ([1.0] * 5, [1.0] * 5)


def test_repeated_indices_add_up(device: str) -> None:
    table = Tensor(np.zeros((3, 2), np.float32))
    (g,) = table[Tensor([0, 2, 0])].sum().gradient(table)
    assert g.tolist() == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]


def test_the_last_write_takes_the_gradient(device: str) -> None:
    x, v = Tensor([1.0, 2.0]), Tensor([5.0, 6.0])
    gx, gv = x.scatter(0, Tensor([1, 1]), v).sum().gradient(x, v)
    assert (gx.tolist(), gv.tolist()) == ([1.0, 0.0], [0.0, 1.0])


def test_empty_and_0d_tensors(device: str) -> None:
    x = Tensor(np.zeros((0, 3), np.float32))
    (g,) = (x * 2).sum().gradient(x)
    assert g.shape == (0, 3)
    y = Tensor(3.0)
    (g,) = (y * y).gradient(y)
    assert g.item() == 6.0


def test_a_cast_to_integers_lets_nothing_through(device: str) -> None:
    x = Tensor([1.5])
    (g,) = (x.int().float() * x).sum().gradient(x)
    assert g.tolist() == [1.0]


def test_scatter_by_extremes_shares_among_equals_and_by_products_gives_the_rest(
    device: str,
) -> None:
    x, y = Tensor([1.0, 2.0, 0.0]), Tensor([3.0, 3.0, 2.0, 5.0])
    index = Tensor([0, 0, 1, 2])
    gx, gy = x.scatter_reduce(0, index, y, "amax").sum().gradient(x, y)
    assert (gx.tolist(), gy.tolist()) == ([0.0, 0.5, 0.0], [0.5, 0.5, 0.5, 1.0])
    gx, gy = x.scatter_reduce(0, index, y, "prod").sum().gradient(x, y)
    assert (gx.tolist(), gy.tolist()) == ([9.0, 2.0, 5.0], [3.0, 3.0, 2.0, 0.0])


STEPS: dict[str, Any] = {  # constant almost everywhere
    "sign": lambda x: x.sign(),
    "floor": lambda x: x.floor(),
    "ceil": lambda x: x.ceil(),
    "trunc": lambda x: x.trunc(),
    "round": lambda x: x.round(),
    "round to decimals": lambda x: x.round(1),
    "div, floor": lambda x: x.div(2.0, rounding_mode="floor"),
    "div, trunc": lambda x: x.div(x, rounding_mode="trunc"),
    "the sign of copysign": lambda x: Tensor.ones(8, device=x.device).copysign(x),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_slope_of_steps_is_zero_and_no_error(device: str, name: str) -> None:
    """F042. As torch's; at steps, infinities and NaN too."""
    a = np.array([1.25, -0.5, 0.0, 2.0, -3.0, 1e30, np.inf, np.nan], np.float32)
    x = Tensor(a, requires_grad=True)
    STEPS[name](x).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros(8, np.float32))
    (again,) = STEPS[name](x).gradient(x, gradient=np.full(8, np.inf, np.float32))
    np.testing.assert_array_equal(again.numpy(), np.zeros(8, np.float32))


def test_steps_have_zeros_beside_what_else_flows(device: str) -> None:
    x = Tensor([5.5, -5.5], requires_grad=True)
    (x // 2.0 + x - x.floor() + x.sign()).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]


def test_slopes_of_copysign_and_nextafter(device: str) -> None:
    """As torch's: the sign is a step, the next float goes along."""
    for name, wanted in (("copysign", [1.0, -1.0, -1.0, 1.0, 0.0]), ("nextafter", [1.0] * 5)):
        x = Tensor([1.5, -2.0, 3.0, -4.0, 0.0], requires_grad=True)
        y = Tensor([1.0, 1.0, -1.0, -1.0, 1.0], requires_grad=True)
        getattr(x, name)(y).sum().backward()
        assert x.grad is not None and y.grad is not None
        assert (x.grad.tolist(), y.grad.tolist()) == (wanted, [0.0] * 5)
