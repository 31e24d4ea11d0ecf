"""Writes that wait: any number of them in a row costs what their number does (row 20), and who
reads a value in between sees that one.

Counted are kernels, Plans and nodes, never time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from polygrad import Tensor, jit, nn
from polygrad.engine import Runtime, current, use
from polygrad.engine.counters import counters
from polygrad.tensor.store import MOST_WAITING
from polygrad.uop.ops import Ops, live_nodes

MANY = 20_000


@pytest.fixture(autouse=True)
def own_runtime() -> Iterator[Runtime]:
    with use(Runtime("test")) as runtime:
        yield runtime


def counted(action, *names: str) -> list[int]:
    before = [getattr(counters, n) for n in names]
    action()
    return [getattr(counters, n) - b for n, b in zip(names, before, strict=True)]


def waits(t: Tensor) -> int:
    """How many writes of `t` are not carried out."""
    return sum(n.op is Ops.AFTER for n in t.uop.toposort())


# ---- one graph of many writes


def test_writes_in_a_row_are_one_store_in_place(device: str) -> None:
    t = Tensor([1.0, 2.0]).realize()
    address = current().buffer_of(t.uop)
    for _ in range(MOST_WAITING - 2):
        t.assign(t + 1)
    assert counted(t.realize, "launches", "saved_versions") == [1, 0]
    plan = list(current().plans.entries.values())[-1].exact.stages[0].plan
    assert [len(p.params) for p in plan.programs.values()] == [1]
    assert t.tolist() == [MOST_WAITING - 1, MOST_WAITING]
    assert current().buffer_of(t.uop) is address


def test_a_version_that_somebody_reads_is_carried_out(device: str) -> None:
    t = Tensor([1, 2]).realize()
    readers = []
    for i in range(40):
        if i in (0, 3, 17, 39):
            readers.append((t * 10 + i, [10 * 1 + 11 * i, 10 * 2 + 11 * i]))
        t.assign(t + 1)
    assert t.tolist() == [41, 42]
    for reader, wanted in reversed(readers):
        assert reader.tolist() == wanted


def test_readers_of_all_versions_in_any_order(device: str) -> None:
    t = Tensor([0, 5]).realize()
    readers = []
    for i in range(100):
        readers.append(t * 2 + 1)
        t.assign(t + i)
    assert t.tolist() == [4950, 4955]
    order = np.random.default_rng(3).permutation(100)
    for i in map(int, order):
        total = i * (i - 1) // 2
        assert readers[i].tolist() == [2 * total + 1, 2 * total + 11]


def test_an_alias_keeps_the_version_it_names(device: str) -> None:
    t = Tensor([1.0]).realize()
    t.assign(t * 2)
    alias = Tensor(t)
    t.assign(t * 3)
    t.assign(t * 5)
    alias.assign(alias + 0.5)
    assert (t.tolist(), alias.tolist()) == ([30.0], [2.5])


def test_a_version_read_through_a_held_node_of_the_graph(device: str) -> None:
    t = Tensor([1.0, 2.0]).realize()
    t.assign(t + 1)
    inside = t * 10
    t.assign(inside + 1)
    t.assign(t + 1)
    assert t.tolist() == [22.0, 32.0]
    assert (inside + 1).tolist() == [21.0, 31.0]


def test_a_chain_of_held_versions_has_kernels_of_few_stores(device: str) -> None:
    t = Tensor([0.0, 1.0]).realize()
    held = []
    for _ in range(200):
        t.assign(t + 1)
        held.append(Tensor(t))
    t.realize()
    (entry,) = current().plans.entries.values()
    stores = [p.params for p in entry.exact.stages[0].plan.programs.values()]
    assert 1 < max(map(len, stores)) <= 17
    assert [int(h.tolist()[0]) for h in held] == list(range(1, 201))


def test_writes_of_constants_stay_on_their_device(device: str) -> None:
    other = "interp" if device != "interp" else "cpu"  # not the default one
    t = Tensor([1.0, 2.0, 3.0], device=other).realize()
    t.assign(Tensor.zeros(3, device=other))
    t[Tensor([0, 2], device=other)] = 5.0
    t.assign(t + 1)
    assert (t.tolist(), t.device) == ([6.0, 1.0, 6.0], other)


def test_one_graph_with_and_without_a_reader_has_two_plans(device: str) -> None:
    def run(read: bool) -> None:
        t = Tensor([1.0, 2.0]).realize()
        t.assign(t * 3)
        reader = t + 1 if read else None
        t.assign(t * 5)
        assert t.tolist() == [15.0, 30.0]
        assert reader is None or reader.tolist() == [4.0, 7.0]

    for read in (False, True, False, True):
        run(read)


# ---- long loops


@pytest.mark.parametrize("name", ["assign", "add", "item"])
def test_20_000_writes(name: str) -> None:
    """Row 20. In 32 rounds everything is known; the graph that waits stays small."""
    t = Tensor([0.0, 0.0], device="interp").realize()

    def write(n: int) -> None:
        for i in range(n):
            if name == "assign":
                t.assign(t + 1)
            elif name == "add":
                t.__iadd__(1)
            else:
                t[0] = i

    write(4 * MOST_WAITING)
    nodes = live_nodes()
    made = counted(lambda: write(MANY - 4 * MOST_WAITING), "plans_made", "kernels_lowered")
    assert made == [0, 0]
    assert waits(t) <= MOST_WAITING
    assert live_nodes() - nodes < 40 * MOST_WAITING
    last = MANY - 4 * MOST_WAITING - 1
    assert t.tolist() == ([last, 0] if name == "item" else [MANY, MANY])


def test_thousands_of_writes_that_a_gradient_goes_through() -> None:
    """The tensor is an expression from then on, and nothing is computed early."""
    x = Tensor([1.0], requires_grad=True, device="interp")
    t = Tensor([0.0], device="interp").realize()
    many = MANY // 4
    for _ in range(many):
        t.assign(t + x)
    assert t.requires_grad and not t.is_leaf
    t.sum().backward()
    assert counted(lambda: t.realize(), "plans_made", "saved_versions") == [1, 0]
    assert t.item() == many
    assert x.grad is not None and x.grad.item() == many


def test_a_table_filled_number_by_number(device: str) -> None:
    n = 30
    t = Tensor.zeros(n, n).contiguous().realize()

    def fill(shift: int) -> None:
        for i in range(n):
            for j in range(n):
                t[i, j] = i * j - shift

    (first,) = counted(lambda: fill(0), "kernels_lowered")
    assert first <= 6
    assert counted(lambda: fill(1), "kernels_lowered", "plans_made") == [0, 0]
    assert t.tolist() == [[i * j - 1 for j in range(n)] for i in range(n)]


def test_a_table_filled_from_its_own_elements(device: str) -> None:
    n = 300
    t = Tensor.zeros(n, dtype="int32").contiguous().realize()
    wanted = np.zeros(n, np.int32)

    def fill() -> None:
        with np.errstate(over="ignore"):
            for i in range(2, n):
                t[i] = t[i - 1] + t[i - 2] + i
                wanted[i] = wanted[i - 1] + wanted[i - 2] + i

    fill()
    assert t.tolist() == wanted.tolist()
    assert counted(fill, "kernels_lowered") == [0]


def test_an_item_that_is_written_may_have_any_value(device: str) -> None:
    for dtype in ("bool", "uint8", "int16", "int64", "float16", "bfloat16", "float64"):
        t = Tensor([0, 1, 0], dtype=dtype).realize()
        t[1] = 0
        t[2] = 1
        assert [float(v) for v in t.tolist()] == [0, 0, 1]
    t = Tensor([1.0, 2.0]).realize()
    t[0], t[1] = float("nan"), float("-inf")
    assert str(t.tolist()) == "[nan, -inf]"


# ---- what nobody can tell


def test_a_loop_longer_than_what_waits_keeps_gradients(device: str) -> None:
    w = Tensor([2.0], requires_grad=True)
    t = Tensor.zeros(70)
    for i in range(70):
        t[i] = w * i
    t.sum().backward()
    assert w.grad is not None and w.grad.item() == 70 * 69 / 2


def test_a_gradient_for_what_was_computed_on_the_way(device: str) -> None:
    y = Tensor([2.0]) * 3
    t = Tensor.zeros(70).contiguous().realize()
    for i in range(70):
        t[i] = y * i
    assert t.sum().gradient(y)[0].item() == 70 * 69 / 2
    t = Tensor([1.0]).realize()
    for _ in range(70):
        y = t * 2
        t.assign(y)
    assert (t * 3).sum().gradient(y)[0].item() == 3


def test_a_tensor_does_not_become_a_leaf_by_being_written_to(device: str) -> None:
    t = Tensor([1.0]).detach() * 2
    for _ in range(2 * MOST_WAITING + 2):
        t += 1
    assert waits(t) <= MOST_WAITING and not t.is_leaf


def test_writes_in_a_compiled_function_are_its_graph(device: str) -> None:
    t = Tensor([0.0, 0.0]).realize()

    @jit
    def many(x: Tensor, n: int) -> Tensor:
        for i in range(3 * MOST_WAITING):
            t.assign(t + x)
            t[i % 2] = n
        return t * 2

    for n in (1, 7):
        assert many(Tensor([1.0, 10.0]), n).tolist() == [2 * (n + 1), 2 * n]
        assert t.tolist() == [n + 1, n]
    x = Tensor([1.0, 10.0])
    assert counted(lambda: many(x, 9), "plans_made", "kernels_lowered") == [0, 0]


def test_an_index_that_does_not_fit_changes_nothing(device: str) -> None:
    t = Tensor([0.0, 0.0]).realize()
    for i in range(MOST_WAITING + 5):
        with pytest.raises(IndexError):
            t[2] = i
        t[1] = i
    assert t.tolist() == [0.0, MOST_WAITING + 4]


def test_statistics_that_nobody_reads_end_with_the_step(device: str) -> None:
    """The running mean and variance of a batch norm would keep the graph of every step, and make
    each step copy the parameters."""
    first, norm, last = nn.Linear(3, 4), nn.BatchNorm(4), nn.Linear(4, 1)
    optimizer = nn.optim.SGD(nn.get_parameters([first, norm, last]), lr=0.01)
    x = Tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [0.5, 0.0, 1.0]])
    seen = []
    with Tensor.train():
        for _ in range(6):
            optimizer.zero_grad()
            last(norm(first(x)).relu()).square().mean().backward()
            optimizer.step()
            seen.append((counters.saved_versions, live_nodes()))
    saved, nodes = zip(*seen, strict=True)
    assert saved[2] == saved[5] and nodes[2] == nodes[3] == nodes[5]
    assert norm.running_mean.uop.op is norm.running_var.uop.op is Ops.BUFFER
