"""The conformance kit: our devices pass it, a faulty device does not, and it says why (F235)."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from polygrad import settings
from polygrad.cli.command import main
from polygrad.contract import Instr, LinearProgram, Source
from polygrad.device.interp import Handle, InterpAllocator, InterpDevice, InterpRenderer
from polygrad.device.interp_target import TARGET
from polygrad.dtype import dtypes
from polygrad.errors import CompileError
from polygrad.plugin import DevicePlugin, Probe
from polygrad.testing import conformance, isolated_registry
from polygrad.testing.assembler import GUARD, launch
from polygrad.testing.conformance import values
from polygrad.uop.ops import Ops

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


class Swapped(InterpRenderer):
    """Prints one operation for another."""

    pairs: ClassVar[dict[Ops, Ops]] = {}

    def render(self, programs: Any) -> Any:
        return super().render([self._faulty(p) for p in programs])

    def _faulty(self, program: LinearProgram) -> LinearProgram:
        ops = [i._replace(op=self.pairs.get(i.op, i.op)) for i in program.ops]
        return replace(program, ops=tuple(ops))


class Rewritten(InterpRenderer):
    """Prints other instructions than it was given."""

    change: ClassVar[Callable[[Sequence[Instr]], Sequence[Instr]]]

    def render(self, programs: Any) -> Any:
        change = type(self).change
        return super().render([replace(p, ops=tuple(change(p.expanded()))) for p in programs])


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


class Faulty(InterpDevice):
    """The device `faulty`, its parts replaced by what a test says."""

    parts: ClassVar[dict[str, Any]] = {}

    @classmethod
    def open(cls, index: int, options: Any) -> Faulty:
        from dataclasses import fields

        device = cls(index)
        parts = dict(cls.parts)
        target = type(device.target)(
            **{f.name: getattr(device.target, f.name) for f in fields(device.target)}
            | {"name": "faulty", **parts.pop("target", {})}
        )
        device.target = target
        for name, make in parts.items():
            setattr(device, name, make(target))
        device.renderer.target = target
        return device


def probe() -> Probe:
    return Probe(True)


PLUGIN = DevicePlugin(
    name="faulty", api=(1, 0), device=f"{__name__}:Faulty", probe=f"{__name__}:probe", summary="x"
)


def swapped(**pairs: str) -> Callable[[Any], Swapped]:
    table = {Ops[a]: Ops[b] for a, b in pairs.items()}
    return type("Swapped", (Swapped,), {"pairs": table, "key": f"swapped {pairs}"})


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[conformance.Outcome]]:
    """Outcomes of the kit on a device with other parts."""

    def run(pattern: str, **parts: Any) -> list[conformance.Outcome]:
        from polygrad.device.interp_plugin import plugin

        monkeypatch.setattr(Faulty, "parts", parts)
        with isolated_registry(plugin, PLUGIN):
            return conformance.run_checks("faulty", pattern)

    return run


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


def each(change: Callable[[Instr], Instr]) -> Callable[[Any], Rewritten]:
    return rewritten(lambda ops: list(map(change, ops)))


def rewritten(change: Callable[[Sequence[Instr]], Sequence[Instr]]) -> Callable[[Any], Rewritten]:
    return type("Rewritten", (Rewritten,), {"change": staticmethod(change), "key": str(change)})


def loops_from_zero(ops: Sequence[Instr]) -> Sequence[Instr]:
    """`for (i = 0; i < hi; i++)`, whatever the loop's first source says."""
    zeros = [dtypes.int32, dtypes.int64]
    moved = [i._replace(src=tuple(s + len(zeros) for s in i.src)) for i in ops]
    return [
        *(Instr(Ops.CONST, kind, (), 0) for kind in zeros),
        *(
            i._replace(src=(zeros.index(i.dtype), i.src[1])) if i.op is Ops.RANGE else i
            for i in moved
        ),
    ]


def identity_shuffle(i: Instr) -> Instr:
    return i._replace(arg=tuple(range(len(i.arg)))) if i.op is Ops.SHUFFLE else i


def first_lane(i: Instr) -> Instr:
    return i._replace(arg=0) if i.op is Ops.EXTRACT else i


def sorted_parts(i: Instr) -> Instr:
    return i._replace(src=tuple(sorted(i.src))) if i.op is Ops.VECTOR else i


def adds_lanes(i: Instr) -> Instr:
    return i._replace(arg=Ops.ADD) if i.op is Ops.LANES and i.dtype.kind != "bool" else i


def lanes_in_pairs(ops: Sequence[Instr]) -> Sequence[Instr]:
    """LANES adds neighbours first, which rounds in another order."""
    out: list[Instr] = []
    place: list[int] = []
    for op, dtype, src, arg in ops:
        at = tuple(place[s] for s in src)
        if op is Ops.LANES:
            wide, n = out[at[0]].dtype, out[at[0]].dtype.lanes
            order = (*range(0, n, 2), *range(1, n, 2))  # then halving meets neighbours
            out.append(Instr(Ops.SHUFFLE, wide, at, order))
            at = (len(out) - 1,)
        out.append(Instr(op, dtype, at, arg))
        place.append(len(out) - 1)
    return out


def positive_zero(i: Instr) -> Instr:
    zero = i.op is Ops.CONST and i.dtype.is_float and i.arg == 0
    return i._replace(arg=0.0) if zero else i


def without_lane_gates(i: Instr) -> Instr:
    return i._replace(src=i.src[:1]) if i.op is Ops.LOAD and i.dtype.lanes > 1 else i


VECTORS: dict[str, Any] = {
    "vector_bytes": 16,
    "memory_bytes": (1, 2, 4, 8, 16),
    "lane_gates": True,
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


def test_what_a_device_raises_is_reported_with_the_program(outcomes: Any) -> None:
    class Broken(InterpRenderer):
        def render(self, programs: Any) -> Any:
            raise RuntimeError("no printer")

    (found,) = outcomes("programs/branch", renderer=Broken)
    assert found.report.startswith("RuntimeError: no printer")
    assert "LinearProgram k_branch" in found.report
    assert "The renderer fails: RuntimeError: no printer" in found.report


# ---- which kernel of the whole library is to blame


def test_a_failure_of_the_whole_library_names_the_first_kernel_that_is_wrong(outcomes: Any) -> None:
    (found,) = outcomes("tensors/softmax", renderer=swapped(MAX="ADD"))
    first, place, difference, *rest = [x for x in found.report.splitlines() if x]
    assert first.startswith("element 0: got ")
    assert re.match(r"Launch 1, kernel k_\w+ \(.*MAX float32.*\) is the first to differ", place)
    assert re.match(r"buffer \d \(float32, \d+ elements\), element 0: got .*, expected", difference)
    assert rest[0].startswith("LinearProgram k_") and any("MAX float32 %" in x for x in rest)
    assert "Rendered:" in rest


@pytest.mark.parametrize("check", ["functions/mul-int32", "functions/exp-float32"])
def test_a_failure_of_one_function_shows_its_kernel(outcomes: Any, check: str) -> None:
    """Also where it is not the operation itself: exp multiplies."""
    found = next(o for o in outcomes(check, renderer=swapped(MUL="ADD")) if o.id == check)
    assert not found.ok
    assert re.match(r"element \d: of \(", found.report) and "is the first to differ" in found.report
    assert re.search(r"Launch 1, kernel k_\w+ \(.*MUL (int|float)32", found.report)
    assert "Rendered:" in found.report


def test_a_kernel_that_cannot_be_made_is_shown_alone(outcomes: Any) -> None:
    class NoMaximum(InterpRenderer):
        def render(self, programs: Any) -> Any:
            for program in programs:
                for i in program.ops:
                    if i.op is Ops.MAX:
                        raise KeyError(i.op)
            return super().render(programs)

    (found,) = outcomes("tensors/attention", renderer=NoMaximum)
    pattern = r"Kernel k_\w+ \(.*MAX float32.*\) cannot be made: KeyError: .*MAX.*\n(.*):\d+\n"
    assert re.search(pattern, found.report)[1] == __file__  # type: ignore[index]
    assert found.report.count("LinearProgram k_") == 1


def test_what_a_launch_raises_is_shown_with_its_kernel_and_the_line(outcomes: Any) -> None:
    class Launch:
        def __call__(self, *handles: Any, **options: Any) -> None:
            raise ValueError("grid is empty")

    def load(binary: Any) -> Any:
        return {name: Launch() for name in binary.entries}

    (found,) = outcomes("tensors/matmul-batch", load=lambda target: load)
    pattern = r"Launch 1, kernel k_\w+ \(.*\): ValueError: grid is empty\n(.*):\d+\n"
    assert re.search(pattern, found.report)[1] == __file__  # type: ignore[index]
    assert "LinearProgram k_" in found.report


def test_where_every_kernel_is_right_the_rest_of_the_device_is_named(outcomes: Any) -> None:
    class Flips(InterpAllocator):
        def write(self, dst: Handle, src: memoryview, offset: int = 0) -> None:
            super().write(dst, memoryview(bytes([src[0] ^ 0x80, *src[1:]])), offset)

    (found,) = outcomes("tensors/gather", allocator=lambda target: Flips())
    assert re.search(r"Each of its \d+ launches gives what the reference makes", found.report)
    assert "look at the allocator" in found.report and "LinearProgram k_" in found.report


def test_a_faulty_prepare_is_told_from_faulty_kernels(outcomes: Any) -> None:
    def prepare(plan: Any, programs: Any, arena: Any) -> Any:
        return lambda handles, variables=(): None

    (found,) = outcomes("tensors/views", prepare=lambda target: prepare)
    assert "Its kernels launched one by one, the check passes: look at prepare()" in found.report


def test_looking_for_the_kernel_leaves_nothing_behind(outcomes: Any) -> None:
    from polygrad import Tensor
    from polygrad.engine import witness

    before = (Tensor([1.0, 2.0]) * 3).tolist()
    outcomes("functions/mul-int32", renderer=swapped(MUL="ADD"))
    assert witness.present is None
    assert (Tensor([1.0, 2.0]) * 3).tolist() == before == [3.0, 6.0]


# ---- what a stranger's code may do meanwhile


def parts(**methods: Any) -> Callable[[Any], Any]:
    """An allocator that has other methods."""
    return lambda target: type("Other", (InterpAllocator,), methods)()


def launching(run: Callable[..., Any]) -> Callable[[Any], Any]:
    """A `load` whose programs are launched by `run(program, *handles, **options)`."""

    def load(binary: Any) -> Any:
        programs = InterpDevice.open(0, {}).load(binary)
        return {name: partial(run, program) for name, program in programs.items()}

    return lambda target: load


class Exits(InterpRenderer):
    def render(self, programs: Any) -> Any:
        raise SystemExit("no licence")


class Odd(BaseException):
    pass


def test_an_exit_fails_its_check_and_the_others_go_on(outcomes: Any) -> None:
    for pattern in ("tensors/matmul", "ops/ADD-int", "programs/", "lifecycle/"):
        found = outcomes(pattern, renderer=Exits)
        assert len(found) > 2
        told = [o for o in found if "SystemExit: no licence" in o.report]
        assert all(o in told for o in found if not o.ok) and len(told) > 1
    (found,) = outcomes("tensors/matmul-batch", renderer=Exits)
    assert re.search(r"Kernel k_\w+ \(.*\) cannot be made: SystemExit: no licence\n", found.report)
    assert "The renderer fails: SystemExit: no licence" in found.report


def test_an_exception_of_its_own_making_is_shown_with_the_kernel(outcomes: Any) -> None:
    def run(program: Any, *handles: Any, **options: Any) -> None:
        raise Odd("lost the card")

    (found,) = outcomes("tensors/where", load=launching(run))
    assert re.search(r"Launch 1, kernel k_\w+ \(.*\): Odd: lost the card\n", found.report)


def test_an_interrupt_ends_the_look_and_leaves_nothing_behind(outcomes: Any) -> None:
    from polygrad.engine import witness

    def run(program: Any, *handles: Any, **options: Any) -> None:
        raise KeyboardInterrupt if witness.present is not None else ValueError("no")

    with pytest.raises(KeyboardInterrupt):
        outcomes("tensors/where", load=launching(run))
    assert witness.present is None
    assert not settings.get("POLY_SPEC") and settings.get("POLY_TRACEBACK") != "full"
    (found,) = outcomes("tensors/where")
    assert found.ok


def test_memory_is_given_back_where_checks_fail(
    outcomes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygrad.device.buffer import pool
    from polygrad.device.interp_plugin import plugin

    held: list[Any] = []

    def alloc(self: Any, nbytes: int, *, zeroed: bool = False) -> Handle:
        held.append(InterpAllocator.alloc(self, nbytes, zeroed=zeroed))
        return held[-1]

    def free(self: Any, handle: Handle) -> None:
        del held[next(i for i, one in enumerate(held) if one is handle)]

    def write(self: Any, dst: Handle, src: memoryview, offset: int = 0) -> None:
        wrong = bytes([*src[:3], *(x ^ 0x55 for x in src[3:])])
        InterpAllocator.write(self, dst, memoryview(wrong), offset)

    faulty = {"allocator": parts(alloc=alloc, free=free, write=write)}
    for pattern in ("memory/", "programs/", "plans/", "ops/ADD"):
        assert not all(o.ok for o in outcomes(pattern, **faulty))
        assert held == [], pattern
    monkeypatch.setattr(Faulty, "parts", faulty)
    with isolated_registry(plugin, PLUGIN):
        assert not any(o.ok for o in conformance.run_checks("faulty", "tensors/matmul"))
        gc.collect()
        assert pool("faulty").usage().live == 0


def test_a_buffer_that_cannot_be_read_is_named_with_its_launch(outcomes: Any) -> None:
    def read(self: Any, dst: memoryview, src: Handle, offset: int = 0) -> None:
        raise OSError("dma")

    (found,) = outcomes("tensors/matmul-batch", allocator=parts(read=read))
    pattern = r"Launch 1, kernel k_\w+ \(.*\), its buffers read before: OSError: dma\n(.*):\d+\n"
    assert re.search(pattern, found.report)[1] == __file__  # type: ignore[index]
    assert "LinearProgram k_" in found.report and "Rendered:" in found.report


def test_where_nothing_was_launched_the_line_and_what_was_made_are_shown(outcomes: Any) -> None:
    def no(self: Any, *_: Any) -> None:
        raise OSError("no")

    (found,) = outcomes("tensors/where", allocator=parts(write=no))
    first, place = found.report.split("\n\n")
    assert first == "OSError: no"
    assert place.startswith("No kernel was launched (none was made yet): look at the allocator")
    assert re.search(r"\n(.*):\d+$", place)[1] == __file__  # type: ignore[index]
    (found,) = outcomes("tensors/mean-var", allocator=parts(view=no))
    assert "No kernel was launched (of 3 that were made): look at the allocator" in found.report
    assert found.report.count("LinearProgram k_") == 3 and "Rendered:" in found.report


def test_memory_that_is_none_is_told(outcomes: Any) -> None:
    parted = parts(alloc=lambda self, nbytes, zeroed=False: None)
    (found,) = outcomes("tensors/where", allocator=parted)
    assert re.match(r"DeviceContractError: device 'faulty': alloc\(\d+\) gave None", found.report)


def test_bytes_that_the_reference_cannot_run_on_are_told(
    outcomes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygrad.testing.conformance import blame

    def reference(*_: Any, **__: Any) -> Any:
        raise IndexError("index out of range")

    monkeypatch.setattr(blame, "reference", reference)
    (found,) = outcomes("tensors/softmax", renderer=swapped(MAX="ADD"))
    assert "its bytes are none that the reference can run on: IndexError" in found.report


def test_a_result_that_is_never_written_is_found_though_memory_held_the_right_one() -> None:
    """Freed memory comes round: what was there before may be what is expected now."""
    from polygrad.device import get
    from polygrad.testing.conformance.blame import Comparison, Launcher
    from polygrad.testing.conformance.programs import branch, row_sums

    device = get("interp")
    for sample, is_found in ((row_sums(), True), (branch(), False)):  # "w", and "rw", which is kept
        right = launch(device, sample.program, *sample.contents)
        handles = [device.allocator.alloc(len(data)) for data in right]
        for handle, data in zip(handles, right, strict=True):
            device.allocator.write(handle, memoryview(data))
        looking = Comparison(device)
        Launcher(looking, sample.program, lambda *handles, **options: None)(*handles)
        assert (looking.found is not None) is is_found
        if looking.found is not None:
            assert "on memory whose bytes were others before" in looking.found.text


def test_a_synchronize_that_does_not_wait_is_told_from_a_wrong_kernel(
    outcomes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygrad.testing.conformance import blame

    flying: list[Callable[[], None]] = []

    def run(program: Any, *handles: Handle, **options: Any) -> None:
        flying.append(partial(program, *handles, **options))

    def time_passes(seconds: float) -> None:
        flying[-1]()

    monkeypatch.setattr(blame, "time", SimpleNamespace(sleep=time_passes))
    (found,) = outcomes("tensors/matmul-batch", load=launching(run))
    assert "Read 0.05 s later it is right: synchronize() or read() does not wait" in found.report


def test_a_program_that_keeps_its_first_handles_is_told_from_a_wrong_kernel(outcomes: Any) -> None:
    def load(binary: Any) -> Any:
        def keeping(program: Any) -> Any:
            first: list[Any] = []

            def run(*handles: Handle, **options: Any) -> None:
                first.append(handles)
                program(*first[0], **options)

            return run

        made = InterpDevice.open(0, {}).load(binary)
        return {name: keeping(program) for name, program in made.items()}

    (found,) = outcomes("tensors/training", load=lambda target: load)
    assert "is the first to differ from the reference" in found.report
    assert "Made anew, alone in its module, it gives what the reference makes" in found.report


def test_a_check_that_fails_once_is_said_to(outcomes: Any) -> None:
    count = iter(range(1000))

    def run(program: Any, *handles: Handle, **options: Any) -> None:
        if next(count):
            program(*handles, **options)

    (found,) = outcomes("tensors/where", load=launching(run))
    assert "Its kernels launched one by one, the check passes" in found.report
    assert "Run a second time, the check passed" in found.report
    assert "LinearProgram k_" in found.report


def test_what_prepare_raises_is_shown_with_its_line_and_the_kernels(outcomes: Any) -> None:
    def prepare(plan: Any, programs: Any, arena: Any) -> Any:
        raise NotImplementedError("graphs")

    (found,) = outcomes("tensors/where", prepare=lambda target: prepare)
    assert found.report.startswith("NotImplementedError: graphs\n")
    assert re.search(rf"look at prepare\(\).*\n{re.escape(__file__)}:\d+\n", found.report)
    assert "LinearProgram k_" in found.report


def test_an_error_of_kernels_that_are_made_together_has_the_authors_line(outcomes: Any) -> None:
    class OneByOne(InterpRenderer):
        def render(self, programs: Any) -> Any:
            if len(programs) > 1:
                raise CompileError("one at a time")
            return super().render(programs)

    (found,) = outcomes("tensors/mean-var", renderer=OneByOne)
    pattern = r"\d kernels made at once: CompileError: one at a time\n(.*):\d+\n"
    assert re.search(pattern, found.report)[1] == __file__  # type: ignore[index]


# ---- what is rendered, as it can be read


class Prints(InterpRenderer):
    """Prints a code that no compiler takes."""

    code: ClassVar[Any]

    def render(self, programs: Any) -> Any:
        return Source(self.code, {p.name: p.name for p in programs})


@pytest.mark.parametrize(
    "code,shown",
    [
        (b"entry:\n  ret void", "Rendered:\n  entry:\n    ret void"),
        (bytes(range(250, 256)) * 6, "000000  fafbfcfd fefffafb"),
        ("x" * 1000, "x" * 400 + " ... and 600 more characters"),
        ("a\x1b[2Jb\udcff\0", "a\\x1b[2Jb\\udcff\\x00"),
        (["ret"], "The renderer fails: TypeError: "),
    ],
    ids=["text in bytes", "bytes", "a long line", "what no terminal shows", "no code at all"],
)
def test_code_of_any_kind_is_shown(outcomes: Any, code: Any, shown: str) -> None:
    (found,) = outcomes("ops/ADD-int8", renderer=type("P", (Prints,), {"code": code}))
    assert shown in found.report
    found.report.encode("ascii")


def test_a_tools_log_keeps_its_lines_but_not_all_of_them(outcomes: Any) -> None:
    class Refused(InterpRenderer):
        def render(self, programs: Any) -> Any:
            raise CompileError("\n".join(f"line {i}" for i in range(1000)))

    (found,) = outcomes("tensors/where", renderer=Refused)
    assert found.report.startswith("CompileError: line 0\nline 1\n")
    assert "\n... and 880 more lines\n" in found.report


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
