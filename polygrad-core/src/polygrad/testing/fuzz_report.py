"""How the program fuzzer tells a failure: Python that stands alone, and a file that is kept."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import fuzz_grammar as grammar
from .fuzz_grammar import known

if TYPE_CHECKING:
    from .fuzz_run import Failure


def reproducer(failure: Failure) -> str:
    """Python that shows the failure and needs nothing but polygrad and numpy."""
    p = failure.program
    if failure.setup.sizes:
        return (
            f"# {failure.setup}: {failure.text}\n"
            "from polygrad.testing.fuzz_run import Program, Setup, check_sizes\n"
            f"program = Program.loads('{p.dumps()}')\n"
            f"print(check_sizes(program, Setup({failure.setup.device!r},"
            f" sizes={failure.setup.sizes})))"
        )
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
    if args["dtype"] == "float16":
        array = array.astype("float16")
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
