"""A function being written as LLVM text: names, types, constants, declarations.

`render.py` prints a program's control flow and memory; `arithmetic.py` its values. Both append to
one `Body`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from polygrad.dtype import DType, canonical, dtypes

from .lines import Lines

_SCALARS = {"bool": "i1", "float32": "float", "float64": "double"} | dict.fromkeys(
    ("float16", "bfloat16"), "i16"
)


def scalar_type(dtype: DType) -> str:
    """How one element looks in a register. A half is the 16 bits it has in memory."""
    return _SCALARS.get(dtype.scalar.name) or f"i{dtype.bits}"


def type_of(dtype: DType) -> str:
    return vector(scalar_type(dtype), dtype.lanes)


def vector(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def literal(dtype: DType, value: Any) -> str:
    """A constant; a tuple gives the lanes of a vector, a number all of them."""
    if dtype.lanes > 1:
        lanes = value if isinstance(value, tuple) else (value,) * dtype.lanes
        return vector_literal(dtype, [literal(dtype.scalar, v) for v in lanes])
    if isinstance(value, tuple):
        (value,) = value
    print_value = _LITERALS.get(dtype.name)
    return print_value(canonical(dtype, value)) if print_value else str(int(value))


ZERO = ("0", "0x0000000000000000", "false")  # of integers, floats (not -0.0) and bools


def vector_literal(dtype: DType, lanes: Sequence[str]) -> str:
    if all(v in ZERO for v in lanes):
        return "zeroinitializer"
    scalar = scalar_type(dtype)
    return f"<{', '.join(f'{scalar} {v}' for v in lanes)}>"


def _bits(format: str, value: float) -> int:
    return int.from_bytes(struct.pack(format, value), "little")


_LITERALS: dict[str, Callable[[Any], str]] = {
    "bool": lambda v: "true" if v else "false",
    # LLVM writes a float as the double of the same value
    "float32": lambda v: f"0x{_bits('<d', v):016X}",
    "float64": lambda v: f"0x{_bits('<d', v):016X}",
    "float16": lambda v: str(_bits("<e", v)),
    "bfloat16": lambda v: str(_bits("<f", v) >> 16),
}


class Body(Lines):
    """Lines of one function; `declared` collects what the module must declare."""

    def __init__(self, declared: dict[str, str]) -> None:
        super().__init__()
        self.declared = declared
        self.label = "entry"  # of the block being written

    def op(self, text: str) -> str:
        """An instruction without effect that depends on its operands alone; its name."""
        name = self._known.get(text)
        return name if name is not None else self.learn(text, self.fetch(text))

    def fetch(self, text: str) -> str:
        """An instruction that reads memory; its name."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"{name} = {text}")
        return name

    def head(self, text: str) -> str:
        """The same in the function's head, executed once."""
        self._count += 1
        name = f"%v{self._count}"
        self.entry.append(f"{name} = {text}")
        return name

    def block(self, name: str) -> None:
        """Begin the block `name`; the one before falls into it unless it ended with a branch."""
        self.lines.append(f"{name}:")
        self.label = name

    def call(self, name: str, result: str, *arguments: tuple[str, str]) -> str:
        """Call the intrinsic `name` on (type, value) pairs."""
        types = ", ".join(t for t, _ in arguments)
        self.declared[name] = f"declare {result} @{name}({types})"
        return self.op(f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in arguments)})")

    def call_like(self, name: str, dtype: DType, *values: str) -> str:
        """Call the overloaded intrinsic `llvm.<name>` whose operands all have the result's type."""
        t = type_of(dtype)
        return self.call(f"llvm.{name}.{suffix(dtype)}", t, *((t, v) for v in values))


def suffix(dtype: DType) -> str:
    """How an intrinsic's name spells a type: f32, v8i16."""
    kind = "f" if dtype in _REAL or dtype.scalar in _REAL else "i"
    lanes = f"v{dtype.lanes}" if dtype.lanes > 1 else ""
    return f"{lanes}{kind}{1 if dtype.kind == 'bool' else dtype.bits}"


_REAL = (dtypes.float32, dtypes.float64)
