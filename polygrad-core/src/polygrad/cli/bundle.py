"""`polygrad inspect FILE.pgb`: what a bundle holds, without reading its weights.

The archive and the manifest are checked and the graph is verified; sizes come from the manifest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from typing import Any

from ..dtype import to_dtype
from .command import Result
from .table import table

Json = Mapping[str, Any]


def report(path: str) -> Result:
    from ..model.bundle import Bundle

    with Bundle(path) as bundle:
        bundle.graphs("interp")
        manifest = bundle.manifest
    data = {
        "file": path,
        "bytes": os.path.getsize(path),
        **{name: manifest[name] for name in ("producer", "version", "entrypoints", "inputs")},
        **{name: manifest[name] for name in ("state", "aliases", "optimizer", "metadata")},
        "members": manifest["members"],
        "parameters": sum(_count(s) for s in manifest["state"].values() if s["role"] == "param"),
    }
    return Result(data, _text(data))


def _text(data: Json) -> str:
    version = ".".join(map(str, data["version"]))
    head = (
        f"{data['file']}: polygrad bundle {version}, {_bytes(data['bytes'])}, by {data['producer']}"
    )
    entrypoints = [
        (name, _inputs(data, e["inputs"]), _inputs(data, e["targets"]), _outputs(e["outputs"]))
        for name, e in data["entrypoints"].items()
    ]
    state = [(name, s["role"], _spec(s), _bytes(_nbytes(s))) for name, s in data["state"].items()]
    members = [(name, _bytes(m["size"])) for name, m in data["members"].items()]
    parts = [
        head,
        table(("entrypoint", "inputs", "targets", "outputs"), entrypoints),
        table(("state", "role", "", "size"), state),
        table(("member", "size"), members),
        f"{data['parameters']:,} parameters",
    ]
    return "\n\n".join(parts)


def _inputs(data: Json, names: list[str]) -> str:
    return ", ".join(f"{name}: {_spec(data['inputs'][name])}" for name in names)


def _outputs(outputs: Json) -> str:
    return ", ".join(f"{name}: {_spec(spec)}" for name, spec in outputs.items())


def _spec(spec: Json) -> str:
    from ..model import sizes

    return f"{spec['dtype']}{list(map(sizes.read, spec['shape']))}"


def _count(spec: Json) -> int:
    return prod(spec["shape"])


def _nbytes(spec: Json) -> int:
    return _count(spec) * to_dtype(spec["dtype"]).itemsize


def _bytes(count: int) -> str:
    """A size for people: three digits or so."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"
