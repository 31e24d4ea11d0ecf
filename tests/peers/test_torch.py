"""The same expression, written once, gives torch's values and torch's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from polygrad import Tensor
from polygrad.testing.narrow_floats import nearest, to_words

# name -> (expression of both libraries, shapes of its operands)
EXPRESSIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "add": (lambda a, b: a + b, [(3, 4), (4,)]),
    "sub": (lambda a, b: a - b, [(3, 1), (1, 4)]),
    "mul": (lambda a, b: a * b, [(2, 3, 4), (3, 1)]),
    "div": (lambda a, b: a / (b * b + 1), [(3, 4), (3, 4)]),
    "pow": (lambda a: (a * a + 1) ** 1.5, [(5,)]),
    "exp": (lambda a: a.exp(), [(3, 4)]),
    "log": (lambda a: (a * a + 0.5).log(), [(3, 4)]),
    "sqrt": (lambda a: (a * a + 0.5).sqrt(), [(3, 4)]),
    "sin": (lambda a: a.sin(), [(3, 4)]),
    "cos": (lambda a: a.cos(), [(3, 4)]),
    "tanh": (lambda a: a.tanh(), [(3, 4)]),
    "sigmoid": (lambda a: a.sigmoid(), [(3, 4)]),
    "relu": (lambda a: a.relu(), [(3, 4)]),
    "abs": (lambda a: a.abs(), [(3, 4)]),
    "erf": (lambda a: a.erf(), [(3, 4)]),
    "sum": (lambda a: a.sum(), [(3, 4)]),
    "sum of an axis": (lambda a: a.sum(1) * 2, [(3, 4, 2)]),
    "mean": (lambda a: a.mean(0), [(3, 4)]),
    "var": (lambda a: a.var(1), [(3, 5)]),
    "std": (lambda a: a.std(1), [(3, 5)]),
    "softmax": (lambda a: a.softmax(-1), [(3, 7)]),
    "log_softmax": (lambda a: a.log_softmax(0), [(3, 7)]),
    "logsumexp": (lambda a: a.logsumexp(1), [(3, 7)]),
    "matmul": (lambda a, b: a @ b, [(5, 3), (3, 4)]),
    "batched matmul": (lambda a, b: a @ b, [(2, 5, 3), (2, 3, 4)]),
    "vector by matrix": (lambda a, b: a @ b, [(3,), (3, 4)]),
    "reshape": (lambda a: a.reshape(4, 3) * 2, [(3, 4)]),
    "transpose": (lambda a: a.transpose(0, 1) * 2, [(3, 4)]),
    "permute": (lambda a: a.permute(2, 0, 1) * 2, [(2, 3, 4)]),
    "slice": (lambda a: a[1:, ::2] * 2, [(3, 5)]),
    "unsqueeze": (lambda a: a.unsqueeze(1) * 2, [(3, 5)]),
    "layer norm by hand": (
        lambda a: (a - a.mean(1).unsqueeze(1)) / (a.var(1).unsqueeze(1) + 1e-5).sqrt(),
        [(4, 6)],
    ),
    "attention by hand": (
        lambda q, k, v: (q @ k.transpose(1, 2) * 0.5).softmax(-1) @ v,
        [(2, 5, 4), (2, 6, 4), (2, 6, 3)],
    ),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_and_gradients_are_torchs(name: str, device: str, rng: np.random.Generator) -> None:
    expression, shapes = EXPRESSIONS[name]
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    ours = [Tensor(array, requires_grad=True) for array in arrays]
    theirs = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in arrays]
    mine, peer = expression(*ours), expression(*theirs)
    assert mine.shape == tuple(peer.shape)
    np.testing.assert_allclose(mine.numpy(), peer.detach().numpy(), rtol=2e-5, atol=2e-6)
    # Weighted, so that a gradient which sums to nothing cannot hide a fault.
    weight = rng.normal(size=mine.shape).astype(np.float32)
    (mine * Tensor(weight)).sum().backward()
    (peer * torch.tensor(weight)).sum().backward()
    for tensor, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(
            tensor.grad.numpy(), other.grad.numpy(), rtol=2e-4, atol=2e-5, err_msg=name
        )


BYTES = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


@pytest.mark.parametrize("name", (*BYTES, "bfloat16"))
def test_narrow_floats_have_torchs_bits(name: str, device: str, rng: np.random.Generator) -> None:
    """Every float16 number, float32 numbers of all sizes, and every bit pattern back."""
    theirs, word = getattr(torch, name), torch.int16 if name == "bfloat16" else torch.uint8
    ours = f"uint{8 * theirs.itemsize}"
    every = np.arange(1 << 16, dtype="uint16").view("float16").astype("float32")
    some = rng.integers(0, 1 << 32, 20000, dtype="uint32").view("float32")
    x = np.concatenate([every, some])
    expected = torch.from_numpy(x).to(theirs).view(word).numpy().view(ours)
    if name == "bfloat16":  # torch gives any NaN the one pattern
        x, expected = x[~np.isnan(x)], expected[~np.isnan(x)]
    np.testing.assert_array_equal(Tensor(x).cast(name).bitcast(ours).numpy(), expected)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        oracle = to_words(nearest(x, name), name)
    np.testing.assert_array_equal(oracle, expected)
    codes = np.arange(1 << 8 * theirs.itemsize).astype(ours)
    back = torch.from_numpy(codes.view(f"i{theirs.itemsize}")).view(theirs).float().numpy()
    np.testing.assert_array_equal(Tensor(codes).bitcast(name).float().numpy(), back)


@pytest.mark.parametrize("name", BYTES)
def test_narrow_floats_of_torch_come_in(name: str, device: str) -> None:
    there = torch.tensor([[1.0, -2.5], [0.375, 96.0]]).to(getattr(torch, name))
    here = Tensor(there)
    assert here.dtype.name == name
    assert here.tolist() == there.float().tolist()
