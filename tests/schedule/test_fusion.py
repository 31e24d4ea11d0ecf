"""What is stored and what is fused: the number of kernels is part of the promise."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from polygrad import Tensor
from polygrad.errors import ShapeError
from polygrad.schedule import CopyItem, KernelItem, Schedule, schedule
from polygrad.uop.ops import Ops, UOp


def data(*shape: int) -> Tensor:
    return Tensor.zeros(*shape).contiguous().realize()


def planned(*tensors: Tensor) -> Schedule:
    return schedule([t.uop for t in tensors], "cpu")


def kernels(*tensors: Tensor) -> int:
    return len(planned(*tensors).items)


def loads(schedule_: Schedule) -> set[int]:
    return {
        n.src[0].src[0].arg[0]
        for i in schedule_.items
        for n in i.sink.toposort()
        if n.op is Ops.LOAD
    }


def test_an_elementwise_chain_is_one_kernel() -> None:
    x, y = data(64, 32), data(64, 32)
    assert kernels(((x * y + 1).exp() - x).relu()) == 1


def test_softmax_is_one_kernel() -> None:
    assert kernels(data(64, 32).softmax(-1)) == 1


def test_log_softmax_is_one_kernel() -> None:
    assert kernels(data(64, 32).log_softmax(-1)) == 1


def test_layer_norm_is_one_kernel() -> None:
    assert kernels(data(64, 32).layernorm()) == 1


def test_a_matmul_with_bias_and_activation_is_one_kernel() -> None:
    x, w, b = data(16, 32), data(32, 24), data(24)
    assert kernels((x @ w + b).relu()) == 1


def test_a_convolution_with_bias_and_activation_is_one_kernel() -> None:
    x, w, b = data(2, 3, 8, 8), data(4, 3, 3, 3), data(4)
    assert kernels(x.conv2d(w, b).relu()) == 1


def test_two_matmuls_in_a_row_are_two_kernels() -> None:
    x, w, v = data(16, 32), data(32, 24), data(24, 8)
    assert kernels(((x @ w).relu() @ v).relu()) == 2


def test_sum_and_sum_of_squares_are_one_pass() -> None:
    """Reductions of one level share their loop, and results of one shape their kernel."""
    x = data(64, 32)
    (item,) = planned(x.sum(1) + (x * x).sum(1)).items
    ranges = [n for n in item.sink.toposort() if n.op is Ops.RANGE]
    assert len(ranges) == 2


def test_results_that_share_their_input_share_a_kernel() -> None:
    x, y = data(64, 32), data(64, 32)
    assert kernels(x + 1, x * y, x.exp()) == 1
    assert kernels(x.sum(-1), (x * x).sum(-1), x.max(-1)) == 1
    assert kernels(*x.std_mean(-1)) <= 2


def test_results_that_need_each_other_or_share_nothing_stay_apart() -> None:
    x, y = data(64, 32), data(64, 32)
    assert kernels(x + 1, y + 1) == 2
    total = x.sum(-1)
    assert kernels(total, x / total.reshape(64, 1), (x + 1).sum(-1)) >= 2


def test_rows_of_any_length_are_one_kernel() -> None:
    for shape in [(8, 1 << 14), (64, 4096), (3, 100)]:
        assert kernels(data(*shape).softmax(-1)) == 1, shape


def test_an_optimizer_step_is_one_kernel_and_in_place() -> None:
    p, m, v, g = data(50), data(50), data(50), data(50)
    m.assign(m * 0.9 + g * 0.1)
    v.assign(v * 0.99 + g * g * 0.01)
    p.assign(p - m / (v.sqrt() + 1e-8))
    made = planned(p, m, v)
    assert len(made.items) == 1
    assert all(old is new for old, new in made.writes)
    assert len(made.items[0].buffers) == 4


def test_a_moment_that_is_a_result_of_its_own_costs_no_copy() -> None:
    """The update reads the new moment as a value, not through the assignment: still one kernel."""
    x, dy, w, m = data(16, 32), data(16, 24), data(32, 24), data(32, 24)
    moment = m * 0.9 + (x.transpose(0, 1) @ dy) * 0.1
    m.assign(moment)
    w.assign(w - moment * 0.01)
    made = planned(w, m)
    assert len(made.items) == 1 and all(old is new for old, new in made.writes)


def test_the_update_is_the_epilogue_of_the_weight_gradient() -> None:
    x, dy, w = data(16, 32), data(16, 24), data(32, 24)
    w.assign(w - (x.transpose(0, 1) @ dy) * 0.1)
    made = planned(w)
    assert len(made.items) == 1 and made.writes[0][0] is made.writes[0][1]


def test_a_value_read_elsewhere_before_the_write_orders_the_kernels() -> None:
    w, x = data(8), data(8)
    before = w.sum() + x.sum()
    w.assign(w + 1)
    made = planned(before, w)
    writer = next(
        i
        for i, item in enumerate(made.items)
        if made.writes[0][0] in item.buffers
        and any(
            s.src[0].src[0].arg[0] == item.buffers.index(made.writes[0][0]) for s in item.sink.src
        )
    )
    readers = [i for i, item in enumerate(made.items) if made.writes[0][0] in item.buffers]
    assert writer == max(readers)


def test_a_shifted_read_of_the_target_is_not_in_place() -> None:
    w = data(8)
    w.assign(w.flip(0))
    ((old, new),) = planned(w).writes
    assert old is not new


def test_an_old_value_that_is_a_result_keeps_its_buffer() -> None:
    w = data(8)
    old_uop = w.uop
    w.assign(w + 1)
    made = schedule([old_uop, w.uop], "cpu")
    assert made.results[0] is old_uop and made.results[1] is not old_uop


def test_long_sums_are_split_by_their_length() -> None:
    """A sum of 2**20 elements has a partial result between, whatever the number of cores."""
    assert kernels(data(1024, 1024).sum()) == 2
    assert kernels(data(100).sum()) == 1


def test_a_shared_cheap_value_is_repeated_and_a_dear_one_stored() -> None:
    x = data(64, 64)
    cheap, dear = x + 1, (x.sin().exp() + 1).log()
    assert kernels(cheap.sum(0), cheap.sum(1)) == 2
    assert kernels(dear.sum(0), dear.sum(1)) == 3


def test_nodes_shared_many_times_do_not_multiply() -> None:
    """A chain in which each value is read twice at different places: 2**30 paths, few kernels."""
    x = data(64)
    for _ in range(30):
        x = x + x.flip(0)
    assert kernels(x) <= 31


@pytest.mark.parametrize("op", ["sin", "square"])
def test_a_long_chain_is_cut_into_kernels_of_bounded_size(op: str) -> None:
    """Compile time is superlinear in a kernel's size; equal pieces are compiled once."""
    x = data(64)
    for _ in range(2500):
        x = getattr(x, op)()
    items = planned(x).items
    assert max(len(i.sink.toposort()) for i in items) < 1100
    assert len({i.sink for i in items}) <= 3


def test_equal_layers_are_the_same_kernel() -> None:
    x, w1, w2 = data(16, 16), data(16, 16), data(16, 16)
    first, second = planned(((x @ w1).relu() @ w2).relu()).items
    assert first.sink is second.sink


def test_layers_of_a_deep_network_are_the_kernels_of_a_flat_one() -> None:
    w, up, down, bias = data(32, 32), data(32, 64), data(64, 32), data(64)

    def sinks(layers: int) -> dict[UOp, int]:
        x = data(1, 32)
        for _ in range(layers):
            x = x + x.layernorm().mul(bias[:32]).linear(w).relu()
            x = x + x.layernorm().linear(up, bias).gelu("tanh").linear(down)
        return Counter(i.sink for i in planned(x).items)

    few, many = sinks(4), sinks(24)
    assert set(many) == set(few)
    assert sum(many.values()) == 6 * sum(few.values())


def test_a_weight_of_many_steps_is_read_where_it_lies() -> None:
    x, w = data(16, 32), data(32, 32)
    for _ in range(20):
        x = (x @ w).tanh()
    items = planned(x).items
    assert len(items) == 20
    assert all(w.uop in i.buffers for i in items)


def test_constants_are_no_memory_however_many_kernels_read_them() -> None:
    xs = [data(8, n) for n in range(2, 40)]
    w = [data(n, 8) for n in range(2, 40)]
    items = planned(*[(x @ y + 0.25).exp() * 0.5 for x, y in zip(xs, w, strict=True)]).items
    assert len(items) == len(xs)
    assert all(len(i.buffers) == 3 for i in items)


def test_an_empty_result_needs_no_kernel() -> None:
    assert kernels(data(0, 4) + 1) == 0


def test_movement_of_a_buffer_is_a_copy_kernel() -> None:
    (item,) = planned(data(4, 6).permute(1, 0)).items
    assert isinstance(item, KernelItem)


def test_a_device_crossing_is_a_copy() -> None:
    moved = (data(4) + 1).to("interp") * 2
    kinds = [type(i) for i in planned(moved).items]
    assert kinds == [KernelItem, CopyItem, KernelItem]


def test_fusion_off_gives_one_kernel_for_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    from polygrad import Context

    x = data(8)
    with Context(POLY_FUSION=0):
        assert kernels((x + 1) * 2) == 2


def test_shapes_are_checked_before_scheduling() -> None:
    with pytest.raises(ShapeError):
        data(4) + data(5)


def test_a_position_is_computed_where_it_is_used_and_never_stored(device: str) -> None:
    """The third start of a slice is a variable of the Plan; the diagonal reads by it often."""
    x = np.arange(720, dtype=np.float32).reshape(2, 3, 4, 5, 6)
    for offset in (-1, 0, 1, 2):
        found = Tensor(x).diagonal(offset).sum(-1).numpy()
        np.testing.assert_array_equal(found, np.trace(x, offset))


def test_a_cheap_step_from_what_is_stored_is_taken_again() -> None:
    """Backward kernels of an activation read what a product gave, not each step from there."""
    u = data(64, 32) @ data(32, 48)
    doubled = u * 2
    plan = planned(doubled + u, (doubled * u).sum(0))
    assert sorted(len(i.sink.src) for i in plan.items) == [1, 2]
    shared = u.tanh()  # this one costs more than to read it
    plan = planned(shared + u, (shared * u).sum(0))
    assert sorted(len(i.sink.src) for i in plan.items) == [1, 3]


def test_what_many_products_share_is_not_stored_as_they_read_it() -> None:
    """Each reads it expanded to its own result's size, times the length of the sum."""
    x = data(64, 256)
    plan = planned(*(x @ data(96, 256).T for _ in range(20)))
    written = [s.src[0].src[0].arg[1] for i in plan.items for s in i.sink.src]
    assert max(written) == 64 * 256
