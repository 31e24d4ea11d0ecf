"""Large matrix products read their second factor in panels: another layout, the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.codegen.chain_stages import is_chain
from polygrad.schedule import KernelItem, schedule
from polygrad.uop.linear import coefficient, ranges_of
from polygrad.uop.ops import Ops, size

RNG = np.random.default_rng(11)


def arrays(m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    return (
        RNG.standard_normal((m, k)).astype(np.float32),
        RNG.standard_normal((k, n)).astype(np.float32),
    )


@pytest.mark.parametrize("form", ["plain", "left turned", "right turned", "expression"])
def test_a_packed_product_is_numpys(form: str, device: str) -> None:
    a, b = arrays(130, 384, 400)
    left = Tensor(a.T.copy()).T if form == "left turned" else Tensor(a)
    right = Tensor(b.T.copy()).T if form == "right turned" else Tensor(b)
    if form == "expression":
        right, b = right * 2 + 1, b * 2 + 1
    want = a.astype(np.float64) @ b
    np.testing.assert_allclose((left @ right).numpy(), want, rtol=1e-4, atol=1e-3)


def test_packing_is_one_more_kernel_and_only_where_it_pays() -> None:
    def kernels(m: int, k: int, n: int) -> int:
        a, b = (Tensor(x).realize() for x in arrays(m, k, n))
        return len(schedule([((a @ b) + 1).relu().uop], "cpu").items)

    assert kernels(512, 512, 512) == 2
    assert kernels(256, 256, 256) == 1  # stays near the core
    assert kernels(32, 784, 512) == 1  # too few rows to pay for a copy
    assert kernels(512, 512, 500) == 1  # columns do not fill panels


def test_a_smaller_factor_that_lies_along_the_sum_is_packed() -> None:
    """Else they are dot products (AVX2, one thread, 256 x 256 x 256: 80 -> 97 GFLOP/s)."""

    def kernels(m: int, k: int, n: int) -> int:
        return len(kernels_of(Tensor.empty(m, k) @ Tensor.empty(n, k).T))

    assert kernels(128, 192, 96) == 2
    assert kernels(128, 192, 80) == 1
    assert kernels(128, 192, 100) == 1


@pytest.mark.parametrize(("m", "k", "n"), [(131, 200, 96), (257, 131, 144), (128, 192, 96)])
def test_a_product_with_a_small_turned_factor_is_numpys(
    m: int, k: int, n: int, device: str
) -> None:
    a, b = arrays(m, k, n)
    got = Tensor(a) @ Tensor(b.T.copy()).T
    np.testing.assert_allclose(got.numpy(), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("columns", "lanes", "width"), [(512, 16, 32), (400, 16, 16), (512, 8, 16), (512, 4, 16)]
)
def test_a_panel_is_as_wide_as_two_vectors_where_that_divides(
    columns: int, lanes: int, width: int
) -> None:
    first = kernels_of(Tensor.empty(512, 512) @ Tensor.empty(512, columns), lanes=lanes)[0]
    lengths = [n.src[1].arg for n in first.sink.toposort() if n.op is Ops.RANGE]
    assert sorted(lengths) == sorted([columns // width, 512, width])


def test_gradients_go_through_packed_products(device: str) -> None:
    a, b = arrays(128, 384, 384)
    x, y = Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)
    (x @ y).sum().backward()
    np.testing.assert_allclose(
        x.grad.numpy(), np.broadcast_to(b.sum(1), a.shape), rtol=1e-4, atol=1e-3
    )
    np.testing.assert_allclose(
        y.grad.numpy(), np.broadcast_to(a.sum(0)[:, None], b.shape), rtol=1e-4, atol=1e-3
    )


def strips(x: Tensor, w: Tensor, follow: Callable[[Tensor], Tensor]) -> bool:
    """Is the last kernel of a product a chain over strips, with the second factor's in scratch?"""
    sink = kernels_of(follow(x @ w), lanes=8)[-1].sink
    kept = [n.arg[0] for n in sink.toposort() if n.op is Ops.LOCAL]
    return is_chain(sink) and kept == [16 * w.shape[0]]


FOLLOW = {
    "nothing": lambda y: y,
    "bias": lambda y: (y + Tensor.empty(y.shape[-1])).relu(),
    "softmax": lambda y: y.softmax(),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("follow", ["nothing", "bias"])
def test_few_rows_copy_strips_of_the_other_factor_where_they_are_used(
    dtype: str, follow: str
) -> None:
    def near(m: int, k: int, n: int) -> bool:
        x, w = (Tensor.empty(*shape, dtype=dtype) for shape in ((m, k), (k, n)))
        return strips(x, w, FOLLOW[follow])

    assert near(16, 300, 512)
    assert near(16, 300, 2048)
    assert near(255, 1000, 512)
    assert not near(15, 300, 512)  # one tile reads each strip once
    # a copy of the whole is used often enough, one with a conversion is not
    assert near(256, 300, 512) == dtype.endswith("float16")
    assert not near(64, 300, 480)  # strips for few cores
    assert not near(64, 300, 520)  # columns do not fill panels
    assert not near(64, 200, 512)  # stays near the core as it is
    x, w = Tensor.empty(64, 300), Tensor.empty(300, 512)
    assert len(kernels_of(x @ w)) == 1  # and where there are no vectors


def test_strips_that_two_products_read_or_that_follow_no_panel_are_no_chain() -> None:
    x, y, w = Tensor.empty(64, 512), Tensor.empty(96, 512), Tensor.empty(512, 512)
    assert not any(is_chain(i.sink) for i in kernels_of(x @ w, y @ w, lanes=8))
    assert not strips(x.reshape(2, 32, 512), Tensor.empty(2, 512, 512), FOLLOW["nothing"])
    assert not strips(Tensor.empty(64, 16384), Tensor.empty(16384, 512), FOLLOW["nothing"])


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "heads of 80": lambda y: y.reshape(-1, 12, 80).permute(1, 0, 2),
    "heads of 64": lambda y: (y + 1).reshape(-1, 15, 64).permute(1, 0, 2),
    "turned": lambda y: y.T,
    "flipped": lambda y: y.flip(1).relu(),
    "most columns": lambda y: y[:, 5:900],
    "every other": lambda y: y[:, ::2],
    "a few columns": lambda y: y[:, :100],
    "the last row": lambda y: y[-1:],
}


@pytest.mark.parametrize("m", [64, 512])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_a_product_leaves_its_factors_as_they_are_read(m: int, view: str) -> None:
    """It is stored first, or not packed: else each element of the view would look for its panel
    (heads of 80, 64 rows: 24 ms instead of 0.8)."""
    y = Tensor.empty(m, 768) @ Tensor.empty(768, 960)
    sinks = [k.sink for k in kernels_of(VIEWS[view](y).contiguous(), lanes=16)]
    (product,) = (n for s in sinks for n in s.toposort() if n.op is Ops.REDUCE)
    for node in product.toposort():
        if node.op in (Ops.FLOORDIV, Ops.FLOORMOD):
            assert node.src[0].op is Ops.RANGE
    few = view in ("a few columns", "the last row")
    assert size([r.src[1].arg for r in ranges_of(product)]) == (
        m * 960 if not few else m * 100 if view == "a few columns" else 960
    )


@pytest.mark.parametrize("follow", ["nothing", "bias", "softmax", "turned", "both turned"])
@pytest.mark.parametrize(("m", "k"), [(16, 288), (37, 301), (130, 600)])
def test_a_product_with_strips_is_numpys(m: int, k: int, follow: str, device: str) -> None:
    a, b = arrays(m, k, 544)
    bias = RNG.standard_normal(544).astype(np.float32)
    x, w, want = Tensor(a), Tensor(b), a.astype(np.float64) @ b
    if follow == "both turned":
        x, w = Tensor(a.T.copy()).T, Tensor(b.reshape(k, 17, 32).transpose(1, 0, 2).copy())
        w = w.permute(1, 0, 2).reshape(k, 544)
    got = x @ w
    if follow == "bias":
        got, want = (got + Tensor(bias)).relu(), np.maximum(want + bias, 0)
    elif follow == "softmax":
        got, want = got.softmax(), np.exp(want - want.max(1, keepdims=True))
        want /= want.sum(1, keepdims=True)
    elif follow == "turned":
        got, want = got.T.contiguous(), want.T
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "int8"])
def test_strips_hold_every_type(dtype: str, device: str) -> None:
    a, b = (RNG.integers(-2, 3, shape) for shape in ((20, 300), (300, 512)))
    x, w = (Tensor(v.astype(np.float32)).cast(dtype) for v in (a, b))
    np.testing.assert_array_equal((x @ w).cast("float64").numpy(), a @ b)


def test_few_rows_are_turned_where_the_columns_lie_along_k() -> None:
    def kernels(m: int, k: int, n: int, turned: bool = True) -> int:
        x, w = Tensor.empty(m, k), Tensor.empty(n, k) if turned else Tensor.empty(k, n)
        return len(schedule([((x @ (w.T if turned else w)) + 1).relu().uop], "cpu").items)

    assert kernels(64, 512, 256) == 3  # the rows, the product, what follows
    assert kernels(64, 512, 256, turned=False) == 1  # vectors run along its columns as it is
    assert kernels(8, 512, 256) == 1  # rows that fill no vector
    assert kernels(64, 512, 10) == 1


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("m", [16, 37, 64])
def test_a_product_of_few_rows_is_numpys(m: int, batch: tuple[int, ...], device: str) -> None:
    x = RNG.standard_normal((*batch, m, 200)).astype(np.float32)
    w = RNG.standard_normal((*batch, 70, 200)).astype(np.float32)
    want = np.maximum(x.astype(np.float64) @ w.astype(np.float64).swapaxes(-1, -2), 0)
    got = (Tensor(x) @ Tensor(w).transpose(-1, -2)).relu()
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)


def test_a_product_that_is_turned_for_the_next_is_computed_in_its_own_order() -> None:
    weights = [Tensor.empty(256, 64, 64), Tensor.empty(256, 64, 64)]
    heads = (weights[0] @ weights[1]).reshape(4, 64, 64, 64).transpose(0, 1)
    out = heads[:, 0].reshape(64, 4096) @ Tensor.empty(512, 4096).T
    for item in kernels_of(out):
        product = next((n for n in item.sink.toposort() if n.op is Ops.REDUCE), None)
        for store in item.sink.src if product is not None else ():
            last = max(ranges_of(store.src[0]), key=lambda r: int(r.arg[0]))
            read = [n.src[0].src[1] for n in product.toposort() if n.op is Ops.LOAD]
            assert {coefficient(offset, last) for offset in read} <= {0, 1}


def test_rows_and_sums_of_two_axes_are_packed_too() -> None:
    x, w, g = Tensor.empty(64, 16, 256), Tensor.empty(256, 256), Tensor.empty(64, 16, 256)
    assert len(kernels_of(x @ w.T)) == 2
    assert len(kernels_of((g.reshape(64, 16, 256, 1) * x.reshape(64, 16, 1, 256)).sum((0, 1)))) == 2


def test_a_batch_of_two_axes_stays_a_chain() -> None:
    q, k, v = (Tensor.empty(2, 128, 3, 64).permute(0, 2, 1, 3) for _ in range(3))
    items = kernels_of(q.scaled_dot_product_attention(k, v, is_causal=True))
    assert any(is_chain(i.sink) for i in items)


@pytest.mark.parametrize("sizes", [(2, 2, 1, 2), (3, 1, 4, 1), (2, 3, 0, 4), (0, 2, 3, 4)])
def test_rows_of_two_axes_may_have_any_length(sizes: tuple[int, ...], device: str) -> None:
    a, b, k, n = sizes
    x = RNG.standard_normal((a, b, k)).astype(np.float32)
    w = RNG.standard_normal((k, n)).astype(np.float32)
    np.testing.assert_allclose((Tensor(x) @ Tensor(w)).numpy(), x @ w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["rows", "sum", "both turned"])
def test_products_over_two_axes_are_numpys(form: str, device: str) -> None:
    x = RNG.standard_normal((40, 16, 130)).astype(np.float32)
    w = RNG.standard_normal((144, 130)).astype(np.float32)
    g = RNG.standard_normal((40, 16, 144)).astype(np.float32)
    a, b, c = Tensor(x), Tensor(w), Tensor(g)
    if form == "rows":
        got, want = a @ b.T, x.astype(np.float64) @ w.T
    else:
        want = np.einsum("abi,abj->ij", g.astype(np.float64), x)
        if form == "both turned":
            a, c = (t.transpose(0, 1).contiguous().transpose(0, 1) for t in (a, c))
        got = (c.reshape(40, 16, 144, 1) * a.reshape(40, 16, 1, 130)).sum((0, 1))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-3)


def test_keys_are_turned_where_dot_products_are_short() -> None:
    def kernels(m: int, k: int, n: int, turned: bool = True) -> int:
        q, keys = Tensor.empty(4, m, k), Tensor.empty(4, n, k) if turned else Tensor.empty(4, k, n)
        right = keys.transpose(-2, -1) if turned else keys
        return len(schedule([(q @ right).uop], "cpu").items)

    assert kernels(256, 64, 256) == 2
    assert kernels(256, 64, 256, turned=False) == 1  # vectors run along its columns as it is
    assert kernels(256, 512, 256) == 1  # long dot products hide the sum over lanes
    assert kernels(64, 64, 64) == 2
    assert kernels(16, 64, 256) == 1  # too few rows to pay for a copy


def test_keys_of_halves_are_turned_when_they_are_converted() -> None:
    q, keys = (Tensor.empty(4, n, 64, dtype="bfloat16") for n in (256, 96))
    *copies, last = kernels_of(q @ keys.transpose(-2, -1))
    assert len(copies) == 1
    loads = [n.src[0].src[1] for n in last.sink.toposort() if n.op is Ops.LOAD]
    columns = [r for offset in loads for r in ranges_of(offset) if r.src[1].arg == 96]
    assert [
        coefficient(offset, r) for r in columns for offset in loads if r in ranges_of(offset)
    ] == [1]


def test_a_product_with_turned_keys_is_numpys(device: str) -> None:
    q = RNG.standard_normal((2, 130, 40)).astype(np.float32)
    keys = RNG.standard_normal((2, 70, 40)).astype(np.float32)
    want = q.astype(np.float64) @ keys.astype(np.float64).swapaxes(1, 2)
    got = Tensor(q) @ Tensor(keys).transpose(1, 2)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)


def test_softmax_of_a_product_reads_it_once_from_memory() -> None:
    """Scores, and one kernel for their softmax: the exponentials are not stored."""
    scores = Tensor.empty(4, 64, 32) @ Tensor.empty(4, 32, 64)
    assert len(schedule([scores.softmax(-1).uop], "cpu").items) == 2


def kernels_of(*outs: Tensor, lanes: int = 0) -> list[KernelItem]:
    items = schedule([out.uop for out in outs], "cpu", lanes=lambda device: lanes).items
    return [i for i in items if isinstance(i, KernelItem)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_tiles_of_a_product_of_halves_convert_nothing(dtype: str) -> None:
    a, b = (Tensor.empty(250, 250, dtype=dtype) for _ in range(2))
    for out in (a @ b, a @ b.T, a.T @ b):
        *copies, last = kernels_of(out)
        assert len(copies) == 2
        loads = [n for n in last.sink.toposort() if n.op is Ops.LOAD]
        assert {n.dtype.name for n in loads} == {"float32"}
        steps = [coefficient(n.src[0].src[1], r) for k in copies for n in k.sink.toposort()
                 if n.op is Ops.LOAD for r in ranges_of(n)]  # fmt: skip
        assert steps.count(1) == 2, "each in the order in which it lies"


def test_a_half_that_is_used_a_few_times_is_converted_where_it_is_used() -> None:
    x, w = Tensor.empty(1, 512, dtype="bfloat16"), Tensor.empty(512, 512, dtype="bfloat16")
    *copies, last = kernels_of(x @ w.T)
    assert len(copies) <= 1  # of x, which every row of w meets
    assert "bfloat16" in {n.dtype.name for n in last.sink.toposort() if n.op is Ops.LOAD}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("form", ["plain", "right turned", "left turned", "batched", "keys"])
def test_products_of_halves_are_those_of_their_values(dtype: str, form: str, device: str) -> None:
    a, b = (Tensor(x).cast(dtype) for x in arrays(130, 70, 90))
    if form == "right turned":
        b = b.T.contiguous().T
    elif form == "left turned":
        a = a.T.contiguous().T
    elif form == "batched":
        a, b = a.reshape(2, 65, 70), b.reshape(1, 70, 90)
    elif form == "keys":
        a, b = a.reshape(1, 130, 70), b.T.contiguous().reshape(1, 90, 70).transpose(1, 2)
    wide = [x.cast("float32").numpy().astype(np.float64) for x in (a, b)]
    got = a.realize() @ b.realize()
    want = Tensor((wide[0] @ wide[1]).astype(np.float32)).cast(dtype).cast("float32").numpy()
    step = 2.0**-7 if dtype == "bfloat16" else 2.0**-10  # a sum between two numbers may be either
    np.testing.assert_allclose(got.cast("float32").numpy(), want, rtol=step, atol=1e-4)


@pytest.mark.parametrize(
    ("lanes", "m", "copies"),
    [(8, 512, 2), (8, 520, 2), (16, 512, 1), (16, 1024, 2), (0, 1024, 1)],
)
def test_a_first_factor_that_lies_across_the_sum_is_copied_along_it(
    lanes: int, m: int, copies: int
) -> None:
    """Of vectors that are whole lines only one whose steps lie a page apart."""
    out = Tensor.empty(512, m).T @ Tensor.empty(512, 384)
    items = schedule([out.uop], "cpu", lanes=lambda device: lanes).items
    *first, last = (i for i in items if isinstance(i, KernelItem))
    assert len(first) == copies
    loads = [n.src[0].src[1] for n in last.sink.toposort() if n.op is Ops.LOAD]
    (summed,) = (n for n in last.sink.toposort() if n.op is Ops.REDUCE)
    steps = [coefficient(offset, summed.src[1]) for offset in loads]
    assert steps == [1 if copies == 2 else m, 2 * max(lanes, 8)]


def test_a_first_factor_along_the_sum_or_of_few_columns_is_read_as_it_lies() -> None:
    def kernels(out: Tensor) -> int:
        return len(schedule([out.uop], "cpu", lanes=lambda device: 8).items)

    assert kernels(Tensor.empty(512, 512) @ Tensor.empty(512, 384)) == 2
    assert kernels(Tensor.empty(512, 512).T @ Tensor.empty(512, 96)) == 2
    assert kernels(Tensor.empty(256, 512).T @ Tensor.empty(256, 20)) == 1


@pytest.mark.parametrize(("k", "m", "n"), [(512, 1024, 384), (67, 517, 256), (257, 513, 160)])
@pytest.mark.parametrize("form", ["plain", "expression", "softmax"])
def test_a_product_whose_first_factor_is_copied_is_numpys(
    k: int, m: int, n: int, form: str, device: str
) -> None:
    g, h = RNG.standard_normal((k, m)), RNG.standard_normal((k, n))
    x, y = (Tensor(a.astype(np.float32)).realize() for a in (g, h))
    if form == "expression":
        x, g = (x * 2 + 1).relu(), np.maximum(g * 2 + 1, 0)
    elif form == "softmax":
        x, g = x.softmax(1), np.exp(g) / np.exp(g).sum(1, keepdims=True)
    np.testing.assert_allclose((x.T @ y).numpy(), g.T @ h, rtol=1e-3, atol=1e-3)
