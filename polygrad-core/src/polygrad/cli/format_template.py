"""The files that `polygrad new-format` writes: path -> text, both with `@NAME@` to be filled in."""

from __future__ import annotations

PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "@PROJECT@"
version = "0.1.0"
description = "The file format @NAME@ for polygrad"
readme = "README.md"
requires-python = ">=3.10"
# No upper bound: `api` in plugin.py is what keeps a package from a core that is too old for it.
dependencies = ["polygrad-core>=@CORE@"]
classifiers = ["Typing :: Typed"]

[project.optional-dependencies]
test = ["pytest>=8"]

# This line is how polygrad finds the package. The name is the descriptor's `name`.
[project.entry-points."polygrad.formats"]
@NAME@ = "@PACKAGE@.plugin:plugin"

[tool.hatch.build.targets.wheel]
packages = ["src/@PACKAGE@"]
"""

README = """\
# @PROJECT@

Reads files of the format @NAME@ into polygrad.

```python
from polygrad import formats

weights = formats.read("weights.@NAME@")
```

Written by `polygrad new-format @NAME@`. Start with `src/@PACKAGE@/reader.py`: replace what is there
by your format, one check at a time, and keep the tests in `tests/` passing.
"""

INIT = '''\
"""The file format @NAME@ for polygrad."""
'''

PLUGIN = '''\
"""The descriptor: what polygrad reads before it knows whether a file is ours.

It is imported whenever any file is opened, so it imports nothing but polygrad.plugin. Reader and
writer are named by text and imported only when a file of this format is met.
"""

from polygrad.plugin import FormatPlugin

plugin = FormatPlugin(
    name="@NAME@",  # as the entry point in pyproject.toml
    api=(1, 0),  # the least plugin API that this package needs
    reader="@PACKAGE@.reader:read",
    writer="@PACKAGE@.writer:write",
    suffixes=(".@NAME@",),  # asked where no magic fits
    magic=((0, b"@MAGIC@"),),  # (offset, bytes); all of them must match
    summary="named float32 arrays, a start",
)
'''

READER = '''\
"""Reads a file: a magic word, a count, then for each array its name, its length, its numbers.

    magic        bytes    @MAGIC@
    count        uint32   of arrays; every number is little-endian
    name length  uint32   then the name in UTF-8
    elements     uint64   then as many float32

A file is a stranger's. Three rules keep it from doing harm, and the tests hold each of them:

1. Every length is compared with the size of the file *before* it is used: `file.read` raises
   FormatError for a range that is not there, and Python's integers do not overflow.
2. Nothing in a file names code: no pickle, no eval, no import.
3. Whatever is wrong is a FormatError with the file's name and the place; `file.fail` makes one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from polygrad import Tensor
from polygrad.files import FileSource

MAGIC = b"@MAGIC@"
MOST = 100_000  # arrays of one file; a limit of our own, for a count is cheap to write


def read(file: FileSource, *, options: Mapping[str, Any]) -> dict[str, Tensor]:
    """The arrays of `file` by name. `options` are what the caller gave to `formats.read`."""
    if bytes(file.read(0, len(MAGIC))) != MAGIC:
        file.fail(0, "does not start with @MAGIC@: no @NAME@ file")
    at = len(MAGIC)
    (count,) = struct.unpack("<I", file.read(at, 4))
    if count > MOST:
        file.fail(at, f"announces {count} arrays; {MOST} are the most")
    at += 4
    found: dict[str, Tensor] = {}
    for _ in range(count):
        name, tensor, at = _array(file, at)
        if name in found:
            file.fail(at, f"has two arrays named {name!r}")
        found[name] = tensor
    if at != file.size:
        file.fail(at, f"has {file.size - at} bytes after its last array")
    return found


def _array(file: FileSource, at: int) -> tuple[str, Tensor, int]:
    """(name, tensor, where the next one starts)."""
    (length,) = struct.unpack("<I", file.read(at, 4))
    text = bytes(file.read(at + 4, length))  # refused if the file is shorter
    try:
        name = text.decode()
    except UnicodeDecodeError:
        file.fail(at + 4, "has a name that is not UTF-8")
    at += 4 + length
    (elements,) = struct.unpack("<Q", file.read(at, 8))
    data = file.read(at + 8, 4 * elements)
    tensor = Tensor(list(data.cast("f"))) if elements else Tensor.zeros(0)
    return name, tensor, at + 8 + 4 * elements
'''

WRITER = '''\
"""Writes what `reader` reads. Leave it out, and `writer` in the descriptor, if you only read."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from polygrad import Tensor
from polygrad.files import atomic

from .reader import MAGIC


def write(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Write one-dimensional float32 arrays; after a crash there is the old file or the new one."""
    with atomic(path) as file:
        file.write(MAGIC + struct.pack("<I", len(tensors)))
        for name, tensor in tensors.items():
            numbers = tensor.tolist()
            text = name.encode()
            file.write(struct.pack("<I", len(text)) + text)
            file.write(struct.pack(f"<Q{len(numbers)}f", len(numbers), *numbers))
'''

TESTS = '''\
"""What every reader should hold to; add your own files and numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from polygrad import Tensor, formats
from polygrad.errors import FormatError

from @PACKAGE@.writer import write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights.@NAME@"
    write({"w": Tensor([1.0, -2.5, 3.0]), "empty": Tensor.zeros(0)}, path)
    return path


def test_the_package_is_found() -> None:
    assert "@NAME@" in formats.names()


def test_a_file_is_known_by_its_first_bytes(file: Path) -> None:
    renamed = file.rename(file.with_suffix(".bin"))
    assert formats.find(renamed) == "@NAME@"


def test_what_was_written_is_read(file: Path) -> None:
    found = formats.read(file)
    assert {name: t.tolist() for name, t in found.items()} == {"w": [1.0, -2.5, 3.0], "empty": []}


def test_a_file_that_was_cut_short_is_refused_wherever_it_was_cut(file: Path) -> None:
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            formats.read(file, format="@NAME@")


def test_a_count_that_no_file_could_have_is_refused(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    start = len(b"@MAGIC@")
    whole[start : start + 4] = b"\\xff" * 4
    file.write_bytes(whole)
    with pytest.raises(FormatError, match="announces 4294967295 arrays"):
        formats.read(file)
'''

FILES: dict[str, str] = {
    "pyproject.toml": PYPROJECT,
    "README.md": README,
    "src/@PACKAGE@/__init__.py": INIT,
    "src/@PACKAGE@/plugin.py": PLUGIN,
    "src/@PACKAGE@/reader.py": READER,
    "src/@PACKAGE@/writer.py": WRITER,
    "src/@PACKAGE@/py.typed": "",
    "tests/test_@NAME@.py": TESTS,
}
