"""The conformance kit: our devices pass it, a faulty device does not, and it says why (F235)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from polygrad import settings
from polygrad.cli.command import main
from polygrad.device.interp import Handle, InterpAllocator, InterpDevice, InterpRenderer
from polygrad.device.interp_target import TARGET
from polygrad.dtype import dtypes
from polygrad.testing import conformance, isolated_registry
from polygrad.testing.assembler import GUARD
from polygrad.testing.conformance import values
from polygrad.uop.ops import Ops

from .faulty import PLUGIN, Faulty, swapped
from .rewriting import (
    adds_lanes,
    each,
    first_lane,
    identity_shuffle,
    lanes_in_pairs,
    loops_from_zero,
    one_source,
    positive_zero,
    rewritten,
    sorted_parts,
    without_lane_gates,
)

ROOMS = ("package", "limits", "memory", "ops", "lanes", "programs", "plans", "functions", "tensors")


@pytest.mark.parametrize("room", [*ROOMS, "lifecycle"])
def test_a_device_of_ours_conforms(device: str, room: str) -> None:
    from polygrad.device import get

    outcomes = conformance.run_checks(device, room + "/")
    assert outcomes or (room == "lanes" and not get(device).target.vector_bytes)
    assert not [f"{o.id}\n{o.report}" for o in outcomes if not o.ok]


def test_checks_have_names_of_their_own_and_cover_what_the_target_lists() -> None:
    from polygrad.device import get

    names = [check.id for check in conformance.checks("interp")]
    assert len(names) == len(set(names))
    for op, kinds in get("interp").target.ops.items():
        if op in (Ops.LOAD, Ops.STORE, Ops.CONST):
            continue  # every check has them
        for dtype in kinds:
            if dtype.kind == "index" or (op is Ops.BITCAST and dtype.kind == "bool"):
                continue  # no type of memory
            wanted = dtype.name
            assert any(n.startswith(f"ops/{op.name}-") and wanted in n for n in names), (op, dtype)


# ---- faults that a backend may have, and the check that finds each


class WritesAtZero(InterpAllocator):
    def write(self, dst: Handle, src: memoryview, offset: int = 0) -> None:
        super().write(dst, src, 0)


class NeverFull(InterpAllocator):
    def alloc(self, nbytes: int, *, zeroed: bool = False) -> Handle:
        return super().alloc(min(nbytes, 1 << 24), zeroed=zeroed)


class NotZeroed(InterpAllocator):
    def alloc(self, nbytes: int, *, zeroed: bool = False) -> Handle:
        return super().alloc(nbytes)


class ViewsCopy(InterpAllocator):
    def view(self, base: Handle, offset: int, nbytes: int) -> Handle:
        copy = self.alloc(nbytes)
        self.copy(copy, Handle(base.root, base.offset + offset, nbytes), nbytes, None)  # type: ignore[arg-type]
        return copy


def flying(binary: Any) -> Any:
    """Programs that run when the next is launched: nobody waits for the last."""
    waiting: list[Callable[[], None]] = []

    def later(program: Any, *handles: Handle, **options: Any) -> None:
        while waiting:
            waiting.pop()()
        waiting.append(partial(program, *handles, **options))

    programs = InterpDevice.open(0, {}).load(binary)
    return {name: partial(later, program) for name, program in programs.items()}


def without_setup(plan: Any, programs: Any, arena: Any) -> Any:
    return InterpDevice.open(0, {}).prepare(replace(plan, setup=()), programs, arena)


def setup_again(plan: Any, programs: Any, arena: Any) -> Any:
    steps = (*plan.setup, *plan.steps)
    return InterpDevice.open(0, {}).prepare(replace(plan, setup=(), steps=steps), programs, arena)


def mixed_up(binary: Any) -> Any:
    programs = InterpDevice.open(0, {}).load(binary)
    return dict(zip(programs, [*programs.values()][::-1], strict=True))


FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "addition subtracts": ("ops/ADD-float32-scalar", {"renderer": swapped(ADD="SUB")}),
    "maximum is minimum": ("ops/MAX-int8-scalar", {"renderer": swapped(MAX="MIN")}),
    "rounds to below": ("ops/ROUND-float32-scalar", {"renderer": swapped(ROUND="FLOOR")}),
    "<= is <": ("ops/CMPLE-uint16-scalar", {"renderer": swapped(CMPLE="CMPLT")}),
    "writes at offset 0": ("memory/offsets", {"allocator": lambda t: WritesAtZero()}),
    "is never full": ("memory/absurd_size", {"allocator": lambda t: NeverFull()}),
    "gives dirty memory": ("memory/zeroed", {"allocator": lambda t: NotZeroed()}),
    "views are copies": ("memory/views", {"allocator": lambda t: ViewsCopy()}),
    "copies and writes do not wait": ("plans/memory_in_order", {"load": lambda t: flying}),
    "setup is left out": ("plans/setup", {"prepare": lambda t: without_setup}),
    "setup runs at each call": ("plans/setup", {"prepare": lambda t: setup_again}),
    "kernels of a module are mixed up": ("programs/several_in_one", {"load": lambda t: mixed_up}),
}


VECTORS: dict[str, Any] = {
    "vector_bytes": 16,
    "memory_bytes": (1, 2, 4, 8, 16),
    "lane_gates": True,
    "shuffle_sources": 2,
    "ops": {**TARGET.ops, Ops.LANES: TARGET.ops[Ops.CMPLT]},
}
# fault -> the room it is looked for in, a renderer that has it, and the only checks that fail
FOUND_ALONE: dict[str, tuple[str, Any, str]] = {
    "RANGE starts at 0": (
        "programs/",
        rewritten(loops_from_zero),
        "programs/(range_from-loop|range_between|long_counters)",
    ),
    "CONST has no -0": ("programs/", each(positive_zero), "programs/constants"),
    "SHUFFLE is the identity": ("lanes/", each(identity_shuffle), "lanes/SHUFFLE-"),
    "SHUFFLE knows one vector": ("lanes/", each(one_source), "lanes/SHUFFLE-two-"),
    "EXTRACT takes lane 0": ("lanes/", each(first_lane), "lanes/(EXTRACT-|offsets)"),
    "VECTOR sorts its parts": ("lanes/", each(sorted_parts), "lanes/VECTOR-"),
    "LANES always adds": ("lanes/", each(adds_lanes), "lanes/LANES-(?!ADD)(?!.*bool)"),
    "LANES takes neighbours": (
        "lanes/",
        rewritten(lanes_in_pairs),
        "lanes/LANES-.*-float32",
    ),
}


@pytest.mark.parametrize("fault", FOUND_ALONE)
def test_a_fault_of_one_operation_fails_the_checks_of_that_operation_alone(
    outcomes: Any, fault: str
) -> None:
    room, renderer, wanted = FOUND_ALONE[fault]
    assert all(o.ok for o in outcomes(room, target=VECTORS)), "without the fault all pass"
    found = outcomes(room, target=VECTORS, renderer=renderer)
    failed = {o.id for o in found if not o.ok}
    assert failed == {o.id for o in found if re.match(wanted, o.id)} != set()


@pytest.mark.parametrize("nbytes", [8, 16, 32])
def test_gates_of_lanes_are_tried_in_the_middle_of_a_vector(outcomes: Any, nbytes: int) -> None:
    """Two lanes are a vector, too."""
    memory = tuple(1 << k for k in range(nbytes.bit_length()))
    target = {**VECTORS, "vector_bytes": nbytes, "memory_bytes": memory}
    assert all(o.ok for o in outcomes("lanes/", target=target))
    found = outcomes("lanes/", target=target, renderer=each(without_lane_gates))
    assert {o.id for o in found if not o.ok} == {"lanes/gates"}


@pytest.mark.parametrize("check,parts", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(outcomes: Any, check: str, parts: dict[str, Any]) -> None:
    assert [o.ok for o in outcomes(check)] == [True], "without the fault it passes"
    (found,) = outcomes(check, **parts)
    assert not found.ok


def test_a_failure_names_element_operation_program_and_text(outcomes: Any) -> None:
    (found,) = outcomes("ops/MUL-int32-scalar", renderer=swapped(MUL="ADD"))
    assert found.id == "ops/MUL-int32-scalar"
    assert "element 1: of (0, 1) got 1, expected 0" in found.report
    assert "LinearProgram k_MUL_int32" in found.report and "MUL int32 %" in found.report
    assert "Rendered:" in found.report and '"ADD"' in found.report


def test_a_store_past_the_end_of_a_buffer_is_found(outcomes: Any) -> None:
    def load(binary: Any) -> Any:
        programs = InterpDevice.open(0, {}).load(binary)

        def overrunning(program: Any) -> Any:
            def launch(*handles: Handle, **options: Any) -> None:
                program(*handles, **options)
                last = handles[-1]
                last.root[last.offset + last.nbytes - GUARD] ^= 1

            return launch

        return {name: overrunning(p) for name, p in programs.items()}

    (found,) = outcomes("ops/ADD-int32-scalar", load=lambda target: load)
    assert "wrote past the end of buffer 2" in found.report
    assert "LinearProgram k_ADD_int32" in found.report


def test_a_device_that_is_too_little_is_a_failed_check_whatever_is_asked_for(
    outcomes: Any,
) -> None:
    (found,) = outcomes("ops/ADD", target={"max_buffers": 3})
    assert (found.id, found.ok) == ("limits/opens", False)
    assert "its Target cannot work: max_buffers is 3; it must be at least 4." in found.report


def test_of_much_memory_the_first_byte_that_differs_is_shown(outcomes: Any) -> None:
    (found,) = outcomes("memory/views", allocator=lambda t: ViewsCopy())
    pattern = r"a write through a view of a view, place \d+: got \d+, expected 85"
    assert re.fullmatch(pattern, found.report)


def test_what_a_device_raises_is_reported_with_the_program(outcomes: Any) -> None:
    class Broken(InterpRenderer):
        def render(self, programs: Any) -> Any:
            raise RuntimeError("no printer")

    (found,) = outcomes("programs/branch", renderer=Broken)
    assert found.report.startswith("RuntimeError: no printer")
    assert "LinearProgram k_branch" in found.report
    assert "The renderer fails: RuntimeError: no printer" in found.report


# ---- comparing


@pytest.mark.parametrize(
    "a,b,ulp,same",
    [
        (1.0, 1.0, 0, True),
        (0.0, -0.0, 0, False),
        (1.0, 1.0 + 2.0**-23, 0, False),
        (1.0, 1.0 + 2.0**-23, 1, True),
        (1.0, 1.0 + 2.0**-21, 1, False),
        (float("nan"), float("nan"), 0, True),
        (float("inf"), 3e38, 8, False),
        (2.0**-149, 0.0, 1, True),
    ],
)
def test_numbers_are_compared_by_units_in_the_last_place(
    a: float, b: float, ulp: float, same: bool
) -> None:
    assert values.close(dtypes.float32, a, b, ulp) is same


# ---- the verb, and pytest


def test_the_verb_prints_rooms_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "interp", "-k", "plans/"]) == 0
    out = capsys.readouterr().out
    assert "plans      5 of 5 passed" in out and "interp: it conforms" in out


def test_the_verb_names_each_check_before_it_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the last name is that of one which ends the process or never ends."""
    assert main(["conformance", "interp", "-k", "plans/", "-v"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["plans/arena", "plans/other_handles"]

    def hangs(subject: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polygrad.testing.conformance.plans.many_launches", hangs)
    with pytest.raises(KeyboardInterrupt):
        main(["conformance", "interp", "-k", "plans/"])
    assert capsys.readouterr().err == "polygrad: interrupted in plans/many_launches\n"


def test_the_verb_writes_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], outcomes: Any
) -> None:
    file = tmp_path / "out.json"
    assert main(["conformance", "interp", "-k", "limits/", "--json", "--report", str(file)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads(file.read_text())
    assert data["failed"] == 0 and data["passed"] == len(data["checks"]) == 2


def test_a_report_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polygrad.cli.conformance.run_checks", lambda *_: pytest.fail("it ran"))
    for file, why in ((tmp_path, "Is a directory"), (tmp_path / "no" / "x", "No such file or")):
        assert main(["conformance", "interp", "--report", str(file)]) == 1
        assert capsys.readouterr().err.startswith(
            f"polygrad: the report {file} cannot be written: {why}"
        )


def test_the_verb_fails_where_nothing_matches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "interp", "-k", "nonsense"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(
        "polygrad: no check of 'interp' has 'nonsense' in its name. The checks begin with: package,"
        " limits, memory, ops, programs, plans, functions, tensors, lifecycle."
    )


def test_the_verb_reports_failures_on_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygrad.device.interp_plugin import plugin

    monkeypatch.setattr(Faulty, "parts", {"renderer": swapped(NEG="NOT")})
    with isolated_registry(plugin, PLUGIN):
        assert main(["conformance", "faulty", "-k", "ops/NEG-int32"]) == 1
        told = capsys.readouterr()
        assert main(["conformance", "faulty", "-k", "ops/NEG-int32", "--json"]) == 1
    assert told.err == ""
    first, *rest = told.out.splitlines()
    assert first == "FAILED ops/NEG-int32-scalar"
    assert rest[-2:-1] == ["ops        0 of 1 passed"]
    assert re.fullmatch(r"faulty: 1 of 1 checks failed \(\d+ s\)", rest[-1])
    assert json.loads(capsys.readouterr().out)["failed"] == 1


def test_the_page_lists_the_least_machine_as_it_is_asked_for() -> None:
    """The rows of the table in docs/new-backend.md are those of device/least.py."""
    from polygrad.device import least

    page = (Path(__file__).parents[2] / "docs" / "new-backend.md").read_text()
    rows = re.findall(r"^\| `([A-Z0-9 ]+)` \| (.+) \|$", page, re.M)
    assert [names for names, _ in rows] == [names for _, names in least.OPERATIONS]
    said = {
        ("ints", "floats"): "float32 and every integer of 8, 16 and 32 bits",
        ("ints", "floats", "bool"): "the same, and bool",
        ("floats",): "float32",
        ("ints",): "the integers",
        ("ints", "bool"): "the integers and bool",
    }
    assert [kinds for _, kinds in rows] == [said[which] for which, _ in least.OPERATIONS]


@pytest.mark.parametrize("vector_bytes", [0, 8, 16])
@pytest.mark.parametrize("room", ["functions/", "tensors/"])
def test_the_least_machine_is_enough_for_the_whole_library(
    outcomes: Any, room: str, vector_bytes: int
) -> None:
    """With one register, a cache of one byte, and the narrowest vectors or none."""
    from polygrad.device import least

    kinds = {"ints": least.INTS, "floats": least.FLOATS, "bool": least.BOOL}
    ops = {
        Ops[name]: frozenset().union(*(kinds[kind] for kind in which))
        for which, names in least.OPERATIONS
        for name in names.split()
    }
    if vector_bytes:
        ops[Ops.LANES] = least.INTS | least.FLOATS
    target = {
        "ops": ops,
        "max_buffers": 4,
        "grid_only": False,
        "registers": 1,
        "cache_bytes": (1,),
        "vector_bytes": vector_bytes,
        "memory_bytes": tuple(1 << i for i in range(vector_bytes.bit_length())),
    }
    found = outcomes(room, target=target)
    assert len(found) > 30
    assert not [f"{o.id}\n{o.report}" for o in found if not o.ok]


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
            *options,
        ]
        + ["--rootdir", str(folder), str(folder)],
        cwd=folder,
        env=settings.for_child(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The three lines that a backend's author writes."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["polygrad.testing.pytest_plugin"]\n')
    (tmp_path / "test_conformance.py").write_text(
        'from polygrad.testing.suite import *\nDEVICE = "interp"\n'
    )
    return tmp_path


def test_three_lines_make_a_test_of_each_check(project: Path) -> None:
    done = pytest_in(project, "-k", "plans or limits")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_known_failures_have_a_reason_and_an_unexpected_pass_fails(project: Path) -> None:
    (project / "conformance.toml").write_text(
        '[skip]\n"plans/arena" = "no arena yet"\n[xfail]\n"plans/many_launches" = "slow"\n'
    )
    done = pytest_in(project, "-k", "plans", "-rs")
    assert done.returncode == 1
    assert "1 failed, 3 passed, 1 skipped" in done.stdout
    assert "no arena yet" in done.stdout and "slow" in done.stdout


def test_a_check_that_the_kit_does_not_have_is_an_error(project: Path) -> None:
    (project / "conformance.toml").write_text('[skip]\n"plans/areas" = "?"\n')
    done = pytest_in(project)
    assert done.returncode != 0
    assert "the kit has no plans/areas" in done.stdout + done.stderr
