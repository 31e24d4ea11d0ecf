"""Target: what a machine can do. Scheduler, code generation and conformance kit rely on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .dtype import DType
from .uop.ops import Ops


class MatrixUnit(NamedTuple):
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
    """A machine as the compiler sees it. What `ops` lacks is decomposed before rendering.

    What every machine must have stands in `device/least.py`; a device with less is not opened.
    Sizes are in bytes. Fields marked *kept for later* describe a machine and change nothing yet.
    """

    # The name of the device as in POLY_DEV ("cpu"), and of the kind of machine, which is part of
    # the key under which kernels are kept on disk ("x86_64-znver3").
    name: str
    arch: str
    # Operation -> the scalar dtypes it works on; no program has any other. For comparisons the
    # dtype compared, for LOAD and STORE what memory holds (never bool, which is a byte there), for
    # CAST and BITCAST both sides. LANES goes with vectors. Structure (PARAM, RANGE, INDEX, ...) and
    # moves of lanes (BROADCAST, VECTOR, EXTRACT, SHUFFLE) need no entry: each machine that has a
    # dtype, or vectors of it, has those.
    ops: Mapping[Ops, frozenset[DType]]
    # Error of a listed operation in units of the last place, 0 if not stated. Of EXP2, LOG2, SIN,
    # RECIP and RSQRT the compiler takes its own polynomials where the machine's error is above 2;
    # the kit allows each operation what is stated (those five 4 if nothing is).
    ulp: Mapping[tuple[Ops, DType], float] = field(default_factory=dict)
    # What of IEEE 754 the machine does: "nan" and "subnormal" numbers as they should be (if not,
    # the kit leaves them out), "no_contract" (no MUL and ADD rounded as one; if they are, the kit
    # allows small differences), "inf_literal" (its language has infinities; kept for later).
    exact: frozenset[str] = frozenset({"nan", "subnormal", "no_contract", "inf_literal"})
    # Size of a vector register; 0: scalar values only. Programs then have up to
    # vector_bytes / itemsize lanes of the widest dtype computed with. A vector of offsets beside
    # narrow lanes may be larger: no value has more than vector_bytes lanes.
    vector_bytes: int = 0
    # Sizes that one LOAD or STORE of a buffer may have: with vectors, all powers of two up to
    # vector_bytes. With twice that, programs may have values of two vectors side by side, too.
    # Addresses are multiples of the element, not of the vector.
    memory_bytes: tuple[int, ...] = ()
    # May the gate of a vector LOAD or STORE have one bit per lane? If not, such an access comes as
    # one for each lane.
    lane_gates: bool = False
    # How many vectors one SHUFFLE may take lanes from, 1 or 2. With 2, what is read along one axis
    # and written along another is turned in registers, a square of lanes at a time.
    shuffle_sources: int = 1
    store_bytes: int = 1  # narrowest store that spares its neighbours; only 1 is accepted yet
    align: int = 64  # of every buffer, and of every offset in the arena
    # Of a tensor, and of the scratch memory that a step's kernels share; who needs more gets a
    # DeviceMemoryError, and `alloc` is not asked.
    max_buffer_bytes: int = 1 << 62
    registers: int = 16  # vector registers (scalar ones without vectors): size of a register tile
    cache_bytes: tuple[int, ...] = (32 << 10, 512 << 10)  # per core, nearest first: size of blocks
    cores: int = 1  # how many blocks of a grid can run at once; for your own Device.prepare
    max_grid: tuple[int, int, int] = (1 << 62, 1, 1)  # kept for later: grids are not cut to it
    max_block: tuple[int, int, int] = (1, 1, 1)  # threads of a block; kept for later
    warp: int = 0  # threads in lockstep, 0: unknown; kept for later
    shared_bytes: int = 0  # memory shared by the threads of a block; kept for later
    barriers: bool = False  # between the threads of a block; kept for later
    atomics: frozenset[tuple[Ops, DType]] = frozenset()  # kept for later
    matrix_units: tuple[MatrixUnit, ...] = ()  # kept for later
    max_buffers: int = 64  # of one kernel, at least 4: larger kernels are split
    # Can a handle alias a part of another? If not, override Device.prepare, which addresses
    # (arena, offset) itself.
    views: bool = True
    peer_copy: bool = False  # does Allocator.copy reach other devices directly; kept for later
    host_visible: bool = True  # can the host read a handle's memory in place; kept for later
    asynchronous: bool = False  # do launches return before they end; kept for later
    # Bind every parallel range to GRID and make nothing else of a kernel: no vectors, no tiles. The
    # reference device asks for it; so may one whose own compiler does all of this.
    grid_only: bool = False

    @property
    def float_lanes(self) -> int:
        """How many float32 a vector has; 0 without vectors."""
        return self.vector_bytes // 4

    def supports(self, op: Ops, dtype: DType) -> bool:
        return dtype.scalar in self.ops.get(op, ())
