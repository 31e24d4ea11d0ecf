"""F206: `can_run` answers for every operation, and its yes is proved by compiling."""

from __future__ import annotations

from typing import Any

import pytest

from polygrad import Ops, Tensor, can_run
from polygrad._can_run import _METHODS, _NO_OPERATIONS
from polygrad.engine import current
from polygrad.engine.counters import counters
from polygrad.errors import ArgumentError, DeviceUnknown, DTypeError, UnknownName

# What a float32 cannot, or what is known only when values are read.
_INTEGERS = {"bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "lshift", "rshift"}
_READING = {"allclose", "argwhere", "bincount", "equal", "masked_select", "nonzero", "unique"}


def test_every_method_has_an_answer(device: str) -> None:
    no = {op: answer.reason for op in _METHODS if not (answer := can_run(op, device=device))}
    assert set(no) == _INTEGERS | _READING | set(_NO_OPERATIONS)
    assert all("takes integers" in no[op] for op in _INTEGERS)
    assert all("only running it can tell" in no[op] for op in _READING)


def test_every_node_has_an_answer(device: str) -> None:
    inside = {op for op in Ops if "stands inside of kernels" in can_run(op, device=device).reason}
    assert inside >= {Ops.LOAD, Ops.RANGE, Ops.BARRIER, Ops.LANE}
    assert not inside & {Ops.ADD, Ops.EXP, Ops.REDUCE, Ops.GATHER, Ops.WHERE, Ops.SCAN, Ops.CAST}
    assert can_run("EXP", device=device) and can_run(Ops.CMPLT, device=device)


@pytest.mark.parametrize(
    ("op", "options", "want"),
    [
        ("exp", {"dtype": "float64", "shape": (1000,)}, True),
        ("matmul", {"shape": (8, 8)}, True),
        ("matmul", {"shapes": [(2, 3, 4), (2, 4, 5)]}, True),
        ("matmul", {"shapes": [(3, 4), (3, 4)]}, False),
        ("conv2d", {"shapes": [(1, 3, 9, 9), (4, 3, 3, 3)]}, True),
        ("conv2d", {"shapes": [(1, 3, 9, 9), (4, 2, 3, 3)]}, False),
        ("cat", {"shapes": [(2, 3), (4, 3), (1, 3)]}, True),
        ("FLOORDIV", {"dtype": "int8"}, True),
        ("FLOORDIV", {"dtype": "float32"}, False),
        ("sqrt", {"dtype": "int32"}, True),
        ("SQRT", {"dtype": "int32"}, False),
        ("sum", {"shape": (0, 3)}, True),
    ],
)
def test_shapes_and_dtypes_count(device: str, op: str, options: Any, want: bool) -> None:
    answer = can_run(op, device=device, **options)
    assert bool(answer) is want is (not answer.reason)


def test_nothing_runs_and_nothing_is_left(device: str) -> None:
    before, plans = counters.launches, current().plans
    assert can_run("softmax", shape=(30, 30), device=device)
    assert counters.launches == before and current().plans is plans
    assert can_run("exp", device="auto")


def test_what_cannot_be_compiled_is_no(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes from the device's own compiler."""
    from polygrad import device as devices
    from polygrad.errors import UnsupportedOp

    def render(programs: Any) -> Any:
        raise UnsupportedOp("no renderer today.")

    devices.get(device)
    monkeypatch.setattr(devices.get(device).renderer, "render", render)
    answer = can_run("add", shape=(17, 19, 3), device=device)
    assert not answer and answer.reason == "no renderer today."


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: can_run("matmull"), UnknownName, "no operation named 'matmull'. Did you mean 'ma"),
        (lambda: can_run(3), ArgumentError, "op is the name of an operation, not 3"),
        (lambda: can_run("add", dtype="float31"), DTypeError, "float32"),
        (lambda: can_run("add", device="cqu"), DeviceUnknown, "Did you mean 'cpu'"),
        (lambda: can_run("add", shape=(2,), shapes=[(2,)]), ArgumentError, "give one"),
        (lambda: can_run("add", shape=(-1,)), ValueError, "negative size"),
    ],
)
def test_unknown_names_are_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_methods_are_the_public_ones() -> None:
    assert {"matmul", "sort", "zeros"} <= _METHODS
    assert not {n for n in _METHODS if n.startswith("_") or not hasattr(Tensor, n)}
