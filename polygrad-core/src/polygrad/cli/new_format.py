"""`polygrad new-format NAME`: a package that adds a file format, as a start.

What it writes builds, installs and is found; its own tests pass at once. The format is a simple one
(a magic word, then named arrays of float32), to be replaced piece by piece. The files are made from
the templates in `format_template`.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
from pathlib import Path

from .. import __version__, registry
from ..errors import ArgumentError, FileError, shown
from ..files import atomic
from . import folders, format_template
from .command import Result


def report(name: str, folder: str) -> Result:
    _check(name)
    project = f"polygrad-format-{name.replace('_', '-')}"
    root = Path(folder) / project
    if root.exists():
        raise FileError(f"{root} is there already; nothing was written. Choose another --dir.")
    values = {
        "NAME": name,
        "PROJECT": project,
        "PACKAGE": f"polygrad_format_{name}",
        "TITLE": name.replace("_", " ").title(),
        "MAGIC": name.upper()[:8].ljust(4, "_"),
        "CORE": ".".join(__version__.split(".")[:2]),
    }
    written = [
        _write(root / _filled(path, values), _filled(text, values))
        for path, text in format_template.FILES.items()
    ]
    steps = (
        f"cd {root}",
        f"{os.path.basename(sys.executable)} -m pip install -e '.[test]'",
        "polygrad formats",
        "pytest",
    )
    text = "\n".join((f"wrote {len(written)} files into {root}. Next:", *(f"  {s}" for s in steps)))
    return Result({"folder": str(root), "files": written, "next": list(steps)}, text)


def _write(target: Path, text: str) -> str:
    folders.make(target.parent, "--dir")
    with atomic(target) as file:
        file.write(text.encode())
    return str(target)


def _check(name: str) -> None:
    if not registry.is_name(name) or keyword.iskeyword(name):
        raise ArgumentError(
            f"{shown(name)} cannot be a format's name: {registry.NAMES}, and no keyword of Python."
        )
    owner = registry.OWNERS.get((registry.FORMATS, name))
    if owner is not None:
        raise ArgumentError(f"the format {name!r} belongs to {owner}; choose another name.")


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], text)
