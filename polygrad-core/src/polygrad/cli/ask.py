"""`python -m polygrad.cli.ask QUESTION …`: answer one question, print one line of JSON.

Run by `child.ask` as a child process, so that a package which hangs or crashes ends only it.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from .. import plugin, registry
from ..device.naming import probe
from ..errors import PluginConflict, PolygradError, told


def device(name: str) -> dict[str, Any]:
    """Whether a device works here, by its probe."""
    try:
        record = registry.find(registry.DEVICES, name)
    except PolygradError as error:
        return {"state": "broken", "reason": str(error)}
    assert record is not None and record.descriptor is not None, name
    start = time.perf_counter()
    found = probe(record)
    return {
        "state": "ok" if found.ok else "unavailable",
        "count": found.count,
        "arch": found.arch,
        "reason": ". Hint: ".join(filter(None, (found.detail, found.hint))),
        "summary": record.descriptor.summary,
        "descriptor_ms": round(record.load_ms, 3),
        "probe_ms": round((time.perf_counter() - start) * 1e3, 3),
    }


def descriptors(group: str, name: str) -> list[dict[str, Any]]:
    """How far each candidate for a name comes when it is loaded."""
    conflict = ""
    try:
        registry.find(group, name)
    except PluginConflict as error:
        conflict = str(error)
    except PolygradError:
        pass  # stands in the record that failed
    else:
        _plug_in(registry.find(group, name))
    return [_row(r, conflict) for r in registry.snapshot().get((group, name), [])]


def _plug_in(record: registry.Record | None) -> None:
    """Register hooks as they would be when they are needed: what is wrong with them shows."""
    if record is not None and record.group == registry.PLUGINS:
        from ..hooks.manager import Hooks

        with contextlib.suppress(PolygradError):  # stands in the record
            Hooks(lambda: None).add(record, record.descriptor)


def _row(record: registry.Record, conflict: str) -> dict[str, Any]:
    state, reason = record.state, ""
    if record.failure is not None:
        reason = record.failure[1]
    elif registry.blocked(record):
        state, reason = "blocked", "switched off by POLY_PLUGINS"
    elif state == "found":
        state = "conflict" if conflict else "not preferred"
        reason = conflict
    found = record.descriptor
    details = {n: list(getattr(found, n, ())) for n in ("suffixes", "architectures")}
    return {
        "value": record.value,
        "dist": record.dist,
        "version": record.version,
        "state": state,
        "api": "" if found is None else "{}.{}".format(*getattr(found, "api", plugin.API)),
        "load_ms": round(record.load_ms, 3),
        "summary": getattr(found, "summary", ""),
        "reason": reason,
        **details,
    }


def run(name: str) -> dict[str, Any]:
    """Open a device, and use memory, compiler and program once each."""
    from .. import Context, Tensor
    from ..device import get
    from ..device.buffer import Buffer

    step = "open"
    try:
        opened = get(name)
        step = "memory"
        buffer = Buffer(opened.name, 4096)
        data = bytes(range(256)) * 16
        buffer.write(memoryview(data))
        if bytes(buffer.read()) != data:
            return {"step": step, "reason": "bytes written are not the bytes read"}
        step = "[1, 2, 3] * 2"
        with Context(POLY_DEV=name):
            found = (Tensor([1.0, 2.0, 3.0]) * 2).tolist()
        with Context(POLY_DEV="interp"):
            expected = (Tensor([1.0, 2.0, 3.0]) * 2).tolist()
        if found != expected:
            return {"step": step, "reason": f"gave {found}, not {expected}"}
    except Exception as error:  # noqa: BLE001 - whatever it is, doctor tells it
        text = str(error) if isinstance(error, PolygradError) else told(error)
        return {"step": step, "reason": text}
    return {"step": "", "reason": "", "arch": opened.target.arch}


QUESTIONS: dict[str, Callable[..., Any]] = {
    "device": device,
    "descriptors": descriptors,
    "run": run,
}


if __name__ == "__main__":
    question, *arguments = sys.argv[1:]
    print("\n" + json.dumps(QUESTIONS[question](*arguments)))
