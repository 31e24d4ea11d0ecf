"""Creation: shapes, dtypes, leaves of their own (F009, F014, F015, F017-F020, F091)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor, dtypes
from polygrad.errors import ArgumentError, DTypeError, PolygradError, ShapeError


def test_a_dtype_equals_its_names(device: str) -> None:
    """numpy's rule: `np.dtype("float32") == "float32"`; a dictionary of dtypes works as before."""
    f = Tensor([1.0]).dtype
    assert f == "float32" and f == "float" and f == np.float32 and f == np.dtype("float32")
    assert f == float and f == dtypes.float32  # noqa: E721
    assert f != "float64" and f != "flaot32" and f != int and f is not None  # noqa: E721
    assert not f == None and not f == 32 and not f == dtypes.index  # noqa: E711, SIM201
    assert Tensor([1.0]).cast("fp8e5m2").dtype == "float8_e5m2" != f
    assert {f: 1}[dtypes.float32] == 1 and len({f, dtypes.float32, dtypes.int32}) == 2


def test_lists_infer_their_dtype() -> None:
    assert Tensor([1.0, 2.0]).dtype is dtypes.float32
    assert Tensor([1, 2, 3]).dtype is dtypes.int32
    assert Tensor([True, False]).dtype is dtypes.bool
    assert Tensor([True, 2]).dtype is dtypes.int32
    assert Tensor([1, 2.5]).dtype is dtypes.float32
    assert Tensor([]).dtype is dtypes.float32
    assert Tensor(3).dtype is dtypes.int32
    assert Tensor([2**40]).dtype is dtypes.int64
    assert Tensor([2**63]).dtype is dtypes.uint64


@pytest.mark.parametrize(
    "name",
    ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"]
    + ["int64", "uint64", "float16", "bfloat16", "float32", "float64"],
)
def test_every_dtype_goes_in_and_out(device: str, name: str) -> None:
    x = Tensor([[0, 1], [1, 0]], dtype=name)
    assert x.dtype.name == name
    assert x.tolist() == [[0, 1], [1, 0]]
    assert x.cast("float32").tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_dtype_spellings() -> None:
    for spec in ("int64", dtypes.int64, np.int64, np.dtype("int64"), "long"):
        assert Tensor([1], dtype=spec).dtype is dtypes.int64
    assert Tensor([1], dtype=float).dtype is dtypes.float32


def test_values_are_rounded_to_the_dtype_when_they_enter(device: str) -> None:
    assert Tensor([1.1], dtype="bfloat16").float().item() == 1.1015625
    assert Tensor([1.1]).bfloat16().float().item() == 1.1015625
    assert Tensor([1.1], dtype="float16").float().item() == pytest.approx(1.099609375, abs=0)
    assert Tensor([1e40]).item() == float("inf")
    assert Tensor([70000.0], dtype="float16").item() == float("inf")


@pytest.mark.parametrize(
    "make", [Tensor.zeros, Tensor.ones, Tensor.empty, Tensor.rand, Tensor.randn]
)
def test_shapes_are_varargs_or_one_list(make: Callable[..., Tensor]) -> None:
    assert make(2, 3).shape == make((2, 3)).shape == make([2, 3]).shape == (2, 3)
    assert make().shape == ()
    assert make(2, dtype="float64").dtype is dtypes.float64
    assert make(0, 3).numel() == 0


def test_fills(device: str) -> None:
    assert Tensor.zeros(2).tolist() == [0.0, 0.0]
    assert Tensor.ones(2, dtype="int8").tolist() == [1, 1]
    assert Tensor.full((2,), 7).dtype is dtypes.int32
    assert Tensor.full(2, 2.5).tolist() == [2.5, 2.5]
    x = Tensor([[1, 2]])
    assert x.ones_like().tolist() == [[1, 1]]
    assert x.full_like(3, dtype="float32").tolist() == [[3.0, 3.0]]
    assert x.zeros_like().dtype is dtypes.int32
    assert x.empty_like().shape == (1, 2)


RANGES: list[tuple[Any, ...]] = [
    (6,),
    (0, 6),
    (2, 10, 3),
    (10, 0, -3),
    (0, 10, -1),
    (0.0, 1.0, 0.1),
    (1.5,),
    (0, -5, -2),
    (5, 5),
    (0.5, 3),
    (1, 2, 0.3),
]


@pytest.mark.parametrize("args", RANGES, ids=str)
def test_arange_matches_numpy(device: str, args: tuple[Any, ...]) -> None:
    whole = all(isinstance(x, int) for x in args)
    wanted = np.arange(*args).astype(np.int32 if whole else np.float32)
    got = Tensor.arange(*args).numpy()
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


def test_arange_beyond_int32_is_int64(device: str) -> None:
    assert Tensor.arange(2**31, 2**31 + 2).tolist() == [2**31, 2**31 + 1]


@pytest.mark.parametrize(
    "args", [(0, 1, 5), (3, -2, 7), (0.1, 0.9, 4), (1, 2, 1), (0, 1, 0)], ids=str
)
def test_linspace_ends_exactly(device: str, args: Any) -> None:
    got = Tensor.linspace(*args).numpy()
    np.testing.assert_allclose(got, np.linspace(*args), rtol=1e-6, atol=1e-7)
    if args[2] > 1:
        assert got[-1] == np.float32(args[1])


def test_eye_one_hot_and_meshgrid(device: str) -> None:
    np.testing.assert_array_equal(Tensor.eye(3, 4).numpy(), np.eye(3, 4, dtype=np.float32))
    assert Tensor([0, 2]).one_hot(3).tolist() == [[1, 0, 0], [0, 0, 1]]
    a, b = np.arange(3), np.arange(2)
    for indexing in ("ij", "xy"):
        wanted = np.meshgrid(a, b, indexing=indexing)
        got = Tensor.meshgrid(Tensor(a), Tensor(b), indexing=indexing)
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(g.numpy(), w)


def test_equal_zeros_are_two_leaves(device: str) -> None:
    """F091: each of two equal constants gets its own gradient."""
    a, b = Tensor.zeros(3, requires_grad=True), Tensor.zeros(3, requires_grad=True)
    (a * 2 + b * 3).sum().backward()
    assert a.uop is not b.uop
    assert a.grad is not None and a.grad.tolist() == [2.0] * 3
    assert b.grad is not None and b.grad.tolist() == [3.0] * 3


MISTAKES: list[tuple[Callable[[], Any], type[PolygradError], str]] = [
    (
        lambda: Tensor([[1, 2], [3]]),
        ShapeError,
        "Tensor: a list must be rectangular: entry 1 at depth 1 has 1 elements, entry 0 has 2.",
    ),
    (
        lambda: Tensor([[1, 2], 3]),
        ShapeError,
        "Tensor: a list must be rectangular: entry 1 at depth 1 has no elements of its own,"
        " entry 0 has 2.",
    ),
    (
        lambda: Tensor([1, [2]]),
        ShapeError,
        "Tensor: a list must be rectangular: numbers and lists stand side by side.",
    ),
    (
        lambda: Tensor([2**40], dtype="int32"),
        ArgumentError,
        "Tensor: 1099511627776 does not fit int32 (-2147483648 to 2147483647).",
    ),
    (
        lambda: Tensor([-1], dtype="uint8"),
        ArgumentError,
        "Tensor: -1 does not fit uint8 (0 to 255).",
    ),
    (lambda: Tensor([2**70]), ArgumentError, f"Tensor: {2**70} fits no integer dtype."),
    (lambda: Tensor([float("nan")], dtype="int32"), ArgumentError, "Tensor: nan is no integer."),
    (lambda: Tensor(["a"]), ArgumentError, "Tensor: a list holds numbers, not str."),
    (
        lambda: Tensor("abc"),
        ArgumentError,
        "Tensor takes numbers, nested lists and arrays, not str.",
    ),
    (
        lambda: Tensor(None),
        ArgumentError,
        "Tensor takes numbers, nested lists and arrays, not NoneType.",
    ),
    (
        lambda: Tensor(np.array([1j])),
        DTypeError,
        "Tensor: elements of buffer format 'Zd' have no dtype here. Valid: bool, int8, uint8,"
        " int16, uint16, int32, uint32, int64, uint64, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz,"
        " float8_e5m2fnuz, float16, bfloat16, float32, float64.",
    ),
    (
        lambda: Tensor([1], dtype="float99"),
        DTypeError,
        "no dtype named 'float99'. Did you mean 'float'? Valid: bool, int8, uint8, int16, uint16,"
        " int32, uint32, int64, uint64, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz,"
        " float8_e5m2fnuz, float16, bfloat16, float32, float64.",
    ),
    (
        lambda: Tensor([1], requires_grad=True),
        DTypeError,
        "only float tensors take gradients, not int32.",
    ),
    (lambda: Tensor.arange(0, 5, 0), ArgumentError, "arange: the step is 0."),
    (
        lambda: Tensor.full((2,), 300, dtype="int8"),
        ArgumentError,
        "full: 300 does not fit int8 (-128 to 127).",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES, ids=[t[:50] for _, _, t in MISTAKES])
def test_mistake_is_named(call: Callable[[], Any], kind: type[PolygradError], text: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == text


@pytest.mark.parametrize("name", ["empty", "invalids"])
def test_storage_without_a_value_is_written_to(device: str, name: str) -> None:
    """`invalids` is `empty`: what it holds means nothing before it is assigned."""
    make = getattr(Tensor, name)
    for x, dtype in ((make(2, 3), dtypes.float32), (make((2, 3), dtype="int8"), dtypes.int8)):
        assert x.shape == (2, 3) and x.dtype is dtype and x.device == device
        x.assign(Tensor([[1, 2, 3], [4, 5, 6]]).cast(dtype))
        assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    x = make(4, dtype="int32")
    x[:2], x[2:] = 7, 8
    assert x.tolist() == [7, 7, 8, 8]
    with pytest.raises(ShapeError, match=f"{name}: shape \\(-1,\\) has a negative size"):
        make(-1)


@pytest.mark.parametrize("buffer", [True, False])
def test_full_like_may_be_written_to_either_way(device: str, buffer: bool) -> None:
    x = Tensor([1, 2, 3]).full_like(5, buffer=buffer)
    y = x + 1
    x[0] = 9
    assert (x.tolist(), y.tolist()) == ([9, 5, 5], [6, 6, 6])
