"""A function being written as C text: types, names, constants, and the helpers that it calls.

The language is C11 with the vector extensions that gcc and clang share. A mask has no type of its
own there: it is a vector of signed integers, 0 or -1, as wide as the elements that were compared.
So a name's C type is kept beside it, and a mask is converted where another width is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from polygrad.dtype import DType, canonical

from .lines import Lines

_SCALARS = {"bool": "bool", "float32": "f32", "float64": "f64"} | dict.fromkeys(
    ("float16", "bfloat16"), "u16"
)
PRELUDE = """\
#if !defined(__has_builtin)
#error "polygrad needs gcc 12 or clang"
#elif !__has_builtin(__builtin_shufflevector)
#error "polygrad needs gcc 12 or clang"
#endif
typedef _Bool bool;
typedef __INT8_TYPE__ i8;
typedef __INT16_TYPE__ i16;
typedef __INT32_TYPE__ i32;
typedef __INT64_TYPE__ i64;
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef float f32;
typedef double f64;
#define HELPER static inline __attribute__((always_inline))
"""


class CType(NamedTuple):
    """`lanes` of a scalar type such as f32."""

    scalar: str
    lanes: int = 1

    @property
    def name(self) -> str:
        return self.scalar if self.lanes == 1 else f"{self.scalar}x{self.lanes}"

    @property
    def bytes(self) -> int:
        return (1 if self.scalar == "bool" else int(self.scalar[1:]) // 8) * self.lanes

    @property
    def mask(self) -> CType:
        """What comparing two of these gives."""
        if self.lanes == 1:
            return CType("bool")
        return CType(f"i{8 * self.bytes // self.lanes}", self.lanes)


MASK = CType("i32")  # the elements of a mask that nothing was compared for


def type_of(dtype: DType) -> CType:
    """How a value looks in a register. A half is the 16 bits it has in memory."""
    if dtype.kind == "bool" and dtype.lanes > 1:
        return CType(MASK.scalar, dtype.lanes)
    scalar = dtype.scalar.name
    sign = "u" if dtype.is_unsigned else "i"
    return CType(_SCALARS.get(scalar) or f"{sign}{dtype.bits}", dtype.lanes)


def literal(dtype: DType, value: Any) -> str:
    """A scalar constant."""
    if isinstance(value, tuple):
        (value,) = value
    usual = _float if dtype.is_float else _integer
    print_value: Callable[[Any, DType], str] = _LITERALS.get(dtype.name, usual)
    return print_value(canonical(dtype, value), dtype)


def _integer(value: Any, dtype: DType) -> str:
    number = int(value)
    ending = "u" * dtype.is_unsigned + "ll" * (dtype.bits == 64)
    if number == dtype.min and number:  # C has no negative literals: -x may not be a number of it
        return f"({number + 1}{ending} - 1)"
    return f"{number}{ending}"


def _float(value: float, dtype: DType) -> str:
    ending = "f" if dtype.bits == 32 else ""
    if math.isfinite(value):
        return f"{value!r}{ending}"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return (
        f'{sign}__builtin_nan{ending}("")'
        if math.isnan(value)
        else f"{sign}__builtin_inf{ending}()"
    )


def _half(value: float, dtype: DType) -> str:
    import struct

    (bits,) = struct.unpack("<H", struct.pack("<e", value))
    return f"{bits}u"


def _bfloat(value: float, dtype: DType) -> str:
    import struct

    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return f"{bits >> 16}u"


_LITERALS: dict[str, Callable[[Any, DType], str]] = {
    "bool": lambda value, _: str(int(value)),
    "float16": _half,
    "bfloat16": _bfloat,
}


class CBody(Lines):
    """Lines of one function; `declared` collects what must stand before it, by name.

    `types` tells the C type of every name that a line defined.
    """

    def __init__(self, declared: dict[str, str]) -> None:
        super().__init__()
        self.declared = declared
        self.types: dict[str, CType] = {}
        self.indent = 1

    def emit(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def op(self, type: CType, text: str) -> str:
        """The name of an expression without effect that depends on its operands alone."""
        key = f"{type.name} = {text}"
        name = self._known.get(key)
        return name if name is not None else self.learn(key, self.fetch(type, text))

    def fetch(self, type: CType, text: str) -> str:
        """The name of an expression that reads memory."""
        name = self._name(type)
        self.emit(f"{self.type(type)} {name} = {text};")
        return name

    def head(self, type: CType, text: str = "") -> str:
        """A variable at the function's head."""
        name = self._name(type)
        self.entry.append(f"  {self.type(type)} {name}{' = ' if text else ''}{text};")
        return name

    def _name(self, type: CType) -> str:
        self._count += 1
        name = f"v{self._count}"
        self.types[name] = type
        return name

    # ---- types, constants, helpers

    def type(self, type: CType) -> str:
        """The name of a type, which is declared."""
        name = type.name
        if type.lanes > 1 and name not in self.declared:
            of = f"__attribute__((vector_size({type.bytes})))"
            self.declared[name] = f"typedef {type.scalar} {name} {of};"
        return name

    def unaligned(self, type: CType) -> str:
        """The type of a vector that is aligned as its elements are."""
        name = f"{self.type(type)}_at"
        if name not in self.declared:
            of = f"__attribute__((aligned({type.bytes // type.lanes})))"
            self.declared[name] = f"typedef {type.name} {name} {of};"
        return name

    def vector(self, type: CType, lanes: Sequence[str]) -> str:
        """The name of a vector made of scalars."""
        if lanes.count(lanes[0]) < len(lanes):
            return self.op(type, f"({self.type(type)}){{{', '.join(lanes)}}}")
        name = f"ALL{type.lanes}"
        self.declared.setdefault(name, f"#define {name}(x) {{{', '.join('x' * type.lanes)}}}")
        return self.op(type, f"({self.type(type)}){name}({lanes[0]})")

    def constant(self, dtype: DType, value: Any) -> str:
        """A literal, or the name of a vector; a tuple gives its lanes, a number all of them."""
        if dtype.lanes == 1:
            return literal(dtype, value)
        lanes = value if isinstance(value, tuple) else (value,) * dtype.lanes
        sign = "-" if dtype.kind == "bool" else ""  # a mask's true is -1
        return self.vector(type_of(dtype), [sign + literal(dtype.scalar, v) for v in lanes])

    def typed(self, name: str, dtype: DType) -> CType:
        """The C type of a value: that of its name, or a literal's."""
        return self.types.get(name) or type_of(dtype)

    def mask(self, name: str, wanted: CType) -> str:
        """The mask `name` with elements as wide as those of `wanted`."""
        if self.types[name] == wanted.mask:
            return name
        return self.convert(name, wanted.mask)

    def convert(self, name: str, type: CType) -> str:
        """A number of another type, by C's rules."""
        if type.lanes == 1:
            return self.op(type, f"({type.name}){name}")
        return self.op(type, f"__builtin_convertvector({name}, {self.type(type)})")

    def call(self, helper: str, result: CType, text: str, *arguments: str) -> str:
        """Call a helper function, whose definition is `text`."""
        self.declared.setdefault(helper, text)
        return self.op(result, f"{helper}({', '.join(arguments)})")
