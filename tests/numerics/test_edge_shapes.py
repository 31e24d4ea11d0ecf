"""Right at the edges of shapes: what an operation gives where its shape or its index ends.

One test for each, on every device, with numpy as the oracle. Values at their edges are in
`test_edge_values.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor
from polygrad.errors import PolygradError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INF, NAN = math.inf, math.nan

# ---- nothing at all


NOTHING: dict[str, tuple[Callable[[Tensor], Any], Callable[[Any], Any]]] = {
    "arithmetic": (lambda x: (x + 1) * x - x / 2, lambda a: a),
    "function": (lambda x: x.exp().tanh().erf().lgamma(), lambda a: a),
    "comparison": (lambda x: x < 1, lambda a: a < 1),
    "where": (lambda x: (x > 0).where(x, 0.0), lambda a: a),
    "sum": (lambda x: x.sum(), lambda a: a.sum()),
    "sum of axis": (lambda x: x.sum(1), lambda a: a.sum(1)),
    "sum of empty axis": (lambda x: x.sum(0), lambda a: a.sum(0)),
    "prod": (lambda x: x.prod(0), lambda a: a.prod(0)),
    "max of axis": (lambda x: x.max(1), lambda a: a.max(1)),
    "argmax of axis": (lambda x: x.argmax(1), lambda a: a.argmax(1)),
    "mean": (lambda x: x.mean(0), lambda a: np.full(3, NAN)),
    "std": (lambda x: x.std(0), lambda a: np.full(3, NAN)),
    "all": (lambda x: x.all(0), lambda a: a.all(0)),
    "any": (lambda x: x.any(0), lambda a: a.any(0)),
    "logsumexp": (lambda x: x.logsumexp(0), lambda a: np.full(3, -INF)),
    "softmax": (lambda x: x.softmax(0), lambda a: a),
    "log_softmax": (lambda x: x.log_softmax(1), lambda a: a),
    "norm": (lambda x: x.norm(2, 0), lambda a: np.zeros(3)),
    "reshape": (lambda x: x.reshape(3, 0, 5), lambda a: a.reshape(3, 0, 5)),
    "permute": (lambda x: x.T, lambda a: a.T),
    "flip": (lambda x: x.flip(0), lambda a: a[::-1]),
    "pad": (lambda x: x.pad(((1, 1), (0, 0)), value=2.0), lambda a: np.full((2, 3), 2.0)),
    "expand": (lambda x: x.unsqueeze(0).expand(4, 0, 3), lambda a: np.zeros((4, 0, 3))),
    "repeat": (lambda x: x.repeat(2, 2), lambda a: np.tile(a, (2, 2))),
    "roll": (lambda x: x.roll(2, 0), lambda a: a),
    "cat": (lambda x: x.cat(x, axis=1), lambda a: np.zeros((0, 6))),
    "cat with something": (
        lambda x: x.cat(Tensor.ones(2, 3), axis=0),
        lambda a: np.ones((2, 3)),
    ),
    "stack": (lambda x: x.stack(x), lambda a: np.zeros((2, 0, 3))),
    "split": (lambda x: x.split(2, 1)[0], lambda a: np.zeros((0, 2))),
    "slice": (lambda x: x[:, ::-2], lambda a: a[:, ::-2]),
    "index": (lambda x: x[:, [0, 2]], lambda a: a[:, [0, 2]]),
    "mask": (lambda x: x[x > 0], lambda a: a[a > 0]),
    "gather": (lambda x: x.gather(1, x.int()), lambda a: a),
    "scatter": (lambda x: x.scatter(1, x.int(), x), lambda a: a),
    "matmul": (lambda x: x.T @ x, lambda a: a.T @ a),
    "outer matmul": (lambda x: x @ x.T, lambda a: a @ a.T),
    "einsum": (lambda x: Tensor.einsum("ij,ik->jk", x, x), lambda a: np.zeros((3, 3))),
    "cumsum": (lambda x: x.cumsum(0), lambda a: a),
    "cumprod": (lambda x: x.cumprod(1), lambda a: a),
    "cummax": (lambda x: x.cummax(0)[0], lambda a: a),
    "logcumsumexp": (lambda x: x.logcumsumexp(0), lambda a: a),
    "sort": (lambda x: x.sort(0)[0], lambda a: a),
    "argsort": (lambda x: x.argsort(1), lambda a: a.astype(np.int32)),
    "topk": (lambda x: x.topk(2, 1)[0], lambda a: a[:, :2]),
    "unique": (lambda x: x.unique(), lambda a: np.unique(a)),
    "searchsorted": (lambda x: x.ravel().searchsorted(Tensor([1.0])), lambda a: np.array([0])),
    "nonzero": (lambda x: x.nonzero(), lambda a: np.zeros((0, 2))),
    "bincount": (lambda x: x.ravel().int().bincount(), lambda a: np.zeros(0)),
    "histogram": (lambda x: x.histogram(3)[0], lambda a: np.zeros(3)),
    "one_hot": (lambda x: x.int().one_hot(4), lambda a: np.zeros((0, 3, 4))),
    "tril": (lambda x: x.tril(), lambda a: a),
    "diagonal": (lambda x: x.diagonal(), lambda a: np.zeros(0)),
    "cast": (lambda x: x.half().int(), lambda a: a),
    "bitcast": (lambda x: x.bitcast("int32"), lambda a: a),
    "solve": (
        lambda x: x.reshape(3, 0, 0).solve(x.reshape(3, 0, 2)),
        lambda a: np.zeros((3, 0, 2)),
    ),
    "det": (lambda x: x.reshape(3, 0, 0).det(), lambda a: np.ones(3)),
    "conv of no batch": (
        lambda x: x.reshape(0, 1, 3).conv1d(Tensor.ones(2, 1, 2)),
        lambda a: np.zeros((0, 2, 2)),
    ),
    "pool of no batch": (
        lambda x: x.reshape(0, 1, 1, 3).max_pool2d((1, 2)),
        lambda a: np.zeros((0, 1, 1, 1)),
    ),
    "layernorm": (lambda x: x.layernorm(), lambda a: a),
    "rand": (lambda x: Tensor.rand(0, 3) + x, lambda a: a),
    "arange": (lambda x: Tensor.arange(0), lambda a: np.zeros(0)),
    "set": (lambda x: _set(x), lambda a: a),
}


def _set(x: Tensor) -> Tensor:
    x = x * 1
    x[:, 1] = 5.0
    x[[]] = 3.0
    return x


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_passes_through_every_family(device: str, name: str) -> None:
    ours, numpys = NOTHING[name]
    got, want = ours(Tensor(np.zeros((0, 3), np.float32))), numpys(np.zeros((0, 3), np.float32))
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


def test_extremes_of_nothing_are_refused(device: str) -> None:
    for name in ("max", "min", "argmax", "argmin", "median"):
        with pytest.raises(PolygradError, match=name):
            getattr(Tensor(np.zeros((0, 3), np.float32)), name)()


# ---- one number


ONE: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "max": lambda x: x.max(),
    "argmax": lambda x: x.argmax(),
    "mean": lambda x: x.mean(),
    "reshape": lambda x: x.reshape(1, 1),
    "ravel": lambda x: x.ravel(),
    "transposed": lambda x: x.T,
    "index": lambda x: x[()],
    "ellipsis": lambda x: x[...],
    "new axis": lambda x: x[None],
    "new axes": lambda x: x[None, ..., None],
    "arithmetic": lambda x: x * 2 + x,
}


@pytest.mark.parametrize("name", ONE)
def test_a_number_is_a_tensor_too(device: str, name: str) -> None:
    want = np.asarray(ONE[name](np.array(2.5, np.float32)))
    got = ONE[name](Tensor(2.5)).numpy()
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_other_operations_on_a_number(device: str) -> None:
    x = Tensor(2.5)
    assert [t.item() for t in (x.sort()[0], x.cumsum(), x.softmax(), x.flip(0), x.logsumexp())] == [
        2.5,
        2.5,
        1.0,
        2.5,
        2.5,
    ]
    assert x.unique().tolist() == x.expand(1).tolist() == x.stack(x)[:1].tolist() == [2.5]
    x[...] = 3.0
    assert x.item() == 3.0
    (g,) = (x * x).gradient(x)
    assert g.item() == 6.0


# ---- beyond 2^31: nothing of that size is stored, positions are computed in 64 bits


LARGE = 3_000_000_000


@pytest.mark.parametrize(
    ("read", "want"),
    [
        (lambda x: x[LARGE - 1], LARGE - 1),
        (lambda x: x[-1], LARGE - 1),
        (lambda x: x[::-1][5], LARGE - 6),
        (lambda x: x[2_500_000_001:][0], 2_500_000_001),
        (lambda x: x[:: 1 << 30].sum(), 3 << 30),
        (lambda x: x.reshape(50_000, 60_000)[49_999, 59_999], LARGE - 1),
        (lambda x: x.reshape(50_000, 60_000).T[59_999, 49_998], LARGE - 60_001),
        (lambda x: x.reshape(3, 1000, 1000, 1000).T[999, 998, 997, 2], 2_997_998_999),
        (lambda x: x.pad(((5, 5),))[LARGE + 4], LARGE - 1),
        (lambda x: x.roll(7, 0)[3], LARGE - 4),
        (lambda x: x.unsqueeze(1).expand(LARGE, 2).reshape(-1)[2 * LARGE - 1], LARGE - 1),
        (lambda x: x.cat(x)[LARGE + 2_999_999_999], LARGE - 1),
        (
            lambda x: (x[-3:] // 7 + x[-3:] % 7).sum(),
            sum(n // 7 + n % 7 for n in range(LARGE - 3, LARGE)),
        ),
    ],
    ids=range(13),
)
def test_positions_beyond_32_bits(device: str, read: Callable[[Tensor], Tensor], want: int) -> None:
    assert read(Tensor.arange(LARGE, dtype="int64")).item() == want


def test_one_number_seen_three_thousand_million_times(device: str) -> None:
    x = Tensor([1.5]).expand(LARGE)
    assert x.shape == (LARGE,) and x.numel() == LARGE
    assert x[LARGE - 1].item() == 1.5
    assert x.reshape(3, -1)[2, 999_999_999].item() == 1.5
    assert x.half().nbytes == 2 * LARGE


def test_counts_and_positions_beyond_32_bits_are_int64() -> None:
    x = Tensor([1]).expand(LARGE)
    assert {t.dtype.name for t in (x.argmax(), x.argmin(), x.count_nonzero())} == {"int64"}
    small = Tensor([1, 0, 5])
    assert {t.dtype.name for t in (small.argmax(), small.count_nonzero())} == {"int32"}
    with Context(POLY_DEV="cpu"):
        assert Tensor([1]).expand(LARGE).count_nonzero().item() == LARGE


def test_arange_takes_int64_where_32_bits_do_not_hold_it(device: str) -> None:
    assert Tensor.arange(LARGE)[LARGE - 1].item() == LARGE - 1


@pytest.mark.parametrize("shape", [(8, 1 << 25), (1 << 31,)])
def test_long_sums_do_not_stop_at_the_end_of_float32(shape: tuple[int, ...]) -> None:
    """At 2^24 a float32 that counts by ones stays where it is."""
    with Context(POLY_DEV="cpu", POLY_SPEC=1):
        ones = Tensor([1.0]).expand(*shape)
        total, mean = Tensor.numpy_many(ones.sum(-1), ones.mean(-1))
    np.testing.assert_array_equal(total, np.full(shape[:-1], float(shape[-1])))
    np.testing.assert_array_equal(mean, np.ones(shape[:-1]))


# ---- windows


def windows(a: np.ndarray, k: int, s: int, pad: tuple[int, int], ceil: bool) -> list[np.ndarray]:
    """The elements that each window of one axis holds; torch's rule for the last one."""
    n = len(a) + sum(pad)
    count = (math.ceil if ceil else math.floor)((n - k) / s) + 1
    if ceil and (count - 1) * s >= len(a) + pad[0]:
        count -= 1
    starts = [i * s - pad[0] for i in range(count)]
    return [a[max(0, b) : max(0, min(len(a), b + k))] for b in starts]


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("pad", [(0, 0), (1, 1), (0, 1), (1, 0)])
@pytest.mark.parametrize(("n", "k", "s"), [(5, 2, 2), (6, 3, 2), (7, 3, 3), (4, 3, 1), (5, 3, 5)])
def test_pooling_at_the_border(
    device: str, n: int, k: int, s: int, pad: tuple[int, int], ceil: bool
) -> None:
    """Padding never wins a maximum, and counts in a mean only if asked."""
    a = -np.arange(1.0, n + 1, dtype=np.float32)
    held = windows(a, k, s, pad, ceil)
    x = Tensor(a.reshape(1, 1, 1, n))
    options: dict[str, Any] = {"stride": (1, s), "padding": (*pad, 0, 0), "ceil_mode": ceil}
    got = x.max_pool2d((1, k), **options)
    np.testing.assert_array_equal(got.numpy().ravel(), [w.max() for w in held])
    got = x.avg_pool2d((1, k), **options, count_include_pad=False)
    np.testing.assert_allclose(got.numpy().ravel(), [w.mean() for w in held], rtol=1e-6)


def test_pooling_of_minus_infinity_and_of_integers(device: str) -> None:
    low = Tensor.full((1, 1, 3, 3), -INF).max_pool2d(2, padding=1)
    np.testing.assert_array_equal(low.numpy(), np.full((1, 1, 2, 2), -INF))
    for dtype in (np.int8, np.int32, np.uint8):
        a = np.full((1, 1, 3, 3), np.iinfo(dtype).min, dtype)
        got = Tensor(a).max_pool2d(2, padding=1).numpy()
        assert got.dtype == dtype and (got == np.iinfo(dtype).min).all()


@pytest.mark.parametrize("mode", ["linear", "nearest", "nearest-exact", "bicubic"])
@pytest.mark.parametrize("corners", [False, True])
def test_resampling_to_and_from_one_element(device: str, mode: str, corners: bool) -> None:
    if corners and mode.startswith("nearest"):
        return
    a = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    options = {"align_corners": True} if corners else {}
    got = Tensor(a).interpolate((1, 1), mode, **options).numpy()
    middle = {"linear": 5.5, "bicubic": 5.5, "nearest": 0.0, "nearest-exact": 6.0}[mode]
    np.testing.assert_allclose(got, [[[[0.0 if corners else middle]]]], rtol=1e-6)
    one = Tensor(a[:, :, :1, :1] + 7).interpolate((2, 3), mode, **options).numpy()
    np.testing.assert_allclose(one, np.full((1, 1, 2, 3), 7.0), rtol=1e-6)


# ---- many axes, many labels, many tensors


@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        ("iij->j", [(3, 3, 4)]),
        ("iij->ij", [(3, 3, 4)]),
        ("iii->i", [(3, 3, 3)]),
        ("iij,ikj->k", [(3, 3, 4), (3, 5, 4)]),
        ("...ij,jk", [(2, 3, 4), (4, 5)]),
        ("...i,...i->...", [(2, 1, 4), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (1, 4, 5)]),
        ("i,i->", [(4,), (4,)]),
        (",ij->ji", [(), (2, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("ij,ij,ij->i", [(2, 3), (2, 3), (2, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ],
)
def test_einsum(
    device: str, formula: str, shapes: list[tuple[int, ...]], rng: np.random.Generator
) -> None:
    arrays = [rng.normal(size=s) for s in shapes]
    got = Tensor.einsum(formula, *map(Tensor, arrays)).numpy()
    np.testing.assert_allclose(got, np.einsum(formula, *arrays), rtol=1e-10, atol=1e-12)


def test_seventeen_axes(device: str) -> None:
    a = np.arange(2**17, dtype=np.int32).reshape((2,) * 17)
    x = Tensor(a)
    order = tuple(np.roll(np.arange(17), 5))
    np.testing.assert_array_equal(x.permute(*order).numpy(), a.transpose(order))
    np.testing.assert_array_equal(x.sum((0, 3, 16)).numpy(), a.sum((0, 3, 16)))
    np.testing.assert_array_equal(x.flip(2, 11).max(7).numpy(), np.flip(a, (2, 11)).max(7))
    np.testing.assert_array_equal((x + x.transpose(0, 16)).numpy(), a + a.swapaxes(0, 16))
    index = (0, 1) * 8
    np.testing.assert_array_equal(x[index].numpy(), a[index])


def test_five_thousand_tensors_in_one(device: str) -> None:
    parts = [Tensor(np.full((1, 2), i, np.int32)) for i in range(5000)]
    got = parts[0].cat(*parts[1:], axis=0)
    np.testing.assert_array_equal(got.numpy(), np.arange(5000)[:, None].repeat(2, 1))
    stacked = Tensor.stack(*parts[:300])
    assert stacked.shape == (300, 1, 2) and stacked[299, 0, 1].item() == 299
