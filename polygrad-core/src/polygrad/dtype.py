"""Element types: what a tensor, a buffer or a register holds.

The lowest floor: it imports only the standard library. A `DType` is an interned object, so `is` is
equality. `dtypes` names every one of them. Promotion follows a lattice of kinds in which a Python
scalar never widens a tensor's kind (numpy's and torch's rule for weak scalars).
"""

from __future__ import annotations

import struct
from typing import Any, Final

from .errors import DTypeError, did_you_mean, shown


class DType:
    """One element type, or a vector of `lanes` of it (kernels only).

    `kind` is one of ``bool int uint float index``; `index` is the type of offsets and loop counters
    inside kernels, which `codegen.lower` makes 32 or 64 bits wide by interval.
    """

    __slots__ = ("name", "itemsize", "kind", "format", "priority", "scalar", "lanes", "_vectors")

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
        self._vectors: dict[int, DType] = {}

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
    def bits(self) -> int:
        """Bits of one scalar; a bool counts 8, the byte it occupies in memory."""
        return self.scalar.itemsize * 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """True for signed, unsigned and index types; False for bool."""
        return self.kind in ("int", "uint", "index")

    @property
    def is_unsigned(self) -> bool:
        return self.kind == "uint"

    @property
    def min(self) -> int | float:
        """Smallest value; -inf for floats."""
        if self.is_float:
            return float("-inf")
        if self.kind in ("int", "index"):
            return -(1 << (self.bits - 1))
        return 0

    @property
    def max(self) -> int | float:
        """Largest value; inf for floats."""
        if self.is_float:
            return float("inf")
        if self.kind == "bool":
            return 1
        return (1 << (self.bits - (self.kind != "uint"))) - 1

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

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
    float16: Final = DType("float16", 2, "float", "e", 9)
    bfloat16: Final = DType("bfloat16", 2, "float", "", 10)
    float32: Final = DType("float32", 4, "float", "f", 11)
    float64: Final = DType("float64", 8, "float", "d", 12)
    index: Final = DType("index", 8, "index", "q", 7)
    void: Final = DType("void", 0, "void", "", -1)

    default_int: Final = int32
    default_float: Final = float32


TENSOR_DTYPES: Final[dict[str, DType]] = {
    d.name: d
    for d in (
        dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32,
        dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.float16, dtypes.bfloat16,
        dtypes.float32, dtypes.float64,
    )
}  # fmt: skip
ALIASES: Final = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "long": "int64",
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
    if spec is bool:
        return dtypes.bool
    if spec is int:
        return dtypes.default_int
    if spec is float:
        return dtypes.default_float
    name = spec if isinstance(spec, str) else getattr(spec, "name", getattr(spec, "__name__", None))
    if isinstance(name, str):
        name = ALIASES.get(name, name)
        if name in TENSOR_DTYPES:
            return TENSOR_DTYPES[name]
    given = name if isinstance(name, str) else spec
    hint = did_you_mean(str(given), [*TENSOR_DTYPES, *ALIASES])
    raise DTypeError(f"no dtype named {shown(given)}.{hint} Valid: {', '.join(TENSOR_DTYPES)}.")


def promote(a: DType, b: DType) -> DType:
    """The type of `a op b`: torch's lattice (bool < ints < floats; half with bfloat16 is float32).

    Mixed signedness goes to the next wider signed type; with uint64 it is float32, as numpy's rule
    (float64) would widen the kind of everything that touches it.
    """
    if a is b:
        return a
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
    """The type of a sum: floats and 64-bit integers stay, others get 32 bits of their kind."""
    if d.is_float:
        return d
    if d.kind == "bool" or d.kind == "int":
        return dtypes.int64 if d.itemsize == 8 else dtypes.int32
    return dtypes.uint64 if d.itemsize == 8 else dtypes.uint32


def _round_bfloat16(value: float) -> float:
    bits = struct.unpack("<I", struct.pack("<f", _round_float32(value)))[0]
    if value != value:
        return value
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _round_float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _round_float16(value: float) -> float:
    try:
        return float(struct.unpack("<e", struct.pack("<e", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def canonical(dtype: DType, value: Any) -> bool | int | float:
    """`value` as this type stores it: floats round to even, integers wrap, bool is 0 or 1."""
    if dtype.kind == "bool":
        return bool(value)
    if dtype.is_float:
        value = float(value)
        if dtype is dtypes.float32:
            return _round_float32(value)
        if dtype is dtypes.float16:
            return _round_float16(value)
        return _round_bfloat16(value) if dtype is dtypes.bfloat16 else value
    number = int(value)
    if dtype.kind == "index":
        return number
    number &= (1 << dtype.bits) - 1
    negative = dtype.kind == "int" and number >> (dtype.bits - 1)
    return number - (1 << dtype.bits) if negative else number
