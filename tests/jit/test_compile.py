"""compile: as jit, with a capture for each set of shapes."""

from __future__ import annotations

import numpy as np
import pytest

import polygrad
from polygrad import Tensor


def test_each_shape_has_its_capture(device: str) -> None:
    """F068."""
    double = polygrad.compile(lambda x: x * 2)
    for n in (2, 3, 2, 3):
        assert double(Tensor(np.ones(n, np.float32))).tolist() == [2.0] * n
    assert double(Tensor([1, 2])).tolist() == [2, 4]
    assert double.stats()["captures"] == 3


def test_sample_inputs_compile_at_once(device: str) -> None:
    runs = []

    def f(x: Tensor) -> Tensor:
        runs.append(1)
        return x + 1

    compiled = polygrad.compile(f, [Tensor([1.0, 2.0])])
    assert compiled.stats()["captures"] == 1
    assert compiled.run([Tensor([3.0, 4.0])]).tolist() == [4.0, 5.0]
    assert len(runs) == 1


def test_sample_inputs_change_no_state(device: str) -> None:
    total = Tensor([0.0])

    def f(x: Tensor) -> Tensor:
        total.assign(total + x)
        return total * 1

    compiled = polygrad.compile(f, [Tensor([1.0])])
    assert total.item() == 0.0
    assert compiled(Tensor([1.0])).item() == 1.0


def test_an_input_may_be_written_to_between_calls(device: str) -> None:
    """F074."""
    compiled = polygrad.compile(lambda x: x * 2)
    x = Tensor([1.0, 2.0])
    assert compiled.run([x]).tolist() == [2.0, 4.0]
    x.copy_from(np.array([5.0, 6.0], np.float32))
    assert compiled.run([x]).tolist() == [10.0, 12.0]


def test_dispose_forgets(device: str) -> None:
    """F070."""
    compiled = polygrad.compile(lambda x: x * 2)
    compiled(Tensor([1.0]))
    compiled.dispose()
    assert compiled.stats()["kept"] == 0
    assert compiled(Tensor([1.0])).item() == 2.0


@pytest.mark.parametrize("limit", [3])
def test_captures_are_bounded(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    import polygrad._jit as module

    monkeypatch.setattr(module, "CAPACITY", limit)
    compiled = polygrad.compile(lambda x: x * 2)
    for n in range(1, 8):
        compiled(Tensor(np.ones(n, np.float32), device="interp"))
    assert compiled.stats()["kept"] == limit


def test_state_is_shared_by_the_captures(device: str) -> None:
    total = Tensor([0.0])

    def f(x: Tensor) -> Tensor:
        total.assign(total + x.sum())
        return total * 1

    compiled = polygrad.compile(f)
    for n in (1, 2, 1, 2, 3):
        compiled(Tensor(np.ones(n, np.float32)))
    assert total.item() == 9.0
