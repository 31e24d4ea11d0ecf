"""Plugins whose hooks do what they should not: each is told with its package and stops no other."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from polygrad import Tensor, errors, hooks
from polygrad.cli.command import main
from polygrad.hooks import hookimpl
from polygrad.hooks.specs import Check
from polygrad.uop.ops import Ops
from polygrad.uop.rewrite import Rules


class Halt(BaseException):
    """An exception of its own making."""


def raises(*arguments: Any) -> Any:
    raise Halt("now")


@pytest.fixture
def plug():
    """`plug(hook, function, name)`: a plugin with one hook, there until the test ends."""
    names: list[str] = []

    def plug(hook: str, function: Any, name: str = "acme") -> None:
        implementation = type("Plugin", (), {hook: staticmethod(hookimpl(function))})()
        hooks.register(implementation, name)
        names.append(name)

    yield plug
    for name in names:
        hooks.unregister(name)


def doubled() -> list[float]:
    return [float(x) for x in (Tensor([1.0, 2.0]) * 2).tolist()]


# ---- while something runs


def test_an_observer_may_halt_nobody(plug) -> None:
    def polygrad_program_ran(event: Any) -> None:
        raise Halt("now")

    plug("polygrad_program_ran", polygrad_program_ran)
    with pytest.warns(errors.PluginWarning, match="'acme' .* failed: Halt: now. This plugin is"):
        assert doubled() == [2.0, 4.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doubled() == [2.0, 4.0]


def test_what_an_observer_runs_is_not_observed(plug) -> None:
    seen: list[str] = []

    def polygrad_program_ran(event: Any) -> None:
        seen.append(event.program)
        assert (Tensor([1.0]) + len(seen)).tolist() == [1.0 + len(seen)]

    plug("polygrad_program_ran", polygrad_program_ran)
    assert doubled() == [2.0, 4.0]
    assert len(seen) == 1
    assert doubled() == [2.0, 4.0]
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("rule", "kind", "said"),
    [
        (raises, errors.PluginError, "a rewrite rule of 'acme' (registered) failed: Halt: now."),
        (lambda u: 7, errors.PluginInvalid, "a rewrite rule of 'acme' (registered) gave int,"),
    ],
)
def test_a_rule_that_fails_is_told_with_whose_it_is(plug, rule, kind, said) -> None:
    def polygrad_rewrite_rules(stage: str) -> Rules:
        rules = Rules()
        rules.on(Ops.MUL)(rule)
        return rules

    plug("polygrad_rewrite_rules", polygrad_rewrite_rules)
    with pytest.raises(kind) as error:
        doubled()
    assert str(error.value).startswith(said)


# ---- polygrad doctor


def told_by_doctor(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    main(["doctor", "--json"])
    return {c["check"]: c for c in json.loads(capsys.readouterr().out)["checks"]}


def _one_then_halt() -> Any:
    yield Check("first", lambda: "")
    raise Halt("now")


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        (raises, "polygrad_checks of 'acme' (registered) failed: Halt: now."),
        (lambda: 5, "its checks raised TypeError: 'int' object is not iterable"),
        (lambda: [5], "its checks raised AttributeError: 'int' object has no attribute 'name'"),
        (_one_then_halt, "its checks raised Halt: now"),
    ],
)
def test_checks_that_cannot_be_asked_are_a_problem_of_theirs(plug, capsys, checks, said) -> None:
    def polygrad_checks() -> Any:
        return checks()

    def fine() -> Any:
        return [Check("pulse", lambda: "", fix="none")]

    plug("polygrad_checks", polygrad_checks)
    plug("polygrad_checks", fine, "zeta")  # is asked all the same
    found = told_by_doctor(capsys)
    assert found["pulse (zeta)"]["ok"]
    problem = found["plugin acme (registered)"]
    assert not problem["ok"] and problem["detail"].startswith(said)
    assert problem["fix"] == "POLY_PLUGINS=-acme switches it off; tell its authors"


def test_a_check_may_answer_with_anything(plug, capsys) -> None:
    def polygrad_checks() -> Any:
        odd: list[Any] = [Check("number", lambda: 5, fix=7), Check("nothing", lambda: None)]
        return [*odd, Check("halt", raises)]

    plug("polygrad_checks", polygrad_checks)
    found = told_by_doctor(capsys)
    assert (found["number (acme)"]["detail"], found["number (acme)"]["fix"]) == ("5", "7")
    assert found["nothing (acme)"]["ok"]
    assert found["halt (acme)"]["detail"] == "it raised Halt: now"
    main(["doctor"])  # the table takes it as well
    assert "number (acme)" in capsys.readouterr().out


# ---- polygrad env


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (raises, "PluginError: polygrad_report of 'acme' (registered) failed: Halt: now."),
        (lambda: 5, "TypeError: 'int' object is not iterable"),
    ],
)
def test_a_report_that_fails_is_a_line_of_the_report(plug, capsys, lines, said) -> None:
    def polygrad_report() -> Any:
        return lines()

    plug("polygrad_report", polygrad_report)
    plug("polygrad_report", lambda: {"card": "two\nlines", 5: 6}, "zeta")
    assert main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["acme failed"].startswith(said)
    assert found["zeta card"] == "two\nlines" and found["zeta 5"] == "6"
    main(["env"])
    assert "zeta card: two lines\n" in capsys.readouterr().out


# ---- polygrad VERB


@pytest.fixture
def verbs(plug):
    """Verbs of `acme`, one of which works."""

    def polygrad_commands(commands: Any) -> None:
        commands.add("fine", lambda a: ({"n": a.n}, f"n is {a.n}", True), "h", [(("-n",), {})])
        commands.add("boom", lambda a: 1 / 0, "h")
        commands.add("halt", raises, "h")
        commands.add("short", lambda a: 5, "h")
        commands.add("object", lambda a: ({"x": object()}, "text", True), "h")
        commands.add("twice", lambda a: ({}, "", True), "h", [(("--json",), {})])
        commands.add("odd", lambda a: ({}, "", True), "h", [5])
        commands.add("devices", lambda a: ({}, "mine", True), "h")

    plug("polygrad_commands", polygrad_commands)


VERB = "the verb {0!r} of 'acme' (registered) "
BAD = {
    "boom": "failed: ZeroDivisionError: division by zero.",
    "halt": "failed: Halt: now.",
    "short": "failed: TypeError: cannot unpack non-iterable int object.",
    "object": "failed: TypeError: Object of type object is not JSON serializable.",
    "twice": "cannot be offered: ArgumentError: argument --json: conflicting option string",
    "odd": "cannot be offered: TypeError: cannot unpack non-iterable int object.",
}


@pytest.mark.parametrize("verb", BAD)
def test_a_verb_that_cannot_be_run_is_told_with_whose_it_is(verbs, capsys, verb) -> None:
    assert main([verb]) == 1
    assert capsys.readouterr().err.startswith(f"polygrad: {VERB.format(verb)}{BAD[verb]}")
    assert main([verb, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["error"] == "PluginInvalid" and BAD[verb] in found["message"]


def test_the_others_run_and_ours_stay_ours(verbs, plug, capsys) -> None:
    plug("polygrad_commands", lambda commands: raises(), "zeta")
    assert main(["fine", "-n", "3"]) == 0
    assert capsys.readouterr().out == "n is 3\n"
    assert main(["devices", "--json"]) == 0
    assert "devices" in json.loads(capsys.readouterr().out)
    assert main(["unknown"]) == 1  # perhaps a verb of zeta
    assert "polygrad_commands of 'zeta' (registered) failed: Halt" in capsys.readouterr().err


def test_an_unknown_verb_is_wrong_usage_that_names_theirs(verbs, capsys) -> None:
    with pytest.raises(SystemExit) as status:
        main(["unknown"])
    assert status.value.code == 2
    assert "'fine'" in capsys.readouterr().err


def test_a_verb_without_a_name_is_refused(plug, capsys) -> None:
    plug("polygrad_commands", lambda commands: commands.add(5, print, "h"))
    assert main(["anything"]) == 1
    assert "TypeError: a verb has a name and something to call" in capsys.readouterr().err
