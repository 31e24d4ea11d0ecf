"""jit: the graph of one call serves all others, and no call ever sees a stale value."""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import polygrad
from polygrad import Context, Tensor, jit, settings
from polygrad.engine.counters import counters
from polygrad.errors import ArgumentError, CaptureError


def test_a_function_runs_once_in_python(device: str) -> None:
    """F067."""
    calls = []

    @jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        calls.append(1)
        return x @ y

    r = np.random.default_rng(1)
    for _ in range(4):
        x, y = r.random((3, 4), np.float32), r.random((4, 2), np.float32)
        np.testing.assert_allclose(f(Tensor(x), Tensor(y)).numpy(), x @ y, rtol=1e-5)
    assert len(calls) == 1
    assert f.stats()["calls"] == 4


def test_results_are_independent_of_later_calls(device: str) -> None:
    double = jit(lambda x: x * 2)
    one = double(Tensor([1.0, 2.0]))
    double(Tensor([5.0, 6.0]))
    assert one.tolist() == [2.0, 4.0]


def test_the_same_tensor_may_be_passed_twice(device: str) -> None:
    add = jit(lambda x, y: x + y)
    x = Tensor([1.0, 2.0])
    assert add(x, x).tolist() == [2.0, 4.0]
    assert add(x, Tensor([3.0, 4.0])).tolist() == [4.0, 6.0]


def test_a_function_without_tensors(device: str) -> None:
    ones = jit(lambda: Tensor.ones(3) * 2)
    assert ones().tolist() == [2.0, 2.0, 2.0]
    assert ones().tolist() == [2.0, 2.0, 2.0]


def test_lazy_arguments_are_computed_first(device: str) -> None:
    double = jit(lambda x: x * 2)
    assert double(Tensor([1.0, 2.0]) + 1).tolist() == [4.0, 6.0]
    assert double(Tensor.zeros(2)).tolist() == [0.0, 0.0]


def test_an_array_is_an_argument_too(device: str) -> None:
    double = jit(lambda x: x * 2)
    assert double(np.array([1.0, 2.0], np.float32)).tolist() == [2.0, 4.0]
    assert double(np.array([3.0, 4.0], np.float32)).tolist() == [6.0, 8.0]


# ---- containers


@dataclass(frozen=True)
class Batch:
    image: Tensor
    label: Tensor
    name: str = "train"


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def test_tensors_in_containers(device: str) -> None:
    @jit
    def f(batch: Batch, more: dict[str, list[Tensor]], *, pair: Pair) -> object:
        total = batch.image + batch.label + more["a"][0] + pair.first * pair.second
        return {
            "batch": Batch(total, batch.label),
            "pair": Pair(total, total * 2),
            "n": 3,
            "none": None,
        }

    def t(v: float) -> Tensor:
        return Tensor([v, v])

    for v in (1.0, 2.0):
        out = f(Batch(t(v), t(2 * v)), {"a": [t(3 * v)]}, pair=Pair(t(4.0), t(v)))
        want = 6 * v + 4 * v
        assert out["batch"].image.tolist() == [want, want]
        assert out["batch"].label.tolist() == [2 * v, 2 * v]
        assert isinstance(out["pair"], Pair)
        assert out["pair"].second.tolist() == [2 * want, 2 * want]
        assert (out["n"], out["none"]) == (3, None)


def test_one_tensor_returned_twice(device: str) -> None:
    @jit
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        return y, y

    a, b = f(Tensor([1.0]))
    assert a.tolist() == b.tolist() == [2.0]


def test_an_argument_returned_is_a_fresh_tensor(device: str) -> None:
    same = jit(lambda x: x)
    x = Tensor([1.0, 2.0])
    y = same(x)
    x.assign(x + 1)
    x.realize()
    assert y.tolist() == [1.0, 2.0]


def test_a_method(device: str) -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = Tensor([by])

        @jit
        def __call__(self, x: Tensor) -> Tensor:
            return x * self.by

    two, three = Scale(2.0), Scale(3.0)
    x = Tensor([1.0, 2.0])
    assert two(x).tolist() == [2.0, 4.0]
    assert three(x).tolist() == [3.0, 6.0]
    assert two(x).tolist() == [2.0, 4.0]


# ---- numbers


def test_a_number_that_meets_a_tensor_compiles_nothing_new(device: str) -> None:
    f = jit(lambda x, rate: x * rate + (1 - rate) / 2)
    x = Tensor([1.0, 2.0])
    f(x, 0.5)
    before = counters.kernels_lowered
    for rate in (0.25, 0.0, 1.0, -3.0):
        assert f(x, rate).tolist() == [rate + (1 - rate) / 2, 2 * rate + (1 - rate) / 2]
    assert counters.kernels_lowered == before
    assert f.stats()["captures"] == 1


def test_a_number_is_computed_as_python_does(device: str) -> None:
    """Bias correction of Adam: double precision until it meets the tensor."""
    f = jit(lambda x, beta, t: x * (1 / (1 - beta**t)))
    x = Tensor([1.0])
    for t in (1.0, 7.0, 1000.0):
        assert f(x, 0.999, t).item() == np.float32(1 / (1 - 0.999**t))


def test_an_integer_takes_the_tensor_dtype(device: str) -> None:
    f = jit(lambda x, n: x + n)
    assert f(Tensor([1, 2]), 5).tolist() == [6, 7]
    assert f(Tensor([1, 2]), -5).tolist() == [-4, -3]
    with pytest.raises(ArgumentError, match="int32"):
        f(Tensor([1, 2]), 2**40)


@pytest.mark.parametrize(
    "dtype",
    [
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2fnuz",
        "float64",
        "int8",
        "uint8",
        "int64",
    ],
)
def test_a_number_in_any_dtype(device: str, dtype: str) -> None:
    f = jit(lambda x, n: x * n)
    x = Tensor([1, 2], dtype=dtype)
    for n in (3, 5):
        assert f(x, n).tolist() == [n, 2 * n]


def test_a_number_of_numpy_counts_as_python_s(device: str) -> None:
    """As in eager operations, it does not widen a tensor, and may follow a number of Python's."""
    scale = jit(lambda x, s: x * s)
    x = Tensor([1.0, 2.0])
    for s in (0.5, np.float64(0.25), np.array(2.0)):
        got = scale(x, s)
        assert (got.dtype, got.tolist()) == (x.dtype, (x * s).tolist())
    assert jit(lambda x, i: x[i])(x, np.int64(1)).item() == 2.0


def test_a_number_that_python_looks_at_is_captured_anew(device: str) -> None:
    @jit
    def f(x: Tensor, n: int, rate: float) -> Tensor:
        return x * rate if n > 2 else x.reshape(n, -1).sum(0) - rate

    x = Tensor([1.0, 2.0])
    for _ in range(2):
        assert f(x, 5, 2.0).tolist() == [2.0, 4.0]
        assert f(x, 1, 2.0).tolist() == [-1.0, 0.0]
        assert f(x, 2, 1.0).tolist() == [2.0]
        assert f(x, 2, 2.0).tolist() == [1.0]
    assert f.stats()["captures"] == 3


def test_a_number_that_is_returned(device: str) -> None:
    f = jit(lambda x, rate: (x * rate, rate / 2))
    f(Tensor([1.0]), 4.0)
    assert f(Tensor([1.0]), 6.0)[1] == 3.0


def test_strings_and_flags_choose_a_capture(device: str) -> None:
    @jit
    def f(x: Tensor, mode: str, up: bool = True) -> Tensor:
        y = x + 1 if mode == "add" else x * 2
        return y if up else -y

    x = Tensor([3.0])
    assert [f(x, "add").item(), f(x, "mul").item(), f(x, "add", up=False).item()] == [4, 6, -4]


def test_a_jit_function_inside_another(device: str) -> None:
    inner = jit(lambda x: x + 1)
    outer = jit(lambda x: inner(x) * 2)
    assert outer(Tensor([1.0])).item() == 4
    assert outer(Tensor([2.0])).item() == 6


# ---- errors


def test_other_shapes_are_refused_by_name(device: str) -> None:
    """F071."""
    f = jit(lambda image, scale: image * scale)
    f(Tensor(np.ones((2, 4), np.float32)), Tensor([1.0]))
    with pytest.raises(ArgumentError) as error:
        f(Tensor(np.ones((3, 4), np.float32)), Tensor([1.0]))
    text = str(error.value)
    for part in ("'image'", "(3, 4)", "(2, 4)", "polygrad.compile"):
        assert part in text
    assert f(Tensor(np.ones((2, 4), np.float32)), Tensor([2.0])).tolist() == [[2.0] * 4] * 2


def test_another_dtype_is_refused(device: str) -> None:
    f = jit(lambda batch: batch["x"] * 2)
    f({"x": Tensor([1.0, 2.0])})
    with pytest.raises(ArgumentError, match=r"batch\['x'\] is int32 \(2,\)"):
        f({"x": Tensor([1, 2])})


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.item(),
        lambda t: t.numpy(),
        lambda t: t.tolist(),
        lambda t: float(t),
        lambda t: 1 if t > 0 else 0,
    ],
    ids=["item", "numpy", "tolist", "float", "if"],
)
def test_reading_a_value_while_capturing_names_the_line(device: str, read) -> None:
    f = jit(lambda x: read(x.sum()))
    with pytest.raises(CaptureError, match=r"test_jit\.py:\d+.*jit of"):
        f(Tensor([1.0, 2.0]))


def test_reading_state_while_capturing_is_refused(device: str) -> None:
    count = Tensor([1.0])
    f = jit(lambda x: x * count.item())
    with pytest.raises(CaptureError):
        f(Tensor([1.0]))


def test_a_constant_made_inside_may_be_read(device: str) -> None:
    f = jit(lambda x: x * Tensor([1.0, 2.0]).sum().item())
    assert f(Tensor([2.0])).item() == 6.0


def test_a_failed_capture_leaves_nothing_behind(device: str) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    fail = [True]

    @jit
    def f(x: Tensor) -> Tensor:
        w.assign(w + x)
        (w * x).sum().backward()
        if fail[0]:
            raise RuntimeError("of the user")
        return w * 1

    with pytest.raises(RuntimeError, match="of the user"):
        f(Tensor([1.0, 1.0]))
    assert w.tolist() == [1.0, 2.0]
    assert w.grad is None
    fail[0] = False
    assert f(Tensor([1.0, 1.0])).tolist() == [2.0, 3.0]


def test_a_failed_capture_leaves_no_modes_behind(device: str) -> None:
    """No capture, no settings, no random numbers drawn, no gradients switched off."""
    from polygrad.engine.capture import active
    from polygrad.engine.runtime import current

    def f(x: Tensor, inner: bool) -> Tensor:
        Tensor.training = True
        Context(POLY_FUSION=0).__enter__()
        y = x * Tensor.rand(2)
        if inner:
            return y * polygrad.function(lambda x: x.sum().item())(y)
        raise RuntimeError("of the user")

    for inner, kind in ((False, RuntimeError), (True, CaptureError)):
        Tensor.manual_seed(3)
        before = current().draws.state
        with pytest.raises(kind):
            jit(f)(Tensor([1.0, 2.0]), inner)
        assert current().draws.state == before
        assert active.get() is None
        assert not Tensor.training and settings.get("POLY_FUSION")
        assert (Tensor([1.0], requires_grad=True) * 2).requires_grad


def test_recursion(device: str) -> None:
    @jit
    def power(x: Tensor, n: int) -> Tensor:
        return x if n == 1 else power(x, n - 1) * x

    assert [power(Tensor([3.0]), n).item() for n in (1, 3, 2, 3)] == [3, 27, 9, 27]


def test_other_containers_and_defaults(device: str) -> None:
    class Named(dict):  # type: ignore[type-arg]
        pass

    f = jit(lambda d, *rest, scale=2.0, **more: d["x"] * scale + sum(rest) + more.get("bias", 0))
    for v in (1.0, 5.0):
        x, one = Tensor([v]), Tensor([1.0])
        assert f({"x": x}).item() == 2 * v
        assert f(OrderedDict(x=x), one, one).item() == 2 * v + 2
        assert f({"x": x}, scale=3.0, bias=one).item() == 3 * v + 1
        assert f(Named(x=x)).item() == 2 * v


def test_what_runs_later_is_refused(device: str) -> None:
    async def later(x: Tensor) -> Tensor:
        return x

    def some(x: Tensor):
        yield x

    for bad in (later, some):
        with pytest.raises(ArgumentError, match="a generator or a coroutine"):
            jit(bad)
    with pytest.raises(ArgumentError, match="computes later; return a list"):
        jit(lambda x: (x * i for i in range(2)))(Tensor([1.0]))


def test_two_threads(device: str) -> None:
    """Each gets its own results, and no step of the state is lost."""
    total = Tensor.zeros(1).realize()

    @jit
    def f(x: Tensor, n: float) -> Tensor:
        total.assign(total + 1)
        return (x * n).sum()

    wrong = []

    def work(k: int) -> None:
        for i in range(25):
            got = f(Tensor(np.full(4, k, np.float32), device=device), float(i)).item()
            if got != 4 * k * i:
                wrong.append((k, i, got))

    f(Tensor(np.ones(4, np.float32)), 0.0)
    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and total.item() == 76 and f.stats()["captures"] == 1


@pytest.mark.parametrize("how", ["dispose", "drop"])
def test_what_a_capture_holds_goes_with_it(device: str, how: str) -> None:
    """F070: disposing, or dropping the function, frees its constants."""
    from polygrad.device.buffer import pool

    gc.collect()
    before = pool(device).usage().live

    f: Any = jit(lambda x: x + Tensor(np.ones(50_000, np.float32)))
    f(Tensor(np.zeros(50_000, np.float32)))
    gc.collect()
    assert pool(device).usage().live >= before + 200_000
    if how == "dispose":
        f.dispose()
    else:
        del f
    gc.collect()
    assert pool(device).usage().live < before + 100_000


def test_the_last_shown_frame_is_the_callers(device: str) -> None:
    import sys
    import traceback

    f = jit(lambda x: x * 2)
    f(Tensor([1.0]))
    with pytest.raises(ArgumentError) as error:
        f(Tensor([1.0, 2.0]))
    frames = traceback.extract_tb(error.value.__traceback__)
    last = frames[-1] if sys.version_info >= (3, 11) else frames[-2]
    assert last.filename == __file__
