"""Products of halves in a batch convert their factors row by row, and in the same kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.codegen.chain_stages import is_chain
from polygrad.schedule import KernelItem, chains, copies, packing, schedule

RNG = np.random.default_rng(29)
BATCH, M, K, N = 16, 67, 6, 66

# form -> shapes of both factors as they lie, and whether the second is turned
FORMS = {
    "batch": ((BATCH, M, K), (BATCH, K, N), False),
    "keys": ((BATCH, M, K), (BATCH, N, K), True),
    "two axes": ((4, 4, M, K), (4, 4, K, N), False),
    "few matrices": ((2, 70, 9), (2, 9, 68), False),
}


def kernels(*outs: Tensor) -> list[KernelItem]:
    items = schedule([out.uop for out in outs], "cpu").items
    return [i for i in items if isinstance(i, KernelItem)]


def product(a: Tensor, b: Tensor, turned: bool) -> Tensor:
    return a @ (b.transpose(-2, -1) if turned else b)


@pytest.mark.parametrize("form", FORMS)
def test_the_factors_of_a_batch_are_converted_in_the_kernel_of_their_product(form: str) -> None:
    left, right, turned = FORMS[form]
    a, b = (Tensor.empty(*shape, dtype="bfloat16") for shape in (left, right))
    *others, last = kernels(product(a, b, turned))
    assert is_chain(last.sink)
    # The second factor of few matrices is no row of anything: it is converted before.
    assert len(others) == (1 if form == "few matrices" else 0)


def test_what_somebody_else_reads_is_stored() -> None:
    a, b, c = (Tensor.empty(BATCH, 64, 64, dtype="bfloat16") for _ in range(3))
    wide = a.cast("float32").contiguous()
    plan = kernels(wide @ b.cast("float32"), wide @ c.cast("float32"))
    assert wide.uop.shape in [k.buffers[0].shape for k in plan if not is_chain(k.sink)]


def test_one_product_alone_converts_its_factors_before() -> None:
    """Rows of one matrix are no batch: cut in rows, a small one would be too few blocks."""
    a, b = (Tensor.empty(256, 256, dtype="float16") for _ in range(2))
    assert [is_chain(k.sink) for k in kernels(a @ b)] == [False, False, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_products_of_batches_of_halves_are_those_of_their_values(
    dtype: str, form: str, device: str
) -> None:
    left, right, turned = FORMS[form]
    a, b = (
        Tensor(RNG.standard_normal(shape).astype(np.float32)).cast(dtype).realize()
        for shape in (left, right)
    )
    x, y = (t.cast("float32").numpy().astype(np.float64) for t in (a, b))
    want = x @ (y.swapaxes(-1, -2) if turned else y)
    want, got = np.maximum(want + 0.5, 0), (product(a, b, turned) + 0.5).relu()
    step = 2.0**-7 if dtype == "bfloat16" else 2.0**-10
    np.testing.assert_allclose(
        got.cast("float32").numpy(), want, rtol=2 * step, atol=step * np.abs(want).max()
    )


# What may stand around a product with strips; `lies` stores a value as it is seen.
AROUND = {
    "nothing": lambda lies, x, w: x @ w,
    "left turned": lambda lies, x, w: lies(x.T).T @ w,
    "right turned": lambda lies, x, w: x @ lies(w.T).T,
    "expression": lambda lies, x, w: x @ (w * 2 + 1),
    "a row for each": lambda lies, x, w: x @ w + w.sum(0),
    "columns left out": lambda lies, x, w: (x @ w)[1:, 3:],
    "heads": lambda lies, x, w: (x @ w).reshape(len(x), -1, 2 - w.shape[1] % 2).swapaxes(0, 1),
    "turned round": lambda lies, x, w: x @ w + (w[0] * 2)[::-1],
    "turned back": lambda lies, x, w: lies((x @ w).T + 1),
    "every third": lambda lies, x, w: (x @ w)[:, ::3] * 2,
    "the last row": lambda lies, x, w: (x @ w + 1)[-1],
    "two columns": lambda lies, x, w: (x @ w)[:, 1:3],
    "even parts": lambda lies, x, w: (x @ w)[:, :4] + (x @ w)[:, -4:],
    "a sum": lambda lies, x, w: (x @ w).sum(1),
    "a sum of columns": lambda lies, x, w: (x @ w).sum(0),
    "another product": lambda lies, x, w: (x @ w) @ w.T,
    "the same factor": lambda lies, x, w: (x @ w).sum() + ((x + 1) @ w).max(),
}


def small_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips of 4 columns, from the smallest factor on."""
    limits = {"LEAST": 1, "FEWEST": 1, "PANELS": (4, 2), "FEW": 2, "ROWS": 6, "COLUMNS": 4,
              "UNEVEN": 1}  # fmt: skip
    for name, value in limits.items():
        monkeypatch.setattr(packing, name, value)
    monkeypatch.setattr(copies, "FEWEST", 1)


@pytest.mark.parametrize("around", AROUND)
def test_strips_of_any_size_are_numpys(
    around: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_strips(monkeypatch)
    for m, k, columns in ((3, 7, 44), (17, 1, 4), (21, 33, 28), (7, 33, 29), (6, 1, 5)):
        x, w = (RNG.integers(-3, 4, s).astype(np.float32) for s in ((m, k), (k, columns)))
        got = AROUND[around](Tensor.contiguous, Tensor(x), Tensor(w)).numpy()
        np.testing.assert_array_equal(got, AROUND[around](np.ascontiguousarray, x, w))


def test_copies_that_are_alike_for_all_rows_are_no_rows_of_a_chain(device: str) -> None:
    """Keys that are one row, seen many times: each strip of them is all of their strips."""
    a = RNG.standard_normal((2, 3, 160, 16)).astype(np.float32)
    b = np.broadcast_to(RNG.standard_normal((2, 3, 1, 16)).astype(np.float32), a.shape)
    got = (Tensor(a) @ Tensor(b[..., :1, :]).expand(*b.shape).transpose(-1, -2)).exp()
    want = np.exp(a.astype(np.float64) @ b.swapaxes(-1, -2))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_that_are_put_together_from_heads_meet_strips(dtype: str, device: str) -> None:
    """The sum runs over two axes of memory in one range; only ranges of the result are taken
    apart."""
    heads = RNG.integers(-1, 2, (6, 20, 48)).astype(np.float32)
    w = RNG.integers(-1, 2, (288, 512)).astype(np.float32)
    x = Tensor(heads).cast(dtype).permute(1, 0, 2).reshape(20, 288)
    got = (x @ Tensor(w).cast(dtype)).cast("float32").numpy()
    np.testing.assert_array_equal(got, heads.transpose(1, 0, 2).reshape(20, 288) @ w)


UNEVEN = {
    "strips": (130, 505, 517),  # the last has five columns
    "panels of their own": (257, 300, 547),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("form", UNEVEN)
def test_columns_that_fill_no_panel_are_numpys(form: str, dtype: str, device: str) -> None:
    m, k, n = UNEVEN[form]
    x, w, b = (RNG.integers(-1, 2, s).astype(np.float32) for s in ((m, k), (k, n), (n,)))
    got = Tensor(x).cast(dtype) @ Tensor(w).cast(dtype) + Tensor(b).cast(dtype)
    np.testing.assert_array_equal(got.cast("float32").numpy(), x @ w + b)


def test_the_last_strip_is_narrower_where_rows_are_no_whole_vectors() -> None:
    """And the product stores nothing beyond the last column."""

    def plan(m: int, n: int) -> list[KernelItem]:
        out = Tensor.empty(m, 1024) @ Tensor.empty(1024, n)
        items = schedule([out.uop], "cpu", lanes=lambda device: 8).items
        return [i for i in items if isinstance(i, KernelItem)]

    (strips,) = plan(128, 1001)
    assert is_chain(strips.sink)
    assert all(len(store.src) == 3 for store in strips.sink.src)
    assert [is_chain(k.sink) for k in plan(512, 1001)] == [False, False]  # panels of their own
    assert [is_chain(k.sink) for k in plan(128, 1000)] == [False]  # rows are whole vectors
    assert [is_chain(k.sink) for k in plan(32, 1001)] == [False]  # beside few rows


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_two_products_share_panels_of_which_the_last_is_not_full(dtype: str, device: str) -> None:
    x, y, w = (
        RNG.integers(-1, 2, s).astype(np.float32) for s in ((130, 505), (140, 505), (505, 517))
    )
    a, b, c = (Tensor(v).cast(dtype) for v in (x, y, w))
    got = (a @ c).cast("float32").sum() + (b @ c).cast("float32").max()
    assert got.item() == (x @ w).sum() + (y @ w).max()


def test_twice_the_layers_with_strips_are_twice_the_work(
    monkeypatch: pytest.MonkeyPatch, lines_run: Callable[..., int]
) -> None:
    """In layers of which no two are equal."""
    small_strips(monkeypatch)

    def plan(layers: int) -> None:
        x = Tensor.empty(3, 40)
        for i in range(layers):
            wide = 44 + 4 * i
            x = (x @ Tensor.empty(x.shape[1], wide)).tanh()
            x = x / x.square().sum(1, keepdim=True)
        items = schedule([x.uop], "cpu", lanes=lambda device: 8).items
        assert sum(is_chain(k.sink) for k in items if isinstance(k, KernelItem)) == layers

    few, many = (lines_run(lambda n=n: plan(n), chains, copies) for n in (12, 24))
    assert many < 2.1 * few


def test_a_factor_that_turns_out_to_be_padding_alone_is_held_nowhere(device: str) -> None:
    """Steps of 2 from 3 places of padding on, and one element: no window reads it."""
    x = Tensor(np.ones((4, 69, 1, 9, 2), np.float32), requires_grad=True)
    w = Tensor(np.ones((3, 23, 1, 2, 1), np.float32), requires_grad=True)
    y = x.conv3d(w, groups=3, stride=(2, 1, 2), padding=(3, 1, 3))
    (y * Tensor(np.ones(y.shape, np.float32))).sum().backward()
    for t in (y, x.grad, w.grad):
        assert t is not None
        assert not t.numpy().any()
