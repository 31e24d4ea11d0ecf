"""Files: the canonical ZIP, safetensors, strict JSON, atomic writing, limits of reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .archive import Archive as Archive
    from .archive import ArchiveWriter as ArchiveWriter
    from .atomic import atomic as atomic
    from .limits import Limits as Limits
    from .safetensors import SafetensorsFile as SafetensorsFile
    from .safetensors import TensorInfo as TensorInfo
    from .safetensors import TensorSpec as TensorSpec
    from .safetensors import write_safetensors as write_safetensors
    from .source import FileSource as FileSource

_NAMES = {
    "Archive": "archive",
    "ArchiveWriter": "archive",
    "atomic": "atomic",
    "Limits": "limits",
    "SafetensorsFile": "safetensors",
    "TensorInfo": "safetensors",
    "TensorSpec": "safetensors",
    "write_safetensors": "safetensors",
    "FileSource": "source",
}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    # NOTE: importing the module `atomic` binds that name here; the function takes its place.
    found = getattr(import_module(f".{_NAMES[name]}", __name__), name)
    globals()[name] = found
    return found
