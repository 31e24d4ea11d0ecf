"""The exception tree, and whose frames a traceback shows."""

from __future__ import annotations

import re
import sys
import traceback
import types

import pytest

from polygrad import Context, errors

# A module of ours, as far as the traceback rule can see.
LIBRARY = """
from polygrad import errors

def deep():
    raise errors.ShapeError("shapes (2,) and (3,) differ")

@errors.public
def operation():
    deep()

@errors.public
def call_back(function):
    return function()

@errors.public
def breaks():
    raise ZeroDivisionError("not ours")

@errors.public
class Thing:
    def method(self): deep()
    def __add__(self, other): deep()
    @property
    def shape(self): deep()
    @classmethod
    def make(cls): deep()
    @staticmethod
    def check(): deep()
    def _private(self): deep()
"""


@pytest.fixture
def library() -> types.ModuleType:
    module = types.ModuleType("polygrad.made_up")
    exec(compile(LIBRARY, "made_up.py", "exec"), module.__dict__)
    return module


def frames(function) -> list[str]:
    """The functions that a traceback of `function` shows, outermost first."""
    with pytest.raises(errors.ShapeError) as error:
        function()
    shown = traceback.extract_tb(error.value.__traceback__)
    # Left out: the frame of `public` itself, which 3.10 shows and POLY_TRACEBACK=full asks for.
    return [frame.name for frame in shown if frame.name != "call"]


def test_a_traceback_ends_at_the_users_line(library) -> None:
    def user() -> None:
        library.operation()

    assert frames(user) == ["frames", "user"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 shows one frame of ours")
def test_no_frame_of_ours_stays(library) -> None:
    with pytest.raises(errors.ShapeError) as error:
        library.operation()
    assert error.value.__traceback__.tb_next is None


@pytest.mark.parametrize(
    "use",
    [
        lambda thing: thing.method(),
        lambda thing: thing + 1,
        lambda thing: thing.shape,
        lambda thing: thing.make(),
        lambda thing: thing.check(),
    ],
)
def test_a_public_class_marks_its_public_methods(library, use) -> None:
    assert frames(lambda: use(library.Thing())) == ["frames", "<lambda>", "<lambda>"]


def test_a_private_method_is_not_marked(library) -> None:
    assert frames(library.Thing()._private) == ["frames", "_private", "deep"]


def test_functions_of_the_users_that_we_called_stay(library) -> None:
    def model() -> None:
        library.operation()

    def user() -> None:
        library.call_back(model)

    assert frames(user) == ["frames", "user", "model"]


def test_poly_traceback_full_keeps_every_frame(library) -> None:
    with Context(POLY_TRACEBACK="full"):
        assert frames(library.operation) == ["frames", "operation", "deep"]


def test_an_error_that_is_not_ours_keeps_every_frame(library) -> None:
    with pytest.raises(ZeroDivisionError) as error:
        library.breaks()
    assert traceback.extract_tb(error.value.__traceback__)[-1].name == "breaks"


def test_a_marked_function_keeps_its_name_and_signature(library) -> None:
    assert library.operation.__name__ == "operation"
    assert library.operation.__wrapped__.__code__.co_argcount == 0


def all_errors() -> list[type]:
    return [
        member
        for member in vars(errors).values()
        if isinstance(member, type) and issubclass(member, errors.PolygradError)
    ]


def test_the_tree_at_the_head_of_the_module_is_the_tree() -> None:
    ends = "Error_?|Unknown|Name|Op|Ambiguous|Attribute|Missing|Denied|Size"
    names = rf"\b[A-Z]\w*(?:{ends})\b|Device\w+|Plugin\w+"
    drawn = set(re.findall(names, errors.__doc__.split("Texts:")[0]))
    assert {cls.__name__ for cls in all_errors()} <= drawn


def test_every_error_is_also_a_builtin_one() -> None:
    for cls in all_errors():
        if cls is not errors.PolygradError:
            builtins = [base for base in cls.__mro__ if base.__module__ == "builtins"]
            assert len(builtins) > 3, cls  # more than Exception, BaseException and object


def test_a_guess_is_made_only_near_a_known_name() -> None:
    assert errors.did_you_mean("flaot32", ["float32", "int8"]) == " Did you mean 'float32'?"
    assert errors.did_you_mean("banana", ["float32", "int8"]) == ""
