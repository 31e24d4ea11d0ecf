"""Files: the canonical ZIP, safetensors, strict JSON, atomic writing, limits of reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .archive import Archive as Archive
    from .archive import ArchiveWriter as ArchiveWriter
    from .atomic import atomic as atomic
    from .download import fetch as fetch
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
    "fetch": "download",
    "Limits": "limits",
    "SafetensorsFile": "safetensors",
    "TensorInfo": "safetensors",
    "TensorSpec": "safetensors",
    "write_safetensors": "safetensors",
    "FileSource": "source",
}
__all__ = sorted(_NAMES)
__getattr__ = lazily(__name__, _NAMES)
