"""What the tests of schedules and of the schedule language share.

`run_kernels` runs the kernels of a tensor graph one by one on a device, with any transforms and
without the engine; `lines_run` counts the lines that some modules run, for tests of how work grows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest

from polygrad import device as devices
from polygrad.codegen.kernel import Kernel, canonical
from polygrad.codegen.lower import lower
from polygrad.codegen.recipes import choose
from polygrad.contract import evaluate
from polygrad.engine.kernels import content_name
from polygrad.schedule import KernelItem, schedule
from polygrad.target import Target
from polygrad.uop.ops import UOp
from polygrad.uop.sizes import actual, capacity

Optimize = Callable[[Kernel, Target], Kernel]


def run(
    roots: Sequence[UOp],
    data: Mapping[UOp, np.ndarray],
    device: str,
    optimize: Optimize = choose,
) -> list[np.ndarray]:
    """The values of `roots` with every kernel transformed by `optimize`."""
    opened = devices.get(device)
    planned = schedule(roots, device)
    handles: dict[UOp, object] = {}

    def handle(leaf: UOp) -> object:
        if leaf not in handles:
            nbytes = capacity(leaf.shape) * leaf.dtype.itemsize
            handles[leaf] = opened.allocator.alloc(max(nbytes, 1), zeroed=True)
            if leaf in data and nbytes:
                raw = np.ascontiguousarray(data[leaf])
                opened.allocator.write(handles[leaf], memoryview(raw).cast("B"))
        return handles[leaf]

    for item in planned.items:
        assert isinstance(item, KernelItem)
        kernel = optimize(canonical(item.sink), opened.target)
        program = lower(
            kernel, opened.target, content_name(item.sink) + f"_{abs(hash(kernel.log))}"
        )
        loaded = opened.load(opened.compiler(opened.renderer.render([program])))[program.name]
        values = {v.arg[0]: v.arg[3] for v in item.variables}
        grid = tuple(evaluate(g, values) for g in program.grid)
        scalars = tuple(values[v.name] for v in program.variables)
        loaded(*[handle(b) for b in item.buffers], grid=grid, scalars=scalars)
    out = []
    for leaf in planned.results:
        value = np.empty(actual(leaf.shape), leaf.dtype.name)
        if value.nbytes:
            opened.allocator.read(memoryview(value).cast("B"), handle(leaf))
        out.append(value)
    return out


@pytest.fixture
def run_kernels() -> Callable[..., list[np.ndarray]]:
    """`run(roots, {leaf: array}, device, optimize)`"""
    return run


def count_lines(call: Callable[[], object], *modules: ModuleType) -> int:
    files = {module.__file__ for module in modules}
    lines = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


@pytest.fixture
def lines_run() -> Callable[..., int]:
    """`count_lines(call, *modules)`"""
    return count_lines
