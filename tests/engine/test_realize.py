"""Realising graphs: known graphs compile nothing, and old versions are never seen to change."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.engine import Runtime, current, realize, use
from polygrad.engine.counters import counters
from polygrad.errors import ArgumentError


@pytest.fixture(autouse=True)
def own_runtime():
    """Each test has its own graph cache, so that what it counts is its own."""
    with use(Runtime("test")) as runtime:
        yield runtime


def made(action) -> int:
    """How many Plans `action` made."""
    before = counters.plans_made
    action()
    return counters.plans_made - before


def test_the_second_graph_of_one_shape_makes_no_plan(device: str) -> None:
    def run() -> None:
        a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
        assert (a * b + a).tolist() == [4.0, 10.0]

    assert made(run) == 1
    assert made(run) == 0


def test_a_number_that_varies_compiles_once_more_and_never_again(device: str) -> None:
    x = Tensor([1.0, 2.0, 3.0])

    def run(value: float) -> None:
        assert (x * value).tolist() == [value, 2 * value, 3 * value]

    assert made(lambda: run(2.5)) == 1
    assert made(lambda: run(3.5)) == 1
    assert made(lambda: [run(v) for v in (4.5, 0.25, -7.0, 2.5, 2.0**90)]) == 0


def test_a_varying_number_gives_the_bits_of_a_constant(device: str) -> None:
    x = Tensor(np.linspace(-3, 3, 1001, dtype=np.float32))
    values = [0.1, 1 / 3, 2.7182818284590451, 1e-40, 3e38]
    as_variable = [((x * v) + v / 7).numpy() for v in values]
    for v, got in zip(values, as_variable, strict=True):
        with use(Runtime("fresh")):
            y = Tensor(np.linspace(-3, 3, 1001, dtype=np.float32))
            want = ((y * v) + v / 7).numpy()
        assert got.tobytes() == want.tobytes()


def test_integers_and_narrow_floats_vary_too(device: str) -> None:
    i = Tensor([1, 2, 3])
    h = Tensor([1.0, 2.0], dtype="float16")
    for n in (5, 7, 11):
        assert (i * n + n).tolist() == [2 * n, 3 * n, 4 * n]
        assert (h * (n / 4)).tolist() == [n / 4, n / 2]


def test_random_draws_make_one_plan(device: str) -> None:
    def run() -> None:
        Tensor.rand(5).realize()

    assert made(run) == 1
    assert made(run) == 0


def test_a_realised_node_is_a_leaf_of_later_graphs(device: str) -> None:
    x = Tensor([1.0, 2.0])
    y = x * 3.0
    z = y + 1.0  # built before y is realised
    y.realize()
    before = counters.launches
    assert z.tolist() == [4.0, 7.0]
    assert counters.launches == before + 1


def test_twelve_equal_layers_are_compiled_once(device: str) -> None:
    x = Tensor(np.ones((4, 6), np.float32))
    layers = [Tensor(np.full((6, 6), i / 50, np.float32)) for i in range(12)]
    before = counters.kernels_lowered
    for w in layers:
        x = (x @ w).relu().contiguous()
    x.realize()
    assert counters.kernels_lowered - before <= 2


# ---- versions


def copies(action) -> int:
    before = counters.saved_versions
    action()
    return counters.saved_versions - before


def test_an_update_in_a_loop_writes_in_place(device: str) -> None:
    x = Tensor([1.0, 2.0])
    address = current().buffer_of(x.uop)

    def run() -> None:
        for _ in range(5):
            x.assign(x + 1.0)
            x.realize()

    assert copies(run) == 0
    assert x.tolist() == [6.0, 7.0]
    assert current().buffer_of(x.uop) is address


def test_a_lazy_reader_sees_the_old_version(device: str) -> None:
    x = Tensor([1.0, 2.0])
    reader = x * 10.0
    x.assign(x + 1.0)
    assert copies(x.realize) == 1
    assert reader.tolist() == [10.0, 20.0]
    assert x.tolist() == [2.0, 3.0]


def test_a_reader_of_a_node_inside_the_graph_sees_the_old_version(device: str) -> None:
    x = Tensor([1.0, 2.0])
    inside = x * 10.0
    reader = inside + 1.0
    x.assign(inside)
    x.realize()
    assert reader.tolist() == [11.0, 21.0]
    assert inside.tolist() == [10.0, 20.0]
    assert x.tolist() == [10.0, 20.0]


def test_an_alias_keeps_the_old_version(device: str) -> None:
    x = Tensor([1.0, 2.0])
    alias = Tensor(x)
    assert alias.uop is x.uop
    x.assign(x + 1.0)
    x.realize()
    assert alias.tolist() == [1.0, 2.0]


def test_a_reader_of_the_new_version_costs_no_copy(device: str) -> None:
    x = Tensor([1.0, 2.0])
    x.assign(x + 1.0)
    reader = x * 2.0
    assert copies(x.realize) == 0
    assert reader.tolist() == [4.0, 6.0]


def test_an_assignment_below_a_root_happens_once(device: str) -> None:
    x = Tensor([1.0, 2.0])
    x.assign(x + 1.0)
    assert (x * 2.0).tolist() == [4.0, 6.0]
    assert x.tolist() == [2.0, 3.0]
    assert (x * 2.0).tolist() == [4.0, 6.0]


def test_a_chain_of_assignments_ends_with_the_last(device: str) -> None:
    x = Tensor([1.0, 2.0])
    address = current().buffer_of(x.uop)
    for _ in range(4):
        x.assign(x * 2.0)
    assert x.tolist() == [16.0, 32.0]
    assert current().buffer_of(x.uop) is address


def test_two_tensors_swap_their_values(device: str) -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    old = x + 0.0
    x.assign(y * 1.0)
    y.assign(old)
    Tensor.realize(x, y)
    assert (x.tolist(), y.tolist()) == ([3.0, 4.0], [1.0, 2.0])


def test_a_loss_read_after_the_update_is_the_loss_before(device: str) -> None:
    w = Tensor([1.0, 2.0])
    loss = (w * w).sum()
    w.assign(w - loss * 0.1)
    w.realize()
    assert loss.item() == pytest.approx(5.0)


def test_a_write_that_cannot_be_in_place_keeps_the_address(device: str) -> None:
    x = Tensor(np.arange(6, dtype=np.float32))
    address = current().buffer_of(x.uop)
    x.assign(x.flip(0) * 1.0)
    assert x.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    assert current().buffer_of(x.uop) is address


# ---- several devices, failures, memory


def test_a_graph_may_cross_devices() -> None:
    a = Tensor([1.0, 2.0, 3.0], device="interp")
    b = (a * 2.0).to("interp:1") + 1.0
    assert b.device == "interp:1"
    c = b.to("interp") * a
    assert c.tolist() == [3.0, 10.0, 21.0]


def test_a_tensor_of_another_runtime_is_refused(device: str) -> None:
    with use(Runtime("other")):
        x = Tensor([1.0])
    with pytest.raises(ArgumentError, match="different runtimes, 'test' and 'other'"):
        Tensor([1.0]) + x
    with pytest.raises(ArgumentError, match="different runtimes, 'test' and 'other'"):
        realize([x.uop])  # what the tensor floor lets through, the engine does not
    assert (x + 1.0).tolist() == [2.0]


def test_a_failed_allocation_leaves_everything_as_it_was(device: str, monkeypatch) -> None:
    from polygrad import device as devices
    from polygrad.errors import DeviceMemoryError

    x = Tensor([1.0, 2.0])
    y = x.expand(1 << 12, 2) * 3.0
    x.assign(x + 1.0)
    allocator = devices.get(device).allocator

    def refuse(self, nbytes: int, *, zeroed: bool = False) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(allocator), "alloc", refuse)
        with pytest.raises(DeviceMemoryError):
            Tensor.realize(x, y.reshape(1 << 13).contiguous())
    assert x.tolist() == [2.0, 3.0]
    assert y.sum().item() == pytest.approx(9.0 * (1 << 12))


def test_dropped_tensors_give_their_memory_back(device: str) -> None:
    from polygrad.device.buffer import pool

    def run() -> None:
        a = Tensor(np.ones((64, 64), np.float32))
        (a @ a).realize()

    run()
    gc.collect()
    before = pool(device).usage().live
    for _ in range(20):
        run()
    gc.collect()
    assert pool(device).usage().live == before


def test_the_graph_cache_forgets_what_was_used_longest_ago(monkeypatch) -> None:
    import polygrad.engine.run as run

    monkeypatch.setattr(run, "CAPACITY", 3)
    for n in range(2, 9):
        (Tensor(np.ones(n, np.float32), device="interp") + 1.0).realize()
    assert len(current().plans.entries) == 3


@pytest.mark.parametrize("depth", [20_000])
def test_a_deep_chain_is_computed(depth: int) -> None:
    """Row 20: no recursion anywhere between a tensor and its value."""
    x = y = Tensor([1.0], device="interp")
    for _ in range(depth):
        y = y + x
    assert y.item() == depth + 1


# ---- positions


def test_a_slice_that_moves_makes_one_more_plan(device: str) -> None:
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    t = Tensor(x).realize()

    def run(start: int) -> None:
        assert (t[start : start + 4, 1:] * 2).tolist() == (x[start : start + 4, 1:] * 2).tolist()

    assert made(lambda: run(0)) == 1
    assert made(lambda: run(4)) == 1
    assert made(lambda: [run(n) for n in (8, 12, 16, 3, 0)]) == 0


def test_rows_and_steps_that_move(device: str) -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 20)
    t = Tensor(x).realize()
    for n in range(1, 8):
        assert (t[:, n] + 1).tolist() == (x[:, n] + 1).tolist()
        assert (t[:, n : n + 9 : 2] + 1).tolist() == (x[:, n : n + 9 : 2] + 1).tolist()
        assert (t.flip(1)[1:, n : n + 2] + 1).tolist() == (x[:, ::-1][1:, n : n + 2] + 1).tolist()


def test_a_matmul_of_a_slice_that_moves(device: str) -> None:
    r = np.random.default_rng(0)
    x, w = r.random((50, 7), np.float32), r.random((7, 5), np.float32)
    tx, tw = Tensor(x).realize(), Tensor(w)
    for n in range(0, 40, 8):
        np.testing.assert_allclose((tx[n : n + 8] @ tw).numpy(), x[n : n + 8] @ w, rtol=1e-5)


def test_an_item_written_at_a_place_that_moves(device: str) -> None:
    x = np.zeros((6, 4), np.float32)
    t = Tensor(x)

    def run(n: int) -> None:
        t[n] = float(n + 2)
        t[n, 1:3] = Tensor([n + 0.5, n + 0.25])
        t.realize()
        x[n] = n + 2
        x[n, 1:3] = [n + 0.5, n + 0.25]
        assert t.tolist() == x.tolist()

    made(lambda: [run(n) for n in range(3)])
    assert made(lambda: [run(n) for n in (3, 4, 1, 5, 0)]) == 0


def test_a_part_padded_at_a_place_that_moves(device: str) -> None:
    x = Tensor([1.0, 2.0, 3.0])
    for n in range(5):
        want = np.pad(np.array([2.0, 4.0, 6.0]), (n, 5 - n)).tolist()
        assert (x * 2).pad(((n, 5 - n),)).tolist() == want


def test_a_device_that_was_closed_is_opened_anew() -> None:
    from polygrad import device as devices

    def run() -> None:
        assert (Tensor([1.0, 2.0], device="interp") * 2.5).tolist() == [2.5, 5.0]

    run()
    devices.close_all()
    run()
    assert made(run) == 0
