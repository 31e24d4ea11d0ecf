"""LinearPrograms as text and back: what the reference device's renderer prints and `load` reads.

One program is one JSON object on one line; `ops` is a list of ``[op, dtype, src, arg]``. The same
programs give the same bytes on every run, so the text is a cache key, and reading it back runs no
code: floats are hexadecimal strings, tuples and ops carry a tag.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..contract import Instr, LinearProgram, Param, VariableSpec
from ..dtype import DType, dtypes, to_dtype
from ..uop.ops import Ops

_COUNTS = ("shared_bytes", "scratch_bytes", "flops", "bytes", "note")
_INNER = {"index": dtypes.index, "void": dtypes.void}


def dumps(programs: Sequence[LinearProgram]) -> str:
    """The text of `programs`, one line each."""
    return "".join(json.dumps(_program(p), separators=(",", ":")) + "\n" for p in programs)


def loads(text: str) -> list[LinearProgram]:
    """The programs that `dumps` wrote."""
    return [_read_program(json.loads(line)) for line in text.splitlines()]


def _program(p: LinearProgram) -> dict[str, Any]:
    return {
        "name": p.name,
        "ops": [[i.op.name, i.dtype.name, list(i.src), _arg(i.arg)] for i in p.ops],
        "params": [[q.slot, q.dtype.name, q.size, q.access] for q in p.params],
        "variables": [[v.name, v.dtype.name, _arg(v.lo), _arg(v.hi)] for v in p.variables],
        "grid": [list(g) for g in p.grid],
        "block": [list(b) for b in p.block],
        **{name: getattr(p, name) for name in _COUNTS},
    }


def _read_program(d: dict[str, Any]) -> LinearProgram:
    return LinearProgram(
        name=d["name"],
        ops=tuple(Instr(Ops[o], _dtype(t), tuple(s), _read_arg(a)) for o, t, s, a in d["ops"]),
        params=tuple(Param(slot, _dtype(t), size, way) for slot, t, size, way in d["params"]),
        variables=tuple(
            VariableSpec(name, _dtype(t), _read_arg(lo), _read_arg(hi))
            for name, t, lo, hi in d["variables"]
        ),
        grid=tuple(map(tuple, d["grid"])),
        block=tuple(map(tuple, d["block"])),
        **{name: d[name] for name in _COUNTS},
    )


def _dtype(name: str) -> DType:
    scalar, _, lanes = name.partition("x") if not name.startswith("index") else _index(name)
    found = _INNER.get(scalar) or to_dtype(scalar)
    return found.vec(int(lanes)) if lanes else found


def _index(name: str) -> tuple[str, str, str]:
    return "index", "", name[len("indexx") :]


def _arg(arg: Any) -> Any:
    if isinstance(arg, Ops):
        return ["op", arg.name]
    if isinstance(arg, float):
        return ["float", arg.hex()]
    if isinstance(arg, tuple):
        return ["tuple", *map(_arg, arg)]
    if arg is None or isinstance(arg, bool | int | str):
        return arg
    raise TypeError(f"an instruction's argument cannot be a {type(arg).__name__}")


def _read_arg(data: Any) -> Any:
    if not isinstance(data, list):
        return data
    tag, *rest = data
    if tag == "op":
        return Ops[rest[0]]
    return float.fromhex(rest[0]) if tag == "float" else tuple(map(_read_arg, rest))
