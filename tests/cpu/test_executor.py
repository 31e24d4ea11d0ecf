"""Plans on several threads: order, barriers, exact results, and threads that come and go."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from polygrad.contract import CopyStep, Launch, LinearProgram, Plan, PlanBuffer, VariableSpec
from polygrad.dtype import dtypes
from polygrad.errors import ArgumentError
from polygrad.uop.ops import Ops
from polygrad_backend_cpu.layout import POOL, WALK_BYTES
from polygrad_backend_cpu.pool import Pool, pool
from polygrad_backend_cpu.tables import Block, Step, Tables, phases

F32, I64 = dtypes.float32, dtypes.int64
BIG = 10**9  # flops: enough that the step is split


@pytest.fixture(scope="module", params=[1, 2, 3, 4, 8, 12])
def many(request: pytest.FixtureRequest, runner: Any) -> Iterator[Any]:
    """A device of that many threads, whatever the machine has."""
    made = runner(request.param)
    yield made
    made.device.close()


@pytest.fixture(scope="module")
def three(runner: Any) -> Iterator[Any]:
    made = runner(3)
    yield made
    made.device.close()


def shift(b: Any, name: str, n: int, flops: int, addend: float = 1.0) -> LinearProgram:
    """y[i] = x[n-1-i] + addend: every tile reads what another tile of the step before wrote."""
    x, y = b.param(F32, n, "r"), b.param(F32, n, "w")
    (i,) = b.block(n)
    mirrored = b.binary(Ops.SUB, b.const(n - 1), i)
    b.store(y, i, b.add(b.load(x, mirrored), b.const(addend, F32)))
    return b.program(name, flops=flops)


def external(n: int, count: int) -> tuple[PlanBuffer, ...]:
    return tuple(PlanBuffer("external", 4 * n, i) for i in range(count))


@pytest.mark.parametrize("flops", [0, BIG], ids=["small", "split"])
def test_each_step_sees_the_one_before(many: Any, build: Any, flops: int) -> None:
    n, steps = 200, 25
    program = shift(build(), "shift", n, flops)
    launches = tuple(Launch("shift", (i % 2, 1 - i % 2), (), program.grid) for i in range(steps))
    edges = tuple(pairwise(range(steps)))
    plan = Plan(external(n, 2), launches, {"shift": program}, edges=edges)
    run = many.device.prepare(plan, many.load(program), None)
    start = np.arange(n, dtype=np.float32)
    for _ in range(40):
        a, b = many.put(start), many.put(np.zeros_like(start))
        run([a, b])
        last = many.get(b if steps % 2 else a, start)
        np.testing.assert_array_equal(last, (start[::-1] if steps % 2 else start) + steps)


def test_small_and_split_steps_mix(three: Any, build: Any) -> None:
    """A random graph of steps; each reads two earlier buffers, sizes decide who is split."""
    rng = np.random.default_rng(5)
    n, steps = 96, 30
    programs = {}
    for name, flops in (("small", 0), ("split", BIG)):
        b = build()
        x, w, y = b.param(F32, n, "r"), b.param(F32, n, "r"), b.param(F32, n, "w")
        (i,) = b.block(n)
        mirrored = b.binary(Ops.SUB, b.const(n - 1), i)
        b.store(y, i, b.add(b.load(x, mirrored), b.load(w, i)))
        programs[name] = b.program(name, flops=flops)
    launches, edges = [], []
    for i in range(steps):
        sources = rng.integers(0, i + 2, 2)
        name = ("small", "split")[rng.integers(2)]
        grid = programs[name].grid
        launches.append(Launch(name, (int(sources[0]), int(sources[1]), i + 2), (), grid))
        edges += [(int(s) - 2, i) for s in sources if s >= 2]
    plan = Plan(external(n, steps + 2), tuple(launches), programs, edges=tuple(edges))
    run = three.device.prepare(plan, three.load(*programs.values()), None)
    values = [rng.integers(0, 3, n).astype(np.float32) for _ in range(2)]
    for launch in launches:
        values.append(values[launch.buffers[0]][::-1] + values[launch.buffers[1]])
    for _ in range(30):
        handles = [three.put(v) for v in values[:2]]
        handles += [three.put(np.zeros(n, np.float32)) for _ in range(steps)]
        run(handles)
        for handle, expected in zip(handles, values, strict=True):
            np.testing.assert_array_equal(three.get(handle, expected), expected)


def test_steps_without_edges_share_a_phase() -> None:
    def step(split: bool) -> Step:
        return Step(0, (), Block("", (), (), 1), split, 1.0, 0, 0)

    small, split = step(False), step(True)
    assert phases([split, split], []) == [[[0], [1]]]
    assert phases([split, split], [(0, 1)]) == [[[0]], [[1]]]
    assert phases([small, small, small], [(0, 1), (1, 2)]) == [[[0, 1, 2]]]
    assert phases([split, small, small], [(1, 2)]) == [[[0], [1, 2]]]
    assert phases([split, small, small], [(0, 2)]) == [[[0], [1]], [[2]]]
    assert phases([small, split, small], [(0, 1), (0, 2)]) == [[[0]], [[1], [2]]]


def test_results_do_not_depend_on_threads(many: Any, build: Any) -> None:
    """Bits of a sum per row, rows over threads."""
    rows, columns = 300, 257
    b = build()
    x, y = b.param(F32, rows * columns, "r"), b.param(F32, rows, "w")
    (row,) = b.block(rows)
    zero = b.const(0)
    total = b.local(F32, 1)
    b.store(total, zero, b.const(0.0, F32))
    c = b.loop(zero, b.const(columns))
    b.store(total, zero, b.add(b.load(total, zero), b.load(x, b.affine(c, (row, columns)))))
    b.end(c)
    b.store(y, row, b.load(total, zero))
    data = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    expected = np.zeros(rows, np.float32)
    for c in range(columns):
        expected += data[:, c]
    got = many(b.program(flops=BIG), data, np.zeros(rows, np.float32))[1]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("tiles", [1, 2, 3, 5, 7, 8, 11, 12, 13, 31, 100])
def test_every_tile_is_run_once(many: Any, build: Any, tiles: int) -> None:
    b = build()
    y = b.param(I64, tiles, "rw")
    (i,) = b.block(tiles)
    b.store(y, i, b.add(b.load(y, i), b.const(1)))
    program = b.program(flops=BIG)
    for _ in range(3):
        np.testing.assert_array_equal(many(program, np.arange(tiles))[0], np.arange(tiles) + 1)


def test_each_thread_has_its_own_scratch(many: Any, build: Any) -> None:
    b = build()
    n, length = 4000, 500  # long enough for all threads to come
    y = b.param(I64, n, "w")
    (i,) = b.block(n)
    zero, size = b.const(0), b.const(length)
    held = b.local(I64, length, "scratch")
    j = b.loop(zero, size)
    b.store(held, j, b.mul(i, j))
    b.end(j)
    total = b.local(I64, 1)
    b.store(total, zero, zero)
    j = b.loop(zero, size)
    b.store(total, zero, b.add(b.load(total, zero), b.load(held, j)))
    b.end(j)
    b.store(y, i, b.load(total, zero))
    got = many(b.program(flops=BIG), np.zeros(n, np.int64))[0]
    np.testing.assert_array_equal(got, np.arange(n) * (length * (length - 1) // 2))


@pytest.mark.parametrize("nbytes", [1, 100, 65536, 65537, 1_000_003])
def test_copies_are_steps(many: Any, nbytes: int) -> None:
    data = np.random.default_rng(1).integers(0, 256, nbytes).astype(np.uint8)
    buffers = tuple(PlanBuffer("external", nbytes, i) for i in range(2))
    run = many.device.prepare(Plan(buffers, (CopyStep(1, 0, nbytes),), {}), {}, None)
    source, target = many.put(data), many.put(np.zeros_like(data))
    run([source, target])
    np.testing.assert_array_equal(many.get(target, data), data)


def test_intermediates_live_in_the_arena(three: Any, build: Any) -> None:
    n = 64
    program = shift(build(), "shift", n, BIG)
    buffers = (*external(n, 2), PlanBuffer("arena", 4 * n, offset=512))
    steps = (Launch("shift", (0, 2), (), program.grid), Launch("shift", (2, 1), (), program.grid))
    plan = Plan(buffers, steps, {"shift": program}, arena_bytes=1024, edges=((0, 1),))
    arena = three.device.allocator.alloc(1024)
    run = three.device.prepare(plan, three.load(program), arena)
    data = np.arange(n, dtype=np.float32)
    source, target = three.put(data), three.put(np.zeros_like(data))
    run([source, target])
    np.testing.assert_array_equal(three.get(target, data), data + 2)


def test_setup_runs_once(three: Any, build: Any) -> None:
    n = 16
    program = shift(build(), "shift", n, 0)
    once = (Launch("shift", (0, 1), (), program.grid),)
    always = (Launch("shift", (1, 2), (), program.grid),)
    plan = Plan(external(n, 3), always, {"shift": program}, setup=once)
    run = three.device.prepare(plan, three.load(program), None)
    data = np.arange(n, dtype=np.float32)
    handles = [three.put(data), three.put(np.zeros_like(data)), three.put(np.zeros_like(data))]
    run(handles)
    three.device.allocator.write(handles[1], memoryview(np.full(n, 5, np.float32)).cast("B"))
    run(handles)
    np.testing.assert_array_equal(three.get(handles[2], data), np.full(n, 6))


def scaled(b: Any, flops: int) -> LinearProgram:
    """y[i] = x[i] * s for i < n; s and n are variables."""
    x, y = b.param(F32, 32, "r"), b.param(F32, 32, "rw")
    b.variable("n", I64, 0, 32)
    s = b.variable("s", F32, -np.inf, np.inf)
    (i,) = b.block(("n",))
    b.store(y, i, b.mul(b.load(x, i), s))
    return b.program("scaled", flops=flops)


@pytest.mark.parametrize("flops", [0, BIG], ids=["small", "split"])
def test_variables_change_between_calls(three: Any, build: Any, flops: int) -> None:
    program = scaled(build(), flops)
    specs = (VariableSpec("k", I64, 0, 16), VariableSpec("s", F32, -np.inf, np.inf))
    step = Launch("scaled", (0, 1), (("k", 2, "*"), ("s", 2.0, "*")), (("k", 2, "*"),))
    plan = Plan(external(32, 2), (step,), {"scaled": program}, variables=specs)
    run = three.device.prepare(plan, three.load(program), None)
    data = np.ones(32, np.float32)
    for k, s in ((3, 1.5), (16, -0.25), (0, 1.0), (5, 0.0), (5, -0.0), (3, 1.5)):
        handles = [three.put(data), three.put(np.full(32, 7, np.float32))]
        run(handles, (k, s))
        expected = np.where(np.arange(32) < 2 * k, np.float32(s * 2), np.float32(7))
        got = three.get(handles[1], data)
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("kind", [list, tuple])
def test_variables_that_stay_are_not_written_again(
    three: Any, build: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = scaled(build(), 0)
    step = Launch("scaled", (0, 1), (("n",), ("s",)), (("n",),))
    plan = Plan(external(32, 2), (step,), {"scaled": program}, variables=program.variables)
    run = three.device.prepare(plan, three.load(program), None)
    handles = [three.put(np.ones(32, np.float32)), three.put(np.zeros(32, np.float32))]
    written = []
    fill = Tables.fill
    monkeypatch.setattr(Tables, "fill", lambda self, v: (written.append(dict(v)), fill(self, v)))
    for n in (32, 32, 7, 7):
        run(handles, kind((n, 2.0)))
    assert written == [{"n": 32, "s": 2.0}, {"n": 7, "s": 2.0}]


def test_the_number_of_tiles_changes_from_run_to_run(many: Any, build: Any) -> None:
    """A worker that is late by a run meets other counts than those it came for."""
    rng = np.random.default_rng(3)
    b = build()
    x, y = b.param(F32, 4096, "r"), b.param(F32, 4096, "rw")
    n = b.variable("n", I64, 0, 4096)
    (i,) = b.block(("n",))
    b.store(y, i, b.add(b.load(x, i), b.cast(n, F32)))
    program = b.program("add", flops=BIG)
    steps = tuple(Launch("add", (j % 2, 1 - j % 2), (("n",),), (("n",),)) for j in range(6))
    plan = Plan(external(4096, 2), steps, {"add": program}, edges=tuple(pairwise(range(6))),
                variables=program.variables)  # fmt: skip
    run = many.device.prepare(plan, many.load(program), None)
    expected = np.zeros(4096, np.float32)
    handles = [many.put(expected), many.put(expected)]
    for n in (0, 1, *rng.integers(0, 4097, 60).tolist()):
        run(handles, (n,))
        expected[:n] += 6 * n  # exact: the sums stay below 2**24
    np.testing.assert_array_equal(many.get(handles[0], expected), expected)


def test_a_variable_out_of_its_bounds_is_an_error(three: Any, build: Any) -> None:
    program = scaled(build(), 0)
    step = Launch("scaled", (0, 1), (("n",), ("s",)), (("n",),))
    plan = Plan(external(32, 2), (step,), {"scaled": program}, variables=program.variables)
    run = three.device.prepare(plan, three.load(program), None)
    data = np.zeros(32, np.float32)
    with pytest.raises(ArgumentError, match="n=33 is not in"):
        run([three.put(data), three.put(data)], (33, 1.0))


def test_wrong_buffers_are_an_error_and_the_next_call_works(three: Any, build: Any) -> None:
    n = 16
    program = shift(build(), "shift", n, 0)
    plan = Plan(external(n, 2), (Launch("shift", (0, 1), (), program.grid),), {"shift": program})
    run = three.device.prepare(plan, three.load(program), None)
    data = np.zeros(n, np.float32)
    good = [three.put(data), three.put(data)]
    with pytest.raises(ArgumentError, match="takes 2 buffers, got 1"):
        run(good[:1])
    with pytest.raises(ArgumentError, match="has 64 bytes, got 8"):
        run([three.put(data[:2]), good[1]])
    run(good)
    assert three.get(good[1], data)[0] == 1


def test_two_python_threads_run_two_plans_at_once(three: Any, build: Any) -> None:
    n, failures = 400, []

    def train(addend: float) -> None:
        try:
            program = shift(build(), "shift", n, BIG, addend)
            steps = tuple(Launch("shift", (i % 2, 1 - i % 2), (), program.grid) for i in range(10))
            plan = Plan(external(n, 2), steps, {"shift": program}, edges=tuple(pairwise(range(10))))
            run = three.device.prepare(plan, three.load(program), None)
            start = np.arange(n, dtype=np.float32)
            a, b = three.put(start), three.put(start)
            for i in range(60):
                run([a, b])
                np.testing.assert_array_equal(three.get(a, start), start + 10 * addend * (i + 1))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=train, args=(a,)) for a in (1.0, 2.0, 3.0)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


def test_plans_may_be_dropped_while_workers_are_busy(three: Any) -> None:
    """A copy is long enough for the workers to come; some are late, and its plan is dropped."""
    data = np.random.default_rng(2).integers(0, 256, 500_000).astype(np.uint8)
    buffers = tuple(PlanBuffer("external", data.nbytes, i) for i in range(2))
    plan = Plan(buffers, (CopyStep(1, 0, data.nbytes),), {})
    handles = [three.put(data), three.put(np.zeros_like(data))]
    for _ in range(200):
        run = three.device.prepare(plan, {}, None)
        run(handles)
        del run
    np.testing.assert_array_equal(three.get(handles[1], data), data)


def test_plans_are_dropped_while_more_workers_start(runner: Any) -> None:
    """One thread drops a plan after each run; another starts workers for its own and ends them."""
    data = np.random.default_rng(4).integers(0, 256, 500_000).astype(np.uint8)
    buffers = tuple(PlanBuffer("external", data.nbytes, i) for i in range(2))
    plan = Plan(buffers, (CopyStep(1, 0, data.nbytes),), {})
    few, lots = runner(2), runner(8)
    ended = threading.Event()

    def drop() -> None:
        handles = [few.put(data), few.put(data)]
        while not ended.is_set():
            few.device.prepare(plan, {}, None)(handles)

    dropping = threading.Thread(target=drop)
    dropping.start()
    handles = [lots.put(data), lots.put(np.zeros_like(data))]
    run = lots.device.prepare(plan, {}, None)
    for _ in range(40):
        run(handles)
        lots.device.close()
    ended.set()
    dropping.join()
    few.device.close()
    np.testing.assert_array_equal(lots.get(handles[1], data), data)


def test_a_plan_is_kept_while_a_worker_looks_at_it() -> None:
    """Also a worker that has started since, of which the Pool's own list need not know yet."""
    made, plan = Pool(), 64
    word = ctypes.c_uint64.from_address
    word(made._address + POOL["workers"]).value = 2
    walks = word(made._address + POOL["walks"] + 2 * WALK_BYTES)
    walks.value = plan
    retiring = threading.Thread(target=made.retire, args=(plan,))
    retiring.start()
    retiring.join(0.1)
    assert retiring.is_alive()
    walks.value = 0
    retiring.join(10)
    assert not retiring.is_alive()


def test_a_run_wakes_workers_that_sleep(many: Any) -> None:
    data = np.random.default_rng(6).integers(0, 256, 1_000_003).astype(np.uint8)
    buffers = tuple(PlanBuffer("external", data.nbytes, i) for i in range(2))
    run = many.device.prepare(Plan(buffers, (CopyStep(1, 0, data.nbytes),), {}), {}, None)
    asleep = ctypes.c_uint32.from_address(pool()._address + POOL["sleepers"])
    for _ in range(20):
        handles = [many.put(data), many.put(np.zeros_like(data))]
        run(handles)
        np.testing.assert_array_equal(many.get(handles[1], data), data)
        deadline = time.monotonic() + 30
        while asleep.value < len(pool()._threads):
            assert time.monotonic() < deadline, "the workers do not go to sleep"
            time.sleep(0)


def test_workers_end_and_start_again(three: Any, build: Any) -> None:
    program = shift(build(), "shift", 64, BIG)
    data = np.zeros(64, np.float32)
    for _ in range(5):
        np.testing.assert_array_equal(three(program, data, data.copy())[1], data + 1)
        three.device.close()
        assert not [t for t in threading.enumerate() if t.name.startswith("polygrad-cpu")]


def test_a_worker_that_cannot_start_is_an_error_and_the_next_run_works(
    runner: Any, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    five, data = runner(5), np.zeros(64, np.float32)
    program = shift(build(), "shift", 64, BIG)
    five.device.close()

    def refuse(*arguments: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="start new thread"):
            five(program, data, data.copy())
    five.device.close()
    np.testing.assert_array_equal(five(program, data, data.copy())[1], data + 1)
    five.device.close()


BUSY_PROCESS = """
    import os, sys, threading
    from polygrad.contract import CopyStep, Plan, PlanBuffer
    from polygrad_backend_cpu.device import CpuDevice
    device = CpuDevice.open(0, {"threads": "3"})
    n = 1 << 20
    buffers = tuple(PlanBuffer("external", n, i) for i in range(2))
    run = device.prepare(Plan(buffers, (CopyStep(1, 0, n),), {}), {}, None)
    handles = [device.allocator.alloc(n), device.allocator.alloc(n)]
    run(handles)
"""


def ends_well(script: str) -> None:
    """`script`, in a process whose workers exist, prints "done" and exits in peace."""
    text = textwrap.dedent(BUSY_PROCESS) + textwrap.dedent(script)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "done", "")


def test_the_interpreter_exits_while_workers_sleep() -> None:
    ends_well('print("done")')


def test_the_interpreter_exits_while_another_thread_runs() -> None:
    ends_well(
        """
        def loop():
            while True:
                run(handles)
        threading.Thread(target=loop, daemon=True).start()
        print("done")
        """
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_exits_and_the_parent_goes_on() -> None:
    ends_well(
        """
        for _ in range(5):
            child = os.fork()
            if child == 0:
                sys.exit(0)  # runs the exit handlers, but has no workers
            run(handles)
            assert os.waitpid(child, 0)[1] == 0
        print("done")
        """
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_while_workers_work_exits_too() -> None:
    """The child sees workers that were at work and are not there: nothing may wait for them."""
    ends_well(
        """
        stop = threading.Event()

        def work():
            while not stop.is_set():
                run(handles)

        busy = threading.Thread(target=work)
        busy.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                del run  # retires its tables
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        busy.join()
        print("done")
        """
    )
