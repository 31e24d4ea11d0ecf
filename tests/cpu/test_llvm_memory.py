"""LLVM's code leaves memory when it has done its work, and comes back when there is more."""

from __future__ import annotations

from pathlib import Path

import pytest

from polygrad.contract import Source
from polygrad_backend_cpu import compile as compiling
from polygrad_backend_cpu import host

MAPS = """\
7f00-7f10 r--p 00000000 fe:00 1 /packages/llvmlite/binding/libllvmlite.so
7f10-7fa0 r-xp 00010000 fe:00 1 /packages/llvmlite/binding/libllvmlite.so
7fa0-7fb0 rw-p 000a0000 fe:00 1 /packages/llvmlite/binding/libllvmlite.so
8000-8010 r-xp 00000000 fe:00 2 /lib/libc.so.6
"""


def module(functions: int) -> Source:
    body = "define i32 @f{0}(i32 %x) {{\n  %y = mul i32 %x, {0}\n  ret i32 %y\n}}\n"
    return Source("".join(body.format(i) for i in range(functions)), {"f": "f0"})


def resident(mapping: tuple[int, int]) -> int:
    """Kilobytes of a mapping that are in memory."""
    name = f"{mapping[0]:x}-"
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    next(line for line in lines if line.startswith(name))
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def test_only_code_that_nobody_writes_to_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "maps").write_text(MAPS)
    assert host.library_code(str(tmp_path / "maps")) == [(0x7F10, 0x90)]
    assert host.library_code(str(tmp_path / "none")) == []


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say")
def test_after_a_long_module_llvm_takes_less_memory_and_compiles_on() -> None:
    compiler, linker = compiling.toolchain()
    compiler(module(1))
    (code,) = host.library_code()
    before = resident(code)
    long = module(compiling.LONG // 40)
    assert len(long.code) >= compiling.LONG
    compiler(long)
    assert resident(code) < before / 2
    again = compiler(module(3))
    assert linker.link(again.code, {"f": "f2"}).addresses["f"]
