"""`polygrad devices`: a row for each installed device.

A descriptor and a probe are a stranger's code, which may hang or crash. So each is asked in a child
process with ten seconds' time, and whatever happens there becomes a row of the table.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass

from .. import registry
from ..device import choice
from ..errors import PolygradError
from . import child
from .command import Result
from .table import table


@dataclass(slots=True)
class Row:
    """One installed device, as the table shows it."""

    name: str
    state: str  # "ok", "unavailable", "broken", "crashed", "no answer", "off"
    package: str
    value: str
    count: int = 0
    arch: str = ""
    reason: str = ""
    summary: str = ""
    descriptor_ms: float = 0.0
    probe_ms: float = 0.0
    default: bool = False


def report(*, verbose: bool) -> Result:
    rows = [ask(record) for record in registry.records(registry.DEVICES)]
    chosen, problem = _chosen()
    for row in rows:
        row.default = row.state == "ok" and row.name in {name.split(":")[0] for name in chosen}
    data = {"default": list(chosen), "problem": problem, "devices": [asdict(row) for row in rows]}
    lines = [table(_HEADS, [_cells(row) for row in rows])]
    if verbose:
        lines += ["", table(_MORE, [_more(row) for row in rows])]
    if problem:
        lines += ["", problem]
    return Result(data, "\n".join(lines), ok=bool(chosen))


_HEADS = ("", "device", "state", "count", "arch", "package", "")
_MORE = ("device", "from", "descriptor", "probe", "summary")


def _cells(row: Row) -> tuple[str, ...]:
    star = "*" if row.default else ""
    count = str(row.count or "any") if row.state == "ok" else ""
    return (star, row.name, row.state, count, row.arch, row.package, row.reason)


def _more(row: Row) -> tuple[str, ...]:
    times = (f"{row.descriptor_ms:.1f} ms", f"{row.probe_ms:.1f} ms")
    return (row.name, row.value, *times, row.summary)


def _chosen() -> tuple[tuple[str, ...], str]:
    """The devices in force, and what is wrong with the choice, if anything."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            names = choice.chosen()
        except PolygradError as error:
            return (), str(error)
    return names, "\n".join(str(warning.message) for warning in caught)


def ask(record: registry.Record) -> Row:
    """The row of one device, asked in a child process."""
    row = Row(record.name, "off", record.package, record.value)
    if registry.blocked(record):
        row.reason = "switched off by POLY_PLUGINS"
        return row
    answer = child.ask("device", record.name, what="its probe")
    if answer.data is None:
        row.state, row.reason = answer.state, answer.reason
        return row
    for name, value in answer.data.items():
        setattr(row, name, value)
    return row
