"""How the arguments of each family of operations are drawn: one short function per family.

A proposer reads what the builder knows and gives an operation, its sources and its arguments, or
None where nothing fits. It need not be right: the builder drops what the judge finds invalid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from . import fuzz_grammar as grammar
from .fuzz_builder import DIMS, INTEGERS, LARGEST_TENSOR, LARGEST_WORK, Builder
from .fuzz_formulas import slices
from .fuzz_judge import BYTES, FLOATS, Known

Proposal = tuple[str, tuple[int, ...], dict[str, Any]]


def is_float(k: Known) -> bool:
    return k.is_float


def is_integer(k: Known) -> bool:
    return k.dtype in INTEGERS


def is_bits(k: Known) -> bool:
    return not k.is_float


def unary(b: Builder) -> Proposal | None:
    x = b.pick(is_float) if b.chance(0.85) else b.pick()
    return None if x is None else (b.one(list(grammar.UNARY)), (x,), {})


def invert(b: Builder) -> Proposal | None:
    x = b.pick(is_bits)
    return None if x is None else ("invert", (x,), {})


def pair(names: Sequence[str], fits: Callable[[Known], bool]) -> Callable[[Builder], Any]:
    def propose(b: Builder) -> Proposal | None:
        x = b.pick(fits)
        y = None if x is None else b.partner(x)
        if x is None or y is None or not fits(b.values[y]):
            return None
        return b.one(names), (x, y) if b.chance(0.5) else (y, x), {}

    return propose


def constant(b: Builder) -> Proposal | None:
    x = b.pick()
    if x is None:
        return None
    k = b.values[x]
    c: Any = b.one((0.5, 2.0, -1.5, 0.1, 3.0)) if k.is_float else b.one((1, 2, 3, 5))
    return b.one(list(grammar.CONSTANT)), (x,), {"c": c}


def whole_constant(b: Builder) -> Proposal | None:
    x = b.pick(is_integer)
    if x is None:
        return None
    c = b.number(1, 7)
    value = b.values[x].value
    if b.chance(0.4) and value.size:  # where intervals decide: near the largest value
        c = min(max(int(value.max()) + b.number(-1, 1), 1), 7 if value.itemsize == 1 else 999)
    name = b.one(list(grammar.WHOLE_CONSTANT))
    return name, (x,), {"c": min(c, 7) if name.startswith("sh") else c}


def axes_of(b: Builder, rank: int) -> tuple[int, ...]:
    if b.chance(0.5):
        return (b.number(0, rank - 1),)
    return tuple(a for a in range(rank) if b.chance(0.6)) or (rank - 1,)


def reduction(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 0)
    if x is None:
        return None
    k = b.values[x]
    name = str(b.rng.choice(list(grammar.REDUCE), p=_REDUCE_WEIGHTS))
    args: dict[str, Any] = {"axis": axes_of(b, len(k.shape)), "keepdim": b.chance(0.5)}
    if name in ("var", "std"):
        args["correction"] = b.number(0, 1)
    return name, (x,), args


_REDUCE_WEIGHTS = (0.26, 0.14, 0.18, 0.1, 0.06, 0.05, 0.05, 0.08, 0.08)


def along(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 0 and k.is_float)
    if x is None:
        return None
    name = b.one(list(grammar.ALONG))
    args: dict[str, Any] = {"axis": b.number(0, len(b.values[x].shape) - 1)}
    if name.startswith("arg"):
        args["keepdim"] = b.chance(0.5)
    return name, (x,), args


def factors(b: Builder, total: int) -> list[int]:
    """A random factorisation, ones included."""
    out: list[int] = []
    left = total
    while left > 1 and len(out) < 3:
        divisor = int(b.one([d for d in range(1, left + 1) if left % d == 0]))
        out.append(divisor)
        left //= divisor
    out.append(left)
    if b.chance(0.3):
        out.insert(b.number(0, len(out)), 1)
    return out


def reshape(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: k.value.size > 0)
    if x is None:
        return None
    return "reshape", (x,), {"shape": factors(b, b.values[x].value.size)}


def permute(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 1)
    if x is None:
        return None
    axes = [int(a) for a in b.rng.permutation(len(b.values[x].shape))]
    return "permute", (x,), {"axes": axes}


def flip(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 0)
    return None if x is None else ("flip", (x,), {"axes": axes_of(b, len(b.values[x].shape))})


def _range(b: Builder, n: int) -> list[int | None]:
    """[start, stop, step] of one axis; steps may be negative, bounds may be left out."""
    step = int(b.one((1, 1, 1, 2, 3, -1, -2)))
    start, stop = sorted((b.number(0, n), b.number(0, n)))
    if step < 0:
        return [None if b.chance(0.5) else max(stop - 1, 0), None, step]
    if b.chance(0.3):
        return [None, None, step]
    return [start - n if b.chance(0.2) and start < n else start, stop, step]


def _index(b: Builder, shape: Sequence[int]) -> list[Any]:
    index: list[Any] = []
    for n in shape:
        if b.chance(0.1):
            index.append(None)
        if n > 0 and b.chance(0.15):
            index.append(b.number(-n, n - 1))
        else:
            index.append([None, None, None] if b.chance(0.4) else _range(b, n))
    return index


def sliced(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 0)
    if x is None:
        return None
    index = _index(b, b.values[x].shape)
    result = b.values[x].value[slices(index)]
    return None if result.size == 0 and b.chance(0.9) else ("slice", (x,), {"index": index})


def expand(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: 1 in k.shape)
    if x is None:
        return None
    shape = [int(b.one(DIMS[1:])) if n == 1 and b.chance(0.7) else n for n in b.values[x].shape]
    return "expand", (x,), {"shape": shape}


def pad(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 0)
    if x is None:
        return None
    pads = [[b.number(0, 2), b.number(0, 2)] for _ in b.values[x].shape]
    k = b.values[x]
    value: Any = 0
    if b.chance(0.3):
        value = True if k.dtype == "bool" else 1.5 if k.is_float else 3
    return "pad", (x,), {"pads": pads, "value": value}


def join(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 0)
    if x is None:
        return None
    shape = list(b.values[x].shape)
    axis = b.number(0, len(shape) - 1)
    if b.chance(0.4):
        y = b.pick(lambda k: k.shape == tuple(shape))
        return "stack", (x, y if y is not None else x), {"axis": b.number(0, len(shape))}

    def fits(k: Known) -> bool:
        return len(k.shape) == len(shape) and all(
            a == axis or m == n for a, (m, n) in enumerate(zip(k.shape, shape, strict=True))
        )

    y = b.pick(fits)
    if b.chance(0.3):
        shape[axis] = int(b.one(DIMS[1:6]))
        y = b.input(shape, b.values[x].dtype)
    if y is None:
        return None
    if b.chance(0.3):
        return "cat3", (x, y, x), {"axis": axis}
    return "cat", (x, y), {"axis": axis}


def cast(b: Builder) -> Proposal | None:
    x = b.pick()
    dtype = b.main if b.chance(0.4) else str(b.one((*FLOATS, *INTEGERS, "bool")))
    if x is None:
        return None
    if b.chance(0.2):
        return "through", (x,), {"via": str(b.one(BYTES)), "dtype": dtype}
    return "cast", (x,), {"dtype": dtype}


def where(b: Builder) -> Proposal | None:
    c = b.pick(lambda k: k.dtype == "bool")
    x = None if c is None else b.partner(c)
    y = None if x is None else b.partner(x)
    return None if c is None or x is None or y is None else ("where", (c, x, y), {})


def clip(b: Builder) -> Proposal | None:
    x = b.pick(is_float)
    return None if x is None else ("clip", (x,), {"low": -1.0, "high": float(b.one((0.5, 2.0)))})


def matmul(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 0 and (k.is_float or k.dtype in ("int32", "int64")))
    if x is None:
        return None
    *lead, k = b.values[x].shape
    rows = math.prod(lead)

    def fits(other: Known) -> bool:
        if other.dtype != b.values[x].dtype or not 0 < len(other.shape) < 4:
            return False
        inner = other.shape[-2] if len(other.shape) > 1 else other.shape[0]
        return inner == k and rows * other.value.size <= LARGEST_WORK

    y = b.pick(fits) if b.chance(0.5) else None
    if y is None:
        columns = int(b.one(DIMS[1:]))
        shape = [k] if b.chance(0.15) else [k, columns]
        if rows * math.prod(shape) > LARGEST_WORK or math.prod(shape) > LARGEST_TENSOR:
            return None
        y = b.input(shape, b.values[x].dtype)
    return None if y is None else ("matmul", (x, y), {})


def _indices(b: Builder, shape: Sequence[int], n: int) -> int | None:
    """An int32 tensor of this shape with values in 0 .. n - 1: any integers, made to fit."""
    raw = b.input(shape, "int32")
    return None if raw is None else b.put("mod_c", (raw,), c=n)


def take(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: any(k.shape))
    if x is None:
        return None
    shape = b.values[x].shape
    axis = int(b.one([a for a, n in enumerate(shape) if n > 0]))
    index = _indices(b, b.shape(b.number(0, 2)), shape[axis])
    return None if index is None else ("take", (x, index), {"axis": axis, "colons": ":, " * axis})


def index_add(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 0 and 0 not in k.shape and k.dtype != "bool")
    if x is None:
        return None
    shape = list(b.values[x].shape)
    axis = b.number(0, len(shape) - 1)
    n, shape[axis] = shape[axis], int(b.one(DIMS[1:8]))
    index = _indices(b, [shape[axis]], n)
    updates = b.input(shape, b.values[x].dtype)
    if index is None or updates is None:
        return None
    return "index_add", (x, index, updates), {"axis": axis}


def arranged(b: Builder) -> Proposal | None:
    """roll, repeat, triangles, windows, the k largest."""
    x = b.pick(lambda k: len(k.shape) > 1 and 0 not in k.shape)
    if x is None:
        return None
    shape = b.values[x].shape
    axis = b.number(0, len(shape) - 1)
    n = shape[axis]
    draws: dict[str, dict[str, Any]] = {
        "roll": {"by": b.number(-n, n), "axis": axis},
        "repeat": {"times": [b.number(1, 3) for _ in shape]},
        "tril": {"k": b.number(-2, 2)},
        "triu": {"k": b.number(-2, 2)},
        "unfold": {"axis": axis, "size": b.number(1, min(n, 4)), "step": b.number(1, 3)},
        "topk": {"k": b.number(1, n), "axis": axis},
    }
    name = b.one(list(draws))
    return name, (x,), draws[name]


def gather(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) > 0 and 0 not in k.shape)
    if x is None:
        return None
    shape = list(b.values[x].shape)
    axis = b.number(0, len(shape) - 1)
    n = shape[axis]
    shape = [b.number(1, s) if b.chance(0.5) else s for s in shape]
    shape[axis] = int(b.one(DIMS[1:8]))
    index = _indices(b, shape, n)
    return None if index is None else ("gather", (x, index), {"axis": axis})


def pool(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) == 4 and min(k.shape[2:]) >= 2 and k.is_float)
    if x is None:
        return None
    size = b.number(1, min(3, *b.values[x].shape[2:]))
    return b.one(("max_pool", "avg_pool")), (x,), {"size": size, "stride": b.number(1, 3)}


def conv(b: Builder) -> Proposal | None:
    x = b.pick(lambda k: len(k.shape) == 4 and min(k.shape[2:]) >= 2 and 0 not in k.shape)
    if x is None or not b.values[x].is_float:
        shape = [b.number(1, 2), b.number(1, 3), b.number(3, 9), b.number(3, 9)]
        x = b.input(shape, b.main)
    if x is None:
        return None
    _, channels, *rest = b.values[x].shape
    size = b.number(1, min(3, *rest))
    w = b.input([b.number(1, 5), channels, size, size], b.values[x].dtype)
    return None if w is None else ("conv", (x, w), {"stride": b.number(1, 2)})


def leaf(b: Builder) -> Proposal | None:
    dtype = b.dtype()
    if b.chance(0.5):
        return (
            "arange",
            (),
            {"n": int(b.one(DIMS[:9])), "dtype": dtype if dtype != "bool" else "int32"},
        )
    c: Any = True if dtype == "bool" else 1.25 if dtype in FLOATS else 3
    return "full", (), {"shape": list(b.shape()), "c": c, "dtype": dtype}


def assign(b: Builder) -> Proposal | None:
    """An input, or a former assignment to one, gets a new value of its own shape and dtype."""
    targets = [i for i in b.pool if is_state(b, i) and b.values[i].value.size]
    if not targets:
        return None
    x = int(b.one(targets))
    k = b.values[x]
    if b.chance(0.5) and k.shape:
        index = [i for i in _index(b, k.shape) if i is not None]
        index = [i if isinstance(i, int) or (i[2] or 1) > 0 else [None, None, None] for i in index]
        part = k.value[slices(index)]
        v = b.pick(lambda o: o.shape == part.shape and o.dtype == k.dtype)
        if v is None and part.size:
            v = b.input(part.shape, k.dtype)
        return None if v is None or v == x else ("setitem", (x, v), {"index": index})
    v = b.pick(lambda o: o.shape == k.shape and o.dtype == k.dtype)
    return None if v is None or v == x else ("assign", (x, v), {})


def is_state(b: Builder, i: int) -> bool:
    return b.nodes[i].op in ("input", "assign", "setitem")
