"""The fuzzer of the integer algebra: finds nothing in the rules, and finds what is planted."""

from __future__ import annotations

import pytest

from polygrad.dtype import dtypes
from polygrad.testing import fuzz
from polygrad.testing.fuzz_symbolic import Case, Generator, broken, reduce, report, text
from polygrad.uop import compare, divmod, intervals
from polygrad.uop.linear import plus, times
from polygrad.uop.ops import Ops


def test_random_expressions_are_what_brute_force_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["symbolic", "-n", "1500", "--seed", "20240607"]) == 0
    out = capsys.readouterr().out
    assert "seed 20240607" in out
    assert "0 differences" in out


def no_nesting(rest, c):
    """(x // a) // b as x // b."""
    const, terms = rest
    if len(terms) == 1 and terms[0][0].op is Ops.FLOORDIV and terms[0][1] == 1:
        return divmod._floordiv(plus((const, ()), divmod.linear(terms[0][0].src[0])), c)
    return None


def careless_bucket(const, terms, c):
    lo, hi = divmod.bounds(const, terms)
    return lo // c if lo // c == (hi - 1) // c else None


def other_sign(form):
    left = tuple(t for t in form[1] if t[1] > 0)
    right = tuple((a, -k) for a, k in form[1] if k < 0)
    return divmod.node((0, left)), divmod.node((form[0], right))


MUTANTS = {
    "nested division forgets a factor": (divmod, "_nested_division", no_nesting),
    "an interval one too short": (divmod, "_bucket", careless_bucket),
    "a sign lost in a comparison": (compare, "_sides", other_sign),
    "a comparison off by one": (compare, "less_equal", compare.less),
    "a division scaled down": (compare, "times", lambda form, k: times(form, max(k - 1, 1))),
    "the interval of a quotient": (intervals, "_floordiv", lambda d, s, a, f: (s[0].lo, s[0].hi)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_faults_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, attribute, wrong = MUTANTS[name]
    if module is intervals:
        monkeypatch.setitem(intervals._RULES, Ops.FLOORDIV, wrong)
    else:
        monkeypatch.setattr(module, attribute, wrong)
    assert any(broken(Generator(seed).case()) for seed in range(1500))


def test_a_failing_case_is_made_small_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "less_equal", compare.less)
    case = next(c for s in range(1500) if broken(c := Generator(s).case()))
    small = reduce(case)
    assert broken(small) is not None
    assert len(text(small.expr)) <= len(text(case.expr))
    assert len(text(small.expr)) < 200
    assert "r0 = UOp.range(" in report(small)


def test_printed_python_builds_the_case() -> None:
    expr = (Ops.ADD, dtypes.index, ("range", 0), ("const", dtypes.index, 3))
    assert text(expr) == "UOp.alu(Ops.ADD, r0, UOp.const(dtypes.index, 3))"
    assert broken(Case(((0, 4),), expr)) is None


def test_an_unknown_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["symbolism"]) == 2
    assert "symbolic, programs" in capsys.readouterr().out
