"""Recorded graphs: inputs and state as Buffers, results that stay, versions that hold."""

from __future__ import annotations

import numpy as np
import pytest

from polygrad import Context, Tensor, UOp, dtypes
from polygrad import device as devices
from polygrad.device.buffer import Buffer
from polygrad.engine import current, make_plan
from polygrad.engine.counters import counters
from polygrad.errors import StateError


def buffer(*values: float) -> Buffer:
    return current().buffer_of(Tensor([float(v) for v in values]).uop)


def values(b: Buffer) -> list[float]:
    return np.frombuffer(b.read(), np.float32).tolist()


def placeholder(n: int, device: str) -> UOp:
    return UOp.buffer(dtypes.float32, (n,), device)


def constant(value: float, n: int) -> UOp:
    return UOp.const(dtypes.float32, value).broadcast_to((n,))


def test_a_device_that_is_closed_or_not_open_here_is_refused_at_the_next_call() -> None:
    with Context(POLY_DEV="interp"):
        x = placeholder(2, "interp")
        double = make_plan([x + x], [x])
        given = buffer(1, 2)
        assert values(double([given])[0]) == [2, 4]
        with devices.isolated(), pytest.raises(StateError, match="'interp' was closed after"):
            double([given])
        assert values(double([given])[0]) == [2, 4]
        with devices.isolated():
            again = make_plan([x + x], [x])
            assert values(again([buffer(1, 2)])[0]) == [2, 4]
            devices.close_all()
            with pytest.raises(StateError, match="'interp' was closed after"):
                again([buffer(1, 2)])


def test_results_are_not_overwritten_by_later_calls(device: str) -> None:
    x = placeholder(2, device)
    double = make_plan([x + x], [x])
    first = double([buffer(1, 2)])[0]
    second = double([buffer(5, 6)])[0]
    assert (values(first), values(second)) == ([2, 4], [10, 12])


def test_a_call_makes_no_plan_and_compiles_nothing(device: str) -> None:
    x = placeholder(2, device)
    double = make_plan([x + x], [x])
    double([buffer(1, 2)])
    before = counters.snapshot()
    for _ in range(3):
        double([buffer(1, 2)])
    after = counters.snapshot()
    same = ("plans_made", "kernels_lowered", "kernels_compiled", "plan_hits")
    assert [after[n] for n in same] == [before[n] for n in same]


def test_variables_are_given_at_each_call(device: str) -> None:
    x = placeholder(2, device)
    rate = UOp.variable("rate", float("-inf"), float("inf"), dtypes.float32)  # type: ignore[arg-type]
    scaled = make_plan([x * rate.broadcast_to((2,))], [x], [rate])
    assert values(scaled([buffer(1, 2)], [2.5])[0]) == [2.5, 5.0]
    assert values(scaled([buffer(1, 2)], [-1.0])[0]) == [-1.0, -2.0]


def test_an_input_may_be_an_output(device: str) -> None:
    x = placeholder(2, device)
    same = make_plan([x, x], [x])
    given = buffer(1, 2)
    one, two = same([given])
    assert values(one) == values(two) == [1, 2]
    assert len({id(given), id(one), id(two)}) == 3


def test_unused_inputs_and_constant_outputs(device: str) -> None:
    x = placeholder(2, device)
    plan = make_plan([constant(2.5, 3)], [x])
    assert values(plan([buffer(1, 2)])[0]) == [2.5, 2.5, 2.5]


def test_state_is_read_and_written_in_place(device: str) -> None:
    x, w = placeholder(2, device), Tensor([1.0, 1.0]).uop
    home = current().buffer_of(w)
    plan = make_plan([], [x], updates={w: w + x})
    for _ in range(3):
        plan([buffer(1, 2)])
    assert values(home) == [4, 7]


def test_all_updates_read_the_state_before(device: str) -> None:
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    plan = make_plan([a.uop], [], updates={a.uop: b.uop, b.uop: a.uop})
    (old,) = plan([])
    assert values(old) == [1, 2]
    assert values(current().buffer_of(a.uop)) == [3, 4]
    assert values(current().buffer_of(b.uop)) == [1, 2]


def test_an_update_that_reads_other_elements(device: str) -> None:
    w = Tensor([1.0, 2.0, 3.0]).uop
    plan = make_plan([w], [], updates={w: w.flip((0,)) + constant(0.5, 3)})
    assert [values(plan([])[0]) for _ in range(2)] == [[1, 2, 3], [3.5, 2.5, 1.5]]


def test_an_input_that_is_the_state_is_read_before_the_write(device: str) -> None:
    x, w = placeholder(2, device), Tensor([1.0, 2.0]).uop
    plan = make_plan([x * x], [x], updates={w: w + constant(1.0, 2)})
    assert values(plan([current().buffer_of(w)])[0]) == [1, 4]
    assert values(current().buffer_of(w)) == [2, 3]


def test_a_holder_keeps_its_readers(device: str) -> None:
    w = Tensor([1.0, 2.0])
    plan = make_plan([], [], updates={w.uop: w.uop + constant(1.0, 2)}, holders={w.uop: w})
    plan([])
    reader = w * 10.0
    plan([])
    assert reader.tolist() == [20.0, 30.0]
    assert w.tolist() == [3.0, 4.0]


def test_without_readers_nothing_is_copied(device: str) -> None:
    w = Tensor([1.0, 2.0])
    plan = make_plan([], [], updates={w.uop: w.uop + constant(1.0, 2)}, holders={w.uop: w})
    plan([])  # the first call cannot know
    before = counters.saved_versions
    for _ in range(5):
        plan([])
    w.tolist()
    (w * 2.0).realize()
    plan([])
    assert counters.saved_versions == before


def test_what_the_holder_was_given_meanwhile_counts(device: str) -> None:
    w = Tensor([1.0, 2.0])
    plan = make_plan([w.uop * w.uop], [], holders={w.uop: w})
    assert values(plan([])[0]) == [1, 4]
    w.assign(Tensor([5.0, 6.0]))  # pending: the call computes it
    assert values(plan([])[0]) == [25, 36]
    w._replace(Tensor([7.0, 8.0]).uop)
    assert values(plan([])[0]) == [49, 64]


def test_two_plans_that_share_state_copy_nothing_in_turns(device: str) -> None:
    w = Tensor([1.0, 2.0])
    train = make_plan([], [], updates={w.uop: w.uop + constant(1.0, 2)}, holders={w.uop: w})
    look = make_plan([w.uop * w.uop], [], holders={w.uop: w})
    train([])
    look([])
    before = counters.saved_versions
    for _ in range(3):
        train([])
        shown = look([])[0]
    assert values(shown) == [25, 36]
    assert counters.saved_versions == before


def test_a_graph_may_cross_devices_and_keep_state() -> None:
    x = placeholder(2, "interp")
    w = Tensor([1.0, 2.0], device="interp:1")
    there = (x + x).copy_to("interp:1") + w.uop
    plan = make_plan([there.copy_to("interp")], [x], updates={w.uop: there})
    with_input = Tensor([1.0, 1.0], device="interp")
    for want in ([3, 4], [5, 6]):
        assert values(plan([current().buffer_of(with_input.uop)])[0]) == want
    assert len(plan.plans) >= 2


def test_empty_results_need_no_memory(device: str) -> None:
    x = placeholder(0, device)
    assert make_plan([x + x], [x])([Buffer(device, 0)])[0].nbytes == 0


@pytest.mark.parametrize("growth", [1 << 16])
def test_plans_share_one_arena_that_grows(device: str, growth: int) -> None:
    def chain(n: int) -> tuple[UOp, UOp]:
        x = placeholder(n, device)
        y = (x + constant(1.0, n)).contiguous()
        return x, y.flip((0,)).contiguous() + y

    x, y = chain(4)
    small = make_plan([y], [x])
    assert values(small([buffer(1, 2, 3, 4)])[0]) == [7, 7, 7, 7]
    big_x, big_y = chain(growth)
    big = make_plan([big_y], [big_x])
    data = Tensor(np.arange(growth, dtype=np.float32))
    got = values(big([current().buffer_of(data.uop)])[0])
    assert got == [growth + 1.0] * growth
    assert values(small([buffer(1, 2, 3, 4)])[0]) == [7, 7, 7, 7]
