"""`polygrad new-backend NAME`: a package with a device that works, to be turned into another.

The template is a real package, `templates/backend`, whose device is called `newdevice`; writing it
out is copying with that name exchanged.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from pathlib import Path

from .. import registry
from ..errors import FileError, UnknownName
from . import folders
from .command import Result

TEMPLATE = Path(__file__).with_name("templates") / "backend"
SUFFIXES = (".py", ".toml", ".md", ".typed")


def report(name: str, folder: str | None) -> Result:
    """Write the package of the device `name` into `folder`, a new one."""
    _check_name(name)
    root = Path(folder or f"polygrad-backend-{name.replace('_', '-')}")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise FileError(f"{root} exists already. Give another place with --dir.")
    files = dict(_files(name))
    for path, text in files.items():
        folders.make((root / path).parent, "--dir")
        (root / path).write_text(text, encoding="utf-8")
    data = {"device": name, "folder": str(root), "files": sorted(files)}
    return Result(data, "\n".join([f"wrote {len(files)} files to {root}", "", *_next(name, root)]))


def _check_name(name: str) -> None:
    if not registry.is_name(name) or keyword.iskeyword(name):
        raise UnknownName(
            f"{name!r} cannot be a device's name: {registry.NAMES}, and no keyword of Python."
        )
    owner = registry.OWNERS.get((registry.DEVICES, name))
    if owner is not None:
        raise UnknownName(f"the name {name!r} belongs to {owner}. Choose another.")


def _files(name: str) -> Iterator[tuple[str, str]]:
    """Path and content of every file of the package."""
    title = "".join(part.capitalize() for part in name.split("_"))
    dist = name.replace("_", "-")
    for path in sorted(TEMPLATE.rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        text = text.replace("polygrad-backend-newdevice", f"polygrad-backend-{dist}")
        text = re.sub(r"\bNew(?=Device|Compiler|Renderer)", title, text)
        text = text.replace("newdevice", name)
        yield path.relative_to(TEMPLATE).as_posix().replace("newdevice", name), text


def _next(name: str, root: Path) -> list[str]:
    return [
        "Next:",
        f'  pip install -e "{root}[test]"',
        f"  polygrad conformance {name}",
        f"  pytest {root}",
        f"then make it yours, file by file: {root / 'README.md'} says in which order.",
    ]
