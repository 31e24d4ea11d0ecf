"""Packages that do what no package should, as wheels that pip installs.

Each is one module with a device. `PACKAGES` says what the module does; `wheel` writes it, metadata
and all, so nothing has to be built.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

MACHINE = """
from polygrad.device.interp import InterpDevice as Machine
from polygrad.plugin import DevicePlugin, Probe
def probe(): return Probe(True, count=1)
plugin = DevicePlugin(name="{name}", api=(1, 0), device="{module}:Machine", probe="{module}:probe")
"""


@dataclass(frozen=True)
class Package:
    """`dist` offers the device `name`; `before` and `after` stand around a device that works."""

    dist: str
    name: str
    before: str = ""
    after: str = ""
    version: str = "1.2.0"
    metadata: bytes = b""  # more lines of METADATA
    group: str = "polygrad.devices"

    @property
    def module(self) -> str:
        return self.dist.replace("-", "_")

    @property
    def text(self) -> str:
        return f"{self.before}{MACHINE.format(name=self.name, module=self.module)}{self.after}"


PACKAGES = {
    "broken import": Package("broken-npu", "broken", "import libbroken\n"),
    "SystemExit at import": Package("exit-npu", "exits", "raise SystemExit(3)\n"),
    "native crash in probe": Package(
        "crash-npu", "crash", after="def probe():\n    import ctypes\n    ctypes.string_at(0)\n"
    ),
    "hang in probe": Package(
        "hang-npu", "hang", after="def probe():\n    import time\n    time.sleep(3600)\n"
    ),
    "wrong type": Package("type-npu", "typed", after="import sys\nplugin = sys\n"),
    "wrong name": Package("name-npu", "named", after="plugin = DevicePlugin(name='other', "
                          "api=(1, 0), device='a:b', probe='a:b')\n"),
    "API 9.0": Package("future-npu", "future", after="plugin = DevicePlugin(name='future', "
                       "api=(9, 0), device='a:b', probe='a:b')\n"),
    "duplicate": Package("dup-one", "dup"),
    "its duplicate": Package("dup-two", "dup"),
    "reserved name": Package("evil-pkg", "cuda", "raise SystemExit('I ran')\n", version="0.1"),
    "the name of one of ours": Package("evil-two", "cpu", "raise SystemExit('I ran')\n"),
    "an exception of its own making": Package(
        "base-npu", "based", "class Halt(BaseException): pass\nraise Halt('now')\n"
    ),
    "an error without a text": Package(
        "mute-npu", "mute", "class Mute(Exception):\n    def __str__(self): return self.nothing\n"
        "raise Mute\n"
    ),
    "a field of another type": Package(
        "field-npu", "field", after="plugin = DevicePlugin(name='field', api=(1, 0), device=5, "
        "probe='a:b')\n"
    ),
    "a name that nobody can ask for": Package("upper-npu", "Upper"),
    "a word in place of a name": Package("auto-npu", "auto", "raise SystemExit('I ran')\n"),
    "an alias that is ours": Package(
        "alias-npu", "aliased", after="plugin = DevicePlugin(name='aliased', api=(1, 0), "
        "device='alias_npu:Machine', probe='alias_npu:probe', aliases=('webgpu',))\n"
    ),
    "prints on import": Package("loud-npu", "loud", "print('BUY ACME NPUS')\n"),
    "non-ASCII metadata": Package(
        "umlaut-npu", "umlaut", metadata="Author: Größe 名前\n".encode()
    ),
    "metadata that are not UTF-8": Package(
        "latin-npu", "latin", metadata="Author: Größe\n".encode("latin-1")
    ),
    "entry points that are not UTF-8": Package("garbled-npu", "garbled"),
    "metadata twin": Package("twin-npu", "twin"),
    "hooks that fail": Package(
        "hook-npu", "hooked", after="from polygrad.hooks import hookimpl\n@hookimpl\n"
        "def polygrad_program_ran(event): raise OSError('observed')\n"
        "plugin = __import__('sys').modules[__name__]\n", group="polygrad.plugins"
    ),
}  # fmt: skip


def wheel(package: Package, folder: Path) -> Path:
    """A wheel of one module, with the hashes that pip checks."""
    info = f"{package.module}-{package.version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {package.dist}\nVersion: {package.version}\n"
    files = {
        f"{package.module}.py": package.text.encode(),
        f"{info}/METADATA": head.encode() + package.metadata,
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
        f"{info}/entry_points.txt": (
            f"[{package.group}]\n{package.name} = {package.module}:plugin\n".encode()
        ),
    }
    record = "".join(f"{name},sha256={_hash(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"{package.module}-{package.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def garble(package: Package, site: Path) -> None:
    """Spoil the file that names its plugins."""
    (where,) = site.glob(f"{package.module}-*.dist-info/entry_points.txt")
    where.write_bytes(b"[polygrad.devices]\n\xff\xfe = no equals sign\nalone\n")


def twin_of(package: Package, site: Path) -> None:
    """The same distribution a second time: an .egg-info beside the .dist-info."""
    twin = site / f"{package.module}.egg-info"
    twin.mkdir()
    (twin / "PKG-INFO").write_text(
        f"Metadata-Version: 2.1\nName: {package.dist}\nVersion: {package.version}\n"
    )
    (twin / "entry_points.txt").write_text(
        f"[{package.group}]\n{package.name} = {package.module}:plugin\n"
    )
