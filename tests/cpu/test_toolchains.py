"""The C toolchains: what each is called with, what is said when one is missing or refuses, and
that programs of every kind give the bits that LLVM gives (F189 for the dump)."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Tensor, nn
from polygrad import device as devices
from polygrad.contract import Source
from polygrad.dtype import dtypes
from polygrad.errors import CompileError, DeviceUnavailable, SettingError
from polygrad_backend_cpu import c_compile, target, toolchain
from polygrad_backend_cpu.device import CpuDevice
from polygrad_backend_cpu.probe import probe

C = tuple(toolchain.C_COMPILERS)


@pytest.fixture(params=C)
def compiler(request: pytest.FixtureRequest, require: Any) -> str:
    """Each C toolchain of this machine."""
    require(request.param)
    return str(request.param)


@pytest.fixture
def one(require: Any) -> str:
    """A C toolchain that is here, gcc before others."""
    for name in sorted(C, key=("gcc", "clang", "zig").index):
        if toolchain.missing(name) is None:
            return name
    pytest.skip("no C toolchain")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder


def opened(name: str) -> CpuDevice:
    return CpuDevice.open(0, {"threads": "1", "toolchain": name})


# ---- the same bits


def battery() -> dict[str, Any]:
    """Results of one program of each kind, by name."""
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((37, 61), (61, 29)))
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 5, 13, 11), (7, 5, 3, 3)))
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -1e20] * 3, np.float32)
    t, ids = Tensor(a), Tensor(rng.integers(0, 37, 50))
    half = Tensor(a.astype(np.float16))
    weight = Tensor(b, requires_grad=True)
    loss = ((t @ weight).gelu().softmax(1) ** 2).sum()
    loss.backward()
    s = Tensor(special)
    return {
        "matmul": t @ Tensor(b),
        "turned": tuple(
            t.cast(d).contiguous().transpose().pad(((1, 0), (0, 2))).contiguous()
            for d in ("int8", "float16", "float32", "float64")
        ),
        "half": half @ half.transpose(),
        "bfloat16": t.cast(dtypes.bfloat16) * 3,
        "float64 to half": Tensor(a.astype(np.float64)).cast(dtypes.float16),
        "softmax": t.softmax(1),
        "column sums": t.sum(0),
        "variance": t.var(1),
        "convolution": Tensor(x).conv2d(Tensor(w), padding=1),
        "gradient": weight.grad,
        "elementary": (s.exp(), s.log(), s.sin(), s.tanh(), s.sqrt(), s.maximum(1.0), s.round()),
        "saturating": (s.cast(dtypes.int8), s.cast(dtypes.uint32), s.cast(dtypes.int64)),
        "integers": Tensor([-7, 7, -128, 5], dtype=dtypes.int8) // Tensor([2, -2, -1, 3]),
        "shifts": Tensor([1, -8, 2**31 - 1]) >> 3,
        "scan": t.cumsum(1),
        "sort": t.sort(1)[0],
        "gather": t[ids],
        "compare": (s < 1) & ~(s == 0),
        "layer": nn.LayerNorm(61)(t),
        "random": Tensor.rand(5, 7),
    }


def bits(results: dict[str, Any]) -> dict[str, list[bytes]]:
    parts = {k: v if isinstance(v, tuple) else (v,) for k, v in results.items()}
    return {k: [bytes(p.cast(dtypes.float32).numpy().data) if p.dtype is dtypes.bfloat16
                else np.nan_to_num(p.numpy(), nan=12345.0).tobytes() for p in v]
            for k, v in parts.items()}  # fmt: skip


@cache
def computed(name: str) -> dict[str, list[bytes]]:
    with Context(POLY_DEV="cpu", POLY_CPU_TOOLCHAIN=name, POLY_CACHE=0):
        with devices.isolated():
            Tensor.manual_seed(5)
            return bits(battery())


def test_every_kind_of_program_gives_the_bits_of_llvm(compiler: str) -> None:
    found, by_llvm = computed(compiler), computed("llvm")
    assert found.keys() == by_llvm.keys()
    assert [name for name in by_llvm if found[name] != by_llvm[name]] == []


def test_random_programs_agree_with_numpy(compiler: str) -> None:
    command = [sys.executable, "-m", "polygrad.testing.fuzz", "programs", "-n", "12", "--seed", "5"]
    env = {**os.environ, "POLY_CPU_TOOLCHAIN": compiler}
    done = subprocess.run([*command, "--devices", "cpu"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- what is missing, what is wrong


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a compiler: PATH is one empty folder, and no package brings one."""
    real = toolchain.importlib.util.find_spec
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "ziglang" else real(name)
    )
    return tmp_path


@pytest.mark.parametrize("name", C)
def test_a_missing_compiler_is_named_with_where_it_was_looked_for(name: str, bare: Path) -> None:
    with pytest.raises(DeviceUnavailable) as raised:
        opened(name)
    text = str(raised.value)
    assert f"POLY_CPU_TOOLCHAIN={name}" in text and str(bare) in text
    assert toolchain.C_COMPILERS[name] in text
    with Context(POLY_CPU_TOOLCHAIN=name):
        found = probe()
    assert not found.ok and found.detail in text and found.hint in text


def test_without_cffi_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = toolchain.importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "cffi" else real(name)
    )
    with pytest.raises(DeviceUnavailable, match=r"needs cffi.*polygrad-backend-cpu\[c\]"):
        opened("gcc")
    assert opened("llvm").name == "cpu"


def test_a_toolchain_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingError, match="llvm or clang or gcc or zig"):
        Context(POLY_CPU_TOOLCHAIN="tcc")


def test_refused_text_is_an_error_with_the_log_and_the_place(one: str, temporary: Path) -> None:
    with pytest.raises(CompileError) as raised:
        opened(one).compiler(Source("int f(void) { return nonsense; }", {"k": "f"}))
    text = str(raised.value)
    assert text.startswith(f"{one} refused a generated program") and "nonsense" in text
    (kept,) = temporary.iterdir()
    assert str(kept) in text and kept.read_text() == "int f(void) { return nonsense; }"


def test_a_compiler_that_fails_to_start_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cffi")
    script(tmp_path / "gcc", "echo broken >&2; exit 3")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileError, match="--version failed: broken"):
        opened("gcc")


def test_no_folder_for_temporary_files_is_an_error(
    one: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = opened(one)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(CompileError, match="TMPDIR"):
        device.compiler(Source("", {}))


def test_bytes_that_are_no_library_are_an_error(one: str, temporary: Path) -> None:
    with pytest.raises(CompileError, match="cannot load a program"):
        c_compile.CLinker().link(b"no library", {"k": "k"})
    assert list(temporary.iterdir()) == []


# ---- how it is run


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def answer(build: Any) -> Any:
    b = build()
    b.store(b.param(dtypes.int32, 1, "w"), b.const(0), b.const(42, dtypes.int32))
    return b.program("answer")


def test_nothing_is_left_behind_and_code_leaves_with_its_program(
    compiler: str, temporary: Path, build: Any
) -> None:
    device = opened(compiler)
    before = mapped()
    binary = device.compiler(device.renderer.render([answer(build)]))
    programs = device.load(binary)
    assert list(temporary.iterdir()) == []
    out = device.allocator.alloc(4)
    programs["answer"](out)
    assert bytes(out.bytes) == (42).to_bytes(4, "little")
    assert mapped() >= before
    del programs
    gc.collect()
    assert mapped() == before


def test_a_library_asks_nothing_of_an_interpreter_that_ends(one: str) -> None:
    device = opened(one)
    text = '__attribute__((visibility("default"))) void k__0(void) {}'
    code = device.compiler(Source(text, {"k": "k__0"})).code
    library = c_compile._Library(code)
    assert library.address("k__0")
    handle, library._handle = library._handle, "not one that could be closed"
    library.__del__(lambda: True)
    library._handle = handle


def mapped() -> int:
    """How many parts of libraries of ours are in memory, where the system tells."""
    maps = Path("/proc/self/maps")
    return maps.read_text().count("kernels.so") if maps.exists() else 0


def test_a_path_with_shell_signs_is_only_a_path(
    one: str, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, build: Any
) -> None:
    folder = tmp_path / "a b; touch pwned $(touch pwned)"
    folder.mkdir()
    command = toolchain.command(one)
    assert command is not None
    script(folder / "clang", f'exec {" ".join(command)} "$@"')
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    device = opened("clang" if one != "gcc" else "gcc")
    device.load(device.compiler(device.renderer.render([answer(build)])))
    assert not list(tmp_path.rglob("pwned"))


def test_the_key_names_compiler_flags_and_processor(compiler: str) -> None:
    key = opened(compiler).compiler.key
    arch, features = target.host()
    said = subprocess.run(
        [*(toolchain.command(compiler) or ()), "--version"], capture_output=True, text=True
    )
    assert key.startswith(f"{compiler}-{said.stdout.splitlines()[0]}") and arch in key
    assert "-ffp-contract=off" in key and all(f in key for f in features)
    assert "fast-math" not in key


def test_a_warm_cache_needs_no_compiler_run(one: str, tmp_path: Path) -> None:
    program = (
        "from polygrad import Tensor\nfrom polygrad.engine.runtime import current\n"
        "print((Tensor([1.0, 2.0]) * 17.5).tolist(), current().counters.kernels_compiled)"
    )
    env = {**os.environ, "POLY_DEV": "cpu", "POLY_CACHE_DIR": str(tmp_path / "cache"),
           "POLY_CPU_TOOLCHAIN": one}  # fmt: skip

    def run(**settings: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=env | settings, capture_output=True, text=True)

    cold, warm = run(), run()
    assert (cold.stdout, cold.stderr) == ("[17.5, 35.0] 1\n", "")
    assert (warm.stdout, warm.stderr) == ("[17.5, 35.0] 0\n", "")
    assert run(POLY_CPU_TOOLCHAIN="llvm").stdout == "[17.5, 35.0] 1\n"  # another key
    dump = run(POLY_DUMP_KERNELS="1")
    assert "# kernel" in dump.stderr and "f32x2 v" in dump.stderr and "restrict" in dump.stderr


def test_the_table_of_devices_says_the_toolchain(one: str) -> None:
    command = [sys.executable, "-m", "polygrad", "devices", "--json"]
    env = {**os.environ, "POLY_CPU_TOOLCHAIN": one}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    rows = {row["name"]: row for row in json.loads(done.stdout)["devices"]}
    assert rows["cpu"]["reason"] == toolchain.described(one)
    assert one in rows["cpu"]["reason"] and rows["cpu"]["state"] == "ok"
