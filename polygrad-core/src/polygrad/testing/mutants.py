"""`python -m polygrad.testing.mutants`: does the program fuzzer find planted faults?

Each mutant changes one line of the rewriter, the scheduler or code generation: a wrong sign, an
off-by-one, a dropped guard. The line is exchanged while its module is imported, in a child process;
no file changes. The child runs the fuzzer and stops at the first difference. Every mutant must be
found within the 2 000 programs of a CI run, and the tree as it is must pass.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from .. import settings
from .fuzz_programs import cores


class Mutant(NamedTuple):
    """`old` stands exactly once in the module's source; `new` takes its place."""

    name: str
    module: str  # below polygrad
    old: str
    new: str


MUTANTS = (
    # ---- the rewriter
    Mutant(
        "subtracting a constant adds it",
        "uop.symbolic",
        "a + constant(dtype, -c, b) if",
        "a + constant(dtype, c, b) if",
    ),
    Mutant(
        "remainder kept at the divisor itself",
        "uop.symbolic",
        "a if a.lo >= 0 and a.hi < c else None",
        "a if a.lo >= 0 and a.hi <= c else None",
    ),
    Mutant("not turns < into <", "uop.symbolic", "return b <= a if x.op", "return b < a if x.op"),
    Mutant(
        "one bucket too many",
        "uop.divmod",
        "return lo // c if lo // c == hi // c else None",
        "return lo // c if lo // c == (hi - 1) // c else None",
    ),
    Mutant(
        "small part keeps its bucket",
        "uop.divmod",
        "return (q, big), (const - q * g, small)",
        "return (q, big), (const, small)",
    ),
    Mutant(
        "a remainder with the quotient's sign",
        "uop.divmod",
        "return plus(small, _floormod(big, c // g), g)",
        "return plus(small, _floormod(big, c // g), 1)",
    ),
    Mutant(
        "<= is <",
        "uop.compare",
        "(difference[0] - 1, difference[1])",
        "(difference[0], difference[1])",
    ),
    Mutant(
        "implied a step early",
        "uop.compare",
        "return bounds(*plus(b, a, -1))[1] <= 0",
        "return bounds(*plus(b, a, -1))[1] <= 1",
    ),
    Mutant(
        "narrowing casts are needless", "uop.casts", " and last.itemsize <= middle.itemsize", ""
    ),
    Mutant(
        "a counter ends one before its size",
        "uop.linear",
        "most = (hi[0] - 1, hi[1])",
        "most = (hi[0] - 2, hi[1])",
    ),
    # ---- the scheduler
    Mutant(
        "flip from one beyond the end",
        "schedule.indexing",
        "UOp.index(shape[a] - 1) - i",
        "UOp.index(shape[a]) - i",
    ),
    Mutant("padding begins one late", "schedule.indexing", "inner < extent", "inner <= extent"),
    Mutant(
        "windows ignore their stride",
        "schedule.indexing",
        "index[axis] * stride + index[-1]",
        "index[axis] + index[-1]",
    ),
    Mutant(
        "slices begin one early",
        "schedule.indexing",
        "i * step + start for i",
        "i * step + max(start - 1, 0) for i",
    ),
    Mutant(
        "padding multiplies what it should mask",
        "schedule.build",
        "return all(vanishes(s, budget",
        "return any(vanishes(s, budget",
    ),
    Mutant(
        "padded values keep no condition",
        "schedule.build",
        "if condition is None or vanishes(value):",
        "if True:",
    ),
    Mutant(
        "gather forgets the axes behind",
        "schedule.build",
        "position, *use.index[axis + rank :])",
        "position, *use.index[axis + rank :][::-1])",
    ),
    Mutant(
        "in place though others read later",
        "schedule.__init__",
        "if any(other.needs(kernel) for other in others):",
        "if False:",
    ),
    Mutant(
        "in place though elements differ",
        "schedule.__init__",
        "not all(_same_element(u, old, kernel) for u in own)",
        "False",
    ),
    # ---- code generation
    Mutant(
        "the last row of a bounded tile is the one before",
        "codegen.transform",
        "at.minimum(n - 1)",
        "at.minimum(n - 2)",
    ),
    Mutant(
        "a peeled rest loses its first step",
        "codegen.transform",
        "rest = UOp.range(UOp.index(0), steps",
        "rest = UOp.range(UOp.index(1), steps",
    ),
    Mutant(
        "maximum forgets NaN",
        "codegen.linearize",
        "return self.emit(Ops.WHERE, dtype, (nan, b, better))",
        "return better",
    ),
    Mutant(
        "halves of vectors are one half twice",
        "codegen.linearize",
        "tuple(range(lanes, 2 * lanes)))",
        "tuple(range(lanes)))",
    ),
    Mutant(
        "lanes are combined with themselves",
        "codegen.linearize",
        "values[i], values[i + half]) for i",
        "values[i], values[i]) for i",
    ),
    Mutant("sums start at one", "uop.values", "Ops.ADD: 0", "Ops.ADD: 1"),
    Mutant(
        "modulo of negatives truncates",
        "codegen.integers",
        "return remainder + differs.where(b, zero)",
        "return remainder",
    ),
    Mutant(
        "the arena forgets the last reader",
        "engine.memory",
        "while lifetimes[ends[done]].last < first:",
        "while lifetimes[ends[done]].last <= first:",
    ),
)
CONTROL = Mutant("(none: the tree as it is)", "uop.symbolic", "", "")

# Runs in the child before polygrad is imported: exchanges the text while the module is loaded.
_CHILD = """
import json, sys
from importlib.machinery import PathFinder
name, old, new = json.loads(sys.argv[1])
class Finder:
    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname != name or not old:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        loader = spec.loader
        def get_code(module):
            source = loader.get_source(module)
            assert source.count(old) == 1, f"{module} has {source.count(old)} times: {old}"
            return compile(source.replace(old, new), spec.origin, "exec")
        loader.get_code = get_code
        return spec
sys.meta_path.insert(0, Finder)
from polygrad.testing.fuzz_programs import main
sys.exit(main(sys.argv[2:]))
"""


def module_name(mutant: Mutant) -> str:
    return f"polygrad.{mutant.module}".removesuffix(".__init__")


def stale(mutant: Mutant) -> str:
    """Why the mutant cannot be planted any more, or nothing."""
    spec = find_spec(module_name(mutant))
    if spec is None or spec.origin is None:
        return f"{mutant.module} is gone"
    count = Path(spec.origin).read_text().count(mutant.old)
    return "" if count == 1 else f"its line stands {count} times in {mutant.module}"


class Verdict(NamedTuple):
    mutant: Mutant
    found: bool
    programs: int
    seconds: float
    text: str  # the first difference


def hunt(mutant: Mutant, programs: int, seed: int, devices: str) -> Verdict:
    """Fuzz with the mutant planted until the first difference."""
    started = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-c", _CHILD]
    command += [json.dumps([module_name(mutant), mutant.old, mutant.new])]
    command += ["-n", str(programs), "--seed", str(seed), "--devices", devices, "--most", "1"]
    command += ["--whole", "--jobs", "1", "--limit", "30"]
    with settings.Context(POLY_CACHE=0):
        env = settings.for_child()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    summary = re.search(r"^(\d+) programs from seed", done.stdout, re.MULTILINE)
    if summary is None:  # it did not live long enough: that is found, too
        last = (done.stderr.strip() or "no output").splitlines()[-1]
        return Verdict(mutant, True, 0, time.perf_counter() - started, f"does not start: {last}")
    first = done.stdout.splitlines()[0]
    seconds = time.perf_counter() - started
    return Verdict(mutant, done.returncode != 0, int(summary[1]), seconds, first)


def report(verdicts: Iterator[Verdict]) -> list[Verdict]:
    """Print a row for each as it comes."""
    out = []
    for v in verdicts:
        state = f"found after {v.programs:5}" if v.found else f"NOT FOUND in {v.programs:4}"
        print(f"{v.mutant.name:45} {state} programs {v.seconds:6.1f} s  {v.text[:90]}", flush=True)
        out.append(v)
    return out


def main(argv: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser("python -m polygrad.testing.mutants")
    parser.add_argument("names", nargs="*", help="parts of names; all mutants without")
    parser.add_argument("-n", type=int, default=2000, help="programs within which it must be found")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--devices", default="interp,cpu")
    parser.add_argument("--jobs", type=int, default=cores())
    args = parser.parse_args(argv)
    chosen = [m for m in MUTANTS if not args.names or any(n in m.name for n in args.names)]
    lost = [f"{m.name}: {why}" for m in chosen if (why := stale(m))]
    if lost:
        print("these mutants no longer fit the code:", *lost, sep="\n  ")
        return 2
    control = hunt(CONTROL, min(args.n, 200), args.seed, args.devices)
    report(iter([control]))
    if control.found:
        print("the tree fails without a mutant, so nothing can be learned")
        return 2
    with ThreadPoolExecutor(args.jobs) as pool:
        hunts = pool.map(lambda m: hunt(m, args.n, args.seed, args.devices), chosen)
        verdicts = report(hunts)
    missed = sum(not v.found for v in verdicts)
    print(f"{len(verdicts) - missed} of {len(verdicts)} mutants found within {args.n} programs")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
