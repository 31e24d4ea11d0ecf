"""Every public method and function shows itself at work, and what it shows runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polygrad
from polygrad import Context, Model, Tensor, Variable, dtypes, nn

# What an example may use without an import: the names that every page of the documentation has.
GIVEN: dict[str, Any] = {
    "__name__": "example",  # what it defines is a user's, not ours
    "Context": Context,
    "Model": Model,
    "Tensor": Tensor,
    "Variable": Variable,
    "dtypes": dtypes,
    "nn": nn,
    "np": np,
    "polygrad": polygrad,
}
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(polygrad.__path__, "polygrad.")
    if not module.name.startswith("polygrad.testing") and not module.name.endswith("__main__")
)


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = []
    for name in MODULES:
        module = importlib.import_module(name)
        found += finder.find(module, name, extraglobs=GIVEN)
    return [test for test in found if test.examples]


@pytest.mark.parametrize("test", examples(), ids=lambda test: test.name)
def test_an_example_gives_what_it_says(test: doctest.DocTest) -> None:
    Tensor.manual_seed(0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


# ---- none is without


def documented() -> Iterator[tuple[str, str]]:
    """Public names and their docstrings: methods of Tensor, and what nn and the top offer."""
    for cls in Tensor.__mro__[:-1]:
        for name, member in vars(cls).items():
            hidden = name.startswith("_") or inspect.ismemberdescriptor(member)
            if not hidden:
                yield f"Tensor.{name}", inspect.getdoc(getattr(member, "__func__", member)) or ""
    for cls in (*Model.__mro__[:-1], type(polygrad.jit(len)), polygrad.Runtime):
        yield from ((f"{cls.__name__}.{n}", text) for n, text in told(cls))
    for name in RUNTIME:
        yield f"Runtime.{name}", inspect.getdoc(getattr(polygrad.Runtime, name)) or ""
    for name in polygrad.__all__:
        if callable(member := getattr(polygrad, name)) and name not in TYPES:
            yield f"polygrad.{name}", inspect.getdoc(member) or ""
    for module in (nn, nn.init, nn.lr, nn.optim, nn.state, nn.datasets):
        for name in module.__all__:
            if callable(member := getattr(module, name)) and name not in TYPES:
                yield f"{module.__name__}.{name}", inspect.getdoc(member) or ""


def told(cls: type) -> Iterator[tuple[str, str]]:
    """The public methods and properties that a class itself defines."""
    for name, member in vars(cls).items():
        function = getattr(member, "__func__", member)
        if not name.startswith("_") and (callable(function) or isinstance(function, property)):
            yield name, inspect.getdoc(function) or ""


# What is made by the other names, and told there or on a page of its own.
TYPES = ("BoundVariable", "Device", "Init", "Ops", "Optimizer", "Schedule", "UOp", "dtypes")
# What a user asks of a runtime; the rest of what it inherits is for the engine.
RUNTIME = ("stats", "reset_counters", "clear_schedule_cache", "collect", "dispose")


DOCUMENTED = dict(documented())


@pytest.mark.parametrize(("name", "text"), DOCUMENTED.items(), ids=list(DOCUMENTED))
def test_a_docstring_has_an_example(name: str, text: str) -> None:
    assert ">>> " in text
