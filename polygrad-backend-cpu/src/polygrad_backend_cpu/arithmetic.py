"""Values: one entry per operation of the contract, from its operands' names to LLVM instructions.

No instruction carries a fast-math flag, so LLVM neither contracts nor reassociates, and NaN,
infinities, signed zeros and subnormals are IEEE's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from polygrad.contract import Instr
from polygrad.dtype import DType, dtypes
from polygrad.errors import UnsupportedOp
from polygrad.uop.ops import Ops

from .body import Body, literal, scalar_type, suffix, type_of, vector, vector_literal
from .half import cast_half, is_half
from .lines import Emit, Value


class Machine(NamedTuple):
    """What the printed text depends on besides the program."""

    fma: bool
    float16: bool  # the processor converts float16


class Operands(NamedTuple):
    """One instruction being printed: its operands' names and types."""

    body: Body
    machine: Machine
    emit: Emit
    instr: Instr
    names: list[str]
    dtypes: list[DType]

    @property
    def type(self) -> str:
        return type_of(self.instr.dtype)


Printer = Callable[[Operands], str]

# ---- two operands: (float, signed, unsigned or bool) mnemonics; None where the contract has none

_BINARY: Mapping[Ops, tuple[str | None, str | None, str | None]] = {
    Ops.ADD: ("fadd", "add", "add"),
    Ops.SUB: ("fsub", "sub", "sub"),
    Ops.MUL: ("fmul", "mul", "mul"),
    Ops.DIV: ("fdiv", None, None),
    Ops.AND: (None, "and", "and"),
    Ops.OR: (None, "or", "or"),
    Ops.XOR: (None, "xor", "xor"),
    Ops.SHL: (None, "shl", "shl"),
    Ops.SHR: (None, "ashr", "lshr"),
}
# A compare with NaN is false, except "not equal".
_COMPARE: Mapping[Ops, tuple[str, str, str]] = {
    Ops.CMPLT: ("fcmp olt", "icmp slt", "icmp ult"),
    Ops.CMPLE: ("fcmp ole", "icmp sle", "icmp ule"),
    Ops.CMPEQ: ("fcmp oeq", "icmp eq", "icmp eq"),
    Ops.CMPNE: ("fcmp une", "icmp ne", "icmp ne"),
}
_GREATER = ("fcmp ogt", "icmp sgt", "icmp ugt")
_INTRINSIC = {
    Ops.SQRT: "sqrt",
    Ops.FLOOR: "floor",
    Ops.CEIL: "ceil",
    Ops.TRUNC: "trunc",
    Ops.ROUND: "roundeven",
}


def _kind(dtype: DType) -> int:
    """Column of the tables above."""
    if dtype.is_float:
        return 0
    return 1 if dtype.kind in ("int", "index") else 2


def _binary(o: Operands) -> str:
    return _apply(o.body, o.instr.op, o.instr.dtype, *o.names)


def _apply(body: Body, op: Ops, dtype: DType, a: str, b: str) -> str:
    """`op` of two values of `dtype`."""
    if op in (Ops.MIN, Ops.MAX):
        how = (_COMPARE[Ops.CMPLT] if op is Ops.MIN else _GREATER)[_kind(dtype)]
        mask = body.op(f"{how} {type_of(dtype)} {a}, {b}")
        return _select(body, mask, dtype, a, b)
    if op is Ops.ADD and "0" in (a, b):  # integers; unrolled counters leave many of these
        return b if a == "0" else a
    mnemonic = _BINARY[op][_kind(dtype)]
    if mnemonic is None:
        raise UnsupportedOp(f"cpu has no {op} of {dtype.name}")
    return body.op(f"{mnemonic} {type_of(dtype)} {a}, {b}")


def _select(body: Body, mask: str, dtype: DType, a: str, b: str) -> str:
    t, bits = type_of(dtype), vector("i1", dtype.lanes)
    return body.op(f"select {bits} {mask}, {t} {a}, {t} {b}")


def _compare(o: Operands) -> str:
    how = _COMPARE[o.instr.op][_kind(o.dtypes[0])]
    return o.body.op(f"{how} {type_of(o.dtypes[0])} {o.names[0]}, {o.names[1]}")


def _divide(o: Operands) -> str:
    """Truncating division. The smallest integer over -1 traps on x86: it is 0 - a, remainder 0."""
    dtype, (a, b) = o.instr.dtype, o.names
    quotient = o.instr.op is Ops.IDIV
    if dtype.is_unsigned:
        return o.body.op(f"{'udiv' if quotient else 'urem'} {o.type} {a}, {b}")
    mnemonic = "sdiv" if quotient else "srem"
    if b.lstrip("-").isdigit() and int(b) != -1:
        return o.body.op(f"{mnemonic} {o.type} {a}, {b}")
    minus = o.body.op(f"icmp eq {o.type} {b}, {literal(dtype, -1)}")
    safe = _select(o.body, minus, dtype, literal(dtype, 1), b)
    plain = o.body.op(f"{mnemonic} {o.type} {a}, {safe}")
    if not quotient:
        return plain  # a % 1 is 0, as a % -1
    negated = o.body.op(f"sub {o.type} {literal(dtype, 0)}, {a}")
    return _select(o.body, minus, dtype, negated, plain)


# ---- one operand and three


def _negate(o: Operands) -> str:
    if o.instr.dtype.is_float:
        return o.body.op(f"fneg {o.type} {o.names[0]}")
    return o.body.op(f"sub {o.type} {literal(o.instr.dtype, 0)}, {o.names[0]}")


def _not(o: Operands) -> str:
    ones = literal(o.instr.dtype, True if o.instr.dtype.kind == "bool" else -1)
    return o.body.op(f"xor {o.type} {o.names[0]}, {ones}")


def _intrinsic(o: Operands) -> str:
    return o.body.call_like(_INTRINSIC[o.instr.op], o.instr.dtype, *o.names)


def _fma(o: Operands) -> str:
    a, b, c = o.names
    if o.machine.fma:
        return o.body.call_like("fma", o.instr.dtype, a, b, c)
    product = o.body.op(f"fmul {o.type} {a}, {b}")
    return o.body.op(f"fadd {o.type} {product}, {c}")


def _where(o: Operands) -> str:
    mask, a, b = o.names
    return o.body.op(f"select {type_of(o.dtypes[0])} {mask}, {o.type} {a}, {o.type} {b}")


# ---- lanes


def _broadcast(o: Operands) -> str:
    lanes, value = o.instr.dtype.lanes, o.names[0]
    if lanes == 1:
        return value
    scalar = scalar_type(o.instr.dtype)
    if not value.startswith("%"):  # a constant
        return vector_literal(o.instr.dtype, [value] * lanes)
    first = o.body.op(f"insertelement {o.type} poison, {scalar} {value}, i32 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    return o.body.op(f"shufflevector {o.type} {first}, {o.type} poison, {zeros}")


def _vector(o: Operands) -> str:
    made, scalar = "poison", scalar_type(o.instr.dtype)
    for i, name in enumerate(o.names):
        made = o.body.op(f"insertelement {o.type} {made}, {scalar} {name}, i32 {i}")
    return made


def _extract(o: Operands) -> str:
    return o.body.op(f"extractelement {type_of(o.dtypes[0])} {o.names[0]}, i32 {o.instr.arg}")


def _shuffle(o: Operands) -> str:
    return _pick(o.body, o.dtypes[0], o.names, o.instr.arg)


def _pick(body: Body, dtype: DType, values: Sequence[str], lanes: tuple[int, ...]) -> str:
    """Lanes of one vector or of two."""
    t, value = type_of(dtype), values[lanes[0] // dtype.lanes]
    if len(lanes) == 1:
        return body.op(f"extractelement {t} {value}, i32 {lanes[0] % dtype.lanes}")
    first, second = (*values, "poison")[:2]
    order = ", ".join(f"i32 {i}" for i in lanes)
    return body.op(f"shufflevector {t} {first}, {t} {second}, <{len(lanes)} x i32> <{order}>")


def _lanes(o: Operands) -> str:
    """Lane i with lane i + n/2 until one is left: the order is part of the meaning."""
    value, dtype = o.names[0], o.dtypes[0]
    while dtype.lanes > 1:
        n = dtype.lanes // 2
        low = _pick(o.body, dtype, [value], tuple(range(n)))
        high = _pick(o.body, dtype, [value], tuple(range(n, 2 * n)))
        dtype = dtype.scalar.vec(n)
        value = _apply(o.body, o.instr.arg, dtype, low, high)
    return value


# ---- conversions


def _bitcast(o: Operands) -> str:
    source, (value,) = type_of(o.dtypes[0]), o.names
    return value if source == o.type else o.body.op(f"bitcast {source} {value} to {o.type}")


def _cast(o: Operands) -> str:
    """Halves go through float32; float to integer saturates, NaN gives 0; integers wrap."""
    (value,), (source,), dtype = o.names, o.dtypes, o.instr.dtype
    if source is dtype:
        return value
    if is_half(source) or is_half(dtype):
        return _half(o)
    t, to = type_of(source), o.type
    if dtype.kind == "bool":
        how = "fcmp une" if source.is_float else "icmp ne"
        return o.body.op(f"{how} {t} {value}, zeroinitializer")
    if source.is_float and not dtype.is_float:
        name = "fptoui" if dtype.is_unsigned else "fptosi"
        called = f"llvm.{name}.sat.{suffix(dtype)}.{suffix(source)}"
        return o.body.call(called, to, (t, value))
    how = _conversion(source, dtype)
    return o.body.op(f"{how} {t} {value} to {to}") if how else value


def _conversion(source: DType, dtype: DType) -> str:
    """The instruction between two numbers; empty where the bits stay."""
    if source.is_float:
        return "fptrunc" if dtype.bits < source.bits else "fpext"
    signed = source.kind in ("int", "index")
    if dtype.is_float:
        return "sitofp" if signed else "uitofp"
    if source.kind != "bool" and dtype.bits <= source.bits:
        return "trunc" if dtype.bits < source.bits else ""
    return "sext" if signed else "zext"


def _half(o: Operands) -> str:
    """By the processor between float16 and float32 where it can, else by integer arithmetic."""
    (value,), (source,), dtype = o.names, o.dtypes, o.instr.dtype
    if o.machine.float16 and {source.scalar, dtype.scalar} == {dtypes.float16, dtypes.float32}:
        half, word = (vector(t, dtype.lanes) for t in ("half", "i16"))
        if source.scalar is dtypes.float16:
            as_half = o.body.op(f"bitcast {word} {value} to {half}")
            return o.body.op(f"fpext {half} {as_half} to {o.type}")
        rounded = o.body.op(f"fptrunc {type_of(source)} {value} to {half}")
        return o.body.op(f"bitcast {half} {rounded} to {word}")
    return cast_half(o.emit, Value(value, source), dtype).name


PRINTERS: Mapping[Ops, Printer] = {
    **dict.fromkeys((*_BINARY, Ops.MIN, Ops.MAX), _binary),
    **dict.fromkeys(_COMPARE, _compare),
    **dict.fromkeys(_INTRINSIC, _intrinsic),
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
