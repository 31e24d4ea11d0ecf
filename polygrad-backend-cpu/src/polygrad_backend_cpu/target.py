"""What this machine can do, read from LLVM's host description and from the operating system.

Code generation takes every number from the `Target` made here: vector width, registers, caches,
cores. Nothing below looks at a machine's name. `host_target` describes this machine; `make_target`
any other (cross-compiling, tests with narrower vectors).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache

from polygrad.dtype import TENSOR_DTYPES, DType, dtypes
from polygrad.target import Target
from polygrad.uop.ops import Ops

DEFAULT_CACHES = (32 << 10, 512 << 10, 8 << 20)  # where sysfs tells nothing

INTS = frozenset(d for d in TENSOR_DTYPES.values() if d.is_int)
FLOATS = frozenset({dtypes.float32, dtypes.float64})
HALVES = frozenset({dtypes.float16, dtypes.bfloat16})  # moved and converted, never computed with
BOOL = frozenset({dtypes.bool})
MEMORY = INTS | FLOATS | HALVES
ALL = MEMORY | BOOL

_NATIVE: Mapping[frozenset[DType], tuple[Ops, ...]] = {
    MEMORY: (Ops.PARAM, Ops.LOAD, Ops.STORE, Ops.INDEX),
    ALL: (
        Ops.CONST, Ops.LOCAL, Ops.CAST, Ops.BITCAST, Ops.WHERE, Ops.BROADCAST, Ops.VECTOR,
        Ops.EXTRACT, Ops.SHUFFLE, Ops.LANES,
    ),
    INTS | FLOATS: (Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.MIN, Ops.MAX, Ops.VARIABLE),
    INTS: (Ops.IDIV, Ops.IMOD, Ops.SHL, Ops.SHR, Ops.GRID, Ops.RANGE),
    INTS | BOOL: (Ops.AND, Ops.OR, Ops.XOR, Ops.NOT),
    INTS | FLOATS | BOOL: (Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE),
    FLOATS: (Ops.DIV, Ops.SQRT),
}  # fmt: skip
ROUNDING = (Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND)


def native_ops(features: frozenset[str], machine: str) -> Mapping[Ops, frozenset[DType]]:
    """Operations that are one or a few instructions here; `decompose` expands the others."""
    table = {op: kinds for kinds, ops in _NATIVE.items() for op in ops}
    if "sse4.1" in features or machine in ("aarch64", "arm64"):
        table |= dict.fromkeys(ROUNDING, FLOATS)
    if has_fma(features, machine):
        table[Ops.FMA] = FLOATS
    return table


def has_fma(features: frozenset[str], machine: str) -> bool:
    return "fma" in features or machine in ("aarch64", "arm64")


def vectors(features: frozenset[str], machine: str) -> tuple[int, int]:
    """(bytes, count) of the vector registers."""
    if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= features:
        return 64, 32
    if "avx2" in features:
        return 32, 16
    return 16, 32 if machine in ("aarch64", "arm64") else 16


def make_target(
    arch: str,
    features: frozenset[str],
    cores: int = 1,
    caches: tuple[int, ...] = DEFAULT_CACHES,
    vector_bytes: int = 0,
) -> Target:
    """The Target of a machine `arch` ("x86_64-znver3") whose LLVM features are `features`.

    With `vector_bytes` (POLY_CPU_VECTOR) kernels are made as for vectors of that size; where the
    machine has shorter ones, LLVM makes each of several.
    """
    machine = arch.partition("-")[0]
    width, registers = vectors(features, machine)
    if vector_bytes:
        width, registers = vector_bytes, 32 if vector_bytes == 64 else registers
    return Target(
        name="cpu",
        arch=arch,
        ops=native_ops(features, machine),
        vector_bytes=width,
        memory_bytes=tuple(1 << i for i in range(width.bit_length() + 1)),
        lane_gates=True,
        shuffle_sources=2,
        registers=registers,
        cache_bytes=caches,
        cores=cores,
        max_grid=(1 << 62, 1 << 62, 1 << 62),
        max_buffers=256,
    )


# ---- this machine


def host_target(threads: int = 0, vector_bytes: int = 0) -> Target:
    """This machine; `threads` (the POLY_THREADS setting) overrides the number of cores, and
    `vector_bytes` (POLY_CPU_VECTOR) the size of its vectors."""
    arch, features = host()
    return make_target(arch, features, threads or usable_cores(), cache_sizes(), vector_bytes)


@cache
def host() -> tuple[str, frozenset[str]]:
    """(arch, features) as LLVM names them."""
    from .host import host as described

    found = described()
    return f"{found.machine}-{found.processor}", found.present


def usable_cores() -> int:
    """Cores this process may use: its affinity, bounded by the quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, min(cores, int(quota)) if quota else cores)


def cgroup_quota(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> float | None:
    """The smallest CPU quota, in cores, of our control group and its parents; None without one."""
    groups = [line.split(":", 2)[-1] for line in _text(own).splitlines()] + ["/"]
    quotas = [q for group in groups for q in _quotas_above(root, group)]
    return min(quotas, default=None)


def _quotas_above(root: str, group: str) -> list[float]:
    """Quotas of `group` and each of its parents: version 2 files, then version 1."""
    names = [name for name in group.split("/") if name]
    found = []
    for count in range(len(names), -1, -1):
        part = "/".join(names[:count])
        limit, _, period = _text(f"{root}/{part}/cpu.max").partition(" ")
        if not limit:
            limit = _text(f"{root}/cpu/{part}/cpu.cfs_quota_us")
            period = _text(f"{root}/cpu/{part}/cpu.cfs_period_us")
        if limit.strip().isdigit() and period.strip().isdigit():
            found.append(int(limit) / int(period))
    return found


def cache_sizes(root: str = "/sys/devices/system/cpu/cpu0/cache") -> tuple[int, ...]:
    """Bytes of the data caches, nearest first; the defaults where the system does not say."""
    found: dict[int, int] = {}
    for i in range(8):
        kind = _text(f"{root}/index{i}/type").strip()
        level = _text(f"{root}/index{i}/level").strip()
        size = _text(f"{root}/index{i}/size").strip()
        if kind in ("Data", "Unified") and level.isdigit() and size[:-1].isdigit():
            found[int(level)] = int(size[:-1]) << {"K": 10, "M": 20}.get(size[-1], 0)
    return tuple(found[level] for level in sorted(found)) or DEFAULT_CACHES


def _text(path: str) -> str:
    """The content of a small system file; empty where there is none."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
