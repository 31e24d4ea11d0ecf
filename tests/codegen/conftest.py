"""A second opinion on scalar expressions: numpy, one operation at a time, each in the dtype of its
node.

It knows the closed set of the contract only, so what it can run is what a backend can run. bfloat16
is held as float32 whose low 16 bits are zero; dtype index is int64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polygrad.dtype import DType, dtypes
from polygrad.target import Target
from polygrad.uop.ops import Ops, UOp

_FLOATS = frozenset({dtypes.float32, dtypes.float64})
_INTS = frozenset({
    dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32,
    dtypes.int64, dtypes.uint64,
})  # fmt: skip
_BOOL = frozenset({dtypes.bool})
_HALVES = frozenset({dtypes.float16, dtypes.bfloat16})


def bare_target() -> Target:
    """The least the contract allows: no FMA, no rounding instruction, no native function."""
    rows = {
        _FLOATS | _INTS: "ADD SUB MUL NEG MIN MAX CMPLT CMPLE CMPEQ CMPNE",
        _FLOATS: "DIV SQRT",
        _INTS: "IDIV IMOD SHL SHR",
        _INTS | _BOOL: "AND OR XOR NOT",
        _FLOATS | _INTS | _BOOL | _HALVES: "WHERE CAST BITCAST LOAD",
    }
    ops = {Ops[name]: kinds for kinds, names in rows.items() for name in names.split()}
    return Target(name="bare", arch="none", ops=ops)


def numpy_dtype(d: DType) -> np.dtype[Any]:
    if d is dtypes.bfloat16:
        return np.dtype("float32")
    return np.dtype("int64" if d is dtypes.index else d.name)


def _truncating_quotient(a: Any, b: Any) -> Any:
    assert (b != 0).all(), "IDIV by zero"
    if a.dtype.kind == "i":
        assert not ((a == np.iinfo(a.dtype).min) & (b == -1)).any(), "IDIV overflows"
    return (a - np.fmod(a, b)) // b


def _truncating_rest(a: Any, b: Any) -> Any:
    assert (b != 0).all(), "IMOD by zero"
    return np.fmod(a, b)


def _shift(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(a: Any, count: Any) -> Any:
        assert (count >= 0).all() and (count < a.dtype.itemsize * 8).all(), "count out of range"
        return f(a, count.astype(a.dtype))

    return checked


_EVALUATE: dict[Ops, Callable[..., Any]] = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.NEG: np.negative,
    Ops.DIV: np.divide,
    Ops.SQRT: np.sqrt,
    Ops.MIN: lambda a, b: np.where(a < b, a, b),
    Ops.MAX: lambda a, b: np.where(a > b, a, b),
    Ops.IDIV: _truncating_quotient,
    Ops.IMOD: _truncating_rest,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.NOT: np.invert,
    Ops.SHL: _shift(np.left_shift),
    Ops.SHR: _shift(np.right_shift),
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
    Ops.WHERE: np.where,
    Ops.FMA: lambda a, b, c: _rounded_once(
        a, b, c, np.float64 if a.itemsize == 4 else np.longdouble
    ),
}


def _rounded_once(a: Any, b: Any, c: Any, wide: Any) -> Any:
    """Of float32 all but a few in a thousand million, which a wider sum rounds to a tie."""
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)


def round_bfloat16(x: Any) -> Any:
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32))


def _cast(x: Any, source: DType, target: DType) -> Any:
    if target is dtypes.bfloat16:
        return round_bfloat16(x.astype(np.float32))
    if source.is_float and target.is_int:
        info = np.iinfo(numpy_dtype(target))
        cut = np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64))
        inside = (cut >= float(info.min)) & (cut < float(info.max) + 1)
        whole = np.where(inside, cut, 0).astype(numpy_dtype(target))
        return np.where(inside, whole, np.where(cut < 0, info.min, info.max)).astype(whole.dtype)
    assert target.kind != "bool", "a cast to bool is a comparison"
    return x.astype(numpy_dtype(target))


def evaluate(u: UOp, values: Mapping[UOp, Any]) -> Any:
    """The value of `u`; `values` gives arrays for its leaves."""
    done: dict[UOp, Any] = {leaf: np.atleast_1d(array) for leaf, array in values.items()}
    with np.errstate(all="ignore"):
        for node in u.toposort(lambda n: n not in done):
            if node in done:
                continue
            args = [done[s] for s in node.src]
            if node.op is Ops.CONST:
                made = np.array([node.arg], numpy_dtype(node.dtype))
            elif node.op is Ops.CAST:
                made = _cast(args[0], node.src[0].dtype, node.dtype)
            elif node.op is Ops.BITCAST:
                made = np.ascontiguousarray(args[0]).view(numpy_dtype(node.dtype))
            else:
                made = _EVALUATE[node.op](*args)
            assert made.dtype == numpy_dtype(node.dtype), (node.op, made.dtype, node.dtype)
            done[node] = made
    return done[u]


def leaf(dtype: DType, number: int = 0) -> UOp:
    """A scalar nothing is known about."""
    param = UOp(Ops.PARAM, dtype, (), (number, 1))
    return UOp(Ops.LOAD, dtype, (UOp(Ops.INDEX, dtype, (param, UOp.index(0))),))


def ulps(got: Any, exact: Any) -> Any:
    """Error of `got` in units of its last place; `exact` in a wider type. Infinite where only one
    is."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        finite = np.isfinite(rounded) & np.isfinite(got)
        alike = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        size = np.where(finite, np.maximum(np.abs(exact), float(info.smallest_normal)), 1)
        exponent = np.floor(np.log2(size)).astype(int) - info.nmant
        error = np.abs(got.astype(exact.dtype) - exact) / np.ldexp(np.ones_like(exact), exponent)
    return np.where(alike, 0.0, np.where(finite, error, np.inf)).astype(float)


class Scalars:
    """Decompose one op for the bare target, or one like it, and run it on arrays."""

    leaf = staticmethod(leaf)
    evaluate = staticmethod(evaluate)
    ulps = staticmethod(ulps)
    round_bfloat16 = staticmethod(round_bfloat16)

    def __init__(self, target: Target) -> None:
        self.target = target

    def with_fma(self) -> Scalars:
        return Scalars(replace(self.target, ops={**self.target.ops, Ops.FMA: _FLOATS}))

    def decomposed(self, op: Ops, *dtypes_in: DType, arg: Any = None) -> tuple[UOp, list[UOp]]:
        from polygrad.codegen.decompose import decompose, missing

        leaves = [leaf(d, i) for i, d in enumerate(dtypes_in)]
        made = decompose(UOp.alu(op, *leaves, arg=arg), self.target)
        assert not list(missing(made, self.target))
        return made, leaves

    def run(self, op: Ops, *arrays: Any, dtype: DType | None = None, arg: Any = None) -> Any:
        """`op` of numpy arrays; `dtype` where numpy has no name for it (bfloat16)."""
        kinds = [dtype or getattr(dtypes, a.dtype.name) for a in arrays]
        made, leaves = self.decomposed(op, *kinds, arg=arg)
        result = evaluate(made, dict(zip(leaves, arrays, strict=True)))
        return np.broadcast_to(result, np.broadcast_shapes(*(np.shape(a) for a in arrays)))


@pytest.fixture(scope="session")
def scalars() -> Scalars:
    return Scalars(bare_target())
