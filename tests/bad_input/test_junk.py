"""Whatever is given for one argument of a public method of Tensor, the answer is a result or an
error of ours, raised at the call and shown there: never a TypeError from somewhere inside."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor
from polygrad.errors import PolygradError

NAMES = sorted(
    name
    for name in dir(Tensor)
    if not name.startswith("_")
    and callable(getattr(Tensor, name))
    and name not in ("manual_seed", "train", "sequential", "no_grad")  # they act, or call users
)
# What stands for the other arguments, so that a call comes as far as the junk.
FITTING: dict[str, Any] = {
    "other": lambda: Tensor.ones(2, 3),
    "target": lambda: Tensor.ones(2, 3),
    "value": lambda: 1.0,
    "fill_value": lambda: 1.0,
    "shape": lambda: (2, 3),
    "axis": lambda: 1,
    "dim": lambda: 1,
    "index": lambda: Tensor([[0, 1, 0]]),
    "indices": lambda: Tensor([[0, 1, 0]]),
    "mask": lambda: Tensor.ones(2, 3) > 0,
    "src": lambda: Tensor.ones(1, 3),
    "weight": lambda: Tensor.ones(3, 4),
    "key": lambda: Tensor.ones(2, 3),
    "dtype": lambda: "float32",
    "formula": lambda: "ij->ji",
    "repeats": lambda: 2,
    "num_classes": lambda: 3,
    "chunks": lambda: 2,
    "sizes": lambda: (1, 2),
    "k": lambda: 1,
    "n": lambda: 2,
    "q": lambda: 0.5,
    "reduce": lambda: "sum",
}
JUNK: tuple[Any, ...] = (
    None, "a", b"a", -1, 99, 2.5, 10**30, True, float("nan"), (), [1, 2], ("a", None), {}, object(),
    slice(None), lambda x: x, np.ones((2, 3)), np.float32(2.0), [], [None], [[]], [1, [2]], set(),
    b"", int, float, bool, type, np.float32, np.ndarray, Tensor, [int], Tensor.sum, 1j, range(3),
)  # fmt: skip


def junk() -> list[Any]:
    return [*JUNK, Tensor.ones(2, 3), Tensor(1.0), Tensor([True, False])]


def parameters(name: str) -> list[inspect.Parameter]:
    found = list(inspect.signature(getattr(Tensor, name)).parameters.values())
    static = isinstance(inspect.getattr_static(Tensor, name), staticmethod)
    return found if static else found[1:]


def arguments(name: str, wrong: inspect.Parameter, value: Any) -> tuple[list[Any], dict[str, Any]]:
    """A call with `value` for `wrong` and something fitting for what else is required."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for p in parameters(name):
        at_fault = p.name == wrong.name
        if not at_fault and (p.default is not p.empty or p.kind is p.VAR_KEYWORD):
            continue
        given = value if at_fault else FITTING.get(p.name, lambda: Tensor.ones(2, 3))()
        if p.kind is p.VAR_KEYWORD:
            named["anything"] = given
        elif p.kind is p.KEYWORD_ONLY or p.default is not p.empty:
            named[p.name] = given
        else:
            positional.append(given)
    return positional, named


@pytest.mark.parametrize("name", NAMES)
def test_junk_is_refused_as_junk(name: str) -> None:
    with Context(POLY_DEV="interp"):
        for index, _ in enumerate(parameters(name)):
            for value in junk():
                x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
                positional, named = arguments(name, parameters(name)[index], value)
                try:
                    getattr(x, name)(*positional, **named)
                except PolygradError as error:
                    check(error)


def check(error: PolygradError) -> None:
    """A text that can be read, and a traceback that ends in this file."""
    assert 0 < len(str(error)) <= 400
    assert len(str(error).splitlines()) <= 2
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if sys.version_info < (3, 11):  # one frame of ours stays there, behind the caller's
        files = [file for file in files if not file.endswith("errors.py")]
    assert set(files) == {__file__}


@pytest.mark.parametrize("huge", [10**400, -(10**5000)], ids=["long", "too long to print"])
def test_an_integer_that_no_float_holds(huge: int) -> None:
    """Python raises an OverflowError for it, or will not print it."""
    x = Tensor([1.0, 2.0])
    calls: list[Callable[[], Any]] = [
        lambda: x.sum(huge),
        lambda: x.softplus(huge),
        lambda: x.leaky_relu(huge),
        lambda: x.var(correction=-abs(huge)),
        lambda: x.reshape(huge),
        lambda: Tensor.rand(huge),
    ]
    with Context(POLY_DEV="interp"):
        for call in calls:
            with pytest.raises(PolygradError) as caught:
                call()
            assert len(str(caught.value)) <= 100
