"""A row of a table: the same thing in both libraries, and how the two are compared.

Every operand is a strided view, so no row depends on memory that happens to be in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from polygrad import Tensor

Function = Callable[..., Any]
Shape = tuple[int, ...]


class Row(NamedTuple):
    """`theirs` None: the same expression is right for both. `slope`: operands whose gradients are
    compared, all by default."""

    name: str
    ours: Function
    theirs: Function | None
    shapes: tuple[Shape, ...]
    slope: range | None = None


def row(name: str, ours: Function, theirs: Function | None, *shapes: Shape) -> Row:
    return Row(name, ours, theirs, shapes)


def fixed(name: str, ours: Function, theirs: Function | None, *shapes: Shape) -> Row:
    """A row whose result has no gradient."""
    return Row(name, ours, theirs, shapes, range(0))


def first(name: str, ours: Function, theirs: Function | None, *shapes: Shape) -> Row:
    """A row of which only the first operand takes a gradient."""
    return Row(name, ours, theirs, shapes, range(1))


def compare(case: Row, rng: np.random.Generator) -> None:
    stored = [rng.uniform(-2, 2, (*s[::-1], 2)) for s in case.shapes]
    peers = [torch.tensor(a, requires_grad=True) for a in stored]
    own = [Tensor(a, requires_grad=True) for a in stored]
    mine = case.ours(*(_viewed(x) for x in own))
    wanted = (case.theirs or case.ours)(*(_viewed(t) for t in peers))
    got, other = mine.numpy(), wanted.detach().numpy()
    assert (got.dtype, got.shape) == (other.dtype, other.shape)
    np.testing.assert_allclose(got, other, rtol=1e-9, atol=1e-10)
    if case.slope == range(0):
        return
    weight = rng.uniform(0.5, 1.5, got.shape)
    (mine * Tensor(weight)).sum().backward()
    (wanted * torch.tensor(weight)).sum().backward()
    chosen = range(len(own)) if case.slope is None else case.slope
    for x, t in ((own[i], peers[i]) for i in chosen):
        slope = np.zeros(x.shape) if x.grad is None else x.grad.numpy()
        np.testing.assert_allclose(slope, t.grad.numpy(), rtol=1e-8, atol=1e-9)


def _viewed(x: Any) -> Any:
    """Every second element, axes in reverse: neither in order nor without gaps."""
    x = x[..., 1]
    return x.permute(tuple(range(x.ndim))[::-1]) if x.ndim else x
