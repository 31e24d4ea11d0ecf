"""Programs on disk by what their kernels are: a warm process neither generates nor renders code.

An entry says how to launch each kernel of a module (everything of a LinearProgram but its `ops`)
and where its object code stands in the disk cache. Its key hashes the kernels' content names, the
Target, and a stamp of every source file that takes part in turning a kernel into code, so that an
edited compiler is another compiler.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..contract import Binary, LinearProgram, Param, Source, VariableSpec
from ..dtype import DType, to_dtype
from ..files.diskcache import DiskCache, log
from ..plugin import Device
from ..target import Target

_ROOMS = ("codegen", "render", "uop", "contract.py", "dtype.py", "target.py")


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


# ---- what decides the code


def code_key(device: Device, source: Source) -> bytes:
    """The hash of everything that decides the code which `source` becomes."""
    digest = hashlib.sha256()
    for part in (_package(device), device.renderer.key, device.compiler.key, device.target.arch):
        digest.update(part.encode() + b"\0")
    code = source.code
    digest.update(code if isinstance(code, bytes) else code.encode())
    return digest.digest()


def _package(device: Device) -> str:
    from ..registry import DEVICES, find

    record = find(DEVICES, device.name.partition(":")[0])
    return record.package if record is not None else type(device).__module__


def _key(device: Device, names: Sequence[str]) -> bytes:
    return key_of("kernels", device, device.target, names)


def key_of(what: str, device: Device, target: Target, names: Sequence[str]) -> bytes:
    """The hash of kernels' names and of all that turns a kernel into code for this target."""
    digest = hashlib.sha256(what.encode() + b"\0")
    root = type(device).__module__.partition(".")[0]
    parts = (_stamp(root), device.renderer.key, device.compiler.key, described(target), *names)
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.digest()


@lru_cache(maxsize=8)
def _stamp(backend: str) -> str:
    """A hash of name, size and time of the source files of the compiler and of a backend."""
    digest = hashlib.sha256()
    core = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [os.path.join(core, room) for room in _ROOMS]
    package = getattr(sys.modules.get(backend), "__file__", None)
    if package and backend != __name__.partition(".")[0]:
        places.append(os.path.dirname(package))
    for path, info in sorted((p, i) for place in places for p, i in _files(place)):
        digest.update(f"{path} {info};".encode())
    return digest.hexdigest()


def _files(place: str) -> Iterator[tuple[str, str]]:
    if os.path.isfile(place):
        yield place, _about(os.stat(place))
    elif os.path.isdir(place):
        for entry in os.scandir(place):
            if entry.name.endswith(".py"):
                yield entry.path, _about(entry.stat())
            elif entry.is_dir() and not entry.name.startswith("_"):
                yield from _files(entry.path)


def _about(info: os.stat_result) -> str:
    return f"{info.st_size} {info.st_mtime_ns}"


def described(target: Target) -> str:
    """The same text in every process."""
    return repr([(f.name, _plain(getattr(target, f.name))) for f in dataclasses.fields(target)])


def _plain(value: Any) -> Any:
    """`value` with unordered parts in order: the same text in every process."""
    if isinstance(value, Mapping):
        return sorted((repr(k), _plain(v)) for k, v in value.items())
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


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
