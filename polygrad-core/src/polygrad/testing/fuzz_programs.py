"""`python -m polygrad.testing.fuzz programs`: random tensor programs on devices, and a judge.

Every program runs on each device (and with fusion off, if asked) and is compared with what the
judge knows of it (`fuzz_judge`). Programs run in batches, so that one realize compiles the kernels
of many; when a batch goes wrong its programs run one by one. A failing program is reduced, printed
as Python that stands alone, and saved under tests/regressions, where a test replays it for ever.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import settings
from . import fuzz_grammar as grammar
from .fuzz_generate import generate
from .fuzz_grammar import Program, known
from .fuzz_judge import Known, differences
from .fuzz_reduce import reduce


class Setup(NamedTuple):
    """Where and how a program runs."""

    device: str
    fusion: bool = True

    def __str__(self) -> str:
        return self.device if self.fusion else f"{self.device} without fusion"


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
            names[f"v{i}"] = Tensor(grammar.data(**node.args), dtype=node.args["dtype"])
    exec(compile(grammar.source_text(program), "<program>", "exec"), names)
    return [names[f"v{o}"] for o in program.outputs]


def fetch(tensor: Any) -> np.ndarray:
    """A Tensor's values; bfloat16, which numpy lacks, as float32."""
    wide = tensor.cast("float32") if tensor.dtype.name == "bfloat16" else tensor
    return np.asarray(wide.numpy())


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
    """Run one program by itself and compare it with the judge."""
    values = known(program)
    try:
        with settings.Context(POLY_DEV=setup.device, POLY_FUSION=setup.fusion):
            (got,) = run_batch([program])
    except Exception as error:  # noqa: BLE001 - whatever a program raises is a finding
        kind = type(error).__name__
        return Failure(program, setup, kind, _last_lines(error))
    text = compare(program, values, got)
    return Failure(program, setup, "difference", text) if text else None


def _last_lines(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
    return f"{type(error).__name__}: {error} ({places})"


def check_batch(
    programs: Sequence[Program], values: Sequence[Sequence[Known]], setup: Setup
) -> Iterator[Failure]:
    """The failures among `programs`; run together first."""
    try:
        with settings.Context(POLY_DEV=setup.device, POLY_FUSION=setup.fusion):
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


def reproducer(failure: Failure) -> str:
    """Python that shows the failure and needs nothing but polygrad and numpy."""
    p = failure.program
    values = known(p)
    lines = [f"# {failure.setup}: {line}" for line in failure.text.splitlines()[:3]]
    lines += ["import numpy as np", "from polygrad import Context, Tensor", ""]
    fusion = "" if failure.setup.fusion else ", POLY_FUSION=0"
    lines.append(f"with Context(POLY_DEV={failure.setup.device!r}{fusion}):")
    for i, node in enumerate(p.nodes):
        if node.op == "input":
            lines.append(f"    v{i} = {_literal(node.args)}")
    lines += ["    " + line for line in grammar.source_text(p).splitlines()]
    for o in p.outputs:
        lines.append(f"    print(v{o}.numpy())")
        lines.append(f"# expected: {_short(values[o].value)}")
    return "\n".join(lines)


def _literal(args: dict[str, Any]) -> str:
    array = grammar.data(**args)
    if array.size <= 64:
        values = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
        made = f"np.array({values}, {array.dtype.name!r}).reshape({array.shape})"
    else:
        plain = ", ".join(f"{k}={v!r}" for k, v in args.items())
        made = f"__import__('polygrad.testing.fuzz_grammar', fromlist=['data']).data({plain})"
    return f"Tensor({made}, dtype={args['dtype']!r})"


def _short(array: np.ndarray) -> str:
    return " ".join(np.array2string(array, threshold=16, edgeitems=2, precision=9).split())


def save(failure: Failure, folder: Path) -> Path:
    """Write the program as a regression file, named by its content."""
    text = failure.program.dumps()
    name = hashlib.sha256(text.encode()).hexdigest()[:10]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"program_{name}.json"
    path.write_text(text + "\n")
    return path


# ---- the command


def setups(devices: str, modes: Sequence[str]) -> list[Setup]:
    fusions = [True] if modes == ["fusion"] else [True, False]
    return [Setup(d, f) for d in devices.split(",") for f in fusions]


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
        failed += len(failures)
        yield tally, failures
        if failed >= most:
            return


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m polygrad.testing.fuzz programs")
    add = parser.add_argument
    add("-n", type=int, default=2000, help="programs")
    add("--seed", type=int, default=0, help="the first program's number")
    add("--devices", default="interp,cpu")
    add("--modes", default="fusion", choices=("fusion", "both"), help="both: fusion on and off")
    add("--batch", type=int, default=16, help="programs that are realised together")
    add("--most", type=int, default=5, help="stop after this many failures")
    add("--save", type=Path, default=Path("tests/regressions"), help="where failures are kept")
    add("--keep", action="store_true", help="save failures; otherwise they are only printed")
    add("--without", default="", help="operations not to use, separated by commas")
    add("--whole", action="store_true", help="do not reduce")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Entry point of the dispatcher `polygrad.testing.fuzz`; the exit status."""
    args = _arguments(argv)
    started = time.perf_counter()
    seeds = range(args.seed, args.seed + args.n)
    wanted = setups(args.devices, [args.modes])
    without = frozenset(filter(None, args.without.split(",")))
    failed, tally = 0, Tally()
    for tally, failures in fuzz(seeds, wanted, args.batch, args.most, without):  # noqa: B007
        for failure in failures:
            failed += 1
            shown = failure if args.whole else smallest(failure)
            print(reproducer(shown), end="\n\n", flush=True)
            if args.keep:
                print(f"# saved as {save(shown, args.save)}\n")
    seconds = time.perf_counter() - started
    print(
        f"{tally.programs} programs from seed {args.seed}, {tally.nodes} nodes,"
        f" {tally.elements} elements ({tally.undecided} undecided),"
        f" {', '.join(map(str, wanted))}: {failed} failures, {seconds:.1f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
