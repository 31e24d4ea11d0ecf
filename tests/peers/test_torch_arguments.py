"""Arguments and names that code written for torch uses: values, dtypes, gradients are torch's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from polygrad import Tensor
from polygrad.errors import DTypeError, ShapeError

from .rows import Row, compare, first, fixed, row

# ---- arguments


def arguments() -> Iterator[Row]:
    for scale in (0.3, 0.0, None):

        def ours(q: Any, k: Any, v: Any, scale: Any = scale) -> Any:
            return q.scaled_dot_product_attention(k, v, scale=scale)

        def theirs(q: Any, k: Any, v: Any, scale: Any = scale) -> Any:
            return F.scaled_dot_product_attention(q, k, v, scale=scale)

        yield row(f"attention, scale {scale}", ours, theirs, (2, 5, 6), (2, 7, 6), (2, 7, 3))
    for mode, shape, size in (
        ("bilinear", (1, 2, 4, 5), (3, 9)),
        ("bilinear", (1, 2, 4, 5), 6),
        ("nearest", (1, 2, 5), 3),
        ("trilinear", (1, 1, 2, 3, 4), (4, 2, 5)),
    ):
        yield row(
            f"interpolate {mode} to {size}",
            lambda x, mode=mode, size=size: x.interpolate(size, mode=mode),
            lambda x, mode=mode, size=size: F.interpolate(x, size, mode=mode),
            shape,
        )
    yield row(
        "tensordot, dims",
        lambda a, b: a.tensordot(b, dims=2),
        lambda a, b: torch.tensordot(a, b, dims=2),
        (3, 4, 2),
        (4, 2, 5),
    )
    yield row("flip, dims", lambda x: x.flip(dims=(0, 1)), None, (2, 3, 4))
    yield row("flip, a list of dims", lambda x: x.flip(dims=[1]), None, (2, 3))
    yield row("permute, dims", lambda x: x.permute(dims=(2, 0, 1)), None, (2, 3, 4))
    yield row("norm fro", lambda x: x.norm("fro"), None, (3, 4))
    yield row("norm fro of an axis", lambda x: x.norm("fro", dim=1), None, (3, 4))
    yield row(
        "leaky_relu, negative_slope",
        lambda x: x.leaky_relu(negative_slope=0.2),
        lambda x: F.leaky_relu(x, negative_slope=0.2),
        (3, 4),
    )
    yield row(
        "leaky_relu, slope 0", lambda x: x.leaky_relu(0), lambda x: F.leaky_relu(x, 0), (3, 4)
    )
    yield row("mean, dtype", lambda x: x.mean(1, dtype=_f32(x)), None, (3, 4))
    for repeats in ([1, 0, 2], [0, 0, 0], [2]):
        yield row(
            f"repeat_interleave {repeats}",
            lambda x, r=repeats: x.repeat_interleave(_vector(x, r), dim=0),
            None,
            (3, 2),
        )
    yield first(
        "addmm without its first part",
        lambda a, b: (a.detach() * 0).log().addmm(a, b, beta=0),
        None,
        (3, 3),
        (3, 3),
    )


def _f32(x: Any) -> Any:
    return "float32" if isinstance(x, Tensor) else torch.float32


def _vector(x: Any, values: list[int]) -> Any:
    return Tensor(values) if isinstance(x, Tensor) else torch.tensor(values)


# ---- names

SAME = (
    "arcsinh arctan fix negative frac deg2rad rad2deg sgn nansum nanmean t fliplr flipud diagflat"
)
OF_TWO = "subtract multiply divide true_divide arctan2 fmax fmin dist inner"
COMPARED = "greater greater_equal less less_equal not_equal"


def names() -> Iterator[Row]:
    for name in SAME.split():
        yield row(name, lambda x, name=name: getattr(x, name)(), None, (3, 4))
    for name in ["arccos", "arcsin", "arctanh", "logit"]:  # of what lies inside their domain
        yield row(name, lambda x, name=name: getattr(x.sigmoid(), name)(), None, (3, 4))
    yield row("arccosh", lambda x: (x.exp() + 1).arccosh(), None, (3, 4))
    yield row("logit, eps", lambda x: x.sigmoid().logit(0.3), None, (3, 4))
    for name in OF_TWO.split():
        yield row(name, lambda a, b, name=name: getattr(a, name)(b), None, (3, 4), (3, 4))
    for name in COMPARED.split():
        yield fixed(name, lambda a, b, name=name: getattr(a, name)(b), None, (3, 4), (4,))
    yield row("xlogy", lambda a, b: a.xlogy(b.exp()), None, (3, 4), (4,))
    yield row("clamp_min", lambda x: x.clamp_min(0.1), None, (3, 4))
    yield row("clamp_max", lambda x: x.clamp_max(0.1), None, (3, 4))
    yield row("addcmul", lambda x, a, b: x.addcmul(a, b, value=0.5), None, (3, 4), (3, 4), (4,))
    yield row(
        "addcdiv", lambda x, a, b: x.addcdiv(a, b.exp(), value=0.5), None, (3, 4), (3, 4), (4,)
    )
    yield row("prelu", lambda x, w: x.prelu(w), F.prelu, (2, 4, 3), (4,))
    yield row("softshrink", lambda x: x.softshrink(0.3), lambda x: F.softshrink(x, 0.3), (3, 4))
    yield row("hardshrink", lambda x: x.hardshrink(0.3), lambda x: F.hardshrink(x, 0.3), (3, 4))
    yield row("threshold", lambda x: x.threshold(0.1, 9), lambda x: F.threshold(x, 0.1, 9), (3,))
    yield row(
        "cosine_similarity",
        lambda a, b: a.cosine_similarity(b, dim=-1),
        lambda a, b: F.cosine_similarity(a, b, dim=-1),
        (3, 4),
        (3, 4),
    )
    yield row("aminmax", lambda x: x.aminmax(dim=1)[1], lambda x: x.amax(1), (3, 4))


def names_of_arrays() -> Iterator[Row]:
    yield row("vdot", lambda a, b: a.vdot(b), None, (4,), (4,))
    yield row("mv", lambda a, b: a.mv(b), None, (3, 4), (4,))
    yield row("ger", lambda a, b: a.ger(b), None, (3,), (4,))
    yield row(
        "baddbmm",
        lambda x, a, b: x.baddbmm(a, b, beta=0.5, alpha=2),
        None,
        (2, 3, 3),
        (2, 3, 4),
        (2, 4, 3),
    )
    for n in (0, 1, 5, -3):
        yield row(f"matrix_power {n}", lambda x, n=n: _regular(x).matrix_power(n), None, (2, 3, 3))
    yield row("logdet", lambda x: _regular(x).logdet(), None, (2, 3, 3))
    yield row("reshape_as", lambda x: x.reshape_as(x.t()), None, (3, 4))
    yield row("swapdims", lambda x: x.swapdims(0, 1), None, (3, 4))
    yield row("select", lambda x: x.select(1, -2), None, (3, 4))
    for cut in (3, 5, [1, 3], [3, 1], [-1]):
        yield row(
            f"tensor_split {cut}",
            lambda x, cut=cut: _ends(x.tensor_split(cut, dim=1)),
            None,
            (2, 4),
        )
    yield row("index_fill", lambda x: x.index_fill(1, _vector(x, [0, 2]), 7.0), None, (3, 4))
    yield row(
        "index_copy", lambda x, s: x.index_copy(0, _vector(x, [2, 0]), s), None, (3, 4), (2, 4)
    )
    yield fixed("nelement", lambda x: x.new_full((1,), x.nelement()), None, (3, 4))
    yield fixed("ndimension", lambda x: x.new_full((), x.ndimension()), None, (3, 4))
    yield fixed("new_zeros", lambda x: x.new_zeros(2, 3), None, (1,))
    yield fixed("new_ones", lambda x: x.new_ones((2,)), None, (1,))
    yield fixed("new_empty", lambda x: x.new_empty(2, 0), None, (1,))
    yield fixed("new_tensor", lambda x: x.new_tensor([1, 2]), _doubles, (1,))


def _regular(x: Any) -> Any:
    return x.tanh() + x.new_tensor(np.eye(3) * 3.0)


def _ends(pieces: Any) -> Any:
    return pieces[0].sum() + pieces[-1].sum() * 2


def _doubles(x: Any) -> Any:
    return torch.tensor([1.0, 2.0], dtype=torch.float64)


# ---- in place: the value, and what was computed from the old one

CHANGES: dict[str, Any] = {
    "add_": lambda x, y: x.add_(y, alpha=-0.5),
    "add_ a number": lambda x, y: x.add_(2),
    "sub_": lambda x, y: x.sub_(y[:1], alpha=2),
    "mul_": lambda x, y: x.mul_(y),
    "div_": lambda x, y: x.div_(3),
    "pow_": lambda x, y: x.pow_(2),
    "lerp_": lambda x, y: x.lerp_(y, 0.25),
    "clamp_": lambda x, y: x.clamp_(min=-0.2, max=0.2),
    "fill_": lambda x, y: x.fill_(2),
    "zero_": lambda x, y: x.zero_(),
    "copy_": lambda x, y: x.copy_(y[:1]),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, 1.0),
    "scatter_": lambda x, y: x.scatter_(1, _column(x), y),
    "scatter_ a number": lambda x, y: x.scatter_(1, _column(x), 7.0),
    "scatter_add_": lambda x, y: x.scatter_add_(1, _column(x), y),
    "index_add_": lambda x, y: x.index_add_(0, _vector(x, [0, 0, 1]), y, alpha=2),
    "index_put_": lambda x, y: x.index_put_((_vector(x, [0, 2]),), y[:2]),
    "a step of an optimizer": lambda x, y: x.mul_(0.9).add_(y, alpha=0.1),
}


def _column(x: Any) -> Any:
    return _vector(x, [0, 1, 3]).reshape(3, 1)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_in_place_is_torchs(name: str, device: str, rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(2, 3, 4))
    x, peer = Tensor(a), torch.tensor(a)
    before = (x * 1, peer * 1)
    assert CHANGES[name](x, Tensor(b)) is x
    CHANGES[name](peer, torch.tensor(b))
    np.testing.assert_allclose(x.numpy(), peer.numpy(), rtol=1e-12)
    np.testing.assert_array_equal(*(t.numpy() for t in before))


def test_draws_in_place(device: str) -> None:
    x = Tensor.zeros(2000, dtype="float64")
    drawn = x.uniform_(-2, 3).numpy()
    assert -2 <= drawn.min() < -1.9 and 2.9 < drawn.max() < 3
    drawn = x.normal_(1, 2).numpy()
    assert abs(drawn.mean() - 1) < 0.2 and abs(drawn.std() - 2) < 0.2
    assert drawn.dtype == np.float64


def test_what_does_not_fit_in_place(device: str) -> None:
    x = Tensor([1, 2])
    with pytest.raises(DTypeError, match=r"add_: a result of float32 .* use x = x\.add\(\.\.\.\)"):
        x.add_(1.5)
    with pytest.raises(ShapeError, match=r"mul_: the result \(2, 2\) does not fit shape \(2,\)"):
        x.mul_(Tensor([[1], [2]]))
    assert x.tolist() == [1, 2]


ROWS = [*arguments(), *names(), *names_of_arrays()]


@pytest.mark.parametrize("case", ROWS, ids=[r.name for r in ROWS])
def test_an_argument_or_name_is_torchs(case: Row, device: str, rng: np.random.Generator) -> None:
    compare(case, rng)
