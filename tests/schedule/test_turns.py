"""Sums in parts for many tiles in turn: what is cut, what goes through each part, the values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad import device as devices
from polygrad.codegen import transform as verbs
from polygrad.codegen.kernel import FEW_BLOCKS, Kernel, canonical, length, misplaced
from polygrad.codegen.recipes import choose, reference
from polygrad.dtype import dtypes
from polygrad.schedule import schedule
from polygrad.target import Target
from polygrad.uop.ops import Ops, UOp, size

# A processor with 256-bit vectors, whatever this one has; and one whose first cache holds little.
SHORT = replace(
    devices.get("cpu").target,
    vector_bytes=32,
    registers=16,
    cache_bytes=(32 << 10, 512 << 10),
    cores=2,
)
NARROW = replace(SHORT, cache_bytes=(8 << 10, 1 << 20), cores=1)


def convolution(channels: int, side: int, target: Target = SHORT) -> Kernel:
    root = Tensor.empty(8, channels, side, side).conv2d(Tensor.empty(64, channels, 3, 3), padding=1)
    lanes = target.vector_bytes // 4
    items = schedule([root.uop], "cpu", lanes=lambda device: lanes).items
    kernels = [choose(canonical(i.sink), target) for i in items]
    (kernel,) = (k for k in kernels if k.recipe == "contraction")
    return kernel


@pytest.mark.parametrize(("channels", "side"), [(64, 56), (64, 14), (256, 14), (256, 7)])
def test_tiles_go_through_a_part_that_stays_in_the_first_cache(channels: int, side: int) -> None:
    kernel = convolution(channels, side)
    (parts,) = kernel.of_kind("subtotal")
    assert length(parts) * size([length(r) for r in _terms(kernel, parts)]) == channels * 9
    assert _inside(kernel, parts)
    vectors = size([length(r) for r in kernel.of_kind("vector")])
    tile = [length(r) for r in kernel.of_kind("unroll") if r not in kernel.reduced]
    read = (min(tile) * vectors + max(tile)) * 4 if len(tile) > 1 else (vectors + tile[0]) * 4
    assert read * size([length(r) for r in _terms(kernel, parts)]) <= 32 << 10


def test_what_the_first_cache_holds_is_not_cut() -> None:
    assert not convolution(16, 56).of_kind("subtotal")


def test_the_parts_do_not_depend_on_the_cores() -> None:
    """A sum has one order, however many threads there are."""
    lengths = set()
    for cores in (1, 2, 8, 64, 1024):
        (parts,) = convolution(128, 14, replace(SHORT, cores=cores)).of_kind("subtotal")
        lengths.add(length(parts))
    assert len(lengths) == 1


@pytest.mark.parametrize(
    ("images", "filters"),
    [
        ((2, 48, 17, 24), (7, 48, 3, 3)),
        ((19, 36, 9, 16), (13, 36, 3, 5)),
        ((17, 24, 7, 8), (33, 24, 3, 3)),
        ((2, 31, 13, 8), (6, 31, 3, 3)),  # a prime number of channels stays whole
    ],
)
def test_convolutions_in_parts_have_the_values_of_the_reference(
    run_kernels: Any, images: tuple[int, ...], filters: tuple[int, ...]
) -> None:
    x, w = Tensor.empty(*images), Tensor.empty(*filters)
    draw = np.random.default_rng(0)
    data = {t.uop: draw.normal(size=t.shape).astype(np.float32) for t in (x, w)}
    root = x.conv2d(w, padding=1).uop
    cut: list[list[UOp]] = []

    def narrow(kernel: Kernel, target: Target) -> Kernel:
        made = choose(kernel, NARROW)
        cut.extend(_inside(made, r) for r in made.of_kind("subtotal"))
        return made

    (want,) = run_kernels([root], data, "interp", lambda k, t: reference(k))
    (got,) = run_kernels([root], data, "cpu", narrow)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert any(cut) == (images[1] != 31)


@pytest.mark.parametrize("parts", [2, 5, FEW_BLOCKS, FEW_BLOCKS + 1])
@pytest.mark.parametrize("rows", [1, 7])
def test_rows_inside_of_the_parts_of_their_sum(run_kernels: Any, parts: int, rows: int) -> None:
    x = UOp.buffer(dtypes.float32, (3, rows, 3 * parts), "cpu")
    data = {x: np.random.default_rng(1).integers(0, 9, x.shape).astype(np.float32)}
    root = x.reduce(Ops.ADD, (2,))

    def turned(kernel: Kernel, target: Target) -> Kernel:
        *outer, terms = kernel.order
        made = verbs.split(kernel, terms, 3)
        cut, inside = verbs.parts_of(kernel, made)
        made = verbs.subtotals(made, cut)
        made = verbs.reorder(made, [*outer[:-1], cut, outer[-1], inside])
        assert misplaced(made) is None
        return made

    (got,) = run_kernels([root], data, "cpu", turned)
    np.testing.assert_array_equal(got.ravel(), data[x].sum(2).ravel())


def _inside(kernel: Kernel, parts: UOp) -> list[UOp]:
    """The ranges of the results that go through each part."""
    after = kernel.order[kernel.order.index(parts) + 1 :]
    return [r for r in after if r not in kernel.reduced and kernel.kind(r) == "loop"]


def _terms(kernel: Kernel, parts: UOp) -> list[UOp]:
    return [r for r in kernel.reduced if r is not parts]
