"""One mistake as data, and what must be true of every one.

`code` is what a user writes: the last statement is wrong, those before it prepare. It runs as the
file `train.py`, so that messages may name its lines and a traceback shows them. `instead` is right,
runs after the mistake with the same objects, and stands beside it in `docs/mistakes.md`.
"""

from __future__ import annotations

import ast
import gc
import linecache
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import polygrad
from polygrad import errors, nn, settings
from polygrad.device.buffer import _pools
from polygrad.engine import current
from polygrad.engine.capture import active
from polygrad.engine.counters import counters

FILE = "train.py"


class Mistake(NamedTuple):
    """`text` is the whole message; `{device}` in it is the device that the test runs on."""

    title: str
    code: str
    error: type[errors.PolygradError]
    text: str
    instead: str = ""


class Chapter(NamedTuple):
    """Mistakes of one kind. `prelude` runs before each of them, and the page shows it once."""

    title: str
    intro: str
    mistakes: tuple[Mistake, ...]
    prelude: str = ""


# ---- running one


class Outcome(NamedTuple):
    """What a mistake did: its error, and the world before and after."""

    error: BaseException | None
    lines: list[str]  # as Python prints them
    files: list[str]  # of the frames that are shown, outermost first
    before: dict[str, Any]
    after: dict[str, Any]
    names: dict[str, Any]  # what the code had defined


def run(chapter: Chapter, mistake: Mistake, extra: Mapping[str, Any] | None = None) -> Outcome:
    """Prepare, make the mistake, and look at the world on both sides of it."""
    names = prepared(chapter, mistake, extra)
    *_, wrong = _statements(_source(chapter, mistake))
    before = world()
    caught = _caught(wrong, names)
    error, lines, files = None, [], []
    if caught is not None:
        error, lines, files = caught, _printed(caught), _files(caught)
        error.__traceback__ = None  # its frames hold the operands
        error.__cause__ = error.__context__ = None
    return Outcome(error, lines, files, before, world(), names)


def prepared(
    chapter: Chapter, mistake: Mistake, extra: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The names that the code defines before its last statement."""
    source = _source(chapter, mistake)
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    names: dict[str, Any] = {"__name__": "train", "np": np, "polygrad": polygrad, "nn": nn}
    names |= {name: getattr(polygrad, name) for name in polygrad.__all__} | dict(extra or {})
    polygrad.Tensor.manual_seed(0)
    for statement in _statements(source)[:-1]:
        exec(statement, names)
    return names


def _source(chapter: Chapter, mistake: Mistake) -> str:
    return "\n".join(part.strip("\n") for part in (chapter.prelude, mistake.code) if part)


def _statements(source: str) -> list[Any]:
    tree = ast.parse(source)
    return [compile(ast.Module([s], []), FILE, "exec") for s in tree.body]


def _caught(statement: Any, names: dict[str, Any]) -> BaseException | None:
    try:
        exec(statement, names)
    except Exception as error:
        assert error.__traceback__ is not None
        return error.with_traceback(error.__traceback__.tb_next)  # without the frame of this file
    return None


def _printed(error: BaseException) -> list[str]:
    shown = traceback.format_exception(type(error), error, error.__traceback__)
    return "".join(shown).splitlines()


def _files(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


# ---- the world


def world() -> dict[str, Any]:
    """What a mistake must leave as it was, beside the values of tensors."""
    gc.collect()
    return {
        "counters": counters.snapshot(),
        "live bytes": {n: live for n, pool in _pools.items() if (live := pool.usage().live)},
        "settings": dict(settings._overrides.get()),
        "capture": active.get(),
        "runtime": current(),
        "random numbers": current().draws.state,
    }


def values(names: Mapping[str, Any]) -> dict[str, Any]:
    """The value, dtype, gradient mark and gradient of every tensor that names lead to."""
    own = {name: x for name, x in names.items() if not name.startswith("_") and name not in _GIVEN}
    models = {name: x for name, x in own.items() if isinstance(x, polygrad.Model)}
    found = nn.get_state_dict({n: x for n, x in own.items() if n not in models})
    told = {path: _told(tensor) for path, tensor in found.items()}
    for name, model in models.items():
        told |= {f"{name}: {n}": _told(s.tensor) for n, s in model.states.items()}
        told[f"{name}: the rest"] = (model.params, model.optimizer_config(), list(model.metadata))
    return told


_GIVEN = {"np", "polygrad", "nn", *polygrad.__all__}


def _told(tensor: Any) -> Any:
    try:
        grad = None if tensor.grad is None else tensor.grad.tolist()
        return _value(tensor), tensor.dtype, tensor.requires_grad, grad
    except errors.StateError as error:  # it was disposed of
        return str(error)


def _value(tensor: Any) -> Any:
    node = current().leaf_of(tensor.uop)
    buffer = None if node is None else current().find(node)
    if buffer is not None and buffer.nbytes and not buffer.allocated:
        return f"{tensor.shape}, never written"
    return tensor.tolist()


# ---- what must be true


def check(
    chapter: Chapter,
    mistake: Mistake,
    extra: Callable[[], Mapping[str, Any]] = dict,
    device: str = "",
) -> None:
    """Fails unless the mistake is told as it should be and leaves nothing behind."""
    twin = values(prepared(chapter, mistake, extra()))
    outcome = run(chapter, mistake, extra())
    check_told(mistake, outcome, device)
    assert outcome.after == outcome.before
    assert values(outcome.names) == twin
    if mistake.instead:
        exec(compile(mistake.instead, FILE, "exec"), outcome.names)


def check_told(mistake: Mistake, outcome: Outcome, device: str = "") -> None:
    """Class, text and traceback."""
    error = outcome.error
    assert error is not None, "no error at the call that is wrong"
    assert str(error) == mistake.text.replace("{device}", device)
    assert type(error) is mistake.error
    assert any(cls.__module__ == "builtins" for cls in type(error).__mro__[:-3])
    assert len(str(error).splitlines()) <= 4
    assert len(outcome.lines) <= 8, "\n".join(outcome.lines)
    files = outcome.files
    if sys.version_info < (3, 11):  # one frame of ours stays there, behind the caller's
        files = [file for i, file in enumerate(files) if i != 1 or not file.endswith("errors.py")]
    assert set(files) == {FILE}, outcome.lines
