"""`polygrad env`: what a report of a fault should say about the machine, to be pasted."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from .. import __version__, settings
from ..hooks import installed as hooks
from . import devices, dists
from .command import Result

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
    for record, lines in hooks.answers("polygrad_report"):
        data |= {f"{record.name} {name}": str(value) for name, value in lines.items()}
    return Result(data, "\n".join(f"{name}: {value}" for name, value in data.items()))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
