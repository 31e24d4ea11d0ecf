"""Numbers that index: a place is a parameter, whatever changes a shape is captured anew (F067)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor, jit
from polygrad.errors import CaptureWarning, IndexError_

X = np.arange(60, dtype=np.float32).reshape(5, 4, 3)
READS: dict[str, Callable[[Any, int], Any]] = {
    "x[i]": lambda x, i: x[i],
    "x[-i - 1]": lambda x, i: x[-i - 1],
    "x[i, :, i]": lambda x, i: x[i, :, i],
    "x[..., i]": lambda x, i: x[..., i],
    "x[::-1, i]": lambda x, i: x[::-1, i],
    "x[i, None]": lambda x, i: x[i, None],
    "x[(2 * i + 1) % 4]": lambda x, i: x[(2 * i + 1) % 4],
    "x[i:i + 2]": lambda x, i: x[i : i + 2],
    "x[1 + i:i + 3, i]": lambda x, i: x[1 + i : i + 3, i],
    "x[i, [0, 1]]": lambda x, i: x[i, [0, 1]],
    "x[i, :, [0, 1]]": lambda x, i: x[i, :, [0, 1]],
    "x[i:i + 2, [0, 1]]": lambda x, i: x[i : i + 2, [0, 1]],
}


@pytest.mark.parametrize("name", READS)
def test_a_place_is_a_parameter(device: str, name: str) -> None:
    """One capture reads at every place, and so does its gradient."""
    read = READS[name]
    compiled = jit(read)
    x = Tensor(X, requires_grad=True)
    for i in (1, 0, 2, 1):
        got = compiled(x, i)
        np.testing.assert_array_equal(got.numpy(), read(X, i))
        want = (read(x, i) ** 2).sum().gradient(x)[0].numpy()
        np.testing.assert_array_equal((got**2).sum().gradient(x)[0].numpy(), want)
    assert compiled.stats()["captures"] == 1


WRITES: dict[str, Callable[[Any, int], Any]] = {
    "x[i] = 5": lambda x, i: x.__setitem__(i, 5.0),
    "x[i:i + 2] = x[0:2] * 2": lambda x, i: x.__setitem__(slice(i, i + 2), x[0:2] * 2),
    "x[i, :, i] = x[0, :, 0]": lambda x, i: x.__setitem__((i, slice(None), i), x[0, :, 0]),
    "x[i, [0, 1]] = 7": lambda x, i: x.__setitem__((i, [0, 1]), 7.0),
    "x[1:3, i] = x[i:i + 2, 0]": lambda x, i: x.__setitem__((slice(1, 3), i), x[i : i + 2, 0]),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_place_to_write_is_a_parameter(device: str, name: str) -> None:
    write = WRITES[name]
    compiled = jit(lambda x, i: write(x, i))
    for i in (1, 0, 2):
        want, x = X.copy(), Tensor(X)
        write(want, i)
        compiled(x, i)
        np.testing.assert_array_equal(x.numpy(), want)
    assert compiled.stats()["captures"] == 1


def test_a_padded_constant_is_put_as_it_is(device: str) -> None:
    @jit
    def put(x: Tensor, i: int) -> None:
        x[i : i + 3] = Tensor.ones(1).pad(((1, 1),))

    for i in (0, 2):
        x = Tensor([5.0] * 6)
        put(x, i)
        assert x.tolist() == [*[5.0] * i, 0.0, 1.0, 0.0, *[5.0] * (3 - i)]


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[i:],
        lambda x, i: x[:i],
        lambda x, i: x[i : i + 4],  # cut off at the end
        lambda x, i: x[-i : 4 - i],
        lambda x, i: x[i : i + 4 : 2],
        lambda x, i: x[i * 2 : (i + 1) * 2],
    ],
    ids=["open", "to", "cut", "negative", "step", "blocks"],
)
def test_whatever_changes_a_shape_is_captured_anew(device: str, read: Any) -> None:
    compiled = jit(read)
    for _ in range(2):
        for i in range(6):
            np.testing.assert_array_equal(compiled(Tensor(X), i).numpy(), read(X, i))


def test_other_uses_of_an_integer(device: str) -> None:
    count = jit(lambda n: Tensor.arange(n) * n)
    shape = jit(lambda x, n: x.reshape(n, -1))
    for n in (1, 2, 4, 2):
        assert count(n).tolist() == [k * n for k in range(n)]
        assert shape(Tensor(X), n).shape == (n, 60 // n)


def test_an_index_outside_is_the_error_of_the_call(device: str) -> None:
    """Though other places were captured before."""
    f = jit(lambda x, i: x[i])
    x = Tensor(X)
    f(x, 1)
    for i in (5, -6, 2**40):
        with pytest.raises(IndexError_, match=rf"index {i} is outside axis 0 of shape \(5, 4, 3\)"):
            f(x, i)
    np.testing.assert_array_equal(f(x, -1).numpy(), X[-1])
    np.testing.assert_array_equal(f(x, 4).numpy(), X[4])
    assert f.stats()["captures"] == 2


def test_one_number_as_place_and_as_value(device: str) -> None:
    f = jit(lambda x, i: x[i] * i + (x[i % 2] if i > 2 else 0))
    for i in (1, 3, 0, 4, 1):
        want = X[i] * i + (X[i % 2] if i > 2 else 0)
        np.testing.assert_array_equal(f(Tensor(X), i).numpy(), want)


def test_a_list_of_numbers_as_data(device: str) -> None:
    f = jit(lambda x, values: x * Tensor(values))
    for values in ([1.0, 2.0], [3.0, 4.0], [1.0, 2.0]):
        assert f(Tensor([10.0, 10.0]), values).tolist() == [10 * v for v in values]


def test_a_number_as_a_tensor_is_a_parameter(device: str) -> None:
    f = jit(lambda x, n: x * Tensor(n) + Tensor.full((2,), n))
    for n in (1.5, 3.0):
        assert f(Tensor([1.0, 2.0]), n).tolist() == [2 * n, 3 * n]
    assert f.stats()["captures"] == 1


def test_endless_capturing_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import polygrad._jit as module

    monkeypatch.setattr(module, "CAPACITY", 3)
    f = jit(lambda x, n: x + 1 if n > 0 else x)
    x = Tensor([1.0], device="interp")
    for n in range(1, 4):
        f(x, n)
    with pytest.warns(CaptureWarning, match="captured for 4 values of a number") as caught:
        for n in range(4, 9):
            f(x, n)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert f.stats()["kept"] == 3


def test_a_loop_over_places_inside_of_function(device: str) -> None:
    """F072: precompile keeps places variable as well."""
    import polygrad

    f = polygrad.function(lambda x, i: x[i] + x[i : i + 2].sum(0), precompile=True)
    for i in range(3):
        np.testing.assert_array_equal(f(Tensor(X), i).numpy(), X[i] + X[i : i + 2].sum(0))
    assert f.stats()["captures"] == 1
    outer = jit(lambda x, i: f(x, i) * 2)
    for i in range(3):
        want = 2 * (X[i] + X[i : i + 2].sum(0))
        np.testing.assert_array_equal(outer(Tensor(X), i).numpy(), want)
