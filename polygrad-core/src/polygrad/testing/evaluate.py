"""An evaluator of tensor-floor graphs in numpy: a judge, independent of scheduling and code
generation.

It shares nothing with the compiler but the meaning of each op, which it states once more in numpy,
one function an op. Tests compare graphs with it before an engine exists, and later the devices with
it. Values of bfloat16 and of 8-bit floats are held as float32 arrays that were rounded to them.
Never used outside tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..dtype import DType, dtypes
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.sizes import exchanged, variables_of
from .narrow_floats import LACKING, from_words, nearest, to_words

Array = Any  # numpy.ndarray of any dtype
Reader = Callable[[UOp], Array]


def evaluate(
    roots: Sequence[UOp],
    read: Reader | Mapping[UOp, Array],
    variables: Mapping[str, int | float] | None = None,
) -> list[Array]:
    """The value of each root. `read` gives the array of a BUFFER leaf (a function or a mapping)."""
    lookup: Reader = read if callable(read) else read.__getitem__
    values: dict[UOp, Array] = {}
    with np.errstate(all="ignore"):
        for node in toposort(roots):
            if node.op in _SKIPPED:
                continue
            values[node] = _value(node, values, lookup, variables or {})
    return [values[root] for root in roots]


def judged(tensor: Any) -> Array:
    """The value of a Tensor over leaves of the current runtime; nothing is compiled or kept. Sizes
    that vary are taken at their values."""
    from ..engine import current

    runtime = current()
    values = {v: runtime.value_of(v) for v in variables_of((tensor.uop,))}
    sizes = {v: UOp.index(int(n)) for v, n in values.items() if v.dtype is dtypes.index}
    (root,), fixed = exchanged((tensor.uop,), sizes)
    leaves = {new: old for old, new in fixed.items() if old.op is Ops.BUFFER}

    def read(leaf: UOp) -> Array:
        nbytes = size(leaf.shape) * leaf.dtype.itemsize
        raw = runtime.buffer_of(leaves[leaf]).read(nbytes)
        if leaf.dtype.name in LACKING:
            return from_words(np.frombuffer(raw, f"u{leaf.dtype.itemsize}"), leaf.dtype.name)
        return np.frombuffer(raw, numpy_dtype(leaf.dtype))

    return evaluate([root], read, {v.arg[0]: n for v, n in values.items()})[0]


def numpy_dtype(dtype: DType) -> Any:
    """The numpy type that holds values of `dtype`: its namesake, float32 where numpy has none."""
    if dtype.name in LACKING:
        return np.dtype("float32")
    return np.dtype("int64" if dtype is dtypes.index else dtype.name)


def rounded(value: Array, dtype: DType) -> Array:
    """`value` as an array of `dtype`; an array of another kind is converted as CAST does."""
    value = np.asarray(value)
    if dtype.name in LACKING:
        return nearest(value.astype(np.float32) if value.dtype.kind in "iu" else value, dtype.name)
    return value if value.dtype == numpy_dtype(dtype) else value.astype(numpy_dtype(dtype))


_SKIPPED: Final = frozenset({Ops.UNIQUE, Ops.STORE})


def _value(
    node: UOp, values: Mapping[UOp, Array], read: Reader, variables: Mapping[str, int | float]
) -> Array:
    if node.op is Ops.BUFFER:
        return rounded(read(node), node.dtype).reshape(node.shape)
    if node.op is Ops.VARIABLE:
        return rounded(variables[node.arg[0]], node.dtype)
    if node.op is Ops.AFTER:  # a full overwrite: the value is what was stored
        return values[node.src[1].src[1]] if len(node.src) > 1 else values[node.src[0]]
    source = [values[s] for s in node.src if s.op not in _SKIPPED]
    out = np.asarray(_RULES[node.op](node, *source))
    assert out.shape == node.shape, f"{node.op} gave {out.shape}, the node says {node.shape}"
    return rounded(out, node.dtype)


# ---- elementwise


def _floor_divide(node: UOp, a: Array, b: Array) -> Array:
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, np.floor_divide(a, safe))


def _floor_modulo(node: UOp, a: Array, b: Array) -> Array:
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, np.remainder(a, safe))


def _shift(node: UOp, a: Array, b: Array) -> Array:
    inside = (b >= 0) & (b < node.dtype.bits)
    count = np.where(inside, b, 0).astype(a.dtype)
    if node.op is Ops.SHL:
        return np.where(inside, np.left_shift(a, count), 0)
    return np.where(inside, np.right_shift(a, count), np.where(a < 0, -1, 0))


def _cast(node: UOp, a: Array) -> Array:
    """Float to integer truncates and saturates, NaN is 0; to bool is `!= 0`."""
    source, target = node.src[0].dtype, node.dtype
    if target.kind == "bool":
        return a != 0
    if source.is_float and target.is_int:
        a = np.trunc(np.nan_to_num(a.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        lo, hi = int(target.min), int(target.max)
        out = np.where((a > lo) & (a < hi), a, 0).astype(numpy_dtype(target))
        return np.where(
            a >= hi, np.array(hi, out.dtype), np.where(a <= lo, np.array(lo, out.dtype), out)
        )
    if target is dtypes.float16 and a.dtype.kind in "iu":
        a = a.astype(np.float32)  # as machines do: through float32
    return rounded(a, target)


def _bitcast(node: UOp, a: Array) -> Array:
    source, target = node.src[0].dtype, node.dtype
    if source.name in LACKING:
        a = to_words(a, source.name)
    if target.name in LACKING:
        return from_words(np.ascontiguousarray(a).view(f"u{target.itemsize}"), target.name)
    return np.ascontiguousarray(a).view(numpy_dtype(target)).reshape(node.shape)


def _erf(node: UOp, a: Array) -> Array:
    from scipy.special import erf

    return erf(a)


def _wide(function: Callable[[Array], Array]) -> Callable[[UOp, Array], Array]:
    """A function of float64: what it gives is rounded once."""
    return lambda node, a: function(a.astype(np.float64))


def threefry(counter: Array, key0: Array, key1: Array) -> Array:
    """Threefry2x32-20 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): word
    `i & 1` of the block whose counter is `i >> 1`, its low 32 bits first."""
    block = counter.astype(np.uint64) >> np.uint64(1)
    x0, x1 = (
        (block & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        (block >> np.uint64(32)).astype(np.uint32),
    )
    keys = (key0, key1, key0 ^ key1 ^ np.uint32(0x1BD11BDA))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0, x1 = x0 + keys[(group + 1) % 3], x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return np.where(counter & np.uint64(1), x1, x0)


# ---- movement and the other tensor nodes


def _reshape(node: UOp, a: Array) -> Array:
    return a.reshape(node.arg)


def _shrink(node: UOp, a: Array) -> Array:
    return a[tuple(slice(*bounds) for bounds in node.arg)]


def _pad(node: UOp, a: Array) -> Array:
    out = np.zeros(node.shape, a.dtype)
    where = []
    for n, (before, _, interior) in zip(a.shape, node.arg, strict=True):
        where.append(slice(before, before + max(n + (n - 1) * interior, 0), interior + 1))
    out[tuple(where)] = a
    return out


def _window(node: UOp, a: Array) -> Array:
    axis, length, stride, dilation = node.arg
    starts = np.arange(node.shape[axis])[:, None] * stride + np.arange(length) * dilation
    return np.moveaxis(np.take(a, starts, axis=axis), axis + 1, -1)


def _reduce(node: UOp, a: Array) -> Array:
    op, axes = node.arg
    if op in (Ops.ADD, Ops.MUL):
        total = np.add.reduce if op is Ops.ADD else np.multiply.reduce
        wide = np.float64 if node.dtype.is_float else a.dtype
        return total(a, axis=axes, dtype=wide)
    start = _START[op](node.dtype)
    return _EXTREME[op].reduce(a, axis=axes, initial=start)


_START: Final = {Ops.MAXIMUM: lambda d: d.min, Ops.MINIMUM: lambda d: d.max}
_EXTREME: Final = {Ops.MAXIMUM: np.maximum, Ops.MINIMUM: np.minimum}


_RUNNING: Final = {
    Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAXIMUM: np.maximum, Ops.MINIMUM: np.minimum,
}  # fmt: skip


def _scan(node: UOp, a: Array) -> Array:
    op, axis = node.arg
    wide = np.float64 if node.dtype.is_float else a.dtype
    return _RUNNING[op].accumulate(a, axis=axis, dtype=wide)


def _gather(node: UOp, a: Array, index: Array) -> Array:
    n = a.shape[node.arg]
    inside = (index >= 0) & (index < n)
    if n == 0:
        return np.zeros(node.shape, a.dtype)
    out = np.take(a, np.where(inside, index, 0), axis=node.arg)
    shape = (1,) * node.arg + index.shape + (1,) * (a.ndim - node.arg - 1)
    return np.where(inside.reshape(shape), out, np.zeros((), a.dtype))


def _scatter(node: UOp, base: Array, index: Array, updates: Array) -> Array:
    axis, mode = node.arg
    out = np.moveaxis(base.copy(), axis, 0)
    rows = np.moveaxis(
        updates.reshape(updates.shape[:axis] + (index.size,) + updates.shape[axis + index.ndim :]),
        axis,
        0,
    )
    for place, row in zip(index.ravel(), rows, strict=True):
        if 0 <= place < out.shape[0]:
            out[place] = _COMBINE[mode](out[place], row)
    return np.moveaxis(out, 0, axis)


_COMBINE: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "set": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _plain(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda node, *source: function(*source)


_RULES: Final[dict[Ops, Callable[..., Array]]] = {
    Ops.CONST: lambda node, *_: np.array(node.arg, numpy_dtype(node.dtype)),
    Ops.IOTA: lambda node: np.arange(node.arg).astype(numpy_dtype(node.dtype)),
    Ops.RESHAPE: _reshape,
    Ops.PERMUTE: lambda node, a: a.transpose(node.arg),
    Ops.EXPAND: lambda node, a: np.broadcast_to(a, node.arg),
    Ops.SHRINK: _shrink,
    Ops.PAD: _pad,
    Ops.FLIP: lambda node, a: np.flip(a, node.arg),
    Ops.WINDOW: _window,
    Ops.GATHER: _gather,
    Ops.SCATTER: _scatter,
    Ops.CONTIGUOUS: _plain(lambda a: a),
    Ops.DETACH: _plain(lambda a: a),
    Ops.FUNCTION: lambda node, *source: source[node.arg[1]],
    Ops.COPY: _plain(lambda a: a),
    Ops.REDUCE: _reduce,
    Ops.SCAN: _scan,
    Ops.NEG: _plain(np.negative),
    Ops.NOT: _plain(np.invert),
    Ops.SQRT: _plain(np.sqrt),
    Ops.RECIP: _plain(lambda a: np.divide(a.dtype.type(1), a)),
    Ops.EXP: _wide(np.exp),
    Ops.EXP2: _wide(np.exp2),
    Ops.LOG: _wide(np.log),
    Ops.LOG2: _wide(np.log2),
    Ops.SIN: _wide(np.sin),
    Ops.COS: _wide(np.cos),
    Ops.TANH: _wide(np.tanh),
    Ops.SIGMOID: _wide(lambda a: 1.0 / (1.0 + np.exp(-a))),
    Ops.ERF: _erf,
    Ops.FLOOR: _plain(np.floor),
    Ops.CEIL: _plain(np.ceil),
    Ops.TRUNC: _plain(np.trunc),
    Ops.ROUND: _plain(np.rint),
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
    Ops.ADD: _plain(np.add),
    Ops.SUB: _plain(np.subtract),
    Ops.MUL: _plain(np.multiply),
    Ops.DIV: _plain(np.divide),
    Ops.FMOD: _plain(np.fmod),
    Ops.FLOORDIV: _floor_divide,
    Ops.FLOORMOD: _floor_modulo,
    Ops.MAXIMUM: _plain(np.maximum),
    Ops.MINIMUM: _plain(np.minimum),
    Ops.POW: lambda node, a, b: np.power(a.astype(np.float64), b.astype(np.float64)),
    Ops.AND: _plain(np.bitwise_and),
    Ops.OR: _plain(np.bitwise_or),
    Ops.XOR: _plain(np.bitwise_xor),
    Ops.SHL: _shift,
    Ops.SHR: _shift,
    Ops.CMPLT: _plain(np.less),
    Ops.CMPLE: _plain(np.less_equal),
    Ops.CMPEQ: _plain(np.equal),
    Ops.CMPNE: _plain(np.not_equal),
    Ops.WHERE: _plain(np.where),
    Ops.THREEFRY: _plain(threefry),
}
