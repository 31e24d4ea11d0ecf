"""`python -m polygrad.testing.fuzz programs`: random tensor programs on devices, and a judge.

Every program runs on each device (and with fusion off, if asked) and is compared with what the
judge knows of it (`fuzz_judge`). Programs run in batches, so that one realize compiles the kernels
of many; when a batch goes wrong its programs run one by one. A failing program is reduced, printed
as Python that stands alone, and saved under tests/regressions, where a test replays it for ever.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..device import get
from . import fuzz_sizes
from .fuzz_generate import generate, grown
from .fuzz_grammar import Program
from .fuzz_reduce import reduce
from .fuzz_report import reproducer, save
from .fuzz_run import (
    Case,
    Failure,
    Setup,
    Tally,
    case_of,
    check,
    check_batch,
    check_sizes,
    fused_reductions,
)

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
    wanted = [kind._replace(device=d) for d in devices.split(",") for kind in kinds[modes]]
    return [setup for setup in wanted if not _again(setup)]


def _again(setup: Setup) -> bool:
    """Whether this is a second time what recipes on gives: the reference device has none."""
    asks_recipes = bool(setup.left_out or setup.neighbours > 1)
    return asks_recipes and get(setup.device).target.grid_only


def fuzz(
    seeds: Sequence[int],
    wanted: Sequence[Setup],
    batch: int,
    most: int = 10**9,
    without: frozenset[str] = frozenset(),
    users: int = 1,
) -> Iterator[tuple[Tally, list[Failure]]]:
    """Run the programs of `seeds`; after each batch the tally so far and the new failures.

    Every so many batches (`users`) are compiled as users' programs are, the others quickly.
    """
    tally = Tally()
    failed = 0
    for start in range(0, len(seeds), batch):
        cases = [case_of(*grown(s, without)) for s in seeds[start : start + batch]]
        for case in cases:
            tally = tally.plus(case.program, case.values)
        quick = start // batch % users != 0
        failures = list(_failures(cases, start, [s._replace(quick=quick) for s in wanted]))
        failed += len(failures)
        yield tally, failures
        if failed >= most:
            return


def _failures(cases: Sequence[Case], start: int, wanted: Sequence[Setup]) -> Iterator[Failure]:
    """Every program in every setup; where no lists are chosen, those that have numbers with others
    too, and some with bounded axes."""
    for setup in wanted:
        if setup.sizes:
            yield from _check_sizes(cases, [setup])
        else:
            for together in _batches(cases):
                yield from check_batch(together, setup)
    plain = [s for s in wanted if not s.chosen and not s.sizes]
    for number, case in enumerate(cases[-start % SIZED :: SIZED], start):
        yield from _check_sizes([case], [s._replace(sizes=1 + number % 7) for s in plain])
    for case in cases:
        if case.others:  # each by itself: one number that becomes a 1 changes a batch's graph
            varied = [check(case.program, s._replace(varied=True), case) for s in plain]
            yield from filter(None, varied)


def _batches(cases: Sequence[Case]) -> list[list[Case]]:
    """The short ones together, each long one by itself: its equal layers are found in a graph of
    their own alone."""
    short = [c for c in cases if len(c.program.nodes) <= LONG]
    return [*([short] if short else []), *[[c] for c in cases if len(c.program.nodes) > LONG]]


def _check_sizes(cases: Sequence[Case], setups: Sequence[Setup]) -> Iterator[Failure]:
    """Each program by itself; `setups` choose the same sizes."""
    for case in cases if setups else ():
        runs = list(fuzz_sizes.runs(case.program, setups[0].sizes, case.values))
        for setup in setups:
            failure = check_sizes(case.program, setup, runs)
            if failure is not None:
                yield failure


LEFT_OUT = (
    ("contraction",),
    ("reduction",),
    ("contraction", "reduction"),
    ("contraction", "reduction", "elementwise"),
)
LONG = 45  # nodes: such a program has layers
SIZED = 4  # every so many programs run with bounded axes


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
    users = "every so many batches are compiled as for users, the others quickly; 1: all"
    add("--users", type=int, default=4, help=users)
    hangs = "seconds of the processor, or tenfold by the clock, for a batch to hang"
    add("--limit", type=int, default=90, help=hangs)
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
    batches = fuzz(seeds, wanted, args.batch, args.most, without, args.users)
    for tally, failures in batches:  # noqa: B007
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
