"""The installed distributions that have to do with polygrad, as their metadata tell of them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackagePath, distributions

from .. import metadata, registry


@dataclass(frozen=True, slots=True)
class Dist:
    """One distribution. `origin` is where it was installed from, if that was not an index."""

    name: str
    version: str
    origin: str
    path: str
    twin: bool  # another one of this name comes before it on sys.path
    changed: tuple[str, ...]  # files whose content is not what was installed


def ours() -> list[Dist]:
    """polygrad, its first-party packages, and whoever has an entry point in one of our groups."""
    found: list[Dist] = []
    seen: set[str] = set()
    for each in distributions():
        name, version = metadata.Installed.of(each).label()
        if not name or not (_is_ours(name) or _is_plugin(each)):
            continue
        key = name.lower().replace("_", "-")
        found.append(
            Dist(
                name,
                version,
                _origin(each),
                str(getattr(each, "_path", "")),
                key in seen,
                tuple(_changed(each)),
            )
        )
        seen.add(key)
    return sorted(found, key=lambda d: (d.name, d.twin))


def _is_ours(name: str) -> bool:
    return name == "polygrad" or name == registry.CORE or name in registry.OWNERS.values()


def _is_plugin(each: Distribution) -> bool:
    return bool(metadata.entry_points_of(metadata.Installed.of(each), registry.GROUPS))


def _origin(each: Distribution) -> str:
    text = each.read_text("direct_url.json")
    if not text:
        return ""
    try:
        known = json.loads(text)
        editable = " (editable)" if known.get("dir_info", {}).get("editable") else ""
        return f"{known['url']}{editable}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "direct_url.json cannot be read"


def _changed(each: Distribution) -> Iterator[str]:
    """Files of RECORD that are missing or have other bytes."""
    for path in each.files or ():
        if path.hash is not None and path.hash.mode == "sha256":
            if _digest(path) != path.hash.value:
                yield str(path)


def _digest(path: PackagePath) -> str:
    try:
        content = path.read_binary()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
