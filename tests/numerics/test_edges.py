"""Right at the edges: what an operation gives where its formula, its shape or its index ends.

One test for each, on every device, with numpy as the oracle. Slopes at such points are in
`tests/gradient/test_points.py`, all special values of elementwise operations in
`test_special_values.py`, integer arithmetic in `test_integers.py`.
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

# ---- NaN wherever there is one


NAN_ROWS = np.array([[1.0, NAN, 3.0], [NAN, 2.0, NAN], [-INF, INF, 0.0]], np.float32)
WITH_NAN: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Any], Any]]] = {
    "max": (lambda x: x.max(1), lambda a: a.max(1)),
    "min": (lambda x: x.min(1), lambda a: a.min(1)),
    "argmax": (lambda x: x.argmax(1), lambda a: a.argmax(1)),
    "argmin": (lambda x: x.argmin(1), lambda a: a.argmin(1)),
    "sort": (lambda x: x.sort(1)[0], lambda a: np.sort(a, 1)),
    "argsort": (lambda x: x.argsort(1), lambda a: np.argsort(a, 1, kind="stable")),
    "median": (lambda x: x.median(1), lambda a: np.median(a, 1)),
    "quantile": (lambda x: x.quantile(0.25, 0), lambda a: np.quantile(a, 0.25, 0)),
    "clip": (lambda x: x.clip(0, 2), lambda a: np.clip(a, 0, 2)),
    "relu": (lambda x: x.relu(), lambda a: np.maximum(a, 0)),
    "maximum": (lambda x: x.maximum(0), lambda a: np.maximum(a, 0)),
    "minimum": (lambda x: x.minimum(x.flip(0)), lambda a: np.minimum(a, a[::-1])),
    "cummax": (lambda x: x.cummax(1)[0], lambda a: np.maximum.accumulate(a, 1)),
    "cummin": (lambda x: x.cummin(1)[0], lambda a: np.minimum.accumulate(a, 1)),
    "sum": (lambda x: x.sum(1), lambda a: a.sum(1)),
    "prod": (lambda x: x.prod(0), lambda a: a.prod(0)),
    "mean": (lambda x: x.mean(0), lambda a: a.mean(0)),
    "std": (lambda x: x.std(0), lambda a: a.std(0, ddof=1)),
    "norm": (lambda x: x.norm(2, 1), lambda a: np.linalg.norm(a, axis=1)),
    "norm inf": (lambda x: x.norm(INF, 1), lambda a: np.linalg.norm(a, INF, axis=1)),
    "logsumexp": (lambda x: x.logsumexp(1), lambda a: np.logaddexp.reduce(a, 1)),
    "round": (lambda x: x.round(), np.rint),
    "sign": (lambda x: x.sign(), np.sign),
    "matmul": (lambda x: x @ x, lambda a: a @ a),
    "max_pool": (
        lambda x: x.reshape(1, 1, 3, 3).max_pool2d(2, stride=1),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 2)).max((2, 3))[None, None],
    ),
}


@pytest.mark.parametrize("name", WITH_NAN)
def test_nan_propagates_as_numpys(device: str, name: str) -> None:
    ours, numpys = WITH_NAN[name]
    np.testing.assert_allclose(ours(Tensor(NAN_ROWS)).numpy(), numpys(NAN_ROWS), rtol=1e-6)


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


# ---- creation


@pytest.mark.parametrize(
    "args",
    [
        (0, 1, 0.1),
        (1, 2.2, 0.3),
        (1, -1, -0.3),
        (5, 0),
        (0, 5, -1),
        (0.5,),
        (-3, 3, 2),
        (3, -4, -3),
        (0, 1, 2.5),
        (1e6, 1e6 + 2, 0.25),
        (0,),
        (2, 2),
    ],
    ids=str,
)
def test_arange_counts_as_numpys(device: str, args: tuple[Any, ...]) -> None:
    got, want = Tensor.arange(*args).numpy(), np.arange(*args)
    assert got.shape == want.shape and (got.dtype.kind == want.dtype.kind)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("low", "high"), [(-3, 4), (-7, -2), (0, 5), (-(2**31), 2**31 - 1)])
def test_randint_is_uniform(device: str, low: int, high: int) -> None:
    Tensor.manual_seed(11)
    n = 70_000
    drawn = Tensor.randint(n, low=low, high=high).numpy()
    assert drawn.min() >= low and drawn.max() < high
    parts = min(high - low, 7)
    counts = np.bincount(((drawn.astype(np.int64) - low) * parts // (high - low)), minlength=parts)
    chi = ((counts - n / parts) ** 2 / (n / parts)).sum()
    assert chi < 35  # of 6 degrees of freedom: one in 100 000 would exceed it


def test_randint_has_no_bias_where_a_remainder_would(device: str) -> None:
    """3 * 2^30 does not divide 2^32: taking the remainder would draw the lower third twice."""
    Tensor.manual_seed(12)
    high = 3 << 29
    drawn = Tensor.randint(60_000, low=0, high=high, dtype="int64").numpy()
    assert abs((drawn < high // 3).mean() - 1 / 3) < 0.012


# ---- numbers


def test_int8_products_accumulate_in_int32(device: str) -> None:
    a, b = np.full((2, 300), 100, np.int8), np.full((300, 2), -100, np.int8)
    got = (Tensor(a) @ Tensor(b)).numpy()
    assert got.dtype == np.int32 and (got == -3_000_000).all()
    got = Tensor.einsum("ij,jk->ik", Tensor(a), Tensor(b)).numpy()
    assert got.dtype == np.int32 and (got == -3_000_000).all()
    got = (Tensor(np.full((2, 300), 200, np.uint8)) @ Tensor(b)).numpy()
    assert got.dtype == np.int32 and (got == -6_000_000).all()


def test_rounding_keeps_the_sign_of_zero(device: str) -> None:
    x = np.array([-0.5, -0.2, -0.0, 0.5, 1.5, 2.5, -1.5], np.float32)
    for name, f in (("round", np.rint), ("ceil", np.ceil), ("trunc", np.trunc)):
        got = getattr(Tensor(x), name)().numpy()
        np.testing.assert_array_equal(got, f(x))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(f(x)))


@pytest.mark.parametrize("stored", [True, False])
def test_zero_times_infinity_is_nan(device: str, stored: bool) -> None:
    """Nothing folds what only looks like zero or one."""
    x = Tensor([INF, NAN, -1.0])
    x = x.realize() if stored else x * 1.0
    for made in (x * 0, 0 * x, x - x, x / x * 0, Tensor.zeros(3) * x):
        got = made.numpy()
        assert np.isnan(got[:2]).all() and got[2] == 0
    assert np.isnan((Tensor.zeros(2) * INF).numpy()).all()


SIGNS = [(a, b) for a in (-7, -6, -1, 0, 1, 6, 7) for b in (-3, -2, -1, 1, 2, 3)]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("constant", [True, False])
def test_integer_division_of_every_sign(device: str, dtype: Any, constant: bool) -> None:
    a, b = np.array(SIGNS, dtype).T.copy()
    for divisor in np.unique(b) if constant else [None]:
        some = slice(None) if divisor is None else b == divisor
        x = Tensor(a[some].copy())
        y = Tensor(b[some].copy()) if divisor is None else int(divisor)
        np.testing.assert_array_equal((x // y).numpy(), (a // b)[some])
        np.testing.assert_array_equal((x % y).numpy(), (a % b)[some])
        np.testing.assert_array_equal(x.fmod(y).numpy(), np.fmod(a, b)[some])
        trunc = np.trunc(a / b).astype(dtype)[some]
        np.testing.assert_array_equal(x.div(y, rounding_mode="trunc").numpy(), trunc)


def test_unsigned_and_signed_of_one_width_meet_in_the_next(device: str) -> None:
    for u, i, wide in (("uint8", "int8", "int16"), ("uint16", "int16", "int32")):
        a, b = np.array([np.iinfo(u).max, 0], u), np.array([np.iinfo(i).min] * 2, i)
        got = (Tensor(a) + Tensor(b)).numpy()
        assert got.dtype.name == wide
        np.testing.assert_array_equal(got, a + b)


def test_powers_of_negative_and_zero_bases(device: str) -> None:
    bases = [-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, -INF, INF]
    exponents = [-INF, -3.0, -2.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, INF, NAN]
    a, b = (m.ravel().astype(np.float32) for m in np.meshgrid(bases, exponents))
    got, want = (Tensor(a) ** Tensor(b)).numpy(), a**b
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    for e in (-3, -2, 0, 2, 3):
        np.testing.assert_allclose((Tensor(a) ** e).numpy(), a.astype(float) ** e, rtol=1e-6)
    np.testing.assert_allclose((Tensor(a) ** 0.5).numpy(), np.sqrt(a), rtol=1e-6)  # as numpy's
    np.testing.assert_allclose((Tensor(a) ** -0.5).numpy(), 1 / np.sqrt(a), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sines_of_large_arguments(device: str, dtype: Any) -> None:
    """By the argument's own bits, up to the largest float."""
    top = float(np.finfo(dtype).max)
    x = np.array([1e5, -1e7, 1e10, 1e20, 3e30, top, -top, 355.0, 103993.0], dtype)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
    for name, f in (("sin", np.sin), ("cos", np.cos), ("tan", np.tan)):
        got = getattr(Tensor(x), name)().numpy()
        np.testing.assert_allclose(got, f(wide), rtol=8 * np.finfo(dtype).eps)


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
