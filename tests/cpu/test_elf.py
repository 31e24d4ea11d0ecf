"""Our own linker: the same addresses' contents as LLVM's, and LLVM for what it does not know."""

from __future__ import annotations

import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile

import pytest

from polygrad.contract import Source
from polygrad.files import diskcache
from polygrad_backend_cpu import elf, host
from polygrad_backend_cpu.compile import toolchain

pytestmark = pytest.mark.skipif(not elf.usable(), reason="objects of x86-64 Linux")

# Constants in memory, a call of a function of the same module, and one of the C library.
TEXT = """
@table = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 32

define internal i64 @third(i64 %n) noinline nounwind {
  %at = getelementptr [4 x i64], ptr @table, i64 0, i64 %n
  %v = load i64, ptr %at
  ret i64 %v
}

declare i64 @labs(i64)
declare i64 @nowhere_at_all(i64)

define i64 @mixed(i64 %n) nounwind {
  %a = call i64 @third(i64 %n)
  %b = call i64 @labs(i64 -100)
  %c = add i64 %a, %b
  ret i64 %c
}
"""
STRANGE = {
    "tables for exceptions": "define i64 @strange() {\n ret i64 1\n}",
    "a function that is nowhere": TEXT
    + "define i64 @strange() nounwind {\n %v = call i64 @nowhere_at_all(i64 1)\n ret i64 %v\n}",
    "memory that is written": "@count = internal global i64 41, align 8\n"
    "define i64 @strange() nounwind {\n %a = load i64, ptr @count\n %b = add i64 %a, 1\n"
    " store i64 %b, ptr @count\n ret i64 %b\n}",
}


def compiled(text: str, *names: str) -> bytes:
    compiler, _ = toolchain()
    return compiler(Source(text, {n: n for n in names})).code


def test_code_finds_its_constants_its_functions_and_the_c_library() -> None:
    image = elf.load(compiled(TEXT, "mixed"))
    assert image is not None
    mixed = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(image.addresses["mixed"])
    assert [mixed(i) for i in range(4)] == [103, 105, 107, 111]


@pytest.mark.parametrize("case", STRANGE)
def test_what_is_not_known_is_left_to_llvm(case) -> None:
    assert elf.load(compiled(STRANGE[case], "strange")) is None


def test_llvm_links_what_is_not_known() -> None:
    _, linker = toolchain()
    code = compiled(STRANGE["memory that is written"], "strange")
    linked = linker.link(code, {"s": "strange"})
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(linked.addresses["s"])() == 42


def test_a_damaged_object_is_refused() -> None:
    code = compiled(TEXT, "mixed")
    assert elf.load(b"") is None
    assert elf.load(b"\x7fELF" + bytes(100)) is None
    for length in range(0, len(code), 37):
        elf.load(code[:length])  # at the worst it is linked: nothing is read beyond the bytes
    shuffled = random.Random(0)
    for _ in range(300):
        bad = bytearray(code[: 64 + shuffled.randrange(len(code) - 64)])
        bad[shuffled.randrange(len(bad))] ^= 1 << shuffled.randrange(8)
        elf.load(bytes(bad))


def test_code_cannot_be_written_over() -> None:
    image = elf.load(compiled(TEXT, "mixed"))
    assert image is not None
    page = image.addresses["mixed"] // 4096 * 4096
    with open("/proc/self/maps") as maps:
        (rights,) = (
            line.split()[1]
            for line in maps
            if int(line.split("-")[0], 16) <= page < int(line.split("-")[1].split()[0], 16)
        )
    assert rights == "r-xp"


# ---- the processor


def test_what_llvm_said_is_kept(monkeypatch) -> None:
    asked = host.asked()
    with tempfile.TemporaryDirectory() as folder:
        known = diskcache.DiskCache(os.path.join(folder, "k.sqlite"), 1 << 20)
        monkeypatch.setattr(diskcache, "default", lambda: known)
        assert host.host.__wrapped__() == asked
        monkeypatch.setattr(host, "asked", lambda: pytest.fail("LLVM was asked again"))
        assert host.host.__wrapped__() == asked
        monkeypatch.setattr(host, "processor_text", lambda: "flags : other\n")
        monkeypatch.setattr(host, "asked", lambda: asked._replace(processor="other"))
        assert host.host.__wrapped__().processor == "other"
        known.close()


def test_only_lines_that_decide_count(tmp_path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\ncpu MHz\t\t: 1\nflags\t\t: fpu avx2\n\nflags\t: second\n")
    assert host.processor_text(str(info)) == "flags\t\t: fpu avx2\n"
    info.write_text("processor\t: 0\nmodel name\t: nothing is said of features\n")
    assert host.processor_text(str(info)) == ""
    assert host.processor_text(str(tmp_path / "none")) == ""


def test_a_second_process_does_without_llvm() -> None:
    script = """
import json, sys
from polygrad import Tensor
found = (Tensor([1.0, 2.0], device="cpu") + 1).tolist()
big = (Tensor.ones(300, 300, device="cpu") @ Tensor.ones(300, 300, device="cpu")).sum().item()
print(json.dumps([found, big, "llvmlite.binding" in sys.modules]))
"""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "POLY_CACHE_DIR": folder, "POLY_CACHE": "1"}
        env.pop("POLY_CPU_TOOLCHAIN", None)
        outputs = [
            json.loads(subprocess.run([sys.executable, "-c", script], env=env, check=True,
                                      capture_output=True).stdout)
            for _ in range(2)
        ]  # fmt: skip
    assert outputs == [[[2.0, 3.0], 27e6, True], [[2.0, 3.0], 27e6, False]]
