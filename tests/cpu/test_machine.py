"""The cpu's memory, its description of the machine, its descriptor and its compiler."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygrad.contract import Source
from polygrad.dtype import dtypes
from polygrad.errors import CompileError, DeviceMemoryError
from polygrad.uop.ops import Ops
from polygrad_backend_cpu import target
from polygrad_backend_cpu.function import Entry
from polygrad_backend_cpu.memory import CpuAllocator
from polygrad_backend_cpu.probe import probe

SIZES = [1, 63, 64, 65, 4096, (1 << 20) - 1, 1 << 20, (2 << 20) + 1]


@pytest.fixture
def allocator() -> CpuAllocator:
    return CpuAllocator()


@pytest.mark.parametrize("nbytes", SIZES)
def test_memory_is_aligned_zeroed_and_keeps_what_is_written(
    allocator: CpuAllocator, nbytes: int
) -> None:
    data = np.random.default_rng(2).integers(0, 256, nbytes).astype(np.uint8)
    for _ in range(2):  # the second time the bytes may come from the free list
        memory = allocator.alloc(nbytes, zeroed=True)
        assert memory.address % 64 == 0
        out = np.ones(nbytes, np.uint8)
        allocator.read(memoryview(out), memory)
        assert not out.any()
        allocator.write(memory, memoryview(data))
        allocator.read(memoryview(out), memory)
        np.testing.assert_array_equal(out, data)
        allocator.free(memory)


def test_buffers_do_not_overlap(allocator: CpuAllocator) -> None:
    held = [allocator.alloc(n) for n in (1, 64, 100, 5000, 64, 1 << 19, 1 << 20, 3)]
    spans = sorted((m.address, m.address + m.nbytes) for m in held)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_parts_are_read_and_written_at_an_offset(allocator: CpuAllocator) -> None:
    memory = allocator.alloc(100, zeroed=True)
    allocator.write(memory, memoryview(np.arange(3, dtype=np.int32)), 40)
    view = allocator.view(memory, 44, 8)
    assert view.address == memory.address + 44
    out = np.zeros(2, np.int32)
    allocator.read(memoryview(out), view)
    np.testing.assert_array_equal(out, [1, 2])


def test_too_much_memory_is_a_memory_error(allocator: CpuAllocator) -> None:
    with pytest.raises(DeviceMemoryError, match="cannot allocate 4,611,686,018,427,387,904 bytes"):
        allocator.alloc(1 << 62)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("nbytes", [2_359_296, 7_077_888, 9_437_184, (4 << 20) - 4096])
def test_a_large_buffer_takes_little_more_memory_than_it_has_bytes(
    allocator: CpuAllocator, nbytes: int
) -> None:
    before = resident()
    held = [allocator.alloc(nbytes) for _ in range(8)]
    for memory in held:
        ctypes.memset(memory.address, 1, nbytes)
    assert resident() - before < 8 * (nbytes + (512 << 10)) + (2 << 20)


def resident() -> int:
    """Bytes of this process's anonymous memory."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))


def test_a_host_view_outlives_its_buffer(allocator: CpuAllocator) -> None:
    memory = allocator.alloc(4 << 20, zeroed=True)
    host = np.frombuffer(memory.bytes, np.uint8)
    allocator.free(memory)
    assert host[-1] == 0


# ---- the target


def test_the_host_is_described(run: Any) -> None:
    described = run.device.target
    assert described.name == "cpu" and described.cores == 1  # the runner asks for one
    assert described.vector_bytes in (16, 32, 64) and described.registers in (16, 32)
    assert described.supports(Ops.ADD, dtypes.float64) and described.supports(Ops.SHR, dtypes.int8)
    assert not described.supports(Ops.ADD, dtypes.float16)
    assert described.supports(Ops.LOAD, dtypes.bfloat16)
    assert not described.supports(Ops.EXP2, dtypes.float32)


def test_a_target_follows_its_features() -> None:
    plain = target.make_target("x86_64-generic", frozenset({"sse2"}))
    assert (plain.vector_bytes, plain.registers) == (16, 16)
    assert Ops.FMA not in plain.ops and Ops.FLOOR not in plain.ops
    haswell = target.make_target("x86_64-haswell", frozenset({"sse4.1", "avx2", "fma"}))
    assert (haswell.vector_bytes, haswell.registers) == (32, 16)
    assert Ops.FMA in haswell.ops and Ops.ROUND in haswell.ops
    wide = frozenset({"avx2", "avx512f", "avx512vl", "avx512bw", "avx512dq"})
    assert target.make_target("x86_64-znver4", wide).vector_bytes == 64
    arm = target.make_target("aarch64-generic", frozenset())
    assert (arm.vector_bytes, arm.registers) == (16, 32) and Ops.FMA in arm.ops


def square_minus(b: Any, v: int) -> int:
    """v * v - (1 + 2**-11), as one FMA."""
    dtype = b.ops[v].dtype
    return b.op(Ops.FMA, dtype, v, v, b.const(-(1 + 2**-11), dtype))


def test_without_fma_hardware_it_is_two_roundings(run: Any) -> None:
    machine = target.make_target("x86_64-generic", frozenset({"sse2"}))
    host = run.device.renderer
    run.device.renderer = type(host)(machine)
    try:
        x = np.array([1 + 2**-12], np.float32)
        got = run.elementwise(square_minus, x.dtype, x)
    finally:
        run.device.renderer = host
    assert got[0] == 0


def test_cores_respect_the_quota_of_the_control_group(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/outer/inner\n")
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    assert target.cgroup_quota(str(tmp_path), str(own)) is None
    (inner.parent / "cpu.max").write_text("150000 100000\n")
    assert target.cgroup_quota(str(tmp_path), str(own)) == 1.5


def test_the_older_control_groups_are_read_too(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:cpu,cpuacct:/job\n")
    job = tmp_path / "cpu" / "job"
    job.mkdir(parents=True)
    (job / "cpu.cfs_quota_us").write_text("200000\n")
    (job / "cpu.cfs_period_us").write_text("100000\n")
    assert target.cgroup_quota(str(tmp_path), str(own)) == 2


def test_caches_come_from_the_system_or_from_defaults(tmp_path: Path) -> None:
    assert target.cache_sizes(str(tmp_path)) == target.DEFAULT_CACHES
    for i, (kind, level, size) in enumerate(
        [("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 2, "2048K")]
    ):
        (tmp_path / f"index{i}").mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size)):
            (tmp_path / f"index{i}" / name).write_text(f"{value}\n")
    assert target.cache_sizes(str(tmp_path)) == (48 << 10, 2 << 20)


# ---- descriptor, compiler


def test_the_descriptor_costs_nothing() -> None:
    script = (
        "import sys, polygrad.plugin; before = set(sys.modules); "
        "import polygrad_backend_cpu.plugin as p; "
        "print(p.plugin.name, sorted(set(sys.modules) - before))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    expected = "cpu ['polygrad_backend_cpu', 'polygrad_backend_cpu.plugin']"
    assert result.stdout.strip() == expected, result.stderr


def test_the_probe_does_not_start_the_compiler() -> None:
    script = (
        "import sys; from polygrad_backend_cpu.probe import probe; found = probe(); "
        "print(found.ok, 'llvmlite' in sys.modules, 'numpy' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.strip() == "True False False", result.stderr


def test_the_probe_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = probe()
    assert (found.ok, found.detail, found.hint) == (
        False, "llvmlite is not installed", "pip install llvmlite"
    )  # fmt: skip


def test_the_compiler_key_names_tool_processor_and_features(llvm: Any) -> None:
    import llvmlite

    arch, features = target.host()
    key = llvm.device.compiler.key
    assert llvmlite.__version__ in key and arch.partition("-")[2] in key
    assert all(f"+{f}" in key for f in features)


def test_bad_text_is_a_compile_error_with_the_log(llvm: Any) -> None:
    with pytest.raises(CompileError, match="expected"):
        llvm.device.compiler(Source("define void @k() { nonsense }", {"k": "k"}))


def test_a_binary_from_a_cache_runs_as_a_fresh_one(run: Any, build: Any) -> None:
    b = build()
    b.store(b.param(dtypes.int32, 1, "w"), b.const(0), b.const(42, dtypes.int32))
    device = run.device
    binary = device.compiler(device.renderer.render([b.program("answer")]))
    kept = type(binary)(bytes(binary.code), dict(binary.entries))
    for _ in range(3):
        out = run.put(np.zeros(1, np.int32))
        device.load(kept)["answer"](out)
        assert run.get(out, np.zeros(1, np.int32))[0] == 42


def test_the_symbol_says_how_to_call(build: Any) -> None:
    assert Entry.of("k_12_iff_4096") == Entry("iff", 4096)
    assert Entry.of("k_12__0") == Entry("", 0)


def test_a_collection_inside_of_alloc_may_free() -> None:
    """It ends Plans, whose scratch is the allocator's. The program stood still."""
    allocator = CpuAllocator()
    held = allocator.alloc(100)

    def collected() -> None:
        with allocator._lock:  # as `alloc` holds it
            allocator.free(held)

    thread = threading.Thread(target=collected, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert allocator.alloc(100).nbytes == 100
