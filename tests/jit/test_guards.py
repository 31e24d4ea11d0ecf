"""POLY_CHECK=1 looks into what is compiled: jit, compile, function, Models and loaded bundles. A
call with an index outside raises before anything is written; without the setting nothing is noted,
compiled or run for it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Model, Tensor, Variable, compile, function, jit, nn
from polygrad.engine import current
from polygrad.errors import BundleError, IndexError_

from ..model.test_bundle import rewritten
from ..tensor.test_checks import VECTORS, X


@pytest.mark.parametrize("name", VECTORS)
def test_a_compiled_call_is_checked_as_an_eager_one(device: str, name: str) -> None:
    """The same operation, element, value and axis, and the line; what is legal is as numpy's."""
    ours, theirs = VECTORS[name]
    f = compile(ours)
    with Context(POLY_CHECK=1):
        for values in ([0, 2], [-1, -3]):
            index = np.array(values)
            np.testing.assert_array_equal(f(Tensor(index)).numpy(), theirs(index))
        for wrong in (7, -5, 2**31 - 1, -(2**31)):
            with pytest.raises(IndexError_) as eager:
                ours(Tensor([1, wrong]))
            with pytest.raises(IndexError_) as compiled:
                f(Tensor([1, wrong], dtype="int64"))
            where = r" at [^ ]*\.py:\d+:"
            assert re.sub(where, ":", str(compiled.value), count=1) == str(eager.value)
            assert re.search(where, str(compiled.value))
        np.testing.assert_array_equal(f(Tensor(np.array([0, 1]))).numpy(), theirs(np.array([0, 1])))
    assert f.stats()["captures"] == 1


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_every_integer_type(device: str, dtype: str) -> None:
    top = np.iinfo(dtype).max
    f = jit(lambda i: Tensor(X)[i])
    with Context(POLY_CHECK=1):
        assert f(Tensor([2, 0], dtype=dtype)).tolist() == X[[2, 0]].tolist()
        with pytest.raises(IndexError_, match=rf"element \(1,\) of the index is {top}, outside"):
            f(Tensor([0, top], dtype=dtype))


def test_the_line_is_the_users(device: str) -> None:
    @jit
    def step(x: Tensor, i: Tensor) -> Tensor:
        y = x + 1
        return y.gather(0, i)

    line = inspect.getsourcelines(step.function)[1] + 3
    with Context(POLY_CHECK=1):
        step(Tensor([1.0, 2.0]), Tensor([1]))
        with pytest.raises(
            IndexError_, match=rf"gather at .*test_guards\.py:{line}: element \(0,\)"
        ):
            step(Tensor([1.0, 2.0]), Tensor([9]))


def test_an_index_that_is_computed_inside(device: str) -> None:
    f = jit(lambda x, i, n: x[(i * 2 + n).reshape(2, 1)])
    x = Tensor([1.0, 2.0, 3.0])
    with Context(POLY_CHECK=1):
        assert f(x, Tensor([0, 1]), 0).tolist() == [[1.0], [3.0]]
        with pytest.raises(IndexError_, match=r"element \(1, 0\) of the index is 3"):
            f(x, Tensor([0, 1]), 1)
    assert f.stats()["captures"] == 1


def test_without_the_setting_nothing_is_checked_or_compiled_for_it(device: str) -> None:
    f = compile(lambda x, i: x[i])
    x, wrong = Tensor([1.0, 2.0]), Tensor([5])
    assert f(x, wrong).tolist() == [0.0]
    (captured,) = next(iter(f._captures.values()))
    assert captured.guard is None
    kernels = f.stats()["kernels"]
    with Context(POLY_CHECK=1), pytest.raises(IndexError_):
        f(x, wrong)
    assert f(x, wrong).tolist() == [0.0]
    assert f.stats()["captures"] == 2 and f.stats()["kernels"] == 2 * kernels
    with Context(POLY_CHECK=0):
        assert f(x, wrong).tolist() == [0.0]


def test_a_call_that_fails_changes_nothing(device: str) -> None:
    """State that it writes, the steps of an optimizer, and random numbers."""
    table = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True).realize()
    count = Tensor([0]).realize()
    sgd = nn.optim.SGD([table], lr=nn.lr.step(0.5, 1, 0.5))

    @jit
    def train(i: Tensor) -> Tensor:
        sgd.zero_grad()
        loss = (table[i] * Tensor.rand(2)).sum()
        loss.backward()
        sgd.step()
        count.assign(count + 1)
        return loss

    with Context(POLY_CHECK=1, TRAINING=1):
        train(Tensor([0, 1]))
        before = table.tolist(), count.tolist(), sgd.steps, sgd.lr.item(), current().draws.state
        with pytest.raises(IndexError_):
            train(Tensor([0, 2]))
        after = table.tolist(), count.tolist(), sgd.steps, sgd.lr.item(), current().draws.state
        assert after == before
        train(Tensor([1, 1]))
        assert count.tolist() == [2] and sgd.steps == 2


def test_a_state_that_is_an_index(device: str) -> None:
    at = Tensor([0]).realize()
    x = Tensor([1.0, 2.0])

    @jit
    def following() -> Tensor:
        here = x[at]
        at.assign(at + 1)
        return here

    with Context(POLY_CHECK=1):
        assert [following().item(), following().item()] == [1.0, 2.0]
        with pytest.raises(IndexError_, match="is 2, outside"):
            following()
        assert at.item() == 2
        at.assign(Tensor([1]))
        assert following().item() == 2.0


@pytest.mark.parametrize("precompile", [False, True])
def test_a_function_is_checked_alone_and_inside(device: str, precompile: bool) -> None:
    rows = function(lambda x, i: x[i] * 2, precompile=precompile)
    both = jit(lambda x, i: rows(x, i) + 1)
    x = Tensor([1.0, 2.0])
    assert rows(x, Tensor([9])).tolist() == [0.0]
    with Context(POLY_CHECK=1):
        assert rows(x, Tensor([1])).tolist() == [4.0] and both(x, Tensor([-2])).tolist() == [3.0]
        for call in (rows, both):
            with pytest.raises(
                IndexError_, match=r"getitem at .*: element \(0,\) of the index is 9"
            ):
                call(x, Tensor([9]))


def test_sizes_that_vary(device: str) -> None:
    n = Variable("n", 1, 8)
    f = compile(lambda x, i: x[i])
    index = Tensor([0, 2, 4])
    with Context(POLY_CHECK=1):
        for k in (5, 8):
            x = Tensor.arange(8)[: n.bind(k)]
            assert f(x, index).tolist() == [0, 2, 4]
        with pytest.raises(IndexError_, match=r"element \(2,\) of the index is 4"):
            f(Tensor.arange(8)[: n.bind(4)], index)
        g, many = compile(lambda x, i: x[i]), Tensor([0, 1, 2, 7, 7, 7, 7, 7])
        assert g(Tensor.arange(3), many[: n.bind(3)]).tolist() == [0, 1, 2]
        with pytest.raises(IndexError_, match=r"element \(3,\) of the index is 7"):
            g(Tensor.arange(3), many[: n.bind(4)])
    assert f.stats()["captures"] == g.stats()["captures"] == 1


def test_an_empty_index(device: str) -> None:
    f = jit(lambda x, i: x[i])
    with Context(POLY_CHECK=1):
        assert f(Tensor([1.0]), Tensor([], dtype="int32")).tolist() == []


# ---- Models


class Net:
    def __init__(self) -> None:
        self.rows, self.out = nn.Embedding(5, 2), nn.Linear(2, 3)

    def __call__(self, i: Tensor) -> Tensor:
        return self.out(self.rows(i)).dropout(0.5)


def made() -> Model:
    i = Tensor.empty(4, dtype="int32")
    return Model(Net(), {"i": i}, {"y": i}, lambda o, y: o["output"].cross_entropy(y))


GOOD = np.array([0, 1, 2, 4], np.int32)
BAD = np.array([0, 1, 2, 5], np.int32)
LABELS = np.array([0, 1, 2, -100], np.int32)
CALLS: dict[str, Callable[[Model, Any, Any], Any]] = {
    "forward": lambda m, i, y: m.forward(i=i),
    "loss": lambda m, i, y: m.call("loss", i=i, y=y),
    "fit": lambda m, i, y: m.fit({"i": i, "y": y}, progress=False),
    "train_step": lambda m, i, y: m.train_step(i=i, y=y),
    "validation": lambda m, i, y: m.fit(
        {"i": GOOD, "y": LABELS}, validation={"i": i, "y": y}, progress=False
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("loaded", [False, True], ids=["made here", "from a bundle"])
def test_a_model_is_checked(device: str, call: str, loaded: bool) -> None:
    model = Model.load(made().save()) if loaded else made()
    model.set_optimizer("sgd", lr=0.1)
    where = "" if loaded else r" at .*test_guards\.py:\d+"
    cases = [
        (BAD, LABELS, rf"Embedding{where}: element \(3,\) .* 5, outside axis 0 of shape \(5, 2\)")
    ]
    if call != "forward":
        text = rf"cross_entropy{where}: element \(0,\) of the index is 3, outside the 3 classes"
        cases.append((GOOD, LABELS + 3, text))
    CALLS[call](model, BAD, LABELS)  # without the setting it has its defined meaning
    with Context(POLY_CHECK=1):
        CALLS[call](model, GOOD, LABELS)
        before = everything(model)
        for i, y, text in cases:
            with pytest.raises(IndexError_, match=text):
                CALLS[call](model, i, y)
            if call != "validation":  # which comes after an epoch
                assert everything(model) == before


def everything(model: Model) -> Any:
    state = {n: t.tolist() for n, t in model.state_dict().items()}
    return state, model.generator.state, model.optimizer_config()


def test_a_model_is_checked_on_another_device_too() -> None:
    with Context(POLY_DEV="cpu"):
        model = made().place("interp")
        with Context(POLY_CHECK=1), pytest.raises(IndexError_, match="Embedding at"):
            model.forward(i=BAD)


def test_a_model_has_no_guards_without_the_setting(device: str) -> None:
    model = made()
    model.set_optimizer("sgd", lr=0.1)
    for call in CALLS.values():
        call(model, GOOD, LABELS)
    assert not model._guards
    x = Tensor.empty(2)
    assert b'"checks"' not in Model(nn.Linear(2, 2), {"x": x}).save()


# ---- bundles of strangers

ROWS: dict[str, Any] = {
    "no list": {},
    "no row": [None],
    "too short": [[0, "getitem", 0, 1, "axis 0"]],
    "a node that is not there": [[10_000, "getitem", 0, 1, "axis 0", None]],
    "a bool as a node": [[True, "getitem", 0, 1, "axis 0", None]],
    "an index of floats": [[0, "getitem", 0, 1, "axis 0", None]],
    "a bound that is no number": [[0, "getitem", 0, "1", "axis 0", None]],
    "a bound beyond 64 bits": [[0, "getitem", 0, 1 << 62, "axis 0", None]],
    "no text": [[0, "getitem", 0, 1, "", None]],
    "a text without end": [[0, "x" * 301, 0, 1, "axis 0", None]],
}


@pytest.mark.parametrize("case", ROWS)
def test_a_check_that_lies_is_refused(case: str) -> None:
    with pytest.raises(BundleError, match="a check that is not well formed"):
        Model.load(
            rewritten(change_graph=lambda g: g["entrypoints"]["forward"].update(checks=ROWS[case]))
        )
