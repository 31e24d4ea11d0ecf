"""What a compiled function reads from around it is never stale (F067)."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import polygrad
from polygrad import Tensor, jit
from polygrad.errors import CaptureWarning

SCALE: Any = 2.0
CONFIG = SimpleNamespace(model=SimpleNamespace(width=3.0), unused=0)
HIDDEN: Any = None


def set_global(name: str, value: Any) -> None:
    setattr(sys.modules[__name__], name, value)


def helper(x: Tensor) -> Tensor:
    return x * SCALE


@pytest.fixture(autouse=True)
def _restored() -> Any:
    yield
    set_global("SCALE", 2.0)
    CONFIG.model.width = 3.0


@pytest.mark.parametrize("read", [lambda x: x * SCALE, helper, lambda x: helper(x)])
def test_a_global(device: str, read: Any) -> None:
    """Of the function itself, and of a function that it names."""
    f = jit(read)
    x = Tensor([1.0])
    for value in (2.0, 3.0, 2.0):
        set_global("SCALE", value)
        assert f(x).item() == value
    assert f.stats()["captures"] == 2


def test_a_closure(device: str) -> None:
    scale: Any = 2
    f = jit(lambda x: x * scale)
    x = Tensor([1, 2])
    assert f(x).tolist() == [2, 4]
    scale = 3
    assert f(x).tolist() == [3, 6]
    scale = 2.0  # equal to 2, and another kind
    assert f(x).dtype == "float32" or f(x).dtype.is_float
    scale = Tensor([5, 7])
    assert f(x).tolist() == [5, 14]


def test_attributes_along_a_path(device: str) -> None:
    f = jit(lambda x: x + CONFIG.model.width)
    x = Tensor([1.0])
    assert f(x).item() == 4.0
    CONFIG.unused += 1
    assert f(x).item() == 4.0
    CONFIG.model.width = 10.0
    assert f(x).item() == 11.0
    assert f.stats()["captures"] == 2


OPTIONS: dict[str, Any] = {}


def test_items_along_a_path(device: str) -> None:
    OPTIONS.update({"width": 3.0, "layers": [{"k": 2.0}, {"k": 5.0}], "unused": 0})
    f = jit(lambda x: x * OPTIONS["width"] + OPTIONS["layers"][-1]["k"])
    x = Tensor([1.0])
    assert f(x).item() == 8.0
    OPTIONS["unused"] += 1
    OPTIONS["layers"][0]["k"] = 7.0
    assert f(x).item() == 8.0
    OPTIONS["width"] = 10.0
    assert f(x).item() == 15.0
    OPTIONS["layers"][1] = {"k": -1.0}
    assert f(x).item() == 9.0
    assert f.stats()["captures"] == 3
    OPTIONS["layers"].append({"k": 100.0})
    assert f(x).item() == 110.0


def test_items_of_its_object_and_of_a_closure(device: str) -> None:
    class Net:
        def __init__(self) -> None:
            self.weights = [Tensor([2.0]), Tensor([3.0])]

        @jit
        def __call__(self, x: Tensor) -> Tensor:
            return x * self.weights[0] + self.weights[1]

    net, held, x = Net(), (Tensor([1.0]), 4.0), Tensor([1.0])
    g = jit(lambda x: x * held[1] + held[0])
    assert (net(x).item(), g(x).item()) == (5.0, 5.0)
    net.weights[1] = Tensor([10.0])
    held = (held[0], 5.0)
    assert (net(x).item(), g(x).item()) == (12.0, 6.0)


def test_an_item_that_the_function_itself_assigns_is_its_own_business(device: str) -> None:
    state: dict[str, Any] = {"calls": 0, "last": 0}

    @jit
    def f(x: Tensor, key: str) -> Tensor:
        state["calls"] = state["calls"] + 1
        state[key] = state["last"]
        return x * 2

    for _ in range(3):
        assert f(Tensor([1.0]), "seen").item() == 2.0
    assert f.stats()["captures"] == 1


def test_a_constant_beside_a_name_is_no_index(device: str) -> None:
    texts = {"upper": 1.0, 0: 2.0}
    f = jit(lambda x: x * sum(map(float, (texts[0], len("ab".upper())))))
    assert f(Tensor([1.0])).item() == 4.0
    texts["upper"] = 5.0
    assert f(Tensor([1.0])).item() == 4.0
    assert f.stats()["captures"] == 1
    texts[0] = 3.0
    assert f(Tensor([1.0])).item() == 5.0


class Scaled:
    def __init__(self) -> None:
        self.rate, self.weight, self.seen, self.calls = 2.0, Tensor([1.0, 1.0]), None, 0

    @jit
    def decorated(self, x: Tensor) -> Tensor:
        self.seen = x.shape
        self.calls += 1
        return x * self.weight * self.rate

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.weight * self.rate


@pytest.mark.parametrize("how", ["decorated", "bound", "object", "function"])
def test_attributes_of_its_object(device: str, how: str) -> None:
    """What the function itself assigns is its own business."""
    scaled = Scaled()
    call = {
        "decorated": scaled.decorated,
        "bound": jit(scaled.__call__),
        "object": jit(scaled),
        "function": polygrad.function(scaled, precompile=True),
    }[how]
    x = Tensor([1.0, 2.0])
    for _ in range(2):
        assert call(x).tolist() == [2.0, 4.0]
    scaled.rate = 3.0
    assert call(x).tolist() == [3.0, 6.0]
    scaled.weight = Tensor([10.0, 10.0])
    assert call(x).tolist() == [30.0, 60.0]
    if how == "decorated":
        assert scaled.calls == 3


def test_a_state_that_is_rebound_outside(device: str) -> None:
    """A loop that puts the result under the name that the function reads."""
    set_global("HIDDEN", Tensor([1.0]))

    @polygrad.compile
    def step(x: Tensor) -> Tensor:
        return HIDDEN * x

    for _ in range(4):
        set_global("HIDDEN", step(Tensor([2.0])))
    assert HIDDEN.item() == 16.0


def test_a_change_without_end_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import polygrad._jit as module

    monkeypatch.setattr(module, "CAPACITY", 3)
    f = jit(lambda x: x * SCALE)
    x = Tensor([1.0], device="interp")
    with pytest.warns(CaptureWarning, match="4 values of what it reads from around it") as caught:
        for n in range(8):
            set_global("SCALE", float(n))
            assert f(x).item() == n
    assert len(caught) == 1


def test_functions_and_modules_cost_nothing(device: str) -> None:
    f = jit(lambda x: helper(x.sum()) + sys.maxsize * 0)
    f(Tensor([1.0]))
    assert [(p.name, p.path) for p in f._places or ()] == [("sys", ("maxsize",)), ("SCALE", ())]


def test_an_object_in_a_comprehension(device: str) -> None:
    """Where its name is a cell, or one of two in an instruction."""

    class Sum:
        def __init__(self) -> None:
            self.rate = 2.0

        @jit
        def total(self, *xs: Tensor) -> list[Tensor]:
            return [x * self.rate for x in xs]

    total = Sum()
    assert total.total(Tensor([1.0]), Tensor([2.0]))[1].tolist() == [4.0]
    total.rate = 5.0
    assert total.total(Tensor([1.0]), Tensor([2.0]))[1].tolist() == [10.0]
