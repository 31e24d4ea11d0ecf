"""What a workload is, and functions of arrays as workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..frameworks import Framework, Function

Step = Callable[[], object]
Maker = Callable[[Framework], Step]
Shapes = tuple[tuple[int, ...], ...]
FLOAT = 4  # bytes


class Work(NamedTuple):
    """What nobody can do without: operations on floats, bytes read and bytes written."""

    flops: float = 0.0
    read: float = 0.0
    written: float = 0.0


NOTHING = Work()


class Goal(NamedTuple):
    """The least that the project wants: of the best peer's time / ours, of limit / ours."""

    ratio: float
    fraction: float | None = None


class Workload(NamedTuple):
    """Makers of a step by contestant; a step returns when its result is there."""

    steps: Mapping[str, Maker]
    work: Work = NOTHING
    goal: Goal | None = None


def array(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype, copy=False)


def elements(*shapes: tuple[int, ...]) -> int:
    return sum(int(np.prod(s)) for s in shapes)


def function(
    shapes: Shapes,
    bodies: Mapping[str, Function],
    work: Work = NOTHING,
    goal: Goal | None = None,
    dtype: str = "",
) -> Workload:
    """One function of arrays of these shapes and of a dtype, as each contestant writes it."""
    steps = {c: partial(_step, shapes, dtype, body) for c, body in bodies.items()}
    return Workload(steps, work, goal)


def _step(shapes: Shapes, dtype: str, body: Function, framework: Framework) -> Step:
    inputs = [framework.tensor(array(*s, seed=i), dtype) for i, s in enumerate(shapes)]
    compiled, wait = framework.compiled(body), framework.wait
    return lambda: wait(compiled(*inputs))


def alike(body: Function, *but: str) -> dict[str, Function]:
    """The same function for all contestants but those named."""
    return {c: body for c in ("ours", "torch", "numpy", "jax", "tinygrad") if c not in but}
