"""A number argument of a compiled function may be given for any argument of a method that takes a
number: what comes out is that of the plain number, for each value, or an error of ours (F067)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor, jit
from polygrad._trace import Trace
from polygrad.engine.number import Number
from polygrad.errors import CaptureError, PolygradError
from polygrad.uop.ops import toposort

from .test_junk import NAMES, arguments, parameters

VALUES: tuple[tuple[Any, Any], ...] = ((1, 2), (0.5, 0.75))
# They read values or act on the world, and are refused inside of a capture as such.
READ = {"save", "custom_kernel", "from_url"}
# Their elements are whatever the memory holds.
UNWRITTEN = {"empty", "empty_like", "invalids", "new_empty"}


def takes_a_number(parameter: inspect.Parameter) -> bool:
    words = ("bool", "Flag", "str", "Callable")
    return not any(str(parameter.annotation).startswith(w) for w in words)


def holds_a_stand_in(arg: Any) -> bool:
    if isinstance(arg, (list, tuple)):
        return any(map(holds_a_stand_in, arg))
    return issubclass(type(arg), Number)


@pytest.fixture(autouse=True)
def no_stand_in_gets_into_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a method need to run again over plain numbers."""
    run = Trace.run

    def watched(self: Trace, function: Any) -> None:
        try:
            run(self, function)
        except TypeError as error:
            assert isinstance(error, PolygradError)
            raise
        assert not any(holds_a_stand_in(n.arg) for n in toposort(self.roots))

    monkeypatch.setattr(Trace, "run", watched)


def outcome(call: Callable[[Any, Any], Any], value: Any) -> Any:
    """What a call gives for a tensor and a number, from the same random state."""
    Tensor.manual_seed(7)
    try:
        return leaves_of(call(Tensor([[0.25, 0.5, 0.75], [0.5, 0.25, 0.125]]), value))
    except PolygradError as error:
        return error


def leaves_of(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.cast("float32").numpy() if x.dtype.itemsize < 4 else x.numpy()
    if isinstance(x, (list, tuple)):
        return [leaves_of(y) for y in x]
    return x


def check_same(got: Any, want: Any) -> None:
    if isinstance(want, list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            check_same(g, w)
    elif isinstance(want, np.ndarray):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    else:
        assert repr(got) == repr(want)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in READ])
def test_as_the_plain_number(name: str) -> None:
    with Context(POLY_DEV="interp"):
        for parameter in filter(takes_a_number, parameters(name)):
            for values in VALUES:

                def call(x: Any, n: Any, parameter: Any = parameter) -> Any:
                    positional, named = arguments(name, parameter, n)
                    return getattr(x, name)(*positional, **named)

                wanted = [outcome(call, v) for v in values]
                if all(isinstance(w, PolygradError) for w in wanted):
                    continue
                compiled = jit(call)
                for value, want in zip((*values, values[0]), (*wanted, wanted[0]), strict=True):
                    got = outcome(compiled, value)
                    if isinstance(want, PolygradError):
                        assert isinstance(got, type(want)), (parameter, value, got)
                    elif not isinstance(got, CaptureError):  # it reads a value
                        assert not isinstance(got, PolygradError), (parameter, value, got)
                        if name in UNWRITTEN:
                            got, want = np.zeros_like(got), np.zeros_like(want)
                        check_same(got, want)
