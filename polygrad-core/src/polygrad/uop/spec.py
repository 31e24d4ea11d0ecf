"""What is legal on each floor: three checkers that name the offending node.

Floor: uop. `verify_tensor(roots)` checks a graph of tensors, `verify_kernel(sink)` a loop nest in
expression form, `verify_program(program, target)` a LinearProgram (`spec_program.py`). They raise
SpecError. Shapes need no check: no node can be made whose shape does not follow from its sources.

They run in tests, under POLY_SPEC=1 after each step of the compiler, and on every graph that comes
from a file. Rules are tables: an op not in a floor's table is not legal there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..dtype import DType, dtypes
from ..errors import SpecError
from .linear import ranges_of
from .ops import COMPARISONS, ELEMENTWISE, MOVEMENT, REDUCERS, Ops, UOp, toposort
from .printer import short
from .provenance import describe
from .sizes import Size
from .spec_program import verify_program

__all__ = ["verify_kernel", "verify_program", "verify_tensor"]

Rule = Callable[[UOp], "str | None"]  # what is wrong with a node, None when it is legal

_FLOAT: Final = frozenset({"float"})
_INT: Final = frozenset({"int", "uint", "index"})
_NUMBER: Final = _INT | _FLOAT
_BITS: Final = _INT | {"bool"}
_ANY: Final = _NUMBER | {"bool"}

# What the sources of an elementwise op may be; all of them have one dtype unless a rule says more.
KINDS: Final[dict[Ops, frozenset[str]]] = {
    **dict.fromkeys((Ops.SQRT, Ops.RECIP, Ops.EXP, Ops.EXP2, Ops.LOG, Ops.LOG2), _FLOAT),
    **dict.fromkeys((Ops.SIN, Ops.COS, Ops.TANH, Ops.SIGMOID, Ops.ERF), _FLOAT),
    **dict.fromkeys((Ops.DIV, Ops.POW, Ops.FMOD), _FLOAT),
    **dict.fromkeys((Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND, Ops.NEG), _NUMBER),
    **dict.fromkeys((Ops.FLOORDIV, Ops.FLOORMOD, Ops.SHL, Ops.SHR), _INT),
    **dict.fromkeys((Ops.AND, Ops.OR, Ops.XOR, Ops.NOT), _BITS),
    **dict.fromkeys((Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAXIMUM, Ops.MINIMUM), _ANY),
    **dict.fromkeys((*COMPARISONS, Ops.CAST, Ops.BITCAST, Ops.WHERE), _ANY),
}


def verify_tensor(roots: UOp | Sequence[UOp]) -> None:
    """Raise SpecError if a node below `roots` is not legal on the tensor floor."""
    _verify("tensor floor", roots, _TENSOR)


def verify_kernel(sink: UOp) -> None:
    """Raise SpecError if a node of this kernel is not legal, or two loops have one number."""
    floor = "kernel floor"
    _verify(floor, sink, _KERNEL)
    numbers: dict[int, UOp] = {}
    for u in sink.toposort():
        if u.shape:
            raise _error(floor, u, f"has shape {u.shape}; everything is a scalar here")
        if u.op is Ops.RANGE and numbers.setdefault(u.arg[0], u) is not u:
            raise _error(floor, u, f"shares its number with {numbers[u.arg[0]]!r}")


def _verify(floor: str, roots: UOp | Sequence[UOp], rules: dict[Ops, Rule]) -> None:
    for u in toposort((roots,) if isinstance(roots, UOp) else roots):
        rule = rules.get(u.op)
        wrong = rule(u) if rule is not None else f"{u.op.name} is no operation of this floor"
        if wrong is not None:
            raise _error(floor, u, wrong)


def _error(floor: str, u: UOp, wrong: str) -> SpecError:
    place = describe(u)
    return SpecError(
        f"{floor}: {wrong}\n  in {short(u)}" + (f"\n  made at {place}" if place else "")
    )


# ---- elementwise ops, on both floors


def _elementwise(u: UOp) -> str | None:
    found = [s.dtype for s in u.src]
    if u.op is Ops.THREEFRY:
        wanted = [dtypes.uint64, dtypes.uint32, dtypes.uint32]
        return None if found == wanted and u.dtype is dtypes.uint32 else _types(u, wanted)
    if len(found) != _sources(u.op):
        return f"takes {_sources(u.op)} sources, has {len(found)}"
    values = found[1:] if u.op is Ops.WHERE else found
    if values[0].kind not in KINDS[u.op] or any(d is not values[0] for d in values):
        return f"cannot take {', '.join(d.name for d in found)}"
    if u.op is Ops.WHERE and found[0] is not dtypes.bool:
        return f"chooses by a {found[0].name}, not a bool"
    if u.arg is not None and (u.op, u.arg) != (Ops.EXP, "decay"):
        return f"has the argument {u.arg!r}"
    return _result(u, values[0])


def _result(u: UOp, source: DType) -> str | None:
    if u.op is Ops.CAST:
        return None if u.dtype.kind in _ANY else f"cannot make a {u.dtype.name}"
    if u.op is Ops.BITCAST:
        fits = u.dtype.itemsize == source.itemsize
        return None if fits else f"{source.name} and {u.dtype.name} differ in size"
    wanted = dtypes.bool if u.op in COMPARISONS else source
    return None if u.dtype is wanted else f"gives {wanted.name}, not {u.dtype.name}"


def _sources(op: Ops) -> int:
    return 3 if op is Ops.WHERE else 1 if Ops.NEG <= op <= Ops.BITCAST else 2


def _types(u: UOp, wanted: Sequence[DType]) -> str:
    names = ", ".join(d.name for d in wanted)
    return f"takes {names}, has {', '.join(s.dtype.name for s in u.src)}"


# ---- leaves


def _buffer(u: UOp) -> str | None:
    fits = not u.src and isinstance(u.arg, tuple) and len(u.arg) == 3 and _sizes(u.arg[1])
    return None if fits else "needs the argument (number, shape, device)"


def _sizes(shape: object) -> bool:
    return isinstance(shape, tuple) and all(map(_is_size, shape))


def _is_size(n: object) -> bool:
    return isinstance(n, Size) or (type(n) is int and n >= 0)


def _const(u: UOp) -> str | None:
    if len(u.src) > 1 or any(s.op is not Ops.UNIQUE for s in u.src):
        return "takes nothing but a UNIQUE"
    kind: type[Any] = bool if u.dtype.kind == "bool" else float if u.dtype.is_float else int
    if type(u.arg) is not kind or u.dtype.kind not in _ANY:
        return f"{u.arg!r} is no {u.dtype.name}"
    inside = kind is not int or u.dtype is dtypes.index or u.dtype.min <= u.arg <= u.dtype.max
    return None if inside else f"{u.arg} is outside {u.dtype.name}"


def _unique(u: UOp) -> str | None:
    return None if not u.src and type(u.arg) is int else "needs a number"


def _variable(u: UOp) -> str | None:
    name, lo, hi, *value = u.arg
    if not isinstance(name, str) or not lo <= hi:
        return "needs a name and lo <= hi"
    return None if all(lo <= v <= hi for v in value) else f"is bound to {value[0]}, outside"


def _iota(u: UOp) -> str | None:
    return None if _is_size(u.arg) and not u.src else "needs its length"


# ---- tensor floor


def _movement(u: UOp) -> str | None:
    return _keeps_type(u) if len(u.src) == 1 else f"moves one tensor, has {len(u.src)} sources"


def _keeps_type(u: UOp) -> str | None:
    source = u.src[0].dtype
    return None if u.dtype is source else f"changes {source.name} to {u.dtype.name}"


def _flip(u: UOp) -> str | None:
    rank = len(u.src[0].shape)
    inside = all(type(a) is int and 0 <= a < rank for a in u.arg)
    return _movement(u) if inside else f"axes {u.arg} of a tensor of {rank} axes"


def _reduce(u: UOp) -> str | None:
    if not isinstance(u.arg, tuple) or u.arg[0] not in REDUCERS:
        return f"{u.arg!r} is no (reduction, axes)"
    axes, rank = u.arg[1], len(u.src[0].shape)
    if list(axes) != sorted(set(axes)) or any(not 0 <= a < rank for a in axes):
        return f"axes {axes} of a tensor of {rank} axes"
    return _keeps_type(u)


def _scan(u: UOp) -> str | None:
    if not isinstance(u.arg, tuple) or u.arg[0] not in REDUCERS:
        return f"{u.arg!r} is no (reduction, axis)"
    axis, rank = u.arg[1], len(u.src[0].shape)
    return _keeps_type(u) if 0 <= axis < rank else f"axis {axis} of a tensor of {rank} axes"


def _gather(u: UOp) -> str | None:
    x, index = u.src
    if index.dtype.kind not in _INT:
        return f"indices are {index.dtype.name}, not integers"
    rank = len(x.shape)
    return _keeps_type(u) if 0 <= u.arg < rank else f"axis {u.arg} of a tensor of {rank} axes"


def _scatter(u: UOp) -> str | None:
    base, index, updates = u.src
    axis, mode = u.arg
    if mode not in ("set", "add", "mul", "max", "min"):
        return f"no mode {mode!r}"
    if index.dtype.kind not in _INT or updates.dtype is not base.dtype:
        place = index.dtype if index.dtype.is_int else dtypes.int32
        return _types(u, [base.dtype, place, base.dtype])
    rank = len(base.shape)
    return _keeps_type(u) if 0 <= axis < rank else f"axis {axis} of a tensor of {rank} axes"


def _copy(u: UOp) -> str | None:
    return _keeps_type(u) if isinstance(u.arg, str) else "needs the name of a device"


def _tensor_store(u: UOp) -> str | None:
    target, value = u.src
    if target.base.op not in (Ops.BUFFER, Ops.AFTER):
        return f"writes into a {target.base.op.name}, not a buffer"
    if target.dtype is not value.dtype or target.shape != value.shape:
        return f"writes {value.dtype.name}{value.shape} into {target.dtype.name}{target.shape}"
    return None


def _after(u: UOp) -> str | None:
    if u.src[0].op not in (Ops.BUFFER, Ops.AFTER):
        return f"follows a {u.src[0].op.name}, not a buffer"
    effects = all(s.op in (Ops.STORE, Ops.KERNEL, Ops.END) for s in u.src[1:])
    return _keeps_type(u) if effects else "waits for something that is no effect"


def _function(u: UOp) -> str | None:
    _, which, count, _ = u.arg
    if not 0 <= which < count <= len(u.src):
        return f"has no value {which} of {count}"
    value = u.src[which].dtype
    return None if u.dtype is value else f"changes {value.name} to {u.dtype.name}"


def _kernel(u: UOp) -> str | None:
    call = u.arg
    slots = {o.slot: (o.dtype, o.shape) for o in call.outputs}
    if u.dtype is not call.outputs[call.which].dtype or len(call.slots) != len(u.src):
        return "does not fit its outputs and sources"
    slots |= {slot: (s.dtype, s.shape) for slot, s in zip(call.slots, u.src, strict=True)}
    found = [_written(p) for p in call.sink.toposort() if p.op is Ops.STORE]
    stores = {slot for slot in found if slot is not None}
    if stores != {o.slot for o in call.outputs}:
        return f"stores into parameters {sorted(stores)}, has others for outputs"
    fixed = dict(call.values)
    for p in call.sink.toposort():
        if p.op is Ops.PARAM:
            dtype, shape = slots.get(p.arg[0], (dtypes.void, ()))
            held = dtypes.uint8 if dtype is dtypes.bool else dtype
            if held is not p.dtype or math.prod(shape) != p.arg[1]:
                return f"gives parameter {p.arg} of {p.dtype.name} a {dtype.name}{shape}"
        elif p.op is Ops.VARIABLE and not p.arg[1] <= fixed.get(p.arg[0], p.arg[1] - 1) <= p.arg[2]:
            return f"gives no value to variable {p.arg}"
    return None


def _written(store: UOp) -> int | None:
    """The slot of the parameter that a store writes; None where it is a LOCAL."""
    base = store.src[0].src[0]
    while base.op is Ops.AFTER:
        base = base.src[0]
    return base.arg[0] if base.op is Ops.PARAM else None


def _anything(u: UOp) -> str | None:
    return None


_BOTH: Final[dict[Ops, Rule]] = {
    Ops.CONST: _const,
    Ops.VARIABLE: _variable,
    **dict.fromkeys(ELEMENTWISE, _elementwise),
}
_TENSOR: Final[dict[Ops, Rule]] = {
    **_BOTH,
    Ops.BUFFER: _buffer,
    Ops.UNIQUE: _unique,
    Ops.IOTA: _iota,
    **dict.fromkeys(MOVEMENT, _movement),
    Ops.FLIP: _flip,
    Ops.REDUCE: _reduce,
    Ops.SCAN: _scan,
    Ops.GATHER: _gather,
    Ops.SCATTER: _scatter,
    Ops.CONTIGUOUS: _keeps_type,
    Ops.DETACH: _keeps_type,
    Ops.COPY: _copy,
    Ops.STORE: _tensor_store,
    Ops.AFTER: _after,
    Ops.KERNEL: _kernel,
    Ops.FUNCTION: _function,
    Ops.SINK: _anything,
}


# ---- kernel floor


def _param(u: UOp) -> str | None:
    slot, count = u.arg
    if type(slot) is not int or slot < 0 or not (type(count) is int and count >= 0):
        return f"{u.arg!r} is no (slot, element count)"
    return "memory holds a bool as uint8" if u.dtype is dtypes.bool else None


def _range(u: UOp) -> str | None:
    if len(u.src) != 2 or any(s.dtype is not dtypes.index for s in u.src):
        return "needs two bounds of dtype index"
    return None if u.dtype is dtypes.index and type(u.arg[0]) is int else "needs (number, kind)"


def _index(u: UOp) -> str | None:
    base, offset = u.src
    if base.op not in (Ops.PARAM, Ops.LOCAL, Ops.AFTER):
        return f"points into a {base.op.name}"
    if offset.dtype is not dtypes.index or offset.lo is None or offset.hi is None:
        return f"has an offset of dtype {offset.dtype.name}"
    return _keeps_type(u)


def _load(u: UOp) -> str | None:
    if u.src[0].op is not Ops.INDEX:
        return f"reads from a {u.src[0].op.name}"
    return _keeps_type(u) or _gate(u.src[1:]) or _outside(u.src[0], u.src[1:])


def _store(u: UOp) -> str | None:
    address, value = u.src[:2]
    if address.op is not Ops.INDEX:
        return f"writes to a {address.op.name}"
    if value.dtype is not address.dtype:
        return f"writes {value.dtype.name} into memory of {address.dtype.name}"
    return _gate(u.src[2:]) or _outside(address, u.src[2:])


def _gate(gates: Sequence[UOp]) -> str | None:
    fits = len(gates) <= 1 and all(g.dtype is dtypes.bool for g in gates)
    return None if fits else "has a gate that is no bool"


def _outside(address: UOp, gates: Sequence[UOp]) -> str | None:
    """An access that no gate guards and that misses its buffer whatever the loops do."""
    base, offset = address.src
    if gates or base.op is not Ops.PARAM or offset.lo is None or offset.hi is None:
        return None
    if any(_may_be_empty(r) for r in ranges_of(offset)):
        return None
    if offset.hi >= 0 and offset.lo < base.arg[1]:
        return None
    return f"touches [{offset.lo}, {offset.hi}] of {base.arg[1]} elements"


def _may_be_empty(loop: UOp) -> bool:
    lo, hi = loop.src
    return lo.hi is None or hi.lo is None or lo.hi >= hi.lo


def _kernel_reduce(u: UOp) -> str | None:
    if u.arg not in REDUCERS:
        return f"{u.arg!r} is no reduction"
    if not u.src[1:] or any(s.op is not Ops.RANGE for s in u.src[1:]):
        return "runs over something that is no RANGE"
    return _keeps_type(u)


def _local(u: UOp) -> str | None:
    fits = isinstance(u.arg, tuple) and len(u.arg) in (2, 3) and type(u.arg[0]) is int
    return None if fits and u.arg[0] > 0 else "needs (count, space)"


def _end(u: UOp) -> str | None:
    effects = [s for s in u.src if s.op is not Ops.RANGE]
    wrong = [s for s in effects if s.op not in (Ops.STORE, Ops.END)]
    if wrong or not effects:
        return f"closes {wrong[0].op.name if wrong else 'nothing'}, which is no effect"
    return None


def _order(u: UOp) -> str | None:
    if u.src[0].op in (Ops.PARAM, Ops.LOCAL, Ops.AFTER):
        wrong = [s for s in u.src[1:] if s.op not in (Ops.STORE, Ops.END, Ops.RANGE)]
        return f"follows a {wrong[0].op.name}, which is no effect" if wrong else None
    return None  # a value that was kept for later as well


def _sink(u: UOp) -> str | None:
    wrong = [s.op.name for s in u.src if s.op not in (Ops.STORE, Ops.END, Ops.AFTER)]
    return f"collects a {wrong[0]}, which is no effect" if wrong else None


_KERNEL: Final[dict[Ops, Rule]] = {
    **_BOTH,
    Ops.PARAM: _param,
    Ops.RANGE: _range,
    Ops.INDEX: _index,
    Ops.LOAD: _load,
    Ops.STORE: _store,
    Ops.REDUCE: _kernel_reduce,
    Ops.SCAN: _kernel_reduce,
    Ops.LOCAL: _local,
    Ops.AFTER: _order,
    Ops.END: _end,
    Ops.SINK: _sink,
}
