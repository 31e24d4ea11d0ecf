"""Running the program fuzzer's programs: on a device, alone or in batches, and against the judge.

A batch is one graph, scheduled once, its kernels one module. What goes wrong in a batch is run
again, one program at a time; what goes wrong only together is a program of all of them.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import device as devices
from .. import settings
from ..contract import Binary, Source
from ..engine.counters import counters
from ..plugin import Device
from . import fuzz_grammar as grammar
from . import fuzz_sizes
from .fuzz_grammar import Program, known
from .fuzz_judge import Known, differences


class Setup(NamedTuple):
    """Where and how a program runs."""

    device: str
    fusion: bool = True
    varied: bool = False  # then the same program with other numbers, and again
    transforms: int = 0  # the number of a random transform list for each kernel; 0: the recipes
    neighbours: int = 0  # the same of a list that the search may come across
    left_out: tuple[str, ...] = ()  # recipes that are not asked
    sizes: int = 0  # the number of a choice of bounded axes (fuzz_sizes); 0: none
    quick: bool = False  # new kernels are compiled by the quickest way that the compiler has
    limit: int = 90  # seconds of the processor for one batch

    def __str__(self) -> str:
        fusion = "" if self.fusion else " without fusion"
        transforms = f" with transform list {self.transforms}" if self.transforms else ""
        transforms += f" with neighbour {self.neighbours}" if self.neighbours else ""
        transforms += f" without {', '.join(self.left_out)}" if self.left_out else ""
        sizes = f" with bounded axes {self.sizes}" if self.sizes else ""
        varied = " with other numbers" if self.varied else ""
        quick = " compiled quickly" if self.quick else ""
        return self.device + fusion + transforms + sizes + varied + quick

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run like this inside the block; what hangs in it becomes a TimeoutError."""
        with ExitStack() as block:
            # No program comes twice, so nothing is gained by writing kernels to the disk.
            block.enter_context(
                settings.Context(POLY_DEV=self.device, POLY_FUSION=self.fusion, POLY_CACHE=0)
            )
            block.enter_context(deadline(self.limit))
            if self.quick:
                block.enter_context(quickly(devices.get(self.device)))
            if self.chosen:
                block.enter_context(self._lists())
            yield

    def _lists(self) -> AbstractContextManager[None]:
        from . import fuzz_transforms as lists

        if self.left_out:
            return lists.without_recipes(self.left_out)
        if self.neighbours:
            return lists.random_neighbours(self.neighbours)
        return lists.random_transforms(self.transforms)

    @property
    def chosen(self) -> bool:
        """Whether kernels run by other lists than the recipes', in a runtime of their own."""
        return bool(self.transforms or self.neighbours or self.left_out)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise TimeoutError when the block takes more seconds of the processor, or ten times as many
    by the clock, where signals allow it: a machine that others keep busy makes nothing hang."""
    main = threading.current_thread() is threading.main_thread()
    if not (main and hasattr(signal, "setitimer")):
        yield
        return

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"no result within {seconds} s")

    timers = (
        (signal.ITIMER_PROF, signal.SIGPROF, seconds),
        (signal.ITIMER_REAL, signal.SIGALRM, 10 * seconds),
    )
    before = {number: signal.signal(number, late) for _, number, _ in timers}
    for timer, _, most in timers:
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for timer, number, _ in timers:
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


@contextmanager
def quickly(device: Device) -> Iterator[None]:
    """Inside the block the device's code is compiled without the code generator's optimizations,
    where its compiler can: in a third of the time, a quarter of all that a program takes."""
    compiler: Any = device.compiler
    if not hasattr(compiler, "quickly"):
        yield
        return
    device.compiler = _Quick(compiler)
    try:
        yield
    finally:
        device.compiler = compiler


class _Quick:
    """A compiler by its quick way."""

    def __init__(self, compiler: Any) -> None:
        self.key, self._compiler = compiler.key, compiler

    def __call__(self, source: Source) -> Binary:
        text = source.code if isinstance(source.code, str) else source.code.decode()
        return Binary(self._compiler.quickly(text), source.entries)


class Failure(NamedTuple):
    """`kind` says what a smaller program must show as well."""

    program: Program
    setup: Setup
    kind: str
    text: str


class Tally(NamedTuple):
    """What a run looked at."""

    programs: int = 0
    nodes: int = 0
    elements: int = 0
    undecided: int = 0  # elements whose value rounding decides

    def plus(self, program: Program, values: Sequence[Known]) -> Tally:
        outputs = [values[o] for o in program.outputs]
        return Tally(
            self.programs + 1,
            self.nodes + len(program.nodes),
            self.elements + sum(k.value.size for k in outputs),
            self.undecided + sum(int(np.isinf(k.error).sum()) for k in outputs),
        )


# ---- running


def tensors(program: Program) -> list[Any]:
    """The program's outputs as lazy Tensors on the default device."""
    from polygrad import Tensor

    names: dict[str, Any] = {"Tensor": Tensor}
    for i, node in enumerate(program.nodes):
        if node.op == "input":
            names[f"v{i}"] = _input(Tensor, grammar.data(**node.args), node.args["dtype"])
    exec(grammar.code(grammar.source_text(program)), names)
    return [names[f"v{o}"] for o in program.outputs]


def _input(tensor: Any, array: np.ndarray, dtype: str) -> Any:
    """An input with storage in its own dtype; bfloat16, which numpy lacks, goes by its bits."""
    if dtype == "float16":
        array = array.astype("float16")
    elif dtype == "bfloat16":
        bits = (np.ascontiguousarray(array).view("uint32") >> 16).astype("uint16")
        return tensor(bits.reshape(array.shape)).bitcast("bfloat16")
    return tensor(array, dtype=dtype)


def _made(array: np.ndarray, dtype: str) -> Any:
    from polygrad import Tensor

    return _input(Tensor, array, dtype)


def fetch(tensor: Any) -> np.ndarray:
    """A Tensor's values; bfloat16, which numpy lacks, as float32."""
    return np.asarray(tensor.numpy())


def run_batch(programs: Sequence[Program]) -> list[list[np.ndarray]]:
    """The outputs of several programs, realised together."""
    from polygrad import Tensor

    outputs = [tensors(p) for p in programs]
    Tensor.realize(*[t for group in outputs for t in group])
    return [[fetch(t) for t in group] for group in outputs]


def compare(program: Program, values: Sequence[Known], got: Sequence[np.ndarray]) -> str:
    """What differs, in a line, or nothing."""
    for o, array in zip(program.outputs, got, strict=True):
        expected = values[o]
        name = "float32" if expected.dtype == "bfloat16" else expected.dtype
        if array.dtype.name != name:
            return f"v{o} has dtype {array.dtype.name}, expected {name}"
        if array.shape != expected.shape:
            return f"v{o} has shape {array.shape}, expected {expected.shape}"
        wrong = differences(expected, array)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return (
                f"v{o}{list(at)} is {array[at]!r}, expected {expected.value[at]!r}"
                f" ± {expected.error[at]:.3g} ({int(wrong.sum())} of {wrong.size} elements differ)"
            )
    return ""


Answer = Sequence[Known]  # what the judge knows of each node of a program


class Case(NamedTuple):
    """A program with what it must give, worked out once for all setups, and the same program with
    other numbers; none where it has no numbers that may change."""

    program: Program
    values: Answer
    others: tuple[tuple[Program, Answer], ...] = ()

    def runs(self, varied: bool) -> list[tuple[Program, Answer]]:
        """What runs, in this order. With other numbers the second run compiles a kernel that takes
        them as variables, the third finds the first one's kernel again, and the fourth the second
        one's."""
        own = (self.program, self.values)
        return [own, self.others[0], own, self.others[1]] if varied and self.others else [own]


def case_of(program: Program, values: Answer | None = None) -> Case:
    """The case of a program; `values`: what the judge knows of it, if somebody asked before."""
    values = known(program) if values is None else values
    first = with_other_numbers(program, values, 1)
    if first is None:
        return Case(program, values)
    second = with_other_numbers(program, values, 2)
    return Case(program, values, (first, second or (program, values)))


def check(program: Program, setup: Setup, case: Case | None = None) -> Failure | None:
    """Run one program by itself and compare it with the judge; `case`: if somebody made it."""
    if setup.sizes:
        return check_sizes(program, setup)
    if case is None:
        case = case_of(program) if setup.varied else Case(program, known(program))
    for number, (run, values) in enumerate(case.runs(setup.varied)):
        try:
            with setup.entered():
                (got,) = run_batch([run])
        except Exception as error:  # noqa: BLE001 - whatever a program raises is a finding
            return Failure(program, setup, type(error).__name__, _last_lines(error))
        text = compare(run, values, got)
        if text:
            text = f"run {number}: {text}" if setup.varied else text
            return Failure(program, setup, "difference", text)
    return None


def check_sizes(
    program: Program, setup: Setup, runs: Sequence[fuzz_sizes.Run] | None = None
) -> Failure | None:
    """Run one program with bounded axes, for several values, and compare each with the judge.

    `runs`: those of `fuzz_sizes`, if they were worked out before.
    """
    from polygrad import Tensor

    made = None
    for values, wanted in fuzz_sizes.runs(program, setup.sizes) if runs is None else runs:
        at = ", ".join(f"d{n} = {v}" for n, v in values.items())
        try:
            with setup.entered():
                outputs = fuzz_sizes.tensors(program, setup.sizes, values, _made)
                if outputs is None:
                    return None
                Tensor.realize(*outputs)
                got = [fetch(t) for t in outputs]
        except Exception as error:  # noqa: BLE001 - whatever a program raises is a finding
            return Failure(program, setup, type(error).__name__, f"{at}: {_last_lines(error)}")
        text = compare(program, wanted, got)
        if text:
            return Failure(program, setup, "difference", f"{at}: {text}")
        again = made not in (None, counters.plans_made)
        if again and not setup.chosen:  # those have a runtime of their own each time
            return Failure(program, setup, "compilation", f"{at}: compiled again")
        made = counters.plans_made
    return None


def with_other_numbers(program: Program, values: Answer, by: int) -> tuple[Program, Answer] | None:
    """The same program with other Python numbers in it, and what it gives; None where it has none
    or is not valid with them."""
    nodes = list(program.nodes)
    for i, node in enumerate(nodes):
        c = node.args.get("c")
        if isinstance(c, bool) or not isinstance(c, int | float):
            continue
        other = c + by * (0.375 if isinstance(c, float) else 1)
        nodes[i] = node._replace(args={**node.args, "c": other})
    changed = program._replace(nodes=tuple(nodes))
    if changed == program:
        return None
    try:
        found = known(changed)
    except (ValueError, IndexError, OverflowError):
        return None
    return (changed, found) if [k.shape for k in found] == [k.shape for k in values] else None


def fused_reductions(program: Program, device: str) -> int:
    """The most reductions that one kernel of `program` has."""
    from ..schedule import KernelItem, schedule
    from ..uop.ops import Ops

    with settings.Context(POLY_DEV=device):
        roots = [t.uop for t in tensors(program) if t.uop.op is not Ops.BUFFER]
        items = schedule(roots, device).items
    sinks = [item.sink for item in items if isinstance(item, KernelItem)]
    return max((sum(u.op is Ops.REDUCE for u in s.toposort()) for s in sinks), default=0)


def _last_lines(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
    return f"{type(error).__name__}: {error} ({places})"


def check_batch(cases: Sequence[Case], setup: Setup) -> Iterator[Failure]:
    """The failures among `cases`, run together first."""
    try:
        with setup.entered():
            got = run_batch([c.program for c in cases])
    except Exception:  # noqa: BLE001 - which of them raised it is found below, one by one
        suspects = list(cases)
    else:
        each = zip(cases, got, strict=True)
        suspects = [c for c, given in each if compare(c.program, c.values, given)]
    found = [f for f in (check(c.program, setup, c) for c in suspects) if f is not None]
    if suspects and not found:  # none of them alone: as one program
        together = joined([c.program for c in cases])
        found = [f for f in [check(together, setup)] if f is not None]
    if suspects and not found:
        text = f"{len(cases)} programs fail together"
        found = [Failure(suspects[0].program, setup, "batch", text)]
    yield from found


def joined(programs: Sequence[Program]) -> Program:
    """Several programs as one."""
    nodes: list[grammar.Node] = []
    outputs: list[int] = []
    for p in programs:
        base = len(nodes)
        nodes += [n._replace(src=tuple(base + s for s in n.src)) for n in p.nodes]
        outputs += [base + o for o in p.outputs]
    return Program(tuple(nodes), tuple(outputs))
