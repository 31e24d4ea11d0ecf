"""Kernels made for vectors of another size than this machine's: recipes take their numbers from the
Target, and a machine with others must not find a loop that nobody has tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from polygrad import Context, Tensor
from polygrad import device as devices
from polygrad.engine import Runtime, use

Program = tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]  # and the shapes of its inputs

PROGRAMS: dict[str, Program] = {
    "convolution": (lambda x, w: x.conv2d(w, padding=1), ((4, 3, 12, 13), (5, 3, 3, 3))),
    "first layer": (lambda x, w: x.conv2d(w), ((8, 1, 14, 14), (12, 1, 3, 3))),
    "wide filter": (lambda x, w: x.conv2d(w), ((3, 2, 9, 40), (8, 2, 5, 5))),
    "depthwise": (lambda x, w: x.conv2d(w, groups=6), ((2, 6, 9, 17), (6, 1, 3, 3))),
    "dots": (lambda a, b: a @ b.T, ((13, 40), (7, 40))),
    "product": (lambda a, b: a @ b, ((33, 17), (17, 61))),
    "batched": (lambda a, b: a @ b, ((5, 6, 12), (5, 12, 20))),
    "attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        ((2, 2, 19, 24),) * 3,
    ),
    "rows": (lambda x, y: x.softmax() + y.layernorm(), ((9, 131), (9, 131))),
    "sums": (lambda x: x.sum(0) + x.cumsum(1).max(0) + x.square().sum(1)[:37], ((70, 37),)),
    "pooling": (lambda x: x.max_pool2d() + x.avg_pool2d(), ((3, 2, 14, 22),)),
}


@pytest.fixture(scope="module", params=[16, 32, 64])
def width(request: pytest.FixtureRequest) -> Iterator[int]:
    """The cpu device, opened anew for vectors of so many bytes."""
    settings = Context(POLY_CPU_VECTOR=request.param, POLY_CACHE=0)
    with settings, devices.isolated(), use(Runtime(f"vectors of {request.param}")):
        yield request.param


def results(program: Program, device: str) -> list[np.ndarray]:
    """The value and the gradients of all inputs."""
    function, shapes = program
    rng = np.random.default_rng(7)
    data = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    inputs = [Tensor(d, device=device, requires_grad=True) for d in data]
    out = function(*inputs)
    seed = Tensor(rng.standard_normal(out.shape).astype(np.float32), device=device)
    return [t.numpy() for t in (out, *(out * seed).sum().gradient(*inputs))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_the_reference_device(width: int, name: str) -> None:
    assert devices.get("cpu").target.vector_bytes == width
    pairs = zip(results(PROGRAMS[name], "cpu"), results(PROGRAMS[name], "interp"), strict=True)
    for ours, reference in pairs:
        np.testing.assert_allclose(ours, reference, rtol=2e-5, atol=2e-5)
