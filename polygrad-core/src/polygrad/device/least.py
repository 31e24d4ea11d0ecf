"""The least machine: what a Target must have, because nothing is composed in place of it.

One table of operations and one of numbers. A device is opened only with all of it, so the compiler
may count on it and the author of a backend is told at once, by name; the conformance kit asks
nothing else of a Target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ..dtype import TENSOR_DTYPES, DType, dtypes
from ..target import Target
from ..uop.ops import Ops

INTS: Final = frozenset({
    dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32,
})  # fmt: skip
FLOATS: Final = frozenset({dtypes.float32})
BOOL: Final = frozenset({dtypes.bool})
LONG: Final = frozenset({dtypes.int64, dtypes.uint64})
DOUBLE: Final = frozenset({dtypes.float64})

# Which dtypes each operation is needed for, of those that the machine has: "ints", "floats" and
# "bool" of every machine, 64-bit types where ADD lists them.
OPERATIONS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("ints", "floats"), "LOAD STORE ADD SUB MUL NEG MIN MAX CMPLT CMPLE CMPEQ CMPNE BITCAST"),
    (("ints", "floats", "bool"), "WHERE CAST"),
    (("floats",), "DIV SQRT"),
    (("ints",), "IDIV IMOD SHL SHR"),
    (("ints", "bool"), "AND OR XOR NOT"),
)
# What a narrow float needs that LOAD lists; one that it does not is an unsigned word in memory.
_NARROW: Final = "STORE WHERE CAST BITCAST"

EXACT: Final = frozenset({"nan", "subnormal", "no_contract", "inf_literal"})
LEAST_BUFFERS: Final = 4


def lacks(target: Target) -> list[str]:
    """What keeps a device with this Target from working, each a clause that says what to do."""
    return [*_operations(target), *_numbers(target)]


# ---- operations


def kinds(target: Target) -> dict[str, frozenset[DType]]:
    """The dtypes that a machine computes with, by kind; float64 is computed by way of int64."""
    doubles = DOUBLE if target.supports(Ops.ADD, dtypes.float64) else frozenset()
    has_long = doubles or any(target.supports(Ops.ADD, d) for d in LONG)
    return {
        "ints": INTS | (LONG if has_long else frozenset()),
        "floats": FLOATS | doubles,
        "bool": BOOL,
    }


def _operations(target: Target) -> Iterator[str]:
    known = kinds(target)
    wanted = {
        Ops[name]: frozenset().union(*(known[kind] for kind in which))
        for which, names in OPERATIONS
        for name in names.split()
    }
    narrow = frozenset(
        d for d in TENSOR_DTYPES.values() if d.is_narrow and target.supports(Ops.LOAD, d)
    )
    for name in _NARROW.split():
        wanted[Ops[name]] |= narrow
    if target.vector_bytes:
        wanted[Ops.LANES] = known["ints"] | known["floats"]
    for op, dtypes_ in wanted.items():
        missing = dtypes_.difference(target.ops.get(op, ()))
        if missing:
            names = ", ".join(d.name for d in sorted(missing, key=lambda d: d.priority))
            yield f"ops lacks {op.name} of {names}"


# ---- numbers


def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _widths(target: Target) -> list[int]:
    """Powers of two up to a whole vector: lanes of narrow types move beside those of wide ones."""
    return [1 << i for i in range(target.vector_bytes.bit_length())]


# field -> what it must be, in words, and the test of it
NUMBERS: Final[tuple[tuple[str, str, Callable[[Target], bool]], ...]] = (
    ("name", "a name", lambda t: bool(t.name)),
    ("arch", "a name of the kind of machine", lambda t: bool(t.arch)),
    ("max_buffers", f"at least {LEAST_BUFFERS}", lambda t: t.max_buffers >= LEAST_BUFFERS),
    ("max_buffer_bytes", "above 0", lambda t: t.max_buffer_bytes > 0),
    ("align", "a power of two", lambda t: _is_power_of_two(t.align)),
    ("vector_bytes", "0 (no vectors) or a power of two",
     lambda t: t.vector_bytes == 0 or _is_power_of_two(t.vector_bytes)),
    ("memory_bytes", "every power of two from 1 to vector_bytes, where there are vectors",
     lambda t: {*_widths(t)} <= {*t.memory_bytes}),
    ("shuffle_sources", "1 or 2", lambda t: t.shuffle_sources in (1, 2)),
    ("store_bytes", "1: the compiler knows no wider one", lambda t: t.store_bytes == 1),
    ("cores", "at least 1", lambda t: t.cores >= 1),
    ("registers", "at least 1", lambda t: t.registers >= 1),
    ("cache_bytes", "one size or more, in bytes; without a cache, how much is near",
     lambda t: bool(t.cache_bytes) and all(n > 0 for n in t.cache_bytes)),
    ("max_grid", "three numbers above 0", lambda t: _three(t.max_grid)),
    ("max_block", "three numbers above 0", lambda t: _three(t.max_block)),
    ("exact", f"some of {', '.join(sorted(EXACT))}", lambda t: t.exact <= EXACT),
)  # fmt: skip


def _three(sizes: tuple[int, ...]) -> bool:
    return len(sizes) == 3 and all(n > 0 for n in sizes)


def _numbers(target: Target) -> Iterator[str]:
    for field, wanted, holds in NUMBERS:
        if not holds(target):
            yield f"{field} is {getattr(target, field)!r}; it must be {wanted}"
