"""Element types: what a tensor, a buffer or a register holds.

The lowest floor but for `float_layout.py`. A `DType` is an interned object, so `is` is equality.
`dtypes` names every one of them. Promotion follows a lattice of kinds in which a Python scalar
never widens a tensor's kind (numpy's and torch's rule for weak scalars).

Floats below 32 bits are for storage: a number is stored in them, arithmetic is float32's, and its
result is rounded to the type again (`is_narrow`). Those of 8 bits meet no other float unasked.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

from .errors import DTypeError, did_you_mean, shown
from .float_layout import LAYOUTS, FloatLayout


class DType:
    """One element type, or a vector of `lanes` of it (kernels only).

    `kind` is one of ``bool int uint float index``; `index` is the type of offsets and loop counters
    inside kernels, which `codegen.lower` makes 32 or 64 bits wide by interval. `format` is the code
    of the struct module, empty where it has none; `layout` says how a float lies in bits.
    """

    __slots__ = (
        "name", "itemsize", "kind", "format", "priority", "scalar", "lanes", "layout", "_vectors",
        "bits", "is_float", "is_int", "is_narrow", "is_unsigned",
    )  # fmt: skip

    bits: int  # of one scalar; a bool counts 8, the byte it occupies in memory
    is_float: bool
    is_int: bool  # signed, unsigned and index types; not bool
    is_narrow: bool  # a float below 32 bits: stored in memory, computed with in float32
    is_unsigned: bool

    def __init__(
        self,
        name: str,
        itemsize: int,
        kind: str,
        format: str,
        priority: int,
        scalar: DType | None = None,
        lanes: int = 1,
    ) -> None:
        self.name, self.itemsize, self.kind, self.format = name, itemsize, kind, format
        self.priority, self.scalar, self.lanes = priority, scalar or self, lanes
        self.layout: FloatLayout | None = LAYOUTS.get(self.scalar.name)
        self._vectors: dict[int, DType] = {}
        # Asked for at every operation, so not worked out each time.
        self.bits = self.scalar.itemsize * 8
        self.is_float, self.is_unsigned = kind == "float", kind == "uint"
        self.is_int = kind in ("int", "uint", "index")
        self.is_narrow = self.is_float and self.scalar.itemsize < 4

    def vec(self, lanes: int) -> DType:
        """The vector of `lanes` elements of this scalar type; itself for one lane."""
        if self.lanes != 1:
            raise DTypeError(f"{self.name} is a vector type already")
        if lanes == 1:
            return self
        found = self._vectors.get(lanes)
        if found is None:
            name = f"{self.name}x{lanes}"
            made = DType(name, self.itemsize * lanes, self.kind, "", self.priority, self, lanes)
            found = self._vectors.setdefault(lanes, made)
        return found

    @property
    def min(self) -> int | float:
        """Smallest value; -inf for floats that have it."""
        if self.layout is not None:
            return -self.max
        if self.kind in ("int", "index"):
            return -(1 << (self.bits - 1))
        return 0

    @property
    def max(self) -> int | float:
        """Largest value; inf for floats that have it."""
        if self.layout is not None:
            return math.inf if self.layout.has_infinity else self.layout.maximum
        if self.kind == "bool":
            return 1
        return (1 << (self.bits - (self.kind != "uint"))) - 1

    @property
    def arithmetic(self) -> DType:
        """The scalar type that arithmetic on this one is done in: float32 for a narrow float."""
        return dtypes.float32 if self.is_narrow else self.scalar

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __eq__(self, other: object) -> bool:
        """Whether `other` is this dtype or names it, as numpy's do: `t.dtype == "float32"`."""
        return other is self or (not isinstance(other, DType) and _found(other) is self)

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, tuple[str, int]]:
        return _named, (self.scalar.name, self.lanes)


class dtypes:
    """Every element type by name: ``dtypes.float32``, ``dtypes.int8``, …"""

    bool: Final = DType("bool", 1, "bool", "?", 0)
    int8: Final = DType("int8", 1, "int", "b", 1)
    uint8: Final = DType("uint8", 1, "uint", "B", 2)
    int16: Final = DType("int16", 2, "int", "h", 3)
    uint16: Final = DType("uint16", 2, "uint", "H", 4)
    int32: Final = DType("int32", 4, "int", "i", 5)
    uint32: Final = DType("uint32", 4, "uint", "I", 6)
    int64: Final = DType("int64", 8, "int", "q", 7)
    uint64: Final = DType("uint64", 8, "uint", "Q", 8)
    float8_e4m3fn: Final = DType("float8_e4m3fn", 1, "float", "", 9)
    float8_e5m2: Final = DType("float8_e5m2", 1, "float", "", 9)
    float8_e4m3fnuz: Final = DType("float8_e4m3fnuz", 1, "float", "", 9)
    float8_e5m2fnuz: Final = DType("float8_e5m2fnuz", 1, "float", "", 9)
    float16: Final = DType("float16", 2, "float", "e", 10)
    bfloat16: Final = DType("bfloat16", 2, "float", "", 11)
    float32: Final = DType("float32", 4, "float", "f", 12)
    float64: Final = DType("float64", 8, "float", "d", 13)
    index: Final = DType("index", 8, "index", "q", 7)
    void: Final = DType("void", 0, "void", "", -1)

    default_int: Final = int32
    default_float: Final = float32


TENSOR_DTYPES: Final[dict[str, DType]] = {
    d.name: d
    for d in (
        dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32,
        dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.float8_e4m3fn, dtypes.float8_e5m2,
        dtypes.float8_e4m3fnuz, dtypes.float8_e5m2fnuz, dtypes.float16, dtypes.bfloat16,
        dtypes.float32, dtypes.float64,
    )
}  # fmt: skip
ALIASES: Final = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "long": "int64",
    "float8_e4m3": "float8_e4m3fn",
    "fp8e4m3": "float8_e4m3fn",
    "fp8e5m2": "float8_e5m2",
    "fp8e4m3fnuz": "float8_e4m3fnuz",
    "fp8e5m2fnuz": "float8_e5m2fnuz",
}
_PYTHON: Final[dict[Any, DType]] = {
    bool: dtypes.bool,
    int: dtypes.default_int,
    float: dtypes.default_float,
}
_ALL: Final = TENSOR_DTYPES | {"index": dtypes.index, "void": dtypes.void}


def _named(name: str, lanes: int) -> DType:
    return _ALL[name].vec(lanes)


def to_dtype(spec: Any) -> DType:
    """The `DType` that `spec` names: a DType, a name, a Python type, a numpy dtype or scalar type.

    Raises `DTypeError` that lists the valid names.
    """
    if isinstance(spec, DType):
        if spec.name in TENSOR_DTYPES:
            return spec
        raise DTypeError(f"{spec.name} is no dtype of tensors. Valid: {', '.join(TENSOR_DTYPES)}.")
    found = _found(spec)
    if found is not None:
        return found
    name = _name(spec)
    given = name if isinstance(name, str) else spec
    hint = did_you_mean(str(given), [*TENSOR_DTYPES, *ALIASES])
    raise DTypeError(f"no dtype named {shown(given)}.{hint} Valid: {', '.join(TENSOR_DTYPES)}.")


def _found(spec: Any) -> DType | None:
    """The dtype that something else names; None if it names none."""
    if isinstance(spec, str):
        return TENSOR_DTYPES.get(ALIASES.get(spec, spec))
    if isinstance(spec, type) and spec in _PYTHON:
        return _PYTHON[spec]
    name = _name(spec)
    return TENSOR_DTYPES.get(name) if isinstance(name, str) else None


def _name(spec: Any) -> Any:
    """The name of a numpy dtype or scalar type, or a text itself."""
    return spec if isinstance(spec, str) else getattr(spec, "name", getattr(spec, "__name__", None))


def promote(a: DType, b: DType) -> DType:
    """The type of `a op b`: torch's lattice (bool < ints < floats; half with bfloat16 is float32).

    Mixed signedness goes to the next wider signed type; with uint64 it is float32, as numpy's rule
    (float64) would widen the kind of everything that touches it. An 8-bit float meets no other type
    (torch's rule; jax's for floats): raises DTypeError.
    """
    if a is b:
        return a
    if any(d.is_float and d.itemsize == 1 for d in (a, b)):
        raise DTypeError(
            f"{a.name} and {b.name} have no common dtype: 8-bit floats do not promote. Cast one,"
            f" for example to float32 with .float()."
        )
    if a.kind == "bool" or b.kind == "bool":
        return b if a.kind == "bool" else a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    lo, hi = (a, b) if a.priority < b.priority else (b, a)
    if a.is_float:
        both_half = lo is dtypes.float16 and hi is dtypes.bfloat16
        return dtypes.float32 if both_half else hi
    if lo.kind == hi.kind:
        return hi
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned is dtypes.uint64:
        return dtypes.float32
    wider = {1: dtypes.int16, 2: dtypes.int32, 4: dtypes.int64}
    return wider[unsigned.itemsize]


def promote_scalar(a: DType, value: bool | int | float) -> DType:
    """The type of `tensor op number`: the tensor's own unless the number's kind is higher."""
    if isinstance(value, bool):
        return a
    if isinstance(value, int):
        return dtypes.default_int if a.kind == "bool" else a
    return a if a.is_float else dtypes.default_float


def misfit(dtype: DType, value: bool | int | float) -> str:
    """Why a number is no value of `dtype`: `300 does not fit uint8 (0 to 255)`; empty if it is."""
    if dtype.is_int and not dtype.min <= value <= dtype.max:
        return f"{shown(value)} does not fit {dtype.name} ({int(dtype.min)} to {int(dtype.max)})"
    if dtype.is_float and isinstance(value, int) and value.bit_length() > 1023:
        return f"{shown(value)} does not fit {dtype.name}"
    return ""


def sum_dtype(d: DType) -> DType:
    """The type of a sum or product of many, numpy's rule: floats stay, bools and signed integers
    are int64, unsigned ones uint64."""
    if d.is_float:
        return d
    return dtypes.uint64 if d.is_unsigned else dtypes.int64


# ---- numbers and bits


def canonical(dtype: DType, value: Any) -> bool | int | float:
    """`value` as this type stores it: floats round to even, integers wrap, bool is 0 or 1."""
    if dtype.kind == "bool":
        return bool(value)
    if dtype.layout is not None:
        return _rounded(dtype, _from_int(dtype, value) if isinstance(value, int) else float(value))
    number = int(value)
    if dtype.kind == "index":
        return number
    number &= (1 << dtype.bits) - 1
    negative = dtype.kind == "int" and number >> (dtype.bits - 1)
    return number - (1 << dtype.bits) if negative else number


def _rounded(dtype: DType, value: float) -> float:
    """The nearest number of a float type."""
    if dtype is dtypes.float64:
        return value
    if not dtype.format:
        assert dtype.layout is not None
        return dtype.layout.round(value)
    try:
        return float(struct.unpack(dtype.format, struct.pack(dtype.format, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _from_int(dtype: DType, value: int) -> float:
    """An integer rounded once to float32 (then to a narrower type, as machines do) or float64."""
    if dtype is dtypes.float64 or abs(value) < 1 << 53:
        return float(value)
    # Keep 50 bits and or the rest into the last one: float64 holds that exactly, and rounding it
    # to 24 bits then gives what rounding the integer would.
    shift = abs(value).bit_length() - 50
    sticky = (abs(value) >> shift) | (abs(value) & ((1 << shift) - 1) != 0)
    return math.copysign(_rounded(dtypes.float32, math.ldexp(sticky, shift)), value)


def pack(dtype: DType, values: Sequence[Any]) -> bytes:
    """Canonical values as they lie in memory."""
    if dtype.format:
        return struct.pack(f"<{len(values)}{dtype.format}", *values)
    assert dtype.layout is not None
    return struct.pack(f"<{len(values)}{word_format(dtype)}", *map(dtype.layout.encode, values))


def unpack(dtype: DType, data: Any) -> list[Any]:
    """What `pack` packed, as Python numbers."""
    n = memoryview(data).nbytes // dtype.itemsize
    if dtype.format:
        return list(struct.unpack(f"<{n}{dtype.format}", data))
    assert dtype.layout is not None
    return list(map(dtype.layout.decode, struct.unpack(f"<{n}{word_format(dtype)}", data)))


def word_format(dtype: DType) -> str:
    """The code of the struct module for the bits of one element: its own, or an unsigned word's."""
    return dtype.format or "BH"[dtype.itemsize - 1]
