"""Planted faults: they fit the code as it is, and the harness plants, finds and reports them."""

from __future__ import annotations

import pytest

from polygrad.testing import mutants


def test_there_are_twenty_and_their_names_differ() -> None:
    assert len(mutants.MUTANTS) >= 20
    assert len({m.name for m in mutants.MUTANTS}) == len(mutants.MUTANTS)


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda m: m.name)
def test_a_mutant_still_fits_its_module(mutant: mutants.Mutant) -> None:
    """Whoever rewrites such a line plants the fault anew in `polygrad.testing.mutants`."""
    assert mutants.stale(mutant) == ""


def test_a_mutant_is_planted_and_found(capsys: pytest.CaptureFixture[str]) -> None:
    (flip,) = [m for m in mutants.MUTANTS if m.name.startswith("flip")]
    (verdict,) = mutants.report(iter([mutants.hunt(flip, 64, 0, "interp")]))
    assert verdict.found
    assert "found after" in capsys.readouterr().out


def test_the_tree_as_it_is_passes() -> None:
    verdict = mutants.hunt(mutants.CONTROL, 16, 0, "interp")
    assert not verdict.found, verdict.text


def test_a_line_that_is_gone_is_reported() -> None:
    gone = mutants.Mutant("x", "uop.symbolic", "no such line", "")
    assert mutants.stale(gone) == "its line stands 0 times in uop.symbolic"
