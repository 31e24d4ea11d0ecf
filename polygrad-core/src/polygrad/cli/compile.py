"""`polygrad compile --target DEVICE[:ARCH] FILE.pgb`: the kernels of a bundle as code, with no
device present.

The graphs are scheduled, lowered, rendered and compiled as they would be where the bundle runs;
nothing is opened, probed or launched, and no weights are read.
"""

from __future__ import annotations

import os
from typing import Any

from .. import registry
from ..codegen import compile_kernel
from ..contract import LinearProgram
from ..device import naming
from ..engine import kernels
from ..engine.functional import functional
from ..errors import ArgumentError, CompileError
from ..files import atomic
from ..model.bundle import Bundle
from ..model.graph import Entrypoint
from ..plugin import CrossTools, DevicePlugin
from ..schedule import KernelItem, schedule
from ..target import Target
from ..uop.ops import Ops, UOp
from . import folders
from .command import Result
from .table import table


def report(path: str, target: str, output: str | None) -> Result:
    name, _, arch = target.strip().partition(":")
    tools = _tools(name.lower(), arch)
    programs, used = _programs(path, tools.target)
    source = tools.renderer.render(programs)
    binary = tools.compiler(source)
    data: dict[str, Any] = {
        "file": path,
        "target": tools.target.name,
        "arch": tools.target.arch,
        "programs": [
            {
                "name": p.name,
                "entry": source.entries[p.name],
                "entrypoints": used[p.name],
                "note": p.note,
                "flops": p.flops,
                "bytes": p.bytes,
            }
            for p in programs
        ],
        "source_bytes": len(source.code),
        "code_bytes": len(binary.code),
        "written": _write(output, source.code, binary.code),
    }
    return Result(data, _text(data))


def _tools(name: str, arch: str) -> CrossTools:
    record = naming.find(name)
    descriptor = record.descriptor
    assert isinstance(descriptor, DevicePlugin)
    if not descriptor.cross:
        raise ArgumentError(
            f"device {record.name!r} ({record.package}) does not compile without its machine: its"
            " descriptor has no `cross`."
        )
    tools = registry.resolve(descriptor.cross)(arch)
    if not isinstance(tools, CrossTools):
        raise CompileError(f"{descriptor.cross} gave {type(tools).__name__}, expected CrossTools.")
    return tools


def _programs(path: str, target: Target) -> tuple[list[LinearProgram], dict[str, list[str]]]:
    """The programs of every entrypoint, and which entrypoints use each."""
    with Bundle(path) as bundle:
        entrypoints, states = bundle.graphs(target.name)
    found: dict[str, LinearProgram] = {}
    used: dict[str, list[str]] = {}
    for name, entrypoint in entrypoints.items():
        for item in _kernels(entrypoint, states, target):
            sink = kernels.canonical(item.sink, item.variables)
            program = kernels.content_name(sink)
            if program not in found:
                found[program] = compile_kernel(sink, target, program)
            if name not in used.setdefault(program, []):
                used[program].append(name)
    return list(found.values()), used


def _kernels(entrypoint: Entrypoint, states: dict[str, UOp], target: Target) -> list[KernelItem]:
    values = [*entrypoint.outputs.values(), *entrypoint.writes.values()]
    plain = functional(values, lambda n: n if n.op is Ops.BUFFER else None)
    count = len(entrypoint.outputs)
    stores = [
        leaf.after(leaf.store(value))
        for leaf, value in zip((states[n] for n in entrypoint.writes), plain[count:], strict=True)
    ]
    roots = [*plain[:count], *stores]
    items = schedule(roots, target.name, lanes=lambda _: target.float_lanes).items
    return [item for item in items if isinstance(item, KernelItem)]


def _write(folder: str | None, source: str | bytes, code: bytes) -> list[str]:
    """The source and the code, in a folder; nothing without one."""
    if folder is None:
        return []
    folders.make(folder, "--output")
    text = source if isinstance(source, bytes) else source.encode()
    written = []
    for name, content in (("kernels.source", text), ("kernels.code", code)):
        path = os.path.join(folder, name)
        with atomic(path) as file:
            file.write(content)
        written.append(path)
    return written


def _text(data: dict[str, Any]) -> str:
    rows = [
        (p["name"], " ".join(p["entrypoints"]), f"{p['flops']:,}", p["note"].partition(":")[0])
        for p in data["programs"]
    ]
    lines = [
        table(("program", "entrypoints", "flops", "shape"), rows),
        "",
        f"{len(rows)} programs for {data['target']} {data['arch']}:"
        f" {data['source_bytes']:,} bytes of source, {data['code_bytes']:,} bytes of code",
    ]
    if data["written"]:
        lines.append("written: " + ", ".join(data["written"]))
    return "\n".join(lines)
