"""Does the cost of an element stay as n doubles? CPU time of a call and of its compilation.

Each line doubles n from row to row and divides by the work: elements, or multiply-adds for a
product. What grows is a loop of a worse order than it should have, or one that leaves the caches;
a first call that grows is a graph that grows with n.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from math import log2
from typing import Any, NamedTuple

from .measure import timed

SECONDS = 0.05  # of CPU, for each size
WORST = 1.5  # times the cost of an element at half of n; caches explain as much


class Curve(NamedTuple):
    """A function of one array of n or (n, n) elements; `work` is its number of steps."""

    body: Callable[[Any], Any]
    sizes: tuple[int, ...]
    square: bool = False
    work: Callable[[int], float] = float


def doubling(first: int, last: int) -> tuple[int, ...]:
    return tuple(first << i for i in range(int(log2(last / first)) + 1))


def n_log_n(n: int) -> float:
    return n * log2(n)


def squares(n: int) -> float:
    return float(n * n)


def cubes(n: int) -> float:
    return float(n**3)


def _gather(x: Any) -> Any:
    from polygrad import Tensor

    return x[Tensor.arange(x.shape[0] - 1, -1, -1)]


def _scatter(x: Any) -> Any:
    from polygrad import Tensor

    n = x.shape[0]
    return x.zeros_like().scatter_add(0, Tensor.arange(n) % (n // 2), x)


LONG = doubling(1 << 12, 1 << 22)
CURVES = {
    "x * 2 + 1": Curve(lambda x: x * 2 + 1, LONG),
    "sum": Curve(lambda x: x.sum(), LONG),
    "softmax of one row": Curve(lambda x: x.softmax(-1), LONG),
    "cumsum": Curve(lambda x: x.cumsum(0), LONG),
    "sort": Curve(lambda x: x.sort()[0], doubling(1 << 8, 1 << 17), work=n_log_n),
    "gather": Curve(_gather, LONG),
    "scatter_add": Curve(_scatter, doubling(1 << 12, 1 << 20)),
    "rows: softmax": Curve(lambda x: x.softmax(-1), doubling(64, 2048), True, squares),
    "columns: sum": Curve(lambda x: x.sum(0), doubling(64, 2048), True, squares),
    "transpose": Curve(lambda x: x.T.contiguous(), doubling(64, 2048), True, squares),
    "matmul": Curve(lambda x: x @ x, doubling(64, 1024), True, cubes),
    "matmul transposed": Curve(lambda x: x @ x.T, doubling(64, 1024), True, cubes),
    "cholesky": Curve(
        lambda x: (x @ x.T + x.eye(x.shape[0]) * 1e3).cholesky(), doubling(16, 256), True, cubes
    ),
    "solve": Curve(
        lambda x: (x + x.eye(x.shape[0]) * 1e2).solve(x), doubling(16, 256), True, cubes
    ),
}


def costs(curve: Curve, n: int) -> tuple[float, float]:
    """CPU seconds of one call for each unit of work, and of the first call."""
    from polygrad import Tensor, jit

    from .workloads.common import array

    x = Tensor(array(*(n, n) if curve.square else (n,))).realize()
    call = jit(curve.body)
    first = timed(lambda: call(x), 1).cpu
    once = timed(lambda: call(x), 1).cpu
    count = max(3, int(SECONDS / max(once, 1e-6)))
    best = min(timed(lambda: call(x), max(1, count // 3)).cpu for _ in range(3))
    return best / curve.work(n), first


def growths(values: list[float]) -> list[float]:
    """Each value over the one before it."""
    return [b / a for a, b in pairwise(values)]


def main(only: Any = None) -> dict[str, Any]:
    """All curves, a line for each size."""
    os.environ["POLY_THREADS"] = "1"
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["POLY_CACHE_DIR"] = cache
        for name, curve in CURVES.items():
            if only and not only.match(name):
                continue
            start = time.perf_counter()
            measured = [costs(curve, n) for n in curve.sizes]
            each, first = ([m[i] for m in measured] for i in (0, 1))
            results[name] = {"n": curve.sizes, "seconds_each": each, "first_s": first}
            worst = max(growths(each)[1:], default=1.0)  # the smallest size is all call
            verdict = "" if worst <= WORST else f"  GROWS {worst:.1f}x at one doubling"
            print(f"{name} ({time.perf_counter() - start:.1f} s){verdict}")
            for n, cost, compiled in zip(curve.sizes, each, first, strict=True):
                print(
                    f"  n {n:9,}: {cost * 1e9:9.4f} ns each, first call {compiled:6.3f} s",
                    flush=True,
                )
    return results
