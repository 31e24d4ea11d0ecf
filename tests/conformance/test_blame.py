"""Where a check of the whole library fails, what is to blame is shown: kernels and the rest."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from polygrad import settings
from polygrad.contract import Source
from polygrad.device.interp import Handle, InterpAllocator, InterpDevice, InterpRenderer
from polygrad.errors import CompileError
from polygrad.testing import conformance, isolated_registry
from polygrad.testing.assembler import launch
from polygrad.uop.ops import Ops

from .faulty import PLUGIN, Faulty, launching, parts, swapped

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


def test_memory_that_overlaps_is_told_from_a_wrong_kernel(
    outcomes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, bounds = bytearray(1 << 16), SimpleNamespace(least=600)

    def alloc(self: Any, nbytes: int, *, zeroed: bool = False) -> Handle:
        if not bounds.least < nbytes < 4000:
            return InterpAllocator.alloc(self, nbytes, zeroed=zeroed)
        return Handle(room, 0, nbytes)

    def run(program: Any, *handles: Handle, **options: Any) -> None:
        own = [Handle(bytearray(h.memory), 0, h.nbytes) for h in handles]  # it refuses others
        program(*own, **options)
        handles[-1].memory[:] = own[-1].root

    overlapping = parts(alloc=alloc)
    found = outcomes("functions/mul-int64", allocator=overlapping, load=launching(run))
    assert found and not any(o.ok for o in found)
    assert "elements, only read), element" in found[0].report
    assert "look at the allocator, whether handles overlap." in found[0].report
    for least in (600, 1999):  # also where only those of one size do
        monkeypatch.setattr(bounds, "least", least)
        (found,) = outcomes("memory/apart", allocator=overlapping)
        assert found.report == "two allocations overlap"


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


def test_what_load_raises_is_shown_with_the_authors_line(outcomes: Any) -> None:
    def load(binary: Any) -> Any:
        raise OSError("no room")

    (found,) = outcomes("tensors/where", load=lambda target: load)
    pattern = r"cannot be made: CompileError: .*load\(\) raised OSError: no room.*\n(.*):\d+\n"
    assert re.search(pattern, found.report)[1] == __file__  # type: ignore[index]


class Viewless(Faulty):
    """A device whose memory has no views: its own `prepare` does without."""

    def prepare(self, plan: Any, programs: Any, arena: Any) -> Any:
        from polygrad.engine.pieces import Apart

        return Apart(self, plan, programs)


def test_kernels_are_compared_where_memory_has_no_views(monkeypatch: pytest.MonkeyPatch) -> None:
    from polygrad.device.interp_plugin import plugin

    def view(*_: Any) -> None:
        raise NotImplementedError

    target = {"views": False}
    viewless = replace(PLUGIN, device=f"{__name__}:Viewless")
    with isolated_registry(plugin, viewless):
        monkeypatch.setattr(Faulty, "parts", {"target": target, "allocator": parts(view=view)})
        assert all(o.ok for o in conformance.run_checks("faulty", "tensors/"))
    monkeypatch.setitem(Faulty.parts, "renderer", swapped(MAX="ADD"))
    with isolated_registry(plugin, viewless):
        (found,) = conformance.run_checks("faulty", "tensors/attention")
    assert re.search(r"Launch \d+, kernel k_\w+ \(.*MAX float32.*\) is the first", found.report)


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
