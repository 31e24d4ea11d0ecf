"""Host data in and out, Python's protocols, printing (F009, F013, F059, F060, F064)."""

from __future__ import annotations

import array
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor, jit
from polygrad.engine.counters import counters
from polygrad.errors import ArgumentError, CaptureError, DTypeError, PolygradError, ShapeError


class Lent:
    """A host tensor of another library that speaks DLPack alone, as torch's does."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float64"]
)
def test_numpy_arrays_keep_their_dtype(device: str, dtype: str) -> None:
    a = np.array([[0, 1], [2, 3]]).astype(dtype)
    got = Tensor(a).numpy()
    assert got.dtype == a.dtype
    np.testing.assert_array_equal(got, a)


def test_numpy_numbers_are_numbers() -> None:
    """numpy.float64 is a subclass of float: it once passed for an integer and lost its fraction."""
    one = np.float64(2.5)
    assert (Tensor(one).dtype.name, Tensor(one).item()) == ("float64", 2.5)
    for data in ([one], [1, one], [one, np.float32(2.5)]):
        assert (Tensor(data).dtype.name, Tensor(data).tolist()[-1]) == ("float32", 2.5)
    assert Tensor([one], dtype="int32").tolist() == [2]


@pytest.mark.parametrize(
    "a", [A.T, A[::2, ::-1], A[:, 1], A[0, 0], A[:0]], ids=lambda a: str(a.shape)
)
def test_any_layout_comes_in(device: str, a: Any) -> None:
    np.testing.assert_array_equal(Tensor(a).numpy(), a)
    np.testing.assert_array_equal(Tensor(Lent(np.asarray(a))).numpy(), a)


def test_other_byte_orders_and_buffers(device: str) -> None:
    np.testing.assert_array_equal(Tensor(A.astype(">f4")).numpy(), A)
    assert Tensor(array.array("d", [1.5, 2.5])).tolist() == [1.5, 2.5]
    assert Tensor(memoryview(b"\x01\x02")).tolist() == [1, 2]
    assert Tensor(bytearray(b"\x03")).dtype.name == "uint8"
    assert Tensor(range(3)).tolist() == [0, 1, 2]
    assert Tensor((1.0, 2.0)).tolist() == [1.0, 2.0]
    assert Tensor([np.float32(1), np.int8(2)]).tolist() == [1.0, 2.0]


def test_the_tensor_is_a_copy(device: str) -> None:
    a = np.zeros(3, np.float32)
    x = Tensor(a)
    a[0] = 9
    assert x.tolist() == [0.0, 0.0, 0.0]
    out = x.numpy()
    out[1] = 9
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_dlpack_types_and_places() -> None:
    assert Tensor(Lent(np.array([True, False]))).dtype.name == "bool"
    assert Tensor(Lent(np.array([1, 2], np.int64))).tolist() == [1, 2]

    class Elsewhere(Lent):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    with pytest.raises(ArgumentError, match="a .*Elsewhere is not in host memory"):
        Tensor(Elsewhere(A))

    class Kept(Lent):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("this is not lent")

    with pytest.raises(ArgumentError, match="a .*Kept gives no data: this is not lent"):
        Tensor(Kept(A))


def test_data_is_a_memoryview_with_shape(device: str) -> None:
    view = Tensor(A).data()
    assert (view.format, view.shape, view[1, 2]) == ("f", (3, 4), 6.0)
    assert Tensor(2.5).data().tolist() == 2.5
    assert Tensor(np.zeros((0, 3), np.int8)).data().nbytes == 0
    assert Tensor([1.0], dtype="bfloat16").data().tolist() == [0x3F80]
    half = Tensor([[1.0, 2.5]], dtype="float16").data()
    assert (half.format, half.shape, np.asarray(half).tolist()) == ("e", (1, 2), [[1.0, 2.5]])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4), (0, 0)])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "float16", "bfloat16"])
def test_data_of_nothing_keeps_its_shape(device: str, shape: tuple[int, ...], dtype: str) -> None:
    view = Tensor.zeros(*shape, dtype=dtype).data()
    assert (view.shape, view.nbytes) == (shape, 0)
    assert view.format == {"bool": "?", "int8": "b", "float16": "e", "bfloat16": "H"}.get(
        dtype, "f"
    )


def test_numpy_of_bfloat16_is_float32(device: str) -> None:
    got = Tensor([1.0, -2.5], dtype="bfloat16").numpy()
    assert (got.dtype, got.tolist()) == (np.float32, [1.0, -2.5])


def test_numpy_takes_tensors(device: str) -> None:
    x = Tensor(A)
    np.testing.assert_array_equal(np.asarray(x), A)
    np.testing.assert_array_equal(np.exp(x), np.exp(A))
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert isinstance(np.ones(4, np.float32) + x, Tensor)
    np.testing.assert_array_equal(np.from_dlpack(x), A)
    if sys.version_info >= (3, 12):
        assert memoryview(x).shape == (3, 4)  # type: ignore[arg-type]
        assert bytes(Tensor([1, 2], dtype="uint8")) == b"\1\2"  # type: ignore[call-overload]
        kept = np.frombuffer(x, np.float32)  # type: ignore[call-overload]
        Tensor(A + 1).tolist()  # what was freed would be overwritten
        np.testing.assert_array_equal(kept, A.ravel())
    assert np.asarray(Tensor([2.5], dtype="bfloat16")).dtype == np.float32


FUNCTIONS: dict[str, Any] = {
    **{
        f: getattr(np, f) for f in ("sum", "mean", "max", "min", "prod", "std", "var", "all", "any")
    },
    **{f: getattr(np, f) for f in ("sqrt", "asarray", "ravel", "squeeze", "ones_like")},
    **{f: getattr(np, f) for f in ("shape", "ndim", "size", "result_type")},
    "over an axis": lambda t: np.sum(t, axis=1, keepdims=True, dtype="float64"),
    "of a list": lambda t: np.concatenate([t, t]),
    "of a tuple": lambda t: np.stack((t, np.ones((3, 4)))),
    "by name": lambda t: np.where(t > 3, t, 0),
    "of blocks": lambda t: np.block([[t, t], [t, t]]),
    "norm": lambda t: np.linalg.norm(t, axis=0),
    "out": lambda t: np.sum(t, axis=0, out=np.empty(4, np.float32)),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions_of_numpy_take_tensors_as_arrays(case: str, device: str) -> None:
    want = FUNCTIONS[case](A)
    got = FUNCTIONS[case](Tensor(A) * 1.0)
    assert type(got) is type(want)
    np.testing.assert_array_equal(got, want, strict=True)


def test_shapes_are_told_without_computing(device: str) -> None:
    x = Tensor(A) + 1
    before = counters.snapshot()
    assert (np.shape(x), np.ndim(x), np.size(x, 1)) == ((3, 4), 2, 4)
    assert np.zeros_like(x).flags.writeable
    assert counters.snapshot() == before
    assert jit(lambda t: t * np.ndim(t))(Tensor(A)).tolist() == (A * 2).tolist()


def test_a_function_of_numpy_reads_no_value_while_a_call_is_captured(device: str) -> None:
    with pytest.raises(CaptureError, match="value is read"):
        jit(lambda t: t * np.sum(t))(Tensor(A))


def test_errors_of_numpy_stay_its_own() -> None:
    with pytest.raises(np.exceptions.AxisError, match="axis 7"):
        np.sum(Tensor(A), axis=7)


def test_numbers_come_out(device: str) -> None:
    x = Tensor([[2.5]])
    assert (x.item(), float(x), int(x), bool(x)) == (2.5, 2.5, 2, True)
    assert f"{x:.3f}" == "2.500"
    assert [10, 20, 30][Tensor(2)] == 30
    assert math.sqrt(Tensor(4.0)) == 2.0
    assert (math.trunc(Tensor(-2.5)), math.floor(Tensor(-2.5)), math.ceil(Tensor(-2.5))) == (
        -2,
        -3,
        -2,
    )
    assert Tensor([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert Tensor(np.zeros((2, 0, 3), np.float32)).tolist() == [[], []]
    assert Tensor.numpy_many(Tensor([1]), Tensor([2]) + 1)[1].tolist() == [3]


def test_a_tensor_is_a_sequence_of_its_first_axis(device: str) -> None:
    x = Tensor([[1, 2], [3, 4]])
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x and 7 not in x
    first, second = x
    assert (first + second).tolist() == [4, 6]


def test_printing_shows_values_when_they_are_there(device: str) -> None:
    x = Tensor([[1.0, 2.5], [3.0, 4.0]])
    y = x + 1
    assert repr(x) == (f"Tensor([[1, 2.5],\n        [3, 4]], dtype=float32, device={device!r})")
    assert repr(y) == f"Tensor(shape=(2, 2), dtype=float32, device={device!r}, lazy)"
    assert repr(y.realize()).startswith("Tensor([[2, 3.5]")
    assert repr(Tensor.zeros(1000).realize()) == (
        f"Tensor(shape=(1000,), dtype=float32, device={device!r})"
    )
    assert repr(Tensor.zeros(2)) == "Tensor(shape=(2,), dtype=float32, device='any', lazy)"
    assert "<code>Tensor([" in x._repr_html_()
    assert str(x) == repr(x) == f"{x}"


def test_realize_takes_others_and_gives_self(device: str) -> None:
    a, b = Tensor([1.0]) + 1, Tensor([2.0]) + 1
    assert a.realize(b) is a
    assert "lazy" not in repr(a) and "lazy" not in repr(b)


def test_to_and_clone(device: str) -> None:
    x = Tensor([1.0, 2.0])
    assert x.to(device) is x
    y = x.clone().realize()
    x[0] = 5
    assert (x.tolist(), y.tolist()) == ([5.0, 2.0], [1.0, 2.0])
    other = "cpu" if device == "interp" else "interp"
    try:
        moved = (x * 2).to(other)
    except PolygradError:
        pytest.skip(f"{other} cannot be used here")
    assert (moved.device, moved.tolist()) == (other, [10.0, 4.0])
    assert moved.to(device).device == device
    with pytest.raises(ArgumentError, match=r"cannot meet in one operation; move one with \.to"):
        moved + x


def test_assign_copy_from_and_replace(device: str) -> None:
    x = Tensor([1.0, 2.0]).realize()
    lazy = x + 0
    x.assign(x * 10)
    assert x.tolist() == [10.0, 20.0]
    assert lazy.tolist() == [1.0, 2.0]
    assert x.copy_from(np.array([3, 4], np.float32)) is x
    assert x.tolist() == [3.0, 4.0]
    assert x.update_from([5, 6]).tolist() == [5.0, 6.0]
    x.replace(Tensor([7.0, 8.0]))
    assert x.tolist() == [7.0, 8.0]
    with pytest.raises(ShapeError, match=r"assign: shape \(3,\) does not fit \(2,\)."):
        x.assign(Tensor.zeros(3))
    with pytest.raises(
        DTypeError, match=r"assign: a value of int32 does not fit float32; use \.cast"
    ):
        x.assign(Tensor([1, 2]))
    assert x.tolist() == [7.0, 8.0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: x.item(),
            "item() takes a tensor with one element, not shape (2, 3); use .tolist() or .numpy().",
        ),
        (
            lambda x: bool(x),
            "the truth of a tensor of shape (2, 3) is ambiguous; use .any() or .all().",
        ),
        (lambda x: [1][Tensor(0.0)], "only an integer tensor is an index, not float32."),
        (lambda x: len(Tensor(1.0)), "a 0-d tensor has no length."),
        (lambda x: iter(Tensor(1.0)), "a 0-d tensor cannot be iterated."),
        (lambda x: x + "a", None),
        (lambda x: x.add(object()), "add takes a tensor or a number, not object."),
        (lambda x: x.bitcast("int64"), "bitcast: the bits of float32 are no int64."),
    ],
)
def test_mistake_is_named(call: Any, text: str | None) -> None:
    if text is None:
        with pytest.raises(TypeError, match="unsupported operand"):
            call(Tensor.zeros(2, 3))
        return
    with pytest.raises(PolygradError) as error:
        call(Tensor.zeros(2, 3))
    assert str(error.value) == text


def test_the_traceback_ends_at_the_callers_line() -> None:
    with pytest.raises(ShapeError) as error:
        Tensor.zeros(2) + Tensor.zeros(3)
    frames = [f for f in error.traceback if "polygrad-core" in str(f.path)]
    assert len(frames) <= (0 if sys.version_info >= (3, 11) else 1)


def test_to_moves_the_object_itself(device: str) -> None:
    x = Tensor([1.0, 2.0]) + 1
    same = x.to_("interp")
    assert same is x
    assert (x.device, x.tolist()) == ("interp", [2.0, 3.0])


ONES = np.ones(2, np.float32)
# Of a vector and a matrix on some device, with host data beside them.
WITH_HOST_DATA: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "+": lambda x, m: x + ONES,
    "reflected": lambda x, m: [1.0, 1.0] - x,
    "**": lambda x, m: ONES**x,
    "//": lambda x, m: x // ONES,
    "%": lambda x, m: ONES % x,
    "==": lambda x, m: x == ONES,
    "<": lambda x, m: x < [1.0, 2.0],
    "where": lambda x, m: (x > 1).where(ONES, [0.0, 0.0]),
    "cat": lambda x, m: x.cat(ONES),
    "cat, host first": lambda x, m: Tensor.cat([ONES, x]),
    "stack": lambda x, m: x.stack(ONES),
    "hstack": lambda x, m: Tensor.hstack(ONES, x),
    "assign": lambda x, m: x.assign(ONES),
    "matmul": lambda x, m: m @ ONES,
    "matmul, host first": lambda x, m: Tensor.einsum("i,ij->j", ONES, m),
    "addmm": lambda x, m: m.addmm(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)),
    "kron": lambda x, m: x.kron(ONES),
    "outer": lambda x, m: x.outer(ONES),
    "maximum": lambda x, m: x.maximum(ONES),
    "clip": lambda x, m: x.clip(ONES, ONES + 1),
    "atan2": lambda x, m: x.atan2(ONES),
    "solve": lambda x, m: m.solve(ONES),
    "isin": lambda x, m: x.isin([1.0]),
    "searchsorted": lambda x, m: x.searchsorted([1.5]),
    "gather": lambda x, m: x.gather(0, np.array([1, 0])),
    "take": lambda x, m: x.take([1, 0]),
    "index": lambda x, m: x[[1, 0]],
    "index of numpy": lambda x, m: m[np.array([1]), 0:1],
    "mask": lambda x, m: x[np.array([True, False])],
    "nonzero": lambda x, m: x.nonzero(),
    "scatter": lambda x, m: x.scatter(0, [0], [5.0]),
    "masked_fill": lambda x, m: x.masked_fill(np.array([True, False]), 0.0),
    "histogram": lambda x, m: x.histogram(bins=[0.0, 1.5, 3.0])[0],
    "cdist": lambda x, m: m.cdist(np.eye(2, dtype=np.float32)),
    "loss": lambda x, m: x.mse_loss(ONES),
    "cross entropy": lambda x, m: m.cross_entropy([0, 1]),
}


@pytest.mark.parametrize("name", WITH_HOST_DATA)
@pytest.mark.parametrize("place", ["cpu", "interp"])
def test_host_data_joins_a_tensor_where_that_is(name: str, place: str) -> None:
    """Whichever device is the default."""
    f, given = WITH_HOST_DATA[name], ([1.0, 2.0], [[3.0, 1.0], [1.0, 2.0]])
    wanted = f(*(Tensor(v) for v in given))
    got = f(*(Tensor(v, device=place) for v in given))
    assert got.device == place
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize("place", ["cpu", "interp"])
def test_host_data_is_written_where_the_tensor_is(place: str) -> None:
    x = Tensor.zeros(4, device=place).contiguous()
    x[:2] = ONES
    x[[2]] = [3.0]
    x[np.array([False, False, False, True])] = np.array([4.0], np.float32)
    x += np.ones(4, np.float32)
    assert x.device == place and x.tolist() == [2.0, 2.0, 4.0, 5.0]


def test_shard_moves_to_one_device_or_says_why_not(device: str) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.shard_((device, device), axis=1) is x
    assert x.device == device and x.shard_("interp").device == "interp"
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    for devices, axis, text in (
        (("interp", "cpu"), 0, "a tensor is on one device, not on 'interp' and 'cpu'"),
        ((), None, "no device is given"),
        (("interp",), 2, "axis 2 is outside"),
    ):
        with pytest.raises(ArgumentError, match=text):
            x.shard_(devices, axis)
    assert x.device == "interp" and x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
