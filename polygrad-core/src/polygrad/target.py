"""Target: what a machine can do. Scheduler, code generation and conformance kit rely on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .dtype import DType
from .uop.ops import Ops


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """One matrix-unit shape: m x n x k, dtypes of a, b and c, threads that take part."""

    name: str
    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """A machine as the compiler sees it. What `ops` lacks is decomposed before rendering."""

    name: str  # "cpu"
    arch: str  # "x86_64-znver3"
    ops: Mapping[Ops, frozenset[DType]]  # native ops per dtype; LOAD's entry is what memory holds
    ulp: Mapping[tuple[Ops, DType], float] = field(default_factory=dict)  # error of native math
    exact: frozenset[str] = frozenset({"nan", "subnormal", "no_contract", "inf_literal"})
    vector_bytes: int = 0  # 0: scalar arithmetic only
    memory_bytes: tuple[int, ...] = ()  # legal widths of one LOAD or STORE
    lane_gates: bool = False  # may a gate have one bit per lane
    store_bytes: int = 1  # narrowest store that spares its neighbours
    align: int = 64  # of every buffer
    max_buffer_bytes: int = 1 << 62
    registers: int = 16  # vector registers
    cache_bytes: tuple[int, ...] = (32 << 10, 512 << 10)  # per core, nearest first
    cores: int = 1
    max_grid: tuple[int, int, int] = (1 << 62, 1, 1)
    max_block: tuple[int, int, int] = (1, 1, 1)
    warp: int = 0  # 0: unknown
    shared_bytes: int = 0
    barriers: bool = False
    atomics: frozenset[tuple[Ops, DType]] = frozenset()
    matrix_units: tuple[MatrixUnit, ...] = ()
    max_buffers: int = 64
    views: bool = True
    peer_copy: bool = False
    host_visible: bool = True
    asynchronous: bool = False
    grid_only: bool = False  # every parallel range is bound to GRID (the reference device)

    def supports(self, op: Ops, dtype: DType) -> bool:
        return dtype.scalar in self.ops.get(op, ())
