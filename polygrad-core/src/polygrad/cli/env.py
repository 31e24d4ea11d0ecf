"""`polygrad env`: what a report of a fault should say about the machine, to be pasted."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .. import __version__, settings
from ..errors import PolygradError, pass_on, told
from ..hooks import installed as hooks
from . import devices, dists
from .command import Result
from .table import plain

BESIDE = ("numpy", "llvmlite", "pluggy")


def report() -> Result:
    data: dict[str, str] = {
        "polygrad-core": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "processor": platform.machine(),
        "executable": sys.executable,
    }
    data |= {
        f"package {d.name}": " ".join(filter(None, (d.version, d.origin))) for d in dists.ours()
    }
    data |= {f"package {name}": _version(name) for name in BESIDE}
    for row in devices.report(verbose=False).data["devices"]:
        star = " (default)" if row["default"] else ""
        parts = (row["state"] + star, row["arch"], row["reason"])
        data[f"device {row['name']}"] = "; ".join(filter(None, parts))
    data |= {n: str(settings.get(n)) for n in settings.TABLE if settings.is_set(n)}
    for record, lines, error in hooks.outcomes("polygrad_report"):
        data |= {f"{record.name} {name}": text for name, text in _theirs(lines, error).items()}
    return Result(data, "\n".join(plain(f"{name}: {value}") for name, value in data.items()))


def _theirs(lines: Any, error: PolygradError | None) -> dict[str, str]:
    """The lines of a plugin; what is wrong with them is one, for the report goes out anyway."""
    try:
        if error is not None:
            raise error
        return {str(name): str(value) for name, value in dict(lines or {}).items()}
    except BaseException as another:  # noqa: BLE001 - it is a stranger's code
        pass_on(another)
        return {"failed": told(another)}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
