"""Verbs of plugins (the hook `polygrad_commands`): a stranger's code behind our command line.

What is wrong with a verb is told with the package that it is of, and stops nobody who asks for
another one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import PluginInvalid, PolygradError, pass_on, told
from ..hooks import installed as hooks
from ..registry import Record
from .command import Result, Verb

Given = tuple[Callable[[Any], Any], str, Sequence[Any]]  # run, help, arguments


def verbs(asked: str) -> Mapping[str, Verb]:
    """The verbs that plugins add; of others than the one asked for only the names."""
    if not hooks.has("polygrad_commands"):
        return {}
    from ..hooks.specs import Commands

    found: dict[str, tuple[Record, Given]] = {}
    failed: list[PolygradError] = []
    commands = Commands()
    for record, _, error in hooks.outcomes("polygrad_commands", commands=commands):
        for name, given in commands.found.items():
            found.setdefault(name, (record, given))
        if error is not None:
            failed.append(error)
    if asked in found:
        return {asked: _verb(asked, *found[asked])}
    if failed:  # perhaps it would have been there
        raise failed[0]
    return {name: Verb(_nothing, str(given[1])) for name, (_, given) in found.items()}


def _nothing(arguments: argparse.Namespace) -> Result:
    raise AssertionError("a verb that was not asked for")


def _verb(name: str, record: Record, given: Given) -> Verb:
    """One verb of a plugin. Raises PluginInvalid if it cannot be offered."""
    run, help, arguments = given

    def answer(parsed: argparse.Namespace) -> Result:
        try:
            data, text, ok = run(parsed)
            json.dumps(data)
        except (PolygradError, SystemExit):  # it may say how it ended
            raise
        except BaseException as error:
            pass_on(error)
            raise _invalid(name, record, f"failed: {told(error)}") from error
        return Result(data, str(text), bool(ok))

    try:
        verb = Verb(answer, str(help), [(tuple(flags), {**more}) for flags, more in arguments])
        trial = argparse.ArgumentParser()
        trial.add_argument("--json")
        for flags, options in verb.arguments:
            trial.add_argument(*flags, **options)
    except BaseException as error:
        pass_on(error)
        raise _invalid(name, record, f"cannot be offered: {told(error)}") from error
    return verb


def _invalid(name: str, record: Record, text: str) -> PluginInvalid:
    return PluginInvalid(
        f"the verb {name!r} of {record.name!r} ({record.package}) {text}."
        f" Disable: POLY_PLUGINS=-{record.name}"
    )
