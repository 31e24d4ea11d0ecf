"""Row 1 of the regime: the same program gives the same numbers everywhere, and once failed stays
fixed.
"""

from __future__ import annotations

import signal
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from polygrad import Context, Tensor
from polygrad import device as devices
from polygrad.engine import kernels
from polygrad.engine.counters import counters
from polygrad.testing import fuzz_generate, fuzz_run, fuzz_transforms
from polygrad.testing import fuzz_programs as fuzz
from polygrad.testing.fuzz_generate import generate
from polygrad.testing.fuzz_grammar import Node, Program, known
from polygrad.testing.fuzz_judge import Known

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
    batches = fuzz.fuzz(seeds, [setup], BATCH, users=2)
    failures = [f for _, found in batches for f in found]
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
    honest = fuzz_run.run_batch

    def lying(programs: list[Program]) -> list[list[np.ndarray]]:
        out = honest(programs)
        return [
            [a + 1 if p.nodes[o].op == "sum" else a for o, a in zip(p.outputs, group, strict=True)]
            for p, group in zip(programs, out, strict=True)
        ]

    monkeypatch.setattr(fuzz_run, "run_batch", lying)
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


def test_a_case_has_what_the_judge_knows_of_it_and_of_other_numbers() -> None:
    """The judge is asked while a program grows, and the answers are kept."""
    varied = 0
    for seed in range(20):
        program, values = fuzz_generate.grown(seed)
        _same(values, known(program))
        case = fuzz_run.case_of(program, values)
        runs = case.runs(varied=True)
        assert runs[0][0] == program and len(runs) in (1, 4)
        for run, answer in runs:
            _same(answer, known(run))
        varied += len(runs) > 1
    assert varied > 5


def _same(some: Sequence[Known], others: Sequence[Known]) -> None:
    for a, b in zip(some, others, strict=True):
        np.testing.assert_array_equal(a.value, b.value)
        np.testing.assert_array_equal(a.error, b.error)
        assert a.dtype == b.dtype


def test_other_numbers_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a number that changed is the old one still."""
    honest = fuzz_run.tensors
    program = Program(
        (
            Node("input", (), {"dtype": "float32", "shape": [3], "kind": "normal", "seed": 1}),
            Node("add_c", (0,), {"c": 2.5}),
        ),
        (1,),
    )
    monkeypatch.setattr(fuzz_run, "tensors", lambda p: honest(program))
    found = fuzz.check(program, fuzz.Setup("interp", varied=True))
    assert found is not None and found.text.startswith("run 1: v1[0] is")


def test_quick_code_is_the_same_program(device: str) -> None:
    compiler = devices.get(device).compiler
    with fuzz_run.quickly(devices.get(device)):
        assert fuzz.check(generate(11), fuzz.Setup(device)) is None
    assert devices.get(device).compiler is compiler


def test_what_the_recipes_make_alike_is_compiled_once() -> None:
    """Sums without the recipe for contractions: the same program; without their own: another."""
    with Context(POLY_DEV="cpu", POLY_CACHE=0):
        x = Tensor.arange(3 * 5).reshape(3, 5).cast("float32").contiguous().realize()
        made = [x.sum(1).tolist()]
        for names in (("contraction",), ("reduction",)):
            with fuzz_transforms.without_recipes(names):
                y = Tensor.arange(3 * 5).reshape(3, 5).cast("float32").contiguous().realize()
                before = counters.kernels_compiled
                made.append(y.sum(1).tolist())
                compiled = counters.kernels_compiled - before
            assert compiled == (names == ("reduction",))
    assert made == [[10.0, 35.0, 60.0]] * 3


def test_recipes_are_not_turned_off_where_there_are_none() -> None:
    wanted = fuzz.setups("interp,cpu", "recipes")
    assert [s.device for s in wanted] == ["interp", *["cpu"] * (1 + len(fuzz.LEFT_OUT))]


def test_programs_that_fail_only_together_are_joined() -> None:
    one = Program(
        (Node("full", (), {"shape": [1], "c": 3, "dtype": "int32"}), Node("neg", (0,))), (1,)
    )
    both = fuzz_run.joined([one, one])
    assert both.outputs == (1, 3)
    assert [k.value.tolist() for k in known(both)] == [[3], [-3], [3], [-3]]


def test_the_command_prints_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["-n", "3", "--devices", "interp", "--seed", "5"]) == 0
    assert capsys.readouterr().out.startswith("3 programs from seed 5, ")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_a_batch_hangs_by_the_processor_and_not_by_a_clock_that_others_hold_up() -> None:
    with fuzz_run.deadline(0.2):
        time.sleep(0.4)  # as a process that is stopped
    with pytest.raises(TimeoutError, match=r"no result within 0\.2 s"), fuzz_run.deadline(0.2):
        while True:
            pass
    with pytest.raises(TimeoutError), fuzz_run.deadline(0.05):
        time.sleep(60)  # as one that waits for what never comes
    assert signal.getitimer(signal.ITIMER_REAL) == signal.getitimer(signal.ITIMER_PROF) == (0, 0)
