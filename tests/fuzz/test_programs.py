"""Row 1 of the regime: the same program gives the same numbers everywhere, and once failed stays
fixed.
"""

from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np
import pytest

from polygrad import Context
from polygrad.engine import kernels
from polygrad.testing import fuzz_programs as fuzz
from polygrad.testing.fuzz_grammar import Node, Program, known

SAVED = sorted((Path(__file__).parent.parent / "regressions").glob("program_*.json"))
BATCH = 12


@pytest.mark.parametrize("path", SAVED, ids=lambda p: p.stem)
@pytest.mark.parametrize("fusion", [True, False], ids=["fused", "unfused"])
def test_a_program_that_failed_once(path: Path, fusion: bool, device: str) -> None:
    program = Program.loads(path.read_text())
    failure = fuzz.check(program, fuzz.Setup(device, fusion))
    assert failure is None, fuzz.reproducer(failure)


@pytest.mark.parametrize("fusion", [True, False], ids=["fused", "unfused"])
def test_new_programs(fusion: bool, device: str) -> None:
    seeds = range(10**6, 10**6 + 5 * BATCH)
    setup = fuzz.Setup(device, fusion)
    failures = [f for _, found in fuzz.fuzz(seeds, [setup], BATCH) for f in found]
    assert not failures, "\n\n".join(map(fuzz.reproducer, failures))


@pytest.mark.parametrize("modes", ["recipes", "neighbours", "transforms"])
def test_new_programs_with_other_lists(modes: str) -> None:
    """Row 2: each recipe on and off, lists that a search may come across, random lists."""
    seeds = range(3 * 10**6, 3 * 10**6 + BATCH)
    found = fuzz.fuzz(seeds, fuzz.setups("cpu", modes), BATCH)
    failures = [f for _, some in found for f in some]
    assert not failures, "\n\n".join(map(fuzz.reproducer, failures))


def test_the_reference_device_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its two engines share no arithmetic, so each is a witness for the other."""
    monkeypatch.setattr(kernels, "_of_device", weakref.WeakKeyDictionary())  # nothing loaded yet
    with Context(POLY_INTERP_NUMPY=0):
        found = fuzz.fuzz(range(2 * 10**6, 2 * 10**6 + 10), [fuzz.Setup("interp")], 10)
        failures = [f for _, some in found for f in some]
    assert not failures, "\n\n".join(map(fuzz.reproducer, failures))


def test_a_wrong_result_is_reduced_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: sums come out one too large."""
    honest = fuzz.run_batch

    def lying(programs: list[Program]) -> list[list[np.ndarray]]:
        out = honest(programs)
        return [
            [a + 1 if p.nodes[o].op == "sum" else a for o, a in zip(p.outputs, group, strict=True)]
            for p, group in zip(programs, out, strict=True)
        ]

    monkeypatch.setattr(fuzz, "run_batch", lying)
    nodes = (
        Node("input", (), {"dtype": "float32", "shape": [9, 17], "kind": "normal", "seed": 3}),
        Node("exp", (0,)),
        Node("sum", (1,), {"axis": [1], "keepdim": False}),
        Node("neg", (1,)),
    )
    found = fuzz.check(Program(nodes, (2, 3)), fuzz.Setup("interp"))
    assert found is not None
    small = fuzz.smallest(found)
    assert [n.op for n in small.program.nodes] == ["input", "sum"]
    text = fuzz.reproducer(small)
    assert "v1 = v0.sum(axis=(1,), keepdim=False)" in text
    assert "# interp: v1[0] is" in text


def test_a_failure_is_saved_as_data(tmp_path: Path) -> None:
    program = Program((Node("full", (), {"shape": [2], "c": 3, "dtype": "int32"}),), (0,))
    path = fuzz.save(fuzz.Failure(program, fuzz.Setup("interp"), "difference", ""), tmp_path)
    back = Program.loads(path.read_text())
    np.testing.assert_array_equal(known(back)[0].value, [3, 3])


def test_programs_that_fail_only_together_are_joined() -> None:
    one = Program(
        (Node("full", (), {"shape": [1], "c": 3, "dtype": "int32"}), Node("neg", (0,))), (1,)
    )
    both = fuzz.joined([one, one])
    assert both.outputs == (1, 3)
    assert [k.value.tolist() for k in known(both)] == [[3], [-3], [3], [-3]]


def test_the_command_prints_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["-n", "3", "--devices", "interp", "--seed", "5"]) == 0
    assert capsys.readouterr().out.startswith("3 programs from seed 5, ")
