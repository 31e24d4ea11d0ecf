"""Programs on disk by what their kernels are: a warm process neither generates nor renders code.

An entry says how to launch each kernel of a module (everything of a LinearProgram but its `ops`)
and where its object code stands in the disk cache. Its key (`keys.py`) hashes the kernels'
content names and all that turns a kernel into code, so that an edited compiler is another compiler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..contract import Binary, LinearProgram, Param, VariableSpec
from ..dtype import DType, to_dtype
from ..files.diskcache import DiskCache, log
from ..plugin import Device
from . import keys


def load(
    cache: DiskCache, device: Device, names: Sequence[str]
) -> tuple[list[LinearProgram], Binary] | None:
    """The programs of these kernels, `ops` left empty, and their code; None if any is missing."""
    entry = cache.get(_key(device, names))
    if entry is None:
        return None
    try:
        text = json.loads(entry)
        programs = [_program(p) for p in text["programs"]]
        code = cache.get(bytes.fromhex(text["code"]))
        entries = dict(text["entries"])
    except (ValueError, KeyError, TypeError, LookupError) as error:
        log.warning("an entry of %s cannot be read: %s", cache.path, error)
        return None
    return None if code is None else (programs, Binary(code, entries))


def save(
    cache: DiskCache,
    device: Device,
    programs: Sequence[LinearProgram],
    code_key: bytes,
    entries: Mapping[str, str],
) -> None:
    """Remember how `programs` became the code that stands in the cache under `code_key`."""
    text = {
        "programs": [_text(p) for p in programs],
        "code": code_key.hex(),
        "entries": dict(entries),
    }
    cache.put(_key(device, [p.name for p in programs]), json.dumps(text).encode())


def _key(device: Device, names: Sequence[str]) -> bytes:
    return keys.of_kernels("kernels", device, device.target, names)


# ---- a LinearProgram without its ops, as JSON


def _text(p: LinearProgram) -> dict[str, Any]:
    return {
        "name": p.name,
        "params": [(q.slot, _dtype_text(q.dtype), q.size, q.access) for q in p.params],
        "variables": [(v.name, _dtype_text(v.dtype), v.lo, v.hi) for v in p.variables],
        "grid": p.grid,
        "block": p.block,
        "numbers": (p.shared_bytes, p.scratch_bytes, p.flops, p.bytes),
        "note": p.note,
    }


def _program(text: Mapping[str, Any]) -> LinearProgram:
    shared, scratch, flops, moved = text["numbers"]
    return LinearProgram(
        name=text["name"],
        ops=(),
        params=tuple(Param(s, _dtype(d), n, a) for s, d, n, a in text["params"]),
        variables=tuple(VariableSpec(n, _dtype(d), lo, hi) for n, d, lo, hi in text["variables"]),
        grid=tuple(map(tuple, text["grid"])),
        block=tuple(map(tuple, text["block"])),
        shared_bytes=shared,
        scratch_bytes=scratch,
        flops=flops,
        bytes=moved,
        note=text["note"],
    )


def _dtype_text(dtype: DType) -> tuple[str, int]:
    return dtype.scalar.name, dtype.lanes


def _dtype(text: Sequence[Any]) -> DType:
    name, lanes = text
    return to_dtype(name).vec(lanes)
