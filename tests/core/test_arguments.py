"""Which argument of a failed call was wrong."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from polygrad import Context, errors
from polygrad.arguments import call_back

# A module of ours, as far as the rule of whose frame it is can see.
LIBRARY = """
from __future__ import annotations
from collections.abc import Callable, Sequence
from typing import Any, Literal
from polygrad import errors

@errors.public
def scaled(x: float, times: int = 1, mode: Literal["up", "down"] = "up") -> float:
    return x.real * times.real

@errors.public
def listed(sizes: int | Sequence[int] | None = None) -> int:
    return sizes + 1

@errors.public
def outer(count: int) -> float:
    return scaled(count)

@errors.public
def applied(function: Callable[..., Any]) -> Any:
    return function()

@errors.public
def broken(x: int) -> int:
    return [][x]

@errors.public
class Thing:
    def __init__(self, width: int) -> None:
        self.width = width * 2.0 + 0
"""


@pytest.fixture(scope="module")
def library() -> Any:
    module = types.ModuleType("polygrad.made_up_too")
    exec(compile(LIBRARY, "made_up_too.py", "exec"), module.__dict__)
    return module


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "unknown name": (
        lambda m: m.scaled(1.0, tmes=2),
        "scaled: no argument 'tmes'. Did you mean 'times'? It takes: x, times=1, mode='up'.",
    ),
    "missing": (
        lambda m: m.scaled(),
        "scaled: missing a required argument: 'x'. It takes: x, times=1, mode='up'.",
    ),
    "too many": (
        lambda m: m.applied(1, 2),
        "applied: too many positional arguments. It takes: function.",
    ),
    "no number": (lambda m: m.scaled("1"), "scaled: x is a number, not '1'."),
    "no integer": (lambda m: m.scaled(1.0, "1"), "scaled: times is an integer, not '1'."),
    "a union": (
        lambda m: m.listed([1, 2.5]),
        "listed: sizes is an integer, a sequence of integers or None, not [1, 2.5].",
    ),
    "no function": (lambda m: m.applied(5), "applied: function is a callable, not 5."),
    "the outermost has the word": (lambda m: m.outer("3"), "outer: count is an integer, not '3'."),
    "a class": (lambda m: m.Thing("3"), "Thing: width is an integer, not '3'."),
}


@pytest.mark.parametrize("case", CALLS)
def test_the_argument_is_named_with_what_it_should_be(library: Any, case: str) -> None:
    call, text = CALLS[case]
    with pytest.raises(errors.ArgumentError) as error:
        call(library)
    assert str(error.value) == text
    assert isinstance(error.value, TypeError)
    assert isinstance(error.value, ValueError)
    assert error.value.__suppress_context__


def test_a_call_that_fits_and_fails_is_a_fault_of_ours_and_stays_as_it_is(library: Any) -> None:
    with pytest.raises(IndexError, match="list index out of range"):
        library.broken(3)


def test_an_error_of_a_function_of_the_users_is_the_users(library: Any) -> None:
    def users() -> None:
        raise TypeError("of the user")

    with pytest.raises(TypeError, match="of the user") as error:
        library.applied(users)
    assert type(error.value) is TypeError


def test_the_original_is_chained_when_full_tracebacks_are_asked_for(library: Any) -> None:
    with Context(POLY_TRACEBACK="full"), pytest.raises(errors.ArgumentError) as error:
        library.scaled("1")
    assert isinstance(error.value.__cause__, AttributeError)


def test_a_users_function_that_takes_other_arguments() -> None:
    with pytest.raises(errors.ArgumentError) as error:
        call_back("jit of f", lambda x, y=2: x, z=3)
    assert str(error.value) == "jit of f: no argument 'z'. It takes: x, y=2."


def test_a_type_error_inside_of_it_is_its_own() -> None:
    with pytest.raises(TypeError, match="unsupported operand") as error:
        call_back("jit of f", lambda: 1 + "1")  # type: ignore[operator]
    assert type(error.value) is TypeError


# ---- values in messages


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        (10**70, "an integer beyond 10**60"),
        ([[1] * 100] * 100, "[[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, …"),
        ({"a": "b\nc"}, "{'a': 'b\\nc'}"),
    ],
)
def test_values_are_shown_on_one_line(value: Any, text: str) -> None:
    assert errors.shown(value) == text


def test_arrays_are_shown_by_their_shape() -> None:
    np = pytest.importorskip("numpy")
    assert errors.shown(np.ones((2, 3))) == "ndarray of shape (2, 3)"


def test_names_that_are_not_there_get_the_nearest_and_all() -> None:
    known = ("mean", "sum")
    assert errors.no_such("reduction", "maen", known) == (
        "no reduction named 'maen'. Did you mean 'mean'? Valid: mean, sum."
    )
    assert errors.no_such("reduction", 5, known) == "no reduction named 5. Valid: mean, sum."
