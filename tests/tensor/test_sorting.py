"""Sorting and what rests on it, against numpy (F037)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor, dtypes
from polygrad.errors import ArgumentError, ShapeError
from polygrad.schedule import KernelItem, schedule
from polygrad.tensor import ordering, sorting
from polygrad.tensor.base import result
from polygrad.tensor.radix import _in_parts, _radix_stream, _radix_take
from polygrad.uop.kernel import call

LENGTHS = [0, 1, 2, 31, 32, 33, 64, 65, 150]
FLOATS = [np.float16, np.float32, np.float64]
WHOLE = [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def stable(a: np.ndarray, axis: int = -1, descending: bool = False) -> np.ndarray:
    """numpy's stable order; descending: of the complement, so that equal ones keep theirs."""
    if not descending:
        return np.argsort(a, axis=axis, kind="stable")
    return np.flip(np.argsort(np.flip(a, axis), axis=axis, kind="stable") * -1, axis) + (
        a.shape[axis] - 1
    )


@pytest.mark.parametrize("n", LENGTHS)
def test_any_length(device: str, n: int, rng: np.random.Generator) -> None:
    a = rng.integers(0, 20, n).astype(np.float32)
    values, places = Tensor(a).sort()
    np.testing.assert_array_equal(values.numpy(), np.sort(a))
    np.testing.assert_array_equal(places.numpy(), stable(a))
    assert places.dtype is dtypes.int32


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices are sorted as large ones are."""
    for module in (ordering, sorting):
        monkeypatch.setattr(module, "SMALL", 0)


# Rows that a network sorts, whole or ragged; that a block sorts by digits; that fall into parts.
MANY = [(20, 100), (9, 144), (3, 513), (2, 2000), (1, 20000), (2, 16385)]


def special(kind: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers of a dtype, many of them equal, with its extremes, both zeros and NaN."""
    if kind is np.bool_:
        return rng.random(shape) < 0.5
    if kind in WHOLE:
        info = np.iinfo(kind)
        few = rng.integers(info.min, info.max, 40, dtype=kind, endpoint=True)
        return rng.choice(np.append(few, np.array([info.min, info.max, 0], kind)), shape)
    few = [*rng.normal(size=40) * 100, 0.0, -0.0, np.inf, -np.inf, 1e-7, -1e-7]
    a = np.where(rng.random(shape) < 0.5, rng.choice(few, shape), rng.normal(size=shape))
    a = a.astype(kind)
    bits = a.view(f"u{a.itemsize}")
    bits[rng.random(shape) < 0.01] = np.array(np.nan, kind).view(bits.dtype) + np.array(
        1, bits.dtype
    )
    return a


def same_bits(got: np.ndarray, want: np.ndarray) -> None:
    kind = f"u{got.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(got).view(kind), np.ascontiguousarray(want).view(kind)
    )


@pytest.mark.parametrize("shape", MANY, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE], ids=lambda d: d.__name__)
@pytest.mark.usefixtures("large")
def test_long_rows_alone_and_with_places(
    shape: tuple[int, int], dtype: Any, rng: np.random.Generator
) -> None:
    """Values that are wanted alone are bit by bit those that come with their places."""
    a = special(dtype, shape, rng)
    descending = bool(rng.integers(2))
    want = stable(a, descending=descending)
    with Context(POLY_DEV="cpu"):
        values, places = Tensor(a).sort(descending=descending)
        values.realize(places)
        np.testing.assert_array_equal(places.numpy(), want)
        same_bits(values.numpy(), np.take_along_axis(a, want, -1))
        same_bits(Tensor(a).sort(descending=descending)[0].numpy(), values.numpy())
        np.testing.assert_array_equal(Tensor(a).argsort(descending=descending).numpy(), want)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8], ids=lambda d: d.__name__)
@pytest.mark.parametrize("shape", [(9, 144), (2, 600)], ids=str)
@pytest.mark.usefixtures("large")
def test_values_alone(
    device: str, shape: tuple[int, int], dtype: Any, rng: np.random.Generator
) -> None:
    a = special(dtype, shape, rng)
    same_bits(Tensor(a).sort()[0].numpy(), np.take_along_axis(a, stable(a), -1))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("kind", [np.uint32, np.uint64], ids=lambda d: d.__name__)
@pytest.mark.parametrize(("rows", "n"), [(1, 300), (3, 256), (2, 64)])
def test_rows_in_parts(
    device: str, rows: int, n: int, kind: Any, streams: bool, rng: np.random.Generator
) -> None:
    """What is not in the digits keeps its order, also where words go out line by line."""
    a = rng.integers(0, [[3 << 10, 1 << 16, 40][:rows]] * n, (n, rows)).T.astype(kind)
    got = _in_parts(Tensor(a).uop, 6, 10, 100, streams)
    places = np.argsort((a >> np.array(6, kind)) & np.array(1023, kind), axis=1, kind="stable")
    np.testing.assert_array_equal(result(got).numpy(), np.take_along_axis(a, places, 1))


@pytest.mark.parametrize("streams", [False, True])
def test_starts_that_lie_store_nothing_outside(
    device: str, streams: bool, rng: np.random.Generator
) -> None:
    """A file may feed kernels of the library with anything."""
    n = 256
    take = _radix_stream if streams else _radix_take
    for low, high in ((-900, -300), (-40, 300), (250, 260), (1 << 30, (1 << 31) - 1)):
        words = Tensor(rng.integers(0, 1 << 20, (1, n)).astype(np.uint32))
        starts = Tensor(rng.integers(low, high, (1, 1, 256)).astype(np.int32))
        sources, taken = [(0, words.uop), (1, starts.uop)], [(2, dtypes.uint32, (1, n))]
        made = call(take(1, n, n, dtypes.uint32), sources, taken, (("shift", 3),))[0]
        assert result(made).numpy().shape == (1, n)


def launches(*wanted: Tensor) -> list[str]:
    """The names of the library's kernels in the schedule of tensors; a dash for one of ours."""
    items = schedule([t.uop for t in wanted], "cpu").items
    infos = [item.sink.arg for item in items if isinstance(item, KernelItem)]
    return [info.name if info else "-" for info in infos]


@pytest.mark.usefixtures("large")
def test_one_sort_gives_values_and_places(rng: np.random.Generator) -> None:
    """Nor is what it leaves in memory copied."""
    values, places = Tensor(rng.integers(0, 9, (40, 70)).astype(np.int32)).sort()
    assert launches(values) == ["-", "network", "-"]
    assert launches(values, places) == ["-", "network", "-"]
    floats = Tensor(rng.normal(size=70).astype(np.float32)).sort()[0]
    assert launches(floats)[-1] == "restore"


@pytest.mark.usefixtures("large")
def test_values_alone_have_a_gradient(device: str, rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, 600)).astype(np.float32)
    x = Tensor(a, requires_grad=True)
    weights = rng.normal(size=(2, 600)).astype(np.float32)
    (x.sort()[0] * Tensor(weights)).sum().backward()
    want = np.zeros_like(a)
    np.put_along_axis(want, stable(a), weights, -1)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), want)


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float8_e5m2, dtypes.float8_e4m3fn])
@pytest.mark.usefixtures("large")
def test_narrow_floats(device: str, dtype: Any, rng: np.random.Generator) -> None:
    x = Tensor(rng.normal(size=70).astype(np.float32)).cast(dtype).realize()
    a = x.float().numpy()
    values, places = x.sort()
    np.testing.assert_array_equal(places.numpy(), stable(a))
    assert values.dtype is dtype
    np.testing.assert_array_equal(values.float().numpy(), np.sort(a))
    np.testing.assert_array_equal(x.sort()[0].float().numpy(), np.sort(a))


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE], ids=lambda d: d.__name__)
@pytest.mark.parametrize("descending", [False, True])
def test_any_dtype(device: str, dtype: Any, descending: bool, rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, 40)) * 50
    if dtype in WHOLE and dtype is not np.bool_:
        info = np.iinfo(dtype)
        a = rng.integers(info.min, info.max, (2, 40), dtype=dtype, endpoint=True)
    a = (a > 0) if dtype is np.bool_ else a.astype(dtype)
    a[:, 7] = a[:, 30]
    values, places = Tensor(a).sort(descending=descending)
    want = stable(a, descending=descending)
    np.testing.assert_array_equal(places.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(a, want, -1))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_any_axis(device: str, axis: int, rng: np.random.Generator) -> None:
    a = rng.normal(size=(3, 35, 2)).astype(np.float32)
    values, places = Tensor(a).sort(axis)
    np.testing.assert_array_equal(values.numpy(), np.sort(a, axis))
    np.testing.assert_array_equal(places.numpy(), np.argsort(a, axis, kind="stable"))


def test_nan_is_the_greatest_and_zeros_are_equal(device: str) -> None:
    nan, inf = float("nan"), float("inf")
    a = np.array([nan, 0.0, -0.0, inf, -inf, nan, -0.0, 1.0], np.float32)
    values, places = Tensor(a).sort()
    assert places.tolist() == [4, 1, 2, 6, 7, 3, 0, 5]
    np.testing.assert_array_equal(np.signbit(values.numpy()[1:4]), [False, True, True])
    assert Tensor(a).argsort(descending=True).tolist() == [0, 5, 3, 7, 1, 2, 6, 4]


def test_a_number_is_in_order(device: str) -> None:
    values, places = Tensor(3.0).sort()
    assert values.item() == 3.0 and places.item() == 0


def test_the_gradient_goes_back_to_where_each_came_from(device: str) -> None:
    x = Tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], requires_grad=True)
    (x.sort()[0] * Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[100.0, 1.0, 10.0], [1.0, 100.0, 10.0]]


def test_sorted_results_go_on_in_one_graph(device: str, rng: np.random.Generator) -> None:
    a = rng.normal(size=100).astype(np.float32)
    x = Tensor(a)
    got = (x.sort()[0] * 2 + x).sum().item()
    assert got == pytest.approx(3 * a.astype(np.float64).sum(), abs=1e-3)


def test_the_graph_does_not_grow_with_the_length() -> None:
    with Context(POLY_DEV="cpu"):
        sizes = [len(Tensor.zeros(n).sort()[1].uop.toposort()) for n in (1 << 15, 1 << 22)]
    assert sizes[1] <= sizes[0]


@pytest.mark.parametrize("largest", [True, False])
def test_topk(device: str, largest: bool, rng: np.random.Generator) -> None:
    a = rng.integers(0, 30, (3, 50)).astype(np.int32)
    values, places = Tensor(a).topk(4, largest=largest)
    want = stable(a, descending=largest)[:, :4]
    np.testing.assert_array_equal(places.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(a, want, -1))


@pytest.mark.parametrize("dtype", [np.float32, np.int16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.usefixtures("large")
def test_the_first_of_long_rows(
    device: str, dtype: Any, largest: bool, rng: np.random.Generator
) -> None:
    """Equal ones in order, NaN as the greatest, whatever the signs of zeros."""
    a = special(dtype, (2, 520), rng)
    values, places = Tensor(a).topk(9, largest=largest)
    want = stable(a, descending=largest)[:, :9]
    np.testing.assert_array_equal(places.numpy(), want)
    same_bits(values.numpy(), np.take_along_axis(a, want, -1))


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE], ids=lambda d: d.__name__)
def test_ranks_of_long_rows(dtype: Any, rng: np.random.Generator) -> None:
    a = special(dtype, (3, 40000), rng)
    want = stable(a)
    with Context(POLY_DEV="cpu"):
        for k in (1, 20000, 39999, 40000):
            value, place = Tensor(a).kthvalue(k)
            np.testing.assert_array_equal(place.numpy(), want[:, k - 1])
            same_bits(value.numpy(), np.take_along_axis(a, want[:, k - 1 : k], -1)[:, 0])
        values, places = Tensor(a).topk(300, largest=False)
        np.testing.assert_array_equal(places.numpy(), want[:, :300])
        same_bits(values.numpy(), np.take_along_axis(a, want[:, :300], -1))


@pytest.mark.usefixtures("large")
def test_the_first_of_a_long_axis_that_is_not_the_last(rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, 800, 3)).astype(np.float32)
    values, places = Tensor(a).topk(5, 1)
    np.testing.assert_array_equal(places.numpy(), np.argsort(-a, 1, kind="stable")[:, :5])
    np.testing.assert_array_equal(values.numpy(), -np.sort(-a, 1)[:, :5])
    np.testing.assert_array_equal(Tensor(a).kthvalue(400, 1)[0].numpy(), np.sort(a, 1)[:, 399])


@pytest.mark.usefixtures("large")
def test_gradients_of_what_is_selected(device: str, rng: np.random.Generator) -> None:
    a = rng.permutation(700).astype(np.float32)
    x = Tensor(a, requires_grad=True)
    first = x.topk(3)[0] * Tensor([1.0, 2.0, 3.0])
    (first.sum() + x.median() * 8.0 + x.kthvalue(10)[0] * 5.0).backward()
    want = np.zeros(700, np.float32)
    order = np.argsort(a)
    want[order[[699, 698, 697]]] += [1.0, 2.0, 3.0]
    want[order[[349, 350]]] += 4.0
    want[order[9]] += 5.0
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), want)


def test_topk_of_more_than_there_are() -> None:
    with pytest.raises(ArgumentError, match=r"topk: k is 4, axis 0 of \(3,\) has 3"):
        Tensor([1, 2, 3]).topk(4)


# ---- unique


@pytest.mark.parametrize("n", [0, 1, 100])
def test_unique(device: str, n: int, rng: np.random.Generator) -> None:
    a = rng.integers(-4, 4, n).astype(np.int32)
    values, inverse, counts = Tensor(a).unique(return_inverse=True, return_counts=True)
    want = np.unique(a, return_inverse=True, return_counts=True)
    for got, w in zip((values, inverse, counts), want, strict=True):
        np.testing.assert_array_equal(got.numpy(), w)


def test_unique_of_floats_with_nan(device: str) -> None:
    a = np.array([[np.nan, 1.0], [1.0, np.nan]], np.float32)
    got = Tensor(a).unique()
    assert isinstance(got, Tensor)
    np.testing.assert_array_equal(got.numpy(), np.unique(a))


# ---- searchsorted


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_of_special_values(device: str, right: bool) -> None:
    """NaN is the greatest, zeros are equal, a number is a value, nothing is found in nothing."""
    nan, inf = np.nan, np.inf
    table = np.array([-inf, -0.0, 0.0, 2.0, inf, nan, nan], np.float32)
    values = np.array([nan, inf, 0.0, -0.0, 1.0, -inf], np.float32)
    side = "right" if right else "left"
    got = Tensor(table).searchsorted(Tensor(values), right=right)
    np.testing.assert_array_equal(got.numpy(), np.searchsorted(table, values, side))
    assert Tensor([1.0, 2.0]).searchsorted(2.0, right=right).item() == 1 + right
    none = Tensor(np.zeros(0, np.float32))
    assert none.searchsorted(Tensor([1.0]), right=right).tolist() == [0]
    assert Tensor([1.0]).searchsorted(none, right=right).shape == (0,)
    mixed = Tensor([1, 2, 3]).searchsorted(Tensor([2.5, 3.0]), right=right)
    assert mixed.tolist() == [2, 2 + right]


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(device: str, right: bool, rng: np.random.Generator) -> None:
    table = np.sort(rng.integers(0, 20, 37)).astype(np.float32)
    values = rng.integers(-2, 23, (4, 5)).astype(np.float32)
    got = Tensor(table).searchsorted(Tensor(values), right=right)
    side = "right" if right else "left"
    np.testing.assert_array_equal(got.numpy(), np.searchsorted(table, values, side))


def test_searchsorted_row_by_row(device: str, rng: np.random.Generator) -> None:
    table, values = np.sort(rng.normal(size=(3, 9)), -1), rng.normal(size=(3, 4))
    got = Tensor(table).searchsorted(Tensor(values)).numpy()
    want = [np.searchsorted(t, v) for t, v in zip(table, values, strict=True)]
    np.testing.assert_array_equal(got, want)
    with pytest.raises(ShapeError, match="do not stand beside"):
        Tensor(table).searchsorted(Tensor(values[:2]))


# ---- median and quantile


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("shape", [(5, 4), (4, 33)])
def test_median(device: str, axis: int | None, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(3).normal(size=shape)
    np.testing.assert_allclose(Tensor(a).median(axis).numpy(), np.median(a, axis), rtol=1e-12)


@pytest.mark.parametrize("n", [600, 601])
@pytest.mark.usefixtures("large")
def test_quantiles_of_long_rows(n: int, rng: np.random.Generator) -> None:
    a = rng.integers(0, 200, (2, n)).astype(np.float64)
    with Context(POLY_DEV="cpu"):
        np.testing.assert_array_equal(Tensor(a).median(1).numpy(), np.median(a, 1))
        for q in ([0.25, 0.9], [0.0, 0.1, 0.2, 0.3, 1.0]):
            got = Tensor(a).quantile(q, 1).numpy()
            np.testing.assert_allclose(got, np.quantile(a, q, 1), rtol=1e-12)
        a[1, 5] = np.nan
        np.testing.assert_array_equal(np.isnan(Tensor(a).median(1).numpy()), [False, True])


@pytest.mark.usefixtures("large")
def test_the_median_of_a_long_row(device: str, rng: np.random.Generator) -> None:
    a = rng.integers(0, 200, 514).astype(np.float32)
    assert Tensor(a).median().item() == np.median(a)


def test_median_of_nan_is_nan(device: str) -> None:
    got = Tensor([[1.0, float("nan"), 3.0], [1.0, 2.0, 4.0]]).median(1).numpy()
    np.testing.assert_array_equal(got, [np.nan, 2.0])


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_quantile(device: str, axis: int | None, rng: np.random.Generator) -> None:
    a = rng.normal(size=(6, 11))
    q = [0.0, 0.1, 0.5, 0.77, 1.0]
    got = Tensor(a).quantile(q, axis, keepdim=True).numpy()
    np.testing.assert_allclose(got, np.quantile(a, q, axis, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("rule", ["linear", "lower", "higher", "nearest", "midpoint"])
@pytest.mark.parametrize("n", [1, 2, 5, 6, 11])
def test_quantiles_between_neighbours(
    device: str, rule: str, n: int, rng: np.random.Generator
) -> None:
    """Also halfway, where the nearest is the even one."""
    a = rng.normal(size=(3, n))
    q = [0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 1.0]
    want = np.quantile(a, q, 1, method=rule)  # type: ignore[call-overload]
    np.testing.assert_allclose(Tensor(a).quantile(q, 1, interpolation=rule).numpy(), want, 1e-12)
    np.testing.assert_allclose(Tensor(a).quantile(0.3, 1, method=rule).numpy(), want[3], 1e-12)


@pytest.mark.parametrize("axis", [(0, 2), (1, -1), (0, 1, 2), ()])
def test_quantiles_over_several_axes(
    device: str, axis: tuple[int, ...], rng: np.random.Generator
) -> None:
    a = rng.normal(size=(3, 4, 5))
    for keep in (False, True):
        got = Tensor(a).quantile(0.3, axis, keepdim=keep).numpy()
        want = np.quantile(a, 0.3, axis, keepdims=keep)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-12)
    np.testing.assert_allclose(Tensor(a).median(axis).numpy(), np.median(a, axis), rtol=1e-12)


def test_quantiles_of_infinities_and_of_large_numbers(device: str) -> None:
    """Where numpy takes a difference of infinities, the line between them is what it must be."""
    inf, big = np.inf, 3e38
    x = Tensor([-inf, 1.0, inf, inf])
    got = x.quantile([0.0, 0.25, 1 / 3, 0.5, 0.8, 1.0]).numpy()
    np.testing.assert_array_equal(got, [-inf, -inf, 1.0, inf, inf, inf])
    assert np.isnan(Tensor([-inf, inf]).median().item())
    assert Tensor([big, -big, big, -big]).median().item() == 0.0
    assert Tensor(np.array([60000, 65504], np.float16)).median().item() == 62752.0


@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.float16, np.float32])
def test_median_of_any_dtype_is_a_float(device: str, dtype: Any) -> None:
    a = np.array([1, 0, 1, 0]).astype(dtype)
    got = Tensor(a).median()
    assert got.item() == 0.5
    assert got.dtype.name == ("float16" if dtype is np.float16 else "float32")


# ---- kthvalue


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_kthvalue(device: str, axis: int, rng: np.random.Generator) -> None:
    a = rng.integers(0, 6, (4, 7)).astype(np.float32)
    a[1, 3] = np.nan
    for k in (1, 3, a.shape[axis]):
        value, place = Tensor(a).kthvalue(k, axis)
        order = stable(a, axis).take(k - 1, axis)
        np.testing.assert_array_equal(place.numpy(), order)
        np.testing.assert_array_equal(value.numpy(), np.sort(a, axis).take(k - 1, axis))
    assert Tensor(a).kthvalue(2, axis, keepdim=True)[0].shape == Tensor(a).sum(axis, True).shape
    assert [t.item() for t in Tensor(5.0).kthvalue(1)] == [5.0, 0]
    with pytest.raises(ArgumentError, match=r"kthvalue: k is 8, axis 1 of \(4, 7\) has 7"):
        Tensor(a).kthvalue(8)


def test_a_fraction_outside_is_refused() -> None:
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        Tensor([1.0]).quantile(1.5)


def test_an_unknown_interpolation_is_refused() -> None:
    text = (
        "quantile: no interpolation named 'nearst'. Did you mean 'nearest'? Valid: linear, lower,"
        " higher, nearest, midpoint."
    )
    with pytest.raises(ArgumentError, match=re.escape(text)):
        Tensor([1.0]).quantile(0.5, interpolation="nearst")


# ---- randperm


def test_randperm_is_a_permutation(device: str) -> None:
    Tensor.manual_seed(7)
    first, second = Tensor.randperm(100), Tensor.randperm(100)
    assert sorted(first.tolist()) == list(range(100))
    assert first.tolist() != second.tolist()


def test_long_rows_need_no_more_than_four_buffers_a_kernel() -> None:
    """As `Target.max_buffers` may say."""
    from polygrad import Context
    from polygrad.testing.lesser import lesser

    data = np.random.default_rng(5).standard_normal(20_000).astype(np.float32)
    with lesser("four", max_buffers=4) as name, Context(POLY_DEV=name):
        assert np.array_equal(Tensor(data).sort()[0].numpy(), np.sort(data))
        assert np.array_equal(Tensor(data).topk(3)[0].numpy(), np.sort(data)[:-4:-1])
        assert Tensor(data).kthvalue(7)[0].item() == np.sort(data)[6]
