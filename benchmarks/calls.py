"""What a call costs: tiny work, so that what is measured is the way to it and back.

Warm calls are timed turn by turn with the peers'; first calls (scheduling, code generation) run
once each in fresh processes with an empty disk cache, and count CPU seconds. The marks are the
project's.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .measure import alternate, local
from .workloads.common import Step, array

SMALL = 16


class Mark(NamedTuple):
    """A cost that must stay below `limit` seconds: a warm call's by contestant."""

    limit: float
    makers: dict[str, Callable[[], Step]]


def eager_chain() -> Mark:
    """Forty operations on 16 elements, then the result."""

    def chain(x: Any) -> Any:
        for _ in range(20):
            x = x * 1.01 + 0.5
        return x

    def ours() -> Step:
        from polygrad import Tensor

        x = Tensor(array(SMALL)).realize()
        return lambda: chain(x).realize()

    def torch_eager() -> Step:
        import torch

        x = torch.from_numpy(array(SMALL))
        return lambda: chain(x)

    def numpy_eager() -> Step:
        x = array(SMALL)
        return lambda: chain(x)

    return Mark(1e-3, {"ours": ours, "torch": torch_eager, "numpy": numpy_eager})


def jit_call() -> Mark:
    """A compiled function of one tiny kernel."""

    def ours() -> Step:
        from polygrad import Tensor, jit

        x = Tensor(array(SMALL)).realize()
        f = jit(lambda x: x * 2 + 1)
        return lambda: f(x)

    def torch_eager() -> Step:
        import torch

        x = torch.from_numpy(array(SMALL))
        return lambda: x * 2 + 1

    def numpy_eager() -> Step:
        x = array(SMALL)
        return lambda: x * 2 + 1

    return Mark(10e-6, {"ours": ours, "torch": torch_eager, "numpy": numpy_eager})


def forward(arrays: bool) -> Callable[[], Mark]:
    """`Model.forward` of one tiny layer; a torch module beside it."""

    def ours() -> Step:
        from polygrad import Model, Tensor, nn

        model = Model(nn.Linear(SMALL, SMALL), inputs={"x": Tensor.empty(1, SMALL)})
        given = array(1, SMALL)
        x = {"x": given if arrays else Tensor(given).realize()}
        return lambda: model.forward(x)

    def torch_module() -> Step:
        import torch

        net = torch.nn.Linear(SMALL, SMALL)
        given = array(1, SMALL)
        x = torch.from_numpy(given)

        def step() -> object:
            with torch.inference_mode():
                return net(torch.from_numpy(given)).numpy() if arrays else net(x)

        return step

    return lambda: Mark(15e-6, {"ours": ours, "torch": torch_module})


WARM: dict[str, Callable[[], Mark]] = {
    "eager chain of 40": eager_chain,
    "jit call": jit_call,
    "forward of tensors": forward(arrays=False),
    "forward of arrays": forward(arrays=True),
}

SETUP = """
import time
import numpy as np
from polygrad import Tensor
r = np.random.default_rng(0)
"""
FIRST: dict[str, tuple[float, str]] = {
    "sort of 4096": (0.3, "x = Tensor(r.random(4096, np.float32)); f = lambda: x.sort()[0]"),
    "cat of 200": (
        0.5,
        "t = [Tensor(r.random((2, 3), np.float32)) for _ in range(200)]\n"
        "f = lambda: Tensor.cat(*t)",
    ),
}


def first_call(program: str) -> float:
    """CPU seconds of the first call, in a process of its own."""
    text = f"{SETUP}{program}\nstart = time.process_time()\nf().numpy()\n"
    text += "print(time.process_time() - start)"
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "POLY_CACHE_DIR": cache}
        run = [sys.executable, "-c", text]
        return float(subprocess.run(run, check=True, env=env, capture_output=True).stdout)


def _row(name: str, seconds: float, limit: float, others: str = "") -> dict[str, Any]:
    met = seconds < limit
    verdict = "met" if met else "NOT MET"
    print(f"{name:20} ours {seconds * 1e6:10.1f} us  < {limit * 1e6:g} us: {verdict}{others}")
    return {"median_s": seconds, "limit_s": limit, "met": met}


def main(peers: Sequence[str], only: Any = None, rounds: int = 5) -> dict[str, Any]:
    """All marks, a row each; `only` is a regular expression."""
    results: dict[str, Any] = {}
    for name, make in WARM.items():
        if only and not only.match(name):
            continue
        mark = make()
        makers = {c: m for c, m in mark.makers.items() if c == "ours" or c in peers}
        timings = alternate({c: local(m()) for c, m in makers.items()})
        theirs = {c: t.median for c, t in timings.items() if c != "ours"}
        others = "".join(f"  {c} {s * 1e6:.1f} us" for c, s in theirs.items())
        row = _row(name, timings["ours"].median, mark.limit, others)
        results[name] = {**row, "peers_s": theirs}
    for name, (limit, program) in FIRST.items():
        if not only or only.match(name):
            seconds = statistics.median(first_call(program) for _ in range(rounds))
            results[name] = _row(f"first {name}", seconds, limit)
    return results
