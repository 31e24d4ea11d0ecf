"""What turns kernels into code, as the keys of the disk cache: another compiler, another key.

Two things are kept on disk. Which programs some kernels become is decided by the compiler's floors
(`ROOMS`), by the device's package and by its Target; what object a text becomes, by that package,
its toolchain and the machine. Files count by what is in them, not by their time: installers give
files whatever time they like, and an edit may leave a file as long as it was. Reading them takes a
millisecond for each process.

A kernel's own name is a hash of the kernel, so what stands above the compiler's floors (scheduling,
gradients, plugins that rewrite kernels) is in the key by what it makes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..contract import Source
from ..files.diskcache import log
from ..plugin import Device
from ..target import Target

# All that `codegen` imports, what writes and reads the entries, and what backends use of that.
ROOMS = (
    "codegen", "uop", "arguments.py", "contract.py", "dtype.py", "errors.py", "float_layout.py",
    "plugin.py", "settings.py", "target.py", "engine/keys.py", "engine/kernels.py",
    "engine/stored.py", "files/diskcache.py",
)  # fmt: skip


def known(device: Device) -> bool:
    """Whether the files that decide a device's code can be read: not those of a class that somebody
    typed into an interpreter."""
    return bool(_core() and _backend(_packages(device)))


def of_kernels(what: str, device: Device, target: Target, names: Sequence[str]) -> bytes:
    """The hash of kernels' names and of all that turns a kernel into code for this target."""
    return _key(what, _core(), _made_by(device), described(target), names)


def of_source(device: Device, source: Source) -> bytes:
    """The hash of a text and of all that turns it into object code."""
    code = source.code
    text = hashlib.sha256(code if isinstance(code, bytes) else code.encode()).hexdigest()
    return _key("object", "", _made_by(device), device.target.arch, [text])


def described(target: Target) -> str:
    """The same text in every process."""
    return repr([(f.name, _plain(getattr(target, f.name))) for f in dataclasses.fields(target)])


def _plain(value: Any) -> Any:
    """`value` with unordered parts in order: the same text in every process."""
    if isinstance(value, Mapping):
        return sorted((repr(k), _plain(v)) for k, v in value.items())
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


def _key(what: str, core: str, backend: Sequence[str], machine: str, parts: Sequence[str]) -> bytes:
    digest = hashlib.sha256()
    for part in (what, core, *backend, machine, *parts):
        digest.update(part.encode() + b"\0")
    return digest.digest()


def _made_by(device: Device) -> tuple[str, str, str]:
    return _backend(_packages(device)), device.renderer.key, device.compiler.key


# ---- files


@lru_cache(maxsize=1)
def _core() -> str:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return contents([os.path.join(root, room) for room in ROOMS])


@lru_cache(maxsize=8)
def _backend(packages: tuple[str, ...]) -> str:
    places = [_place(name) for name in packages]
    return contents(places) if all(places) else ""


def _packages(device: Device) -> tuple[str, ...]:
    """The packages of the classes that make a device's code, those they derive from among them."""
    makers = (device, device.renderer, device.compiler)
    modules = {kind.__module__ for maker in makers for kind in type(maker).__mro__}
    found = {_owner(module) for module in modules}
    return tuple(sorted(found - {__name__.partition(".")[0]} - sys.stdlib_module_names))


def _owner(module: str) -> str:
    """The outermost package around a module that has a file: a namespace has none."""
    parts = module.split(".")
    names = [".".join(parts[: i + 1]) for i in range(len(parts))]
    return next((name for name in names if _file(name)), module)


def _file(module: str) -> str:
    return getattr(sys.modules.get(module), "__file__", None) or ""


def _place(module: str) -> str:
    """The folder of a package, the file of a module; an empty string where there is neither."""
    file = _file(module)
    return os.path.dirname(file) if hasattr(sys.modules.get(module), "__path__") else file


def contents(places: Iterable[str]) -> str:
    """A hash of all files below `places`; an empty string if one of those cannot be read."""
    digest = hashlib.sha256()
    try:
        for place in dict.fromkeys(map(_existing, places)):
            for path in sorted(_files(place)):
                with open(path, "rb", buffering=0) as file:
                    data = file.read()
                name = os.path.basename(place) + path[len(place) :]
                digest.update(f"{name} {len(data)}\0".encode() + data)
    except OSError as error:
        log.info("kernels are not kept on disk: %s", error)
        return ""
    return digest.hexdigest()


def _existing(path: str) -> str:
    """`path`, or the file that it leads into, such as a ZIP that modules are imported from."""
    here = path
    while not os.path.exists(here) and here != os.path.dirname(here):
        here = os.path.dirname(here)
    if here != path and not os.path.isfile(here):
        raise FileNotFoundError(f"there is no {path}")
    return here


def _files(place: str) -> Iterator[str]:
    """`place`, or every file below it but what Python itself keeps there."""
    if os.path.isfile(place):
        yield place
    for folder, inner, names in os.walk(place):
        inner[:] = [name for name in inner if name != "__pycache__"]
        yield from (os.path.join(folder, name) for name in names)
