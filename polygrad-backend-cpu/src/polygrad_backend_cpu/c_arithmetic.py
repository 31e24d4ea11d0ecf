"""Values in C: one entry per operation of the contract, from its operands' names to an expression.

Every expression is a line of its own, assigned to a variable of its type, so integers narrower
than int wrap there. Nothing is contracted, reassociated or assumed of floats; signed integers wrap
and shifts are arithmetic, as the flags (c_compile.py) and the compilers promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from polygrad.contract import Instr
from polygrad.dtype import DType, dtypes
from polygrad.errors import UnsupportedOp
from polygrad.uop.ops import Ops

from . import c_helpers
from .c_body import CBody, CType, type_of
from .half import cast_half, is_half
from .lines import Emit, Value


class Operands(NamedTuple):
    """One instruction being printed: its operands' names and dtypes."""

    body: CBody
    fma: bool
    emit: Emit
    instr: Instr
    names: list[str]
    dtypes: list[DType]

    @property
    def type(self) -> CType:
        return type_of(self.instr.dtype)

    @property
    def values(self) -> list[Value]:
        return [Value(n, d) for n, d in zip(self.names, self.dtypes, strict=True)]


Printer = Callable[[Operands], str]

_BINARY = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.DIV: "/", Ops.AND: "&", Ops.OR: "|",
    Ops.XOR: "^", Ops.SHL: "<<", Ops.SHR: ">>",
}  # fmt: skip
_COMPARE = {Ops.CMPLT: "<", Ops.CMPLE: "<=", Ops.CMPEQ: "==", Ops.CMPNE: "!="}
_MASKS = {  # the same of masks
    Ops.CMPLT: "~{} & {}", Ops.CMPLE: "~{} | {}", Ops.CMPEQ: "~({} ^ {})", Ops.CMPNE: "{} ^ {}",
}  # fmt: skip
_FUNCTION = {
    Ops.SQRT: "sqrt", Ops.FLOOR: "floor", Ops.CEIL: "ceil", Ops.TRUNC: "trunc",
    Ops.ROUND: "rint",  # to even: nobody changes the rounding mode
    Ops.FMA: "fma",
}  # fmt: skip
_FLOATS_ONLY = (Ops.DIV,)
_BITS = (Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR)


def _masks(o: Operands) -> tuple[list[str], CType]:
    """Operands that are masks, brought to the width of the first, and their type."""
    first = o.body.types[o.names[0]]
    return [o.body.mask(n, first) for n in o.names], first


def _binary(o: Operands) -> str:
    op, dtype = o.instr.op, o.instr.dtype
    if op in (_BITS if dtype.is_float else _FLOATS_ONLY):
        raise UnsupportedOp(f"cpu has no {op} of {dtype.name}")
    names, type = _masks(o) if _is_mask(dtype) else (o.names, o.type)
    return o.body.op(type, f"{names[0]} {_BINARY[op]} {names[1]}")


def _is_mask(dtype: DType) -> bool:
    return dtype.kind == "bool" and dtype.lanes > 1


def _compare(o: Operands) -> str:
    if _is_mask(o.dtypes[0]):
        names, type = _masks(o)
        return o.body.op(type, _MASKS[o.instr.op].format(*names))
    type = type_of(o.dtypes[0]).mask
    text = f"{o.names[0]} {_COMPARE[o.instr.op]} {o.names[1]}"
    return o.body.op(type, f"({o.body.type(type)})({text})" if type.lanes > 1 else text)


def _extreme(o: Operands) -> str:
    a, b = o.values
    order = (a, b) if o.instr.op is Ops.MIN else (b, a)
    mask = o.emit(Ops.CMPLT, dtypes.bool.vec(o.instr.dtype.lanes), *order)
    return o.emit(Ops.WHERE, o.instr.dtype, mask, a, b).name


def _where(o: Operands) -> str:
    mask, a, b = o.names
    if o.instr.dtype.lanes == 1:
        return o.body.op(o.type, f"{mask} ? {a} : {b}")
    if _is_mask(o.instr.dtype):
        (mask, a, b), type = _masks(o)
        return o.body.op(type, f"({mask} & {a}) | (~{mask} & {b})")
    bits, t = o.body.type(o.type.mask), o.body.type(o.type)
    text = c_helpers.select(t, bits)
    return o.body.call(f"select_{t}", o.type, text, o.body.mask(mask, o.type), a, b)


def _divide(o: Operands) -> str:
    """Truncating division. The smallest integer over -1 traps on x86: it is 0 - a, remainder 0."""
    dtype, (a, b) = o.instr.dtype, o.values
    sign = "/" if o.instr.op is Ops.IDIV else "%"
    if dtype.is_unsigned or _constant(b.name) not in (None, -1):
        return o.body.op(o.type, f"{a.name} {sign} {b.name}")
    minus = o.emit(Ops.CMPEQ, dtypes.bool.vec(dtype.lanes), b, o.emit(Ops.CONST, dtype, arg=-1))
    safe = o.emit(Ops.WHERE, dtype, minus, o.emit(Ops.CONST, dtype, arg=1), b)
    plain = Value(o.body.op(o.type, f"{a.name} {sign} {safe.name}"), dtype)
    if sign == "%":
        return plain.name  # a % 1 is 0, as a % -1
    return o.emit(Ops.WHERE, dtype, minus, o.emit(Ops.NEG, dtype, a), plain).name


def _constant(text: str) -> int | None:
    digits = text.rstrip("ul")
    return int(digits) if digits.lstrip("-").isdigit() else None


def _negate(o: Operands) -> str:
    return o.body.op(o.type, f"-({o.names[0]})")


def _not(o: Operands) -> str:
    if o.instr.dtype is dtypes.bool:
        return o.body.op(o.type, f"!{o.names[0]}")
    return o.body.op(o.body.typed(o.names[0], o.instr.dtype), f"~{o.names[0]}")


def _function(o: Operands) -> str:
    """A function of each lane."""
    name = _FUNCTION[o.instr.op]
    if o.instr.dtype.lanes == 1:
        ending = "f" if o.instr.dtype.bits == 32 else ""
        return o.body.op(o.type, f"__builtin_{name}{ending}({', '.join(o.names)})")
    t = o.body.type(o.type)
    text = c_helpers.lanewise(name, t, o.type, len(o.names))
    return o.body.call(f"{name}_{t}", o.type, text, *o.names)


def _fma(o: Operands) -> str:
    if o.fma:
        return _function(o)
    a, b, c = o.values
    dtype = o.instr.dtype
    return o.emit(Ops.ADD, dtype, o.emit(Ops.MUL, dtype, a, b), c).name


# ---- lanes


def _broadcast(o: Operands) -> str:
    if o.instr.dtype.lanes == 1:
        return o.names[0]
    return _made(o, o.names * o.instr.dtype.lanes)


def _vector(o: Operands) -> str:
    return _made(o, o.names)


def _made(o: Operands, names: list[str]) -> str:
    sign = "-" if _is_mask(o.instr.dtype) else ""
    return o.body.vector(o.type, [sign + n for n in names])


def _extract(o: Operands) -> str:
    return _pick(o.body, o.names, o.dtypes[0], (o.instr.arg,))


def _shuffle(o: Operands) -> str:
    return _pick(o.body, o.names, o.dtypes[0], o.instr.arg)


def _pick(body: CBody, names: Sequence[str], dtype: DType, lanes: tuple[int, ...]) -> str:
    """Lanes of one vector or of two."""
    if len(lanes) == 1:
        (lane,) = lanes
        return body.op(type_of(dtype.scalar), f"{names[lane // dtype.lanes]}[{lane % dtype.lanes}]")
    type = body.types[names[0]]
    first, second = names[0], names[-1]
    if body.types[second] != type:  # masks of another width
        second = body.convert(second, type)
    order = ", ".join(map(str, lanes))
    text = f"__builtin_shufflevector({first}, {second}, {order})"
    return body.op(type._replace(lanes=len(lanes)), text)


def _lanes(o: Operands) -> str:
    """Lane i with lane i + n/2 until one is left: the order is part of the meaning."""
    value = o.values[0]
    while value.dtype.lanes > 1:
        n = value.dtype.lanes // 2
        dtype = value.dtype.scalar.vec(n)
        halves = (tuple(range(n)), tuple(range(n, 2 * n)))
        low, high = (
            Value(_pick(o.body, [value.name], value.dtype, half), dtype) for half in halves
        )
        value = o.emit(o.instr.arg, dtype, low, high)
    return value.name


# ---- conversions


def _bitcast(o: Operands) -> str:
    source, to, (value,) = o.body.typed(o.names[0], o.dtypes[0]), o.type, o.names
    if source == to:
        return value
    if source.lanes > 1 and to.lanes > 1:
        return o.body.op(to, f"({o.body.type(to)}){value}")
    a, b = o.body.type(source), o.body.type(to)
    return o.body.call(f"{b}_from_{a}", to, c_helpers.bitcast(a, b), value)


def _cast(o: Operands) -> str:
    """Halves go through float32; float to integer saturates, NaN gives 0; integers wrap."""
    (value,), dtype = o.values, o.instr.dtype
    if value.dtype is dtype:
        return value.name
    if is_half(value.dtype) or is_half(dtype):
        return cast_half(o.emit, value, dtype).name
    if dtype.kind == "bool":
        return o.emit(Ops.CMPNE, dtype, value, o.emit(Ops.CONST, value.dtype, arg=0)).name
    if _is_mask(value.dtype):
        ones = o.body.op(o.type.mask, f"-{o.body.mask(value.name, o.type)}")
        return ones if o.type == o.type.mask else o.body.convert(ones, o.type)
    if value.dtype.is_float and not dtype.is_float:
        return _saturated(o, value, dtype)
    same = type_of(value.dtype) == o.type  # as index and int64 are
    return value.name if same else o.body.convert(value.name, o.type)


def _saturated(o: Operands, value: Value, dtype: DType) -> str:
    """What C leaves undefined is decided before the conversion: it sees numbers that fit alone."""
    real, mask = value.dtype, dtypes.bool.vec(dtype.lanes)
    lo, hi = (o.emit(Ops.CONST, real, arg=float(v)) for v in (int(dtype.min), int(dtype.max) + 1))
    least, most = (o.emit(Ops.CONST, dtype, arg=v) for v in (dtype.min, dtype.max))
    above = o.emit(Ops.CMPLE, mask, hi, value)
    below = o.emit(Ops.CMPLT, mask, value, lo)
    inside = o.emit(
        Ops.AND, mask, o.emit(Ops.CMPLE, mask, lo, value), o.emit(Ops.CMPLT, mask, value, hi)
    )
    fits = o.emit(Ops.WHERE, real, inside, value, o.emit(Ops.CONST, real, arg=0.0))
    number = Value(o.body.convert(fits.name, o.type), dtype)
    number = o.emit(Ops.WHERE, dtype, above, most, number)
    return o.emit(Ops.WHERE, dtype, below, least, number).name


PRINTERS: Mapping[Ops, Printer] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_COMPARE, _compare),
    **dict.fromkeys(_FUNCTION, _function),
    **dict.fromkeys((Ops.MIN, Ops.MAX), _extreme),
    **dict.fromkeys((Ops.IDIV, Ops.IMOD), _divide),
    Ops.NEG: _negate,
    Ops.NOT: _not,
    Ops.FMA: _fma,
    Ops.WHERE: _where,
    Ops.BROADCAST: _broadcast,
    Ops.VECTOR: _vector,
    Ops.EXTRACT: _extract,
    Ops.SHUFFLE: _shuffle,
    Ops.LANES: _lanes,
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
}
