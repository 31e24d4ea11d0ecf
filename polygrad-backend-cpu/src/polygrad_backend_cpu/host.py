"""This machine's processor as LLVM describes it, without loading LLVM where that was asked before.

Loading LLVM takes 40 ms of CPU time and 40 MB of memory, which a process that finds all its code in
the disk cache can do without. So what LLVM said is kept there as well, under what the operating
system says of the processor. Where that says nothing (other systems than Linux), LLVM is asked.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
from functools import cache
from typing import Any, NamedTuple

from polygrad.files import diskcache

# Lines of /proc/cpuinfo that decide what a processor can do (x86, then Arm).
_DECISIVE = frozenset({
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",
})  # fmt: skip


class Host(NamedTuple):
    """LLVM's names: "x86_64", "znver4", "+avx2,-amx-tile,…", and its own version."""

    machine: str
    processor: str
    features: str
    llvm: str

    @property
    def present(self) -> frozenset[str]:
        """The features that this machine has."""
        return frozenset(f[1:] for f in self.features.split(",") if f.startswith("+"))


@cache
def host() -> Host:
    """This machine."""
    known, text = diskcache.default(), processor_text()
    if known is None or not text:
        return asked()
    import llvmlite

    what = f"cpu host {Host._fields}"  # another version of this class keeps other things
    key = hashlib.sha256(f"{what}\0{llvmlite.__version__}\0{text}".encode()).digest()
    entry = known.get(key)
    if entry is not None:
        return Host(*json.loads(entry))
    found = asked()
    known.put(key, json.dumps(found).encode())
    return found


def asked() -> Host:
    """What LLVM says."""
    llvm = loaded()
    version = ".".join(map(str, llvm.llvm_version_info))
    machine = llvm.get_process_triple().partition("-")[0]
    features = llvm.get_host_cpu_features().flatten()
    return Host(machine, llvm.get_host_cpu_name(), features, version)


@cache
def loaded() -> Any:
    """llvmlite.binding, LLVM initialised for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the executor pauses by inline assembly
    return llvm


def let_go() -> None:
    """Hand back the memory that LLVM's code takes: 50 MB after some kernels, of no use to a process
    whose kernels are all compiled. The pages are those of the library's file, which nobody writes
    to, so the system maps again what runs again: 0.8 ms for the next kernel."""
    for start, length in library_code():
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _DONTNEED)


_DONTNEED = getattr(mmap, "MADV_DONTNEED", 0)  # mmap's own method is for its own mappings


def library_code(path: str = "/proc/self/maps") -> list[tuple[int, int]]:
    """Where the code of LLVM lies: (address, bytes). Nothing where the system does not say."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line for line in file if "libllvmlite" in line and " r-xp " in line]
    except OSError:
        return []
    ends = [line.split(" ", 1)[0].split("-") for line in lines]
    return [(int(first, 16), int(last, 16) - int(first, 16)) for first, last in ends]


def processor_text(path: str = "/proc/cpuinfo") -> str:
    """What the system says of the first processor that decides what it can do."""
    lines: list[str] = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():  # the next processor
                    break
                if line.partition(":")[0].strip() in _DECISIVE:
                    lines.append(line)
    except OSError:
        return ""
    return "".join(lines) if any(line.startswith(("flags", "Features")) for line in lines) else ""
