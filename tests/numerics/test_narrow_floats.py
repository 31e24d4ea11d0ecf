"""Issue 3, item 6: floats below 32 bits round to nearest even, alike realized, lazy and folded.

The oracle is a search in float64 over the list of all numbers of a type
(`polygrad.testing.narrow_floats`), which is itself compared with the formats' papers here and with
torch in `tests/peers`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor
from polygrad.dtype import TENSOR_DTYPES, canonical, pack, unpack
from polygrad.errors import DTypeError
from polygrad.testing.narrow_floats import LACKING, from_words, nearest, to_words
from polygrad.uop.kernel import local
from polygrad.uop.ops import KernelInfo, UOp

pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # signalling NaNs

BYTES = tuple(name for name in LACKING if name != "bfloat16")
NARROW = (*LACKING, "float16")
EVERY = tuple(TENSOR_DTYPES)
# Table 1 of each paper: largest number, smallest normal, smallest subnormal, NaNs among all codes.
PAPERS = {
    "float8_e4m3fn": (448.0, 2.0**-6, 2.0**-9, 2),
    "float8_e5m2": (57344.0, 2.0**-14, 2.0**-16, 6),
    "float8_e4m3fnuz": (240.0, 2.0**-7, 2.0**-10, 1),
    "float8_e5m2fnuz": (57344.0, 2.0**-15, 2.0**-17, 1),
}


def word(name: str) -> str:
    return f"uint{TENSOR_DTYPES[name].bits}"


def codes(name: str) -> np.ndarray:
    return np.arange(1 << TENSOR_DTYPES[name].bits, dtype=word(name))


def numbers(name: str) -> np.ndarray:
    """Every number of a narrow type, by its code."""
    if name == "float16":
        return codes(name).view("float16").astype("float32")
    return np.asarray(from_words(codes(name), name))


def rounded(x: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        if x.dtype.kind in "iu":
            x = x.astype("float32")  # as machines do
        return x.astype("float16").astype("float32") if name == "float16" else nearest(x, name)


def same(got: Any, expected: Any) -> None:
    """Equal values with equal signs of zero; NaN is NaN."""
    np.testing.assert_array_equal(got, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(expected)[there])


def around_ties(name: str) -> np.ndarray:
    """float64: the numbers of a type, the middles between them, and a little to each side."""
    own = numbers(name).astype("float64")
    own = np.unique(np.abs(own[np.isfinite(own)]))
    beyond = own[-1] + np.diff(own[-2:])  # where the next number would be
    middles = (own + np.append(own[1:], beyond)) / 2
    both = np.concatenate([own, middles, beyond, beyond * 1.5, [1e30, np.inf, np.nan]])
    near = [both, np.nextafter(both, np.inf), np.nextafter(both, 0), both * (1 + 2.0**-40)]
    every = np.concatenate(near)
    return np.concatenate([every, -every])


@pytest.mark.parametrize("name", PAPERS)
def test_the_formats_are_those_of_their_papers(name: str) -> None:
    largest, normal, subnormal, nans = PAPERS[name]
    every = numbers(name)
    assert np.max(every[np.isfinite(every)]) == largest
    assert np.min(every[every > 0]) == subnormal
    assert np.isnan(every).sum() == nans
    layout = TENSOR_DTYPES[name].layout
    assert layout is not None
    assert (layout.maximum, layout.tiny) == (largest, normal)
    assert layout.has_infinity == np.isinf(every).any()


@pytest.mark.parametrize("name", NARROW)
def test_every_code_decodes(device: str, name: str) -> None:
    got = Tensor(codes(name)).bitcast(name).float()
    same(got.numpy(), numbers(name))


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_casts_round_once_to_the_nearest_even(
    device: str, name: str, source: str, rng: np.random.Generator
) -> None:
    wide = np.concatenate([
        around_ties(name), rng.normal(size=2000) * 10.0 ** rng.integers(-12, 12, 2000)
    ])  # fmt: skip
    with np.errstate(over="ignore"):
        x = wide.astype(source)
    cast = Tensor(x).cast(name)
    same(cast.float().numpy(), rounded(x, name))  # lazy
    same(cast.realize().float().numpy(), rounded(x, name))


@pytest.mark.parametrize("name", NARROW)
def test_every_float16_casts(device: str, name: str) -> None:
    x = np.arange(1 << 16, dtype="uint16").view("float16")
    same(Tensor(x).cast(name).float().numpy(), rounded(x.astype("float32"), name))


@pytest.mark.parametrize("name", NARROW)
def test_constants_fold_to_the_bits_that_kernels_give(device: str, name: str) -> None:
    values = around_ties(name)[:: 1 if name in BYTES else 97]
    dtype = TENSOR_DTYPES[name]
    folded = np.array([canonical(dtype, float(v)) for v in values], "float32")
    same(folded, rounded(values, name))
    words = np.frombuffer(pack(dtype, folded.tolist()), word(name))
    kernel = Tensor(values).cast(name).bitcast(word(name)).numpy()
    there = ~np.isnan(values)
    np.testing.assert_array_equal(words[there], kernel[there])
    for v in (1.1, 464.0, 1e9, -0.0, math.nan, math.inf, 2.0**-10, 3 * 2.0**-11):
        lazy = Tensor.full((2,), v, dtype="float64").cast(name)
        stored = Tensor([v, v], dtype="float64").realize().cast(name).realize()
        assert lazy.data().tobytes() == stored.data().tobytes()
        assert Tensor([v, v], dtype=name).data().tobytes() == stored.data().tobytes()


@pytest.mark.parametrize("name", BYTES)
def test_too_large_is_what_torch_makes_of_it(device: str, name: str) -> None:
    """inf where there is one, else NaN; float8_e4m3fn alone stays at its largest number."""
    large = {"float8_e5m2": math.inf, "float8_e4m3fn": 448.0}.get(name, math.nan)
    x = np.array([1e9, -1e9, np.inf, -np.inf], "float32")
    same(Tensor(x).cast(name).float().numpy(), np.array([large, -large] * 2, "float32"))
    assert math.isnan(Tensor([math.nan]).cast(name).item())
    assert Tensor([-0.0]).cast(name).bitcast("uint8").item() == (0 if "fnuz" in name else 128)


@pytest.mark.parametrize("source", EVERY)
@pytest.mark.parametrize("target", EVERY)
def test_each_dtype_casts_to_each(device: str, source: str, target: str) -> None:
    x = Tensor([0, 1, 3, 5, 17, 100]).cast(source).realize()
    whole = np.array(x.tolist(), "float64")
    expected: np.ndarray = whole.astype(bool) if target == "bool" else whole
    if TENSOR_DTYPES[target].is_narrow:
        expected = rounded(whole, target)
    np.testing.assert_array_equal(np.array(x.cast(target).tolist()), expected)


@pytest.mark.parametrize("name", BYTES)
def test_arithmetic_rounds_after_each_operation(device: str, name: str) -> None:
    """Every pair of numbers under + - * / and comparison."""
    own = numbers(name)
    a, b = (v.astype("float32") for v in np.meshgrid(own[::3], own[::5]))
    x, y = Tensor(a).cast(name), Tensor(b).cast(name)
    with np.errstate(all="ignore"):
        for got, expected in ((x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b)):
            assert got.dtype.name == name
            same(got.numpy(), rounded(expected, name))
        np.testing.assert_array_equal((x < y).numpy(), a < b)
        np.testing.assert_array_equal((x == y).numpy(), a == b)
        np.testing.assert_array_equal(x.maximum(y).isnan().numpy(), np.isnan(a) | np.isnan(b))


@pytest.mark.parametrize("name", NARROW)
def test_reductions_accumulate_in_float32(device: str, name: str) -> None:
    ones = Tensor.ones(200, 7).cast(name).realize()
    assert ones.sum(0).float().tolist() == rounded(np.full(7, 200.0), name).tolist()
    assert ones.mean().item() == 1.0
    assert ones.cumsum(0)[-1].float().tolist() == rounded(np.full(7, 200.0), name).tolist()
    product = ones.T.matmul(ones, dtype="float32")
    assert product.tolist() == [[200.0] * 7] * 7


@pytest.mark.parametrize("name", BYTES)
def test_the_python_engine_gives_the_same_bits(name: str) -> None:
    with Context(POLY_DEV="interp", POLY_INTERP_NUMPY=0, POLY_SPEC=1):
        same(Tensor(codes(name)).bitcast(name).float().numpy(), numbers(name))
        x = around_ties(name)[::3]
        same(Tensor(x).cast(name).float().numpy(), rounded(x, name))


def power(out: Any, a: Any) -> UOp:
    """out[i] = a[i]^3, its running product kept in the tensor's own dtype."""
    i, k = UOp.range(a.numel(), 0), UOp.range(3, 1)
    x = local(a.dtype, 1, 0)
    now = x.after(x.after(i)[0].store(1.0), k)
    done = now[0].store(now[0] * a[i]).end(k)
    return out[i].store(x.after(done)[0].load()).end(i).sink(arg=KernelInfo(name="power"))


@pytest.mark.parametrize("name", NARROW)
def test_kernels_keep_narrow_floats_in_their_own_memory(device: str, name: str) -> None:
    """A user's kernel with a local of the dtype: each store rounds."""
    x = rounded(np.linspace(-4, 4, 40), name)
    given = Tensor(x).cast(name).realize()
    got = Tensor.empty(40, dtype=name).custom_kernel(given, fxn=power)[0]
    same(got.float().numpy(), rounded(rounded(x * x, name) * x, name))


# ---- in and out


@pytest.mark.parametrize("name", BYTES)
def test_values_come_out_as_python_numbers_bits_and_float32(device: str, name: str) -> None:
    t = Tensor([[1.0, -2.5], [0.375, 0.0]], dtype=name)
    assert t.tolist() == [[1.0, -2.5], [0.375, 0.0]]
    assert t[0, 1].item() == -2.5
    assert t.numpy().dtype == np.float32
    assert t.data().tolist() == to_words(t.numpy(), name).tolist()
    assert (t.data().format, t.nbytes) == ("B", 4)
    shown = f"Tensor([[1, -2.5],\n        [0.375, 0]], dtype={name}, device={device!r})"
    assert repr(t.realize()) == shown
    assert unpack(t.dtype, t.data().tobytes()) == [1.0, -2.5, 0.375, 0.0]


def test_the_buffer_protocol_takes_no_words_for_integers(device: str) -> None:
    assert np.asarray(Tensor([1.5], dtype="float8_e5m2")).tolist() == [1.5]
    with pytest.raises(DTypeError, match="no float8_e5m2"):
        Tensor([1.5], dtype="float8_e5m2").__buffer__(0)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("fp8e4m3", "float8_e4m3fn"),
        ("float8_e4m3", "float8_e4m3fn"),
        ("fp8e5m2", "float8_e5m2"),
        ("fp8e4m3fnuz", "float8_e4m3fnuz"),
        ("fp8e5m2fnuz", "float8_e5m2fnuz"),
    ],
)
def test_names_of_peers_are_accepted(device: str, given: str, name: str) -> None:
    assert Tensor([1.0]).cast(given).dtype.name == name


class Foreign:
    """A dtype object with a name, as of ml_dtypes, whose float8_e4m3 is another format."""

    name = "float8_e4m3"


def test_only_texts_are_aliases() -> None:
    with pytest.raises(DTypeError, match="no dtype named 'float8_e4m3'"):
        Tensor([1.0]).cast(Foreign())


@pytest.mark.parametrize("other", ["float32", "bfloat16", "float8_e5m2", "int32", "bool"])
def test_bytes_of_floats_do_not_promote(device: str, other: str) -> None:
    a, b = Tensor([1.0]).cast("float8_e4m3fn"), Tensor([1.0]).cast(other)
    with pytest.raises(DTypeError, match="8-bit floats do not promote"):
        a + b
    assert (a * 2.5).dtype is a.dtype  # a number never widens
    assert (a.float() + b.float()).item() == 2.0


def test_infinity_is_told_by_value(device: str) -> None:
    """448 is not inf, though inf becomes 448 in float8_e4m3fn."""
    t = Tensor([448.0, math.nan, 1.0], dtype="float8_e4m3fn")
    assert t.isinf().tolist() == [False] * 3
    assert t.isfinite().tolist() == [True, False, True]
    assert t.nan_to_num().tolist() == [448.0, 0.0, 1.0]
    assert Tensor([math.inf], dtype="float8_e5m2").nan_to_num().item() == 57344.0


@pytest.mark.parametrize("name", BYTES)
def test_padding_of_a_pool_never_wins(device: str, name: str) -> None:
    low = -float(TENSOR_DTYPES[name].layout.maximum)  # type: ignore[union-attr]
    t = Tensor([[[[low, low], [low, low]]]], dtype=name)
    assert t.max_pool2d((2, 2), padding=1).tolist() == [[[[low, low], [low, low]]]]


@pytest.mark.parametrize("name", BYTES)
def test_random_numbers_lie_below_one(device: str, name: str) -> None:
    drawn = Tensor.rand(500, dtype=name).numpy()
    assert drawn.min() >= 0 and drawn.max() < 1 and len(np.unique(drawn)) in (8, 16)


def test_gradients_pass_through_a_cast(device: str) -> None:
    x = Tensor([1.1, 2.2], requires_grad=True)
    (x.cast("float8_e4m3fn").float() * 3.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]
