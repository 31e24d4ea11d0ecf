"""`polygrad tune FILE.pgb`: search for faster kernels, and write what wins into the bundle."""

from __future__ import annotations

from typing import Any

from .command import Result
from .table import table


def report(path: str, out: str | None, device: str | None, beam: int, seconds: int) -> Result:
    from ..model import Model

    model = Model.load(path, device)
    rows = model.tune(beam, seconds)
    model.save(out or path)
    data = {"file": path, "out": out or path, "device": model.device, "kernels": rows}
    return Result(data, _text(data))


def _text(data: dict[str, Any]) -> str:
    rows = data["kernels"]
    won = sum(row["list"] is not None for row in rows)
    cells = [
        (row["kernel"], _us(row["before_us"]), _us(row["after_us"]), *_counts(row), _shape(row))
        for row in rows
    ]
    heads = ("kernel", "before", "after", "tried", "refused", "recipe")
    done = f"{data['out']}: {won} of {len(rows)} kernels on {data['device']} run by a list found"
    return f"{table(heads, cells)}\n\n{done}"


def _us(time: float | None) -> str:
    return "known" if time is None else f"{time:.4g} us"


def _shape(row: dict[str, Any]) -> str:
    """The recipe and the loops it began with, without its verbs."""
    return str(row["recipe"]).partition(":")[0]


def _counts(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["tried"] or ""), str(row["refused"] or "")
