"""`python -m polygrad.testing.fuzz programs`: random tensor programs on devices, and a judge.

Every program runs on each device (and with fusion off, if asked) and is compared with what the
judge knows of it (`fuzz_judge`). Programs run in batches, so that one realize compiles the kernels
of many; when a batch goes wrong its programs run one by one. A failing program is reduced, printed
as Python that stands alone, and saved under tests/regressions, where a test replays it for ever.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import settings
from ..engine.counters import counters
from . import fuzz_grammar as grammar
from . import fuzz_sizes
from .fuzz_generate import generate
from .fuzz_grammar import Program, known
from .fuzz_judge import Known, differences
from .fuzz_reduce import reduce
from .fuzz_report import reproducer, save


class Setup(NamedTuple):
    """Where and how a program runs."""

    device: str
    fusion: bool = True
    varied: bool = False  # then the same program with other numbers, and again
    transforms: int = 0  # the number of a random transform list for each kernel; 0: the recipes
    neighbours: int = 0  # the same of a list that the search may come across
    left_out: tuple[str, ...] = ()  # recipes that are not asked
    sizes: int = 0  # the number of a choice of bounded axes (fuzz_sizes); 0: none
    limit: int = 90  # seconds for one batch, on a busy machine

    def __str__(self) -> str:
        fusion = "" if self.fusion else " without fusion"
        transforms = f" with transform list {self.transforms}" if self.transforms else ""
        transforms += f" with neighbour {self.neighbours}" if self.neighbours else ""
        transforms += f" without {', '.join(self.left_out)}" if self.left_out else ""
        sizes = f" with bounded axes {self.sizes}" if self.sizes else ""
        varied = " with other numbers" if self.varied else ""
        return self.device + fusion + transforms + sizes + varied

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run like this inside the block; what hangs in it becomes a TimeoutError."""
        with settings.Context(POLY_DEV=self.device, POLY_FUSION=self.fusion), deadline(self.limit):
            if not self.chosen:
                yield
                return
            from . import fuzz_transforms as lists

            if self.left_out:
                chosen = lists.without_recipes(self.left_out)
            elif self.neighbours:
                chosen = lists.random_neighbours(self.neighbours)
            else:
                chosen = lists.random_transforms(self.transforms)
            with chosen:
                yield

    @property
    def chosen(self) -> bool:
        """Whether kernels run by other lists than the recipes', in a runtime of their own."""
        return bool(self.transforms or self.neighbours or self.left_out)


@contextmanager
def deadline(seconds: int) -> Iterator[None]:
    """Raise TimeoutError when the block takes longer, where signals allow it."""
    main = threading.current_thread() is threading.main_thread()
    if not (main and hasattr(signal, "setitimer")):
        yield
        return

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"no result within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
    exec(compile(grammar.source_text(program), "<program>", "exec"), names)
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


def check(program: Program, setup: Setup) -> Failure | None:
    """Run one program by itself and compare it with the judge.

    With other numbers the second run compiles a kernel that takes them as variables, the third
    finds the first one's kernel again, and the fourth the second one's.
    """
    if setup.sizes:
        return check_sizes(program, setup)
    runs = [program]
    if setup.varied:
        runs = [program, with_other_numbers(program, 1), program, with_other_numbers(program, 2)]
    for number, run in enumerate(runs):
        values = known(run)
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


def check_sizes(program: Program, setup: Setup) -> Failure | None:
    """Run one program with bounded axes, for several values, and compare each with the judge."""
    from polygrad import Tensor

    made = None
    for values, wanted in fuzz_sizes.runs(program, setup.sizes):
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


def with_other_numbers(program: Program, by: int) -> Program:
    """The same program with other Python numbers in it, where that is valid."""
    nodes = list(program.nodes)
    for i, node in enumerate(nodes):
        c = node.args.get("c")
        if isinstance(c, bool) or not isinstance(c, int | float):
            continue
        other = c + by * (0.375 if isinstance(c, float) else 1)
        nodes[i] = node._replace(args={**node.args, "c": other})
    changed = program._replace(nodes=tuple(nodes))
    try:
        shapes = [k.shape for k in known(changed)]
    except (ValueError, IndexError, OverflowError):
        return program
    return changed if shapes == [k.shape for k in known(program)] else program


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


def check_batch(
    programs: Sequence[Program], values: Sequence[Sequence[Known]], setup: Setup
) -> Iterator[Failure]:
    """The failures among `programs`; run together first."""
    if setup.sizes:
        yield from (f for f in (check(p, setup) for p in programs) if f is not None)
        return
    try:
        with setup.entered():
            got = run_batch(programs)
    except Exception:  # noqa: BLE001 - which of them raised it is found below, one by one
        suspects = list(programs)
    else:
        suspects = [p for p, v, g in zip(programs, values, got, strict=True) if compare(p, v, g)]
    found = [f for f in (check(p, setup) for p in suspects) if f is not None]
    if suspects and not found:  # none of them alone: as one program
        found = [f for f in [check(joined(programs), setup)] if f is not None]
    if suspects and not found:
        found = [Failure(suspects[0], setup, "batch", f"{len(programs)} programs fail together")]
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


# ---- reporting


def smallest(failure: Failure) -> Failure:
    """The same failure on a reduced program."""
    last = failure

    def fails(program: Program) -> bool:
        nonlocal last
        found = check(program, failure.setup)
        if found is None or found.kind != failure.kind:
            return False
        last = found
        return True

    if failure.kind != "batch":
        reduce(failure.program, fails)
    return last


# ---- the command


def setups(devices: str, modes: str, limit: int = 90) -> list[Setup]:
    plain = Setup("", limit=limit)
    kinds = {
        "fusion": [plain],
        "both": [plain, plain._replace(fusion=False)],
        "transforms": [plain._replace(transforms=number) for number in (1, 2, 3, 4, 5)],
        "neighbours": [plain._replace(neighbours=number) for number in (1, 2, 3, 4, 5)],
        "recipes": [plain, *(plain._replace(left_out=names) for names in LEFT_OUT)],
        "sizes": [plain._replace(sizes=number) for number in (1, 2, 3)],
    }
    return [kind._replace(device=d) for d in devices.split(",") for kind in kinds[modes]]


def fuzz(
    seeds: Sequence[int],
    wanted: Sequence[Setup],
    batch: int,
    most: int = 10**9,
    without: frozenset[str] = frozenset(),
) -> Iterator[tuple[Tally, list[Failure]]]:
    """Run the programs of `seeds`; after each batch the tally so far and the new failures."""
    tally = Tally()
    failed = 0
    for start in range(0, len(seeds), batch):
        programs = [generate(s, without) for s in seeds[start : start + batch]]
        values = [known(p) for p in programs]
        for p, v in zip(programs, values, strict=True):
            tally = tally.plus(p, v)
        failures = [f for setup in wanted for f in check_batch(programs, values, setup)]
        plain = [setup for setup in wanted if not setup.chosen and not setup.sizes]
        failures += [f for setup in plain for f in _check_sizes(programs, start, setup)]
        failures += [f for setup in plain for f in _check_varied(programs, start, setup)]
        failed += len(failures)
        yield tally, failures
        if failed >= most:
            return


LEFT_OUT = (
    ("contraction",),
    ("reduction",),
    ("contraction", "reduction"),
    ("contraction", "reduction", "elementwise"),
)
VARIED = 1  # every so many programs run with other numbers too
SIZED = 4  # and every so many with bounded axes


def _check_sizes(programs: Sequence[Program], start: int, setup: Setup) -> Iterator[Failure]:
    for number, program in enumerate(programs[-start % SIZED :: SIZED], start):
        failure = check(program, setup._replace(sizes=1 + number % 7))
        if failure is not None:
            yield failure


def _check_varied(programs: Sequence[Program], start: int, setup: Setup) -> Iterator[Failure]:
    for program in programs[-start % VARIED :: VARIED]:
        if with_other_numbers(program, 1) != program:
            failure = check(program, setup._replace(varied=True))
            if failure is not None:
                yield failure


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m polygrad.testing.fuzz programs")
    add = parser.add_argument
    add("-n", type=int, default=2000, help="programs")
    add("--seed", type=int, default=0, help="the first program's number")
    add("--devices", default="interp,cpu")
    modes = (
        "both: fusion on and off; transforms: five random transform lists for each kernel;"
        " neighbours: five lists that BEAM may come across; recipes: each recipe on and off;"
        " sizes: three choices of bounded axes"
    )
    kinds = ("fusion", "both", "transforms", "neighbours", "recipes", "sizes")
    add("--modes", default="fusion", choices=kinds, help=modes)
    add("--batch", type=int, default=16, help="programs that are realised together")
    add("--limit", type=int, default=90, help="seconds after which a batch counts as hanging")
    add("--most", type=int, default=5, help="stop after this many failures")
    add("--save", type=Path, default=Path("tests/regressions"), help="where failures are kept")
    add("--keep", action="store_true", help="save failures; otherwise they are only printed")
    add("--without", default="", help="operations not to use, separated by commas")
    add("--jobs", type=int, default=cores(), help="processes")
    add("--fused", action="store_true", help="count programs whose kernels fuse two reductions")
    add("--whole", action="store_true", help="do not reduce")
    return parser.parse_args(argv)


class Part(NamedTuple):
    """What came of some seeds: the failures as text."""

    tally: Tally
    texts: list[str]
    fused: int


def _part(args: argparse.Namespace, seeds: range) -> Part:
    """Fuzz `seeds`; runs in a process of its own when there are several jobs."""
    wanted = setups(args.devices, args.modes, args.limit)
    without = frozenset(filter(None, args.without.split(",")))
    tally, texts = Tally(), []
    for tally, failures in fuzz(seeds, wanted, args.batch, args.most, without):  # noqa: B007
        for failure in failures:
            shown = failure if args.whole else smallest(failure)
            kept = f"\n# saved as {save(shown, args.save)}" if args.keep else ""
            texts.append(reproducer(shown) + kept)
    fused = 0
    if args.fused:
        fused = sum(fused_reductions(generate(s, without), wanted[0].device) > 1 for s in seeds)
    return Part(tally, texts, fused)


def _parts(args: argparse.Namespace) -> Iterator[Part]:
    seeds = range(args.seed, args.seed + args.n)
    if args.jobs <= 1 or args.n <= CHUNK:
        yield _part(args, seeds)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    chunks = [seeds[i : i + CHUNK] for i in range(0, args.n, CHUNK)]
    pool = ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn"))
    try:
        for done in as_completed([pool.submit(_part, args, chunk) for chunk in chunks]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)


CHUNK = 100  # seeds that one job takes at a time


def main(argv: Sequence[str]) -> int:
    """Entry point of the dispatcher `polygrad.testing.fuzz`; the exit status."""
    args = _arguments(argv)
    started = time.perf_counter()
    tally, failed, fused = Tally(), 0, 0
    for part in _parts(args):
        tally = Tally(*map(sum, zip(tally, part.tally, strict=True)))
        fused += part.fused
        for text in part.texts:
            failed += 1
            print(text, end="\n\n", flush=True)
        if failed >= args.most:
            break
    if args.fused:
        print(f"{fused / args.n:.0%} of the programs have a kernel with two reductions")
    seconds = time.perf_counter() - started
    names = ", ".join(map(str, setups(args.devices, args.modes, args.limit)))
    print(
        f"{tally.programs} programs from seed {args.seed}, {tally.nodes} nodes,"
        f" {tally.elements} elements ({tally.undecided} undecided), {names}:"
        f" {failed} failures, {seconds:.1f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
