"""BEAM (F189): what a search finds is right, kept, and used only where it is asked for."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor
from polygrad import device as devices
from polygrad.codegen.kernel import Kernel, canonical
from polygrad.codegen.lists import Choice, replay
from polygrad.codegen.search import Found, search
from polygrad.engine import bench as room
from polygrad.engine import kernels, tuning
from polygrad.engine.bench import GUARD, Bench, addresses_are_known
from polygrad.engine.counters import counters
from polygrad.engine.runtime import Runtime, use
from polygrad.errors import SettingError
from polygrad.schedule import schedule
from polygrad.uop.ops import KernelInfo, Ops, UOp

pytest.importorskip("polygrad_backend_cpu")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Runtime]:
    """A runtime that has compiled nothing, on the cpu, with an empty disk cache."""
    monkeypatch.setattr(tuning, "_known", weakref.WeakKeyDictionary())
    runtime = Runtime("tuning")
    with Context(POLY_DEV="cpu", POLY_CACHE_DIR=str(tmp_path / "cache"), BEAM_TIMEOUT_SEC=1):
        with use(runtime):
            yield runtime


def programs(rng: np.random.Generator) -> dict[str, Any]:
    x = rng.standard_normal((70, 45), np.float32)
    y = rng.standard_normal((45, 33), np.float32)
    i = rng.integers(0, 70, 20).astype(np.int32)
    return {
        "matmul": lambda t: t(x) @ t(y),
        "softmax": lambda t: t(x).softmax(1),
        "sum": lambda t: t(x).sum(0),
        "integers": lambda t: (t(i) * 3 + 1).sum(),
        "cumsum": lambda t: t(x).cumsum(1),
        "argmax": lambda t: t(x).argmax(1),
        "rows": lambda t: t(x)[t(i)] * 2,
        "halves": lambda t: (t(x).half() @ t(y).half()).float(),
        "comparison": lambda t: (t(x) > 0.5).any(0),
        "sort": lambda t: t(x).sort(1)[0],
    }


@pytest.mark.parametrize("name", list(programs(np.random.default_rng(0))))
def test_results_are_right(name: str, fresh: Runtime, rng: np.random.Generator) -> None:
    program = programs(rng)[name]
    with Context(BEAM=2):
        got = program(lambda a: Tensor(a)).numpy()
    expected = program(lambda a: Tensor(a, device="interp")).numpy()
    if got.dtype.kind == "f":
        near = 2e-3 if name == "halves" else 3e-5
        np.testing.assert_allclose(got, expected, rtol=near, atol=near)
    else:
        np.testing.assert_array_equal(got, expected)


def test_sizes_that_vary_are_searched_at_their_largest(fresh: Runtime) -> None:
    from polygrad import Variable

    n = Variable("n", 1, 40)
    data = np.arange(120, dtype=np.float32).reshape(40, 3)
    x = Tensor(data).realize()
    for size in (40, 7):
        with Context(BEAM=2):
            got = (x[: n.bind(size)] * 2).sum(0).numpy()
        np.testing.assert_array_equal(got, (data[:size] * 2).sum(0))
    assert fresh.counters.kernels_tuned > 0


# ---- when it is used


class Planted:
    """A search that always gives one list, and counts how often it is asked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, canonical: Kernel, target: Any, width: int, bench: Any, s: float) -> Found:
        self.count += 1
        loop = canonical.order[-1]
        return Found(Choice("elementwise", (("unroll", loop.arg[0]),)), 2.0, 1.0, 5, 1)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    made = Planted()
    monkeypatch.setattr("polygrad.codegen.search.search", made)
    return made


def note() -> str:
    """How one elementwise kernel runs now."""
    sink = schedule([(Tensor.empty(3) * 5).uop], "cpu").items[0].sink
    return kernels.of(devices.get("cpu")).get([sink])[0].linear.note


def test_a_winner_is_used_only_where_it_is_asked_for(fresh: Runtime, planted: Planted) -> None:
    with Context(POLY_TUNED=1):
        assert "unroll" not in note()  # nothing was found before
    with Context(BEAM=3):
        assert "elementwise over 3: unroll 0" in note()
    assert planted.count == 1
    assert "unroll" not in note()
    with Context(POLY_TUNED=1):
        assert "unroll 0" in note()
    with Context(BEAM=2):
        assert "unroll 0" in note()
    assert planted.count == 1
    with Context(BEAM=4):  # a wider search may find more
        assert "unroll 0" in note()
    assert planted.count == 2


def test_the_reference_device_has_no_times(fresh: Runtime, planted: Planted) -> None:
    with Context(BEAM=4, POLY_DEV="interp"):
        assert (Tensor([1.0, 2.0]) * 3).tolist() == [3.0, 6.0]
    assert planted.count == 0


def test_a_width_must_be_a_number() -> None:
    with pytest.raises(SettingError, match="BEAM=wide"), Context(BEAM="wide"):
        pass


_PROGRAM = """
import sys
import numpy as np
from polygrad import Tensor
from polygrad.engine.counters import counters
r = np.random.default_rng(0)
x = Tensor(r.standard_normal((64, 48), np.float32))
y = (x @ Tensor(r.standard_normal((48, 64), np.float32))).softmax(1).numpy()
print(counters.kernels_tuned, counters.kernels_compiled, y.tobytes().hex())
"""


def child(cache: Path, **env: str) -> tuple[int, int, str]:
    settings = {**os.environ, "POLY_DEV": "cpu", "POLY_CACHE_DIR": str(cache), **env}
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, env=settings, check=True, capture_output=True, text=True)
    tuned, compiled, data = done.stdout.split()
    return int(tuned), int(compiled), hashlib.sha256(data.encode()).hexdigest()


def test_later_processes_find_winners_without_a_search(tmp_path: Path) -> None:
    """And their bits: with more threads too, and with POLY_TUNED alone."""
    first = child(tmp_path, BEAM="2", BEAM_TIMEOUT_SEC="2", POLY_THREADS="1")
    assert first[0] == 2
    again = child(tmp_path, BEAM="2", POLY_THREADS="1")
    assert again == (0, 0, first[2])
    assert child(tmp_path, POLY_TUNED="1", POLY_THREADS="2")[::2] == (0, first[2])


def test_a_damaged_winner_is_no_winner(
    fresh: Runtime, planted: Planted, monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    device = devices.get("cpu")
    from polygrad.engine.kernels import cache_of

    cache = cache_of(device)
    assert cache is not None
    key = tuning._key(device, "k_name")
    for text in (b"{", b"[]", b'{"language":1,"width":2,"choice":{"recipe":"x","verbs":[]}}'):
        cache.put(key, text)
        with caplog.at_level(logging.WARNING, "polygrad.tune"):
            assert tuning._from_disk(device, "k_name") is None
        assert "cannot be read" in caplog.text
        caplog.clear()
    cache.put(key, b'{"language":999,"width":2,"choice":null}')
    assert tuning._from_disk(device, "k_name") is None


# ---- the bench


def own(tensor: Tensor) -> tuple[Kernel, Bench]:
    from polygrad.codegen import optimize

    device = devices.get("cpu")
    sink = schedule([tensor.uop], "cpu").items[-1].sink
    plain = canonical(sink)
    return plain, Bench(device, plain, optimize(sink, device.target), "k")


def test_a_wrong_result_is_refused_and_reported(
    fresh: Runtime, monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    """A compiler that miscompiles every list but the recipe's."""
    plain, bench = own(Tensor.empty(64, 32) @ Tensor.empty(32, 48))
    lowered = room.lowered

    def miscompiled(kernel: Kernel, target: Any, name: str) -> Any:
        """The product of other numbers: one factor is read as the other."""
        return lowered(_doubled(kernel), target, name)

    monkeypatch.setattr(room, "lowered", miscompiled)
    with caplog.at_level(logging.WARNING, "polygrad.tune"):
        with pytest.raises(RuntimeError, match="own list did not run"):
            search(plain, bench.device.target, 2, _Without(bench), 5)
    assert "k gives other bits" in caplog.text or "too far" in caplog.text


class _Without:
    """A bench that has forgotten what it compiled."""

    def __init__(self, bench: Bench) -> None:
        bench.made.clear()
        self.measure, self.duel = bench.measure, bench.duel


def _doubled(kernel: Kernel) -> Kernel:
    stores = tuple(
        UOp(Ops.STORE, s.dtype, (s.src[0], s.src[1] + s.src[1], *s.src[2:]), s.arg)
        for s in kernel.stores
    )
    return replace(kernel, stores=stores)


def test_a_list_that_cannot_be_compiled_is_refused_and_reported(
    fresh: Runtime, monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    lowered, first = room.lowered, []

    def failing(kernel: Kernel, target: Any, name: str) -> Any:
        if not first:
            first.append(kernel.log)
        if kernel.log != first[0] and name.startswith("k_"):
            raise AssertionError("a fault of the compiler")
        return lowered(kernel, target, name)

    monkeypatch.setattr(room, "lowered", failing)
    with caplog.at_level(logging.WARNING, "polygrad.tune"), Context(BEAM=2):
        x = np.arange(64 * 48, dtype=np.float32).reshape(64, 48)
        np.testing.assert_array_equal((Tensor(x) * 3).numpy(), x * 3)
    assert "cannot be compiled as" in caplog.text
    assert "a fault of the compiler" in caplog.text


def test_another_order_of_an_inexact_sum_is_within_the_tolerance(fresh: Runtime) -> None:
    plain, bench = own(Tensor.empty(8, 300).exp().sum(1))
    assert bench.inexact == 300
    four = replay(plain, Choice("reduction", (("split", 100, 4), ("partial", 102))))
    results, _ = bench._results(bench._made(four), bench.values[0])
    assert results != bench.expected[0]
    assert bench._wrong(results, bench.expected[0]) == ""
    assert bench.measure(four, 1.0) is not None
    assert bench.measure(_doubled(plain), 1.0) is None


def test_exact_arithmetic_must_give_the_same_bits(fresh: Runtime) -> None:
    for tensor in (Tensor.empty(30, 20) * 3, Tensor.empty(30, 20, dtype="int32").sum(1)):
        plain, bench = own(tensor)
        assert bench.inexact == 0
        assert bench._wrong(bench.expected[0], bench.expected[0]) == ""
        other = [bytearray(e) for e in bench.expected[0]]
        other[0][0] ^= 1
        assert bench._wrong(other, bench.expected[0]) == "other bits"
        assert bench.measure(plain, 1.0) is not None


def test_bytes_after_the_end_are_guarded(fresh: Runtime) -> None:
    _, bench = own(Tensor.empty(30, 20).exp().sum(1))
    other = [bytearray(e) for e in bench.expected[0]]
    other[0][-GUARD] ^= 1
    assert bench._wrong(other, bench.expected[0]) == "bytes after the end of a buffer"


def test_nan_is_near_nan_only(fresh: Runtime) -> None:
    _, bench = own(Tensor.empty(4, 50).exp().sum(1))
    (i,) = bench.written
    nan, right = np.full(4, np.nan, np.float32), np.ones(4, np.float32)

    def far(got: np.ndarray, want: np.ndarray) -> int:
        tail = b"\xa5" * GUARD
        bench.buffers[i].write(memoryview(got.tobytes() + tail))
        return bench._far(i, bytearray(want.tobytes() + tail))

    assert far(nan, nan) == 0
    assert far(nan, right) == far(right, nan) == 4
    assert far(right, right) == 0
    assert far(np.array([1, 1, 1.01, 1], np.float32), right) == 1
    assert far(right * np.inf, right * np.inf) == 0
    assert far(right * np.inf, right) == 4


def test_unguarded_addresses_from_data_are_not_searched(fresh: Runtime, planted: Planted) -> None:
    def pick(out: UOp, x: UOp, index: UOp) -> UOp:
        i = UOp.range(2, 0)
        return out[i].store(x[index[i]]).end(i).sink(arg=KernelInfo(name="pick"))

    x, i = Tensor([1.0, 2.0, 3.0]), Tensor(np.array([2, 0], np.int32))
    with Context(BEAM=2):
        got = Tensor.empty(2).custom_kernel(x, i, fxn=pick)[0].tolist()
    assert got == [3.0, 1.0]
    assert planted.count == 0


# ---- whatever goes wrong, everything is as before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_search_leaves_no_trace(
    fresh: Runtime, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    from polygrad.device.buffer import pool

    def stopped(*_: Any) -> None:
        raise error

    x = Tensor(np.ones((40, 40), np.float32)).realize()
    before = pool("cpu").usage().live
    monkeypatch.setattr(Bench, "_timed", stopped)
    y = x * 7 + 1
    with Context(BEAM=2):
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                y.realize()
            assert pool("cpu").usage().live == before
        else:  # a kernel that finds no room on the bench runs as its recipe says
            y.realize()
    assert not any(tuning._known.get(devices.get("cpu"), {}).values())
    monkeypatch.undo()
    assert y.numpy().min() == 8.0


def test_tuned_kernels_are_counted(fresh: Runtime) -> None:
    before = counters.kernels_tuned
    with Context(BEAM=1):
        (Tensor([1.0, 2.0]).realize() + 1).realize()
    assert counters.kernels_tuned - before == fresh.counters.kernels_tuned == 1
    assert addresses_are_known(own(Tensor.empty(3, 4) * 2)[0])
