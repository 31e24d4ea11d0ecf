"""Random draws: ranges, moments, seeds (F016, F021, F023, F028)."""

from __future__ import annotations

import numpy as np
import pytest

from polygrad import Context, Tensor
from polygrad.errors import ArgumentError, DTypeError
from polygrad.testing.evaluate import judged, threefry


@pytest.fixture(autouse=True)
def _seed() -> None:
    Tensor.manual_seed(7)


def test_threefry_matches_the_published_vectors() -> None:
    """Random123's known answers for threefry2x32, 20 rounds."""
    full = np.uint32(0xFFFFFFFF)
    zero = np.uint32(0)
    words = threefry(np.array([0, 1], np.uint64), zero, zero)
    assert [hex(w) for w in words] == ["0x6b200159", "0x99ba4efe"]
    last = threefry(np.array([2**64 - 2, 2**64 - 1], np.uint64), full, full)
    # The counter's blocks are 63 bits here: the high word is 0x7fffffff.
    assert last.dtype == np.uint32 and len(set(last.tolist())) == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_numbers_lie_below_1(device: str, dtype: str) -> None:
    values = Tensor.rand(20000, dtype=dtype).numpy()
    assert values.min() >= 0 and values.max() < 1
    assert abs(values.astype(np.float64).mean() - 0.5) < 0.01


def test_devices_draw_the_same_bits_as_the_judge(device: str) -> None:
    for drawn in (Tensor.rand(1000), Tensor.randint(1000, low=-(2**31), high=2**31)):
        wanted = judged(drawn)
        np.testing.assert_array_equal(drawn.numpy(), wanted)


def test_a_seed_repeats_and_a_draw_moves_on(device: str) -> None:
    first, second = Tensor.rand(5).tolist(), Tensor.rand(5).tolist()
    Tensor.manual_seed(7)
    assert Tensor.rand(5).tolist() == first != second
    Tensor.manual_seed(8)
    assert Tensor.rand(5).tolist() != first


def test_a_draw_is_fixed_when_it_is_called(device: str) -> None:
    lazy = Tensor.rand(4)
    other = Tensor.rand(4)
    later = other.tolist()
    Tensor.manual_seed(7)
    assert lazy.tolist() == Tensor.rand(4).tolist()
    assert Tensor.rand(4).tolist() == later


def test_normal_moments(device: str) -> None:
    x = Tensor.randn(20000).numpy().astype(np.float64)
    assert abs(x.mean()) < 0.03 and abs(x.std() - 1) < 0.03
    assert abs((x**3).mean()) < 0.1 and abs((x**4).mean() - 3) < 0.25
    y = Tensor.normal(20000, mean=2, std=0.5).numpy()
    assert abs(y.mean() - 2) < 0.02 and abs(y.std() - 0.5) < 0.02


def test_randint_is_even_over_negative_bounds(device: str) -> None:
    values, counts = np.unique(Tensor.randint(21000, low=-3, high=4).numpy(), return_counts=True)
    assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert np.abs(counts - 3000).max() < 250


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 2**40, "int64"), (-(2**63), 2**63 - 1, "int64"), (0, 256, "uint8"), (0, 2**64, "uint64")],
)
def test_randint_reaches_over_wide_ranges(device: str, low: int, high: int, dtype: str) -> None:
    values = [int(v) for v in Tensor.randint(500, low=low, high=high, dtype=dtype).tolist()]
    assert low <= min(values) < low + (high - low) // 10
    assert high - (high - low) // 10 <= max(values) < high


def test_initialisers_stay_within_their_bounds(device: str) -> None:
    w = Tensor.kaiming_uniform(50, 100).numpy()
    bound = (6 / (1 + 0.01**2) / 100) ** 0.5
    assert 0.9 * bound < np.abs(w).max() <= bound
    g = Tensor.glorot_uniform(50, 100).numpy()
    assert 0.9 * (6 / 150) ** 0.5 < np.abs(g).max() <= (6 / 150) ** 0.5
    s = Tensor.scaled_uniform(10, 10).numpy()
    assert np.abs(s).max() <= 0.1
    u = Tensor.uniform(1000, low=2, high=3).numpy()
    assert u.min() >= 2 and u.max() < 3
    assert abs(Tensor.kaiming_normal(100, 100).numpy().std() - (2 / (1 + 1e-4) / 100) ** 0.5) < 0.01


def test_dropout_only_while_training(device: str) -> None:
    x = Tensor.ones(10000)
    assert x.dropout(0.25).numpy().min() == 1
    with Context(TRAINING=1):
        y = x.dropout(0.25).numpy()
        assert Tensor.ones(3).dropout(1.0).tolist() == [0.0] * 3
    assert set(np.unique(y).tolist()) == {0.0, np.float32(1 / 0.75).item()}
    assert abs((y == 0).mean() - 0.25) < 0.02


def test_training_is_a_setting_of_the_class() -> None:
    assert Tensor.training is False
    with Tensor.train():
        assert Tensor.training is True
    assert Tensor.training is False


def test_bernoulli_and_likes(device: str) -> None:
    x = Tensor.full((4000,), 0.3)
    drawn = x.bernoulli().numpy()
    assert set(drawn.tolist()) == {0.0, 1.0} and abs(drawn.mean() - 0.3) < 0.03
    assert x.rand_like().shape == (4000,)
    assert x.cast("float16").randn_like().dtype.name == "float16"


def test_mistakes_are_named() -> None:
    with pytest.raises(ArgumentError, match="low and high are integers, low < high, not 3 and 3"):
        Tensor.randint(2, low=3, high=3)
    with pytest.raises(ArgumentError, match="randint: 0 to 299 does not fit int8"):
        Tensor.randint(2, low=0, high=300, dtype="int8")
    with pytest.raises(DTypeError, match="rand draws floats, not int32"):
        Tensor.rand(2, dtype="int32")
    with pytest.raises(DTypeError, match="randint draws integers, not float32"):
        Tensor.randint(2, dtype="float32")
    with pytest.raises(ArgumentError, match=r"a probability lies in \[0, 1\], not 2"):
        Tensor.ones(2).dropout(2)
